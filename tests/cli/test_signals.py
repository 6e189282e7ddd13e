# SPDX-License-Identifier: Apache-2.0
"""Signals: every subcommand dies from them, leaves no temporary file and restores the terminal."""
import fcntl
import filecmp
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import NAMED_ONLY, SANITIZED, CliTest, Graph, main

DEADLINE_S = 120   # a guard against hangs, not a measurement
WIPE = b"\r\033[K"

# A drive that stops answering: reads of the file $STALL_NAME from byte $STALL_FROM on never return,
# except for the first $STALL_AFTER. The file $STALL_MARK is created when a read blocks.
STALLING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static _Atomic long reads;
static void stall(int fd, off64_t at)
{
        char link[64], path[4096];
        ssize_t length;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        length = readlink(link, path, sizeof(path) - 1);
        path[length > 0 ? length : 0] = 0;
        if (!strstr(path, getenv("STALL_NAME")) || at < atol(getenv("STALL_FROM")))
                return;
        if (atomic_fetch_add(&reads, 1) < atol(getenv("STALL_AFTER")))
                return;
        close(open(getenv("STALL_MARK"), O_CREAT | O_WRONLY, 0666));
        for (;;)
                pause();
}
#define PREAD(name)                                                             \
        ssize_t name(int fd, void *to, size_t bytes, off64_t at)                \
        {                                                                       \
                ssize_t (*real)(int, void *, size_t, off64_t);                  \
                *(void **)&real = dlsym(RTLD_NEXT, #name);                      \
                stall(fd, at);                                                  \
                return real(fd, to, bytes, at);                                 \
        }
PREAD(pread)
PREAD(pread64)
"""


class Signals(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=4000, row_bytes=1000)
        self.staged = self.stage(self.graph, fanout="3,2", batch=50, score="degree")
        self.mark = self.path("mark")

    def until(self, process, what, happened):
        """Wait until `happened` returns something true; the process must live until then."""
        began = time.monotonic()
        while not (found := happened()):
            if process.poll() == 77:
                self.skipTest("%s: did not happen on this machine" % what)
            if process.poll() is not None:
                self.fail("%s: the process ended before, with %d\n%s" %
                          (what, process.returncode, process.stderr and process.stderr.read()))
            self.assertLess(time.monotonic() - began, DEADLINE_S, what)
            time.sleep(0.005)
        return found

    def dies(self, process, number):
        """Wait until the process dies from this signal; return its output."""
        output = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, -number, output)
        return output

    def shim(self, source):
        library = self.path("shim.so")
        subprocess.run([os.environ.get("RUNG_CC", "cc"), "-shared", "-fPIC", "-x", "c", "-", "-o",
                        library, "-ldl"], input=source, text=True, check=True)
        self.variables["LD_PRELOAD"] = library

    def stalled(self, name, *args, begin=0, after=0, start=None):
        """Start the command on a drive that stops answering; return when a read is blocked."""
        self.shim(STALLING)
        self.variables.update(STALL_NAME=name, STALL_FROM=str(begin), STALL_AFTER=str(after),
                              STALL_MARK=self.mark)
        if os.path.exists(self.mark):
            os.unlink(self.mark)
        process = (start or self.start)(*args)
        self.until(process, "a blocked read", lambda: os.path.exists(self.mark))
        del self.variables["LD_PRELOAD"]
        return process

    def with_output(self, *args):
        """Start the command; return when its output file is open under a temporary name."""
        process = self.start(*args)

        def is_open():
            targets = []
            for fd in os.listdir("/proc/%d/fd" % process.pid):
                try:
                    targets.append(os.readlink("/proc/%d/fd/%s" % (process.pid, fd)))
                except FileNotFoundError:
                    pass
            return [target for target in targets
                    if target.startswith(self.folder + "/#") or ".partial" in target]
        self.until(process, "its output file", is_open)
        return process

    def long_score(self):
        return ["score", "--graph", self.graph.graph, "--vertices", 4000, "--fanout", "3,2",
                "--score", "presample", "--epochs", 1000000, "--batches", 100000000, "--batch", 1,
                "--out", self.path("score.npy")]

    def on_a_terminal(self, *args, stdout=subprocess.PIPE):
        """Start the command with a terminal as stderr; return the process and the terminal."""
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        process = subprocess.Popen([self.command, *map(str, args)], stdin=subprocess.DEVNULL,
                                   stdout=stdout, stderr=theirs, text=True, env=self.environment())
        self.addCleanup(self.end, process)
        os.close(theirs)
        return process, ours

    def with_a_bar(self, *args, stdout=subprocess.PIPE):
        """Start the command with a terminal as stderr; wait until a bar is drawn.

        Return the process, the terminal and the terminal's content.
        """
        process, terminal = self.on_a_terminal(*args, stdout=stdout)
        return process, terminal, self.read_terminal(
            terminal, lambda shown: b" left" in shown and b"[" in shown)

    def read_terminal(self, terminal, enough):
        shown, began = b"", time.monotonic()
        while not enough(shown):
            self.assertLess(time.monotonic() - began, DEADLINE_S, shown)
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                chunk = os.read(terminal, 65536)
            except OSError:   # the other end is closed
                break
            if not chunk:
                break
            shown += chunk
        return shown

    def wipes_its_bar(self, terminal, shown, name, number):
        shown += self.read_terminal(terminal, lambda _: False)
        end = WIPE + b"rung %s: interrupted by %s\r\n" % (name, number.name.encode())
        self.assertTrue(shown.endswith(end), shown[-200:])


@unittest.skipIf(SANITIZED, "the sanitizer must be the first library loaded")
class Stalled(Signals):
    """The hardest moment: a read that never returns, in any thread."""

    def test_commands_that_read_a_dataset(self):
        for number, name, *args in (
                (signal.SIGINT, "features.000.npy", "info", self.staged),
                (signal.SIGTERM, "features.000.npy", "verify", self.staged),
                (signal.SIGINT, "graph_indices.npy", "plan", self.staged),
                (signal.SIGHUP, "graph_indices.npy", "trace", self.staged, "--svg",
                 self.path("t.svg"), "--out", self.path("t.npy")),
                (signal.SIGINT, "features.000.npy", "bench", self.staged, "--host", "max"),
                (signal.SIGINT, "graph.npy", "score", "--graph", self.graph.graph, "--score",
                 "degree", "--out", self.path("s.npy"))):
            with self.subTest(args[0]):
                process = self.stalled(name, *args)
                before = sorted(os.listdir(self.folder))
                process.send_signal(number)
                self.assertEqual(self.dies(process, number),
                                 ("", "rung %s: interrupted by %s\n" % (args[0], number.name)))
                self.assertEqual(sorted(os.listdir(self.folder)), before)

    @staticmethod
    def kill_group(group):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def test_a_shell_loop_stops(self):
        self.shim(STALLING)
        env = dict(self.environment(), STALL_NAME="features.000.npy", STALL_FROM="0",
                   STALL_AFTER="0", STALL_MARK=self.mark)
        loop = "for i in 1 2 3; do echo pass $i; \"$0\" verify \"$1\"; done"
        shell = subprocess.Popen(["bash", "-c", loop, self.command, self.staged], env=env,
                                 text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 start_new_session=True)
        self.addCleanup(self.end, shell)
        self.addCleanup(self.kill_group, shell.pid)
        self.until(shell, "a blocked read", lambda: os.path.exists(self.mark))
        os.killpg(shell.pid, signal.SIGINT)
        self.assertEqual(self.dies(shell, signal.SIGINT)[0], "pass 1\n")

    def test_stage_prints_how_to_resume(self):
        out = self.path("out")
        options = ["stage", *self.graph.options(fanout="3,2", batch=50, score="degree"), "--out",
                   out, "--memory", "16MiB", "--row-order", "passes"]
        process = self.stalled("features.npy", *options, begin=1 << 20)   # after ranking
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.dies(process, signal.SIGINT)[1],
                         "rung stage: interrupted by SIGINT\n"
                         "rung stage: finished work is in %s.partial; to continue, "
                         "run the same command with --resume\n" % out)
        self.assertIs(self.json_of(*options, "--resume")["resumed"], True)
        names = sorted(os.listdir(self.staged))
        self.assertEqual(sorted(os.listdir(out)), names)
        self.assertEqual(filecmp.cmpfiles(out, self.staged, names, shallow=False)[1:], ([], []))
        self.assertFalse(os.path.exists(out + ".partial"))

    def test_bench_prints_results_although_reads_are_blocked(self):
        for more in ([], ["--json"]):
            process = self.stalled("features.000.npy", "bench", self.staged, "--engine", "pread",
                                   "--host", "10%", "--cache", 0, "--ids", "uniform", "--rows",
                                   100000, "--batch", 1, "--warmup", 0, *more, after=1000)
            process.send_signal(signal.SIGINT)
            output, message = self.dies(process, signal.SIGINT)
            self.assertEqual(message, "rung bench: interrupted by SIGINT\n")
            if more:
                found = json.loads(output)
                self.assertEqual(found["interrupted"], "SIGINT")
                self.assertEqual(found["rows"], found["requests"])
                self.assertTrue(0 < found["rows"] < 100000, found["rows"])
                self.assertGreater(found["latency_us"]["max"], 0)
            else:
                self.assertRegex(output, r"^interrupted by SIGINT: [1-9]\d* of 100000 requests ")
                self.assertIn(" rows/s", output)

    def test_an_interrupted_long_trace_has_results(self):
        """Gathering begins while most of the trace is not sampled yet."""
        bench = ["bench", self.staged, "--engine", "pread", "--host", "10%", "--cache", 0,
                 "--rows", 10 ** 12]
        for more in (["--warmup", 0], ["--warmup", 10 ** 11], ["--warmup", 0, "--json"]):
            process = self.stalled("features.000.npy", *bench, *more, after=3000)
            process.send_signal(signal.SIGINT)
            output, message = self.dies(process, signal.SIGINT)
            self.assertEqual(message, "rung bench: interrupted by SIGINT\n")
            if "--json" in more:
                found = json.loads(output)
                self.assertEqual(found["interrupted"], "SIGINT")
                self.assertTrue(0 < found["requests"] < found["rows"] < 10 ** 5, found["rows"])
            elif 10 ** 11 in more:
                self.assertEqual(output, "interrupted by SIGINT: 0 requests were complete, "
                                         "0 of 1000000000000 rows\n")
            else:
                self.assertRegex(output,
                                 r"^interrupted by SIGINT: [1-9]\d* requests were complete, "
                                 r"[1-9]\d* of 1000000000000 rows\n")
                self.assertIn(" rows/s", output)

    def test_the_bar_advances_while_reads_are_blocked(self):
        """No read completes and nothing is reported, and still the elapsed time is shown."""
        terminals = []

        def start(*args):
            process, terminal = self.on_a_terminal(*args)
            terminals.append(terminal)
            return process
        process = self.stalled("features.000.npy", "verify", self.staged, start=start)
        shown = self.read_terminal(
            terminals[0],
            lambda shown: len(set(re.findall(rb"%, (\d+) s, ", shown))) > 1)
        process.send_signal(signal.SIGINT)
        self.dies(process, signal.SIGINT)
        self.wipes_its_bar(terminals[0], shown, b"verify", signal.SIGINT)

    def test_temporary_files_are_removed(self):
        self.shim(NAMED_ONLY)
        before = sorted(os.listdir(self.folder))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            with self.subTest(number.name):
                process = self.with_output(*self.long_score())
                (partial,) = set(os.listdir(self.folder)) - set(before)
                self.assertRegex(partial, r"^score\.npy\.[0-9a-f]{8}\.partial$")
                process.send_signal(number)
                self.dies(process, number)
                self.assertEqual(sorted(os.listdir(self.folder)), before)


class Running(Signals):
    def test_commands_with_an_output_leave_no_file(self):
        trace = ["trace", self.staged, "--epochs", 1000000, "--out", self.path("counts.npy"),
                 "--svg", self.path("curves.svg")]
        numa = ["numa", "--quick", "--only", "touch", "--samples", 1000, "--seconds", 1, "--svg",
                self.path("heat.svg")]
        before = sorted(os.listdir(self.folder))
        for args in (self.long_score(), trace, numa):
            with self.subTest(args[0]):
                process = self.with_output(*args)
                process.send_signal(signal.SIGINT)
                self.assertEqual(self.dies(process, signal.SIGINT),
                                 ("", "rung %s: interrupted by SIGINT\n" % args[0]))
                self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_ignored_signals_stay_ignored(self):
        ignored = (signal.SIGINT, signal.SIGHUP)
        for number in ignored:   # inherited, as from nohup or `&`
            self.addCleanup(signal.signal, number, signal.signal(number, signal.SIG_IGN))
        process = self.with_output(*self.long_score())
        for number in ignored:
            process.send_signal(number)
        process.send_signal(signal.SIGTERM)
        self.dies(process, signal.SIGTERM)

    def test_the_bar_is_wiped(self):
        for args, number in ((self.long_score(), signal.SIGINT),
                             (["trace", self.staged, "--epochs", 1000000], signal.SIGTERM)):
            with self.subTest(args[0]):
                process, terminal, shown = self.with_a_bar(*args)
                process.send_signal(number)
                self.assertEqual(self.dies(process, number)[0], "")
                self.wipes_its_bar(terminal, shown, args[0].encode(), number)

    def test_train_has_printed_its_epochs(self):
        if not self.can_train():
            self.skipTest("rung train is not in this build")
        process = self.start("train", self.staged, "--epochs", 1000000, "--hidden", 4, "--quiet",
                             "--normalize", "l2")
        lines = [process.stdout.readline() for _ in range(3)]
        self.assertEqual([line.split()[0] for line in lines], ["epoch", "1", "2"], process.poll())
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.dies(process, signal.SIGINT)[1],
                         "rung train: interrupted by SIGINT\n")


class Bench(Signals):
    def long(self, *more):
        """Return options for eight million requests of one row, each compared."""
        return ["bench", self.staged, "--host", "50%", "--ids", "uniform", "--rows", 1 << 23,
                "--batch", 1, "--in-flight", 1, "--check", *more]

    def test_partial_results_are_printed(self):
        process, terminal, shown = self.with_a_bar(*self.long())
        process.send_signal(signal.SIGTERM)
        output = self.dies(process, signal.SIGTERM)[0]
        self.assertRegex(output, r"^interrupted by SIGTERM: [1-9]\d* of 8388608 requests were ")
        self.assertIn("checked: 0 wrong rows", output)
        self.wipes_its_bar(terminal, shown, b"bench", signal.SIGTERM)

    def test_a_second_signal_ends_it_at_once(self):
        """A full standard output blocks the results that the first signal asks for. The end of the
        grace period would kill the process by that signal, not by the second one."""
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        room = fcntl.fcntl(writing, 1031, 4096)   # F_SETPIPE_SZ
        process, _, _ = self.with_a_bar(*self.long("--json"), stdout=writing)
        os.close(writing)
        process.send_signal(signal.SIGINT)

        def is_full():
            return struct.unpack("i", fcntl.ioctl(reading, termios.FIONREAD, b"\0" * 4))[0] == room
        self.until(process, "results that fill the pipe", is_full)
        process.send_signal(signal.SIGTERM)
        self.dies(process, signal.SIGTERM)

    def test_a_finished_run_is_not_marked(self):
        self.assertIsNone(self.json_of("bench", self.staged, "--rows", 1000)["interrupted"])


if __name__ == "__main__":
    main()

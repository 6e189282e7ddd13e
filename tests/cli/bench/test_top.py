# SPDX-License-Identifier: Apache-2.0
"""rung top, status lines and SIGUSR1: what a running store shows to its user."""
import json
import os
import pty
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, Graph, main

DEADLINE_S = 120   # a guard against hangs, not a measurement
ENDLESS = 1 << 40   # rows of a run that the test ends
STATUS = (r"rung (bench|train): \S+( [kMGT])? rows/s(, \d+ % from memory)?; "
          r"reads \S+( [kMGT])?/s, \S+ ([KMGT]i)?B/s, \d+\.\d in flight; waits \d+ %\n")


class Watched(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=4000, row_bytes=1000)
        self.staged = self.stage(self.graph, fanout="3,2", batch=50, score="degree")
        if not os.access("/dev/shm", os.W_OK):
            self.skipTest("/dev/shm is not writable")
        self.runtime = tempfile.mkdtemp(prefix="rung-top-test-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.runtime, ignore_errors=True)
        self.variables["XDG_RUNTIME_DIR"] = self.runtime
        self.pages = os.path.join(self.runtime, "rung")

    def until(self, what, happened, *processes):
        """Wait until `happened` returns something true; the processes must live until then."""
        began = time.monotonic()
        while not (found := happened()):
            for process in processes:
                if process.poll() is not None:
                    self.fail("%s: a process ended with %d\n%s" %
                              (what, process.returncode, process.stderr.read()))
            self.assertLess(time.monotonic() - began, DEADLINE_S, what)
            time.sleep(0.01)
        return found

    def bench(self, *args):
        return self.start("bench", self.staged, "--ids", "uniform", "--rows", ENDLESS, "--quiet",
                          *args)

    def held(self, *args):
        return self.share(self.staged, self.path("run", "store"), "--rows", 1000, "--quiet",
                          *args)[0]

    def top(self, process, *args):
        """The JSON of the store of a process, which may not be open yet."""
        def seen():
            done = subprocess.run(
                [self.command, "top", str(process.pid), "--once", "--json", "--interval", "0.1",
                 *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                env=self.environment(), timeout=DEADLINE_S, check=False)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            stores = json.loads(done.stdout)["stores"] if done.returncode == 0 else []
            return [store for store in stores
                    if store["pid"] == process.pid and not store["lists"]]
        return self.until("a store", seen, process)[0]

    def listens(self, process):
        """Wait until the process has a handler for SIGUSR1."""
        def handled():
            with open("/proc/%d/status" % process.pid, encoding="ascii") as file:
                caught = int(re.search(r"SigCgt:\s*(\w+)", file.read()).group(1), 16)
            return caught >> (signal.SIGUSR1 - 1) & 1
        self.until("a handler", handled, process)


class Pages(Watched):
    def page(self, process):
        return os.path.join(self.pages, "%d-0" % process.pid)

    def test_a_page_lives_as_long_as_its_store(self):
        process = self.held()
        self.assertEqual(stat.S_IMODE(os.stat(self.pages).st_mode), 0o700)
        self.assertEqual(stat.S_IMODE(os.stat(self.page(process)).st_mode), 0o600)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S)
        self.assertEqual(os.listdir(self.pages), [])

    def test_top_removes_pages_of_killed_processes(self):
        process = self.held()
        process.kill()
        process.communicate(timeout=DEADLINE_S)
        self.assertTrue(os.path.exists(self.page(process)))
        self.fails("top", process.pid, code=1, says=["process %d" % process.pid, "run rung top"])
        self.assertFalse(os.path.exists(self.page(process)))

    def test_pages_can_be_switched_off(self):
        self.variables["RUNG_STATS_PAGE"] = "0"
        process = self.held()
        self.assertFalse(os.path.exists(self.pages))
        self.fails("top", process.pid, code=1, says="no open store")

    def test_a_store_opens_without_a_runtime_folder(self):
        with open(self.path("file"), "w", encoding="ascii"):
            pass
        for folder in ("/nowhere/at/all", self.path("file"), "relative", "", self.folder):
            with self.subTest(folder):
                self.variables["XDG_RUNTIME_DIR"] = folder
                self.json_of("bench", self.staged, "--rows", 1000)

    def test_files_that_are_not_pages_are_ignored(self):
        process = self.held()
        with open(self.page(process), "rb") as file:
            page = file.read()
        for name, content in (("%d-1" % process.pid, b"garbage" * 9999),
                              ("%d-2" % process.pid, b""),
                              ("%d-3" % process.pid, page[:-1]),
                              ("%d-4" % process.pid, page[:48] + b"\xff" * (len(page) - 48)),
                              ("notes", b"x"), ("1-1", page[:100])):
            with open(os.path.join(self.pages, name), "wb") as file:
                file.write(content)
        found = self.json_of("top", process.pid, "--once", "--interval", 0.1)
        self.assertEqual([store["number"] for store in found["stores"]], [0])


class Top(Watched):
    def test_a_held_store_is_idle(self):
        process = self.held("--host", "40%")
        store = self.top(process)
        self.assertEqual(store["dataset"], os.path.realpath(self.staged))
        self.assertTrue(store["command"].endswith("rung bench"), store)
        self.assertEqual(store["bottleneck"], "idle: no rows are requested")
        self.assertEqual((store["rows_per_s"], store["owner_pid"]), (0, None))
        self.assertIsNone(store["memory_share"])
        self.assertEqual(sum(tier["rows"] for tier in store["tiers"]), 4000)
        self.assertGreaterEqual(sum(tier["hits"] for tier in store["tiers"]), 1000)

    def test_attached_processes_are_listed(self):
        creator = self.held("--host", "40%")
        other = self.start("bench", "--attach", self.path("run", "store"), "--ids", "uniform",
                           "--rows", ENDLESS, "--quiet")
        self.assertEqual(self.top(other)["owner_pid"], creator.pid)
        self.assertEqual(self.top(creator)["attached_pids"], [other.pid])
        text = self.run_rung("top", creator.pid, "--once", "--interval", 0.1).stdout
        self.assertIn("\n  attached %d\n" % other.pid, text)
        self.assertIn("  attached to %d\n" % creator.pid, text)

    def test_output_in_a_pipe_is_text(self):
        store = self.bench("--host", "20%")
        self.top(store)
        process = self.start("top", store.pid, "--interval", 0.1)
        bar, text = r"(?m)^  nvme     [#.]{40} +\d+\.\d %$", ""
        # an interval in which no rows were served has no bar
        while text.count("rung top ") < 3 or not re.search(bar, text):
            line = process.stdout.readline()
            self.assertTrue(line, text)
            text += line
        store.kill()   # top ends with the process that it watches
        text += process.communicate(timeout=DEADLINE_S)[0]
        self.assertEqual(process.returncode, 0)
        self.assertNotIn("\033", text)
        self.assertLessEqual(max(map(len, text.replace(self.folder, "").split("\n"))), 100)

    def test_a_screen_ends_with_q(self):
        store = self.held()
        waits, begins = os.pipe()
        child, terminal = pty.fork()
        if child == 0:
            os.read(waits, 1)   # until the terminal's state is known
            os.execve(self.command, [self.command, "top", str(store.pid), "--interval", "0.1"],
                      dict(self.environment(), TERM="xterm"))
        self.addCleanup(os.close, terminal)
        before, text = termios.tcgetattr(terminal), b""
        os.write(begins, b"x")
        for end in (waits, begins):
            os.close(end)
        while text.count(b"\033[H") < 2:
            self.assertTrue(select.select([terminal], [], [], DEADLINE_S)[0])
            text += os.read(terminal, 4096)
        self.assertFalse(termios.tcgetattr(terminal)[3] & termios.ECHO)
        os.write(terminal, b"xq")
        while select.select([terminal], [], [], DEADLINE_S)[0]:
            try:
                if not os.read(terminal, 4096):
                    break
            except OSError:   # the other end is closed
                break
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(termios.tcgetattr(terminal)[3], before[3])

    def test_wrong_options_are_refused(self):
        for args, says in ((["x"], "PID: 'x'"), ([1, 2], "one PID"), (["--json"], "needs --once"),
                           (["--interval", "0"], "--interval: '0'"),
                           (["--once", "--json", "--openmetrics", "f"], "exclude each other")):
            with self.subTest(args):
                self.fails("top", *args, code=2, says=says)
        self.fails("top", "--once", "--openmetrics", self.path("no", "folder"), code=1,
                   says="no/folder cannot be written")


class Bottlenecks(Watched):
    def expect(self, process, bottleneck, *args, counts=("rows_per_s",)):
        """Wait for an interval with this bottleneck in which all `counts` have grown.

        On a busy machine an interval can have the bottleneck, but no rows and therefore no shares.
        """
        def seen():
            store = self.top(process, *args)
            grown = all(store[name] > 0 for name in counts)
            return store["bottleneck"] == bottleneck and grown and store
        return self.until(bottleneck, seen, process)

    def test_hits(self):
        store = self.expect(self.bench("--host", "max"), "all rows come from memory")
        self.assertEqual((store["memory_share"], store["reads_per_s"]), (1, 0))

    def test_the_drive(self):
        process = self.bench("--host", "10%", "--cache", "0", "--in-flight", 1)
        store = self.expect(process, "waits for the drive", counts=("rows_per_s", "reads_per_s"))
        self.assertLess(store["memory_share"], 0.9)

    def test_the_model(self):
        if not self.can_train():
            self.skipTest("rung train is not in this build")
        process = self.start("train", self.staged, "--host", "20%", "--consumer", 5, "--epochs",
                             100000, "--quiet")
        store = self.expect(process, "the trainer computes; rows are ready", "--interval", 2)
        self.assertLess(store["memory_share"], 1)


class OpenMetrics(Watched):
    LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
    SAMPLE = re.compile(r'([a-z_]+)\{(%s(?:,%s)*)\} (\d+(?:\.\d+)?)' % (LABEL, LABEL))

    def parse(self, text):
        """{(sample, labels): value} of a file that must be valid."""
        self.assertTrue(text.endswith("# EOF\n"), text)
        family, kind, types, found = None, None, set(), {}
        for line in text[:-len("# EOF\n")].splitlines():
            if line.startswith("# TYPE "):
                family, kind = line.split()[2:]
                self.assertNotIn(family, types)
                types.add(family)
            elif line.startswith("#"):
                word, name, rest = line[2:].split(" ", 2)
                self.assertEqual(name, family)
                self.assertTrue(word == "HELP" or (word == "UNIT" and family.endswith("_" + rest)))
            else:
                name, labels, value = self.SAMPLE.fullmatch(line).groups()
                self.assertEqual(name, family + {"counter": "_total", "gauge": "",
                                                 "info": "_info"}[kind])
                self.assertNotIn((name, labels), found)
                found[name, labels] = float(value)
        return found

    def test_counters_are_those_of_the_store(self):
        self.staged = self.stage(self.graph, 'a "quoted\\ name', fanout="3,2", batch=50,
                                 score="degree")
        process, path = self.held("--host", "40%"), self.path("rung.prom")
        store = self.top(process)
        self.assertEqual(self.run_rung("top", process.pid, "--once", "--openmetrics", path).stdout,
                         "")
        with open(path, encoding="utf-8") as file:
            found = self.parse(file.read())
        rows = {labels: value for (name, labels), value in found.items()
                if name == "rung_rows_total" and 'kind="rows"' in labels}
        self.assertEqual(sorted(rows.values()), sorted(tier["hits"] for tier in store["tiers"]))
        for labels in rows:
            self.assertIn('pid="%d"' % process.pid, labels)
            self.assertIn('a \\"quoted\\\\ name"', labels)
        self.assertGreater(sum(value for (name, _), value in found.items()
                               if name == "rung_reads_total"), 0)

    def test_the_file_is_replaced_in_each_interval(self):
        path = self.path("rung.prom")
        process = self.start("top", 2 ** 31 - 1, "--interval", 0.1, "--openmetrics", path)
        self.until("a file", lambda: os.path.exists(path), process)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(self.parse(file.read()), {})   # it does not end without stores
            first = os.fstat(file.fileno()).st_ino
            self.until("another file", lambda: os.stat(path).st_ino != first, process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual([name for name in os.listdir(self.folder) if ".partial" in name], [])


class Status(Watched):
    def asked(self, process):
        self.listens(process)
        process.send_signal(signal.SIGUSR1)
        line = process.stderr.readline()
        self.assertIsNone(process.poll(), line)
        return line

    def test_bench_answers_SIGUSR1_while_it_runs(self):
        process = self.bench("--host", "20%")
        self.top(process)
        for _ in range(2):
            self.assertRegex(self.asked(process), STATUS)

    def test_bench_answers_SIGUSR1_while_it_holds(self):
        process = self.held()
        self.assertRegex(self.asked(process), STATUS)

    def test_bench_prints_status_lines(self):
        process = self.bench("--host", "20%", "--status", 0.05)
        for _ in range(3):
            self.assertRegex(process.stderr.readline(), STATUS)

    def test_train_prints_status_lines(self):
        if not self.can_train():
            self.skipTest("rung train is not in this build")
        process = self.start("train", self.staged, "--host", "20%", "--consumer", 5, "--epochs",
                             100000, "--quiet", "--status", 0.05)
        for _ in range(3):
            self.assertRegex(process.stderr.readline(), STATUS)
        self.assertRegex(self.asked(process), STATUS)

    def test_other_commands_answer_with_their_progress(self):
        process = self.start("trace", self.staged, "--epochs", 1000000, "--quiet")
        self.assertRegex(self.asked(process), r"^rung trace: sampling ")

    def test_wrong_values_are_refused(self):
        for value in ("0", "-1", "x"):
            self.fails("bench", self.staged, "--status", value, code=2,
                       says="--status: '%s'" % value)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Help, usage errors, sizes, output errors and shell completion."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import RUNG, TESTS, CliTest, Graph, main, read_npy

COMMANDS = ["generate", "stage", "score", "verify", "info", "plan", "trace", "numa", "bench"]


class Help(CliTest):
    def test_help_lists_the_commands(self):
        self.golden("help.txt", self.run_rung("--help").stdout.replace(" (not in this build)", ""))

    def test_each_command_has_help(self):
        for name in COMMANDS:
            with self.subTest(name):
                done = self.run_rung(name, "--help")
                self.golden("help-%s.txt" % name, done.stdout)
                self.assertNotRegex(done.stdout, r"(?m) $|^ {7,28}--",
                                    "argp broke a line that just fits; reword it")
                for option in ("--json", "--quiet", "--threads"):
                    self.assertIn(option, done.stdout)

    def test_man_pages_list_every_option(self):
        source = os.environ.get("RUNG_SOURCE_DIR", os.path.join(TESTS, ".."))
        names = COMMANDS + (["train"] if self.can_train() else [])
        for name in names:
            with open(os.path.join(source, "tools", "man", "rung-%s.1.md" % name),
                      encoding="utf-8") as file:
                page = file.read()
            options = re.findall(r"^ +(?:-., )?--([A-Za-z0-9-]+)",
                                 self.run_rung(name, "--help").stdout, re.MULTILINE)
            self.assertGreater(len(options), 4)
            for option in set(options) - {"usage"}:
                self.assertIn("**--%s**" % option, page, "man page of " + name)

    def test_version_lists_the_parts_with_reasons(self):
        lines = self.run_rung("--version").stdout.splitlines()
        self.assertRegex(lines[0], r"^rung \d+\.\d+\.\d+ \(.+\)$")
        parts = {line.split()[0]: line.split(None, 2)[1:] for line in lines[1:]}
        self.assertLessEqual({"io_uring", "numa", "openmp", "cuda", "blas"}, set(parts))
        for state, why in parts.values():
            self.assertIn(state, ("yes", "no"))
            self.assertTrue(why)

    def test_missing_command_is_a_usage_error(self):
        done = self.run_rung(code=2)
        self.assertEqual(done.stdout, "")
        self.assertIn("Usage: rung COMMAND", done.stderr)

    def test_unknown_command_lists_the_commands(self):
        self.fails("stag", code=2, says=["'stag'", *COMMANDS, "train"])


class Output(CliTest):
    """Standard output that cannot be written: a full device, or a closed descriptor."""

    LOST = "standard output could not be written"

    def redirected(self, redirection, *args):
        done = subprocess.run(["sh", "-c", 'exec "$0" "$@" ' + redirection, RUNG, *map(str, args)],
                              stderr=subprocess.PIPE, text=True, env=self.environment(), timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done

    def loses(self, *args):
        for redirection, why in ((">/dev/full", "No space left on device"),
                                 (">&-", "Bad file descriptor")):
            with self.subTest(" ".join(map(str, args)) + redirection):
                done = self.redirected(redirection, *args)
                self.assertRegex(done.stderr, r"^rung( [a-z]+)?: %s: %s\n$" % (self.LOST, why))

    def test_help_and_version(self):
        for name in COMMANDS:
            self.loses(name, "--help")
        for args in (["info", "--usage"], ["--help"], ["--version"]):
            self.loses(*args)

    def test_results(self):
        staged = self.stage(Graph(self.folder), fanout="3,2", batch=50, score="degree")
        for more in ([], ["--json"]):
            for args in (["info", staged], ["verify", staged], ["plan", staged],
                         ["trace", staged, "--scores", "none"], ["bench", staged, "--rows", 1000],
                         ["numa", "--topology"]):
                self.loses(*args, *more)
        self.run_rung("verify", staged)   # no file took the descriptor of the closed output

    def test_files_of_stage_and_score_are_complete(self):
        graph = Graph(self.folder)
        for redirection in (">/dev/full", ">&-"):
            for name, *args in (("stage", *graph.options(score="degree"), "--force"),
                                ("score", "--graph", graph.graph, "--score", "degree")):
                out = self.path(name + ".npy")
                done = self.redirected(redirection, name, *args, "--out", out)
                self.assertIn(self.LOST, done.stderr)
                if name == "stage":
                    self.run_rung("verify", out)
                else:
                    self.assertEqual(read_npy(out)[1], (graph.vertices,))

    def test_output_files(self):
        graph = Graph(self.folder)
        staged = self.stage(graph, fanout="3,2", batch=50, score="degree")
        for args in (["trace", staged, "--scores", "none", "--svg"],
                     ["trace", staged, "--scores", "none", "--out"],
                     ["score", "--graph", graph.graph, "--score", "degree", "--out"]):
            self.fails(*args, "/dev/full", code=1,
                       says="rung %s: /dev/full cannot be written: No space left" % args[0])

    def test_train_stops_at_the_first_lost_line(self):
        if not self.can_train():
            self.skipTest("rung train is not in this build")
        staged = self.stage(Graph(self.folder), fanout="3,2", batch=50, score="degree")
        self.loses("train", staged, "--epochs", 1000000, "--hidden", 4, "--normalize", "l2")


class Usage(CliTest):
    def test_too_many_threads(self):
        for name in COMMANDS:
            with self.subTest(name):
                self.fails(name, "--threads", 1025, code=2, says=["--threads", "1025", "1024"])

    def test_unknown_option(self):
        for name in COMMANDS:
            self.fails(name, "--no-such-option", code=2, says="--no-such-option")

    def test_missing_folder(self):
        for name in ("verify", "info", "plan", "trace", "bench"):
            self.fails(name, code=2, says=["rung " + name, "DIR is missing"])

    def test_two_folders(self):
        for name in ("verify", "info", "plan", "trace", "bench"):
            self.fails(name, "one", "two", code=2,
                       says="unexpected argument 'two'; give only one DIR")

    def test_stage_needs_graph_features_and_out(self):
        self.fails("stage", "--features", "f.npy", "--out", "o", code=2, says="--graph is missing")
        self.fails("stage", "--graph", "g.npy", "--out", "o", code=2, says="--features is missing")
        self.fails("stage", "--graph", "g.npy", "--features", "f.npy", code=2,
                   says="--out is missing")
        self.fails("stage", "--graph", "g.npy", "--features", "f.npy", "o", code=2,
                   says=["'o'", "--out o"])

    def test_score_needs_graph_out_and_fanouts(self):
        self.fails("score", "--out", "o", code=2, says="--graph is missing")
        self.fails("score", "--graph", "g.npy", code=2, says="--out is missing")
        self.fails("score", "--graph", "g.npy", "--out", "o", "o", code=2, says=["'o'", "--out o"])
        for method in ([], ["--score", "blend"], ["--score", "expected"],
                       ["--score", "presample"]):
            self.fails("score", "--graph", "g.npy", "--out", "o", *method, code=2,
                       says=["--fanout is missing", method[1] if method else "blend"])

    def test_folder_without_a_dataset(self):
        for name in ("verify", "info", "plan", "trace", "bench"):
            for folder in (self.folder, self.path("none")):
                self.fails(name, folder, code=1, says=["rung %s: " % name, folder])


class Values(CliTest):
    def test_wrong_sizes(self):
        for text, says in (("1,5GiB", "not a valid size"), ("10GB", "not a valid size"),
                           ("-1", "not a valid size"),
                           ("", "not a valid size"), ("1e9", "not a valid size"),
                           (".", "not a valid size"),
                           ("0x10", "not a valid size"), ("5 GiB", "not a valid size"),
                           ("101%", "at most 100%"),
                           ("10%%", "not a valid size"), ("lots", "not a valid size"),
                           ("99999999999999999999", "2^64"), ("18446744073709551616", "2^64"),
                           ("16777216TiB", "2^64"),
                           ("16777216.0TiB", "2^64"), ("18446744073709551614", "2^64")):
            with self.subTest(text):
                self.fails("plan", "x", "--host=" + text, code=2,
                           says=["rung plan: --host: '%s'" % text, says])

    def test_wrong_numbers(self):
        for args, says in (
                (["bench", "x", "--rows", "0"], "--rows: '0' is out of range"),
                (["bench", "x", "--rows", "-3"], "--rows: '-3' is not a whole number"),
                (["bench", "x", "--rows", "3k"], "--rows: '3k' is not a whole number"),
                (["bench", "x", "--seed", "18446744073709551616"], "out of range"),
                (["bench", "x", "--threads", "0"],
                 "--threads: '0' is out of range; give 1 to 1024"),
                (["bench", "x", "--threads", "1000", "--in-flight", "5"],
                 "exceeds 4096 requests"),
                (["bench", "x", "--engine", "aio"],
                 "--engine: unknown value 'aio'; use auto, nvme, io_uring_poll, io_uring or pread"),
                (["bench", "x", "--merge-gap", "10%"],
                 "--merge-gap: '10%' is too large or not a size in bytes"),
                (["bench", "x", "--merge-gap", "4GiB"],
                 "--merge-gap: '4GiB' is too large or not a size in bytes"),
                (["stage", "--damping", "1"],
                 "--damping: '1' is out of range; give more than 0 and less than 1"),
                (["stage", "--damping", "nan"], "--damping: 'nan' is not a number"),
                (["stage", "--damping", "0.5x"], "--damping: '0.5x' is not a number"),
                (["stage", "--fanout", "25,,10"],
                 "--fanout: '25,,10' is not a list of fanouts; give one per hop"),
                (["stage", "--fanout", "25,0"], "--fanout: '0' is out of range"),
                (["stage", "--fanout", ",".join("1" * 17)], "too many hops; give at most 16"),
                (["stage", "--batch", "4294967296"], "--batch: '4294967296' is out of range"),
                (["stage", "--split", "train"], "--split: 'train' is not of the form NAME=SRC"),
                (["stage", "--split", "=x.npy"], "--split: '=x.npy' is not of the form NAME=SRC"),
                (["stage", "--score", "pagerank"], "--score: 'pagerank' is not a method or file"),
                (["stage", "--draws", "both"],
                 "--draws: unknown value 'both'; use all or new"),
                (["stage", "--epochs", "0"], "--epochs: '0' is out of range"),
                (["stage", "--batches", "0"], "--batches: '0' is out of range"),
                (["stage", "--seed", "9223372036854775808"],
                 "--seed: '9223372036854775808' is out of range"),
                (["stage", "--tolerance", "0"], "--tolerance: '0' is out of range"),
                (["score", "--fanout", "25,0"], "--fanout: '0' is out of range"),
                (["score", "--iterations", "0"], "--iterations: '0' is out of range"),
                (["score", "--damping", "0"], "--damping: '0' is out of range"),
                (["score", "--score", "pagerank"],
                 "--score: unknown value 'pagerank'; use blend"),
                (["score", "--memory", "10%"], "--memory: '10%' is not in bytes"),
                (["score", "--memory", "max"], "--memory: 'max' is not in bytes"),
                (["score", "--memory", "1GB"], "--memory: '1GB' is not a valid size"),
                (["stage", "--vertices", "0"], "--vertices: '0' is out of range")):
            with self.subTest(args):
                self.fails(*args, code=2, says=says)

    def test_earlier_spellings_of_options(self):
        for args, says in (
                (["score", "--method", "x"], "--score: unknown value 'x'"),
                (["score", "--split", "valid=v.npy"],
                 "--split: unknown value 'valid=v.npy'; use train=SRC"),
                (["trace", "x", "--methods", "luck"], "--scores: "),
                (["trace", "x", "--trace-rows", "1"], "--rows: '1' is out of range"),
                (["bench", "x", "--prefetch", "4097"], "--look-ahead: '4097' is out of range"),
                (["bench", "x", "--gap", "10%"], "--merge-gap: '10%' is too large"),
                (["train", "x", "--ahead", "0"], "--look-ahead: '0' is out of range"),
                (["numa", "--rows", "3"], "--row-bytes: '3' is out of range"),
                (["stage", "--plan", "x"], "--row-order: unknown value 'x'")):
            if args[0] == "train" and not self.can_train():
                continue
            with self.subTest(args):
                self.fails(*args, code=2, says=says)

    def test_wrong_gpu_options(self):
        for args, says in (
                (["--gpu", "1GB"], "--gpu: '1GB' is not a valid size"),
                (["--device", "tpu"], "--device: unknown value 'tpu'; use cpu, cuda or auto"),
                (["--peers", "0"], "--peers: '0' is out of range; give 1 to 16"),
                (["--peers", "17"], "out of range"),
                (["--gpus", ""], "--gpus: '' is not a list of GPUs; give their numbers"),
                (["--gpus", "0,"], "not a list of GPUs"),
                (["--gpus", "0,,1"], "not a list of GPUs"),
                (["--gpus", "0,a"], "--gpus: 'a' is not a whole number"),
                (["--gpus", "-1"], "'-1' is not a whole number"),
                (["--gpus", "2147483648"], "out of range"),
                (["--gpus", ",".join("0" * 17)], "too many GPUs; give at most 16"),
                (["--gpu", "1GiB", "--device", "cpu"], "--device cpu and --gpu exclude each other"),
                (["--device", "cpu", "--peers", "2"],
                 "--device cpu and --peers exclude each other"),
                (["--peers", "3", "--gpus", "0,1"], "--peers 3: --gpus lists 2 GPUs"),
                (["--replicate", "1GiB"], "--replicate needs rows interleaved over several GPUs"),
                (["--replicate", "1GiB", "--gpus", "1"],
                 "--replicate needs rows interleaved over several GPUs"),
                (["--peers", "1", "--replicate", "max"],
                 "--replicate needs rows interleaved over several GPUs")):
            for name in ("plan", "bench"):
                with self.subTest([name] + args):
                    self.fails(name, "x", *args, code=2, says=["rung %s: " % name, says])

    def test_sizes_are_parsed(self):
        graph = Graph(self.folder, vertices=4000, row_bytes=64)   # 256000 bytes of features
        staged = self.stage(graph)
        for text, room in (("65536", 65536), ("64KiB", 65536), ("65536B", 65536),
                           ("0.0625MiB", 65536), ("40%", 102400),
                           ("max", 256000),
                           ("1.5GiB", 256000), ("100%", 256000), ("18446744073709551615", 256000)):
            with self.subTest(text):
                plan = self.json_of("plan", staged, "--host", text)
                used = plan["tiers"][0]["bytes"] + plan["slots"]["bytes"] + plan["cache"]["bytes"]
                self.assertLessEqual(used, room)
                self.assertGreater(used, room - 64)

    def test_cache_percentage_refers_to_the_host_budget(self):
        # 2048000 bytes of features
        staged = self.stage(Graph(self.folder, vertices=4000, row_bytes=512))

        def rows(host, cache):
            return self.json_of("plan", staged, "--host", host, "--cache", cache)["cache"]["rows"]
        self.assertGreater(rows("1024000", "10%"), 100)
        for host in ("1024000", "50%"):
            self.assertEqual(rows(host, "10%"), rows("1024000", "102400"), host)
        self.assertEqual(rows("1024000", "100%"), rows("1024000", "max"))
        self.assertEqual((rows("1024000", "0%"), rows("max", "10%")), (0, 0))

    def test_budget_below_the_slots_reports_the_minimum(self):
        staged = self.stage(Graph(self.folder))
        for text in ("0", "0%", "100"):
            message = self.fails("plan", staged, "--host", text, code=2,
                                 says=["budget", "at least"])
            least = message.split("at least ")[1].split()[0]
            self.json_of("plan", staged, "--host", least)


class Completion(CliTest):
    """Bash completes the commands, options and values that the help lists."""
    script = os.path.join(os.environ.get("RUNG_BUILD_DIR", "build"), "completions", "rung")

    def offered(self, *words):
        """Return the completions of the last word."""
        code = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rung
                  printf '%s\\n' "${COMPREPLY[@]}" """
        done = subprocess.run(["bash", "-c", code, "bash", self.script, "rung", *words],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def commands(self):
        lines = self.run_rung("--help").stdout.splitlines()
        return [line.split()[0] for line in lines
                if re.match("  [a-z]", line) and not line.startswith("  rung")
                and "(not in this build)" not in line]

    def test_commands(self):
        self.assertEqual(self.offered(""), ["--help", "--version", *self.commands()])
        self.assertEqual(self.offered("st"), ["stage"])

    def test_options_match_the_help(self):
        self.assertGreater(len(self.commands()), 7)
        for command in self.commands():
            listed = re.findall(r"^ +(?:-., )?--([A-Za-z0-9-]+)",
                                self.run_rung(command, "--help").stdout, re.MULTILINE)
            self.assertEqual(sorted(self.offered(command, "--")),
                             sorted("--" + name for name in set(listed) - {"usage"}), command)

    def test_values(self):
        self.assertEqual(self.offered("stage", "--pad", ""), ["none", "sector", "auto"])
        self.assertEqual(self.offered("stage", "--pad", "=", "se"), ["sector"])
        self.assertEqual(self.offered("stage", "--pad", "="), ["none", "sector", "auto"])
        self.assertEqual(self.offered("bench", "dir", "--engine", "io"),
                         ["io_uring_poll", "io_uring"])

    def test_file_names_are_completed_by_the_shell(self):
        self.assertEqual(self.offered("info", "di"), [])
        self.assertEqual(self.offered("stage", "--features", "-"), [])


if __name__ == "__main__":
    main()

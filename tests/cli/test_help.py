# SPDX-License-Identifier: Apache-2.0
"""Help, usage errors, sizes and output errors."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import RUNG, TESTS, CliTest, Graph, main, read_npy

COMMANDS = ["generate", "stage", "score", "verify", "fetch", "info", "plan", "trace", "numa",
            "bench", "doctor", "top"]


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
                for option in ("--json", "--quiet"):
                    self.assertIn(option, done.stdout)
                self.assertEqual("--threads" in done.stdout, name not in ("info", "doctor", "top"))

    def test_man_pages_list_every_option(self):
        source = os.environ.get("RUNG_SOURCE_DIR", os.path.join(TESTS, ".."))
        names = COMMANDS + (["train"] if self.can_train() else [])
        for name in names:
            with open(os.path.join(source, "tools", "man", "rung-%s.1.md" % name),
                      encoding="utf-8") as file:
                page = file.read()
            options = re.findall(r"^ +(?:-., )?--([A-Za-z0-9-]+)",
                                 self.run_rung(name, "--help").stdout, re.MULTILINE)
            self.assertGreaterEqual(len(options), 4)
            for option in set(options) - {"usage"}:
                self.assertIn("**--%s**" % option, page, "man page of " + name)
            letters = re.findall(r"^ +(-.), (--[A-Za-z0-9-]+)",
                                 self.run_rung(name, "--help").stdout, re.MULTILINE)
            self.assertGreaterEqual(len(letters), 3)
            for letter, option in letters:
                self.assertIn("**%s**, **%s**" % (letter, option), page, "man page of " + name)

    def test_version_lists_the_parts_with_reasons(self):
        lines = self.run_rung("--version").stdout.splitlines()
        self.assertRegex(lines[0], r"^rung \d+\.\d+\.\d+ \(.+\)$")
        self.assertEqual(lines[-2], "")
        self.assertIn("rung doctor", lines[-1])
        parts = {line.split()[0]: line.split(None, 2)[1:] for line in lines[1:-2]}
        self.assertLessEqual({"io_uring", "numa", "openmp", "cuda", "blas"}, set(parts))
        for state, why in parts.values():
            self.assertIn(state, ("yes", "no"))
            self.assertTrue(why)

    def test_missing_command_is_a_usage_error(self):
        done = self.run_rung(code=2)
        self.assertEqual(done.stdout, "")
        self.assertIn("Usage: rung COMMAND", done.stderr)

    def test_unknown_command_lists_the_commands(self):
        self.fails("pack", code=2, says=["'pack'", *COMMANDS, "train"])


    def test_examples_use_existing_options(self):
        for name in COMMANDS + (["train"] if self.can_train() else []):
            with self.subTest(name):
                text = self.run_rung(name, "--help").stdout
                _, _, after = text.partition("\nExamples:\n")
                examples = [line for line in after.splitlines() if line.startswith("  rung ")]
                self.assertEqual(len(examples), 2, text)
                for line in examples:
                    self.assertLessEqual(len(line), 79)
                    words = line.split(" > ")[0].split()
                    self.assertEqual(words[:2], ["rung", name])
                    # "--help" ends the run after the options before it were accepted
                    self.run_rung(*words[1:], "--help")

    def test_man_pages_have_examples(self):
        source = os.environ.get("RUNG_SOURCE_DIR", os.path.join(TESTS, ".."))
        for name in [*COMMANDS, "train"]:
            with open(os.path.join(source, "tools", "man", "rung-%s.1.md" % name),
                      encoding="utf-8") as file:
                self.assertRegex(file.read(), r"\n# EXAMPLES?\n\n(?s:.*?)    (\$ )?rung " + name)

    def test_help_has_headings(self):
        for name in COMMANDS:
            text = self.run_rung(name, "--help").stdout
            headings = re.findall(r"^ (\S.*:)$", text, re.MULTILINE)
            self.assertEqual(headings[-1], "General:")
            if name not in ("fetch", "info", "doctor", "top"):
                self.assertGreater(len(headings), 2, name)
                self.assertNotRegex(text, r"\n\n {2,6}-", "options without a heading: " + name)

    def test_help_follows_the_width_of_the_terminal(self):
        def widest(**variables):
            env = dict(self.environment(), **variables)
            done = subprocess.run([RUNG, "plan", "--help"], env=env, stdout=subprocess.PIPE,
                                  text=True, check=True)
            return max(map(len, done.stdout.split("Examples:")[0].splitlines()))
        for columns in (50, 64, 80, 100):
            width = widest(COLUMNS=str(columns))
            self.assertLess(width, columns)   # argp keeps the last column free
            self.assertGreater(width, columns - 12)
        self.assertEqual(widest(COLUMNS="20"), widest(COLUMNS="50"))
        self.assertEqual(widest(COLUMNS="500"), widest(COLUMNS="100"))
        self.assertEqual(widest(COLUMNS="wide"), widest(COLUMNS="80"))

    def test_the_text_of_threads_is_true_for_the_command(self):
        for name, says in (("bench", "else 1)"), ("numa", "Cores to use on a node"),
                           ("stage", "one per CPU")):
            text = " ".join(self.run_rung(name, "--help").stdout.split())
            self.assertIn(says, text.partition("--threads=N ")[2][:100])


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
        for name in set(COMMANDS) - {"info", "doctor", "top"}:
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
        for text, says in (("1,5GiB", "not a valid size; give one such as 4096, 4GiB, 500M"),
                           ("10GX", "not a valid size"), ("4GiBB", "not a valid size"),
                           ("-1", "not a valid size"), ("GiB", "not a valid size"),
                           ("", "not a valid size"), ("1e-9", "not a valid size"),
                           (".", "not a valid size"), (".5GiB", "not a valid size"),
                           ("1.", "not a valid size"), ("1e100", "not a valid size"),
                           ("0x10", "not a valid size"), (" 5GiB", "not a valid size"),
                           ("1.5", "not a whole number of bytes"),
                           ("0.1B", "not a whole number of bytes"),
                           ("1e99", "2^64"), ("16384PiB", "2^64"),
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
                (["bench", "x", "--rows", "3KiB"],
                 "--rows: '3KiB' is not a whole number; give one such as 5000, 64k or 1.5M"),
                (["bench", "x", "--rows", "1.5"], "--rows: '1.5' is not a whole number"),
                (["bench", "x", "--rows", "1.0005k"], "--rows: '1.0005k' is not a whole number"),
                (["bench", "x", "--rows", "1e20"], "--rows: '1e20' is out of range"),
                (["numa", "--row-bytes", "512,2MiB"], "--row-bytes: '2MiB' is out of range"),
                (["numa", "--row-bytes", "10%"], "--row-bytes: '10%' is out of range"),
                (["numa", "--memory", "4"],
                 "--memory: '4' is not a size in bytes of at least 64KiB"),
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
                (["score", "--score", "closeness"],
                 "--score: unknown value 'closeness'; use blend"),
                (["score", "--memory", "10%"], "--memory: '10%' is not in bytes"),
                (["score", "--memory", "max"], "--memory: 'max' is not in bytes"),
                (["score", "--memory", "1GX"], "--memory: '1GX' is not a valid size"),
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
                (["--gpu", "1GX"], "--gpu: '1GX' is not a valid size"),
                (["--device", "npux"], "--device: unknown value 'npux'; use cpu, cuda or auto"),
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
        # 256000 bytes of features, 24 blocks of lists
        graph = Graph(self.folder, vertices=4000, row_bytes=64)
        staged = self.stage(graph)
        everything = 256000 + 24 * 512
        for text, room in (("65536", 65536), ("64KiB", 65536), ("65536B", 65536),
                           ("0.0625MiB", 65536), ("40%", 102400), ("40 %", 102400),
                           ("64K", 65536), ("64k", 65536), ("64 Ki", 65536), ("64 kib", 65536),
                           ("65.536kB", 65536), ("0.065536 MB", 65536), ("65.536e3", 65536),
                           ("1G", everything), ("1GB", everything), ("0.1PiB", everything),
                           ("max", everything), ("1.5GiB", everything), ("100%", 256000),
                           ("18446744073709551615", everything)):
            with self.subTest(text):
                plan = self.json_of("plan", staged, "--host", text)
                used = plan["budget"]["used_bytes"]
                self.assertEqual(used, plan["tiers"][0]["bytes"] + plan["slots"]["bytes"] +
                                 plan["cache"]["bytes"] + self.lists_bytes(plan))
                self.assertLessEqual(used, room)
                self.assertGreater(used, room - 64 - 512)

    def test_counts_have_the_units_of_the_output(self):
        staged = self.stage(Graph(self.folder))
        for text, rows in (("1000", 1000), ("1k", 1000), ("1.06 k", 1060), ("1e3", 1000),
                           ("0.002M", 2000), ("0.000001G", 1000), ("1.5E3", 1500)):
            with self.subTest(text):
                # whole requests of 100 rows
                done = self.json_of("bench", staged, "--rows", text, "--batch", 10,
                                    "--ids", "uniform")
                self.assertEqual(done["rows"], -(-rows // 10) * 10)

    def test_a_forgotten_unit(self):
        graph = Graph(self.folder)
        staged = self.stage(graph, out="forgotten")
        for args in (["plan", staged, "--host", 4], ["bench", staged, "--host", 4],
                     ["trace", staged, "--host", 4],
                     ["score", "--graph", graph.graph, "--out", "o", "--fanout", 3, "--memory", 4],
                     ["generate", self.path("model"), "--model", "arxiv", "--memory", 4],
                     ["stage", *graph.options(), "--out", "o", "--memory", 4]):
            with self.subTest(args):
                self.fails(*args, code=2, says=["at least", "did you mean %s 4GiB?" % args[-2]])
        self.assertNotIn("did you mean", self.fails("plan", staged, "--host", "0.004KiB", code=2,
                                                    says="at least"))

    def lists_bytes(self, plan):
        return sum(part["bytes"] for part in plan["budget"]["parts"]
                   if part["name"].startswith("list"))

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


if __name__ == "__main__":
    main()

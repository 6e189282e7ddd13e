# SPDX-License-Identifier: Apache-2.0
"""The output of rung bench: its text, --runtime, --repeat, --csv, and the command to try next."""
import csv
import io
import os
import shlex
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, Graph, main

NUMBER = r"\d+(\.\d+)?"


class Output(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=8000, edges=20000, row_bytes=400)
        self.staged = self.stage(self.graph, fanout="3,2", batch=50)
        self.bench = ["bench", self.staged, "--host", "30%"]

    def text(self, *args):
        text = self.run_rung(*self.bench, *args).stdout
        self.assertNotRegex(text, r"\de[+-]\d")
        for line in text.splitlines():
            if not line.startswith("next: "):   # which contains the path of a temporary folder
                self.assertLessEqual(len(line), 100, line)
        return text

    def test_the_rate_is_first_and_counters_need_explain(self):
        text = self.text("--rows", 20000)
        self.assertRegex(text, r"\A%s k?M? ?rows/s, \S+ .iB/s: \S+ k rows of 400 bytes in .*, "
                               r"\d+ requests\n" % NUMBER)
        for line in (r"  rows       %s %% host, .*%s %% file$" % (NUMBER, NUMBER),
                     r"  reads      .*/s, .* rows a read, .* of at most \S+ at a time$",
                     r"  CPU        .*s a row, \d\.\d\d CPUs busy$",
                     r"  request    p50 .*  p90 .*  p95 .*  p99 .*  p99.9 .*  max .*s$"):
            self.assertRegex(text, "(?m)^" + line)
        explained = self.text("--rows", 20000, "--explain")
        for more in ("\ntier ", "\nengine: ", "\ndevice: ", "\ncache: ", "\nreads, p50 and p99: "):
            self.assertIn(more, explained)
            # an engine is also printed with the reason why it is not the best one
            if more != "\nengine: " or not self.json_of(*self.bench)["engine_why"]:
                self.assertNotIn(more, text)

    def test_one_request_has_a_median_only(self):
        text = self.text("--rows", 1, "--warmup", 0)
        self.assertRegex(text, r", 1 request\n")
        self.assertRegex(text, r"p50 \S+ .?s  p90 -  p95 -  p99 -  p99.9 -  max ")
        found = self.json_of(*self.bench, "--rows", 1)["latency_us"]
        self.assertEqual(found["p50"], found["max"])
        self.assertEqual([found[key] for key in ("p90", "p95", "p99", "p99_9")], [None] * 4)

    def test_many_requests_have_all_percentiles(self):
        found = self.json_of(*self.bench, "--ids", "uniform", "--batch", 1, "--rows", 1000)
        times = [found["latency_us"][key] for key in ("p50", "p90", "p95", "p99", "p99_9", "max")]
        self.assertEqual(times, sorted(times))

    def test_a_default_warmup_precedes_measured_runs_only(self):
        self.assertGreaterEqual(self.json_of(*self.bench, "--rows", 20000)["warmup_rows"], 2000)
        for more in (["--warmup", 0, "--rows", 3000], ["--check", "--rows", 3000], ["--rows", 9]):
            self.assertEqual(self.json_of(*self.bench, *more)["warmup_rows"], 0)

    def test_runtime_ends_a_run(self):
        for more in ([], ["--ids", "zipf"], ["--threads", 2, "--look-ahead", 3]):
            found = self.json_of(*self.bench, "--runtime", "200ms", *more)
            self.assertGreaterEqual(found["seconds"], 0.2)
            self.assertGreater(found["rows"], 0)
            self.assertEqual((found["runtime"], found["interrupted"]), (0.2, None))
            self.assertEqual(sum(tier["hits"] for tier in found["tiers"]), found["rows"])
        found = self.json_of(*self.bench, "--ids", "uniform", "--runtime", "1h", "--rows", 1000)
        self.assertEqual((found["rows"], found["runtime"]), (1000, 3600))

    def test_wrong_runtimes_and_combinations(self):
        for time in ("0", "-1s", "3x", "s", "nan", "0x10", "", "1.2.3", "400h"):
            self.fails(*self.bench, "--runtime=" + time, code=2,
                       says="--runtime: '%s' is not a valid time; give one such as 90ms" % time)
        for number in (0, 101):
            self.fails(*self.bench, "--repeat", number, code=2, says="out of range")
        self.fails(*self.bench, "--csv", "-", "--json", code=2, says="exclude each other")
        self.fails(*self.bench, "--runtime", "1s", "--repeat", 2, "--look-ahead", 2, code=2,
                   says="give --rows")

    def test_repeat_reports_the_median_run(self):
        found = self.json_of(*self.bench, "--repeat", 3, "--rows", 5000)
        rates = [run["rows_per_s"] for run in found["runs"]]
        self.assertEqual((found["repeat"], len(rates)), (3, 3))
        self.assertEqual(found["rows_per_s"], sorted(rates)[1])
        self.assertEqual(len({run["rows"] for run in found["runs"]}), 1)
        self.assertRegex(self.text("--repeat", 2, "--rows", 5000),
                         r"(?m)^  runs       2 from .* to .* rows/s, a spread of .* %; this is the "
                         r"median$")

    def test_every_run_is_checked(self):
        found = self.json_of(*self.bench, "--repeat", 2, "--rows", 3000, "--check")
        self.assertEqual((found["wrong_rows"], found["verdict"]),
                         (0, {"bound": None, "text": None, "command": None}))

    def test_csv_has_a_line_per_run(self):
        path = self.path("runs.csv")
        args = ["--repeat", 2, "--rows", 5000, "--csv"]
        found = self.json_of(*self.bench, *args, path)
        with open(path, encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual([line["run"] for line in lines], ["1", "2"])
        for line, run in zip(lines, found["runs"]):
            for key in ("seconds", "rows", "requests", "rows_per_s", "device_reads",
                        "device_read_bytes", "cpu_seconds"):
                self.assertAlmostEqual(float(line[key]), run[key], delta=1e-8 * run[key])
            self.assertEqual(sum(int(line[key]) for key in ("host_rows", "cache_rows",
                                                            "file_rows")), run["rows"])
            self.assertEqual(line["p99_9_us"], "")
        printed = self.run_rung(*self.bench, *args, "-").stdout
        self.assertEqual([line["run"] for line in csv.DictReader(io.StringIO(printed))],
                         ["1", "2"])
        self.fails(*self.bench, "--csv", self.path("no", "runs.csv"), code=1,
                   says="cannot be written")

    def test_the_command_to_try_next_works(self):
        name = self.path("it's a $(name)")
        os.rename(self.staged, name)
        for args in (["--host", "25%"], ["--host=3000KiB"], ["--host", "max", "--threads", "1"],
                     ["--host", "max", "--runtime", "250ms"], ["--host", "20%", "--in-flight=1"]):
            with self.subTest(args):
                found = self.json_of("bench", name, *args, "--rows", 30000, "--ids", "uniform")
                # nothing if the run was too short, and --rows limits it; rung numa takes long
                words = shlex.split(found["verdict"]["command"] or "rung numa")
                self.assertEqual(words[0], "rung")
                if words[1] != "numa":
                    self.run_rung(*words[1:])
        found = self.json_of("bench", name, "--host", "50%", "--rows", 30000, "--runtime", "250ms")
        self.assertTrue(found["verdict"]["text"])


if __name__ == "__main__":
    main()

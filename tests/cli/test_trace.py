# SPDX-License-Identifier: Apache-2.0
"""rung trace: its results compared with a second computation from the counts file, its chart, and
refused input."""
import math
import os
import shutil
import stat
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import CliTest, Graph, main, read_npy

SVG = "{http://www.w3.org/2000/svg}"
OPTIONS = ["--fanout", "4,3", "--batch", "32", "--epochs", "3", "--host", "20%"]


class TraceTest(CliTest):
    """All tests share one dataset, which no test changes."""
    graph = staged = None

    def setUp(self):
        super().setUp()
        if not TraceTest.staged:
            folder = tempfile.mkdtemp(prefix="rung-cli-")
            unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
            TraceTest.graph = Graph(folder, vertices=600, edges=5000, row_bytes=512)
            TraceTest.staged = self.stage(self.graph, os.path.join(folder, "staged"),
                                          score="degree", fanout="4,3", batch=32)

    def trace(self, *args):
        return self.json_of("trace", self.staged, *OPTIONS, *args)


class Trace(TraceTest):
    def counts_by_rank(self, path):
        """Return the counts by rank, and by vertex as in the file."""
        descr, shape, counts = read_npy(path)
        self.assertEqual((descr, shape), ("<u8", (self.graph.vertices,)))
        vertex_of_rank = read_npy(os.path.join(self.staged, "vertex_of_rank.npy"))[2]
        return counts, [counts[vertex] for vertex in vertex_of_rank]

    def shares(self, counts_in_order, sizes):
        return [sum(counts_in_order[:size]) / sum(counts_in_order) for size in sizes]

    def test_hit_rates_follow_from_the_counts(self):
        out = self.path("counts.npy")
        report = self.trace("--out", out)
        by_vertex, by_rank = self.counts_by_rank(out)
        self.assertEqual(report["rows"], sum(by_vertex))
        self.assertEqual(report["unique_rows"], sum(count > 0 for count in by_vertex))
        self.assertEqual(report["batches"], 3 * -(-len(self.graph.train) // 32))
        self.assertTrue(all(by_vertex[vertex] >= 3 for vertex in self.graph.train),
                        "each vertex is a seed once per epoch")
        first = 0
        for tier in report["tiers"]:
            self.assertEqual(tier["hits"], sum(by_rank[first:first + tier["rows"]]), tier["name"])
            self.assertAlmostEqual(tier["hit_share"], tier["hits"] / report["rows"])
            first += tier["rows"]
        self.assertEqual(first, self.graph.vertices)
        curve = report["curve"]
        self.assertEqual(curve["rows"], [int(share * self.graph.vertices + 0.5)
                                         for share in curve["share"]])
        degrees = [0] * self.graph.vertices
        for source, _ in self.graph.edges:
            degrees[source] += 1
        by_degree = sorted(range(self.graph.vertices),
                           key=lambda vertex: (-degrees[vertex], vertex))
        self.check_close(curve["methods"]["staged"], self.shares(by_rank, curve["rows"]))
        self.check_close(curve["methods"]["degree"],
                         self.shares([by_vertex[vertex] for vertex in by_degree], curve["rows"]))
        self.check_close(curve["oracle"], self.shares(sorted(by_vertex, reverse=True),
                                                      curve["rows"]))
        self.assertEqual(list(curve["methods"]), ["staged", "degree", "wrpagerank", "expected",
                                                  "blend"])
        for name in curve["methods"]:
            self.assertTrue(all(a <= b for a, b in zip(curve["methods"][name], curve["oracle"])),
                            name)
        self.assertTrue(all(a <= b for a, b in zip(curve["lru"], curve["belady"])))
        self.assertEqual(curve["lru"][-1], curve["belady"][-1],
                         "with all rows resident only first requests miss")
        self.assertEqual((curve["lru"][0], curve["belady"][0]), (0, 0))
        self.assertEqual(report["dynamic"],
                         {"rows": report["rows"], "counted_from": report["rows"] // 3})

    def check_close(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            self.assertAlmostEqual(a, b, places=12)

    def test_the_forecast_uses_another_seed(self):
        report = self.trace("--scores", "none", "--seed", "5")
        # in a plan the lists are part of the budget: 40 blocks of all 5000 edges
        room = 600 * 512 // 5 + 40 * 512
        plan = self.json_of("plan", self.staged, "--fanout", "4,3", "--batch", "32", "--host", room,
                            "--structure", "max", "--seed", (1 << 64) - 1 - 5)
        self.assertEqual(report["predicted_by"], "sampled batches")
        self.assertEqual([tier["predicted_hit_share"] for tier in report["tiers"]],
                         [tier["hit_share"] for tier in plan["tiers"]])
        for tier in report["tiers"]:
            self.assertAlmostEqual(tier["predicted_hit_share"], tier["hit_share"], delta=0.05)

    def test_an_expected_score_is_used_as_the_forecast(self):
        staged = self.stage(self.graph, self.path("staged"), score="expected", fanout="4,3",
                            batch=32)
        report = self.json_of("trace", staged, *OPTIONS, "--scores", "expected")
        chance = [-math.expm1(-score) for score in read_npy(os.path.join(staged, "score.npy"))[2]]
        first = 0
        self.assertEqual(report["predicted_by"], "score")
        for tier in report["tiers"]:
            self.assertAlmostEqual(tier["predicted_hit_share"],
                                   sum(chance[first:first + tier["rows"]]) / sum(chance), places=6)
            self.assertAlmostEqual(tier["predicted_hit_share"], tier["hit_share"], delta=0.05)
            first += tier["rows"]
        for other in (["--batch", "33"], ["--fanout", "4,4"], ["--draws", "new"]):
            report = self.json_of("trace", staged, *OPTIONS, "--scores", "none", *other)
            self.assertEqual(report["predicted_by"], "sampled batches", other)

    def test_results_do_not_depend_on_the_threads(self):
        one, three, other = self.trace("--threads",
                                       "1"), self.trace("--threads", "3"), self.trace("--seed", "2")
        for report in (one, three, other):
            del report["seconds"], report["edges_per_s"]
        self.assertEqual(one, three)
        self.assertNotEqual(one["curve"], other["curve"])

    def test_draws_new_requests_fewer_rows(self):
        draw_all, draw_new = self.trace("--scores",
                                        "none"), self.trace("--scores", "none", "--draws", "new")
        self.assertLess(draw_new["edges"], draw_all["edges"])
        self.assertLess(draw_new["rows"], draw_all["rows"])
        self.assertEqual((draw_all["draws"], draw_new["draws"]), ("all", "new"))

    def test_lru_and_belady_use_only_the_first_requests(self):
        whole, part = self.trace("--scores",
                                 "none"), self.trace("--scores", "none", "--rows", "900")
        self.assertEqual(part["dynamic"], {"rows": 900, "counted_from": 300})
        for report in (whole, part):
            del report["curve"]["lru"], report["curve"]["belady"]
        self.assertEqual(whole["curve"], part["curve"])
        text = self.run_rung("trace", self.staged, *OPTIONS, "--quiet", "--rows",
                             "900").stdout
        self.assertIn("LRU and Belady: the first 900 requests", text)

    def test_text_contains_the_tables(self):
        text = self.run_rung("trace", self.staged, *OPTIONS, "--quiet").stdout
        for word in ("3 epochs, 30 batches", "predicted by sampled batches", "host", "nvme",
                     "staged", "wrpagerank", "oracle", "Belady",
                     "LRU and Belady: all"):
            self.assertIn(word, text)


class Chart(TraceTest):
    def chart(self, *args, name="a & b<c"):
        os.symlink(self.staged, self.path(name))
        self.json_of("trace", self.path(name), *OPTIONS, "--svg", self.path("curves.svg"), *args)
        return xml.parse(self.path("curves.svg")).getroot()

    def test_chart_has_title_axes_and_legend(self):
        root = self.chart("--scores", "degree,rpagerank")
        texts = [text.text for text in root.iter(SVG + "text")]
        self.assertIn("Hit rate against memory: a & b<c", texts)
        self.assertTrue(any("fanout 4, 3; batch 32; 3 epochs; 600 rows" in text for text in texts),
                        texts)
        # the rows are 300 KiB; they were staged by degree
        for word in ("rows in memory, % of all", "requests served from memory, %",
                     "staged = degree", "rpagerank", "best fixed order", "LRU cache",
                     "best possible (knows the future)", "0", "50", "100", "0 KiB", "300"):
            self.assertIn(word, texts)
        host = self.trace("--scores", "none")["tiers"][0]
        self.assertIn("host, %.1f KiB: %.1f %%" % (host["rows"] / 2, 100 * host["hit_share"]),
                      texts)
        self.assertEqual(root.get("width"), "760")

    def test_lines_differ_without_colors(self):
        root = self.chart("--scores", "degree,rpagerank,wrpagerank")
        lines = [path for path in root.iter(SVG + "path")
                 if path.get("fill") == "none" and path.get("d", "").count("L") > 10]
        self.assertEqual(len(lines), 6, "staged, which is degree, is drawn once")
        looks = {(line.get("stroke-dasharray"), line.get("stroke-width")) for line in lines}
        self.assertEqual(len(looks), 6)
        for line in lines:
            self.assertEqual(line.get("d").count("L"), 17, "18 shares from 0 % on")


class Refusals(TraceTest):
    def refuses(self, *args, code, says, staged=None):
        before = sorted(os.listdir(self.folder))
        self.fails("trace", staged or self.staged, *args, code=code, says=says)
        self.assertEqual(sorted(os.listdir(self.folder)), before, "no file may be left")

    def test_invalid_numbers(self):
        self.refuses("--fanout", "4,0", code=2, says=["--fanout", "'0' is out of range"])
        self.refuses("--batch", "0", code=2, says=["--batch", "'0' is out of range"])
        self.refuses("--epochs", "0", code=2, says=["--epochs", "'0' is out of range"])
        self.refuses("--rows", "2", code=2, says=["--rows", "out of range"])
        self.refuses("--draws", "old", code=2, says="unknown value 'old'; use all or new")
        self.refuses("--scores", "degree,luck", code=2, says=["--scores", "luck"])

    def test_folder_without_a_dataset(self):
        self.fails("trace", self.path("none"), code=1, says=["rung trace: ", "none"])

    def test_a_damaged_graph(self):
        staged = shutil.copytree(self.staged, self.path("damaged"))
        with open(os.path.join(staged, "graph_indices.npy"), "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(b"\xff\xff\xff\xff")
        self.refuses("--svg", self.path("x.svg"), code=1, says="indices[4999] is 4294967295",
                     staged=staged)

    def test_unwritable_outputs_are_reported_before_sampling(self):
        for option in ("--svg", "--out"):
            self.refuses(option, self.path("no", "such", "file"), code=1,
                         says=["no/such/file cannot be written", "No such file"])
            self.refuses(option, self.folder, code=1, says="cannot be the name of a file")

    def test_one_unwritable_output_prevents_both(self):
        self.refuses("--svg", self.path("x.svg"), "--out", self.path("no", "y.npy"), code=1,
                     says="y.npy cannot be written")

    def test_a_device_is_not_replaced_by_a_file(self):
        self.trace("--svg", "/dev/null", "--scores", "none")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    def test_existing_files_are_replaced(self):
        out = self.path("x.svg")
        with open(out, "w", encoding="utf-8") as file:
            file.write("old")
        self.trace("--svg", out, "--scores", "none")
        self.assertEqual(xml.parse(out).getroot().tag, SVG + "svg")


if __name__ == "__main__":
    main()

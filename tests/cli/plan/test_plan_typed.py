# SPDX-License-Identifier: Apache-2.0
"""rung plan of a typed dataset: one budget over the rows of vertices and edges and over lists."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, Graph, main

PAPERS, ROW, AUTHORS, WRITES = 8000, 512, 300, 6000
ROWS = {"vertices/paper": (PAPERS, ROW), "edge_rows/author.writes.paper": (WRITES, 8)}
LISTS = {"edges/paper.cites.paper", "edges/author.writes.paper"}
ROW_BYTES = sum(count * size for count, size in ROWS.values())


class Typed(CliTest):
    def setUp(self):
        super().setUp()
        graph = Graph(self.folder, vertices=PAPERS, edges=60000, row_bytes=ROW)
        edges = [end for i in range(WRITES) for end in (i * 7 % AUTHORS, i * i % PAPERS)]
        self.staged = self.path("typed.rung")
        self.run_rung(
            "stage", "--vertices", "paper=" + graph.features, "--vertices", f"author={AUTHORS}",
            "--split", "paper:train=" + graph.train_file,
            "--edges", "paper:cites:paper=" + graph.graph,
            "--edges", "author:writes:paper=" + graph.write("w.npy", "<i8", (WRITES, 2), edges),
            "--edge-rows", "author:writes:paper=" + graph.write("r.npy", "<f4", (WRITES, 2),
                                                                range(2 * WRITES)),
            "--fanout", "5,3", "--batch", 100, "--out", self.staged)

    def plan(self, *args):
        return self.json_of("plan", self.staged, *args)

    def divided(self, host):
        plan = self.plan("--host", host)
        self.assertEqual(len(plan["budgets"]), 1)
        return plan["budgets"][0]

    def check(self, budget):
        """The sums are those of the tables, and no part exceeds its whole."""
        tables = {table["table"]: table for table in budget["tables"]}
        self.assertEqual(tables.keys(), ROWS.keys() | LISTS)
        self.assertEqual({name for name, table in tables.items() if table["lists"]}, LISTS)
        for name, size in ROWS.items():
            self.assertEqual((tables[name]["rows"], tables[name]["row_bytes"]), size)
        for table in tables.values():
            self.assertLessEqual(table["least_bytes"], table["bytes"])
            self.assertLessEqual(table["resident_bytes"], table["bytes"])
            self.assertLessEqual(table["hits_per_batch"], table["accesses_per_batch"] * (1 + 1e-9))
        self.assertEqual(budget["used_bytes"], sum(table["bytes"] for table in tables.values()))
        self.assertAlmostEqual(budget["served_share"],
                               sum(table["hits_per_batch"] for table in tables.values())
                               / sum(table["accesses_per_batch"] for table in tables.values()))
        return tables

    def test_a_budget_is_divided_among_rows_and_lists(self):
        half = self.divided("2MiB")
        self.assertLessEqual(half["used_bytes"], 2 << 20)
        tables = self.check(half)
        # per byte, lists are requested more often than rows
        self.assertGreater(tables["edges/paper.cites.paper"]["resident_bytes"], 0)
        self.assertGreater(tables["vertices/paper"]["resident_bytes"], 0)
        self.assertLess(half["served_share"], 1)
        everything = self.divided("max")
        self.assertIsNone(everything["host_bytes"])
        self.assertEqual(everything["served_share"], 1)
        for name, table in self.check(everything).items():
            self.assertGreaterEqual(table["resident_bytes"], table["rows"] * table["row_bytes"]
                                    if name in ROWS else 1)

    def test_a_share_is_of_the_bytes_of_all_rows(self):
        for share in (25, 60):
            self.assertEqual(self.divided(f"{share}%"), self.divided(ROW_BYTES * share // 100))

    def test_each_budget_of_several_is_that_of_host(self):
        plan = self.plan()
        budgets = plan["budgets"]
        self.assertGreater(len(budgets), 3)
        for budget in budgets:
            self.check(budget)
            self.assertEqual(self.divided(budget["host_bytes"]), budget)
        served = [budget["served_share"] for budget in budgets]
        self.assertEqual(served, sorted(served))
        self.assertEqual(served[-1], 1)
        self.assertGreaterEqual(budgets[-1]["host_bytes"], plan["whole_bytes"])

    def test_too_little_memory_is_refused_with_the_least_that_works(self):
        printed = self.fails("plan", self.staged, "--host", 1, code=2, says="4 tables")
        least = int(re.search(r"give at least (\d+) bytes", printed)[1])
        self.assertLessEqual(self.divided(least)["used_bytes"], least)
        self.fails("plan", self.staged, "--host", least - 1, code=2, says=f"at least {least} ")

    def test_options_of_one_table_are_refused(self):
        for option in (["--fanout", "5,3"], ["--batch", 10], ["--gpu", "1MiB"],
                       ["--device", "cuda"], ["--structure", "1MiB"], ["--compute", "0.1"],
                       ["--explain"], ["--machines", 2, "--nic", "1Gb"]):
            with self.subTest(option=option):
                self.fails("plan", self.staged, "--host", "2MiB", *option, code=2,
                           says=[option[0], "has several types", "omit it"])

    def test_tables_are_printed(self):
        text = self.run_rung("plan", self.staged, "--host", "max").stdout
        for name in ROWS.keys() | LISTS | {"total"}:
            self.assertIn(name, text)
        several = self.run_rung("plan", self.staged).stdout
        self.assertIn("in memory of --host", several)
        self.assertRegex(several, r"(?m)^served .*100\.0 %$")


if __name__ == "__main__":
    main()

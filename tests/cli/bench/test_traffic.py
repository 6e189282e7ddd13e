# SPDX-License-Identifier: Apache-2.0
"""bench/traffic.py on a small generated graph: its counts must be consistent."""
import importlib.util
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, main

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "bench")
SCRIPT = os.path.join(BENCH, "traffic.py")


class Traffic(CliTest):
    def traffic(self, *args):
        return subprocess.run([sys.executable, "-B", SCRIPT, "--rung", os.environ["RUNG"], *args],
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=300, check=False)

    @unittest.skipUnless(importlib.util.find_spec("numpy"),
                         "numpy is not installed (Debian: python3-numpy)")
    def test_more_rows_on_the_gpu_reduce_link_traffic(self):
        done = self.traffic("--rmat", "12", "--fanouts", "4,3", "--batches", "16", "--shares",
                            "10,60")
        self.assertEqual(done.returncode, 0, done.stderr)
        record = json.loads(done.stdout)
        self.assertEqual((record["benchmark"], record["vertices"], len(record["results"])),
                         ("traffic", 4096, 4))
        for few, many in zip(record["results"][::2], record["results"][1::2]):
            for result, rows in ((few, 410), (many, 2458)):   # rounded to a page of eight rows
                self.assertTrue(rows - 16 < result["gpu_rows"] <= rows, result["gpu_rows"])
            self.assertGreater(few["reduction"], 0.1,
                               "high scores must mean more requests than by chance")
            self.assertGreater(many["reduction"], few["reduction"])
            for result in (few, many):
                self.assertLessEqual(result["reduction"], result["reduction_at_most"])
                self.assertEqual(result["link_bytes"], result["tiers"][1]["bytes"])
                self.assertEqual(result["link_bytes_all_host"],
                                 sum(tier["hits"] for tier in result["tiers"]) * 512)

    def test_a_missing_graph_is_named(self):
        done = self.traffic("--graph", self.path("none.npz"))
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("arxiv.npz was not found", done.stderr)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""rung verify with sources: differences are named, a sample reads a part, and damage is repaired,
even after a repair was killed."""
import filecmp
import os
import random
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import RUNG, CliTest, Graph, main


class Verify(CliTest):
    def setUp(self):
        super().setUp()
        # the features have 2.1 blocks
        self.graph = Graph(self.folder, vertices=1500, edges=10000, row_bytes=1500)
        self.staged = self.stage(self.graph)
        self.sources = ["--source", self.graph.features, "--graph", self.graph.graph, "--labels",
                        self.graph.label_file,
                        "--split", "train=" + self.graph.train_file, "--split",
                        "valid=" + self.graph.valid_file,
                        "--split", "test=" + self.graph.test_file]
        self.reference = self.path("reference")
        shutil.copytree(self.staged, self.reference)

    def change(self, path, offset, data=None):
        with open(path, "r+b") as file:
            file.seek(offset)
            old = file.read(1)
            file.seek(offset)
            file.write(data or bytes([old[0] ^ 0x20]))

    def same_as_reference(self):
        names = sorted(os.listdir(self.reference))
        self.assertEqual(sorted(os.listdir(self.staged)), names)
        self.assertEqual(filecmp.cmpfiles(self.staged, self.reference, names, shallow=False)[1:],
                         ([], []))

    def test_all_sources(self):
        report = self.json_of("verify", self.staged, *self.sources)
        for what in ("rows", "lists", "labels", "split_ids"):
            self.assertEqual((report[what + "_compared"], report[what + "_different"]), (1500, 0),
                             what)
        self.assertIsNone(report["scores_compared"])
        self.assertIsNone(report["repaired"])
        self.assertGreater(report["bytes_per_s"], 0)
        text = self.run_rung("verify", self.staged, *self.sources, "--memory", "64MiB").stdout
        self.assertRegex(text,
                         r"ok: \d+ blocks, .*/s, 1500 rows compared with the source, 1500 lists")

    def test_sample(self):
        for given, count in (("10%", 150), ("0.01", 15), ("100", 100)):
            report = self.json_of("verify", self.staged, *self.sources[:4], "--sample", given,
                                  "--seed", "5")
            self.assertEqual((report["rows_compared"], report["lists_compared"], report["seed"]),
                             (count, count, 5), given)
        for wrong in ("0", "1.5", "-1"):
            self.fails("verify", self.staged, *self.sources[:2], "--sample=" + wrong, code=2,
                       says="--sample")
        self.fails("verify", self.staged, "--sample", "1%", code=2,
                   says="--sample needs --source, --graph or --dataset")

    def test_differences_are_named(self):
        self.change(self.graph.features, os.path.getsize(self.graph.features) - 1)
        report = self.json_of("verify", self.staged, *self.sources, code=3)
        self.assertEqual((report["rows_different"], report["first_different"],
                          report["lists_different"]), (1, 1499, 0))
        self.assertIn("1 rows differ from the source (the first: vertex 1499)",
                      self.run_rung("verify", self.staged, *self.sources, code=3).stdout)
        report = self.json_of("verify", self.staged, *self.sources[2:], "--undirected", code=3)
        self.assertGreater(report["lists_different"], 750)
        self.assertIsNone(report["rows_compared"])

    def test_too_little_memory_reports_the_minimum(self):
        self.fails("verify", self.staged, *self.sources, "--memory", "10KiB", code=2,
                   says="at least")

    def test_repair(self):
        for name in ("features.000.npy", "graph_indices.npy", "labels.npy", "rank_of_vertex.npy",
                     "split_train.npy", "checksums.npy"):
            # in checksums.npy: the checksum of an intact block
            self.change(os.path.join(self.staged, name), 4112)
        os.remove(os.path.join(self.staged, "graph_indptr.npy"))
        self.change(os.path.join(self.staged, "score.npy"), 4500)
        # no source was given for the score
        report = self.json_of("verify", self.staged, "--repair", *self.sources, code=3)
        self.assertEqual([bad["file"] for bad in report["bad"]], ["score.npy"])
        self.assertIn("--score SRC", report["unrepaired"])
        self.assertIn("not repaired: score.npy",
                      self.run_rung("verify", self.staged, "--repair", code=3).stdout)
        self.assertEqual(len(report["repaired"]), 7)
        shutil.copy(os.path.join(self.reference, "score.npy"), self.staged)
        self.same_as_reference()
        self.change(os.path.join(self.staged, "features.000.npy"), 1 << 20)
        self.assertIn(f"rung verify {self.staged} --repair --dataset dataset.json, or --source",
                      self.run_rung("verify", self.staged, code=3).stdout)
        self.assertIn("without the features (--source SRC or --dataset); give it",
                      self.run_rung("verify", self.staged, "--repair", code=3).stdout)
        self.assertIn("features.000.npy: block 1 at offset 1048576 differed from its checksum, "
                      "and is repaired",
                      self.run_rung("verify", self.staged, "--repair", *self.sources).stdout)
        self.same_as_reference()

    def test_a_changed_source_is_reported(self):
        os.mkdir(self.path("other"))
        other = Graph(self.path("other"), vertices=1500, edges=10, row_bytes=1500, seed=2)
        staged, kept = os.path.join(self.staged, "features.000.npy"), self.path("kept")
        self.change(staged, 5000)
        shutil.copy(staged, kept)
        report = self.json_of("verify", self.staged, "--repair", "--source", other.features, code=3)
        self.assertIn("have changed since staging", report["unrepaired"])
        self.assertTrue(filecmp.cmp(staged, kept, shallow=False))

    def test_bad_blocks_are_printed_as_ranges(self):
        staged = self.stage(Graph(self.path(), vertices=24 << 10, edges=10, row_bytes=1024),
                            "wide")
        path = os.path.join(staged, "features.000.npy")   # 24 blocks of 1 MiB, and a header
        for block in list(range(0, 22, 2)) + [21]:        # 0, 2 ... 18, 20 and 21
            self.change(path, (block << 20) + 5000)
        text = self.run_rung("verify", staged, code=3).stdout
        self.assertEqual(len(re.findall(r"block \d+ at offset \d+ differs", text)), 10, text)
        self.assertIn("\n… and 2 more of 12 blocks, in 1 more range (--json lists all)\n", text)
        self.assertIn("\ndoes not verify: 12 bad of ", text)
        self.assertEqual(len(self.json_of("verify", staged, code=3)["bad"]), 12)
        os.truncate(path, 3 << 20)
        text = self.run_rung("verify", staged, code=3).stdout
        self.assertRegex(text, r"(?m)^.*/features\.000\.npy: block 0 at offset 0 differs from its "
                               r"checksum\n.*: blocks 2 to 24 from offset 2097152 on differ from "
                               r"their checksums$")

    def test_killed_while_repairing(self):
        draws = random.Random(3)
        names = ["features.000.npy", "graph_indices.npy", "labels.npy", "vertex_of_rank.npy"]
        temp = self.path("temp")
        os.mkdir(temp)
        for kill in range(3):
            for name in names:
                path = os.path.join(self.staged, name)
                for _ in range(3):
                    self.change(path, draws.randrange(os.path.getsize(path)))
            before = {(bad["file"], bad["block"])
                      for bad in self.json_of("verify", self.staged, code=3)["bad"]}
            process = subprocess.Popen([RUNG, "verify", self.staged, "--repair", *self.sources,
                                        "--quiet"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env=dict(os.environ, TMPDIR=temp))
            time.sleep(kill * 0.015)
            process.kill()
            process.wait()
            self.assertEqual(os.listdir(temp), [])
            after = subprocess.run([RUNG, "verify", self.staged, "--json"], capture_output=True,
                                   check=False)
            self.assertIn(after.returncode, (0, 3))
            after = self.json_of("verify", self.staged, code=after.returncode)["bad"]
            self.assertLessEqual({(bad["file"], bad["block"]) for bad in after}, before)
            self.run_rung("verify", self.staged, "--repair", *self.sources)
            self.same_as_reference()


if __name__ == "__main__":
    main()

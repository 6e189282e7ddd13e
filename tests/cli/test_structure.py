# SPDX-License-Identifier: Apache-2.0
"""The graph on the ladder: --structure of train, plan, trace and bench."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import RUNG, CliTest, Graph, main

os.environ.setdefault("OMP_WAIT_POLICY", "passive")   # tests share the cores
TRAIN = ["--epochs", 2, "--batch", 64, "--fanout", "5,5", "--hidden", 8, "--seed", 3]
SMALL = "24KiB"   # of 160 kB of lists
VERTICES, EDGES = 4000, 40000


def have_trainer():
    done = subprocess.run([RUNG, "train", "--help"], capture_output=True, check=False)
    return done.returncode == 0


def learned(result):
    return [(epoch["loss"], epoch["valid_accuracy"], epoch["valid_loss"])
            for epoch in result["epochs"]], result["test_accuracy"]


def lists_of(result):
    """(blocks in memory, blocks in the file)"""
    blocks = {tier["name"]: tier["blocks"] for tier in result["structure"]["tiers"]}
    return blocks["host"], blocks["nvme"]


class StructureTest(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=VERTICES, edges=EDGES, row_bytes=64)
        self.staged = self.stage(self.graph, fanout="5,5", batch=64, score="degree")

    def lists_file(self, staged=None):
        return os.path.join(staged or self.staged, "graph_indices.npy")


class Train(StructureTest):
    def setUp(self):
        super().setUp()
        if not have_trainer():
            self.skipTest("rung train is not in this build")

    def train(self, *more, staged=None):
        return self.json_of("train", staged or self.staged, *TRAIN, *more)

    def test_the_structure_changes_no_bit(self):
        everything = self.train("--host", "max")
        self.assertEqual(lists_of(everything), (-(-EDGES * 4 // 512), 0))
        self.assertEqual(everything["structure"]["device_reads"], 0)
        for structure in (SMALL, "30%", "max", "auto"):
            for more in ([], ["--engine", "pread"], ["--no-merge"], ["--buffered"],
                         ["--threads", 2], ["--eval-fanout", "3,3"]):
                result = self.train("--host", "260KiB", "--structure", structure, *more)
                if "--eval-fanout" in more:
                    self.assertEqual([epoch["loss"] for epoch in result["epochs"]],
                                     [epoch["loss"] for epoch in everything["epochs"]], more)
                else:
                    self.assertEqual(learned(result), learned(everything), (structure, more))
                if structure in (SMALL, "30%"):
                    self.assertGreater(result["structure"]["device_reads"], 0)
                    self.assertGreater(lists_of(result)[1], 0)

    def test_the_report_counts_reads(self):
        result = self.train("--host", "200KiB", "--structure", SMALL)
        lists = result["structure"]
        self.assertEqual(sum(lists_of(result)), -(-EDGES * 4 // 512))
        self.assertEqual([tier["hits"] is None for tier in lists["tiers"]], [True, False])
        self.assertGreater(lists["device_read_bytes"], lists["device_reads"])
        batches = -(-len(self.graph.train) // 64)
        evaluated = -(-len(self.graph.valid) // 64)
        tested = -(-sum(self.graph.test_mask) // 64)
        self.assertEqual(result["batches"], 2 * (batches + evaluated) + tested)
        self.assertAlmostEqual(lists["reads_per_batch"],
                               lists["device_reads"] / result["batches"])
        requested = sum(tier["hits"] for tier in result["tiers"])
        self.assertAlmostEqual(result["reads_per_row"], result["device_reads"] / requested)
        text = self.run_rung("train", self.staged, *TRAIN, "--host", "200KiB", "--structure",
                             SMALL).stdout
        for words in ("lists            blocks      requested", "reads of lists: ",
                      "per requested row"):
            self.assertIn(words, text)
        self.assertIsNone(self.train("--no-edges")["structure"])

    def test_all_kinds_of_datasets(self):
        expected = learned(self.train("--host", "max"))
        in_place = self.path("in-place")
        self.run_rung("stage", *self.graph.options(), "--out", in_place, "--fanout", "5,5",
                      "--batch", 64, "--score", "degree", "--in-place", "--quiet")
        striped = self.path("striped")
        folders = [self.path("stripe-%d" % i) for i in range(2)]
        folders.append(self.path("the-rest"))
        for folder in folders:
            os.mkdir(folder)
        self.run_rung("stage", *self.graph.options(), "--out", striped, "--fanout", "5,5",
                      "--batch", 64, "--score", "degree", "--stripe", folders[0], "--stripe",
                      folders[1], "--quiet")
        ranges = self.path("ranges")
        self.run_rung("stage", *self.graph.options(), "--out", ranges, "--fanout", "5,5",
                      "--batch", 64, "--score", "degree", "--stripe", folders[0], "--stripe",
                      folders[1], "--until", "0.5", "--stripe", folders[2], "--quiet")
        self.assertEqual([entry["files"] for entry in self.json_of("info", ranges)["ranges"]],
                         [2, 1])
        self.json_of("bench", ranges, "--ids", "uniform", "--check", "--host", "256KiB")
        for staged in (in_place, striped, ranges):
            result = self.train("--host", "320KiB", "--structure", SMALL, staged=staged)
            self.assertEqual(learned(result), expected, staged)
            self.assertGreater(result["structure"]["device_reads"], 0)

    def test_a_graph_without_edges(self):
        staged = self.stage(self.graph, "alone", graph="none", score=None, fanout=None)
        self.json_of("train", staged, *TRAIN, "--host", "128KiB")

    def test_damaged_lists(self):
        bad = self.path("bad")
        shutil.copytree(self.staged, bad)
        with open(self.lists_file(bad), "r+b") as file:   # the coldest lists
            file.seek(-64000, os.SEEK_END)
            file.write(b"\xff" * 64000)
        self.fails("train", bad, *TRAIN, "--host", "200KiB", "--structure", SMALL, "--json",
                   "--quiet", code=1, says=["graph_indices.npy", "entry", "rung verify"])
        # lists in memory are checked when they are opened
        self.fails("train", bad, *TRAIN, "--host", "400KiB", "--structure", "max", "--json",
                   "--quiet", code=1, says=["graph_indices.npy", "entry", "rung verify"])

    def test_truncated_lists(self):
        cut = self.path("cut")
        shutil.copytree(self.staged, cut)
        os.truncate(self.lists_file(cut), os.path.getsize(self.lists_file(cut)) - 4096)
        for name in ("train", "plan", "trace", "bench"):
            self.fails(name, cut, *(TRAIN if name == "train" else []), code=1,
                       says="graph_indices.npy")

    def test_a_killed_run_ends(self):
        for number in (signal.SIGKILL, signal.SIGINT):
            process = subprocess.Popen(
                [RUNG, "train", self.staged, "--epochs", "100000", "--batch", "64", "--host",
                 "200KiB", "--structure", SMALL], stdout=subprocess.PIPE, text=True)
            for _ in range(3):   # the heading and two epochs
                self.assertTrue(process.stdout.readline())
            began = time.monotonic()
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=60), -number)
            self.assertLess(time.monotonic() - began, 60)
            process.stdout.close()
        self.train("--host", "200KiB", "--structure", SMALL)

    def test_a_file_that_shrinks_fails_the_batch(self):
        """Another program truncates the lists while training reads them."""
        cut = self.path("cut")
        shutil.copytree(self.staged, cut)
        process = subprocess.Popen(
            [RUNG, "train", cut, "--epochs", "100000", "--batch", "64", "--host", "200KiB",
             "--structure", SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertTrue(process.stdout.readline())
        os.truncate(self.lists_file(cut), 8192)
        _, message = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1, message)
        self.assertIn("graph_indices.npy", message)

    def test_options_that_exclude_each_other(self):
        self.fails("train", self.staged, "--no-edges", "--structure", "max", code=2,
                   says="--no-edges and --structure exclude each other")


class Plan(StructureTest):
    def plan(self, *more):
        return self.json_of("plan", self.staged, *more)

    def parts(self, plan):
        return {part["name"]: part for part in plan["budget"]["parts"]}

    def test_the_parts_fit_in_the_budget(self):
        for more in (["--structure", SMALL], ["--structure", "40%"], [], ["--cache", "10%"],
                     ["--cache", 0]):
            plan = self.plan("--host", "200KiB", *more)
            budget = plan["budget"]
            self.assertEqual(budget["host_bytes"], 200 << 10)
            self.assertLessEqual(budget["used_bytes"], 200 << 10, more)
            self.assertGreater(budget["used_bytes"], 190 << 10, more)
            self.assertEqual(sum(part["bytes"] for part in budget["parts"]),
                             budget["used_bytes"])
            parts = self.parts(plan)
            self.assertEqual(parts["rows"]["bytes"], plan["tiers"][0]["bytes"])
            self.assertEqual(parts["rows"]["share"], plan["tiers"][0]["hit_share"])
            self.assertEqual(parts["rows"]["reads_per_batch"], plan["reads_per_batch"])
            self.assertEqual(parts["lists"]["reads_per_batch"], plan["list_reads_per_batch"])
            self.assertGreater(budget["offsets_bytes"], 0)
            self.assertLess(budget["offsets_bytes"], 4 * VERTICES)
            self.assertGreater(parts["rows"]["reads_saved_per_mib"], 0)

    def test_a_size_is_kept(self):
        parts = self.parts(self.plan("--host", "200KiB", "--structure", SMALL))
        self.assertEqual(parts["lists"]["bytes"] + parts["list slots"]["bytes"], 24 << 10)
        parts = self.parts(self.plan("--host", "400KiB", "--structure", "max"))
        self.assertEqual(parts["lists"]["share"], 1)
        self.assertGreaterEqual(parts["lists"]["bytes"], 4 * EDGES)
        self.assertEqual(parts["list slots"]["bytes"], 0)

    def test_more_lists_in_memory_mean_fewer_reads(self):
        reads = [self.plan("--host", "400KiB", "--structure", structure)["list_reads_per_batch"]
                 for structure in ("16KiB", "64KiB", "128KiB", "max")]
        self.assertEqual(reads, sorted(reads, reverse=True))
        self.assertEqual(reads[-1], 0)

    def test_the_table(self):
        text = self.run_rung("plan", self.staged, "--host", "200KiB", "--explain").stdout
        for words in ("part of --host", "served", "reads a batch", "saved by 1 MiB more",
                      "\nrows ", "\nlists ", "\nrow slots ", "\ntotal ",
                      "not part of --host: offsets of the lists"):
            self.assertIn(words, text)

    def test_all_of_a_budget_is_used(self):
        for host in (64, 150, 300, 400):
            budget = self.plan("--host", "%dKiB" % host)["budget"]
            self.assertLessEqual(budget["used_bytes"], host << 10)
            # a row, or a block of lists
            self.assertGreater(budget["used_bytes"], (host << 10) - 64 - 512)

    def test_lists_leave_room_for_a_cache_that_was_given(self):
        for cache in ("60KiB", "30%"):
            plan = self.plan("--host", "200KiB", "--cache", cache)
            self.assertGreater(plan["cache"]["rows"], 0, cache)

    def test_the_least_budget_works(self):
        for text in ("0", "100", "20KiB"):
            message = self.fails("plan", self.staged, "--host", text, code=2,
                                 says=["staging slots of rows and lists; give at least"])
            least = message.split("at least ")[1].split()[0]
            self.assertLessEqual(self.plan("--host", least)["budget"]["used_bytes"], int(least))
            self.fails("plan", self.staged, "--host", int(least) - 1, code=2,
                       says="give at least %s bytes" % least)

    def test_everything_fits(self):
        plan = self.plan("--host", "max")
        self.assertIsNone(plan["budget"]["host_bytes"])
        self.assertEqual((plan["list_reads_per_batch"], plan["reads_per_batch"]), (0, 0))
        self.assertEqual(self.plan("--host", "1GiB")["budget"]["parts"][0]["share"], 1)

    def test_wrong_sizes(self):
        for name in ("train", "plan", "bench"):
            if name == "train" and not have_trainer():
                continue
            more = TRAIN if name == "train" else []
            for structure, says in (
                    ("most", "--structure: unknown value 'most'; use a size such as 64KiB or 10%, "
                     "auto or max"),
                    ("1XB", "--structure: unknown value '1XB'; use a size such as 64KiB or 10%, "
                     "auto or max"),
                    ("101%", "more than the whole"),
                    ("0", "a structure of 0 bytes cannot hold"),
                    ("15KiB", "give at least 16384 bytes"),
                    ("300KiB", "cannot hold"),
                    ("max", "give at least" if name == "x" else "cannot hold")):
                self.fails(name, self.staged, *more, "--host", "64KiB", "--structure", structure,
                           code=2, says=says)
            self.fails(name, self.staged, *more, "--host", "170KiB", "--structure", "max", code=2,
                       says=["next to the lists of the graph; give at least"])


class Trace(StructureTest):
    def trace(self, *more):
        result = self.json_of("trace", self.staged, "--fanout", "4,3", "--batch", 32, "--epochs",
                              2, "--host", "20%", "--seed", 5, *more)
        for key in ("seconds", "edges_per_s", "structure"):
            del result[key]
        return result

    def test_traces_are_identical(self):
        for scores in ("none", "degree,expected,blend"):
            whole = self.trace("--scores", scores)
            for structure in (SMALL, "60%", "max", "auto"):
                self.assertEqual(self.trace("--scores", scores, "--structure", structure), whole,
                                 structure)

    def test_the_counts_are_identical(self):
        files = []
        for structure in (SMALL, "max"):
            files.append(self.path("counts-%s.npy" % structure))
            self.trace("--scores", "none", "--structure", structure, "--out", files[-1])
        contents = []
        for file in files:
            with open(file, "rb") as opened:
                contents.append(opened.read())
        self.assertEqual(*contents)

    def test_lists_are_not_part_of_the_host_budget(self):
        result = self.json_of("trace", self.staged, "--host", "64KiB", "--structure", "max",
                              "--scores", "none")
        self.assertIsNone(result["structure"])
        result = self.json_of("trace", self.staged, "--host", "64KiB", "--structure", SMALL,
                              "--scores", "none")
        self.assertGreater(result["structure"]["device_reads"], 0)


class Bench(StructureTest):
    def test_the_ids_are_identical(self):
        options = ["--rows", 20000, "--seed", 4, "--json", "--quiet"]
        results = [json.loads(self.run_rung("bench", self.staged, "--host", "300KiB",
                                            "--structure", structure, *options, "--check").stdout)
                   for structure in (SMALL, "max", "auto")]
        self.assertEqual([result["wrong_rows"] for result in results], [0] * 3)
        self.assertEqual(len({result["rows"] for result in results}), 1)
        self.assertEqual(len({sum(tier["hits"] for tier in result["tiers"])
                              for result in results}), 1)
        # the lists are part of the budget: with all of them, fewer rows are in memory
        host = [result["tiers"][0]["rows"] for result in results]
        self.assertGreater(host[0], host[1])

    def test_only_traces_read_lists(self):
        self.fails("bench", self.staged, "--ids", "uniform", "--structure", SMALL, code=2,
                   says="--structure needs --ids trace")
        whole = self.json_of("bench", self.staged, "--host", "64KiB", "--ids", "uniform", "--rows",
                             100)
        parts = self.json_of("bench", self.staged, "--host", "64KiB", "--rows", 100,
                             "--structure", SMALL)
        self.assertGreater(whole["tiers"][0]["rows"], parts["tiers"][0]["rows"])


if __name__ == "__main__":
    main()

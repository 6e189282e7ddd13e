# SPDX-License-Identifier: Apache-2.0
"""rung plan --model: sizes, the division of the budget and times of a data set that is absent, the
agreement with plans of generated models, and refused options."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import SANITIZED, CliTest, main, shape_of

os.environ.setdefault("OMP_WAIT_POLICY", "passive")   # tests share the cores
MODELS = ["mag240m", "papers100m", "wikikg90m", "igb", "arxiv", "debian-docs", "debian"]
GIB = 1 << 30
READS_PER_S = 1e5     # of the profile
ROWS_PER_S = 1e7


class PlanModel(CliTest):
    def plan(self, *args, model="mag240m", host="24GiB"):
        return self.json_of("plan", "--model", model, "--host", host, *args)

    def parts(self, plan):
        return {part["name"]: part for part in plan["budget"]["parts"]}

    def reads(self, plan):
        return plan["reads_per_batch"] + plan["list_reads_per_batch"]

    def profile(self, reads=True):
        rows = [{"matrix": "gather", "cores": "one", "cpu_node": 0, "memory_node": 0,
                 "absent": None, "row_bytes": size, "rows_per_s": {"median": ROWS_PER_S}}
                for size in (512, 4096)]
        reads = [{"drive": None, "file": "f", "row_bytes": size, "queue_depth": depth,
                  "reads_per_s": min(20e3 * depth, READS_PER_S)}
                 for size in (512, 131072) for depth in (1, 4, 8)] if reads else []
        path = self.path("machine.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"schema": 1, "measured": {}, "results": rows, "nvme_read": reads}, out)
        return path


class Numbers(PlanModel):
    def test_shape_of_the_json(self):
        self.golden("plan-model-shape.json",
                    json.dumps(shape_of(self.plan()), indent=1) + "\n")

    def test_counts_are_those_of_the_original(self):
        plan = self.plan()
        self.assertEqual((plan["model"], plan["scale"], plan["vertices"], plan["edges"],
                          plan["undirected"], plan["train"], plan["row_bytes"]),
                         ("mag240m", 1, 244160499, 1728364232, True, 1112392, 1536))
        self.assertEqual(plan["feature_bytes"], 244160499 * 1536)
        self.assertEqual(plan["lists_bytes"], 2 * 1728364232 * 4)
        self.assertEqual((plan["fanout"], plan["batch"], plan["batches_per_epoch"]),
                         ([25, 15], 1024, 1087))
        resident = plan["resident"]
        self.assertEqual(resident["bytes"], resident["offsets_bytes"] + resident["train_bytes"])
        self.assertAlmostEqual(resident["bytes_per_vertex"], resident["bytes"] / 244160499)
        self.assertTrue(2 < resident["bytes_per_vertex"] < 2.5)

    def test_every_model_has_a_plan(self):
        for name in MODELS:
            with self.subTest(name):
                plan = self.plan(model=name, host="10%")
                self.check_sums(plan)
                self.assertTrue(0 < plan["tiers"][0]["hit_share"] < 0.95)

    def check_sums(self, plan):
        host, nvme = plan["tiers"]
        self.assertEqual(host["rows"] + nvme["rows"], plan["vertices"])
        self.assertAlmostEqual(host["hit_share"] + nvme["hit_share"], 1)
        used = sum(part["bytes"] for part in plan["budget"]["parts"])
        self.assertEqual(plan["budget"]["used_bytes"], used)
        self.assertLessEqual(used, plan["budget"]["host_bytes"])
        self.assertGreater(used, plan["budget"]["host_bytes"] - 2 * plan["row_bytes"] - 512)
        self.assertAlmostEqual(plan["cold_rows_per_batch"],
                               plan["rows_per_batch"] * nvme["hit_share"])

    def test_more_memory_needs_fewer_reads(self):
        plans = [self.plan(host=host) for host in ("1GiB", "8GiB", "64GiB", "300GiB")]
        for plan in plans:
            self.check_sums(plan)
        reads = [self.reads(plan) for plan in plans]
        self.assertEqual(reads, sorted(set(reads), reverse=True))
        whole = self.plan(host="max")
        self.assertEqual((self.reads(whole), whole["bound"], whole["queue_depth"]),
                         (0, "memory", None))
        self.assertEqual(whole["tiers"][0]["rows"], whole["vertices"])

    def test_no_other_division_needs_fewer_reads(self):
        best = self.plan()
        for structure in ("1GiB", "10%", "50%", "max"):
            self.assertGreaterEqual(self.reads(self.plan("--structure", structure)),
                                    self.reads(best) - 1)

    def test_given_parts_are_kept(self):
        parts = self.parts(self.plan("--structure", "2GiB", "--cache", "1GiB"))
        self.assertAlmostEqual(parts["lists"]["bytes"] + parts["list slots"]["bytes"], 2 * GIB,
                               delta=512)
        self.assertEqual(parts["cache"]["bytes"], GIB)
        self.assertGreater(parts["cache"]["share"], 0)
        self.assertEqual(self.parts(self.plan("--cache", "25%"))["cache"]["bytes"], 6 * GIB)
        self.assertEqual(self.parts(self.plan("--cache", 0))["cache"]["bytes"], 0)

    def test_seconds_are_those_of_the_reads(self):
        path = self.profile()
        plan = self.plan("--profile", path)
        # 100,000 reads per second are reached with 8 in flight, not with 4
        self.assertEqual((plan["profile"], plan["queue_depth"], plan["bound"]), (path, 8, "drive"))
        self.assertAlmostEqual(plan["nvme_seconds_per_batch"], self.reads(plan) / READS_PER_S)
        self.assertAlmostEqual(plan["memory_seconds_per_batch"],
                               plan["rows_per_batch"] / ROWS_PER_S)
        self.assertAlmostEqual(plan["seconds_per_epoch"],
                               plan["nvme_seconds_per_batch"] * plan["batches_per_epoch"])
        slow = self.plan("--profile", path, "--queue-depth", 1)
        self.assertAlmostEqual(slow["nvme_seconds_per_batch"], self.reads(slow) / 20e3)
        two = self.plan("--profile", path, "--threads", 2)
        self.assertEqual(two["threads"], 2)
        self.assertAlmostEqual(two["memory_seconds_per_batch"],
                               plan["memory_seconds_per_batch"] / 2)
        self.assertIn("by the profile " + path, self.text("--profile", path))

    def text(self, *args):
        return self.run_rung("plan", "--model", "mag240m", "--host", "24GiB", *args).stdout

    def test_text_states_what_is_extrapolated(self):
        curves = self.plan()["curves"]
        self.assertTrue(curves["extrapolated"])
        text = self.text()
        self.assertIn("mag240m: 244160499 vertices, 1728364232 edges in both directions", text)
        self.assertIn("extrapolated: hits, rows and reads were measured on the model at 1/%d"
                      % round(1 / curves["scale"]), text)
        self.assertIn("rates of the machine are assumed", text)
        same = "1/%d" % round(1 / curves["scale"])
        self.assertFalse(self.plan("--scale", same)["curves"]["extrapolated"])
        self.assertNotIn("extrapolated", self.text("--scale", same))


class Agreement(PlanModel):
    """A plan by the curves is near the plan of a model that was generated."""

    HITS = 0.05    # hits may differ by 5 points
    ROWS = 0.2     # rows of a batch by a fifth

    def staged(self, name, scale, width, batch):
        self.run_rung("generate", self.path("m"), "--model", name, "--scale", scale, "--width",
                      width, "--seed", 7, "--quiet")
        self.run_rung("stage", "--dataset", self.path("m", "dataset.json"), "--batch", batch,
                      "--out", self.path("s"), "--quiet")
        return self.json_of("info", self.path("s"))

    def planned(self, info, share):
        """A plan with that share of the rows in memory, and all lists."""
        wanted, other = share * info["vertices"], 1 << 16
        for _ in range(6):
            host = int(wanted * info["row_bytes"]) + 4 * info["edges"] + other
            plan = self.json_of("plan", self.path("s"), "--host", host, "--structure", "max",
                                "--cache", 0)
            other = plan["budget"]["used_bytes"] - plan["tiers"][0]["bytes"] - 4 * info["edges"]
        self.assertAlmostEqual(plan["tiers"][0]["rows"] / info["vertices"], share, delta=share / 20)
        return plan

    def curve(self, name, scale, share):
        whole = self.plan("--scale", scale, "--structure", "max", model=name, host="max")
        rows, other = int(share * whole["feature_bytes"]), 1 << 16
        for _ in range(6):
            plan = self.plan("--scale", scale, "--structure", "max", model=name,
                             host=rows + whole["lists_bytes"] + other)
            other = (plan["budget"]["used_bytes"] - plan["tiers"][0]["bytes"]
                     - whole["lists_bytes"])
        return plan

    def check(self, name, scale, width):
        batch = self.plan("--scale", scale, model=name, host="max")["batch"]
        info = self.staged(name, scale, width, batch)
        for share in (0.05, 0.2, 0.5):
            found, expected = self.planned(info, share), self.curve(name, scale, share)
            self.assertEqual((expected["vertices"], 2 * expected["edges"]),
                             (info["vertices"], info["edges"]))
            self.assertAlmostEqual(found["tiers"][0]["hit_share"],
                                   expected["tiers"][0]["hit_share"], delta=self.HITS)
            self.assertAlmostEqual(found["rows_per_batch"], expected["rows_per_batch"],
                                   delta=self.ROWS * found["rows_per_batch"])
            self.assertEqual(found["batches_per_epoch"], expected["batches_per_epoch"])

    @unittest.skipIf(SANITIZED, "generates and stages hundreds of thousands of vertices")
    def test_small_model_at_the_scale_of_its_curve(self):
        self.check("debian", "1", 8)

    @unittest.skipIf(SANITIZED, "generates and stages hundreds of thousands of vertices")
    def test_mag240m_at_another_scale(self):
        self.check("mag240m", "1/512", 8)


class Refusals(PlanModel):
    def refused(self, *args, says, code=2):
        self.fails("plan", *args, code=code, says=["rung plan: ", says])

    def test_options(self):
        self.refused("--model", "reddit", "--host", "1GiB",
                     says="--model: unknown value 'reddit'; use mag240m, papers100m, wikikg90m, "
                     "igb, arxiv, debian-docs or debian")
        self.refused("--model", "igb", "--host", "1GiB", self.folder,
                     says="--model and DIR exclude each other; omit one of them")
        self.refused("--scale", "1/4", self.folder, says="--scale needs --model")
        self.refused("--model", "igb", "--host", "1GiB", "--scale", "4",
                     says="--scale: '4' is not of the form 1/N")
        self.refused("--model", "debian", "--host", "1GiB", "--scale", "1/10000",
                     says="--scale: 1/10000 of 63666 vertices is too small")
        self.refused(says="DIR is missing; give the folder of the staged dataset")

    def test_options_that_need_a_dataset(self):
        for args in (["--fanout", "5,5"], ["--batch", 8], ["--seed", 2], ["--numa-node", "none"],
                     ["--device", "cpu"], ["--gpu", "1GiB"], ["--gpus", "0"], ["--peers", 1]):
            with self.subTest(args[0]):
                self.refused("--model", "igb", "--host", "1GiB", *args, says="%s needs DIR, a "
                             "staged dataset; omit it with --model" % args[0])

    def test_budgets(self):
        for host in ("0", "32767"):
            self.refused("--model", "igb", "--host", host,
                         says="cannot hold the slots of rows and lists; give at least 32768 bytes")
        self.plan(model="igb", host="32768")
        self.refused("--model", "igb", "--host", "1GiB", "--structure", "max",
                     says="give at least")
        for structure in ("0", "4KiB"):
            self.refused("--model", "igb", "--host", "1GiB", "--structure", structure,
                         says="--structure: too small for the slots of the lists; give at least "
                         "16384 bytes")

    def test_profiles(self):
        self.refused("--model", "igb", "--host", "1GiB", "--profile", self.path("none"), code=1,
                     says="none")
        path = self.profile(reads=False)
        self.refused("--model", "igb", "--host", "1GiB", "--profile", path,
                     says="the profile has no read rates, but rows are in files")
        self.assertEqual(self.plan("--profile", path, model="igb", host="max")["bound"],
                         "memory")


if __name__ == "__main__":
    main()

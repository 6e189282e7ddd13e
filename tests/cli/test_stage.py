# SPDX-License-Identifier: Apache-2.0
"""rung stage: its budget, its plans, and going on behind a stop."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import CliTest, Graph, main


class Stage(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=2000, edges=9000, row_bytes=3000)
        self.options = self.graph.options(score="degree")

    def test_every_plan_verifies(self):
        for plan in ("passes", "deal", "gather", "auto"):
            out = self.path(plan)
            report = self.json_of("stage", *self.options, "--out", out, "--memory", "16MiB", "--plan", plan)
            self.assertIn(report["rows"]["plan"], ("passes", "deal", "gather") if plan == "auto" else (plan,))
            self.assertEqual(report["budget_bytes"], 16 << 20)
            self.assertLessEqual(report["memory_bytes"], 16 << 20)
            self.assertEqual([phase["name"] for phase in report["phases"]],
                             ["graph", "score", "rank", "relabel", "features", "labels", "files"])
            self.assertGreaterEqual(report["phases"][4]["bytes_written"], report["feature_bytes"])
            self.run_rung("verify", out, "--source", self.graph.features)

    def test_a_dry_run_says_which_plan_and_what_it_takes(self):
        out = self.path("out")
        text = self.run_rung("stage", *self.options, "--out", out, "--memory", "16MiB", "--plan", "deal", "--dry-run").stdout
        self.assertIn("rows by deal in", text)
        self.assertIn("more meanwhile", text)
        self.assertFalse(os.path.exists(out) or os.path.exists(out + ".partial"))

    def test_too_little_memory_is_told(self):
        self.fails("stage", *self.options, "--out", self.path("out"), "--memory", "1MiB", code=2, says=["at least", "--memory"])
        self.assertFalse(os.path.exists(self.path("out.partial")))

    def interrupted(self, out):
        """Stop it by SIGINT once it has ranked."""
        process = self.start("stage", *self.options, "--out", out, "--memory", "16MiB", "--plan", "passes")
        journal = os.path.join(out + ".partial", "journal")
        while process.poll() is None and not os.path.exists(journal):
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        process.communicate()
        return os.path.exists(journal)

    def test_an_interrupted_run_is_resumed_only_when_asked(self):
        self.graph = Graph(self.folder, vertices=3000, edges=9000, row_bytes=20000)
        self.options = self.graph.options(score="degree")
        out = self.path("out")
        tries = 0
        while not self.interrupted(out):   # it may have been quicker
            tries += 1
            self.assertLess(tries, 50)
            if os.path.exists(out):
                self.run_rung("stage", *self.options, "--out", out, "--force", "--quiet")
                os.rename(out, "%s.%d" % (out, tries))
        self.fails("stage", *self.options, "--out", out, code=1, says=["--resume", "--force"])
        self.fails("stage", *self.options, "--out", out, "--resume", "--batch", "7", code=2, says=["another job", "batches of 7"])
        report = self.json_of("stage", *self.options, "--out", out, "--resume")
        self.assertTrue(report["resumed"])
        self.run_rung("verify", out, "--source", self.graph.features)


if __name__ == "__main__":
    main()

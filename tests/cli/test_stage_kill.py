# SPDX-License-Identifier: Apache-2.0
"""rung stage, killed at random moments and resumed: the same bytes, no incomplete folder that
opens, no files left over.

RUNG_KILLS is the number of kills (12), RUNG_KILL_MIB the size of the features in MiB (8), and
RUNG_KILL_SEED the seed of the moments (1).
A thorough run:
    RUNG_KILLS=200 RUNG_KILL_MIB=200 RUNG=build/rung python3 tests/cli/test_stage_kill.py
"""
import filecmp
import os
import random
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import CliTest, Graph, main

KILLS = int(os.environ.get("RUNG_KILLS", "12"))
MIB = int(os.environ.get("RUNG_KILL_MIB", "8"))
SEED = int(os.environ.get("RUNG_KILL_SEED", "1"))
ROW_BYTES = 1100   # rows cross the borders of blocks and pages
PLANS = ["passes", "deal", "gather"]


class StageKill(CliTest):
    def setUp(self):
        super().setUp()
        self.vertices = MIB * (1 << 20) // ROW_BYTES
        self.graph = Graph(self.folder, vertices=self.vertices, edges=4 * self.vertices,
                           row_bytes=ROW_BYTES)
        self.options = self.graph.options(
            score="degree") + ["--memory", "%dMiB" % (12 + MIB // 8), "--quiet", "--json"]
        self.expected = self.path("expected")
        began = time.monotonic()
        self.run_rung("stage", *self.options, "--out", self.expected)
        self.seconds = time.monotonic() - began

    def stage_for(self, out, seconds, *args):
        """Kill the run after `seconds`. Return True if it had finished before."""
        process = subprocess.Popen([self.command, "stage", *self.options, "--out", out, *args],
                                   stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=self.environment())
        began = time.monotonic()
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return False
        self.assertEqual(process.returncode, 0, (output, errors))
        # the run without a kill may have been slow, and most moments would be after the end
        self.seconds = min(self.seconds, time.monotonic() - began)
        return True

    def is_whole(self, out):
        names = sorted(os.listdir(out))
        self.assertEqual(names, sorted(os.listdir(self.expected)))
        for name in names:
            self.assertTrue(filecmp.cmp(os.path.join(out, name), os.path.join(self.expected, name),
                                        shallow=False), name)

    def check(self, plan, draws):
        out, kills = self.path("out"), 0
        half_done = out + ".partial"
        done = self.stage_for(out, draws.uniform(0, self.seconds), "--row-order", plan)
        while not done:   # sometimes killed again while it resumes
            kills += 1
            if os.path.exists(half_done):
                self.run_rung("info", half_done, code=1)
            if os.path.exists(out):
                self.run_rung("info", out)
                if not os.path.exists(os.path.join(out, "journal")):
                    break
            again = draws.uniform(0, self.seconds) if draws.random() < 0.3 else 300
            done = self.stage_for(out, again, "--row-order", plan, "--resume")
        self.is_whole(out)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("out")],
                         ["out"])
        shutil.rmtree(out)
        return kills

    def test_resuming_after_random_kills_gives_the_same_bytes(self):
        draws = random.Random(SEED)
        kills = tries = 0
        while kills < KILLS and tries < 5 * KILLS:
            kills += self.check(PLANS[tries % len(PLANS)], draws)
            tries += 1
        self.assertGreaterEqual(kills, KILLS)


if __name__ == "__main__":
    main()

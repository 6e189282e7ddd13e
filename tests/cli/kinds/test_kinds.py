# SPDX-License-Identifier: Apache-2.0
"""Every kind of data set is staged twice, copied, measured and planned. A command does what it is
for, or ends with one message."""
import os
import shutil
import subprocess
import sys

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support")
sys.path[:0] = [SUPPORT, os.path.join(SUPPORT, "stage")]
from clitest import main
from datasets import files, folders
from kinds import KindsTest


class Kinds(KindsTest):
    def test_staging_again_gives_the_same_bytes(self):
        def check(kind):
            self.stage(kind)
            whole = files(self.out)
            self.run_rung("info", self.out)
            self.assertIs(self.json_of("verify", self.out)["ok"], True)
            self.assertIs(self.json_of("verify", self.out, *self.repairs(kind))["ok"], True)
            self.stage(kind, "--resume")
            self.stage(kind, "--force")
            self.assertEqual(files(self.out), whole)
        self.each(check)

    def test_copies_are_equal(self):
        def check(kind):
            self.stage(kind)
            whole, copy = files(self.out), self.path("copy")
            for folder in folders(self.out):
                to = os.path.join(copy, os.path.relpath(folder, self.out)).rstrip("/.")
                os.makedirs(os.path.dirname(to), exist_ok=True)
                if folder == self.out and kind.typed:
                    self.fails("fetch", folder, self.path("typed"), code=1,
                               says=["fetch each of its parts", "copy its manifest.json last"])
                elif self.is_in_place(folder):
                    self.fails("fetch", folder, to, code=2, says="copy that file")
                else:
                    self.run_rung("fetch", folder, to, "--quiet")
                    self.run_rung("fetch", folder, to, "--quiet")   # it is there already
                    os.rename(os.path.join(to, "score.npy"), os.path.join(to, "moved"))
                    self.fails("fetch", folder, to, code=1, says="score.npy: is missing")
                    os.rename(os.path.join(to, "moved"), os.path.join(to, "score.npy"))
                if folder != self.out:
                    self.fails("fetch", folder, to, "--share", "0.4", code=2,
                               says="copy that file" if self.is_in_place(folder) else
                               "without a share")
            if kind.typed and kind.copies:
                shutil.copy(os.path.join(self.out, "manifest.json"), copy)
            if kind.copies:
                self.assertEqual(files(copy), whole)
                self.assertIs(self.json_of("verify", copy)["ok"], True)
        self.each(check)

    def test_every_folder_is_measured_and_planned_or_refused(self):
        """Each needs rows for bench, and lists for the default ids and for plan."""
        def check(kind):
            self.stage(kind)
            for folder in folders(self.out):
                names = os.listdir(folder)
                whole = folder == self.out
                rows = (whole and not kind.typed) or "features.000.npy" in names or (
                    "vertex_of_rank.npy" in names and self.is_in_place(folder))
                lists = "graph_indptr.npy" in names
                typed = whole and kind.typed
                bench = ["bench", folder, "--rows", "500", "--ids", "uniform", "--json", "--quiet"]
                if rows:
                    self.run_rung(*bench)
                else:
                    self.fails(*bench, code=2, says="has several types" if typed else "has no rows")
                plan = ["plan", folder, "--host", "400KiB"]
                if lists or typed:
                    self.planned(*plan)
                else:
                    self.fails(*plan, code=2, says="has no neighbour lists")
                    self.fails("trace", folder, code=2, says="has no neighbour lists")
                if not rows and lists:
                    self.fails(*plan, "--quantize", "int8", code=2, says="has no rows")
        self.each(check)

    def planned(self, *args):
        """A relation between two types cannot be sampled alone."""
        done = subprocess.run([self.command, *args], text=True, env=self.environment(),
                              capture_output=True, check=False)
        if done.returncode:
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("give the whole dataset", done.stderr)
            self.assertRegex(args[1], r"edges/(author\.writes|paper\.rev_writes)")


if __name__ == "__main__":
    main()

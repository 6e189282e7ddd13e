#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of the command, such as for different processors, stage the same bytes. RUNG_OTHER
names the second one."""
import os
import subprocess
import sys
import tempfile
import unittest

RUNG, OTHER = os.environ["RUNG"], os.environ.get("RUNG_OTHER")
SCORES = ("blend", "expected", "presample", "ppr", "wrpagerank", "rpagerank", "degree")

if not OTHER:
    print("skipped: it compares two builds; set RUNG_OTHER to the command of another one")
    sys.exit(77)


def run(*args, cwd):
    done = subprocess.run(args, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(args)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def contents(folder):
    """Return the contents of a staged folder by name, without the description of its sources."""
    found = {}
    for base, _, names in os.walk(folder):
        for name in set(names) - {"manifest.json"}:
            path = os.path.join(base, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


class SameBytes(unittest.TestCase):
    def test_generated_and_staged_files_are_equal(self):
        with tempfile.TemporaryDirectory(prefix="rung-same-") as tmp:
            for name, command in (("one", RUNG), ("other", OTHER)):
                run(command, "generate", name, "--model", "arxiv", "--scale", "1/20", cwd=tmp)
            first = contents(f"{tmp}/one")
            self.assertEqual(first, contents(f"{tmp}/other"))
            self.assertIn("edges.npy", first)
            for score in SCORES:
                with self.subTest(score=score):
                    for name, command in (("one", RUNG), ("other", OTHER)):
                        run(command, "stage", "--dataset", "one/dataset.json", "--score", score,
                            "--out", f"{name}-{score}", cwd=tmp)
                    first = contents(f"{tmp}/one-{score}")
                    self.assertIn("checksums.npy", first)
                    self.assertEqual(first, contents(f"{tmp}/other-{score}"))
            # each reads the other's folder and checks its rows
            run(RUNG, "verify", "other-blend", cwd=tmp)
            run(OTHER, "verify", "one-blend", cwd=tmp)
            for command in (RUNG, OTHER):
                run(command, "bench", "one-blend", "--check", "--engine", "pread", "--host", "10%",
                    "--rows", "20000", cwd=tmp)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reference of the C headers is generated, and fails for public names without documentation."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["RUNG_SOURCE_DIR"]

if not shutil.which("doxygen"):
    print("skipped: no doxygen (Debian: doxygen)")
    sys.exit(77)


class Reference(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="rung-reference-")
        self.addCleanup(holder.cleanup)
        self.source, self.out = os.path.join(holder.name,
                                             "source"), os.path.join(holder.name, "out")
        shutil.copytree(os.path.join(SOURCE, "include"), os.path.join(self.source, "include"))

    def make(self):
        return subprocess.run(["cmake", "-DSOURCE=" + self.source, "-DOUT=" + self.out, "-P",
                               os.path.join(SOURCE, "cmake", "reference.cmake")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)

    def append(self, text):
        with open(os.path.join(self.source, "include", "rung", "store.h"), "a",
                  encoding="utf-8") as header:
            header.write(text)

    def test_all_public_names_are_documented(self):
        done = self.make()
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(os.path.join(self.out, "c", "store_8h.html"), encoding="utf-8") as page:
            self.assertIn("rung_gather_submit", page.read())
        self.assertTrue(os.path.exists(os.path.join(self.out, "index.html")))

    def test_undocumented_names_are_reported(self):
        for text, name in (("int rung_silent(int x);\n", "rung_silent"),
                           ("struct rung_mute { int x; };\n", "rung_mute"),
                           ("#define RUNG_STILL 1\n", "RUNG_STILL")):
            self.append(text)
            done = self.make()
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertIn(name, done.stdout)

    def test_a_comment_for_another_parameter_is_reported(self):
        self.append("/** Do it.  @param y  what */\nint rung_wrong(int x);\n")
        done = self.make()
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("rung_wrong", done.stdout)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of README.md are those of bench/results/, and the pictures those of the command."""
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "tools"))
import figures


class Figures(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
            self.readme = file.read()

    @unittest.skipUnless(os.environ.get("RUNG"), "this build has no command")
    def test_the_readme_and_its_pictures_are_current(self):
        done = subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "tools/figures.py"),
                               "--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_every_table_is_used_and_written_again(self):
        used = re.findall("<!-- figures: (.*) -->", self.readme)
        self.assertEqual(sorted(used), sorted(figures.TABLES))
        for name in used:
            [table] = re.findall(f"<!-- figures: {name} -->\n(.*?)<!-- end -->", self.readme, re.S)
            changed = self.readme.replace(table, re.sub(r"\d", "7", table))
            self.assertNotEqual(changed, self.readme)
            self.assertEqual(figures.inserted(changed), self.readme)

    @unittest.skipUnless(os.environ.get("RUNG"), "this build has no command")
    def test_a_changed_picture_is_found(self):
        name = min(figures.PICTURES)
        with tempfile.TemporaryDirectory(prefix="rung-figures-test-") as folder:
            self.addCleanup(setattr, figures, "IMAGES", figures.IMAGES)
            shutil.copytree(figures.IMAGES, folder, dirs_exist_ok=True)
            figures.IMAGES = folder
            with open(os.path.join(folder, name), "a", encoding="utf-8") as file:
                file.write("<!-- changed -->\n")
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                self.assertTrue(figures.check(self.readme))
            self.assertIn("-<!-- changed -->", printed.getvalue())
            os.remove(os.path.join(folder, name))
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                self.assertTrue(figures.check(self.readme))
            self.assertIn("--- docs/img/" + name, printed.getvalue())

    def test_a_missing_command(self):
        done = subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "tools/figures.py"),
                               "--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, env={**os.environ, "RUNG": "/none/rung"})
        self.assertEqual((done.returncode, done.stdout), (
            1, "figures.py: /none/rung was not found; build rung, or set RUNG\n"))

    def test_wrong_options(self):
        done = subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "tools/figures.py"),
                               "--verify"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("usage: tools/figures.py", done.stdout)


if __name__ == "__main__":
    unittest.main()

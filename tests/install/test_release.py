#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/release.sh: its options, and the source archive."""
import filecmp
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SOURCE = os.environ["RUNG_SOURCE_DIR"]
CC = os.environ.get("RUNG_CC") or "cc"
SCRIPT = os.path.join(SOURCE, "tools/release.sh")

if os.environ.get("RUNG_SANITIZE"):
    print("skipped: a release does not depend on the sanitizer of this build")
    sys.exit(77)


def git(*args):
    return subprocess.run(["git", "-C", SOURCE, *args], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="rung-release-")
        cls.addClassCleanup(holder.cleanup)
        cls.tmp = holder.name

    def release(self, *options, umask=0o022, **variables):
        return subprocess.run([SCRIPT, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, umask=umask, env={**os.environ, **variables})

    def refused(self, *options):
        done = self.release("--out", os.path.join(self.tmp, "refused"), *options)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr.splitlines()[-1]

    def test_help_names_every_option(self):
        done = self.release("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(SCRIPT) as script:
            cases = re.findall(r"^\t(--.*?)\)", script.read(), re.M)
        options = set(re.findall(r"--[a-z-]+", " ".join(cases))) - {"--help"}
        self.assertGreater(len(options), 3)
        for option in options:
            self.assertIn(option, done.stdout)

    def test_wrong_options_are_refused(self):
        self.assertEqual(self.refused("--upload"),
                         "tools/release.sh: unknown option '--upload'")
        self.assertEqual(self.refused("--jobs", "0"),
                         "tools/release.sh: --jobs: invalid number '0'")
        self.assertEqual(self.refused("--only", "rpm"), "tools/release.sh: --only: unknown part "
                         "'rpm'; use archive, sdist, wheel or debian")
        self.assertEqual(self.refused("--out"), "tools/release.sh: --out needs a value")
        self.assertEqual(self.refused("--no-try", "--try-only"),
                         "tools/release.sh: --no-try and --try-only exclude each other")
        self.assertFalse(os.path.exists(os.path.join(self.tmp, "refused")))

    def test_trials_need_a_wheel(self):
        if os.geteuid() or not (shutil.which("debootstrap") and shutil.which("unshare")):
            self.skipTest("trials need root, debootstrap and unshare")
        out = os.path.join(self.tmp, "empty")
        done = self.release("--try-only", "--out", out)
        self.assertEqual((done.returncode, done.stderr), (
            1, f"tools/release.sh: no wheel to try in {out}; build it, too, or use --no-try\n"))

    def test_all_files_name_the_same_version(self):
        found = {}
        for name, pattern in (("CMakeLists.txt", r"^project\(rung VERSION ([\d.]+)"),
                              ("python/rung/_library.py", r'^VERSION = "([\d.]+)"'),
                              ("tools/debian/changelog", r"\Arung \(([\d.]+)-"),
                              ("CHANGELOG.md", r"^## ([\d.]+)"),
                              ("README.md", r"pip install rung-([\d.]+)-py3"),
                              *((f"tools/man/{page}", r"\A% RUNG\S* rung ([\d.]+) ")
                                for page in os.listdir(os.path.join(SOURCE, "tools/man"))
                                if page.endswith(".md"))):
            with open(os.path.join(SOURCE, name)) as text:
                match = re.search(pattern, text.read(), re.M)
            found[name] = match and match[1]
        self.assertEqual(set(found.values()), {found["CMakeLists.txt"]}, found)

    def build_archive(self, name, **kwargs):
        out = os.path.join(self.tmp, name)
        done = self.release("--only", "archive", "--no-try", "--out", out, **kwargs)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = glob.glob(os.path.join(out, "rung-*.tar.xz"))
        self.assertEqual(len(found), 1, os.listdir(out))
        return found[0]

    def test_the_archive(self):
        """It has the same bytes each time, and all that its build needs, without pandoc."""
        if git("rev-parse", "HEAD").returncode:
            self.skipTest("the source tree is not a git repository")
        if not shutil.which("pandoc"):
            self.skipTest("pandoc was not found")
        first = self.build_archive("first", TZ="UTC")
        second = self.build_archive("second", umask=0o077, TZ="Asia/Tokyo", LC_ALL="C")
        self.assertTrue(filecmp.cmp(first, second, shallow=False), "the archives differ")
        sums = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=os.path.dirname(first),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual((sums.returncode, sums.stdout),
                         (0, os.path.basename(first) + ": OK\n"))
        with tarfile.open(first) as archive:
            archive.extractall(self.tmp)
        tree = os.path.join(self.tmp, os.path.basename(first).removesuffix(".tar.xz"))
        for source in glob.glob(os.path.join(tree, "tools/man/*.1.md")):
            with open(source[:-3]) as page:
                self.assertIn(".TH ", page.read(), source)
        done = subprocess.run(["cmake", "-S", tree, "-B", tree + "/build", "-DPANDOC=OFF",
                               f"-DCMAKE_C_COMPILER={CC}", "-DRUNG_TESTS=OFF", "-DRUNG_CUDA=OFF"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("man pages: yes, from the release archive", done.stdout)
        commit = git("rev-parse", "--short=12", "HEAD").stdout.strip()
        self.assertIn(f"({commit}), ", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)

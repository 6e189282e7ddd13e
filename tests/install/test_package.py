#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package from source: an sdist, the wheel built from it, and an editable install."""
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

SOURCE = os.environ["RUNG_SOURCE_DIR"]
CC = os.environ.get("RUNG_CC") or "cc"
SDIST_MAX = 5 << 20
# the library is compiled once for the wheel and the editable install, without optimisation
SETTINGS = [f"--config-setting={text}" for text in
            ("cmake.build-type=Debug", "cmake.define.CMAKE_C_FLAGS_DEBUG=-O0",
             f"cmake.define.CMAKE_C_COMPILER={CC}", "cmake.define.RUNG_CUDA=OFF")]
# prints where the library, the headers and the modules are, and a result of the library
PROGRAM = """
import numpy, rung
from rung import _library
x = numpy.arange(640, dtype=numpy.float32).reshape(40, 16)
rung.stage("graph.rung", graph=numpy.arange(80).reshape(2, 40) % 40, features=x, force=True)
assert (rung.open("graph.rung").gather([39, 0]) == x[[39, 0]]).all()
print(_library.lib._name, _library._headers.folder, rung.__file__, sep="\\n")
"""

if os.environ.get("RUNG_TESTS_ALL") != "1":
    print("skipped: it downloads build tools and compiles rung; set RUNG_TESTS_ALL=1 to run it")
    sys.exit(77)
if os.environ.get("RUNG_SANITIZE"):
    print("skipped: the interpreter would have to load the sanitizer's runtime")
    sys.exit(77)


def run(*args, **kwargs):
    """Run a command that must succeed; return its stdout."""
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **kwargs)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(args)}: exit {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="rung-package-")
        cls.addClassCleanup(holder.cleanup)
        cls.tmp = holder.name
        cls.env = {name: value for name, value in os.environ.items()
                   if name not in ("PYTHONPATH", "RUNG_LIBRARY")}
        cls.bin = os.path.join(cls.tmp, "venv", "bin")
        cls.python = os.path.join(cls.bin, "python")
        run(sys.executable, "-m", "venv", os.path.join(cls.tmp, "venv"))
        done = subprocess.run([cls.python, "-m", "pip", "install", "--quiet", "build", "numpy",
                               "scikit-build-core>=0.11", "setuptools"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise unittest.SkipTest(f"the build tools cannot be installed: {done.stdout[-300:]}")
        cls.build("--sdist", SOURCE)
        cls.sdist = cls.built(".tar.gz")
        with tarfile.open(cls.sdist) as files:
            cls.names = [name.partition("/")[2] for name in files.getnames()]
            files.extractall(cls.tmp)
        cls.tree = cls.sdist[:-len(".tar.gz")]
        cls.settings = [*SETTINGS, f"--config-setting=build-dir={cls.tmp}/build"]
        cls.build("--wheel", cls.tree, *cls.settings)
        cls.wheel = cls.built(".whl")

    @classmethod
    def build(cls, kind, source, *options):
        run(cls.python, "-m", "build", "--no-isolation", kind, "--outdir", cls.tmp, *options,
            source, env=cls.env)

    @classmethod
    def built(cls, suffix):
        found = [name for name in os.listdir(cls.tmp) if name.endswith(suffix)]
        assert len(found) == 1, found
        return os.path.join(cls.tmp, found[0])

    def install(self, *args):
        run(self.python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall",
            "--no-build-isolation", *args, env=self.env)
        self.assertIn("rung ", run(os.path.join(self.bin, "rung"), "--version"))
        return run(self.python, "-c", PROGRAM, env=self.env, cwd=self.tmp).splitlines()[-3:]

    def test_the_sdist_has_the_source_alone(self):
        self.assertLess(os.path.getsize(self.sdist), SDIST_MAX)
        self.assertLessEqual({"PKG-INFO", "LICENSE", "CMakeLists.txt", "python/rung/py.typed",
                              "include/rung/store.h"}, set(self.names))
        self.assertEqual([name for name in self.names
                          if name.startswith(("build", "demo", ".ci", ".git/", "bench/results/"))
                          or "__pycache__" in name], [])

    def test_the_wheel_has_library_command_and_manual(self):
        with zipfile.ZipFile(self.wheel) as files:
            names = files.namelist()
            metadata = next(name for name in names if name.endswith("/METADATA"))
            text = files.read(metadata).decode()
        data = metadata.partition(".dist-info/")[0] + ".data"
        expected = {"rung/librung.so", "rung/include/rung/store.h", f"{data}/scripts/rung",
                    f"{data}/data/share/bash-completion/completions/rung",
                    f"{data}/data/share/zsh/site-functions/_rung",
                    f"{data}/data/share/fish/vendor_completions.d/rung.fish",
                    metadata.replace("METADATA", "licenses/LICENSE")}
        if shutil.which("pandoc"):
            expected |= {f"{data}/data/share/man/man1/{name}" for name in ("rung.1",
                                                                           "rung-stage.1")}
        self.assertLessEqual(expected, set(names))
        self.assertRegex(os.path.basename(self.wheel), r"^rung-[\d.]+-py3-none-linux_\w+\.whl$")
        self.assertIn("License-Expression: Apache-2.0", text)
        # PyPI shows the page without the tree around it
        self.assertNotRegex(text, r"\]\((?!https?://)")

    def test_the_wheel_works(self):
        library, headers, module = self.install(self.wheel)
        folder = os.path.dirname(module)
        self.assertTrue(module.startswith(os.path.join(self.tmp, "venv")), module)
        self.assertEqual(library, os.path.join(folder, "librung.so"))
        self.assertEqual(headers, os.path.join(folder, "include", "rung"))

    def test_an_editable_install_works_and_is_editable(self):
        library, headers, module = self.install(*self.settings, "--editable", self.tree)
        self.assertTrue(module.startswith(self.tree), module)
        for path in (library, headers):
            self.assertTrue(path.startswith(os.path.join(self.tmp, "venv")), path)
        with open(module, "a", encoding="utf-8") as source:
            source.write("\nEDITED = 26\n")
        self.assertEqual(run(self.python, "-c", "import rung; print(rung.EDITED)", env=self.env,
                             cwd=self.tmp), "26\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Configuring: each part is AUTO, ON or OFF, and the summary lists found parts and the reasons for
missing ones."""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["RUNG_SOURCE_DIR"]
CC = os.environ.get("RUNG_CC") or "cc"
PARTS = ("io_uring", "numa", "openmp", "cuda", "blas")

if os.environ.get("RUNG_SANITIZE"):
    print("skipped: configuring does not depend on the sanitizer of this build")
    sys.exit(77)


class Options(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="rung-options-")
        self.addCleanup(holder.cleanup)
        self.tmp = holder.name

    def configure(self, *options, hide=()):
        """Configure with some pkg-config packages hidden; return (exit status, output)."""
        env = dict(os.environ)
        if hide:
            env["PKG_CONFIG_LIBDIR"] = self.packages_without(hide)
            env.pop("PKG_CONFIG_PATH", None)
        done = subprocess.run(["cmake", "-S", SOURCE, "-B", os.path.join(self.tmp, "build"),
                               f"-DCMAKE_C_COMPILER={CC}",
                               "-DRUNG_TESTS=OFF", *options], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, re.sub(r"\s+", " ", done.stdout) if done.returncode else done.stdout

    def packages_without(self, hide):
        folder = os.path.join(self.tmp, "pkgconfig")
        os.mkdir(folder)
        paths = subprocess.run(["pkg-config", "--variable", "pc_path", "pkg-config"],
                               stdout=subprocess.PIPE, text=True,
                               check=True).stdout.strip().split(":")
        for path in paths:
            for pc in glob.glob(os.path.join(path, "*.pc")):
                name = os.path.basename(pc)
                if name[:-3] not in hide and not os.path.lexists(os.path.join(folder, name)):
                    os.symlink(pc, os.path.join(folder, name))
        return folder

    def summary(self, *options, hide=()):
        """Configure, which must succeed; return {part: (yes or no, reason)}."""
        status, text = self.configure(*options, hide=hide)
        self.assertEqual(status, 0, text)
        return {m[1]: (m[2], m[3]) for m in re.finditer(r"^--   (\w+): (yes|no), (.+)$", text,
                                                        re.M)}

    def refused(self, *options, hide=()):
        status, text = self.configure(*options, hide=hide)
        self.assertNotEqual(status, 0, f"{shlex.join(options)} was accepted")
        return text

    def test_summary_names_every_part_with_its_reason(self):
        found = self.summary()
        self.assertEqual(tuple(found), PARTS)
        for part, (_, why) in found.items():
            self.assertGreater(len(why), 3, part)

    def test_every_part_can_be_turned_off(self):
        found = self.summary(*[f"-DRUNG_{part.upper()}=OFF" for part in PARTS])
        self.assertEqual(found, dict.fromkeys(PARTS, ("no", "turned off at build time")))

    def test_missing_parts_are_omitted_and_named(self):
        found = self.summary(hide=("liburing", "numa", "openblas"))
        self.assertEqual(found["io_uring"],
                         ("no", "liburing 2.3 or newer was not found (Debian: liburing-dev)"))
        self.assertEqual(found["numa"], ("no", "libnuma was not found (Debian: libnuma-dev)"))
        self.assertEqual(found["blas"], ("no", "OpenBLAS was not found (Debian: libopenblas-dev)"))

    def test_on_fails_if_the_part_is_missing(self):
        text = self.refused("-DRUNG_IO_URING=ON", hide=("liburing",))
        self.assertIn("RUNG_IO_URING=ON, but liburing 2.3 or newer was not found (Debian: "
                      "liburing-dev)", text)

    def broken_nvcc(self, script):
        """Write a script that acts as nvcc; return the option that selects it."""
        path = os.path.join(self.tmp, "nvcc")
        with open(path, "w") as out:
            out.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        return f"-DRUNG_NVCC={path}"

    def test_cuda_without_nvcc_is_omitted_and_named(self):
        nowhere = f"-DRUNG_NVCC={self.tmp}/nowhere/nvcc"
        self.assertEqual(self.summary(nowhere)["cuda"], ("no", "nvcc was not found (CUDA toolkit)"))
        self.assertIn("RUNG_CUDA=ON, but nvcc was not found (CUDA toolkit)",
                      self.refused(nowhere, "-DRUNG_CUDA=ON"))

    def test_an_error_of_nvcc_is_quoted(self):
        nvcc = self.broken_nvcc('case $1 in --list-gpu-arch) echo compute_75;; '
                                '--version) echo "release 13, V13.0.9";; '
                                '*) echo "nvcc fatal   : no host compiler here" >&2; exit 1;; '
                                'esac\n')
        why = "nvcc does not compile: nvcc fatal : no host compiler here"
        part, text = self.summary(nvcc)["cuda"]
        self.assertEqual((part, " ".join(text.split())), ("no", why))
        os.remove(os.path.join(self.tmp, "build", "CMakeCache.txt"))
        self.assertIn("RUNG_CUDA=ON, but " + why, self.refused(nvcc, "-DRUNG_CUDA=ON"))

    def test_an_nvcc_without_the_architectures_is_not_used(self):
        nvcc = self.broken_nvcc('case $1 in --list-gpu-arch) echo compute_75;; '
                                '--version) echo "release 13, V13.0.9";; esac\n')
        why = "nvcc supports no architecture of CMAKE_CUDA_ARCHITECTURES"
        self.assertEqual(self.summary(nvcc, "-DCMAKE_CUDA_ARCHITECTURES=90;751")["cuda"],
                         ("no", why))

    def test_an_old_nvcc_is_not_used(self):
        nvcc = self.broken_nvcc('case $1 in --list-gpu-arch) echo compute_75;; '
                                '--version) echo "release 12.4, V12.4.131";; esac\n')
        why = "the CUDA toolkit is version 12.4.131; 12.5 or newer is needed"
        self.assertEqual(self.summary(nvcc)["cuda"], ("no", why))

    def test_openmp_and_thread_sanitizer_exclude_each_other(self):
        self.assertIn("not built for ThreadSanitizer",
                      self.refused("-DRUNG_OPENMP=ON", "-DRUNG_SANITIZE=thread"))
        os.remove(os.path.join(self.tmp, "build", "CMakeCache.txt"))
        part, why = self.summary("-DRUNG_SANITIZE=thread")["openmp"]
        self.assertEqual(part, "no")
        self.assertIn("ThreadSanitizer", why)

    def test_a_missing_required_library_is_named(self):
        self.assertIn("libxxhash>=0.8 was not found by pkg-config (Debian: libxxhash-dev)",
                      self.refused(hide=("libxxhash",)))

    @unittest.skipUnless(shutil.which("c++"), "no C++ compiler")
    def test_a_compiler_that_is_installed_later_is_used(self):
        """tools/demo.sh configures the same folder without one, before tests/run.sh installs it."""
        status, text = self.configure("-DRUNG_TESTS=ON", "-DCMAKE_CXX_COMPILER=NOTFOUND")
        self.assertEqual(status, 0, text)
        self.assertNotIn("no C++ compiler was found", text)

    def test_unknown_values_are_rejected(self):
        self.assertIn("RUNG_NUMA has the unknown value 'maybe'; use AUTO, ON or OFF",
                      self.refused("-DRUNG_NUMA=maybe"))


if __name__ == "__main__":
    unittest.main(verbosity=2)

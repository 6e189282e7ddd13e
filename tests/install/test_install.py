#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An installation by `cmake --install` works for programs that link it: with find_package and
pkg-config, shared and static, in C and C++."""
import array
import glob
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ["RUNG_BUILD_DIR"]
SOURCE = os.environ["RUNG_SOURCE_DIR"]
CC = os.environ.get("RUNG_CC") or "cc"
HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, ROW_BYTES = 8192, 512     # 4 MiB of features: half of it leaves room for the staging slots
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]

if os.environ.get("RUNG_SANITIZE"):
    print("skipped: a library built with sanitizers needs their runtime in every program that "
          "links it")
    sys.exit(77)


def cxx_compiler():
    """Return the C++ compiler next to the C compiler, or another one, or None."""
    name = os.path.basename(CC)
    candidates = [CC[:-len(name)] + name.replace("clang", "clang++").replace("gcc", "g++"), "c++",
                  "g++", "clang++"]
    return next((found for c in candidates if c != CC for found in [shutil.which(c)] if found),
                None)


def run(*args, **kwargs):
    """Run a command that must succeed; return its stdout."""
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(args)}: exit "
                             f"{done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def man_pages():
    """Return the names of the generated man pages."""
    return sorted(os.path.basename(p)[:-3]
                  for p in glob.glob(os.path.join(glob.escape(SOURCE), "tools/man/*.1.md")))


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(base, name), folder) for base, _,
                  names in os.walk(folder) for name in names)


class Installed(unittest.TestCase):
    """All tests share one installation, in a folder with a space in its name."""

    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory(prefix="rung-install-")
        cls.addClassCleanup(cls.holder.cleanup)
        cls.tmp = cls.holder.name
        cls.prefix = os.path.join(cls.tmp, "a prefix")
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.pkgconfig_dir = os.path.dirname(cls.find("rung.pc"))
        cls.libdir = os.path.dirname(cls.pkgconfig_dir)
        cls.env = dict(os.environ, PKG_CONFIG_PATH=cls.pkgconfig_dir)
        cls.dataset = None

    @classmethod
    def find(cls, name):
        found = [p for p in files_below(cls.prefix) if os.path.basename(p) == name]
        assert len(found) == 1, f"{name}: {found}"
        return os.path.join(cls.prefix, found[0])

    @classmethod
    def stage(cls):
        """Stage a dataset once with the installed command, from files without headers."""
        if cls.dataset:
            return
        rng = random.Random(20)
        cls.features = os.path.join(cls.tmp, "features.bin")
        with open(cls.features, "wb") as out:
            out.write(rng.randbytes(ROWS * ROW_BYTES))
        edges = array.array("q", (rng.randrange(ROWS) for _ in range(2 * 20000)))
        with open(os.path.join(cls.tmp, "edges.bin"), "wb") as out:
            edges.tofile(out)
        with open(os.path.join(cls.tmp, "train.bin"), "wb") as out:
            array.array("q", range(1000)).tofile(out)
        dataset = os.path.join(cls.tmp, "dataset")
        run(os.path.join(cls.prefix, "bin", "rung"), "stage", "--quiet",
            "--graph", f"raw:{cls.tmp}/edges.bin,i64,2x20000",
            "--features", f"raw:{cls.features},f32,{ROWS}x{ROW_BYTES // 4}",
            "--split", f"train=raw:{cls.tmp}/train.bin,i64,1000", "--out", dataset)
        cls.dataset = dataset

    # -- programs that link it ----

    def check_consumer(self, program, env=None):
        self.stage()
        out = run(program, self.dataset, str(ROWS), str(ROW_BYTES), self.features, env=env)
        self.assertIn(f"{2 * ROWS} rows gathered, 0 wrong", out)
        self.assertIn("missing: ", out)

    def check_find_package(self, static):
        project = os.path.join(self.tmp, f"project-{static}")
        os.mkdir(project)
        shutil.copy(os.path.join(HERE, "consumer.c"), project)
        with open(os.path.join(project, "CMakeLists.txt"), "w") as out:
            out.write("cmake_minimum_required(VERSION 3.16)\nproject(consumer "
                      "C)\nset(CMAKE_C_STANDARD 11)\n"
                      f"set(RUNG_STATIC {static})\nfind_package(rung 0.1 REQUIRED)\n"
                      "add_executable(consumer consumer.c)\ntarget_link_libraries(consumer "
                      "PRIVATE rung::rung)\n")
        build = os.path.join(project, "build")
        run("cmake", "-S", project, "-B", build, f"-DCMAKE_C_COMPILER={CC}",
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        program = os.path.join(build, "consumer")
        self.check_consumer(program)
        self.check_needs_librung(program, not static)

    def check_pkg_config(self, static):
        flags = shlex.split(run("pkg-config", *(["--static"] if static else []), "--cflags",
                                "--libs", "rung", env=self.env))
        if static:    # both are in one folder, where -lrung selects the shared one
            flags = [os.path.join(self.libdir, "librung.a") if f == "-lrung" else f for f in flags]
        program = os.path.join(self.tmp, f"consumer-pkg-{static}")
        run(CC, "-std=c11", *WARNINGS, os.path.join(HERE, "consumer.c"), "-o", program, *flags)
        self.check_consumer(program,
                            None if static else dict(os.environ, LD_LIBRARY_PATH=self.libdir))
        self.check_needs_librung(program, not static)

    def check_needs_librung(self, program, expected):
        needed = re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", program))
        self.assertEqual("librung.so.0" in needed, expected, needed)

    def test_find_package_shared(self):
        self.check_find_package(0)

    def test_find_package_static(self):
        self.check_find_package(1)

    def test_pkg_config_shared(self):
        self.check_pkg_config(False)

    def test_pkg_config_static(self):
        self.check_pkg_config(True)

    def build_example(self, name):
        """Build a program of docs/C.md as described there; return its path."""
        with open(os.path.join(SOURCE, "docs/C.md")) as text:
            code = re.search(rf"^```c\n(/\* {name}\.c: .*?)^```$", text.read(), re.M | re.S)[1]
        source = os.path.join(self.tmp, name + ".c")
        with open(source, "w") as out:
            out.write(code)
        flags = shlex.split(run("pkg-config", "--cflags", "--libs", "rung", env=self.env))
        run(CC, "-std=c11", *WARNINGS, source, "-o", source[:-2], *flags)
        self.stage()
        return source[:-2]

    def test_the_examples_of_the_guide(self):
        env = dict(os.environ, LD_LIBRARY_PATH=self.libdir)
        program = self.build_example("first_rows")
        with open(self.features, "rb") as data:
            rows = [data.read(ROW_BYTES) for _ in range(3)]
        self.assertEqual(run(program, self.dataset, env=env),
                         "".join(f"vertex {v}: {rows[v][0]:02x} {rows[v][1]:02x} ...\n"
                                 for v in (2, 0, 1, 2)))
        program = self.build_example("epoch")
        self.assertRegex(run(program, self.dataset, env=env), r"\A4 batches, \d+ rows\n\Z")

    def test_cxx_consumer(self):
        cxx = cxx_compiler()
        if not cxx:
            self.skipTest("no C++ compiler")
        flags = shlex.split(run("pkg-config", "--cflags", "--libs", "rung", env=self.env))
        program = os.path.join(self.tmp, "consumer-cxx")
        run(cxx, "-std=c++17", *WARNINGS, os.path.join(HERE, "consumer.cpp"), "-o", program, *flags)
        self.assertIn("rung ", run(program, env=dict(os.environ, LD_LIBRARY_PATH=self.libdir)))

    def test_shared_users_need_no_other_package(self):
        """For the shared library, pkg-config lists only rung itself."""
        libs = shlex.split(run("pkg-config", "--libs", "rung", env=self.env))
        self.assertEqual([f for f in libs if f.startswith("-l")], ["-lrung"])
        self.assertEqual(run("pkg-config", "--print-requires-private", "rung",
                             env=self.env).split(), [])

    def test_find_package_refuses_another_version(self):
        project = os.path.join(self.tmp, "project-version")
        os.mkdir(project)
        with open(os.path.join(project, "CMakeLists.txt"), "w") as out:
            out.write("cmake_minimum_required(VERSION 3.16)\nproject(consumer "
                      "NONE)\nfind_package(rung 99.0 REQUIRED)\n")
        done = subprocess.run(["cmake", "-S", project, "-B", project + "/build",
                               f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rung-config.cmake, version: 0.", done.stdout)

    # -- headers ----

    def check_headers(self, compiler, language, standard):
        include = os.path.join(self.prefix, "include")
        headers = sorted(glob.glob(os.path.join(glob.escape(include), "rung", "*.h")))
        self.assertEqual([os.path.basename(h) for h in headers],
                         sorted(os.path.basename(h)
                                for h in glob.glob(os.path.join(SOURCE, "include/rung/*.h"))))
        for header in headers:
            with self.subTest(header=os.path.basename(header), standard=standard):
                run(compiler, "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only", "-I",
                    include, "-",
                    input=f'#include "{header}"\n#include "{header}"\n')

    def test_headers_alone_as_c11(self):
        self.check_headers(CC, "c", "c11")

    def test_headers_alone_as_c17(self):
        self.check_headers(CC, "c", "c17")

    def test_headers_alone_as_cxx17(self):
        cxx = cxx_compiler()
        if not cxx:
            self.skipTest("no C++ compiler")
        self.check_headers(cxx, "c++", "c++17")

    # -- symbols ----

    def declared(self):
        """Return the functions that the headers mark RUNG_API."""
        text = ""
        for path in glob.glob(os.path.join(SOURCE, "include/rung/*.h")):
            with open(path) as header:
                text += header.read()
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        return {m.group(1) for m in re.finditer(r"^RUNG_API\b[^;{]*?\b(rung_\w+)\(", text, re.M)}

    def defined(self, *args):
        return {line.split()[-1] for line in run("nm", *args).splitlines()
                if len(line.split()) == 3}

    def test_shared_library_exports_only_declared_functions(self):
        exported = self.defined("-D", "--defined-only", os.path.join(self.libdir, "librung.so"))
        self.assertEqual(exported, self.declared())
        self.assertGreater(len(exported), 40)

    def test_static_library_uses_only_its_prefixes(self):
        names = self.defined("-g", "--defined-only", os.path.join(self.libdir, "librung.a"))
        # .gomp_critical_*: locks that compilers add for OpenMP and that all libraries share
        self.assertEqual({n for n in names
                          if not re.match(r"rung__?[a-z]|\.gomp_critical_user_", n)}, set())

    def test_shared_library_has_its_soname(self):
        out = run("objdump", "-p", os.path.join(self.libdir, "librung.so"))
        self.assertRegex(out, r"SONAME\s+librung\.so\.0\b")

    # -- the tree ----

    def test_installed_files_do_not_contain_build_folders(self):
        for name in files_below(self.prefix):
            if name.endswith((".cmake", ".pc", ".h", ".1")):
                with open(os.path.join(self.prefix, name)) as text:
                    content = text.read()
                for folder in (BUILD, SOURCE, self.prefix):
                    self.assertNotIn(folder, content, name)

    def test_a_moved_installation_works(self):
        moved = os.path.join(self.tmp, "moved")
        shutil.copytree(self.prefix, moved, symlinks=True)
        pc = glob.glob(moved + "/**/rung.pc", recursive=True)[0]
        cflags = run("pkg-config", "--cflags", "rung",
                     env=dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(pc)))
        include = [f[2:] for f in shlex.split(cflags) if f.startswith("-I")]
        self.assertEqual([os.path.realpath(i) for i in include],
                         [os.path.realpath(moved + "/include")])
        self.assertIn("rung ", run(moved + "/bin/rung", "--version"))

    def test_destdir_has_the_same_files(self):
        root = os.path.join(self.tmp, "root")
        run("cmake", "--install", BUILD, "--prefix", "/opt/rung",
            env=dict(os.environ, DESTDIR=root))
        self.assertEqual(files_below(root + "/opt/rung"), files_below(self.prefix))

    def component(self, build, name):
        """Install one component of a build; return its files."""
        prefix = os.path.join(self.tmp, f"component-{os.path.basename(build)}-{name}")
        run("cmake", "--install", build, "--prefix", prefix, "--component", name)
        return files_below(prefix)

    def test_each_file_belongs_to_one_component(self):
        parts = {name: self.component(BUILD, name)
                 for name in ("runtime", "devel", "command", "docs")}
        self.assertEqual(sorted(sum(parts.values(), [])), files_below(self.prefix))
        for name in parts["runtime"]:
            self.assertRegex(name, r"/librung\.so\.0(\.\d+\.\d+)?$")
        self.assertIn("bin/rung", parts["command"])
        for name in ("librung.so", "librung.a", "rung.pc", "rung-config.cmake", "rung.h"):
            self.assertIn(name, [os.path.basename(f) for f in parts["devel"]])

    def test_documentation_and_examples_are_installed(self):
        folder = os.path.dirname(self.find("LICENSE"))
        self.assertEqual(folder, os.path.join(self.prefix, "share/doc/rung"))
        expected = ["CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "bench/README.md"]
        for source, kind in ("docs", (".md", ".svg")), ("python/examples", ".py"):
            found = [f"{source}/{name}" for name in files_below(os.path.join(SOURCE, source))
                     if name.endswith(kind)]
            self.assertGreater(len(found), 3, source)
            expected += found
        self.assertEqual(files_below(folder), sorted(expected))

    def test_the_completions_are_installed(self):
        for name, says in (("bash-completion/completions/rung", "complete "),
                           ("zsh/site-functions/_rung", "#compdef rung"),
                           ("fish/vendor_completions.d/rung.fish", "complete -c rung")):
            with open(os.path.join(self.prefix, "share", name)) as script:
                self.assertIn(says, script.read())

    # -- man pages ----

    def configure(self, source, *options):
        """Configure without pandoc; return the build folder and the summary's line on pages."""
        build = tempfile.mkdtemp(prefix="pages-", dir=self.tmp)
        out = run("cmake", "-S", source, "-B", build, f"-DCMAKE_C_COMPILER={CC}", "-DPANDOC=OFF",
                  "-DRUNG_TESTS=OFF", "-DRUNG_BENCH=OFF", "-DRUNG_CUDA=OFF", *options)
        return build, re.search(r"^--   man pages: (.*)$", out, re.M)[1]

    def pages_of(self, build):
        return [f for f in self.component(build, "docs") if f.startswith("share/man/")]

    def test_man_pages_are_installed(self):
        pages = man_pages()
        if not (shutil.which("pandoc") or glob.glob(os.path.join(SOURCE, "tools/man/*.1"))):
            self.skipTest("pandoc was not found: no man pages")
        self.assertEqual(sorted(os.path.basename(f) for f in files_below(self.prefix)
                                if "/man1/" in f), pages)
        self.assertIn("rung.1", pages)
        for name in pages:
            with open(self.find(name)) as page:
                self.assertIn(".TH ", page.read(), name)

    def copy_of_the_source(self, *pages):
        """Return a copy of what configuring reads, with these man pages and no others."""
        copy = tempfile.mkdtemp(prefix="source-", dir=self.tmp)
        shutil.copytree(SOURCE, copy, dirs_exist_ok=True, symlinks=True,
                        ignore=shutil.ignore_patterns(".git", "build*", "*.1", "tests", "results"))
        for name in pages:
            with open(os.path.join(copy, "tools/man", name), "w") as page:
                page.write(f".TH {name}\n")
        return copy

    def test_the_summary_reports_that_pandoc_is_missing(self):
        build, line = self.configure(self.copy_of_the_source())
        self.assertEqual(line, "no, pandoc was not found (Debian: pandoc)")
        self.assertEqual(self.pages_of(build), [])

    def test_man_pages_of_a_release_archive_need_no_pandoc(self):
        pages = man_pages()
        build, line = self.configure(self.copy_of_the_source(*pages))
        self.assertEqual(line, "yes, from the release archive")
        self.assertEqual(self.pages_of(build), [f"share/man/man1/{name}" for name in pages])


if __name__ == "__main__":
    unittest.main(verbosity=2)

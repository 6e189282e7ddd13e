#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each program that a script calls by name is in a list of tools/packages.sh that is installed for
this script, or is part of every Debian system."""
import collections
import contextlib
import os
import re
import subprocess
import unittest

import programs
import tree as trees

SOURCE = os.environ.get("RUNG_SOURCE_DIR") or os.path.dirname(os.path.dirname(
    os.path.dirname(os.path.abspath(__file__))))
OWN = {"rung"}
# Debian 12's packages, and the programs of them that scripts call.
PACKAGES = {
    "apt": "apt-cache apt-get",
    "bash": "bash",
    "binutils": "nm objdump readelf strip",
    "busybox-static": "busybox",
    "clang": "clang++",
    "clang-format": "clang-format",
    "cmake": "cmake ctest",
    "coreutils": "basename cat chmod chroot cp cut dd df dirname du env head id ln ls mkdir mktemp "
                 "mv nproc paste realpath rm sha256sum sort stat tail tee timeout touch tr "
                 "uname wc",
    "cpio": "cpio",
    "curl": "curl",
    "dash": "sh",
    "debhelper": "dh",
    "debootstrap": "debootstrap",
    "diffutils": "cmp",
    "doxygen": "doxygen",
    "dpkg": "dpkg dpkg-deb dpkg-query",
    "dpkg-dev": "dpkg-buildpackage dpkg-source",
    "e2fsprogs": "debugfs mkfs.ext4",
    "findutils": "find xargs",
    "fio": "fio",
    "fish": "fish",
    "fuse3": "fusermount3",
    "g++": "c++ g++",
    "gcc": "cc gcc",
    "gcc-aarch64-linux-gnu": "aarch64-linux-gnu-gcc",
    "git": "git",
    "grep": "grep",
    "hostname": "hostname",
    "iproute2": "ip tc",
    "libc-bin": "ldd",
    "libnbd-bin": "nbdfuse",
    "lintian": "lintian",
    "make": "make",
    "mawk": "awk",
    "mount": "mount",
    "nbdkit": "nbdkit",
    "ninja-build": "ninja",
    "pandoc": "pandoc",
    "pkgconf": "pkg-config",
    "python3-minimal": "python3",
    "qemu-system-common": "qemu-storage-daemon",
    "qemu-system-x86": "qemu-system-x86_64",
    "qemu-user-static": "qemu-aarch64-static",
    "rsync": "rsync",
    "sed": "sed",
    "tar": "tar",
    "universal-ctags": "ctags",
    "util-linux": "fallocate flock nsenter setarch unshare",
    "xz-utils": "unxz xz",
    "zsh": "zsh",
}
# Essential, or of priority "required": debootstrap --variant=minbase installs these.
MINIMAL = {"apt", "bash", "coreutils", "dash", "diffutils", "dpkg", "findutils", "grep", "hostname",
           "libc-bin", "mawk", "mount", "sed", "tar", "util-linux"}
# Installed as dependencies of packages in the lists.
DEPENDENCIES = {"binutils": "gcc", "pkgconf": "pkg-config", "python3-minimal": "python3"}
# Called only if they exist; without them a part is left out, or a test is skipped.
OPTIONAL = {
    "compute-sanitizer": "of CUDA",
    "cuobjdump": "of CUDA, or from pip",
    "ncu": "of CUDA",
    "nvcc": "of CUDA",
    "nvdisasm": "of CUDA, or from pip",
    "nvidia-smi": "of the driver",
    "sudo": "not needed by root",
    "systemd-run": "bench/limit.py has other ways to limit memory",
}
# The same, in one script: other scripts need the program.
OPTIONAL_IN = {
    ("tests/cli/bench/test_bench_scripts.py", "fio"),
    ("tests/install/test_release.py", "debootstrap"),   # trials of a release
    ("tools/wheel.sh", "pandoc"),                       # man pages
}
# The lists that are installed for a script. The longest path that begins its path decides.
BUILD, TEST, WHEEL, RELEASE, BENCH = "BUILD", "TEST", "WHEEL", "RELEASE", "BENCH"
LISTS = {
    "": (BUILD, TEST),
    "bench/": (BUILD, BENCH),
    "tools/debian_graph.py": (BUILD,),
    "tools/demo.sh": (BUILD,),
    "tools/demo_report.py": (BUILD,),
    "tools/packages.sh": (BUILD,),
    "tools/wheel.sh": (BUILD, WHEEL),
}
# Further lists, for programs of parts that tests/run.sh runs with an option only. The tests run
# `tools/release.sh --only archive`.
FURTHER = {
    ("tests/run_python.sh", "aarch64-linux-gnu-gcc"): WHEEL,
    ("tests/run_python.sh", "qemu-aarch64-static"): WHEEL,
    ("tools/release.sh", "debootstrap"): RELEASE,
    ("tools/release.sh", "dh"): RELEASE,
    ("tools/release.sh", "dpkg-buildpackage"): WHEEL,
    ("tools/release.sh", "lintian"): RELEASE,
}
SOURCED = ("tools/packages.sh", "tests/run.sh", "tests/run_python.sh")   # share their functions
PACKAGE_OF = {name: package for package, names in PACKAGES.items() for name in names.split()}


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def package_lists():
    """{name: packages} of tools/packages.sh"""
    text = re.sub(r"\s*#.*", "", read("tools/packages.sh"))
    return {name: packages.split() for name, packages in
            re.findall(r"^RUNG_PACKAGES_(\w+)=\(([^)]*)\)", text, re.M)}


def calls():
    """{program: scripts}"""
    texts = {path: read(path) for path in trees.files(SOURCE)
             if path.endswith((".sh", ".py"))
             and path.startswith(("bench/", "python/tests/", "tests/", "tools/"))
             and not path.startswith("tests/structure/test_packages")}
    modules = {os.path.basename(path)[:-3]: programs.Python(text).runners
               for path, text in texts.items() if path.endswith(".py")}
    shared = set().union(*(programs.Shell(texts[path]).functions for path in SOURCED))
    found = collections.defaultdict(set)
    for path, text in texts.items():
        script = programs.Python(text, modules) if path.endswith(".py") else programs.Shell(text)
        for program in set(script.programs()) - shared - OWN:
            found[program].add(path)
    return found


def places(program):
    """Where dpkg may know a program, first its path, then those that it links to (alternatives)."""
    for path in (f"/usr/bin/{program}", f"/usr/sbin/{program}"):
        while os.path.lexists(path):
            yield from (path, path.removeprefix("/usr"))
            if not os.path.islink(path):
                return
            path = os.path.join(os.path.dirname(path), os.readlink(path))


def owners(names):
    """{program: the installed package that has it}"""
    paths = {name: list(places(name)) for name in names}
    done = subprocess.run(["dpkg-query", "-S", *sum(paths.values(), [])], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    packages = {path: package for package, path in
                re.findall(r"^([a-z0-9.+-]+)(?::\w+)?: (.*)", done.stdout, re.M)}
    return {name: next(packages[path] for path in found if path in packages)
            for name, found in paths.items() if any(path in packages for path in found)}


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.calls = calls()
        cls.lists = package_lists()

    def lists_for(self, path, program):
        names = LISTS[max((start for start in LISTS if path.startswith(start)), key=len)]
        further = FURTHER.get((path, program))
        return (*names, further) if further else names

    def test_each_program_is_known(self):
        for program, paths in sorted(self.calls.items()):
            self.assertTrue(program in PACKAGE_OF or program in OPTIONAL,
                            f"{', '.join(sorted(paths))}: calls '{program}'; add its package to "
                            "PACKAGES in tests/structure/test_packages.py, and to a list in "
                            "tools/packages.sh")

    def test_each_program_is_installed_for_its_scripts(self):
        missing = []
        for program, paths in sorted(self.calls.items()):
            package = PACKAGE_OF.get(program)
            if not package or package in MINIMAL:
                continue
            for path in sorted(paths):
                names = self.lists_for(path, program)
                listed = {entry for name in names for entry in self.lists[name]}
                if (DEPENDENCIES.get(package, package) not in listed
                        and (path, program) not in OPTIONAL_IN):
                    missing.append(f"{path}: calls '{program}' of package {package}; add it to "
                                   f"RUNG_PACKAGES_{' or '.join(names)} in tools/packages.sh")
        self.assertEqual(missing, [])

    def test_the_tables_have_no_unused_entries(self):
        self.assertEqual(set(PACKAGE_OF) | set(OPTIONAL), set(self.calls))
        self.assertEqual(set(PACKAGE_OF) & set(OPTIONAL), set())
        for path, program in (*OPTIONAL_IN, *FURTHER):
            self.assertIn(path, self.calls[program])
        for (_, program), name in FURTHER.items():
            self.assertIn(PACKAGE_OF[program], self.lists[name])

    def test_the_table_of_packages_on_debian(self):
        with contextlib.suppress(FileNotFoundError), open(
                "/etc/os-release", encoding="utf-8") as file:
            if "VERSION_CODENAME=bookworm" in file.read():
                found = owners(PACKAGE_OF)
                self.assertIn("tar", found)
                for several in ("awk", "ctags"):   # the choice of a machine
                    found.pop(several, None)
                self.assertEqual(found, {name: PACKAGE_OF[name] for name in found})
                return
        self.skipTest("the packages are those of Debian 12")

    def test_no_list_has_a_package_twice(self):
        for name, packages in self.lists.items():
            self.assertEqual(len(packages), len(set(packages)), name)
        both = set(self.lists[BUILD]) & set(self.lists[TEST])
        self.assertEqual(both, set())

    def test_the_documentation_names_the_same_packages(self):
        text = read("docs/BUILDING.md").replace("\\\n", " ")
        found = re.findall(r"^    apt-get install (.*)", text, re.M)[:2]
        self.assertEqual([line.split() for line in found], [self.lists[BUILD], self.lists[TEST]])


class Scanner(unittest.TestCase):
    """Programs are found where they are called, and only there."""

    def shell(self, text):
        return sorted(set(programs.Shell(text).programs()))

    def python(self, text, modules=None):
        return sorted(set(programs.Python(text, modules).programs()))

    def test_shell(self):
        for text, found in {
                "a1 x | b1 && c1; d1 & e1 || f1": "a1 b1 c1 d1 e1 f1",
                "# a1\nb1 # c1\nd1#e1 \\\n f1": "b1",
                "if a1; then b1; else ! c1; fi; while d1; do e1; done": "a1 b1 c1 d1 e1",
                'x=$(a1 "$(b1 ")")") y="`c1`" d1': "a1 b1 d1",
                "echo '$(a1)' \"$(b1)\" \"\\$(c1)\" $((d1 + (1))) ${e1:-$(f1)}": "b1 f1",
                "a1 >b1 2>&1 <c1 3>>d1 &>e1 <<<f1; 2>g1 h1; i1 < <(j1) 2>k1": "a1 h1 i1 j1",
                "a1 <<END | b1\nc1 $(d1)\nEND\ne1 <<-'END'\nf1 $(g1)\n\tEND\nh1": "a1 b1 d1 e1 h1",
                "case $x in a1 | b1) c1 ;; (d1) e1 ;& *) f1 ;; esac; g1": "c1 e1 f1 g1",
                "f() { a1; }; f; (b1; c1); { d1; }": "a1 b1 c1 d1",
                "[[ a1 < b1 && ( c1 =~ $(d1) ) ]] && e1": "d1 e1",
                "x=(a1 b1 # c1\n d1) y=e1; \"${x[@]}\" f1; $y; \"$y/g1\"": "a1 e1 f1",
                "for x in a1 b1; do command -v $x; done": "a1 b1",
                "x=(a1); x+=(b1); for y in \"${x[@]}\"; do command -v \"$y\"; done": "a1 b1",
                "${x:-a1} b1": "a1",
                "env -i A=b1 c1 d1": "c1 env",
                "timeout --kill-after=10 5 a1 | xargs -r b1 -L; exec c1; flock f d1":
                    "a1 b1 c1 d1 flock timeout xargs",
                "find . -name b1 -exec a1 {} +": "a1 find",
                "sh -e -c 'a1; b1' c1; trap 'd1' EXIT": "a1 b1 d1 sh",
                "cd a1; export b1=c1; local d1; ./e1; f1/g1; A1; -h1": ""}.items():
            self.assertEqual(self.shell(text), found.split(), text)

    def test_python(self):
        for text, found in {
                'subprocess.run(["a1", "b1"])': "a1",
                'subprocess.run(["sh", "-c", "a1 | b1"])': "a1 b1 sh",
                'X = ("a1", "b1")\nsubprocess.run([*X, "c1"])': "a1",
                'X = ("unshare", "--net")\nsubprocess.Popen([*X, "c1"])': "c1 unshare",
                'x = ["a1"] + y\nsubprocess.run(x)\nz = ["b1"]': "a1",
                'shutil.which("a1"); which("b1"); f("c1")': "a1 b1",
                'x = os.environ.get("X") or "a1"\nsubprocess.run([x])': "a1",
                'subprocess.run([os.environ.get("X", "a1")])': "a1",
                'X = ("a1", "b1")\n[n for n in X if not which(n)]': "a1 b1",
                'for a, b in (("a1", "b1"), ("c1", "d1")):\n    which(a)': "a1 c1",
                'def run(*c):\n    subprocess.run(c)\nrun("a1", "b1")': "a1",
                'def run(x, c):\n    subprocess.run(c)\nrun("b1", ["a1"])': "a1",
                'class A:\n  def run(self, *c):\n    subprocess.run([*c])\n  def f(self):\n'
                '    self.run("a1")': "a1",
                'def run(*c):\n    subprocess.run([RUNG, *c])\nrun("b1")': "",
                'def f(x):\n    which(x)\nx = "b1"': "",
                'def f():\n    x = "a1"\n    which(x)\ndef g():\n    x = "b1"': "a1"}.items():
            self.assertEqual(self.python(text), found.split(), text)

    def test_functions_of_other_modules(self):
        modules = {"other": programs.Python("def run(c):\n    subprocess.run(c)").runners}
        self.assertEqual(self.python('from other import run\nrun(["a1"])', modules), ["a1"])
        self.assertEqual(self.python('from another import run\nrun(["a1"])', modules), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree keeps its structure, and check.py finds each kind of violation in a small tree."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CHECK = os.path.join(HERE, "check.py")
LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"
ROOMS = "include/rung:\nsrc:\nio: src\ntools: public\npython:\n"


def run_check(*args, **variables):
    return subprocess.run([sys.executable, "-B", CHECK, *args], text=True,
                          env={**os.environ, **variables}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


class TheTree(unittest.TestCase):
    def test_has_no_violation_that_is_not_listed(self):
        done = run_check()
        if done.returncode == 77:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)


class SmallTree(unittest.TestCase):
    """A tree of a few files with its own lists."""

    def setUp(self):
        if not shutil.which("ctags"):
            self.skipTest("ctags is missing; install universal-ctags")
        self.root = tempfile.mkdtemp(prefix="rung-structure-")
        self.addCleanup(shutil.rmtree, self.root)
        self.write("tests/structure/rooms.txt", ROOMS)
        self.write("include/rung/rung.h", LICENCE + "int rung_open(void);\n")
        self.write("src/open.c", LICENCE + '#include "rung/rung.h"\n'
                   "int rung_open(void)\n{\n\treturn 0;\n}\n")

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def source(self, path, text):
        self.write(path, LICENCE + text)

    def check(self, *args):
        done = run_check("--root", self.root, *args)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.stderr.splitlines()

    def allow(self, *lines):
        self.write("tests/structure/allowed.txt", "".join(line + "\n" for line in lines))

    def allowed(self):
        with open(os.path.join(self.root, "tests/structure/allowed.txt"), encoding="utf-8") as file:
            return [line.rstrip() for line in file if not line.startswith("#")]

    def test_a_tree_without_violations_passes(self):
        self.assertEqual(self.check(), [])

    def test_an_include_that_rooms_txt_does_not_allow(self):
        self.source("io/file.h", "")
        self.source("src/a.c", '#include "file.h"\n#include "io/file.h"\n')
        self.assertEqual(self.check(), ["violation: include src/a.c -> io/file.h"])

    def test_a_public_header_includes_only_public_headers(self):
        self.source("include/rung/more.h", "#include <stdint.h>\n#include <liburing.h>\n")
        self.assertEqual(self.check(), ["violation: include include/rung/more.h -> liburing.h: "
                                        "not of a public header"])

    def test_a_folder_without_a_room(self):
        self.source("numa/a.c", "")
        self.assertEqual(self.check(),
                         ["violation: room numa/a.c: rooms.txt has no line for its folder"])

    def test_a_use_that_rooms_txt_does_not_allow(self):
        self.source("io/file.c", "int rung__file(void) { return 0; }\n")
        self.source("src/a.c", "int rung__file(void);\n"
                    "int rung__a(void) { return rung__file(); }\n")
        self.source("src/b.c", "static int (*f)(void) = rung__file;\n")
        self.assertEqual(self.check(), ["violation: use src -> io/file: rung__file (2)"])

    def test_declarations_members_tags_comments_and_locals_do_not_count_as_uses(self):
        self.source("io/file.c", "int file(void) { return 0; }\n"
                    "int rung__read(void) { return 0; }\n")
        self.source("src/a.c", """int rung__read(void);   /* rung__read() */
int rung__a(struct rung__read *s) { int file = s->rung__read(1); return file + *"rung__read()"; }
""")
        self.source("src/b.c", "static int file(void) { return 1; }\n"
                    "int rung__b(void) { return file(); }\n")
        self.assertEqual(self.check(), [])

    def test_the_command_uses_public_functions_only(self):
        self.source("src/a.c", "int rung__a(void) { return 0; }\n")
        self.source("tools/main.c", "int main(void) { return rung_open() + rung__a(); }\n")
        self.assertEqual(self.check(), ["violation: use tools -> src/a: rung__a"])

    def test_a_circle_of_three_files(self):
        for user, owner in ("ab", "bc", "ca"):
            self.source(f"src/{user}.c", f"int rung__{user}(void) {{ return rung__{owner}(); }}\n")
        self.source("src/d.c", "int rung__d(void) { return rung__a(); }\n")
        self.assertEqual(self.check(), ["violation: circle src/a -> src/b",
                                        "violation: circle src/b -> src/c",
                                        "violation: circle src/c -> src/a"])

    def test_a_circle_of_headers_and_one_of_modules(self):
        self.source("src/a.h", '#include "b.h"\n')
        self.source("src/b.h", '#include "a.h"\n')
        self.write("python/rung/x.py", "# SPDX-License-Identifier: Apache-2.0\nfrom . import y\n")
        self.write("python/rung/y.py",
                   "# SPDX-License-Identifier: Apache-2.0\nfrom .x import name\n")
        self.assertEqual(len(self.check()), 4)

    def sizes(self, lines, function, files, readme):
        """Write sources and a README of these sizes. @return what check.py prints, and exits with
        """
        self.source("src/long.c", "int x;\n" * (lines - 1))
        self.source("src/function.c", "int rung__f(void)\n{\n" + "\n" * (function - 3) + "}\n")
        self.write("src/f.py", "# SPDX-License-Identifier: Apache-2.0\n"
                   "def f():\n" + "    1\n" * (function - 1))
        for i in range(files):
            self.source(f"io/f{i}.c", "")
        self.write("README.md", "line\n" * readme)
        done = run_check("--root", self.root)
        return done.stderr.splitlines(), done.returncode

    def test_sizes_up_to_their_limits(self):
        self.assertEqual(self.sizes(500, 60, 20, 150), ([], 0))

    def test_sizes_above_their_limits_are_warnings(self):
        for sizes in ((501, 61, 21, 151), (650, 78, 26, 195)):
            lines, function, files, readme = sizes
            self.assertEqual(self.sizes(*sizes), ([
                f"warning: files io ({files}, the limit is 20)",
                f"warning: function src/f.py f ({function}, the limit is 60)",
                f"warning: function src/function.c rung__f ({function}, the limit is 60)",
                f"warning: lines README.md ({readme}, the limit is 150)",
                f"warning: lines src/long.c ({lines}, the limit is 500)"], 0))

    def test_sizes_far_above_their_limits_are_violations(self):
        self.assertEqual(self.sizes(651, 79, 27, 196), ([
            "violation: files io (27)",
            "violation: function src/f.py f (79)",
            "violation: function src/function.c rung__f (79)",
            "violation: lines README.md (196)",
            "violation: lines src/long.c (651)"], 1))

    def test_a_warning_is_not_listed(self):
        self.source("src/long.c", "int x;\n" * 500)
        self.allow("501 lines src/long.c")
        warning = "warning: lines src/long.c (501, the limit is 500)"
        self.assertEqual(self.check(), [warning, "allowed.txt: lines src/long.c: 501 listed, "
                                        "0 found; run tests/structure/check.py --shrink"])
        self.assertEqual(self.check("--shrink"), [warning])
        self.assertEqual(self.allowed(), [])

    def test_wide_lines(self):
        self.source("src/wide.c", "\t" * 12 + "int x;\n" + "\t" * 12 + "int\n")
        self.write("docs/TABLE.md", "| " + "x" * 200 + "\n" + "y" * 101 + "\n")
        self.assertEqual(self.check(), ["violation: wide lines docs/TABLE.md",
                                        "violation: wide lines src/wide.c"])

    def test_names_with_two_meanings(self):
        self.source("src/a.h", "struct rung__twice { int x; };\n")
        self.source("io/a.h", "struct rung__twice { char y; };\n")
        self.source("src/b.c", "struct rung__both { int x; };\n")
        self.source("src/c.c", "int rung__both(void) { return 1; }\n")
        self.source("src/d.c", "struct rung__made { int x; };\n"
                    "void rung__made(struct rung__made *m) { m->x = 1; }\n")
        self.source("tools/a.c", "struct rung__twice { int in_another_program; };\n")
        self.assertEqual(self.check(), [
            "violation: name rung__both: a struct and a function in src/b.c, src/c.c",
            "violation: name rung__twice: a struct in io/a.h, src/a.h"])

    def test_a_suite_with_another_name_than_its_file(self):
        self.source("tests/unit/a/test_near.c", "TestSuite(far);\nTest(near, x)\n{\n}\n"
                    "ParameterizedTest(struct case *c, distant, y)\n{\n}\n")
        self.source("tests/stress/test_plain.c", "Test(any, x)\n{\n}\n")
        self.assertEqual(self.check(), [
            "violation: suite tests/unit/a/test_near.c: %s instead of near" % name
            for name in ("distant", "far")])

    def test_a_public_function_without_a_user(self):
        self.source("include/rung/more.h", "RUNG_API int rung_used(void);\n"
                    "RUNG_API const char *\nrung_left(int x);\n")
        self.source("tools/main.c", "int main(void) { return rung_used(); /* rung_left() */ }\n")
        self.write("python/tests/test_left.py",
                   "# SPDX-License-Identifier: Apache-2.0\nlib.rung_left\n")
        self.assertEqual(self.check(), ["violation: public rung_left has no user"])
        for more, printed in ((129, "warning: public functions (131, the limit is 130)"),
                              (168, "violation: public functions (170)")):
            self.source("include/rung/many.h", "".join(
                f"RUNG_API int rung_f{i}(void);\n" for i in range(more)))
            self.source("tools/all.c", "".join(f"int x{i} = rung_f{i};\n" for i in range(more))
                        + "int y = rung_left;\n")
            self.assertEqual(self.check(), [printed])

    def test_phrases_of_the_list_and_licences(self):
        self.write("tests/structure/words.txt", "# a comment\nbig endian\n")
        self.source("src/a.c", "/* big endian, and Big\n * endian */\nint big, endian;\n"
                    'const char *x = "big "\n "endian";\n')
        self.write("src/b.c", "int x;\n")
        self.assertEqual(self.check(), ["violation: licence src/b.c",
                                        "violation: word src/a.c big endian (3)"])

    def test_marker_phrases_are_limited_per_folder(self):
        self.source("src/a.c", "/*" + (" word" * 9 + "\n") * 222 + ". */\n/* X lies\n * here. */\n")
        self.write("docs/A.md", "word\n" * 2000 + "lies behind.\n")
        self.assertEqual(self.check(), [])
        self.write("docs/B.md", "Text.\n\n- `What` is left of it.\n")
        self.source("src/b.c", "/* it is no\n * format */\nint is_no; /* it says */\n")
        self.assertEqual(self.check(), [
            "violation: markers docs: too many; prose.py docs prints them (3)",
            "violation: markers src: too many; prose.py src prints them (3)"])

    def test_markers_in_every_kind_of_file(self):
        for path, text in {
                "src/a.c": LICENCE + 'int x; // one lies\nconst char *y = "%s lies %u";\n',
                "tests/a.c": LICENCE + "Test(suite, it_lies_there)\n",
                "python/a.py": "# one lies\ndef test_it_lies():\n    \"\"\"It lies.\"\"\"\n",
                "tools/a.sh": "#!/bin/sh\n# one lies\necho 'it lies'; echo $#lies\n",
                "cmake/a.cmake": '# one lies\nmessage("it lies")\n'}.items():
            self.write(path, text)
        self.assertEqual([line.split("prints")[-1] for line in self.check() if " markers " in line],
                         [" them (2)", " them (3)", " them (2)", " them", " them (2)"])

    def test_sources_that_clang_format_would_change(self):
        if not shutil.which("clang-format") or "version 14." not in subprocess.run(
                ["clang-format", "--version"], text=True, stdout=subprocess.PIPE).stdout:
            self.skipTest("clang-format 14 is missing; install clang-format of Debian 12")
        self.write(".clang-format", "BasedOnStyle: LLVM\n")
        self.source("src/a.c", "int  x ;\n")
        self.assertEqual(self.check(), ["violation: format src/a.c: run clang-format -i",
                                        "violation: format src/open.c: run clang-format -i"])
        self.assertEqual(self.check("src/a.c"), ["violation: format src/a.c: run clang-format -i"])

    def test_clang_format_reads_only_the_given_sources(self):
        self.write(".clang-format", "BasedOnStyle: LLVM\n")
        self.source("src/a.c", "")
        self.write("bin/clang-format", "#!/bin/sh\necho version 14.\n"
                   f'echo "$@" >>"{self.root}/called"\n')
        os.chmod(os.path.join(self.root, "bin/clang-format"), 0o755)
        run_check("--root", self.root, "src/a.c", "tests",
                  PATH=f"{self.root}/bin:{os.environ['PATH']}")
        with open(os.path.join(self.root, "called"), encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(),
                             ["--version", "--dry-run --style=file src/a.c"])

    def test_a_listed_violation_may_stay_but_not_grow(self):
        self.source("src/long.c", "int x;\n" * 700)
        self.allow("701 lines src/long.c")
        self.assertEqual(self.check(), [])
        self.allow("700 lines src/long.c")
        self.assertEqual(self.check(), ["violation: lines src/long.c (701, 700 are allowed)"])

    def test_an_entry_that_has_shrunk_must_be_updated(self):
        self.source("src/long.c", "int x;\n" * 700)
        self.allow("710 lines src/long.c", "1 circle src/a -> src/b")
        self.assertEqual(len(self.check()), 2)
        self.assertEqual(self.check("--shrink"), [])
        self.assertEqual(self.allowed(), ["701 lines src/long.c"])
        self.assertEqual(self.check(), [])

    def test_shrink_adds_nothing(self):
        self.source("src/long.c", "int x;\n" * 700)
        self.allow()
        self.assertEqual(len(self.check("--shrink")), 1)
        self.assertEqual(self.allowed(), [])

    def test_paths_limit_what_is_reported(self):
        """A line is reported for each file that it names: as a user, an owner, or in a circle."""
        self.source("io/file.h", "int rung__file(void);\n")
        self.source("io/file.c", "int rung__file(void) { return 0; }\n")
        self.source("src/a.c", '#include "file.h"\n#include "deep.h"\n'
                    "int rung__a(void) { return rung__file() + rung__b(); }\n")
        self.source("src/b.c", "int rung__b(void) { return rung__a(); }\n")
        self.source("io/deep.h", "/* big endian */\n")
        self.write("src/c.c", "int x;\n" * 510 + "\t" * 13 + "\n")
        self.write("docs/A.md", "[a](none.md)\n")
        self.write("tests/structure/words.txt", "big endian\n")
        circle = ["violation: circle src/a -> src/b", "violation: circle src/b -> src/a"]
        includes = ["violation: include src/a.c -> io/deep.h",
                    "violation: include src/a.c -> io/file.h"]
        use = "violation: use src -> io/file: rung__file"
        word = "violation: word io/deep.h big endian"
        of_c = ["warning: lines src/c.c (511, the limit is 500)", "violation: licence src/c.c",
                "violation: wide lines src/c.c"]
        link = "violation: link docs/A.md: none.md: no such file or heading"
        for paths, printed in (
                (["src/open.c"], []), (["src/b.c"], circle), (["io/file.c"], [use]),
                (["io/file.h"], [includes[1], use]), (["io/deep.h"], [includes[0], word]),
                (["src/a.c"], [*circle, *includes, use]), (["src/c.c"], of_c),
                (["docs/A.md", "src/c.c"], [of_c[0], of_c[1], link, of_c[2]]),
                (["./docs/"], [link]), ([os.path.join(self.root, "docs/A.md")], [link])):
            self.assertEqual(self.check(*paths), printed, paths)
        self.assertEqual(len(self.check()), 10)

    def test_paths_and_sizes_of_folders_and_markers(self):
        for i in range(27):
            self.source(f"io/f{i}.c", "")
        self.source("src/a.c", "/* it lies behind, and is no format of its own */\n")
        self.assertEqual(self.check("io/f1.c"), ["violation: files io (27)"])
        self.assertEqual(self.check("src/a.c"),
                         ["violation: markers src: too many; prose.py src prints them (4)"])
        self.assertEqual(self.check("src/open.c"), [])

    def test_paths_and_the_list(self):
        self.source("src/long.c", "int x;\n" * 700)
        self.allow("701 lines src/long.c", "2 lines src/shrunk.c")
        self.assertEqual(self.check("src/long.c"), [])
        self.assertEqual(self.check("src/open.c"), [])
        self.assertEqual(len(self.check()), 1)
        self.allow("700 lines src/long.c")
        self.assertEqual(self.check("src/long.c"),
                         ["violation: lines src/long.c (701, 700 are allowed)"])

    def test_paths_that_are_usage_errors(self):
        for args, message in ((["--shrink", "src/open.c"], "--shrink needs the whole tree"),
                              (["src/none.c"], "src/none.c: no such file or folder")):
            done = run_check("--root", self.root, *args)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)

    def test_links_of_documents(self):
        self.write("docs/A.md", "# A b, `c`\n\n[a](B.md) [b](B.md#a-title) [c](#a-b-c)\n"
                   "[d](https://example.org/x) `[e](none.md)`\n\n    [f](none.md)\n\n"
                   "```\n# [g](none.md)\n```\n")
        self.write("docs/B.md", "## A title\n\n[a](../README.md) [b](A.md#nothing) [c](../src)\n")
        self.write("README.md", "line\n")
        self.assertEqual(self.check(),
                         ["violation: link docs/B.md: A.md#nothing: no such file or heading"])
        os.remove(os.path.join(self.root, "README.md"))
        self.assertIn("violation: link docs/B.md: ../README.md: no such file or heading",
                      self.check())


if __name__ == "__main__":
    unittest.main()

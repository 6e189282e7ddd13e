#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/run.sh on stand-ins for CMake, Ninja and ctest: which tests it selects and repeats."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import affected
import check
import tree as trees

SOURCE = os.environ.get("RUNG_SOURCE_DIR") or os.path.dirname(os.path.dirname(
    os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("RUNG_BUILD_DIR", "")
SANITIZE = os.environ.get("RUNG_SANITIZE", "")
# The n-th call of ctest that runs tests fails with the tests of the n-th line of $PLAN.
CTEST = """#!/bin/sh
case $* in *--show-only=json-v1*) cat "$PLAN.json"; exit ;; esac
echo "$*" >>"$CALLS"
failed=$(sed -n "$(wc -l <"$CALLS")p" "$PLAN")
[ -n "$failed" ] || exit 0
mkdir -p build/Testing/Temporary
number=0
for name in $failed; do
    number=$((number + 1))
    echo "$number:$name"
done >build/Testing/Temporary/LastTestsFailed.log
exit 8
"""
FILES = ("tests/run.sh", "tests/run_python.sh", "tests/reruns.txt", "tests/syntax.sh",
         "tools/packages.sh", "tests/structure/affected.py", "tests/structure/check.py",
         "tests/structure/prose.py", "tests/structure/tree.py", "tests/structure/rooms.txt",
         "CONTRIBUTING.md", ".gitignore")


def listed(build):
    """The tests that ctest knows: its JSON."""
    return json.loads(subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"],
                                     stdout=subprocess.PIPE, check=True).stdout)["tests"]


def reruns():
    with open(os.path.join(SOURCE, "tests/reruns.txt"), encoding="utf-8") as file:
        return [line.split(None, 1) for line in file if not line.startswith("#")]


class Run(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="rung-run-")
        self.addCleanup(holder.cleanup)
        self.root = os.path.join(holder.name, "rung")
        for path in FILES:
            os.makedirs(os.path.join(self.root, os.path.dirname(path)), exist_ok=True)
            shutil.copy(os.path.join(SOURCE, path), os.path.join(self.root, path))
        self.calls, self.plan = (os.path.join(holder.name, name) for name in ("calls", "plan"))
        self.bin = os.path.join(holder.name, "bin")
        os.mkdir(self.bin)
        for name, text in (("ctest", CTEST), ("ninja", "#!/bin/sh\n"),
                           ("cmake", '#!/bin/sh\necho "$*" >>"$CALLS.cmake"\n')):
            path = os.path.join(self.bin, name)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(path, 0o755)

    def run_sh(self, *args, plan=()):
        """(exit status, lines of stdout and stderr, calls of ctest)"""
        for path, lines in ((self.calls, ()), (self.plan, plan)):
            with open(path, "w", encoding="ascii") as file:
                file.writelines(line + "\n" for line in lines)
        done = subprocess.run(["tests/run.sh", "--no-install", *args], cwd=self.root, text=True,
                              env=dict(os.environ, CALLS=self.calls, PLAN=self.plan,
                                       PATH=self.bin + os.pathsep + os.environ["PATH"]),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        with open(self.calls, encoding="ascii") as file:
            return done.returncode, done.stdout.splitlines(), file.read().splitlines()

    def commit(self):
        for command in (["init", "-q"], ["add", "."],
                        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
            subprocess.run(["git", *command], cwd=self.root, check=True)

    def test_all_pass(self):
        status, lines, calls = self.run_sh()
        self.assertEqual((status, len(calls)), (0, 1), lines)
        self.assertIn("--label-exclude ^long$", calls[0])

    def test_each_check_of_a_build_runs_tests(self):
        with open(os.path.join(self.root, "tests/run.sh"), encoding="utf-8") as file:
            checks = re.search(r"^checks=\((.*)\)$", file.read(), re.M).group(1).split()
        for check_name in set(checks) - {"wheels", "graphbolt"}:
            with self.subTest(check_name):
                status, lines, calls = self.run_sh("--check", check_name)
                self.assertEqual((status, len(calls)), (0, 1), lines)

    def test_a_failed_test_fails_at_once(self):
        status, lines, calls = self.run_sh(plan=["unit/test_a"])
        self.assertEqual((status, len(calls)), (1, 1), lines)
        self.assertIn("FAILED: build: unit/test_a", lines)

    def test_a_listed_test_runs_again_alone(self):
        name = reruns()[0][0]
        status, lines, calls = self.run_sh(plan=[name])
        self.assertEqual((status, len(calls)), (0, 2), lines)
        self.assertIn(f"-R ^{name}$", calls[1])
        self.assertEqual(lines[-1], f"FLAKY: {name}")

    def test_a_listed_test_that_fails_twice_fails(self):
        name = reruns()[0][0]
        status, lines, calls = self.run_sh(plan=[name, name])
        self.assertEqual((status, len(calls)), (1, 2), lines)
        self.assertIn(f"FAILED: build: {name}", lines)
        self.assertFalse([line for line in lines if line.startswith("FLAKY")])

    def test_nothing_runs_again_next_to_another_failure(self):
        name = reruns()[0][0]
        status, lines, calls = self.run_sh(plan=[f"{name} unit/test_a"])
        self.assertEqual((status, len(calls)), (1, 1), lines)

    def test_the_tree_chooses_the_further_check(self):
        self.commit()
        tree = subprocess.run(["git", "rev-parse", "HEAD^{tree}"], cwd=self.root, check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        with open(os.path.join(self.root, "tests/run.sh"), encoding="utf-8") as file:
            checks = re.search(r"^checks=\((.*)\)$", file.read(), re.M).group(1).split()
        chosen = checks[int(tree[:8], 16) % len(checks)]
        for name in ("cmake", "python3"):   # nothing is built or installed
            path = os.path.join(self.bin, name)
            with open(path, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\nexit 1\n")
            os.chmod(path, 0o755)
        status, lines, _ = self.run_sh("--ci")
        self.assertEqual(status, 1)
        self.assertEqual(lines[0], f"== the further check of this run: {chosen} "
                         f"(tests/run.sh --check {chosen})")

    def test_without_a_parent_the_base_must_be_named(self):
        self.commit()
        status, lines, _ = self.run_sh("--changed")
        self.assertEqual((status, lines),
                         (2, ["tests/run.sh: 'HEAD~1' is not a commit of this repository"]))

    def test_a_change_selects_the_tests_of_its_room(self):
        source = os.path.join(self.root, "src/rank/rank.c")
        os.makedirs(os.path.dirname(source))
        licence = "/* SPDX-License-Identifier: Apache-2.0 */\n"
        with open(source, "w", encoding="ascii") as file:
            file.write(licence)
        self.commit()
        with open(self.plan + ".json", "w", encoding="ascii") as file:
            json.dump({"tests": [
                {"name": name, "properties": [{"name": "LABELS", "value": labels}]}
                for name, labels in (("unit/test_rank", ["unit", "unit/rank"]),
                                     ("unit/test_cache", ["unit", "unit/cache"]),
                                     ("unit/test_rank_long", ["unit/rank", "long"]))]}, file)
        os.makedirs(os.path.join(self.root, "build/tests"))
        with open(os.path.join(self.root, "build/tests/CTestTestfile.cmake"), "w",
                  encoding="ascii") as file:   # of programs that are not built yet
            file.write("add_test([=[unit/test_rank]=] "
                       f'"{self.root}/build/tests/unit_rank" "--jobs")\n')
        with open(os.path.join(self.root, "build/build.ninja"), "w", encoding="ascii"):
            pass
        with open(source, "a", encoding="ascii") as file:
            file.write("int rung__x;\n")
        status, lines, calls = self.run_sh("--changed")
        self.assertEqual(status, 0, lines)
        self.assertEqual(len(calls), 1)
        self.assertIn("--tests-regex ^(unit/test_rank)$", calls[0])
        self.assertIn("passed: the structure of 1 files", lines)
        with open(self.calls + ".cmake", encoding="ascii") as file:
            self.assertIn("--target tests/unit_rank\n", file.read())
        os.rename(source, os.path.join(self.root, "README.md"))
        status, lines, calls = self.run_sh("--changed")
        self.assertEqual((status, calls), (0, []), lines)
        self.assertIn("passed: build: the default build: the change affects no test", lines)

    def test_wrong_usage(self):
        for args, says in ((["--chek"], "unknown option '--chek'"),
                           (["--check", "gcc"], "unknown check 'gcc'; use one of: clang "),
                           (["--check"], "--check needs a value"),
                           (["--ci", "--all"], "--all and --ci exclude each other"),
                           (["--all", "--check", "asan"], "--check needs no --all"),
                           (["--base", "HEAD"], "--base needs --ci"),
                           (["--ci", "--base", "no-such-ref"], "'no-such-ref' is not a commit"),
                           (["--jobs", "x"], "--jobs: invalid number 'x'")):
            with self.subTest(args):
                status, lines, calls = self.run_sh(*args)
                self.assertEqual((status, calls), (2, []), lines)
                self.assertIn(says, " ".join(lines))


class Affected(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = trees.Tree(SOURCE)
        cls.rooms = check.Rooms(check.read_list(os.path.join(SOURCE, "tests/structure/rooms.txt")))
        with open(os.path.join(SOURCE, "CONTRIBUTING.md"), encoding="utf-8") as file:
            cls.table = affected.table(file.read())

    def test_every_room_has_tests(self):
        self.assertEqual(set(self.rooms.allowed) - set(self.table), set())
        self.assertEqual(set(self.table) - set(self.rooms.allowed), {"python/rung"})

    @unittest.skipIf(SANITIZE or not BUILD, "this build has a part of the tests")
    def test_every_entry_of_the_table_is_a_folder_or_a_test(self):
        tests = listed(BUILD)
        for room, entries in self.table.items():
            for entry in entries:
                with self.subTest(room, entry=entry):
                    self.assertTrue(os.path.isdir(os.path.join(SOURCE, "tests", entry))
                                    or list(affected.selected(tests, {entry}, None)))

    def test_a_source_affects_its_room_and_its_users(self):
        rooms = affected.rooms_of(self.tree, self.rooms, {"src/cache/cache_frames.c"})
        self.assertIn("src/cache", rooms)
        rooms = affected.rooms_of(self.tree, self.rooms, {"src/cache/cache.h"})
        self.assertLessEqual({"src/cache", "src/refill"}, rooms)
        self.assertNotIn("src/score", rooms)
        self.assertEqual(affected.rooms_of(self.tree, self.rooms, {"python/rung/store.py"}),
                         {"python/rung"})
        self.assertEqual(affected.rooms_of(self.tree, self.rooms, {"README.md"}), set())

    def test_a_test_affects_itself(self):
        for path, entry in (("tests/unit/cache/test_cache_map.c", "unit/test_cache_map*"),
                            ("tests/cli/plan/test_plan_model.py", "cli/test_plan_model*"),
                            ("python/tests/loader/test_pyg.py", "python/test_pyg*"),
                            ("python/tests/test_stage.py", "python/test_stage*"),
                            ("tests/fuzz/fuzz_npy.c", "fuzz/npy*"),
                            ("tests/unit/score/typed_graphs.h", "unit/score"),
                            ("tests/vm/guest.c", "vm")):
            self.assertEqual(affected.entries_of([path]), {entry})
        self.assertEqual(affected.entries_of(["tests/support/npz.h"]), {"unit", "contract"})
        self.assertEqual(affected.entries_of(["README.md", "src/cache/cache.c"]), set())


class Reruns(unittest.TestCase):
    def test_at_most_15_each_with_a_reason(self):
        self.assertLessEqual(len(reruns()), 15)
        self.assertTrue(all(len(words) == 2 for words in reruns()))

    @unittest.skipIf(SANITIZE or not BUILD, "this build has a part of the tests")
    def test_each_is_a_test(self):
        names = {test["name"] for test in listed(BUILD)}
        self.assertEqual({words[0] for words in reruns()} - names, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)

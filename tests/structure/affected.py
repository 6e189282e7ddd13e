#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests that a change can break, for tests/run.sh.

usage: affected.py --build DIR (--base REF | --core) [--exclude REGEX]

A changed source affects its room and the rooms whose sources use it: its functions, or its header.
The table of rooms and tests is in CONTRIBUTING.md. Its entries are folders of tests or names of
ctest with wildcards. A changed test affects itself, and a file that all tests share all of unit/
and contract/. --core selects a fixed set of rooms: those that share memory between threads, and
those that read files from elsewhere.

Prints what is affected on standard error, and two lines: the names of the tests as a regular
expression for ctest, and the files in DIR that they run. Both are empty if there is none.
Exit: 0 done, 2 usage, git failed, or a room without a row.
"""
import argparse
import fnmatch
import json
import os
import re
import shlex
import subprocess
import sys

import check
import tree as trees

CORE = ("src/source", "src/graph", "src/sample", "src/cache", "src/store", "src/loader",
        "io/engine", "io/rows", "io/typed")
SHARED = re.compile(r"tests/(support/|CMakeLists[.]txt)|cmake/|CMakeLists[.]txt")
TEST = re.compile(r"(?:tests/|(python)/tests/)(?:(\w+)/)?(?:.*/)?"
                  r"((?:test|fuzz)_\w+)[.](?:c|cpp|py)")


def table(text):
    """{room: entries}, from rows `| rooms | tests |` in which each word is in backquotes."""
    found = {}
    for rooms, tests in re.findall(r"^\| ((?:`[^`|]+` ?)+)\| ((?:`[^`|]+` ?)+)\|$", text, re.M):
        for room in re.findall(r"`([^`]+)`", rooms):
            found[room] = re.findall(r"`([^`]+)`", tests)
    return found


def changed_files(root, base):
    """Also those that git does not know yet."""
    lines = []
    for command in ("diff --name-only " + base, "ls-files --others --exclude-standard"):
        lines += subprocess.run(["git", *command.split()], cwd=root, check=True, text=True,
                                stdout=subprocess.PIPE).stdout.splitlines()
    return sorted(set(lines))


def rooms_of(tree, rooms, changed):
    """The rooms of changed sources, and of those that use them."""
    units = {trees.unit_of(path) for path in changed}
    using = {user for user, owner in tree.uses if owner in units}
    for path in tree.product(tree.c_paths):
        if any(target in changed for _, target in tree.includes(path)):
            using.add(trees.unit_of(path))
    product = {trees.unit_of(path) for path in tree.product(tree.c_paths)}
    found = {rooms.of(unit) for unit in (units & product) | using}
    return found | {"python/rung" for path in changed if path.startswith("python/rung/")}


def entries_of(changed):
    """Entries, like those of the table, for changed files that belong to no room."""
    found = set()
    for path in changed:
        test = TEST.fullmatch(path)
        if test:
            folder = test.group(1) or test.group(2)
            found.add(f"{folder}/{test.group(3).removeprefix('fuzz_')}*")
        elif SHARED.match(path):
            found |= {"unit", "contract"}
        elif path.startswith(("tests/", "python/tests/")):
            folder = os.path.dirname(path).replace("python/tests", "python")
            found.add(folder.removeprefix("tests/"))
    return found


def selected(tests, entries, exclude):
    """Tests of ctest's JSON with a label or a name that is in `entries`; long ones by name only."""
    names = {entry.rstrip("*") for entry in entries}
    for test in tests:
        properties = {each["name"]: each["value"] for each in test["properties"]}
        labels = properties.get("LABELS", [])
        if (("long" in labels and test["name"] not in names)
                or (exclude and re.search(exclude, test["name"]))):
            continue
        if any(entry in labels or fnmatch.fnmatch(test["name"], entry) for entry in entries):
            yield test["name"], properties.get("ENVIRONMENT", [])


def commands(build):
    """{test: words}; ctest's JSON has no command whose program is not built yet."""
    with open(os.path.join(build, "tests/CTestTestfile.cmake"), encoding="utf-8") as file:
        return {name: shlex.split(words) for name, words in
                re.findall(r"^add_test\(\[=\[(.+?)\]=\] (.*)\)$", file.read(), re.M)}


def programs(tests, build):
    """Files in the build folder that the commands of tests and their variables name. A program in C
    uses itself alone."""
    found, of = set(), commands(build)
    for name, variables in tests.items():
        words = of[name]
        for word in [*words, *variables] if "python" in os.path.basename(words[0]) else words[:1]:
            path = word.rpartition("=")[2]
            if path.startswith(build + "/") and os.path.basename(path) != "fuzz":
                found.add(os.path.relpath(path, build))
    return found


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[3][len("usage: "):])
    parser.add_argument("--build", required=True)
    parser.add_argument("--base")
    parser.add_argument("--core", action="store_true")
    parser.add_argument("--exclude")
    args = parser.parse_args()
    if bool(args.base) == args.core:
        parser.error("pass either --base or --core")
    with open(os.path.join(root, "CONTRIBUTING.md"), encoding="utf-8") as file:
        rows = table(file.read())
    rooms, entries = set(CORE), set()
    if args.base:
        try:
            changed = changed_files(root, args.base)
        except subprocess.CalledProcessError as error:
            return error.returncode and 2
        rooms = rooms_of(trees.Tree(root), check.Rooms(check.read_list(
            os.path.join(here, "rooms.txt"))), set(changed))
        entries = entries_of(changed)
    for room in sorted(rooms - rows.keys()):
        print(f"CONTRIBUTING.md: the table of rooms and tests has no row for {room}",
              file=sys.stderr)
    if rooms - rows.keys():
        return 2
    for room in rooms:
        entries.update(rows[room])
    build = os.path.realpath(args.build)
    listed = json.loads(subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"],
                                       check=True, stdout=subprocess.PIPE).stdout)
    tests = dict(selected(listed["tests"], entries, args.exclude))
    print(f"affected: {' '.join(sorted(rooms)) or 'no room'}; {len(tests)} tests",
          file=sys.stderr)
    print("^(" + "|".join(sorted(tests)) + ")$" if tests else "")
    print(*sorted(programs(tests, build)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

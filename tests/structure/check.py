#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the structure of the source tree.

usage: check.py [--root DIR] [--shrink | PATH...]

  rooms      which folder may include and use which, and by which header: rooms.txt, one line
             per room
  circles    no two files use each other, directly or through others
  sizes      sources of at most 500 lines, functions of 60, folders of 20 source files, README.md
             of 150 lines
  width      lines of at most 100 columns (a tab is 8)
  names      no struct, enum or function name with two meanings; tests in C are in the suite with
             the name of their file, because ctest runs no other
  public     at most 130 public functions, each used by the command, Python or a benchmark
  words      comments, messages and documents use no phrase of words.txt, and at most one marker
             phrase (prose.py) per 1,000 words in each top-level folder
  format     clang-format produces the C, C++ and CUDA sources exactly (Debian 12's version)
  licence    every source begins with its licence
  links      links of documents name files and headings that exist

Sizes and the number of public functions are a matter of judgement: above the limit they are
warnings, which do not change the exit status, and above 1.3 of it violations.

With paths of files or folders, relative to DIR, only what involves these files is reported: a
line that names the file or its unit, or the number of sources in its folder.

Violations that stand today are listed in allowed.txt, with a count where there is one. The list
may only shrink: a violation that is not listed, or has grown, fails; so does an entry that is no
longer true, unless paths are given. --shrink rewrites the list, and refuses to add to it.
Exit: 0 no violation, 1 violations, 2 usage, 77 universal-ctags is missing.
"""
import argparse
import collections
import os
import re
import subprocess
import sys

import prose
import tree as trees

SOURCE_LINES = 500
FUNCTION_LINES = 60
COLUMNS = 100
FOLDER_FILES = 20
README_LINES = 150
PUBLIC_FUNCTIONS = 130
ERROR_FACTOR = 1.3   # a size is an error above this multiple of its limit
MARKERS_PER_1000_WORDS = 1.0
CLANG_FORMAT = "version 14."   # other versions break lines in other places
REGISTRY = "src/registry/registry"
# the state behind a table of functions, which each implementation of the table defines
STATES = ("rung__engine", "rung__reader")
PUBLIC_INCLUDES = ("stddef.h", "stdint.h")   # what a public header may include besides public ones
LICENCE = "SPDX-License-Identifier: Apache-2.0"

# names: the files, units and folders that it involves; the limit is that of a size
Violation = collections.namedtuple("Violation", "what count names limit", defaults=(0,))


def read_list(path):
    """Lines without comments; a missing file is an empty list."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        lines = [line.split("#")[0].rstrip() for line in file]
    return [line for line in lines if line]


class Rooms:
    """rooms.txt: 'room [headers]: rooms it may include and use'. The longest folder name decides.

    All may include the public headers. 'public' lets a room use the functions declared there,
    wherever they are defined; without it a room only uses those of the rooms in its line.
    Other rooms include the headers in brackets alone; without brackets the one with its name.
    """

    def __init__(self, lines):
        self.allowed, self.open = {}, {}
        for line in re.sub(r"\n\s+", " ", "\n".join(lines)).split("\n"):   # one may go on indented
            name, _, others = line.partition(":")
            room, _, headers = name.strip(" ]").partition("[")
            room = room.strip()
            self.allowed[room] = set(others.split())
            self.open[room] = set(headers.split()) or {os.path.basename(room) + ".h"}

    def of(self, path):
        folder = os.path.dirname(path)
        while folder and folder not in self.allowed:
            folder = os.path.dirname(folder)
        return folder

    def may(self, path, other):
        room, to = self.of(path), self.of(other)
        return room == to or to == "include/rung" or to in self.allowed.get(room, ())

    def opens(self, path, header):
        room = self.of(header)
        return (room in (self.of(path), "include/rung")
                or os.path.relpath(header, room) in self.open.get(room, ()))


def check_rooms(tree, rooms):
    for path in tree.product(tree.c_paths):
        if not rooms.of(path):
            yield Violation(f"room {path}: rooms.txt has no line for its folder", 1, {path})
        public = path.startswith("include/")
        for name, target in tree.includes(path):
            if public and target is None and name not in PUBLIC_INCLUDES:
                yield Violation(f"include {path} -> {name}: not of a public header", 1, {path})
            elif target and not (rooms.may(path, target) and rooms.opens(path, target)):
                yield Violation(f"include {path} -> {target}", 1, {path, target})
    names = collections.defaultdict(set)
    public_names = tree.public_names()
    for (user, owner), used in tree.uses.items():
        if not rooms.may(user, owner):
            open_to_user = public_names if "public" in rooms.allowed.get(rooms.of(user), ()) else ()
            for name in used.difference(open_to_user):
                names[rooms.of(user), name, owner].add(user)
    for (room, name, owner), users in names.items():
        yield Violation(f"use {room} -> {owner}: {name}", len(users), {owner, *users})


def check_circles(tree):
    """The registry names what is above it, for those below: its arrows are not followed."""
    edges = [edge for edge in (*tree.uses, *tree.imports()) if edge[0] != REGISTRY]
    edges += [("header " + p, "header " + target) for p in tree.product(tree.c_paths)
              for _, target in tree.includes(p) if target and p.endswith((".h", ".cuh"))]
    for group in trees.circles(edges):
        for a, b in edges:
            if a in group and b in group:
                yield Violation(f"circle {a} -> {b}", 1, {n.split()[-1] for n in (a, b)})


def width(line):
    return len(line.expandtabs(8))


def is_wide(path, line):
    """Not wrapped: a table row or an address in Markdown, an entry of the list."""
    if path.endswith("/allowed.txt"):
        return False
    if path.endswith(".md") and (line.startswith("|") or "://" in line):
        return False
    return width(line) > COLUMNS


def check_sizes(tree):
    folders = collections.Counter()
    for path in tree.paths:
        lines = len(tree.texts[path].splitlines())
        if path.endswith(trees.CODE_ENDINGS):
            folders[os.path.dirname(path)] += 1
            yield Violation(f"lines {path}", lines, {path}, SOURCE_LINES)
        elif path == "README.md":
            yield Violation(f"lines {path}", lines, {path}, README_LINES)
    for folder, count in folders.items():
        yield Violation(f"files {folder}", count, {folder}, FOLDER_FILES)
    functions = [(d.path, d.name, d.line, d.end) for d in tree.definitions if d.kind == "function"]
    for path, name, line, end in [*functions, *tree.python_functions()]:
        yield Violation(f"function {path} {name}", end - line + 1, {path}, FUNCTION_LINES)


def check_width(tree):
    for path in tree.paths:
        wide = sum(is_wide(path, line) for line in tree.texts[path].splitlines())
        if wide:
            yield Violation(f"wide lines {path}", wide, {path})


def program_of(path):
    """The library is one program, so is the command, and each benchmark with its folder."""
    top = path.split("/")[0]
    if top in ("include", "src", "io", "numa", "kernels"):
        return "library"
    if top == "tools":
        return top
    return path if os.path.dirname(path) == "bench" else os.path.dirname(path)


def check_names(tree):
    """Structs, enums and functions of a program; a function may have the name of the struct that
    it returns or fills."""
    tags, functions = collections.defaultdict(set), collections.defaultdict(set)
    product = set(tree.product(tree.c_paths))
    for d in tree.definitions:
        if d.path not in product:
            continue
        name = program_of(d.path), d.name
        if d.kind in ("struct", "enum", "union") and d.name not in STATES:
            tags[name].add(d.path)
        elif d.kind == "function" and not d.local and not re.search(
                rf"(struct|enum)[ :]{d.name}\b", d.type):
            functions[name].add(d.path)
    for key in sorted(tags):
        if len(tags[key]) > 1:
            yield Violation(f"name {key[1]}: a struct in {', '.join(sorted(tags[key]))}", 1,
                            tags[key])
        if functions[key]:
            where = sorted(tags[key] | functions[key])
            yield Violation(f"name {key[1]}: a struct and a function in {', '.join(where)}", 1,
                            set(where))


SUITE = re.compile(r"^(?:Test|TestSuite|ParameterizedTestParameters)\(\s*(\w+)|"
                   r"^ParameterizedTest\([^,]*,\s*(\w+)", re.M)


def check_suites(tree):
    """ctest runs the suite with the name of the file, so a test in another one would not run."""
    for path in tree.paths:
        file = re.fullmatch(r"tests/(?:unit|contract)/(?:.+/)?test_(\w+)[.]c", path)
        if file:
            for names in sorted(set(SUITE.findall(tree.texts[path]))):
                if "".join(names) != file.group(1):
                    yield Violation(f"suite {path}: {''.join(names)} instead of {file.group(1)}",
                                    1, {path})


def check_public(tree):
    headers = {}
    for path in tree.paths:
        if path.startswith("include/"):
            for name in re.findall(r"RUNG_API [^;(]*\b(rung_\w+)\(", tree.texts[path]):
                headers[name] = path
    yield Violation("public functions", len(headers), set(headers.values()), PUBLIC_FUNCTIONS)
    used = set()
    for path in tree.paths:
        if path.startswith(("tools/", "bench/", "python/")) and "/tests/" not in path:
            used.update(re.findall(r"\brung_\w+", trees.blank(tree.texts[path])))
    for name in sorted(set(headers) - used):
        yield Violation(f"public {name} has no user", 1, {headers[name]})


def check_words(tree, phrases):
    """Folders are counted with the documents at the top as one more folder, '.'."""
    def top(path):
        return path.split("/")[0] if "/" in path else "."

    tops = {top(path) for path in tree.checked}
    patterns = {phrase: re.compile(rf"\b{phrase}\b", re.I) for phrase in phrases}
    words, markers = collections.Counter(), collections.defaultdict(collections.Counter)
    for path in tree.paths:
        folder = top(path)
        if folder not in tops:
            continue
        found = collections.Counter()
        for _, passage in prose.passages(path, tree.texts[path]):
            words[folder] += prose.word_count(passage)
            markers[folder][path] += len(prose.markers(passage))
            for phrase, pattern in patterns.items():
                found[phrase] += len(pattern.findall(passage))
        if not path.startswith("tests/structure/"):   # its lists and tests name the phrases
            for phrase, count in found.items():
                if count:
                    yield Violation(f"word {path} {phrase}", count, {path})
    for folder, counts in markers.items():
        count = sum(counts.values())
        if count * 1000 > MARKERS_PER_1000_WORDS * words[folder]:
            yield Violation(f"markers {folder}: too many; prose.py {folder} prints them", count,
                            {path for path in counts if counts[path]})


def check_format(tree):
    """Files that clang-format would change. Needs the tree's .clang-format and Debian 12's version.
    """
    paths = [path for path in tree.c_paths if path in tree.checked]
    if not paths or not os.path.exists(os.path.join(tree.root, ".clang-format")):
        return
    try:
        version = subprocess.run(["clang-format", "--version"], text=True, check=True,
                                 stdout=subprocess.PIPE).stdout
    except FileNotFoundError:
        version = "no clang-format"
    if CLANG_FORMAT not in version:
        print(f"format: not checked: {version.strip()} instead of {CLANG_FORMAT}")
        return
    done = subprocess.run(["clang-format", "--dry-run", "--style=file", *paths],
                          cwd=tree.root, text=True, stderr=subprocess.PIPE)
    for path in set(re.findall(r"^(.+?):\d+:\d+: warning: code should be", done.stderr, re.M)):
        yield Violation(f"format {path}: run clang-format -i", 1, {path})


def check_licence(tree):
    for path in tree.paths:
        if path.endswith(trees.CODE_ENDINGS) and LICENCE not in tree.texts[path][:200]:
            yield Violation(f"licence {path}", 1, {path})


def headings(text):
    """The names by which links refer to the headings of a document."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def check_links(tree):
    for path in tree.paths:
        if not path.endswith(".md"):
            continue
        text = re.sub(r"^```.*?^```|^    .*?$|`[^`]*`", "", tree.texts[path], flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            target, _, heading = link.partition("#")
            if "://" in target:
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target \
                else path
            if (not os.path.exists(os.path.join(tree.root, target))
                    or (heading and heading not in headings(tree.texts.get(target, "")))):
                yield Violation(f"link {path}: {link}: no such file or heading", 1, {path})


def violations(tree, folder):
    """({what: count}, sentences about sizes above their limit that are not yet violations)"""
    rooms = Rooms(read_list(os.path.join(folder, "rooms.txt")))
    words = read_list(os.path.join(folder, "words.txt"))
    checked = {name for path in tree.checked
               for name in (path, trees.unit_of(path), os.path.dirname(path))}
    found, warnings = {}, []
    for what, count, names, limit in [
            *check_rooms(tree, rooms), *check_circles(tree), *check_sizes(tree), *check_width(tree),
            *check_names(tree), *check_suites(tree), *check_public(tree), *check_words(tree, words),
            *check_format(tree), *check_licence(tree), *check_links(tree)]:
        if checked.isdisjoint(names):
            continue
        if count > limit * ERROR_FACTOR:
            found[what] = count
        elif count > limit:
            warnings.append(f"{what} ({count}, the limit is {limit})")
    return found, sorted(warnings)


def read_allowed(path):
    allowed = {}
    for line in read_list(path):
        count, _, what = line.partition(" ")
        allowed[what] = int(count)
    return allowed


def compare(found, allowed):
    """Sentences about what is wrong: (new or grown, no longer true)."""
    grown, stale = [], []
    for what, count in sorted(found.items()):
        if count > allowed.get(what, 0):
            listed = f", {allowed[what]} are allowed" if what in allowed else ""
            grown.append(f"{what}{f' ({count}{listed})' if count > 1 or listed else ''}")
    for what, count in sorted(allowed.items()):
        if count > found.get(what, 0):
            stale.append(f"{what}: {count} listed, {found.get(what, 0)} found")
    return grown, stale


def parse_arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(usage="check.py [--root DIR] [--shrink | PATH...]")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)))
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("paths", nargs="*")
    args = parser.parse_args()
    if args.shrink and args.paths:
        parser.error("--shrink needs the whole tree; remove the paths")
    for path in args.paths:
        if not os.path.exists(os.path.join(args.root, path)):
            parser.error(f"{path}: no such file or folder in {args.root}")
    return args


def main():
    args = parse_arguments()
    folder = os.path.join(args.root, "tests/structure")
    allowed_path = os.path.join(folder, "allowed.txt")
    try:
        found, warnings = violations(trees.Tree(args.root, args.paths), folder)
    except FileNotFoundError as error:
        if error.filename != "ctags":
            raise
        print("SKIPPED: ctags is missing; install universal-ctags", file=sys.stderr)
        return 77
    except subprocess.CalledProcessError:
        print("SKIPPED: ctags has no JSON output; install universal-ctags", file=sys.stderr)
        return 77
    grown, stale = compare(found, read_allowed(allowed_path))
    for line in warnings:
        print(f"warning: {line}", file=sys.stderr)
    for line in grown:
        print(f"violation: {line}", file=sys.stderr)
    if args.shrink and not grown:
        with open(allowed_path, "w", encoding="utf-8") as file:
            file.write("# Violations that stand today, each with its count. "
                       "The list only shrinks: check.py --shrink\n")
            file.writelines(f"{count} {what}\n" for what, count in sorted(found.items()))
        return 0
    if args.paths:
        stale = []   # other files have them
    for line in stale:
        print(f"allowed.txt: {line}; run tests/structure/check.py --shrink", file=sys.stderr)
    return 1 if grown or stale else 0


if __name__ == "__main__":
    sys.exit(main())

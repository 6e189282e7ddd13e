# SPDX-License-Identifier: Apache-2.0
"""Messages of the library name what a Python user knows: no option of the command, no C function,
no field of a C struct. All messages in the C sources are read."""

import inspect
import os
import re
import subprocess
from contextlib import suppress

import pytest
from conftest import SOURCE

import rung
from rung._library import FUNCTIONS, _headers
from rung.errors import in_python

FOLDERS = ("src", "io", "numa", "kernels")
TOKEN = re.compile(r"""/\*.*?\*/ | //[^\n]* | ^\s*\#\s*include[^\n]* | '(?:\\.|[^'\\])*'
                       | "(?P<text>(?:\\.|[^"\\])*)" | (?P<number>\bPRI\w+) | (?P<space>\s+) | .""",
                   re.S | re.M | re.X)

# Commands that the wheel installs and that have no equal in Python, with their options.
COMMANDS = re.compile(r"\brung (numa|verify)( --[a-z]+)?")

# Messages that keep a name of C, and why no Python user reads them.
UNREACHABLE = {
    r"NULL": "the package passes no NULL",
    r"enum rung_\w+|use RUNG_|pass RUNG_STREAM_OWN": "the package checks choices by their names",
    r"RUNG_CORE_ONLY": "the package needs io/",
    r"index_bytes is|chunk_bytes is|rung_rank_order\(\)": "the library passes these itself",
    r"vertex_count is 0; set it to the number of rows|kept_max": "rung_trace_create",
    r"^rung_plan_budget: size": "rung_plan_sweep",
    r"^rung_plan_table: size": "the package sets the sizes of tables",
    r"opts\.relations|correct source_count|omit gpu_sampler": "the package passes these itself",
    r"^rung_profile: has|rung_profile_load\(\)": "the package loads profiles with that function",
    r"^features: (block_rows|ranges|row_bytes)": "keys of manifest.json",
    r"give --rest with|a smaller --share": "rung_fetch",
    r"^rung_numa_probe_policy:": "rung_numa_probe_policy",
    r"^rung_dataset_verify:|\(--(split|graph|source|labels|score) ?": "rung_dataset_verify",
    r"\(--nvme\)|use --dir to measure|\(--dir\)": "rung_numa_measure",
}


def messages(path):
    """Yield the line and text of each sentence among the string literals of a C file.

    Adjacent literals are one string. A format such as PRIu64 becomes a number.
    """
    with open(path, encoding="utf-8") as file:
        code = file.read()
    parts, first = [], 0
    for token in TOKEN.finditer(code + ";"):
        if token["text"] is not None:
            first = first if parts else code.count("\n", 0, token.start()) + 1
            parts.append(token["text"])
        elif token["number"]:
            parts.append("u" if parts else "")
        elif not token["space"] and not token[0].startswith(("/*", "//")) and parts:
            text = re.sub(r"%[-.*0-9]*(?:ll|z)?[a-zA-Z]", "1", "".join(parts))
            if " " in text:
                yield first, text
            parts = []


def fields():
    """Return the names of struct fields that are not ordinary words, nor names in Python."""
    known = set()
    for value in vars(rung).values():
        with suppress(TypeError, ValueError):
            known |= set(inspect.signature(value).parameters)
    found = {name for struct in _headers.structs.values() for name, *_ in struct._fields_}
    return {name for name in found if "_" in name} - known


def foreign(text, names):
    """Return the first name in a message that does not exist in Python, or None."""
    found = re.search(r"--[a-z]|\bRUNG_[A-Z]\w*|\brung_\w+|\bopts\b|\brung "
                      r"(?:bench|generate|info|plan|score|stage|trace|train)\b|\b(?:"
                      + "|".join(sorted(names)) + r")\b", COMMANDS.sub("", text))
    return found and found[0]


def sources():
    for folder in FOLDERS:
        for at, _, names in os.walk(os.path.join(SOURCE, folder)):
            for name in names:
                if name.endswith((".c", ".h", ".cu", ".cuh")):
                    yield os.path.join(at, name)


def test_no_message_names_an_option_a_c_function_or_a_field():
    names, kept, read = fields(), [], 0
    assert {"batch_rows_max", "requests_max", "hop_count"} <= names
    used = dict.fromkeys(UNREACHABLE, 0)
    for path in sources():
        for line, text in messages(path):
            read += 1
            told = in_python(text)
            name = foreign(told, names)
            why = [pattern for pattern in UNREACHABLE if name and re.search(pattern, text)]
            for pattern in why:
                used[pattern] += 1
            if name and not why:
                kept.append(f"{os.path.relpath(path, SOURCE)}:{line}: {name}: {told}")
    assert read > 700
    assert not kept, "\n".join(kept)
    assert [pattern for pattern, count in used.items() if not count] == []


def test_functions_that_are_named_as_unreachable_are_not_called():
    package = os.path.dirname(rung.__file__)
    called = subprocess.run(["grep", "-rhoE", r"\blib\.rung_\w+", package, "--include=*.py"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    for why in UNREACHABLE.values():
        if why.startswith("rung_"):
            assert why in FUNCTIONS and why not in called, why


def test_every_translation_is_needed():
    """A pattern that no message matches any more is removed."""
    texts = [text for path in sources() for _, text in messages(path)]
    for pattern, _ in rung.errors._NAMES:
        assert any(pattern.search(text) for text in texts), pattern.pattern


@pytest.mark.parametrize("sentence, expected", [
    ("out: exists; choose another output, or replace it with --force",
     "out: exists; choose another output, or replace it with force=True"),
    ("staging x: a memory budget of 5 bytes is too small for this graph; give at least 900 with "
     "--memory",
     "staging x: a memory budget of 5 bytes is too small for this graph; use memory=900 or more"),
    ("d: no array 'split_a'; rung info lists the arrays",
     "d: no array 'split_a'; Dataset.arrays and Dataset.splits list the names"),
    ("no free request slot; wait for one or raise requests_max",
     "no free request slot; wait for one or raise requests"),
    ("/data/my-graph: run rung verify", "/data/my-graph: run rung verify")])
def test_names_of_python(sentence, expected):
    assert in_python(sentence) == expected

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The text of the source tree: comments, literals, test names and documents.

usage: prose.py PATH...    print each marker phrase below the paths with its line

A *passage* is one comment (adjacent comment lines together), one literal (adjacent C literals
together), one test name, or one paragraph of a document. Phrases are searched in passages with
line breaks removed, so that wrapping a line hides nothing.
"""
import io
import os
import re
import sys
import tokenize

import tree as trees

# Phrases that make text read like a translation. Their rate is limited, because some of them have
# a proper use ("there is no GPU").
MARKERS = {
    "no": r"\b(?:is|are|was|were) (?:no|none)\b",
    "behind": r"\b(?:behind|besides?)\b",
    "lies": r"\b(?:lies|lie|lying)\b",
    "tell": r"\b(?:tells?|told|telling|says?|said|saying)\b",
    "so many": r"\bso many\b",
    "own": r"\bof (?:its|their|our|his|your|one's) own\b",
    "nobody": r"\bnobody\b",
    "anew": r"\b(?:anew|likewise|meanwhile)\b",
    "start": r"(?:^|(?<=[.!?] ))(?-i:What|Those|Whoever|Of)\b(?! (?:is|are|does|do)\b[^.]*\?)",
}
MARKER = re.compile("|".join(f"(?P<m{i}>{p})" for i, p in enumerate(MARKERS.values())), re.I)
WORD = re.compile(r"[A-Za-z][A-Za-z']*")
FORMAT = re.compile(r"%[-+ #0-9.*]*(?:hh?|ll?|z|j)?[a-zA-Z]|\\[nt0\"]")

C_TEXT = re.compile(r'(?P<comment>/\*.*?\*/|(?://[^\n]*(?:\n[ \t]*(?=//))?)+)'
                    r'|(?P<include>\#[ \t]*include[^\n]*)'
                    r'|(?P<string>"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*)'
                    r"|'(?:\\.|[^'\\\n])*'", re.S)
C_TEST = re.compile(r"^Test\(\w+,\s*(\w+)", re.M)
HASH_TEXT = re.compile(r'(?P<comment>(?:(?<![^\s;(])\#(?!!)[^\n]*(?:\n[ \t]*(?=\#))?)+)'
                       r'|(?P<string>"(?:\\.|[^"\\])*"|\'[^\'\n]*\')', re.S)
PARAGRAPH = re.compile(r"\S.*?(?=\n[ \t]*\n|\n[ \t]*(?:[-*|#]|\d+\.) |\Z)", re.S)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def c_passages(text):
    for match in C_TEXT.finditer(text):
        if match["comment"]:
            passage = re.sub(r"^\s*(?:/\*+<?|\*/|\*(?!/)|//+)|\*/\s*$", " ", match["comment"],
                             flags=re.M)
            yield line_of(text, match.start()), passage
        elif match["string"]:
            yield line_of(text, match.start()), re.sub(r'"\s*"', "", match["string"])[1:-1]
    for match in C_TEST.finditer(text):
        yield line_of(text, match.start()), match[1].replace("_", " ")


def python_passages(text):
    comment, start, last = [], 0, -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            if line != last + 1 and comment:
                yield start, "\n".join(comment)
                comment = []
            start = start if comment else line
            comment.append(token.string.lstrip("#! "))
            last = line
        elif token.type == tokenize.STRING:
            yield line, re.sub(r'^[a-zA-Z]*("""|"|\'\'\'|\')|("""|"|\'\'\'|\')$', "", token.string)
        elif token.type == tokenize.NAME and token.string.startswith("test_"):
            yield line, token.string.replace("_", " ")
    if comment:
        yield start, "\n".join(comment)


def hash_passages(text):
    """Shell and CMake."""
    for match in HASH_TEXT.finditer(text):
        yield (line_of(text, match.start()),
               re.sub(r"^\s*#+", " ", match["comment"], flags=re.M) if match["comment"]
               else match["string"][1:-1])


def document_passages(text):
    for match in PARAGRAPH.finditer(text):
        yield line_of(text, match.start()), match[0]


def passages(path, text):
    """(line, passage without line breaks)"""
    if path.endswith(trees.C_ENDINGS):
        found = c_passages(text)
    elif path.endswith(".py"):
        found = python_passages(text)
    elif path.endswith((".sh", ".cmake", "CMakeLists.txt")):
        found = hash_passages(text)
    else:
        found = document_passages(text)
    for line, passage in found:
        passage = " ".join(FORMAT.sub(" ", passage.replace("`", "")).split())
        yield line, re.sub(r"^(?:[-*#>|]+|\d+\.) ", "", passage)


def markers(passage):
    return [match[0] for match in MARKER.finditer(passage)]


def word_count(passage):
    return len(WORD.findall(passage))


def main():
    for path in sys.argv[1:]:
        for folder, folders, names in os.walk(path) if os.path.isdir(path) else [
                (os.path.dirname(path), [], [os.path.basename(path)])]:
            folders[:] = [f for f in folders if f not in trees.SKIPPED]
            for name in sorted(names):
                if not name.endswith(trees.TEXT_ENDINGS):
                    continue
                file = os.path.join(folder, name)
                with open(file, encoding="utf-8") as stream:
                    text = stream.read()
                for line, passage in passages(file, text):
                    for marker in markers(passage):
                        print(f"{file}:{line}: {marker}: {passage[:110]}")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Machines in one file, as tests/fixtures/README.md says: made into folders."""
import os
import re
import shutil

FIXTURES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fixtures")


def content(text):
    """The bytes that the text behind "path =" stands for."""
    end = b"\n"
    if text.endswith("\\c"):
        text, end = text[:-2], b""
    bytes_of = {"\\n": b"\n", "\\t": b"\t", "\\\\": b"\\"}
    parts = re.split(r"(\\n|\\t|\\\\|\\x[0-9a-fA-F]{2})", text)
    return b"".join(bytes_of.get(part) or (bytes([int(part[2:], 16)]) if part.startswith("\\x") else part.encode()) for part in parts) + end


def clear(path):
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)


def put(root, line):
    """Do one line below the folder `root`."""
    found = re.fullmatch(r"(\S+?)(/| !| =| = (?P<text>.*)| -> (?P<target>.*))", line)
    if not found:
        raise ValueError("no line of a machine: '%s'" % line)
    path, what = os.path.join(root, found[1]), found[2]
    clear(path)
    if what == " !":
        return
    if what == "/":
        os.makedirs(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if found["target"] is not None:
        os.symlink(found["target"], path)
    else:
        with open(path, "wb") as file:
            file.write(content(found["text"] or ""))


def unpack(root, name, more=()):
    """Make the machine of fixtures/NAME.machine, then the lines of `more`, in the folder `root`, which is emptied first."""
    clear(root)
    os.makedirs(root)
    with open(os.path.join(FIXTURES, name + ".machine"), encoding="ascii") as file:
        lines = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    for line in lines + list(more):
        put(root, line)

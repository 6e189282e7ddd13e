# SPDX-License-Identifier: Apache-2.0
"""Creates folders from one-file machines; see tests/fixtures/README.md."""
import os
import re
import shutil

FIXTURES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fixtures")


def content(text):
    """The bytes that the text after "path =" stands for."""
    end = b"\n"
    if text.endswith("\\c"):
        text, end = text[:-2], b""
    bytes_of = {"\\n": b"\n", "\\t": b"\t", "\\\\": b"\\"}
    parts = re.split(r"(\\n|\\t|\\\\|\\x[0-9a-fA-F]{2})", text)
    return (b"".join(bytes_of.get(part) or (bytes([int(part[2:], 16)]) if part.startswith("\\x")
                                            else part.encode()) for part in parts) + end)


def clear(path):
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)


def path_of(line):
    return line.split(" ")[0].rstrip("/")


def put(root, line):
    """Apply one line of a machine below the folder `root`."""
    found = re.fullmatch(r"(\S+?)(/| !| =| = (?P<text>.*)| -> (?P<target>.*))", line)
    if not found:
        raise ValueError("not a line of a machine: '%s'" % line)
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


class Machine:
    """The machine of fixtures/NAME.machine, in the new folder `root`."""

    def __init__(self, root, name):
        with open(os.path.join(FIXTURES, name + ".machine"), encoding="ascii") as file:
            self.lines = [line.rstrip("\n") for line in file
                          if line.strip() and not line.startswith("#")]
        self.root, self.changed = root, []
        os.makedirs(root)
        for line in self.lines:
            put(root, line)

    def change(self, *lines):
        for line in lines:
            self.changed.append(path_of(line))
            put(self.root, line)

    def restore(self):
        """Undo all changes."""
        for path in self.changed:
            clear(os.path.join(self.root, path))
        for line in self.lines:
            if any((path_of(line) + "/").startswith(path + "/") for path in self.changed):
                put(self.root, line)
        self.changed = []

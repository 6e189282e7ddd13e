#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries an installed rung as a new user would: the command, and the Python lines of the READMEs.

usage: try_release.py README.md...

Needs numpy only. The files that the lines name are synthetic, in a temporary folder.
"""

import os
import re
import subprocess
import sys
import tempfile

import numpy as np


def make_inputs() -> None:
    """Write edges.npy, x.npy, y.npy and train.npy: 20,000 vertices of 5 classes."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5, 20_000)
    np.save("edges.npy", rng.integers(0, 20_000, (2, 200_000)))
    np.save("x.npy", (rng.standard_normal((20_000, 64)) + np.eye(5, 64)[labels]).astype("float32"))
    np.save("y.npy", labels)
    for name, part in (("train", slice(4000)), ("valid", slice(4000, 5000)),
                       ("test", slice(5000, 8000))):
        np.save(f"{name}.npy", rng.permutation(20_000)[part])


def run_lines(path: str) -> int:
    """Run the Python blocks of a file one after the other, and return their number."""
    with open(path, encoding="utf-8") as file:
        blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
    names = {"ids": np.array([7, 0, 7])}
    lines = [block for block in blocks if not block.startswith("# usage:")]   # no programs
    for block in lines:
        exec(compile(block, path, "exec"), names)   # pylint: disable=exec-used
    return len(lines)


def main() -> None:
    paths = [os.path.abspath(path) for path in sys.argv[1:]]
    count = 0
    for path in paths:
        with tempfile.TemporaryDirectory(prefix="rung-try-") as folder:
            os.chdir(folder)
            make_inputs()
            count += run_lines(path)
            for words in (["stage", "--graph", "edges.npy", "--features", "x.npy", "--labels",
                           "y.npy", "--split", "train=train.npy", "--out", "command.rung"],
                          ["verify", "command.rung"], ["bench", "command.rung", "--host", "50%"]):
                subprocess.run(["rung", *words, "--quiet"], check=True)
            os.chdir("/")
    if not count:
        sys.exit("try_release.py: no Python lines were found")
    print(f"{count} blocks of Python lines ran")


if __name__ == "__main__":
    main()

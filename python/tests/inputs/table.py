# SPDX-License-Identifier: Apache-2.0
"""The inputs of staging, with their wrong descriptions, and the front ends that stage them."""

import copy
import json
import os
import subprocess

import numpy as np
import pytest
from wrong import (
    ARRAYS,
    AUTHORS,
    FEATURES,
    GRAPHS,
    IDS,
    PAPERS,
    ROW_ARRAYS,
    SCORES,
    TRAIN_IDS,
)

import rung

COMMAND = os.environ.get("RUNG", "")

# name: (option of the command before SRC, argument of Python, key of the vertex type or relation of
# a description, good array, wrong descriptions, the input's name in messages); None: has none
UNTYPED = {
    "features": ("--features ", ("features",), "features", "x", FEATURES, "features"),
    "array": ("--features year=", ("arrays", "year"), "arrays.year", "year", ROW_ARRAYS,
              r"features 'year'|arrays\['year'\]|arrays\.year"),
    "labels": ("--labels ", ("labels",), "labels", "y", ROW_ARRAYS, "labels"),
    "train": ("--split train=", ("splits", "train"), "splits.train", "train",
              TRAIN_IDS, r"split 'train'|splits\['train'\]|splits\.train"),
    "valid": ("--split valid=", ("splits", "valid"), "splits.valid", "valid", IDS,
              r"split 'valid'|splits\['valid'\]|splits\.valid"),
    "graph": ("--graph ", ("graph",), "cites.edges", "cites", GRAPHS,
              r"graph|relations\[0\]\.edges"),
    "score": ("--score ", ("score_source",), None, "score", SCORES, "score"),
}
TYPED = {
    "features": ("--vertices paper=", None, "features", "x", FEATURES, "features"),
    "labels": ("--labels paper=", None, "labels", "y", ROW_ARRAYS, "labels"),
    "array": ("--features paper:year=", None, "arrays.year", "year", ROW_ARRAYS,
              r"(features 'year'|arrays\['year'\]) of paper|arrays\.year"),
    "train": ("--split paper:train=", None, "splits.train", "train",
              TRAIN_IDS, r"(split 'train'|splits\['train'\]) of paper|splits\.train"),
    "valid": ("--split paper:valid=", None, "splits.valid", "valid", IDS,
              r"(split 'valid'|splits\['valid'\]) of paper|splits\.valid"),
    "edges": ("--edges paper:cites:paper=", None, "cites.edges", "cites", GRAPHS,
              r"edges of cites|relations\[0\]"),
    "edges between types": ("--edges author:writes:paper=", None, "writes.edges", "writes", GRAPHS,
                            r"edges of writes|relations\[1\]"),
    "edge rows": ("--edge-rows author:writes:paper=", None, "writes.rows", "weight", ROW_ARRAYS,
                  r"edge rows of writes|relations\[1\]"),
}
SETTINGS = {"fanouts": [2, 2], "batch_size": 16, "draws": "all"}
DESCRIPTION = {
    "format": "rung-source", "version": 1, "training": SETTINGS,
    "vertex_types": [{"name": "paper", "count": PAPERS, "features": "x.npy", "labels": "y.npy",
                      "arrays": {"year": "year.npy"},
                      "splits": {"train": "train.npy", "valid": "valid.npy"}},
                     {"name": "author", "count": AUTHORS}],
    "relations": [{"name": "cites", "source": "paper", "target": "paper", "edges": "cites.npy"},
                  {"name": "writes", "source": "author", "target": "paper", "edges": "writes.npy",
                   "rows": "weight.npy"}]}


# Inputs that are left out with another one, whose mistake they would hide.
LEFT_OUT = {"edges between types": ("edge rows",)}


def write_arrays():
    for name, array in ARRAYS.items():
        np.save(f"{name}.npy", array)


def command(table, bad, spec):
    """Return the message of `rung stage`, given the options of a table or another list."""
    words = []
    for name, row in table.items():
        option, start = row[0].split(" ", 1)
        if name == bad or name not in LEFT_OUT.get(bad, ("score",)):
            words += [option, start + (spec if name == bad else f"{row[3]}.npy")]
    if table is TYPED:
        words += ["--vertices", f"author={AUTHORS}"]
    return run(words)


def run(words):
    done = subprocess.run([COMMAND, "stage", "--out", "out", "--quiet", *words],
                          capture_output=True, text=True, check=False, timeout=300)
    lines = done.stderr.strip().splitlines()
    assert done.returncode in (1, 2) and done.stdout == "", done
    assert len(lines) == (1 if done.returncode == 1 else len(lines)), done
    return lines[0]


def in_python(**arguments):
    with pytest.raises(rung.Error) as caught:
        rung.stage("out", **arguments)
    return str(caught.value)


def arguments(bad, spec):
    given = {}
    for name, row in UNTYPED.items():
        argument, *key = row[1]
        src = spec if name == bad else f"{row[3]}.npy"
        if name == bad or name != "score":
            given[argument] = {**given.get(argument, {}), key[0]: src} if key else src
    return given


def described(table, bad, spec):
    root = copy.deepcopy(DESCRIPTION)
    if table is UNTYPED:
        del root["vertex_types"][1], root["relations"][1]
    at = {"cites": root["relations"][0], "writes": root["relations"][-1]}
    *path, key = table[bad][2].split(".")
    owner = root["vertex_types"][0]
    for name in path:
        owner = at[name] if name in at else owner[name]
    owner[key] = spec
    if "edge rows" in LEFT_OUT.get(bad, ()):
        del root["relations"][1]["rows"]
    with open("dataset.json", "w", encoding="utf-8") as file:
        json.dump(root, file)

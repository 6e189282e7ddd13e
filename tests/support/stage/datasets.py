# SPDX-License-Identifier: Apache-2.0
"""One list of data sets, of every kind that rung stages: KINDS. The tests of tests/cli/kinds
and python/tests/test_kinds.py run over all of them; a new kind is a new row here. Uses only
Python's standard library."""
import copy
import json
import os
import random
from dataclasses import dataclass, field

from clitest import npy_bytes

VERTICES, AUTHORS, VENUES, WRITES = 240, 150, 4, 500
TYPED = {
    "format": "rung-source", "version": 1,
    "vertex_types": [
        {"name": "paper", "count": VERTICES, "features": "features.npy", "labels": "labels.npy",
         "arrays": {"year": "year.npy"}, "splits": {"train": "train.npy"}},
        {"name": "author", "count": AUTHORS, "features": "author.npy"},
        {"name": "venue", "count": VENUES}],
    "relations": [
        {"name": "cites", "source": "paper", "target": "paper", "edges": "edges.npy",
         "undirected": True},
        {"name": "writes", "source": "author", "target": "paper", "edges": "writes.npy",
         "rows": "writes_rows.npy", "fanouts": [3, 0]},
        {"name": "rev_writes", "source": "paper", "target": "author", "edges": "writes.npy",
         "reversed": True}],
    "training": {"fanouts": [4, 3], "batch_size": 32},
}


@dataclass
class Kind:
    """A data set to stage.

    Attributes:
        name: of the kind
        options: of the command; {dir} is the folder of the sources
        arguments: the same of rung.stage()
        typed: changes of the description TYPED, a function; None: not typed
        parts: number of parts that are staged one after another
        lists: False: the staged data set has none
        copies: False: rung fetch refuses it, because the rows are elsewhere
    """

    name: str
    options: list = field(default_factory=list)
    arguments: dict = field(default_factory=dict)
    typed: object = None
    parts: int = 1
    lists: bool = True
    copies: bool = True


def same(_root):
    """The description TYPED as it is."""


def by_column(root):
    root["vertex_types"][0]["quantize"] = "int8:column"
    root["vertex_types"][1].update(features="limits.npy", quantize="fp8:column")


def empty_types(root):
    """Only one type with rows, and a relation without edges whose edge rows are empty."""
    del root["vertex_types"][1]["features"]
    root["relations"][1].update(edges="no_edges.npy", rows="no_rows.npy")
    root["relations"][2].update(edges="no_edges.npy")


def one_type(root):
    """One type and two relations."""
    del root["vertex_types"][1:], root["relations"][1:]
    root["relations"].append(dict(root["relations"][0], name="again", undirected=False))


KINDS = [
    Kind("plain"),
    Kind("undirected", ["--undirected", "--dedup"], {"undirected": True, "dedup": True}),
    Kind("padded", ["--pad", "sector"], {"pad": "sector"}),
    Kind("labelled", ["--labels", "{dir}/labels.npy", "--features", "year={dir}/year.npy",
                      "--split", "train={dir}/train.npy"],
         {"labels": "{dir}/labels.npy", "arrays": {"year": "{dir}/year.npy"},
          "splits": {"train": "{dir}/train.npy"}}),
    Kind("quantized by row", ["--quantize", "int8"], {"quantize": "int8"}),
    Kind("quantized by column", ["--quantize", "int4:column"], {"quantize": "int4:column"}),
    # a column of zeros, and one of the largest numbers
    Kind("limits, int8", ["--features", "{dir}/limits.npy", "--quantize", "int8:column"],
         {"features": "{dir}/limits.npy", "quantize": "int8:column"}),
    Kind("limits, fp8", ["--features", "{dir}/limits.npy", "--quantize", "fp8:column"],
         {"features": "{dir}/limits.npy", "quantize": "fp8:column"}),
    Kind("striped", ["--stripe", "{dir}/one", "--stripe", "{dir}/two"],
         {"stripe": ["{dir}/one", "{dir}/two"]}),
    Kind("ranged", ["--stripe", "{dir}/one", "--until", "40%", "--stripe", "{dir}/two"],
         {"stripe": {0.4: ["{dir}/one"], 1: ["{dir}/two"]}}),
    Kind("in place", ["--in-place"], {"in_place": True}, copies=False),
    Kind("in parts", ["--score", "{dir}/score.npy"], {"score_source": "{dir}/score.npy"}, parts=3),
    Kind("without lists", ["--graph", "none"], {"graph": None}, lists=False),
    Kind("typed", typed=same),
    Kind("typed, quantized by column", typed=by_column),
    Kind("typed, in place", ["--in-place"], {"in_place": True}, typed=same, copies=False),
    Kind("typed, without edges and rows", typed=empty_types),
    Kind("typed, of one type", typed=one_type),
]


class Sources:
    """The sources of all kinds, in the folder `folder`."""

    def __init__(self, folder):
        self.folder, self.draws = folder, random.Random(7)
        draws, vertices = self.draws, VERTICES
        ids = list(range(vertices))
        draws.shuffle(ids)
        self.write("features", "<f4", (vertices, 9),
                   [draws.gauss(0, 1) for _ in range(9 * vertices)])
        self.write("limits", "<f4", (AUTHORS, 3), [
            value for i in range(AUTHORS) for value in (0, 3.4028234e38 / (i + 1), 1e-44 * i)])
        self.write("author", "|u1", (AUTHORS, 50), draws.randbytes(50 * AUTHORS))
        self.write("labels", "<i8", (vertices,), [draws.randrange(5) for _ in range(vertices)])
        self.write("year", "<i4", (vertices,), [draws.randrange(1990, 2020) for _ in ids])
        self.write("score", "<f4", (vertices,), [draws.random() for _ in ids])
        self.write("train", "<i8", (vertices // 3,), ids[:vertices // 3])
        self.edges("edges", 900, AUTHORS, AUTHORS)
        self.edges("writes", WRITES, AUTHORS, vertices)
        self.write("writes_rows", "<f4", (WRITES, 2), [draws.random() for _ in range(2 * WRITES)])
        self.edges("no_edges", 0, 1, 1)
        self.write("no_rows", "<f4", (0, 2), [])

    def write(self, name, *args):
        with open(os.path.join(self.folder, name + ".npy"), "wb") as file:
            file.write(npy_bytes(*args))

    def edges(self, name, count, sources, targets):
        draw = self.draws.random
        self.write(name, "<i8", (2, count), [
            int(limit * draw() ** 2) for limit in (sources, targets) for _ in range(count)])

    def fill(self, value):
        """Put the folder into options and arguments."""
        if isinstance(value, str):
            return value.replace("{dir}", self.folder)
        if isinstance(value, dict):
            return {key: self.fill(entry) for key, entry in value.items()}
        return [self.fill(entry) for entry in value] if isinstance(value, list) else value

    def description(self, kind):
        """Write the description of a typed kind, and return its path."""
        root = copy.deepcopy(TYPED)
        kind.typed(root)
        path = os.path.join(self.folder, "dataset-%d.json" % KINDS.index(kind))
        with open(path, "w", encoding="utf-8") as file:
            json.dump(root, file)
        return path

    def options(self, kind, score):
        """Arguments of `rung stage`, without --out and --part."""
        words = self.fill(kind.options)
        if kind.typed:
            return words + ["--dataset", self.description(kind), "--score", score]
        for option, value in (("--features", "features.npy"), ("--graph", "edges.npy")):
            # further arrays have a name before their path
            if not any(word == option and "=" not in words[i + 1] for i, word in enumerate(words)):
                words += [option, os.path.join(self.folder, value)]
        if not kind.lists:
            return words
        return words + ([] if "--score" in words else ["--score", score]) + [
            "--fanout", "4,3", "--batch", "32"]

    def arguments(self, kind, score):
        """The same as arguments of rung.stage(), without `out` and `slice`."""
        filled = self.fill(kind.arguments)
        if kind.typed:
            return dict(filled, dataset=self.description(kind), score=score)
        given = {"features": os.path.join(self.folder, "features.npy"),
                 "graph": os.path.join(self.folder, "edges.npy")}
        if kind.lists:
            given.update(fanouts=(4, 3), batch_size=32)
        if kind.lists and "score_source" not in filled:
            given["score"] = score
        return dict(given, **filled)


def files(folder):
    """All files of a staged data set, with the folder of their part: {name: bytes}. Rows in stripes
    are those that links lead to."""
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def folders(folder):
    """The data set, and the parts of a typed one."""
    return sorted(parent for parent, _, names in os.walk(folder) if "manifest.json" in names)

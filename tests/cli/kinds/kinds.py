# SPDX-License-Identifier: Apache-2.0
"""Every kind of data set (tests/support/stage/datasets.py), staged by the command."""
import itertools
import json
import os
import shutil
import sys

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support")
sys.path[:0] = [SUPPORT, os.path.join(SUPPORT, "stage")]
from clitest import CliTest
from datasets import KINDS, Sources


class KindsTest(CliTest):
    """Stages kinds one after another, each in an empty folder."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("sources"))
        self.sources = Sources(self.path("sources"))
        self.out = self.path("out")

    def stage(self, kind, *more, score="expected", out=None, code=0):
        """Stage it, all parts. Returns the result of the last run."""
        for part in range(kind.parts - 1, -1, -1):
            slices = ["--part", f"{part}/{kind.parts}"] if kind.parts > 1 else []
            done = self.run_rung("stage", *self.sources.options(kind, score), *slices, "--quiet",
                                 "--out", out or self.out, *more, code=code)
        return done

    def clear(self):
        """Remove all that was staged, stripes included."""
        shutil.rmtree(self.folder)
        os.makedirs(self.path("sources"))
        self.sources = Sources(self.path("sources"))
        for name in ("one", "two"):
            os.mkdir(self.path("sources", name))

    def each(self, check):
        """Call check(kind) for all kinds."""
        for kind in KINDS:
            with self.subTest(kind=kind.name):
                self.variables = {}
                self.clear()
                check(kind)

    def repairs(self, kind):
        """Options of `rung verify --repair`."""
        if kind.typed:
            return ["--dataset", self.sources.description(kind)]
        words, given = [], self.sources.options(kind, "degree")
        for option, value in itertools.pairwise(given):
            if option == "--features":
                words += ["--source", value]
            elif option in ("--graph", "--labels", "--split"):
                words += [option, value]
            elif option in ("--undirected", "--dedup"):
                words += [option]
        return words + (["--score", self.sources.fill("{dir}/score.npy")] if kind.parts > 1 else [])

    @staticmethod
    def is_in_place(folder):
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            return "in_place" in (json.load(file).get("features") or {})

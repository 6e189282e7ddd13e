# SPDX-License-Identifier: Apache-2.0
"""Every kind of data set (tests/support/stage/datasets.py), with several scores: rung.stage() and
the command write the same bytes, and rows come back as they were staged."""

import os
import subprocess
import sys

import numpy as np
import pytest

import rung

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests",
                       "support")
sys.path[:0] = [SUPPORT, os.path.join(SUPPORT, "stage")]
from datasets import KINDS, Sources, files  # noqa: E402

RUNG = os.environ.get("RUNG")
SCORES = ("expected", "blend", "degree")
JOBS = [(kind, score) for kind in KINDS for score in SCORES
        # scores of types are of two methods; given ones, and those without lists, are what they are
        if not (kind.typed and score == "degree") and
        (score == "expected" or (kind.lists and kind.parts == 1))]


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "sources"
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True)
    return Sources(str(folder))


def by_command(sources, kind, score, out):
    for part in range(kind.parts - 1, -1, -1):
        slices = ["--part", f"{part}/{kind.parts}"] if kind.parts > 1 else []
        subprocess.run([RUNG, "stage", *sources.options(kind, score), *slices,
                        "--quiet", "--out", out], check=True)


def by_python(sources, kind, score, out):
    for part in range(kind.parts - 1, -1, -1):
        slices = {"slice": (part, kind.parts)} if kind.parts > 1 else {}
        rung.stage(out, **sources.arguments(kind, score), **slices)


def test_there_are_enough_jobs():
    assert len(JOBS) >= 40


@pytest.mark.skipif(not RUNG, reason="RUNG is not set to a command")
@pytest.mark.parametrize("kind, score", JOBS, ids=lambda value: getattr(value, "name", value))
def test_the_command_and_python_stage_the_same_bytes(sources, tmp_path, kind, score):
    """The second one replaces nothing: stripes are in other folders."""
    out = str(tmp_path / "out")
    by_command(sources, kind, score, out)
    command = files(out)
    os.rename(out, tmp_path / "first")
    for name in ("one", "two"):
        os.rename(tmp_path / "sources" / name, tmp_path / name)
        (tmp_path / "sources" / name).mkdir()
    by_python(sources, kind, score, out)
    assert files(out) == command


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_rows_are_those_of_the_source_or_the_cure_is_named(sources, tmp_path, kind):
    out = str(tmp_path / "out")
    by_python(sources, kind, "expected", out)
    given = np.load(sources.arguments(kind, "expected").get("features", os.path.join(
        sources.folder, "features.npy")))
    folder = os.path.join(out, "vertices", "paper") if kind.typed else out
    quantized = "quantize" in kind.arguments or kind.name == "typed, quantized by column"
    with rung.open(folder) as store:
        rows = store.gather(np.arange(len(given)))
        if quantized:
            assert np.isfinite(rows).all()
        else:
            np.testing.assert_array_equal(rows, given)
    if kind.typed:
        with pytest.raises(rung.InvalidError, match="has no rows; give the folder of a type"):
            rung.open(os.path.join(out, "edges", "paper.cites.paper"))

# SPDX-License-Identifier: Apache-2.0
"""Data sets that several machines stage, each a slice of the rows."""

import os
from multiprocessing import get_context

import numpy as np
import pytest
from conftest import same

import rung

VERTICES = 503
FEATURES = np.random.default_rng(21).random((VERTICES, 9)).astype(np.float32)


@pytest.fixture
def sources(tmp_path):
    draws = np.random.default_rng(22)
    arrays = {"graph": draws.integers(0, VERTICES, (2, 3000)), "features": FEATURES,
              "score_source": draws.random(VERTICES).astype(np.float32)}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    return {name: str(tmp_path / f"{name}.npy") for name in arrays}


def stage_slice(out, sources, part):
    return rung.stage(out, slice=part, resume=True, **sources)


def rows_of(path):
    with rung.open(path) as store:
        return store.gather(np.arange(len(store)))


def test_slices_are_staged_at_the_same_time(tmp_path, sources):
    out = tmp_path / "out.rung"
    with get_context("spawn").Pool(3) as pool:
        others = pool.starmap(stage_slice, [(out, sources, (i, 4)) for i in (1, 2, 3)])
    assert [result.ranks for result in others] == [(125, 251), (251, 377), (377, 503)]
    result = stage_slice(out, sources, (0, 4))
    assert result.ranks == (0, 125) and result.edge_count == 3000
    assert sorted(os.listdir(tmp_path)) == ["features.npy", "graph.npy", "out.rung",
                                            "score_source.npy"]
    assert same(rows_of(out), FEATURES)
    rung.stage(tmp_path / "whole.rung", **sources)
    with rung.Dataset(out) as one, rung.Dataset(tmp_path / "whole.rung") as other:
        for name in ("rank_of_vertex", "vertex_of_rank", "score"):
            assert same(one.array(name), other.array(name))
    assert stage_slice(out, sources, (2, 4)).already_staged


def test_missing_slices_are_named_and_completed_later(tmp_path, sources):
    out = tmp_path / "out.rung"
    with pytest.raises(rung.NotFoundError, match=r"1 \(missing\); .* with resume=True"):
        stage_slice(out, sources, (0, 2))
    assert not out.exists() and (tmp_path / "out.rung.partial").exists()
    stage_slice(out, sources, (1, 2))
    assert (tmp_path / "out.rung.part-001-of-002.partial").exists()
    np.save(sources["score_source"], np.zeros(VERTICES, np.float32))
    with pytest.raises(rung.InvalidError, match="score-file was"):
        stage_slice(out, sources, (1, 2))
    rung.stage(out, slice=(1, 2), force=True, **sources)
    with pytest.raises(rung.InvalidError, match="score-file was"):
        stage_slice(out, sources, (0, 2))
    rung.stage(out, slice=(0, 2), force=True, **sources)
    assert same(rows_of(out), FEATURES)


@pytest.mark.parametrize("changes, words", [
    ({"slice": 1}, "not a part"), ({"slice": (2, 2)}, "0 <= i < n"), ({"slice": (-1, 2)}, "i < n"),
    ({"slice": (0, 17)}, "<= 16"), ({"slice": (0.0, 2)}, "not a part"),
    ({"features": FEATURES}, "in memory"), ({"score_source": None}, "the same scores"),
    ({"in_place": True}, "cannot stay in place"), ({"stripe": ["/tmp"]}, "cannot be striped")])
def test_mistakes(tmp_path, sources, changes, words):
    arguments = {**sources, "slice": (0, 2), **changes}
    with pytest.raises(rung.InvalidError, match=words):
        rung.stage(tmp_path / "out.rung", **arguments)
    assert len(os.listdir(tmp_path)) == 3

# SPDX-License-Identifier: Apache-2.0
"""Data sets whose ranks are divided into ranges, each with its files in other folders."""

import os

import numpy as np
import pytest
from conftest import same

import rung

VERTICES = 500
FEATURES = np.random.default_rng(11).random((VERTICES, 6)).astype(np.float32)
SOURCES = {"graph": np.random.default_rng(12).integers(0, VERTICES, (2, 2000)),
           "features": FEATURES, "fanouts": (3, 2)}


def rows_of(path):
    with rung.open(path) as store:
        return store.gather(np.arange(len(store)))


def test_ranges_of_ranks(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    stripe = {0.2: tmp_path / "a", 1: [tmp_path / "b", str(tmp_path / "c")]}
    rung.stage(tmp_path / "out.rung", stripe=stripe, **SOURCES)
    assert same(rows_of(tmp_path / "out.rung"), FEATURES)
    assert all(len(os.listdir(tmp_path / name)) == 1 for name in ("a", "b", "c"))
    sizes = [os.path.getsize(tmp_path / "out.rung" / f"features.{f:03}.npy") for f in range(3)]
    assert sizes[0] == 4096 + round(0.2 * VERTICES) * FEATURES.nbytes // VERTICES
    for wrong, words in (({0.2: tmp_path / "a"}, "ascend to 1"), ({"x": tmp_path / "a"}, "share"),
                         ({0.5: "a", 0.4: "b"}, "ascend"), (7, "list of folders")):
        with pytest.raises(rung.InvalidError, match=words):
            rung.stage(tmp_path / "wrong.rung", stripe=wrong, **SOURCES)


def test_read_timeouts(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    features = np.tile(FEATURES, (20, 1))
    rung.stage(tmp_path / "out.rung", features=features,
               stripe={0.2: tmp_path / "a", 1: tmp_path / "b"})
    with rung.open(tmp_path / "out.rung", host="160KiB", read_timeout=[5, 60.5]) as store:
        assert same(store.gather(np.arange(len(store))), features)
        assert store.stats().engine != "none"
        assert store.stats().file_engines == (store.stats().engine,) * 2
    for wrong, words in (([1, 2, 3], "3 read timeouts for 2 ranges"), ([1, -1], "read_timeout="),
                         (["x", 1], "read_timeout=")):
        with pytest.raises(rung.InvalidError, match=words):
            rung.open(tmp_path / "out.rung", read_timeout=wrong)

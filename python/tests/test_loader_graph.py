# SPDX-License-Identifier: Apache-2.0
"""The graph, the largest thing that loaders hold, is in memory once for all loaders of a store, and not without one."""

import gc
import weakref

import numpy as np

import rung


def test_loaders_of_a_store_have_one_graph(tmp_path):
    rng = np.random.default_rng(2)
    rung.stage(tmp_path / "g", graph=rng.integers(0, 500, (2, 3000)), features=rng.standard_normal((500, 4), np.float32), fanouts=(4, 3))
    with rung.open(tmp_path / "g", host="max") as store, rung.open(tmp_path / "g", host="max") as other:
        loaders = [rung.Loader(of, np.arange(first, 500, 2), labels=False, arrays="numpy") for of in (store, other) for first in (0, 1)]
        graphs = [weakref.ref(loader._handle._keeps[0]) for loader in loaders]
        assert graphs[0]() is graphs[1]() and graphs[2]() is graphs[3]() and graphs[0]() is not graphs[2]()
        assert [sum(len(batch.seeds) for batch in loader) for loader in loaders] == [250] * 4
        del loaders[1]
        gc.collect()
        assert graphs[0]() is not None
        assert sum(batch.idx == 0 for batch in loaders[0]) == 1
        del loaders
        gc.collect()
        assert graphs[0]() is None and graphs[2]() is None
        assert len(rung.Loader(store, np.arange(10), labels=False, batch_size=5)) == 2   # and comes again

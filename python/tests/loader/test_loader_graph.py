# SPDX-License-Identifier: Apache-2.0
"""The graph, the largest part of loaders and samplers, is in memory once per data set, and only
while one of them exists."""

import gc
import shutil
import weakref

import numpy as np

import rung


def test_a_data_set_has_one_graph(tmp_path):
    rng = np.random.default_rng(2)
    rung.stage(tmp_path / "g", graph=rng.integers(0, 500, (2, 3000)),
               features=rng.standard_normal((500, 4), np.float32), fanouts=(4, 3))
    shutil.copytree(tmp_path / "g", tmp_path / "other")
    with rung.open(tmp_path / "g",
                   host="max") as store, rung.open(tmp_path / "g",
                                                   host="max") as same, rung.open(
                                                       tmp_path / "other", host="max") as other:
        loaders = [rung.Loader(of, np.arange(first, 500, 2), labels=False, arrays="numpy")
                   for of in (store, same, other) for first in (0, 1)]
        graphs = [weakref.ref(loader._handle.keeps[0]) for loader in loaders]
        assert (len({id(graph()) for graph in graphs[:4]}) == 1
                and graphs[4]() is graphs[5]() is not graphs[0]())
        sampler = rung.NeighborSampler(rung.Dataset(tmp_path / "g"), (4, 3))
        assert sampler.graph is graphs[0]()
        assert [sum(len(batch.seeds) for batch in loader) for loader in loaders] == [250] * 6
        del loaders[1]
        gc.collect()
        assert graphs[0]() is not None
        assert sum(batch.idx == 0 for batch in loaders[0]) == 1
        del loaders, sampler
        gc.collect()
        assert graphs[0]() is None and graphs[4]() is None
        # a new loader loads the graph again
        assert len(rung.Loader(store, np.arange(10), labels=False, batch_size=5)) == 2

# SPDX-License-Identifier: Apache-2.0
"""GraphBolt: rung.Feature has the methods of a GraphBolt feature.

If dgl is imported, rung.Feature is also a subclass of its Feature.
"""

import copy
import pickle
import sys
import types

import numpy as np
import pytest
from conftest import VERTICES

import rung

torch = pytest.importorskip("torch")


@pytest.fixture(params=["stand-in", "dgl"])
def graphbolt(request, monkeypatch):
    """dgl.graphbolt, or a stand-in whose wrapper checks its argument like GraphBolt's."""
    if request.param == "dgl":
        return pytest.importorskip("dgl.graphbolt")

    class Feature:
        def size(self):
            raise NotImplementedError

        def later_default(self):
            return "of GraphBolt"

    class GPUCachedFeature(Feature):
        def __init__(self, fallback_feature, cache_size):
            del cache_size
            assert isinstance(fallback_feature, Feature), "The fallback_feature must be a Feature"
            self._fallback_feature = fallback_feature

    found = types.ModuleType("dgl.graphbolt")
    found.Feature, found.GPUCachedFeature = Feature, GPUCachedFeature
    monkeypatch.setitem(sys.modules, "dgl", types.ModuleType("dgl"))
    monkeypatch.setitem(sys.modules, "dgl.graphbolt", found)
    return found


def test_it_has_the_methods_of_a_feature(store, staged):
    rows = torch.tensor(staged.features)
    feature = rung.Feature(store, {"made": "here"})
    ids = torch.tensor([5, 5, VERTICES - 1])
    assert np.array_equal(feature.read(ids).view(torch.int32), rows[ids].view(torch.int32))
    assert np.array_equal(feature.read().view(torch.int32), rows.view(torch.int32))
    assert feature.read_async_num_stages(ids.device) == 1
    assert feature.read_async_num_stages(torch.device("cuda")) == 0
    assert feature.size() == torch.Size([16]) and feature.count() == VERTICES
    assert feature.metadata() == {"made": "here"}
    with pytest.raises(rung.NotSupportedError):
        feature.update(rows)
    with pytest.raises(rung.InvalidError, match="store: has type str; use a rung.Store"):
        rung.Feature("graph.rung")


def read(future) -> np.ndarray:
    return future.wait().view(torch.int32).numpy()


def test_reads_ahead(staged):
    """Also with more batches than requests, and more ids than a request holds."""
    rows = staged.features.view(np.int32)
    with rung.open(staged.path, host="40%", batch_rows=100) as store:
        feature = rung.Feature(store)
        many = [list(feature.read_async(torch.arange(first, first + 50))) for first in range(30)]
        for first, stages in enumerate(many):
            assert len(stages) == 1
            assert np.array_equal(read(stages[0]), rows[first : first + 50])
        (future,) = feature.read_async(torch.arange(250))
        assert np.array_equal(read(future), rows[:250])
        with pytest.raises(rung.RangeError, match=f"{VERTICES}"):
            list(feature.read_async(torch.tensor([VERTICES])))


def test_graphbolts_wrappers_accept_it(graphbolt, store, staged):
    feature = rung.Feature(store, {"made": "here"})
    assert isinstance(feature, graphbolt.Feature) and isinstance(feature, rung.Feature)
    if hasattr(graphbolt, "BasicFeatureStore"):   # GraphBolt's GPUCachedFeature needs a GPU
        features = graphbolt.BasicFeatureStore({("node", None, "x"): feature})
        rows = features.read("node", None, "x", torch.tensor([2, 1])).view(torch.int32)
        assert np.array_equal(rows, staged.features[[2, 1]].view(np.int32))
    else:
        graphbolt.GPUCachedFeature(feature, 10)
        assert feature.later_default() == "of GraphBolt"
    for other in (pickle.loads(pickle.dumps(feature)), copy.copy(feature)):
        assert isinstance(other, graphbolt.Feature) and other.metadata() == {"made": "here"}


def test_pickling_without_graphbolt(store):
    if "dgl.graphbolt" in sys.modules:
        pytest.skip("dgl.graphbolt was imported before")
    assert type(pickle.loads(pickle.dumps(rung.Feature(store)))) is rung.Feature

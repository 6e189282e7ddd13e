# SPDX-License-Identifier: Apache-2.0
"""The cases of GraphBolt's suites for features and its pipeline, each with GraphBolt's
TorchBasedFeature and with rung's. Only `update` is refused, by design.

dgl has no source distribution. test_peer_suites.py runs the suites of a checkout.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import rung

torch = pytest.importorskip("torch")
try:
    gb = importlib.import_module("dgl.graphbolt")
except (ImportError, OSError) as error:   # OSError: dgl has no library for this torch
    pytest.skip(f"dgl.graphbolt cannot be imported: {error}", allow_module_level=True)

import stores  # noqa: E402

ROWS = torch.arange(120, dtype=torch.float32).reshape(40, 3)
WIDE = torch.arange(160, dtype=torch.int64).reshape(20, 2, 4)


@pytest.fixture(params=["GraphBolt's", "rung's"])
def feature_class(request) -> type:
    return gb.TorchBasedFeature if request.param == "GraphBolt's" else stores.graphbolt_feature()


def test_reads_sizes_and_metadata(feature_class):
    feature, wide = feature_class(ROWS, metadata={"unit": "m"}), feature_class(WIDE)
    assert isinstance(feature, gb.Feature)
    assert torch.equal(feature.read(), ROWS) and torch.equal(wide.read(), WIDE)
    ids = torch.tensor([7, 0, 7])
    assert torch.equal(feature.read(ids), ROWS[ids]) and torch.equal(wide.read(ids), WIDE[ids])
    assert torch.equal(feature.read(ids.int()), ROWS[ids])
    assert feature.size() == torch.Size([3]) and wide.size() == torch.Size([2, 4])
    assert feature.metadata() == {"unit": "m"} and wide.metadata() == {}
    with pytest.raises(IndexError):
        feature.read(torch.tensor([0, 40]))


def test_layouts_of_files(feature_class, tmp_path):
    """Tensors mapped from files, in the order of C and of Fortran."""
    for order in "CF":
        np.save(tmp_path / f"{order}.npy", np.asarray(ROWS.numpy(), order=order))
        mapped = torch.from_numpy(np.load(tmp_path / f"{order}.npy", mmap_mode="r+"))
        assert torch.equal(feature_class(mapped).read(torch.tensor([3, 39])), ROWS[[3, 39]])


def test_only_update_is_refused():
    ids, rows = torch.tensor([1]), torch.zeros(1, 3)
    feature = gb.TorchBasedFeature(ROWS.clone())
    feature.update(rows, ids)
    assert torch.equal(feature.read(ids), rows)
    with pytest.raises(rung.NotSupportedError, match="rows of a staged data set cannot be changed"):
        stores.graphbolt_feature()(ROWS).update(rows, ids)


@pytest.mark.parametrize("keys", [
    (("node", None, "a"), ("node", None, "b")),
    (("node", "paper", "a"), ("edge", "author:writes:paper", "b"))])
def test_a_store_of_features(feature_class, keys):
    store = gb.BasicFeatureStore({keys[0]: feature_class(ROWS, metadata={"unit": "m"}),
                                  keys[1]: feature_class(WIDE)})
    ids = torch.tensor([5, 5, 1])
    for key, tensor in zip(keys, (ROWS, WIDE), strict=True):
        assert torch.equal(store.read(*key), tensor)
        assert torch.equal(store.read(*key, ids), tensor[ids])
        assert store.size(*key) == tensor.shape[1:]
    assert store.metadata(*keys[0]) == {"unit": "m"} and store.metadata(*keys[1]) == {}
    assert store.keys() == list(keys)
    with pytest.raises(KeyError):
        store.read("node", "venue", "a")
    with pytest.raises(IndexError):
        store.read(*keys[1], torch.tensor([20]))


def test_staged_tensors_of_a_feature_store(feature_class, tmp_path, monkeypatch):
    """GraphBolt's TorchBasedFeatureStore, which creates its features from files."""
    from dgl.graphbolt.impl import torch_based_feature_store

    monkeypatch.setattr(torch_based_feature_store, "TorchBasedFeature", feature_class)
    torch.save(ROWS, tmp_path / "a.pt")
    np.save(tmp_path / "b.npy", WIDE.numpy())
    data = [gb.OnDiskFeatureData(domain="node", type="paper", name="a", format="torch",
                                 path=str(tmp_path / "a.pt"), in_memory=True)]
    data += [gb.OnDiskFeatureData(domain="edge", type="paper:cites:paper", name=name,
                                  format="numpy", path=str(tmp_path / "b.npy"), in_memory=kept)
             for name, kept in (("b", True), ("c", False))]
    store = gb.TorchBasedFeatureStore(data)
    assert torch.equal(store.read("node", "paper", "a"), ROWS)
    for name in "bc":
        ids = torch.tensor([19, 0])
        assert torch.equal(store.read("edge", "paper:cites:paper", name, ids), WIDE[ids])
    assert store.size("edge", "paper:cites:paper", "b") == torch.Size([2, 4])


def graph_of(nodes: int):
    """Return a graph in which node v has in-edges from v + 1 to v + 3, modulo `nodes`."""
    indptr = torch.arange(0, 3 * nodes + 1, 3)
    indices = (torch.arange(nodes)[:, None] + torch.tensor([1, 2, 3])).flatten() % nodes
    return gb.fused_csc_sampling_graph(
        indptr, indices, edge_attributes={gb.ORIGINAL_EDGE_ID: torch.arange(3 * nodes)})


@pytest.mark.parametrize("workers", [0, 2])
def test_the_pipeline(feature_class, workers, monkeypatch):
    """Item sampler, neighbour sampler, feature fetcher and data loader."""
    # torch waits this long for each worker of an iterator that GraphBolt leaves to the collector
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.5)
    rows = torch.randn(500, 8, generator=torch.Generator().manual_seed(2))
    edge_rows = torch.arange(3000).reshape(1500, 2)
    features = gb.BasicFeatureStore({("node", None, "x"): feature_class(rows),
                                     ("edge", None, "e"): feature_class(edge_rows)})
    items = gb.ItemSampler(gb.ItemSet(torch.arange(100), names="seed_nodes"), batch_size=16)
    pipe = items.sample_neighbor(graph_of(500), [torch.LongTensor([2])] * 2)
    pipe = pipe.fetch_feature(features, node_feature_keys=["x"], edge_feature_keys=["e"])
    seen = []
    for batch in gb.DataLoader(pipe, num_workers=workers):
        assert torch.equal(batch.node_features["x"], rows[batch.input_nodes])
        for hop, block in enumerate(batch.sampled_subgraphs):
            found = batch.edge_features[hop]["e"]
            assert torch.equal(found, edge_rows[block.original_edge_ids])
        seen += batch.seed_nodes.tolist()
    assert sorted(seen) == list(range(100))

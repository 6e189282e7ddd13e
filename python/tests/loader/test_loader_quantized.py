# SPDX-License-Identifier: Apache-2.0
"""Loaders, torch's DataLoader, PyG, GraphBolt and ranks over quantized rows: they see floats."""

import numpy as np
import pytest
from conftest import same
from test_distributed import run_ranks

import rung

torch = pytest.importorskip("torch")

VERTICES, COLUMNS = 4000, 200

RANK = """
import sys
import torch
import torch.distributed as dist
import rung, rung.distributed
dist.init_process_group("gloo")
store = rung.distributed.open(sys.argv[1], host="max", dtype=torch.bfloat16)
assert store.gather(torch.arange(5)).dtype == torch.bfloat16
print("shared" if "share_path" in store._arguments else "opened")
dist.barrier()
store.close()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    numbers = np.random.default_rng(11)
    out = tmp_path_factory.mktemp("quantized") / "g"
    rung.stage(out, graph=numbers.integers(0, VERTICES, (2, 6 * VERTICES)),
               features=numbers.standard_normal((VERTICES, COLUMNS)).astype(np.float16),
               labels=numbers.integers(0, 5, VERTICES), quantize="int8", fanouts=(4, 3),
               batch_size=64, splits={"train": np.arange(0, VERTICES, 2)})
    return out


@pytest.fixture(scope="module")
def rows(path):
    """The rows by vertex, float32."""
    with rung.open(path, host="max", dtype="float32") as store:
        return store.gather(torch.arange(VERTICES))


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.bfloat16])
def test_batches(path, rows, dtype):
    with rung.open(path, host="40%", dtype=dtype) as store:
        loader = rung.Loader(store, "train", arrays="torch")
        count = 0
        for batch in loader:
            assert batch.features.dtype == (dtype or torch.float16)
            assert torch.equal(batch.features, rows[batch.vertices].to(batch.features.dtype))
            count += len(batch.seeds)
        assert count == VERTICES // 2


def test_batches_of_stored_rows(path, rows):
    with rung.open(path, host="40%", dtype="raw") as store:
        for batch in rung.Loader(store, "train", arrays="torch"):
            assert batch.features.shape[1:] == (store.stored_row_bytes,)
            found = store.quantization.dequantize(batch.features)
            assert torch.equal(found, rows[batch.vertices])


def test_a_loader_of_torch(path, rows):
    with rung.open(path, host="max", dtype="float32", share=True) as store:
        loader = torch.utils.data.DataLoader(store, batch_size=100, num_workers=1)
        found = torch.cat(list(loader))
        assert torch.equal(found, rows)


def test_pyg_sees_floats(path, rows):
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data
    from torch_geometric.loader import NodeLoader

    import rung.pyg

    with rung.open(path, host="max", dtype=torch.float32) as store, rung.open(
            path, host="max") as half, rung.Dataset(path) as dataset:
        features = rung.FeatureStore({"x": store, "half": half})
        assert features.get_tensor_size(group_name=None, attr_name="x",
                                        index=None) == (VERTICES, COLUMNS)
        found = features.get_tensor(group_name=None, attr_name="half", index=torch.tensor([3, 3]))
        assert torch.equal(found, rows[[3, 3]].half())
        loader = NodeLoader((features, Data(num_nodes=VERTICES)),
                            node_sampler=rung.pyg.Sampler(dataset, [4, 3]),
                            input_nodes=torch.arange(200), batch_size=64, filter_per_worker=False)
        for batch in loader:
            assert torch.equal(batch.x, rows[batch.n_id])
        for batch in rung.Loader(store, "train", form="pyg"):
            assert batch.x.dtype == torch.float32 and torch.equal(batch.x, rows[batch.n_id])


def test_graphbolt_sees_floats(path, rows):
    with rung.open(path, host="max", dtype=torch.float32) as store:
        feature = rung.Feature(store)
        ids = torch.tensor([9, 1, 9])
        assert feature.size() == torch.Size([COLUMNS]) and feature.count() == VERTICES
        assert torch.equal(feature.read(ids), rows[ids])
        assert torch.equal(next(feature.read_async(ids)).wait(), rows[ids])


def test_ranks_have_one_type(path):
    found = run_ranks(RANK, path)
    assert [code for code, _, _ in found] == [0, 0], found
    assert [text for _, text, _ in found] == ["opened\n", "shared\n"]


def test_dlpack(path, rows):
    with rung.open(path, host="max", dtype="bfloat16") as store:
        assert same(torch.from_dlpack(store), rows.bfloat16().view(torch.int16).numpy())

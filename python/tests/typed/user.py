# SPDX-License-Identifier: Apache-2.0
"""A user's typed program, which mypy --strict and pyright accept. It is not run."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import assert_type

import rung
import rung.distributed
import rung.lightning


def stage(features: torch.Tensor, edges: npt.NDArray[np.int64]) -> rung.StageResult:
    result = rung.stage("papers.rung", features=features, graph=edges,
                        splits={"train": [1, 2, 3]}, fanouts=(15, 10), memory="4GiB")
    assert_type(result.feature_bytes, int)
    return result


def rows_of_torch(store: rung.Store, ids: torch.Tensor) -> torch.Tensor:
    assert_type(store[ids], torch.Tensor)
    assert_type(store.gather_async(ids).wait(timeout=5), torch.Tensor)
    assert_type(store.gather_async(ids), rung.Gather[torch.Tensor])
    return store.gather(ids, out=torch.empty(3, 16))


def rows_of_numpy(store: rung.Store, ids: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    assert_type(store.gather([1, 2, 3]), npt.NDArray[Any])
    assert_type(store.gather(range(5)), npt.NDArray[Any])
    assert_type(store.gather_async(ids, ranks=True).wait(), npt.NDArray[Any])
    assert_type(store[5], npt.NDArray[Any])
    assert_type(store[2:9], npt.NDArray[Any])
    assert_type(store[ids], npt.NDArray[Any])
    # Parts of the types of these arrays are Any in numpy.
    assert_type(store[np.arange(3)], npt.NDArray[Any])
    assert_type(store.gather(np.arange(3)), npt.NDArray[Any])
    assert_type(store.gather(np.array([1, 2])), npt.NDArray[Any])
    assert_type(store.gather_async(np.arange(3)).wait(), npt.NDArray[Any])
    assert_type(store.gather(rung.Dataset(store.path).split("train")), npt.NDArray[Any])
    return store.gather(ids)


def chosen_at_run_time(store: rung.Store, form: str, kind: str) -> None:
    assert_type(rung.Loader(store, form=form), rung.Loader[Any])
    assert_type(rung.NeighborSampler(store).sample([1], kind=kind), rung.Sample[Any])


class Imported:
    """An array of a library that supports DLPack."""

    def __dlpack__(self, *, stream: int | None = None) -> object:
        raise NotImplementedError


def rows_of_others(store: rung.Store) -> rung.Array:
    assert_type(store[Imported()], rung.Array)
    assert_type(store.gather(Imported()).torch(), torch.Tensor)
    assert_type(store.gather(Imported()).numpy(), npt.NDArray[Any])
    return store.gather(Imported())


def train(path: pathlib.Path, model: torch.nn.Module) -> list[torch.Tensor]:
    losses: list[torch.Tensor] = []
    with rung.open(path, host="16GiB", device=torch.device("cpu")) as store:
        loader = rung.Loader(store, "train", fanouts=(15, 10), batch_size=1024)
        for batch in loader:
            assert_type(batch.features, torch.Tensor)
            assert_type(batch.edge_index(), torch.Tensor)
            for block in batch.to("cuda").blocks:
                assert_type(block.edge_index(), torch.Tensor)
                assert_type(block.dst_count, int)
            losses.append(model(batch.features))
        assert_type(loader.stats().seconds, float)
        for arrays in rung.Loader(store, arrays="numpy"):
            assert_type(arrays.features, npt.NDArray[Any])
            assert_type(arrays.blocks[0].indices, npt.NDArray[Any])
        assert_type(store.stats().hit_share("host"), float)
        assert_type(store.torch_dtype, torch.dtype)
        assert_type(store.shape, tuple[int, ...])
    return losses


def features_of_pyg_and_graphbolt(store: rung.Store) -> tuple[rung.FeatureStore, rung.Feature]:
    assert_type(rung.Feature(store).read(torch.arange(3)), torch.Tensor)
    return rung.FeatureStore({"x": store}), rung.Feature(store)


def resume(path: str, state: dict[str, Any]) -> dict[str, Any]:
    with rung.distributed.open(path, check=False, host="4GiB") as store:
        assert_type(store, rung.Store)
        loader = rung.Loader(store)
        loader.load_state_dict(state)
        assert_type(loader.epoch, int)
        assert_type(rung.lightning.DataModule(path, val="valid").train_dataloader(),
                    rung.Loader[Any])
        return loader.state_dict()


def hits(path: str) -> float:
    planned = rung.plan(path, host="10%")
    assert_type(planned, rung.Plan)
    with rung.Dataset(path) as dataset:
        assert_type(dataset.split("train"), npt.NDArray[np.int64])
        assert_type(dataset.graph().indptr, npt.NDArray[Any])
    return sum(tier.hits for tier in planned.tiers)


def stored_rows(path: str, ids: torch.Tensor) -> torch.Tensor:
    rung.stage(path, features="x.npy", quantize="int8:column")
    with rung.open(path, dtype=torch.float16) as half:
        assert_type(half.gather(ids), torch.Tensor)
    with rung.open(path, dtype="raw") as store:
        found = store.quantization
        assert found is not None
        assert_type(found.column_scales, npt.NDArray[np.float32] | None)
        assert_type(found.dequantize(store.gather([1])), npt.NDArray[Any])
        return found.dequantize(store.gather(ids), torch.float16)

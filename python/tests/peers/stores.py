# SPDX-License-Identifier: Apache-2.0
"""Classes of PyG and GraphBolt whose tensors are rows of rung stores.

Each tensor is staged when it is put, into a folder that exists as long as the interpreter. As a
pytest plugin (`-p stores`) this module puts the classes in the place of PyG's MyFeatureStore and
MyGraphStore, and of GraphBolt's TorchBasedFeature, before a suite imports them. With another value
of `--rung`, PyG's loaders of neighbours get a HeteroData from rung instead (typed_stores.py).
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import itertools
import os
import shutil
import tempfile
from typing import Any

import torch

import rung

_numbers = itertools.count()


@functools.cache
def _folder() -> str:
    found = tempfile.mkdtemp(prefix="rung-peers-")
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    return found


def new_path() -> str:
    return os.path.join(_folder(), f"{os.getpid()}-{next(_numbers)}.rung")


def stage(tensor: torch.Tensor) -> rung.Store:
    """Stage a tensor and open it with about half of its rows in memory."""
    path = new_path()
    rung.stage(path, features=tensor.contiguous())
    return rung.open(path, host="max" if tensor.nbytes < 65536 else "50%", cache=0)


def pyg_feature_store() -> type:
    """Return PyG's test store with staged tensors."""
    from torch_geometric.data import FeatureStore as PygFeatureStore

    class MyFeatureStore(rung.FeatureStore):
        def __init__(self) -> None:
            super().__init__({})

        def _put_tensor(self, tensor: Any, attr: Any) -> bool:
            key = attr.group_name, attr.attr_name
            assert attr.index is None or torch.equal(attr.index, torch.arange(len(tensor)))
            if key in self._stores:
                self._remove_tensor(attr)
            self._stores[key] = stage(tensor)
            return True

        def _remove_tensor(self, attr: Any) -> bool:
            store = self._stores.pop((attr.group_name, attr.attr_name), None)
            if store is not None:
                store.close()
            return store is not None

        __repr__ = PygFeatureStore.__repr__   # the suite compares the text of PyG's class

    return MyFeatureStore


def graphbolt_feature() -> type:
    """Return GraphBolt's feature with a staged tensor.

    A suite's questions about TorchBasedFeature itself (its assertion, its text, its tensor) are
    answered by GraphBolt's class. Rows, sizes and metadata are rung's.
    """
    from dgl import graphbolt

    original = graphbolt.TorchBasedFeature

    class TorchBasedFeature(rung.Feature, graphbolt.Feature):
        def __init__(self, torch_feature: torch.Tensor, metadata: Any = None):
            self._original = original(torch_feature, metadata)
            self._tensor = self._original._tensor
            super().__init__(stage(torch_feature), metadata)

        def __repr__(self) -> str:
            return repr(self._original)

    return TorchBasedFeature


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--rung", choices=("stores", "data", "sampler", "loader"), default="stores")


def pytest_configure(config: Any) -> None:
    """Put the classes in place; whichever of the packages is installed."""
    if importlib.util.find_spec("torch_geometric"):
        put_in_place_of_pygs(config.getoption("--rung"))
    if importlib.util.find_spec("dgl"):
        from dgl import graphbolt
        from dgl.graphbolt.impl import torch_based_feature_store

        graphbolt.TorchBasedFeature = graphbolt_feature()
        torch_based_feature_store.TorchBasedFeature = graphbolt.TorchBasedFeature


def put_in_place_of_pygs(what: str) -> None:
    """Put stores, or what loads a HeteroData, in the place of PyG's."""
    import torch_geometric.loader as loaders
    import torch_geometric.testing as testing
    from torch_geometric.testing import feature_store, graph_store
    from typed_stores import pyg_graph_store, pyg_loader

    if what == "stores":
        testing.MyFeatureStore = feature_store.MyFeatureStore = pyg_feature_store()
        testing.MyGraphStore = graph_store.MyGraphStore = pyg_graph_store()
    else:
        for name in ("NeighborLoader", "LinkNeighborLoader"):
            setattr(loaders, name, pyg_loader(getattr(loaders, name), what))

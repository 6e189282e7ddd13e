# SPDX-License-Identifier: Apache-2.0
"""For PyTorch Geometric: a FeatureStore over staged data sets, and a sampler for its loaders. Imports torch_geometric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
import torch
from torch_geometric.data import FeatureStore as PygFeatureStore
from torch_geometric.data import TensorAttr
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from .dataset import Dataset
from .errors import AgainError, InvalidError, NotSupportedError
from .sampler import NeighborSampler, edges_of
from .store import Store

Key = tuple[Optional[str], str]


class FeatureStore(PygFeatureStore):
    """torch_geometric's FeatureStore whose tensors are rows of rung stores.

    `FeatureStore(store)` has attribute "x" of a homogeneous graph; `FeatureStore({("paper", "x"): store, ("author", "x"): other})` several node types and
    attributes. Tensors that are small, such as labels, can be put beside them with `put_tensor` and stay in memory.

    In a loader give `(feature_store, graph_store)` as data and `filter_per_worker=False`: rows are then gathered in the main process, by this store's
    threads. With workers that gather themselves each gets a store of its own (`rung.Store`): share it (`rung.open(..., share=True)`) so that its memory
    exists once. A store on a GPU raises ForkError there.

    Rows of a staged data set are not changed: `put_tensor`, `update_tensor` and `remove_tensor` of them raise NotSupportedError.
    """

    def __init__(self, stores: Union[Store, Mapping[Union[str, Key], Store]], tensors: Optional[Mapping[Union[str, Key], Any]] = None):
        super().__init__()
        given = {"x": stores} if isinstance(stores, Store) else dict(stores)
        # past __setattr__: FeatureStore's own is for attributes of views
        self.__dict__["_stores"] = {_key(key): store for key, store in given.items()}
        self.__dict__["_tensors"] = {}
        for key, store in self._stores.items():
            if not isinstance(store, Store):
                raise InvalidError(f"{key}: a {type(store).__name__} is no rung.Store; tensors in memory go into the second argument")
        for key, tensor in (tensors or {}).items():
            group, name = _key(key)
            self.put_tensor(tensor, group_name=group, attr_name=name, index=None)

    def _refuse(self, attr: TensorAttr, what: str) -> None:
        if (attr.group_name, attr.attr_name) in self._stores:
            raise NotSupportedError(f"{what} {attr.attr_name!r} of {attr.group_name!r}: rows of a staged data set are not changed; stage them anew with rung.stage()")

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        self._refuse(attr, "put")
        key = (attr.group_name, attr.attr_name)
        tensor = torch.as_tensor(tensor)
        if attr.index is None:
            self._tensors[key] = tensor
            return True
        if key not in self._tensors:
            return False
        self._tensors[key][_index(attr.index)] = tensor
        return True

    def _get_tensor(self, attr: TensorAttr) -> Optional[torch.Tensor]:
        key = (attr.group_name, attr.attr_name)
        store = self._stores.get(key)
        if store is None:
            tensor = self._tensors.get(key)
            return tensor if tensor is None or attr.index is None else tensor[_index(attr.index)]
        index = attr.index
        if index is None or isinstance(index, slice):
            return store.gather(torch.arange(*(index or slice(None)).indices(len(store))))
        if isinstance(index, (int, np.integer)):
            return store.gather(_index([int(index) % len(store) if -len(store) <= index < len(store) else int(index)]))[0]
        return store.gather(_ids(index))

    def _multi_get_tensor(self, attrs: Sequence[TensorAttr]) -> list[Optional[torch.Tensor]]:
        """All at once: reads of one attribute are in flight beside those of the others."""
        found: list[Any] = []
        for attr in attrs:
            store = self._stores.get((attr.group_name, attr.attr_name))
            if store is None or store.gpu >= 0 or not isinstance(attr.index, (torch.Tensor, np.ndarray)) or len(attrs) == 1:
                found.append((self._get_tensor(attr), None))
                continue
            try:
                found.append((None, store.gather_async(_ids(attr.index))))
            except (AgainError, InvalidError):   # all its requests are in flight, or the list is longer than one takes: it is split
                found.append((self._get_tensor(attr), None))
        return [tensor if gather is None else gather.wait() for tensor, gather in found]

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        self._refuse(attr, "remove")
        return self._tensors.pop((attr.group_name, attr.attr_name), None) is not None

    def _get_tensor_size(self, attr: TensorAttr) -> Optional[tuple[int, ...]]:
        key = (attr.group_name, attr.attr_name)
        if key in self._stores:
            shape = self._stores[key].shape
        elif key in self._tensors:
            shape = tuple(self._tensors[key].shape)
        else:
            return None
        if not attr.is_set("index") or attr.index is None:
            return shape
        return tuple(self._tensors[key][_index(attr.index)].shape) if key in self._tensors else (*_rows_of(attr.index, shape[0]), *shape[1:])

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        return [TensorAttr(group_name=group, attr_name=name) for group, name in (*self._stores, *self._tensors)]

    def __len__(self) -> int:   # PyG asks whether there is anything
        return len(self._stores) + len(self._tensors)

    def __repr__(self) -> str:
        return f"rung.FeatureStore({self._stores}, tensors={list(self._tensors)})"


def _key(key: Union[str, Key]) -> Key:
    if isinstance(key, str):
        return None, key
    if not isinstance(key, tuple) or len(key) != 2:
        raise InvalidError(f"{key!r}: a tensor's key is its name, or (node type, name)")
    return key


def _index(index: Any) -> Any:
    return torch.from_numpy(index) if isinstance(index, np.ndarray) else torch.as_tensor(index) if isinstance(index, list) else index


def _ids(index: Any) -> torch.Tensor:
    index = torch.as_tensor(index)
    return index.nonzero().flatten() if index.dtype == torch.bool else index


def _rows_of(index: Any, count: int) -> tuple[int, ...]:
    if isinstance(index, slice):
        return (len(range(*index.indices(count))),)
    if isinstance(index, (int, np.integer)):
        return ()
    return (len(_ids(index)),)


class Sampler(BaseSampler):
    """rung's neighbour sampling in PyG's loaders: `NodeLoader((feature_store, graph_store), node_sampler=rung.pyg.Sampler(dataset, [15, 10]), ...)`.

    Vertices are original ones. Needs neither pyg-lib nor torch-sparse. Each batch's draws follow from `seed` and its seeds.
    """

    def __init__(self, dataset: Dataset, fanouts: Sequence[int], *, draws: str = "new", seed: int = 0, threads: int = 0):
        self._sampler = NeighborSampler(dataset, fanouts, draws=draws, seed=seed, threads=threads)
        self._rank_of_vertex = dataset.array("rank_of_vertex")
        self._vertex_of_rank = dataset.array("vertex_of_rank")

    def sample_from_nodes(self, index: NodeSamplerInput, **_kwargs) -> SamplerOutput:
        ranks = self._rank_of_vertex[index.node.numpy()]
        key = int(index.input_id[0]) if index.input_id is not None and len(index.input_id) else 0
        sample = self._sampler.sample(ranks, key, kind="torch")
        edges = edges_of(sample.blocks)
        counts = [sample.seed_count, *(block.src_count - block.dst_count for block in sample.blocks)]
        return SamplerOutput(node=torch.from_numpy(self._vertex_of_rank[sample.ranks.numpy()].astype(np.int64)), row=edges[0], col=edges[1], edge=None,
                             num_sampled_nodes=counts, num_sampled_edges=[block.edge_count for block in sample.blocks],
                             metadata=(index.input_id, index.time))

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        raise NotSupportedError("rung.pyg.Sampler samples from nodes; use PyG's NeighborSampler for links, with rung.FeatureStore as it is")

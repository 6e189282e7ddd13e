# SPDX-License-Identifier: Apache-2.0
"""PyTorch Geometric: a FeatureStore over staged data sets, and a sampler for PyG's loaders.

Importing this module imports torch and torch_geometric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch_geometric.data import FeatureStore as PygFeatureStore
from torch_geometric.data import TensorAttr
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from .dataset import Dataset
from .errors import AgainError, InvalidError, NotSupportedError
from .hetero.pyg import GraphStore as GraphStore
from .hetero.pyg import hetero_output, tensors_of, with_edge_rows
from .hetero.sampler import TypedSampler
from .hetero.store import TypedStore
from .sampling.arguments import one_name
from .sampling.batch import edges_of
from .sampling.sampler import NeighborSampler
from .store import Store

Key = tuple[Any, str]   # None, a node type or an edge type; and the name of the tensor

_TYPES_CURE = "use PyG's NeighborSampler with typed seeds"


class FeatureStore(PygFeatureStore):   # type: ignore[misc]
    """A torch_geometric FeatureStore whose tensors are rows of rung stores.

    `FeatureStore(store)` has the attribute "x" of a homogeneous graph. `FeatureStore({("paper",
    "x"): store, ("author", "x"): other})` has several node types. Node types need a sampler that
    supports them: PyG's NeighborSampler (pyg-lib or torch-sparse) with typed seeds. The graph of a
    `rung.pyg.Sampler` has no types. `put_tensor` adds small tensors, such as labels, which stay in
    memory.

    `FeatureStore(typed_store)` has "x", "y" and the further arrays of each type, and "edge_attr" of
    the relations with edge rows, by the numbers of the edges. PyG's loaders pass only the ids of
    sampled edges on: `transform=feature_store.with_edge_rows` adds the rows.

    Pass `(feature_store, graph_store)` as a loader's data, with `filter_per_worker=False`: rows are
    then gathered in the main process, by the store's threads. If workers gather, each gets a
    separate store (see `rung.Store`): share the store (`rung.open(..., share=True)`) so that its
    memory exists only once. A store on a GPU raises ForkError in forked workers.

    Rows of a staged data set cannot be changed: `put_tensor`, `update_tensor` and `remove_tensor`
    raise NotSupportedError for them.

    Args:
        stores: a store, or stores by attribute name or by (node type, name), or a typed store; the
            caller closes them
        tensors: further tensors in the same form, kept in memory

    Raises:
        InvalidError: another type, or a key that occurs twice.
    """

    _stores: dict[Key, Store]
    _tensors: dict[Key, torch.Tensor]

    def __init__(self, stores: Store | TypedStore | Mapping[str | Key, Store],
                 tensors: Mapping[str | Key, Any] | None = None):
        super().__init__()
        if isinstance(stores, TypedStore):
            stores, found = tensors_of(stores)
            tensors = {**found, **(tensors or {})}
        if tensors is not None and not isinstance(tensors, Mapping):
            raise InvalidError(f"tensors: has type {type(tensors).__name__}; "
                               "use a dict, such as {'y': labels}")
        if not isinstance(stores, (Store, Mapping)):
            raise InvalidError(f"stores: has type {type(stores).__name__}; use a rung.Store, or a "
                               "dict of them")
        given = stores if isinstance(stores, Mapping) else {"x": stores}
        # Set in __dict__, because FeatureStore overrides __setattr__ for views of its attributes.
        attributes: Any = self.__dict__
        attributes["_stores"], attributes["_tensors"] = {}, {}
        for name, store in given.items():
            if not isinstance(store, Store):
                raise InvalidError(f"{name!r}: has type {type(store).__name__}; use a rung.Store, "
                                   "or pass it in the argument tensors")
            self._stores[self._new_key(name)] = store
        for name, tensor in (tensors or {}).items():
            group, attr = self._new_key(name)
            self.put_tensor(tensor, group_name=group, attr_name=attr, index=None)

    def with_edge_rows(self, data: Any) -> Any:
        """Add the rows of sampled edges to a batch: pass this method as a loader's `transform`."""
        return with_edge_rows(self._stores, data)

    def _new_key(self, name: str | Key) -> Key:
        key = _key(name)
        if key in self._stores or key in self._tensors:
            raise InvalidError(f"{name!r}: duplicate key; use each key once ('x' is (None, 'x'))")
        return key

    def _refuse(self, attr: TensorAttr, what: str) -> None:
        if _attr_key(attr) in self._stores:
            raise NotSupportedError(f"{what} {attr.attr_name!r} of {attr.group_name!r}: rows of a "
                                    "staged data set cannot be changed; stage them again with "
                                    "rung.stage()")

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        self._refuse(attr, "put")
        key = _attr_key(attr)
        tensor = torch.as_tensor(tensor)
        if attr.index is not None and key in self._tensors:
            self._tensors[key][_index(attr.index)] = tensor
            return True
        if attr.index is not None and not _all_rows(attr.index, tensor):
            raise InvalidError(f"put {_told(key)}: a new tensor needs all rows; "
                               "put all rows first, with index=None")
        self._tensors[key] = tensor
        return True

    def update_tensor(self, tensor: Any, *args: Any, **kwargs: Any) -> bool:
        """Replace rows, as `put_tensor()` does. PyG's method would first remove all other rows."""
        done: bool = self.put_tensor(tensor, *args, **kwargs)
        return done

    def _tensor(self, attr: TensorAttr) -> torch.Tensor:
        key = _attr_key(attr)
        if key not in self._tensors:
            there = ", ".join(map(_told, (*self._stores, *self._tensors)))
            raise KeyError(f"no such tensor: {_told(key)}; use one of {there}")
        return self._tensors[key]

    def _get_tensor(self, attr: TensorAttr) -> torch.Tensor:
        store = self._stores.get(_attr_key(attr))
        index = attr.index
        if store is None:
            tensor = self._tensor(attr)
            return tensor if index is None else tensor[_index(index)]
        if index is None or isinstance(index, slice):
            rows = np.arange(*(index or slice(None)).indices(len(store)))   # empty for 5:3
            return store.gather(torch.from_numpy(rows))
        if isinstance(index, (int, np.integer)):
            row = int(index) % len(store) if -len(store) <= index < len(store) else int(index)
            return store.gather(torch.tensor([row]))[0]
        return store.gather(_ids(index, len(store)))

    def _multi_get_tensor(self, attrs: Sequence[TensorAttr]) -> list[Any]:
        """Gather several attributes at once, with the reads of all of them in flight together."""
        _refuse_one_index_of_types(attrs)
        found: list[Any] = []
        for attr in attrs:
            store = self._stores.get(_attr_key(attr))
            if store is None or store.gpu >= 0 or not isinstance(
                    attr.index, (torch.Tensor, np.ndarray)) or len(attrs) == 1:
                found.append((self._get_tensor(attr), None))
                continue
            try:
                found.append((None, store.gather_async(_ids(attr.index, len(store)))))
            # All requests are in flight, or the list is too long for one: gather() splits it.
            except (AgainError, InvalidError):
                found.append((self._get_tensor(attr), None))
        return [tensor if gather is None else gather.wait() for tensor, gather in found]

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        self._refuse(attr, "remove")
        key = _attr_key(attr)
        if attr.index is not None and not _all_rows(attr.index, self._tensor(attr)):
            raise InvalidError(f"remove {_told(key)}: rows cannot be removed one by one; "
                               "use index=None to remove all")
        self._tensor(attr)
        del self._tensors[key]
        return True

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        key = _attr_key(attr)
        if key in self._stores:
            shape = self._stores[key].shape
        elif key in self._tensors:
            shape = tuple(self._tensors[key].shape)
        else:
            return None
        if not attr.is_set("index") or attr.index is None:
            return shape
        return (tuple(self._tensors[key][_index(attr.index)].shape) if key in self._tensors
                else (*_rows_of(attr.index, shape[0]), *shape[1:]))

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        return [TensorAttr(group_name=group, attr_name=name) for group,
                name in (*self._stores, *self._tensors)]

    def __len__(self) -> int:   # PyG tests a FeatureStore for truth
        return len(self._stores) + len(self._tensors)

    def __repr__(self) -> str:
        return f"rung.FeatureStore({self._stores}, tensors={list(self._tensors)})"


def _key(key: str | Key) -> Key:
    if isinstance(key, str):
        return None, key
    if not isinstance(key, tuple) or len(key) != 2:
        raise InvalidError(f"{key!r}: not a valid key; use a tensor's name, or (node type, name)")
    return key


def _attr_key(attr: TensorAttr) -> Any:
    """Return the `Key` of an attribute, whose parts have other types in PyG."""
    return attr.group_name, attr.attr_name


def _refuse_one_index_of_types(attrs: Sequence[TensorAttr]) -> None:
    """Raise InvalidError if attributes of several node types have the same index.

    PyG's loaders do this for a batch without types. Ids of one type would then select rows of
    another.
    """
    types: dict[int, set[Any]] = {}
    for attr in attrs:
        if isinstance(attr.index, (torch.Tensor, np.ndarray)):
            types.setdefault(id(attr.index), set()).add(attr.group_name)
    for found in types.values():
        if len(found) > 1:
            names = ", ".join(sorted(map(repr, found)))
            raise InvalidError(f"types {names} have the same index, but different ids; "
                               f"{_TYPES_CURE}, or one index per type")


def _told(key: Key) -> str:
    return repr(key[1] if key[0] is None else key)


def _all_rows(index: Any, tensor: torch.Tensor) -> bool:
    """Return whether an index selects all rows of a tensor, in order."""
    count = len(tensor) if tensor.dim() else 0
    if isinstance(index, slice):
        return index.indices(count) == (0, count, 1)
    if isinstance(index, (int, np.integer)):
        return False
    index = torch.as_tensor(index)
    return tuple(index.shape) == (count,) and torch.equal(_ids(index, count).long(),
                                                          torch.arange(count))


def _index(index: Any) -> Any:
    if isinstance(index, list) and not index:
        return torch.empty(0, dtype=torch.int64)   # torch would use float
    return torch.as_tensor(index) if isinstance(index, (np.ndarray, list)) else index


def _ids(index: Any, count: int) -> torch.Tensor:
    ids: torch.Tensor = torch.as_tensor(_index(index))
    if ids.dtype != torch.bool:
        return ids
    if tuple(ids.shape) != (count,):
        raise InvalidError(f"mask {list(ids.shape)}: the tensor has {count} rows; use one entry "
                           "per row")
    return ids.nonzero().flatten()


def _rows_of(index: Any, count: int) -> tuple[int, ...]:
    if isinstance(index, slice):
        return (len(range(*index.indices(count))),)
    if isinstance(index, (int, np.integer)):
        return ()
    return (len(_ids(index, count)),)


class Sampler(BaseSampler):   # type: ignore[misc]
    """rung's neighbour sampling in PyG's loaders, without pyg-lib or torch-sparse.

        sampler = rung.pyg.Sampler(dataset, [15, 10])
        NodeLoader((feature_store, graph_store), node_sampler=sampler, ...)

    Vertices are original ids. The draws of a batch follow from `seed` and the batch's seeds.

    With a `rung.TypedStore`, seeds have the type of the data set's seeds
    (`input_nodes=("paper", ids)`). Other seeds with a type, seeds with times (`input_time`), and
    links raise NotSupportedError.

    Args:
        dataset: also a `rung.TypedStore`
        fanouts, num_neighbors: of a typed store also by edge type
        draws, seed, threads: as in `rung.NeighborSampler`
    """

    _sampler: Any

    def __init__(self, dataset: Dataset | Store | TypedStore, fanouts: Any = None, *,
                 draws: str = "new", seed: int = 0, threads: int = 0,
                 num_neighbors: Any = None):
        if isinstance(dataset, TypedStore):
            drawn = one_name("fanouts", fanouts, "num_neighbors", num_neighbors)
            self._sampler = TypedSampler(dataset, drawn, draws=draws, seed=seed, threads=threads)
            return
        self._sampler = NeighborSampler(dataset, fanouts, draws=draws, seed=seed, threads=threads,
                                        num_neighbors=num_neighbors)

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> Any:
        typed = isinstance(self._sampler, TypedSampler)
        if index.input_type is not None and not typed:
            raise NotSupportedError(f"rung.pyg.Sampler: seeds of type {index.input_type!r}: the "
                                    f"graph has no types; {_TYPES_CURE}")
        if index.time is not None:
            raise NotSupportedError("rung.pyg.Sampler: seeds with times: the graph has no times; "
                                    "leave out input_time, or use PyG's NeighborSampler")
        if kwargs:
            raise NotSupportedError(f"rung.pyg.Sampler: {', '.join(kwargs)}: not supported; "
                                    "leave it out")
        key = int(index.input_id[0]) if index.input_id is not None and len(index.input_id) else 0
        if isinstance(self._sampler, TypedSampler):
            return hetero_output(self._sampler, index, key)
        sample = self._sampler.sample(index.node, key, kind="torch")
        edges = edges_of(sample.blocks, sample.ranks)
        counts = [sample.seed_count, *(block.src_count - block.dst_count
                                       for block in sample.blocks)]
        return SamplerOutput(node=sample.vertices, row=edges[0], col=edges[1], edge=None,
                             num_sampled_nodes=counts,
                             num_sampled_edges=[block.edge_count for block in sample.blocks],
                             metadata=(index.input_id, index.time))

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        raise NotSupportedError("rung.pyg.Sampler: links are not supported; use PyG's "
                                "NeighborSampler, with the same rung.FeatureStore")

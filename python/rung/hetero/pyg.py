# SPDX-License-Identifier: Apache-2.0
"""PyG's interfaces to typed stores: tensors of all types and relations, edges, and sampling.

Importing this module imports torch and torch_geometric.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch_geometric.data import EdgeAttr, HeteroData
from torch_geometric.data import GraphStore as PygGraphStore
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.sampler import HeteroSamplerOutput

from ..dataset import Dataset
from ..dtypes import tensor_of
from ..errors import NotSupportedError
from ..store import Store
from .description import EdgeType, Relation, Types
from .sampler import TypedSampler
from .store import TypedStore


def tensors_of(store: TypedStore) -> tuple[dict[Any, Store], dict[Any, Any]]:
    """Return the stores of a typed store, and the small arrays, by (type or relation, name).

    Rows are "x" of types and "edge_attr" of relations, whose index is the number of the edge;
    labels are "y", and further arrays have their names. These are read into memory. Types that have
    none of these have "n_id", the vertices themselves: PyG's samplers know only types with tensors.
    """
    stores: dict[Any, Store] = {(name, "x"): store[name] for name in store.types if name in store}
    stores.update({(relation, "edge_attr"): store[relation] for relation in store.relations
                   if relation in store})
    tensors: dict[Any, Any] = {}
    for name in store.types:
        with store.part(name) as part:
            if not part.has_labels and not part.arrays:
                if name not in store:
                    tensors[name, "n_id"] = torch.arange(part.vertex_count)
                continue
            rank_of_vertex = part.array("rank_of_vertex")
            if part.has_labels:
                tensors[name, "y"] = tensor_of(part.array("labels")[rank_of_vertex], "labels")
            for array in part.arrays:
                rows = part.array("features_" + array)[rank_of_vertex]
                tensors[name, array] = tensor_of(rows, array)
    return stores, tensors


def with_edge_rows(stores: dict[Any, Store], data: HeteroData) -> HeteroData:
    """Add the rows of the sampled edges to a batch of PyG's loaders, by `e_id`.

    PyG's loaders over stores of tensors and edges pass on the ids of the edges, and no rows.
    """
    for relation, name in stores:
        if isinstance(relation, tuple) and relation in data.edge_types and "e_id" in data[relation]:
            data[relation][name] = stores[relation, name].gather(data[relation].e_id)
    return data


class GraphStore(PygGraphStore):   # type: ignore[misc]
    """The relations of a typed data set, by original ids, as a torch_geometric GraphStore.

    It serves PyG's samplers, which hold the whole graph in memory: 8 bytes per vertex and 8 per
    edge, and 8 more per edge of relations with edge rows. `rung.Loader` needs none of it.

    Relations are listed in the layout CSC. Those with edge rows are listed in COO, in the order of
    the edges' numbers, so that the ids that PyG's samplers give to edges are these numbers, and
    find the rows ("edge_attr" of `rung.FeatureStore`). `get_edge_index()` returns every layout of
    every relation; positions in CSC and CSR are not numbers of edges. The lists have no order in
    time: PyG's samplers refuse `time_attr`.

    Args:
        store: a `rung.TypedStore`, or a `rung.Dataset` of a typed data set
    """

    _path: str
    _types: Types
    _edges: dict[tuple[EdgeType, EdgeLayout], tuple[Any, Any]]

    def __init__(self, store: TypedStore | Dataset) -> None:
        super().__init__()
        attributes: Any = self.__dict__   # GraphStore overrides __setattr__
        attributes["_path"] = store.path
        with Dataset(store.path) as dataset:
            if dataset.types is None:
                raise NotSupportedError(f"{store.path}: has one type; use rung.pyg.Sampler")
            attributes["_types"] = dataset.types
        attributes["_edges"] = {}

    def _array(self, folder: str, name: str) -> Any:
        with Dataset(os.path.join(self._path, folder)) as part:
            return part.array(name)

    def _load(self, relation: Relation, layout: EdgeLayout) -> tuple[Any, Any]:
        source, target = self._types.vertex[relation.source], self._types.vertex[relation.target]
        with Dataset(os.path.join(self._path, relation.folder)) as part:
            graph = part.graph()
            vertex_of_source = self._array(source.folder, "vertex_of_rank").astype(np.int64)
            sources = vertex_of_source[graph.indices]
            counts = np.diff(graph.indptr)
            if layout == EdgeLayout.COO and relation.rows_folder:
                edges = self._array(relation.rows_folder, "vertex_of_rank")
                vertex_of_target = self._array(target.folder, "vertex_of_rank").astype(np.int64)
                row, col = np.empty(len(sources), np.int64), np.empty(len(sources), np.int64)
                row[edges], col[edges] = sources, np.repeat(vertex_of_target, counts)
                return torch.from_numpy(row), torch.from_numpy(col)
            ranks = self._array(target.folder, "rank_of_vertex")
            counts = counts[ranks]
            colptr = np.zeros(len(ranks) + 1, np.int64)
            np.cumsum(counts, out=colptr[1:])
            at = np.repeat(graph.indptr[:-1][ranks] - colptr[:-1], counts)
            row = sources[at + np.arange(len(sources))]
            found = np.repeat(np.arange(len(ranks)), counts) if layout == EdgeLayout.COO else colptr
            return torch.from_numpy(row), torch.from_numpy(found)

    def _load_by_source(self, relation: Relation) -> tuple[Any, Any]:
        """Return the relation in CSR: offsets by source, and targets."""
        row, col = self._load(relation, EdgeLayout.COO)
        counts = torch.bincount(row, minlength=self._types.vertex[relation.source].vertex_count)
        rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return rowptr, col[torch.argsort(row, stable=True)]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Any, Any] | None:
        relation = next((found for found in self._types.relations
                         if found.edge_type == edge_attr.edge_type), None)
        if relation is None:
            return None
        key = edge_attr.edge_type, edge_attr.layout
        if key not in self._edges:
            self._edges[key] = (self._load_by_source(relation)
                                if edge_attr.layout == EdgeLayout.CSR else
                                self._load(relation, edge_attr.layout))
        return self._edges[key]

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        attrs = [EdgeAttr(edge_type=found.edge_type,
                          layout=EdgeLayout.COO if found.rows_folder else EdgeLayout.CSC,
                          size=(self._types.vertex[found.source].vertex_count,
                                self._types.vertex[found.target].vertex_count))
                 for found in self._types.relations]
        for attr in attrs:
            # EdgeAttr sets it for CSC. PyG then draws by time from lists that no time orders.
            attr.is_sorted = False
        return attrs

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise NotSupportedError(f"put {edge_attr.edge_type}: edges of a staged data set cannot be "
                                "changed; stage them again with rung.stage()")

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise NotSupportedError(f"remove {edge_attr.edge_type}: edges of a staged data set cannot "
                                "be changed; stage them again with rung.stage()")

    def __repr__(self) -> str:
        return f"rung.GraphStore({self._path!r}): {len(self._types.relations)} relations"


def hetero_output(sampler: TypedSampler, index: Any, key: int) -> HeteroSamplerOutput:
    """Sample seeds of a type for PyG's loaders.

    Raises:
        NotSupportedError: seeds of another type than that of the data set's seeds.
    """
    store = sampler.store
    if index.input_type != store.seed_type:
        raise NotSupportedError(f"rung.pyg.Sampler: seeds of type {index.input_type!r}: those of "
                                f"the data set are of type {store.seed_type!r}, for which it was "
                                "staged; use seeds of that type, or stage with seed_type")
    batch = sampler.sample(index.node, key)
    edges = {relation: batch.edge_index(relation) for relation in store.relations}
    counts = {name: [found[0], *np.diff(found).tolist()] for name, found in batch.counts.items()}
    return HeteroSamplerOutput(
        node={name: batch.vertices(name) for name in store.types},
        row={relation: found[0] for relation, found in edges.items()},
        col={relation: found[1] for relation, found in edges.items()},
        edge={relation: batch.edge_ids(relation) if relation in batch.positions else None
              for relation in store.relations},
        num_sampled_nodes=counts,
        num_sampled_edges={relation: [block.edge_count for block in blocks]
                           for relation, blocks in batch.blocks.items()},
        metadata=(index.input_id, index.time))

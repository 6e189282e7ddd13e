# SPDX-License-Identifier: Apache-2.0
"""PyG's stores of edges, and its loaders of a HeteroData, over typed data sets that rung stages.

A suite's assertions then hold for what rung.GraphStore, rung.FeatureStore, rung.pyg.Sampler and
rung.Loader return. The sources are kept for staging them again only.
"""

from __future__ import annotations

from typing import Any

import pytest
import stores
import torch
from torch_geometric.data import EdgeAttr, HeteroData
from torch_geometric.data import GraphStore as PygGraphStore
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.index import ptr2index
from torch_geometric.sampler.base import NumNeighbors, SubgraphType

import rung
import rung.pyg

# with these alone, rung's sampler and loader can take the place of PyG's
OFFERED = {"input_nodes", "batch_size", "shuffle", "drop_last", "subgraph_type"}


def stage(data: HeteroData, **options: Any) -> str:
    path = stores.new_path()
    rung.stage(path, data=data, **options)
    return path


def open_typed(data: HeteroData, **options: Any) -> rung.TypedStore:
    """Stage a HeteroData and open it with as little memory as possible."""
    path = stage(data, **options)
    with pytest.raises(rung.InvalidError) as error:
        rung.open(path, host=1)
    return rung.open(path, host=error.value.min_bytes)


class Source:
    """Edges as they were put, in COO, with the numbers of vertices of both types."""

    def __init__(self, edge_index: Any, attr: EdgeAttr):
        row, col = edge_index
        sizes = list(attr.size or (None, None))
        if attr.layout == EdgeLayout.CSR:
            sizes[0], row = len(row) - 1, ptr2index(row)
        if attr.layout == EdgeLayout.CSC:
            sizes[1], col = len(col) - 1, ptr2index(col)
        self.edge_index = torch.stack([row, col])
        self.sizes = [int(ends.max()) + 1 if size is None else size
                      for ends, size in zip((row, col), sizes)]
        self.edge_type, self.layout = attr.edge_type, attr.layout

    def relation(self, known: Any) -> tuple[str, str, str]:
        """Return a name for the edges; PyG's stores have several layouts of an edge type."""
        first, name, last = (self.edge_type if isinstance(self.edge_type, tuple)
                             else ("source", str(self.edge_type), "target"))
        while (first, name, last) in known:
            name += "1"
        return first, name, last


def pyg_graph_store() -> type:
    """Return PyG's test store of edges, each of which is a relation of a typed data set.

    Relations that were put in COO have edge rows, so that the order of their edges is kept.
    """

    class MyGraphStore(rung.GraphStore):
        def __init__(self) -> None:
            PygGraphStore.__init__(self)
            self.__dict__.update(_sources={}, _relations={}, _staged=True)

        def _stage(self) -> None:
            """Stage what was put, if it has changed."""
            if self._staged:
                return
            data, relations = HeteroData(), {}
            for source in self._sources.values():
                relation = source.relation(relations)
                relations[relation] = source
                for kind, size in zip(relation[::2], source.sizes):
                    data[kind].num_nodes = max(size, data[kind].get("num_nodes", 0))
                data[relation].edge_index = source.edge_index
                if source.layout == EdgeLayout.COO:
                    data[relation].edge_attr = torch.arange(source.edge_index.shape[1])
            if relations:
                with rung.Dataset(stage(data)) as dataset:
                    rung.GraphStore.__init__(self, dataset)
            self.__dict__.update(_relations=relations, _staged=True)

        def _put_edge_index(self, edge_index: Any, attr: EdgeAttr) -> bool:
            self._sources[attr.edge_type, attr.layout, attr.size] = Source(edge_index, attr)
            self.__dict__["_staged"] = False
            return True

        def _remove_edge_index(self, attr: EdgeAttr) -> bool:
            found = self._sources.pop((attr.edge_type, attr.layout, attr.size), None)
            self.__dict__["_staged"] = False
            return found is not None

        def _listed(self) -> dict[Any, EdgeAttr]:
            self._stage()
            attrs = super().get_all_edge_attrs() if self._relations else []
            return {attr.edge_type: attr for attr in attrs}

        def _get_edge_index(self, attr: EdgeAttr) -> Any:
            listed = self._listed()
            for attrs in (self._relations, listed):   # as it was put, or as rung lists it
                for relation, found in attrs.items():
                    if (self._relations[relation].edge_type, found.layout) == (attr.edge_type,
                                                                               attr.layout):
                        return super()._get_edge_index(EdgeAttr(relation, attr.layout))
            return None

        def get_all_edge_attrs(self) -> list[EdgeAttr]:
            return [EdgeAttr(self._relations[relation].edge_type, attr.layout, size=attr.size)
                    for relation, attr in self._listed().items()]

        __repr__ = PygGraphStore.__repr__   # the suite compares the text of PyG's class

    return MyGraphStore


class Batches:
    """A rung.Loader with the text of PyG's."""

    def __init__(self, loader: Any):
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Any:
        return iter(self.loader)

    def __repr__(self) -> str:
        return "NeighborLoader()"


def canonical(data: HeteroData, given: Any) -> Any:
    """Return the seeds of a link loader with the full edge type, which stores need."""
    if isinstance(given[0], str):
        return data._to_canonical(*given)
    return data._to_canonical(*given[0]), given[1]


def pyg_loader(original: type, instead: str) -> Any:
    """Return the constructor of a loader of PyG. A HeteroData is staged, and rung's stores load it.

    Args:
        instead: what else is rung's, where it offers the options: "data": nothing; "sampler": the
            sampler of the loader; "loader": the loader
    """

    def create(data: Any, num_neighbors: Any, **options: Any) -> Any:
        if not isinstance(data, HeteroData) or not data.edge_types:
            return original(data, num_neighbors, **options)
        if "edge_label_index" in options:
            options["edge_label_index"] = canonical(data, options["edge_label_index"])
        seeds = options.get("input_nodes")
        seed_type = seeds[0] if isinstance(seeds, tuple) else seeds
        store = open_typed(data, seed_type=seed_type)
        offered = (seed_type and not options.keys() - OFFERED and
                   SubgraphType(options.get("subgraph_type", "directional"))
                   == SubgraphType.directional)
        if instead != "data" and offered:
            options.pop("subgraph_type", None)
            # refuses different numbers of hops in PyG's words
            NumNeighbors(num_neighbors).get_values(data.edge_types)
            if instead == "loader" and any(name in store for name in store.types):
                if isinstance(seeds, str):
                    options["input_nodes"] = seeds, torch.arange(data[seeds].num_nodes)
                return Batches(rung.Loader(store, fanouts=num_neighbors, form="pyg",
                                           shuffle=options.pop("shuffle", False), **options))
            options["neighbor_sampler"] = rung.pyg.Sampler(store, num_neighbors)
        features = rung.FeatureStore(store)
        options.setdefault("transform", features.with_edge_rows)
        return original((features, rung.GraphStore(store)), num_neighbors, **options)

    return create

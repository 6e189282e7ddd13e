# SPDX-License-Identifier: Apache-2.0
"""Batches of typed graphs: vertices of each type, edges of each relation, and their rows."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_void_p, cast
from itertools import pairwise
from typing import Any

import numpy as np

from ..arrays import Array
from ..dataset import LazyArray
from ..dtypes import BY_NAME, tensor_of
from ..sampling.batch import Block, as_kind, block_of, rows_of
from .description import EdgeType, Types

_I64 = BY_NAME["i64"]


class TypedBatch:
    """A batch of a typed graph.

    The arrays of ranks, edges and rows show the loader's memory without a copy. The loader reuses
    it when the batch and all its arrays are gone.

    Attributes:
        idx: number of the batch in its epoch, from 0
        seed_type: name of the type of the seeds, which are its first vertices
        seed_count: number of seeds
        seeds, labels: of the seeds: original vertices int64 [seeds]; [seeds, ...] or None
        ranks: by type: int64 [vertices], in order of first appearance
        features: by type with rows: [vertices, ...]
        blocks: by relation: `rung.Block`s, hop 0 (of the seeds) first. Destinations are vertices
            of the target type, sources of the source type
        positions: by relation with edge rows: int64 [edges], positions in its lists, hop 0 first
        edge_rows: by relation with edge rows: [edges, ...] in the same order
        counts: by type: number of vertices before each hop, and in all
    """

    __slots__ = ("idx", "seed_type", "seed_count", "seeds", "labels", "ranks", "features", "blocks",
                 "positions", "edge_rows", "counts", "_maps", "_arrays")

    def __init__(self, idx: int, seed_type: str, seed_count: int, seeds: Any, labels: Any,
                 maps: dict[Any, LazyArray],
                 arrays: dict[str, dict[str, LazyArray]] | None = None) -> None:
        self.idx: int = idx
        self.seed_type: str = seed_type
        self.seed_count: int = seed_count
        self.seeds: Any = seeds
        self.labels: Any = labels
        self.ranks: dict[str, Any] = {}
        self.features: dict[str, Any] = {}
        self.blocks: dict[EdgeType, list[Block[Any]]] = {}
        self.positions: dict[EdgeType, Any] = {}
        self.edge_rows: dict[EdgeType, Any] = {}
        self.counts: dict[str, list[int]] = {}
        self._maps = maps
        self._arrays = arrays or {}

    def _original(self, key: Any, found: Any) -> Any:
        numbers = found if isinstance(found, np.ndarray) else found.numpy()
        original = self._maps[key].get()[numbers].astype(np.int64)
        if isinstance(found, np.ndarray):
            return original
        import torch

        return torch.from_numpy(original)

    def vertices(self, kind: str) -> Any:
        """Return the original vertices of a type, int64 [vertices]."""
        return self._original(kind, self.ranks[kind])

    def array(self, kind: str, name: str) -> Any:
        """Return the rows of an array of a type that was staged with `arrays`, [vertices, ...].

        The first use loads the array of all vertices of the type.

        Raises:
            NotFoundError: the type has no such array, or the loader leaves it out.
        """
        return rows_of(self._arrays.get(kind, {}), name, self.ranks[kind])

    def edge_ids(self, relation: EdgeType) -> Any:
        """Return the numbers of the edges in the source, int64 [edges], hop 0 first.

        Raises:
            KeyError: the relation has no edge rows, so the numbers were not kept at staging.
        """
        return self._original(relation, self.positions[relation])

    def edge_index(self, relation: EdgeType) -> Any:
        """Return the edges of a relation, int64 [2, edges], hop 0 first; row 0 has the sources."""
        parts: list[Any] = [block.edge_index() for block in self.blocks[relation]]
        if isinstance(parts[0], np.ndarray):
            return np.concatenate(parts, 1)
        import torch

        return torch.cat(parts, 1)

    def __repr__(self) -> str:
        vertices = ", ".join(f"{kind}: {len(ranks)}" for kind, ranks in self.ranks.items())
        return f"rung.TypedBatch({self.idx}: {self.seed_count} seeds, vertices {vertices})"


def take_sample(batch: TypedBatch, sample: Any, types: Types, owner: Any, kind: str,
                with_rows: Sequence[bool]) -> None:
    """Fill in vertices and edges from a batch of the library.

    Args:
        sample: a rung_typed_batch
        owner: keeps its memory
        with_rows: by relation: the positions of its edges were recorded and are needed
    """
    for i, found in enumerate(types.vertex):
        listed = sample.types[i]
        batch.ranks[found.name] = as_kind(Array(listed.vertices or 0, (listed.count,), _I64, owner),
                                          kind)
        batch.counts[found.name] = list(listed.hop_counts[: sample.hop_count + 1])
    for i, relation in enumerate(types.relations):
        blocks = [sample.blocks[hop * sample.relation_count + i]
                  for hop in range(sample.hop_count)]
        batch.blocks[relation.edge_type] = [block_of(block, owner, kind) for block in blocks]
        if not with_rows[i]:
            continue
        parts: list[Any] = [
            as_kind(Array(cast(block.edges or 0, c_void_p).value or 0, (block.edge_count,), _I64,
                          owner), kind) for block in blocks]
        if kind == "numpy":
            batch.positions[relation.edge_type] = np.concatenate(parts)
        else:
            import torch

            batch.positions[relation.edge_type] = torch.cat(parts)


def hetero_data(batch: TypedBatch, labels: dict[str, LazyArray], input_id: Any) -> Any:
    """Return a batch as torch_geometric's HeteroData, as NeighborLoader does.

    Args:
        labels: by type with labels: those of all vertices, in the order of the ranks
        input_id: positions of the seeds in the list that the loader was given
    """
    from torch_geometric.data import HeteroData

    data = HeteroData()
    for kind, ranks in batch.ranks.items():
        storage = data[kind]
        storage.num_nodes = len(ranks)
        storage.n_id = batch.vertices(kind)
        if kind in batch.features:
            storage.x = batch.features[kind]
        if kind in labels:
            storage.y = tensor_of(labels[kind].get()[ranks.numpy()], "labels")
        for name in batch._arrays.get(kind, ()):
            storage[name] = batch.array(kind, name)
        counts = batch.counts[kind]
        storage.num_sampled_nodes = [counts[0], *(b - a for a, b in pairwise(counts))]
    seeds = data[batch.seed_type]
    seeds.batch_size, seeds.input_id = batch.seed_count, input_id
    for relation, blocks in batch.blocks.items():
        storage = data[relation]
        storage.edge_index = batch.edge_index(relation)
        storage.num_sampled_edges = [block.edge_count for block in blocks]
        if relation in batch.positions:
            storage.e_id = batch.edge_ids(relation)
        if relation in batch.edge_rows:
            storage.edge_attr = batch.edge_rows[relation]
    return data

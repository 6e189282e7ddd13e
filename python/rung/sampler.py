# SPDX-License-Identifier: Apache-2.0
"""Neighbour sampling over the relabelled graph of a staged data set."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from ctypes import byref, c_uint64, c_void_p
from typing import Any, Optional

import numpy as np

from ._library import DRAWS, SamplerOpts, check, lib
from .arrays import Array
from .dataset import Dataset, Graph
from .dtypes import BY_NAME
from .errors import InvalidError
from .staging import fanout_array

_I64, _I32 = BY_NAME["i64"], BY_NAME["i32"]


class Block:
    """Edges drawn at one hop: destination i is vertex i of the batch, its sources are `indices[indptr[i]:indptr[i + 1]]`.

    Attributes: `dst_count`, `src_count` (vertices before and after the hop; destinations are the first sources), `edge_count`,
    `indptr` int64 [dst_count + 1], `indices` int32 [edge_count] (positions in the batch's vertices). Without a copy.
    """

    __slots__ = ("dst_count", "src_count", "edge_count", "indptr", "indices")

    def __init__(self, block: Any, owner: Any, kind: str):
        self.dst_count: int = block.dst_count
        self.src_count: int = block.src_count
        self.edge_count: int = block.edge_count
        if self.src_count >= 2**31:
            raise InvalidError(f"a batch of {self.src_count} vertices: at most 2^31 - 1 here; take smaller batches or fanouts")
        self.indptr = as_kind(Array(block.indptr or 0, (self.dst_count + 1,), _I64, owner), kind)
        self.indices = as_kind(Array(block.indices or 0, (self.edge_count,), _I32, owner), kind)

    def edge_index(self) -> Any:
        """[2, edge_count] int64, sources above destinations, as PyG has it."""
        if isinstance(self.indptr, np.ndarray):
            return np.stack([self.indices.astype(np.int64), np.repeat(np.arange(self.dst_count), np.diff(self.indptr))])
        import torch

        targets = torch.repeat_interleave(torch.arange(self.dst_count), self.indptr.diff(), output_size=self.edge_count)
        return torch.stack([self.indices.long(), targets])

    def __repr__(self) -> str:
        return f"rung.Block({self.src_count} -> {self.dst_count} vertices, {self.edge_count} edges)"


def as_kind(array: Array, kind: str) -> Any:
    return array.torch() if kind == "torch" else array.numpy()


class Sample:
    """A sampled batch: `ranks` int64 [vertices], seeds first, and `blocks`, hop 0 (of the seeds) first."""

    __slots__ = ("ranks", "blocks", "seed_count")

    def __init__(self, ranks: Any, blocks: list[Block], seed_count: int):
        self.ranks, self.blocks, self.seed_count = ranks, blocks, seed_count


class _Batch:
    __slots__ = ("handle",)

    def __init__(self):
        self.handle = c_void_p()
        check(lib.rung_batch_create(byref(self.handle)))

    def __del__(self):
        if self.handle:
            lib.rung_batch_destroy(self.handle)


def sampler_opts(dataset: Dataset, fanouts: Optional[Sequence[int]], draws: Optional[str], seed: int, threads: int) -> tuple[SamplerOpts, Any]:
    """Options for the library and what keeps their list; None: as staged."""
    fanouts = tuple(dataset.fanouts if fanouts is None else fanouts)
    draws = dataset.draws if draws is None else draws
    if draws not in DRAWS:
        raise InvalidError(f"draws={draws!r}: give one of {', '.join(DRAWS)}")
    hops = fanout_array(fanouts)
    return SamplerOpts(fanouts=hops, hop_count=len(fanouts), seed=seed, threads=threads, draws=DRAWS.index(draws)), hops


class NeighborSampler:
    """Uniform neighbour sampling, without replacement, deduplicated per batch (Hamilton et al., 2017).

    Args:
        dataset: its relabelled graph is loaded (8 bytes a vertex, 4 or 8 an edge)
        fanouts: hop 0 (from the seeds) first; -1: all neighbours (default: as staged)
        draws: "all": seeds and earlier vertices draw again at each hop, as in DGL; "new": only those that the hop before brought, as in PyG
        seed: of all draws: the same seed, key and seeds give the same batch, whatever the threads

    Threads: `sample()` from one at a time, others wait.
    """

    def __init__(self, dataset: Dataset, fanouts: Optional[Sequence[int]] = None, *, draws: Optional[str] = None, seed: int = 0, threads: int = 0):
        self._handle = c_void_p()
        self._lock = threading.Lock()
        self.graph: Graph = dataset.graph()   # what the sampler reads
        opts, keep = sampler_opts(dataset, fanouts, draws, seed, threads)
        check(lib.rung_sampler_create(byref(self.graph.csc), byref(opts), byref(self._handle)))
        del keep
        self.hop_count = opts.hop_count

    def sample(self, seeds: Any, key: int = 0, *, kind: str = "numpy") -> Sample:
        """The batch of some seeds.

        Args:
            seeds: ranks [n], each at most once: integers, numpy or torch, on the CPU
            key: with the sampler's seed it decides every draw; use a running number
            kind: "numpy" or "torch", of the arrays in it

        Raises RangeError (a seed is no vertex), InvalidError (none, or one twice), NoMemoryError.
        """
        given = np.asarray(seeds)
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise InvalidError(f"seeds {list(given.shape)} {given.dtype}: give integers in one dimension")
        ids = np.ascontiguousarray(given.astype(np.uint64))
        batch = _Batch()
        with self._lock:
            check(lib.rung_sampler_sample(self._handle, ids.ctypes.data, len(ids), key, batch.handle))
        count = c_uint64()
        data = lib.rung_batch_vertices(batch.handle, byref(count))
        ranks = as_kind(Array(data, (count.value,), _I64, batch), kind)
        blocks = [Block(lib.rung_batch_block(batch.handle, hop).contents, batch, kind) for hop in range(self.hop_count)]
        return Sample(ranks, blocks, len(ids))

    def __del__(self):
        if getattr(self, "_handle", None):
            lib.rung_sampler_destroy(self._handle)


def edges_of(blocks: Sequence[Block]) -> Any:
    """[2, edges] int64 of all hops, hop 0 first: the subgraph as PyG's loaders give it (draws "new")."""
    parts = [block.edge_index() for block in blocks]
    if parts and not isinstance(parts[0], np.ndarray):
        import torch

        return torch.cat(parts, 1)
    return np.concatenate(parts, 1) if parts else np.empty((2, 0), np.int64)

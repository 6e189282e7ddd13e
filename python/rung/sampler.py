# SPDX-License-Identifier: Apache-2.0
"""Neighbour sampling over the relabelled graph of a staged data set.

Copies to a device that do not wait are made from pinned memory alone (mover()), because the loader
uses the memory of a batch again once nothing shows it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from ctypes import byref, c_uint64, c_void_p, cast
from functools import partial
from typing import Any, Optional

import numpy as np

from ._library import DRAWS, c, check, lib
from .arrays import CPU, Array
from .dataset import Dataset, Graph, LazyArray
from .dtypes import BY_NAME
from .errors import InvalidError
from .forks import watch
from .owned import Owned
from .sizes import choice, whole_number
from .staging import fanout_array

_I64, _I32 = BY_NAME["i64"], BY_NAME["i32"]
SEED_MAX = 2**64 - 1


class Block:
    """Edges drawn at one hop: destination i is vertex i of the batch, its sources are
    `indices[indptr[i]:indptr[i + 1]]`.

    Attributes:
        dst_count, src_count: vertices before and after the hop; destinations are the first sources
        edge_count: edges of the hop
        indptr: int64 [dst_count + 1]
        indices: int32 [edge_count], positions in the batch's vertices
    """

    __slots__ = ("dst_count", "src_count", "edge_count", "indptr", "indices")

    def __init__(self, dst_count: int, src_count: int, indptr: Any, indices: Any):
        self.dst_count, self.src_count, self.edge_count = dst_count, src_count, len(indices)
        self.indptr, self.indices = indptr, indices

    def to(self, device: Any, non_blocking: bool = False) -> Block:
        """The block with its arrays on a torch device, as `Batch.to()`."""
        return self.moved(mover(self.indptr, device, non_blocking))

    def moved(self, move: Callable[[Any], Any]) -> Block:
        return Block(self.dst_count, self.src_count, move(self.indptr), move(self.indices))

    def edge_index(self) -> Any:
        """[2, edge_count] int64, sources above destinations, as PyG has it."""
        if isinstance(self.indptr, np.ndarray):
            repeated = np.repeat(np.arange(self.dst_count), np.diff(self.indptr))
            return np.stack([self.indices.astype(np.int64), repeated])
        import torch

        targets = torch.arange(self.dst_count, device=self.indptr.device)
        targets = targets.repeat_interleave(self.indptr.diff(), output_size=self.edge_count)
        return torch.stack([self.indices.long(), targets])

    def __repr__(self) -> str:
        return f"rung.Block({self.src_count} -> {self.dst_count} vertices, {self.edge_count} edges)"


def block_of(block: Any, owner: Any, kind: str, device: tuple[int, int] = (CPU, 0)) -> Block:
    """A block of the library, without a copy; its arrays are on `device` and hold `owner`."""
    if block.src_count >= 2**31:
        raise InvalidError(f"a batch of {block.src_count} vertices: at most 2^31 - 1; "
                           "use smaller batches or fanouts")
    indptr = Array(block.indptr or 0, (block.dst_count + 1,), _I64, owner, device)
    data = cast(block.indices, c_void_p).value or 0
    indices = Array(data, (block.edge_count,), _I32, owner, device)
    return Block(block.dst_count, block.src_count, as_kind(indptr, kind), as_kind(indices, kind))


def mover(example: Any, device: Any, non_blocking: bool) -> Callable[[Any], Any]:
    """A function that moves tensors like `example` to a torch device.

    Copies out of memory that is not pinned block: the loader uses its memory again as soon as the
    batch is gone, and could do so before a copy has read it.
    """
    if isinstance(example, np.ndarray):
        raise InvalidError("to(): numpy arrays stay on the host; create it with arrays='torch' "
                           "(Loader) or kind='torch' (sample)")
    import torch

    where = torch.device(device)
    return lambda given: given.to(where, non_blocking=non_blocking and given.is_pinned())


def as_kind(array: Array, kind: str) -> Any:
    return array.torch() if kind == "torch" else array.numpy()


class WithVertices:
    """Original vertices of `ranks`: given, or found when they are first used."""

    __slots__ = ("ranks", "_vertices")

    def __init__(self, ranks: Any, vertices: Any):
        self.ranks, self._vertices = ranks, vertices

    @property
    def vertices(self) -> Any:
        """int64 [vertices]: the original vertices, seeds first.

        The first use loads a map of the data set, 4 or 8 bytes a vertex.
        """
        if isinstance(self._vertices, LazyArray):
            arrays = isinstance(self.ranks, np.ndarray)
            found = self._vertices.get()[self.ranks if arrays else self.ranks.numpy(force=True)]
            found = found.astype(np.int64)
            if not arrays:
                import torch

                found = torch.from_numpy(found).to(self.ranks.device)
            self._vertices = found
        return self._vertices


class Sample(WithVertices):
    """A sampled batch.

    Attributes:
        vertices: int64 [vertices], original vertices, seeds first
        ranks: int64 [vertices], the same vertices by their rank in the relabelled graph
        blocks: `rung.Block`s, hop 0 (of the seeds) first
        seed_count: number of seeds
    """

    __slots__ = ("blocks", "seed_count")

    def __init__(self, ranks: Any, blocks: list[Block], seed_count: int, vertices: Any = None):
        super().__init__(ranks, vertices)
        self.blocks, self.seed_count = blocks, seed_count

    def __repr__(self) -> str:
        edges = sum(block.edge_count for block in self.blocks)
        return f"rung.Sample({self.seed_count} seeds, {len(self.ranks)} vertices, {edges} edges)"

    def __reduce__(self):
        return Sample, (self.ranks, self.blocks, self.seed_count, self.vertices)


def need_edges(dataset: Dataset) -> None:
    if not dataset.edge_count:
        raise InvalidError(f"{dataset.path}: has no edges to sample; stage it with its graph, "
                           "or load its rows with fanouts=()")


def sampler_opts(dataset: Dataset, fanouts: Optional[Sequence[int]], draws: Optional[str],
                 seed: int, threads: int) -> tuple[c.rung_sampler_opts, Any]:
    """Options for the library and what keeps their list; None: as staged."""
    drawn = choice(dataset.draws if draws is None else draws, DRAWS, "draws")
    if fanouts is None:
        fanouts = dataset.fanouts if dataset.edge_count else ()
    hops = fanout_array(fanouts)
    if len(fanouts):
        need_edges(dataset)
    return c.rung_sampler_opts(fanouts=hops, hop_count=len(hops), draws=drawn,
                               seed=whole_number(seed, "seed", SEED_MAX),
                               threads=whole_number(threads, "threads")), hops


class NeighborSampler:
    """Uniform neighbour sampling, without replacement, deduplicated per batch (Hamilton et al.,
    2017).

    Args:
        dataset: its relabelled graph is loaded (8 bytes a vertex, 4 or 8 an edge)
        fanouts: hop 0 (from the seeds) first; -1: all neighbours (default: as staged)
        draws: "all": seeds and earlier vertices draw again at each hop, as in DGL; "new": only
            those that the hop before brought, as in PyG
        seed: of all draws: the same seed, key and seeds give the same batch, whatever the threads

    Threads: `sample()` from one at a time, others wait. Pickled, as for spawned workers, it is its
    data set's path and these options: each process loads the graph.
    """

    def __init__(self, dataset: Dataset, fanouts: Optional[Sequence[int]] = None, *,
                 draws: Optional[str] = None, seed: int = 0, threads: int = 0):
        need_edges(dataset)
        self._lock = threading.RLock()
        self.graph: Graph = dataset.graph()   # what the sampler reads
        self._dataset = dataset
        self._options = {"fanouts": fanouts, "draws": draws, "seed": seed, "threads": threads}
        self._rank_of_vertex = LazyArray(dataset, "rank_of_vertex")
        self._vertex_of_rank = LazyArray(dataset, "vertex_of_rank")
        self._opts, self._hops = sampler_opts(dataset, fanouts, draws, seed, threads)
        self.hop_count: int = self._opts.hop_count
        self._handle: Optional[Owned] = self._create()
        watch(self)

    def _create(self) -> Owned:
        handle = Owned(lib.rung_sampler_destroy, of=(self.graph.memory,))
        check(lib.rung_sampler_create(byref(self.graph.csc), byref(self._opts),
                                      byref(handle.pointer)))
        return handle

    def _forked(self) -> None:
        """In a child: another thread of the parent may have been inside sample()."""
        self._lock = threading.RLock()
        if self._handle is not None:
            self._handle.forget()
            self._handle = None

    def sample(self, seeds: Any, key: int = 0, *, ranks: bool = False,
               kind: str = "numpy") -> Sample:
        """The batch of some seeds.

        Args:
            seeds: original vertices [n], each at most once: integers, numpy or torch, on the CPU
            key: with the sampler's seed it decides every draw; use a running number
            ranks: seeds are ranks, of the relabelled graph. Vertices need a map, which the first
                call loads: 4 or 8 bytes a vertex
            kind: "numpy" or "torch", of the arrays in it

        Raises RangeError (a seed outside the data set), InvalidError (no seeds, or one twice),
        NoMemoryError.
        """
        number = whole_number(key, "key", SEED_MAX)
        if kind not in ("numpy", "torch"):
            raise InvalidError(f"kind={kind!r}: give numpy or torch")
        given = self._dataset._check_ids(seeds, "seeds")
        ids = (given if ranks else self._rank_of_vertex.get()[given]).astype(np.uint64)
        batch = Owned(lib.rung_batch_destroy)
        check(lib.rung_batch_create(byref(batch.pointer)))
        with self._lock:
            if self._handle is None:
                self._handle = self._create()
            check(lib.rung_sampler_sample(self._handle, ids.ctypes.data, len(ids), number, batch))
        count = c_uint64()
        data = lib.rung_batch_vertices(batch, byref(count))
        sampled = as_kind(Array(data, (count.value,), _I64, batch), kind)
        blocks = [block_of(lib.rung_batch_block(batch, hop).contents, batch, kind)
                  for hop in range(self.hop_count)]
        return Sample(sampled, blocks, len(ids), self._vertex_of_rank)

    def __reduce__(self):
        return partial(NeighborSampler, **self._options), (self._dataset,)


def edges_of(blocks: Sequence[Block]) -> Any:
    """[2, edges] int64 of all hops, hop 0 first: the subgraph as PyG's loaders give it (draws
    "new")."""
    parts = [block.edge_index() for block in blocks]
    if parts and not isinstance(parts[0], np.ndarray):
        import torch

        return torch.cat(parts, 1)
    return np.concatenate(parts, 1) if parts else np.empty((2, 0), np.int64)

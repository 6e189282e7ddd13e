# SPDX-License-Identifier: Apache-2.0
"""Neighbour sampling over the relabelled graph of a staged data set.

Copies to a device return before they complete only if they come from pinned memory (mover()),
because the loader reuses the memory of a batch as soon as no array refers to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from ctypes import byref, c_uint64, c_void_p, cast
from functools import partial
from typing import Any, Optional, Union

import numpy as np

from ._library import DRAWS, c, check, lib
from .arrays import CPU, Array
from .dataset import Dataset, Graph, LazyArray
from .dtypes import BY_NAME
from .errors import InvalidError
from .forks import watch
from .owned import Owned
from .sizes import choice, fanout_array, whole_number
from .stats import structure_of
from .store import Store

_I64, _I32 = BY_NAME["i64"], BY_NAME["i32"]
SEED_MAX = 2**64 - 1


class Block:
    """Edges drawn at one hop.

    Destination i is vertex i of the batch. Its sources are `indices[indptr[i]:indptr[i + 1]]`.

    Attributes:
        dst_count: number of destinations, the vertices before the hop
        src_count: number of sources, the vertices after the hop; destinations come first
        edge_count: edges of the hop
        indptr: int64 [dst_count + 1]
        indices: int32 [edge_count], positions in the batch's vertices
    """

    __slots__ = ("dst_count", "src_count", "edge_count", "indptr", "indices")

    def __init__(self, dst_count: int, src_count: int, indptr: Any, indices: Any):
        self.dst_count, self.src_count, self.edge_count = dst_count, src_count, len(indices)
        self.indptr, self.indices = indptr, indices

    def to(self, device: Any, non_blocking: bool = False) -> Block:
        """Return the block with its arrays on a torch device; arguments as in `Batch.to()`."""
        return self.moved(mover(self.indptr, device, non_blocking))

    def moved(self, move: Callable[[Any], Any]) -> Block:
        """Return the block with each array replaced by `move(array)`."""
        return Block(self.dst_count, self.src_count, move(self.indptr), move(self.indices))

    def edge_index(self) -> Any:
        """Return the edges as int64 [2, edge_count] in PyG's form: row 0 has the sources."""
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
    """Return a block of the library without a copy.

    Args:
        block: struct of the library
        owner: object that keeps its memory; the block's arrays refer to it
        kind: "numpy" or "torch"
        device: DLPack device (type, number) of the memory

    Raises:
        InvalidError: the batch has more vertices than int32 can count.
    """
    if block.src_count >= 2**31:
        raise InvalidError(f"batch of {block.src_count} vertices: more than 2^31 - 1; "
                           "use smaller batches or fanouts")
    indptr = Array(block.indptr or 0, (block.dst_count + 1,), _I64, owner, device)
    data = cast(block.indices, c_void_p).value or 0
    indices = Array(data, (block.edge_count,), _I32, owner, device)
    return Block(block.dst_count, block.src_count, as_kind(indptr, kind), as_kind(indices, kind))


def mover(example: Any, device: Any, non_blocking: bool) -> Callable[[Any], Any]:
    """Return a function that moves tensors like `example` to a torch device.

    Copies from memory that is not pinned block: the loader reuses its memory as soon as the batch
    is gone, which could be before an asynchronous copy has read it.

    Raises:
        InvalidError: `example` is a numpy array.
    """
    if isinstance(example, np.ndarray):
        raise InvalidError("to(): numpy arrays cannot be moved; use arrays='torch' in "
                           "rung.Loader(), or kind='torch' in sample()")
    import torch

    where = torch.device(device)
    return lambda given: given.to(where, non_blocking=non_blocking and given.is_pinned())


def as_kind(array: Array, kind: str) -> Any:
    """Return an array as a torch tensor or, if `kind` is "numpy", as a numpy array; no copy."""
    return array.torch() if kind == "torch" else array.numpy()


class WithVertices:
    """Ranks with their original vertices, which are given or looked up at first use."""

    __slots__ = ("ranks", "_vertices")

    def __init__(self, ranks: Any, vertices: Any):
        self.ranks, self._vertices = ranks, vertices

    @property
    def vertices(self) -> Any:
        """Original vertices, int64 [vertices], seeds first.

        The first use loads a map of the data set, which needs 4 or 8 bytes per vertex.
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
    """A sampled batch, whose arrays own their memory.

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
    """Raise InvalidError if a data set has no edges."""
    if not dataset.edge_count:
        raise InvalidError(f"{dataset.path}: has no edges to sample; stage it with its graph, "
                           "or load its rows with fanouts=()")


def sampler_opts(dataset: Dataset, fanouts: Optional[Sequence[int]], draws: Optional[str],
                 seed: int, threads: int) -> tuple[c.rung_sampler_opts, Any]:
    """Return options for the library, and the array that the caller must keep for them.

    Args:
        fanouts, draws: None: as staged
    """
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
    """Uniform neighbour sampling without replacement (Hamilton et al., 2017).

    Each vertex occurs once per batch. Threads: `sample()` runs in one thread at a time, others
    wait. A pickled sampler, as for spawned workers, consists of the data set's path and the
    options: each process loads the graph. With a store, each process opens or attaches to it.

    Attributes:
        graph: the loaded graph; None: the lists of a store are used
        hop_count: int

    Args:
        dataset: its relabelled graph is loaded (8 bytes per vertex, 4 or 8 per edge). Or a
            `rung.Store` that was opened with `structure`, whose neighbour lists are used
        fanouts: hop 0 (from the seeds) first; -1: all neighbours (default: as staged)
        draws: "all": all vertices of the batch draw at each hop, as in DGL; "new": only the
            vertices that the previous hop added, as in PyG (default: as staged)
        seed: seed of all draws: the same seed, key and seeds produce the same batch with any
            number of threads
        threads: threads that sample a batch; 0: OpenMP's number, but 8 if some lists of a store
            are in the file

    Raises:
        InvalidError: an argument is invalid, the data set has no edges, or the store no structure.
        FormatError, RangeError, ReadError, NoMemoryError, ClosedError: as `Dataset.graph()`.
    """

    def __init__(self, dataset: Union[Dataset, Store], fanouts: Optional[Sequence[int]] = None, *,
                 draws: Optional[str] = None, seed: int = 0, threads: int = 0):
        self._from = dataset   # for pickle
        self._store = dataset if isinstance(dataset, Store) else None
        if isinstance(dataset, Store):
            if not dataset.has_structure:
                given = dataset._arguments   # of open() or attach()
                cure = ("open it with structure=" if given.get("structure") is None else
                        "sample_on_gpu took the place of structure=; open it without sample_on_gpu")
                raise InvalidError(f"{dataset!r}: has no neighbour lists; {cure}, or pass a "
                                   "rung.Dataset")
            dataset = Dataset(dataset.path)
        need_edges(dataset)
        self._lock = threading.RLock()
        # the sampler reads it
        self.graph: Optional[Graph] = None if self._store else dataset.graph()
        self._dataset = dataset
        self._options = {"fanouts": fanouts, "draws": draws, "seed": seed, "threads": threads}
        self._rank_of_vertex = LazyArray(dataset, "rank_of_vertex")
        self._vertex_of_rank = LazyArray(dataset, "vertex_of_rank")
        self._opts, self._hops = sampler_opts(dataset, fanouts, draws, seed, threads)
        self.hop_count: int = self._opts.hop_count
        self._handle: Optional[Owned] = self._create()
        watch(self)

    def _create(self) -> Owned:
        if self._store is not None:
            return self._store._call(self._create_of)
        handle = Owned(lib.rung_sampler_destroy, of=(self.graph.memory,))
        check(lib.rung_sampler_create(byref(self.graph.csc), byref(self._opts),
                                      byref(handle.pointer)))
        return handle

    def _create_of(self, memory: Owned) -> Owned:
        """Create a sampler that reads the lists of an open store."""
        handle = Owned(lib.rung_sampler_destroy, of=(memory,))
        self._opts.structure = structure_of(memory)
        check(lib.rung_sampler_create(None, byref(self._opts), byref(handle.pointer)))
        return handle

    def _forked(self) -> None:
        """Forget lock and handle: a thread of the parent may have been inside sample().

        The next sample() creates a new handle.
        """
        self._lock = threading.RLock()
        if self._handle is not None:
            self._handle.forget()
            self._handle = None

    def sample(self, seeds: Any, key: int = 0, *, ranks: bool = False,
               kind: str = "numpy") -> Sample:
        """Sample the batch of some seeds.

        Args:
            seeds: original vertices [n], each at most once: integers, numpy or torch, on the CPU
            key: determines every draw, together with the sampler's seed; use a running number
            ranks: seeds are ranks in the relabelled graph. Original vertices need a map, which the
                first call loads (4 or 8 bytes per vertex)
            kind: "numpy" or "torch": type of the arrays in the sample

        Returns:
            A `Sample`, which the caller owns.

        Raises:
            RangeError: a seed is outside the data set, or a list in the file is damaged.
            InvalidError: `seeds` is empty, or has a vertex twice.
            ReadError: lists of the store could not be read from the file, or the map of vertices.
            ClosedError: the store, or the data set before its map was loaded, has been closed.
            NoMemoryError: host memory is exhausted.
        """
        number = whole_number(key, "key", SEED_MAX)
        if kind not in ("numpy", "torch"):
            raise InvalidError(f"kind={kind!r}: unknown value; use numpy or torch")
        given = self._dataset._check_ids(seeds, "seeds")
        ids = (given if ranks else self._rank_of_vertex.get()[given]).astype(np.uint64)
        batch = Owned(lib.rung_batch_destroy)
        check(lib.rung_batch_create(byref(batch.pointer)))
        with self._lock:
            if self._handle is None:
                self._handle = self._create()
            arguments = self._handle, ids.ctypes.data, len(ids), number, batch
            if self._store is None:
                check(lib.rung_sampler_sample(*arguments))
            else:   # inside a call of the store, for which close() waits
                check(self._store._call(lambda _: lib.rung_sampler_sample(*arguments)))
        count = c_uint64()
        data = lib.rung_batch_vertices(batch, byref(count))
        sampled = as_kind(Array(data, (count.value,), _I64, batch), kind)
        blocks = [block_of(lib.rung_batch_block(batch, hop).contents, batch, kind)
                  for hop in range(self.hop_count)]
        return Sample(sampled, blocks, len(ids), self._vertex_of_rank)

    def __reduce__(self):
        return partial(NeighborSampler, **self._options), (self._from,)


def edges_of(blocks: Sequence[Block]) -> Any:
    """Return the edges of all hops as int64 [2, edges], hop 0 first.

    With draws "new" this is the subgraph that PyG's loaders return.
    """
    parts = [block.edge_index() for block in blocks]
    if parts and not isinstance(parts[0], np.ndarray):
        import torch

        return torch.cat(parts, 1)
    return np.concatenate(parts, 1) if parts else np.empty((2, 0), np.int64)

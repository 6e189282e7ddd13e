# SPDX-License-Identifier: Apache-2.0
"""rung.Loader: batches of an epoch, sampled and gathered ahead by threads of the library."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_void_p
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np

from ._library import LoaderBatch, LoaderOpts, LoaderPass, LoaderStats, check, lib
from .arrays import CPU, CUDA, Array
from .dataset import Dataset
from .dtypes import BY_NAME
from .errors import ForkError, InvalidError
from .gather import stream_address
from .sampler import Block, as_kind, edges_of, sampler_opts
from .store import Store

_I64 = BY_NAME["i64"]

@dataclass(frozen=True)
class EpochStats:
    """Of the epoch on its way, or the last one. Seconds.

    `wait` is what the trainer waited for batches; of it `wait_sample` because the batch was not sampled yet (more `threads` help), `wait_rows` because its
    rows were not there (more memory, or `gathers`). `sample` is the work of all sampling threads, `gather` and `announce` that of the thread that gathers.
    """

    batches: int
    rows: int
    edges: int
    seconds: float
    wait: float
    wait_sample: float
    wait_rows: float
    sample: float
    gather: float
    announce: float
    announced: int
    announce_refused: int


class _Handle:
    """The library's loader; whoever holds memory of its batches holds it, and it the store's."""

    __slots__ = ("pointer", "_keeps", "_store", "_pid")

    def __init__(self, store: Store, csc: Any, opts: LoaderOpts, keeps: Any):
        self.pointer = c_void_p()
        self._keeps, self._store, self._pid = keeps, store, os.getpid()
        with store._using() as handle:
            check(lib.rung_loader_create(handle, csc, byref(opts), byref(self.pointer)))
            store._lend()

    def __del__(self):
        if self.pointer and os.getpid() == self._pid:
            lib.rung_loader_destroy(self.pointer)
            self._store._take_back()


class _Lent:
    """A batch of the library, put back when nothing shows its memory any more."""

    __slots__ = ("_handle", "_pointer", "_gpu", "_pid")

    def __init__(self, handle: _Handle, pointer: Any, gpu: int):
        self._handle, self._pointer, self._gpu, self._pid = handle, pointer, gpu, os.getpid()

    def __del__(self):
        if os.getpid() != self._pid:
            return
        if self._gpu >= 0 and "torch" in sys.modules:
            sys.modules["torch"].cuda.synchronize(self._gpu)   # work that reads the rows may be on any stream
        lib.rung_loader_put(self._handle.pointer, self._pointer)


class Batch:
    """A batch: its vertices, seeds first, their rows, and the edges between them. Nothing is copied; memory is used again when it is let go.

    Attributes:
        idx: its number in the epoch
        seeds: int64 [seeds], original vertices;  `labels`: [seeds, ...] theirs, or None
        ranks: int64 [vertices] of all vertices
        features: [vertices, ...] their rows, in the dtype of the data set; on the store's device
        blocks: `rung.Block`s in the order of a model's layers: the last hop first
    """

    __slots__ = ("idx", "seeds", "labels", "ranks", "features", "blocks")

    def __init__(self, idx: int, seeds: Any, labels: Any, ranks: Any, features: Any, blocks: list[Block]):
        self.idx, self.seeds, self.labels, self.ranks, self.features, self.blocks = idx, seeds, labels, ranks, features, blocks

    def edge_index(self) -> Any:
        """[2, edges] int64 of all hops, the seeds' first, sources above destinations."""
        return edges_of(self.blocks[::-1])

    def __repr__(self) -> str:
        return f"rung.Batch({self.idx}: {len(self.seeds)} seeds, {len(self.ranks)} vertices, {sum(block.edge_count for block in self.blocks)} edges)"


class Loader:
    """Batches of a split, or of some vertices: `for batch in loader` is an epoch.

    Threads of the library sample `ahead` batches, announce their rows to the store in the order of their gathers, and gather the next few, while the
    trainer computes. What batches hold follows from `seed` and the epoch's number alone: not from threads, tiers or time.

    Args:
        store: the rows. Its data set's graph is loaded once for all who use it (8 bytes a vertex, 4 or 8 an edge), except with `fanouts=()`
        seeds: name of a split ("train"), or original vertices [n], each at most once
        fanouts: hop 0 (from the seeds) first; -1: all neighbours; (): no edges (default: as staged)
        batch_size: seeds of a batch (default: as staged)
        draws: "all" (DGL) or "new" (PyG) (default: as staged; with form="pyg": "new")
        shuffle: a new order each epoch.  drop_last: without a last batch of fewer seeds
        seed: of order and draws
        form: "blocks": `rung.Batch`es. "pyg": torch_geometric `Data` with x, edge_index, y, n_id (original vertices), input_id, batch_size,
            num_sampled_nodes, num_sampled_edges, as NeighborLoader gives them
        arrays: "torch" or "numpy" (default: torch where it was imported)
        labels: whether batches have them
        rank, world_size: of data-parallel ranks: each takes its share of the seeds of an epoch, all equally many (of what does not divide,
            others are left out each epoch). Default: those of torch.distributed when it is initialised, else one rank
        ahead, gathers, threads: batches sampled and announced ahead (16), gathered ahead (2: each takes the memory of its rows), threads that
            sample. 0: default
        warm_up: make the first epoch's first batches at once, and let them go, so that its memory is there before the trainer waits for any
        progress: show each epoch with tqdm

    An epoch that is left early (`break`) ends there; the next `for` begins the next one. One epoch at a time.
    """

    def __init__(self, store: Store, seeds: Union[str, Any] = "train", *, fanouts: Optional[Sequence[int]] = None, batch_size: int = 0,
                 draws: Optional[str] = None, shuffle: bool = True, drop_last: bool = False, seed: int = 0, form: str = "blocks",
                 arrays: Optional[str] = None, labels: bool = True, rank: Optional[int] = None, world_size: Optional[int] = None, ahead: int = 0,
                 gathers: int = 0, threads: int = 0, warm_up: bool = True, progress: bool = False):
        if form not in ("blocks", "pyg"):
            raise InvalidError(f"form={form!r}: give blocks or pyg")
        self._kind = "torch" if form == "pyg" else arrays or ("torch" if "torch" in sys.modules else "numpy")
        if self._kind not in ("torch", "numpy"):
            raise InvalidError(f"arrays={arrays!r}: give torch or numpy")
        if self._kind == "numpy" and store.gpu >= 0:
            raise InvalidError(f"the rows are on {store.device}: numpy cannot show them; give arrays='torch'")
        self._pyg = None
        if form == "pyg":
            from torch_geometric.data import Data

            self._pyg = Data
            draws = draws or "new"
        self.store, self.seed, self.epoch = store, seed, 0
        self._shuffle, self._drop_last, self._progress = shuffle, drop_last, progress
        self._pid = os.getpid()
        self._rank, self._world = _ranks(rank, world_size)
        with Dataset(store.path) as dataset:
            self._vertex_of_rank = dataset.array("vertex_of_rank") if self._pyg else None
            self._take_seeds(dataset, seeds, labels)
            self.batch_size = batch_size or dataset.batch_size or 1024
            opts = LoaderOpts(batch_size=self.batch_size, threads=threads, ahead=ahead, gathers=gathers)
            opts.sampler, keep = sampler_opts(dataset, fanouts, draws, seed, 1)
            graph = dataset.graph() if opts.sampler.hop_count else None
        self._handle = _Handle(store, byref(graph.csc) if graph else None, opts, (graph, keep))
        self._running: Optional[object] = None
        if warm_up:
            ranks = self._ranks[self._order()]
            check(lib.rung_loader_warm_up(self._handle.pointer, byref(self._pass(ranks))))

    def _take_seeds(self, dataset: Dataset, seeds: Union[str, Any], labels: bool) -> None:
        if isinstance(seeds, str):
            self._ranks = np.ascontiguousarray(dataset.array("split_" + seeds).astype(np.uint64))
            self._seeds = dataset.array("vertex_of_rank")[self._ranks].astype(np.int64)
        else:
            given = np.asarray(seeds)
            if given.ndim != 1 or given.dtype.kind not in "iu":
                raise InvalidError(f"seeds {list(given.shape)} {given.dtype}: give the name of a split, or integers in one dimension")
            self._seeds = given.astype(np.int64)
            if len(given) and not 0 <= self._seeds.min() <= self._seeds.max() < dataset.vertex_count:
                at = int(np.flatnonzero((self._seeds < 0) | (self._seeds >= dataset.vertex_count))[0])
                raise InvalidError(f"seeds[{at}] = {self._seeds[at]}: {dataset.path} has vertices 0 to {dataset.vertex_count - 1}")
            if len(np.unique(self._seeds)) != len(self._seeds):
                raise InvalidError("seeds: a vertex is there twice; give np.unique(seeds)")
            self._ranks = dataset.array("rank_of_vertex")[self._seeds].astype(np.uint64)
        self._labels = dataset.array("labels")[self._ranks] if labels and dataset.has_labels else None

    def __len__(self) -> int:
        """Batches of an epoch, of this rank."""
        count = len(self._seeds) // self._world
        return count // self.batch_size if self._drop_last else -(-count // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """The number of the next epoch; each `for` counts it up."""
        self.epoch = epoch

    def _order(self) -> np.ndarray:
        count = len(self._seeds)
        order = np.random.default_rng([self.seed, self.epoch]).permutation(count) if self._shuffle else np.arange(count)
        share = count // self._world
        return order[: share * self._world][self._rank :: self._world]

    def _pass(self, ranks: np.ndarray) -> LoaderPass:
        """Of the next epoch, over seeds that the caller keeps. Keys of a rank's batches are its own: batches of the same number draw differently."""
        return LoaderPass(seeds=ranks.ctypes.data, seed_count=len(ranks), drop_last=self._drop_last,
                          key_first=(self.epoch * self._world + self._rank) * max(len(self), 1))

    def __iter__(self) -> Iterator[Any]:
        if os.getpid() != self._pid:
            raise ForkError("a loader has threads, which a forked child has not: make one there")
        order = self._order()
        ranks = self._ranks[order]
        running = self._running = object()
        check(lib.rung_loader_begin(self._handle.pointer, byref(self._pass(ranks))))
        self.epoch += 1
        bar = None
        if self._progress:
            from tqdm import tqdm

            bar = tqdm(total=len(self), desc=f"epoch {self.epoch}", unit="batch")
        try:
            while True:
                found = POINTER(LoaderBatch)()
                if check(lib.rung_loader_next(self._handle.pointer, byref(found))) == 0:
                    return
                yield self._batch(found, order)
                del found
                if self._running is not running:
                    raise InvalidError("another epoch of this loader was begun: one at a time")
                if bar is not None:
                    bar.update()
        finally:
            if bar is not None:
                bar.close()
            if self._running is running:
                self._running = None
                lib.rung_loader_end(self._handle.pointer)

    def _batch(self, found: Any, order: np.ndarray) -> Any:
        batch, store, kind = found.contents, self.store, self._kind
        lent = _Lent(self._handle, found, store.gpu)
        if batch.request:
            check(lib.rung_request_wait_stream(batch.request, stream_address(store, None)))
        ranks = as_kind(Array(batch.ranks, (batch.rank_count,), _I64, lent), kind)
        features = as_kind(Array(batch.rows, (batch.rank_count, *store.shape[1:]), store.dtype, lent, (CPU, 0) if store.gpu < 0 else (CUDA, store.gpu)), kind)
        blocks = [Block(batch.blocks[hop].contents, lent, kind) for hop in range(batch.block_count)]
        taken = order[batch.batch_idx * self.batch_size :][: batch.seed_count]
        seeds, labels = self._seeds[taken], self._labels[taken] if self._labels is not None else None
        if kind == "torch":
            import torch

            seeds, labels = torch.from_numpy(seeds), torch.from_numpy(labels) if labels is not None else None
        if self._pyg is None or self._vertex_of_rank is None:
            return Batch(batch.batch_idx, seeds, labels, ranks, features, blocks[::-1])
        counts = [batch.seed_count, *(block.src_count - block.dst_count for block in blocks)]
        return self._pyg(x=features, edge_index=edges_of(blocks), y=labels, num_nodes=batch.rank_count, batch_size=batch.seed_count,
                         n_id=torch.from_numpy(self._vertex_of_rank[ranks.numpy()].astype(np.int64)), input_id=torch.from_numpy(taken),
                         num_sampled_nodes=counts, num_sampled_edges=[block.edge_count for block in blocks])

    def stats(self) -> EpochStats:
        """Of the epoch on its way, or the last one."""
        found = LoaderStats()
        check(lib.rung_loader_stats(self._handle.pointer, byref(found)))
        return EpochStats(found.batches, found.rows, found.edges, found.seconds, found.wait_s, found.wait_sample_s, found.wait_rows_s, found.sample_s,
                          found.gather_s, found.announce_s, found.announced, found.announce_refused)


def _ranks(rank: Optional[int], world_size: Optional[int]) -> tuple[int, int]:
    torch = sys.modules.get("torch")
    if world_size is None and torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        rank, world_size = torch.distributed.get_rank() if rank is None else rank, torch.distributed.get_world_size()
    rank, world_size = rank or 0, 1 if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise InvalidError(f"rank={rank}, world_size={world_size}: ranks are 0 to world_size - 1")
    return rank, world_size

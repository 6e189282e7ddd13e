# SPDX-License-Identifier: Apache-2.0
"""rung.Loader: batches of an epoch, sampled and gathered ahead by threads of the library.

A batch on a GPU is released on the CUDA stream for which the trainer received it. The stream is
stored as a number, because a finalizer may run on any thread and must not run bytecode.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from ctypes import POINTER, byref
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, overload

import numpy as np

from .._library import DRAWS, UINT32_MAX, c, check, lib
from ..arrays import CPU, CUDA, Array
from ..dataset import Dataset, Graph, LazyArray
from ..dtypes import BY_NAME, tensor_of
from ..errors import ClosedError, ForkError, InvalidError, NotSupportedError
from ..forks import Calls, watch
from ..interrupts import long_call
from ..owned import Owned, Running
from ..sizes import optional_module, whole_number
from ..stats import EpochStats
from ..store import Store
from ..streams import current_stream
from .arguments import check_arrays, check_kinds, lazy_arrays, loader_seeds, one_name
from .batch import Batch, as_kind, block_of, edges_of
from .division import Division
from .position import _FAILED, Resumable
from .sampler import sampler_opts

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch
    from torch_geometric.data import Data
    from typing_extensions import TypeVar, Unpack

    from .arguments import LoaderOptions

    BatchT = TypeVar("BatchT", default=Batch[torch.Tensor])
else:
    from typing import TypeVar

    BatchT = TypeVar("BatchT")

_I64 = BY_NAME["i64"]


class _Lent(Running):
    """A batch of the library, returned to it when no array refers to its memory any more.

    On a GPU the loader reuses the memory after the work that is queued by then on `stream`, as
    torch's allocator does with memory of a stream. `stream` is the trainer's stream at delivery,
    as a number: a finalizer may run on another thread, and must not run bytecode.
    """

    pointer: Any   # to a struct of the library

    def __init__(self, loader: Owned, stream: int):
        super().__init__(lib.rung_loader_put, loader.pointer, after=(stream,), of=(loader,),
                         pointer=POINTER(c.rung_loader_batch)())
        self.stream = stream


def _gpu_sampler(store: Store, dataset: Dataset, opts: Any) -> Owned:
    """Create a sampler on the store's GPU, and set it in `opts` instead of the CPU's."""
    cpu = opts.sampler
    if DRAWS[cpu.draws] != "all":
        raise NotSupportedError(f"draws={DRAWS[cpu.draws]!r}: not supported on a GPU; use "
                                "draws='all' or sample_on='cpu'")
    gpu = c.rung_gpu_sampler_opts(fanouts=cpu.fanouts, hop_count=cpu.hop_count, seed=cpu.seed,
                                  seed_count_max=opts.batch_size)
    found: list[Owned] = []

    def create(memory: Owned) -> Any:
        found.append(Running(lib.rung_gpu_sampler_destroy, of=(memory,)))
        return lib.rung_gpu_sampler_create(memory, dataset._open(), None, byref(gpu),
                                           byref(found[0].pointer))

    try:
        check(store._call(create))
    except BaseException:
        for handle in found:
            handle.release()
        raise
    opts.gpu_sampler, cpu.hop_count = found[0].pointer, 0
    return found[0]


def _samples_on_gpu(store: Store) -> bool:
    """Return whether the store's GPU can sample. If it cannot, warn with the reason."""
    why = store._no_gpu_sampling()
    if why:
        warnings.warn(f"sampling on the CPU: {why}", stacklevel=3)
    return not why


class Loader(Resumable, Generic[BatchT]):
    """Batches of a split, or of some vertices. Each `for batch in loader` is one epoch.

    While the trainer computes, threads of the library sample `look_ahead` batches, announce their
    rows to the store in the order of their gathers, and gather the next few batches. The content
    of batches depends only on `seed` and the number of the epoch, not on threads, tiers or timing.

    Leaving an epoch early (`break`) ends it; the next `for` begins the next epoch. Only one epoch
    of a loader runs at a time. A forked child cannot use the loader (ForkError). `state_dict()` and
    `load_state_dict()` resume training, also inside an epoch.

    Args:
        store: the store with the rows; the loader keeps it. It samples from the neighbour lists of
            the store, if the store was opened with `structure`. Otherwise the data set's graph is
            loaded once per process (8 bytes per vertex, 4 or 8 per edge), except with `fanouts=()`
        seeds: name of a split (default: "train"), original vertices [n], or a mask, bool
            [vertices]. A vertex that is listed several times, as by a weighted sampler, has a row
            and a list of neighbours for each
        fanouts: hop 0 (from the seeds) first; -1: all neighbours; (): no edges (default: as staged)
        input_nodes, num_neighbors: PyG's names of `seeds` and `fanouts`; as in PyG,
            `input_nodes=None` is all vertices
        batch_size: seeds per batch of each rank (default: as staged, otherwise 1024)
        draws: "all" (DGL) or "new" (PyG) (default: as staged; with form="pyg": "new")
        shuffle: use a new order in each epoch
        drop_last: leave out a last batch with fewer seeds
        seed: seed of the order and of the draws
        form: "blocks": `rung.Batch`es. "pyg": torch_geometric `Data` with x, edge_index, y, n_id
            (original vertices), input_id, batch_size, num_sampled_nodes, num_sampled_edges, as
            from NeighborLoader, and the arrays by name
        arrays: "torch" or "numpy" (default: torch if it has been imported, which type checkers
            assume)
        labels: whether batches have labels
        with_arrays: names of the arrays, staged with `arrays`, that batches have: `Batch.array()`,
            or attributes of PyG's batches (default: all). Each is loaded into memory when it is
            first used
        sample_on: "cpu" (default), or "gpu": the store's GPU samples the same batches, and their
            edges are on the GPU. It needs draws="all", and the store opened with
            sample_on_gpu=True; otherwise the graph is in pinned host memory. The defaults of
            `look_ahead` and `threads` are then 2, and each batch occupies GPU memory for the
            largest possible batch. If some neighbour lists are in the file, the CPU samples, and
            a warning has the reason
        rank, world_size: data-parallel rank and number of ranks (default: those of
            torch.distributed, read when an epoch begins; without it, one rank). All ranks then
            pass the same seeds, and compare them in the first epoch; seeds that the ranks have
            divided, or a rank that iterates alone, need rank=0, world_size=1. Batch k of all ranks
            together is global batch k, whose seeds and draws depend on `seed`, k and
            `batch_size * world_size` alone. Each rank gets an equal share of an epoch's seeds. The
            few remaining seeds are left out; with `shuffle`, different ones in each epoch
        look_ahead: batches that are sampled and announced ahead; 0: 16
        gathers: batches that are gathered ahead, each with the memory of its rows; 0: 2
        threads: threads that sample; 0: one less than the allowed CPUs, 1 to 8, or 8 if some
            neighbour lists are in the file
        warm_up: produce the first batches of the first epoch at once and discard them, so that the
            trainer does not wait for memory that is touched for the first time
        progress: show each epoch with tqdm

    Raises:
        InvalidError, RangeError: an argument is invalid, or a seed is outside the data set.
        NotFoundError: the data set has no such split.
        NotSupportedError: `sample_on="gpu"` with draws="new".
        LibraryError: `form="pyg"` or `progress` needs a package that is not installed.
        FormatError, ReadError, NoMemoryError, ClosedError: see `rung.Error`.
    """

    if not TYPE_CHECKING:   # for type checkers the class is what its __init__() says

        def __new__(cls, store=None, *_, **__):
            """Create a loader of typed batches for a `rung.TypedStore`."""
            if hasattr(store, "relations"):
                from ..hetero.loader import TypedLoader

                if cls is Loader:
                    cls = TypedLoader
                elif not issubclass(cls, TypedLoader):   # a program's own class
                    cls = type(cls.__name__, (cls, TypedLoader), {"__module__": cls.__module__})
            return super().__new__(cls)

    @overload
    def __init__(self: Loader[Batch[torch.Tensor]], store: Store, seeds: Any = None, *,
                 form: Literal["blocks"] = "blocks", arrays: Literal["torch"] | None = None,
                 **options: Unpack[LoaderOptions]) -> None: ...

    @overload
    def __init__(self: Loader[Batch[npt.NDArray[Any]]], store: Store, seeds: Any = None, *,
                 form: Literal["blocks"] = "blocks", arrays: Literal["numpy"],
                 **options: Unpack[LoaderOptions]) -> None: ...

    @overload
    def __init__(self: Loader[Data], store: Store, seeds: Any = None, *, form: Literal["pyg"],
                 arrays: Literal["torch"] | None = None,
                 **options: Unpack[LoaderOptions]) -> None: ...

    # values that are known only at run time
    @overload
    def __init__(self: Loader[Any], store: Store, seeds: Any = None, *, form: str = "blocks",
                 arrays: str | None = None, **options: Unpack[LoaderOptions]) -> None: ...

    def __init__(self, store: Store, seeds: Any = None, *, fanouts: Sequence[int] | None = None,
                 batch_size: int = 0, draws: str | None = None, shuffle: bool = True,
                 drop_last: bool = False, seed: int = 0, form: str = "blocks",
                 arrays: str | None = None, labels: bool = True,
                 with_arrays: Sequence[str] | None = None, rank: int | None = None,
                 world_size: int | None = None, look_ahead: int = 0, gathers: int = 0,
                 threads: int = 0, warm_up: bool = True, progress: bool = False,
                 sample_on: str = "cpu", num_neighbors: Sequence[int] | None = None,
                 input_nodes: Any = ...):
        check_kinds(store, form, arrays, sample_on)
        fanouts = one_name("fanouts", fanouts, "num_neighbors", num_neighbors)
        torch = form == "pyg" or "torch" in sys.modules
        self._kind = arrays or ("torch" if torch else "numpy")
        if self._kind == "numpy" and store.gpu >= 0:
            raise InvalidError(f"rows are on {store.device}: numpy reads host memory; use "
                               "arrays='torch'")
        self._pyg: Any = None   # class of the batches
        if form == "pyg":
            self._pyg = optional_module("torch_geometric.data", "form='pyg'", "pyg").Data
            draws = draws or "new"
        self._tqdm = optional_module("tqdm", "progress=True", "progress").tqdm if progress else None
        self.store: Store = store
        super().__init__(Division(seed, shuffle, drop_last, rank, world_size))
        self.seed: int = self._division.seed
        rank, world_size = self._division.ranks()
        with store._dataset() as dataset:
            self._contents = dataset._contents()
            self._vertex_of_rank = LazyArray(dataset, "vertex_of_rank")
            self._seeds, self._seed_ranks = loader_seeds(dataset, seeds, input_nodes)
            self._take_labels(dataset, labels)
            self._arrays = lazy_arrays(dataset, check_arrays(with_arrays, dataset.arrays, form))
            self.batch_size: int = (whole_number(batch_size, "batch_size") or dataset.batch_size
                                    or 1024)
            self._division.batch_size = self.batch_size
            opts = c.rung_loader_opts(batch_size=self.batch_size,
                                      threads=whole_number(threads, "threads"),
                                      look_ahead=whole_number(look_ahead, "look_ahead"),
                                      gathers=whole_number(gathers, "gathers"))
            opts.sampler, keep = sampler_opts(dataset, fanouts, draws, seed, 1)
            found: list[Owned] = []   # a GPU sampler if there is one, then the loader
            self._handles = found
            self._fanouts = tuple(-1 if fanout == UINT32_MAX else fanout for fanout in keep)
            self._draws = DRAWS[opts.sampler.draws]
            if sample_on == "gpu" and opts.sampler.hop_count and _samples_on_gpu(store):
                found.append(_gpu_sampler(store, dataset, opts))
            graph = (dataset.graph() if opts.sampler.hop_count and not store.has_structure
                     else None)
        self._calls, self._ended, self._pid = Calls(), False, os.getpid()
        try:
            self._create(opts, graph, keep)
            if warm_up:
                ranks = self._seed_ranks[self._order(rank, world_size)]
                long_call(lib.rung_loader_warm_up, self._handle,
                          byref(self._pass(ranks, world_size)))
        except BaseException:
            # The exception refers to this frame, and would keep the handles and their threads.
            for handle in found[::-1]:
                handle.release()
            raise
        watch(self)

    def _create(self, opts: Any, graph: Graph | None, keep: Any) -> None:
        """Create the library's loader, and append it to the handles.

        Args:
            graph: kept while the loader exists; None: the store has the lists, a GPU samples, or
                batches have no edges
            keep: memory that `opts` refers to, kept as long
        """
        found = self._handles

        def create(memory: Owned) -> Any:
            of = (memory, *found, graph.memory) if graph else (memory, *found)
            found.append(Running(lib.rung_loader_destroy, of=of, keeps=(graph, keep)))
            return lib.rung_loader_create(memory, byref(graph.csc) if graph else None, byref(opts),
                                          byref(found[-1].pointer))

        check(self.store._call(create))
        self._handle = found[-1]

    def _forked(self) -> None:
        self._calls = Calls()   # threads of the parent may hold the old locks

    def _exit(self) -> None:
        """End the library's threads. Batches that arrays still refer to keep their memory."""
        self._ended = True
        self._calls.wait()
        if self._epoch is not None:
            self._epoch.release()
        for handle in self._handles[::-1]:
            handle.release()

    def _check_ended(self) -> None:
        if self._ended:
            raise ClosedError("the loader was closed, because the interpreter is exiting or by "
                              "DataModule.teardown(); end the threads that use it before that")

    def _call(self, function: Callable[..., int], *arguments: Any) -> int:
        """Call `function(loader, *arguments)`; _exit() waits until it returns."""
        with self._calls.lock():
            self._check_ended()
            return check(function(self._handle, *arguments))

    def _take_labels(self, dataset: Dataset, labels: bool) -> None:
        self._has_labels = dataset.has_labels
        self._all_labels = LazyArray(dataset, "labels")
        self._classes: int | None = None
        self._labels: npt.NDArray[Any] | None = None
        if labels and dataset.has_labels:
            self._labels = dataset.array("labels")[self._seed_ranks]
            if self._kind == "torch":
                tensor_of(self._labels[:0], "labels")   # fails now, not at the first batch

    @property
    def num_features(self) -> int:
        """Number of features of a vertex: the number of elements of a row."""
        return int(np.prod(self.store.row_shape))

    @property
    def num_classes(self) -> int:
        """Number of classes: one more than the largest label of the data set, as in PyG.

        For labels [vertices, k] with k > 1 it is k, and without labels 0. Unknown labels (negative,
        or not a number) do not count. The first use reads the labels of all vertices.
        """
        if self._classes is None:
            labels: Any = self._all_labels.get() if self._has_labels else np.empty(0, np.int64)
            if labels.dtype.kind == "V":   # bf16
                labels = (labels.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            if labels.ndim > 1 and labels.shape[1] > 1:
                self._classes = int(labels.shape[1])
            else:
                known = labels[labels >= 0]   # of nan, this is false
                self._classes = int(known.max()) + 1 if known.size else 0
        return self._classes

    def _order(self, rank: int, world: int) -> npt.NDArray[np.int64]:
        """Return the positions of this rank's seeds in the next epoch's order."""
        return self._division.order(len(self._seeds), self.epoch, rank, world)

    def _pass(self, ranks: npt.NDArray[np.uint64], world: int, first: int = 0) -> Any:
        """Return a pass of the library over the next epoch's seeds, whose memory the caller keeps.

        Args:
            ranks: the seeds' ranks in the relabelled graph
            first: batch to begin with
        """
        key = self._division.key(len(self._seeds), self.epoch, world)
        return c.rung_loader_pass(seeds=ranks.ctypes.data, seed_count=len(ranks), key_first=key,
                                  batch_first=first, drop_last=self._division.drop_last)

    def _check_pid(self) -> None:
        if os.getpid() != self._pid:
            raise ForkError("the loader's threads do not exist in a forked child; create a loader "
                            "in the child")

    def __iter__(self) -> Iterator[BatchT]:
        self._check_pid()
        rank, world = self._division.ranks()
        self._agree(world)
        order = self._order(rank, world)
        ranks = self._seed_ranks[order]
        count = self._division.batches(len(self._seeds), world)
        first = min(self._first, count)   # of the state of fewer ranks, see division.py
        if self._epoch is not None:
            self._epoch.release()
        with self._calls.lock():
            self._check_ended()
            epoch = self._epoch = Running(lib.rung_loader_end, of=(self._handle,),
                                          pointer=self._handle.pointer)
        bar = None
        left: int | None = _FAILED
        try:
            found_pass = self._pass(ranks, world, first)
            self._call(lib.rung_loader_begin, byref(found_pass))
            at = self._begin(first)
            if self._tqdm is not None:
                bar = self._tqdm(total=count, initial=first, desc=f"epoch {self.epoch}",
                                 unit="batch")
            found: list[Any] = []
            while self._next(order, found):
                self._at = at = at[0], at[1] + 1
                # pop() leaves no reference here: a batch's memory is reused when the trainer
                # deletes it, not when this generator continues
                yield found.pop()
                self._check_pid()
                if self._epoch is not epoch:
                    raise InvalidError("another epoch of this loader has begun, or a state was "
                                       "loaded; run one at a time, or use another loader")
                if bar is not None:
                    bar.update()
            left = None
        except GeneratorExit as error:
            left = id(error.__context__)
            raise
        finally:
            epoch.release()
            if self._epoch is epoch:
                self._end(left)
            if bar is not None and os.getpid() == self._pid:   # a child must not draw it
                bar.close()

    def _next(self, order: npt.NDArray[np.int64], found: list[Any]) -> bool:
        """Append the next batch of the epoch to `found`.

        Returns:
            False: the epoch has no more batches.
        """
        lent = _Lent(self._handle, 0 if self.store.gpu < 0 else current_stream(self.store))
        try:
            if self._call(lib.rung_loader_next, byref(lent.pointer)) == 0:
                return False
            found.append(self._batch(lent, order))
            return True
        except BaseException:
            # The exception refers to this frame, and would keep the batch.
            found.clear()
            lent.release()
            raise

    def _batch(self, lent: _Lent, order: npt.NDArray[np.int64]) -> Any:
        """Return a delivered batch in the requested form; its arrays keep `lent`."""
        batch, store, kind = lent.pointer.contents, self.store, self._kind
        if batch.request:   # on a GPU: rows may still be in flight, the trainer's stream waits
            check(lib.rung_request_wait_stream(batch.request, lent.stream))
        device = (CPU, 0) if store.gpu < 0 else (CUDA, store.gpu)
        sampled = device if batch.on_gpu else (CPU, 0)
        ranks = as_kind(Array(batch.ranks, (batch.rank_count,), _I64, lent, sampled), kind)
        shape = batch.rank_count, *store.shape[1:]
        features = as_kind(Array(batch.rows, shape, store.dtype, lent, device), kind)
        blocks = [block_of(batch.blocks[hop].contents, lent, kind, sampled)
                  for hop in range(batch.block_count)]
        taken = order[batch.batch_idx * self.batch_size :][: batch.seed_count]
        seeds: Any = self._seeds[taken]
        labels: Any = None if self._labels is None else self._labels[taken]
        given: Any = taken   # for PyG's input_id
        if kind == "torch":
            import torch

            seeds, given = torch.from_numpy(seeds), torch.from_numpy(taken)
            labels = None if labels is None else tensor_of(labels, "labels")
        found: Batch[Any] = Batch(batch.batch_idx, seeds, labels, ranks, features, blocks[::-1],
                                  self._vertex_of_rank, self._arrays)
        if self._pyg is None:
            return found
        counts = [batch.seed_count, *(block.src_count - block.dst_count for block in blocks)]
        return self._pyg(x=features, edge_index=edges_of(blocks, ranks), y=labels,
                         num_nodes=batch.rank_count, batch_size=batch.seed_count,
                         n_id=found.vertices, input_id=given,
                         num_sampled_nodes=counts,
                         num_sampled_edges=[block.edge_count for block in blocks],
                         **{name: found.array(name) for name in self._arrays})

    def __repr__(self) -> str:
        return (f"rung.Loader({self.store.path!r}): {len(self)} batches of {self.batch_size} "
                f"seeds, fanouts {self._fanouts}")

    def __reduce__(self) -> NoReturn:
        raise NotSupportedError("a rung.Loader has threads and cannot be pickled; "
                                "pickle its store, and create a loader from that")

    def stats(self) -> EpochStats:
        """Return the statistics of the current epoch, or of the last one if none is running."""
        self._check_pid()
        found = c.rung_loader_stats()
        self._call(lib.rung_loader_stats, byref(found))
        return EpochStats(found.batches, found.rows, found.edges, found.seconds, found.wait_s,
                          found.wait_sample_s, found.wait_rows_s, found.sample_s,
                          found.gather_s, found.announce_s, found.announced, found.announce_refused)

# SPDX-License-Identifier: Apache-2.0
"""The store: feature rows on a ladder of memory tiers, served by one gather."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from ctypes import byref, c_int, pointer
from types import SimpleNamespace
from typing import Any, Optional, Union

import numpy as np

from ._library import c, check, lib, string, text
from .arrays import CPU, CUDA, Array
from .dataset import Dataset
from .dtypes import BY_CODE, DType
from .errors import ClosedError, ForkError, InvalidError
from .forks import Calls, watch
from .gather import Flight, Gather
from .operands import Listed, list_ids, make_rows, store_memory, torch_of
from .owned import Folder, Owned, Running, statuses
from .sizes import INT_MAX, Size, plan_opts, store_opts, whole_number
from .stats import Stats, read_stats
from .streams import Stream, stream_of


class Store:
    """Feature rows served by one gather; from `rung.open()` or `rung.attach()`. A context manager.
    Threads: any number at the same time.

    A forked child, such as a worker of a torch DataLoader, gets a separate store when it first uses
    this one: attached to this one's memory if it is shared (`share=True`), otherwise opened again,
    with separate host memory. A store that gathers on a GPU raises ForkError there. Pickling does
    the same (spawned workers).

    Attributes: `path` of the data set, `shape` [vertices, ...], `dtype` (a `rung.DType`), `device`
    ("cpu" or "cuda:N"), `row_bytes`.
    """

    def __init__(self, arguments: dict):
        self._arguments = arguments   # to open it again
        self._lock = threading.RLock()   # closing, and opening in a child; no call takes it
        self._calls = Calls()
        self._memory: Optional[Owned] = None   # the library's store
        self._closed = False
        self._close_later = False   # a signal handler called close() inside a call: its end closes
        self._parents = False   # a forked child's, not opened again yet
        self._flights: set[Flight] = set()
        self._folder: Optional[Folder] = None   # of the socket
        self._share_path: Optional[str] = arguments.get("share_path")
        self.why_cpu = ""
        watch(self)
        self._start()

    def _start(self) -> None:
        memory = Running(lib.rung_store_close)
        try:
            if "share_path" in self._arguments:
                _attach(memory, **self._arguments)
            else:
                self._open(memory, **self._arguments)
            info = c.rung_store_info()
            check(lib.rung_store_info(memory, byref(info)))
            self.shape: tuple[int, ...] = tuple(info.features.dims[: info.features.dim_count])
            self.dtype: DType = BY_CODE[info.features.dtype]
            self.row_bytes: int = info.features.row_bytes
            self.path: str = text(info.dataset_dir)
            self.gpu: int = info.gpu
            self.device: str = "cpu" if info.device == 0 else f"cuda:{info.gpu}"
            self._memory = memory
        except BaseException:
            memory.release()
            self._remove_folder()
            raise

    def _open(self, memory: Owned, **arguments: Any) -> None:
        given = SimpleNamespace(**arguments)
        plan = Owned(lib.rung_plan_destroy)
        with Dataset(given.path) as dataset:
            planned = plan_opts(given, dataset.feature_bytes)
            opts = store_opts(given)
            files = dataset._open()
            try:
                check(lib.rung_plan_create(files, byref(planned), byref(plan.pointer)))
                self.why_cpu = text(lib.rung_plan_device(plan).contents.why)
                self._choose_socket(given.share)
                if self._share_path is not None:
                    opts.share_path = string(self._share_path, "share")
                check(lib.rung_store_open(files, plan, byref(opts), byref(memory.pointer)))
            finally:
                plan.release()

    def _choose_socket(self, share: Union[bool, str, os.PathLike, None]) -> None:
        if share is True:
            self._folder = Folder.create("rung-")
            self._share_path = os.path.join(self._folder.path, "store")
        elif share is not False and share is not None:
            self._share_path = os.fsdecode(share)
            if not self._share_path:
                raise InvalidError("share='': give True, or the path of a socket")

    def _remove_folder(self) -> None:
        if self._folder is not None:
            self._folder.remove()

    @property
    def share_path(self) -> Optional[str]:
        """Socket through which other processes attach; None: it is not shared."""
        return self._share_path

    # ---- use ----

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function(store, *arguments)`, while close() waits."""
        if self._parents:
            self._open_in_child()
        try:
            with self._calls.lock():
                return function(self._opened(), *arguments)
        finally:
            if self._close_later:
                self.close()

    def _opened(self) -> Owned:
        if self._closed or self._memory is None:
            raise ClosedError(f"{self.path}: the store was closed")
        return self._memory

    def _forked(self) -> None:
        """In a child: what the parent has is not touched, its threads are not here."""
        self._lock, self._calls = threading.RLock(), Calls()
        self._parents = not self._closed and (self._parents or self._memory is not None)
        self._flights, self._memory, self._folder = set(), None, None

    def _open_in_child(self) -> None:
        if self.device != "cpu":
            raise ForkError(f"{self.path}: this store gathers on {self.device}, which a forked "
                            "child cannot use; use workers that are spawned, gather in "
                            "the main process (PyG: filter_per_worker=False), or num_workers=0")
        with self._lock:
            if self._parents:
                self._arguments = self._arguments_elsewhere()
                self._start()
                self._parents = False

    def _arguments_elsewhere(self) -> dict:
        if self._share_path is None:
            return self._arguments
        names = ("vertex_ids", "requests", "batch_rows", "private_cache")
        return {"share_path": self._share_path, "gpu": self.gpu if self.gpu >= 0 else None,
                **{name: self._arguments[name] for name in names}}

    def __reduce__(self):
        if self._closed:
            raise ClosedError(f"{self.path}: the store was closed: it cannot be pickled")
        return Store, (self._arguments_elsewhere(),)

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.shape[1:]

    def __len__(self) -> int:
        return self.shape[0]

    # ---- rows ----

    def gather(self, ids: Any, out: Any = None, *, ranks: bool = False) -> Any:
        """Rows of a list of ids, in its order; repeats allowed.

        Args:
            ids: integers [n]: torch tensor, numpy array, list, or anything with `__dlpack__`;
                original vertices
            out: memory for the rows, [n, ...] of the features' dtype, contiguous, of the same kind
                and device; default: new
            ranks: ids are ranks, of the relabelled graph

        Returns rows [n, ...]: a torch tensor, on the ids' device, when ids are one; numpy for numpy
        and lists; else `rung.Array`. On a GPU rows of host ids of torch and numpy are copied to the
        host; `gather_async()` leaves them on the GPU.

        Raises RangeError (an id out of range, which it names), ReadError (row, file, offset),
        InvalidError, ClosedError, ForkError.

        The GIL is released during the call. On a GPU the work follows torch's current stream, and
        is waited for.
        """
        space = c.RUNG_RANKS if ranks else c.RUNG_VERTICES
        if self.gpu >= 0:
            on = stream_of(self)
            listed = list_ids(ids, space, on.handle)
            if listed.device[0] != CUDA:
                return self._gather_staged(listed, out)
            return self._submit(listed, out, on).wait()
        listed = list_ids(ids, space)
        rows, address = make_rows(self, listed, out)
        check(self._call(lib.rung_gather, listed.ids, address, 0))
        return rows

    def gather_async(self, ids: Any, out: Any = None, *, ranks: bool = False,
                     stream: Any = None) -> Gather:
        """Start a gather: rows in memory are copied at once, others read in the background.

        Args:
            stream: CUDA stream that ids and `out` are ready on, of the store's GPU: a torch stream,
                or a handle as in CUDA (0, 1: the default stream, 2: the thread's). Default: torch's
                current one, without torch the default stream. New rows are allocated on it

        On a GPU rows and `out` are there, wherever the ids are: a torch tensor when ids are one,
        else `rung.Array`. Ids in the host's memory are read before this returns, and their rows of
        the file are read at once; the GPU reads pinned ids, until the rows are complete.

        Raises AgainError when `requests` gathers are in flight: wait for one. Lists are of at most
        `batch_rows` ids. RangeError: an id out of range, unless the GPU reads the ids.
        """
        space = c.RUNG_RANKS if ranks else c.RUNG_VERTICES
        if self.gpu < 0:
            return self._submit(list_ids(ids, space), out)
        torch = torch_of(ids)
        if torch is not None:
            torch.cuda.init()   # the rows' stream is torch's then
        on = stream_of(self, stream)
        if stream is None:
            return self._submit_on(on, ids, out, space)
        return on.allocating(self._submit_on, on, ids, out, space)

    def _submit_on(self, on: Stream, ids: Any, out: Any, space: int) -> Gather:
        return self._submit(list_ids(ids, space, on.handle), out, on)

    def _submit(self, listed: Listed, out: Any, on: Optional[Stream] = None) -> Gather:
        rows, address = make_rows(self, listed, out, on)
        handle = None if on is None else on.handle
        found: list[Gather] = []

        def begin(memory: Owned) -> int:
            flight = Flight(memory, (listed, rows))
            gather = Gather(self, flight, rows, on, listed.kept)
            found.append(gather)   # before close() can continue
            return lib.rung_gather_submit(memory, listed.ids, address, 0, handle,
                                          byref(flight.pointer))

        try:
            check(self._call(begin))
            if on is not None and listed.kind == "torch":
                for tensor in (*listed.keeps, rows):
                    on.uses(tensor)
            return found[0]
        except BaseException:
            for gather in found:   # this frame, and so the request, lives as long as the exception
                gather._end()
            raise

    def _gather_staged(self, listed: Listed, out: Any) -> Any:
        """Rows for the host of a store that gathers on a GPU: by way of memory there."""
        rows, address = make_rows(self, listed, out)
        size = listed.ids.count * self.row_bytes
        there = store_memory(self, size)
        check(self._call(lib.rung_gather, listed.ids, there, 0))
        check(self._call(lib.rung_store_copy, address, there, size))
        return rows

    def __getitem__(self, ids: Any) -> Any:
        """`store[5]` one row [...], `store[2:9]` rows of a range, `store[ids]` as `gather(ids)`,
        `store[mask]` those where it is true."""
        if isinstance(ids, tuple):
            raise InvalidError(f"store[{', '.join(map(_indexed, ids))}]: rows have one index; "
                               "give a list of ids, or store[ids][...]")
        if isinstance(ids, (int, np.integer)) and not isinstance(ids, bool):
            index = int(ids)
            if not -len(self) <= index < len(self):
                raise IndexError(f"{self.path}: row {index} of {len(self)}")
            return self.gather(np.array([index % len(self)], np.int64))[0]
        if isinstance(ids, slice):
            return self.gather(np.arange(*ids.indices(len(self)), dtype=np.int64))
        torch = torch_of(ids)
        if (torch is not None
            and ids.dtype == torch.bool) or (isinstance(ids, np.ndarray) and ids.dtype == bool):
            if tuple(ids.shape) != self.shape[:1]:
                raise InvalidError(f"a mask of {list(ids.shape)}: wanted [{len(self)}]")
            ids = ids.nonzero().flatten() if torch is not None else ids.nonzero()[0]
        return self.gather(ids)

    # Through __getitem__ and __len__ each of these would gather one row at a time.
    __iter__ = __reversed__ = None   # iter(), list(), in

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        """All rows, gathered at once, in new memory."""
        if copy is False:
            raise ValueError(f"{self.path}: rows of a store are gathered, and copy=False")
        rows = self[:]
        return rows if dtype is None else rows.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        """The same, in host memory: torch.as_tensor() and every from_dlpack()."""
        rows = self[:]
        return Array(rows.ctypes.data, rows.shape, self.dtype, rows).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __getitems__(self, ids: Sequence[int]) -> list[np.ndarray]:
        """Rows of a batch, for torch's DataLoader."""
        return list(self.gather(ids))

    def prefetch(self, ids: Any, *, ranks: bool = False) -> None:
        """Announce a batch that will be gathered later, so that the cold-row cache keeps what is
        wanted soonest. In the order of the gathers.

        Raises AgainError when enough is announced: gather some first. On a GPU store, too, ids are
        host memory.
        """
        listed = list_ids(ids, c.RUNG_RANKS if ranks else c.RUNG_VERTICES)
        if listed.device[0] == CUDA:
            raise InvalidError("prefetch() reads ids on the host: give ids.cpu()")
        check(self._call(lib.rung_prefetch, listed.ids))

    def stats(self) -> Stats:
        """Counters since it was opened."""
        return self._call(read_stats)

    # ---- end ----

    def close(self) -> None:
        """Wait for what is in flight, and close. Rows that were handed out stay: memory of the
        store's own goes with the last of them.

        Threads: any; what others are doing is waited for, what they begin afterwards is a
        ClosedError. In a forked child it leaves the parent's alone. After an exception of a signal,
        close() again continues. From a signal handler, the call that it interrupts closes when it
        ends.
        """
        if self._calls.inside():
            self._closed = self._close_later = True
            return
        with self._lock:
            self._closed, self._close_later, self._parents = True, False, False
            self._calls.wait()
            for flight in list(self._flights):
                flight.wait(-1)
                self._flights.discard(flight)
            memory = self._memory
            if memory is None:
                return
            released = memory.release()   # now, or with the last of the memory that others hold
            if not memory.users:
                self._remove_folder()
            for status in statuses(released):
                check(status)

    _exit = close

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"rung.Store({self.path!r}): {list(self.shape)} {self.dtype.name} on {self.device}"


def _indexed(part: Any) -> str:
    if not isinstance(part, slice):
        return "..." if part is Ellipsis else repr(part)
    bounds = ["" if bound is None else repr(bound) for bound in (part.start, part.stop)]
    return ":".join(bounds + ([] if part.step is None else [repr(part.step)]))


def _attach(memory: Owned, share_path: str, vertex_ids: bool, requests: int, batch_rows: int,
            private_cache: bool, gpu: Optional[int]) -> None:
    opts = c.rung_store_opts()
    if gpu is not None:
        opts.gpu = pointer(c_int(whole_number(gpu, "gpu", INT_MAX)))
    opts.vertex_ids, opts.private_cache = bool(vertex_ids), bool(private_cache)
    opts.requests_max = whole_number(requests, "requests")
    opts.batch_rows_max = whole_number(batch_rows, "batch_rows")
    path = string(share_path, "share_path")
    check(lib.rung_store_attach(path, byref(opts), byref(memory.pointer)))


def open(path: Union[str, os.PathLike], *, host: Optional[Size] = None, gpu: Optional[Size] = None,
         gpus: Sequence[int] = (),   # pylint: disable=redefined-builtin
         device: Optional[str] = None, cache: Optional[Size] = None,
         share: Union[bool, str, os.PathLike] = False, vertex_ids: bool = True,
         queue_depth: int = 0, engine: str = "auto", numa: Union[str, int] = "auto",
         requests: int = 0, batch_rows: int = 0, merge_gap: int = 0,
         buffered: bool = False, read_timeout: float = 0,
         profile: Union[str, os.PathLike, None] = None, private_cache: bool = False,
         sample_on_gpu: bool = False) -> Store:
    """Open a staged data set's features: the hottest rows are read into memory, the others stay in
    the file.

    Args:
        path: folder written by `rung.stage()` or `rung stage`
        host: host memory for rows, slots and cache of rows from the file: bytes, "4GiB", "10%" of
            the features, "max" (default: half of the free memory)
        gpu: memory of each GPU for rows; given, or with `gpus`, a GPU gathers where there is one
            (default: the CPU gathers)
        gpus: their numbers; the first gathers
        device: "cpu", "cuda" (NoDeviceError where there is none) or "auto" (`why_cpu` then has the
            reason if it is the CPU)
        cache: part of `host`, for rows from the file that will be needed again: bytes, "1GiB",
            "10%" of `host` or of its default (default: an eighth)
        share: let other processes attach: True (workers that this one forks or spawns) or the path
            of a socket
        private_cache: with `share`: the cold-row cache is not shared, attached processes have none
        sample_on_gpu: the graph takes part in the budgets `gpu` and `host`, the same share of it as
            of the rows on the GPUs: for `rung.Loader(..., sample_on="gpu")`
        vertex_ids: ids are original vertices; False: only ranks, which saves 4 bytes per vertex
        queue_depth, engine, numa, merge_gap, buffered, read_timeout: see rung-bench(1); numa
            "auto", "interleave", "none" or a node
        profile: the output of `rung numa --json` on this machine; it determines queue_depth,
            merge_gap and numa if they are not given
        requests: `gather_async()`s in flight at most (default 8). batch_rows: ids of each at most
            (default 1 Mi)

    Raises NotFoundError, FormatError, CorruptError, InvalidError (a budget too small: `min_bytes`
    would do), NoMemoryError, NoDeviceError.
    """
    arguments = dict(locals())
    if not isinstance(gpus, Iterable) or isinstance(gpus, (str, bytes)):
        raise InvalidError(f"gpus={gpus!r}: give a list of GPU numbers, such as [0]")
    arguments.update(path=os.path.abspath(os.fsdecode(path)), gpus=tuple(gpus))
    if profile is not None:
        arguments["profile"] = os.path.abspath(os.fsdecode(profile))
    return Store(arguments)


def attach(share_path: Union[str, os.PathLike], *, vertex_ids: bool = True, requests: int = 0,
           batch_rows: int = 0, private_cache: bool = False, gpu: Optional[int] = None) -> Store:
    """Attach to a store that another process of this user on this machine opened with `share`: its
    host memory exists once.

    Args:
        vertex_ids, requests, batch_rows: as in `rung.open()`
        private_cache: do not use the shared cold-row cache, which every attached process can
            write to
        gpu: number of the GPU that gathers, where the other process's store gathers on one
            (default: the calling thread's current one, in torch `torch.cuda.current_device()`)

    Raises NotFoundError (no store is shared there), NoDeviceError (no such GPU), AbiError (another
    version), TimedOutError, InvalidError.
    """
    return Store(dict(share_path=os.fsdecode(share_path), vertex_ids=vertex_ids, requests=requests,
                      batch_rows=batch_rows, private_cache=private_cache, gpu=gpu))

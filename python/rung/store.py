# SPDX-License-Identifier: Apache-2.0
"""The store: feature rows on a ladder of memory tiers, served by one gather."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from ctypes import byref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy.typing as npt

from ._library import c, check, lib, string, text
from .arrays import CPU, CUDA, Array, SupportsDLPack
from .dataset import Dataset
from .errors import ClosedError, ForkError, InvalidError, in_python
from .forks import Calls, watch
from .gather import Flight, Gather
from .interrupts import LONG_ROWS, long_call
from .operands import Listed, index_rows, list_ids, make_rows, store_memory, torch_of
from .owned import Folder, Owned, Running, statuses
from .planning import create_plan
from .rows import Rows
from .sizes import attach_opts, plan_opts, store_opts
from .stats import (
    Stats,
    has_cold_lists,
    html_table,
    read_stats,
    read_structure_stats,
    state_of,
    structure_of,
)
from .streams import Stream, stream_of

if TYPE_CHECKING:
    import torch

Result = TypeVar("Result")


class Store(Rows):
    """Feature rows of a staged data set, from `rung.open()` or `rung.attach()`.

    A context manager, which closes the store. Threads: any number at the same time.

    A forked child, such as a worker of a torch DataLoader, gets a separate store when it first uses
    this one. If this store is shared (`share=True`), the child attaches to its memory; otherwise it
    opens the data set again, with separate host memory. A store that gathers on a GPU raises
    ForkError there. Unpickling, as in spawned workers, attaches or opens in the same way.

    Attributes:
        path: folder of the data set
        shape, dtype, row_bytes: of gathered rows: [vertices, ...], a `rung.DType`, size of a row
        quantization: a `rung.Quantization`, which also decodes stored rows; None: not quantized
        stored_row_bytes: size of a row in the file and in memory
        gpu: number of the GPU that gathers; -1: the CPU gathers
        device: "cpu" or "cuda:N"
        why_cpu: why `device="auto"` chose the CPU; "" otherwise
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments   # for opening the store again in a child
        self._lock = threading.RLock()   # held to close, or to open in a child; not by other calls
        self._calls = Calls()
        self._memory: Owned | None = None   # the library's store
        self._closed = False
        self._close_later = False   # a signal handler called close(): the call it interrupted does
        self._parents = False   # this is a forked child, which has not opened the store yet
        self._flights: set[Flight] = set()   # gathers for which close() waits
        self._folder: Folder | None = None   # temporary folder of the socket
        self._share_path: str | None = arguments.get("share_path")
        self.why_cpu: str = ""
        self._staged: Any = None   # identity of the data set; None: another process opened it
        self._why_not_gpu = ""   # why a loader cannot sample on the GPU
        watch(self)
        self._start()

    def _start(self) -> None:
        memory = Running(lib.rung_store_close)
        try:
            if "share_path" in self._arguments:
                self._attach(memory, **self._arguments)
            else:
                self._open(memory, **self._arguments)
            self._describe(memory)
            self._memory = memory
        except BaseException:
            memory.release()
            self._remove_folder()
            raise

    def _open(self, memory: Owned, **arguments: Any) -> None:
        given = SimpleNamespace(**arguments)
        with Dataset(given.path) as dataset:
            self._staged = dataset._identity
            planned = plan_opts(given, dataset.feature_bytes)
            opts = store_opts(given)
            files = dataset._open()
            plan, self._why_not_gpu = create_plan(dataset, given, planned)
            try:
                self.why_cpu = in_python(text(lib.rung_plan_device(plan).contents.why))
                self._choose_socket(given.share)
                if self._share_path is not None:
                    opts.share_path = string(self._share_path, "share")
                long_call(lib.rung_store_open, files, plan, byref(opts), byref(memory.pointer))
            finally:
                plan.release()

    def _dataset(self) -> Dataset:
        """Open the data set of the rows.

        Raises:
            InvalidError: another one is in its folder now, whose ranks name other rows.
        """
        dataset = Dataset(self.path)
        if self._staged not in (None, dataset._identity):
            dataset.close()
            raise InvalidError(f"{self.path}: was staged again after the store was opened; open "
                               "the store again")
        return dataset

    def _attach(self, memory: Owned, share_path: str, **options: Any) -> None:
        opts = attach_opts(SimpleNamespace(**options))
        long_call(lib.rung_store_attach, string(share_path, "share_path"), byref(opts),
                  byref(memory.pointer))

    def _choose_socket(self, share: bool | str | os.PathLike[str] | None) -> None:
        """Set the path of the socket, and create its folder if the caller named none."""
        if share is True:
            self._folder = Folder.create("rung-")
            self._share_path = os.path.join(self._folder.path, "store")
        elif share is not False and share is not None:
            if share in ("", b""):
                raise InvalidError("share='': empty path; use True or the path of a socket")
            self._share_path = os.path.abspath(os.fsdecode(string(share, "share")))

    def _remove_folder(self) -> None:
        if self._folder is not None:
            self._folder.remove()

    @property
    def share_path(self) -> str | None:
        """Path of the socket through which other processes attach; None: not shared."""
        return self._share_path

    # ---- use ----

    def _call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call `function(store, *arguments)`; close() waits until it returns."""
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
        """Forget the parent's store without a release: its threads do not exist in a child."""
        self._lock, self._calls = threading.RLock(), Calls()
        self._parents = not self._closed and (self._parents or self._memory is not None)
        self._flights, self._memory, self._folder = set(), None, None

    def _open_in_child(self) -> None:
        if self.device != "cpu":
            raise ForkError(f"{self.path}: a forked child cannot gather on {self.device}; spawn "
                            "workers, or gather in the main process (num_workers=0, or in PyG "
                            "filter_per_worker=False)")
        with self._lock:
            if self._parents:
                self._arguments = self._arguments_elsewhere()
                self._start()
                self._parents = False

    def _arguments_elsewhere(self) -> dict[str, Any]:
        """Return the arguments with which another process attaches to, or opens, this store."""
        if self._share_path is None:
            return self._arguments
        names = ("vertex_ids", "requests", "batch_rows", "private_cache", "dtype")
        return {"share_path": self._share_path, "gpu": self.gpu if self.gpu >= 0 else None,
                **{name: self._arguments[name] for name in names}}

    def __reduce__(self) -> tuple[Any, ...]:
        if self._closed:
            raise ClosedError(f"{self.path}: a closed store cannot be pickled; open it again")
        return Store, (self._arguments_elsewhere(),)

    # ---- rows ----

    # The types of asynchronous rows and of store[...] are those of a store on the CPU.

    @overload
    def gather(   # type: ignore[overload-overlap, unused-ignore]
            self, ids: npt.NDArray[Any] | Sequence[Any], out: npt.NDArray[Any] | None = None, *,
            ranks: bool = False) -> npt.NDArray[Any]: ...

    @overload
    def gather(   # type: ignore[overload-overlap, unused-ignore]
            self, ids: torch.Tensor, out: torch.Tensor | None = None, *,
            ranks: bool = False) -> torch.Tensor: ...

    @overload
    def gather(self, ids: SupportsDLPack, out: Any = None, *, ranks: bool = False) -> Array: ...

    def gather(self, ids: Any, out: Any = None, *, ranks: bool = False) -> Any:
        """Return the rows of ids, in their order. Ids may repeat.

        The GIL is released during the call. On a GPU the work runs on torch's current stream, and
        the call waits for it.

        Args:
            ids: original vertices, integers of any shape, or a mask, bool [vertices]: torch tensor,
                numpy array, list, or an object with `__dlpack__`
            out: memory for the rows: of their shape and dtype, contiguous, of the type and on the
                device of the returned rows (default: new memory)
            ranks: ids are ranks in the relabelled graph

        Returns:
            Rows [*ids.shape, ...]: a torch tensor on the ids' device for torch ids, a numpy array
            for numpy and lists, otherwise a `rung.Array`. A store on a GPU copies rows of host ids
            to the host; `gather_async()` leaves them on the GPU.

        Raises:
            RangeError: an id is out of range.
            ReadError: a read failed, with row, file and offset.
            InvalidError: `ids` or `out` is unsuitable.
            ClosedError: the store has been closed.
            ForkError: a forked child cannot use a store on a GPU.
        """
        space = c.RUNG_RANKS if ranks else c.RUNG_VERTICES
        if self.gpu >= 0:
            on = stream_of(self)
            listed = self._listed(ids, space, on.handle)
            if listed.device[0] != CUDA:
                return self._gather_staged(listed, out)
            return self._submit(listed, out, on).wait()
        listed = self._listed(ids, space)
        rows, address = make_rows(self, listed, out)
        if listed.ids.count < LONG_ROWS:   # without the time that replacing the handlers takes
            check(self._call(lib.rung_gather, listed.ids, address, 0))
        else:
            long_call(self._call, lib.rung_gather, listed.ids, address, 0)
        return rows

    @overload
    def gather_async(   # type: ignore[overload-overlap, unused-ignore]
            self, ids: npt.NDArray[Any] | Sequence[Any], out: npt.NDArray[Any] | None = None, *,
            ranks: bool = False, stream: Any = None) -> Gather[npt.NDArray[Any]]: ...

    @overload
    def gather_async(   # type: ignore[overload-overlap, unused-ignore]
            self, ids: torch.Tensor, out: torch.Tensor | None = None, *,
            ranks: bool = False, stream: Any = None) -> Gather[torch.Tensor]: ...

    @overload
    def gather_async(self, ids: SupportsDLPack, out: Any = None, *, ranks: bool = False,
                     stream: Any = None) -> Gather[Array]: ...

    def gather_async(self, ids: Any, out: Any = None, *, ranks: bool = False,
                     stream: Any = None) -> Gather[Any]:
        """Start a gather. Rows in memory are copied at once, others are read in the background.

        On a GPU, rows and `out` are in its memory wherever the ids are. Host ids are read before
        the call returns, and reads of their cold rows start at once. The GPU reads pinned ids in
        place until the rows are complete.

        Args:
            ids: as in `gather()`, at most `batch_rows`
            out: as in `gather()`; on a GPU: memory of that GPU, a tensor for torch ids
            ranks: as in `gather()`
            stream: CUDA stream of the store's GPU on which ids and `out` are ready, and on which
                new rows are allocated: a torch stream, or a handle as in CUDA (0 or 1: default
                stream, 2: per-thread default stream). Default: torch's current stream, without
                torch the default stream

        Returns:
            A `Gather`. On a GPU its rows are a torch tensor for torch ids, otherwise a
            `rung.Array`; on the CPU they are as from `gather()`.

        Raises:
            AgainError: `requests` gathers are in flight; wait for one.
            RangeError: an id is out of range. If the GPU reads the ids, `wait()` raises this.
            InvalidError, ClosedError, ForkError: as in `gather()`; also too many ids.
        """
        space = c.RUNG_RANKS if ranks else c.RUNG_VERTICES
        if self.gpu < 0:
            return self._submit(self._listed(ids, space), out)
        torch = torch_of(ids)
        if torch is not None:
            torch.cuda.init()   # so that stream_of() finds torch's current stream
        on = stream_of(self, stream)
        if stream is None:
            return self._submit_on(on, ids, out, space)
        started: Gather[Any] = on.allocating(self._submit_on, on, ids, out, space)
        return started

    def _submit_on(self, on: Stream, ids: Any, out: Any, space: int) -> Gather[Any]:
        return self._submit(self._listed(ids, space, on.handle), out, on)

    def _submit(self, listed: Listed, out: Any, on: Stream | None = None) -> Gather[Any]:
        rows, address = make_rows(self, listed, out, on)
        handle = None if on is None else on.handle
        found: list[Gather[Any]] = []

        def begin(memory: Owned) -> int:
            flight = Flight(memory, (listed, rows))
            gather: Gather[Any] = Gather(self, flight, rows, on, listed.kept)
            # Inside the call, for which close() waits: from here on close() knows the gather.
            found.append(gather)
            status: int = lib.rung_gather_submit(memory, listed.ids, address, 0, handle,
                                                 byref(flight.pointer))
            return status

        try:
            check(self._call(begin))
            if on is not None and listed.kind == "torch":
                for tensor in (*listed.keeps, rows):
                    on.uses(tensor)
            return found[0]
        except BaseException:
            # The exception refers to this frame, and would keep the request in flight.
            for gather in found:
                gather._end()
            raise

    def _listed(self, ids: Any, space: int, stream: int | None = None) -> Listed:
        return list_ids(ids, space, len(self), stream)

    def _gather_staged(self, listed: Listed, out: Any) -> Any:
        """Gather to memory of the GPU, and copy the rows to the host."""
        rows, address = make_rows(self, listed, out)
        size = listed.ids.count * self.row_bytes
        there = store_memory(self, size)
        check(self._call(lib.rung_gather, listed.ids, there, 0))
        check(self._call(lib.rung_store_copy, address, there, size))
        return rows

    @overload
    def __getitem__(   # type: ignore[overload-overlap, unused-ignore]
            self, ids: int | slice | npt.NDArray[Any] | list[Any] | range) -> npt.NDArray[Any]: ...

    @overload
    def __getitem__(   # type: ignore[overload-overlap, unused-ignore]
            self, ids: torch.Tensor) -> torch.Tensor: ...

    @overload
    def __getitem__(self, ids: SupportsDLPack) -> Array: ...

    def __getitem__(self, ids: Any) -> Any:
        """Return rows: `store[5]` one row [...], `store[2:9]` the rows of a range.

        `store[ids]` is `gather(ids)`, except that ids below 0 count from the end.
        """
        return index_rows(self, ids)

    # iter(), list(), reversed() and `in` raise TypeError: through __getitem__ and __len__ they
    # would gather one row at a time.
    __iter__: None = None
    __reversed__: None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return all rows in new memory, gathered at once."""
        if copy is False:
            raise ValueError(f"{self.path}: copy=False: a gather always copies rows; leave it out")
        rows = self[:]
        return rows if dtype is None else rows.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        """Return all rows in host memory, for torch.as_tensor() and any from_dlpack()."""
        rows = self[:]
        return Array(rows.ctypes.data, rows.shape, self.dtype, rows).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __getitems__(self, ids: Sequence[int]) -> list[npt.NDArray[Any]]:
        """Return the rows of a batch as a list, for torch's DataLoader."""
        return list(self.gather(ids))

    def prefetch(self, ids: Any, *, ranks: bool = False) -> None:
        """Announce a batch that will be gathered later.

        The cold-row cache then keeps the rows that are needed soonest. Announce batches in the
        order in which they will be gathered.

        Args:
            ids: as in `gather()`, in host memory also if the store gathers on a GPU
            ranks: as in `gather()`

        Raises:
            AgainError: the window of announced batches is full; gather some first.
            InvalidError, RangeError, ClosedError, ForkError: as in `gather()`.
        """
        listed = self._listed(ids, c.RUNG_RANKS if ranks else c.RUNG_VERTICES)
        if listed.device[0] == CUDA:
            raise InvalidError("prefetch(): the ids are on a GPU; use ids.cpu()")
        check(self._call(lib.rung_prefetch, listed.ids))

    def stats(self) -> Stats:
        """Return the counters since the store was opened."""
        return self._call(read_stats)

    @property
    def has_structure(self) -> bool:
        """Whether the store holds the neighbour lists of the graph (`structure` of `open()`)."""
        return self._call(structure_of) is not None

    def structure_stats(self) -> Stats | None:
        """Return the counters of reads of neighbour lists; None if the store holds no lists.

        Rows are blocks of 512 bytes. The hits of tier "nvme" are the blocks that samplers requested
        from the file. Entries in memory are read directly, and their hits are not counted.
        """
        return self._call(read_structure_stats)

    def _no_gpu_sampling(self) -> str:
        """Return why the GPU cannot sample the graph of this store; "" if it can."""
        if self._why_not_gpu:
            return self._why_not_gpu
        return ("some neighbour lists are in the file; open the store with structure='max', or "
                "with sample_on_gpu=True and without structure"
                if self._call(has_cold_lists) else "")

    # ---- end ----

    def close(self) -> None:
        """Wait for gathers in flight, and close the store. Closing it again has no effect.

        Arrays that were returned stay valid; memory of the store is freed with the last of them.

        Threads: any. Calls in progress on other threads are waited for; later calls raise
        ClosedError. In a forked child the parent's store is not affected. If a signal handler
        raises during close(), call close() again. If a signal handler that interrupts a call of
        this store calls close(), the store is closed when that call ends.

        Raises:
            TimedOutError and others: closing failed; the store is closed nevertheless.
        """
        if self._calls.inside():   # waiting here for the interrupted call would never end
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
            # Closes the library's store now or, while arrays use its memory, with the last of them.
            released = memory.release()
            if not memory.users:
                self._remove_folder()
            for status in statuses(released):
                check(status)

    _exit = close

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (f"rung.Store({self.path!r}): {self._features()} "
                + ", ".join(f"{name} {value}" for name, value in state_of(self)))

    def _repr_html_(self) -> str:
        return html_table(f"rung.Store {self.path}",
                          [("features", self._features()), *state_of(self)])

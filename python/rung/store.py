# SPDX-License-Identifier: Apache-2.0
"""The store: feature rows on a ladder of memory tiers behind one gather."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Sequence
from ctypes import POINTER, byref, c_int, c_void_p, cast, pointer
from math import ceil
from typing import Any, Optional, Union

import numpy as np

from ._library import (BYTES_NONE, DEVICES, ENGINES, NUMA_POLICIES, RANKS, UINT32_MAX, VERTICES, Ids, PlanOpts, Profile, StoreInfo, StoreOpts, check, lib, string,
                       text)
from .arrays import CUDA
from .dataset import Dataset
from .dtypes import BY_CODE, DType
from .errors import ClosedError, ForkError, InvalidError
from .forks import watch
from .gather import Flight, Gather, stream_address
from .ids import Listed, list_ids, torch_of
from .rows import StoreMemory, make_rows
from .sizes import Size, size_bytes, whole_number
from .stats import Stats, read_stats


class Store:
    """Feature rows behind one gather; from `rung.open()` or `rung.attach()`. A context manager. Threads: any number at the same time.

    A forked child, such as a worker of a torch DataLoader, gets a store of its own when it first uses this one: attached to
    this one's memory when it is shared (`share=True`), else opened again, with its host memory. One that gathers on a GPU raises
    ForkError there. Pickling gives the same (workers that are spawned).

    Attributes: `path` of the data set, `shape` [vertices, ...], `dtype` (a `rung.DType`), `device` ("cpu" or "cuda:N"), `row_bytes`.
    """

    def __init__(self, arguments: dict):
        self._arguments = arguments   # to open it again
        self._lock = threading.Condition()
        self._users = 0   # threads inside a call
        self._handle: Optional[c_void_p] = None
        self._parents = False   # a forked child's, not opened again yet
        self._flights: set[Flight] = set()
        self._lent = 0   # pieces of the store's memory that others hold
        self._closing: Optional[c_void_p] = None   # closed, but for those
        self._own_folder: Optional[weakref.finalize] = None   # removes it, at the latest when the program ends
        self._share_path: Optional[str] = arguments.get("share_path")
        self.why_cpu = ""
        self._start()
        watch(self)

    def _start(self) -> None:
        handle = _attach(**self._arguments) if "share_path" in self._arguments else self._open(**self._arguments)
        self._handle = handle
        info = StoreInfo()
        check(lib.rung_store_info(handle, byref(info)))
        self.shape: tuple[int, ...] = tuple(info.features.dims[: info.features.dim_count])
        self.dtype: DType = BY_CODE[info.features.dtype]
        self.row_bytes: int = info.features.row_bytes
        self.path: str = text(info.dataset_dir)
        self.gpu: int = info.gpu
        self.device: str = "cpu" if info.device == 0 else f"cuda:{info.gpu}"

    def _open(self, path, host, gpu, gpus, device, cache, share, vertex_ids, queue_depth, engine, numa, requests, batch_rows, gap, buffered,
              read_timeout, profile) -> c_void_p:
        plan_opts, opts = PlanOpts(), StoreOpts()
        plan, handle = c_void_p(), c_void_p()
        with Dataset(path) as dataset:
            whole = dataset.feature_bytes
            if host is not None:
                plan_opts.host_bytes = size_bytes(host, whole, "host") or 1   # 0 stands for the default: the refusal says the least that works
            if gpu is not None:
                plan_opts.gpu_bytes = size_bytes(gpu, whole, "gpu") or BYTES_NONE
            if cache is not None:
                share_of = plan_opts.host_bytes if host is not None and plan_opts.host_bytes < BYTES_NONE else None
                plan_opts.cache_bytes = size_bytes(cache, share_of, "cache") or BYTES_NONE
            plan_opts.device = _index(device or ("auto" if gpu is not None or gpus else "cpu"), DEVICES, "device")
            if gpus:
                numbers = [whole_number(number, "gpus", 2**31 - 1) for number in gpus]
                plan_opts.gpus, plan_opts.gpu_count = cast((c_int * len(numbers))(*numbers), POINTER(c_int)), len(numbers)
            plan_opts.queue_depth = opts.queue_depth = whole_number(queue_depth, "queue_depth")
            plan_opts.vertex_ids = opts.vertex_ids = bool(vertex_ids)
            if isinstance(numa, str):
                plan_opts.numa = _index(numa, [policy for policy in NUMA_POLICIES if policy != "node"], "numa", NUMA_POLICIES)
            else:
                plan_opts.numa, plan_opts.numa_node = NUMA_POLICIES.index("node"), whole_number(numa, "numa")
            if profile is not None:
                figures = Profile()
                check(lib.rung_profile_load(string(profile, "profile"), byref(figures)))
                plan_opts.profile = pointer(figures)
            opts.engine = _index(engine, ENGINES, "engine")
            opts.requests_max, opts.batch_rows_max = whole_number(requests, "requests"), whole_number(batch_rows, "batch_rows")
            opts.gap_bytes, opts.buffered = whole_number(gap, "gap"), bool(buffered)
            if not 0 <= read_timeout <= UINT32_MAX // 1000:
                raise InvalidError(f"read_timeout={read_timeout!r}: give seconds, 0 (for 30) to {UINT32_MAX // 1000}")
            opts.read_timeout_ms = ceil(read_timeout * 1000)
            memory = dataset._open()
            try:
                check(lib.rung_plan_create(memory.handle, byref(plan_opts), byref(plan)))
                self.why_cpu = text(lib.rung_plan_device(plan).contents.why)
                if share is True:
                    folder = tempfile.mkdtemp(prefix="rung-")
                    self._own_folder = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
                    self._share_path = os.path.join(folder, "store")
                elif share:
                    self._share_path = os.fsdecode(share)
                if self._share_path is not None:
                    opts.share_path = string(self._share_path, "share")
                check(lib.rung_store_open(memory.handle, plan, byref(opts), byref(handle)))
            except BaseException:
                self._remove_folder()
                raise
            finally:
                lib.rung_plan_destroy(plan)
        return handle

    def _remove_folder(self) -> None:
        if self._own_folder is not None:
            self._own_folder()

    @property
    def share_path(self) -> Optional[str]:
        """Socket through which other processes attach; None: it is not shared."""
        return self._share_path

    # ---- use ----

    def _using(self) -> _Use:
        return _Use(self)

    def _enter(self) -> c_void_p:
        with self._lock:
            if self._parents:
                self._open_in_child()
            if self._handle is None:
                raise ClosedError(f"{self.path}: the store was closed")
            self._users += 1
            return self._handle

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._lock.notify_all()

    def _forked(self) -> None:
        """In a child: what the parent has is not touched, its threads are not here."""
        self._lock = threading.Condition()
        self._users = self._lent = 0
        for flight in self._flights:
            flight.forked()
        self._parents = self._parents or self._handle is not None
        self._flights, self._handle, self._closing = set(), None, None
        if self._own_folder is not None:   # the parent's
            self._own_folder.detach()
            self._own_folder = None

    def _open_in_child(self) -> None:
        if self.device != "cpu":
            raise ForkError(f"{self.path}: this store gathers on {self.device}, which a forked child cannot use; use workers that are spawned, gather in "
                            "the main process (PyG: filter_per_worker=False), or num_workers=0")
        self._arguments = self._arguments_elsewhere()
        self._start()
        self._parents = False

    def _arguments_elsewhere(self) -> dict:
        if self._share_path is None or "share_path" in self._arguments:
            return self._arguments
        return {"share_path": self._share_path, **{name: self._arguments[name] for name in ("vertex_ids", "requests", "batch_rows")}}

    def __reduce__(self):
        if self._handle is None and not self._parents:
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
            ids: integers [n]: torch tensor, numpy array, list, or anything with `__dlpack__`; original vertices
            out: memory for the rows, [n, ...] of the features' dtype, contiguous, of the same kind and device; default: new
            ranks: ids are ranks, of the relabelled graph

        Returns rows [n, ...]: a torch tensor, on the ids' device, when ids are one; numpy for numpy and lists; else `rung.Array`.

        Raises RangeError (an id outside: says which), ReadError (row, file, offset), InvalidError, ClosedError, ForkError.

        The GIL is given up meanwhile. On a GPU the work is put behind torch's current stream, and waited for.
        """
        listed = list_ids(ids, RANKS if ranks else VERTICES)
        if self.gpu >= 0:
            if listed.device[0] != CUDA:
                return self._gather_staged(listed, out)
            gather = self._submit(listed, out)
            gather.wait_stream()
            return gather.wait()
        rows, address = make_rows(self, listed, out)
        with self._using() as handle:
            check(lib.rung_gather(handle, listed.ids, address, 0))
        return rows

    def gather_async(self, ids: Any, out: Any = None, *, ranks: bool = False, stream: Any = None) -> Gather:
        """The same, begun: rows in memory are copied at once, the others are read meanwhile.

        Args:
            stream: CUDA stream that ids and `out` are ready on (a torch stream or its address; default: torch's current one)

        Raises AgainError when `requests` gathers are in flight: wait for one. Lists are of at most `batch_rows` ids.
        On a GPU ids must be there.
        """
        listed = list_ids(ids, RANKS if ranks else VERTICES)
        if self.gpu >= 0 and listed.device[0] != CUDA:
            raise InvalidError(f"ids are in host memory, the store gathers on {self.device}: move them there, or use gather()")
        return self._submit(listed, out, stream)

    def _submit(self, listed: Listed, out: Any, stream: Any = None) -> Gather:
        rows, address = make_rows(self, listed, out)
        request = c_void_p()
        with self._using() as handle:
            check(lib.rung_gather_submit(handle, listed.ids, address, 0, None if self.gpu < 0 else stream_address(self, stream), byref(request)))
            flight = Flight(request, (listed, rows))
            self._flights.add(flight)   # before close() can go on
        return Gather(self, flight, rows)

    def _gather_staged(self, listed: Listed, out: Any) -> Any:
        """Ids of the host on a store that gathers on a GPU: through memory of its own, and back."""
        rows, address = make_rows(self, listed, out)
        count = listed.ids.count
        with self._using() as handle:
            id_bytes = count * (4 if listed.ids.dtype in (6, 7) else 8)
            there, back = StoreMemory(self, id_bytes), StoreMemory(self, count * self.row_bytes)
            check(lib.rung_store_copy(handle, there.data, listed.ids.data, id_bytes))
            check(lib.rung_gather(handle, Ids(there.data, count, listed.ids.dtype, listed.ids.space), back.data, 0))
            check(lib.rung_store_copy(handle, address, back.data, count * self.row_bytes))
        return rows

    def __getitem__(self, ids: Any) -> Any:
        """`store[5]` one row [...], `store[2:9]` rows of a range, `store[ids]` as `gather(ids)`, `store[mask]` those where it is true."""
        if isinstance(ids, (int, np.integer)) and not isinstance(ids, bool):
            index = int(ids)
            if not -len(self) <= index < len(self):
                raise IndexError(f"{self.path}: row {index} of {len(self)}")
            return self.gather(np.array([index % len(self)], np.int64))[0]
        if isinstance(ids, slice):
            return self.gather(np.arange(*ids.indices(len(self)), dtype=np.int64))
        torch = torch_of(ids)
        if (torch is not None and ids.dtype == torch.bool) or (isinstance(ids, np.ndarray) and ids.dtype == bool):
            if tuple(ids.shape) != self.shape[:1]:
                raise InvalidError(f"a mask of {list(ids.shape)}: wanted [{len(self)}]")
            ids = ids.nonzero().flatten() if torch is not None else ids.nonzero()[0]
        return self.gather(ids)

    def prefetch(self, ids: Any, *, ranks: bool = False) -> None:
        """Announce a batch that will be gathered later, so that the cold-row cache keeps what is wanted soonest. In the order of the gathers.

        Raises AgainError when enough is announced: gather some first. On a GPU store, too, ids are host memory.
        """
        listed = list_ids(ids, RANKS if ranks else VERTICES)
        if listed.device[0] == CUDA:
            raise InvalidError("prefetch() reads ids on the host: give ids.cpu()")
        with self._using() as handle:
            check(lib.rung_prefetch(handle, listed.ids))

    def stats(self) -> Stats:
        """Counters since it was opened."""
        with self._using() as handle:
            return read_stats(handle)

    # ---- end ----

    def close(self) -> None:
        """Wait for what is in flight, and close. Rows that were handed out stay: memory of the store's own goes with the last of them.

        Threads: any; what others are doing is waited for, what they begin afterwards is a ClosedError. In a forked child it leaves the parent's alone.
        """
        with self._lock:
            self._parents = False
            handle, self._handle = self._handle, None
            if handle is None:
                return
            try:
                while self._users:
                    self._lock.wait()
            except BaseException:   # Ctrl-C: it is open still
                self._handle = handle
                raise
        try:
            for flight in list(self._flights):   # without the lock: what one of them keeps may want it
                flight.wait(-1)
        except BaseException:
            self._handle = handle
            raise
        with self._lock:
            self._flights.clear()
            self._closing = handle
            if self._lent:
                return
        self._close_now()

    def _lend(self) -> None:
        with self._lock:
            self._lent += 1

    def _take_back(self) -> None:
        with self._lock:
            self._lent -= 1
            if self._lent or self._closing is None:
                return
        self._close_now()

    def _close_now(self) -> None:
        with self._lock:
            handle, self._closing = self._closing, None
        if handle is None:
            return
        status = lib.rung_store_close(handle)
        self._remove_folder()
        check(status)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __repr__(self) -> str:
        return f"rung.Store({self.path!r}): {list(self.shape)} {self.dtype.name} on {self.device}"


class _Use:
    """Inside, the store is open and stays so."""

    __slots__ = ("_store",)

    def __init__(self, store: Store):
        self._store = store

    def __enter__(self) -> c_void_p:
        return self._store._enter()

    def __exit__(self, *_) -> None:
        self._store._leave()


def _index(value: str, of: Sequence[str], name: str, numbers: Sequence[str] = ()) -> int:
    """Number of a choice among `of`, which is its place there, or in `numbers`."""
    if value not in of:
        raise InvalidError(f"{name}={value!r}: give one of {', '.join(of)}")
    return (numbers or of).index(value)


def _attach(share_path: str, vertex_ids: bool, requests: int, batch_rows: int) -> c_void_p:
    opts, handle = StoreOpts(), c_void_p()
    opts.vertex_ids = bool(vertex_ids)
    opts.requests_max, opts.batch_rows_max = whole_number(requests, "requests"), whole_number(batch_rows, "batch_rows")
    check(lib.rung_store_attach(string(share_path, "share_path"), byref(opts), byref(handle)))
    return handle


def open(path: Union[str, os.PathLike], *, host: Optional[Size] = None, gpu: Optional[Size] = None, gpus: Sequence[int] = (),   # pylint: disable=redefined-builtin
         device: Optional[str] = None, cache: Optional[Size] = None, share: Union[bool, str, os.PathLike] = False, vertex_ids: bool = True,
         queue_depth: int = 0, engine: str = "auto", numa: Union[str, int] = "auto", requests: int = 0, batch_rows: int = 0, gap: int = 0,
         buffered: bool = False, read_timeout: float = 0, profile: Union[str, os.PathLike, None] = None) -> Store:
    """Open a staged data set's features: the hottest rows are read into memory, the others stay in the file.

    Args:
        path: folder that `rung.stage()` or `rung stage` made
        host: host memory for rows, slots and cache of rows from the file: bytes, "4GiB", "10%" of the features, "max" (default: half of what is free)
        gpu: memory of each GPU for rows; given, or with `gpus`, a GPU gathers where there is one (default: the CPU gathers)
        gpus: their numbers; the first gathers
        device: "cpu", "cuda" (NoDeviceError where there is none) or "auto" (`why_cpu` then says why it is the CPU)
        cache: of `host`, for rows from the file that will be wanted again (default: an eighth)
        share: let other processes attach: True (workers that this one forks or spawns) or the path of a socket
        vertex_ids: ids are original vertices; False: ranks only, which spares 4 bytes a vertex
        queue_depth, engine, numa, gap, buffered, read_timeout: see rung-bench(1); numa "auto", "interleave", "none" or a node
        profile: what `rung numa --json` measured on this machine: queue_depth, gap and numa are chosen by it, where they are not given
        requests: `gather_async()`s in flight at most (default 8).  batch_rows: ids of each at most (default 1 Mi)

    Raises NotFoundError, FormatError, CorruptError, InvalidError (a budget too small: `least_bytes` would do), NoMemoryError, NoDeviceError.
    """
    return Store(dict(path=os.path.abspath(os.fsdecode(path)), host=host, gpu=gpu, gpus=tuple(gpus), device=device, cache=cache, share=share, vertex_ids=vertex_ids,
                      queue_depth=queue_depth, engine=engine, numa=numa, requests=requests, batch_rows=batch_rows, gap=gap, buffered=buffered,
                      read_timeout=read_timeout, profile=None if profile is None else os.path.abspath(os.fsdecode(profile))))


def attach(share_path: Union[str, os.PathLike], *, vertex_ids: bool = True, requests: int = 0, batch_rows: int = 0) -> Store:
    """Attach to a store that another process of this user on this machine opened with `share`: its host memory exists once.

    Raises NotFoundError (nobody shares one there), AbiError (another version), TimedOutError, InvalidError.
    """
    return Store(dict(share_path=os.fsdecode(share_path), vertex_ids=vertex_ids, requests=requests, batch_rows=batch_rows))

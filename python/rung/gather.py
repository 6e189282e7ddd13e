# SPDX-License-Identifier: Apache-2.0
"""Asynchronous gathers in flight.

On a GPU, new rows are allocated on the gather's stream. record_stream() is called for each other
stream that uses the ids or rows. torch therefore keeps their memory after wait_stream() until that
stream's work has run, and the request can be released without a wait on the host.
"""

from __future__ import annotations

import numbers
import threading
import weakref
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from ._library import check, lib, raise_last, text
from .arrays import Array
from .errors import ForkError, InvalidError, NotSupportedError, error_of
from .interrupts import watched
from .owned import Owned, Running
from .streams import Stream, stream_of

if TYPE_CHECKING:
    from .store import Store

_SHORT_NS = 50_000_000   # waits longer than this can be interrupted by signal handlers
Rows = TypeVar("Rows")   # type of the rows: a torch tensor, a numpy array or a rung.Array


class Flight(Running):
    """A request of the library in flight, with the memory that it reads and writes.

    It is ended once: by its Gather, by its store's close(), or when neither refers to it any more.
    Its Gather and close() may do so from different threads.

    Args:
        memory: the store
        keeps: ids and rows, kept until the request has ended
    """

    def __init__(self, memory: Owned, keeps: Any) -> None:
        super().__init__(lib.rung_request_put, of=(memory,), keeps=keeps)
        # The steps of release() begin with a wait: rung_request_put() does not wait on a GPU, and
        # the memory in `keeps` is written until the request ends. wait_stream() empties the list
        # when torch keeps that memory.
        self._awaited = [self.pointer]
        waits = map(lib.rung_request_wait, filter(None, self._awaited), (-1,))
        self.ended: threading.Lock = threading.Lock()   # held until the request has ended
        self.ended.acquire()
        self._steps[:0] = partial(list, waits), partial(self.ended.release)
        # Two locks, so that done() does not block while another thread waits. Order: _waiting, then
        # _ending.
        self._waiting = threading.RLock()   # held while a thread waits for the request
        self._ending = threading.RLock()    # held while the request is put, or polled
        self._over = False   # the request has been put: its pointer must not be used any more
        self.failed: tuple[int, str] | None = None   # status and message of its failure

    def done(self) -> bool:
        """Return whether the request has ended. Never blocks."""
        with self._ending:
            return self._over or bool(lib.rung_request_poll(self))

    def wait(self, timeout_ns: int) -> None:
        """Wait for the request, and put it.

        A failure of the request is stored in `failed`, not raised.

        Args:
            timeout_ns: longest wait in nanoseconds; -1: no limit

        Raises:
            TimedOutError: the request is still in flight.
        """
        with self._waiting:
            if not self._over and self.pointer:
                status = lib.rung_request_wait(self, min(timeout_ns % 2**63, _SHORT_NS))
                if timeout_ns != 0 and not lib.rung_request_poll(self):   # a longer wait
                    left = timeout_ns if timeout_ns < 0 else max(timeout_ns - _SHORT_NS, 0)
                    status = watched(lib.rung_request_wait, self, left)
                if status < 0:
                    # Either the wait failed, with the request in flight, or the request failed.
                    if not lib.rung_request_poll(self):
                        raise_last(status)
                    # The request has ended, perhaps since the timeout: this returns its own status.
                    status = lib.rung_request_wait(self, -1)
                if status < 0:
                    self.failed = status, text(lib.rung_request_error(self))
            with self._ending:
                self._over = True
                self.release()
            kept = self.keeps
            self.keeps: Any = None
        del kept   # outside the lock: destructors of arrays may run arbitrary code

    def wait_stream(self, handle: int, kept: bool = False) -> bool:
        """Make later work on a CUDA stream wait for the rows. The host does not wait for the GPU.

        Args:
            handle: of the stream
            kept: torch keeps the ids and rows until that stream's work has run, so `release()`
                does not need to wait

        Returns:
            False: the request had ended already, and nothing has been queued.
        """
        with self._waiting:
            if self._over:
                return False
            check(lib.rung_request_wait_stream(self, handle))
            if kept:
                self._awaited.clear()
            return True

    def _forked(self) -> None:
        """Forget the request, which belongs to the parent: no thread of the child works on it."""
        super()._forked()
        self._waiting, self._ending = threading.RLock(), threading.RLock()
        if not self._over:
            self._over, self.failed = True, (0, "")   # status 0: Gather.wait() raises ForkError


class Gather(Generic[Rows]):
    """A gather in flight, from `Store.gather_async()`. Threads: one at a time.

    On the CPU, `wait()` returns the rows. On a GPU, `wait_stream()` makes later work on a CUDA
    stream wait for them, while the host continues.

    Deleting a gather waits for it, because its memory is written until it ends. torch tensors are
    the exception: after `wait_stream()`, torch keeps their memory and the host does not wait. The
    store's `close()` waits for its gathers; their rows remain available.
    """

    _let_go: Callable[[], Any] = staticmethod(list)

    def __init__(self, store: Store, flight: Flight, rows: Any, on: Stream | None = None,
                 kept: bool = False) -> None:
        self._store, self._flight, self._rows, self._on = store, flight, rows, on
        self._kept = kept   # torch keeps the ids (see Listed), and the rows, which are a tensor
        if on is not None and isinstance(rows, Array):
            # weak: a strong reference would be a cycle, and the rows would outlive their last user
            rows.ready = partial(_order, weakref.ref(self), flight.ended)
        # The store refers to the flight, so that close() can wait for it. Without that reference
        # the flight ends with this object, and its release waits.
        self._let_go = partial(store._flights.discard, flight)
        store._flights.add(flight)

    __del__: Any = property(attrgetter("_let_go"))   # runs no bytecode, see rung.owned

    def _end(self) -> None:
        self._flight.wait(-1)
        self._let_go()

    def done(self) -> bool:
        """Return whether the gather has completed or failed. Never blocks."""
        return self._flight.done()

    def wait(self, timeout: float | None = None) -> Rows:
        """Wait for the gather, and return its rows.

        Args:
            timeout: longest wait in seconds; None: no limit

        Returns:
            Rows [len(ids), ...]. For torch ids: a torch tensor. For ids of numpy or a list: a numpy
            array on the CPU, a `rung.Array` on a GPU. For other ids: a `rung.Array`.

        Raises:
            TimedOutError: the gather is still in flight; call `wait()` again.
            ReadError and others: the gather failed, with row, file and offset. Further calls raise
                the same error.
            RangeError: a GPU found an id that is out of range.
            ForkError: this is a forked child, and the gather belongs to the parent.
        """
        self._flight.wait(-1 if timeout is None else _nanoseconds(timeout))
        self._let_go()
        if self._flight.failed is not None:
            self._rows = None
            status, sentence = self._flight.failed
            if status == 0:
                raise ForkError(f"{self._store.path}: this gather belongs to the parent process; "
                                "gather again in the child")
            raise error_of(status, text(lib.rung_status_name(status)), sentence)
        if self._on is not None:
            self._used_on(self._on, stream_of(self._store))
        return cast(Rows, self._rows)

    result = wait

    def _used_on(self, own: Stream, stream: Stream) -> None:
        """Make torch keep the memory of the rows for work on `stream`; `own`: the gather's."""
        if stream.handle != own.handle:
            stream.uses(self._rows)

    def wait_stream(self, stream: Any = None) -> Rows:
        """Make a CUDA stream wait for the rows, and return them. On the CPU: the same as `wait()`.

        Work that is queued on the stream after this call finds the rows complete. The host waits
        only until rows from the file have been read and their copies queued.

        Args:
            stream: as in `gather_async()` (default: torch's current stream)

        Returns:
            Rows as `wait()` returns them.

        Raises:
            ReadError and others: as `wait()`.
        """
        if self._on is None:
            return self.wait()
        there = stream_of(self._store, stream)
        # first: torch must know this stream before the rows can be freed
        self._used_on(self._on, there)
        if not self._flight.wait_stream(there.handle, self._kept):
            return self.wait()
        return cast(Rows, self._rows)

    def __repr__(self) -> str:
        state = ("failed" if self._flight.failed is not None
                 else "completed" if self._flight.done() else "in flight")
        shape = "" if self._rows is None else f"{list(self._rows.shape)} "
        return f"rung.Gather({self._store.path!r}): {shape}{self._store.dtype.name}, {state}"

    def __reduce__(self) -> NoReturn:
        raise NotSupportedError("pickle: a rung.Gather belongs to this process; "
                                "pickle the rows that wait() returns")


def _nanoseconds(seconds: float) -> int:
    if not isinstance(seconds, numbers.Real) or not seconds >= 0:   # NaN, too
        raise InvalidError(f"timeout={seconds!r}: out of range; use 0 or more seconds, or None (no "
                           "limit)")
    return int(min(seconds, 1e9) * 1e9)   # 1e9 s fit the library's 64 bits, infinity would not


def _order(gather: weakref.ref[Gather[Any]], ended: threading.Lock, handle: int) -> None:
    """Make a CUDA stream wait for an array's rows: `Array.ready` of a gather's rows.

    Args:
        gather: whose rows the array shows
        ended: lock that is held until the gather has ended
        handle: of the stream
    """
    found = gather()
    if found is not None:
        found._flight.wait_stream(handle)
    else:   # the Gather was deleted, and its release waits, perhaps on another thread
        with ended:
            pass

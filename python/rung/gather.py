# SPDX-License-Identifier: Apache-2.0
"""Gathers that are on their way.

New rows are allocated on the stream of their gather. record_stream() is called for each other
stream that uses ids or rows, so torch keeps their memory after wait_stream(), and the request is
released without a wait.
"""

from __future__ import annotations

import numbers
import threading
import weakref
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Optional

from ._library import check, lib, raise_last, text
from .arrays import Array
from .errors import ForkError, InvalidError, NotSupportedError, error_of
from .owned import Owned, Running
from .streams import Stream, stream_of

if TYPE_CHECKING:
    from .store import Store


class Flight(Running):
    """A request that the library works on, and what it reads and writes.

    Ended once: by its Gather, by its store's close(), or when neither refers to it any more.
    """

    def __init__(self, memory: Owned, keeps: Any):
        super().__init__(lib.rung_request_put, of=(memory,), keeps=keeps)
        # a put on a GPU would not wait, and what `keeps` has is written to until the end
        self._awaited = [self.pointer]
        waits = map(lib.rung_request_wait, filter(None, self._awaited), (-1,))
        self.ended = threading.Lock()   # held until then
        self.ended.acquire()
        self._steps[:0] = partial(list, waits), partial(self.ended.release)
        self._waiting = threading.RLock()   # held for as long as one of them waits
        self._ending = threading.RLock()    # held while the request is put; taken inside the other
        self._over = False
        self.failed: Optional[tuple[int, str]] = None   # status and sentence

    def done(self) -> bool:
        with self._ending:
            return self._over or bool(lib.rung_request_poll(self))

    def wait(self, timeout_ns: int) -> None:
        """End it. TimedOutError leaves it as it is."""
        with self._waiting:
            if not self._over and self.pointer:
                status = lib.rung_request_wait(self, timeout_ns)
                if status < 0:
                    if not lib.rung_request_poll(self):
                        raise_last(status)
                    status = lib.rung_request_wait(self, -1)   # it came just then, or failed so
                if status < 0:
                    self.failed = status, text(lib.rung_request_error(self))
            with self._ending:
                self._over = True
                self.release()
            kept, self.keeps = self.keeps, None   # released after the lock
        del kept

    def wait_stream(self, handle: int, kept: bool = False) -> bool:
        """False: it has ended.

        Args:
            kept: what it reads and writes is kept until that stream's work has run: `release()`
                need not wait any more
        """
        with self._waiting:
            if self._over:
                return False
            check(lib.rung_request_wait_stream(self, handle))
            if kept:
                self._awaited.clear()
            return True

    def _forked(self) -> None:
        """In a child no thread works on it, and the library's request belongs to the parent."""
        super()._forked()
        self._waiting, self._ending = threading.RLock(), threading.RLock()
        if not self._over:
            self._over, self.failed = True, (0, "")


class Gather:
    """Rows on their way, of `Store.gather_async()`. Threads: one at a time.

    On the CPU `wait()` gives them. On a GPU `wait_stream()` lets later work on a CUDA stream wait
    for them, the host does not. One that is dropped is waited for: its memory is written to until
    then. torch keeps its own for a stream that waits: after `wait_stream()` the host does not. Rows
    of one that its store's `close()` has waited for are there.
    """

    _let_go: Callable[[], Any] = staticmethod(list)

    def __init__(self, store: Store, flight: Flight, rows: Any, on: Optional[Stream] = None,
                 kept: bool = False):
        self._store, self._flight, self._rows, self._on = store, flight, rows, on
        self._kept = kept   # ids (see Listed), and rows, which are torch's then
        if on is not None and isinstance(rows, Array):
            rows.ready = partial(_order, weakref.ref(self), flight.ended)
        self._let_go = partial(store._flights.discard, flight)   # the last reference waits for it
        store._flights.add(flight)

    __del__ = property(attrgetter("_let_go"))   # see rung.owned

    def _end(self) -> None:
        self._flight.wait(-1)
        self._let_go()

    def done(self) -> bool:
        """Whether the rows are there, or have failed. Never blocks."""
        return self._flight.done()

    def wait(self, timeout: Optional[float] = None) -> Any:
        """The rows, [len(ids), ...]: torch when ids were torch, else `rung.Array`, but on the CPU
        numpy when they were numpy or a list.

        Args:
            timeout: seconds; None: as long as it takes. TimedOutError leaves the rows on their way.

        Raises ReadError and others, with row, file and offset; also each time it is called again.
        RangeError (an id outside that a GPU read).
        ForkError in a forked child.
        """
        self._flight.wait(-1 if timeout is None else _nanoseconds(timeout))
        self._let_go()
        if self._flight.failed is not None:
            self._rows = None
            status, sentence = self._flight.failed
            if status == 0:
                raise ForkError(f"{self._store.path}: these rows are the parent process's; gather "
                                "in the child")
            raise error_of(status, text(lib.rung_status_name(status)), sentence)
        return self._rows if self._on is None else self._for(stream_of(self._store))

    result = wait

    def _for(self, stream: Stream) -> Any:
        """The rows, which that stream's work will use."""
        if stream.handle != self._on.handle:
            stream.uses(self._rows)
        return self._rows

    def wait_stream(self, stream: Any = None) -> Any:
        """The rows, for work that is queued on a CUDA stream after this call. On the CPU as
        `wait()`.

        The host waits only for rows of the file, until their copies are queued on a stream.

        Args:
            stream: as `gather_async()` takes it (default: torch's current one)
        """
        if self._on is None:
            return self.wait()
        there = stream_of(self._store, stream)
        self._for(there)   # before anything may be let go
        return self._rows if self._flight.wait_stream(there.handle, self._kept) else self.wait()

    def __reduce__(self):
        raise NotSupportedError("pickle: rung.Gather is read by this process; "
                                "pickle what wait() returns")


def _nanoseconds(seconds: float) -> int:
    if not isinstance(seconds, numbers.Real) or not seconds >= 0:   # NaN, too
        raise InvalidError(f"timeout={seconds!r}: give seconds, 0 or more, or None")
    return int(min(seconds, 1e9) * 1e9)


def _order(gather: weakref.ref[Gather], ended: threading.Lock, handle: int) -> None:
    """Let a CUDA stream wait for an array's rows."""
    found = gather()
    if found is not None:
        found._flight.wait_stream(handle)
    else:   # it was dropped, and is waited for
        with ended:
            pass

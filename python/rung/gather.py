# SPDX-License-Identifier: Apache-2.0
"""Gathers that are on their way."""

from __future__ import annotations

import sys
import threading
from ctypes import c_void_p
from typing import TYPE_CHECKING, Any, Optional

from ._library import check, lib, raise_last, text
from .errors import ForkError, InvalidError, error_of

if TYPE_CHECKING:
    from .store import Store


class Flight:
    """A request that the library works on, and what it reads and writes. Ended once: by its Gather, or by its store when that is closed.

    The lock is held while one of them waits; a collection meanwhile may drop the Gather on the same thread.
    """

    __slots__ = ("_lock", "_request", "_keeps", "failed")

    def __init__(self, request: c_void_p, keeps: Any):
        self._lock = threading.RLock()
        self._request: Optional[c_void_p] = request
        self._keeps = keeps
        self.failed: Optional[tuple[int, str]] = None   # status and sentence

    def done(self) -> bool:
        if not self._lock.acquire(blocking=False):   # somebody waits for it
            return False
        try:
            return self._request is None or bool(lib.rung_request_poll(self._request))
        finally:
            self._lock.release()

    def wait(self, timeout_ns: int) -> None:
        """End it. TimedOutError leaves it as it is."""
        with self._lock:
            if self._request is None:
                return
            status = lib.rung_request_wait(self._request, timeout_ns)
            if status < 0:
                if not lib.rung_request_poll(self._request):
                    raise_last(status)
                status = lib.rung_request_wait(self._request, -1)   # it came just then, or that is what it failed with
            request, self._request = self._request, None
            kept, self._keeps = self._keeps, None   # let go behind the lock
            if status < 0:
                self.failed = status, text(lib.rung_request_error(request))
            lib.rung_request_put(request)
        del kept

    def wait_stream(self, address: Optional[int]) -> bool:
        """False: it has ended."""
        with self._lock:
            if self._request is None:
                return False
            check(lib.rung_request_wait_stream(self._request, address))
            return True

    def forked(self) -> None:
        """In a child nobody works on it, and the library's side is the parent's."""
        self._lock = threading.RLock()
        self._request = None
        self.failed = 0, ""


class Gather:
    """Rows on their way, of `Store.gather_async()`. Threads: one at a time.

    On the CPU `wait()` gives them. On a GPU `wait_stream()` lets later work on a CUDA stream wait for them, the host does not.
    One that is dropped is waited for: its memory is written to until then. Rows of one that its store's `close()` has waited for are there.
    """

    def __init__(self, store: Store, flight: Flight, rows: Any):
        self._store, self._flight, self._rows = store, flight, rows

    def done(self) -> bool:
        """Whether the rows are there, or have failed. Never blocks."""
        return self._flight.done()

    def wait(self, timeout: Optional[float] = None) -> Any:
        """The rows, [len(ids), ...]: torch when ids were torch, numpy when they were numpy or a list, else `rung.Array`.

        Args:
            timeout: seconds; None: as long as it takes. TimedOutError leaves the rows on their way.

        Raises ReadError and others, with row, file and offset; also each time it is called again. RangeError (GPU: of ids outside).
        ForkError in a forked child.
        """
        self._flight.wait(-1 if timeout is None else _nanoseconds(timeout))
        self._store._flights.discard(self._flight)
        if self._flight.failed is not None:
            self._rows = None
            status, sentence = self._flight.failed
            if status == 0:
                raise ForkError(f"{self._store.path}: these rows are the parent process's; gather in the child")
            raise error_of(status, text(lib.rung_status_name(status)), sentence)
        return self._rows

    result = wait

    def wait_stream(self, stream: Any = None) -> Any:
        """The rows, for work that is put on a CUDA stream behind this call (default: torch's current one). On the CPU as `wait()`."""
        if self._store.device == "cpu" or not self._flight.wait_stream(stream_address(self._store, stream)):
            return self.wait()
        return self._rows

    def __del__(self):
        if hasattr(self, "_flight"):
            self._flight.wait(-1)   # nothing may write to memory that goes with us
            self._store._flights.discard(self._flight)


def _nanoseconds(seconds: float) -> int:
    if not seconds >= 0:   # NaN, too
        raise InvalidError(f"timeout={seconds!r}: give seconds, 0 or more, or None")
    return int(min(seconds, 1e9) * 1e9)


def stream_address(store: Store, stream: Any) -> Optional[int]:
    """Of a CUDA stream: torch's, or an address; None: torch's current one, or without torch the store's own."""
    if stream is None:
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available():
            return None
        return torch.cuda.current_stream(store.gpu).cuda_stream
    return getattr(stream, "cuda_stream", stream)

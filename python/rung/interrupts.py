# SPDX-License-Identifier: Apache-2.0
"""Exceptions of signal handlers, such as that of Ctrl-C, in long calls of the library.

Python runs handlers when it next executes bytecode: after the call, or at the start of a callback
of the library. ctypes would print and discard an exception there before any `try` could catch it.
Therefore the handlers are replaced during a long call by a method with its own `try` block, and the
exception is raised again when the library has returned.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

from ._library import c, check, lib

LONG_ROWS = 16384   # calls with fewer ids end soon, and replacing the handlers would slow them down


class Interrupts:
    """Inside `with`, exceptions of signal handlers are stored, and the library's callback cancels.

    Attributes:
        error: the exception of a handler; None: there was none
        function: a callback of the library, rung_progress_fn
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._handlers: dict[int, Any] = {}
        # ctypes does not keep the callback alive: this attribute does
        self.function: Any = c.rung_progress_fn(self._tell)

    def __enter__(self) -> Any:
        try:
            # Python runs signal handlers on the main thread only, and only that may set them.
            if threading.current_thread() is threading.main_thread():
                for number in signal.valid_signals():
                    handler = signal.getsignal(number)
                    if callable(handler):
                        self._handlers[number] = handler
                        signal.signal(number, self._signal)
            return self
        except BaseException:   # from a handler that has not been replaced yet
            self._restore()
            raise

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _restore(self) -> None:
        try:
            for number in list(self._handlers):
                signal.signal(number, self._handlers[number])
                del self._handlers[number]
        except BaseException:   # from a handler that has been restored already
            self._restore()
            raise

    def _signal(self, number: int, frame: Any) -> None:
        """Run the replaced handler, and store its exception for the end of the call."""
        try:
            handler = self._handlers.get(number)
            if handler is not None:   # None: it was restored after this call had begun
                handler(number, frame)
        except BaseException as error:   # pylint: disable=broad-exception-caught
            self.error = error

    def _tell(self, _ctx: Any, stage: bytes, done: int, total: int) -> int:
        """Callback of the library. Returns 1 to cancel."""
        return 0 if self.error is None else 1


class _Watched(Interrupts):
    """Calls of the library on this thread end early if a signal handler raises."""

    def __enter__(self) -> _Watched:
        super().__enter__()
        lib.rung_interrupt_set(self.function, None)
        return self

    def __exit__(self, *_: object) -> None:
        lib.rung_interrupt_set(c.rung_progress_fn(), None)
        super().__exit__()
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error   # a cycle with its traceback would keep the arrays of the call


def watched(function: Callable[..., int], *arguments: Any) -> int:
    """Return the status of a call, which ends early if a signal handler raises; raise that."""
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)   # no handler runs on this thread
    with _Watched():
        status = function(*arguments)
    return status


def long_call(function: Callable[..., int], *arguments: Any) -> int:
    """Return the status of a call as `watched()`, or raise its exception as `check()`."""
    return check(watched(function, *arguments))

# SPDX-License-Identifier: Apache-2.0
"""Progress of staging, and exceptions in calls of the library."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from .._library import c, text
from ..errors import InvalidError
from ..sizes import optional_module

ProgressFunction = Callable[[str, int, int], None]


class Progress:
    """Progress callback of the library, which calls the user's function.

    An exception in the user's function cancels staging, and is raised again when the library has
    returned. The same applies to an exception in a signal handler, for example after Ctrl-C.
    Python runs handlers when it next executes bytecode, which is at the start of this callback:
    ctypes would print and discard the exception before any `try` here could catch it. Inside
    `with`, the handlers are therefore replaced by a method with its own `try` block.

    Args:
        wanted: True: show progress with tqdm; a function of (step, done, total); or None
    """

    def __init__(self, wanted: bool | ProgressFunction | None):
        self.error: BaseException | None = None
        self._tqdm: Any = None
        self._bar: Any = None
        self._stage = ""
        self._call: ProgressFunction | None = None
        self._handlers: dict[int, Any] = {}
        if wanted is True:
            self._tqdm = optional_module("tqdm", "progress=True", "progress").tqdm
            self._call = self._show
        elif wanted:
            if not callable(wanted):
                raise InvalidError(f"progress={wanted!r}: not a function; use True, or a function "
                                   "of (step, done, total)")
            self._call = wanted
        # Also without a user's function, because signal handlers run in its calls. ctypes does not
        # keep the callback alive: this attribute does.
        self.function: Any = c.rung_progress_fn(self._tell)

    def __enter__(self) -> Progress:
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
        if self._bar is not None:
            self._bar.close()

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
        try:
            if self._call and self.error is None:
                self._call(text(stage), done, total)
        # an exception cannot propagate through C
        except BaseException as error:   # pylint: disable=broad-exception-caught
            self.error = error
        return 0 if self.error is None else 1

    def _show(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            if self._bar is not None:
                self._bar.close()
            self._stage = stage
            self._bar = self._tqdm(total=total or None, desc=stage, unit_scale=True,
                                   file=sys.stderr)
        self._bar.update(done - self._bar.n)

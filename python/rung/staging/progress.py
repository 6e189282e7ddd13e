# SPDX-License-Identifier: Apache-2.0
"""Progress of staging, and exceptions in calls of the library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .._library import text
from ..errors import InvalidError
from ..interrupts import Interrupts
from ..sizes import optional_module

ProgressFunction = Callable[[str, int, int], None]


class Progress(Interrupts):
    """Progress callback of the library, which calls the user's function.

    An exception in the user's function cancels staging, and is raised again when the library has
    returned. The same applies to an exception in a signal handler, for example after Ctrl-C.

    Args:
        wanted: True: show progress with tqdm; a function of (step, done, total); or None
    """

    def __init__(self, wanted: bool | ProgressFunction | None):
        super().__init__()
        self._tqdm: Any = None
        self._bar: Any = None
        self._stage = ""
        self._call: ProgressFunction | None = None
        if wanted is True:
            self._tqdm = optional_module("tqdm", "progress=True", "progress").tqdm
            self._call = self._show
        elif wanted:
            if not callable(wanted):
                raise InvalidError(f"progress={wanted!r}: not a function; use True, or a function "
                                   "of (step, done, total)")
            self._call = wanted

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self._bar is not None:
            self._bar.close()

    def _tell(self, _ctx: Any, stage: bytes, done: int, total: int) -> int:
        """Callback of the library. Returns 1 to cancel."""
        try:
            if self._call and self.error is None:
                self._call(text(stage), done, total)
        # an exception cannot propagate through C
        except BaseException as error:   # pylint: disable=broad-exception-caught
            self.error = error
        return super()._tell(_ctx, stage, done, total)

    def _show(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            if self._bar is not None:
                self._bar.close()
            self._stage = stage
            self._bar = self._tqdm(total=total or None, desc=stage, unit_scale=True,
                                   file=sys.stderr)
        self._bar.update(done - self._bar.n)

# SPDX-License-Identifier: Apache-2.0
"""Objects notified in a child of os.fork(), where locks of other threads are never released, and
when the interpreter ends, while CUDA and the library's threads still run.

At exit loaders end first, then stores, while CUDA works. Calls that threads are inside are waited
for, later ones are refused, and memory that arrays show stays.

A forked child forgets what the parent's threads work on, and does not release it. A store is
opened or attached again there when it is first used, a sampler is created again, and a loader
refuses.
"""

from __future__ import annotations

import atexit
import os
import weakref
from contextlib import suppress
from typing import Protocol


class Forked(Protocol):
    """Notified in the child before anything else runs there.

    One with an `_exit()` as well is notified when the interpreter ends, those created last first:
    its calls that threads are inside are waited for there, and those of daemon threads afterwards
    are refused.
    """

    def _forked(self) -> None: ...


_watched: dict[weakref.ref[Forked], None] = {}


def watch(thing: Forked) -> None:
    """Call `thing._forked()` in every child forked from now on, for as long as `thing` lives."""
    _watched[weakref.ref(thing, _watched.pop)] = None


def _in_child() -> None:
    things = [reference() for reference in list(_watched)]   # they live until all are notified
    for thing in things:
        if thing is not None:
            thing._forked()


def _at_exit() -> None:
    for reference in reversed(list(_watched)):
        ends = getattr(reference(), "_exit", None)
        if ends is not None:
            with suppress(Exception):   # the others are ended all the same
                ends()


os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)

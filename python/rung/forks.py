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
import threading
import weakref
from contextlib import suppress
from typing import Any, Protocol


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


class Calls:
    """The calls that threads are inside. Each holds a lock of its thread: `with calls.lock(): ...`.

    Locks of C have no gap between taking them and the `with` that releases them; that of
    threading.Condition, which is written in Python, has one.
    """

    def __init__(self) -> None:
        self._mine = threading.local()
        self._all: set[weakref.ref] = set()

    def lock(self) -> Any:
        lock = getattr(self._mine, "lock", None)
        if lock is None:
            lock = threading.RLock()
            self._all.add(weakref.ref(lock, self._all.discard))
            self._mine.lock = lock
        return lock

    def inside(self) -> bool:
        """Whether this thread is, as a signal handler may find."""
        return self.lock()._is_owned()

    def wait(self) -> None:
        """Return once all threads have left those that they are in now."""
        for reference in list(self._all):
            lock = reference()
            if lock is not None:
                with lock:
                    pass


os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)

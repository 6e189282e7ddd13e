# SPDX-License-Identifier: Apache-2.0
"""Notification of objects in forked children and at the interpreter's exit.

A child of os.fork() has only the thread that forked: the library's threads do not exist there, and
a lock that another thread held is never released. The child therefore forgets handles that threads
of the parent work on, without releasing them. A store is opened or attached again when the child
first uses it, a sampler is created again, and a loader raises ForkError.

At exit, objects end while CUDA and the library's threads still run: loaders before their stores.
Calls in progress on other threads are waited for, later calls raise ClosedError, and memory that
arrays refer to stays valid.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from contextlib import suppress
from typing import Any, Protocol


class Forked(Protocol):
    """An object with `_forked()`, which is called in a child before any other code runs there.

    If it also has `_exit()`, this is called when the interpreter ends, in reverse order of
    creation. `_exit()` waits for calls in progress and makes later calls, as of daemon threads,
    raise ClosedError.
    """

    def _forked(self) -> None: ...


# Keys in order of creation. A dict, because its pop() can be the callback of the weak
# references.
_watched: dict[weakref.ref[Forked], None] = {}


def watch(thing: Forked) -> None:
    """Call `thing._forked()` in every child that is forked while `thing` exists."""
    _watched[weakref.ref(thing, _watched.pop)] = None


def _in_child() -> None:
    # Strong references: otherwise one _forked() could drop the last reference to an object that has
    # not been notified, which would then release a handle of the parent.
    things = [reference() for reference in list(_watched)]
    for thing in things:
        if thing is not None:
            thing._forked()


def _at_exit() -> None:
    for reference in reversed(list(_watched)):
        ends = getattr(reference(), "_exit", None)
        if ends is not None:
            with suppress(Exception):   # a failure must not keep the others from ending
                ends()


class Calls:
    """The calls in progress on an object. Each holds its thread's lock: `with calls.lock(): ...`.

    `wait()` acquires every thread's lock once. RLock is written in C, so that no signal can raise
    between acquiring it and the `with` that releases it. threading.Condition is written in Python
    and has that gap.
    """

    def __init__(self) -> None:
        self._mine = threading.local()
        self._all: set[weakref.ref[Any]] = set()   # a lock is freed when its thread ends

    def lock(self) -> Any:
        """Return the calling thread's lock, created at its first call."""
        lock = getattr(self._mine, "lock", None)
        if lock is None:
            lock = threading.RLock()
            self._all.add(weakref.ref(lock, self._all.discard))
            self._mine.lock = lock
        return lock

    def inside(self) -> bool:
        """Return whether this thread is inside a call, which its signal handler may interrupt."""
        return bool(self.lock()._is_owned())

    def wait(self) -> None:
        """Return when all calls that are in progress now have ended."""
        for reference in list(self._all):
            lock = reference()
            if lock is not None:
                with lock:
                    pass


os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)

# SPDX-License-Identifier: Apache-2.0
"""Owners of library handles and folders that no exception from a signal handler can leak.

A Python signal handler, such as that of Ctrl-C, may raise after every call and at the start of
every function. This includes the point between the return of a C function and the line that stores
its result, and any `__del__` written in Python. Two rules close these gaps:

- An owner exists before the library fills in its handle.
- No bytecode runs while a handle is released: C functions call C functions. `partial(list,
  map(partial.__call__, steps))` runs steps that way, and an iterator yields each step only once.

An owner created with `of=(other,)` is released before the other: rows before the store, a batch
before the loader, the loader before the store and its graph. If a store is closed while arrays
still use its memory, the store is released after the last of them. python/tests/test_signals.py
raises at each of these points.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from ctypes import c_void_p
from functools import partial
from itertools import compress
from operator import attrgetter, not_
from typing import Any

from .forks import watch

Step = Callable[[], Any]


def _run(steps: Iterable[Step]) -> Step:
    """Return a function of C alone that runs the steps in order."""
    call: Any = partial.__call__
    return partial(list, map(call, iter(steps)))


def _once(steps: Iterable[Step]) -> Step:
    """Return a step that runs all steps at its first call, and nothing at any other call."""
    return _run((_run(steps),))


class Owned:
    """A library handle, released once: by `release()`, or when nothing refers to this object.

    It is empty at first: pass `byref(owned.pointer)` to the function that fills it in. Pass the
    object itself to functions that use the handle: ctypes then keeps it alive during the call.

    A handle is released after all handles created `of` it, in whatever order they are dropped:
    `users` has a token for each of them, and one for the object itself. Threads: `release()` from
    any thread.

    Args:
        function: releases the handle; it must accept NULL, for a handle that was never filled in
        before, after: further arguments of `function`, before and after the handle
        of: handles that must outlive this one
        keeps: objects whose memory the library uses until the handle is released
        pointer: an existing handle
    """

    release: Callable[[], list[Any]] = staticmethod(list)   # for an __init__() that was interrupted

    def __init__(self, function: Callable[..., Any], *before: Any, after: Sequence[Any] = (),
                 of: Sequence[Owned] = (), keeps: Any = None,
                 pointer: Any = None) -> None:
        self._of = of
        self.keeps: Any = keeps
        self.pointer: Any = c_void_p() if pointer is None else pointer
        self._as_parameter_ = self.pointer
        self._steps: list[Step] = [partial(function, *before, self.pointer, *after)]
        self._finish = _once(self._steps)
        token = object()
        self.users: set[object] = {token}
        for parent in of:
            self._steps += [partial(parent.users.discard, token), parent._attempt()]
        self.release = _once((partial(self.users.discard, token), self._attempt()))
        # Last: only `release` discards the tokens, so it must exist before they are added.
        for parent in of:
            parent.users.add(token)

    # A property, because a method would be bytecode: looking up __del__ returns `release`.
    __del__: Any = property(attrgetter("release"))

    def _attempt(self) -> Step:
        """Return a step that releases the handle if `users` is empty."""
        return _run(compress((self._finish,), map(not_, (self.users,))))

    def forget(self) -> None:
        """Never release the handle."""
        self._steps.clear()


class Running(Owned):
    """A handle that the library's threads use. A forked child, which has none, forgets it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        watch(self)

    _forked = Owned.forget


def statuses(released: list[Any]) -> Iterator[int]:
    """Yield the statuses of the library's functions from the nested lists of `release()`."""
    for found in released:
        if isinstance(found, list):
            yield from statuses(found)
        elif isinstance(found, int):
            yield found


def remove_folder(path: str, descriptor: int | None = None) -> None:
    """Remove a folder that contains only files. Errors are ignored.

    shutil.rmtree() opens descriptors, which an exception from a signal handler can leak. This
    function opens none.

    Args:
        path: of the folder
        descriptor: of the folder, in case its path refers to something else by now
    """
    with suppress(OSError):
        for name in os.listdir(path if descriptor is None else descriptor):
            with suppress(OSError):
                os.unlink(os.path.join(path, name) if descriptor is None else name,
                          dir_fd=descriptor)
        os.rmdir(path)


def _remove(path: str, pid: int) -> None:
    if os.getpid() != pid:   # the exit of a forked child must not remove its parent's folder
        return
    try:
        remove_folder(path)
    except BaseException:   # from a signal handler: the folder may be half removed
        remove_folder(path)
        raise


class Folder:
    """A folder of this process, removed by `remove()`, when unreferenced, or at exit."""

    def __init__(self, path: str) -> None:
        self.path: str = path
        self._remove = partial(_remove, path, os.getpid())
        self._finalizer = weakref.finalize(self, self._remove)

    @classmethod
    def create(cls, prefix: str, parent: str | None = None) -> Folder:
        """Create a folder that only this user can access.

        Args:
            prefix: of its name
            parent: folder to create it in; None: the temporary folder
        """
        name = prefix + secrets.token_hex(8)
        # The owner comes before mkdir(), so that an exception in between cannot leak the folder.
        folder = cls(os.path.join(tempfile.gettempdir() if parent is None else parent, name))
        os.mkdir(folder.path, 0o700)
        return folder

    def remove(self) -> None:
        """Remove the folder now."""
        self._remove()
        self._finalizer.detach()

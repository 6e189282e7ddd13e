# SPDX-License-Identifier: Apache-2.0
"""Handles of the library, and folders, that no exception raised by a signal can lose.

A signal handler in Python may raise after every call and at the start of every function: between
the return of a C function and the line that would record its result, and inside any `__del__`
written in Python. Two rules leave no such gap:

- An owner exists before the library fills in its handle.
- No bytecode runs while a handle is released: functions of C call functions of C. `partial(list,
  map(partial.__call__, steps))` runs steps that way, and an iterator gives each of them once.

An owner created `of` another is released before it: rows before the store, a batch before the
loader, the loader before the store and its graph. A store that is closed while such memory is out
is released after the last of it. python/tests/test_signals.py raises at each of the points above.
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
from typing import Any, Optional

from .forks import watch

Step = Callable[[], Any]


def _run(steps: Iterable[Step]) -> Step:
    return partial(list, map(partial.__call__, iter(steps)))


def _once(steps: Iterable[Step]) -> Step:
    """Runs all steps at the first call; concurrent and later calls do nothing."""
    return _run((_run(steps),))


class Owned:
    """A handle of the library, released once: by `release()`, or when nothing refers to this.

    It begins empty: pass `byref(owned.pointer)` to the call that fills it in. A call that uses the
    handle takes the object itself, which keeps it alive for as long as the call lasts.

    A handle is released after those created `of` it, whatever the order in which they go: `users`
    has a token for each of these, and one for this. Threads: `release()` from any.

    Args:
        function: releases the handle, which the library takes as NULL, too
        before, after: its other arguments
        of: handles that must outlive this one
        keeps: memory that the library uses until the handle is released
        pointer: of a handle that is there already
    """

    release: Callable[[], list] = staticmethod(list)   # until there is something to release

    def __init__(self, function: Callable, *before: Any, after: Sequence[Any] = (),
                 of: Sequence[Owned] = (), keeps: Any = None,
                 pointer: Optional[c_void_p] = None):
        self._of, self.keeps = of, keeps
        self.pointer = self._as_parameter_ = c_void_p() if pointer is None else pointer
        self._steps: list[Step] = [partial(function, *before, self.pointer, *after)]
        self._finish = _once(self._steps)
        token = object()
        self.users: set[object] = {token}
        for parent in of:
            self._steps += [partial(parent.users.discard, token), parent._attempt()]
        self.release = _once((partial(self.users.discard, token), self._attempt()))
        for parent in of:   # after `release` is there, which discards it
            parent.users.add(token)

    __del__ = property(attrgetter("release"))   # a method would be bytecode

    def _attempt(self) -> Step:
        """Release the handle if it has no users left."""
        return _run(compress((self._finish,), map(not_, (self.users,))))

    def forget(self) -> None:
        """Never release it."""
        self._steps.clear()


class Running(Owned):
    """A handle that threads of the library work on. A child, which has none, forgets it."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        watch(self)

    _forked = Owned.forget


def statuses(released: list) -> Iterator[int]:
    """What the library's functions returned, out of the lists that `release()` gives."""
    for found in released:
        if isinstance(found, list):
            yield from statuses(found)
        elif isinstance(found, int):
            yield found


def remove_folder(path: str, descriptor: Optional[int] = None) -> None:
    """Remove a folder that holds files only.

    shutil.rmtree() opens descriptors, which an exception of a signal can lose. This opens none.

    Args:
        descriptor: of the folder, where the path alone might lead elsewhere by now
    """
    with suppress(OSError):
        for name in os.listdir(path if descriptor is None else descriptor):
            with suppress(OSError):
                os.unlink(os.path.join(path, name) if descriptor is None else name,
                          dir_fd=descriptor)
        os.rmdir(path)


def _remove(path: str, pid: int) -> None:
    if os.getpid() != pid:   # a child's exit must not remove what its parent has
        return
    try:
        remove_folder(path)
    except BaseException:   # of a signal, midway
        remove_folder(path)
        raise


class Folder:
    """A folder of this process, removed by `remove()`, when nothing refers to this, or at exit."""

    def __init__(self, path: str):
        self.path = path
        self._remove = partial(_remove, path, os.getpid())
        self._finalizer = weakref.finalize(self, self._remove)

    @classmethod
    def create(cls, prefix: str, parent: Optional[str] = None) -> Folder:
        """A new one, the user's alone."""
        name = prefix + secrets.token_hex(8)
        folder = cls(os.path.join(tempfile.gettempdir() if parent is None else parent, name))
        os.mkdir(folder.path, 0o700)
        return folder

    def remove(self) -> None:
        self._remove()
        self._finalizer.detach()

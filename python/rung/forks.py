# SPDX-License-Identifier: Apache-2.0
"""What has to be told in a child of os.fork(), where other threads' locks are never let go."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """Is told in the child before anything else runs there."""

    def _forked(self) -> None: ...


_watched: weakref.WeakSet[Forked] = weakref.WeakSet()


def watch(thing: Forked) -> None:
    """Call `thing._forked()` in every child forked from now on, for as long as it lives."""
    _watched.add(thing)


def _in_child() -> None:
    for thing in list(_watched):
        thing._forked()


os.register_at_fork(after_in_child=_in_child)

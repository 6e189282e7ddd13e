# SPDX-License-Identifier: Apache-2.0
"""The position of a loader: epoch and next batch, saved and loaded with the options that decide the
contents of batches."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dataset import digest
from ..errors import InvalidError
from ..owned import Running
from ..sizes import whole_number
from .division import Division, shuffling
from .ranks import agree

if TYPE_CHECKING:
    import numpy.typing as npt

_VERSION = 1   # of the law in division.py and of the states
_BATCH = "batch_size * world_size"
_ORDER = "shuffling by numpy"
_FAILED = -1   # the next batch could not be delivered


def _check_options(given: Any, own: Mapping[str, Any], world: int) -> None:
    """Raise InvalidError if a state's options are not those of a loader on `world` ranks."""
    if not isinstance(given, Mapping) or set(given) != set(own):
        raise InvalidError("state: not from Loader.state_dict() of this version of rung; begin "
                           "with another state, or without one")
    for name, value in own.items():
        found = given[name]
        if found == value:
            continue
        cure = "create the loader with the state's value, or begin without a state"
        if name == _ORDER:
            cure = "install the numpy that saved it, or begin without a state"
        if name == _BATCH:
            cure = (f"use batch_size={found // world}" if found % world == 0
                    else f"use a number of ranks that divides {found}")
        raise InvalidError(f"state: {name} is {found}, of this loader {value}; {cure}")


class Resumable:
    """The position of a loader in its epochs.

    Attributes:
        epoch: number of the next epoch
        batch_size: seeds per batch of each rank
    """

    _seeds: npt.NDArray[np.int64]
    _contents: Mapping[str, str]   # of the data set
    _fanouts: tuple[int, ...]
    _draws: str

    def __init__(self, division: Division) -> None:
        self.epoch: int = 0
        self._division = division
        self._first = 0   # batch with which the next epoch begins
        self._epoch: Running | None = None   # the current epoch of the library's loader
        # number of the current epoch and its next batch; kept if an exception ended the epoch
        self._at: tuple[int, int] | None = None
        self._left: int | None = None   # how the epoch ended early: see _end()
        self._agreed = 1   # number of ranks that were compared
        self._digests: dict[str, str] = {}   # of data set and seeds

    def __len__(self) -> int:
        """Return the number of batches of an epoch on this rank."""
        return self._division.batches(len(self._seeds), self._division.ranks()[1])

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, from 0. Each `for` increments it.

        The number determines the order and the draws. The number that `load_state_dict()` has set
        keeps the position in that epoch, other numbers begin with the first batch.
        """
        epoch = whole_number(epoch, "epoch")
        self._first = self._first if epoch == self.epoch else 0
        self.epoch = epoch
        if self._left is not None:
            self._at = None

    def state_dict(self) -> dict[str, Any]:
        """Return the position for `load_state_dict()`, as numbers, text and lists.

        In a loop over the loader, it is the batch after the one that the loop has, and still in the
        `except` or `finally` block of an exception that ended the loop. If the loader could not
        deliver a batch (ReadError, an interrupt in next()), it is that batch until the next `for`.
        After `break` it is the beginning of the next epoch, which the next `for` would begin. All
        ranks have the same state between the same steps of training: save that of one.
        """
        world = self._division.ranks()[1]
        # break and an exception close the iterator alike, but only the latter is being handled
        broken = self._left not in (None, _FAILED) and self._left == id(sys.exc_info()[1])
        at = None if broken else self._at
        epoch, batch = at or (self.epoch, self._first)
        if at and batch >= self._division.batches(len(self._seeds), world):
            epoch, batch = epoch + 1, 0
        return {"epoch": epoch, "batch": batch, "options": self._options(world)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a position from `state_dict()`: the next `for` has the rest of its epoch.

        These are the global batches that would have followed, also with another number of ranks if
        `batch_size * world_size` is the same. A current epoch of the loader ends. Call this after
        `init_process_group()`, and begin a loop over epochs with `loader.epoch`.

        Raises:
            InvalidError: the state is of another data set, of other seeds, or of a loader with
                other options; the message has both values.
        """
        world = self._division.ranks()[1]
        _check_options(state.get("options") if isinstance(state, Mapping) else None,
                       self._options(world), world)
        epoch, batch = (whole_number(state.get(name), f"state: {name}")
                        for name in ("epoch", "batch"))
        count = self._division.global_batches(len(self._seeds), world)
        if batch > count:
            raise InvalidError(f"state: batch={batch}: out of range; an epoch has {count} batches")
        if self._epoch is not None:
            self._epoch.release()
        self._epoch = self._at = self._left = None
        self.epoch, self._first = epoch, batch

    def _begin(self, first: int) -> tuple[int, int]:
        """Note that the next epoch begins with a batch, and return its number and the batch."""
        self._at = at = self.epoch, first
        self._left = None
        self.epoch, self._first = self.epoch + 1, 0
        return at

    def _end(self, left: int | None) -> None:
        """Note that the epoch has ended.

        Args:
            left: None: after its last batch. _FAILED: by an exception of the loader. Otherwise by
                the loop: id() of the exception that the program was handling, or of None
        """
        self._left = left
        if left is None:
            self._at = None

    def _agree(self, world: int) -> None:
        """Compare what divides the seeds with the other ranks of the process group, once.

        Ranks that have divided the seeds themselves would train on a part of them without an error.
        """
        if not self._division.of_group or world == self._agreed:
            return
        facts = self._options(world)
        facts["seeds"] = f"{len(self._seeds)} ({facts['seeds'][:8]})"
        agree({name: str(facts[name]) for name in ("seeds", "seed", "shuffle", _ORDER, _BATCH,
                                                   "drop_last")})
        self._agreed = world

    def _options(self, world: int) -> dict[str, Any]:
        """Return the options that decide the contents of global batches."""
        division = self._division
        if not self._digests:
            contents = "\n".join(f"{name} {value}" for name, value in self._contents.items())
            self._digests = {"data set": digest(contents.encode()), "seeds": digest(self._seeds)}
        return {"version": _VERSION, **self._digests, _BATCH: division.batch_size * world,
                "fanouts": list(self._fanouts), "draws": self._draws, "shuffle": division.shuffle,
                _ORDER: shuffling() if division.shuffle else None,
                "drop_last": division.drop_last, "seed": division.seed}

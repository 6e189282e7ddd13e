# SPDX-License-Identifier: Apache-2.0
"""The law of an epoch: which seeds a batch has, and which draws, on each data-parallel rank.

A global batch has `batch_size * world_size` seeds of the epoch's order, and rank r of W gets seeds
r, r + W, r + 2 W ... of it as its batch with the same number. All ranks draw with the key of the
global batch. The seeds of a global batch therefore depend on `seed`, its number and its size alone,
and so do the neighbours that a vertex draws at a hop: as many ranks with smaller batches, on any
machines, train on the same global batches. Only a last, smaller global batch depends on W: each
rank gets the same number of seeds, and the remainder of up to W - 1 seeds is left out.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from ..dataset import digest
from ..errors import InvalidError
from ..sizes import SEED_MAX, whole_number

if TYPE_CHECKING:
    import numpy.typing as npt

_RANK_MAX = 2**31 - 1


def permutation(seed: int, epoch: int, count: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng([seed, epoch]).permutation(count)


def shuffling() -> str:
    """Return a digest of numpy's order: with another one, shares of ranks and epochs overlap."""
    return digest(permutation(1, 1, 100).astype("<i8"))


class Division:
    """The division of the seeds of an epoch into batches and among ranks.

    Attributes:
        seed, batch_size, shuffle, drop_last: as in `Loader`; batch_size is set later
        of_group: whether the number of ranks is that of torch.distributed, if it is initialised

    Args:
        rank, world_size: as in `Loader`
    """

    def __init__(self, seed: int, shuffle: bool, drop_last: bool, rank: int | None,
                 world_size: int | None) -> None:
        self.seed: int = whole_number(seed, "seed", SEED_MAX)
        self.batch_size: int = 0
        self.shuffle: bool = bool(shuffle)
        self.drop_last: bool = bool(drop_last)
        self._rank = None if rank is None else whole_number(rank, "rank", _RANK_MAX)
        self._world = (None if world_size is None
                       else whole_number(world_size, "world_size", _RANK_MAX))
        self.of_group: bool = self._world is None
        if self._rank is None and self._world not in (None, 1):
            raise InvalidError(f"world_size={world_size}: rank is missing; pass both, or neither")

    def ranks(self) -> tuple[int, int]:
        """Return the rank and the number of ranks: the given ones, else torch.distributed's.

        Read again for each epoch, because the process group may be created after the loader.
        """
        rank, world = self._rank, self._world
        torch = sys.modules.get("torch")
        if world is None and torch is not None:
            group = torch.distributed
            if group.is_available() and group.is_initialized():
                rank = group.get_rank() if rank is None else rank
                world = group.get_world_size()
        rank, world = rank or 0, 1 if world is None else world
        if not rank < world:
            raise InvalidError(f"rank={rank}, world_size={world}: rank is out of range; use 0 to "
                               "world_size - 1")
        return rank, world

    def _count(self, seeds: int, batch_size: int) -> int:
        return seeds // batch_size if self.drop_last else -(-seeds // batch_size)

    def batches(self, seeds: int, world: int) -> int:
        """Return the number of batches of an epoch on each rank."""
        return self._count(seeds // world, self.batch_size)

    def global_batches(self, seeds: int, world: int) -> int:
        """Return the number of global batches, also if the last one has fewer seeds than ranks."""
        return self._count(seeds, self.batch_size * world)

    def order(self, seeds: int, epoch: int, rank: int, world: int) -> npt.NDArray[np.int64]:
        """Return the positions of a rank's seeds in the epoch's order.

        All ranks compute the same permutation, so that their shares do not overlap.
        """
        order = permutation(self.seed, epoch, seeds) if self.shuffle else np.arange(seeds)
        return order[: seeds // world * world][rank::world]

    def key(self, seeds: int, epoch: int, world: int) -> int:
        """Return the key of the epoch's first batch. Epochs have different keys, ranks have not."""
        return epoch * max(self.global_batches(seeds, world), 1) % 2**64

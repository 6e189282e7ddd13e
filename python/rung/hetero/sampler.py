# SPDX-License-Identifier: Apache-2.0
"""Neighbour sampling of typed graphs without rows."""

from __future__ import annotations

import threading
from ctypes import byref
from typing import Any

from .._library import check, lib
from ..errors import InvalidError
from ..owned import Owned
from ..sampling.arguments import loader_seeds
from ..sizes import SEED_MAX, whole_number
from .batch import TypedBatch, take_sample
from .loader import Fanouts, TypedSampling, maps_of
from .store import TypedStore


class TypedSampler:
    """Samples batches of a typed store's graph. One batch at a time; others wait.

    Args:
        store: with the lists of the relations
        fanouts: of all relations, or by relation (default: as staged)
        draws, seed, threads: as in `rung.NeighborSampler`
    """

    def __init__(self, store: TypedStore, fanouts: Fanouts | None = None, *, draws: str = "new",
                 seed: int = 0, threads: int = 0) -> None:
        store._check_open()
        self.store = store
        self._sampling = TypedSampling(store, fanouts, draws, seed, threads)
        self._maps = maps_of(store)
        self._lock = threading.Lock()
        self._handle = Owned(lib.rung_sampler_destroy, of=self._sampling.handles(store),
                             keeps=self._sampling)
        check(lib.rung_sampler_create(None, byref(self._sampling.opts),
                                      byref(self._handle.pointer)))

    def sample(self, seeds: Any, key: int = 0, kind: str = "torch") -> TypedBatch:
        """Sample the batch of some seeds, original vertices of the type of the seeds.

        Args:
            key: determines every draw, together with the sampler's seed
            kind: "torch" or "numpy"

        Returns:
            A batch without features and edge rows.
        """
        if kind not in ("numpy", "torch"):
            raise InvalidError(f"kind={kind!r}: unknown value; use numpy or torch")
        self.store._check_open()
        with self.store.part(self.store.seed_type) as part:
            vertices, ranks = loader_seeds(part, seeds, ...)
        memory = Owned(lib.rung_batch_destroy)
        check(lib.rung_batch_create(byref(memory.pointer)))
        with self._lock:
            check(lib.rung_sampler_sample(self._handle, ranks.ctypes.data, len(ranks),
                                          whole_number(key, "key", SEED_MAX), memory))
        found = TypedBatch(0, self.store.seed_type, len(ranks), vertices, None, self._maps)
        take_sample(found, lib.rung_batch_typed(memory).contents, self.store._types, memory, kind,
                    self._sampling.with_rows)
        return found

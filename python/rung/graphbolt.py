# SPDX-License-Identifier: Apache-2.0
"""The protocol of GraphBolt's features (dgl.graphbolt.Feature), without importing dgl."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Optional

import torch

from .errors import AgainError, InvalidError, NotSupportedError
from .store import Store


class _Ready:
    """Rows that are there already, as the future that read_async() yields."""

    __slots__ = ("_rows",)

    def __init__(self, rows: torch.Tensor):
        self._rows = rows

    def wait(self) -> torch.Tensor:
        return self._rows


class Feature:
    """A feature of GraphBolt whose rows a `rung.Store` serves.

    Where dgl.graphbolt was imported before, it is a `dgl.graphbolt.Feature` by class, as wrappers
    of GraphBolt (`gb.GPUCachedFeature`) require; it has the methods of one in any case.

    Args:
        store: the rows
        metadata: what `metadata()` gives back
    """

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Feature:
        base = getattr(sys.modules.get("dgl.graphbolt"), "Feature", None)
        return super().__new__(_derived(base) if cls is Feature and base is not None else cls)

    def __init__(self, store: Store, metadata: Optional[Mapping[str, Any]] = None):
        self._store, self._metadata = store, dict(metadata or {})

    def read(self, ids: Optional[torch.Tensor] = None) -> torch.Tensor:
        """Rows [n, ...] of original vertices [n], on the device of the ids; without ids all rows,
        in memory."""
        if ids is None:
            ids = torch.arange(len(self._store))
        if ids.device.type == "cuda" and self._store.gpu < 0:
            return self._store.gather(ids.cpu()).to(ids.device)
        return self._store.gather(ids)

    def read_async(self, ids: torch.Tensor) -> Iterator[Any]:
        """A generator of one stage, which begins the reads and yields their future: `.wait()` gives
        the rows."""
        if self.read_async_num_stages(ids.device) == 0:
            raise InvalidError(f"ids are on {ids.device}, the store gathers on "
                               f"{self._store.device}: use read()")
        try:
            yield self._store.gather_async(ids)
        except (AgainError, InvalidError):   # all requests are in flight, or ids for several: split
            yield _Ready(self._store.gather(ids))

    def read_async_num_stages(self, ids_device: torch.device) -> int:
        """1 where `read_async()` can be used, else 0: the caller uses `read()`."""
        return int((torch.device(ids_device).type == "cuda") == (self._store.gpu >= 0))

    def size(self) -> torch.Size:
        """Shape of a row."""
        return torch.Size(self._store.shape[1:])

    def count(self) -> int:
        """Rows there are."""
        return len(self._store)

    def update(self, value: torch.Tensor, ids: Optional[torch.Tensor] = None) -> None:
        """Refused: rows of a staged data set are not changed."""
        raise NotSupportedError(f"{self._store.path}: rows of a staged data set cannot be changed; "
                                "stage them again with rung.stage()")

    def metadata(self) -> dict[str, Any]:
        return dict(self._metadata)

    def __reduce__(self):
        return _again, (type(self) is not Feature, self._store, self._metadata)

    def __repr__(self) -> str:
        return f"rung.Feature({self._store!r})"


@functools.cache
def _derived(base: type) -> type:
    """Feature as a class of GraphBolt's, whose defaults serve methods that are not here."""
    return type("Feature", (Feature, base), {"__module__": __name__})


def _again(derived: bool, store: Store, metadata: dict[str, Any]) -> Feature:
    """The same in the process that unpickles it."""
    if derived:
        importlib.import_module("dgl.graphbolt")
    return Feature(store, metadata)

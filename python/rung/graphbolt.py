# SPDX-License-Identifier: Apache-2.0
"""GraphBolt's feature protocol (dgl.graphbolt.Feature), implemented without importing dgl."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .errors import AgainError, InvalidError, NotSupportedError
from .store import Store


class _Ready:
    """A completed future for `Feature.read_async()`."""

    __slots__ = ("_rows",)

    def __init__(self, rows: torch.Tensor):
        self._rows = rows

    def wait(self) -> torch.Tensor:
        return self._rows


class Feature:
    """A GraphBolt feature whose rows come from a `rung.Store`.

    It has the methods of a `dgl.graphbolt.Feature`. If dgl.graphbolt was imported before, it is
    also an instance of that class, which GraphBolt's wrappers (`gb.GPUCachedFeature`) require.

    Args:
        store: the store; the caller closes it
        metadata: returned by `metadata()`
    """

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Feature:
        base = getattr(sys.modules.get("dgl.graphbolt"), "Feature", None)
        made: Any = _derived(base) if cls is Feature and base is not None else cls
        feature: Feature = super().__new__(made)
        return feature

    def __init__(self, store: Store, metadata: Mapping[str, Any] | None = None):
        if not isinstance(store, Store):
            raise InvalidError(f"store: has type {type(store).__name__}; use a rung.Store")
        self._store, self._metadata = store, dict(metadata or {})

    def read(self, ids: torch.Tensor | None = None) -> torch.Tensor:
        """Return rows [n, ...] on the device of the ids.

        Args:
            ids: original vertices [n]; None: all rows, which must fit in memory
        """
        if ids is None:
            ids = torch.arange(len(self._store))
        if ids.device.type == "cuda" and self._store.gpu < 0:
            return self._store.gather(ids.cpu()).to(ids.device)
        return self._store.gather(ids)

    def read_async(self, ids: torch.Tensor) -> Iterator[Any]:
        """Start the reads in a generator of one stage, which yields a future.

        The future's `wait()` returns the rows.

        Raises:
            InvalidError: the ids are not on the device on which the store gathers.
        """
        if self.read_async_num_stages(ids.device) == 0:
            raise InvalidError(f"ids are on {ids.device}, but the store gathers on "
                               f"{self._store.device}; use read()")
        try:
            yield self._store.gather_async(ids)
        # All requests are in flight, or one cannot hold that many ids: gather() waits and splits.
        except (AgainError, InvalidError):
            yield _Ready(self._store.gather(ids))

    def read_async_num_stages(self, ids_device: torch.device) -> int:
        """Return the number of stages of `read_async()`; 0 if the caller must use `read()`."""
        return int((torch.device(ids_device).type == "cuda") == (self._store.gpu >= 0))

    def size(self) -> torch.Size:
        """Return the shape of a row."""
        return torch.Size(self._store.shape[1:])

    def count(self) -> int:
        """Return the number of rows."""
        return len(self._store)

    def update(self, value: torch.Tensor, ids: torch.Tensor | None = None) -> None:
        """Raise NotSupportedError, because rows of a staged data set cannot be changed."""
        raise NotSupportedError(f"{self._store.path}: rows of a staged data set cannot be changed; "
                                "stage them again with rung.stage()")

    def metadata(self) -> dict[str, Any]:
        """Return a copy of the metadata."""
        return dict(self._metadata)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self) is not Feature, self._store, self._metadata)

    def __repr__(self) -> str:
        return f"rung.Feature({self._store!r})"


@functools.cache
def _derived(base: type) -> type:
    """Return Feature as a subclass of GraphBolt's, which has defaults for the other methods."""
    return type("Feature", (Feature, base), {"__module__": __name__})


def _again(derived: bool, store: Store, metadata: dict[str, Any]) -> Feature:
    """Create the feature in the process that unpickles it."""
    if derived:
        importlib.import_module("dgl.graphbolt")
    return Feature(store, metadata)

# SPDX-License-Identifier: Apache-2.0
"""The store of a typed data set: a store for each table of rows, and the lists of each relation,
within one budget."""

from __future__ import annotations

import os
from ctypes import byref
from types import SimpleNamespace
from typing import Any, NoReturn

from .._library import c, check, lib
from ..dataset import Dataset
from ..errors import ClosedError, ForkError, InvalidError, NotSupportedError
from ..forks import Calls, watch
from ..interrupts import long_call
from ..owned import Owned, Running, statuses
from ..sizes import plan_opts, store_opts
from ..stats import Stats, read_lists_stats
from ..store import Store
from .description import EdgeType, Relation, Types
from .tables import divide_tables

_REFUSED = ("gpu", "gpus", "share", "private_cache", "sample_on_gpu")


class TypedStore:
    """The tables of a typed data set, from `rung.open()`.

    `store["paper"]` is the `rung.Store` of the rows of a vertex type, and
    `store["author", "writes", "paper"]` that of the edge rows of a relation, whose ids are the
    numbers of the edges in the source. The neighbour lists of the relations are read by loaders. A
    context manager, which closes all of them. Threads: any number at the same time.

    One host budget holds the rows and lists that batches access most per byte, whatever their
    width (`rung.plan_tables()`).

    A forked child may gather from the stores of the types, as from any `rung.Store`, but must open
    another typed store for a loader. A pickled typed store is opened again.

    Attributes:
        path: folder of the data set
        types: names of the vertex types
        relations: (source type, name, target type) of each relation
        seed_type: name of the type of the seeds
    """

    gpu: int = -1
    device: str = "cpu"

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments
        self.path: str = arguments["path"]
        self._check_arguments()
        with Dataset(self.path) as dataset:
            assert dataset.types is not None
            self._types: Types = dataset.types
        self.types: tuple[str, ...] = tuple(kind.name for kind in self._types.vertex)
        self.relations: tuple[EdgeType, ...] = tuple(found.edge_type
                                                     for found in self._types.relations)
        self.seed_type: str = self.types[self._types.seed_type]
        self._stores: dict[str, Store] = {}   # by folder
        self._lists: dict[str, Owned] = {}
        self._closed = False
        self._calls = Calls()   # that read lists; close() waits for them
        self._close_later = False   # a signal handler called close() inside one of them
        self._pid = os.getpid()
        watch(self)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _check_arguments(self) -> None:
        for name in _REFUSED:
            if self._arguments.get(name):
                raise NotSupportedError(f"{name}: not supported for a typed data set, whose rows "
                                        "are gathered on the CPU of one process; leave it out")
        if self._arguments["device"] not in (None, "cpu", "auto"):
            raise NotSupportedError(f"device={self._arguments['device']!r}: a typed data set is "
                                    "gathered on the CPU; leave it out")
        if self._arguments["structure"] not in (None, "auto"):
            raise InvalidError(f"structure={self._arguments['structure']!r}: host is divided "
                               "between rows and lists of all types; leave structure out")

    def _open(self) -> None:
        given = SimpleNamespace(**{**self._arguments, "gpu": None, "gpus": (), "device": "cpu"})
        for name, lists, table in divide_tables(self.path, given):
            path = os.path.join(self.path, name)
            if lists:
                self._lists[name] = self._open_lists(path, given, table)
            else:
                self._stores[name] = Store({**self._arguments, "path": path, "device": "cpu",
                                            "structure": None, "host": table.host_bytes})

    def _open_lists(self, path: str, given: SimpleNamespace, table: Any) -> Owned:
        """Open the lists of a relation, the first of them in memory."""
        planned = plan_opts(SimpleNamespace(**{**vars(given), "host": None, "cache": None}), 0)
        planned.host_bytes, planned.structure_bytes = table.host_bytes, table.structure_bytes
        planned.vertex_ids = False
        opts = store_opts(given)
        memory = Running(lib.rung_structure_close)
        with Dataset(path) as part:
            plan = Owned(lib.rung_plan_destroy)
            try:
                check(lib.rung_plan_create(part._open(), byref(planned), byref(plan.pointer)))
                long_call(lib.rung_structure_open, part._open(), plan, byref(opts),
                          byref(memory.pointer))
            finally:
                plan.release()
        return memory

    # ---- use ----

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.path}: the store was closed")
        if os.getpid() != self._pid:
            raise ForkError(f"{self.path}: the lists of a typed store do not exist in a forked "
                            "child; open the data set there")

    def _forked(self) -> None:
        self._calls = Calls()
        for memory in self._lists.values():
            memory.forget()

    def _memory_of(self, folder: str) -> Owned:
        """Return the library's handle of a store or of lists."""
        return self._lists[folder] if folder in self._lists else self._stores[folder]._opened()

    def relation(self, edge_type: EdgeType) -> Relation:
        """Return the description of a relation. Raises KeyError if there is none."""
        for found in self._types.relations:
            if found.edge_type == edge_type:
                return found
        raise KeyError(f"{edge_type!r}: no such relation; use one of "
                       f"{', '.join(map(str, self.relations))}")

    def __getitem__(self, key: str | EdgeType) -> Store:
        """Return the store of a vertex type, or that of the edge rows of a relation.

        Raises:
            KeyError: no such type or relation, or it has no rows.
        """
        if isinstance(key, str):
            index = self._types.index(key)
            if index is None:
                raise KeyError(f"{key!r}: no such type; use one of {', '.join(self.types)}")
            folder = self._types.vertex[index].folder
        else:
            folder = self.relation(key).rows_folder
        if folder not in self._stores:
            raise KeyError(f"{key!r}: has no rows")
        return self._stores[folder]

    def __contains__(self, key: object) -> bool:
        try:
            self[key]   # type: ignore[index]
        except KeyError:
            return False
        return True

    __iter__ = None   # the rows are those of the tables

    def part(self, key: str) -> Dataset:
        """Open the data set of a vertex type, with its labels, splits, arrays and maps."""
        index = self._types.index(key)
        if index is None:
            raise KeyError(f"{key!r}: no such type; use one of {', '.join(self.types)}")
        return Dataset(os.path.join(self.path, self._types.vertex[index].folder))

    def stats(self) -> dict[str, Stats]:
        """Return the counters of each table of rows and of each list, by the name of its folder.

        Those of lists count blocks, as `Store.structure_stats()` does.
        """
        try:
            with self._calls.lock():
                self._check_open()
                found = {name: store.stats() for name, store in self._stores.items()}
                found.update({name: read_lists_stats(memory)
                              for name, memory in self._lists.items()})
                return found
        finally:
            if self._close_later:
                self.close()

    # ---- life ----

    def close(self) -> None:
        """Close all stores and lists. Loaders that were created from them must be gone."""
        if self._calls.inside():
            self._close_later = True
            return
        self._closed = True
        self._calls.wait()
        for store in self._stores.values():
            store.close()
        for memory in self._lists.values():
            for status in statuses(memory.release()):
                check(status)

    def __enter__(self) -> TypedStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return TypedStore, (self._arguments,)

    def __repr__(self) -> str:
        rows = ", ".join(f"{name}: {store.shape[0]} rows" for name, store in self._stores.items())
        return f"rung.TypedStore({self.path!r}): {rows}, {len(self._lists)} relations"

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise InvalidError("a typed store has several tables; use store[type]")


def relation_structs(store: TypedStore, fanouts: list[Any]) -> Any:
    """Return an array of the library's relations. The caller keeps it and `fanouts`.

    Args:
        fanouts: an array of uint32 for each relation
    """
    found = (c.rung_sampler_relation * len(fanouts))()
    for struct, relation, drawn in zip(found, store._types.relations, fanouts):
        struct.source_type, struct.target_type = relation.source, relation.target
        struct.structure = store._memory_of(relation.folder).pointer
        struct.fanouts = drawn
    return found

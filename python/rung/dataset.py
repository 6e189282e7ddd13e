# SPDX-License-Identifier: Apache-2.0
"""Staged data sets: what is in them, and their arrays by original vertex or by rank."""

from __future__ import annotations

import os
import threading
import weakref
from ctypes import byref
from typing import Any, Optional

import numpy as np

from ._library import DRAWS, UINT32_MAX, c, check, lib, string, text
from .arrays import Array
from .dtypes import BY_CODE, DType
from .errors import ClosedError, InvalidError, NotSupportedError, RangeError
from .forks import watch
from .owned import Owned


def _load_array(memory: Owned, name: str) -> np.ndarray:
    info, data = c.rung_array_info(), Owned(lib.rung_free)
    check(lib.rung_dataset_load_array(memory, string(name, "name"), byref(info),
                                      byref(data.pointer)))
    shape = tuple(info.dims[: info.dim_count])
    return Array(data.pointer.value or 0, shape, BY_CODE[info.dtype], data).numpy()


class LazyArray:
    """An array of a data set, loaded when first used, also after the data set was closed.

    Threads: any; two may load it twice.
    """

    __slots__ = ("_memory", "_name", "_array")

    def __init__(self, dataset: Dataset, name: str):
        self._memory, self._name = dataset._open(), name
        self._array: Optional[np.ndarray] = None

    def get(self) -> np.ndarray:
        if self._array is None:
            self._array = _load_array(self._memory, self._name)
        return self._array


class Graph:
    """The relabelled graph in memory, its vertices ranks: `indptr` int64 [vertices + 1], `indices`
    int32 or int64 [edges], numpy without a copy.

    Column v lists the in-neighbours of v.
    """

    def __init__(self, dataset: Owned):
        self.memory = Owned(lib.rung_graph_destroy)
        check(lib.rung_dataset_load_graph(dataset, byref(self.memory.pointer)))
        self.csc = csc = lib.rung_graph_csc(self.memory).contents
        self.vertex_count = csc.vertex_count
        self.edge_count = csc.edge_count
        self.indptr = Array(csc.indptr, (csc.vertex_count + 1,), BY_CODE[8], self.memory).numpy()
        self.indices = Array(csc.indices, (csc.edge_count,),
                             BY_CODE[6 if csc.index_bytes == 4 else 8], self.memory).numpy()

    def __reduce__(self):
        raise NotSupportedError("pickle: rung.Graph is memory of this process; "
                                "pickle its rung.Dataset, and call graph()")


# Of each data set, for as long as anything has it: it is by far the largest thing that loaders and
# samplers have in common. By its manifest's file.
_graphs: weakref.WeakValueDictionary[tuple[int, ...], Graph] = weakref.WeakValueDictionary()


class Dataset:
    """A staged data set, `Dataset(path)`. A context manager. Threads: any.

    Raises NotFoundError (no folder, or not staged to its end), FormatError, CorruptError,
    ReadError.

    Attributes: `path`, `vertex_count`, `edge_count`, `shape` (of the features, [vertices, ...]),
    `dtype`, `fanouts`, `batch_size` (as given at staging; -1: all neighbours), `draws` ("all" or
    "new"), `score` (method), `splits` (names), `arrays` (names of further ones), `has_labels`.
    """

    def __init__(self, path: str | os.PathLike):
        self.path: str = os.path.abspath(os.fsdecode(path))
        self._memory: Optional[Owned] = Owned(lib.rung_dataset_close)   # a call on it holds it, too
        check(lib.rung_dataset_open(string(self.path, "path"), byref(self._memory.pointer)))
        self._lock = threading.RLock()
        self._graph: Optional[Graph] = None
        found = os.stat(os.path.join(self.path, "manifest.json"))
        self._identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        watch(self)
        info = lib.rung_dataset_info(self._memory).contents
        self.vertex_count: int = info.vertex_count
        self.edge_count: int = info.edge_count
        self.shape: tuple[int, ...] = tuple(info.features.dims[: info.features.dim_count])
        self.dtype: DType = BY_CODE[info.features.dtype]
        self.row_bytes: int = info.features.row_bytes
        self.feature_bytes: int = info.feature_bytes
        self.fanouts: tuple[int, ...] = tuple(-1 if fanout == UINT32_MAX else fanout
                                              for fanout in info.fanouts[: info.fanout_count])
        self.batch_size: int = info.batch_size
        self.draws: str = DRAWS[info.draws]
        self.score: str = text(info.score_method)
        self.splits: tuple[str, ...] = tuple(text(info.split_names[i])
                                             for i in range(info.split_count))
        self.arrays: tuple[str, ...] = tuple(text(info.array_names[i])
                                             for i in range(info.array_count))
        self.has_labels = bool(info.has_labels)

    def _open(self) -> Owned:
        memory = self._memory
        if memory is None:
            raise ClosedError(f"{self.path}: the data set was closed")
        return memory

    def _forked(self) -> None:
        self._lock = threading.RLock()

    def array(self, name: str) -> np.ndarray:
        """An array of the data set in memory: "labels", "score", "features_NAME" [vertices, ...] in
        rank order, "vertex_of_rank", "rank_of_vertex", or "split_NAME" (ranks, in the given
        order). A numpy array without a copy, owned by the caller.

        Raises NotFoundError (no such array), RangeError (an id out of range), ReadError,
        NoMemoryError, ClosedError.
        """
        return _load_array(self._open(), name)

    def _check_ids(self, given: Any, name: str) -> np.ndarray:
        """`given` as int64 [n]: numpy would count negative ones from the end, without an error."""
        found = np.asarray(given)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise InvalidError(f"{name} {list(found.shape)} {found.dtype}: "
                               "give integers in one dimension")
        outside = np.flatnonzero((found < 0) | (found >= self.vertex_count))
        if len(outside):
            raise RangeError(f"{name}[{outside[0]}] = {found[outside[0]]}: {self.path} has "
                             f"vertices 0 to {self.vertex_count - 1}")
        return found.astype(np.int64)

    def split(self, name: str, ranks: bool = False) -> np.ndarray:
        """Vertices of a split, int64 [vertices of it], by original id or, with `ranks`, by rank; in
        the order it was given.

        Raises what `array()` raises.
        """
        found = self.array("split_" + name).astype(np.int64)
        return found if ranks else self.array("vertex_of_rank")[found].astype(np.int64)

    def labels(self) -> np.ndarray:
        """Labels [vertices, ...] by original vertex, in their dtype. NotFoundError when it was
        staged without."""
        return self.array("labels")[self.array("rank_of_vertex")]

    def graph(self) -> Graph:
        """The relabelled graph, checked; in memory once for all that use it. Takes 8 bytes a vertex
        and 4 or 8 an edge.

        Raises FormatError, RangeError (an entry that cannot be), ReadError, NoMemoryError,
        ClosedError.
        """
        with self._lock:
            memory = self._open()
            # two threads may load one each: a lock of all would be one more that a forked child
            # could find held
            if self._graph is None:
                self._graph = _graphs.get(self._identity)
            if self._graph is None:
                self._graph = _graphs[self._identity] = Graph(memory)
            return self._graph

    def close(self) -> None:
        """Close; arrays, the graph, and stores opened from it go on."""
        self._memory = self._graph = None

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __reduce__(self):
        return Dataset, (self.path,)

    def __repr__(self) -> str:
        return (f"rung.Dataset({self.path!r}): {self.vertex_count} vertices, {self.edge_count} "
                f"edges, features {list(self.shape)} {self.dtype.name}")

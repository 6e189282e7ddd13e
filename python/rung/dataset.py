# SPDX-License-Identifier: Apache-2.0
"""Staged data sets: what is in them, and their arrays by original vertex or by rank."""

from __future__ import annotations

import os
import threading
import weakref
from ctypes import byref, c_void_p
from typing import Optional

import numpy as np

from ._library import DRAWS, ArrayInfo, check, lib, string, text
from .arrays import Array
from .dtypes import BY_CODE, DType
from .errors import ClosedError
from .forks import watch


class _Freed:
    """Memory that the library gave us to free."""

    __slots__ = ("pointer",)

    def __init__(self, pointer):
        self.pointer = pointer

    def __del__(self):
        lib.rung_free(self.pointer)


class _GraphMemory:
    """The library's graph; what shows its arrays holds it."""

    __slots__ = ("handle",)

    def __init__(self, handle):
        self.handle = handle

    def __del__(self):
        lib.rung_graph_destroy(self.handle)


class _DatasetMemory:
    """The library's data set; whoever is inside a call on it holds it."""

    __slots__ = ("handle",)

    def __init__(self, path: str):
        self.handle = c_void_p()
        check(lib.rung_dataset_open(string(path, "path"), byref(self.handle)))

    def __del__(self):
        lib.rung_dataset_close(self.handle)


class Graph:
    """The relabelled graph in memory, its vertices ranks: `indptr` int64 [vertices + 1], `indices` int32 or int64 [edges], numpy without a copy.

    Column v lists the in-neighbours of v.
    """

    def __init__(self, handle):
        self.memory = _GraphMemory(handle)
        self.csc = csc = lib.rung_graph_csc(handle).contents
        self.vertex_count = csc.vertex_count
        self.edge_count = csc.edge_count
        self.indptr = Array(csc.indptr, (csc.vertex_count + 1,), BY_CODE[8], self.memory).numpy()
        self.indices = Array(csc.indices, (csc.edge_count,), BY_CODE[6 if csc.index_bytes == 4 else 8], self.memory).numpy()


# Of each data set, for as long as anything has it: it is by far the largest thing that loaders and samplers have in common. By its manifest's file.
_graphs: weakref.WeakValueDictionary[tuple[int, ...], Graph] = weakref.WeakValueDictionary()


class Dataset:
    """A staged data set, `Dataset(path)`. A context manager. Threads: any.

    Raises NotFoundError (no folder, or not staged to its end), FormatError, CorruptError, ReadError.

    Attributes: `path`, `vertex_count`, `edge_count`, `shape` (of the features, [vertices, ...]), `dtype`, `fanouts`, `batch_size` (as
    given at staging), `draws` ("all" or "new"), `score` (method), `splits` (names), `arrays` (names of further ones), `has_labels`.
    """

    def __init__(self, path: str | os.PathLike):
        self.path: str = os.path.abspath(os.fsdecode(path))
        self._memory: Optional[_DatasetMemory] = _DatasetMemory(self.path)
        self._lock = threading.Lock()
        self._graph: Optional[Graph] = None
        found = os.stat(os.path.join(self.path, "manifest.json"))
        self._identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        watch(self)
        info = lib.rung_dataset_info(self._memory.handle).contents
        self.vertex_count: int = info.vertex_count
        self.edge_count: int = info.edge_count
        self.shape: tuple[int, ...] = tuple(info.features.dims[: info.features.dim_count])
        self.dtype: DType = BY_CODE[info.features.dtype]
        self.row_bytes: int = info.features.row_bytes
        self.feature_bytes: int = info.feature_bytes
        self.fanouts: tuple[int, ...] = tuple(info.fanouts[: info.fanout_count])
        self.batch_size: int = info.batch_size
        self.draws: str = DRAWS[info.draws]
        self.score: str = text(info.score_method)
        self.splits: tuple[str, ...] = tuple(text(info.split_names[i]) for i in range(info.split_count))
        self.arrays: tuple[str, ...] = tuple(text(info.array_names[i]) for i in range(info.array_count))
        self.has_labels = bool(info.has_labels)

    def _open(self) -> _DatasetMemory:
        memory = self._memory
        if memory is None:
            raise ClosedError(f"{self.path}: the data set was closed")
        return memory

    def _forked(self) -> None:
        self._lock = threading.Lock()

    def array(self, name: str) -> np.ndarray:
        """An array of the data set in memory: "labels", "score", "features_NAME" [vertices, ...] in rank order, "vertex_of_rank",
        "rank_of_vertex", or "split_NAME" (ranks, in the order it was given). numpy, without a copy; yours.

        Raises NotFoundError (no such array), RangeError (an id that is no vertex), ReadError, NoMemoryError, ClosedError.
        """
        info, data, memory = ArrayInfo(), c_void_p(), self._open()
        check(lib.rung_dataset_load_array(memory.handle, string(name, "name"), byref(info), byref(data)))
        return Array(data.value or 0, tuple(info.dims[: info.dim_count]), BY_CODE[info.dtype], _Freed(data)).numpy()

    def split(self, name: str, ranks: bool = False) -> np.ndarray:
        """Vertices of a split, int64 [vertices of it], by original id or, with `ranks`, by rank; in the order it was given.

        Raises what `array()` raises.
        """
        found = self.array("split_" + name).astype(np.int64)
        return found if ranks else self.array("vertex_of_rank")[found].astype(np.int64)

    def labels(self) -> np.ndarray:
        """Labels [vertices, ...] by original vertex, in their dtype. NotFoundError when it was staged without."""
        return self.array("labels")[self.array("rank_of_vertex")]

    def graph(self) -> Graph:
        """The relabelled graph, checked; in memory once for all that use it. Takes 8 bytes a vertex and 4 or 8 an edge.

        Raises FormatError, RangeError (an entry that cannot be), ReadError, NoMemoryError, ClosedError.
        """
        with self._lock:
            memory = self._open()
            if self._graph is None:   # two threads may load one each: a lock of all would be one more that a forked child could find held
                self._graph = _graphs.get(self._identity)
            if self._graph is None:
                handle = c_void_p()
                check(lib.rung_dataset_load_graph(memory.handle, byref(handle)))
                self._graph = _graphs[self._identity] = Graph(handle)
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
        return f"rung.Dataset({self.path!r}): {self.vertex_count} vertices, {self.edge_count} edges, features {list(self.shape)} {self.dtype.name}"

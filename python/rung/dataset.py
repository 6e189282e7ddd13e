# SPDX-License-Identifier: Apache-2.0
"""Staged data sets: their description, graph, and arrays by original vertex or by rank."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import weakref
from ctypes import byref
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ._library import DRAWS, UINT32_MAX, c, check, lib, string, text
from .arrays import Array
from .dtypes import BY_CODE, BY_NAME, DType
from .errors import ClosedError, InvalidError, NotFoundError, NotSupportedError, RangeError
from .forks import watch
from .hetero.description import Types, types_of
from .interrupts import long_call
from .owned import Owned
from .rows import Quantization, quantization_of
from .stats import bytes_text


def _load_array(memory: Owned, name: str) -> npt.NDArray[Any]:
    """Load an array of an open data set into memory that the numpy array owns."""
    info, data = c.rung_array_info(), Owned(lib.rung_free)
    long_call(lib.rung_dataset_load_array, memory, string(name, "name"), byref(info),
              byref(data.pointer))
    shape = tuple(info.dims[: info.dim_count])
    return Array(data.pointer.value or 0, shape, BY_CODE[info.dtype], data).numpy()


def digest(data: Any) -> str:
    """Return 16 hexadecimal digits that depend on the bytes of a contiguous buffer."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


class LazyArray:
    """An array of a data set, loaded at first use, even if the data set has been closed by then.

    Threads: any. Two that use it first at the same time both load it, and one copy is kept.
    """

    __slots__ = ("_memory", "_name", "_array")

    def __init__(self, dataset: Dataset, name: str) -> None:
        self._memory, self._name = dataset._open(), name
        self._array: npt.NDArray[Any] | None = None

    def get(self) -> npt.NDArray[Any]:
        if self._array is None:
            self._array = _load_array(self._memory, self._name)
        return self._array


class Graph:
    """The relabelled graph in memory. Its vertices are ranks; column v lists v's in-neighbours.

    Attributes:
        vertex_count, edge_count: ints
        indptr: int64 [vertex_count + 1], numpy without a copy
        indices: int32 or int64 [edge_count], numpy without a copy
    """

    def __init__(self, dataset: Owned) -> None:
        self.memory: Owned = Owned(lib.rung_graph_destroy)
        long_call(lib.rung_dataset_load_graph, dataset, byref(self.memory.pointer))
        csc = lib.rung_graph_csc(self.memory).contents
        self.csc: Any = csc
        self.vertex_count: int = csc.vertex_count
        self.edge_count: int = csc.edge_count
        self.indptr: npt.NDArray[Any] = Array(csc.indptr, (csc.vertex_count + 1,), BY_CODE[8],
                                              self.memory).numpy()
        self.indices: npt.NDArray[Any] = Array(csc.indices, (csc.edge_count,),
                                               BY_CODE[6 if csc.index_bytes == 4 else 8],
                                               self.memory).numpy()

    def __repr__(self) -> str:
        return (f"rung.Graph: {self.vertex_count} vertices, {self.edge_count} edges, indices "
                f"{self.indices.dtype}, {bytes_text(self.indptr.nbytes + self.indices.nbytes)}")

    def __reduce__(self) -> NoReturn:
        raise NotSupportedError("pickle: a rung.Graph refers to memory of this process; "
                                "pickle its rung.Dataset, and call graph()")


# One graph per data set while anything refers to it, because it is by far the largest object that
# loaders and samplers share. The key identifies the manifest's file, so that a data set that was
# staged again under the same path gets a new graph.
_graphs: weakref.WeakValueDictionary[tuple[int, ...], Graph] = weakref.WeakValueDictionary()


class Dataset:
    """A staged data set. A context manager. Threads: any.

    Args:
        path: folder written by `rung.stage()` or `rung stage`

    Attributes:
        path: absolute path
        vertex_count, edge_count: ints
        shape, dtype: of the features: [vertices, ...] and a `rung.DType`
        row_bytes: size of a row as it was staged
        stored_row_bytes, feature_bytes: size of a row and of all rows in the files, less than that
            if they are quantized
        quantization: a `rung.Quantization`; None: rows are stored as they were given
        fanouts, batch_size, draws: sampling as given at staging; a fanout of -1: all neighbours;
            `draws` is "all" or "new"
        score: name of the method that ranked the rows
        splits, arrays: names of the splits and of the further arrays
        vertex_types, relations: names of the vertices and of the edges as in PyG's metadata, such
            as ("paper",) and (("paper", "cites", "paper"),); ("vertex",) and "edge" without a
            description
        has_labels: bool
        types: the types and relations of a typed data set (`rung.hetero.Types`), each with a folder
            below `path` that is a data set; such a data set has no rows itself. None: not typed
        seed_type: name of the type of the seeds

    Raises:
        NotFoundError: the folder does not exist, or staging has not finished.
        FormatError, CorruptError, ReadError: a file is malformed, damaged or unreadable.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: str = os.path.abspath(os.fsdecode(string(path, "path")))
        # Each call refers to this owner as well, so that close() on another thread cannot release
        # the handle during the call.
        self._memory: Owned | None = Owned(lib.rung_dataset_close)
        check(lib.rung_dataset_open(string(self.path, "path"), byref(self._memory.pointer)))
        self._lock = threading.RLock()
        self._graph: Graph | None = None
        found = os.stat(os.path.join(self.path, "manifest.json"))
        self._identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        watch(self)
        info = lib.rung_dataset_info(self._memory).contents
        self.vertex_count: int = info.vertex_count
        self.edge_count: int = info.edge_count
        self.types: Types | None = types_of(info)
        self.shape: tuple[int, ...] = tuple(info.features.dims[: info.features.dim_count])
        # without features, as for a typed data set: bytes, of which there are none
        self.dtype: DType = BY_CODE[info.features.dtype] if self.shape else BY_NAME["u8"]
        self.row_bytes: int = info.features.row_bytes
        self.stored_row_bytes: int = info.stored_row_bytes
        self.feature_bytes: int = info.feature_bytes
        self.quantization: Quantization | None = quantization_of(info.quantization)
        self.fanouts: tuple[int, ...] = tuple(-1 if fanout == UINT32_MAX else fanout
                                              for fanout in info.fanouts[: info.fanout_count])
        self.batch_size: int = info.batch_size
        self.draws: str = DRAWS[info.draws]
        self.score: str = text(info.score_method)
        self.splits: tuple[str, ...] = tuple(text(info.split_names[i])
                                             for i in range(info.split_count))
        self.arrays: tuple[str, ...] = tuple(text(info.array_names[i])
                                             for i in range(info.array_count))
        self.has_labels: bool = bool(info.has_labels)
        vertex_type = text(info.vertex_type)
        self.vertex_types: tuple[str, ...] = (vertex_type,)
        self.relations: tuple[tuple[str, str, str], ...] = (
            (vertex_type, text(info.relation), vertex_type),)
        if self.types is not None:
            self.vertex_types = tuple(kind.name for kind in self.types.vertex)
            self.relations = tuple(relation.edge_type for relation in self.types.relations)
            vertex_type = self.vertex_types[self.types.seed_type]
        self.seed_type: str = vertex_type

    def _need_edges(self) -> None:
        """Raise InvalidError if the data set has no edges."""
        if not self.edge_count:
            raise InvalidError(f"{self.path}: has no edges to sample; stage it with its graph, "
                               "or load its rows with fanouts=()")

    def _open(self) -> Owned:
        memory = self._memory
        if memory is None:
            raise ClosedError(f"{self.path}: the data set was closed; open it again")
        return memory

    def _contents(self) -> dict[str, str]:
        """Return the manifest's keys and values, lists as digests; the same for equal contents.

        `checksums` covers all files. Keys that describe only how and from where the data set was
        staged are left out, so that machines may stage the same files themselves.
        """
        with open(os.path.join(self.path, "manifest.json"), encoding="utf-8") as file:
            found = json.load(file)
        for name in ("producer", "job", "checksum"):
            found.pop(name, None)
        for name in ("file", "mtime_ns"):   # of rows in place, which `samples` has checksums of
            (found.get("features") or {}).get("in_place", {}).pop(name, None)
        return {name: digest(json.dumps(value, sort_keys=True).encode())
                if isinstance(value, (dict, list)) else str(value)
                for name, value in found.items()}

    def _forked(self) -> None:
        self._lock = threading.RLock()   # a thread of the parent may have held the old one

    def array(self, name: str) -> npt.NDArray[Any]:
        """Load an array of the data set into memory.

        Args:
            name: "labels", "score" or "features_NAME" [vertices, ...], all in rank order;
                "vertex_of_rank", "rank_of_vertex" [vertices]; or "split_NAME" (ranks, in the order
                given at staging)

        Returns:
            A numpy array in new memory, which the caller owns.

        Raises:
            NotFoundError: the data set has no such array.
            RangeError: an entry is not a vertex of the data set.
            ReadError, NoMemoryError, ClosedError: see `rung.Error`.
        """
        return _load_array(self._open(), name)

    def _check_ids(self, given: Any, name: str) -> npt.NDArray[Any]:
        """Return `given` as int64 [n], all of them vertices of the data set.

        The check is needed because numpy counts negative indices from the end without an error.
        """
        found = np.asarray(given)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise InvalidError(f"{name} {list(found.shape)} {found.dtype}: not a list of vertices; "
                               "use integers in one dimension")
        outside = np.flatnonzero((found < 0) | (found >= self.vertex_count))
        if len(outside):
            raise RangeError(f"{name}[{outside[0]}]={found[outside[0]]}: out of range; {self.path} "
                             f"has vertices 0 to {self.vertex_count - 1}")
        return found.astype(np.int64)

    def split(self, name: str, ranks: bool = False) -> npt.NDArray[np.int64]:
        """Return the vertices of a split, int64 [n], in the order given at staging.

        Args:
            name: of the split, such as "train"
            ranks: return ranks instead of original vertices

        Raises:
            NotFoundError: the data set has no such split. Others: as `array()`.
        """
        found = self._split_ranks(name, "name")
        return found if ranks else self.array("vertex_of_rank")[found].astype(np.int64)

    def _split_ranks(self, name: str, argument: str) -> npt.NDArray[np.int64]:
        """Return a split as ranks. `argument` is the caller's name of `name`, for the error."""
        if not isinstance(name, str) or name not in self.splits:
            cure = (f"use one of {', '.join(self.splits)}" if self.splits
                    else "stage the data set with splits=")
            raise NotFoundError(f"{argument}={name!r}: unknown split of {self.path}; {cure}")
        return self.array("split_" + name).astype(np.int64)

    def labels(self) -> npt.NDArray[Any]:
        """Return the labels [vertices, ...] by original vertex, in their dtype.

        Raises:
            NotFoundError: the data set was staged without labels. Others: as `array()`.
        """
        by_vertex: npt.NDArray[Any] = self.array("labels")[self.array("rank_of_vertex")]
        return by_vertex

    def graph(self) -> Graph:
        """Return the relabelled graph, loaded and checked at first use.

        All users in the process share one copy. It needs 8 bytes per vertex and 4 or 8 per edge.

        Raises:
            FormatError, RangeError: the graph's files are malformed.
            ReadError, NoMemoryError, ClosedError: see `rung.Error`.
        """
        with self._lock:
            memory = self._open()
            # Two data sets of the same path may load one graph each at the same time. A global lock
            # would prevent it, but a forked child could find that lock held forever.
            if self._graph is None:
                self._graph = _graphs.get(self._identity)
            if self._graph is None:
                self._graph = _graphs[self._identity] = Graph(memory)
            return self._graph

    def close(self) -> None:
        """Close the data set. Arrays, the graph, and stores opened from it remain usable."""
        self._memory = self._graph = None

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, (self.path,)

    def __repr__(self) -> str:
        return (f"rung.Dataset({self.path!r}): {self.vertex_count} vertices, {self.edge_count} "
                f"edges, features {list(self.shape)} {self.dtype.name}"
                + (f" as {self.quantization.format}" if self.quantization is not None else ""))

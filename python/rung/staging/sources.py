# SPDX-License-Identifier: Apache-2.0
"""Sources of staging: files, arrays in memory, torch_geometric's Data, and public data sets."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from ctypes import Array, c_char_p
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._library import c, string
from ..errors import Error, InvalidError, NoSpaceError, NotFoundError, ReadError
from ..operands import torch_of
from ..owned import Folder
from ..sizes import whole_number

Source = str | os.PathLike[str] | Any

PRESETS = {"ogb-papers100M": c.RUNG_PRESET_OGB_PAPERS100M,
           "ogb-mag240m": c.RUNG_PRESET_OGB_MAG240M, "igb": c.RUNG_PRESET_IGB}

# Inputs in the library's messages, and the arguments.
_INPUTS = ((r"^split '(.*?)'", r"splits['\1']"), (r"^features '(.*?)'", r"arrays['\1']"),
           (r"^score: ", "score_source: "))

_COLUMNAR = (".parquet", ".feather", ".arrow")


class Sources:
    """Converts the caller's sources to specs of the library.

    Arrays in memory are written to files first, in a temporary folder next to `out`, because that
    disk must have room for the data set anyway.
    """

    def __init__(self, out: str):
        self._parent = os.path.dirname(os.path.abspath(out))
        self._names: dict[str, str] = {}   # arguments by temporary file
        self.folder: Folder | None = None   # for the first array
        self.left_out: list[str] = []   # what the caller's objects have and the data set will not

    def spec(self, source: Source, name: str) -> bytes:
        """Return a source's spec. Raises InvalidError for an unsupported type."""
        if isinstance(source, (str, os.PathLike)):
            if os.fsdecode(source).endswith(_COLUMNAR):
                raise InvalidError(f"{name}: {os.fsdecode(source)}: files of this format are not "
                                   "supported; pass an array, such as "
                                   "pandas.read_parquet(...).to_numpy()")
            return string(source, name)
        array = _numpy(source, name)
        try:
            if self.folder is None:
                self.folder = Folder.create(".rung-", self._parent)
            path = os.path.join(self.folder.path, f"{len(self._names) + 1}.npy")
            self._names[path] = name
            np.save(path, array.astype(array.dtype.newbyteorder("<"), copy=False),
                    allow_pickle=False)
        except OSError as error:
            kind = {errno.ENOENT: NotFoundError, errno.ENOSPC: NoSpaceError}.get(
                error.errno or 0, ReadError)
            raise kind(f"{name}: cannot be written to {self._parent}, the parent folder of the "
                       f"output: {error.strerror}; choose an output in a folder that can be "
                       "written") from error
        return os.fsencode(path)

    def note_left_out(self, where: str, store: Any, used: Iterable[str]) -> None:
        """Note the attributes of a Data, or of a part of a HeteroData, that are not staged.

        Args:
            used: names of those that are; masks are splits
        """
        self.left_out += [f"{where}.{key}" for key, value in store.to_dict().items()
                          if value is not None and key not in used and not key.endswith("_mask")]

    def name_arguments(self, error: Error) -> None:
        """Replace temporary files in a message by the arguments that they were written for, and the
        library's name of an input by that of the argument."""
        message = str(error)
        for path, name in self._names.items():
            message = re.sub(rf"^[^/]*: (?={re.escape(path)})", "", message).replace(path, name)
        for pattern, name in _INPUTS:
            message = re.sub(pattern, name, message)
        error.args = (message,)

    def remove(self) -> None:
        if self.folder is not None:
            self.folder.remove()


def _numpy(source: Any, name: str) -> np.ndarray[Any, Any]:
    """Return an array in memory as a numpy array in C order."""
    torch = torch_of(source)
    if torch is not None:
        if source.layout != torch.strided:
            raise InvalidError(f"{name}: a tensor with layout {source.layout}; use to_dense(), or "
                               "for a graph its indices")
        source = source.detach().cpu()
        if source.dtype == torch.bfloat16:   # numpy has no bf16: two bytes of void
            source = source.contiguous().view(torch.int16).numpy().view("V2")
        else:
            if str(source.dtype).startswith("torch.float8"):   # neither has librung: bytes
                source = source.contiguous().view(torch.uint8)
            try:
                source = source.numpy()
            except TypeError as error:
                raise InvalidError(f"{name}: {source.dtype}: {error}; convert it, such as with "
                                   "float()") from None
    if isinstance(source, (list, tuple)) and any(
            isinstance(one, (str, os.PathLike)) or getattr(one, "ndim", 0) > 1 for one in source):
        raise InvalidError(f"{name}: is a list of {len(source)} sources; use one, such as "
                           "numpy.concatenate() returns")
    if isinstance(source, (list, tuple)) and not source:
        source = np.empty(0, np.int64)   # numpy would make it float64
    try:
        array = np.ascontiguousarray(source)
    except ValueError as error:   # nested lists of different lengths
        raise InvalidError(f"{name}: {error}; use an array") from None
    if array.dtype.hasobject or np.ndim(source) == 0:
        cure = "use toarray()" if hasattr(source, "toarray") else ("use a path, 'file.npz:member', "
                                                                   "'raw:...', or an array")
        raise InvalidError(f"{name}: unsupported type {type(source).__name__}; {cure}")
    return array


def graph_specs(sources: Sources, graph: Any) -> list[bytes]:
    """Return the specs of the edges: a source, a list of sources, or a list of numbers."""
    if graph is None:
        return []
    for one in graph if isinstance(graph, (list, tuple)) else (graph,):
        if type(one).__module__.startswith("torch_geometric."):
            raise InvalidError(f"graph: has type {type(one).__name__}; use data= for a Data or a "
                               "HeteroData of torch_geometric, or graph=data.edge_index")
    graph = _scipy_edges(sources, graph, "graph")
    if hasattr(graph, "__array__") or isinstance(graph, (str, os.PathLike)):
        return [sources.spec(graph, "graph")]
    if not isinstance(graph, Iterable):
        raise InvalidError(f"graph: unsupported type {type(graph).__name__}; use a path, an array "
                           "[2, E] or [E, 2], or a list of them")
    graphs = list(graph)
    if not graphs:
        raise InvalidError("graph=[]: no source; use an edge index, or None for no graph")
    if all(_is_row(one) for one in graphs):
        return [sources.spec(_edge_index(graphs), "graph")]
    names = [f"graph[{i}]" if len(graphs) > 1 else "graph" for i in range(len(graphs))]
    return [sources.spec(_scipy_edges(sources, one, name), name)
            for one, name in zip(graphs, names)]


def _scipy_edges(sources: Sources, graph: Any, name: str) -> Any:
    """Return the edges of a scipy matrix, whose entry [u, v] is an edge from u to v."""
    if not hasattr(graph, "tocoo"):
        return graph
    entries = graph.tocoo()
    if not (entries.data == 1).all():
        sources.left_out.append(f"values of {name}")
    return np.stack([entries.row, entries.col])


def vertex_count(given: SimpleNamespace, described: int = 0) -> int:
    """Return the number of vertices that arguments have in common; 0: that of the features."""
    graphs = given.graph if isinstance(given.graph, (list, tuple)) else (given.graph,)
    counts = {size for one in graphs if hasattr(one, "tocoo") for size in one.shape}
    counts |= {described, whole_number(given.vertex_count, "vertex_count", 2**63 - 1)}
    if given.data is not None and "num_nodes" in given.data:
        counts.add(int(given.data.num_nodes))
    known = sorted(counts - {0})
    if len(known) > 1:
        raise InvalidError("graph, data, dataset, vertex_count: have "
                           f"{' and '.join(map(str, known))} vertices; use the same number")
    return known[0] if known else 0


def _is_row(value: Any) -> bool:
    """Return whether a value is an array or a list of numbers with one dimension."""
    if hasattr(value, "ndim"):
        return bool(value.ndim == 1)
    return isinstance(value, (list, tuple)) and all(
        isinstance(number, (int, float, np.number)) for number in value)


def _edge_index(rows: list[Any]) -> np.ndarray[Any, Any]:
    """Return an edge index whose rows are separate lists or arrays."""
    lengths = sorted({len(row) for row in rows})
    if len(lengths) > 1:
        raise InvalidError(f"graph: lists of {lengths[0]} and {lengths[-1]} vertices; use lists of "
                           "the same length: [sources, destinations]")
    if len(rows) == 2 and lengths == [2] and isinstance(rows[0], (list, tuple)):
        raise InvalidError(f"graph={rows}: two edges, or lists of their sources and destinations; "
                           "use numpy.array([sources, destinations])")
    return np.stack([_numpy(row, "graph") for row in rows])


def named_sources(sources: Sources, given: Mapping[str, Source] | None, argument: str,
                  struct: Any) -> tuple[Any, int]:
    """Return a ctypes array of (name, spec) structs, or None, and its length."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidError(f"{argument}: has type {type(given).__name__}; use a dict of sources by "
                           "name")
    for name in given or {}:
        if not isinstance(name, (str, bytes)):
            raise InvalidError(f"{argument}: the name {name!r} has type {type(name).__name__}; use "
                               "a str")
    entries = [struct(string(name, argument), sources.spec(source, f"{argument}[{name!r}]"))
               for name, source in (given or {}).items()]
    return (struct * len(entries))(*entries) if entries else None, len(entries)


def texts(given: Sequence[bytes]) -> tuple[Array[c_char_p], int]:
    """Return a ctypes array of strings, and its length."""
    return (c_char_p * len(given))(*given), len(given)


def preset_kind(given: SimpleNamespace) -> int:
    """Return the library's number for the data set that `dataset`, `preset` and `part` name.

    Raises:
        InvalidError: the arguments do not fit together.
    """
    if given.preset is None:
        if given.part is not None:
            raise InvalidError(f"part={given.part!r}: preset is missing; use preset= with one of "
                               f"{', '.join(PRESETS)}")
        if os.path.isdir(given.dataset):
            raise InvalidError(f"dataset={os.fspath(given.dataset)!r}: is a folder; use the path "
                               "of its dataset.json, or preset= for a public data set")
        return int(c.RUNG_PRESET_DESCRIPTION)
    if given.preset not in PRESETS:
        raise InvalidError(f"preset={given.preset!r}: unknown value; use one of "
                           f"{', '.join(PRESETS)}")
    return int(PRESETS[given.preset])


def use_pyg_data(sources: Sources, given: SimpleNamespace) -> None:
    """Set the sources that the caller did not give, except splits, from `given.data`, a Data.

    Raises:
        InvalidError: another object, or a Data without an edge index.
    """
    data = given.data
    pyg = sys.modules.get("torch_geometric.data")
    if pyg is None or not isinstance(data, pyg.Data):
        raise InvalidError(f"data: has type {type(data).__name__}; use a Data or a HeteroData of "
                           "torch_geometric")
    if given.graph is None and data.edge_index is None and "adj_t" in data:
        raise InvalidError("data: has adj_t instead of edge_index; use the Data as it was before "
                           "ToSparseTensor()")
    given.features = data.x if given.features is None else given.features
    if given.features is None:
        raise InvalidError("data: has no x; set it, or pass features")
    given.graph = data.edge_index if given.graph is None else given.graph
    given.labels = data.y if given.labels is None else given.labels
    sources.note_left_out("data", data, {"x", "edge_index", "y", "num_nodes",
                                         *(given.arrays or ())})

# SPDX-License-Identifier: Apache-2.0
"""Arguments of loaders and samplers: names of splits, ids, masks, and PyG's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from ..dataset import Dataset, LazyArray
from ..errors import InvalidError
from ..operands import torch_of
from ..sizes import optional_module
from ..store import Store

if TYPE_CHECKING:
    import numpy.typing as npt


class LoaderOptions(TypedDict, total=False):
    """The arguments of `Loader` that do not decide the type of its batches."""

    fanouts: Sequence[int] | None
    num_neighbors: Sequence[int] | None
    input_nodes: Any
    batch_size: int
    draws: str | None
    shuffle: bool
    drop_last: bool
    seed: int
    labels: bool
    with_arrays: Sequence[str] | None
    rank: int | None
    world_size: int | None
    look_ahead: int
    gathers: int
    threads: int
    warm_up: bool
    progress: bool
    sample_on: str


def check_kinds(store: Any, form: str, arrays: str | None, sample_on: str) -> None:
    if not isinstance(store, Store):
        raise InvalidError(f"store: has type {type(store).__name__}; use a rung.Store, from "
                           "rung.open()")
    if form not in ("blocks", "pyg"):
        raise InvalidError(f"form={form!r}: unknown value; use blocks or pyg")
    if arrays not in (None, "torch", "numpy"):
        raise InvalidError(f"arrays={arrays!r}: unknown value; use torch or numpy")
    if arrays == "torch":
        optional_module("torch", "arrays='torch'", "pyg")
    if form == "pyg" and arrays == "numpy":
        raise InvalidError("arrays='numpy': form='pyg' needs torch tensors; leave arrays out")
    if sample_on not in ("cpu", "gpu"):
        raise InvalidError(f"sample_on={sample_on!r}: unknown value; use cpu or gpu")
    if sample_on == "gpu" and store.gpu < 0:
        raise InvalidError("sample_on='gpu': the store gathers on the CPU; open it with gpu=, "
                           "or leave sample_on out")


def one_name(name: str, value: Any, other: str, of_other: Any) -> Any:
    """Return the argument that was given under one of two names; None if neither was.

    Raises:
        InvalidError: both were given.
    """
    if value is not None and of_other is not None:
        raise InvalidError(f"{other}={of_other!r}: {name} is given, too, and means the same; "
                           "use one of them")
    return of_other if value is None else value


_PYG_NAMES = ("x", "edge_index", "edge_attr", "y", "num_nodes", "n_id", "e_id", "input_id",
              "batch_size", "num_sampled_nodes", "num_sampled_edges")


def check_arrays(given: Any, staged: Sequence[str], form: str) -> list[str]:
    """Return the names of the arrays of batches: the argument `with_arrays`, or all.

    Raises:
        InvalidError: an unknown name, or one that PyG's batches use for something else.
    """
    if isinstance(given, str):
        raise InvalidError(f"with_arrays={given!r}: not a list; use [{given!r}]")
    for name in given or ():
        if name not in staged:
            raise InvalidError(f"with_arrays: {name!r} is unknown; use "
                               f"{', '.join(staged) or 'no name: none was staged'}")
    wanted = list(staged if given is None else given)
    for name in wanted if form == "pyg" else ():
        if name in _PYG_NAMES:
            raise InvalidError(f"array {name!r}: form='pyg' has other data of this name; leave it "
                               "out with with_arrays=")
    return wanted


def lazy_arrays(dataset: Dataset, names: Sequence[str]) -> dict[str, LazyArray]:
    """Return those of the named arrays that the data set has."""
    return {name: LazyArray(dataset, f"features_{name}") for name in names
            if name in dataset.arrays}


def seed_ids(dataset: Dataset, given: Any, name: str) -> npt.NDArray[np.int64]:
    """Return the vertices of a list of ids or of a mask, int64 [n].

    Raises:
        InvalidError: another type or shape, or 0 or 1 for each vertex, which is a mask.
        RangeError: an id is outside the data set.
    """
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        raise InvalidError(f"{name}=({given[0]!r}, ...): the graph of a data set has one type of "
                           "vertices; leave out the type")
    ids: Any = given
    try:
        found = np.asarray(ids if torch_of(ids) is None else ids.detach().cpu().numpy())
    except ValueError as error:   # nested lists of different lengths
        raise InvalidError(f"{name}: {error}; use one list of ids") from None
    if found.dtype != np.bool_:
        if found.size == 0 and not hasattr(given, "dtype"):
            found = found.astype(np.int64)   # numpy makes [] an array of float64
        checked: npt.NDArray[np.int64] = dataset._check_ids(found, name)
        if len(checked) == dataset.vertex_count > 2 and checked.max() <= 1:
            raise InvalidError(f"{name}: 0 or 1 for each of the {len(checked)} vertices; convert a "
                               "mask to bool, or pass ids")
        return checked
    if found.shape != (dataset.vertex_count,):
        raise InvalidError(f"{name} {list(found.shape)}: not a mask of the vertices; use one entry "
                           f"for each of the {dataset.vertex_count} vertices")
    return np.flatnonzero(found).astype(np.int64)


def loader_seeds(dataset: Dataset, seeds: Any, input_nodes: Any
                 ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Return the seeds of a loader as vertices and as ranks.

    Args:
        seeds: name of a split, ids or a mask; None: "train"
        input_nodes: PyG's name of `seeds`, where None means all vertices; ... if it is not given

    Raises:
        InvalidError: both are given. Others: as `seed_ids()` and `Dataset.array()`.
    """
    name = "seeds" if input_nodes is ... else "input_nodes"
    if input_nodes is not ...:
        if seeds is not None:
            raise InvalidError("input_nodes: seeds is given, too, and means the same; use one of "
                               "them")
        seeds = np.arange(dataset.vertex_count) if input_nodes is None else input_nodes
    if seeds is None:
        seeds = "train"
    if isinstance(seeds, str):
        ranks = dataset._split_ranks(seeds, name).astype(np.uint64)
        return dataset.array("vertex_of_rank")[ranks].astype(np.int64), ranks
    vertices = seed_ids(dataset, seeds, name)
    return vertices, dataset.array("rank_of_vertex")[vertices].astype(np.uint64)

# SPDX-License-Identifier: Apache-2.0
"""Loaders of typed data sets: the same passes, of several tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from ctypes import byref, c_uint64, c_void_p, cast
from typing import Any, NoReturn

from .._library import DRAWS, UINT32_MAX, c, check, lib
from ..arrays import Array
from ..dataset import Dataset, LazyArray
from ..dtypes import tensor_of
from ..errors import InvalidError, NotSupportedError
from ..forks import Calls, watch
from ..interrupts import long_call
from ..owned import Owned, Running
from ..sampling.arguments import check_arrays, lazy_arrays, loader_seeds, one_name
from ..sampling.batch import as_kind
from ..sampling.division import Division
from ..sampling.loader import Loader, _Lent
from ..sampling.position import Resumable
from ..sizes import (
    SEED_MAX,
    choice,
    fanout_array,
    optional_module,
    relation_fanouts,
    whole_number,
)
from ..store import Store
from .batch import TypedBatch, hetero_data, take_sample
from .description import EdgeType, Types
from .store import TypedStore, relation_structs

Fanouts = Sequence[int] | Mapping[EdgeType, Sequence[int]]


def drawn_fanouts(types: Types, fanouts: Fanouts | None) -> list[Any]:
    """Return the fanouts of each relation as arrays of uint32 of the same length.

    Args:
        fanouts: of all relations; or by relation, whose hops draw nothing if it is missing; None:
            as staged

    Raises:
        InvalidError: a key that is not a relation, no hops, or lists of different lengths.
    """
    if fanouts is None:
        return [relation_fanouts(relation.fanouts) for relation in types.relations]
    if not isinstance(fanouts, Mapping):
        drawn = fanout_array(fanouts)
        return [drawn for _ in types.relations] if len(drawn) else _no_hops()
    known = {relation.edge_type for relation in types.relations}
    for key in fanouts:
        if key not in known:
            raise InvalidError(f"fanouts: {key!r} is not a relation; use "
                               f"{', '.join(map(str, sorted(known)))}")
    given = {key: relation_fanouts(drawn) for key, drawn in fanouts.items()}
    hops = {len(drawn) for drawn in given.values()}
    if len(hops) > 1:
        raise InvalidError("fanouts: relations have different numbers of hops; use one number for "
                           "each hop, 0 to draw nothing")
    if not any(hops):
        _no_hops()
    nothing = relation_fanouts([0] * hops.pop())
    return [given.get(relation.edge_type, nothing) for relation in types.relations]


def _no_hops() -> NoReturn:
    raise InvalidError("fanouts: no hops to sample; use rung.Loader(store[type], fanouts=()) for "
                       "rows without edges")


class TypedSampling:
    """What loaders and samplers of a typed store have in common: options of the library.

    Attributes:
        opts: a rung_sampler_opts, which refers to the other members
        fanouts: by relation, hop 0 first; -1: all neighbours
    """

    def __init__(self, store: TypedStore, fanouts: Fanouts | None, draws: str, seed: int,
                 threads: int) -> None:
        types = store._types
        self._hops = drawn_fanouts(types, fanouts)
        self._relations = relation_structs(store, self._hops)
        self._counts = (c_uint64 * len(types.vertex))(*(kind.vertex_count
                                                        for kind in types.vertex))
        self.with_rows = [bool(relation.rows_folder) for relation in types.relations]
        self.opts: Any = c.rung_sampler_opts(
            hop_count=len(self._hops[0]), seed=whole_number(seed, "seed", SEED_MAX),
            threads=whole_number(threads, "threads"), draws=choice(draws, DRAWS, "draws"),
            type_counts=cast(self._counts, c_void_p).value, type_count=len(types.vertex),
            relations=self._relations, relation_count=len(types.relations),
            seed_type=types.seed_type, edge_positions=any(self.with_rows))
        self.fanouts = tuple(tuple(-1 if fanout == UINT32_MAX else fanout for fanout in hops)
                             for hops in self._hops)

    def handles(self, store: TypedStore) -> list[Owned]:
        """Return the lists that the library's object uses."""
        return [store._memory_of(relation.folder) for relation in store._types.relations]


def maps_of(store: TypedStore) -> dict[Any, LazyArray]:
    """Return the maps to original vertices by type, and to numbers of edges by relation."""
    found: dict[Any, LazyArray] = {}
    for kind in store._types.vertex:
        with Dataset(os.path.join(store.path, kind.folder)) as part:
            found[kind.name] = LazyArray(part, "vertex_of_rank")
    for relation in store._types.relations:
        if relation.rows_folder:
            with Dataset(os.path.join(store.path, relation.rows_folder)) as part:
                found[relation.edge_type] = LazyArray(part, "vertex_of_rank")
    return found


class TypedLoader(Loader[Any]):
    """`rung.Loader` of a `rung.TypedStore`. See its documentation; what differs:

    Args:
        seeds: of the type of the seeds (`TypedStore.seed_type`); PyG's ("paper", ids) is accepted
            if it is of that type
        fanouts: of all relations, or a dict of them by relation, in which missing relations draw
            nothing (default: as staged)
        form: "blocks": `rung.TypedBatch`es. "pyg": HeteroData, with x, n_id and, of types with
            labels, y of each type, and the arrays of each type by name; edge_index of each
            relation; e_id and edge_attr of relations with edge rows
    """

    def __init__(self, store: Any, seeds: Any = None, *, fanouts: Any = None, batch_size: int = 0,
                 draws: str | None = None, shuffle: bool = True, drop_last: bool = False,
                 seed: int = 0, form: str = "blocks", arrays: str | None = None,
                 labels: bool = True, with_arrays: Sequence[str] | None = None,
                 rank: int | None = None, world_size: int | None = None,
                 look_ahead: int = 0, gathers: int = 0, threads: int = 0, warm_up: bool = True,
                 progress: bool = False, sample_on: str = "cpu", num_neighbors: Any = None,
                 input_nodes: Any = ...):
        store._check_open()
        fanouts = one_name("fanouts", fanouts, "num_neighbors", num_neighbors)
        self._check(form, arrays, sample_on)
        self._hetero = form == "pyg"
        self._kind = arrays or ("torch" if self._hetero or "torch" in sys.modules else "numpy")
        self._tqdm = optional_module("tqdm", "progress=True", "progress").tqdm if progress else None
        self._typed: TypedStore = store
        # the store whose shape and device the untyped loader asks for
        self.store = _first_store(store)
        Resumable.__init__(self, Division(seed, shuffle, drop_last, rank, world_size))
        self.seed = self._division.seed
        self._pid = os.getpid()
        self._maps = maps_of(store)
        seed_type = store.seed_type
        with Dataset(store.path) as whole, store.part(seed_type) as part:
            self._contents = whole._contents()
            self._seeds, self._seed_ranks = loader_seeds(
                part, _of_type(seeds, seed_type, "seeds"),
                input_nodes if input_nodes is ... else _of_type(input_nodes, seed_type,
                                                                "input_nodes"))
            self._take_labels(part, labels)
            self.batch_size = (whole_number(batch_size, "batch_size") or whole.batch_size or 1024)
            usual = whole.draws
        self._all = self._labels_of_types(labels)
        self._arrays_of_types = self._arrays_by_type(with_arrays, form)
        self._division.batch_size = self.batch_size
        self._sampling = TypedSampling(store, fanouts,
                                       draws or ("new" if self._hetero else usual), seed, 1)
        self._fanouts = tuple(fanout for each in self._sampling.fanouts for fanout in each)
        self._draws = DRAWS[self._sampling.opts.draws]
        self._handles: list[Owned] = []
        self._calls, self._ended = Calls(), False
        opts = c.rung_loader_opts(batch_size=self.batch_size,
                                  threads=whole_number(threads, "threads"),
                                  look_ahead=whole_number(look_ahead, "look_ahead"),
                                  gathers=whole_number(gathers, "gathers"))
        try:
            self._create_typed(opts)
            if warm_up:
                number, world = self._division.ranks()
                ranks = self._seed_ranks[self._order(number, world)]
                long_call(lib.rung_loader_warm_up, self._handle, byref(self._pass(ranks, world)))
        except BaseException:
            for handle in self._handles[::-1]:
                handle.release()
            raise
        watch(self)

    @staticmethod
    def _check(form: str, arrays: str | None, sample_on: str) -> None:
        if form not in ("blocks", "pyg"):
            raise InvalidError(f"form={form!r}: unknown value; use blocks or pyg")
        if arrays not in (None, "torch", "numpy") or (form == "pyg" and arrays == "numpy"):
            raise InvalidError(f"arrays={arrays!r}: use torch or numpy; form='pyg' needs torch")
        if sample_on != "cpu":
            raise NotSupportedError(f"sample_on={sample_on!r}: typed graphs are sampled on the "
                                    "CPU; leave it out")
        if form == "pyg":
            optional_module("torch_geometric.data", "form='pyg'", "pyg")

    def _labels_of_types(self, labels: bool) -> dict[str, LazyArray]:
        found = {}
        for name in self._typed.types if labels else ():
            with self._typed.part(name) as part:
                if part.has_labels:
                    found[name] = LazyArray(part, "labels")
        return found

    def _arrays_by_type(self, names: Any, form: str) -> dict[str, dict[str, LazyArray]]:
        """Return the arrays of each type; `names` are those of any type."""
        parts = [self._typed.part(kind) for kind in self._typed.types]
        staged = list(dict.fromkeys(name for part in parts for name in part.arrays))
        wanted = check_arrays(names, staged, form)
        return {kind: lazy_arrays(part, wanted) for kind, part in zip(self._typed.types, parts)}

    def _create_typed(self, opts: Any) -> None:
        """Create the library's loader over the stores of all tables."""
        store, types = self._typed, self._typed._types
        memories = [store._memory_of(name) for name in store._stores]
        type_stores = (c_void_p * len(types.vertex))(
            *(store._memory_of(kind.folder).pointer.value if kind.has_features else None
              for kind in types.vertex))
        edge_stores = (c_void_p * len(types.relations))(
            *(store._memory_of(relation.rows_folder).pointer.value if relation.rows_folder else None
              for relation in types.relations))
        opts.sampler = self._sampling.opts
        opts.type_stores, opts.edge_stores = type_stores, edge_stores
        handle = Running(lib.rung_loader_destroy, keeps=(type_stores, edge_stores, self._sampling),
                         of=(*memories, *self._sampling.handles(store)))
        self._handles.append(handle)
        check(lib.rung_loader_create(None, None, byref(opts), byref(handle.pointer)))
        self._handle = handle

    def _batch(self, lent: _Lent, order: Any) -> Any:
        batch, store, kind = lent.pointer.contents, self._typed, self._kind
        taken: Any = order[batch.batch_idx * self.batch_size :][: batch.seed_count]
        seeds: Any = self._seeds[taken]
        labels: Any = None if self._labels is None else self._labels[taken]
        if kind == "torch":
            import torch

            seeds, taken = torch.from_numpy(seeds), torch.from_numpy(taken)
            labels = None if labels is None else tensor_of(labels, "labels")
        found = TypedBatch(batch.batch_idx, store.seed_type, batch.seed_count, seeds, labels,
                           self._maps, self._arrays_of_types)
        take_sample(found, batch.typed.contents, store._types, lent, kind,
                    self._sampling.with_rows)
        for i, each in enumerate(store._types.vertex):
            if each.has_features:
                found.features[each.name] = self._rows(
                    batch.type_rows[i], each.folder, len(found.ranks[each.name]), lent)
        for i, relation in enumerate(store._types.relations):
            if relation.rows_folder:
                found.edge_rows[relation.edge_type] = self._rows(
                    batch.edge_rows[i], relation.rows_folder,
                    len(found.positions[relation.edge_type]), lent)
        return hetero_data(found, self._all, taken) if self._hetero else found

    def _rows(self, address: Any, folder: str, count: int, lent: _Lent) -> Any:
        store = self._typed._stores[folder]
        return as_kind(Array(address or 0, (count, *store.shape[1:]), store.dtype, lent),
                       self._kind)

    def __repr__(self) -> str:
        return (f"rung.Loader({self._typed.path!r}): {len(self)} batches of {self.batch_size} "
                f"seeds of {self._typed.seed_type}, {len(self._sampling.fanouts)} relations")


def _first_store(store: TypedStore) -> Store:
    """Return the store of the type of the seeds, or else of the first type with rows."""
    for name in (store.seed_type, *store.types):
        if name in store:
            return store[name]
    raise NotSupportedError(f"{store.path}: no type has features; use rung.pyg.Sampler for batches "
                            "without rows")


def _of_type(given: Any, seed_type: str, name: str) -> Any:
    """Return seeds without their type, which must be the type of the seeds."""
    if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)):
        if isinstance(given, str) and given == seed_type and name == "input_nodes":
            return None   # PyG's name for all vertices of a type
        return given
    if given[0] != seed_type:
        raise InvalidError(f"{name}=({given[0]!r}, ...): seeds are of type {seed_type!r}, as "
                           "staged; stage with seed_type, or use seeds of that type")
    return given[1]

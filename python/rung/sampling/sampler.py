# SPDX-License-Identifier: Apache-2.0
"""Neighbour sampling over the relabelled graph of a staged data set."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from ctypes import byref, c_uint64
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from .._library import DRAWS, UINT32_MAX, c, check, lib
from ..arrays import Array
from ..dataset import Dataset, Graph, LazyArray
from ..dtypes import BY_NAME
from ..errors import InvalidError, NotSupportedError
from ..forks import watch
from ..interrupts import LONG_ROWS, watched
from ..owned import Owned
from ..sizes import SEED_MAX, choice, fanout_array, optional_module, whole_number
from ..stats import structure_of
from ..store import Store
from .arguments import one_name, seed_ids
from .batch import Sample, as_kind, block_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

_I64 = BY_NAME["i64"]


def sampler_opts(dataset: Dataset, fanouts: Sequence[int] | None, draws: str | None,
                 seed: int, threads: int) -> tuple[Any, Any]:
    """Return options for the library, and the array that the caller must keep for them.

    Args:
        fanouts, draws: None: as staged
    """
    drawn = choice(dataset.draws if draws is None else draws, DRAWS, "draws")
    if fanouts is None:
        fanouts = dataset.fanouts if dataset.edge_count else ()
    hops = fanout_array(fanouts)
    if len(hops):
        dataset._need_edges()
    return c.rung_sampler_opts(fanouts=hops, hop_count=len(hops), draws=drawn,
                               seed=whole_number(seed, "seed", SEED_MAX),
                               threads=whole_number(threads, "threads")), hops


class NeighborSampler:
    """Uniform neighbour sampling without replacement (Hamilton et al., 2017).

    Each vertex occurs once per batch, except repeated seeds. Threads: `sample()` runs in one thread
    at a time, others wait. A pickled sampler, as for spawned workers, consists of the data set's
    path and the options: each process loads the graph. With a store, each process opens or attaches
    to it.

    Attributes:
        graph: the loaded graph; None: the lists of a store are used
        hop_count: int

    Args:
        dataset: its relabelled graph is loaded (8 bytes per vertex, 4 or 8 per edge). Or a
            `rung.Store` that was opened with `structure`, whose neighbour lists are used
        fanouts: hop 0 (from the seeds) first; -1: all neighbours (default: as staged)
        num_neighbors: PyG's name of `fanouts`
        draws: "all": all vertices of the batch draw at each hop, as in DGL; "new": only the
            vertices that the previous hop added, as in PyG (default: as staged)
        seed: seed of all draws: the same seed, key and seeds produce the same batch with any
            number of threads
        threads: threads that sample a batch; 0: OpenMP's number, but 8 if some lists of a store
            are in the file

    Raises:
        InvalidError: an argument is invalid, the data set has no edges, or the store no structure.
        NotSupportedError: the graph has types.
        FormatError, RangeError, ReadError, NoMemoryError, ClosedError: as `Dataset.graph()`.
    """

    def __init__(self, dataset: Dataset | Store, fanouts: Sequence[int] | None = None, *,
                 draws: str | None = None, seed: int = 0, threads: int = 0,
                 num_neighbors: Sequence[int] | None = None):
        fanouts = one_name("fanouts", fanouts, "num_neighbors", num_neighbors)
        if getattr(dataset, "types", None) is not None:   # of a rung.TypedStore, too
            raise NotSupportedError(f"{dataset.path}: the graph has types; use rung.Loader or "
                                    "rung.pyg.Sampler, with the store of rung.open()")
        if not isinstance(dataset, (Dataset, Store)):
            raise InvalidError(f"dataset: has type {type(dataset).__name__}; use a rung.Dataset or "
                               "a rung.Store")
        self._from = dataset   # for pickle
        self._store = dataset if isinstance(dataset, Store) else None
        if isinstance(dataset, Store):
            if not dataset.has_structure:
                given = dataset._arguments   # of open() or attach()
                cure = ("open it with structure=" if given.get("structure") is None else
                        "sample_on_gpu took the place of structure=; open it without sample_on_gpu")
                raise InvalidError(f"{dataset.path}: the store has no neighbour lists; {cure}, or "
                                   "pass a rung.Dataset")
            dataset = dataset._dataset()
        dataset._need_edges()
        self._lock = threading.RLock()
        # the sampler reads it
        self.graph: Graph | None = dataset.graph() if self._store is None else None
        self._dataset = dataset
        self._options: dict[str, Any] = {"fanouts": fanouts, "draws": draws, "seed": seed,
                                         "threads": threads}
        self._rank_of_vertex = LazyArray(dataset, "rank_of_vertex")
        self._vertex_of_rank = LazyArray(dataset, "vertex_of_rank")
        self._opts, self._hops = sampler_opts(dataset, fanouts, draws, seed, threads)
        self.hop_count: int = self._opts.hop_count
        self._handle: Owned | None = self._create()
        watch(self)

    def _create(self) -> Owned:
        if self._store is not None:
            found: Owned = self._store._call(self._create_of)
            return found
        graph = self.graph
        assert graph is not None   # as there is no store
        handle = Owned(lib.rung_sampler_destroy, of=(graph.memory,))
        check(lib.rung_sampler_create(byref(graph.csc), byref(self._opts), byref(handle.pointer)))
        return handle

    def _create_of(self, memory: Owned) -> Owned:
        """Create a sampler that reads the lists of an open store."""
        handle = Owned(lib.rung_sampler_destroy, of=(memory,))
        self._opts.structure = structure_of(memory)
        check(lib.rung_sampler_create(None, byref(self._opts), byref(handle.pointer)))
        return handle

    def _forked(self) -> None:
        """Forget lock and handle: a thread of the parent may have been inside sample().

        The next sample() creates a new handle.
        """
        self._lock = threading.RLock()
        if self._handle is not None:
            self._handle.forget()
            self._handle = None

    @overload
    def sample(self, seeds: Any, key: int = 0, *, ranks: bool = False,
               kind: Literal["numpy"] = "numpy") -> Sample[npt.NDArray[Any]]: ...

    @overload
    def sample(self, seeds: Any, key: int = 0, *, ranks: bool = False,
               kind: Literal["torch"]) -> Sample[torch.Tensor]: ...

    @overload
    def sample(self, seeds: Any, key: int = 0, *, ranks: bool = False,
               kind: str) -> Sample[Any]: ...

    def sample(self, seeds: Any, key: int = 0, *, ranks: bool = False,
               kind: str = "numpy") -> Sample[Any]:
        """Sample the batch of some seeds.

        Args:
            seeds: original vertices [n]: integers, numpy or torch; or a mask, bool [vertices]. A
                repeated seed has a row and the same neighbours each time; edges from other
                vertices lead to its first row
            key: determines every draw, together with the sampler's seed; use a running number
            ranks: seeds are ranks in the relabelled graph. Original vertices need a map, which the
                first call loads (4 or 8 bytes per vertex)
            kind: "numpy" or "torch": type of the arrays in the sample

        Returns:
            A `Sample`, which the caller owns.

        Raises:
            RangeError: a seed is outside the data set, or a list in the file is damaged.
            InvalidError: `seeds` is empty.
            ReadError: lists of the store could not be read from the file, or the map of vertices.
            ClosedError: the store, or the data set before its map was loaded, has been closed.
            NoMemoryError: host memory is exhausted.
        """
        number = whole_number(key, "key", SEED_MAX)
        if kind not in ("numpy", "torch"):
            raise InvalidError(f"kind={kind!r}: unknown value; use numpy or torch")
        if kind == "torch":
            optional_module("torch", "kind='torch'", "pyg")
        given = seed_ids(self._dataset, seeds, "seeds")
        ids = (given if ranks else self._rank_of_vertex.get()[given]).astype(np.uint64)
        batch = Owned(lib.rung_batch_destroy)
        check(lib.rung_batch_create(byref(batch.pointer)))
        with self._lock:
            if self._handle is None:
                self._handle = self._create()
            arguments = self._handle, ids.ctypes.data, len(ids), number, batch
            call = (lib.rung_sampler_sample if len(ids) < LONG_ROWS
                    else partial(watched, lib.rung_sampler_sample))
            if self._store is None:
                check(call(*arguments))
            else:   # inside a call of the store, for which close() waits
                check(self._store._call(lambda _: call(*arguments)))
        count = c_uint64()
        data = lib.rung_batch_vertices(batch, byref(count))
        sampled = as_kind(Array(data, (count.value,), _I64, batch), kind)
        blocks = [block_of(lib.rung_batch_block(batch, hop).contents, batch, kind)
                  for hop in range(self.hop_count)]
        return Sample(sampled, blocks, len(ids), self._vertex_of_rank)

    def __repr__(self) -> str:
        fanouts = tuple(-1 if fanout == UINT32_MAX else fanout for fanout in self._hops)
        return (f"rung.NeighborSampler({self._dataset.path!r}): fanouts {fanouts}, "
                f"draws {DRAWS[self._opts.draws]!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(NeighborSampler, **self._options), (self._from,)

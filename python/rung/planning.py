# SPDX-License-Identifier: Apache-2.0
"""The memory plan of a store, and rung.plan(), which predicts hits and times of a plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from ctypes import byref, pointer
from dataclasses import dataclass
from math import isnan, nan
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ._library import BYTES_MAX, BYTES_NONE, DRAWS, UINT32_MAX, c, check, lib, text
from .dataset import Dataset
from .errors import InvalidError, in_python
from .hetero.tables import divide_tables
from .interrupts import long_call
from .owned import Owned
from .sizes import (
    SEED_MAX,
    SIZE_CURE,
    Size,
    choice,
    fanout_array,
    gpu_arguments,
    plan_opts,
    size_bytes,
    whole_number,
)
from .stats import number_text, share_text, size_text, table_lines, time_text

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch


@dataclass(frozen=True)
class PlanTier:
    """Rows of a tier in a plan.

    Attributes:
        name: "gpu", "peer" (interleaved over GPUs), "host" or "nvme"
        rows: rows that the tier holds
        bytes: their size
        hits: predicted share of the requested rows, 0 to 1
    """

    name: str
    rows: int
    bytes: int
    hits: float


@dataclass(frozen=True)
class PlanPart:
    """A part of the host budget. A value that does not exist is nan.

    Attributes:
        name: "rows", "lists", "cache", "row slots", "list slots" or "map"
        bytes: size of the part
        hits: predicted share of the requests that it serves, 0 to 1
        reads_per_batch: predicted reads of the drive
        reads_saved_per_mib: reads per batch that one more MiB for this part would save; nan also
            if everything is in memory
    """

    name: str
    bytes: int
    hits: float = nan
    reads_per_batch: float = nan
    reads_saved_per_mib: float = nan


@dataclass(frozen=True)
class PlanTable:
    """A table of a typed data set, from `rung.plan_tables()`. Accesses are expected ones a batch.

    Attributes:
        name: folder of the part, such as "vertices/paper" or "edges/author.writes.paper"
        lists: True for neighbour lists; their rows are blocks of 512 bytes
        rows, row_bytes: number and size of the rows
        bytes, least_bytes: part of the host budget, with slots and cache, and the least that works
        resident_bytes: rows or lists in memory
        accesses, hits: of all rows or lists, and of those in memory
    """

    name: str
    lists: bool
    rows: int
    row_bytes: int
    bytes: int
    least_bytes: int
    resident_bytes: int
    accesses: float
    hits: float


@dataclass(frozen=True)
class Plan:
    """A memory plan and its predictions, from `rung.plan()`. `str()` has them as a table.

    Attributes:
        path: folder of the data set
        device: "cpu" or "cuda"
        device_why: why the CPU gathers although a GPU was requested, or not all GPUs are used; ""
            otherwise
        gpus: numbers of the GPUs that hold rows; the first one gathers
        tiers: `PlanTier`s, fastest first
        parts: `PlanPart`s of the host budget; "lists" and "list slots" with a structure only
        host_bytes: the host budget; None: no limit
        used_bytes: sum of the parts
        offsets_bytes: offsets of the neighbour lists, which are not part of the host budget
        cache_rows: rows that the cold-row cache holds
        slot_count, slot_bytes: buffers for rows from the file, and the size of each
        fanouts, batch_size, draws: sampling of the predicted batches
        seed_count: number of train vertices
        batches_sampled, batches_per_epoch: batches that were sampled for the prediction, and those
            of an epoch
        rows_per_batch, rows_per_epoch, cold_rows_per_epoch: distinct rows of batches; cold rows are
            in the file
        reads_per_batch: reads of rows, after merging and the cold-row cache
        list_reads_per_batch: reads of neighbour lists
        read_bytes_per_epoch: bytes of cold rows in whole sectors, without merging
        seconds_per_batch, seconds_per_epoch: predicted times
        memory_seconds_per_batch, nvme_seconds_per_batch: parts of them that overlap: copying rows
            in memory, and reads of the busiest file
        bound: what limits the speed, such as "drive" or "memory"
        threads: gather threads that the prediction assumes; 0 on a GPU
        queue_depth, merge_gap_bytes: reads in flight, and the gap that one read spans; 0 if nothing
            is read
        window_batches: most coming batches whose cold rows are read together
        profile: file with the rates of this machine; None: the times are for assumed rates
        assumed: tiers whose rates the profile does not have; without a profile, all of them
    """

    path: str
    device: str
    device_why: str
    gpus: tuple[int, ...]
    tiers: tuple[PlanTier, ...]
    parts: tuple[PlanPart, ...]
    host_bytes: int | None
    used_bytes: int
    offsets_bytes: int
    cache_rows: int
    slot_count: int
    slot_bytes: int
    fanouts: tuple[int, ...]
    batch_size: int
    draws: str
    seed_count: int
    batches_sampled: int
    batches_per_epoch: int
    rows_per_batch: float
    rows_per_epoch: float
    cold_rows_per_epoch: float
    reads_per_batch: float
    list_reads_per_batch: float
    read_bytes_per_epoch: float
    seconds_per_batch: float
    seconds_per_epoch: float
    memory_seconds_per_batch: float
    nvme_seconds_per_batch: float
    bound: str
    threads: int
    queue_depth: int
    merge_gap_bytes: int
    window_batches: int
    profile: str | None
    assumed: tuple[str, ...]

    def __str__(self) -> str:
        tiers = [("tier", "rows", "bytes", "hits")]
        tiers += [(tier.name, f"{tier.rows}", size_text(tier.bytes), share_text(tier.hits))
                  for tier in self.tiers]
        parts = [("part of host", "bytes", "hits", "reads a batch", "saved by 1 MiB more")]
        parts += [(part.name, size_text(part.bytes), share_text(part.hits),
                   number_text(part.reads_per_batch), number_text(part.reads_saved_per_mib))
                  for part in self.parts if part.bytes or not isnan(part.reads_per_batch)]
        rates = f"profile {self.profile}" if self.profile else "assumed rates, no profile"
        return "\n".join([
            *table_lines(tiers), "", *table_lines(parts), "",
            f"{self.batches_per_epoch} batches an epoch ({self.batches_sampled} sampled, "
            f"{self.batch_size} seeds each): {self.rows_per_batch:.0f} rows a batch",
            f"{time_text(self.seconds_per_batch)} a batch, {time_text(self.seconds_per_epoch)} "
            f"an epoch, bound by {self.bound} ({rates})"])


class _Sampling:
    """Sampling of the batches for which a plan is chosen or predicted.

    Attributes:
        fanouts, batch_size, draws: as given, or else as staged
        opts: options of the library's sampler
        seeds: distinct train ranks, or all ranks of a data set without a train split
    """

    def __init__(self, dataset: Dataset, fanouts: Sequence[int] | None = None, batch_size: int = 0,
                 draws: str | None = None, seed: int = 1, threads: int = 0):
        if fanouts is not None:
            dataset._need_edges()
            if not len(fanout_array(fanouts)):
                raise InvalidError("fanouts=(): no batches to sample; leave it out for the fanouts "
                                   "given at staging")
        self.draws = dataset.draws if draws is None else draws
        self._hops = fanout_array(dataset.fanouts if fanouts is None else fanouts)
        self.fanouts = tuple(-1 if fanout == UINT32_MAX else fanout for fanout in self._hops)
        self.batch_size = whole_number(batch_size, "batch_size") or dataset.batch_size or 1024
        self.opts: Any = c.rung_sampler_opts(
            fanouts=self._hops, hop_count=len(self._hops),
            draws=choice(self.draws, DRAWS, "draws"), seed=whole_number(seed, "seed", SEED_MAX),
            threads=whole_number(threads, "threads"))
        self.seeds: npt.NDArray[np.uint64]
        if "train" in dataset.splits:
            self.seeds = np.unique(dataset.array("split_train").astype(np.uint64))
        else:
            self.seeds = np.arange(dataset.vertex_count, dtype=np.uint64)

    def divide(self, dataset: Dataset, planned: Any) -> Any:
        """Return the best division of the host budget for these batches."""
        found = c.rung_plan_division()
        long_call(lib.rung_plan_divide, dataset._open(), byref(planned), byref(self.opts),
                  self.seeds.ctypes.data, len(self.seeds), self.batch_size, 0, byref(found))
        return found


def create_plan(dataset: Dataset, given: SimpleNamespace, planned: Any) -> tuple[Owned, str]:
    """Create the plan of a store, with neighbour lists if `given.structure` asks for them.

    Args:
        given: the arguments of `rung.open()` by name
        planned: options of the plan without the lists; changed

    Returns:
        The plan, and why a GPU cannot sample although `sample_on_gpu` was given ("" otherwise).
    """
    why = ""
    if given.structure is not None and planned.sample_on_gpu:
        # the graph is on the GPUs and in host memory, if it fits
        try:
            plan = _create(dataset, planned)
            if lib.rung_plan_device(plan).contents.device != 0:
                return plan, why
        except InvalidError as error:
            why = f"the graph does not fit in the budgets of GPUs and host ({error})"
        planned.sample_on_gpu = False
    if given.structure is not None:
        _set_structure(dataset, given.structure, planned)
    return _create(dataset, planned), why


def _create(dataset: Dataset, planned: Any) -> Owned:
    plan = Owned(lib.rung_plan_destroy)
    check(lib.rung_plan_create(dataset._open(), byref(planned), byref(plan.pointer)))
    return plan


def _set_structure(dataset: Dataset, structure: Size, planned: Any,
                   sampling: _Sampling | None = None) -> Any:
    """Set the bytes of the neighbour lists in the options of a plan.

    With "auto" all lists are in memory if everything fits. Otherwise sampled batches decide, and
    the size of the cache is set, too.

    Args:
        sampling: of the batches; None: as staged, and a given size is not compared with others

    Returns:
        The library's division of the host budget; None if it was not compared with others.
    """
    if dataset.edge_count == 0:
        planned.structure_bytes = BYTES_MAX   # the offsets of empty lists
        return None
    if structure == "auto":
        if _fits(dataset, planned):
            planned.structure_bytes = BYTES_MAX
            return None
        found = (sampling or _Sampling(dataset)).divide(dataset, planned)
        planned.host_bytes, planned.structure_bytes = found.host_bytes, found.structure_bytes
        if not planned.cache_share and not planned.cache_bytes:
            planned.cache_bytes = found.cache_bytes
        return found
    index_bytes = lib.rung_index_bytes(dataset.vertex_count)
    # 0 would be the library's "no structure". 1 byte is too small, and the error names the smallest
    # budget that works.
    planned.structure_bytes = size_bytes(structure, dataset.edge_count * index_bytes, "structure",
                                         SIZE_CURE.replace("or 'max'", "'max' or 'auto'")) or 1
    if sampling is None or _fits(dataset, planned):
        return None
    compared = type(planned).from_buffer_copy(planned)
    plan = _create(dataset, planned)
    if not planned.cache_share and not planned.cache_bytes:   # keep the cache of this plan
        compared.cache_bytes = lib.rung_plan_cache(plan).contents.bytes or BYTES_NONE
    plan.release()
    return sampling.divide(dataset, compared)


def _fits(dataset: Dataset, planned: Any) -> bool:
    """Return whether the budgets hold all rows and all lists."""
    before, planned.structure_bytes = planned.structure_bytes, BYTES_MAX
    try:
        plan = _create(dataset, planned)
    except InvalidError:
        return False
    finally:
        planned.structure_bytes = before
    # `plan` owns the memory of the slots, so it is released after the read
    fits = not lib.rung_plan_slots(plan).contents.slot_count
    plan.release()
    return fits


def _predict(dataset: Dataset, plan: Owned, sampling: _Sampling, planned: Any, threads: int) -> Any:
    """Sample batches, and return the library's prediction; sets the hits of the plan's tiers."""
    assumed = c.rung_profile()   # of typical machines
    lib.rung_profile_assume(byref(assumed))
    forecast = c.rung_forecast_opts(profile=planned.profile or pointer(assumed), threads=threads,
                                    look_ahead=16)   # as a loader
    traffic = c.rung_plan_traffic()
    structure, csc, graph = Owned(lib.rung_structure_close), None, None
    if planned.structure_bytes:
        long_call(lib.rung_structure_open, dataset._open(), plan, None, byref(structure.pointer))
        sampling.opts.structure = structure.pointer.value
    else:
        graph = dataset.graph()
        csc = byref(graph.csc)
    long_call(lib.rung_plan_predict, plan, csc, byref(sampling.opts), sampling.seeds.ctypes.data,
              len(sampling.seeds), sampling.batch_size, 0, byref(forecast), byref(traffic))
    structure.release()
    return traffic


def _tiers(plan: Any) -> tuple[PlanTier, ...]:
    """Return the tiers of a plan of the library, fastest first."""
    found: list[PlanTier] = []
    while True:
        tier = lib.rung_plan_tier(plan, len(found))
        if not tier:
            return tuple(found)
        tier = tier.contents
        found.append(PlanTier(text(tier.name), tier.row_count, tier.bytes, tier.hit_share))


def _host(plan: Any) -> PlanTier:
    return next(tier for tier in _tiers(plan) if tier.name == "host")


def _slots_bytes(plan: Any) -> int:
    slots = lib.rung_plan_slots(plan).contents
    return int(slots.slot_count * slots.slot_bytes)


def _parts(plan: Owned, traffic: Any, division: Any) -> tuple[PlanPart, ...]:
    """Return the parts of the host budget. Parts that serve requests come first."""
    batches = traffic.batches_sampled
    host, lists = _host(plan), lib.rung_plan_structure(plan)
    saved = division or SimpleNamespace(rows_saved=nan, structure_saved=nan, cache_saved=nan)
    parts = [PlanPart("rows", host.bytes, host.hits, traffic.forecast.reads / batches,
                      saved.rows_saved)]
    if lists:
        blocks = traffic.blocks_per_epoch
        parts.append(PlanPart("lists", _host(lists).bytes,
                              1 - traffic.cold_blocks_per_epoch / blocks if blocks else nan,
                              traffic.structure_forecast.reads / batches, saved.structure_saved))
    rows = traffic.rows_per_batch * batches
    parts.append(PlanPart("cache", lib.rung_plan_cache(plan).contents.bytes,
                          traffic.forecast.cache_hits / rows if rows else nan, nan,
                          saved.cache_saved))
    parts.append(PlanPart("row slots", _slots_bytes(plan)))
    if lists:
        parts.append(PlanPart("list slots", _slots_bytes(lists)))
    parts.append(PlanPart("map", lib.rung_plan_bytes(plan).contents.map))
    return tuple(parts)


def _report(dataset: Dataset, given: SimpleNamespace, plan: Owned, sampling: _Sampling,
            traffic: Any, division: Any) -> Plan:
    forecast, batches = traffic.forecast, traffic.batches_sampled
    device, slots = lib.rung_plan_device(plan).contents, lib.rung_plan_slots(plan).contents
    parts, host_bytes = _parts(plan, traffic, division), lib.rung_plan_bytes(plan).contents.host
    if given.profile is None:
        assumed = [tier.name for tier in _tiers(plan) if tier.name in ("host", "nvme") or tier.rows]
    else:
        assumed = [text(lib.rung_assumed_name(bit)) for bit in (1, 2, 4)   # enum rung_assumed
                   if forecast.assumed & bit]
    return Plan(
        path=dataset.path, device="cuda" if device.device else "cpu",
        device_why=in_python(text(device.why)),
        gpus=tuple(device.gpus[: device.gpu_count]), tiers=_tiers(plan), parts=parts,
        host_bytes=None if host_bytes == BYTES_MAX else host_bytes,
        used_bytes=sum(part.bytes for part in parts),
        offsets_bytes=lib.rung_plan_bytes(plan).contents.offsets,
        cache_rows=lib.rung_plan_cache(plan).contents.row_count, slot_count=slots.slot_count,
        slot_bytes=slots.slot_bytes, fanouts=sampling.fanouts, batch_size=sampling.batch_size,
        draws=sampling.draws, seed_count=len(sampling.seeds), batches_sampled=batches,
        batches_per_epoch=traffic.batches_per_epoch, rows_per_batch=traffic.rows_per_batch,
        rows_per_epoch=traffic.rows_per_epoch, cold_rows_per_epoch=traffic.cold_rows_per_epoch,
        reads_per_batch=forecast.reads / batches,
        list_reads_per_batch=traffic.structure_forecast.reads / batches,
        read_bytes_per_epoch=traffic.read_bytes_per_epoch,
        seconds_per_batch=forecast.seconds / batches, seconds_per_epoch=traffic.seconds_per_epoch,
        memory_seconds_per_batch=forecast.memory_seconds / batches,
        nvme_seconds_per_batch=forecast.nvme_seconds / batches,
        bound=text(lib.rung_bound_name(forecast.bound)), threads=forecast.threads,
        queue_depth=forecast.queue_depth,
        merge_gap_bytes=forecast.merge_gap_bytes if forecast.queue_depth else 0,
        window_batches=forecast.window_batches,
        profile=None if given.profile is None else os.fsdecode(given.profile),
        assumed=tuple(assumed))


def plan(path: str | os.PathLike[str], host: Size | None = None, *,
         structure: Size | None = "auto", cache: Size | None = None, gpu: Size | None = None,
         gpus: Sequence[int] = (), device: str | torch.device | None = None,
         numa: str | int = "auto", queue_depth: int = 0, vertex_ids: bool = True,
         profile: str | os.PathLike[str] | None = None, fanouts: Sequence[int] | None = None,
         batch_size: int = 0, draws: str | None = None, seed: int = 1, threads: int = 0) -> Plan:
    """Predict how a store with given budgets would serve batches, without opening it.

    No row is read, and no memory for rows is allocated. Batches are sampled, for which the planned
    neighbour lists are read into memory, or without `structure` the whole graph. The
    numbers are those of the command `rung plan`.

    Args:
        path: folder written by `rung.stage()` or `rung stage`
        host, cache, gpu, gpus, device, numa, queue_depth, vertex_ids: as in `rung.open()`
        structure: as in `rung.open()`, but "auto" is the default. None: the store holds no lists
        profile: output of `rung numa --json` on this machine (default: times are for the assumed
            rates of a typical machine)
        fanouts, batch_size, draws: sampling of the batches (default: as staged)
        seed: seed of the sampled batches
        threads: threads that sample, and that gather in the prediction; 0: default

    Returns:
        A `Plan`.

    Raises:
        NotFoundError, FormatError, CorruptError, ReadError: as in `rung.open()`.
        InvalidError: an argument is invalid, or a budget is too small (`min_bytes` works).
        NoMemoryError, NoDeviceError: memory is exhausted, or the GPU does not exist.
    """
    given = SimpleNamespace(**{**locals(), **gpu_arguments(device, gpus)}, sample_on_gpu=False)
    with Dataset(path) as dataset:
        planned = plan_opts(given, dataset.feature_bytes)
        sampling = _Sampling(dataset, fanouts, batch_size, draws, seed, threads)
        division = None
        if structure is not None:
            division = _set_structure(dataset, structure, planned, sampling)
        made = _create(dataset, planned)
        traffic = _predict(dataset, made, sampling, planned, threads)
        return _report(dataset, given, made, sampling, traffic, division)


def plan_tables(path: str | os.PathLike[str], host: Size | None = None, *,
                cache: Size | None = None, numa: str | int = "auto", queue_depth: int = 0,
                profile: str | os.PathLike[str] | None = None) -> tuple[PlanTable, ...]:
    """Divide one host budget among the tables of a typed data set, by expected accesses per byte.

    The numbers are those of the command `rung plan`. Types without features are not listed.

    Args:
        path: folder of a typed data set
        host, numa, queue_depth, profile: as in `rung.plan()`
        cache: cold-row cache of each table of rows, as in `rung.open()`

    Returns:
        A `PlanTable` for each type, list of a relation, and table of edge rows.

    Raises:
        NotFoundError, FormatError, CorruptError, ReadError: as in `rung.open()`.
        InvalidError: not a typed data set, or a budget is too small (`min_bytes` works).
    """
    given = SimpleNamespace(**locals(), gpu=None, gpus=(), device="cpu", sample_on_gpu=False,
                            vertex_ids=False)
    return tuple(PlanTable(name, lists, table.row_count, table.row_bytes, table.bytes,
                           table.least_bytes, table.resident_bytes, table.accesses, table.hits)
                 for name, lists, table in divide_tables(path, given))

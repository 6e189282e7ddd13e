# SPDX-License-Identifier: Apache-2.0
"""The structure of a store: the graph's neighbour lists as a part of its host budget."""

from __future__ import annotations

from ctypes import byref
from types import SimpleNamespace
from typing import Optional

import numpy as np

from ._library import BYTES_MAX, DRAWS, c, check, lib
from .dataset import Dataset
from .errors import InvalidError
from .owned import Owned
from .sizes import Size, size_bytes
from .staging import fanout_array


def create_plan(dataset: Dataset, given: SimpleNamespace,
                planned: c.rung_plan_opts) -> tuple[Owned, str]:
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


def _create(dataset: Dataset, planned: c.rung_plan_opts) -> Owned:
    plan = Owned(lib.rung_plan_destroy)
    check(lib.rung_plan_create(dataset._open(), byref(planned), byref(plan.pointer)))
    return plan


def _set_structure(dataset: Dataset, structure: Size, planned: c.rung_plan_opts) -> None:
    if structure == "auto":
        if dataset.edge_count == 0 or _fits(dataset, planned):
            planned.structure_bytes = BYTES_MAX
        else:
            _divide(dataset, planned)
        return
    index_bytes = lib.rung_index_bytes(dataset.vertex_count)
    # 0 would be the library's "no structure". 1 byte is too small, and the error names the smallest
    # budget that works.
    planned.structure_bytes = size_bytes(structure, dataset.edge_count * index_bytes,
                                         "structure") or 1


def _fits(dataset: Dataset, planned: c.rung_plan_opts) -> bool:
    """Return whether the budgets hold all rows and all lists."""
    planned.structure_bytes = BYTES_MAX
    try:
        return not lib.rung_plan_slots(_create(dataset, planned)).contents.slot_count
    except InvalidError:
        return False
    finally:
        planned.structure_bytes = 0


def _divide(dataset: Dataset, planned: c.rung_plan_opts) -> None:
    """Divide the host budget by the reads of batches that are sampled as given at staging."""
    hops = fanout_array(dataset.fanouts)
    sampler = c.rung_sampler_opts(fanouts=hops, hop_count=len(hops),
                                  draws=DRAWS.index(dataset.draws), seed=1)
    if "train" in dataset.splits:
        seeds = np.unique(dataset.array("split_train").astype(np.uint64))
    else:
        seeds = np.arange(dataset.vertex_count, dtype=np.uint64)
    found = c.rung_plan_division()
    check(lib.rung_plan_divide(dataset._open(), byref(planned), byref(sampler), seeds.ctypes.data,
                               len(seeds), dataset.batch_size or 1024, 0, byref(found)))
    planned.host_bytes, planned.structure_bytes = found.host_bytes, found.structure_bytes
    if not planned.cache_share and not planned.cache_bytes:
        planned.cache_bytes = found.cache_bytes


def structure_of(memory: Owned) -> Optional[int]:
    """Return the address of the structure of an open store; None if it has none."""
    return lib.rung_store_structure(memory)


def has_cold_lists(memory: Owned) -> bool:
    """Return whether the structure of a store reads some lists from the file."""
    structure = structure_of(memory)
    if structure is None:
        return False
    found = c.rung_store_stats()
    check(lib.rung_structure_stats(structure, byref(found)))
    return any(tier.name == b"nvme" and tier.rows for tier in found.tiers[: found.tier_count])

# SPDX-License-Identifier: Apache-2.0
"""Conversion of arguments for the library: sizes, numbers, choices, options and plan of a store.

Sizes have the same forms as on the command line: bytes (4096), "64KiB", "1.5GiB", a share such as
"10%", or "max".
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from ctypes import byref, c_int, c_uint32, pointer
from fractions import Fraction
from math import ceil
from numbers import Real
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from ._library import (BYTES_MAX, BYTES_NONE, DEVICES, DRAWS, ENGINES, NUMA_POLICIES, UINT32_MAX,
                       c, check, lib, string)
from .errors import InvalidError
from .owned import Owned

if TYPE_CHECKING:
    from .dataset import Dataset

Size = Union[int, str]

_INT_MAX = 2**31 - 1

_UNITS = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_CURE = "use bytes (4096), '64KiB', '1.5GiB', a share such as '10%', or 'max'"


def _integer(value: Any) -> int | None:
    """Return an integer of Python, numpy or torch as int; None for other values and for bools."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def whole_number(value: Any, name: str, most: int = UINT32_MAX) -> int:
    """Return `value` as an int from 0 to `most`.

    The check is needed because ctypes truncates an integer to the width of its field without an
    error.

    Raises:
        InvalidError: another value; `name` is that of the argument.
    """
    number = _integer(value)
    if number is None or not 0 <= number <= most:
        raise InvalidError(f"{name}={value!r}: not valid; use a whole number from 0 to {most}")
    return number


def choice(value: str, of: Sequence[str], name: str, numbers: Sequence[str] = ()) -> int:
    """Return the library's number for a choice.

    Args:
        value: the choice
        of: accepted choices
        name: of the argument, for the error
        numbers: all choices at their numbers, if `of` has only some of them

    Raises:
        InvalidError: `value` is not in `of`.
    """
    if value not in of:
        raise InvalidError(f"{name}={value!r}: unknown value; use one of {', '.join(of)}")
    return (numbers or of).index(value)


def size_share(size: Size, name: str = "size") -> float:
    """Return a share such as "10%" as 0 to 1; 0 for other forms of a size."""
    if not isinstance(size, str) or not size.endswith("%"):
        return 0.0
    return size_bytes(size, 1 << 53, name) / (1 << 53)   # 2^53: a double holds it exactly


def size_bytes(size: Size, whole: int | None = None, name: str = "size",
               cure: str = _CURE) -> int:
    """Return a size in bytes; BYTES_MAX for "max".

    Args:
        size: in one of the forms above
        whole: bytes of which a share is taken; None: shares are not accepted
        name: of the argument, for the error
        cure: accepted forms, for the error

    Raises:
        InvalidError: the size has another form, or is out of range.
    """
    if not isinstance(size, str):
        number = _integer(size)
        # the library reads BYTES_NONE as "no bytes", and 0 as "the default"
        if number is None or not 0 <= number <= BYTES_MAX or number == BYTES_NONE:
            raise InvalidError(f"{name}={size!r}: not a size; {cure}")
        return number
    if size == "max":
        return BYTES_MAX
    found = re.fullmatch(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)(?:\s*(%|B|KiB|MiB|GiB|TiB))?", size)
    if not found or (found[2] in (None, "B") and "." in found[1]):
        raise InvalidError(f"{name}={size!r}: not a size; {cure}")
    amount = Fraction(found[1])   # exact, unlike a float
    if found[2] == "%":
        if whole is None:
            raise InvalidError(f"{name}={size!r}: a share is not accepted; "
                               "use bytes (4096), '64KiB', '1.5GiB' or 'max'")
        if amount > 100:
            raise InvalidError(f"{name}={size!r}: more than 100 %; {cure}")
        return int(amount * whole / 100)
    total = int(amount * _UNITS[found[2]])
    if total >= BYTES_MAX - 1:
        raise InvalidError(f"{name}={size!r}: more than 16 EiB; {cure}")
    return total


def fanout_array(fanouts: Sequence[int]):
    """Return fanouts as a uint32 array for the library; -1 becomes its value for all neighbours.

    Raises:
        InvalidError: not a list, or an entry is neither -1 nor 1 or more.
    """
    try:
        listed = [-1 if fanout == -1 else whole_number(fanout, "fanouts", UINT32_MAX - 1)
                  for fanout in fanouts]
    except TypeError:
        raise InvalidError(f"fanouts={fanouts!r}: not a list; use one number per hop, "
                           "such as (15, 10)") from None
    if 0 in listed:
        raise InvalidError(f"fanouts={listed}: 0 is not valid; use 1 or more, or -1 for all "
                           "neighbours")
    return (c_uint32 * len(listed))(*[UINT32_MAX if fanout == -1 else fanout for fanout in listed])


# The structs returned below keep the arrays and pointers that were assigned to their fields: ctypes
# refers to them from the struct.


def plan_opts(given: SimpleNamespace, feature_bytes: int) -> c.rung_plan_opts:
    """Return the memory plan's options for the arguments of `rung.open()`.

    Args:
        given: the arguments by name
        feature_bytes: size of all rows, to which shares such as "10%" refer
    """
    opts = c.rung_plan_opts()
    if given.host is not None:
        # The library reads 0 as the default. A budget of 0 becomes 1 byte, which is too small, and
        # the error then names the smallest budget that works.
        opts.host_bytes = size_bytes(given.host, feature_bytes, "host") or 1
    if given.gpu is not None:
        opts.gpu_bytes = size_bytes(given.gpu, feature_bytes, "gpu") or BYTES_NONE
    if given.cache is not None:
        opts.cache_share = size_share(given.cache, "cache")
        if not opts.cache_share:
            opts.cache_bytes = size_bytes(given.cache, 0, "cache") or BYTES_NONE
    wants_gpu = given.gpu is not None or given.gpus
    if given.device == "cpu" and wants_gpu:
        raise InvalidError("device='cpu': gpu and gpus need a GPU; leave them out, or use "
                           "device='auto'")
    opts.device = choice(given.device or ("auto" if wants_gpu else "cpu"), DEVICES, "device")
    if given.gpus:
        numbers = [whole_number(number, "gpus", _INT_MAX) for number in given.gpus]
        opts.gpus, opts.gpu_count = (c_int * len(numbers))(*numbers), len(numbers)
    opts.queue_depth = whole_number(given.queue_depth, "queue_depth")
    opts.sample_on_gpu = bool(given.sample_on_gpu)
    opts.vertex_ids = bool(given.vertex_ids)
    if isinstance(given.numa, str):
        named = [policy for policy in NUMA_POLICIES if policy != "node"]
        opts.numa = choice(given.numa, named, "numa", NUMA_POLICIES)
    else:
        opts.numa = NUMA_POLICIES.index("node")
        opts.numa_node = whole_number(given.numa, "numa")
    if given.profile is not None:
        opts.profile = pointer(c.rung_profile())
        check(lib.rung_profile_load(string(given.profile, "profile"), opts.profile))
    return opts


def store_opts(given: SimpleNamespace) -> c.rung_store_opts:
    """Return the store's options for the arguments of `rung.open()`, without `share_path`."""
    opts = c.rung_store_opts(vertex_ids=bool(given.vertex_ids), buffered=bool(given.buffered),
                             private_cache=bool(given.private_cache))
    opts.queue_depth = whole_number(given.queue_depth, "queue_depth")
    opts.engine = choice(given.engine, ENGINES, "engine")
    opts.requests_max = whole_number(given.requests, "requests")
    opts.batch_rows_max = whole_number(given.batch_rows, "batch_rows")
    opts.merge_gap_bytes = whole_number(given.merge_gap, "merge_gap")
    seconds = given.read_timeout
    if not isinstance(seconds, Real) or not 0 <= seconds <= UINT32_MAX // 1000:
        raise InvalidError(f"read_timeout={seconds!r}: out of range; use 0 (30 s) to "
                           f"{UINT32_MAX // 1000} seconds")
    opts.read_timeout_ms = ceil(seconds * 1000)
    return opts


def attach_opts(given: SimpleNamespace) -> c.rung_store_opts:
    """Return the store's options for the arguments of `rung.attach()`, without `share_path`."""
    opts = c.rung_store_opts()
    if given.gpu is not None:
        opts.gpu = pointer(c_int(whole_number(given.gpu, "gpu", _INT_MAX)))
    opts.vertex_ids, opts.private_cache = bool(given.vertex_ids), bool(given.private_cache)
    opts.requests_max = whole_number(given.requests, "requests")
    opts.batch_rows_max = whole_number(given.batch_rows, "batch_rows")
    return opts


# The plan of a store. `given.structure` puts neighbour lists of the graph into its host budget.


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
    planned.structure_bytes = size_bytes(structure, dataset.edge_count * index_bytes, "structure",
                                         _CURE.replace("or 'max'", "'max' or 'auto'")) or 1


def _fits(dataset: Dataset, planned: c.rung_plan_opts) -> bool:
    """Return whether the budgets hold all rows and all lists."""
    planned.structure_bytes = BYTES_MAX
    try:
        plan = _create(dataset, planned)
    except InvalidError:
        return False
    finally:
        planned.structure_bytes = 0
    # `plan` owns the memory of the slots, so it is released after the read
    fits = not lib.rung_plan_slots(plan).contents.slot_count
    plan.release()
    return fits


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

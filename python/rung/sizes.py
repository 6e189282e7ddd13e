# SPDX-License-Identifier: Apache-2.0
"""Conversion of arguments for the library: sizes, numbers, choices, and options of a store.

Sizes have the same forms as on the command line: bytes (4096), "64KiB", "1.5GiB", a share such as
"10%", or "max".
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from ctypes import c_int, pointer
from fractions import Fraction
from math import ceil
from numbers import Real
from types import SimpleNamespace
from typing import Any, Union

import numpy as np

from ._library import (BYTES_MAX, BYTES_NONE, DEVICES, ENGINES, NUMA_POLICIES, UINT32_MAX, c, check,
                       lib, string)
from .errors import InvalidError

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


def size_bytes(size: Size, whole: int | None = None, name: str = "size") -> int:
    """Return a size in bytes; BYTES_MAX for "max".

    Args:
        size: in one of the forms above
        whole: bytes of which a share is taken; None: shares are not accepted
        name: of the argument, for the error

    Raises:
        InvalidError: the size has another form, or is out of range.
    """
    if not isinstance(size, str):
        number = _integer(size)
        # the library reads BYTES_NONE as "no bytes", and 0 as "the default"
        if number is None or not 0 <= number <= BYTES_MAX or number == BYTES_NONE:
            raise InvalidError(f"{name}={size!r}: not a size; {_CURE}")
        return number
    if size == "max":
        return BYTES_MAX
    found = re.fullmatch(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)(?:\s*(%|B|KiB|MiB|GiB|TiB))?", size)
    if not found or (found[2] in (None, "B") and "." in found[1]):
        raise InvalidError(f"{name}={size!r}: not a size; {_CURE}")
    amount = Fraction(found[1])   # exact, unlike a float
    if found[2] == "%":
        if whole is None:
            raise InvalidError(f"{name}={size!r}: a share is not accepted; "
                               "use bytes (4096), '64KiB', '1.5GiB' or 'max'")
        if amount > 100:
            raise InvalidError(f"{name}={size!r}: more than 100 %; {_CURE}")
        return int(amount * whole / 100)
    total = int(amount * _UNITS[found[2]])
    if total >= BYTES_MAX - 1:
        raise InvalidError(f"{name}={size!r}: more than 16 EiB; {_CURE}")
    return total


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

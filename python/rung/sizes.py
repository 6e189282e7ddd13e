# SPDX-License-Identifier: Apache-2.0
"""Sizes as the command takes them: bytes (4096), "64KiB", "1.5GiB", a share such as "10%", "max";
and other numbers and choices for the library.
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

INT_MAX = 2**31 - 1

_UNITS = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_CURE = "give bytes (4096), '64KiB', '1.5GiB', TiB, a share such as '10%', or 'max'"


def _integer(value: Any) -> int | None:
    """Of Python, numpy or torch; None for anything else, True and False among them."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def whole_number(value: Any, name: str, most: int = UINT32_MAX) -> int:
    """`value`, 0 to `most`: ctypes would cut it to the width of a field without a word."""
    number = _integer(value)
    if number is None or not 0 <= number <= most:
        raise InvalidError(f"{name}={value!r}: give a whole number from 0 to {most}")
    return number


def choice(value: str, of: Sequence[str], name: str, numbers: Sequence[str] = ()) -> int:
    """Number of a choice among `of`: its place there, or in `numbers`."""
    if value not in of:
        raise InvalidError(f"{name}={value!r}: give one of {', '.join(of)}")
    return (numbers or of).index(value)


def size_share(size: Size, name: str = "size") -> float:
    """0 to 1 of a share such as "10%"; 0 for sizes of other kinds."""
    if not isinstance(size, str) or not size.endswith("%"):
        return 0.0
    return size_bytes(size, 1 << 53, name) / (1 << 53)


def size_bytes(size: Size, whole: int | None = None, name: str = "size") -> int:
    """Bytes of a size; of `whole` bytes when it is a share, which needs one."""
    if not isinstance(size, str):
        number = _integer(size)
        # BYTES_NONE stands for no bytes at all
        if number is None or not 0 <= number <= BYTES_MAX or number == BYTES_NONE:
            raise InvalidError(f"{name}={size!r}: {_CURE}")
        return number
    if size == "max":
        return BYTES_MAX
    found = re.fullmatch(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)(?:\s*(%|B|KiB|MiB|GiB|TiB))?", size)
    if not found or (found[2] in (None, "B") and "." in found[1]):
        raise InvalidError(f"{name}={size!r}: {_CURE}")
    amount = Fraction(found[1])
    if found[2] == "%":
        if whole is None:
            raise InvalidError(f"{name}={size!r}: there is nothing here that it is a share of: "
                               "give bytes (4096), '64KiB', '1.5GiB', TiB, or 'max'")
        if amount > 100:
            raise InvalidError(f"{name}={size!r}: more than all; {_CURE}")
        return int(amount * whole / 100)
    total = int(amount * _UNITS[found[2]])
    if total >= BYTES_MAX - 1:
        raise InvalidError(f"{name}={size!r}: more than 16 EiB; {_CURE}")
    return total


def plan_opts(given: SimpleNamespace, feature_bytes: int) -> c.rung_plan_opts:
    """Options of the memory plan for the arguments of `rung.open()`.

    Args:
        given: the arguments, by name
        feature_bytes: size of all rows, of which sizes such as "10%" are a share
    """
    opts = c.rung_plan_opts()
    if given.host is not None:
        # 0 means the default: the error names the least that works
        opts.host_bytes = size_bytes(given.host, feature_bytes, "host") or 1
    if given.gpu is not None:
        opts.gpu_bytes = size_bytes(given.gpu, feature_bytes, "gpu") or BYTES_NONE
    if given.cache is not None:
        opts.cache_share = size_share(given.cache, "cache")
        if not opts.cache_share:
            opts.cache_bytes = size_bytes(given.cache, 0, "cache") or BYTES_NONE
    wants_gpu = given.gpu is not None or given.gpus
    if given.device == "cpu" and wants_gpu:
        raise InvalidError("device='cpu': no row is on a GPU then; leave out gpu and gpus, "
                           "or give device='auto'")
    opts.device = choice(given.device or ("auto" if wants_gpu else "cpu"), DEVICES, "device")
    if given.gpus:
        numbers = [whole_number(number, "gpus", INT_MAX) for number in given.gpus]
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
    """Options of `rung.open()`, without `share_path`."""
    opts = c.rung_store_opts(vertex_ids=bool(given.vertex_ids), buffered=bool(given.buffered),
                             private_cache=bool(given.private_cache))
    opts.queue_depth = whole_number(given.queue_depth, "queue_depth")
    opts.engine = choice(given.engine, ENGINES, "engine")
    opts.requests_max = whole_number(given.requests, "requests")
    opts.batch_rows_max = whole_number(given.batch_rows, "batch_rows")
    opts.merge_gap_bytes = whole_number(given.merge_gap, "merge_gap")
    seconds = given.read_timeout
    if not isinstance(seconds, Real) or not 0 <= seconds <= UINT32_MAX // 1000:
        raise InvalidError(f"read_timeout={seconds!r}: give seconds, 0 (for 30) to "
                           f"{UINT32_MAX // 1000}")
    opts.read_timeout_ms = ceil(seconds * 1000)
    return opts

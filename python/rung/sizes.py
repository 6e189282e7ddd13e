# SPDX-License-Identifier: Apache-2.0
"""Conversion of arguments for the library: sizes, numbers, choices, and options of a store.

Sizes have the same forms as on the command line: bytes (4096), "64KiB", "1.5GiB", "4G" (4 GiB),
"4GB" (4e9 bytes), a share such as "10%", or "max".
"""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from ctypes import c_int, c_uint32, pointer
from fractions import Fraction
from math import ceil
from numbers import Real
from types import SimpleNamespace
from typing import Any

import numpy as np

from ._library import (
    BYTES_MAX,
    BYTES_NONE,
    DEVICES,
    ENGINES,
    NUMA_POLICIES,
    UINT32_MAX,
    c,
    check,
    lib,
    string,
)
from .errors import InvalidError, LibraryError

Size = int | str

_INT_MAX = 2**31 - 1
SEED_MAX = 2**64 - 1

_LETTERS = "KMGTP"
_DIGITS_MAX = 22   # as the command
SIZE_CURE = "use bytes (4096), '64KiB', '1.5GiB', a share such as '10%', or 'max'"


def _integer(value: Any) -> int | None:
    """Return an integer of Python, numpy or torch as int; None for other values and for bools."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


_WINDOW_MAX = 4096   # RUNG_WINDOW_MAX


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


def optional_module(name: str, argument: str, extra: str) -> Any:
    """Import a module of a package that rung does not require.

    Args:
        name: of the module
        argument: the argument that needs it, for the error
        extra: the extra of rung that installs it

    Raises:
        LibraryError: the package is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name != package:   # a package that this one needs
            raise
        raise LibraryError(f"{argument}: {package} is not installed; use "
                           f"pip install 'rung[{extra}]'") from None


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


def _unit(unit: str) -> int:
    """Return the bytes of a unit in any case: K, Ki and KiB are 1024, KB is 1000."""
    letter, step = unit[:1].upper(), 1000 if unit[1:].upper() == "B" else 1024
    return step ** (_LETTERS.index(letter) + 1) if letter and letter in _LETTERS else 1


def size_share(size: Size, name: str = "size") -> float:
    """Return a share such as "10%" as 0 to 1; 0 for other forms of a size."""
    if not isinstance(size, str) or not size.endswith("%"):
        return 0.0
    return size_bytes(size, 1 << 53, name) / (1 << 53)   # 2^53: a double holds it exactly


def size_bytes(size: Size, whole: int | None = None, name: str = "size",
               cure: str = SIZE_CURE) -> int:
    """Return a size in bytes; BYTES_MAX for "max".

    Args:
        size: in one of the forms above
        whole: bytes of which a share is taken; None: shares are not accepted
        name: of the argument, for the error
        cure: accepted forms, for the error

    Raises:
        InvalidError: the size has another form, or is out of range.
    """
    if whole is None:
        cure = cure.replace(" a share such as '10%',", "")
    if not isinstance(size, str):
        number = _integer(size)
        # the library reads BYTES_NONE as "no bytes", and 0 as "the default"
        if number is None or not 0 <= number <= BYTES_MAX or number == BYTES_NONE:
            raise InvalidError(f"{name}={size!r}: not a size; {cure}")
        return number
    if size == "max":
        return BYTES_MAX
    found = re.fullmatch(r"(([0-9]+(?:\.[0-9]+)?)(?:e[0-9]{1,2})?) *(%|B|[KMGTP](?:B|iB?)?|)",
                         size, re.I | re.A)
    if not found or len(found[2].replace(".", "")) > _DIGITS_MAX:
        raise InvalidError(f"{name}={size!r}: not a size; {cure}")
    amount = Fraction(found[1])   # exact, unlike a float
    if found[3] == "%":
        if whole is None:
            raise InvalidError(f"{name}={size!r}: a share is not accepted; {cure}")
        if amount > 100:
            raise InvalidError(f"{name}={size!r}: more than 100 %; {cure}")
        return int(amount * whole / 100)
    total = amount * _unit(found[3])
    if total.denominator > 1 and found[3] in ("", "B", "b"):
        raise InvalidError(f"{name}={size!r}: not a whole number of bytes; {cure}")
    if int(total) > BYTES_MAX or int(total) == BYTES_NONE:
        raise InvalidError(f"{name}={size!r}: more than 16 EiB; {cure}")
    return int(total)


def fanout_array(fanouts: Sequence[int]) -> Any:
    """Return fanouts as a uint32 array for the library; -1 becomes its value for all neighbours.

    Raises:
        InvalidError: not a list, or an entry is neither -1 nor 1 or more.
    """
    return _fanouts(fanouts, 1)


def relation_fanouts(fanouts: Sequence[int]) -> Any:
    """Do the same for a relation, which may draw nothing at a hop."""
    return _fanouts(fanouts, 0)


def _fanouts(fanouts: Sequence[int], least: int) -> Any:
    if not isinstance(fanouts, Iterable) or isinstance(fanouts, (str, Mapping)):
        raise InvalidError(f"fanouts={fanouts!r}: not a list; use one number per hop, "
                           "such as (15, 10)")
    given = list(fanouts)
    listed: list[int] = []
    for value in given:
        fanout = _integer(value)
        if fanout is None or (fanout != -1 and not least <= fanout < UINT32_MAX):
            raise InvalidError(f"fanouts={given!r}: {value!r} is not valid; use {least} or more, "
                               "or -1 for all neighbours")
        listed.append(UINT32_MAX if fanout == -1 else fanout)
    return (c_uint32 * len(listed))(*listed)


def gpu_arguments(device: Any, gpus: Any) -> dict[str, Any]:
    """Return the arguments `device` and `gpus`, with the number in "cuda:N" moved to `gpus`.

    Raises:
        InvalidError: `gpus` is not a list, or starts with another GPU than `device`.
    """
    if not isinstance(gpus, Iterable) or isinstance(gpus, (str, bytes)):
        raise InvalidError(f"gpus={gpus!r}: not a list; use GPU numbers, such as [0]")
    listed = tuple(gpus)
    name = None if device is None else str(device)
    if name is None or not re.fullmatch(r"cuda:[0-9]{1,9}", name):
        return {"device": name, "gpus": listed}
    number = int(name[5:])
    if listed and listed[0] != number:
        raise InvalidError(f"device={name!r}: gpus={list(listed)} starts with another GPU, and the "
                           "first one gathers; leave one of the arguments out")
    return {"device": "cuda", "gpus": listed or (number,)}


# The structs returned below keep the arrays and pointers that were assigned to their fields: ctypes
# refers to them from the struct.


def plan_opts(given: SimpleNamespace, feature_bytes: int) -> Any:
    """Return the memory plan's options for the arguments of `rung.open()`.

    Args:
        given: the arguments by name
        feature_bytes: size of all rows, to which shares such as "10%" refer
    """
    opts = c.rung_plan_opts(window=_window(given))
    if given.host is not None:
        opts.host_bytes = size_bytes(given.host, feature_bytes, "host") or BYTES_NONE
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


def _window(given: SimpleNamespace) -> int:
    """Return the argument `window` as in C; `rung.plan()` does not have it."""
    window = getattr(given, "window", "auto")
    return 0 if window == "auto" else whole_number(window, "window", _WINDOW_MAX) or UINT32_MAX


def store_opts(given: SimpleNamespace) -> Any:
    """Return the store's options for the arguments of `rung.open()`, without `share_path`."""
    opts = c.rung_store_opts(vertex_ids=bool(given.vertex_ids), buffered=bool(given.buffered),
                             private_cache=bool(given.private_cache),
                             out_dtype=given.dtype)
    opts.queue_depth = whole_number(given.queue_depth, "queue_depth")
    # the engines "null" and "null_instant" read nothing: no rows to train with
    reading = [engine for engine in ENGINES if not engine.startswith("null")]
    opts.engine = choice(given.engine, reading, "engine", ENGINES)
    opts.requests_max = whole_number(given.requests, "requests")
    opts.batch_rows_max = whole_number(given.batch_rows, "batch_rows")
    opts.merge_gap_bytes = whole_number(given.merge_gap, "merge_gap")
    opts.window = _window(given)
    if isinstance(given.read_timeout, list | tuple):
        milliseconds = [_milliseconds(seconds) for seconds in given.read_timeout]
        opts.range_timeouts_ms = (c_uint32 * len(milliseconds))(*milliseconds)
        opts.range_timeout_count = len(milliseconds)
    else:
        opts.read_timeout_ms = _milliseconds(given.read_timeout)
    return opts


def _milliseconds(seconds: Any) -> int:
    if not isinstance(seconds, Real) or not 0 <= float(seconds) <= UINT32_MAX // 1000:
        raise InvalidError(f"read_timeout={seconds!r}: out of range; use 0 (30 s) to "
                           f"{UINT32_MAX // 1000} seconds")
    return ceil(float(seconds) * 1000)


def attach_opts(given: SimpleNamespace) -> Any:
    """Return the store's options for the arguments of `rung.attach()`, without `share_path`."""
    opts = c.rung_store_opts(out_dtype=given.dtype)
    if given.gpu is not None:
        opts.gpu = pointer(c_int(whole_number(given.gpu, "gpu", _INT_MAX)))
    opts.vertex_ids, opts.private_cache = bool(given.vertex_ids), bool(given.private_cache)
    opts.requests_max = whole_number(given.requests, "requests")
    opts.batch_rows_max = whole_number(given.batch_rows, "batch_rows")
    return opts

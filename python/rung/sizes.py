# SPDX-License-Identifier: Apache-2.0
"""Sizes as the command takes them: bytes (4096), "64KiB", "1.5GiB", a share such as "10%", "max";
and other numbers and choices for the library.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Union

import numpy as np

from ._library import BYTES_MAX, BYTES_NONE, UINT32_MAX
from .errors import InvalidError

Size = Union[int, str]

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

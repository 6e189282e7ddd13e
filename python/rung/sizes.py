# SPDX-License-Identifier: Apache-2.0
"""Sizes as the command takes them: bytes (4096), "64KiB", "1.5GiB", a share such as "10%", "max"."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Union

from ._library import BYTES_MAX
from .errors import InvalidError

Size = Union[int, str]

_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_CURE = "give bytes (4096), '64KiB', '1.5GiB', TiB, a share such as '10%', or 'max'"


def size_bytes(size: Size, whole: int | None = None, name: str = "size") -> int:
    """Bytes of a size; of `whole` bytes when it is a share, which needs one."""
    if isinstance(size, bool) or not isinstance(size, (int, str)):
        raise InvalidError(f"{name}={size!r}: {_CURE}")
    if isinstance(size, int):
        if not 0 <= size <= BYTES_MAX:
            raise InvalidError(f"{name}={size}: {_CURE}")
        return size
    if size == "max":
        return BYTES_MAX
    found = re.fullmatch(r"(\d{1,20}(?:\.\d{1,20})?)\s*(%|B|KiB|MiB|GiB|TiB|)", size)
    if not found or (found[2] in ("", "B") and "." in found[1]):
        raise InvalidError(f"{name}={size!r}: {_CURE}")
    number = Fraction(found[1])
    if found[2] == "%":
        if whole is None or number > 100:
            raise InvalidError(f"{name}={size!r}: {'not a share here: ' if whole is None else 'more than all; '}{_CURE}")
        return int(number * whole / 100)
    total = int(number * _UNITS[found[2]])
    if total >= BYTES_MAX - 1:
        raise InvalidError(f"{name}={size!r}: more than 16 EiB; {_CURE}")
    return total

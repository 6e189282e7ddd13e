# SPDX-License-Identifier: Apache-2.0
"""Calls of the simulated runtime, and torch.device."""

import ctypes
import os
from ctypes import byref, c_int

library = ctypes.CDLL(os.environ["RUNG_LIBRARY"])


def call(name, *arguments):
    status = getattr(library, name)(*arguments)
    if status:
        raise RuntimeError(f"{name}: {status}")


def asked(name, kind, *arguments):
    """Return the value that a function writes to its first argument."""
    found = kind()
    call(name, byref(found), *arguments)
    return found.value


class device:
    def __init__(self, given, index=None):
        name = str(given if not isinstance(given, int) else f"cuda:{given}")
        self.type, _, number = name.partition(":")
        self.index = int(number) if number else index
        if self.type == "cuda" and self.index is None:
            self.index = asked("cudaGetDevice", c_int)

    def __eq__(self, other):
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    __repr__ = __str__

# SPDX-License-Identifier: Apache-2.0
"""Where gathered rows go: new tensors and arrays, memory of the store's own, or what the caller gave."""

from __future__ import annotations

import sys
from ctypes import byref
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from ._library import check, lib
from .arrays import CPU, CUDA, Array, Foreign, device_name
from .dtypes import numpy_dtype
from .errors import InvalidError
from .ids import Listed
from .owned import Owned, Running

if TYPE_CHECKING:
    from .store import Store
    from .streams import Stream


def store_memory(store: Store, size: int) -> Running:
    """Memory of the store's device, which keeps the store until nothing refers to it."""
    found: list[Running] = []

    def alloc(memory: Owned) -> int:
        found.append(Running(lib.rung_store_free, memory.pointer, of=(memory,)))
        return lib.rung_store_alloc(memory, max(size, 1), byref(found[0].pointer))

    check(store._call(alloc))
    return found[0]


def _told(out: Any) -> str:
    """What somebody gave, in a few words."""
    return f"{list(out.shape)} {getattr(out, 'dtype', '')}".strip() if hasattr(out, "shape") else f"of type {type(out).__name__}"


def _place(out: Any) -> str:
    return f" on {out.device}" if hasattr(out, "device") else ""


def make_rows(store: Store, listed: Listed, out: Any,
              on: Optional[Stream] = None) -> tuple[Any, int]:
    """Rows to be, and their address; `out` when it is as it has to be.

    Args:
        on: the stream of a gather on a GPU
    """
    shape = (listed.ids.count, *store.shape[1:])
    if store.gpu < 0 and listed.device[0] == CUDA:
        raise InvalidError(f"ids are on cuda:{listed.device[1]}, the store gathers on the CPU{' (' + store.why_cpu + ')' if store.why_cpu else ''}: give "
                           "them on the CPU, as ids.cpu(), or open it with gpu=...")
    place = listed.device if on is None else (CUDA, store.gpu)
    if listed.device[0] == CUDA and listed.device != place:   # no later CUDA call would work
        raise InvalidError(f"ids are on {device_name(listed.device)}, the store gathers on "
                           f"{store.device}: move them there, or attach a store to their GPU")
    if listed.kind == "torch":
        torch = sys.modules["torch"]
        device = torch.device("cuda", store.gpu) if on is not None else listed.keeps[0].device
        if out is None:
            out = torch.empty(shape, dtype=getattr(torch, store.dtype.torch), device=device)
        elif (not isinstance(out, torch.Tensor) or tuple(out.shape) != shape or str(out.dtype) != "torch." + store.dtype.torch or out.device != device
              or not out.is_contiguous()):
            raise InvalidError(f"out {_told(out)}{_place(out)}: wanted a contiguous tensor "
                               f"{list(shape)} torch.{store.dtype.torch} on {device}")
        return out, out.data_ptr()
    if listed.kind == "numpy" and on is None:
        dtype = numpy_dtype(store.dtype)
        if out is None:
            out = np.empty(shape, dtype)
        elif (not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous or not out.flags.writeable):
            raise InvalidError(f"out {_told(out)}: wanted a numpy array {list(shape)} {dtype}, in C order and writeable")
        return out, out.ctypes.data
    if out is None:
        memory = store_memory(store, listed.ids.count * store.row_bytes)
        data = memory.pointer.value or 0
        device = (CPU, 0) if store.gpu < 0 else (CUDA, store.gpu)
        return Array(data, shape, store.dtype, memory, device), data
    wanted = (f"wanted {list(shape)} {store.dtype.name} on {device_name(place)}, "
              "contiguous and writeable")
    if not hasattr(out, "__dlpack__"):
        raise InvalidError(f"out {_told(out)}: {wanted}")
    foreign = Foreign(out, None if on is None else on.handle)
    if (foreign.shape != shape or foreign.dtype != store.dtype or foreign.device != place
            or not foreign.contiguous or foreign.read_only):
        raise InvalidError(f"out {_told(out)} on {device_name(foreign.device)}: {wanted}")
    listed.keeps = (listed.keeps, foreign)
    return out, foreign.data

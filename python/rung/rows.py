# SPDX-License-Identifier: Apache-2.0
"""Where gathered rows go: new tensors and arrays, memory of the store's own, or what the caller gave."""

from __future__ import annotations

import os
import sys
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from ._library import check, lib
from .arrays import CPU, CUDA, Array, Foreign
from .dtypes import numpy_dtype
from .errors import InvalidError
from .ids import Listed

if TYPE_CHECKING:
    from .store import Store


class StoreMemory:
    """Memory of the store's device (rung_store_alloc), freed when nobody holds it. The store's own memory stays for as long."""

    __slots__ = ("_store", "_handle", "_pid", "data")

    def __init__(self, store: Store, size: int):
        data = c_void_p()
        with store._using() as handle:
            check(lib.rung_store_alloc(handle, max(size, 1), byref(data)))
            store._lend()
        self._store, self._handle, self._pid, self.data = store, handle, os.getpid(), data.value or 0

    def __del__(self):
        data = getattr(self, "data", None)
        if data and os.getpid() == self._pid:
            lib.rung_store_free(self._handle, data)
            self._store._take_back()


def _told(out: Any) -> str:
    """What somebody gave, in a few words."""
    return f"{list(out.shape)} {getattr(out, 'dtype', '')}".strip() if hasattr(out, "shape") else f"of type {type(out).__name__}"


def make_rows(store: Store, listed: Listed, out: Any) -> tuple[Any, int]:
    """Rows to be, and their address; `out` when it is as it has to be."""
    shape = (listed.ids.count, *store.shape[1:])
    if store.gpu < 0 and listed.device[0] == CUDA:
        raise InvalidError(f"ids are on cuda:{listed.device[1]}, the store gathers on the CPU{' (' + store.why_cpu + ')' if store.why_cpu else ''}: give "
                           "them on the CPU, as ids.cpu(), or open it with gpu=...")
    if listed.kind == "torch":
        torch, device = sys.modules["torch"], listed.keeps.device
        if out is None:
            out = torch.empty(shape, dtype=getattr(torch, store.dtype.torch), device=device)
        elif (not isinstance(out, torch.Tensor) or tuple(out.shape) != shape or str(out.dtype) != "torch." + store.dtype.torch or out.device != device
              or not out.is_contiguous()):
            raise InvalidError(f"out {_told(out)}: wanted a contiguous tensor {list(shape)} torch.{store.dtype.torch} on {device}")
        return out, out.data_ptr()
    if listed.kind == "numpy":
        dtype = numpy_dtype(store.dtype)
        if out is None:
            out = np.empty(shape, dtype)
        elif (not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous or not out.flags.writeable):
            raise InvalidError(f"out {_told(out)}: wanted a numpy array {list(shape)} {dtype}, in C order and writeable")
        return out, out.ctypes.data
    if out is None:
        memory = StoreMemory(store, listed.ids.count * store.row_bytes)
        return Array(memory.data, shape, store.dtype, memory, (CPU, 0) if store.gpu < 0 else (CUDA, store.gpu)), memory.data
    wanted = f"wanted {list(shape)} {store.dtype.name} on device {listed.device} of DLPack, contiguous and writeable"
    if not hasattr(out, "__dlpack__"):
        raise InvalidError(f"out {_told(out)}: {wanted}")
    foreign = Foreign(out)
    if foreign.shape != shape or foreign.dtype != store.dtype or foreign.device != listed.device or not foreign.contiguous or foreign.read_only:
        raise InvalidError(f"out {_told(out)} on device {foreign.device}: {wanted}")
    listed.keeps = (listed.keeps, foreign)
    return out, foreign.data

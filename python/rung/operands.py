# SPDX-License-Identifier: Apache-2.0
"""Operands of a gather: its list of ids, and the memory for its rows.

Ids are torch tensors, numpy arrays, lists, or objects that support DLPack. Rows go to a new tensor
or array, to memory of the store, or to the caller's `out`.

torch is never imported here: a value can be a tensor only if torch has been imported already.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from ctypes import byref
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._library import c, check, lib
from .arrays import CPU, CUDA, HOST_READABLE, Array, Foreign, device_name
from .dtypes import ID_DLPACK, ID_NUMPY, ID_TORCH, numpy_dtype, torch_dtype
from .errors import InvalidError
from .owned import Owned, Running

if TYPE_CHECKING:
    from .store import Store
    from .streams import Stream

_ID_CURE = "use int32, uint32, int64 or uint64"
_SIGNED = ("torch.int8", "torch.int16", "torch.int32", "torch.int64")
_NARROW = ("torch.int8", "torch.int16", "torch.uint8", "torch.uint16")   # become int64


class Listed:
    """Ids in the library's form, with the objects that keep their memory.

    Attributes:
        ids: struct of the library, which has the address of the ids
        shape: of the ids; the rows have this shape and then that of a row
        keeps: objects that keep the memory
        kind: type of the returned rows: "torch", "numpy" or "rung" (`rung.Array`)
        device: DLPack device (type, number) of the ids
        kept: this object may be deleted before the gather ends, because torch keeps the ids for
            its streams, or because they are read at submission
    """

    __slots__ = ("ids", "shape", "keeps", "kind", "device", "kept")

    def __init__(self, data: int, shape: tuple[int, ...], code: int, space: int, keeps: Any,
                 kind: str, device: tuple[int, int] = (CPU, 0), kept: bool = False) -> None:
        self.ids: Any = c.rung_ids(data, prod(shape), code, space)
        self.keeps: Any = keeps
        self.shape: tuple[int, ...] = shape
        self.kind: str = kind
        self.device: tuple[int, int] = device
        self.kept: bool = kept


def torch_of(value: Any) -> Any:
    """Return the module torch if `value` is a tensor, otherwise None. Does not import torch."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


def _torch_device(tensor: Any) -> tuple[int, int]:
    return (CUDA, tensor.device.index or 0) if tensor.device.type == "cuda" else (CPU, 0)


def _check_mask(shape: Sequence[int], row_count: int) -> None:
    if tuple(shape) != (row_count,):
        raise InvalidError(f"mask {list(shape)}: the store has {row_count} rows; use one entry "
                           "per row, or ids")


def list_ids(ids: Any, space: int, row_count: int, stream: int | None = None) -> Listed:
    """Return ids in the library's form.

    Args:
        ids: integers of any shape, or a mask: torch tensor, numpy array, list, or object with
            `__dlpack__`
        space: RUNG_VERTICES or RUNG_RANKS
        row_count: number of rows, which a mask must have as entries
        stream: handle of the CUDA stream on which the library will read ids in GPU memory

    Raises:
        InvalidError: another type or device, or a mask of another length.
    """
    if torch_of(ids) is not None:
        return _list_tensor(torch_of(ids), ids, space, row_count, stream)
    if not isinstance(ids, (np.ndarray, list, tuple, range)) and hasattr(ids, "__dlpack__"):
        return _list_foreign(ids, space, stream)
    array = _as_array(ids)
    if array.dtype == bool:
        _check_mask(array.shape, row_count)
        array = array.nonzero()[0]
    elif array.size == 0 and array.dtype.kind == "f":   # as of np.array([])
        array = array.astype(np.int64)
    if array.dtype.kind in "iu" and array.dtype not in ID_NUMPY:   # narrow, or big-endian
        native = array.dtype.newbyteorder("=")
        array = array.astype(native if native in ID_NUMPY else np.int64)
    code = ID_NUMPY.get(array.dtype)
    if code is None:
        raise InvalidError(f"ids {list(array.shape)} {array.dtype}: unsupported; {_ID_CURE}")
    array = np.require(array, requirements="C")   # keeps 0 dimensions, unlike ascontiguousarray()
    return Listed(array.ctypes.data, array.shape, code, space, array, "numpy")


def _as_array(ids: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(ids)
    except ValueError as error:   # lists of lists of different lengths
        raise InvalidError(f"ids: {error}; {_ID_CURE}") from None


def _list_tensor(torch: Any, given: Any, space: int, row_count: int,
                 stream: int | None) -> Listed:
    ids = given
    if ids.device.type not in ("cpu", "cuda") or ids.layout != torch.strided:
        raise InvalidError(f"ids {list(ids.shape)} {ids.dtype} on {ids.device}: unsupported; "
                           f"{_ID_CURE} on the CPU or CUDA")
    code = ID_TORCH.get(str(ids.dtype))
    if code is None:
        if ids.dtype == torch.bool:
            _check_mask(ids.shape, row_count)
            ids = ids.nonzero().flatten()
        elif (str(ids.dtype) in _NARROW
              or (0 in ids.shape and ids.is_floating_point())):   # as of torch.tensor([])
            ids = ids.to(torch.int64)
        code = ID_TORCH.get(str(ids.dtype))
    if code is None:
        raise InvalidError(f"ids {list(ids.shape)} {ids.dtype}: unsupported; {_ID_CURE}")
    ids = ids.contiguous()
    # record_stream() works for GPU memory only. A GPU reads pinned ids in place, and torch would
    # reuse their memory without a wait: they must be kept here.
    kept = stream is not None and not (ids.device.type == "cpu" and ids.is_pinned())
    return Listed(ids.data_ptr(), tuple(ids.shape), code, space, (given, ids), "torch",
                  _torch_device(ids), kept)


def _list_foreign(ids: Any, space: int, stream: int | None) -> Listed:
    foreign = Foreign(ids, stream)
    code = ID_DLPACK.get(foreign.dtype.dlpack) if foreign.dtype else None
    if code is None or not foreign.contiguous:
        dtype = foreign.dtype.name if foreign.dtype else "of another type"
        raise InvalidError(f"ids {list(foreign.shape)} {dtype}: unsupported; {_ID_CURE} in "
                           "contiguous memory")
    if foreign.device[0] not in (*HOST_READABLE, CUDA):
        raise InvalidError(f"ids are on {device_name(foreign.device)}: unsupported; "
                           "use host or CUDA memory")
    return Listed(foreign.data, foreign.shape, code, space, foreign, "rung", foreign.device)


def store_memory(store: Store, size: int) -> Running:
    """Allocate memory on the store's device. It keeps the store, and is freed when unreferenced."""
    found: list[Running] = []

    def alloc(memory: Owned) -> int:
        found.append(Running(lib.rung_store_free, memory.pointer, of=(memory,)))
        status: int = lib.rung_store_alloc(memory, max(size, 1), byref(found[0].pointer))
        return status

    check(store._call(alloc))
    return found[0]


def _told(out: Any) -> str:
    """Describe an argument by its shape and dtype, or by its type."""
    if not hasattr(out, "shape"):
        return f"of type {type(out).__name__}"
    return f"{list(out.shape)} {getattr(out, 'dtype', '')}".strip()


def _place(out: Any) -> str:
    return f" on {out.device}" if hasattr(out, "device") else ""


def make_rows(store: Store, listed: Listed, out: Any,
              on: Stream | None = None) -> tuple[Any, int]:
    """Return memory for the rows, and its address.

    Args:
        listed: the ids; an `out` of another library is added to what they keep
        out: the caller's memory, returned if it fits; None: allocate new memory
        on: stream of a gather on a GPU

    Raises:
        InvalidError: the ids are on the wrong device, or `out` does not fit.
    """
    shape = (*listed.shape, *store.row_shape)
    if store.gpu < 0 and listed.device[0] == CUDA:
        why = f" ({store.why_cpu})" if store.why_cpu else ""
        raise InvalidError(f"ids are on cuda:{listed.device[1]}, but the store gathers on the "
                           f"CPU{why}; use ids.cpu(), or open the store with gpu=")
    place = listed.device if on is None else (CUDA, store.gpu)
    # A kernel that reads them would fault, and no later CUDA call of the process would work.
    if listed.device[0] == CUDA and listed.device != place:
        raise InvalidError(f"ids are on {device_name(listed.device)}, but the store gathers on "
                           f"{store.device}; move them there, or attach a store to their GPU")
    if listed.kind == "torch":
        torch = sys.modules["torch"]
        device = torch.device("cuda", store.gpu) if on is not None else listed.keeps[0].device
        if out is None:
            out = torch.empty(shape, dtype=torch_dtype(store.dtype), device=device)
        elif (not isinstance(out, torch.Tensor) or tuple(out.shape) != shape
              or str(out.dtype) != "torch." + store.dtype.torch or out.device != device
              or not out.is_contiguous()):
            raise InvalidError(f"out {_told(out)}{_place(out)}: does not fit; use a contiguous "
                               f"tensor {list(shape)} torch.{store.dtype.torch} on {device}")
        return out, out.data_ptr()
    if listed.kind == "numpy" and on is None:
        dtype = numpy_dtype(store.dtype)
        if out is None:
            out = np.empty(shape, dtype)
        elif (not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype
              or not out.flags.c_contiguous or not out.flags.writeable):
            raise InvalidError(f"out {_told(out)}: does not fit; use a writeable numpy array "
                               f"{list(shape)} {dtype} in C order")
        return out, int(out.ctypes.data)
    if out is None:
        memory = store_memory(store, listed.ids.count * store.row_bytes)
        data = memory.pointer.value or 0
        device = (CPU, 0) if store.gpu < 0 else (CUDA, store.gpu)
        return Array(data, shape, store.dtype, memory, device), data
    wanted = (f"does not fit; use {list(shape)} {store.dtype.name} on {device_name(place)}, "
              "contiguous and writeable")
    if not hasattr(out, "__dlpack__"):
        raise InvalidError(f"out {_told(out)}: {wanted}")
    foreign = Foreign(out, None if on is None else on.handle)
    if (foreign.shape != shape or foreign.dtype != store.dtype or foreign.device != place
            or not foreign.contiguous or foreign.read_only):
        raise InvalidError(f"out {_told(out)} on {device_name(foreign.device)}: {wanted}")
    listed.keeps = (listed.keeps, foreign)
    return out, foreign.data


def _indexed(part: Any) -> str:
    """Return an index as it is written in Python, such as "2:9"."""
    if not isinstance(part, slice):
        return "..." if part is Ellipsis else repr(part)
    bounds = ["" if bound is None else repr(bound) for bound in (part.start, part.stop)]
    return ":".join(bounds + ([] if part.step is None else [repr(part.step)]))


def index_rows(store: Store, ids: Any) -> Any:
    """Return rows for `store[ids]`: a number, a range, a mask, or a list of ids."""
    if isinstance(ids, tuple):
        raise InvalidError(f"store[{', '.join(map(_indexed, ids))}]: rows have one index; "
                           "use store[[...]] for several rows, or store[ids][...] for columns")
    if isinstance(ids, (int, np.integer)) and not isinstance(ids, bool):
        index = int(ids)
        if not -len(store) <= index < len(store):
            raise IndexError(f"{store.path}: row {index} is out of range; the store has "
                             f"{len(store)} rows")
        return store.gather(np.array([index % len(store)], np.int64))[0]
    if isinstance(ids, slice):
        return store.gather(np.arange(*ids.indices(len(store)), dtype=np.int64))
    return store.gather(_from_start(ids, len(store)))


def _from_start(ids: Any, row_count: int) -> Any:
    """Return ids with those below 0 counted from the end, as numpy and torch index arrays."""
    torch = torch_of(ids)
    if torch is None and not isinstance(ids, (np.ndarray, list, tuple, range)):
        return ids
    array: Any = _as_array(ids) if torch is None else ids
    signed = array.dtype.kind == "i" if torch is None else str(array.dtype) in _SIGNED
    if not signed or not (array < 0).any():
        return ids
    array = array.astype(np.int64) if torch is None else array.to(torch.int64)
    return (torch or np).where((array < 0) & (array >= -row_count), array + row_count, array)

# SPDX-License-Identifier: Apache-2.0
"""Element types: librung's codes, and their names in numpy, torch and DLPack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .errors import InvalidError, NotSupportedError
from .sizes import optional_module

if TYPE_CHECKING:
    import torch


class DType(NamedTuple):
    """An element type of librung."""

    code: int       # value of enum rung_dtype
    name: str       # as on the command line, such as "f32"
    numpy: str      # numpy descr; numpy has no bf16, which is two bytes of void
    torch: str      # name in module torch
    dlpack: tuple[int, int]   # DLDataTypeCode, bits


_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6

DTYPES = [
    DType(1, "bool", "|b1", "bool", (_BOOL, 8)), DType(2, "i8", "|i1", "int8", (_INT, 8)),
    DType(3, "u8", "|u1", "uint8", (_UINT, 8)),
    DType(4, "i16", "<i2", "int16", (_INT, 16)), DType(5, "u16", "<u2", "uint16", (_UINT, 16)),
    DType(6, "i32", "<i4", "int32", (_INT, 32)),
    DType(7, "u32", "<u4", "uint32", (_UINT, 32)), DType(8, "i64", "<i8", "int64", (_INT, 64)),
    DType(9, "u64", "<u8", "uint64", (_UINT, 64)),
    DType(10, "f16", "<f2", "float16", (_FLOAT, 16)),
    DType(11, "bf16", "|V2", "bfloat16", (_BFLOAT, 16)),
    DType(12, "f32", "<f4", "float32", (_FLOAT, 32)),
    DType(13, "f64", "<f8", "float64", (_FLOAT, 64)),
]

BY_CODE = {dtype.code: dtype for dtype in DTYPES}
BY_NAME = {dtype.name: dtype for dtype in DTYPES}
BY_DLPACK = {dtype.dlpack: dtype for dtype in DTYPES}
# Types of lists of ids: librung's code by numpy dtype, by torch dtype and by DLPack type.
ID_NUMPY = {np.dtype(BY_NAME[name].numpy): BY_NAME[name].code
            for name in ("i32", "u32", "i64", "u64")}
ID_TORCH = {"torch." + BY_NAME[name].torch: BY_NAME[name].code
            for name in ("i32", "u32", "i64", "u64")}
ID_DLPACK = {BY_NAME[name].dlpack: BY_NAME[name].code for name in ("i32", "u32", "i64", "u64")}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """Return the numpy dtype of an element type."""
    return np.dtype(dtype.numpy)


def torch_dtype(dtype: DType) -> torch.dtype:
    """Return the torch dtype of an element type.

    Raises:
        NotSupportedError: this torch lacks the type, as torch 2.2 lacks uint16.
    """
    module = optional_module("torch", "torch_dtype", "pyg")
    found: torch.dtype | None = getattr(module, dtype.torch, None)
    if found is None:
        raise NotSupportedError(f"torch {module.__version__} has no {dtype.torch}; use a newer "
                                "torch, or arrays='numpy'")
    return found


# str() of torch's dtype is "torch.float16"; numpy's has the name and the descr
_NAMES = {name: dtype.name for dtype in DTYPES
          for name in (dtype.name, dtype.torch, "torch." + dtype.torch, dtype.numpy)}


def gather_dtype(given: Any) -> DType | None:
    """Return the element type that a `dtype` argument stands for; None for None.

    Args:
        given: a dtype of torch or numpy, its name, or "raw" for the bytes of quantized rows

    Raises:
        InvalidError: another value.
    """
    if given is None or isinstance(given, DType):
        return given
    name = "u8" if isinstance(given, str) and given == "raw" else _NAMES.get(str(given))
    if name is None:
        try:
            name = _NAMES.get(np.dtype(given).str.replace("=", "<"))
        except TypeError:
            pass
    if name is None:
        raise InvalidError(f"dtype={given!r}: unknown type; use float16, bfloat16 or float32, of "
                           "torch or as a name, or 'raw'")
    return BY_NAME[name]


def tensor_of(array: np.ndarray[Any, Any], name: str) -> torch.Tensor:
    """Return a numpy array of an element type as a torch tensor, without a copy.

    Raises:
        NotSupportedError: torch has no such type. `name` names the array.
    """
    torch: Any = optional_module("torch", name, "pyg")
    if array.dtype.kind == "V":   # bf16, which numpy sees as two bytes
        bits = torch.from_numpy(array.view(np.int16))
        return bits.view(torch.bfloat16)   # type: ignore[no-any-return]
    try:
        return torch.from_numpy(array)   # type: ignore[no-any-return]
    except TypeError:   # as of torch 2.2 and uint16
        raise NotSupportedError(f"{name}: torch {torch.__version__} has no {array.dtype}; use a "
                                "newer torch, or arrays='numpy'") from None

# SPDX-License-Identifier: Apache-2.0
"""The rows of a store: their shape and type, and how they are stored if they are quantized."""

from __future__ import annotations

import functools
from ctypes import byref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from ._library import QUANT_FORMATS, QUANT_SCALES, c, check, lib, text
from .dtypes import BY_CODE, BY_NAME, DType, gather_dtype, numpy_dtype, torch_dtype
from .errors import InvalidError
from .operands import torch_of

if TYPE_CHECKING:
    import torch

    from .owned import Owned

_SCALE_BYTES = 4
_FLOATS = ("f16", "bf16", "f32")


@dataclass(frozen=True, eq=False)
class Quantization:
    """How the values of quantized rows are stored: as codes, of which `code * scale` is the value.

    Attributes:
        format: "int8", "int4" or "fp8"
        scales: "row" (each stored row begins with its scale, float32) or "column"
        columns: values of a row
        row_bytes: size of a stored row
        column_scales: float32 [columns], a copy; None with a scale per row
    """

    format: str
    scales: str
    columns: int
    row_bytes: int
    column_scales: npt.NDArray[np.float32] | None = field(default=None, repr=False)

    @overload
    def dequantize(self, rows: npt.NDArray[Any], dtype: Any = None) -> npt.NDArray[Any]: ...

    @overload
    def dequantize(self, rows: torch.Tensor, dtype: Any = None) -> torch.Tensor: ...

    def dequantize(self, rows: Any, dtype: Any = None) -> Any:
        """Return the values of stored rows, equal to the bit to those of a gather.

        Args:
            rows: uint8 [..., row_bytes], as gathered with dtype="raw": a numpy array, or a torch
                tensor on any device
            dtype: float32 (default), float16 or bfloat16, in a form of `rung.open()`

        Returns:
            Values [..., columns], an array of the type and on the device of `rows`. Values beyond
            the range of `dtype` are infinite; numpy has bfloat16 as two bytes of void.

        Raises:
            InvalidError: `rows` or `dtype` is unsuitable.
        """
        wanted = gather_dtype(dtype) or BY_NAME["f32"]
        if wanted.name not in _FLOATS:
            raise InvalidError(f"dtype={dtype!r}: not a type of values; use float16, bfloat16 or "
                               "float32")
        torch = torch_of(rows)
        if torch is None and not isinstance(rows, np.ndarray):
            raise InvalidError(f"rows: has type {type(rows).__name__}; use a torch tensor or a "
                               "numpy array")
        if (rows.dtype != (torch or np).uint8 or not rows.shape
                or rows.shape[-1] != self.row_bytes):
            raise InvalidError(f"rows {list(rows.shape)} {rows.dtype}: not stored rows; use uint8 "
                               f"[..., {self.row_bytes}], as gathered with dtype='raw'")
        return (self._array(rows, wanted) if torch is None
                else self._tensor(torch, rows, wanted))

    def _array(self, rows: npt.NDArray[np.uint8], dtype: DType) -> npt.NDArray[Any]:
        codes, scale = rows, self.column_scales
        if scale is None:
            scale = np.ascontiguousarray(rows[..., :_SCALE_BYTES]).view(np.float32)
            codes = rows[..., _SCALE_BYTES:]
        if self.format == "int4":
            codes = np.stack((codes & 15, codes >> 4), -1)
            codes = codes.reshape((*codes.shape[:-2], 2 * codes.shape[-2]))
        values: npt.NDArray[Any] = _numbers(self.format)[codes[..., : self.columns]] * scale
        if dtype.name == "bf16":
            bits: npt.NDArray[Any] = values.view(np.uint32)
            values = ((bits + (bits >> 16 & 1) + 0x7fff) >> 16).astype(np.uint16)
        with np.errstate(over="ignore"):
            return (values.view(numpy_dtype(dtype)) if dtype.name == "bf16"
                    else values.astype(numpy_dtype(dtype), copy=False))

    def _tensor(self, torch: Any, rows: Any, dtype: DType) -> Any:
        codes = rows
        if self.column_scales is None:
            # a copy, because float32 needs alignment
            scale = rows[..., :_SCALE_BYTES].clone(memory_format=torch.contiguous_format)
            scale = scale.view(torch.float32)
            codes = rows[..., _SCALE_BYTES:]
        else:
            scale = torch.from_numpy(self.column_scales).to(rows.device)
        if self.format == "int4":
            codes = torch.stack((codes & 15, codes >> 4), -1).flatten(-2)
        numbers = torch.from_numpy(_numbers(self.format)).to(rows.device)
        values = numbers[codes[..., : self.columns].long()] * scale
        return values.to(torch_dtype(dtype))


@functools.cache
def _numbers(form: str) -> npt.NDArray[np.float32]:
    """Return the number of each code, [256]; for int4 [16]."""
    codes = np.arange(16 if form == "int4" else 256)
    if form != "fp8":
        half = len(codes) // 2
        return ((codes ^ half) - half).astype(np.float32)
    exponents, mantissas = codes >> 3 & 15, codes & 7
    numbers = np.where(exponents, np.ldexp(8.0 + mantissas, exponents - 10),
                       np.ldexp(1.0 * mantissas, -9))
    signed: npt.NDArray[np.float64] = np.copysign(numbers, 64 - (codes & 128))
    return signed.astype(np.float32)


def quantization_of(found: Any) -> Quantization | None:
    """Return a struct of the library as a `Quantization`; None if rows are not quantized."""
    if not found.format:
        return None
    scales = (np.array(found.column_scales[: found.columns], np.float32) if found.column_scales
              else None)
    return Quantization(QUANT_FORMATS[found.format], QUANT_SCALES[found.scales], found.columns,
                        found.row_bytes, scales)


class Rows:
    """Attributes of an open store, which `rung.Store` describes."""

    shape: tuple[int, ...]
    dtype: DType
    row_bytes: int
    stored_row_bytes: int
    quantization: Quantization | None
    path: str
    gpu: int
    device: str

    def _describe(self, memory: Owned) -> None:
        info = c.rung_store_info()
        check(lib.rung_store_info(memory, byref(info)))
        self.shape = tuple(info.features.dims[: info.features.dim_count])
        self.dtype = BY_CODE[info.features.dtype]
        self.row_bytes = info.features.row_bytes
        self.quantization = quantization_of(info.quantization)
        self.stored_row_bytes = (self.row_bytes if self.quantization is None
                                 else self.quantization.row_bytes)
        self.path = text(info.dataset_dir)
        self.gpu = info.gpu
        self.device = "cpu" if info.device == 0 else f"cuda:{info.gpu}"

    def _features(self) -> str:
        stored = f" from {self.quantization.format}" if self.quantization is not None else ""
        return f"{list(self.shape)} {self.dtype.name}{stored}"

    @property
    def ndim(self) -> int:
        """Number of dimensions: 1 for the vertices, and those of a row."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Size of all gathered rows."""
        return len(self) * self.row_bytes

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of gathered rows in numpy; bf16 is two bytes of void."""
        return numpy_dtype(self.dtype)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of gathered rows in torch. Raises LibraryError if torch is not installed."""
        return torch_dtype(self.dtype)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a gathered row."""
        return self.shape[1:]

    def __len__(self) -> int:
        return self.shape[0]

# SPDX-License-Identifier: Apache-2.0
"""Arrays that rung hands out and takes, exchanged by DLPack (github.com/dmlc/dlpack, versions 0 and 1) without a copy and without torch's ABI."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from typing import Any

import numpy as np

from .dtypes import BY_DLPACK, DType
from .errors import InvalidError

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13   # DLDeviceType
HOST_READABLE = (CPU, CUDA_HOST, CUDA_MANAGED)
_READ_ONLY = 1   # flag of the versioned form


class _Tensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("dtype_code", c_uint8),
                ("dtype_bits", c_uint8), ("dtype_lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class _Managed(Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _Versioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64), ("tensor", _Tensor)]


# names of a capsule, unused and used: it keeps their address, so they have to stay
_FORMS = ((b"dltensor_versioned", b"used_dltensor_versioned", _Versioned), (b"dltensor", b"used_dltensor", _Managed))

_Deleter = CFUNCTYPE(None, c_void_p)
_capsule_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_valid.restype, _capsule_valid.argtypes = ctypes.c_int, [py_object, c_char_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, [py_object, c_char_p]
_capsule_rename = ctypes.pythonapi.PyCapsule_SetName
_capsule_rename.restype, _capsule_rename.argtypes = ctypes.c_int, [py_object, c_char_p]


def _capsule_of(source: Any, versioned: bool) -> Any:
    if versioned:
        try:
            return source.__dlpack__(max_version=(1, 0))
        except TypeError:   # from before versions
            pass
    return source.__dlpack__()


def _managed_of(capsule: Any, source: Any) -> tuple[Any, int, bytes]:
    """What an unused capsule holds, its address, and the name of a used one."""
    for name, used, form in _FORMS:
        if _capsule_valid(capsule, name):
            address = _capsule_pointer(capsule, name)
            return form.from_address(address), address, used
    raise InvalidError(f"__dlpack__() of {type(source).__name__} did not give an unused DLPack capsule")


class _Memory:
    """Memory at an address, as numpy takes it."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, data: int, shape: tuple[int, ...], descr: str, owner: Any):
        self.__array_interface__ = {"data": (data, False), "shape": shape, "typestr": descr, "version": 3}
        self._owner = owner


class Array:
    """An array in memory that rung holds: C order, on the host or a GPU.

    `numpy()` and `torch()` give it without a copy; so does any library's `from_dlpack()`. The memory goes back to rung when
    neither this nor what was made of it is left.

    Attributes: `shape`, `dtype` (a `rung.DType`), `device` ("cpu" or "cuda:N"), `data` (address), `nbytes`.
    """

    __slots__ = ("shape", "dtype", "data", "_device", "_owner", "__weakref__")

    def __init__(self, data: int, shape: tuple[int, ...], dtype: DType, owner: Any, device: tuple[int, int] = (CPU, 0)):
        self.data = data
        self.shape = shape
        self.dtype = dtype
        self._owner = owner   # kept for as long as the memory is
        self._device = device

    @property
    def device(self) -> str:
        return "cpu" if self._device[0] in HOST_READABLE else f"cuda:{self._device[1]}"

    @property
    def nbytes(self) -> int:
        size = self.dtype.dlpack[1] // 8
        for length in self.shape:
            size *= length
        return size

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"rung.Array(shape={self.shape}, dtype={self.dtype.name}, device={self.device})"

    def view(self, dtype: DType) -> Array:
        """The same memory as elements of another type of the same width."""
        if dtype.dlpack[1] != self.dtype.dlpack[1]:
            raise InvalidError(f"a view of {self.dtype.name} as {dtype.name}: they are not of the same width")
        return Array(self.data, self.shape, dtype, self._owner, self._device)

    def numpy(self) -> np.ndarray:
        """As a numpy array, without a copy; bf16 as two bytes of void. Of memory that a GPU has: InvalidError."""
        if self._device[0] not in HOST_READABLE:
            raise InvalidError(f"rows are on {self.device}: numpy reads host memory; use torch()")
        return self._as(self.dtype.numpy)

    def _as(self, descr: str) -> np.ndarray:   # numpy reads nothing of it here
        return np.asarray(_Memory(self.data, self.shape, descr, self)) if 0 not in self.shape else np.empty(self.shape, descr)

    def torch(self):
        """As a torch tensor, without a copy."""
        import torch

        if 0 in self.shape:
            return torch.empty(self.shape, dtype=getattr(torch, self.dtype.torch), device=self.device)
        return torch.from_dlpack(self)

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"{self.dtype.name} as {np.dtype(dtype)} is a copy, and copy=False")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule, versioned (1.0) where `max_version` allows it. Rows are complete by then: `stream` needs no waiting."""
        del stream
        if dl_device is not None and tuple(dl_device) != self._device:
            raise BufferError(f"the array is on device {self._device}, not {tuple(dl_device)}: copy it there first")
        if copy:
            raise BufferError("the array is not copied here: take it as it is and copy that")
        # The capsule is numpy's: what runs when it dies is in C, and may run while an exception is on its way, without the GIL, and when
        # the interpreter has ended. numpy has no bf16 and knows no GPUs: these are put in afterwards, and it reads none of the memory.
        code, bits = self.dtype.dlpack
        capsule = _capsule_of(self._as("|u1" if bits == 8 else f"<u{bits // 8}"), max_version is not None and max_version[0] >= 1)
        tensor = _managed_of(capsule, self)[0].tensor
        tensor.dtype_code = code
        tensor.device_type, tensor.device_id = self._device
        if 0 in self.shape:
            tensor.data = None
        return capsule


class Foreign:
    """Memory of another library, taken by DLPack; given back when this goes.

    Attributes: `data` (address), `shape`, `strides` (elements), `dtype` (a `rung.DType` or None), `device` (type, number), `read_only`.
    """

    __slots__ = ("data", "shape", "strides", "dtype", "device", "read_only", "_address", "_deleter")

    def __init__(self, source: Any):
        self._deleter = None
        capsule = _capsule_of(source, True)
        managed, self._address, used = _managed_of(capsule, source)
        versioned = isinstance(managed, _Versioned)
        if versioned and managed.major != 1:
            raise InvalidError(f"DLPack {managed.major}.{managed.minor}: versions 0 and 1 are understood")
        tensor = managed.tensor
        _capsule_rename(capsule, used)
        self._deleter = managed.deleter
        self.data = (tensor.data or 0) + tensor.byte_offset
        self.shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
        if tensor.strides:
            self.strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim))
        else:
            self.strides, step = (), 1
            for length in reversed(self.shape):
                self.strides = (step, *self.strides)
                step *= length
        self.dtype = BY_DLPACK.get((tensor.dtype_code, tensor.dtype_bits)) if tensor.dtype_lanes == 1 else None
        self.device = (tensor.device_type, tensor.device_id)
        self.read_only = bool(versioned and managed.flags & _READ_ONLY)

    @property
    def contiguous(self) -> bool:
        """Whether it is in C order without gaps."""
        if 0 in self.shape:
            return True
        step = 1
        for length, stride in zip(reversed(self.shape), reversed(self.strides)):
            if length != 1 and stride != step:
                return False
            step *= length
        return True

    def __del__(self):
        if self._deleter:
            _Deleter(self._deleter)(self._address)
            self._deleter = None

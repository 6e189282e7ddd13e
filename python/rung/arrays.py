# SPDX-License-Identifier: Apache-2.0
"""Arrays that rung hands out and takes, exchanged by DLPack (github.com/dmlc/dlpack, versions 0 and
1) without a copy and without torch's ABI."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import (POINTER, PYFUNCTYPE, Structure, c_char_p, c_int, c_int32, c_int64, c_uint8,
                    c_uint16, c_uint32, c_uint64, c_void_p, py_object, pythonapi)
from functools import partial
from math import prod
from operator import attrgetter
from typing import Any, Optional

import numpy as np

from .dtypes import BY_DLPACK, DType
from .errors import InvalidError, NotSupportedError

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13   # DLDeviceType
HOST_READABLE = (CPU, CUDA_HOST, CUDA_MANAGED)
_READ_ONLY = 1   # flag of the versioned form


class _Tensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("dtype_code", c_uint8),
                ("dtype_bits", c_uint8), ("dtype_lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class _Managed(Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _Versioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p),
                ("deleter", c_void_p), ("flags", c_uint64), ("tensor", _Tensor)]


# names of a capsule, unused and used: it keeps their address, so they have to stay
_FORMS = ((b"dltensor_versioned", b"used_dltensor_versioned", _Versioned),
          (b"dltensor", b"used_dltensor", _Managed))

_int_call = PYFUNCTYPE(c_int, py_object, c_char_p)
_pointer_call = PYFUNCTYPE(c_void_p, py_object, c_char_p)
_capsule_valid = _int_call(("PyCapsule_IsValid", pythonapi))
_capsule_pointer = _pointer_call(("PyCapsule_GetPointer", pythonapi))
_capsule_rename = _int_call(("PyCapsule_SetName", pythonapi))


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of an array in C order without gaps."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def device_name(device: tuple[int, int]) -> str:
    """Of a device of DLPack."""
    if device[0] in HOST_READABLE:
        return "cpu"
    return f"cuda:{device[1]}" if device[0] == CUDA else f"device {device} of DLPack"


def _capsule_of(source: Any, versioned: bool, **options: Any) -> Any:
    if versioned:
        try:
            return source.__dlpack__(max_version=(1, 0), **options)
        except TypeError:   # from before versions
            pass
    return source.__dlpack__(**options)


def _consumer(stream: Any) -> Optional[int]:
    """The handle of __dlpack__()'s `stream`, of a CUDA array; None: no stream is to wait."""
    if stream is None:
        return 1
    if not isinstance(stream, int) or isinstance(stream, bool):
        raise TypeError(f"stream={stream!r}: give the handle of a CUDA stream, -1 or None")
    if stream == 0 or stream < -1:
        raise BufferError(f"stream={stream}: not a CUDA stream of DLPack; give 1 (the default "
                          "stream), 2 (the thread's), a handle, or -1 (none waits)")
    return None if stream == -1 else stream


def _managed_of(capsule: Any, source: Any) -> tuple[Any, bytes, bytes]:
    """What an unused capsule holds, its name, and that of a used one."""
    for name, used, form in _FORMS:
        if _capsule_valid(capsule, name):
            return form.from_address(_capsule_pointer(capsule, name)), name, used
    raise InvalidError(f"__dlpack__() of {type(source).__name__} did not give an unused DLPack "
                       "capsule")


class _Memory:
    """Memory at an address, as numpy takes it."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, data: int, shape: tuple[int, ...], descr: str, owner: Any):
        self.__array_interface__ = {"data": (data, False), "shape": shape, "typestr": descr,
                                    "version": 3}
        self._owner = owner


class Array:
    """An array in memory that rung holds: C order, on the host or a GPU.

    `numpy()` and `torch()` give it without a copy; so does any library's `from_dlpack()`. The
    memory goes back to rung when neither this nor what was made of it is left.

    Attributes: `shape`, `dtype` (a `rung.DType`), `device` ("cpu" or "cuda:N"), `data` (address),
    `nbytes`; `ready`, on a GPU: `ready(handle)` lets a CUDA stream wait for the memory's writers;
    None: it has been written.
    """

    __slots__ = ("shape", "dtype", "data", "ready", "_device", "_owner", "__weakref__")

    def __init__(self, data: int, shape: tuple[int, ...], dtype: DType, owner: Any,
                 device: tuple[int, int] = (CPU, 0),
                 ready: Optional[Callable[[int], Any]] = None):
        self.data = data
        self.ready = ready
        self.shape = shape
        self.dtype = dtype
        self._owner = owner   # kept for as long as the memory is
        self._device = device

    @property
    def device(self) -> str:
        return device_name(self._device)

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * (self.dtype.dlpack[1] // 8)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"rung.Array(shape={self.shape}, dtype={self.dtype.name}, device={self.device})"

    def __reduce__(self):
        raise NotSupportedError("pickle: rung.Array is memory of this process; "
                                "pickle its numpy() or torch()")

    def view(self, dtype: DType) -> Array:
        """The same memory as elements of another type of the same width."""
        if dtype.dlpack[1] != self.dtype.dlpack[1]:
            raise InvalidError(f"a view of {self.dtype.name} as {dtype.name}: they are not of the "
                               "same width")
        return Array(self.data, self.shape, dtype, self._owner, self._device, self.ready)

    def numpy(self) -> np.ndarray:
        """As a numpy array, without a copy; bf16 as two bytes of void. InvalidError for GPU
        memory."""
        if self._device[0] not in HOST_READABLE:
            raise InvalidError(f"rows are on {self.device}: numpy reads host memory; use torch()")
        return self._as(self.dtype.numpy)

    def _as(self, descr: str) -> np.ndarray:   # numpy reads nothing of it here
        return (np.asarray(_Memory(self.data, self.shape, descr, self)) if 0 not in self.shape
                else np.empty(self.shape, descr))

    def torch(self):
        """As a torch tensor, without a copy."""
        import torch

        if 0 in self.shape:
            return torch.empty(self.shape, dtype=getattr(torch, self.dtype.torch),
                               device=self.device)
        return torch.from_dlpack(self)

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"{self.dtype.name} as {np.dtype(dtype)} is a copy, and "
                                 "copy=False")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule, versioned (1.0) where `max_version` allows it.

        Args:
            stream: of an array on a GPU: work put on it from now on finds the memory written.
                The handle of a CUDA stream; 1 or None: the default stream, 2: the thread's, -1: the
                caller waits by other means. Ignored for host memory
        """
        consumer = _consumer(stream) if self._device[0] == CUDA else None
        if dl_device is not None and tuple(dl_device) != self._device:
            raise BufferError(f"the array is on device {self._device}, not {tuple(dl_device)}: "
                              "copy it there first")
        if copy:
            raise BufferError("the array is not copied here: take it as it is and copy that")
        # The capsule is numpy's: what runs when it dies is in C, and may run while an exception is
        # on its way, without the GIL, and when
        # the interpreter has ended. numpy has no bf16 and knows no GPUs: these are put in
        # afterwards, and it reads none of the memory.
        code, bits = self.dtype.dlpack
        if consumer is not None and self.ready is not None:
            self.ready(consumer)
        capsule = _capsule_of(self._as("|u1" if bits == 8 else f"<u{bits // 8}"),
                              max_version is not None and max_version[0] >= 1)
        tensor = _managed_of(capsule, self)[0].tensor
        tensor.dtype_code = code
        tensor.device_type, tensor.device_id = self._device
        if 0 in self.shape:
            tensor.data = None
        return capsule


class Foreign:
    """Memory of another library, borrowed through DLPack until this object is deleted.

    Attributes: `data` (address), `shape`, `strides` (elements), `dtype` (a `rung.DType` or None),
    `device` (type, number), `read_only`.

    Args:
        stream: handle of a CUDA stream, for GPU memory: later work on it waits for the work
            of the other library. None: the default stream
    """

    _unuse: Callable[[], Any] = staticmethod(list)
    __del__ = property(attrgetter("_unuse"))   # no bytecode: see rung.owned

    def __init__(self, source: Any, stream: Optional[int] = None):
        # The device first: of other devices than CUDA numpy and others take no stream.
        device = source.__dlpack_device__() if hasattr(source, "__dlpack_device__") else (CPU, 0)
        options = {"stream": stream} if stream is not None and device[0] == CUDA else {}
        capsule = self._capsule = _capsule_of(source, True, **options)
        managed, unused, used = _managed_of(capsule, source)
        versioned = isinstance(managed, _Versioned)
        if versioned and managed.major != 1:
            raise InvalidError(f"DLPack {managed.major}.{managed.minor}: versions 0 and 1 are "
                               "understood")
        tensor = managed.tensor
        # used, for others; a capsule that dies unused gives the memory back
        self._unuse = partial(_capsule_rename, capsule, unused)
        _capsule_rename(capsule, used)
        self.data = (tensor.data or 0) + tensor.byte_offset
        self.shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
        strides = tensor.strides or _packed(self.shape)
        self.strides = tuple(strides[axis] for axis in range(tensor.ndim))
        self.dtype = BY_DLPACK.get((tensor.dtype_code,
                                    tensor.dtype_bits)) if tensor.dtype_lanes == 1 else None
        self.device = (tensor.device_type, tensor.device_id)
        if self.device[0] == CUDA != device[0]:
            raise InvalidError(f"{type(source).__name__} on {device_name(self.device)}: has no "
                               "__dlpack_device__(), so no stream can wait for it; add one")
        self.read_only = bool(versioned and managed.flags & _READ_ONLY)

    @property
    def contiguous(self) -> bool:
        """Whether it is in C order without gaps."""
        strides = zip(self.shape, self.strides, _packed(self.shape))
        return 0 in self.shape or all(length == 1 or stride == packed
                                      for length, stride, packed in strides)

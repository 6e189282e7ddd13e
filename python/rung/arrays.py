# SPDX-License-Identifier: Apache-2.0
"""Arrays of rung and of other libraries, exchanged through DLPack without a copy.

DLPack (github.com/dmlc/dlpack, versions 0 and 1) makes rung independent of torch's ABI.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import (
    POINTER,
    PYFUNCTYPE,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
    pythonapi,
)
from functools import partial
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from .dtypes import BY_DLPACK, DType, torch_dtype
from .errors import InvalidError, NotSupportedError

if TYPE_CHECKING:
    import torch

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13   # DLDeviceType
HOST_READABLE = (CPU, CUDA_HOST, CUDA_MANAGED)
_READ_ONLY = 1   # DLPACK_FLAG_BITMASK_READ_ONLY, in the versioned form only


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


# Names of a capsule before and after use. A capsule stores only the address of its name, so these
# objects must live as long as the process.
_FORMS = ((b"dltensor_versioned", b"used_dltensor_versioned", _Versioned),
          (b"dltensor", b"used_dltensor", _Managed))

# PYFUNCTYPE keeps the GIL, which the capsule functions need.
_int_call = PYFUNCTYPE(c_int, py_object, c_char_p)
_pointer_call = PYFUNCTYPE(c_void_p, py_object, c_char_p)
_capsule_valid = _int_call(("PyCapsule_IsValid", pythonapi))
_capsule_pointer = _pointer_call(("PyCapsule_GetPointer", pythonapi))
_capsule_rename = _int_call(("PyCapsule_SetName", pythonapi))


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of a contiguous array in C order."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def device_name(device: tuple[int, int]) -> str:
    """Return the name of a DLPack device (type, number): "cpu", "cuda:N" or a description."""
    if device[0] in HOST_READABLE:
        return "cpu"
    return f"cuda:{device[1]}" if device[0] == CUDA else f"device {device} of DLPack"


def _capsule_of(source: Any, versioned: bool, **options: Any) -> Any:
    if versioned:
        try:
            return source.__dlpack__(max_version=(1, 0), **options)
        except TypeError:   # a library that predates versioned capsules
            pass
    return source.__dlpack__(**options)


def _consumer(stream: Any) -> int | None:
    """Return the handle of the CUDA stream that must wait; None: no stream waits.

    Args:
        stream: argument of `__dlpack__()`
    """
    if stream is None:
        return 1   # DLPack: the legacy default stream
    if not isinstance(stream, int) or isinstance(stream, bool):
        raise TypeError(f"stream={stream!r}: not a CUDA stream; use its handle, -1 or None")
    # DLPack forbids 0: it could be the legacy or the per-thread default stream.
    if stream == 0 or stream < -1:
        raise BufferError(f"stream={stream}: not a CUDA stream in DLPack; use 1 (default stream), "
                          "2 (per thread), a handle, or -1 (no wait)")
    return None if stream == -1 else stream


def _managed_of(capsule: Any, source: Any) -> tuple[Any, bytes, bytes]:
    """Return the struct in an unused capsule, the capsule's name, and its name after use."""
    for name, used, form in _FORMS:
        if _capsule_valid(capsule, name):
            return form.from_address(_capsule_pointer(capsule, name)), name, used
    raise InvalidError(f"{type(source).__name__}.__dlpack__(): did not return an unused DLPack "
                       "capsule")


MYPY = False   # mypy reads it as True
if MYPY:
    # Without numpy's arrays, which have no hash: they must not match the overloads for other
    # libraries as well as those for numpy. mypy would then infer Any if part of their type is Any.
    from collections.abc import Hashable as _NotNumpy  # pyright: ignore[reportAssignmentType]
else:
    class _NotNumpy(Protocol):
        """Any array: other checkers use the first overload that matches."""


class SupportsDLPack(_NotNumpy, Protocol):
    """An array of any library that exports its memory through DLPack."""

    def __dlpack__(self) -> Any: ...


class _Memory:
    """Memory at an address, in the form that numpy accepts."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, data: int, shape: tuple[int, ...], descr: str, owner: Any) -> None:
        self.__array_interface__ = {"data": (data, False), "shape": shape, "typestr": descr,
                                    "version": 3}
        self._owner = owner   # numpy's array refers to this object, and so to the owner


class Array:
    """An array in memory that rung owns: contiguous, in C order, on the host or a GPU.

    `numpy()`, `torch()` and any library's `from_dlpack()` return it without a copy. rung reuses or
    frees the memory when this object and all arrays created from it are gone.

    Attributes:
        shape: tuple of ints
        dtype: a `rung.DType`
        device: "cpu" or "cuda:N"
        data: address
        nbytes: size in bytes
        ready: for memory of a GPU: `ready(handle)` makes a CUDA stream wait until the memory has
            been written; None: it has been written already
    """

    __slots__ = ("shape", "dtype", "data", "ready", "_device", "_owner", "__weakref__")

    def __init__(self, data: int, shape: tuple[int, ...], dtype: DType, owner: Any,
                 device: tuple[int, int] = (CPU, 0),
                 ready: Callable[[int], Any] | None = None) -> None:
        self.data: int = data
        self.ready: Callable[[int], Any] | None = ready
        self.shape: tuple[int, ...] = shape
        self.dtype: DType = dtype
        self._owner = owner   # keeps the memory alive
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

    def __reduce__(self) -> NoReturn:
        raise NotSupportedError("pickle: a rung.Array refers to memory of this process; "
                                "pickle its numpy() or torch()")

    def view(self, dtype: DType) -> Array:
        """Return the same memory as elements of another type.

        Args:
            dtype: type with elements of the same width

        Raises:
            InvalidError: the widths differ.
        """
        if dtype.dlpack[1] != self.dtype.dlpack[1]:
            raise InvalidError(f"view of {self.dtype.name} as {dtype.name}: the widths differ; "
                               f"use a type of {self.dtype.dlpack[1]} bits")
        return Array(self.data, self.shape, dtype, self._owner, self._device, self.ready)

    def numpy(self) -> npt.NDArray[Any]:
        """Return the array as numpy, without a copy; bf16 as two bytes of void.

        Raises:
            InvalidError: the memory is on a GPU.
        """
        if self._device[0] not in HOST_READABLE:
            raise InvalidError(f"rows are on {self.device}: numpy reads host memory; use torch()")
        return self._as(self.dtype.numpy)

    def _as(self, descr: str) -> npt.NDArray[Any]:   # reads no element: the memory may be on a GPU
        return (np.asarray(_Memory(self.data, self.shape, descr, self)) if 0 not in self.shape
                else np.empty(self.shape, descr))

    def torch(self) -> torch.Tensor:
        """Return the array as a torch tensor, without a copy."""
        import torch

        if 0 in self.shape:
            return torch.empty(self.shape, dtype=torch_dtype(self.dtype), device=self.device)
        try:
            # not in the types of older torch
            tensor: torch.Tensor = sys.modules["torch"].from_dlpack(self)
        except RuntimeError:
            torch_dtype(self.dtype)   # raises if this torch lacks the type
            raise
        return tensor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"dtype={np.dtype(dtype)}: converting {self.dtype.name} needs a "
                                 "copy; leave out copy=False")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, *, stream: int | None = None,
                   max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """Return a DLPack capsule, versioned (1.0) if `max_version` allows it.

        Args:
            stream: handle of the CUDA stream on which a GPU array will be read: work queued on it
                from now on finds the memory written. 1 or None: the default stream, 2: the
                per-thread default stream, -1: the caller waits by other means. Ignored for host
                memory
            max_version: highest DLPack version that the caller reads, (major, minor)
            dl_device: must be the array's device, or None
            copy: must be false: the memory is never copied

        Raises:
            BufferError: another device, a copy, or an invalid stream.
            TypeError: `stream` is not an integer.
        """
        consumer = _consumer(stream) if self._device[0] == CUDA else None
        if dl_device is not None and tuple(dl_device) != self._device:
            raise BufferError(f"dl_device={tuple(dl_device)}: the array is on device "
                              f"{self._device}; copy it first")
        if copy:
            raise BufferError("copy=True: __dlpack__() does not copy; import without a copy, and "
                              "copy the result")
        # numpy creates the capsule, because its deleter is C code: it may run while an exception
        # propagates, without the GIL, and after the interpreter has ended. numpy has no bf16 and
        # does not support GPUs, so the element type and the device are written into the capsule
        # afterwards. numpy reads none of the memory.
        code, bits = self.dtype.dlpack
        if consumer is not None and self.ready is not None:
            self.ready(consumer)
        capsule = _capsule_of(self._as("|u1" if bits == 8 else f"<u{bits // 8}"),
                              max_version is not None and max_version[0] >= 1)
        tensor = _managed_of(capsule, self)[0].tensor
        tensor.dtype_code = code
        tensor.device_type, tensor.device_id = self._device
        if 0 in self.shape:   # numpy's address of an empty array, which is not on the device
            tensor.data = None
        return capsule


class Foreign:
    """Memory of another library, borrowed through DLPack until this object is deleted.

    Attributes:
        data: address of the first element
        shape, strides: tuples of ints; strides in elements
        dtype: a `rung.DType`; None: a type that rung does not support
        device: DLPack device (type, number)
        read_only: whether the memory must not be written to

    Args:
        source: object with `__dlpack__()`
        stream: handle of a CUDA stream, for GPU memory: later work on it waits for the work
            of the other library. None: the default stream

    Raises:
        InvalidError: no unused capsule, a DLPack version other than 0 and 1, or GPU memory for
            which no stream can wait.
    """

    _unuse: Callable[[], Any] = staticmethod(list)
    __del__: Any = property(attrgetter("_unuse"))   # runs no bytecode, see rung.owned

    def __init__(self, source: Any, stream: int | None = None) -> None:
        # The device is read first: numpy and others refuse a stream for any device but CUDA.
        device = source.__dlpack_device__() if hasattr(source, "__dlpack_device__") else (CPU, 0)
        options = {"stream": stream} if stream is not None and device[0] == CUDA else {}
        capsule = self._capsule = _capsule_of(source, True, **options)
        managed, unused, used = _managed_of(capsule, source)
        versioned = isinstance(managed, _Versioned)
        if versioned and managed.major != 1:
            raise InvalidError(f"DLPack {managed.major}.{managed.minor}: unsupported version; use "
                               "version 0 or 1")
        tensor = managed.tensor
        # Renaming marks the capsule as used, so that nothing else borrows it. It gets its old name
        # when this object dies: the deleter of an unused capsule releases the memory. The rename is
        # prepared before the capsule is marked, so that no exception can come between.
        self._unuse = partial(_capsule_rename, capsule, unused)
        _capsule_rename(capsule, used)
        self.data: int = (tensor.data or 0) + tensor.byte_offset
        self.shape: tuple[int, ...] = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
        strides = tensor.strides or _packed(self.shape)
        self.strides: tuple[int, ...] = tuple(strides[axis] for axis in range(tensor.ndim))
        self.dtype: DType | None = (BY_DLPACK.get((tensor.dtype_code, tensor.dtype_bits))
                                    if tensor.dtype_lanes == 1 else None)
        self.device: tuple[int, int] = (tensor.device_type, tensor.device_id)
        if self.device[0] == CUDA != device[0]:
            raise InvalidError(f"{type(source).__name__} on {device_name(self.device)}: no stream "
                               "can wait for it without __dlpack_device__(); add that method")
        self.read_only: bool = bool(versioned and managed.flags & _READ_ONLY)

    @property
    def contiguous(self) -> bool:
        """Whether the memory is in C order without gaps."""
        strides = zip(self.shape, self.strides, _packed(self.shape))
        return 0 in self.shape or all(length == 1 or stride == packed
                                      for length, stride, packed in strides)

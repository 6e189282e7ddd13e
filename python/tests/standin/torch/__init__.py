# SPDX-License-Identifier: Apache-2.0
"""A stand-in for torch with CUDA: streams and memory of simulated GPUs.

It has the part of torch that rung uses, with its documented semantics: the default stream has
handle 0, each thread has a current stream, freed memory is reused in the order of the stream that
it was allocated on, and `record_stream()` keeps memory for other streams. Only test programs import
it, because their PYTHONPATH contains its folder. Torch has no function like `cuda.hold()`.
"""

import ctypes
from ctypes import byref, c_size_t, c_uint, c_void_p

import numpy as np

from . import cuda, distributed  # noqa: F401
from ._base import asked, call, device

_DEFAULT_KIND = 4


class dtype:
    def __init__(self, name, numpy):
        self.name, self.numpy = name, np.dtype(numpy)

    def __repr__(self):
        return "torch." + self.name


_BY_NUMPY = {}
for _name in (
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "uint16",
    "uint32",
    "uint64",
):
    globals()[_name] = dtype(_name, _name)
    _BY_NUMPY[np.dtype(_name)] = globals()[_name]
bfloat16 = dtype("bfloat16", "|V2")
_BY_NUMPY[bfloat16.numpy] = bfloat16
strided = "torch.strided"
Size = tuple


def _pinned(array):
    """Return a copy in pinned memory, from which CUDA copies asynchronously; never freed."""
    address = asked("cudaHostAlloc", c_void_p, c_size_t(max(array.nbytes, 1)), c_uint(0))
    copy = np.frombuffer((ctypes.c_char * array.nbytes).from_address(address), array.dtype).reshape(
        array.shape
    )
    copy[...] = array
    return copy


# ---- tensors ----


class Tensor:
    layout = strided

    def __init__(
        self, dtype, device, shape, strides, address, keeps
    ):  # pylint: disable=redefined-outer-name
        self.dtype, self.device, self.shape = dtype, device, tuple(shape)
        self._strides, self._address, self._keeps = tuple(strides), address, keeps

    is_cuda = property(lambda self: self.device.type == "cuda")
    is_cpu = property(lambda self: self.device.type == "cpu")

    def pin_memory(self):
        return from_numpy(_pinned(self.numpy()))

    def is_pinned(self):
        kind = (ctypes.c_int * 32)()   # cudaPointerAttributes; the first field is the type
        call("cudaPointerGetAttributes", byref(kind), c_void_p(self._address))
        return self.is_cpu and kind[0] == 1

    def __len__(self):
        return self.shape[0]

    def dim(self):
        return len(self.shape)

    def data_ptr(self):
        return self._address

    def is_contiguous(self):
        return self._strides == _dense(self.shape) or 0 in self.shape

    def contiguous(self):
        return self if self.is_contiguous() else self.clone()

    def clone(self):
        return empty(self.shape, dtype=self.dtype, device=self.device).copy_(self)

    @property
    def nbytes(self):
        return int(np.prod(self.shape, dtype=int)) * self.dtype.numpy.itemsize

    def copy_(self, other):
        """Copy on the current stream of the GPU; wait for copies from pageable host memory."""
        assert self.shape == other.shape and self.dtype is other.dtype and self.is_contiguous()
        width = self.dtype.numpy.itemsize
        if self.is_cpu and other.is_cpu:
            self.numpy()[...] = other.numpy()
            return self
        there = self if self.is_cuda else other
        source = (
            other if other.is_cuda else from_numpy(_pinned(np.ascontiguousarray(other.numpy())))
        )
        stream, step = cuda.current_stream(there.device), (
            1 if source.is_contiguous() else source._strides[0]
        )
        host = None if self.is_cuda else _pinned(np.zeros(self.shape, self.dtype.numpy))
        to = self._address if host is None else host.ctypes.data
        assert step == 1 or source.dim() == 1
        with cuda.device(there.device.index):
            if step == 1:
                call(
                    "cudaMemcpyAsync",
                    c_void_p(to),
                    c_void_p(source._address),
                    c_size_t(self.nbytes),
                    _DEFAULT_KIND,
                    c_void_p(stream.cuda_stream),
                )
            else:
                call(
                    "cudaMemcpy2DAsync",
                    c_void_p(to),
                    c_size_t(width),
                    c_void_p(source._address),
                    c_size_t(step * width),
                    c_size_t(width),
                    c_size_t(len(self)),
                    _DEFAULT_KIND,
                    c_void_p(stream.cuda_stream),
                )
        if other.is_cpu or self.is_cpu:
            stream.synchronize()
        if host is not None:
            self.numpy()[...] = host
        return self

    def to(self, given, non_blocking=False):
        wanted = device(given)
        return (
            self
            if wanted == self.device
            else empty(self.shape, dtype=self.dtype, device=wanted).copy_(self.contiguous())
        )

    def cpu(self):
        return self.to("cpu")

    def numpy(self):
        assert self.is_cpu, "numpy() was called on a tensor on a GPU"
        return self._keeps if isinstance(self._keeps, np.ndarray) else _host_view(self)

    def tolist(self):
        return self.cpu().numpy().tolist()

    def nonzero(self):
        return from_numpy(np.argwhere(self.cpu().numpy())).to(self.device)

    def __lt__(self, number):
        return from_numpy(self.cpu().numpy() < number).to(self.device)

    def any(self):
        return self.cpu().numpy().any()

    def flatten(self):
        return Tensor(
            self.dtype,
            self.device,
            (int(np.prod(self.shape, dtype=int)),),
            (1,),
            self._address,
            self._keeps,
        )

    def __getitem__(self, at):
        """Return a view, like numpy."""
        width = self.dtype.numpy.itemsize
        shadow = np.lib.stride_tricks.as_strided(
            np.empty(1, self.dtype.numpy), self.shape, [step * width for step in self._strides]
        )
        found = shadow[at]
        offset = found.__array_interface__["data"][0] - shadow.__array_interface__["data"][0]
        return Tensor(
            self.dtype,
            self.device,
            found.shape,
            [step // width for step in found.strides],
            self._address + offset,
            self._keeps,
        )

    def record_stream(self, stream):
        if (
            isinstance(self._keeps, cuda.Storage)
            and stream.cuda_stream != self._keeps.block.stream.cuda_stream
        ):
            self._keeps.block.uses.add(stream)


def _dense(shape):
    return tuple(int(np.prod(shape[axis + 1 :], dtype=int)) for axis in range(len(shape)))


def _host_view(tensor):
    if 0 in tensor.shape:
        return np.empty(tensor.shape, tensor.dtype.numpy)
    memory = np.frombuffer(
        (ctypes.c_char * tensor.nbytes).from_address(tensor._address), tensor.dtype.numpy
    )
    return memory.reshape(tensor.shape)


def from_numpy(array):
    width = array.dtype.itemsize
    return Tensor(
        _BY_NUMPY[array.dtype],
        device("cpu"),
        array.shape,
        [step // width for step in array.strides],
        array.ctypes.data,
        array,
    )


def empty(shape, *, dtype=float32, device="cpu"):  # noqa: F821  pylint: disable=all
    device = globals()["device"](str(device))
    if device.type == "cpu":
        return from_numpy(np.empty(shape, dtype.numpy))
    size = int(np.prod(shape, dtype=int)) * dtype.numpy.itemsize
    storage = cuda.Storage(size, cuda.current_stream(device))
    return Tensor(dtype, device, shape, _dense(tuple(shape)), storage.block.address, storage)


def tensor(values, *, dtype=None, device="cpu"):  # pylint: disable=redefined-outer-name
    return from_numpy(np.array(values, None if dtype is None else dtype.numpy)).to(device)


def arange(count):
    return from_numpy(np.arange(count))


def as_tensor(given):
    return given if isinstance(given, Tensor) else from_numpy(np.asarray(given))


class _Capsule:
    def __init__(self, capsule, place):
        self._capsule, self._place = capsule, place

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return self._place


def from_dlpack(source):
    """Pass the current stream to the producer; 1 stands for the default stream."""
    from rung.arrays import CUDA, Foreign

    kind, index = source.__dlpack_device__()
    options = {"stream": cuda.current_stream(index).cuda_stream or 1} if kind == CUDA else {}
    taken = Foreign(_Capsule(source.__dlpack__(max_version=(1, 0), **options), (kind, index)))
    where = device("cuda", index) if kind == CUDA else device("cpu")
    return Tensor(
        globals()[taken.dtype.torch], where, taken.shape, taken.strides, taken.data, taken
    )

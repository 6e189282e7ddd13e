# SPDX-License-Identifier: Apache-2.0
"""torch.cuda: streams, events, and the caching allocator."""

import ctypes
import threading
from ctypes import byref, c_int, c_size_t, c_uint, c_uint32, c_ulonglong, c_void_p

from ._base import asked, call, library
from ._base import device as _place

_NON_BLOCKING, _DISABLE_TIMING = 1, 2


class Stream:
    """torch.Stream, not ordered with the default stream."""

    def __init__(self, device=None, handle=None):  # pylint: disable=redefined-outer-name
        initialize()
        self.device = _place("cuda", index(device))
        if handle is None:
            with _DeviceContext(self.device.index):
                handle = asked("cudaStreamCreateWithFlags", c_void_p, c_uint(_NON_BLOCKING))
        self.cuda_stream = handle

    @property
    def device_index(self):
        return self.device.index

    def __eq__(self, other):
        return isinstance(other, Stream) and (self.device, self.cuda_stream) == (
            other.device,
            other.cuda_stream,
        )

    def __hash__(self):
        return hash((self.device, self.cuda_stream))

    def synchronize(self):
        with _DeviceContext(self.device.index):
            call("cudaStreamSynchronize", c_void_p(self.cuda_stream))

    def wait_stream(self, other):
        event = Event()
        event.record(other)
        event.wait(self)


class ExternalStream(Stream):
    def __init__(self, stream_ptr, device=None):  # pylint: disable=redefined-outer-name
        assert stream_ptr % 2 == 0, "torch takes an odd handle for its own stream"
        super().__init__(device, stream_ptr)


class Event:
    def __init__(self):
        self._event, self._device = None, None

    def record(self, stream=None):
        stream = stream or current_stream()
        with _DeviceContext(stream.device.index):
            if self._event is None:
                self._event = c_void_p(
                    asked("cudaEventCreateWithFlags", c_void_p, c_uint(_DISABLE_TIMING))
                )
            call("cudaEventRecord", self._event, c_void_p(stream.cuda_stream))

    def wait(self, stream=None):
        stream = stream or current_stream()
        with _DeviceContext(stream.device.index):
            call("cudaStreamWaitEvent", c_void_p(stream.cuda_stream), self._event, c_uint(0))

    def query(self):
        return self._event is None or library.cudaEventQuery(self._event) == 0

    def __del__(self):
        if self._event is not None:
            library.cudaEventDestroy(self._event)


class _Current(threading.local):
    def __init__(self):
        super().__init__()
        self.streams = {}


class _DeviceContext:
    def __init__(self, index):
        self.index = index

    def __enter__(self):
        self.before = current_device()
        set_device(self.index)

    def __exit__(self, *_):
        set_device(self.before)


class _StreamContext:
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        self.before = current_stream()
        self.there = current_stream(self.stream.device)
        set_stream(self.stream)

    def __exit__(self, *_):
        set_stream(self.there)
        set_stream(self.before)


class _Hold:
    """Later work on the same stream waits until `release()`. Other streams continue."""

    _wait, _LIMIT = None, 20  # seconds after which a failing test can end

    def __init__(self, stream):
        if _Hold._wait is None:
            _Hold._wait, found = c_void_p(), c_int()
            call(
                "cudaGetDriverEntryPointByVersion",
                b"cuStreamWaitValue32",
                byref(_Hold._wait),
                c_uint(12000),
                c_ulonglong(0),
                byref(found),
            )
        address = asked("cudaHostAlloc", c_void_p, c_size_t(4), c_uint(0))
        self._word = c_uint32.from_address(address)
        self._word.value = 0
        wait = ctypes.CFUNCTYPE(c_int, c_void_p, c_ulonglong, c_uint32, c_uint)(_Hold._wait.value)
        with _DeviceContext(stream.device.index):
            assert wait(stream.cuda_stream, address, 1, 0) == 0
        self._limit = threading.Timer(self._LIMIT, self.release)
        self._limit.daemon = True
        self._limit.start()

    def release(self):
        self._word.value = 1
        self._limit.cancel()


_current, _initialized = _Current(), False
device, stream = _DeviceContext, _StreamContext


def initialize():
    global _initialized
    _initialized = True


init = initialize


def is_available():
    return device_count() > 0


def is_initialized():
    return _initialized


def device_count():
    return asked("cudaGetDeviceCount", c_int)


def current_device():
    return asked("cudaGetDevice", c_int)


def set_device(index):
    call("cudaSetDevice", c_int(index))


def index(given=None):
    if given is None:
        return current_device()
    return given if isinstance(given, int) else given.index


def default_stream(given=None):
    return Stream(index(given), 0)


def current_stream(given=None):
    initialize()
    number = index(given)
    return _current.streams.get(number) or default_stream(number)


def set_stream(stream):
    set_device(stream.device.index)
    _current.streams[stream.device.index] = stream


def synchronize(given=None):
    with _DeviceContext(index(given)):
        call("cudaDeviceSynchronize")


def hold(stream=None):
    """Replaces _sleep(): hold the stream until `release()`, not for a fixed time."""
    return _Hold(stream or current_stream())


# ---- memory ----


class _Block:
    def __init__(self, address, size, stream):
        self.address, self.size, self.stream, self.uses = address, size, stream, set()


class _Allocator:
    """The caching allocator. A freed block returns to the pool of its stream at once. A block that
    was recorded for other streams returns when these have done the work they had at that time."""

    def __init__(self):
        self._lock, self._free, self._recorded = threading.RLock(), {}, []

    def allocate(self, size, stream):
        size = -(-max(size, 1) // 512) * 512
        with self._lock:
            waiting, self._recorded = self._recorded, []
            for block, events in waiting:
                if all(event.query() for event in events):
                    self._free.setdefault(block.stream, []).append(block)
                else:
                    self._recorded.append((block, events))
            fitting = [
                block for block in self._free.get(stream, []) if size <= block.size <= 2 * size
            ]
            if fitting:
                block = min(fitting, key=lambda block: block.size)
                self._free[stream].remove(block)
                return block
        with _DeviceContext(stream.device.index):
            return _Block(asked("cudaMalloc", c_void_p, c_size_t(size)), size, stream)

    def free(self, block):
        events = [Event() for _ in block.uses]
        for event, stream in zip(events, block.uses):
            event.record(stream)
        block.uses = set()
        with self._lock:
            if events:
                self._recorded.append((block, events))
            else:
                self._free.setdefault(block.stream, []).append(block)


_allocator = _Allocator()


class Storage:
    def __init__(self, size, stream):
        self.block = _allocator.allocate(size, stream)

    def __del__(self):
        if hasattr(self, "block"):
            _allocator.free(self.block)

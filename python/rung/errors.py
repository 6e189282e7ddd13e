# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, as exceptions: one class for each status of librung, each also of the built-in
class that a caller would expect.

The text is the library's sentence: file, place, value and cure.
"""

from __future__ import annotations


class Error(Exception):
    """Any failure of rung. `status` is the library's name of it ("RUNG_E_IO"), "" when Python found
    it.

    `min_bytes`: the memory budget that would have been enough, when one was too small; else 0.
    """

    status: str = ""
    min_bytes: int = 0


class LibraryError(Error, ImportError):
    """librung was not found, or is of another version."""


class InvalidError(Error, ValueError):
    """An argument that cannot be: RUNG_E_INVAL."""


class NoMemoryError(Error, MemoryError):
    """Out of memory, of the host, a NUMA node or a GPU: RUNG_E_NOMEM."""


class ReadError(Error, OSError):
    """A read or write failed, with file, offset and errno; or any other CUDA error: RUNG_E_IO."""


class NoDeviceError(Error, RuntimeError):
    """No such hardware: RUNG_E_NODEV."""


class NotSupportedError(Error, NotImplementedError):
    """Not built in, or this machine does not allow it: RUNG_E_NOSUP."""


class AgainError(Error, RuntimeError):
    """All requests are in flight, or the window of announced batches is full: RUNG_E_AGAIN."""


class AbiError(Error, RuntimeError):
    """Library, package or another process are of different versions: RUNG_E_ABI."""


class NotFoundError(Error, FileNotFoundError):
    """No such file, data set or entry: RUNG_E_NOENT."""


class ExistsError(Error, FileExistsError):
    """The output is there already: RUNG_E_EXIST."""


class FormatError(Error, ValueError):
    """A malformed file: RUNG_E_FORMAT."""


class RangeError(Error, IndexError):
    """An id outside the data set: RUNG_E_RANGE."""


class NoSpaceError(Error, OSError):
    """The disk is full: RUNG_E_NOSPC."""


class CorruptError(Error, ValueError):
    """Data do not agree with their checksum: RUNG_E_CORRUPT."""


class CanceledError(Error, RuntimeError):
    """The store was closed, or a callback requested a stop: RUNG_E_CANCELED."""


class TimedOutError(Error, TimeoutError):
    """No answer within the time given: RUNG_E_TIMEDOUT."""


class BusyError(Error, OSError):
    """Another process uses it: RUNG_E_BUSY."""


class ClosedError(Error, ValueError):
    """The store, data set or loader was closed."""


class ForkError(Error, RuntimeError):
    """Something that a forked child cannot use, such as a store that gathers on a GPU."""


_CLASSES = {
    "RUNG_E_INVAL": InvalidError, "RUNG_E_NOMEM": NoMemoryError, "RUNG_E_IO": ReadError,
    "RUNG_E_NODEV": NoDeviceError,
    "RUNG_E_NOSUP": NotSupportedError, "RUNG_E_AGAIN": AgainError, "RUNG_E_ABI": AbiError,
    "RUNG_E_NOENT": NotFoundError,
    "RUNG_E_EXIST": ExistsError, "RUNG_E_FORMAT": FormatError, "RUNG_E_RANGE": RangeError,
    "RUNG_E_NOSPC": NoSpaceError,
    "RUNG_E_CORRUPT": CorruptError, "RUNG_E_CANCELED": CanceledError,
    "RUNG_E_TIMEDOUT": TimedOutError, "RUNG_E_BUSY": BusyError,
}


def error_of(status: int, name: str, sentence: str, min_bytes: int = 0) -> Error:
    """The exception of a status, with the library's sentence."""
    error = _CLASSES.get(name, Error)(sentence or f"{name} ({status})")
    error.status = name
    error.min_bytes = min_bytes
    return error

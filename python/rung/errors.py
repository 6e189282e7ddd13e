# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class per status of librung, each also an instance of a matching built-in class.

The text is the library's message, with the names of Python: what failed, with file, offset and
value, and what to do.
"""

from __future__ import annotations

import re


class Error(Exception):
    """Any failure of rung.

    Attributes:
        status: name of the library's status, such as "RUNG_E_IO"; "" if the Python package
            detected the failure
        min_bytes: smallest memory budget that works, if the given one was too small; otherwise 0
    """

    status: str = ""
    min_bytes: int = 0


class LibraryError(Error, ImportError):
    """librung was not found or has another version, or a package that a class needs is missing."""


class InvalidError(Error, ValueError):
    """An argument is invalid, or a memory budget is too small: RUNG_E_INVAL."""


class NoMemoryError(Error, MemoryError):
    """The host, a NUMA node or a GPU is out of memory: RUNG_E_NOMEM."""


class ReadError(Error, OSError):
    """A read, a write or a CUDA call failed: RUNG_E_IO."""


class NoDeviceError(Error, RuntimeError):
    """The requested hardware does not exist: RUNG_E_NODEV."""


class NotSupportedError(Error, NotImplementedError):
    """The operation is not built in, or not possible here: RUNG_E_NOSUP."""


class AgainError(Error, RuntimeError):
    """All requests are in flight, the window of announced batches is full, or a limit permits no
    further thread: RUNG_E_AGAIN."""


class AbiError(Error, RuntimeError):
    """The library, the package or another process has a different version: RUNG_E_ABI."""


class NotFoundError(Error, FileNotFoundError):
    """A file, data set or array does not exist, or no store is shared: RUNG_E_NOENT."""


class ExistsError(Error, FileExistsError):
    """The output exists already: RUNG_E_EXIST."""


class FormatError(Error, ValueError):
    """A file is malformed: RUNG_E_FORMAT."""


class RangeError(Error, IndexError):
    """An id is outside the data set: RUNG_E_RANGE."""


class NoSpaceError(Error, OSError):
    """The disk is full: RUNG_E_NOSPC."""


class CorruptError(Error, ValueError):
    """Data do not match their checksum: RUNG_E_CORRUPT."""


class CanceledError(Error, RuntimeError):
    """The store was closed, or a callback requested a stop: RUNG_E_CANCELED."""


class TimedOutError(Error, TimeoutError):
    """A time limit has passed: RUNG_E_TIMEDOUT."""


class BusyError(Error, OSError):
    """Another process stages to, or shares at, this path: RUNG_E_BUSY."""


class ClosedError(Error, ValueError):
    """The store, data set or loader has been closed."""


class ForkError(Error, RuntimeError):
    """A forked child cannot use the object, such as a store that gathers on a GPU."""


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


# Options, functions and fields of C in the library's messages, and what they are in Python.
# python/tests/test_messages.py reads the messages in the sources and fails if one keeps such a
# name.
_NAMES = [(re.compile(pattern), name) for pattern, name in (
    (r"give at least (\S+) with --memory", r"use memory=\1 or more"),
    (r"--force\b", "force=True"),
    (r"--resume\b", "resume=True"),
    (r"--in-place\b", "in_place=True"),
    (r"--row-order\b", "row_order"),
    (r"\bor u8 for the stored bytes", "or 'raw' for the stored bytes"),
    (r"--quantize\b", "quantize="),
    (r"--vertices\b", "vertex_count"),
    (r"with --split\b", "in splits"),
    (r"rung info lists (its|the) arrays", "Dataset.arrays and Dataset.splits list the names"),
    (r"\brung stage\b", "rung.stage()"),
    (r"\brung_dataset_load_array\(\)", "Dataset.array()"),
    (r"\brung_gather\(\)", "Store.gather()"),
    (r"begin one with rung_loader_begin\(\)", "iterate over the loader"),
    (r"\brung_sampler_create\(\)", "sample_on='cpu'"),
    (r"\brung_store_attach\(\)", "rung.attach()"),
    (r"\(rung_store_alloc, cudaMalloc\)", "(such as a tensor on it)"),
    (r"leave opts\.gpu NULL", "leave out gpu"),
    (r"\bopts\.(gpu|structure)\b", r"\1"),
    (r"\b(batch_rows|requests)_max\b", r"\1"),
    (r"\bcache_(share|bytes)\b", "cache"),
    (r"\b(memory|structure)_bytes\b", r"\1"),
    (r"\bhop_count 0\b", "fanouts=()"),
    (r"\bseed_count_max\b", "batch_size"),
    (r"open the store without share_path", "open the store without share"),
    (r", or use rung_profile_assume\(\) for typical rates", ""),
    (r", or open the store with a larger window_rows_max", ""),
    (r"\bonly RUNG_DRAWS_ALL is\b", "only draws='all' is"),
)]


def in_python(sentence: str) -> str:
    """Return a message of the library with the names of Python."""
    for pattern, name in _NAMES:
        sentence = pattern.sub(name, sentence)
    return sentence


def error_of(status: int, name: str, sentence: str, min_bytes: int = 0) -> Error:
    """Return the exception of a status.

    Args:
        status, name: number and name of the library's status
        sentence: the library's message; "" for none
        min_bytes: as in `Error`
    """
    error = _CLASSES.get(name, Error)(in_python(sentence) or f"{name} ({status})")
    error.status = name
    error.min_bytes = min_bytes
    return error

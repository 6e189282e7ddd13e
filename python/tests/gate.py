# SPDX-License-Identifier: Apache-2.0
"""In a program that gate.c was loaded into: hold up and fail the reads of librung."""

import ctypes
import os

import rung

_gate = ctypes.CDLL(os.environ["LD_PRELOAD"])


def open_store(path, **options):
    """A store that reads with pread(), half of its rows from the file."""
    return rung.open(path, engine="pread", **{"host": "50%", **options})


def same(rows, expected):
    """Bit by bit: NaN is like NaN."""
    return rows.shape == expected.shape and rows.tobytes() == expected.tobytes()


def shut():
    _gate.gate_shut()


def let_through():
    _gate.gate_open()


def fail(error: int):
    """Every read fails with this errno; 0: none does."""
    _gate.gate_fail(error)


def wait():
    """Return when a read is held up."""
    _gate.gate_wait()

# SPDX-License-Identifier: Apache-2.0
"""Block or fail the reads of librung, in a program that gate.c was loaded into."""

import ctypes
import os

import rung

_gate = ctypes.CDLL(os.environ["LD_PRELOAD"])


def open_store(path, **options):
    """Open a store that reads with pread() and has half of its rows in the file."""
    return rung.open(path, engine="pread", **{"host": "50%", **options})


def same(rows, expected):
    """Compare bit by bit: NaN equals NaN."""
    return rows.shape == expected.shape and rows.tobytes() == expected.tobytes()


def shut():
    _gate.gate_shut()


def let_through():
    _gate.gate_open()


def fail(error: int):
    """Make every read fail with this errno; 0: let reads succeed."""
    _gate.gate_fail(error)


def wait():
    """Wait until a read is blocked."""
    _gate.gate_wait()

# SPDX-License-Identifier: Apache-2.0
"""Conversion of sizes and other numbers for the library."""

import numpy as np
import pytest

import rung
from rung.sizes import size_bytes, whole_number


@pytest.mark.parametrize("size, bytes_", [(0, 0), (4096, 4096), ("4096", 4096), ("1KiB", 1024),
                                          ("1.5 KiB", 1536), ("2MiB", 2 << 20), ("0.5GiB", 1 << 29),
                                          ("3TiB", 3 << 40), ("7B", 7), ("max", 2**64 - 1),
                                          ("10%", 100), ("100%", 1000), ("0%", 0), ("0.15%", 1),
                                          (np.uint64(5), 5), (2**64 - 1, 2**64 - 1),
                                          ("0.0009765625KiB", 1), ("1e3", 1000), ("1kib", 1024),
                                          ("4G", 4 << 30), ("4g", 4 << 30), ("4Gi", 4 << 30),
                                          ("4GB", 4 * 10**9), ("1.5 tb", 15 * 10**11),
                                          ("2.3MB", 2300000), ("0.1TiB", 109951162777),
                                          ("1PiB", 1 << 50), ("10 %", 100),
                                          ("18446744073709551615", 2**64 - 1)])
def test_sizes(size, bytes_):
    assert size_bytes(size, 1000) == bytes_


@pytest.mark.parametrize("size", [-1, 2**64, True, None, 1.0, b"1", "", " 1", "-1", "+1",
                                  "1e-3", "1.5", "1.5B", "1,5KiB", "KiB", "1..5KiB", "1.KiB",
                                  "1XB", "4GiBB", "4\u212a", ".5KiB", "18446744073709551614",
                                  "٣KiB", "100.1%", "%", 2**64 - 2, "16777216TiB", "9" * 21,
                                  "Max", "max%", [1], np.bool_(True)])
def test_invalid_sizes(size):
    with pytest.raises(rung.InvalidError, match="this="):
        size_bytes(size, 1000, "this")


def test_percentages_are_exact():
    """The conversion does not use floats."""
    assert size_bytes("33.333333333333333333%", 3 * 10**18) == 999999999999999999
    assert size_bytes("100%", 2**63 + 1) == 2**63 + 1


@pytest.mark.parametrize("value", [0, 7, 2**32 - 1, np.int8(3), np.uint64(9)])
def test_whole_numbers(value):
    assert whole_number(value, "it") == value and type(whole_number(value, "it")) is int


@pytest.mark.parametrize("value", [-1, 2**32, 1.0, True, "1", b"1", None, np.float32(1)])
def test_invalid_whole_numbers(value):
    with pytest.raises(rung.InvalidError, match="it="):
        whole_number(value, "it")

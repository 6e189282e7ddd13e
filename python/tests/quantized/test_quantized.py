# SPDX-License-Identifier: Apache-2.0
"""Quantized rows: staging, the type of gathered rows, and decoding of stored rows."""

import math
import pickle

import numpy as np
import pytest
from conftest import same

import rung

VERTICES = 2000
FORMATS = ("int8", "int8:row", "int8:column", "int4", "int4:column", "fp8", "fp8:column")
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": "|V2"}
STEPS = {"int8": 127, "int4": 7, "fp8": 16}   # of the largest magnitude in half an error


def features(row=(6, 31), dtype=np.float32):
    """Rows of very different magnitudes, some of them zero; an odd number of values."""
    numbers = np.random.default_rng(2)
    size = 2.0 ** numbers.integers(-8, 8, (VERTICES, *(1 for _ in row)))
    found = numbers.standard_normal((VERTICES, *row)) * size
    found[5] = 0
    return found.astype(dtype)


def stage(path, rows, quantize, **more):
    numbers = np.random.default_rng(3)
    return rung.stage(path, graph=numbers.integers(0, VERTICES, (2, 4 * VERTICES)), features=rows,
                      labels=numbers.integers(0, 5, VERTICES), quantize=quantize, fanouts=(4, 3),
                      batch_size=64, splits={"train": np.arange(0, VERTICES, 3)}, **more)


@pytest.fixture(scope="module", params=FORMATS)
def quantized(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("quantized") / "g"
    rows = features()
    return path, rows, request.param, stage(path, rows, request.param)


@pytest.fixture(scope="module")
def int8(tmp_path_factory):
    path = tmp_path_factory.mktemp("int8") / "g"
    stage(path, features(), "int8")
    return path


def raw_rows(path, **more):
    with rung.open(path, host="max", dtype="raw", **more) as store:
        return store.gather(np.arange(VERTICES)), store.quantization


def test_the_report_describes_the_stored_rows(quantized):
    path, rows, given, result = quantized
    form, _, scales = given.partition(":")
    found = result.quantized
    assert (found.format, found.scales) == (form, scales or "row")
    assert found.given_row_bytes == rows[0].nbytes
    assert found.rows_compared == VERTICES and found.clipped == 0
    assert 0 < found.error_mean < found.error_max <= np.abs(rows).max() / STEPS[form]
    with rung.Dataset(path) as dataset:
        kind = dataset.quantization
        assert (kind.format, kind.scales, kind.columns) == (form, scales or "row", 186)
        assert dataset.row_bytes == rows[0].nbytes and dataset.dtype.name == "f32"
        assert dataset.shape == rows.shape
        assert dataset.stored_row_bytes == result.row_bytes == kind.row_bytes < rows[0].nbytes / 3
        assert dataset.feature_bytes == result.feature_bytes == VERTICES * kind.row_bytes
        assert (kind.column_scales is None) == (kind.scales == "row")
        assert repr(dataset).endswith(f"f32 as {form}")


def test_gathered_rows_are_near_those_that_were_staged(quantized):
    path, rows, given, result = quantized
    with rung.open(path, host="60%") as store:
        assert store.dtype.name == "f32" and store.shape == rows.shape
        assert store.row_bytes == rows[0].nbytes
        assert store.stored_row_bytes == store.quantization.row_bytes
        assert f"f32 from {given[:3]}" in repr(store)
        found = store.gather(np.arange(VERTICES))
    wide, form = rows.reshape(VERTICES, -1), given.partition(":")[0]
    axis = 0 if given.endswith("column") else 1
    largest = np.abs(wide).max(axis=axis, keepdims=True)
    error = np.abs(found.reshape(VERTICES, -1) - wide)
    assert error.max() == pytest.approx(result.quantized.error_max)
    assert error.mean() == pytest.approx(result.quantized.error_mean)
    bound = {"int8": largest / 254, "int4": largest / 14,
             "fp8": np.maximum(np.abs(wide) / 16, largest / 448 / 1024)}[form]
    assert (error <= 1.00001 * bound + 1e-30).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_dequantized_rows_equal_gathered_rows_to_the_bit(quantized, dtype):
    path, rows, _, _ = quantized
    stored, quantization = raw_rows(path)
    assert stored.dtype == np.uint8 and stored.shape == (VERTICES, quantization.row_bytes)
    with rung.open(path, host="max", dtype=dtype) as store:
        found = store.gather(np.arange(VERTICES))
    assert found.dtype == np.dtype(DTYPES[dtype]) and found.shape == rows.shape
    decoded = quantization.dequantize(stored, dtype)
    assert same(decoded.reshape(rows.shape), found)
    some = quantization.dequantize(stored[3:9].reshape(2, 3, -1), dtype)
    assert same(some.reshape(-1, 186), decoded[3:9])
    assert same(quantization.dequantize(stored[7], dtype), decoded[7])
    assert quantization.dequantize(stored[:0], dtype).shape == (0, 186)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_with_torch(quantized, dtype):
    torch = pytest.importorskip("torch")
    path, rows, _, _ = quantized
    ids = torch.randperm(VERTICES)
    kind = getattr(torch, dtype)
    with rung.open(path, host="max", dtype=kind) as store, rung.open(
            path, host="max", dtype="raw") as raw:
        found, stored = store.gather(ids), raw.gather(ids)
        assert found.dtype == store.torch_dtype == kind and found.shape[1:] == rows.shape[1:]
        assert stored.dtype == torch.uint8
        decoded = raw.quantization.dequantize(stored, kind)
        assert torch.equal(decoded.reshape(found.shape), found)
        # a view whose rows are not aligned for float32
        odd = torch.cat((stored.flatten()[:1], stored.flatten()))[1:].view(stored.shape)
        assert torch.equal(raw.quantization.dequantize(odd, kind), decoded)
        assert raw.quantization.dequantize(stored[:0], kind).shape == (0, 186)


def test_values_beyond_float16_are_infinite(tmp_path):
    rows = np.full((VERTICES, 4), 1e6, np.float32)
    stage(tmp_path / "g", rows, "int8")
    stored, quantization = raw_rows(tmp_path / "g")
    with rung.open(tmp_path / "g", host="max", dtype=np.float16) as store:
        found = store.gather([1, 2])
    assert np.isinf(found).all()
    assert same(quantization.dequantize(stored[[1, 2]], np.float16), found)


@pytest.mark.parametrize("dtype, default", [("f2", "f16"), ("f4", "f32"), ("f8", "f32")])
def test_rows_have_the_staged_type_by_default(tmp_path, dtype, default):
    rows = features((8,), dtype)
    stage(tmp_path / "g", rows, "int8:column")
    with rung.open(tmp_path / "g", host="max") as store, rung.Dataset(tmp_path / "g") as dataset:
        assert store.dtype.name == default and dataset.dtype.numpy == f"<{dtype}"
        assert store.gather([1]).shape == (1, 8)


@pytest.mark.parametrize("given", ["float16", "f16", np.float16, np.dtype("f2"), "<f2"])
def test_names_of_a_type(int8, given):
    with rung.open(int8, host="max", dtype=given) as store:
        assert store.dtype.name == "f16" and store.numpy_dtype == np.float16
        assert store[3].dtype == np.float16
        with pytest.raises(rung.InvalidError, match="numpy array .* float16"):
            store.gather([1], np.empty((1, 6, 31), np.float32))


@pytest.mark.parametrize("dtype, message", [
    ("float64", "quantized rows cannot be gathered as f64; use f16, bf16 or f32, or 'raw'"),
    (np.int32, "quantized rows cannot be gathered as i32"),
    ("quarter", "dtype='quarter': unknown type; use float16, bfloat16 or float32"),
    (np.dtype(">f4"), "unknown type"), (3.5, "dtype=3.5: unknown type"), (b"raw", "unknown type")])
def test_unsuitable_types_are_refused(int8, dtype, message):
    with pytest.raises(rung.InvalidError, match=message):
        rung.open(int8, host="max", dtype=dtype)


def test_other_rows_are_not_converted(staged):
    with rung.open(staged.path, host="max", dtype="float32") as store:
        assert store.quantization is None and store.stored_row_bytes == store.row_bytes == 64
    with rung.Dataset(staged.path) as dataset:
        assert dataset.quantization is None and dataset.stored_row_bytes == 64
    for dtype in ("float16", "raw"):
        with pytest.raises(rung.InvalidError, match="rows of f32 cannot be gathered as .*only "
                                                    "quantized rows are converted: stage with "
                                                    "quantize=, or omit the type"):
            rung.open(staged.path, host="max", dtype=dtype)


def test_unsuitable_rows_are_refused(int8):
    stored, quantization = raw_rows(int8)
    for rows, message in ((stored[:, :-1], r"rows \[2000, 191\] uint8: not stored rows"),
                          (stored.view(np.int8), "rows .* int8: not stored rows"),
                          (stored.tolist(), "rows: has type list")):
        with pytest.raises(rung.InvalidError, match=message):
            quantization.dequantize(rows)
    for dtype in ("raw", "float64"):
        with pytest.raises(rung.InvalidError, match="dtype=.*: not a type of values"):
            quantization.dequantize(stored, dtype)


def test_column_scales_are_a_copy(tmp_path):
    stage(tmp_path / "g", features((16,)), "int8:column")
    with rung.open(tmp_path / "g", host="max") as store, rung.open(
            tmp_path / "g", host="max") as other:
        scales = store.quantization.column_scales
        assert scales.dtype == np.float32 and scales.shape == (16,) and (scales > 0).all()
        expected, rows = scales.copy(), store.gather([4])
        scales[:] = 0
        assert same(store.gather([4]), rows)
        assert same(other.quantization.column_scales, expected)
    assert same(scales, np.zeros(16, np.float32))   # the store is closed


def test_attached_stores_choose_their_type(int8):
    ids = np.arange(VERTICES)
    with rung.open(int8, host="max", share=True, dtype="float16") as store:
        half = store.gather(ids)
        with rung.attach(store.share_path) as plain, rung.attach(
                store.share_path, dtype="raw") as raw, rung.attach(
                    store.share_path, dtype=np.float16) as other:
            assert plain.dtype.name == "f32" and other.dtype.name == "f16"
            assert same(other.gather(ids), half)
            decoded = raw.quantization.dequantize(raw.gather(ids))
            assert same(decoded.reshape(plain.shape), plain.gather(ids))
        with pickle.loads(pickle.dumps(store)) as copy:
            assert copy.share_path == store.share_path and same(copy.gather(ids), half)


def test_a_pickled_store_keeps_its_type(int8):
    with rung.open(int8, host="max", dtype="raw") as store, pickle.loads(
            pickle.dumps(store)) as copy:
        assert copy.dtype.name == "u8" and same(copy.gather([5]), store.gather([5]))


def test_rows_from_the_file_are_the_same(int8):
    with rung.open(int8, host="max") as store:
        expected = store.gather(np.arange(VERTICES))
    with rung.open(int8, host="40%", engine="pread") as store:
        assert store.stats().tiers[0].rows < VERTICES // 2
        assert same(store.gather(np.arange(VERTICES)), expected)
        assert store.gather_async([5, 1]).wait().shape == (2, 6, 31)
        assert same(np.asarray(store), expected)


@pytest.mark.parametrize("quantize", ["int9", "int8:", "int8:rows", ":row", "none", "", 8, b"int8",
                                      True])
def test_unknown_formats_are_refused(tmp_path, quantize):
    with pytest.raises(rung.InvalidError, match="quantize=.*: unknown value; use 'int8', 'int4' or "
                                                "'fp8', with scales per ':row'"):
        stage(tmp_path / "g", features((4,)), quantize)
    assert not list(tmp_path.iterdir())


def test_only_finite_floats_are_quantized(tmp_path):
    with pytest.raises(rung.FormatError, match="i32 cannot be quantized; .* without quantize="):
        stage(tmp_path / "g", np.ones((VERTICES, 4), np.int32), "int8")
    rows = features((4,))
    rows[77, 2] = np.nan
    with pytest.raises(rung.Error, match="77"):
        stage(tmp_path / "g", rows, "int8")
    assert not list(tmp_path.iterdir())


def test_a_dry_run_estimates_errors(tmp_path):
    result = stage(tmp_path / "g", features(), "int4", dry_run=True)
    assert result.row_bytes == 97 + 3 and result.quantized.rows_compared > 0
    assert result.quantized.error_mean > 0
    np.save(tmp_path / "x.npy", features((4,)))
    arguments = {"features": tmp_path / "x.npy", "quantize": "int8"}
    rung.stage(tmp_path / "g", **arguments)
    again = rung.stage(tmp_path / "g", **arguments, resume=True)
    assert again.already_staged and again.quantized.rows_compared == 0
    assert math.isnan(again.quantized.error_max)

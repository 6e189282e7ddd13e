# SPDX-License-Identifier: Apache-2.0
"""Gathered rows equal the source, for every form of ids and every dtype and shape of rows."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import VERTICES, same, stage_small, torch_has

import rung

ROWS = {"bool": (3,), "i8": (7,), "u8": (5, 3), "i16": (4,), "u16": (4,), "i32": (2, 3),
        "u32": (9,), "i64": (2,), "u64": (2,), "f16": (33,),
        "bf16": (8, 2), "f32": (2, 2, 2), "f64": ()}


class Old:
    """An array with unversioned DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class New(Old):
    """An array with DLPack 1.0, if its library supports that."""

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        try:
            return self.array.__dlpack__(max_version=max_version)
        except TypeError:   # numpy before 2.1
            return self.array.__dlpack__()


def test_half_of_the_rows_come_from_the_file(store, staged, ids):
    assert same(store.gather(ids), staged.features[ids])
    host, nvme = store.stats().tiers
    assert (host.name, nvme.name) == ("host", "nvme") and host.hits > 0 and nvme.hits > 0


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_numpy_ids_of_four_types(store, staged, ids, dtype):
    rows = store.gather(ids.astype(dtype))
    assert type(rows) is np.ndarray and same(rows, staged.features[ids])


def test_strided_and_reversed_numpy_ids(store, staged, ids):
    assert same(store.gather(ids[::3]), staged.features[ids[::3]])
    assert same(store.gather(ids[::-1]), staged.features[ids[::-1]])
    assert same(store.gather(np.stack([ids, ids], 1)[:, 0]), staged.features[ids])


def test_read_only_ids(store, staged, ids):
    ids.flags.writeable = False
    assert same(store.gather(ids), staged.features[ids])


@pytest.mark.parametrize("given", [[5, 1, 5], (5, 1, 5), range(5, 0, -2), [np.int64(5), 1]])
def test_lists(store, staged, given):
    rows = store.gather(given)
    assert type(rows) is np.ndarray and same(rows, staged.features[list(given)])


@pytest.mark.parametrize("given", [[], (), range(0), np.empty(0, np.int64), np.empty(0, np.uint32)])
def test_no_ids(store, given):
    assert store.gather(given).shape == (0, 16)
    assert store.gather_async(given).wait().shape == (0, 16)


def test_torch_ids_of_every_type(store, staged, ids):
    torch = pytest.importorskip("torch")
    for name in filter(torch_has, ("int32", "int64", "uint32", "uint64")):
        rows = store.gather(torch.from_numpy(ids).to(getattr(torch, name)))
        assert (isinstance(rows, torch.Tensor) and rows.dtype == torch.float32
                and same(rows, staged.features[ids]))
    given = torch.from_numpy(ids)
    assert same(store.gather(given[::2]), staged.features[ids[::2]])
    assert same(store.gather(torch.stack([given, given], 1)[:, 1]), staged.features[ids])
    assert store.gather(torch.empty(0, dtype=torch.int64)).shape == (0, 16)


@pytest.mark.parametrize("form", [Old, New])
def test_ids_by_dlpack(store, staged, ids, form):
    for dtype in (np.int32, np.uint32, np.int64, np.uint64):
        rows = store.gather(form(ids.astype(dtype)))
        assert (type(rows) is rung.Array and rows.shape == (1000, 16) and rows.dtype.name == "f32"
                and rows.device == "cpu")
        assert same(rows.numpy(), staged.features[ids])
    rows = store.gather(form(np.empty(0, np.int64)))
    assert rows.shape == (0, 16) and same(rows.numpy(), staged.features[:0])


def test_rows_used_as_ids(tmp_path, store, staged):
    """A rung.Array is an object with __dlpack__ like any other."""
    small = stage_small(tmp_path, "i64", ())
    with rung.open(small.path) as numbers:
        given = numbers.gather(Old(np.arange(10)))
        with pytest.raises(rung.RangeError):   # random 64-bit values
            store.gather(given)
        given.numpy()[:] = np.arange(10) * 7
        assert same(store.gather(given).numpy(), staged.features[np.arange(10) * 7])


@pytest.mark.parametrize("dtype", ROWS)
def test_every_dtype_and_shape_of_rows(tmp_path, dtype):
    small = stage_small(tmp_path, dtype, ROWS[dtype], 12000)
    ids = np.random.default_rng(1).integers(0, 12000, 3000)
    with rung.open(small.path, host=35000) as store:
        assert ((store.shape, store.row_shape,
                 store.dtype.name) == ((12000, *ROWS[dtype]), ROWS[dtype], dtype))
        assert (same(store.gather(ids), small.features[ids])
                and 0 < store.stats().hit_share("nvme") < 1)
        array = store.gather(Old(ids))
        assert same(array.numpy(), small.features[ids])
        if torch_has(store.dtype.torch):
            import torch

            rows = store.gather(torch.from_numpy(ids))
            assert (rows.dtype == getattr(torch, store.dtype.torch)
                    and tuple(rows.shape) == (3000, *ROWS[dtype])
                    and same(rows, small.features[ids]))
            assert array.torch().dtype == rows.dtype and same(array.torch(), small.features[ids])


def test_every_dtype_in_torch():
    torch = pytest.importorskip("torch")
    for dtype in rung.dtypes.DTYPES:
        if torch_has(dtype.torch):
            assert isinstance(rung.dtypes.torch_dtype(dtype), torch.dtype)
        else:
            with pytest.raises(rung.NotSupportedError, match=f"has no {dtype.torch}; use a newer"):
                rung.dtypes.torch_dtype(dtype)


def test_out_of_numpy(store, staged, ids):
    out = np.full((1000, 16), np.nan, np.float32)
    assert store.gather(ids, out) is out and same(out, staged.features[ids])
    whole = np.zeros((1002, 16), np.float32)
    assert store.gather(ids, out=whole[1:-1]).base is whole
    assert same(whole[1:-1], staged.features[ids]) and not whole[0].any() and not whole[-1].any()
    assert store.gather_async(ids, out).wait() is out


def test_out_of_torch(store, staged, ids):
    torch = pytest.importorskip("torch")
    out, given = torch.zeros(1000, 16), torch.from_numpy(ids)
    assert store.gather(given, out) is out and same(out, staged.features[ids])
    assert store.gather_async(given, out=out).wait() is out


def test_out_by_dlpack(store, staged, ids):
    for form in (Old, New):
        memory = np.zeros((1000, 16), np.float32)
        out = form(memory)
        assert store.gather(form(ids), out) is out and same(memory, staged.features[ids])
    again = store.gather(Old(ids))
    assert (store.gather(Old(ids[::-1].copy()), again) is again
            and same(again.numpy(), staged.features[ids[::-1]]))


@pytest.mark.parametrize("out, says", [
    (np.empty((1000, 15), np.float32),
     r"out \[1000, 15\] float32: does not fit; use a writeable numpy array \[1000, 16\] float32"),
    (np.empty((999, 16), np.float32), r"\[999, 16\]"), (np.empty((1000, 16)), "float64"),
    (np.empty((1000, 32), np.float32)[:, ::2], "C order"),
    (np.empty((16, 1000), np.float32).T, "C order"), ([0], "of type list"), ("no", "of type str"),
    (np.frombuffer(bytes(64000), np.float32).reshape(1000, 16), "writeable")])
def test_wrong_out(store, ids, out, says):
    with pytest.raises(rung.InvalidError, match=says):
        store.gather(ids, out)
    if isinstance(out, np.ndarray) and out.flags.writeable:
        with pytest.raises(rung.InvalidError, match="does not fit; use"):
            store.gather(Old(ids), out)
    with pytest.raises(rung.InvalidError, match="does not fit; use"):
        store.gather_async(ids, out)


def test_out_of_another_library(store, ids):
    torch = pytest.importorskip("torch")
    given = torch.from_numpy(ids)
    for out in (np.empty((1000, 16), np.float32), torch.empty(1000, 15),
                torch.empty(1000, 16, dtype=torch.float64), torch.empty(16, 1000).T, [1], 7):
        with pytest.raises(rung.InvalidError,
                           match=r"use a contiguous tensor \[1000, 16\] torch.float32 on cpu"):
            store.gather(given, out)
    with pytest.raises(rung.InvalidError, match="use a writeable numpy array"):
        store.gather(ids, torch.empty(1000, 16))


def test_ranks(store, staged, ids):
    dataset = rung.Dataset(staged.path)
    order = dataset.array("vertex_of_rank")
    assert same(store.gather(ids, ranks=True), staged.features[order[ids]])
    assert same(store.gather_async(ids, ranks=True).wait(), staged.features[order[ids]])
    with rung.open(staged.path, vertex_ids=False) as plain:
        assert same(plain.gather(ids, ranks=True), staged.features[order[ids]])
        with pytest.raises(rung.InvalidError, match="vertex"):
            plain.gather(ids)


def test_square_brackets(store, staged, ids):
    features = staged.features
    for at in (0, 7, VERTICES - 1, -1, -VERTICES, np.int32(9), np.uint64(9)):
        assert same(store[at], features[at])
    for part in (slice(2, 9), slice(None, 5), slice(-4, None), slice(90, 10, -7), slice(5, 5),
                 slice(2990, 9999)):
        assert same(store[part], features[part])
    assert same(store[ids], features[ids]) and same(store[[3, 1]], features[[3, 1]])
    mask = np.zeros(VERTICES, bool)
    mask[ids] = True
    assert same(store[mask], features[mask]) and store[np.zeros(VERTICES, bool)].shape == (0, 16)
    assert len(store) == VERTICES
    for at in (VERTICES, -VERTICES - 1):
        with pytest.raises(IndexError, match=f"row {at} is out of range.* {VERTICES} rows"):
            store[at]
    for wrong in (True, 1.5, "a", None, ..., (slice(2), 3), mask[:-1]):
        with pytest.raises(rung.InvalidError):
            store[wrong]
    for wrong, words in (((1, 2), r"store\[1, 2\]"), (np.s_[1:5, :3], r"store\[1:5, :3\]"),
                         (np.s_[..., ::2], r"store\[..., ::2\]")):
        with pytest.raises(rung.InvalidError, match=words + ": rows have one index; use"):
            store[wrong]


def test_square_brackets_of_torch(store, staged, ids):
    torch = pytest.importorskip("torch")
    mask = torch.zeros(VERTICES, dtype=torch.bool)
    mask[torch.from_numpy(ids)] = True
    rows = store[mask]
    assert isinstance(rows, torch.Tensor) and same(rows, staged.features[mask.numpy()])
    assert same(store[torch.from_numpy(ids)], staged.features[ids])
    with pytest.raises(rung.InvalidError, match="mask"):
        store[mask[:-1]]


def test_numpy_asarray_gathers_all_rows(store, staged):
    assert same(np.asarray(store), staged.features) and store.stats().requests == 1
    with np.errstate(invalid="ignore"):   # random bits
        assert same(np.array(store, np.float64), staged.features.astype(np.float64))
    assert store.stats().requests == 2
    assert same(np.from_dlpack(store), staged.features) and store.stats().requests == 3
    for rows_one_by_one in (list, iter, reversed, lambda rows: 3 in rows):
        with pytest.raises(TypeError, match="Store"):
            rows_one_by_one(store)
    assert store.stats().requests == 3


def test_torch_as_tensor_gathers_all_rows(tmp_path):
    torch = pytest.importorskip("torch")
    for dtype in ("bf16", "f32"):
        small = stage_small(tmp_path, dtype, vertices=40)
        with rung.open(small.path) as store:
            assert same(torch.from_dlpack(store), small.features) and store.stats().requests == 1
            if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 8):
                assert same(torch.as_tensor(store), small.features)
                assert store.stats().requests == 2


@pytest.mark.parametrize("wrong, says", [
    (np.arange(3.0), r"ids \[3\] float64: unsupported; use .*int32, uint32, int64 or uint64"),
    (np.zeros(3, bool), f"mask .3.: the store has {VERTICES} rows; use one entry per row, or ids"),
    (np.zeros((VERTICES, 1), bool), "mask"), ([True, False], "mask .2."), ([1.5], "float64"),
    (None, "object"), ("5", "<U1"), ({1}, "object"), ([[1], [2, 3]], "ids: "),
    ([-1, 2**63], "unsupported; use"),
    (Old(np.arange(3.0)), r"ids \[3\] f64: unsupported; use"),
    (Old(np.arange(6)[::2]), "contiguous")])
def test_invalid_ids(store, wrong, says):
    for call in (store.gather, store.gather_async, store.prefetch):
        with pytest.raises(rung.InvalidError, match=says) as found:
            call(wrong)
        assert isinstance(found.value, ValueError) and found.value.status == ""


def test_invalid_torch_ids(store):
    torch = pytest.importorskip("torch")
    for wrong in (torch.rand(3), torch.zeros(3, device="meta").long(),
                  torch.zeros(3, dtype=torch.int64).to_sparse()):
        with pytest.raises(rung.InvalidError, match="ids .3.*use int32, uint32, int64 or uint64"):
            store.gather(wrong)
    with pytest.raises(rung.InvalidError, match="mask .5.: the store has"):
        store.gather(torch.zeros(5, dtype=torch.bool))


def test_ids_of_any_shape_give_rows_of_that_shape(store, staged, ids):
    for given in (ids[:24].reshape(2, 3, 4), ids[:24].reshape(4, 6).T, np.array(3), np.int64(3), 3,
                  [[1, 2], [3, 4]], ids[:0].reshape(0, 5)):
        expected = staged.features[np.asarray(given)]
        for rows in (store.gather(given), store.gather_async(given).wait()):
            assert rows.shape == expected.shape and same(rows, expected)
    out = np.zeros((2, 12, 16), np.float32)
    assert store.gather(ids[:24].reshape(2, 12), out) is out
    assert same(out, staged.features[ids[:24].reshape(2, 12)])
    rows = store.gather(Old(ids[:24].reshape(2, 12)))
    assert rows.shape == (2, 12, 16) and same(rows.numpy(), out)


def test_torch_ids_of_any_shape(store, staged, ids):
    torch = pytest.importorskip("torch")
    for given in (torch.from_numpy(ids[:24]).reshape(2, 3, 4), torch.tensor(7),
                  torch.from_numpy(ids[:24]).reshape(4, 6).t()):
        for rows in (store.gather(given), store.gather_async(given).wait(), store[given]):
            assert rows.shape == (*given.shape, 16) and same(rows, staged.features[given.numpy()])


def test_narrow_and_foreign_endian_ids(store, staged):
    for dtype in ("i1", "u1", "<i2", ">i2", ">u4", ">i8"):
        given = np.array([5, 0, 127], dtype)
        assert same(store.gather(given), staged.features[[5, 0, 127]])
    for empty in ([], np.array([]), np.empty((0, 2)), ()):
        assert store.gather(empty).shape == (*np.shape(empty), 16)
    torch = pytest.importorskip("torch")
    for dtype in (torch.int8, torch.int16, torch.uint8):
        given = torch.tensor([5, 0, 127], dtype=dtype)
        assert same(store.gather(given), staged.features[[5, 0, 127]])
    assert store.gather(torch.tensor([])).shape == (0, 16)


def test_masks_are_taken_wherever_ids_are(store, staged, ids):
    mask = np.zeros(VERTICES, bool)
    mask[ids] = True
    masks = [mask, mask.tolist()]
    if "torch" in sys.modules:
        masks.append(sys.modules["torch"].from_numpy(mask))
    for given in masks:
        store.prefetch(given)
        rows = store.gather(given), store.gather_async(given).wait(), store[given]
        assert all(same(found, staged.features[mask]) for found in rows)
        by_rank = store.gather(given, ranks=True)
        assert same(by_rank, store.gather(np.flatnonzero(mask), ranks=True))


def test_ids_below_zero_count_from_the_end_in_square_brackets_only(store, staged):
    for given in ([-1, 0, -VERTICES], np.array([-1, 3], np.int8), [[-1], [2]]):
        assert same(store[given], staged.features[given])
        with pytest.raises(rung.RangeError, match="id -1 at index 0"):
            store.gather(given)
    with pytest.raises(rung.RangeError, match=f"id {-VERTICES - 1} at index 1"):
        store[[-1, -VERTICES - 1]]
    torch = pytest.importorskip("torch")
    given = torch.tensor([4, -2], dtype=torch.int32)
    rows = store[given]
    assert isinstance(rows, torch.Tensor) and same(rows, staged.features[[4, -2]])


@pytest.mark.parametrize("ids, says",
                         [([0, VERTICES], f"id {VERTICES} at index 1 is not in 0..{VERTICES - 1}"),
                          ([-1], "id -1 at index 0"),
                                       (np.array([3, 2**64 - 1], np.uint64), "at index 1"),
                          (np.array([2**32 - 1], np.uint32), "id 4294967295")])
def test_ids_out_of_range(store, ids, says):
    for call in (store.gather, store.gather_async):
        with pytest.raises(rung.RangeError, match=says) as found:
            call(ids)
        assert isinstance(found.value, IndexError) and found.value.status == "RUNG_E_RANGE"


def test_memory_of_a_gpu_is_refused_by_a_store_on_the_cpu(store, ids):
    """The CPU would read it."""
    elsewhere = rung.Array(ids.ctypes.data, (1000,), rung.dtypes.BY_NAME["i64"], ids,
                           (rung.arrays.CUDA, 0))
    assert elsewhere.device == "cuda:0"
    for call in (store.gather, store.gather_async):
        with pytest.raises(rung.InvalidError,
                           match="ids are on cuda:0, but the store gathers on the CPU"):
            call(elsewhere)
    with pytest.raises(rung.InvalidError, match="ids.cpu()"):
        store.prefetch(elsewhere)
    other = rung.Array(ids.ctypes.data, (1000,), rung.dtypes.BY_NAME["i64"], ids, (10, 0))   # ROCm
    with pytest.raises(rung.InvalidError, match=r"device \(10, 0\)"):
        store.gather(other)
    rows = rung.Array(np.zeros((1000, 16), np.float32).ctypes.data, (1000, 16),
                      rung.dtypes.BY_NAME["f32"], None, (rung.arrays.CUDA, 0))
    with pytest.raises(rung.InvalidError, match="on cuda:0: does not fit; use"):
        store.gather(Old(ids), rows)


def test_stats(store, staged, ids):
    before = store.stats()
    assert before.rows == 0 and np.isnan(before.hit_share("host"))
    store.gather(ids)
    after = store.stats()
    assert after.rows == 1000 == sum(tier.hits for tier in after.tiers) and after.requests == 1
    assert after.hit_share("gpu") == 0
    with pytest.raises(rung.InvalidError, match="tier 'hots': unknown tier; use one of gpu, peer"):
        after.hit_share("hots")
    assert (after.hit_share("host") + after.hit_share("nvme") == pytest.approx(1)
            and 0 < after.hit_share("host") < 1)
    assert (sum(tier.rows for tier in after.tiers) == VERTICES
            and sum(tier.bytes for tier in after.tiers) == 1000 * store.row_bytes)
    assert after.device_reads > 0 and after.read_rows + after.duplicate_rows == after.tiers[1].hits
    assert (sum(after.latency) == 1 and set(after.phases) == {"queue", "device", "copy"}
            and after.engine != "none")
    assert after.read_ns > 0 and after.wait_sample_ns == 0 and after.reads_in_flight == 0
    with pytest.raises(AttributeError):
        after.requests = 0


def test_others_can_watch_a_store(staged, monkeypatch):
    user = os.geteuid()
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)

    def pages():
        return [page for folder in (f"/run/user/{user}/rung", f"/dev/shm/rung-{user}")
                for page in Path(folder).glob(f"{os.getpid()}-*")]

    before = pages()   # of fixtures that other tests share
    with rung.open(staged.path, host="20%") as store:
        assert (len(pages()) > len(before)) == (store.stats().stats_page_why == "")
    assert pages() == before
    monkeypatch.setenv("RUNG_STATS_PAGE", "0")
    with rung.open(staged.path, host="20%") as store:
        assert store.stats().stats_page_why == "RUNG_STATS_PAGE is 0" and pages() == before

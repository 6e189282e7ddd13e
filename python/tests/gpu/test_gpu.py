# SPDX-License-Identifier: Apache-2.0
"""Stores that gather on a simulated GPU: rows and ids in GPU memory, passed as rung.Array and
DLPack."""

import os

import pytest
from conftest import SIMULATED

CASES = """
import os, sys, threading
import numpy as np
import rung
from rung import _library
from rung.arrays import Foreign
from rung.operands import store_memory

path = sys.argv[1]
expected = np.load(sys.argv[2])
ids = np.random.default_rng(3).integers(0, len(expected), 1000)


def open_store(**options):
    return rung.open(path, **{"gpu": "30%", "host": "40%", "device": "cuda", **options})


def on_gpu(store, array):
    # a copy in GPU memory, as another library would pass it
    memory = store_memory(store, array.nbytes)
    copy = _library.lib.rung_store_copy
    _library.check(store._call(copy, memory, array.ctypes.data, array.nbytes))
    names = {str(np.dtype(dtype.numpy)): dtype for dtype in rung.dtypes.DTYPES}
    device = rung.arrays.CUDA, store.gpu
    return rung.Array(memory.pointer.value, array.shape, names[str(array.dtype)], memory, device)


def on_host(store, rows):
    found = np.empty(rows.shape, rows.dtype.numpy)
    copy = _library.lib.rung_store_copy
    _library.check(store._call(copy, found.ctypes.data, Foreign(rows).data, rows.nbytes))
    return found


def same(rows, wanted):
    return rows.shape == wanted.shape and rows.tobytes() == wanted.tobytes()


def raises(cls, call, says=""):
    try:
        call()
    except cls as error:
        assert says in str(error), error
        return error
    raise SystemExit(f"{cls.__name__} was not raised")


def test_rows():
    with open_store() as store:
        assert (store.device, store.gpu) == ("cuda:0", 0) and "cuda:0" in repr(store)
        assert store.why_cpu == ""
    with open_store(device="cuda:0") as store:
        assert store.device == "cuda:0"
    raises(rung.NoDeviceError, lambda: open_store(device="cuda:99"), "99")
    with open_store() as store:
        for dtype in (np.int32, np.uint32, np.int64, np.uint64):
            given = on_gpu(store, ids.astype(dtype))
            rows = store.gather(given)
            assert type(rows) is rung.Array and rows.device == "cuda:0"
            assert rows.__dlpack_device__() == (2, 0)
            assert same(on_host(store, rows), expected[ids])
            gather = store.gather_async(given)
            assert gather.wait_stream() is gather.wait() and gather.done()
            assert same(on_host(store, gather.wait()), expected[ids])
        tiers = store.stats().tiers
        assert [tier.name for tier in tiers] == ["gpu", "peer", "host", "nvme"]
        assert sum(tier.hits for tier in tiers) == 8000
        assert tiers[0].hits > 0 and tiers[3].hits > 0
        assert sum(tier.rows for tier in tiers) == len(expected)


def test_ids_of_the_host():
    # the GPU gathers the rows; they are copied back to the host
    with open_store() as store:
        for dtype in (np.int32, np.int64):
            rows = store.gather(ids.astype(dtype))
            assert type(rows) is np.ndarray and same(rows, expected[ids])
        assert same(store[5], expected[5]) and same(store[7:3:-1], expected[7:3:-1])
        assert store.gather([]).shape == (0, 16)
        out = np.empty((1000, 16), np.float32)
        assert store.gather(ids, out) is out and same(out, expected[ids])
        store.prefetch(ids)
        raises(rung.InvalidError, lambda: store.prefetch(on_gpu(store, ids)),
               "prefetch(): the ids are on a GPU; use ids.cpu()")
        raises(rung.RangeError, lambda: store.gather([len(expected)]), "is not in 0..")


def test_ids_of_the_host_with_rows_on_the_gpu():
    with open_store() as store:
        out = on_gpu(store, np.zeros((1000, 16), np.float32))
        pairs = np.stack([ids, ids + 1], 1)   # with gaps
        for given in (ids, ids.tolist(), ids.astype(np.uint32), pairs[:, 0],
                      rung.Array(ids.ctypes.data, ids.shape, rung.dtypes.BY_NAME["i64"], ids)):
            rows = store.gather_async(given).wait()
            assert type(rows) is rung.Array and rows.device == "cuda:0"
            assert same(on_host(store, rows), expected[ids])
            assert store.gather_async(given, out=out).wait() is out
            assert same(on_host(store, out), expected[ids])
        given = ids.copy()
        gather = store.gather_async(given)
        given[:] = len(expected)   # the ids have been read already
        assert same(on_host(store, gather.wait()), expected[ids])
        raises(rung.RangeError, lambda: store.gather_async(given), f"id {len(expected)} at index 0")
        raises(rung.InvalidError, lambda: store.gather_async(ids, np.empty((1000, 16), np.float32)),
               "does not fit; use [1000, 16] f32 on cuda:0")
        assert store.gather_async([]).wait().shape == (0, 16)


def test_out():
    with open_store() as store:
        given, out = on_gpu(store, ids), on_gpu(store, np.zeros((1000, 16), np.float32))
        assert store.gather(given, out) is out and same(on_host(store, out), expected[ids])
        assert store.gather_async(given, out=out).wait() is out
        host = np.empty((1000, 16), np.float32)
        wanted = "does not fit; use [1000, 16] f32 on cuda:0"
        raises(rung.InvalidError, lambda: store.gather(given, host), wanted)
        raises(rung.InvalidError, lambda: store.gather(ids, out), "numpy array")
        raises(rung.InvalidError, lambda: store.gather(given).numpy(), "numpy reads host memory")
        raises(rung.InvalidError, lambda: np.asarray(store.gather(given)),
               "numpy reads host memory")


def test_ids_out_of_range():
    # reported by the wait for the gather
    with open_store() as store:
        wrong = on_gpu(store, np.array([1, 2, len(expected)]))
        gather = store.gather_async(wrong)
        for _ in range(2):
            assert raises(rung.RangeError, gather.wait, str(len(expected))).status == "RUNG_E_RANGE"
        raises(rung.RangeError, lambda: store.gather(wrong))
        assert same(on_host(store, store.gather(on_gpu(store, ids))), expected[ids])


def test_rows_outlive_their_store():
    store = open_store()
    rows, gather = store.gather(on_gpu(store, ids)), store.gather_async(on_gpu(store, ids))
    dropped = store.gather_async(on_gpu(store, ids))
    del dropped
    store.close()
    found = np.empty_like(expected[ids])
    copy = _library.lib.rung_store_copy
    assert copy(store._memory, found.ctypes.data, Foreign(rows).data, rows.nbytes) == 0
    assert same(found, expected[ids])
    assert gather.wait().device == "cuda:0"
    raises(rung.ClosedError, lambda: store.gather(ids))
    assert store._memory.users
    del rows, gather
    assert not store._memory.users


def test_forked_children_get_an_error():
    with open_store() as store:
        gather = store.gather_async(on_gpu(store, ids))
        child = os.fork()
        if child == 0:
            for _ in range(2):
                raises(rung.ForkError, lambda: store.gather(ids), "spawn workers")
            raises(rung.ForkError, store.stats)
            raises(rung.ForkError, gather.wait, "parent")
            del gather
            store.close()
            raises(rung.ClosedError, store.stats)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert same(on_host(store, gather.wait()), expected[ids])
        del gather


def test_threads():
    with open_store(requests=3) as store:
        failures = []

        def gather(seed):
            try:
                mine = np.random.default_rng(seed).integers(0, len(expected), 100)
                given = on_gpu(store, mine)
                for turn in range(10):
                    try:
                        rows = (store.gather(mine) if turn % 2
                                else on_host(store, store.gather(given)))
                    except rung.AgainError:   # all requests are in flight
                        continue
                    assert same(rows, expected[mine])
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=gather, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []


def test_choice_of_gpus():
    with open_store(gpus=[1, 0]) as store:
        assert (store.device, store.gpu) == ("cuda:1", 1) and same(store.gather(ids), expected[ids])
    with rung.open(path, gpu="max") as store:
        assert store.device == "cuda:0" and store.stats().hit_share("gpu") != 1
        assert same(store.gather(ids), expected[ids])
        assert store.stats().hit_share("gpu") == 1
    with open_store(gpu=0) as store:
        assert store.stats().tiers[0].rows == 0 and same(store.gather(ids), expected[ids])
    raises(rung.NoDeviceError, lambda: open_store(gpus=[7]), "7")
    with rung.open(path, device="cpu") as store:
        assert store.gpu == -1


globals()[sys.argv[3]]()
"""

NAMES = [line.split("(")[0].removeprefix("def ") for line in CASES.splitlines()
         if line.startswith("def test_")]


@pytest.mark.skipif(not os.path.isfile(SIMULATED),
                    reason="RUNG_SIM_LIBRARY does not name a librung for simulated GPUs; ctest "
                           "builds one with a C++ compiler")
@pytest.mark.parametrize("name", NAMES)
def test_on_simulated_gpus(program, staged, tmp_path, monkeypatch, name):
    import numpy as np

    np.save(tmp_path / "expected.npy", staged.features)
    monkeypatch.setenv("RUNG_LIBRARY", SIMULATED)
    monkeypatch.setenv("RUNG_SIM_GPUS", "2")
    program(CASES, staged.path, tmp_path / "expected.npy", name)

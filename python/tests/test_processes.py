# SPDX-License-Identifier: Apache-2.0
"""Stores in other processes: forked, spawned, attached, and workers of torch's DataLoader."""

import gc
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
import traceback
import warnings

import numpy as np
import pytest
from conftest import same
from test_gather import Old

import rung


def in_child(function):
    """Run the function in a forked child; an exception there fails the test."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        # the warning is that other threads may hold locks, which is the case under test
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        said = b"ok"
        try:
            function()
        except BaseException:   # pylint: disable=broad-exception-caught
            said = traceback.format_exc().encode()
        os.write(write, said[:60000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    assert said == b"ok", said.decode()


def gathered(arguments):
    """Gather in a process of multiprocessing."""
    store, ids = arguments
    return os.getpid(), store.gather(ids), store.share_path, store.stats().tiers[0].rows


@pytest.fixture(params=[False, True], ids=["own", "shared"])
def either(staged, request):
    with rung.open(staged.path, host="50%", share=request.param) as store:
        yield store


def test_a_forked_child_gathers(either, staged, ids):
    expected = staged.features[ids]
    assert same(either.gather(ids), expected)
    handle = either._memory.pointer.value

    def child():
        assert (same(either.gather(ids), expected)
                and same(either.gather_async(ids).wait(), expected)
                and same(either[5], staged.features[5]))
        assert same(either.gather(Old(ids)).numpy(), expected)
        assert either.stats().requests == 4
        inner = either.share_path
        in_child(lambda: same(either.gather(ids), expected) or 1 / 0)   # a grandchild
        assert either.share_path == inner
        either.close()
        with pytest.raises(rung.ClosedError):
            either.gather(ids)

    for _ in range(2):
        in_child(child)
        assert same(either.gather(ids), expected) and either._memory.pointer.value == handle
        assert either.share_path is None or os.path.exists(either.share_path)


def test_a_shared_store_holds_its_rows_once(staged, ids):
    with rung.open(staged.path, host="50%", share=True) as store:
        def child():
            store.gather(ids)
            assert "share_path" in store._arguments   # attached
        in_child(child)
    with rung.open(staged.path, host="50%") as store:
        def other():
            store.gather(ids)
            assert store._arguments["path"] == staged.path
        in_child(other)


def test_a_child_that_does_not_use_the_store_does_not_close_it(either, staged, ids):
    def child():
        either.close()
        with pytest.raises(rung.ClosedError):
            either.gather(ids)

    in_child(child)
    in_child(lambda: None)
    assert (same(either.gather(ids), staged.features[ids])
            and (either.share_path is None or os.path.exists(either.share_path)))


def test_gathers_in_flight_at_a_fork(either, staged, ids):
    rows = either.gather(Old(ids))
    gathers = [either.gather_async(ids) for _ in range(3)]

    def child():
        assert same(rows.numpy(), staged.features[ids])   # the memory is mapped in the child
        for gather in gathers:
            assert gather.done()
            with pytest.raises(rung.ForkError, match="parent"):
                gather.wait()
            with pytest.raises(rung.ForkError):
                gather.wait_stream()
        gathers.clear()   # must not wait forever
        assert same(either.gather(ids), staged.features[ids])

    in_child(child)
    assert (all(same(gather.wait(), staged.features[ids]) for gather in gathers)
            and same(rows.numpy(), staged.features[ids]))


def test_a_fork_while_other_threads_gather(either, staged):
    """Locks that these threads hold are never released in the child."""
    stop = threading.Event()

    def gather(seed):
        ids = np.random.default_rng(seed).integers(0, 3000, 100)
        while not stop.is_set():
            either.stats()
            assert same(either.gather_async(ids).wait(), staged.features[ids])

    threads = [threading.Thread(target=gather, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            in_child(lambda: same(either.gather(np.arange(50)), staged.features[:50]) or 1 / 0)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_threads_of_a_child_open_the_store_once(either, staged, ids):
    def child():
        handles = []

        def gather():
            assert same(either.gather(ids), staged.features[ids])
            handles.append(either._memory.pointer.value)

        threads = [threading.Thread(target=gather) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(handles) == 6 and len(set(handles)) == 1

    in_child(child)


def test_a_child_that_cannot_open_the_store_gets_an_error_each_time(staged, tmp_path, ids):
    moved = tmp_path / "moved.rung"
    os.rename(staged.path, moved)
    try:
        store = rung.open(moved, host="50%")
        os.rename(moved, staged.path)

        def child():
            for _ in range(2):
                with pytest.raises(rung.NotFoundError, match="moved.rung"):
                    store.gather(ids)

        in_child(child)
        assert same(store.gather(ids), staged.features[ids])
        store.close()
    finally:
        if moved.exists():
            os.rename(moved, staged.path)


def test_data_sets_in_a_forked_child(staged):
    dataset = rung.Dataset(staged.path)
    with dataset._lock:   # as another thread would hold it
        def child():
            assert (same(dataset.labels(), staged.labels)
                    and dataset.graph().edge_count == dataset.edge_count)
        in_child(child)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.path == dataset.path and same(again.labels(), staged.labels)


def test_a_forked_child_that_exits_normally(program, staged):
    """It runs the atexit handlers, which must not remove the parent's socket."""
    program("""
        import os, sys
        import rung
        store = rung.open(sys.argv[1], host="50%", share=True)
        if os.fork() == 0:
            store.gather([1, 2])
            sys.exit(0)
        assert os.wait()[1] == 0
        assert os.path.exists(store.share_path)
        rung.attach(store.share_path).close()
        path = store.share_path
        store.close()
        assert not os.path.exists(os.path.dirname(path))
    """, staged.path)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing(either, staged, ids, method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context(method).Pool(2) as pool:
            found = pool.map(gathered, [(either, part) for part in np.array_split(ids, 4)])
    assert all(pid != os.getpid() for pid, _, _, _ in found)
    assert same(np.concatenate([rows for _, rows, _, _ in found]), staged.features[ids])
    assert ({path for _, _, path, _ in found} == {either.share_path}
            and {rows for _, _, _, rows in found} == {either.stats().tiers[0].rows})


def test_pickling(either, staged, ids):
    again = pickle.loads(pickle.dumps(either))
    assert (again is not either and same(again.gather(ids), staged.features[ids])
            and again.share_path == either.share_path)
    third = pickle.loads(pickle.dumps(again))
    again.close()
    assert same(third.gather(ids), staged.features[ids])
    third.close()
    assert same(either.gather(ids), staged.features[ids])
    with pytest.raises(rung.ClosedError, match="pickled"):
        pickle.dumps(third)


def test_errors_can_be_pickled(store):
    with pytest.raises(rung.RangeError) as found:
        store.gather([5000])
    again = pickle.loads(pickle.dumps(found.value))
    assert (type(again) is rung.RangeError and (str(again), again.status,
                                                again.min_bytes) == (
                                                    str(found.value), "RUNG_E_RANGE", 0))
    with pytest.raises(rung.InvalidError) as found:
        rung.open(store.path, host=1)
    again = pickle.loads(pickle.dumps(found.value))
    assert again.min_bytes == found.value.min_bytes > 0


def test_attach(staged, ids, tmp_path):
    socket = tmp_path / "folder" / "socket"
    store = rung.open(staged.path, host="50%", share=socket)
    assert store.share_path == str(socket)
    with rung.attach(socket) as first, rung.attach(str(socket), requests=2,
                                                   batch_rows=1000) as second:
        assert ((first.path, first.shape, first.dtype,
                 first.share_path) == (store.path, store.shape, store.dtype, str(socket)))
        assert (same(first.gather(ids), staged.features[ids])
                and same(second.gather_async(ids).wait(), staged.features[ids]))
        # each store has its own counters
        assert first.stats().requests == 1 and store.stats().requests == 0
        with pytest.raises(rung.BusyError, match="socket"):
            rung.open(staged.path, share=socket)
        store.close()
        assert not socket.exists() and same(first.gather(ids), staged.features[ids])
        with pytest.raises(rung.NotFoundError, match="no store is shared there"):
            rung.attach(socket)
    with rung.open(staged.path, share=socket, vertex_ids=False):
        with pytest.raises(rung.InvalidError, match="vertex"):
            rung.attach(socket)
        with rung.attach(socket, vertex_ids=False) as plain:
            assert plain.gather([0], ranks=True).shape == (1, 16)


def test_sharing_without_the_cache(staged, ids, tmp_path):
    def cached(store):
        for _ in range(3):
            assert same(store.gather(ids), staged.features[ids])
        return store.stats()

    socket = tmp_path / "folder" / "socket"
    whole = staged.features.nbytes
    sizes = {"host": 2 * whole // 3, "cache": whole // 2, "queue_depth": 4}   # half is index
    with rung.open(staged.path, share=socket, **sizes) as store, \
         rung.attach(socket, private_cache=True) as other:
        assert cached(store).cache_rows > 0 and cached(store).cache_why == ""
        assert cached(other).cache_rows == cached(other).cache_hits == 0
        assert "private_cache" in cached(other).cache_why
    with rung.open(staged.path, share=socket, private_cache=True, **sizes) as store, \
         rung.attach(socket) as other:
        assert cached(store).cache_rows > 0 and cached(other).cache_rows == 0
        assert cached(other).cache_timeouts == cached(other).late_rows == 0
        assert cached(store).cache_wait_ns == 0   # no other process locks it


def test_a_stopped_process_delays_another_once_per_stop():
    """Run bench/python/stopped.py on small data. The length of the delays is not checked."""
    here = os.path.dirname(os.path.abspath(__file__))
    script = os.path.join(here, "..", "..", "bench", "python", "stopped.py")
    sizes = ["--vertices", "20000", "--hot", "4000", "--stops", "4", "--samples", "20"]
    command = os.environ.get("RUNG") or shutil.which("rung")
    if not command:
        pytest.skip("the command rung was not found: set RUNG or PATH")
    done = subprocess.run([sys.executable, "-B", script, *sizes, "--guard", "60", "--rung",
                           command],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["cache_rows"] > 500 and found["counters"]["cache_hits"] > 0
    assert len(found["delay_ms"]["samples"]) == 4
    assert found["stops_cut_short"] == 0


def test_invalid_socket_paths(staged, tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    for share, error in ((tmp_path / "open" / "socket", rung.InvalidError),
                         ("/tmp/" + "x" * 107, rung.InvalidError)):
        with pytest.raises(error):
            rung.open(staged.path, share=share)
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "file").write_text("mine")
    with pytest.raises(rung.ExistsError):
        rung.open(staged.path, share=private / "file")
    assert (private / "file").read_text() == "mine"
    for path in (tmp_path / "none" / "socket", "/tmp/" + "x" * 107, "a\0b"):
        with pytest.raises(rung.Error):
            rung.attach(path)


def test_a_shared_store_that_does_not_open_leaves_no_folder(staged, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for wrong in ({"host": 1}, {"engine": "io_uring", "queue_depth": 5000},
                  {"batch_rows": 2**32 - 1, "requests": 4096}):
        with pytest.raises(rung.Error):
            rung.open(staged.path, share=True, **wrong)
        assert os.listdir(tmp_path) == []
    rung.open(staged.path, share=True).close()
    assert os.listdir(tmp_path) == []


# ---- torch ----

def batches(store, workers, method):
    """Return the batches of a DataLoader whose collate_fn gathers in its workers."""
    from torch.utils.data import DataLoader

    loader = DataLoader(range(3000), batch_size=500, num_workers=workers, collate_fn=store.gather,
                        multiprocessing_context=method if workers else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return [np.asarray(batch) for batch in loader]


@pytest.mark.parametrize("workers, method", [(0, None), (2, "fork"), (2, "spawn")])
def test_workers_of_a_data_loader(either, staged, workers, method):
    pytest.importorskip("torch")
    found = batches(either, workers, method)
    assert (same(np.concatenate(found), staged.features)
            and same(either.gather(np.arange(9)), staged.features[:9]))


def test_a_store_is_a_data_set_of_torch(either, staged):
    torch = pytest.importorskip("torch")
    whole = torch.utils.data.DataLoader(either, batch_size=700)
    assert same(torch.cat(list(whole)), staged.features)
    assert either.stats().requests == len(whole) == 5
    loader = torch.utils.data.DataLoader(either, batch_size=700, num_workers=2,
                                         multiprocessing_context="fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = torch.cat(list(loader))
    assert same(found, staged.features)


def test_an_error_in_a_worker_keeps_its_class(either):
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    loader = DataLoader([1, 5000], batch_size=2, num_workers=1, collate_fn=either.gather,
                        multiprocessing_context="fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with pytest.raises(rung.RangeError, match="id 5000 at index 1"):
            list(loader)
    gc.collect()   # the error refers to the iterator: its workers end now, not with the process

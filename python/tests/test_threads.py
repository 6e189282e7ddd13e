# SPDX-License-Identifier: Apache-2.0
"""Many threads use one store, and one of them closes it."""

import ctypes
import socket
import sys
import threading

import numpy as np
import pytest
from conftest import same

import rung
from rung import _library


@pytest.fixture(autouse=True)
def switches():
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run(functions):
    """Run each function on its own thread; raise the first failure."""
    failures = []

    def call(function):
        try:
            function()
        except BaseException as error:   # pylint: disable=broad-exception-caught
            failures.append(error)

    threads = [threading.Thread(target=call, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_threads_gather_concurrently(staged):
    with rung.open(staged.path, host="50%", requests=3) as store:
        def gather(seed):
            numbers = np.random.default_rng(seed)
            for turn in range(30):
                ids = numbers.integers(0, 3000, 200)
                if turn % 3 == 0:
                    rows = store.gather(ids)
                else:
                    try:
                        on_its_way = store.gather_async(ids)
                    except rung.AgainError:
                        continue
                    if turn % 3 == 1:
                        continue   # dropped
                    rows = on_its_way.wait()
                assert same(rows, staged.features[ids])
                store.stats()

        run([lambda seed=seed: gather(seed) for seed in range(8)])
        assert store._flights == set()


def test_one_thread_closes_while_others_gather(staged):
    class Old:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__()

    for turn in range(30):
        store = rung.open(staged.path, host="50%", requests=4)
        begun = threading.Barrier(7)
        closed = []

        def gather(seed):
            ids = np.random.default_rng(seed).integers(0, 3000, 100)
            begun.wait()
            kept = None
            while True:
                try:
                    if seed % 3 == 0:
                        assert same(store.gather(ids), staged.features[ids])
                    elif seed % 3 == 1:
                        kept = store.gather_async(ids)
                    else:
                        rows = store.gather(Old(ids))
                        assert same(rows.numpy(), staged.features[ids])
                except rung.AgainError:
                    continue
                except rung.ClosedError:
                    closed.append(seed)
                    break
            if kept is not None:
                assert same(kept.wait(), staged.features[ids])

        def close():
            begun.wait()
            for _ in range(turn):
                store.stats()
            store.close()

        run([lambda seed=seed: gather(seed) for seed in range(6)] + [close])
        assert sorted(closed) == list(range(6))


def test_several_threads_close(staged, ids):
    for _ in range(20):
        store = rung.open(staged.path)
        gather = store.gather_async(ids)
        run([store.close] * 5)
        assert same(gather.wait(), staged.features[ids])


def test_a_data_set_closes_while_threads_load(staged):
    expected = rung.Dataset(staged.path).array("labels")
    for _ in range(10):
        dataset = rung.Dataset(staged.path)
        begun = threading.Barrier(5)

        def load():
            begun.wait()
            try:
                while True:
                    assert same(dataset.array("labels"), expected)
                    dataset.graph()
            except rung.ClosedError:
                pass

        def close():
            begun.wait()
            dataset.labels()
            dataset.close()

        run([load] * 4 + [close])


def test_the_graph_is_loaded_once(staged):
    dataset = rung.Dataset(staged.path)
    found = []
    run([lambda: found.append(dataset.graph())] * 6)
    assert len(set(map(id, found))) == 1


def test_no_call_holds_the_gil():
    """ctypes holds the GIL only during calls of a PyDLL; test_async.py tests gathers."""
    assert type(_library.lib) is ctypes.CDLL
    assert all(isinstance(getattr(_library.lib, name), ctypes._CFuncPtr)
               for name in _library.FUNCTIONS)
    python_api = 4   # FUNCFLAG_PYTHONAPI
    assert not any(getattr(_library.lib, name)._flags_ & python_api for name in _library.FUNCTIONS)


def test_attaching_lets_other_threads_run(tmp_path):
    """The other end is a thread of this process; it could not hang up if attach() held the GIL."""
    folder = tmp_path / "share"
    folder.mkdir(mode=0o700)
    path = str(folder / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        try:
            listening.bind(path)
        except OSError:
            pytest.skip(f"{path} is too long for a socket")
        listening.listen()

        def serve():
            listening.settimeout(60)
            listening.accept()[0].close()

        def attach():
            with pytest.raises(rung.Error) as found:
                rung.attach(path)
            assert not isinstance(found.value, rung.TimedOutError), found.value

        run([serve, attach])

# SPDX-License-Identifier: Apache-2.0
"""Gathers in flight: permitted calls, and how gathers end. Reads are blocked, so no test depends on
slow reads."""

import gc
import os

import numpy as np
import pytest
from conftest import same

import rung


def test_rows_of_concurrent_gathers(store, staged, ids):
    parts = np.array_split(ids, 8)
    gathers = [store.gather_async(part) for part in parts]
    for part, gather in reversed(list(zip(parts, gathers))):
        rows = gather.wait()
        assert gather.done() and same(rows, staged.features[part])
        assert gather.wait() is rows and gather.result(0) is rows and gather.wait_stream() is rows


def test_lists_are_bounded(staged):
    with rung.open(staged.path, host="50%", batch_rows=100) as store:
        with pytest.raises(rung.InvalidError, match="100"):
            store.gather_async(np.arange(101))
        assert same(store.gather_async(np.arange(100)).wait(), staged.features[:100])
        assert same(store.gather(np.arange(1000)), staged.features[:1000])   # split


@pytest.mark.parametrize("timeout", [-1, float("nan"), -float("inf"), "1", 1j])
def test_invalid_timeouts(store, timeout):
    with pytest.raises(rung.InvalidError, match="timeout="):
        store.gather_async([1]).wait(timeout)


def test_infinite_timeout(store, staged):
    assert same(store.gather_async([1]).wait(float("inf")), staged.features[[1]])


def test_dropping_a_gather_waits_for_it(store, staged, ids):
    """Otherwise it would write to freed memory, and its request would be lost."""
    for _ in range(50):
        store.gather_async(ids)
    gc.collect()
    assert store._flights == set() and same(store.gather(ids), staged.features[ids])


def test_close_ends_gathers_in_flight(staged, ids):
    store = rung.open(staged.path, host="50%")
    gathers = [store.gather_async(ids) for _ in range(5)]
    store.close()
    assert all(gather.done() and same(gather.wait(), staged.features[ids]) for gather in gathers)
    for call in (store.gather, store.gather_async, store.prefetch):
        with pytest.raises(rung.ClosedError, match="was closed"):
            call(ids)
    with pytest.raises(rung.ClosedError):
        store.stats()
    store.close()


def test_a_gather_in_a_reference_cycle(store, ids):
    class Node:
        pass

    for _ in range(20):
        node = Node()
        node.me, node.gather = node, store.gather_async(ids)
        del node
        gc.collect()
    assert store._flights == set()


def test_a_gather_continues_after_a_timeout(gated, staged):
    gated("""
        import sys
        import numpy as np
        import gate, rung
        from gate import same
        store = gate.open_store(sys.argv[1])
        expected = store.gather(np.arange(3000))
        gate.shut()
        gather = store.gather_async(np.arange(3000))
        for timeout in (0, 0.001, 1e-12):
            try:
                gather.wait(timeout)
                raise SystemExit("a read passed the closed gate")
            except rung.TimedOutError as error:
                assert error.status == "RUNG_E_TIMEDOUT" and isinstance(error, TimeoutError), error
        assert not gather.done()
        gate.let_through()
        assert same(gather.wait(), expected) and gather.done()
    """, staged.path)


def test_gathers_are_limited_by_requests(gated, staged):
    gated("""
        import sys
        import numpy as np
        import gate, rung
        from gate import same
        store = gate.open_store(sys.argv[1], requests=2)
        ids = np.arange(3000)
        expected = store.gather(ids)
        gate.shut()
        first, second = store.gather_async(ids), store.gather_async(ids)
        try:
            store.gather_async(ids)
            raise SystemExit("a third request was accepted")
        except rung.AgainError as error:
            assert error.status == "RUNG_E_AGAIN", error
        gate.let_through()
        first.wait()
        assert same(store.gather_async(ids).wait(), expected) and same(second.wait(), expected)
    """, staged.path)


def test_other_threads_run_while_a_gather_waits(gated, staged):
    """With the GIL held the program would hang, because a Python thread opens the gate."""
    gated("""
        import sys, threading
        import numpy as np
        import gate
        from gate import same
        store = gate.open_store(sys.argv[1])
        ids = np.arange(3000)
        expected = store.gather(ids)
        waits = [lambda: store.gather(ids), lambda: store.gather_async(ids).wait(),
             lambda: store.gather_async(ids).wait(100),
                 lambda: store.gather_async(ids).wait_stream()]
        for wait in waits:
            gate.shut()
            def run():
                gate.wait()
                gate.let_through()
            thread = threading.Thread(target=run)
            thread.start()
            assert same(wait(), expected)
            thread.join()
        gate.shut()
        threading.Thread(target=run).start()
        dropped = store.gather_async(ids)
        del dropped                       # also waits
        gate.shut()
        threading.Thread(target=run).start()
        last = store.gather_async(ids)
        store.close()                     # also waits
        assert same(last.wait(), expected)
    """, staged.path)


def test_close_waits_for_gathers_of_other_threads(gated, staged):
    gated("""
        import sys, threading
        import numpy as np
        import gate, rung
        from gate import same
        store = gate.open_store(sys.argv[1])
        ids = np.arange(3000)
        expected = store.gather(ids)
        gate.shut()
        came = []
        gatherer = threading.Thread(target=lambda: came.append(store.gather(ids)))
        gatherer.start()
        gate.wait()
        closer = threading.Thread(target=store.close)
        closer.start()
        while True:                       # until close() has begun
            try:
                store.stats()
            except rung.ClosedError:
                break
        assert closer.is_alive() and not came
        gate.let_through()
        closer.join()
        gatherer.join()
        assert same(came[0], expected)
    """, staged.path)


def test_a_failed_read_names_file_and_offset(gated, staged):
    gated("""
        import errno, gc, os, sys
        import numpy as np
        import gate, rung
        from gate import same
        store = gate.open_store(sys.argv[1])
        ids = np.arange(3000)
        expected = store.gather(ids)
        gate.fail(errno.EIO)
        gather = store.gather_async(ids)
        for wait in (lambda: store.gather(ids), gather.wait, gather.wait, gather.wait_stream):
            try:
                wait()
                raise SystemExit("the read did not fail")
            except rung.ReadError as error:
                assert isinstance(error, OSError) and error.status == "RUNG_E_IO", error
                for word in ("features.000.npy", "row of rank", "offset", os.strerror(errno.EIO)):
                    assert word in str(error), (word, str(error))
        assert gather.done() and store.stats().request_errors == 2
        hot = store.gather(np.arange(100), ranks=True)      # from memory
        gate.fail(0)
        assert same(store.gather(ids), expected)
        assert same(store.gather(np.arange(100), ranks=True), hot)
        before = len(gc.get_objects())
        gate.fail(errno.EIO)
        for _ in range(20):
            dropped = store.gather_async(ids)
            del dropped
            try:
                store.gather_async(ids).wait()
            except rung.ReadError:
                pass
        gc.collect()
        assert len(gc.get_objects()) < before + 20
        store.close()
    """, staged.path)


def test_a_read_that_never_completes(gated, staged):
    """The gather fails with ReadError, not with the TimedOutError of a wait."""
    gated("""
        import os, sys
        import numpy as np
        import gate, rung
        store = gate.open_store(sys.argv[1], read_timeout=0.0001)
        gate.shut()
        gather = store.gather_async(np.arange(3000))
        for wait in (gather.wait, lambda: gather.wait(1000)):
            try:
                wait()
                raise SystemExit("a read passed the closed gate")
            except rung.ReadError as error:
                assert "features.000.npy" in str(error), error
                assert "has not completed in 1 ms" in str(error), error
            assert gather.done()
        try:
            store.close()
            raise SystemExit("close() returned with reads in flight")
        except rung.TimedOutError as error:
            assert "memory is not freed" in str(error), error
        store.close()
    """, staged.path)


def test_the_program_can_exit_at_any_moment(gated, staged):
    """Stores, rows and gathers are neither closed nor dropped, in modules and in cycles."""
    socket = gated("""
        import sys
        import numpy as np
        import gate, rung
        from gate import same
        class Old:
            def __init__(self, array): self.array = array
            def __dlpack__(self, stream=None): return self.array.__dlpack__()
        ids = np.arange(3000)
        store = gate.open_store(sys.argv[1])
        shared = rung.open(sys.argv[1], host="50%", share=True)
        other = rung.attach(shared.share_path)
        dataset = rung.Dataset(sys.argv[1])
        dataset.graph()
        rows = [store.gather(ids), store.gather(Old(ids)), store.gather(Old(ids)).numpy(),
                other.gather(Old(ids))]
        capsules = [store.gather(Old(ids)).__dlpack__(),
                    store.gather(Old(ids)).__dlpack__(max_version=(1, 0))]
        gathers = [store.gather_async(ids), shared.gather_async(Old(ids))]
        rung.kept = rows, capsules, gathers, store
        sys.kept = [store.gather_async(ids), store.gather(Old(ids))]
        sys.kept.append(sys.kept)
        try:
            import torch
            torch.kept = store.gather(Old(ids)).torch()
            sys.kept.append(store.gather(Old(ids)).torch())
        except ImportError:
            pass
        print(shared.share_path)
    """, staged.path).strip()
    assert socket.endswith("/store") and not os.path.exists(os.path.dirname(socket))

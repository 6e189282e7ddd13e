# SPDX-License-Identifier: Apache-2.0
"""Exceptions raised by signal handlers at every point of every call.

No request is lost, no call hangs, and freed memory is not written.
"""

import os

import pytest

PROGRAM = """
    import gc, os, signal, sys, threading, time
    import numpy as np
    import rung
    import interrupts
    from interrupts import at_every_point, at_moments, in_use, settled

    path, share, which, turns, moments = *sys.argv[1:4], *map(int, sys.argv[4:6])
    count = rung.Dataset(path).vertex_count
    ids = np.random.default_rng(1).integers(0, count, 2000)
    socket = os.path.join(share, "socket")
    store = rung.open(path, host="50%", requests=3, share=socket)
    dataset = rung.Dataset(path)
    loader = rung.Loader(store, arrays="numpy", batch_size=1000)
    sampler = rung.NeighborSampler(dataset)
    expected = store.gather(ids)
    held = []

    def all_requests():
        gathers = [store.gather_async(ids) for _ in range(3)]
        for gather in gathers:
            assert np.array_equal(gather.wait(), expected, equal_nan=True)

    def wait():
        gather = store.gather_async(ids)
        gather.done()
        gather.wait(1000)
        assert np.array_equal(gather.wait(), expected, equal_nan=True)

    def dropped():
        store.gather_async(ids)

    def opened():
        rung.open(path, host="50%", share=socket + "2").close()

    def attached():
        rung.attach(socket).close()

    def close():
        held.append(rung.open(path, host="50%", share=socket + "2"))
        held[0].gather_async(ids)
        held[0].gather(Old(ids))
        held[0].close()

    def close_again():
        while held:
            held.pop().close()

    class Old:
        def __init__(self, array): self.array = array
        def __dlpack__(self, stream=None): return self.array.__dlpack__()

    def foreign():
        store.gather(Old(ids), store.gather(Old(ids)))

    def epoch():
        for batch in loader:
            assert len(batch.features) == len(batch.ranks)

    def whole_epoch():
        assert sum(1 for _ in loader) == len(loader) == 4 and loader.stats().batches == 4

    def left_early():
        batches = iter(loader)
        next(batches)
        batches.close()

    def new_loader():
        next(iter(rung.Loader(store, arrays="numpy", batch_size=1000, threads=2)))

    def data_set():
        with rung.Dataset(path) as own:
            own.array("labels")
            own.graph()

    def staged():
        rung.stage(share + "/out.rung", graph=np.arange(60).reshape(2, 30),
                   features=np.ones((60, 4)), force=True)

    def nothing_of_staging():
        assert [name for name in os.listdir(share) if name.startswith(".rung-")] == []
        assert signal.getsignal(signal.SIGALRM) is interrupts.handler

    nothing = lambda: None
    calls = {
        "gather": (lambda: store.gather(ids), all_requests),
        "gather_async": (lambda: store.gather_async(ids).wait(), all_requests),
        "wait": (wait, all_requests),
        "dropped": (dropped, all_requests),
        "prefetch": (lambda: store.prefetch(ids), all_requests),
        "stats": (lambda: (store.stats(), loader.stats()), all_requests),
        "dlpack": (foreign, all_requests),
        "open": (opened, nothing),
        "attach": (attached, nothing),
        "close": (close, close_again),
        "loader": (new_loader, nothing),
        "epoch": (epoch, whole_epoch),
        "left_early": (left_early, whole_epoch),
        "dataset": (data_set, nothing),
        "sampler": (lambda: sampler.sample(ids[:1]), nothing),
        "new_sampler": (lambda: rung.NeighborSampler(dataset), nothing),
        "stage": (staged, nothing_of_staging),
    }
    call, after = calls[which]
    signal.signal(signal.SIGALRM, interrupts.handler)
    call()
    after()
    before = in_use()
    done = at_every_point(call, after, turns)
    assert done > 5, done
    at_moments(call, moments, after)
    assert settled(*before[:2]), (before, in_use())
    assert in_use()[2] < before[2] + 65536, (before, in_use())
    del loader, sampler
    gc.collect()
    store.close()
    rung.open(path, share=socket).close()
    opened()
    assert settled(before[0] - 2, before[1] - 2), in_use()   # refill and share threads have ended
"""

CALLS = ["gather", "gather_async", "wait", "dropped", "prefetch", "stats", "dlpack", "open",
         "attach", "close", "loader", "epoch", "left_early", "dataset", "sampler", "new_sampler",
         "stage"]
ALL = bool(os.environ.get("RUNG_TESTS_ALL_POINTS"))


@pytest.mark.parametrize("call", CALLS)
def test_an_exception_at_any_point_of_a_call(program, large, tmp_path, call):
    """A timer also interrupts at other moments, which can be inside the library."""
    turns = {"stage": 15}.get(call, 40)
    program(PROGRAM, large.path, tmp_path, call, *((100000, 50) if ALL else (turns, 10)))


def test_a_handler_may_close_the_store_it_interrupts(program, staged):
    """close() cannot wait for the call it interrupts; the end of that call closes the store."""
    program("""
        import sys
        import numpy as np
        import rung, interrupts
        from interrupts import in_use, settled
        ids, closed = np.arange(1000), 0

        def close(_number, _frame):
            store.close()

        interrupts.signal.signal(interrupts.signal.SIGALRM, close)
        rung.open(sys.argv[1], host="50%").close()
        before = in_use()
        for call, step in ((lambda: store.gather(ids), 2),
                           (lambda: store.gather_async(ids).wait(), 7)):
            with rung.open(sys.argv[1], host="50%") as store:
                interrupts.points(call)
            at = 0
            while True:
                at += step
                store = rung.open(sys.argv[1], host="50%")
                try:
                    interrupts.one(call, at)
                except rung.ClosedError:
                    closed += 1
                if not store._closed:
                    break   # no points left
                try:
                    store.gather(ids)
                    raise SystemExit("the store is still open")
                except rung.ClosedError:
                    pass
                assert not store._memory.users and settled(*before[:2]), (at, in_use())
            store.close()
        assert closed > 5, closed
    """, staged.path)


LONG_CALLS = {
    "plan": "lambda: rung.plan(path, host='20%', batch_size=256, fanouts=(10, 10))",
    "open": "lambda: rung.open(path, host='20%', structure='auto')",
    "gather": "lambda: store.gather(np.zeros(600000, np.int64))",
}


@pytest.mark.parametrize("call", LONG_CALLS)
def test_a_long_call_ends_where_the_library_looks_at_signals(program, large, call):
    """The signal arrives in the library's first look. Nothing follows it but the exception."""
    program("""
        import os, signal, sys
        import numpy as np
        import rung
        from rung import interrupts
        path, looks = sys.argv[1], []
        store = rung.open(path)
        call = eval(sys.argv[2])

        class Watched(interrupts._Watched):
            def _tell(self, *arguments):
                looks.append(arguments)
                if arrives:
                    os.kill(os.getpid(), signal.SIGINT)
                return super()._tell(*arguments)

        interrupts._Watched = Watched
        arrives = False
        call()
        assert len(looks) >= 2, len(looks)
        looks.clear()
        arrives = True
        try:
            call()
            raise SystemExit("no exception")
        except KeyboardInterrupt:
            pass
        assert len(looks) == 1, len(looks)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        arrives = False
        call()   # nothing of the interrupted call is left
    """, large.path, LONG_CALLS[call])

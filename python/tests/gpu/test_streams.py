# SPDX-License-Identifier: Apache-2.0
"""Gathers on CUDA streams with torch's memory, on simulated GPUs with the stand-in for torch."""

import os

import pytest
from conftest import HERE, SIMULATED

CASES = """
import gc, os, sys, threading
import numpy as np
import torch  # the stand-in
import rung
from rung.streams import current_stream

path, expected = sys.argv[1], np.load(sys.argv[2])
random = np.random.default_rng(3)
gpu = torch.device("cuda:0")
COUNT, PAUSE = 500, 0.3  # seconds without progress that count as held


def open_store(**options):
    return rung.open(path, **{"gpu": "60%", "host": "max", "device": "cuda", **options})


def numbers(count=COUNT):
    return random.integers(0, len(expected), count)


def on_gpu(array, device=gpu):
    tensor = torch.from_numpy(array).to(device)
    torch.cuda.synchronize(device)
    return tensor


def same(rows, ids):
    return np.array_equal(rows.cpu().numpy(), expected[ids], equal_nan=True)


def same_on(stream, rows, ids):
    # for use while the current stream is held
    with torch.cuda.stream(stream):
        return same(rows, ids)


def is_held(gather):
    try:
        gather.wait(PAUSE)
    except rung.TimedOutError:
        return True
    return False


def raises(cls, call, *says):
    try:
        call()
    except cls as error:
        assert all(one in str(error) for one in says), error
        return
    raise SystemExit(f"{cls.__name__} was not raised")


def streams():
    # pairs: the stream argument of each kind, and torch's object for it
    side = torch.cuda.Stream(0)
    raw = torch.cuda.Stream(0)
    return [
        (None, torch.cuda.default_stream(0)),
        (torch.cuda.default_stream(0),) * 2,
        (0, torch.cuda.default_stream(0)),
        (1, torch.cuda.default_stream(0)),
        (side, side),
        (raw.cuda_stream, raw),
        (torch.cuda.ExternalStream(raw.cuda_stream, 0), raw),
    ]


def test_ids_that_are_still_computed():
    with open_store() as store:
        for stream, torchs in streams():
            wrong, right = numbers(), numbers()
            given, copied = on_gpu(wrong), on_gpu(right)
            held = torch.cuda.hold(torchs)
            with torch.cuda.stream(torchs):
                given.copy_(copied)
            gather = store.gather_async(given, stream=stream)
            assert is_held(gather), stream
            held.release()
            assert same(gather.wait(), right), stream


def test_gather_waits_for_ids_that_are_still_computed():
    with open_store() as store:
        for torchs in (torch.cuda.default_stream(0), torch.cuda.Stream(0)):
            wrong, right = numbers(), numbers()
            given, copied = on_gpu(wrong), on_gpu(right)
            mask = np.zeros(len(expected), bool)
            mask[right] = True
            with torch.cuda.stream(torchs):
                held = torch.cuda.hold()
                given.copy_(copied)
                timer = threading.Timer(PAUSE, held.release)
                timer.start()
                assert same(store.gather(given), right)
                assert same(store[on_gpu(mask)], np.flatnonzero(mask))
                timer.join()


def test_memory_is_reused_in_stream_order():
    # rows may reuse the memory of a freed tensor only on the stream that still reads it
    with open_store() as store:
        for turn, (stream, torchs) in enumerate(streams()):
            ids = numbers(COUNT + 100 * turn)  # no other memory of that size is free
            given = on_gpu(ids)
            before = on_gpu(np.full((len(ids), expected.shape[1]), 7, np.float32))
            with torch.cuda.stream(torchs):
                read = torch.empty(before.shape, dtype=torch.float32, device=gpu)
                with torch.cuda.stream(torch.cuda.default_stream(0)):
                    held = torch.cuda.hold()
                    read.copy_(before)
            address = before.data_ptr()
            del before
            gather = store.gather_async(given, stream=stream)
            if torchs == torch.cuda.default_stream(0):
                assert gather._rows.data_ptr() == address and is_held(gather), stream
            else:
                assert gather._rows.data_ptr() != address and same_on(
                    torchs, gather.wait(60), ids
                ), stream
            held.release()
            assert same(gather.wait(), ids) and (read.cpu().numpy() == 7).all(), stream


def test_work_after_the_rows():
    with open_store() as store:
        for stream, torchs in streams():
            for consumer, theirs in streams():
                ids = numbers()
                given = on_gpu(ids)
                held = torch.cuda.hold(torchs)
                gather = store.gather_async(given, stream=stream)
                with torch.cuda.stream(theirs):
                    rows = gather.wait_stream(consumer)
                    copy = rows.clone()
                held.release()
                assert same_on(theirs, copy, ids), (stream, consumer)


def test_the_host_does_not_wait():
    # neither for the rows nor when they are freed: no row is in the file
    with open_store() as store:
        for torchs in (torch.cuda.default_stream(0), torch.cuda.Stream(0)):
            all_ids = [numbers() for _ in range(20)]  # more than the store has requests
            given = [on_gpu(ids) for ids in all_ids]
            with torch.cuda.stream(torchs):
                held = torch.cuda.hold()
                copies = [store.gather_async(ids).wait_stream().clone() for ids in given[:8]]
                held.release()
                copies += [store.gather_async(ids).wait_stream().clone() for ids in given[8:]]
                del given
                gc.collect()
                assert all(same(copy, ids) for copy, ids in zip(copies, all_ids))


def test_ids_of_the_host():
    # read at once without waiting; the rows are torch's, on the given stream
    with open_store() as store:
        for stream, torchs in streams():
            all_ids = [numbers() for _ in range(8)]
            given = [torch.from_numpy(ids.copy()) for ids in all_ids]
            held = torch.cuda.hold(torchs)
            with torch.cuda.stream(torchs):
                copies = [
                    store.gather_async(ids, stream=stream).wait_stream().clone() for ids in given
                ]
            for ids in given:
                ids.numpy()[:] = 0
            del given, ids
            gc.collect()
            held.release()
            assert all(same_on(torchs, *found) for found in zip(copies, all_ids)), stream
            out = torch.empty((COUNT, expected.shape[1]), device=gpu)
            there = torch.from_numpy(all_ids[0])
            gather = store.gather_async(there, out, stream=stream)
            assert gather.wait() is out and same_on(torchs, out, all_ids[0])
            host = torch.empty((COUNT, expected.shape[1]))
            raises(rung.InvalidError, lambda: store.gather_async(there, host), "on cuda:0")
            assert store.gather(there).device.type == "cpu"


def test_pinned_ids():
    # the GPU reads the ids: dropping the gather waits, because torch would reuse their memory
    with open_store() as store:
        right = numbers()
        given = torch.from_numpy(right).pin_memory()
        memory = given.numpy()
        assert given.is_pinned() and not torch.from_numpy(right).is_pinned()
        side, other = torch.cuda.Stream(0), torch.cuda.Stream(0)
        held = torch.cuda.hold(side)
        gather = store.gather_async(given, stream=side)
        with torch.cuda.stream(other):
            copy = gather.wait_stream().clone()
        timer = threading.Timer(PAUSE, held.release)
        timer.start()
        del gather, given
        gc.collect()
        memory[:] = 0
        assert same_on(other, copy, right)
        timer.join()


def test_rows_of_a_side_stream_read_by_another_stream():
    # freed during the read: the next gather on the side stream must not write there
    with open_store() as store:
        for wait in (lambda gather: gather.wait(), lambda gather: gather.wait_stream()):
            side = torch.cuda.Stream(0)
            first, second = numbers(), numbers()
            given = on_gpu(first), on_gpu(second)
            gather = store.gather_async(given[0], stream=side)
            rows = wait(gather)
            address = rows.data_ptr()
            held = torch.cuda.hold()
            copy = rows.clone()
            side.synchronize()
            del rows, gather
            gc.collect()
            gather = store.gather_async(given[1], stream=side)
            assert gather._rows.data_ptr() != address and same_on(side, gather.wait(60), second)
            held.release()
            assert same(copy, first)


def test_memory_of_a_stream_other_than_the_gathers():
    # ids and `out` of the default stream, freed at once
    with open_store() as store:
        side = torch.cuda.Stream(0)
        ids = numbers()
        given, out = on_gpu(ids), torch.empty((COUNT, expected.shape[1]), device=gpu)
        addresses = given.data_ptr(), out.data_ptr()
        torch.cuda.synchronize()
        held = torch.cuda.hold(side)
        gather = store.gather_async(given, out, stream=side)
        copy_on = torch.cuda.Stream(0)
        with torch.cuda.stream(copy_on):
            copy = gather.wait_stream().clone()
        del given, out, gather
        gc.collect()
        others = [
            torch.empty((COUNT,), dtype=torch.int64, device=gpu),
            torch.empty((COUNT, expected.shape[1]), device=gpu),
        ]
        for other in others:
            assert other.data_ptr() not in addresses
            other.copy_(torch.from_numpy(np.full(other.shape, 1, other.dtype.numpy)))
        held.release()
        assert same_on(copy_on, copy, ids)


def test_strided_ids():
    # copied on the stream of the gather, not on torch's current one
    with open_store() as store:
        side = torch.cuda.Stream(0)
        ids = numbers()
        pairs = on_gpu(np.stack([ids, numbers()], 1))
        held = torch.cuda.hold()
        assert same_on(side, store.gather_async(pairs[:, 0], stream=side).wait(60), ids)
        held.release()
        assert same(store.gather(pairs[:, 0]), ids)


def test_torchs_current_stream_is_unchanged():
    with open_store() as store:
        side, other = torch.cuda.Stream(0), torch.cuda.Stream(1)
        given = on_gpu(numbers())
        with torch.cuda.stream(other):
            store.gather_async(given, stream=side).wait()
            store.gather_async(torch.from_numpy(numbers()), stream=side).wait()
            raises(
                rung.RangeError,
                lambda: store.gather_async(torch.tensor([len(expected)]), stream=side),
                "at index 0",
            )
            assert torch.cuda.current_device() == 1 and torch.cuda.current_stream() == other
            assert torch.cuda.current_stream(0) == torch.cuda.default_stream(0)


def test_other_gpus():
    with open_store() as store, open_store(gpus=[1]) as second:
        here, there = torch.device("cuda:0"), torch.device("cuda:1")
        ids = numbers()
        mine, others = on_gpu(ids), on_gpu(ids, there)
        shape = COUNT, expected.shape[1]
        for call in (
            lambda: store.gather(others),
            lambda: store.gather_async(others),
            lambda: store[others],
            lambda: store.gather(others, torch.empty(shape, device=there)),
        ):
            raises(rung.InvalidError, call, "ids are on cuda:1", "gathers on cuda:0")
        for out in (torch.empty(shape, device=there), torch.empty(shape)):
            raises(
                rung.InvalidError, lambda: store.gather(mine, out), f"on {out.device}:", "on cuda:0"
            )
        raises(
            rung.InvalidError,
            lambda: store.gather_async(mine, stream=torch.cuda.Stream(1)),
            "cuda:1",
            "cuda:0",
        )
        gather = store.gather_async(mine)
        raises(
            rung.InvalidError, lambda: gather.wait_stream(torch.cuda.Stream(1)), "cuda:1", "cuda:0"
        )
        assert same(gather.wait(), ids) and same(second.gather(others), ids)
        raises(
            rung.InvalidError, lambda: second.gather(mine), "ids are on cuda:0", "gathers on cuda:1"
        )


def test_graphbolt():
    feature = rung.Feature(open_store())
    ids = numbers()
    given, copied = on_gpu(numbers()), on_gpu(ids)
    held = torch.cuda.hold()
    given.copy_(copied)
    stages = feature.read_async(given)
    future = next(stages)
    assert is_held(future)
    held.release()
    assert same(future.wait(), ids) and same(feature.read(given), ids)
    raises(
        rung.InvalidError,
        lambda: feature.read(on_gpu(ids, torch.device("cuda:1"))),
        "cuda:1",
        "cuda:0",
    )


def test_handles():
    with open_store() as store:
        side = torch.cuda.Stream(0)
        assert [
            current_stream(store, stream) for stream in (None, 0, 1, 2, side, side.cuda_stream)
        ] == [1, 1, 1, 2, side.cuda_stream, side.cuda_stream]
        with torch.cuda.stream(side):
            assert current_stream(store) == side.cuda_stream
        for wrong in (-1, 1.5, "1", True):
            raises(rung.InvalidError, lambda: current_stream(store, wrong), "stream")


class Producer:
    # an array of another library on the GPU, written by `stream`; it records the consumer streams
    def __init__(self, tensor, stream):
        self.tensor, self.stream, self.consumers = tensor, stream, []

    def __dlpack_device__(self):
        return 2, self.tensor.device.index

    def __dlpack__(self, *, stream=None, max_version=None):
        self.consumers.append(stream)
        theirs = (
            torch.cuda.default_stream(0)
            if stream in (None, 1)
            else torch.cuda.ExternalStream(stream, 0)
        )
        theirs.wait_stream(self.stream)
        dtype = rung.dtypes.BY_NAME["i64" if self.tensor.dtype is torch.int64 else "f32"]
        return rung.Array(
            self.tensor.data_ptr(), self.tensor.shape, dtype, self.tensor, (2, 0)
        ).__dlpack__(stream=-1, max_version=max_version)


def test_ids_and_out_of_other_libraries():
    with open_store() as store:
        for stream, torchs in streams():
            wrong, right = numbers(), numbers()
            given, copied = on_gpu(wrong), on_gpu(right)
            out = torch.empty((COUNT, expected.shape[1]), device=gpu)
            theirs = torch.cuda.Stream(0)
            with torch.cuda.stream(theirs):
                held = torch.cuda.hold()
                given.copy_(copied)
            ids, rows = Producer(given, theirs), Producer(out, theirs)
            gather = store.gather_async(ids, rows, stream=stream)
            assert ids.consumers == rows.consumers == [torchs.cuda_stream or 1]
            assert is_held(gather)
            held.release()
            assert gather.wait() is rows and same(out, right)
            assert same(store.gather(ids).torch(), right) and ids.consumers[1] == 1


def test_arrays_that_are_not_written_yet():
    with open_store() as store:
        for stream, torchs in streams():
            for asked, theirs in (
                (None, torch.cuda.default_stream(0)),
                (1, torch.cuda.default_stream(0)),
                ("its handle", torch.cuda.Stream(0)),
            ):
                ids = numbers()
                given = Producer(on_gpu(ids), torch.cuda.default_stream(0))
                held = torch.cuda.hold(torchs)
                gather = store.gather_async(given, stream=stream)
                array = gather.wait_stream(torchs)
                assert type(array) is rung.Array
                capsule = array.__dlpack__(
                    stream=theirs.cuda_stream if asked == "its handle" else asked
                )
                with torch.cuda.stream(theirs):
                    copy = torch.from_dlpack(Exported(capsule)).clone()
                held.release()
                assert same_on(theirs, copy, ids), (stream, asked)
                assert same(array.torch(), ids)
                # before the next hold, because freeing waits for the GPU
                del gather, array, capsule, copy


class Exported:
    # a capsule whose consumer already waits for the producer
    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **_):
        return self.capsule


def test_arrays_passed_to_torch():
    with open_store() as store:
        ids = numbers()
        side, theirs = torch.cuda.Stream(0), torch.cuda.Stream(0)
        given = Producer(on_gpu(ids), torch.cuda.default_stream(0))
        held = torch.cuda.hold(side)
        array = (gather := store.gather_async(given, stream=side)).wait_stream(side)
        with torch.cuda.stream(theirs):
            copy = torch.from_dlpack(array).clone()
        held.release()
        assert same_on(theirs, copy, ids)
        del gather, array, copy  # before the next hold: freeing waits for the GPU
        held = torch.cuda.hold(side)
        gather = store.gather_async(given, stream=side)
        array = gather.wait_stream(side)
        dropped = [gather]
        del gather
        thread = threading.Thread(target=dropped.clear)  # waits for the gather
        thread.start()
        while store._flights:
            pass
        threading.Timer(PAUSE, held.release).start()
        assert same(array.torch(), ids)
        thread.join()


def test_streams_that_dlpack_refuses():
    with open_store() as store:
        array = store.gather(Producer(on_gpu(numbers()), torch.cuda.default_stream(0)))
        for wrong in (0, -2):
            raises(BufferError, lambda: array.__dlpack__(stream=wrong), f"stream={wrong}", "use 1")
        for wrong in ("1", 1.0, True):
            raises(TypeError, lambda: array.__dlpack__(stream=wrong), "stream=")
        for right in (None, -1, 1, 2, torch.cuda.Stream(0).cuda_stream):
            array.__dlpack__(stream=right)


globals()[sys.argv[3]]()
"""

NAMES = [
    line.split("(")[0].removeprefix("def ")
    for line in CASES.splitlines()
    if line.startswith("def test_")
]


@pytest.mark.skipif(
    not os.path.isfile(SIMULATED),
    reason="RUNG_SIM_LIBRARY does not name a librung for simulated GPUs; ctest builds one",
)
@pytest.mark.parametrize("lazy", ["0", "1"])
@pytest.mark.parametrize("name", NAMES)
def test_in_order(program, staged, tmp_path, monkeypatch, name, lazy):
    import numpy as np

    np.save(tmp_path / "expected.npy", staged.features)
    monkeypatch.setenv("RUNG_LIBRARY", SIMULATED)
    monkeypatch.setenv("RUNG_SIM_GPUS", "2")
    monkeypatch.setenv("RUNG_SIM_LAZY", lazy)
    monkeypatch.setenv("PYTHONPATH", os.path.join(HERE, "standin"))
    program(CASES, staged.path, tmp_path / "expected.npy", name)

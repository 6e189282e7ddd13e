# SPDX-License-Identifier: Apache-2.0
"""Loaders of stores that gather on a simulated GPU: the streams they wait for, the reuse of the
memory of batches, and sampling on the GPU."""

import os

import pytest
from conftest import SIMULATED

CASES = """
import ctypes, gc, os, sys, types, warnings
import numpy as np


class Torch(types.ModuleType):
    # the parts of torch that the package uses, with rung.Array: torch cannot use simulated GPUs
    class cuda:
        handle = 0   # of the default stream

        @staticmethod
        def is_initialized():
            return True

        @classmethod
        def current_stream(cls, gpu):
            assert gpu == 0
            device = types.SimpleNamespace(index=0)
            return types.SimpleNamespace(cuda_stream=cls.handle, device=device)

        @staticmethod
        def synchronize(gpu=None):
            raise SystemExit("torch.cuda.synchronize()")

    distributed = types.SimpleNamespace(is_available=lambda: False)

    @staticmethod
    def from_dlpack(array):
        return array

    @staticmethod
    def from_numpy(array):
        return array


sys.modules["torch"] = torch = Torch("torch")
import pytest, rung
from rung import _library
from rung.arrays import HOST_READABLE

path = sys.argv[1]
expected = np.load(sys.argv[2])
lib = _library.lib
RT = ctypes.CDLL(_library._find())   # contains the simulated runtime


def open_store(**options):
    given = {"gpu": "30%", "host": "max", "device": "cuda", "sample_on_gpu": True, **options}
    return rung.open(path, **given)


def on_host(store, array):
    if array.__dlpack_device__()[0] in HOST_READABLE:
        return array.numpy()
    found = np.empty(array.shape, array.dtype.numpy)
    _library.check(store._call(lib.rung_store_copy, found.ctypes.data, array.data, array.nbytes))
    return found


def snapshot(store, batch):
    # batches of a CPU store have numpy arrays
    take = (lambda array: array.copy()) if store.gpu < 0 else (lambda array: on_host(store, array))
    return [batch.idx, batch.seeds.copy(), batch.labels.copy(), take(batch.ranks),
            take(batch.features), *(take(block.indptr) for block in batch.blocks),
            *(take(block.indices) for block in batch.blocks)]


def same(one, other):
    return len(one) == len(other) and all(np.array_equal(a, b, equal_nan=True) for a, b in zip(
        [np.asarray(part) for part in one], [np.asarray(part) for part in other]))


def of_the_cpu(**options):
    with rung.open(path, device="cpu", host="max") as store:
        loader = rung.Loader(store, arrays="numpy", draws="all", **options)
        return [[snapshot(store, batch) for batch in loader] for _ in range(2)]


def raises(cls, call, says):
    try:
        call()
    except cls as error:
        assert says in str(error), error
        return
    raise SystemExit(f"{cls.__name__} was not raised")


def test_batches_equal_those_of_the_cpu():
    wanted = of_the_cpu(seed=4)
    for options in ({}, {"sample_on": "gpu"}, {"sample_on": "gpu", "threads": 1, "look_ahead": 1}):
        for stores in ({}, {"host": "50%"}, {"sample_on_gpu": False}):
            with open_store(**stores) as store:
                loader = rung.Loader(store, draws="all", seed=4, **options)
                assert len(wanted[0]) == len(loader) == 10
                for epoch in wanted:
                    found = [snapshot(store, batch) for batch in loader]
                    assert len(found) == len(epoch) and all(map(same, found, epoch))
                batch = next(iter(loader))
                place = batch.ranks.device, batch.blocks[0].indices.device, batch.features.device
                there = "cuda:0" if options else "cpu"
                assert place == (there, there, "cuda:0")
                del batch


def test_lists_in_the_file_are_sampled_on_the_cpu():
    wanted = of_the_cpu(seed=4)[0]
    in_file = "some neighbour lists are in the file"
    for stores, says in (
            ({"structure": "20KiB", "host": "400KiB", "sample_on_gpu": False}, in_file),
            ({"structure": "auto", "host": "64KiB", "gpu": "10%"}, "the graph does not fit")):
        with open_store(**stores) as store:
            assert store.has_structure
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                loader = rung.Loader(store, draws="all", seed=4, sample_on="gpu")
            assert len(caught) == 1 and says in str(caught[0].message), caught
            assert str(caught[0].message).startswith("sampling on the CPU: ")
            found = [snapshot(store, batch) for batch in loader]
            assert len(found) == len(wanted) and all(map(same, found, wanted))
            assert next(iter(loader)).ranks.device == "cpu"
    with open_store(structure="auto") as store:   # the graph fits in the GPU's budget and the host
        assert not store.has_structure
        with pytest.raises(rung.InvalidError, match="sample_on_gpu took the place of structure="):
            rung.NeighborSampler(store)
        assert next(iter(rung.Loader(store, draws="all", sample_on="gpu"))).ranks.device == "cuda:0"


def test_refused_sampling_on_the_gpu():
    with rung.open(path, device="cpu") as store:
        raises(rung.InvalidError, lambda: rung.Loader(store, sample_on="gpu"), "gathers on the CPU")
    with open_store() as store:
        raises(rung.InvalidError, lambda: rung.Loader(store, sample_on="GPU"), "use cpu or gpu")
        raises(rung.NotSupportedError, lambda: rung.Loader(store, draws="new", sample_on="gpu"),
               "use draws='all'")
        raises(rung.NoMemoryError, lambda: rung.Loader(store, draws="all", sample_on="gpu",
                                                       fanouts=(4, 3), batch_size=64,
                                                       look_ahead=4000),
               "not enough memory for a batch of sampled vertices")
        loader = rung.Loader(store, sample_on="gpu", fanouts=())   # no edges, nothing to sample
        assert sum(len(batch.seeds) for batch in loader) == 600


def test_abandoned_loaders():
    with open_store() as store:
        for options in ({}, {"sample_on": "gpu"}):
            loader = rung.Loader(store, draws="all", **options)
            for _ in range(3):
                for batch in loader:
                    kept = snapshot(store, batch)[4]
                    break
            held = batch.features   # outlives the loader
            del loader, batch
            gc.collect()
            assert np.array_equal(on_host(store, held), kept, equal_nan=True)
            del held


def test_all_batches_are_kept():
    # each batch has its own memory
    wanted = of_the_cpu(seed=4, batch_size=20)[0]
    with open_store() as store:
        batches = list(rung.Loader(store, batch_size=20, sample_on="gpu", draws="all", seed=4))
        assert len(batches) == len(wanted) == 30
        assert all(same(snapshot(store, batch), other) for batch, other in zip(batches, wanted))
        assert len({batch.features.data for batch in batches}) == 30
        del batches


globals()[sys.argv[3]]()
"""

NAMES = [line.split("(")[0].removeprefix("def ") for line in CASES.splitlines()
         if line.startswith("def test_")]


@pytest.mark.skipif(not os.path.isfile(SIMULATED),
                    reason="RUNG_SIM_LIBRARY does not name a librung for simulated GPUs; ctest "
                           "builds one with a C++ compiler")
@pytest.mark.parametrize("late", ["", "1"])
@pytest.mark.parametrize("name", NAMES)
def test_on_simulated_gpus(program, staged, tmp_path, monkeypatch, name, late):
    import numpy as np

    np.save(tmp_path / "expected.npy", staged.features)
    monkeypatch.setenv("RUNG_LIBRARY", SIMULATED)
    if late:
        monkeypatch.setenv("RUNG_SIM_LAZY", late)
    program(CASES, staged.path, tmp_path / "expected.npy", name)

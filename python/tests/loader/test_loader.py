# SPDX-License-Identifier: Apache-2.0
"""The sampler and the loader: the contents of batches, which depend only on seed and epoch, and
memory that outlives its loader."""

import gc
import os
import pickle
import signal
import sys
import threading
import traceback
import types

import numpy as np
import pytest

import rung

VERTICES, WIDTH = 6000, 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("loader")
    rows = rng.standard_normal((VERTICES, WIDTH)).astype(np.float16)
    edges = np.stack([(rng.random(30000) ** 2 * VERTICES).astype(np.int64),
                      rng.integers(0, VERTICES, 30000)])
    labels = (np.arange(VERTICES) % 7).astype(np.int64)
    rung.stage(path / "g", graph=edges, features=rows, labels=labels,
               splits={"train": rng.permutation(VERTICES)[:900], "few": np.arange(5)},
               fanouts=(4, 3), batch_size=128)
    np.savez(path / "made.npz", rows=rows, edges=edges, labels=labels)
    return path


@pytest.fixture(scope="module")
def made(folder):
    with np.load(folder / "made.npz") as file:
        return {name: file[name] for name in file}


@pytest.fixture
def store(folder):
    with rung.open(folder / "g", host="40%") as opened:
        yield opened


def contents(loader):
    return [(batch.idx, np.asarray(batch.seeds).tolist(), np.asarray(batch.ranks).tolist(),
             np.asarray(batch.features).tobytes(),
             [(np.asarray(block.indptr).tolist(), np.asarray(block.indices).tolist())
              for block in batch.blocks]) for batch in loader]


def test_batches_have_rows_labels_and_edges_of_the_graph(store, folder, made):
    with rung.Dataset(folder / "g") as dataset:
        vertex_of_rank = dataset.array("vertex_of_rank")
    edges = set(zip(*made["edges"].tolist()))
    seen = []
    for batch in rung.Loader(store, arrays="numpy"):
        vertices = vertex_of_rank[batch.ranks]
        assert (vertices[: len(batch.seeds)] == batch.seeds).all()
        assert (batch.vertices == vertices).all()
        assert (batch.features == made["rows"][vertices]).all()
        assert (batch.labels == made["labels"][batch.seeds]).all()
        assert len(np.unique(vertices)) == len(vertices)
        assert (batch.blocks[0].src_count == len(vertices)
                and batch.blocks[-1].dst_count == len(batch.seeds))
        for source, target in batch.edge_index().T:
            assert (vertices[source], vertices[target]) in edges
        seen.extend(batch.seeds)
    assert len(seen) == 900 and len(set(seen)) == 900


def test_warm_up_is_not_part_of_the_epoch(folder):
    with rung.open(folder / "g", host="30%") as cold, rung.open(folder / "g", host="30%") as warm:
        plain, loader = rung.Loader(cold, arrays="numpy", seed=3,
                                    warm_up=False), rung.Loader(warm, arrays="numpy", seed=3)
        assert cold.stats().requests == 0 and warm.stats().requests >= 4
        assert loader.stats().batches == loader.stats().rows == 0 and loader.epoch == 0
        assert contents(loader) == contents(plain)
        assert loader.stats().batches == plain.stats().batches == len(loader)
        assert len(rung.Loader(warm, np.arange(0), arrays="numpy", labels=False)) == 0


def test_batches_depend_only_on_seed_and_epoch(folder):
    found = []
    for options in ({"threads": 1, "look_ahead": 1, "gathers": 1},
                    {"threads": 3, "look_ahead": 9, "gathers": 4}):
        with rung.open(folder / "g", host="30%") as store:
            loader = rung.Loader(store, arrays="numpy", seed=3, **options)
            found.append([contents(loader), contents(loader)])
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]   # epochs differ
    with rung.open(folder / "g", host="max") as store:
        again = rung.Loader(store, arrays="numpy", seed=3)
        again.set_epoch(1)
        assert contents(again) == found[0][1]
        assert contents(rung.Loader(store, arrays="numpy", seed=4)) != found[0][0]


def test_an_abandoned_epoch_and_the_next(store):
    loader = rung.Loader(store, arrays="numpy")
    for batch in loader:
        assert batch.idx == 0
        break
    assert len(contents(loader)) == len(loader) == 8


def test_two_epochs_at_once_are_refused(store):
    loader = rung.Loader(store, arrays="numpy")
    first = iter(loader)
    next(first)
    next(iter(loader))
    with pytest.raises(rung.InvalidError, match="run one at a time"):
        next(first)


def test_batches_outlive_loader_and_store(folder, made):
    store = rung.open(folder / "g", host="30%")
    with rung.Dataset(folder / "g") as dataset:
        vertex_of_rank = dataset.array("vertex_of_rank")
    batches = list(rung.Loader(store, arrays="numpy"))
    rows = batches[3].features[5:9]
    ranks = batches[3].ranks[5:9].copy()
    store.close()
    for batch in batches:
        assert (batch.features == made["rows"][vertex_of_rank[batch.ranks]]).all()
    del batches, batch
    gc.collect()
    assert (rows == made["rows"][vertex_of_rank[ranks]]).all()   # a view keeps its batch
    assert store._memory.users
    del rows
    gc.collect()
    assert not store._memory.users


def test_ranks_share_an_epoch(store):
    seeds = [np.concatenate([batch.seeds
                             for batch in rung.Loader(store, arrays="numpy", rank=rank,
                                                      world_size=4, batch_size=50)])
             for rank in range(4)]
    assert [len(part) for part in seeds] == [225] * 4
    assert len(set(np.concatenate(seeds))) == 900
    uneven = [rung.Loader(store, "few", arrays="numpy", rank=rank, world_size=2)
              for rank in range(2)]
    assert [sum(len(batch.seeds) for batch in loader) for loader in uneven] == [2, 2]
    with pytest.raises(rung.InvalidError, match="rank=4"):
        rung.Loader(store, arrays="numpy", rank=4, world_size=4)


def test_options(store, folder):
    loader = rung.Loader(store, np.array([7, 3, 5999]), arrays="numpy", shuffle=False, fanouts=(),
                         batch_size=2)
    batches = list(loader)
    assert [batch.seeds.tolist() for batch in batches] == [[7, 3], [5999]]
    assert all(batch.blocks == [] and len(batch.ranks) == len(batch.seeds)
               and batch.edge_index().shape == (2, 0) for batch in batches)
    assert len(rung.Loader(store, arrays="numpy", drop_last=True)) == 7
    assert len(contents(rung.Loader(store, arrays="numpy", drop_last=True))) == 7
    whole = next(iter(rung.Loader(store, "few", arrays="numpy", fanouts=(-1,), labels=False)))
    assert whole.labels is None
    graph = rung.Dataset(folder / "g").graph()
    assert (whole.blocks[0].edge_count == sum(graph.indptr[rank + 1] - graph.indptr[rank]
                                              for rank in whole.ranks[:5]))


@pytest.mark.parametrize("arguments, words", [
    ({"seeds": "nothing"}, "nothing"),
    ({"seeds": np.arange(6000) % 2}, "^seeds: 0 or 1 for each of the 6000 .* mask to bool"),
    ({"seeds": np.ones(6000, np.uint8)}, "^seeds: 0 or 1 for each"),
    ({"seeds": np.array([1, 6000])}, r"seeds\[1\]=6000: out of range.*vertices 0 to 5999"),
    ({"seeds": [-1]}, r"seeds\[0\]=-1"),
    ({"seeds": "valid"}, "^seeds='valid': unknown split of .*; use one of .*train"),
    ({"input_nodes": "valid"}, "^input_nodes='valid': unknown split"),
    ({"seeds": [[1], [1, 2]]}, "seeds: .*; use one list of ids"),
    ({"seeds": np.array([0.5])}, "integers"), ({"form": "dgl"}, "blocks or pyg"),
    ({"arrays": "jax"}, "torch or numpy"),
    ({"world_size": 2}, "world_size=2: rank is missing; pass both"),
    ({"fanouts": (3, 0)}, "fanouts"), ({"draws": "some"}, "draws"), ({"look_ahead": 5000}, "5000"),
    ({"threads": 2000}, "2000"),
    ({"seeds": np.array([2**63 + 1], np.uint64)}, rf"seeds\[0\]={2**63 + 1}"),
])
def test_invalid_arguments(store, arguments, words):
    with pytest.raises(rung.Error, match=words):
        rung.Loader(store, **{"arrays": "numpy", **arguments})


@pytest.mark.parametrize("name, wrong", [
    ("batch_size", (-1, 1.5, "1024", 2**32, 2**64)), ("seed", (-1, 2**64, 0.5)),
    ("look_ahead", (-1, 2**32 + 1)), ("gathers", (-1, 2**32 + 1)),
    ("threads", (-1, 2**32 + 1, None)), ("rank", (-1, 2**31, "0")), ("world_size", (-1, 2**31)),
    ("fanouts", (10, "ab", (1.5,), (-2,), (2**32,)))])
def test_numbers_that_the_library_would_truncate(store, folder, name, wrong):
    for value in wrong:
        with pytest.raises(rung.InvalidError, match=rf"^{name}="):
            rung.Loader(store, "few", arrays="numpy", **{name: value})
        if name in ("seed", "threads", "fanouts"):
            with pytest.raises(rung.InvalidError, match=rf"^{name}="):
                rung.NeighborSampler(rung.Dataset(folder / "g"), **{name: value})


def test_other_arguments_of_loaders_and_samplers(store, folder):
    with pytest.raises(rung.InvalidError, match="store: has type str.*rung.open"):
        rung.Loader("graph.rung", arrays="numpy")
    loader = rung.Loader(store, "few", arrays="numpy", seed=2**64 - 1, drop_last=2**32,
                         batch_size=np.int64(3))
    for wrong in ("a", -1, 0.5):
        with pytest.raises(rung.InvalidError, match="epoch="):
            loader.set_epoch(wrong)
    loader.set_epoch(2**32 - 1)   # the keys of its draws have more than 64 bits
    assert len(contents(loader)) == len(loader) == 1
    sampler = rung.NeighborSampler(rung.Dataset(folder / "g"), (2,), seed=2**64 - 1)
    for wrong in (-1, 2**64, 0.5):
        with pytest.raises(rung.InvalidError, match="key="):
            sampler.sample([1], wrong)


class Ranks:
    """A stand-in for torch.distributed, whose group exists once it is initialised."""

    def __init__(self, monkeypatch):
        self.rank, self.world = 0, 0
        torch = sys.modules.get("torch")
        if torch is None:
            torch = types.SimpleNamespace(Tensor=Ranks, distributed=types.SimpleNamespace())
            monkeypatch.setitem(sys.modules, "torch", torch)
        no_store = types.SimpleNamespace(_get_default_store=lambda: None)   # as with MPI
        for name, function in (("distributed_c10d", no_store), ("is_available", lambda: True),
                               ("is_initialized", lambda: self.world > 0),
                               ("get_rank", lambda: self.rank),
                               ("get_world_size", lambda: self.world)):
            monkeypatch.setattr(torch.distributed, name, function, raising=False)


def test_ranks_are_those_of_the_group_when_an_epoch_begins(store, monkeypatch):
    group = Ranks(monkeypatch)
    early = rung.Loader(store, arrays="numpy", batch_size=50)
    given = rung.Loader(store, arrays="numpy", batch_size=50, rank=0, world_size=1)
    assert len(early) == 18
    whole = contents(early)
    seeds = []
    for rank in range(2):
        group.rank, group.world = rank, 2
        late = rung.Loader(store, arrays="numpy", batch_size=50)
        late.set_epoch(1)
        early.set_epoch(1)
        found = contents(early)
        assert len(early) == len(late) == len(found) == 9 and contents(late) == found
        seeds += [seed for batch in found for seed in batch[1]]
    assert len(set(seeds)) == 900
    assert len(given) == 18 and contents(given) == whole


def test_statistics(folder):
    with rung.open(folder / "g", host="40%", cache="64KiB") as store:
        loader = rung.Loader(store, arrays="numpy")
        batches = [(len(batch.ranks), sum(block.edge_count for block in batch.blocks))
                   for batch in loader]
        stats = loader.stats()
    assert ((stats.batches, stats.rows,
             stats.edges) == (8, sum(rows for rows, _ in batches),
                              sum(edges for _, edges in batches)))
    assert stats.announced == 8
    assert stats.wait <= stats.seconds


def test_a_batch_that_cannot_be_read(folder, tmp_path):
    import shutil

    shutil.copytree(folder / "g", tmp_path / "g")
    with rung.open(tmp_path / "g", host="10%", engine="pread") as store:
        loader = rung.Loader(store, arrays="numpy", batch_size=900)
        features = next((tmp_path / "g").glob("features*.npy"))
        os.truncate(features, os.path.getsize(features) // 2)
        with pytest.raises(rung.ReadError, match="features"):
            list(loader)


def child(function):
    """Run the function in a forked child. @return exit status; that of a signal if it hangs"""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            function()
            os._exit(0)
        except rung.ForkError:
            os._exit(7)
        except SystemExit:
            gc.collect()
            os._exit(8)
        except BaseException:   # pylint: disable=broad-exception-caught
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_has_no_loader(store):
    """A child that continues or queries the parent's epoch gets an error; it may drop the epoch."""
    loader = rung.Loader(store, arrays="numpy", batch_size=100)
    cases = [(lambda batches: next(iter(loader)), 7), (next, 7), (list, 7),
             (lambda batches: loader.stats(), 7), (lambda batches: batches.close(), 0)]
    for function, status in cases:
        batches = iter(loader)
        next(batches)
        assert child(lambda: function(batches)) == status   # pylint: disable=cell-var-from-loop
        assert sum(1 for _ in batches) == 8                 # the parent's epoch continues


def test_a_child_that_leaves_an_epoch_exits(store):
    loader = rung.Loader(store, arrays="numpy", batch_size=100)

    def leave(at):
        """@return in both processes, out of the loop"""
        for batch in loader:
            if batch.idx == at:
                return os.fork()

    def leave_by_exit(at):
        for batch in loader:
            if batch.idx == at:
                pid = os.fork()
                if pid == 0:
                    sys.exit(8)
        return os.waitpid(pid, 0)[1]   # other tests may have left children

    for at in range(5):
        assert child(lambda: leave(at) and os.wait()[1] and sys.exit(1)) == 7   # begun in the child
        pid = leave(at)
        if pid == 0:
            gc.collect()
            store.close()
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
        try:
            assert os.waitstatus_to_exitcode(leave_by_exit(at)) == 8
        except SystemExit as ended:   # in the child
            gc.collect()
            os._exit(ended.code)
    assert len(contents(loader)) == 9


def test_a_child_has_its_own_sampler(folder):
    with rung.Dataset(folder / "g") as dataset:
        sampler = rung.NeighborSampler(dataset, (4, 3), seed=2)
    expected = sampler.sample([5, 1, 2], 3).ranks.tolist()
    held, release = threading.Event(), threading.Event()

    def hold():
        with sampler._lock:   # like sample() of another thread
            held.set()
            release.wait()

    def sample():
        assert sampler.sample([5, 1, 2], 3).ranks.tolist() == expected

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert child(sample) == 0
    finally:
        release.set()
        thread.join()
    sample()


def test_pickling_errors_give_advice(store, folder):
    class Ids:
        def __dlpack__(self, stream=None):
            return np.arange(3).__dlpack__()

    for thing, words in ((rung.Loader(store, arrays="numpy", warm_up=False), "Loader.*its store"),
                         (store.gather_async([1]), r"Gather.*wait\(\)"),
                         (store.gather(Ids()), r"Array.*numpy\(\)"),
                         (rung.Dataset(folder / "g").graph(), "Graph.*rung.Dataset")):
        with pytest.raises(rung.NotSupportedError, match=f"a rung.{words}"):
            pickle.dumps(thing)


def test_sampler(folder, made):
    seeds = [5, 1, 2]
    with rung.Dataset(folder / "g") as dataset:
        rank_of_vertex, vertex_of_rank = map(dataset.array, ("rank_of_vertex", "vertex_of_rank"))
        sampler = rung.NeighborSampler(dataset, (4, -1), seed=2)
        sample = sampler.sample(seeds, key=9)
        vertices = sample.vertices
        assert vertices[:3].tolist() == seeds and vertices.dtype == np.int64
        assert sample.seed_count == 3 and len(sample.blocks) == 2
        assert (sample.ranks == rank_of_vertex[vertices]).all()
        edges = set(zip(*made["edges"].tolist()))
        drawn = vertices[np.concatenate([block.edge_index() for block in sample.blocks], 1)]
        assert drawn.size and edges.issuperset(zip(*drawn.tolist()))
        again = rung.NeighborSampler(dataset, (4, -1), seed=2, threads=1)
        assert (again.sample(np.array(seeds, np.int32), key=9).ranks == sample.ranks).all()
        assert (again.sample(rank_of_vertex[seeds], 9, ranks=True).vertices == vertices).all()
        others = again.sample(seeds, 9, ranks=True)
        assert others.vertices[:3].tolist() == vertex_of_rank[seeds].tolist()
    wrong = [([6000], rung.RangeError), ([3, -1], rung.RangeError),
             ([], rung.InvalidError), ([0.5], rung.InvalidError), ([[1]], rung.InvalidError)]
    for ranks in (False, True):   # the data set is closed already
        for given, error in wrong:
            with pytest.raises(error):
                sampler.sample(given, ranks=ranks)
    with pytest.raises(rung.InvalidError, match="kind='list': unknown value; use numpy or torch"):
        sampler.sample(seeds, kind="list")
    elsewhere = pickle.loads(pickle.dumps(sampler))
    assert (elsewhere.sample(seeds, key=9).ranks == sample.ranks).all()
    drawn_count = sum(block.edge_count for block in sample.blocks)
    assert repr(sample) == f"rung.Sample(3 seeds, {len(vertices)} vertices, {drawn_count} edges)"
    copied = pickle.loads(pickle.dumps(sample))
    assert (copied.vertices == vertices).all()
    assert (copied.blocks[0].indices == sample.blocks[0].indices).all()
    del sampler
    gc.collect()
    assert sample.ranks[0] == rank_of_vertex[5]   # arrays keep their batch


def test_training_is_the_same_with_any_budget(folder):
    torch = pytest.importorskip("torch")
    sums = []
    for host in ("20%", "max"):
        with rung.open(folder / "g", host=host) as store:
            sums.append([(batch.features.double().sum().item(), batch.edge_index().sum().item())
                         for batch in rung.Loader(store, seed=1, arrays="torch")])
            assert isinstance(batch_of(store).features, torch.Tensor)
    assert sums[0] == sums[1]


def tensors(batch):
    parts = [batch.vertices, batch.seeds, batch.labels, batch.ranks, batch.features]
    return parts + [part for block in batch.blocks for part in (block.indptr, block.indices)]


def test_a_batch_moves_to_a_device(store):
    torch = pytest.importorskip("torch")
    batch = batch_of(store)
    here = batch.to("cpu", non_blocking=True)
    assert type(here) is rung.Batch and here.idx == batch.idx
    assert all(map(torch.equal, tensors(here), tensors(batch)))
    assert here.features.data_ptr() == batch.features.data_ptr()   # nothing is copied
    for device in ("meta", torch.device("meta")):
        there = batch.to(device)
        assert {part.device.type for part in tensors(there)} == {"meta"}
        assert [part.shape for part in tensors(there)] == [part.shape for part in tensors(batch)]
        assert there.blocks[0].edge_index().device.type == "meta"
        assert batch.blocks[0].to(device).indices.device.type == "meta"


def test_only_pinned_memory_is_copied_without_waiting(store, monkeypatch):
    """The loader reuses the memory of a batch, which a pending copy might still read."""
    torch = pytest.importorskip("torch")
    copies, asked = [], []

    def pin_memory(tensor):
        copies.append(tensor.clone())
        return copies[-1]

    def to(tensor, _device, non_blocking):
        asked.append(non_blocking)
        return tensor

    batch = batch_of(store)
    count = len(tensors(batch))
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: any(self is one for one in copies))
    batch.to("cpu", non_blocking=True)
    assert asked == [False] * count
    pinned = batch.pin_memory()
    assert len(copies) == count and all(map(torch.equal, tensors(pinned), tensors(batch)))
    for wanted in (True, False):
        asked.clear()
        pinned.to("cpu", non_blocking=wanted)
        assert asked == [wanted] * count


def test_a_batch_of_numpy_does_not_move(store):
    pytest.importorskip("torch")
    batch = next(iter(rung.Loader(store, arrays="numpy")))
    for move in (lambda: batch.to("cpu"), batch.pin_memory, lambda: batch.blocks[0].to("cpu")):
        with pytest.raises(rung.InvalidError, match="arrays='torch'"):
            move()


def batch_of(store):
    return next(iter(rung.Loader(store, arrays="torch")))

# SPDX-License-Identifier: Apache-2.0
"""The sampler and the loader: what batches hold, that nothing but seed and epoch decides it, and that memory outlives what made it."""

import gc
import os

import numpy as np
import pytest

import rung

VERTICES, WIDTH = 6000, 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("loader")
    rows = rng.standard_normal((VERTICES, WIDTH)).astype(np.float16)
    edges = np.stack([(rng.random(30000) ** 2 * VERTICES).astype(np.int64), rng.integers(0, VERTICES, 30000)])
    labels = (np.arange(VERTICES) % 7).astype(np.int64)
    rung.stage(path / "g", graph=edges, features=rows, labels=labels, splits={"train": rng.permutation(VERTICES)[:900], "few": np.arange(5)},
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
    return [(batch.idx, np.asarray(batch.seeds).tolist(), np.asarray(batch.ranks).tolist(), np.asarray(batch.features).tobytes(),
             [(np.asarray(block.indptr).tolist(), np.asarray(block.indices).tolist()) for block in batch.blocks]) for batch in loader]


def test_batches_hold_rows_labels_and_edges_of_the_graph(store, folder, made):
    with rung.Dataset(folder / "g") as dataset:
        vertex_of_rank = dataset.array("vertex_of_rank")
    edges = set(zip(*made["edges"].tolist()))
    seen = []
    for batch in rung.Loader(store, arrays="numpy"):
        vertices = vertex_of_rank[batch.ranks]
        assert (vertices[: len(batch.seeds)] == batch.seeds).all()
        assert (batch.features == made["rows"][vertices]).all()
        assert (batch.labels == made["labels"][batch.seeds]).all()
        assert len(np.unique(vertices)) == len(vertices)
        assert batch.blocks[0].src_count == len(vertices) and batch.blocks[-1].dst_count == len(batch.seeds)
        for source, target in batch.edge_index().T:
            assert (vertices[source], vertices[target]) in edges
        seen.extend(batch.seeds)
    assert len(seen) == 900 and len(set(seen)) == 900


def test_what_warms_up_is_not_of_the_epoch(folder):
    with rung.open(folder / "g", host="30%") as cold, rung.open(folder / "g", host="30%") as warm:
        plain, loader = rung.Loader(cold, arrays="numpy", seed=3, warm_up=False), rung.Loader(warm, arrays="numpy", seed=3)
        assert cold.stats().requests == 0 and warm.stats().requests >= 4
        assert loader.stats().batches == loader.stats().rows == 0 and loader.epoch == 0
        assert contents(loader) == contents(plain)
        assert loader.stats().batches == plain.stats().batches == len(loader)
        assert len(rung.Loader(warm, np.arange(0), arrays="numpy", labels=False)) == 0


def test_only_seed_and_epoch_decide(folder):
    found = []
    for options in ({"threads": 1, "ahead": 1, "gathers": 1}, {"threads": 3, "ahead": 9, "gathers": 4}):
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


def test_an_epoch_left_early_and_the_next(store):
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
    with pytest.raises(rung.InvalidError, match="one at a time"):
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
    assert store._closing is not None
    del rows
    gc.collect()
    assert store._closing is None and store._lent == 0


def test_ranks_share_an_epoch(store):
    seeds = [np.concatenate([batch.seeds for batch in rung.Loader(store, arrays="numpy", rank=rank, world_size=4, batch_size=50)]) for rank in range(4)]
    assert [len(part) for part in seeds] == [225] * 4
    assert len(set(np.concatenate(seeds))) == 900
    uneven = [rung.Loader(store, "few", arrays="numpy", rank=rank, world_size=2) for rank in range(2)]
    assert [sum(len(batch.seeds) for batch in loader) for loader in uneven] == [2, 2]
    with pytest.raises(rung.InvalidError, match="rank=4"):
        rung.Loader(store, arrays="numpy", rank=4, world_size=4)


def test_options(store, folder):
    loader = rung.Loader(store, np.array([7, 3, 5999]), arrays="numpy", shuffle=False, fanouts=(), batch_size=2)
    batches = list(loader)
    assert [batch.seeds.tolist() for batch in batches] == [[7, 3], [5999]]
    assert all(batch.blocks == [] and len(batch.ranks) == len(batch.seeds) and batch.edge_index().shape == (2, 0) for batch in batches)
    assert len(rung.Loader(store, arrays="numpy", drop_last=True)) == 7
    assert len(contents(rung.Loader(store, arrays="numpy", drop_last=True))) == 7
    whole = next(iter(rung.Loader(store, "few", arrays="numpy", fanouts=(-1,), labels=False)))
    assert whole.labels is None
    graph = rung.Dataset(folder / "g").graph()
    assert whole.blocks[0].edge_count == sum(graph.indptr[rank + 1] - graph.indptr[rank] for rank in whole.ranks[:5])


@pytest.mark.parametrize("arguments, words", [
    ({"seeds": "nothing"}, "nothing"), ({"seeds": np.array([1, 6000])}, r"seeds\[1\] = 6000"), ({"seeds": np.array([4, 4])}, "twice"),
    ({"seeds": np.array([0.5])}, "integers"), ({"form": "dgl"}, "blocks or pyg"), ({"arrays": "jax"}, "torch or numpy"),
    ({"fanouts": (3, 0)}, "fanouts"), ({"draws": "some"}, "draws"), ({"ahead": 5000}, "5000"), ({"threads": 2000}, "2000"),
])
def test_what_is_refused(store, arguments, words):
    with pytest.raises(rung.Error, match=words):
        rung.Loader(store, **{"arrays": "numpy", **arguments})


def test_statistics(folder):
    with rung.open(folder / "g", host="40%", cache="64KiB") as store:
        loader = rung.Loader(store, arrays="numpy")
        batches = [(len(batch.ranks), sum(block.edge_count for block in batch.blocks)) for batch in loader]
        stats = loader.stats()
    assert (stats.batches, stats.rows, stats.edges) == (8, sum(rows for rows, _ in batches), sum(edges for _, edges in batches))
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


def test_a_child_has_no_loader(store):
    loader = rung.Loader(store, arrays="numpy")
    pid = os.fork()
    if pid == 0:
        try:
            next(iter(loader))
        except rung.ForkError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert len(contents(loader)) == 8


def test_sampler(folder):
    with rung.Dataset(folder / "g") as dataset:
        sampler = rung.NeighborSampler(dataset, (4, -1), seed=2)
        sample = sampler.sample([5, 1, 2], key=9)
        assert sample.ranks[:3].tolist() == [5, 1, 2] and sample.seed_count == 3 and len(sample.blocks) == 2
        again = rung.NeighborSampler(dataset, (4, -1), seed=2, threads=1).sample(np.array([5, 1, 2], np.int32), key=9)
        assert (again.ranks == sample.ranks).all()
        for wrong, error in (([6000], rung.RangeError), ([1, 1], rung.InvalidError), ([], rung.InvalidError), ([0.5], rung.InvalidError), ([[1]], rung.InvalidError)):
            with pytest.raises(error):
                sampler.sample(wrong)
    del sampler
    gc.collect()
    assert sample.ranks[0] == 5   # arrays keep their batch


def test_torch_batches_train_the_same_with_any_budget(folder):
    torch = pytest.importorskip("torch")
    sums = []
    for host in ("20%", "max"):
        with rung.open(folder / "g", host=host) as store:
            sums.append([(batch.features.double().sum().item(), batch.edge_index().sum().item()) for batch in rung.Loader(store, seed=1, arrays="torch")])
            assert isinstance(batch_of(store).features, torch.Tensor)
    assert sums[0] == sums[1]


def batch_of(store):
    return next(iter(rung.Loader(store, arrays="torch")))

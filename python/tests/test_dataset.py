# SPDX-License-Identifier: Apache-2.0
"""Data sets contain the staged arrays, by original vertex or by rank."""

import gc
import pathlib
import sys

import numpy as np
import pytest
from conftest import VERTICES, same, stage_small

import rung


@pytest.fixture
def dataset(staged):
    with rung.Dataset(staged.path) as opened:
        yield opened


def test_attributes(dataset, staged):
    assert ((dataset.path, dataset.vertex_count, dataset.edge_count,
             dataset.shape) == (staged.path, VERTICES, 4 * VERTICES, (VERTICES, 16)))
    assert ((dataset.dtype.name, dataset.row_bytes,
             dataset.feature_bytes) == ("f32", 64, VERTICES * 64))
    assert ((dataset.fanouts, dataset.batch_size, dataset.draws,
             dataset.score) == ((4, 3), 64, "all", "blend"))
    assert (dataset.splits, dataset.arrays, dataset.has_labels) == (("train",), (), True)
    assert (repr(dataset) == f"rung.Dataset({staged.path!r}): {VERTICES} vertices, {4 * VERTICES} "
                             f"edges, features [{VERTICES}, 16] f32")
    assert rung.Dataset(pathlib.Path(staged.path)).path == staged.path


def test_the_maps_are_inverse(dataset):
    order, rank = dataset.array("vertex_of_rank"), dataset.array("rank_of_vertex")
    assert order.dtype == rank.dtype == np.int32 or order.dtype == np.uint32
    assert (np.array_equal(np.sort(order), np.arange(VERTICES))
            and np.array_equal(rank[order], np.arange(VERTICES)))


def test_labels_and_splits(dataset, staged):
    order = dataset.array("vertex_of_rank")
    assert (same(dataset.labels(), staged.labels)
            and same(dataset.array("labels"), staged.labels[order]))
    train = dataset.split("train")
    assert train.dtype == np.int64 and np.array_equal(train, staged.train)   # in the given order
    ranks = dataset.split("train", ranks=True)
    assert ranks.dtype == np.int64 and np.array_equal(order[ranks], staged.train)
    scores = dataset.array("score")
    assert scores.dtype == np.float32 and (np.diff(scores) <= 0).all()
    for name in ("valid", "train/..", "", "x" * 500, "features_none"):
        with pytest.raises(rung.NotFoundError, match="unknown split of .*; use one of "):
            dataset.split(name)
    with pytest.raises(rung.InvalidError, match="zero byte"):
        dataset.array("labels\0")
    with pytest.raises(rung.InvalidError, match="name=5: has type int; use a str or a path"):
        dataset.array(5)


def test_arrays_belong_to_the_caller(dataset):
    labels = dataset.array("labels")
    expected = labels.copy()
    labels[:] = 0
    assert same(dataset.array("labels"), expected)
    kept = dataset.array("labels")
    dataset.close()
    gc.collect()
    assert same(kept, expected)


def test_the_graph_is_relabelled(dataset, staged):
    graph = dataset.graph()
    assert ((graph.vertex_count, graph.edge_count) == (VERTICES, 4 * VERTICES)
            and dataset.graph() is graph)
    assert (graph.indptr.dtype == np.int64 and graph.indptr.shape == (VERTICES + 1,)
            and graph.indices.dtype == np.int32)
    order = dataset.array("vertex_of_rank")
    mine = sorted(zip(*staged.graph.tolist()))
    theirs = sorted(zip(order[graph.indices].tolist(),
                        order[np.repeat(np.arange(VERTICES), np.diff(graph.indptr))].tolist()))
    assert mine == theirs
    indices = graph.indices
    del graph
    dataset.close()
    gc.collect()
    assert sorted(order[indices].tolist()) == sorted(staged.graph[0].tolist())


def test_without_optional_arrays(tmp_path):
    path = tmp_path / "plain.rung"
    rung.stage(path, graph=np.zeros((2, 0), np.int64), features=np.ones((40, 3)), vertex_count=40,
               score="degree")
    with rung.Dataset(path) as plain:
        assert ((plain.edge_count, plain.splits, plain.arrays, plain.has_labels,
                 plain.score) == (0, (), (), False, "degree"))
        assert plain.fanouts == (25, 10) and plain.batch_size == 1024
        assert plain.graph().indices.shape == (0,) and not plain.graph().indptr.any()
        with pytest.raises(rung.NotFoundError, match="labels"):
            plain.labels()


def test_further_arrays(tmp_path):
    numbers = np.random.default_rng(0)
    years, more = numbers.integers(0, 100,
                                   200).astype(
                                       np.uint8), numbers.random((200, 2, 2)).astype(np.float16)
    small = stage_small(tmp_path, vertices=200, arrays={"year": years, "more": more})
    with rung.Dataset(small.path) as dataset:
        assert dataset.arrays == ("year", "more")
        order = dataset.array("vertex_of_rank")
        assert (same(dataset.array("features_year"), years[order])
                and same(dataset.array("features_more"), more[order]))


def test_a_data_set_is_freed_with_its_last_reference(staged):
    """Without reference cycles it closes at once, not at the next garbage collection."""
    import weakref

    gc.disable()
    try:
        dataset = rung.Dataset(staged.path)
        gone = weakref.ref(dataset), weakref.ref(dataset.graph())
        dataset = None
        assert gone[0]() is None and gone[1]() is None
    finally:
        gc.enable()


def test_descriptions_of_a_store_and_its_gathers(staged):
    with rung.open(staged.path, "20%") as store:   # the second argument is `host`
        text = repr(store)
        assert text.startswith(f"rung.Store({staged.path!r}): [{VERTICES}, 16] f32 on cpu, ")
        held = sum(tier.rows for tier in store.stats().tiers if tier.name == "host")
        assert f"host '20%', rows in memory {held} (" in text
        assert text.endswith(f"engine {store.stats().engine}")
        page = store._repr_html_()
        assert page.startswith("<table>") and "&#x27;20%&#x27;" in page and str(held) in page
        gather = store.gather_async([1, 2, 3])
        gather.wait()
        assert repr(gather) == f"rung.Gather({staged.path!r}): [3, 16] f32, completed"
        with pytest.raises(rung.RangeError):
            store.gather_async([VERTICES])
    assert repr(store).endswith("on cpu, closed")
    with pytest.raises(rung.InvalidError, match="host='r': not a size; use"):
        rung.open(staged.path, "r")


def test_descriptions_leave_out_what_is_0(staged, dataset):
    with rung.open(staged.path, host="20%") as store:
        store.gather(np.arange(VERTICES))
        stats = store.stats()
    text = repr(stats)
    assert len(text) < 900 and "requests=1" in text and "retries" not in text
    assert f"latency={{{stats.latency.index(1)}: 1}}" in text
    assert all(f"<th style='text-align:left'>{name}</th>" in stats._repr_html_()
               for name in ("tiers", "requests", "engine"))
    epoch = rung.EpochStats(3, 500, 0, 1.23456789, 12345.678, 0.0, 1e-7, 0.5, 0.1, 0.2, 2, 0)
    assert repr(epoch) == ("EpochStats(batches=3, rows=500, seconds=1.23, wait=12346, "
                           "wait_rows=1e-07, sample=0.5, gather=0.1, announce=0.2, announced=2)")
    graph = dataset.graph()
    assert repr(graph) == (f"rung.Graph: {VERTICES} vertices, {4 * VERTICES} edges, indices "
                           f"{graph.indices.dtype}, 70.3 KiB")


def test_dtypes_and_size_of_a_store(tmp_path):
    small = stage_small(tmp_path, "bf16", row=(4, 2), vertices=40)
    with rung.open(small.path) as store:
        assert (store.ndim, store.nbytes, store.numpy_dtype) == (3, 40 * 16, np.dtype("V2"))
        if "torch" not in sys.modules:
            return
        torch = sys.modules["torch"]
        assert store.torch_dtype is torch.bfloat16
        assert torch.empty(store.shape, dtype=store.torch_dtype).nbytes == store.nbytes


def test_loaders_of_an_open_store_continue_when_the_data_set_is_staged_again(tmp_path):
    first = stage_small(str(tmp_path))
    with rung.open(first.path, structure="max") as store:
        loader = rung.Loader(store, arrays="numpy")
        score = np.random.default_rng(1).random(len(store), np.float32)
        rung.stage(first.path, graph=first.graph, features=-first.features, labels=first.labels,
                   splits={"train": first.train}, score_source=score, fanouts=(4, 3), force=True)
        for batch in loader:
            assert same(batch.features, first.features[batch.vertices])
        for create in rung.Loader, rung.NeighborSampler:
            with pytest.raises(rung.InvalidError, match="staged again after the store was opened"):
                create(store)

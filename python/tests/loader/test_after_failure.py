# SPDX-License-Identifier: Apache-2.0
"""After a failure: each failing call of the public objects in turn, with and without waiting, and
then the same objects continue with right rows and all requests. A new public call, or a new way to
fail, is a new row of CALLS."""

import contextlib
import gc
import json
import os

import numpy as np
import pytest

import rung

COUNTS = {"paper": 700, "author": 500}
REQUESTS = 3
NUMBERS = np.random.default_rng(8)
ROWS = {"paper": NUMBERS.random((700, 300)).astype(np.float32),
        "author": NUMBERS.integers(0, 255, (500, 700), dtype=np.uint8)}
WRITES = np.stack([NUMBERS.integers(0, 500, 4000), NUMBERS.integers(0, 700, 4000)])
EDGE_ROWS = NUMBERS.random((4000, 150)).astype(np.float32)
RELATION = ("author", "writes", "paper")
TRAIN = np.arange(0, 700, 2)
TABLES = ("vertices/paper", "vertices/author", "edge_rows/author.writes.paper")


class Untyped:
    """The papers as a data set of one type, its store and a loader."""

    tables = ("",)

    def __init__(self, folder):
        self.path = os.path.join(folder, "untyped.rung")
        if not os.path.exists(self.path):
            rung.stage(self.path, features=ROWS["paper"], graph=WRITES, splits={"train": TRAIN},
                       fanouts=(4, 3), batch_size=50)
        self.store = rung.open(self.path, host="20%", requests=REQUESTS)
        self.loader = rung.Loader(self.store, arrays="numpy", warm_up=False)
        self.stores = {"paper": self.store}

    def check_epoch(self):
        for batch in self.loader:
            assert np.array_equal(batch.features, ROWS["paper"][batch.vertices])


class Typed:
    """Papers, authors and edge rows."""

    tables = TABLES

    def __init__(self, folder):
        self.path = os.path.join(folder, "typed.rung")
        if not os.path.exists(self.path):
            self.stage(folder)
        with pytest.raises(rung.InvalidError) as found:
            rung.open(self.path, host=1)
        self.store = rung.open(self.path, host=found.value.min_bytes, requests=REQUESTS)
        self.loader = rung.Loader(self.store, arrays="numpy", warm_up=False)
        self.stores = {"paper": self.store["paper"], "author": self.store["author"]}

    def stage(self, folder):
        for name, array in (("paper", ROWS["paper"]), ("author", ROWS["author"]),
                            ("writes", WRITES), ("rows", EDGE_ROWS), ("train", TRAIN)):
            np.save(os.path.join(folder, f"{name}.npy"), array)
        root = {"format": "rung-source", "version": 1,
                "vertex_types": [{"name": "paper", "count": 700, "features": "paper.npy",
                                  "splits": {"train": "train.npy"}},
                                 {"name": "author", "count": 500, "features": "author.npy"}],
                "relations": [{"name": "writes", "source": "author", "target": "paper",
                               "edges": "writes.npy", "rows": "rows.npy"}],
                "training": {"fanouts": [4, 3], "batch_size": 50}}
        with open(os.path.join(folder, "dataset.json"), "w", encoding="utf-8") as file:
            json.dump(root, file)
        rung.stage(self.path, dataset=os.path.join(folder, "dataset.json"))

    def check_epoch(self):
        for batch in self.loader:
            for kind, rows in ROWS.items():
                assert np.array_equal(batch.features[kind], rows[batch.vertices(kind)])
            assert np.array_equal(batch.edge_rows[RELATION], EDGE_ROWS[batch.edge_ids(RELATION)])


@contextlib.contextmanager
def damaged(path):
    """Remove the rows of a staged folder for a while; its file stays the same."""
    file = os.path.join(path, "features.000.npy")
    with open(file, "rb") as whole:
        content = whole.read()
    os.truncate(file, 4096)
    yield
    with open(file, "r+b") as whole:
        whole.write(content)


def every_id(store):
    return np.arange(len(store))


def fails(*kinds):
    return pytest.raises(kinds or (rung.ReadError,))


def gather(it, store):
    with fails():
        store.gather(every_id(store))


def gather_into(it, store):
    out = np.empty(store.shape, store.numpy_dtype)
    with fails():
        store.gather(every_id(store), out=out)
    del out


def gather_bad_id(it, store):
    with fails(rung.RangeError):
        store.gather(np.array([3, len(store)]))


def wait(it, store):
    gather = store.gather_async(every_id(store))
    for _ in range(2):
        with fails():
            gather.wait()


def done(it, store):
    gather = store.gather_async(every_id(store))
    while not gather.done():
        pass   # and forget it


def forget(it, store):
    out = np.empty(store.shape, store.numpy_dtype)
    store.gather_async(every_id(store), out=out)
    del out


def too_many(it, store):
    gathers = [store.gather_async(every_id(store)) for _ in range(REQUESTS)]
    with contextlib.suppress(rung.AgainError):   # unless one has failed by now
        store.gather_async(every_id(store))
    for gather in gathers:
        with fails():
            gather.wait()


def async_bad_id(it, store):
    with fails(rung.RangeError):
        store.gather_async(np.array([-len(store) - 1]))


def prefetch(it, store):
    with fails(rung.RangeError):
        store.prefetch(np.array([len(store)]))
    store.prefetch(every_id(store))
    with fails():
        store.gather(every_id(store))


def next_batch(it, store):
    with fails():
        list(it.loader)


def next_without_requests(it, store):
    """The loader gathers this table in its own thread, while others are in flight."""
    held = [store.gather_async(every_id(store)) for _ in range(REQUESTS)]
    with fails():
        list(it.loader)
    for gather in held:
        with fails():
            gather.wait()


def batch_by_batch(it, store):
    """The next epoch begins while batches of the one before are still read."""
    for _ in range(3):
        with fails():
            next(iter(it.loader))


def forget_the_loader(it, store):
    for loader in it.others:
        with fails():
            next(iter(loader))
    it.others.clear()
    del loader


def create(it, store):
    """The files are checked when a loader is created."""
    with fails(rung.FormatError):
        rung.Loader(it.store, arrays="numpy")


CALLS = (gather, gather_into, gather_bad_id, wait, done, forget, too_many, async_bad_id, prefetch,
         next_batch, next_without_requests, batch_by_batch, forget_the_loader, create)
OF_LOADERS = (next_batch, batch_by_batch, forget_the_loader, create)


@pytest.mark.parametrize("kind", [Untyped, Typed])
def test_objects_continue_after_each_failing_call(tmp_path, kind):
    it = kind(tmp_path)
    for table in it.tables:
        store = it.stores.get(os.path.basename(table) or "paper")
        for call in CALLS if store is not None else OF_LOADERS:
            it.others = [rung.Loader(it.store, arrays="numpy", warm_up=False, threads=threads,
                                     gathers=2) for threads in (1, 3)]
            with damaged(os.path.join(it.path, table)):
                call(it, store)
            gc.collect()
            for name, each in it.stores.items():
                gathers = [each.gather_async(every_id(each)) for _ in range(REQUESTS)]
                for found in gathers:
                    assert np.array_equal(found.wait(), ROWS[name]), (table, call.__name__)
            it.check_epoch()
    del it.loader
    it.store.close()

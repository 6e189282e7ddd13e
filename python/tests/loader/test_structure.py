# SPDX-License-Identifier: Apache-2.0
"""Loaders and samplers over the neighbour lists of a store, some of which are in the file."""

import os
import shutil
import warnings

import numpy as np
import pytest

import rung
from rung._library import lib

SMALL = "40KiB"   # of about 310 KiB of lists: the slots of cold lists need 16 KiB


def epoch_of(store, **more):
    loader = rung.Loader(store, "train", seed=3, arrays="numpy", **more)
    return [(batch.idx, batch.ranks.copy(), np.asarray(batch.features).copy(),
             [(block.indptr.copy(), block.indices.copy()) for block in batch.blocks])
            for batch in loader]


def equal(one, other) -> bool:
    return len(one) == len(other) > 0 and all(
        a[0] == b[0] and np.array_equal(a[1], b[1]) and a[2].tobytes() == b[2].tobytes()
        and all(np.array_equal(p, q) and np.array_equal(r, s)
                for (p, r), (q, s) in zip(a[3], b[3])) for a, b in zip(one, other))


@pytest.fixture(scope="module")
def expected(large):
    with rung.open(large.path, host="max") as store:
        assert not store.has_structure and store.structure_stats() is None
        return epoch_of(store)


@pytest.mark.parametrize("structure", [SMALL, "50%", "max", "auto"])
def test_batches_do_not_depend_on_the_structure(large, expected, structure):
    with rung.open(large.path, host="1MiB", structure=structure) as store:
        assert store.has_structure and equal(epoch_of(store), expected)
        stats = store.structure_stats()
        cold = {tier.name: tier.rows for tier in stats.tiers}["nvme"]
        assert (cold > 0) == (structure in (SMALL, "50%")) or structure == "auto"
        assert (stats.device_reads > 0) == (cold > 0)


def test_a_loader_does_not_load_the_graph(large, monkeypatch):
    def graph(self):
        raise AssertionError("the graph was loaded")

    monkeypatch.setattr(rung.Dataset, "graph", graph)
    with rung.open(large.path, host="1MiB", structure=SMALL) as store:
        assert len(epoch_of(store)) == len(rung.Loader(store, "train"))
        sampler = rung.NeighborSampler(store, (4, 3), seed=5)
        assert sampler.graph is None and len(sampler.sample([7, 3], 1).blocks) == 2
    with rung.open(large.path, host="1MiB") as store, pytest.raises(AssertionError):
        rung.Loader(store, "train")


def test_a_sampler_of_a_store_draws_the_same(large):
    plain = rung.NeighborSampler(rung.Dataset(large.path), (4, 3), seed=5)
    with rung.open(large.path, host="1MiB", structure=SMALL) as store:
        sampler = rung.NeighborSampler(store, (4, 3), seed=5)
        for key in range(5):
            one, other = (of.sample(large.train[key * 50 :][:50], key) for of in (plain, sampler))
            assert np.array_equal(one.vertices, other.vertices)
            assert all(np.array_equal(a.indices, b.indices)
                       for a, b in zip(one.blocks, other.blocks))
        reads = store.structure_stats().device_reads
        assert reads > 0
    with pytest.raises(rung.ClosedError):
        sampler.sample([1], 0)


def test_everything_in_memory_needs_no_division(large):
    with rung.open(large.path, host="1GiB", structure="auto") as store:
        assert {tier.name: tier.rows for tier in store.stats().tiers}["nvme"] == 0
        assert {tier.name: tier.rows for tier in store.structure_stats().tiers}["nvme"] == 0


def test_slots_are_read_before_their_plan_is_destroyed(large, monkeypatch):
    destroyed, destroy, slots = set(), lib.rung_plan_destroy, lib.rung_plan_slots

    class Slots:
        def __init__(self, plan):
            self.plan, self.pointer = plan.pointer.value, slots(plan)

        @property
        def contents(self):
            assert self.plan not in destroyed
            return self.pointer.contents

    def destroy_plan(plan):
        destroyed.add(plan.value)
        destroy(plan)

    monkeypatch.setattr(lib, "rung_plan_destroy", destroy_plan)
    monkeypatch.setattr(lib, "rung_plan_slots", Slots)
    for host in ("1MiB", "1GiB"):
        destroyed.clear()
        rung.open(large.path, host=host, structure="auto").close()
        assert destroyed


def test_sizes_are_checked(large):
    for structure, error in ((0, "at least 16384 bytes"), ("2KiB", "at least 16384 bytes"),
                             ("max", "give at least 336384 bytes, or less for the structure"),
                             ("most", "structure='most': not a size; use .*, 'max' or 'auto'"),
                             (-1, "not a size; use .*, 'max' or 'auto'"),
                             ("101%", "more than 100 %")):
        with pytest.raises(rung.InvalidError, match=error):
            rung.open(large.path, host="256KiB", structure=structure)
    with pytest.raises(rung.InvalidError, match="no neighbour lists; open it with s"), rung.open(
            large.path, host="max") as store:
        rung.NeighborSampler(store)


def test_an_entry_out_of_range_fails_its_batch(large, tmp_path):
    shutil.copytree(large.path, tmp_path / "g")
    with open(tmp_path / "g" / "graph_indices.npy", "r+b") as file:
        file.seek(-4 * 20000, os.SEEK_END)
        file.write(b"\xff" * 4 * 20000)
    with rung.open(tmp_path / "g", host="1MiB", structure=SMALL) as store:
        sampler = rung.NeighborSampler(store, (-1,))
        with pytest.raises(rung.RangeError, match="graph_indices.npy: entry"):
            sampler.sample(np.arange(20000), 0, ranks=True)
        # the hot lists are not affected
        assert len(sampler.sample([0], 0, ranks=True).blocks) == 1


def test_a_forked_child_samples(large):
    with rung.open(large.path, host="1MiB", structure=SMALL) as store:
        sampler = rung.NeighborSampler(store, (4, 3), seed=5)
        found = sampler.sample(large.train[:50], 1).vertices
        child = os.fork()
        if child == 0:
            again = sampler.sample(large.train[:50], 1).vertices
            os._exit(0 if np.array_equal(found, again) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_attached_processes_share_the_structure(large, expected, tmp_path):
    socket = tmp_path / "private" / "store"
    socket.parent.mkdir(mode=0o700)
    with rung.open(large.path, host="1MiB", structure=SMALL, share=socket):
        with rung.attach(socket) as store:
            assert store.has_structure and equal(epoch_of(store), expected)
            assert store.structure_stats().device_reads > 0
        child = os.fork()
        if child == 0:
            with rung.attach(socket) as store:
                os._exit(0 if equal(epoch_of(store), expected) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_warning_without_a_gpu(large):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rung.open(large.path, host="1MiB", structure=SMALL, sample_on_gpu=True) as store:
            assert store.has_structure and len(epoch_of(store)) > 0

# SPDX-License-Identifier: Apache-2.0
"""Global batches, which do not depend on the number of ranks, and states of loaders: training that
resumes from one has the batches that would have followed."""

import json
import os

import numpy as np
import pytest

import rung

VERTICES, SEEDS, TOGETHER = 3000, 901, 100   # the last global batch has one seed


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("state")
    rng = np.random.default_rng(5)
    sources = {"graph": rng.integers(0, VERTICES, (2, 30000)), "fanouts": (4, 3),
               "splits": {"train": rng.permutation(VERTICES)[:SEEDS]}, "batch_size": TOGETHER}
    for name in ("g", "other"):
        rows = rng.standard_normal((VERTICES, 16)).astype(np.float32)
        rung.stage(path / name, features=rows, **sources)
    return path


@pytest.fixture
def store(path):
    with rung.open(path / "g", host="40%") as opened:
        yield opened


def loaders(store, world, **options):
    """Return the loaders of all ranks, which together have TOGETHER seeds per batch."""
    options = {"batch_size": TOGETHER // world, "arrays": "numpy", "seed": 3, **options}
    return [rung.Loader(store, rank=rank, world_size=world, warm_up=False, **options)
            for rank in range(world)]


def contents(batch):
    return (batch.idx, batch.seeds.tolist(), batch.ranks.tolist(), batch.features.tobytes(),
            [(block.indptr.tolist(), block.indices.tolist()) for block in batch.blocks])


def together(batches):
    """Return the seeds of a global batch in their order, and the edges of each hop."""
    seeds = np.full(sum(len(batch.seeds) for batch in batches), -1)
    hops = [set() for _ in batches[0].blocks]
    for rank, batch in enumerate(batches):
        seeds[rank::len(batches)] = batch.seeds
        for hop, block in zip(hops, batch.blocks):
            sources, targets = batch.vertices[block.edge_index()]
            hop.update(zip(sources.tolist(), targets.tolist()))
    return seeds.tolist(), hops


@pytest.mark.parametrize("shuffle", [True, False])
def test_global_batches_do_not_depend_on_the_number_of_ranks(store, shuffle):
    found = {}
    for world in (1, 2, 4):
        ranks = loaders(store, world, shuffle=shuffle)
        found[world] = [[together(batches) for batches in zip(*ranks)] for _ in range(2)]
    assert [len(epoch) for epoch in found[1]] == [10, 10]
    for epoch in range(2):
        assert found[2][epoch] == found[4][epoch] == found[1][epoch][:9]   # 1 seed for 2 ranks
        assert len({seed for seeds, _ in found[1][epoch] for seed in seeds}) == SEEDS
    assert (found[1][0] != found[1][1]) and (found[1][0][0][0] == found[1][1][0][0]) != shuffle


def test_a_remainder_is_left_out_of_the_last_global_batch_only(store):
    found = {}
    for world in (1, 3):
        ranks = loaders(store, world, batch_size=60 // world, draws="new")
        found[world] = [together(batches)[0] for batches in zip(*ranks)]
    assert [len(seeds) for seeds in found[1]] == [60] * 15 + [1]
    assert found[3] == found[1][:15]
    ranks = loaders(store, 4, batch_size=20, drop_last=True)
    assert [len(loader) for loader in ranks] == [SEEDS // 80] * 4
    whole = loaders(store, 1, batch_size=80)[0]
    seeds = [batch.seeds.tolist() for batch in whole]
    assert [len(each) for each in seeds] == [80] * 11 + [21]
    ranks = [[batch.seeds for batch in loader] for loader in loaders(store, 4, batch_size=20)]
    assert np.stack([batches[-1] for batches in ranks], 1).ravel().tolist() == seeds[-1][:20]


@pytest.mark.parametrize("at", [1, 4, 10])
def test_a_loaded_state_continues_the_epoch(store, at):
    plain, loader = (loaders(store, 1)[0] for _ in range(2))
    expected = [contents(batch) for _ in range(3) for batch in plain]
    iter(loader), next(iter(loader))   # ended: the next is the second epoch
    assert loader.state_dict()["epoch"] == 1
    for batch in loader:
        if batch.idx == at - 1:
            state = loader.state_dict()
            break
    assert (state["epoch"], state["batch"]) == ((1, at) if at < 10 else (2, 0))
    assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (2, 0)   # after break
    again = loaders(store, 1)[0]
    again.load_state_dict(json.loads(json.dumps(state)))
    assert again.state_dict() == state
    again.set_epoch(again.epoch)   # as trainers do for each epoch
    rest = [contents(batch) for epoch in range(again.epoch, 3) for batch in again]
    assert rest == expected[10 + at:]
    loader.load_state_dict(state)
    assert [contents(batch) for batch in loader][:3] == expected[10 + at:][:3]
    again.load_state_dict(state)
    again.set_epoch(0)   # another epoch begins with its first batch
    assert contents(next(iter(again))) == expected[0]


def test_loading_a_state_ends_the_current_epoch(store):
    loader = loaders(store, 1)[0]
    batches = iter(loader)
    first = contents(next(batches))
    loader.load_state_dict({**loader.state_dict(), "batch": 0})
    with pytest.raises(rung.InvalidError, match="a state was loaded"):
        next(batches)
    del batches
    assert contents(next(iter(loader))) == first


class Stop(BaseException):
    """Raised in the body of a loop, like KeyboardInterrupt."""


def wrapped(loader):
    """As tqdm, a generator between the loader and the loop."""
    yield from loader


@pytest.mark.parametrize("wrap", [iter, enumerate, wrapped])
def test_an_exception_in_a_loop_keeps_the_position(store, wrap):
    loader = loaders(store, 1)[0]
    expected = [contents(batch) for _ in range(2) for batch in loader]
    loader = loaders(store, 1)[0]

    def run(stop):
        for count, _ in enumerate(wrap(loader), 1):
            if count == stop:
                raise Stop

    try:
        run(4)
    except Stop:
        state = loader.state_dict()
        try:
            raise ValueError
        except ValueError:   # while the first is still being handled
            assert loader.state_dict() == state
    assert (state["epoch"], state["batch"]) == (0, 4)
    again = loaders(store, 1)[0]
    again.load_state_dict(state)
    assert [contents(batch) for batch in again] == expected[4:10]
    try:
        try:
            for _ in loader:
                raise Stop
        finally:
            state = loader.state_dict()
    except Stop:
        assert loader.state_dict() == state
        loader.set_epoch(5)   # a choice of the program
        assert loader.state_dict() == {**state, "epoch": 5, "batch": 0}
    assert (state["epoch"], state["batch"]) == (1, 1)
    try:
        run(10)
    except Stop:   # in the last batch of epoch 5
        assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (6, 0)


def test_break_begins_the_next_epoch_also_while_an_exception_is_handled(store):
    loader = loaders(store, 1)[0]
    try:
        raise ValueError
    except ValueError:   # a program that tries again
        for _ in loader:
            break
        assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (1, 0)
    for _ in loader:
        break
    assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (2, 0)


def test_a_batch_that_cannot_be_read_is_the_position(tmp_path):
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((4000, 256)).astype(np.float32)   # more than is read ahead
    rung.stage(tmp_path / "g", features=rows, splits={"train": rng.permutation(4000)},
               batch_size=50, score="degree", graph=np.zeros((2, 1), np.int64))
    with rung.open(tmp_path / "g", host="20%") as store:
        def new():
            return rung.Loader(store, arrays="numpy", warm_up=False, fanouts=())

        expected = [batch.seeds.tolist() for batch in new()]
        loader, seen = new(), []
        file = tmp_path / "g" / "features.000.npy"
        kept = file.read_bytes()
        with pytest.raises(rung.ReadError):
            for batch in loader:
                seen.append(batch.seeds.tolist())
                os.truncate(file, 1000)
        state = loader.state_dict()   # no exception is being handled here
        assert (state["epoch"], state["batch"]) == (0, len(seen))
        with open(file, "r+b") as out:
            out.write(kept)
        again = new()
        again.load_state_dict(state)
        assert seen + [batch.seeds.tolist() for batch in again] == expected
        assert next(iter(loader)).seeds.tolist() != expected[0]   # the next epoch
        assert loader.state_dict()["epoch"] == 2
        loader = new()
        os.truncate(file, 1000)
        with pytest.raises(rung.ReadError):
            list(loader)
        loader.set_epoch(0)
        assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (0, 0)


@pytest.mark.parametrize("before, after", [(4, 2), (2, 4), (4, 1), (1, 4)])
def test_a_state_for_another_number_of_ranks(store, before, after):
    """As after an elastic restart: the same global batches follow."""
    expected = [together([batch]) for batch in loaders(store, 1)[0]]
    ranks = loaders(store, before)
    states = []
    for batches in zip(*ranks):
        if batches[0].idx == 5:
            states = [loader.state_dict() for loader in ranks]
            break
    assert states.count(states[0]) == before   # the same on all ranks
    others = loaders(store, after)
    for loader in others:
        loader.load_state_dict(states[0])
    rest = [together(batches) for batches in zip(*others)]
    assert rest == expected[6 : 10 if after == 1 else 9]
    assert {loader.epoch for loader in others} == {1}


def test_the_last_batch_of_a_state_may_be_missing_on_more_ranks(store):
    state = {**loaders(store, 1)[0].state_dict(), "batch": 9}
    more = loaders(store, 2)[0]
    more.load_state_dict(state)
    assert list(more) == [] and more.epoch == 1 and len(list(more)) == 9


@pytest.mark.parametrize("options, words", [
    ({"batch_size": 30}, r"batch_size \* world_size is 100, of this loader 60; use batch_size=50$"),
    ({"seed": 4}, "seed is 3, of this loader 4"), ({"shuffle": False}, "shuffle is True, .* False"),
    ({"fanouts": (4, 2)}, r"fanouts is \[4, 3\], of this loader \[4, 2\]"),
    ({"draws": "new"}, "draws is all, of this loader new"),
    ({"drop_last": True}, "drop_last is False, .* True"),
    ({"seeds": np.arange(SEEDS)}, "seeds is [0-9a-f]{16}, of this loader [0-9a-f]{16}"),
    ({}, "data set is [0-9a-f]{16}, of this loader [0-9a-f]{16}")])
def test_states_of_other_loaders_are_refused(store, path, options, words):
    state = loaders(store, 1)[0].state_dict()
    with rung.open(path / ("g" if options else "other")) as other:
        loader = loaders(other, 2, **options)[1]
        with pytest.raises(rung.InvalidError, match="^state: " + words):
            loader.load_state_dict(state)
        assert (loader.epoch, loader.state_dict()["batch"]) == (0, 0)


def test_states_that_no_loader_has_returned(store):
    loader = loaders(store, 1)[0]
    state = loader.state_dict()
    newer = {**state["options"], "version": 2}
    for wrong, words in ((None, "not from"), ({}, "not from"), ({**state, "options": {}}, "not "),
                         ({**state, "batch": 11}, "batch=11: out of range.*10 batches"),
                         ({**state, "batch": -1}, "batch=-1"), ({**state, "epoch": "1"}, "epoch="),
                         ({**state, "options": newer}, "version is 2")):
        with pytest.raises(rung.InvalidError, match="^state: .*" + words):
            loader.load_state_dict(wrong)
    three = loaders(store, 1, batch_size=33)[0]
    with pytest.raises(rung.InvalidError, match="use batch_size=100"):
        three.load_state_dict(state)
    three = rung.Loader(store, rank=0, world_size=3, arrays="numpy")
    with pytest.raises(rung.InvalidError, match="a number of ranks that divides 100"):
        three.load_state_dict(state)


def test_a_state_of_another_numpy_is_refused(store):
    """Its epochs have another order: seeds of the rest would be trained twice, or not at all."""
    loader = loaders(store, 1)[0]
    state = loader.state_dict()
    state["options"]["shuffling by numpy"] = "0123456789abcdef"
    with pytest.raises(rung.InvalidError, match="^state: shuffling by numpy is 0123456789abcdef, "
                       "of this loader [0-9a-f]{16}; install the numpy that saved it, or begin"):
        loader.load_state_dict(state)
    in_order = loaders(store, 1, shuffle=False)[0]
    assert in_order.state_dict()["options"]["shuffling by numpy"] is None


def test_copies_of_a_data_set_have_the_same_contents(store, path, tmp_path):
    """Staged again from other files, on another machine, for example."""
    with rung.Dataset(path / "g") as dataset, rung.Dataset(path / "other") as other:
        found, differs = dataset._contents(), other._contents()
        rung.stage(tmp_path / "again", features=np.load(path / "g" / "features.000.npy")[
            dataset.array("rank_of_vertex")], graph=np.random.default_rng(5).integers(
                0, VERTICES, (2, 30000)), fanouts=(4, 3), batch_size=TOGETHER,
            splits={"train": dataset.split("train")})
    with rung.Dataset(tmp_path / "again") as again:
        assert again._contents() == found
    assert {name for name in found if found[name] != differs[name]} == {"checksums"}

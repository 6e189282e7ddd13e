# SPDX-License-Identifier: Apache-2.0
"""rung.stage() of typed graphs: torch_geometric's HeteroData, and typed descriptions."""

import json
import os
import re
import warnings

import numpy as np
import pytest

import rung

torch = pytest.importorskip("torch")
HeteroData = pytest.importorskip("torch_geometric.data").HeteroData

PAPERS, AUTHORS, WRITES = 60, 40, 90
NUMBERS = np.random.default_rng(17)
ROWS = NUMBERS.random((PAPERS, 4)).astype(np.float32)
EDGE_ROWS = NUMBERS.random((WRITES, 3)).astype(np.float32)
CITES = NUMBERS.integers(0, PAPERS, (2, 300))
WROTE = np.stack([NUMBERS.integers(0, AUTHORS, WRITES), NUMBERS.integers(0, PAPERS, WRITES)])
KEY, CITING = ("author", "writes", "paper"), ("paper", "cites", "paper")
FANOUTS = {KEY: (4, 0), CITING: (3, -1)}


def hetero():
    data = HeteroData()
    data["paper"].x = torch.from_numpy(ROWS)
    data["paper"].y = torch.arange(PAPERS)
    data["paper"].train_mask = torch.arange(PAPERS) % 3 == 0
    data["author"].num_nodes = AUTHORS
    data[KEY].edge_index = torch.from_numpy(WROTE)
    data[KEY].edge_attr = torch.from_numpy(EDGE_ROWS)
    data[CITING].edge_index = torch.from_numpy(CITES)
    return data


def described(folder):
    """The same graph as a dataset.json."""
    for name, array in (("x", ROWS), ("e", EDGE_ROWS), ("c", CITES), ("w", WROTE),
                        ("y", np.arange(PAPERS)), ("t", np.arange(PAPERS) % 3 == 0)):
        np.save(folder / f"{name}.npy", array)
    root = {"format": "rung-source", "version": 1,
            "vertex_types": [{"name": "paper", "count": PAPERS, "features": "x.npy",
                              "labels": "y.npy", "splits": {"train": "t.npy"}},
                             {"name": "author", "count": AUTHORS}],
            "relations": [{"name": "writes", "source": "author", "target": "paper",
                           "edges": "w.npy", "rows": "e.npy", "fanouts": [4, 0]},
                          {"name": "cites", "source": "paper", "target": "paper",
                           "edges": "c.npy", "fanouts": [3, 4294967295]}],
            "training": {"fanouts": [4, 4294967295], "batch_size": 1024, "draws": "new"}}
    (folder / "dataset.json").write_text(json.dumps(root))
    return folder / "dataset.json"


def content(path):
    """Return the files of all parts but those that record their sources."""
    return {os.path.relpath(os.path.join(parent, name), path):
            open(os.path.join(parent, name), "rb").read()
            for parent, _, names in os.walk(path) for name in names
            if name not in ("manifest.json", "checksums.npy")}


def manifest(path, *parts):
    with open(os.path.join(path, *parts, "manifest.json"), encoding="utf-8") as file:
        return json.load(file)


def test_a_hetero_data_and_a_description_are_staged_equally(tmp_path):
    result = rung.stage(tmp_path / "data.rung", data=hetero(), fanouts=FANOUTS, draws="new")
    assert (result.vertex_count, result.edge_count) == (PAPERS + AUTHORS, WRITES + 300)
    rung.stage(tmp_path / "file.rung", dataset=described(tmp_path))
    assert content(tmp_path / "data.rung") == content(tmp_path / "file.rung")
    one = manifest(tmp_path / "data.rung")
    assert one["fanouts"] == [4, 4294967295] and one["draws"] == "new"
    assert [relation["fanouts"] for relation in one["relations"]] == [[4, 0], [3, 4294967295]]
    assert one["seed_type"] == "paper"
    assert sorted(os.listdir(tmp_path)) == ["c.npy", "data.rung", "dataset.json", "e.npy",
                                            "file.rung", "t.npy", "w.npy", "x.npy", "y.npy"]


def test_the_rows_are_those_of_the_data(tmp_path):
    rung.stage(tmp_path / "data.rung", data=hetero())
    with rung.open(tmp_path / "data.rung" / "vertices" / "paper") as store:
        assert np.array_equal(np.asarray(store.gather(np.arange(PAPERS))), ROWS)
    part = tmp_path / "data.rung" / "edges" / "author.writes.paper"
    indptr, indices = np.load(part / "graph_indptr.npy"), np.load(part / "graph_indices.npy")
    vertices = tmp_path / "data.rung" / "vertices"
    paper, author = (np.load(vertices / name / "vertex_of_rank.npy")
                     for name in ("paper", "author"))
    found = sorted((int(author[source]), int(paper[rank])) for rank in range(PAPERS)
                   for source in indices[indptr[rank]:indptr[rank + 1]])
    assert found == sorted(map(tuple, WROTE.T.tolist()))


def test_splits_arrays_quantization_and_seeds_by_type(tmp_path):
    rung.stage(tmp_path / "data.rung", data=hetero(), quantize={"paper": "int8:column"},
               splits={"author": {"train": [3, 1]}}, arrays={"paper": {"id": np.arange(PAPERS)}},
               seed_type="author", fanouts=(2, 2))
    assert manifest(tmp_path / "data.rung")["seed_type"] == "author"
    paper, author = (manifest(tmp_path / "data.rung", "vertices", name)
                     for name in ("paper", "author"))
    assert (author["splits"], paper["splits"], paper["arrays"]) == (["train"], ["train"], ["id"])
    with rung.Dataset(tmp_path / "data.rung" / "vertices" / "paper") as dataset:
        assert (dataset.quantization.format, dataset.quantization.scales) == ("int8", "column")
    rung.stage(tmp_path / "all.rung", data=hetero(), quantize="int4")
    with rung.Dataset(tmp_path / "all.rung" / "vertices" / "paper") as dataset:
        assert dataset.quantization.format == "int4"


def names(path):
    return [relation["name"] for relation in manifest(path)["relations"]]


def test_undirected_is_as_the_transform_of_torch_geometric(tmp_path):
    transform = pytest.importorskip("torch_geometric.transforms").ToUndirected
    data = hetero()
    del data[KEY].edge_attr
    rung.stage(tmp_path / "ours.rung", data=data, undirected=True, dedup=True, score="expected")
    theirs = transform()(data)
    assert names(tmp_path / "ours.rung") == ["writes", "cites", "rev_writes"]
    rung.stage(tmp_path / "theirs.rung", data=theirs, dedup=True, score="expected")
    ours, theirs = (manifest(tmp_path / f"{name}.rung")["relations"] for name in ("ours", "theirs"))
    assert ([(one["name"], one["source"], one["target"], one["edges"]) for one in ours]
            == [(one["name"], one["source"], one["target"], one["edges"]) for one in theirs])
    part = os.path.join("edges", "paper.rev_writes.author", "graph_indptr.npy")
    for name in ("graph_indptr.npy", "graph_indices.npy"):
        part = os.path.join("edges", "paper.rev_writes.author", name)
        assert np.array_equal(np.load(tmp_path / "ours.rung" / part),
                              np.load(tmp_path / "theirs.rung" / part))


def test_every_attribute_of_a_hetero_data_is_staged_or_named(tmp_path):
    data = hetero()
    data["paper"].year = torch.arange(PAPERS)
    data["author"].field = torch.arange(AUTHORS)
    data[KEY].time = torch.arange(WRITES)
    data[CITING].edge_weight = torch.ones(300)
    data.source = "here"
    with pytest.warns(UserWarning, match="^" + re.escape(
            "data.source, data['author'].field, data['author', 'writes', 'paper'].time, "
            "data['paper', 'cites', 'paper'].edge_weight: not staged; pass arrays")):
        rung.stage(tmp_path / "data.rung", data=data,
                   arrays={"paper": {"year": data["paper"].year}})
    del data["author"].field, data[KEY].time, data.source
    data[CITING].edge_attr = data[CITING].edge_weight   # edge rows
    del data[CITING].edge_weight
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        rung.stage(tmp_path / "data.rung", data=data, force=True,
                   arrays={"paper": {"year": data["paper"].year}})
    with rung.open(tmp_path / "data.rung") as store:
        for batch in rung.Loader(store, form="pyg", fanouts=(3, 2)):
            assert torch.equal(batch["paper"].year, data["paper"].year[batch["paper"].n_id])
            assert "year" not in batch["author"]
        batch = next(iter(rung.Loader(store, fanouts=(3, 2))))
        assert torch.equal(batch.array("paper", "year"), batch.vertices("paper"))
        for kind, name in (("paper", "month"), ("author", "year")):
            with pytest.raises(rung.NotFoundError, match=f"name='{name}': unknown array"):
                batch.array(kind, name)
        batch = next(iter(rung.Loader(store, fanouts=(3, 2), form="pyg", with_arrays=())))
        assert "year" not in batch["paper"]
        del batch
        with pytest.raises(rung.InvalidError, match="with_arrays: 'month' is unknown; use year"):
            rung.Loader(store, with_arrays=["year", "month"])


def test_a_description_changes_by_arguments(tmp_path):
    source = described(tmp_path)
    rung.stage(tmp_path / "g.rung", dataset=source, fanouts=(5, 6), seed_type="author",
               quantize="fp8", batch_size=9)
    one = manifest(tmp_path / "g.rung")
    assert [relation["fanouts"] for relation in one["relations"]] == [[5, 6], [5, 6]]
    assert (one["seed_type"], one["batch_size"]) == ("author", 9)
    with rung.Dataset(tmp_path / "g.rung" / "vertices" / "paper") as dataset:
        assert dataset.quantization.format == "fp8"


def refused(tmp_path, says, kind=rung.InvalidError, **arguments):
    with pytest.raises(kind, match=re.escape(says)):
        rung.stage(tmp_path / "none.rung", **arguments)
    assert not (tmp_path / "none.rung").exists()


def changed(change):
    data = hetero()
    change(data)
    return data


@pytest.mark.filterwarnings("ignore:Unable to accurately infer 'num_nodes'")
def test_wrong_data(tmp_path):
    def no_rows(data):
        data["venue"].year = torch.arange(3)
        del data["venue"].year

    def two_masks(data):
        data["author"].val_mask = torch.ones(AUTHORS, 3)

    def turned(data):
        del data[KEY].edge_index
        data[KEY].adj_t = 1

    def without(data):
        del data[KEY].edge_index

    for change, says in ((no_rows, "data['venue']: has no x and no num_nodes"),
                         (two_masks, "data['author'].val_mask: has 2 dimensions; pass splits="),
                         (turned, "data['author', 'writes', 'paper']: has no edge_index; use the"),
                         (without, "data['author', 'writes', 'paper']: has no edge_index; set it")):
        refused(tmp_path, says, data=changed(change))
    refused(tmp_path, "data: has no edge types", data=HeteroData(paper={"x": torch.ones(3, 1)}))
    refused(tmp_path, "data: has type int; use a Data or a HeteroData", data=5)
    refused(tmp_path, "data['author', 'writes', 'paper'].edge_attr: has 7 rows",
            kind=rung.FormatError,
            data=changed(lambda data: setattr(data[KEY], "edge_attr", torch.ones(7, 1))))


def test_wrong_arguments_of_a_hetero_data(tmp_path):
    for says, arguments in (
            ("features: the graph is typed; set it in data", {"features": ROWS}),
            ("graph: the graph is typed", {"graph": CITES}),
            ("labels: the graph is typed", {"labels": ROWS}),
            ("score_source: the graph is typed; use score=", {"score_source": ROWS}),
            ("vertex_count: the graph is typed; set num_nodes", {"vertex_count": 5}),
            ("splits: 'venue' is unknown; use one of 'paper', 'author'",
             {"splits": {"venue": {"train": [1]}}}),
            ("data['paper'] splits: has type list", {"splits": {"paper": [1]}}),
            ("arrays: has type list; use a dict by type", {"arrays": [1]}),
            ("quantize: 'venue' is unknown", {"quantize": {"venue": "int8"}}),
            ("quantize: type 'author' has no features", {"quantize": {"author": "int8"}}),
            ("quantize='int9': unknown value", {"quantize": {"paper": "int9"}}),
            ("fanouts: ('a', 'b', 'c') is unknown", {"fanouts": {("a", "b", "c"): (1,)}}),
            ("fanouts: ('paper', 'cites', 'paper') has none", {"fanouts": {KEY: (1, 2)}}),
            ("fanouts: ('paper', 'cites', 'paper') has 1; use the same number",
             {"fanouts": {KEY: (1, 2), CITING: (1,)}}),
            ("fanouts=[-2]: -2 is not valid; use 0 or more, or -1", {"fanouts": {KEY: (-2,)}}),
            ("in_place=True: the features are in memory; describe", {"in_place": True}),
            ("data: dataset is given as well", {"dataset": "x.json"}),
            ("the seeds are of type 'venue'", {"seed_type": "venue"}),
            ("score degree is not defined for a typed graph", {"score": "degree"})):
        refused(tmp_path, says, data=hetero(), **arguments)


def test_arguments_of_typed_graphs_need_types(tmp_path):
    given = {"features": ROWS, "graph": CITES}
    for says, arguments in (
            ("fanouts: is a dict, but the graph is not typed", {"fanouts": FANOUTS}),
            ("quantize: is a dict", {"quantize": {"paper": "int8"}}),
            ("seed_type='paper': the graph is not typed", {"seed_type": "paper"})):
        refused(tmp_path, says, **given, **arguments)
    source = described(tmp_path)
    for argument in ("features", "graph", "labels", "splits", "arrays"):
        value = {"a": [1]} if argument in ("splits", "arrays") else ROWS
        refused(tmp_path, f"{argument}: the graph is typed; change the description",
                dataset=source, **{argument: value})

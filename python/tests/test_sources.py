# SPDX-License-Identifier: Apache-2.0
"""rung.stage(): folders of public data sets, torch_geometric's Data, forms of the edges, and
messages that name the argument."""

import gzip
import os
import sys
import warnings

import numpy as np
import pytest
from conftest import SOURCE, same

import rung
from rung.staging.sources import PRESETS

sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))
import torchfile

VERTICES = 60
NUMBERS = np.random.default_rng(13)
EDGES = NUMBERS.integers(0, VERTICES, (2, 300))
ROWS = NUMBERS.random((VERTICES, 768)).astype(np.float32)
LABELS = NUMBERS.integers(0, 5, VERTICES).astype(np.float32)
SPLITS = {"train": np.array([3, 0, 59]), "valid": np.array([6]), "test": np.arange(9, 20)}
SAMPLING = {"fanouts": (3, 2), "batch_size": 8}


def content(path):
    """Return the files of a data set, without those that have the names of its sources."""
    return {name: open(os.path.join(path, name), "rb").read() for name in os.listdir(path)
            if name not in ("manifest.json", "checksums.npy")}


def papers100m(root):
    raw, split = root / "papers100M-bin" / "raw", root / "papers100M-bin" / "split" / "time"
    raw.mkdir(parents=True)
    split.mkdir(parents=True)
    np.savez(raw / "data.npz", edge_index=EDGES, node_feat=ROWS,
             node_year=np.full((VERTICES, 1), 2000), num_nodes_list=np.array([VERTICES]))
    np.savez_compressed(raw / "node-label.npz", node_label=LABELS[:, None])
    for name, ids in SPLITS.items():
        text = "".join(f"{vertex}\n" for vertex in ids)
        (split / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    return {"graph": EDGES, "features": ROWS, "labels": LABELS[:, None], "splits": SPLITS,
            "arrays": {"year": np.full((VERTICES, 1), 2000)}}


def mag240m(root):
    base = root / "mag240m_kddcup2021"
    for name in ("paper", "paper___cites___paper"):
        (base / "processed" / name).mkdir(parents=True)
    np.save(base / "processed" / "paper___cites___paper" / "edge_index.npy", EDGES)
    np.save(base / "processed" / "paper" / "node_feat.npy", ROWS.astype(np.float16))
    np.save(base / "processed" / "paper" / "node_label.npy", LABELS)
    np.save(base / "processed" / "paper" / "node_year.npy", np.full(VERTICES, 2020, np.int32))
    names = {"train": "train", "valid": "valid", "test-dev": "test", "test-challenge": "test"}
    splits = {name: SPLITS[other] for name, other in names.items()}
    torchfile.write(str(base / "split_dict.pt"), {name: ids.tolist()
                                                  for name, ids in splits.items()})
    torchfile.write(str(base / "meta.pt"), {"paper": VERTICES, "author": 0, "institution": 0,
                                            "num_classes": 5})
    return {"graph": EDGES, "undirected": True, "dedup": True, "labels": LABELS, "splits": splits,
            "features": ROWS.astype(np.float16), "arrays": {"year": np.full(VERTICES, 2020, "i4")}}


def igb(root):
    rows = NUMBERS.random((VERTICES, 1024)).astype(np.float32)
    base = root / "tiny" / "processed"
    for name in ("paper", "paper__cites__paper"):
        (base / name).mkdir(parents=True)
    np.save(base / "paper" / "node_feat.npy", rows)
    np.save(base / "paper" / "node_label_19.npy", LABELS)
    np.save(base / "paper__cites__paper" / "edge_index.npy", np.ascontiguousarray(EDGES.T))
    return {"graph": EDGES.T, "features": rows, "labels": LABELS,
            "splits": {"train": np.arange(36), "valid": np.arange(36, 48),
                       "test": np.arange(48, VERTICES)}}


@pytest.mark.parametrize("preset, part, make", [
    ("ogb-papers100M", None, papers100m), ("ogb-mag240m", "papers", mag240m),
    ("ogb-mag240m", None, mag240m), ("igb", "tiny", igb)])
def test_folders_of_public_data_sets(tmp_path, preset, part, make):
    expected = make(tmp_path / "root")
    rung.stage(tmp_path / "preset.rung", dataset=tmp_path / "root", preset=preset, part=part,
               **SAMPLING)
    rung.stage(tmp_path / "arrays.rung", **expected, **SAMPLING)
    assert content(tmp_path / "preset.rung") == content(tmp_path / "arrays.rung")


def test_arguments_replace_files_of_a_folder(tmp_path):
    papers100m(tmp_path / "root")
    os.remove(tmp_path / "root" / "papers100M-bin" / "raw" / "node-label.npz")
    rung.stage(tmp_path / "out.rung", dataset=tmp_path / "root", preset="ogb-papers100M",
               labels=np.arange(VERTICES), splits={"mine": [5]}, draws="new", **SAMPLING)
    with rung.Dataset(tmp_path / "out.rung") as dataset:
        assert (dataset.splits, dataset.draws) == (("mine",), "new")
        assert same(dataset.labels(), np.arange(VERTICES))


def test_presets_are_those_of_the_library():
    kinds = [name for name in vars(rung._library.c) if name.startswith("RUNG_PRESET_")
             and name.removeprefix("RUNG_PRESET_") not in ("GRAPH", "FEATURES", "LABELS", "SPLITS",
                                                           "ARRAYS", "EVERYTHING", "DESCRIPTION")]
    assert sorted("RUNG_PRESET_" + name.upper().replace("-", "_") for name in PRESETS) == sorted(
        kinds)


@pytest.mark.parametrize("wrong, says", [
    ({"preset": "igb"}, "preset='igb': dataset is missing; pass the folder"),
    ({"part": "papers", "features": np.ones((3, 4))}, "part='papers': dataset is missing"),
    ({"dataset": 5}, "dataset=5: has type int; use a str or a path"),
    ({"dataset": ".", "preset": "mag"}, "preset='mag': unknown value; use one of ogb-papers100M,"),
    ({"dataset": ".", "part": "papers"}, "part='papers': preset is missing"),
    ({"dataset": "."}, r"dataset='\.': is a folder; use the path of its dataset.json, or preset="),
    ({"dataset": ".", "preset": "igb", "part": "huge"}, "no size 'huge'"),
    ({"dataset": ".", "preset": "igb"}, "node_feat.npy is missing"),
    ({"data": ROWS}, "data: has type ndarray; use a Data or a HeteroData of torch_geometric")])
def test_invalid_data_sets(tmp_path, wrong, says):
    with pytest.raises(rung.Error, match=says):
        rung.stage(tmp_path / "out.rung", **wrong)
    assert os.listdir(tmp_path) == []


# ---- edges ----

GRAPH = {"features": np.ones((5, 2), np.float32), "fanouts": (2,)}


def edges_of(path):
    """Return the edges of a data set as sorted pairs of vertices."""
    with rung.Dataset(path) as dataset:
        graph, vertices = dataset.graph(), dataset.array("vertex_of_rank")
        targets = np.repeat(np.arange(5), np.diff(graph.indptr))
        return sorted(zip(vertices[graph.indices].tolist(), vertices[targets].tolist()))


@pytest.mark.parametrize("graph", [
    [[0, 3, 1], [4, 2, 1]], [(0, 4), (3, 2), (1, 1)], (np.array([0, 3, 1]), np.array([4, 2, 1])),
    [[[0, 3, 1], [4, 2, 1]]], np.array([[0, 3, 1], [4, 2, 1]], np.uint32)])
def test_forms_of_edges(tmp_path, graph):
    rung.stage(tmp_path / "out.rung", graph=graph, **GRAPH)
    assert edges_of(tmp_path / "out.rung") == [(0, 4), (1, 1), (3, 2)]


def test_two_graphs_of_arrays(tmp_path):
    graphs = [np.array([[0, 3], [4, 2]]), np.array([[1], [1]])]
    rung.stage(tmp_path / "out.rung", graph=graphs, **GRAPH)
    assert edges_of(tmp_path / "out.rung") == [(0, 4), (1, 1), (3, 2)]


def test_scipy_matrices(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.coo_matrix((np.ones(3), ([0, 3, 1], [4, 2, 1])), shape=(5, 5))
    for graph in (matrix, matrix.tocsr(), matrix.tocsc(), [matrix.todia()]):
        rung.stage(tmp_path / "out.rung", graph=graph, force=True, **GRAPH)
        assert edges_of(tmp_path / "out.rung") == [(0, 4), (1, 1), (3, 2)]
    with pytest.raises(rung.InvalidError, match=r"features: unsupported type \w+; use toarray\(\)"):
        rung.stage(tmp_path / "none.rung", features=matrix.tocsr())
    weighted = matrix.tocsr() * 0.5
    for graph, says in ((weighted, "values of graph: not staged; "),
                        ([matrix, weighted, weighted],
                         r"values of graph\[1\], values of graph\[2\]: ")):
        with pytest.warns(UserWarning, match="^" + says):
            rung.stage(tmp_path / "out.rung", graph=graph, force=True, **GRAPH)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rung.stage(tmp_path / "out.rung", graph=weighted.astype(bool), force=True, **GRAPH)


@pytest.mark.parametrize("wrong, says", [
    ({"graph": [[5, 1], [2, 3]]}, r"^graph=\[\[5, 1\], \[2, 3\]\]: two edges, or lists of their"),
    ({"graph": [[0, 1], [1]]}, "^graph: lists of 1 and 2 vertices"),
    ({"graph": 7}, "^graph: unsupported type int; use a path, an array"),
    ({"graph": np.array([[0.5], [1]])}, "^graph: an edge index has dtype f64"),
    ({"graph": [np.array([[0], [1]]), np.array([[0], [9]])]}, r"^graph\[1\]: edge 0: .* 9 is out"),
    ({"labels": np.arange(4)}, "^labels: has 4 labels"),
    ({"splits": {"train": [9]}}, r"^splits\['train'\]: entry 0 is 9"),
    ({"arrays": {"year": np.arange(4)}}, r"^arrays\['year'\]: has 4 rows"),
    ({"score_source": np.arange(5)}, "^score_source: "),
    ({"features": [[1, 2], [3]]}, "^features: .*inhomogeneous"),
    ({"features": "x.parquet"}, r"^features: x.parquet: .*pandas.read_parquet\(...\).to_numpy\(\)"),
    ({"labels": {"y": 1}}, "^labels: unsupported type dict")])
def test_messages_name_the_argument(tmp_path, wrong, says):
    with pytest.raises(rung.Error, match=says) as raised:
        rung.stage(tmp_path / "out.rung", **{"graph": np.array([[0], [1]]), **GRAPH, **wrong})
    assert ".rung-" not in str(raised.value)


# ---- torch_geometric ----

def test_a_data_of_torch_geometric(tmp_path):
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data")
    masks = {name: torch.zeros(VERTICES, dtype=torch.bool) for name in ("train", "val", "test")}
    for name, ids in zip(masks, SPLITS.values()):
        masks[name][torch.from_numpy(ids)] = True
    given = data.Data(x=torch.from_numpy(ROWS), edge_index=torch.from_numpy(EDGES),
                      y=torch.from_numpy(LABELS).long(),
                      **{f"{name}_mask": mask for name, mask in masks.items()})
    rung.stage(tmp_path / "data.rung", data=given, **SAMPLING)
    arrays = {"graph": EDGES, "features": ROWS, "labels": LABELS.astype(np.int64),
              "splits": {name: mask.numpy() for name, mask in masks.items()}}
    rung.stage(tmp_path / "arrays.rung", **arrays, **SAMPLING)
    assert content(tmp_path / "data.rung") == content(tmp_path / "arrays.rung")
    rung.stage(tmp_path / "other.rung", data=given, labels=LABELS, splits={"mine": [1]}, **SAMPLING)
    with rung.Dataset(tmp_path / "other.rung") as dataset:
        assert dataset.splits == ("mine",) and same(dataset.labels(), LABELS)
    rung.stage(tmp_path / "rows.rung", data=data.Data(x=torch.ones(3, 2)))
    assert rung.Dataset(tmp_path / "rows.rung").edge_count == 0
    for wrong, says in (({"data": data.HeteroData()}, "data: has no edge types"),
                        ({"data": data.Data()}, "data: has no x"),
                        ({"data": data.Data(x=torch.ones(3, 2), adj_t=torch.eye(3))},
                         "data: has adj_t instead of edge_index"),
                        ({"graph": data.Data(), "features": ROWS},
                         "graph: has type Data; use data="),
                        ({"features": np.ones((3, 2)), "graph": [data.HeteroData()]},
                         "graph: has type HeteroData; use data="),
                        ({"data": data.Data(x=torch.ones(3, 2), val_mask=torch.ones(3, 5))},
                         "data.val_mask: has 2 dimensions; pass splits= with one column"),
                        ({"features": torch.eye(3).to_sparse()}, "use to_dense")):
        with pytest.raises(rung.InvalidError, match=says):
            rung.stage(tmp_path / "none.rung", **wrong)


def test_every_attribute_of_a_data_is_staged_or_named(tmp_path):
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data")
    given = data.Data(x=torch.ones(5, 2), edge_index=torch.tensor([[0, 3, 1], [4, 2, 1]]),
                      y=torch.arange(5), num_nodes=5, train_mask=torch.ones(5, dtype=torch.bool),
                      edge_attr=torch.ones(3, 4), edge_weight=torch.ones(3), year=torch.arange(5),
                      time=None, name="few")
    with pytest.warns(UserWarning) as raised:
        rung.stage(tmp_path / "out.rung", data=given)
    says = [str(warning.message) for warning in raised if warning.category is UserWarning]
    assert says == ["data.edge_attr, data.edge_weight, data.year, data.name: not staged; pass "
                    "arrays of vertices as arrays=, delete the others"]
    assert raised[0].filename == __file__
    del given.edge_attr, given.edge_weight, given.name   # as the message says
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        rung.stage(tmp_path / "out.rung", data=given, arrays={"year": given.year}, force=True)
    with rung.open(tmp_path / "out.rung") as store:
        batch = next(iter(rung.Loader(store, form="pyg")))
        assert torch.equal(batch.year, given.year[batch.n_id])
        del batch

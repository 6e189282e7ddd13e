# SPDX-License-Identifier: Apache-2.0
"""rung.stage(dataset=...): data sets that a dataset.json describes, and names of data sets."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
from conftest import same

import rung

VERTICES = 500
NUMBERS = np.random.default_rng(12)
GRAPH = NUMBERS.integers(0, VERTICES, (2, 2000))
FEATURES = NUMBERS.random((VERTICES, 6)).astype(np.float32)


def rows_of(path):
    with rung.open(path) as store:
        return store.gather(np.arange(len(store)))


@pytest.fixture
def described(tmp_path):
    """A dataset.json in a folder with its arrays."""
    folder = tmp_path / "source"
    folder.mkdir()
    np.save(folder / "x.npy", FEATURES)
    np.save(folder / "e.npy", GRAPH)
    np.save(folder / "ids.npy", np.arange(7))
    root = {"format": "rung-source", "version": 1,
            "vertex_types": [{"name": "paper", "count": VERTICES, "features": "x.npy",
                              "labels": "range:0,500", "splits": {"train": "ids.npy"},
                              "arrays": {"year": "range:0,500"}}],
            "relations": [{"name": "cites", "source": "paper", "target": "paper",
                           "edges": "e.npy", "undirected": True}],
            "training": {"fanouts": [3, 4294967295], "batch_size": 9, "draws": "new"}}
    (folder / "dataset.json").write_text(json.dumps(root))
    return folder / "dataset.json"


def test_a_description(tmp_path, described):
    rung.stage(tmp_path / "out.rung", dataset=described)
    with rung.Dataset(tmp_path / "out.rung") as dataset:
        assert ((dataset.fanouts, dataset.batch_size, dataset.draws) == ((3, -1), 9, "new")
                and dataset.edge_count > 2000)
        assert dataset.vertex_types == ("paper",)
        assert dataset.relations == (("paper", "cites", "paper"),)
        assert same(dataset.split("train"), np.arange(7))
        assert same(dataset.labels(), np.arange(VERTICES)) and dataset.arrays == ("year",)
    assert same(rows_of(tmp_path / "out.rung"), FEATURES)
    assert rung.stage(tmp_path / "in_place.rung", dataset=described, in_place=True).in_place


def test_arguments_override_a_description(tmp_path, described):
    os.remove(described.parent / "x.npy")
    os.remove(described.parent / "e.npy")
    rung.stage(tmp_path / "out.rung", dataset=str(described), features=FEATURES + 1, graph=GRAPH,
               fanouts=(2,), batch_size=5, draws="all", splits={}, labels=np.zeros(VERTICES),
               arrays={"id": np.arange(VERTICES)})
    with rung.Dataset(tmp_path / "out.rung") as dataset:
        assert ((dataset.fanouts, dataset.batch_size, dataset.draws, dataset.edge_count)
                == ((2,), 5, "all", 2000))
        assert (dataset.splits, dataset.arrays) == ((), ("id",)) and not dataset.labels().any()
    assert same(rows_of(tmp_path / "out.rung"), FEATURES + 1)


def test_wrong_descriptions(tmp_path, described):
    with pytest.raises(rung.InvalidError, match="features=None: no features; pass features, or"):
        rung.stage(tmp_path / "out.rung", graph=GRAPH)
    with pytest.raises(rung.NotFoundError, match="none.json"):
        rung.stage(tmp_path / "out.rung", dataset=tmp_path / "none.json")
    described.write_text(described.read_text().replace('"count": 500', '"count": 501'))
    with pytest.raises(rung.FormatError, match=r"vertex_types\[0\].features: .* has 500 rows"):
        rung.stage(tmp_path / "out.rung", dataset=described)
    with pytest.raises(rung.FormatError, match="500 rows, but the graph has 501 vertices"):
        rung.stage(tmp_path / "out.rung", dataset=described, features=FEATURES, splits={},
                   arrays={}, labels=np.zeros(501), graph=GRAPH)
    assert os.listdir(tmp_path) == ["source"]


def test_names_without_a_description(tmp_path):
    rung.stage(tmp_path / "out.rung", graph=GRAPH, features=FEATURES)
    with rung.Dataset(tmp_path / "out.rung") as dataset:
        assert (dataset.vertex_types, dataset.relations) == (("vertex",),
                                                             (("vertex", "edge", "vertex"),))


# pairs of relations between a and b: names, and the relations that `undirected` adds
TWO_WAYS = (
    ("y", "y", ["b:rev_y:a", "a:rev_y:b"]),   # not opposites of each other
    ("y", "rev_y", []),
    ("rev_y", "y", []),
    ("rev_y", "rev_y", ["b:rev_rev_y:a", "a:rev_rev_y:b"]),
    ("rev_rev_y", "y", ["b:rev_rev_rev_y:a", "a:rev_y:b"]),
    ("y", "z", ["b:rev_y:a", "a:rev_z:b"]),
)


def files_of(path):
    """Return the content of all files of a folder by relative path."""
    return {os.path.relpath(os.path.join(parent, name), path):
            open(os.path.join(parent, name), "rb").read()
            for parent, _, names in os.walk(path) for name in names}


@pytest.mark.parametrize("there, back, added", TWO_WAYS)
def test_undirected_is_the_same_in_python_and_in_the_command(tmp_path, there, back, added):
    command = os.environ.get("RUNG") or shutil.which("rung")
    if command is None:
        pytest.skip("the command rung was not found: set RUNG or PATH")
    numbers = np.random.default_rng(4)
    for name, sources, targets in (("there", 20, 30), ("back", 30, 20), ("within", 20, 20)):
        edges = np.stack([numbers.integers(0, sources, 70), numbers.integers(0, targets, 70)])
        np.save(tmp_path / f"{name}.npy", np.concatenate([edges, edges[:, :9]], axis=1))
    np.save(tmp_path / "rows.npy", numbers.random((79, 2)).astype(np.float32))
    root = {"format": "rung-source", "version": 1,
            "vertex_types": [{"name": "a", "count": 20}, {"name": "b", "count": 30}],
            "relations": [{"name": there, "source": "a", "target": "b", "edges": "there.npy",
                           "rows": "rows.npy"},
                          {"name": back, "source": "b", "target": "a", "edges": "back.npy"},
                          {"name": "w", "source": "a", "target": "a", "edges": "within.npy"}]}
    (tmp_path / "dataset.json").write_text(json.dumps(root))
    rung.stage(tmp_path / "python.rung", dataset=tmp_path / "dataset.json", undirected=True)
    subprocess.run([command, "stage", "--dataset", tmp_path / "dataset.json", "--undirected",
                    "--out", tmp_path / "command.rung"], check=True, capture_output=True)
    assert files_of(tmp_path / "python.rung") == files_of(tmp_path / "command.rung")
    with open(tmp_path / "python.rung" / "manifest.json", encoding="utf-8") as file:
        staged = json.load(file)["relations"]
    found = [f"{one['source']}:{one['name']}:{one['target']}" for one in staged]
    assert found == [f"a:{there}:b", f"b:{back}:a", "a:w:a", *added]
    within = np.load(tmp_path / "within.npy")   # repeated edges are kept
    assert staged[2]["edges"] == 2 * 79 - int((within[0] == within[1]).sum())

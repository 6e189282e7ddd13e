# SPDX-License-Identifier: Apache-2.0
"""Inputs that are given twice, counts that differ, and masks and lists in memory."""

import os
import re
import subprocess

import numpy as np
import pytest
from table import COMMAND, UNTYPED, described, in_python, run, write_arrays
from wrong import (
    CITES,
    EDGES,
    PAPERS,
    ROWS,
    id_too_large,
    ids_as_floats,
    mask_as_i8,
    mask_as_i32,
    mask_as_i64,
    mask_as_u8,
    mask_of,
    mask_of_another_value,
    negative_id,
    raw,
    repeated_id,
    short_mask,
)

import rung

GOOD = ["--graph", "cites.npy", "--features", "x.npy", "--labels", "y.npy"]


@pytest.fixture(autouse=True)
def inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_arrays()


@pytest.mark.parametrize("words, named", [
    ([*GOOD, "--features", "year.npy"], "--features: 'x.npy' is given, and 'year.npy', too"),
    ([*GOOD, "--features", "a:b=year.npy"], "--features: 'x.npy' is given, and 'a:b=year.npy'"),
    ([*GOOD, "--labels", "year.npy"], "--labels: 'y.npy' is given, and 'year.npy', too"),
    ([*GOOD, "--labels", "paper=y.npy"], "--labels: 'y.npy' is given, and 'paper=y.npy', too"),
    ([*GOOD, "--score", "score.npy", "--score", "y.npy"], "--score: 'score.npy' is given, and"),
    ([*GOOD, "--score", "score.npy", "--score", "degree"], "--score: 'score.npy' is given, and"),
    ([*GOOD, "--split", "valid=valid.npy", "--split", "valid=train.npy"], "'valid' is given twice"),
    ([*GOOD, "--features", "a=y.npy", "--features", "a=x.npy"], "'a' are given twice"),
    ([*GOOD, "--vertices", "100", "--vertices", "99"], "--vertices: '99' is given, and another"),
    (["--dataset", "dataset.json", "--labels", "y.npy", "--labels", "year.npy"],
     "--labels: 'y.npy' is given, and 'year.npy', too"),
    (["--dataset", "dataset.json", "--dataset", "dataset.json"], "--dataset is already given"),
    (["--dataset", "dataset.json", "--vertices", "99"], "\"count\" in dataset.json is 100; omit")])
def test_an_input_given_twice(words, named):
    described(UNTYPED, "features", "x.npy")
    message = run(words)
    assert named in message and ";" in message and os.listdir().count("out") == 0, message


def test_a_number_of_vertices_given_twice_is_accepted():
    done = subprocess.run([COMMAND, "stage", "--out", "out", "--quiet", *GOOD, "--vertices", "100",
                           "--vertices", "100"], check=False, timeout=300)
    assert done.returncode == 0


@pytest.mark.parametrize("words, named", [
    (["verify", "out", "--source", "x.npy", "--source", "y.npy"], "--source: 'x.npy' is given"),
    (["verify", "out", "--labels", "y.npy", "--labels", "x.npy"], "--labels: 'y.npy' is given"),
    (["verify", "out", "--score", "y.npy", "--score", "x.npy"], "--score: 'y.npy' is given"),
    (["score", "--graph", "cites.npy", "--out", "s.npy", "--split", "train=train.npy", "--split",
      "train=valid.npy"], "--split train: 'train.npy' is given"),
    (["score", "--graph", "cites.npy", "--out", "s.npy", "--train", "train.npy", "--train",
      "valid.npy"], "--train: 'train.npy' is given")])
def test_an_input_of_another_command_given_twice(words, named):
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and named in done.stderr and ";" in done.stderr, done


@pytest.mark.parametrize("argument, value", [
    ("features", ["x.npy", "y.npy"]), ("features", [ROWS, ROWS]),
    ("features", (ROWS[:60], ROWS[60:])),
    ("labels", ["y.npy", "y.npy"]), ("score_source", ["score.npy"]),
    ("splits", {"train": ["train.npy", "valid.npy"]}), ("arrays", {"year": ["year.npy"]})])
def test_a_list_of_sources(argument, value):
    message = in_python(**{"graph": "cites.npy", "features": "x.npy", argument: value})
    assert re.match(rf"{argument}(\['\w+'\])?: is a list of \d sources; use one, such as "
                    r"numpy.concatenate\(\)", message), message


@pytest.mark.parametrize("wrong", [mask_as_u8, mask_as_i8, mask_as_i32, mask_as_i64,
                                   mask_of_another_value, repeated_id, id_too_large, negative_id,
                                   ids_as_floats, short_mask])
def test_a_split_in_memory(wrong):
    name, says = wrong(None)
    message = in_python(graph=CITES, features=ROWS, splits={"valid": np.load(name)})
    assert message.startswith("splits['valid']: ") and says in message and ";" in message, message
    assert message.count("splits") == 1, message


def test_the_cures_of_masks_and_raw_files():
    mask = mask_of(PAPERS, "u1")
    rung.stage("out", graph=CITES, features=raw(ROWS, b"12", b"3", words=",2,trailing=ignore"),
               splits={"valid": mask.astype(bool)})
    with rung.Dataset("out") as dataset, rung.open("out") as store:
        assert (dataset.split("valid") == np.flatnonzero(mask)).all()
        assert (store.gather(np.arange(PAPERS)) == ROWS).all()


class Matrix:
    """Has what rung.stage() uses of a scipy matrix in COO format."""

    def __init__(self, shape):
        self.shape, self.row, self.col, self.data = shape, *CITES, np.ones(EDGES)

    def tocoo(self):
        return self


@pytest.mark.parametrize("shape", [(PAPERS + 20, PAPERS + 20), (PAPERS, PAPERS + 1)])
def test_a_matrix_of_another_size(shape):
    message = in_python(graph=Matrix(shape), features="x.npy")
    assert str(shape[1]) in message and ("graph" in message) and ";" in message, message
    message = in_python(graph=Matrix(shape), features="x.npy", vertex_count=PAPERS)
    assert message.startswith("graph, ") and "use the same number" in message, message


def test_the_number_of_nodes_of_pyg():
    pyg = pytest.importorskip("torch_geometric.data")
    torch = pytest.importorskip("torch")
    x, edges = torch.from_numpy(ROWS), torch.from_numpy(CITES)
    message = in_python(data=pyg.Data(x=x, edge_index=edges, num_nodes=PAPERS + 20))
    assert "features: has 100 rows, but the graph has 120 vertices; give" in message, message
    data = pyg.HeteroData()
    data["paper"].x, data["paper"].num_nodes = x, PAPERS + 20
    data["paper", "cites", "paper"].edge_index = edges
    message = in_python(data=data)
    assert "data['paper'].x: has 100 rows for 120 vertices of type paper; give" in message, message


def test_the_vertex_count_of_a_description():
    described(UNTYPED, "features", "x.npy")
    message = in_python(dataset="dataset.json", vertex_count=PAPERS - 1)
    assert message.endswith("vertex_count: have 99 and 100 vertices; use the same number"), message

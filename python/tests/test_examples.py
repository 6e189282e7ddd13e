# SPDX-License-Identifier: Apache-2.0
"""The examples run unchanged, on a small graph whose features depend on the class and on small
folders in the layout of OGB."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import rung

pytest.importorskip("torch")

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "examples")
CLASSES = 4


def made(vertices, width, seed=3):
    """Return a graph whose neighbours mostly share a class, and features that depend on it."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, vertices)
    by_class = [np.flatnonzero(labels == each) for each in range(CLASSES)]
    sources = rng.integers(0, vertices, 6 * vertices)
    targets = np.array([rng.choice(by_class[labels[source]]) for source in sources])
    rows = rng.standard_normal((vertices, width)) + 2 * np.eye(CLASSES, width)[labels]
    return rows, np.stack([sources, targets]), labels, rng.permutation(vertices)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("examples") / "g"
    rows, edges, labels, order = made(1500, 1024)
    rung.stage(path, graph=edges, features=rows.astype(np.float32), labels=labels,
               splits={"train": order[:400], "valid": order[400:600], "test": order[600:900]},
               fanouts=(5, 5), batch_size=50, draws="new", undirected=True)
    return path


def run(name, *arguments, before=()):
    package = os.path.dirname(os.path.dirname(rung.__file__))
    done = subprocess.run([sys.executable, *(before or ("-W", "ignore")),
                           os.path.join(EXAMPLES, name), *map(str, arguments)],
                          stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False, timeout=300,
                          env={**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1",
                               "TMPDIR": os.path.dirname(os.path.abspath(arguments[0]))})
    assert done.returncode == 0, done.stderr
    return done.stdout


def share(text, split="test"):
    return float(re.search(rf"(?:accuracy on )?{split}:? (\d\.\d+)", text)[1])


SMALL = ("--host", "40%", "--fanouts", "5,5", "--batch-size", "50", "--hidden", "16")


def test_sage_torch(folder):
    assert share(run("sage_torch.py", folder, *SMALL, "--epochs", 4, "--test", "test")) > 0.6
    assert "2 batches" in run("sage_torch.py", folder, *SMALL, "--epochs", 1, "--batches", 2)


def test_gat_torch(folder):
    assert (share(run("gat_torch.py", folder, *SMALL, "--epochs", 4, "--dropout", 0.2, "--test",
                      "test")) > 0.6)


@pytest.mark.parametrize("model", ["sage", "gat"])
@pytest.mark.parametrize("loader", ["pyg", "rung"])
def test_gnn_pyg(folder, model, loader):
    pytest.importorskip("torch_geometric")
    text = run("gnn_pyg.py", folder, *SMALL, "--epochs", 3, "--model", model, "--loader", loader)
    assert share(text) > 0.6 and share(text, "valid") > 0.6
    assert int(re.search(r"nvme (\d+)", text)[1]) > 0


def test_sage_ddp(folder, tmp_path):
    def train(epochs, *more):
        return run("sage_ddp.py", folder, *SMALL, "--epochs", epochs, *more,
                   before=("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"))

    whole = train(4, "--test", "test")
    assert whole.count("of 400 seeds") == 4   # seeds of both ranks
    assert share(whole) > 0.6
    state = ("--state", tmp_path / "state")
    parts = train(2, *state) + train(4, *state)   # resumes
    assert parts.splitlines() == whole.splitlines()[:4]


@pytest.fixture
def command():
    found = os.environ.get("RUNG") or shutil.which("rung")
    if not found:
        pytest.skip("the command rung was not found: set RUNG or PATH")
    return found


def stage(command, *arguments):
    done = subprocess.run([command, "stage", *map(str, arguments), "--fanout", "5,5", "--batch",
                           "50", "--draws", "new"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_papers100m(command, tmp_path):
    pytest.importorskip("torch_geometric")
    rows, edges, labels, order = made(800, 128)
    raw, split = tmp_path / "papers100M-bin" / "raw", tmp_path / "papers100M-bin" / "split" / "time"
    raw.mkdir(parents=True)
    split.mkdir(parents=True)
    # some labels are unknown
    classes = np.where(np.arange(800) < 790, labels, np.nan).astype(np.float32)[:, None]
    order = order[order < 790]
    np.savez(raw / "data.npz", edge_index=edges, node_feat=rows.astype(np.float32),
             node_year=np.full((800, 1), 2000), num_nodes_list=np.array([800]))
    np.savez_compressed(raw / "node-label.npz", node_label=classes)
    for name, ids in (("train", order[:300]), ("valid", order[300:400]), ("test", order[400:500])):
        (split
         / f"{name}.csv.gz").write_bytes(
             gzip.compress("".join(f"{each}\n" for each in ids).encode()))
    stage(command, "--ogb-papers100M", tmp_path, "--undirected", "--out", tmp_path / "papers.rung")
    text = run("papers100m.py", tmp_path / "papers.rung", "--host", "60%", "--fanouts", "5,5",
               "--batch-size", 50, "--hidden", 32, "--lr", 0.01, "--epochs", 6)
    assert (text.count("epoch ") == 6
            and float(re.search(r"test (\d\.\d+) where valid is best", text)[1]) > 0.6)


@pytest.mark.parametrize("model", ["sage", "gat"])
@pytest.mark.parametrize("in_place", [False, True])
def test_mag240m(command, tmp_path, model, in_place):
    pytest.importorskip("torch_geometric")
    sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "support"))
    import torchfile

    rows, edges, labels, order = made(800, 768)
    base = tmp_path / "mag240m_kddcup2021"
    for name in ("paper", "paper___cites___paper"):
        (base / "processed" / name).mkdir(parents=True)
    np.save(base / "processed" / "paper___cites___paper" / "edge_index.npy", edges)
    np.save(base / "processed" / "paper" / "node_feat.npy", rows.astype(np.float16))
    np.save(base / "processed" / "paper" / "node_label.npy",
            np.where(np.arange(800) < 700, labels, np.nan).astype(np.float32))
    np.save(base / "processed" / "paper" / "node_year.npy", np.full(800, 2020, np.int32))
    hidden = np.arange(700, 800)   # their classes are not in the data set
    order = order[order < 700]
    torchfile.write(str(base / "split_dict.pt"), {"train": order[:300].tolist(),
                                                  "valid": order[300:400].tolist(),
                                                  "test-dev": hidden.tolist(),
                                                  "test-challenge": [799]})
    torchfile.write(str(base / "meta.pt"), {"paper": 800, "author": 0, "institution": 0,
                                            "num_classes": CLASSES})
    stage(command, "--ogb-mag240m", f"{tmp_path}:papers", "--out", tmp_path / "mag.rung",
          *(["--in-place"] if in_place else []))
    text = run("mag240m.py", tmp_path / "mag.rung", "--host", "70%", "--fanouts", "5,5",
               "--batch-size", 50, "--hidden", 32, "--epochs", 6, "--lr", 0.01, "--model", model,
               "--predict", tmp_path / "predictions.npz")
    assert share(text.splitlines()[-1], "valid") > 0.6
    with np.load(tmp_path / "predictions.npz") as found:
        assert found["y_pred"].shape == (100,) and found["y_pred"].dtype == np.int16
        assert (found["y_pred"] == labels[hidden]).mean() > 0.6   # in the order of the split


def test_rgraphsage(tmp_path):
    """Papers with rows, few authors with learned vectors, and many venues without."""
    pytest.importorskip("torch_geometric")
    rows, edges, labels, order = made(1500, 64)
    vertices = np.arange(1500)
    arrays = {"x": rows.astype(np.float32), "y": labels, "cites": edges,
              "writes": np.stack([vertices % 90, vertices]),
              "shown_at": np.stack([vertices, vertices // 5]), "train": order[:400],
              "valid": order[400:600], "test": order[600:900]}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    relations = [("paper", "cites", "paper", False), ("author", "writes", "paper", False),
                 ("paper", "writes", "author", True), ("paper", "shown_at", "venue", False),
                 ("venue", "shown_at", "paper", True)]
    (tmp_path / "dataset.json").write_text(json.dumps({
        "format": "rung-source", "version": 1,
        "vertex_types": [{"name": "paper", "count": 1500, "features": "x.npy", "labels": "y.npy",
                          "splits": {name: f"{name}.npy" for name in ("train", "valid", "test")}},
                         {"name": "author", "count": 90}, {"name": "venue", "count": 300}],
        "relations": [{"source": source, "name": "rev_" * reverse + name, "target": target,
                       "edges": f"{name}.npy", "reversed": reverse}
                      for source, name, target, reverse in relations],
        "training": {"fanouts": [5, 5], "batch_size": 50, "draws": "new"}}))
    rung.stage(tmp_path / "g", dataset=tmp_path / "dataset.json")
    text = run("rgraphsage.py", tmp_path / "g", "--host", "60%", "--fanouts", "5,5",
               "--batch-size", 50, "--hidden", 16, "--dropout", 0, "--lr", 0.01, "--epochs", 4,
               "--embed-max", 100)
    assert share(text) > 0.6 and share(text, "valid") > 0.6
    lines = run("rgraphsage.py", tmp_path / "g", "--host", "512KiB", "--fanouts", "5,5", "--epochs",
                1, "--batches", 1, "--json").splitlines()
    assert [sorted(json.loads(line)) for line in lines] == [
        ["epoch", "loss", "seconds"], ["accuracy", "split"], ["accuracy", "split"]]


def test_rgraphsage_layer(monkeypatch):
    """A layer with two relations, one of them with rows of edges, against a loop over the edges."""
    pytest.importorskip("torch_geometric")
    import torch

    monkeypatch.syspath_prepend(EXAMPLES)
    from rgraphsage import Layer

    cites, writes = ("paper", "cites", "paper"), ("author", "writes", "paper")
    rng = torch.Generator().manual_seed(1)
    rows = {"paper": torch.randn(5, 6, generator=rng), "author": torch.randn(3, 2, generator=rng)}
    edges = {cites: torch.tensor([[1, 4, 4], [0, 0, 3]]),
             writes: torch.tensor([[0, 2, 1, 0], [4, 4, 4, 0]])}
    attr = {writes: torch.randn(4, 3, generator=rng)}
    layer = Layer({"paper": 6, "author": 2}, {writes: 3}, (cites, writes), 7)
    found = layer(rows, edges, attr)
    for kind, each in rows.items():
        for vertex, row in enumerate(each):
            wanted = layer.own[kind](row)
            for relation, (sources, targets) in edges.items():
                drawn = torch.nonzero(targets == vertex).flatten().tolist()
                if relation[2] != kind or not drawn:
                    continue
                name = "/".join(relation)
                wanted = wanted + layer.mean[name](
                    sum(rows[relation[0]][sources[edge]] for edge in drawn) / len(drawn))
                if relation in attr:
                    wanted = wanted + layer.edge[name](
                        sum(attr[relation][edge] for edge in drawn) / len(drawn))
            assert torch.allclose(found[kind][vertex], wanted, atol=1e-5), (kind, vertex)

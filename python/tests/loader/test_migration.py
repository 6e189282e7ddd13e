# SPDX-License-Identifier: Apache-2.0
"""PyG's names in loaders and samplers, and a script for PyG's NeighborLoader that changes in four
lines."""

import difflib
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import SOURCE, VERTICES, random_rows

import rung

MIGRATION = os.path.join(SOURCE, "python", "examples", "migration")
CLASSES = 4


def contents(loader):
    return [(batch.seeds.tolist(), batch.ranks.tolist(), batch.features.tobytes(),
             [block.indices.tolist() for block in batch.blocks]) for batch in loader]


def test_names_and_masks_mean_the_same(store, staged):
    options = {"arrays": "numpy", "batch_size": 100, "seed": 3}
    mask = np.zeros(VERTICES, bool)
    mask[staged.train] = True
    expected = contents(rung.Loader(store, np.flatnonzero(mask), fanouts=(2, 3), **options))
    for seeds in ({"seeds": mask}, {"input_nodes": mask}, {"input_nodes": np.flatnonzero(mask)}):
        assert contents(rung.Loader(store, num_neighbors=[2, 3], **seeds, **options)) == expected
    for nothing in ([], np.zeros(VERTICES, bool)):
        assert contents(rung.Loader(store, nothing, **options)) == []
    split = contents(rung.Loader(store, input_nodes="train", **options))
    assert split == contents(rung.Loader(store, "train", **options))
    assert split == contents(rung.Loader(store, **options))
    every = rung.Loader(store, input_nodes=None, fanouts=(), shuffle=False, **options)
    assert [seed for batch in every for seed in batch.seeds.tolist()] == list(range(VERTICES))


def test_torch_masks(store, staged):
    torch = pytest.importorskip("torch")
    mask = torch.zeros(VERTICES, dtype=torch.bool)
    mask[torch.from_numpy(staged.train)] = True
    ids = mask.nonzero().flatten()
    expected = contents(rung.Loader(store, ids, arrays="numpy"))
    assert contents(rung.Loader(store, input_nodes=mask, arrays="numpy")) == expected
    sampler = rung.NeighborSampler(rung.Dataset(staged.path), num_neighbors=[2, 3])
    assert sampler.hop_count == 2
    assert sampler.sample(mask).ranks.tolist() == sampler.sample(ids).ranks.tolist()


@pytest.mark.parametrize("wrong, says", [
    ({"seeds": "train", "input_nodes": "train"}, "input_nodes: seeds is given, too"),
    ({"fanouts": (2,), "num_neighbors": [2]}, r"num_neighbors=\[2\]: fanouts is given, too"),
    ({"seeds": np.ones(7, bool)}, rf"seeds \[7\]: not a mask .* each of the {VERTICES} vertices"),
    ({"input_nodes": np.arange(VERTICES) % 2}, "input_nodes: 0 or 1 for each of the .* to bool"),
    ({"input_nodes": np.array([VERTICES])}, rf"input_nodes\[0\]={VERTICES}: out of range"),
    ({"input_nodes": ("paper", np.arange(3))}, r"input_nodes=\('paper', ...\): .* leave out"),
    ({"num_neighbors": 10}, "not a list")])
def test_invalid_names(store, wrong, says):
    with pytest.raises(rung.Error, match=says):
        rung.Loader(store, **{"arrays": "numpy", **wrong})


def test_a_sampler_has_one_list_of_fanouts(staged):
    with pytest.raises(rung.InvalidError, match="num_neighbors=.*fanouts is given, too"):
        rung.NeighborSampler(rung.Dataset(staged.path), (2,), num_neighbors=[2])


@pytest.mark.parametrize("labels, classes", [
    (np.array([0, 4, 2]), 5), (np.array([[0], [1], [1]]), 2), (np.ones((3, 7), np.float32), 7),
    (np.array([np.nan, 2, 1], np.float32), 3), (np.array([-1, -1, -1]), 0), (None, 0)])
def test_widths(tmp_path, labels, classes):
    rung.stage(tmp_path / "g", features=random_rows("f32", (3, 2, 5)), labels=labels)
    with rung.open(tmp_path / "g") as store:
        loader = rung.Loader(store, [0], arrays="numpy", labels=False)
        assert (loader.num_features, loader.num_classes, loader.num_classes) == (10, classes,
                                                                                 classes)


def test_descriptions(store, staged):
    loader = rung.Loader(store, arrays="numpy", fanouts=(4, -1))
    assert repr(loader) == (f"rung.Loader({staged.path!r}): 10 batches of 64 seeds, "
                            "fanouts (4, -1)")
    sampler = rung.NeighborSampler(rung.Dataset(staged.path), (-1, 2), draws="new")
    assert repr(sampler) == (f"rung.NeighborSampler({staged.path!r}): fanouts (-1, 2), "
                             "draws 'new'")
    batch = next(iter(loader))
    assert repr(batch).startswith(f"rung.Batch(0: 64 seeds, {len(batch.ranks)} vertices, ")
    assert repr(sampler.sample([5])).startswith("rung.Sample(1 seeds, ")


@pytest.mark.parametrize("package, argument, extra", [
    ("tqdm", "progress=True", "progress"), ("torch_geometric", "form='pyg'", "pyg")])
def test_a_missing_package_is_named_with_its_extra(store, monkeypatch, tmp_path, package, argument,
                                                   extra):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(package), *sys.meta_path])
    name, value = argument.split("=")
    says = rf"^{argument}: {package} is not installed; use pip install 'rung\[{extra}\]'"
    with pytest.raises(rung.LibraryError, match=says):
        rung.Loader(store, **{name: value == "True" or value.strip("'")})
    if package == "tqdm":
        with pytest.raises(rung.LibraryError, match=says):
            rung.stage(tmp_path / "out.rung", features=np.ones((3, 2)), progress=True)


class Missing:
    """A finder of modules for which a package is not installed."""

    def __init__(self, package):
        self.package = package

    def find_spec(self, name, _path=None, _target=None):
        if name == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_script_of_pyg_changes_in_four_lines():
    before, after = (open(os.path.join(MIGRATION, name), encoding="utf-8").read().splitlines()
                     for name in ("before.py", "after.py"))
    assert 50 <= len(before) <= 60
    changed = [line[0] + line[2:] for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert sum(line[0] == "-" for line in changed) == sum(line[0] == "+" for line in changed) == 4
    with open(os.path.join(SOURCE, "docs", "PYTHON.md"), encoding="utf-8") as file:
        shown = file.read().partition("```diff\n")[2].partition("```")[0].splitlines()
    assert sorted(line for line in shown if line[0] in "+-") == sorted(changed)


def run(name, data):
    package = os.path.dirname(os.path.dirname(rung.__file__))
    done = subprocess.run([sys.executable, "-W", "ignore", os.path.join(MIGRATION, name), data],
                          capture_output=True, text=True, check=False, timeout=300,
                          env={**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    return [float(found) for found in re.findall(r"accuracy on test (\d\.\d+)", done.stdout)]


def test_both_scripts_train(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from torch_geometric import typing
    from torch_geometric.data import Data

    numbers = np.random.default_rng(3)
    labels = numbers.integers(0, CLASSES, 1500)
    by_class = [np.flatnonzero(labels == each) for each in range(CLASSES)]
    sources = numbers.integers(0, 1500, 9000)
    targets = np.array([numbers.choice(by_class[labels[source]]) for source in sources])
    rows = numbers.standard_normal((1500, 32)) + np.eye(CLASSES, 32)[labels]
    train = torch.zeros(1500, dtype=torch.bool)
    train[:600] = True
    data = Data(x=torch.from_numpy(rows).float(), y=torch.from_numpy(labels), train_mask=train,
                test_mask=~train, edge_index=torch.from_numpy(np.stack([sources, targets])))
    torch.save(data, tmp_path / "data.pt")
    rung.stage(tmp_path / "data.rung", data=data, draws="new")
    with_rung = run("after.py", tmp_path / "data.rung")
    assert len(with_rung) == 5 and with_rung[-1] > 0.7
    if typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE:   # PyG's loader needs one of them
        with_pyg = run("before.py", tmp_path / "data.pt")
        assert abs(with_pyg[-1] - with_rung[-1]) < 0.1


def test_a_script_that_spawns_its_ranks(tmp_path):
    pytest.importorskip("torch")
    numbers = np.random.default_rng(3)
    labels = numbers.integers(0, CLASSES, 1500)
    rows = (numbers.standard_normal((1500, 32)) + 2 * np.eye(CLASSES, 32)[labels])
    order = numbers.permutation(1500)
    rung.stage(tmp_path / "g", graph=numbers.integers(0, 1500, (2, 6000)), labels=labels,
               features=rows.astype(np.float32), splits={"train": order[:601], "test": order[601:]})
    package = os.path.dirname(os.path.dirname(rung.__file__))
    done = subprocess.run([sys.executable, "-W", "ignore", os.path.join(MIGRATION, "spawn.py"),
                           tmp_path / "g"], capture_output=True, text=True, check=False,
                          timeout=300, env={**os.environ, "PYTHONPATH": package,
                                            "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert re.findall(r"epoch \d: (\d+) seeds on 2", done.stdout) == ["600"] * 3
    accuracy, count = re.search(r"test (\d\.\d+) of (\d+)", done.stdout).groups()
    assert float(accuracy) > 0.7 and int(count) == 899

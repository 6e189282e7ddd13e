# SPDX-License-Identifier: Apache-2.0
"""PyG's and GraphBolt's own tests, with rung's classes in place of theirs.

Neither package has its tests in a source distribution. RUNG_PYG_SOURCE and RUNG_DGL_SOURCE name
checkouts of their repositories at the installed versions. Each suite runs twice, as it is and with
rung's classes (stores.py, typed_stores.py): no test may fail with these only, except those that
change rows. docs/PYTHON.md lists the suites of PyG that do not apply.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
PYG = ("data/test_feature_store.py", "data/test_graph_store.py",
       "data/test_remote_backend_utils.py", "loader/test_neighbor_loader.py",
       "loader/test_link_neighbor_loader.py", "sampler/test_sampler_neighbor_sampler.py",
       "data/lightning/test_datamodule.py", "-m", "not rag")
# with the data in a HeteroData; `custom` compares one with stores, as the files above do
PYG_TYPED = ("loader/test_neighbor_loader.py", "loader/test_link_neighbor_loader.py", "-m",
             "not rag", "-k", "hetero and not custom or single_link or input_id")
NO_TIME = "PyG draws by time from lists in the order of time only, and those of rung are not"
NOT_APPLICABLE = {
    "test_homogeneous_neighbor_sampler_temporal_backwards": NO_TIME,
    "test_temporal_custom_neighbor_loader_on_karate": NO_TIME,
    "test_temporal_hetero_neighbor_loader_on_karate": NO_TIME,
    "test_temporal_neighbor_loader_single_link": NO_TIME,
    "test_edge_level_temporal_hetero_neighbor_loader": NO_TIME,
    "test_temporal_hetero_link_neighbor_loader": NO_TIME,
    "test_hetero_link_neighbor_loader_triplet[1-True-True]": NO_TIME,
    "test_hetero_link_neighbor_loader_triplet[2-True-True]": NO_TIME,
    "test_weighted_hetero_neighbor_loader": "PyG draws by weight from a HeteroData only",
}
GRAPHBOLT = ("impl/test_basic_feature_store.py", "impl/test_torch_based_feature_store.py",
             "test_feature_fetcher.py", "test_dataloader.py", "test_integration.py")


def checkout(name: str, variable: str, package: str) -> str:
    pytest.importorskip(package)
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{name}'s source distribution has no tests, and {variable} names no checkout")
    assert os.path.isdir(folder), f"{variable}={folder}: is not a folder"
    return folder


def outcomes(tmp_path, folder: str, names: tuple[str, ...], *options: str) -> dict[str, str]:
    """Run tests, and return passed, skipped or failed for each."""
    report = tmp_path / "report.xml"
    path = os.pathsep.join(filter(None, (HERE, os.environ.get("PYTHONPATH"),
                                         os.path.join(folder, *[os.pardir] * 3))))
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore",
               f"--junit-xml={report}", *options, *names]
    run = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode in (0, 1), run.stdout
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        found[f"{case.get('classname')}::{case.get('name')}"] = (
            "failed" if kinds & {"failure", "error"} else
            "skipped" if "skipped" in kinds else "passed")
    return found


def compare(tmp_path, folder: str, names: tuple[str, ...], *options: str) -> set[str]:
    """Return the tests that fail with rung's classes only; both runs have the same tests.

    Args:
        names: files, and options of both runs
        options: of the run with rung's classes
    """
    plain = outcomes(tmp_path, folder, names)
    found = outcomes(tmp_path, folder, names, "-p", "stores", *options)
    assert plain.keys() == found.keys() and "passed" in plain.values()
    for outcome in ("passed", "failed", "skipped"):
        print(f"{outcome}: {list(plain.values()).count(outcome)} as it is, "
              f"{list(found.values()).count(outcome)} with rung")
    return {name.partition("::")[2] for name, outcome in found.items()
            if outcome == "failed" and plain[name] != "failed"}


def test_pygs_suite(tmp_path):
    folder = checkout("PyG", "RUNG_PYG_SOURCE", "torch_geometric")
    found = compare(tmp_path, os.path.join(folder, "test"), PYG)
    assert {name.partition("[")[0] for name in found} <= NOT_APPLICABLE.keys()


@pytest.mark.parametrize("instead", ["data", "sampler", "loader"])
def test_pygs_loaders_of_types(tmp_path, instead):
    """rung's stores; rung's sampler in PyG's loader, too; and rung.Loader, for what they offer."""
    folder = checkout("PyG", "RUNG_PYG_SOURCE", "torch_geometric")
    from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

    if not WITH_PYG_LIB and not WITH_TORCH_SPARSE:
        pytest.skip("PyG's suites of loaders need pyg-lib or torch-sparse")
    assert compare(tmp_path, os.path.join(folder, "test"), PYG_TYPED,
                   f"--rung={instead}") <= NOT_APPLICABLE.keys()


def test_graphbolts_suite(tmp_path):
    folder = checkout("dgl", "RUNG_DGL_SOURCE", "dgl")
    found = compare(tmp_path, os.path.join(folder, "tests/python/pytorch/graphbolt"), GRAPHBOLT)
    assert {name.partition("[")[0] for name in found} <= {
        "test_torch_based_feature"}   # it calls update()

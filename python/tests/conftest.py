# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the Python package: small staged data sets, separate Python programs, and
a library that blocks reads."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import numpy as np
import pytest

import rung

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
VERTICES = 3000
SIMULATED = os.environ.get("RUNG_SIM_LIBRARY", "")


def pytest_sessionfinish(session, exitstatus):
    """If all tests were skipped (no torch, for example), exit with the status ctest expects."""
    code = os.environ.get("RUNG_SKIPPED_STATUS")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if code and exitstatus in (0,
                               5) and reporter.stats.get(
                                   "skipped") and not reporter.stats.get("passed"):
        session.exitstatus = int(code)


@dataclass(frozen=True)
class Staged:
    """A data set and the arrays it was staged from, by original vertex."""

    path: str
    features: np.ndarray
    labels: np.ndarray
    graph: np.ndarray   # [2, edges]
    train: np.ndarray


def random_rows(dtype: str, shape: tuple, seed: int = 5) -> np.ndarray:
    """Return rows of random bits (bool: 0 or 1); bf16 is two bytes of void."""
    numbers = np.random.default_rng(seed)
    descr = np.dtype(rung.dtypes.BY_NAME[dtype].numpy)
    if dtype == "bool":
        return numbers.integers(0, 2, shape).astype(bool)
    size = int(np.prod(shape)) * descr.itemsize
    return np.frombuffer(numbers.bytes(size), descr).reshape(shape)


def stage_small(folder, dtype: str = "f32", row: tuple = (16,), vertices: int = VERTICES,
                **more) -> Staged:
    numbers = np.random.default_rng(7)
    graph = numbers.integers(0, vertices, (2, 4 * vertices))
    features = random_rows(dtype, (vertices, *row))
    labels = numbers.integers(0, 11, vertices)
    train = numbers.permutation(vertices)[: vertices // 5]
    path = os.path.join(folder, f"{dtype}.rung")
    rung.stage(path, graph=graph, features=features, labels=labels, splits={"train": train},
               fanouts=(4, 3), batch_size=64, **more)
    return Staged(path, features, labels, graph, train)


@pytest.fixture(scope="session")
def staged(tmp_path_factory) -> Staged:
    return stage_small(tmp_path_factory.mktemp("staged"))


@pytest.fixture(scope="session")
def large(tmp_path_factory) -> Staged:
    """A data set of 5 MB, large enough for a cold-row cache."""
    return stage_small(tmp_path_factory.mktemp("large"), row=(64,), vertices=20000)


@pytest.fixture
def store(staged):
    """A store with half of its rows in memory and the others in the file."""
    with rung.open(staged.path, host="50%") as opened:
        yield opened


@pytest.fixture
def ids() -> np.ndarray:
    """Ids in random order, with repeats, of rows in memory and in the file."""
    return np.random.default_rng(3).integers(0, VERTICES, 1000)


def same(rows, expected: np.ndarray) -> bool:
    """Compare bit by bit: NaN equals NaN, and torch's bf16 equals numpy's two bytes."""
    if type(rows).__module__.split(".")[0] == "torch":
        import torch

        rows = rows.contiguous().view(torch.uint8).numpy() if rows.dim() else rows.numpy()
        return rows.tobytes() == np.ascontiguousarray(expected).tobytes()
    rows = np.asarray(rows)
    return (rows.shape == expected.shape and rows.dtype == expected.dtype
            and rows.tobytes() == np.ascontiguousarray(expected).tobytes())


def torch_has(name: str) -> bool:
    """Return whether torch is installed and has an element type; torch 2.2 has no uint16."""
    try:
        import torch
    except ImportError:
        return False
    return hasattr(torch, name)


class Program:
    """Runs a Python program in a separate process that imports the same package."""

    def __init__(self, folder, preload: str = ""):
        self.folder, self.preload = str(folder), preload

    def __call__(self, text: str, *args: str, status: int = 0) -> str:
        """Return the output. Text on stderr or another status fails the test."""
        package = os.path.dirname(os.path.dirname(os.path.abspath(rung.__file__)))
        before = [package, HERE] + ([os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH")
                                    else [])
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(before),
                     "PYTHONDONTWRITEBYTECODE": "1"}
        if self.preload:
            variables["LD_PRELOAD"] = self.preload
        file = os.path.join(self.folder, "program.py")
        with open(file, "w", encoding="utf-8") as out:
            out.write(textwrap.dedent(text))
        # since Python 3.12, os.fork() warns if the process has threads, and librung starts some
        command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", file]
        done = subprocess.run([*command, *map(str, args)], env=variables, capture_output=True,
                              text=True, timeout=300, check=False)
        assert (done.returncode, done.stderr) == (status, ""), done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def program(tmp_path) -> Program:
    return Program(tmp_path)


def compiler() -> str:
    return os.environ.get("RUNG_CC") or "cc"


@pytest.fixture(scope="session")
def gate_library(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("gate") / "libgate.so")
    try:
        subprocess.run([compiler(), "-shared", "-fPIC", "-O1", "-pthread", "-o", path,
                        os.path.join(HERE, "gate.c")], check=True)
    except FileNotFoundError:
        pytest.skip(f"no C compiler ({compiler()}): cannot block reads of librung")
    return path


@pytest.fixture
def gated(gate_library, tmp_path) -> Program:
    """Programs in which gate.py blocks or fails reads of librung with the engine "pread"."""
    return Program(tmp_path, gate_library)

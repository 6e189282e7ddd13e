# SPDX-License-Identifier: Apache-2.0
"""ruff, mypy --strict and pyright accept the package and a user's typed program, and report each
mistake of another program. They need torch and PyG, whose types the package uses."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig

import pytest
from conftest import SOURCE

HERE = os.path.dirname(os.path.abspath(__file__))
USER, MISTAKES = (os.path.join(HERE, name) for name in ("user.py", "mistakes.py"))
COMPLETE = 0.98   # share of the public symbols whose types are known


def run(name, *arguments):
    """Run a checker in the source folder, and return its status and what it printed."""
    path = shutil.which(name, path=sysconfig.get_path("scripts"))
    missing = [wanted for wanted, found in (
        (name, path), ("torch", importlib.util.find_spec("torch")),
        ("torch_geometric", importlib.util.find_spec("torch_geometric"))) if not found]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed; use pip install 'rung[dev,pyg]'")
    # pyright --verifytypes ignores --pythonpath, and asks the first `python`
    path_variable = os.pathsep.join((os.path.dirname(path), os.environ["PATH"]))
    done = subprocess.run([path, *arguments], cwd=SOURCE, text=True, check=False,
                          env={**os.environ, "PATH": path_variable},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def mypy(*arguments):
    """Run mypy with the options in pyproject.toml, of which one is `strict`."""
    return run("mypy", "--python-executable", sys.executable, "--cache-dir", os.devnull, *arguments)


def pyright(*arguments):
    status, said = run("pyright", "--pythonpath", sys.executable, "--outputjson", *arguments)
    try:
        return status, json.loads(said[said.index("{"):])
    except ValueError:
        raise AssertionError(said) from None


def wrong_lines():
    with open(MISTAKES, encoding="utf-8") as file:
        return {number for number, line in enumerate(file, 1) if line.endswith("# error\n")}


def test_style():
    status, said = run("ruff", "check", "--no-cache", "--output-format", "concise", ".")
    assert status == 0, said


@pytest.mark.parametrize("files", [(), (USER,)], ids=["package", "user"])
def test_mypy(files):
    status, said = mypy(*files)
    assert status == 0 and "no issues found" in said, said


@pytest.mark.parametrize("files", [(), (USER,)], ids=["package", "user"])
def test_pyright(files):
    status, report = pyright(*files)
    assert status == 0 and not report["generalDiagnostics"], report["generalDiagnostics"]
    assert report["summary"]["filesAnalyzed"] >= (1 if files else 20)


def test_mypy_reports_each_mistake():
    _, said = mypy(MISTAKES)
    found = {int(line) for line in re.findall(r"mistakes\.py:(\d+): error:", said)}
    assert found == wrong_lines() and len(found) > 15, said


def test_pyright_reports_each_mistake():
    _, report = pyright(MISTAKES)
    found = {each["range"]["start"]["line"] + 1 for each in report["generalDiagnostics"]
             if each["severity"] == "error"}
    assert found == wrong_lines() and len(found) > 15, report["generalDiagnostics"]


def test_types_of_public_symbols_are_known():
    _, report = pyright("--verifytypes", "rung", "--ignoreexternal")
    found = report["typeCompleteness"]
    unknown = [symbol["name"] for symbol in found["symbols"]
               if symbol["isExported"] and not symbol["isTypeKnown"]]
    assert len(found["symbols"]) > 400
    assert found["completenessScore"] >= COMPLETE, (found["completenessScore"], unknown)

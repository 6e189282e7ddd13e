# SPDX-License-Identifier: Apache-2.0
"""Every input x every wrong description of it.

Each pair is tried with options of `rung stage`, with arguments of rung.stage(), and with a
dataset.json through both, untyped and typed. All must fail without a trace, with one message that
names the input, the file and a cure. A new input is a row of table.py, and a new mistake a function
of one of the lists in wrong.py.
"""

import os
import re

import pytest
from table import TYPED, UNTYPED, arguments, command, described, in_python, run, write_arrays
from wrong import ARRAYS


@pytest.fixture(autouse=True)
def inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_arrays()


def rows_of(table):
    return [pytest.param(name, wrong, id=f"{name}-{wrong.__name__}")
            for name, row in table.items() for wrong in row[4]]


def check(message, named, says, spec):
    """The message must have the input, the file, what is wrong and, after ';', a cure."""
    assert re.search(named, message), message
    assert "bad" in message or "bad" not in spec, message
    assert says in message, message
    assert ";" in message, message
    left = [name for name in os.listdir() if name.startswith(("out", ".rung"))]
    assert not left, message


@pytest.mark.parametrize("name, wrong", rows_of(UNTYPED))
def test_an_untyped_graph(name, wrong):
    _, _, key, good, _, named = UNTYPED[name]
    spec, says = wrong(ARRAYS[good])
    messages = [command(UNTYPED, name, spec), in_python(**arguments(name, spec))]
    if key:
        described(UNTYPED, name, spec)
        messages += [run(["--dataset", "dataset.json"]), in_python(dataset="dataset.json")]
    for message in messages:
        check(message, named, says, spec)


@pytest.mark.parametrize("name, wrong", rows_of(TYPED))
def test_a_typed_graph(name, wrong):
    _, _, _, good, _, named = TYPED[name]
    spec, says = wrong(ARRAYS[good])
    described(TYPED, name, spec)
    for message in (command(TYPED, name, spec), run(["--dataset", "dataset.json"]),
                    in_python(dataset="dataset.json")):
        check(message, named, says, spec)

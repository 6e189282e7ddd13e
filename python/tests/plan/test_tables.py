# SPDX-License-Identifier: Apache-2.0
"""rung.plan_tables() and rung plan of a typed data set: one budget for tables of all parts."""

import ctypes
import json
import os
import shutil
import subprocess

import numpy as np
import pytest

import rung
from rung._library import c, check, lib

PAPERS, AUTHORS, WRITES, CITES = 30000, 20000, 90000, 120000


def texts(*given):
    """Return an array of C strings."""
    return (ctypes.c_char_p * len(given))(*[os.fsencode(one) for one in given])


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """A typed data set: wide papers, narrow authors, venues without rows, edges with rows."""
    home = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(4)

    def save(name, array):
        np.save(home / f"{name}.npy", array)
        return os.fsencode(home / f"{name}.npy")

    def skewed(count, size):
        return (count * rng.random(size) ** 3).astype(np.int64)

    train = texts(save("train", np.arange(0, PAPERS, 5).astype(np.int64)).decode())
    split = (c.rung_stage_split * 1)(c.rung_stage_split(name=b"train", spec=train[0]))
    types = (c.rung_stage_type * 3)(
        c.rung_stage_type(name=b"paper", splits=split, split_count=1, features=save(
            "papers", rng.integers(0, 256, (PAPERS, 400), dtype=np.uint8))),
        c.rung_stage_type(name=b"author", features=save(
            "authors", rng.integers(0, 256, (AUTHORS, 100), dtype=np.uint8))),
        c.rung_stage_type(name=b"venue", vertex_count=7))
    cites = texts(save("cites", np.stack([skewed(PAPERS, CITES),
                                          skewed(PAPERS, CITES)])).decode())
    writes = texts(save("writes", np.stack([skewed(AUTHORS, WRITES),
                                            skewed(PAPERS, WRITES)])).decode())
    relations = (c.rung_stage_relation * 2)(
        c.rung_stage_relation(source=b"paper", name=b"cites", target=b"paper", specs=cites,
                              spec_count=1),
        c.rung_stage_relation(source=b"author", name=b"writes", target=b"paper", specs=writes,
                              spec_count=1, rows=save("rows", rng.integers(
                                  0, 256, (WRITES, 20), dtype=np.uint8))))
    fanouts = (ctypes.c_uint32 * 2)(5, 3)
    opts = c.rung_stage_opts(out_dir=os.fsencode(home / "typed.rung"), types=types, type_count=3,
                             relations=relations, relation_count=2, fanouts=fanouts,
                             fanout_count=2, batch_size=64)
    check(lib.rung_stage(ctypes.byref(opts), None))
    return str(home / "typed.rung")


def time_served(tables):
    """Return the expected accesses that memory serves; all reads take the same time here."""
    return sum(table.hits for table in tables)


def test_every_part_with_bytes_is_a_table(typed):
    tables = {table.name: table for table in rung.plan_tables(typed, "max", queue_depth=1)}
    assert list(tables) == ["vertices/paper", "vertices/author", "edges/paper.cites.paper",
                            "edges/author.writes.paper", "edge_rows/author.writes.paper"]
    for table in tables.values():
        assert table.bytes == table.resident_bytes == table.rows * table.row_bytes
        assert table.hits == pytest.approx(table.accesses) and table.hits > 0
    assert tables["vertices/paper"].bytes == 400 * PAPERS
    assert tables["edge_rows/author.writes.paper"].bytes == 20 * WRITES


def test_accesses_are_those_of_the_scores(typed):
    for table in rung.plan_tables(typed, "max"):
        if not table.lists:
            score = np.load(os.path.join(typed, table.name, "score.npy")).astype(float)
            assert table.accesses == pytest.approx(-np.expm1(-score).sum(), rel=1e-5)


def test_moving_bytes_between_tables_serves_no_more(typed):
    host = 5 << 20
    tables = rung.plan_tables(typed, host, queue_depth=1, cache=0)
    assert sum(table.bytes for table in tables) <= host
    best = time_served(tables)
    for receiver in range(len(tables)):
        for giver in range(len(tables)):
            moved, step = 0.0, 100_000
            if giver == receiver or tables[giver].bytes - step < tables[giver].least_bytes:
                continue
            for table, more in ((tables[giver], -step), (tables[receiver], step)):
                moved += hits_of(typed, table, table.bytes + more) - hits_of(typed, table,
                                                                             table.bytes)
            assert best + moved <= best * 1.001, (tables[giver].name, tables[receiver].name)


def hits_of(typed, table, size):
    """Return the accesses that a table serves with `size` bytes, from a plan of it alone."""
    part = lib_dataset(os.path.join(typed, table.name))
    one = (c.rung_plan_table * 1)()
    one[0].size, one[0].ds, one[0].lists = ctypes.sizeof(one[0]), part, table.lists
    opts = c.rung_plan_opts(host_bytes=size, queue_depth=1, cache_bytes=2**64 - 2)
    check(lib.rung_plan_tables(ctypes.byref(opts), one, 1))
    lib.rung_dataset_close(part)
    return one[0].hits


def lib_dataset(path):
    part = ctypes.c_void_p()
    check(lib.rung_dataset_open(os.fsencode(path), ctypes.byref(part)))
    return part


def test_a_budget_too_small_names_the_least(typed):
    with pytest.raises(rung.InvalidError, match="cannot hold the least of 5 tables") as found:
        rung.plan_tables(typed, 1000)
    least = found.value.min_bytes
    assert sum(table.bytes for table in rung.plan_tables(typed, least)) <= least
    with pytest.raises(rung.InvalidError):
        rung.plan_tables(typed, least - 1)


def test_a_data_set_of_one_type_is_refused(typed):
    with pytest.raises(rung.InvalidError, match="has one type"):
        rung.plan_tables(os.path.join(typed, "vertices/paper"))


def cached(typed, **options):
    """Return the cached rows by table of a typed store."""
    with rung.open(typed, **options) as store:
        assert store["author"].gather([3, 1]).shape == (2, 100)
        return {name: table.cache_rows for name, table in store.stats().items()}


def test_a_cache_is_a_share_of_each_table_of_rows(typed):
    assert not any(cached(typed, host="5MiB", cache=0).values())
    found = cached(typed, host="5MiB", cache="25%")
    for table in rung.plan_tables(typed, "5MiB", cache="25%"):
        size = found[table.name] * table.row_bytes   # without its index, and the padding of rows
        whole = table.lists or table.resident_bytes == table.rows * table.row_bytes
        assert size == 0 if whole else 0 < size <= table.bytes / 4
    assert found["vertices/author"] > 0
    for cache, size in (("1MiB", 1 << 20), ("max", "all")):
        for refused in (rung.open, rung.plan_tables):
            with pytest.raises(rung.InvalidError, match=f"^cache of {size} bytes: each table has "
                                                        "a cache; give a share, such as 25%"):
                refused(typed, host="5MiB", cache=cache)


def test_a_share_of_few_rows_is_rounded_up_to_the_least(typed, command):
    with pytest.raises(rung.InvalidError) as found:
        rung.open(typed, host=1000)
    least = found.value.min_bytes
    assert sum(table.bytes for table in rung.plan_tables(typed, "0.01%")) <= least
    assert cached(typed, host="0.01%")
    assert rung.plan_tables(typed, "0.01%") == rung.plan_tables(typed, least)
    budgets = json.loads(command(typed, "--host", "0.01%", "--json"))["budgets"]
    assert [budget["host_bytes"] for budget in budgets] == [least]
    with pytest.raises(rung.InvalidError, match="cannot hold the least"):
        rung.open(typed, host="0%")


@pytest.fixture(scope="module")
def command():
    found = os.environ.get("RUNG") or shutil.which("rung")
    if not found:
        pytest.skip("the command rung was not found: set RUNG or PATH")

    def run(*arguments, code=0):
        done = subprocess.run([found, "plan", *arguments], capture_output=True, text=True,
                              check=False)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout
    return run


def test_the_command_prints_the_same_numbers(typed, command):
    found = json.loads(command(typed, "--host", "5MiB", "--json"))["budgets"]
    tables = rung.plan_tables(typed, "5MiB")
    assert [budget["host_bytes"] for budget in found] == [5 << 20]
    assert [table["bytes"] for table in found[0]["tables"]] == [table.bytes for table in tables]
    assert [table["table"] for table in found[0]["tables"]] == [table.name for table in tables]
    served = time_served(tables) / sum(table.accesses for table in tables)
    assert found[0]["served_share"] == pytest.approx(served)
    assert f"{100 * served:.1f} %" in command(typed, "--host", "5MiB").splitlines()[-1]


def test_several_budgets_are_columns(typed, command):
    found = json.loads(command(typed, "--json"))
    budgets = found["budgets"]
    assert budgets[-1]["served_share"] == pytest.approx(1)
    assert budgets[-1]["used_bytes"] == found["whole_bytes"]
    shares = [budget["served_share"] for budget in budgets]
    assert len(budgets) > 3 and shares == sorted(shares)
    lines = command(typed).splitlines()
    assert lines[0].startswith("in memory of --host") and lines[-1].startswith("served")
    assert len(lines) == 2 + 5 and lines[-1].endswith("100.0 %")
    one_more = json.loads(command(typed, "--sweep", "--host", "7MiB", "--json"))["budgets"]
    assert len(one_more) == len(budgets) + 1


@pytest.mark.parametrize("option", ["--fanout=3", "--batch=7", "--structure=max", "--compute=1ms",
                                    "--explain --host=9MiB", "--svg=x.svg", "--quantize=int8"])
def test_options_of_one_type_are_refused_by_name(typed, command, option):
    name = option.partition("=")[0].split()[0]
    message = command(typed, *option.split(), code=2)
    assert f"{name}: {typed} has several types" in message


def test_the_command_names_the_least_budget(typed, command):
    assert "give at least" in command(typed, "--host", "1000", code=2)


def test_the_command_refuses_a_cache_in_bytes(typed, command):
    assert "give a share, such as 25%" in command(typed, "--host=5MiB", "--cache=1MiB", code=2)
    command(typed, "--host=5MiB", "--cache=25%")

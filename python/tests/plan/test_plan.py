# SPDX-License-Identifier: Apache-2.0
"""rung.plan(): the same numbers as the command, and as the store that is opened later."""

import json
import math
import os
import shutil
import subprocess

import numpy as np
import pytest
from conftest import random_rows

import rung

# fields of Plan, and where they are in the JSON of the command
PLAIN = ("device", "gpus", "batches_sampled", "batches_per_epoch", "rows_per_batch",
         "rows_per_epoch", "cold_rows_per_epoch", "reads_per_batch", "list_reads_per_batch",
         "read_bytes_per_epoch", "seconds_per_batch", "seconds_per_epoch",
         "memory_seconds_per_batch", "nvme_seconds_per_batch", "bound", "threads", "window_batches",
         "profile")


@pytest.fixture(scope="module")
def command():
    found = os.environ.get("RUNG") or shutil.which("rung")
    if not found:
        pytest.skip("the command rung was not found: set RUNG or PATH")
    return found


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A profile of a machine."""
    path = tmp_path_factory.mktemp("plan") / "machine.json"
    rows = {"matrix": "gather", "cores": "one", "cpu_node": 0, "memory_node": 0, "absent": None,
            "row_bytes": 256, "rows_per_s": {"median": 1e7}}
    reads = [{"drive": None, "file": "f", "row_bytes": size, "queue_depth": depth,
              "reads_per_s": depth * 1e6 / size} for size in (512, 4096) for depth in (1, 16)]
    path.write_text(json.dumps({"schema": 1, "measured": {}, "results": [rows],
                                "nvme_read": reads}), encoding="utf-8")
    return str(path)


def of_command(command, *arguments):
    done = subprocess.run([command, "plan", *arguments, "--json"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def number(value):
    """Return a number as in JSON, which has null for nan."""
    return None if isinstance(value, float) and math.isnan(value) else value


def as_json(plan):
    """Return the values of a plan as the command prints them."""
    found = {name: getattr(plan, name) for name in PLAIN}
    found["gpus"] = list(plan.gpus)
    found["fanout"], found["batch"], found["seeds"] = (list(plan.fanouts), plan.batch_size,
                                                       plan.seed_count)
    found["draws"] = plan.draws
    found["queue_depth"] = plan.queue_depth or None
    found["merge_gap_bytes"] = plan.merge_gap_bytes if plan.queue_depth else None
    found["device_why"] = plan.device_why or None
    found["assumed"] = list(plan.assumed)
    found["tiers"] = [{"name": tier.name, "rows": tier.rows, "bytes": tier.bytes,
                       "hit_share": tier.hits} for tier in plan.tiers]
    found["slots"] = {"count": plan.slot_count, "slot_bytes": plan.slot_bytes,
                      "bytes": plan.slot_count * plan.slot_bytes}
    parts = [{"name": part.name, "bytes": part.bytes, "share": number(part.hits),
              "reads_per_batch": number(part.reads_per_batch),
              "reads_saved_per_mib": number(part.reads_saved_per_mib)} for part in plan.parts]
    bytes_of = {part.name: part.bytes for part in plan.parts}
    found["cache"] = {"rows": plan.cache_rows, "bytes": bytes_of["cache"]}
    found["map_bytes"] = bytes_of["map"]
    found["budget"] = {"host_bytes": plan.host_bytes, "used_bytes": plan.used_bytes, "parts": parts,
                       "offsets_bytes": plan.offsets_bytes}
    return found


@pytest.mark.parametrize("given", [
    {"host": "max"}, {"host": "10%"}, {"host": "2MiB"}, {"host": "2MiB", "cache": "10%"},
    {"host": "2MiB", "cache": 0, "structure": "20%"}, {"host": "2MiB", "structure": "max"},
    {"host": "3MiB", "structure": "64KiB", "profile": True},
    {"host": "2MiB", "fanouts": (2, -1), "batch_size": 100, "seed": 7, "threads": 1},
    {"host": "1MiB", "queue_depth": 4, "numa": "none"}], ids=str)
def test_the_command_has_the_same_numbers(command, large, machine, given):
    names = {"fanouts": "fanout", "batch_size": "batch"}
    arguments = []
    for name, value in given.items():
        if name == "fanouts":
            value = ",".join("all" if fanout == -1 else str(fanout) for fanout in value)
        elif name == "profile":
            value = machine
        arguments += ["--" + names.get(name, name).replace("_", "-"), str(value)]
    if "profile" in given:
        given = {**given, "profile": machine}
    plan = rung.plan(large.path, **given)
    expected = of_command(command, large.path, *arguments)
    found = as_json(plan)
    if "fanouts" in given:   # -1 in Python
        expected["fanout"] = [-1 if fanout == 2**32 - 1 else fanout for fanout in
                              expected["fanout"]]
    del expected["budget"]["divisions_compared"]
    assert found == {name: expected[name] for name in found}
    assert set(expected) - set(found) == {
        "placements", "placement_why", "chosen", "sector_bytes", "list_blocks_per_batch",
        "cold_list_blocks_per_batch", "list_read_bytes_per_batch", "list_nvme_seconds_per_batch",
        "gpu_seconds_per_batch", "peer_seconds_per_batch", "link_seconds_per_batch",
        "served_share", "drive_bytes_per_epoch", "seconds_per_epoch_with_another_drive",
        "compute_seconds", "idle_share", "quantize", "machines"}


@pytest.mark.parametrize("structure", [None, "auto", "128KiB"])
def test_a_store_has_the_planned_tiers(large, structure):
    plan = rung.plan(large.path, host="2MiB", structure=structure)
    with rung.open(large.path, host="2MiB", structure=structure) as store:
        tiers = store.stats().tiers
        cache_rows = store.stats().cache_rows
        lists = store.structure_stats()
    assert [(tier.name, tier.rows) for tier in plan.tiers] == [(tier.name, tier.rows)
                                                               for tier in tiers]
    assert cache_rows == plan.cache_rows
    names = [part.name for part in plan.parts]
    assert ("lists" in names) == (lists is not None) == (structure is not None)
    if lists is None:
        assert plan.offsets_bytes == 0 and plan.list_reads_per_batch == 0


def test_hits_are_those_of_an_epoch(large):
    """With one batch per epoch, the predicted batch is like the trained one."""
    plan = rung.plan(large.path, host="30%", structure=None, batch_size=4000)
    with rung.open(large.path, host="30%") as store:
        for _ in rung.Loader(store, arrays="numpy", batch_size=4000, warm_up=False):
            pass
        stats = store.stats()
    assert plan.batches_per_epoch == 1
    assert abs(plan.tiers[0].hits - stats.hit_share("host")) < 0.02
    assert abs(plan.rows_per_batch - stats.rows) < 0.02 * stats.rows


def test_the_sampling_is_as_staged(tmp_path, command):
    edges = np.random.default_rng(7).integers(0, 900, (2, 9000))
    rung.stage(tmp_path / "g", graph=edges, features=random_rows("f32", (900, 64)),
               fanouts=(3, -1), batch_size=30, draws="new")
    staged = rung.plan(tmp_path / "g", host="40%")
    assert (staged.fanouts, staged.batch_size, staged.draws) == ((3, -1), 30, "new")
    assert staged.seed_count == 900   # without a train split: all vertices
    expected = of_command(command, tmp_path / "g", "--host", "40%")
    assert expected["draws"] == "new"
    assert (expected["rows_per_batch"], expected["budget"]["parts"][0]["bytes"]) == (
        staged.rows_per_batch, staged.parts[0].bytes)
    other = rung.plan(tmp_path / "g", host="40%", draws="all")
    assert other.draws == "all" and other.rows_per_batch != staged.rows_per_batch
    rung.stage(tmp_path / "rows", features=random_rows("f32", (900, 64)))
    for structure in ("auto", "1MiB", None):
        plan = rung.plan(tmp_path / "rows", host="40%", structure=structure, batch_size=100)
        assert (plan.batches_per_epoch, plan.rows_per_batch) == (9, 100)


def test_the_text(large, machine):
    plan = rung.plan(large.path, host="2MiB", profile=machine)
    lines = str(plan).splitlines()
    assert lines[0].split() == ["tier", "rows", "bytes", "hits"]
    host = plan.tiers[0]
    unit, name = (2**20, "MiB") if host.bytes >= 2**20 else (2**10, "KiB")
    assert lines[1].split() == ["host", str(host.rows), f"{host.bytes / unit:.3g}", name,
                                f"{100 * host.hits:.1f}", "%"]
    assert any(line.startswith("lists ") for line in lines)
    assert max(map(len, lines)) <= 100 + len(machine)
    assert lines[-1].endswith(f"bound by {plan.bound} (profile {machine})")
    assert str(rung.plan(large.path)).endswith("(assumed rates, no profile)")


@pytest.mark.parametrize("wrong, error, says", [
    ({"host": "4 GX"}, rung.InvalidError, "host='4 GX': not a size"),
    ({"host": 1}, rung.InvalidError, "at least"),
    ({"host": "2MiB", "structure": 1}, rung.InvalidError, "structure"),
    ({"structure": "some"}, rung.InvalidError, "structure='some': not a size.*'auto'"),
    ({"gpus": 0}, rung.InvalidError, "gpus=0: not a list"),
    ({"fanouts": 10}, rung.InvalidError, "fanouts=10: not a list"),
    ({"batch_size": -1}, rung.InvalidError, "batch_size=-1"),
    ({"draws": "some"}, rung.InvalidError, "draws='some'"),
    ({"seed": -1}, rung.InvalidError, "seed=-1"), ({"threads": 0.5}, rung.InvalidError, "threads="),
    ({"profile": "none.json"}, rung.NotFoundError, "none.json")])
def test_invalid_arguments(large, wrong, error, says):
    with pytest.raises(error, match=says):
        rung.plan(large.path, **wrong)


def test_a_missing_data_set(tmp_path):
    with pytest.raises(rung.NotFoundError, match="none"):
        rung.plan(tmp_path / "none")

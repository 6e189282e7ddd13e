#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the seconds that a machine profile predicts with the seconds that `rung bench` takes,
for the same ids, with shares of the rows in host memory.

The script prints one JSON object. Budget 0 is the smallest that works. Without --profile, each
round begins by measuring the machine.

    predict.py --rows 1000000 --edges 8000000
"""
import argparse
import json
import os
import re
import subprocess

from common import (ROOT, Failure, drop_cached, lists_bytes, record, run_json, run_main, say,
                    spread, temporary_folder, write_random, write_skewed_edges)

STEP = 2654435761   # a prime


def least(args, dataset):
    """The smallest host budget, which the error for a smaller budget names."""
    lists = lists_bytes(dataset)
    done = subprocess.run([args.rung, "plan", "--host", str(lists), "--structure", "max", dataset],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    found = re.search(r"at least (\d+) bytes", done.stderr)
    if not found:
        raise Failure(f"rung plan --host {lists}: {done.stderr}")
    return int(found[1]) - lists


def measure_machine(args, folder, features):
    if args.profile:
        return args.profile
    path = os.path.join(folder, "machine.json")
    with open(path, "w", encoding="utf-8") as out:
        subprocess.run([args.rung, "numa", "--json", "--only", "latency,gather,nvme", "--nvme",
                        features, "--row-bytes", str(args.row_bytes)], stdout=out, check=True)
    return path


def run_once(args, dataset, profile, seed, host):
    report = run_json([args.rung, "bench", "--json", "--host", str(host + lists_bytes(dataset)),
                       "--structure", "max", "--rows", str(args.gathered), "--warmup",
                       str(args.warmup), "--seed", str(seed), "--profile", profile, dataset])
    predicted = report["predicted"]
    return {"seconds": report["seconds"], "predicted": predicted["seconds"],
            "bound": predicted["bound"], "device_reads": report["device_reads"],
            "predicted_reads": predicted["device_reads"],
            "ratio": report["seconds"] / predicted["seconds"]}


def run_budget(args, dataset, profile, seed, host):
    """The median of as many runs as take a few seconds together. A single run of half a second
    would depend on the load of that moment."""
    runs = [run_once(args, dataset, profile, seed, host)]
    while sum(run["seconds"] for run in runs) < args.seconds or len(runs) % 2 == 0:
        runs.append(run_once(args, dataset, profile, seed, host))
    runs.sort(key=lambda run: run["seconds"])
    return {**runs[len(runs) // 2], "of_runs": len(runs)}


def run_rounds(args, folder, dataset, features):
    """Each round measures the machine and then runs every budget, because the load of the machine
    changes by the minute and must affect both."""
    hosts = {percent: args.rows * args.row_bytes * percent // 100 or least(args, dataset)
             for percent in (100, 50, 10, 5, 0)}
    runs = {percent: [] for percent in hosts}
    for seed in range(1, args.runs + 1):
        say(f"round {seed} of {args.runs}")
        profile = measure_machine(args, folder, features)
        for percent, host in hosts.items():
            runs[percent].append(run_budget(args, dataset, profile, seed, host))
    return [{"percent": percent, "host_bytes": hosts[percent], "runs": of,
             "measured_over_predicted": spread([run["ratio"] for run in of]),
             "seconds": spread([run["seconds"] for run in of]),
             "predicted": spread([run["predicted"] for run in of])} for percent,
            of in reversed(runs.items())]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--dir", type=os.path.abspath, default=".",
                        help="folder on the disk to measure, with room for twice the features")
    parser.add_argument("--profile",
                        help="profile of this machine (default: measured once per round)")
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--row-bytes", type=int, default=1536)
    parser.add_argument("--edges", type=int, default=1000000)
    parser.add_argument("--gathered", type=int, default=4000000,
                        help="rows per run (default: 4000000)")
    parser.add_argument("--warmup", type=int, default=0,
                        help="rows before them, which do not count: without, all that a store "
                             "does for the first time does (default: 0)")
    parser.add_argument("--seconds", type=float, default=2,
                        help="of gathers of a budget in a round, at least")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    total = args.rows * args.row_bytes
    with temporary_folder(args.dir) as folder:
        features, edges, train, dataset = (os.path.join(folder, name)
                                           for name in ("features.raw", "edges.raw", "train.raw",
                                                        "staged"))
        say(f"generating {total >> 20} MiB of features and {args.edges} edges")
        write_random(features, total)
        write_skewed_edges(edges, args.rows, args.edges, 1, STEP)
        with open(train, "wb") as out:
            out.write(b"".join((16 * i).to_bytes(4, "little") for i in range(args.rows // 16)))
        run_json([args.rung, "stage", "--json", "--quiet", "--graph",
                  f"raw:{edges},u32,2x{args.edges}", "--features",
                  f"raw:{features},u8,{args.rows}x{args.row_bytes}", "--split",
                  f"train=raw:{train},u32,{args.rows // 16}", "--score",
                  "wrpagerank", "--out", dataset])
        drop_cached(features)
        budgets = run_rounds(args, folder, dataset, features)
        found = record("predict", "predict.py", args.rung, folder)
    by_measured = sorted(budgets, key=lambda one: one["seconds"]["median"])
    by_predicted = sorted(budgets, key=lambda one: one["predicted"]["median"])
    found.update(rows=args.rows, row_bytes=args.row_bytes, edges=args.edges, gathered=args.gathered,
                 warmup=args.warmup, budgets=budgets,
                 order_is_right=[one["percent"]
                                 for one in by_measured] == [
                                         one["percent"] for one in by_predicted],
                 worst=max(abs(one["measured_over_predicted"]["median"] - 1) for one in budgets))
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    run_main("predict.py", main)

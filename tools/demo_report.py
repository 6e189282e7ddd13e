#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The end of tools/demo.sh: compares a run with a part of the features in memory with one that has
all of them, from the outputs of `rung train --json`.

usage: demo_report.py PART.json ALL.json NO_EDGES.json SHARE

Exit: 0 the two runs learned the same, 1 they differ.
"""
import json
import statistics
import sys


def learned(result):
    """What must be the same to the last bit: tiers change the speed, never the results."""
    return ([(epoch["loss"], epoch["valid_loss"], epoch["valid_accuracy"])
             for epoch in result["epochs"]], result["valid_accuracy"], result["test_accuracy"])


def epoch_seconds(result):
    return statistics.median(epoch["seconds"] for epoch in result["epochs"])


def percent(share):
    return f"{100 * share:.2f} %"


def compared(part, whole):
    """Return how the time of an epoch compares. Below 1 % it is noise."""
    change = epoch_seconds(part) / epoch_seconds(whole) - 1
    if abs(change) < 0.01:
        return "as fast as"
    return f"{100 * abs(change):.0f} % {'slower' if change > 0 else 'faster'} than"


def from_memory(result):
    hits = {tier["name"]: tier["hits"] for tier in result["tiers"]}
    return 1 - hits.get("nvme", 0) / max(sum(hits.values()), 1)


def main():
    files, share = sys.argv[1:4], sys.argv[4]
    results = []
    for name in files:
        with open(name, encoding="utf-8") as file:
            results.append(json.load(file))
    part, whole, no_edges = results
    lines = [("features in memory", share, "all"),
             ("requests served from memory", percent(from_memory(part)),
              percent(from_memory(whole))),
             ("seconds per epoch, median", f"{epoch_seconds(part):.2f}",
              f"{epoch_seconds(whole):.2f}"),
             ("time spent waiting", percent(part["verdict"]["wait_share"]),
              percent(whole["verdict"]["wait_share"])),
             ("loss of the last epoch", f"{part['epochs'][-1]['loss']:.9g}",
              f"{whole['epochs'][-1]['loss']:.9g}"),
             ("test accuracy", percent(part["test_accuracy"]), percent(whole["test_accuracy"]))]
    for name, first, second in lines:
        print(f"{name:<28} {first:>12} {second:>12}")
    print(f"\nwithout edges the test accuracy is {percent(no_edges['test_accuracy'])}; "
          f"the most frequent class has {percent(no_edges['majority_accuracy'])}")
    same = learned(part) == learned(whole)
    print(f"\n{share} of the features in memory: {compared(part, whole)} with all in memory, "
          f"{'the same losses' if same else 'OTHER LOSSES'}")
    if not same:
        print(f"demo_report.py: {files[0]} and {files[1]} have different losses; both must be the "
              "same to the last bit", file=sys.stderr)
        return 1
    if part["verdict"]["command"]:
        print(f"next: {part['verdict']['command']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the hit curves of the models of `rung generate`, and prints them as the tables of
tools/generate/curves.c.

Each model is generated at a scale and staged with the default score. The batch is that of the
original times the scale, so that a batch has the same density in the graph. `rung plan` then
predicts hits and reads with the first 0.1 % to 75 % of the rows in memory, and of the lists. The
script prints a line per model on stderr.

    model_curves.py --dir /mnt/nvme > tables
    model_curves.py --models mag240m=1/64 --seeds 16 --dir /dev/shm
"""
import argparse
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
# pylint: disable=wrong-import-position
from common import ROOT, Failure, run_json, run_main, say, temporary_folder

# the originals that are small have a scale of 1
SCALES = {"mag240m": 128, "papers100m": 256, "wikikg90m": 256, "igb": 512, "arxiv": 1,
          "debian-docs": 1, "debian": 1}
SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75)
BATCH = 1024         # of the originals
DEPTH = 1            # then slots have the size that they have on a large graph
MAX = "max"
BLOCK = 512          # bytes of a block of lists
SLOTS = 1 << 17      # bytes of slots in the first try
TRIES = 8            # to find the budget for a share
CLOSE = 0.01         # of the share


def scales(text):
    found = {}
    for item in text.split(","):
        match = re.fullmatch(r"([a-z0-9-]+)=(?:1/)?([1-9]\d*)", item)
        if not match or match[1] not in SCALES:
            raise argparse.ArgumentTypeError(f"'{item}' is not of the form MODEL=1/N, with one of "
                                             f"{', '.join(SCALES)}")
        found[match[1]] = int(match[2])
    return found


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rung", default=os.path.join(ROOT, "build", "rung"), help="(default: build/rung)")
    add("--models", type=scales, default=SCALES, metavar="MODEL=1/N,...", help="(default: "
        + ",".join(f"{name}=1/{scale}" for name, scale in SCALES.items()) + ")")
    add("--seeds", type=int, default=4, help="sets of 32 batches per point, fewer if the batches "
        "are large (default: 4)")
    add("--dir", help="folder for the data (default: the temporary folder)")
    return parser.parse_args()


class Model:
    """A staged scale model, and the plans of budgets for it."""

    def __init__(self, args, name, scale, folder):
        source, self.staged = os.path.join(folder, name), os.path.join(folder, name + ".rung")
        self.rung, self.name = args.rung, name
        self.scale, self.batch = scale, max(BATCH // scale, 1)
        # 32 large batches are enough
        self.seeds = max(1, min(args.seeds, 256 // self.batch))
        run_json([self.rung, "generate", source, "--model", name, "--scale", f"1/{scale}",
                  "--json", "--quiet"])
        run_json([self.rung, "stage", "--dataset", os.path.join(source, "dataset.json"),
                  "--batch", str(self.batch), "--out", self.staged, "--json", "--quiet"])
        shutil.rmtree(source)
        info = run_json([self.rung, "info", self.staged, "--json"])
        self.row_bytes, self.vertices = info["row_bytes"], info["vertices"]
        self.lists = 4 * info["edges"]

    def plan(self, host, structure, seed=1):
        return run_json([self.rung, "plan", self.staged, "--host", str(host), "--structure",
                         str(structure), "--cache", "0", "--queue-depth", str(DEPTH), "--seed",
                         str(seed), "--json"])

    def rows_in_memory(self, share):
        """(host, structure) with that share of the rows in memory, and all lists; and its plan."""
        rows, other = int(share * self.vertices), SLOTS
        for _ in range(TRIES):
            host = self.lists + other + rows * self.row_bytes
            found = self.plan(host, MAX)
            if abs(found["tiers"][0]["rows"] - rows) <= CLOSE * rows:
                break
            other = found["budget"]["used_bytes"] - found["tiers"][0]["bytes"] - self.lists
        else:
            raise Failure(f"{self.name}: no budget holds {share:.2%} of the rows")
        return (host, MAX), found

    def lists_in_memory(self, share):
        """The same for the lists."""
        whole, slots = int(share * self.lists), SLOTS
        for _ in range(TRIES):
            structure = min(whole + slots, self.lists - 1)
            found = self.plan(MAX, structure)
            parts = parts_of(found)
            if abs(parts["lists"]["bytes"] - whole) <= max(CLOSE * whole, BLOCK):
                break
            slots = parts["list slots"]["bytes"]
        else:
            raise Failure(f"{self.name}: no budget holds {share:.2%} of the lists")
        return (MAX, structure), found

    def mean(self, budget, first, *values):
        """Means over the seeds of functions of a plan. `first` is the plan of the first seed."""
        plans = [first] + [self.plan(*budget, seed=seed) for seed in range(2, self.seeds + 1)]
        return [sum(map(value, plans)) / len(plans) for value in values]


def parts_of(plan):
    return {part["name"]: part for part in plan["budget"]["parts"]}


def row_point(model, share):
    rows, cold, reads = model.mean(
        *model.rows_in_memory(share), lambda plan: plan["rows_per_batch"],
        lambda plan: plan["rows_per_batch"] * (1 - plan["tiers"][0]["hit_share"]),
        lambda plan: plan["reads_per_batch"])
    return 1 - cold / rows, reads / cold if cold else 1


def list_point(model, share):
    blocks, cold, reads = model.mean(
        *model.lists_in_memory(share), lambda plan: plan["list_blocks_per_batch"],
        lambda plan: plan["cold_list_blocks_per_batch"], lambda plan: plan["list_reads_per_batch"])
    return 1 - cold / blocks, reads / cold if cold else 1


def measure(model):
    everything = (MAX, MAX)
    rows, blocks = model.mean(everything, model.plan(*everything),
                              lambda plan: plan["rows_per_batch"],
                              lambda plan: plan["list_blocks_per_batch"])
    points = [(share, *row_point(model, share), *list_point(model, share)) for share in SHARES]
    return rows / model.batch, blocks / model.batch, points


def print_table(model, rows, blocks, points):
    """An entry as clang-format would leave it."""
    print(f'\t{{\n\t\t.model = "{model.name}",\n\t\t.scale = {model.scale},\n'
          f"\t\t.batch = {model.batch},\n\t\t.rows_per_seed = {rows:.2f},\n"
          f"\t\t.blocks_per_seed = {blocks:.2f},\n\t\t.points = {{")
    for share, *values in points:
        print(f"\t\t\t{{ {share:g}, " + ", ".join(f"{value:.4f}" for value in values) + " },")
    print("\t\t},\n\t},", flush=True)


def main():
    args = parse_args()
    for name, scale in args.models.items():
        with temporary_folder(args.dir) as folder:
            say(f"{name}: generating and staging 1/{scale}")
            model = Model(args, name, scale, folder)
            rows, blocks, points = measure(model)
        say(f"{name}: {rows:.1f} rows and {blocks:.1f} blocks of lists per seed; the first "
            f"{points[6][0]:.0%} of the rows serve {points[6][1]:.1%}")
        print_table(model, rows, blocks, points)


if __name__ == "__main__":
    run_main("model_curves.py", main)

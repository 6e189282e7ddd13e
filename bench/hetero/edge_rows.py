#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether every sampled edge gets the row of that edge: counts wrong rows of 10 million.

A synthetic graph has two types and two relations with edge rows. A row consists of the number of
the edge and of its two ends, so that the wrong row, or the row of another relation, cannot pass.
Most rows are in the file. Prints JSON; exits with 1 if a row is wrong."""
import argparse
import json
import os
import sys
import time

import numpy as np

import rung

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# pylint: disable=wrong-import-position
from common import ROOT, record, run_main, temporary_folder

RELATIONS = (("author", "writes", "paper"), ("paper", "cites", "paper"))
COUNTS = {"paper": 200_000, "author": 150_000}
WIDTH = 40   # int64 values of a row: number, source, target, and the number again


def make(folder, edges):
    """Stages the graph, and returns its path."""
    draw = np.random.default_rng(7)
    types, relations = [], []
    for name, count in COUNTS.items():
        np.save(f"{folder}/{name}.npy", draw.integers(0, 255, (count, 64), np.uint8))
        types.append({"name": name, "count": count, "features": f"{name}.npy"})
    for source, name, target in RELATIONS:
        ends = np.stack([draw.integers(0, COUNTS[source], edges) ** 2 // COUNTS[source],
                         draw.integers(0, COUNTS[target], edges)])
        rows = np.empty((edges, WIDTH), np.int64)
        rows[:] = np.arange(edges)[:, None]
        rows[:, 1:3] = ends.T
        np.save(f"{folder}/{name}_edges.npy", ends)
        np.save(f"{folder}/{name}_rows.npy", rows)
        relations.append({"name": name, "source": source, "target": target,
                          "edges": f"{name}_edges.npy", "rows": f"{name}_rows.npy"})
    with open(f"{folder}/dataset.json", "w", encoding="utf-8") as file:
        json.dump({"format": "rung-source", "version": 1, "vertex_types": types,
                   "relations": relations, "training": {"fanouts": [15, 10], "batch_size": 1024,
                                                        "seed_type": "paper"}}, file)
    rung.stage(f"{folder}/typed.rung", dataset=f"{folder}/dataset.json", score="expected")
    return f"{folder}/typed.rung"


def wrong_rows(batch, relation):
    """Returns the number of edges, and of those whose row is another one's."""
    rows = batch.edge_rows[relation]
    if not len(rows):
        return 0, 0
    ends = batch.edge_index(relation)
    wanted = np.stack([batch.edge_ids(relation), batch.vertices(relation[0])[ends[0]],
                       batch.vertices(relation[2])[ends[1]]], 1)
    bad = (rows[:, :3] != wanted).any(1) | (rows[:, 3:] != wanted[:, :1]).any(1)
    return len(rows), int(bad.sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="edges to check")
    parser.add_argument("--edges", type=int, default=1_000_000, help="of each relation")
    parser.add_argument("--host", default="96MiB", help="memory of all rows and lists")
    parser.add_argument("--dir", default=None, help="folder for the data (default: temporary)")
    parser.add_argument("--rung", default=f"{ROOT}/build/rung", help="the command, for the record")
    args = parser.parse_args()
    with temporary_folder(args.dir) as folder:
        path = make(folder, args.edges)
        seen, wrong, start = 0, 0, time.perf_counter()
        with rung.open(path, host=args.host) as store:
            loader = rung.Loader(store, input_nodes=None, arrays="numpy", batch_size=1024, seed=1)
            while seen < args.rows:
                for batch in loader:
                    for relation in RELATIONS:
                        count, bad = wrong_rows(batch, relation)
                        seen, wrong = seen + count, wrong + bad
                    if seen >= args.rows:
                        break
                del batch
            tiers = {name: {tier.name: tier.hits for tier in found.tiers}
                     for name, found in store.stats().items()}
            del loader
    found = record("hetero_edge_rows", "hetero/edge_rows.py", args.rung)
    print(json.dumps({**found, "rows": seen, "wrong": wrong,
                      "seconds": time.perf_counter() - start, "hits": tiers}, indent=1))
    return wrong > 0


if __name__ == "__main__":
    run_main("edge_rows.py", main)

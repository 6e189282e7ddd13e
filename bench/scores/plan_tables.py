#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare rung.plan_tables() with splits of the same budget, by the accesses of sampled batches.

The accesses of each table are counted over batches that are sampled here, as PyG does, so they
depend on neither the scores nor rung's sampler. A split gives each table a share of the budget;
what is in memory then is that of a plan of the table alone. Nothing is timed. The result is JSON.
"""

import argparse
import ctypes
import json
import os
import sys

import numpy as np

import rung
from rung._library import BYTES_MAX, BYTES_NONE, DRAWS, c, check, lib


def relations_of(path):
    """Return the type of the seeds, the types, and (folder, source, target, fanouts, rows)."""
    ds = ctypes.c_void_p()
    check(lib.rung_dataset_open(os.fsencode(path), ctypes.byref(ds)))
    info = lib.rung_dataset_info(ds).contents
    types = [os.fsdecode(info.types[t].folder) for t in range(info.type_count)]
    hops = info.fanout_count
    found = []
    for r in range(info.relation_count):
        one = info.relations[r]
        rows = one.rows_folder
        found.append((os.fsdecode(one.folder), one.source_type, one.target_type,
                      list(one.fanouts[:hops]), os.fsdecode(rows) if rows else None))
    result = info.seed_type, types, found, hops, info.batch_size or 1024, info.draws
    lib.rung_dataset_close(ds)
    return result


def draw(rng, begin, degree, fanout):
    """Return the edge positions that the vertices with these lists draw, without replacement."""
    picked = []
    for first, count in zip(begin, degree):
        picked.append(first + (np.arange(count) if count <= fanout
                               else rng.choice(count, fanout, replace=False)))
    return np.concatenate(picked) if picked else np.empty(0, np.int64)


class Counter:
    """Accesses per row of each table, and per list of each relation."""

    def __init__(self, path):
        self.path = path
        self.seed_type, self.types, self.relations, self.hops, self.batch, self.draws = \
            relations_of(path)
        self.graphs = [(np.load(f"{path}/{folder}/graph_indptr.npy").astype(np.int64),
                        np.load(f"{path}/{folder}/graph_indices.npy", mmap_mode="r"))
                       for folder, *_ in self.relations]
        self.counts = {folder: np.zeros(self.score_rows(folder)) for folder in
                       [*self.types, *(r[0] for r in self.relations),
                        *(r[4] for r in self.relations if r[4])]}

    def score_rows(self, folder):
        return len(np.load(f"{self.path}/{folder}/score.npy", mmap_mode="r"))

    def sample(self, rng, seeds):
        """Add the accesses of one batch."""
        have = [np.zeros(self.score_rows(folder), bool) for folder in self.types]
        have[self.seed_type][seeds] = True
        frontier = [np.flatnonzero(one) for one in have]
        read = [set() for _ in self.relations]
        edges = [[] for _ in self.relations]
        for hop in range(self.hops):
            before = [one.copy() for one in have]
            for r, (_, source, target, fanouts, _) in enumerate(self.relations):
                indptr, indices = self.graphs[r]
                at = frontier[target]
                degree = indptr[at + 1] - indptr[at]
                at, degree = at[degree > 0], degree[degree > 0]
                if fanouts[hop] == 0:
                    continue
                picked = draw(rng, indptr[at], degree, fanouts[hop])
                read[r].update(at.tolist())
                edges[r].append(picked)
                have[source][indices[picked]] = True
            frontier = [np.flatnonzero(one & ~old) if DRAWS[self.draws] == "new"
                        else np.flatnonzero(one) for one, old in zip(have, before)]
        for folder, one in zip(self.types, have):
            self.counts[folder] += one
        for r, (folder, *_, rows) in enumerate(self.relations):
            self.counts[folder][list(read[r])] += 1
            if rows and edges[r]:
                self.counts[rows][np.unique(np.concatenate(edges[r]))] += 1


def hits_of(counter, table, resident):
    """Return the counted accesses that the first `resident` bytes of a table serve."""
    counts = counter.counts[table.name]
    if not table.lists:
        return counts[: int(resident // table.row_bytes)].sum()
    relation = [r[0] for r in counter.relations].index(table.name)
    indptr, indices = counter.graphs[relation]
    ends = indptr * indices.dtype.itemsize
    share = np.clip((resident - ends[:-1]) / np.maximum(ends[1:] - ends[:-1], 1), 0, 1)
    return (counts * share).sum()


def resident_of(path, table, size):
    """Return the bytes in memory that a plan of this table alone has with a budget."""
    ds, plan = ctypes.c_void_p(), ctypes.c_void_p()
    check(lib.rung_dataset_open(os.fsencode(f"{path}/{table.name}"), ctypes.byref(ds)))
    opts = c.rung_plan_opts(host_bytes=int(size), queue_depth=1, cache_bytes=BYTES_NONE)
    if table.lists:
        opts.host_bytes, opts.structure_bytes = BYTES_MAX, int(size)
    check(lib.rung_plan_create(ds, ctypes.byref(opts), ctypes.byref(plan)))
    of = lib.rung_plan_structure(plan) if table.lists else plan
    resident = lib.rung_plan_tier(of, 0).contents.bytes
    lib.rung_plan_destroy(plan)
    lib.rung_dataset_close(ds)
    return resident


def splits(rng, tables, budget, count):
    """Return budgets of all tables: equal, by size, with one preferred, and random ones."""
    least = np.array([table.least_bytes for table in tables], float)
    whole = np.array([table.rows * table.row_bytes for table in tables], float)
    shares = [np.ones(len(tables)), whole, *(np.eye(len(tables)) + 0.01)]
    shares += list(rng.dirichlet(np.full(len(tables), 0.5), count))
    for share in shares:
        given = least.copy()
        for _ in tables:   # what a table cannot use goes to the others
            open_ = np.where(given < whole, share, 0)
            left = budget - given.sum()
            if left < 1 or not open_.sum():
                break
            given = np.minimum(given + left * open_ / open_.sum(), whole)
        yield given


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", help="a typed dataset")
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--splits", type=int, default=2000)
    parser.add_argument("--shares", default="0.05,0.1,0.2,0.4", help="budgets of all bytes")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    counter = Counter(args.dir)
    train = np.unique(np.load(f"{args.dir}/{counter.types[counter.seed_type]}/split_train.npy"))
    for _ in range(args.batches):
        counter.sample(rng, rng.choice(train, min(counter.batch, len(train)), replace=False))
    whole = sum(t.bytes for t in rung.plan_tables(args.dir, "max", queue_depth=1, cache=0))
    results = []
    for share in map(float, args.shares.split(",")):
        budget = int(whole * share)
        tables = rung.plan_tables(args.dir, budget, queue_depth=1, cache=0)
        weighed = [(hits_of(counter, t, resident_of(args.dir, t, t.bytes)), t) for t in tables]
        joint = sum(hits for hits, _ in weighed)
        others = [sum(hits_of(counter, t, resident_of(args.dir, t, size))
                      for t, size in zip(tables, split))
                  for split in splits(rng, tables, budget, args.splits)]
        total = sum(counter.counts[t.name].sum() for t in tables)
        results.append({"budget_bytes": budget, "joint_served": joint / total,
                        "predicted_served": sum(t.hits for t in tables)
                        / sum(t.accesses for t in tables),
                        "best_split_served": max(others) / total,
                        "equal_split_served": others[0] / total,
                        "split_by_size_served": others[1] / total,
                        "tables": {t.name: {"bytes": t.bytes, "served": hits / max(
                            counter.counts[t.name].sum(), 1)} for hits, t in weighed}})
    json.dump({"command": sys.argv, "batches": args.batches, "splits": args.splits,
               "whole_bytes": whole, "results": results}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the feature bytes that cross the link to the GPU if its memory holds the hottest rows,
compared with all rows in host memory. Nothing is timed.

The script stages a graph for each score, samples an epoch of batches with `rung bench --ids trace`,
and adds up the counters of the tiers. Without a GPU the host tier represents it: it holds the same
ranks, and rows of other tiers would have crossed the link. The graph is ogbn-arxiv, or with --rmat
a graph with degrees as uneven as those of web and social graphs. Prints one JSON object on stdout
and a table on stderr. Needs the Python standard library; --rmat also needs numpy.
"""
import argparse
import json
import os
import shutil
import tempfile

from common import (ROOT, Failure, arxiv, find_graph, lists_bytes, numbers, record, rmat, run_json,
                    run_main, say, stage_graph)

SCORES = ("degree", "wrpagerank")
SHARES = (5, 10, 25)
TRIES = 12
PAGE_BYTES = 4096
# upper bound of the host memory that staging slots need
SLOT_BYTES_MAX = 1 << 28
EPOCH_MARGIN = 1.03   # the rows of an epoch are predicted from some of its batches
PAPER = {"what": "reduction of PCIe traffic that the paper reports, measured with nvprof on other "
                 "graphs: MAG240M 5 % of the rows on the "
                 "GPU, ogbn-papers100M and WikiKG90M 10 %; 25 % for ogbn-papers100M alone. "
                 "ogbn-arxiv is not one of its graphs.",
         "reduction": {"5 and 10": [0.87, 0.95], "25": 0.97},
         "fanouts": {"ogbn-papers100M": "12,12,12", "MAG240M": "25,15"}}


def host_budget(args, dataset, rows):
    """The largest host budget, in pages, whose plan holds at most that many rows, and the number of
    rows. Rows and staging slots use whole pages, so that there may be no budget for exactly that
    many rows. All neighbour lists are in memory as well. The cold-row cache is off, because its
    share can shrink as the budget grows, and the search needs a number of rows that never falls."""
    def held(budget):
        plan = run_json([args.rung, "plan", dataset, "--json", "--quiet", "--cache", "0",
                         "--structure", "max", "--host", str(budget)])
        return plan["tiers"][0]["rows"]

    low = rows * args.row_bytes + lists_bytes(dataset)   # the budget also holds staging slots
    high = low + (1 << 20)
    while held(high) <= rows:
        if high - low > SLOT_BYTES_MAX:
            return high, held(high)   # all rows
        high += high - low
    while high - low > PAGE_BYTES:
        middle = (low + high) // 2
        if held(middle) <= rows:
            low = middle
        else:
            high = middle
    return low, held(low)


def budgets(args, dataset, rows):
    """Options that put at most that many rows into the first tier, and the number of rows there."""
    if args.device == "cuda":
        return ["--device", "cuda", "--gpu", str(rows * args.row_bytes), "--host", "max"], rows
    budget, held = host_budget(args, dataset, rows)
    return ["--host", str(budget), "--structure", "max", "--cache", "0"], held


def trace(args, dataset, fanout, batch, share):
    """Counters of at least one epoch, with `share` percent of the rows in the first tier."""
    places, rows = budgets(args, dataset, round(args.vertices * share / 100))
    sampling = ["--fanout", fanout, "--batch", str(batch), "--seed", str(args.seed)]
    plan = run_json([args.rung, "plan", dataset, "--json", "--quiet", *places, *sampling])
    wanted = int(plan["rows_per_epoch"] * EPOCH_MARGIN)
    for _ in range(TRIES):
        out = run_json([args.rung, "bench", dataset, "--json", "--quiet", *places, *sampling,
                        "--ids", "trace", "--rows", str(wanted)])
        if out["requests"] >= plan["batches_per_epoch"]:
            return counted(args, out, plan, rows, fanout, batch, share)
        wanted = int(wanted * EPOCH_MARGIN * plan["batches_per_epoch"] / out["requests"])
    raise Failure(f"{dataset}: no epoch of {plan['batches_per_epoch']} batches in {wanted} rows")


def counted(args, out, plan, rows, fanout, batch, share):
    fast, total = out["tiers"][0], sum(tier["bytes"] for tier in out["tiers"])
    if fast["rows"] != rows or total != out["rows"] * args.row_bytes:
        raise Failure(f"counters do not add up: {json.dumps(out['tiers'])}")
    return {"fanout": fanout, "batch": batch, "gpu_share_percent": share, "gpu_rows": rows,
            "batches": out["requests"],
            "batches_per_epoch": plan["batches_per_epoch"],
            "rows_per_batch": out["rows"] / out["requests"],
            "link_bytes_all_host": total, "link_bytes": total - fast["bytes"],
            "reduction": fast["bytes"] / total,
            # a batch fetches each row once, so at most as many as the GPU holds can be hits
            "reduction_at_most": min(1.0, rows * out["requests"] / out["rows"]),
            "tiers": out["tiers"]}


def measure(args, folder, graph):
    results = []
    for kind, undirected in graph["directions"].items():
        for score in args.scores:
            dataset = os.path.join(folder, f"{score}-{int(undirected)}")
            stage_graph(args.rung, graph, args.row_bytes, score, undirected, dataset)
            for batch in args.batches:
                for fanout in args.fanouts:
                    for share in args.shares:
                        result = {"edges": kind, "score": score,
                                  **trace(args, dataset, fanout, batch, share)}
                        results.append(result)
                        say(f"{kind:16} {score:11} {fanout:9} {batch:5} "
                            f"{result['rows_per_batch']:9.0f} {share:4} %"
                            f" {result['reduction']:10.3f} {result['reduction_at_most']:8.3f}")
            shutil.rmtree(dataset)
    return results


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--graph",
                        help="arxiv.npz (default: in $RUNG_TEST_DATA, or ../shared/data next to "
                             "the checkout)")
    parser.add_argument("--rmat", type=int, metavar="SCALE",
                        help="instead: a generated graph of 2^SCALE vertices")
    parser.add_argument("--dir", default="/dev/shm" if os.path.isdir("/dev/shm") else None,
                        help="folder for the temporary folder, about 300 MB; memory is fastest "
                             "(default: /dev/shm)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu",
                        help="cuda: count rows on a real GPU (default: cpu)")
    parser.add_argument("--row-bytes", type=int, default=512, help="(default: 512, 128 floats)")
    parser.add_argument("--scores", type=lambda text: text.split(","), default=list(SCORES),
                        help="(default: degree,wrpagerank)")
    parser.add_argument("--shares", type=numbers, default=list(SHARES),
                        help="percent of the rows on the GPU (default: 5,10,25)")
    parser.add_argument("--fanouts", type=lambda text: text.split(":"),
                        default=["12,12,12", "25,15"],
                        help="lists with ':' between them (default: 12,12,12:25,15, the paper's)")
    parser.add_argument("--batches", type=numbers, default=[1024, 64],
                        help="seeds per batch (default: 1024,64)")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def make_record(args, folder, graph):
    args.vertices = graph["vertices"]
    say(f"{'edges':16} {'score':11} {'fanout':9} {'batch':>5} {'rows/batch':>9} {'GPU':>6} "
        f"{'reduction':>10} {'at most':>8}")
    return {**record("traffic", "traffic.py", args.rung), "graph": graph["name"],
            "vertices": args.vertices, "row_bytes": args.row_bytes, "device": args.device,
            "seed": args.seed, "paper": PAPER,
            "results": measure(args, folder, graph)}


def main():
    args = parse_args()
    path = None if args.rmat else find_graph(args.graph)
    if not args.rmat and not path:
        say("skipped: arxiv.npz was not found; use --graph, set RUNG_TEST_DATA to its folder, or "
            "use --rmat")
        return 77
    with tempfile.TemporaryDirectory(prefix="rung-traffic-", dir=args.dir) as folder:
        graph = rmat(args.rmat, args.seed, folder) if args.rmat else arxiv(path)
        print(json.dumps(make_record(args, folder, graph), indent=1))
    return 0


if __name__ == "__main__":
    run_main("traffic.py", main)

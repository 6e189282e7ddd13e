#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the speed of the scores: a wrpagerank iteration compared with the PageRank loop of the
GAP benchmark suite and with the floor, expected compared with wrpagerank, and both out of core
compared with reading the files. All use the same generated graphs, in turn; results are medians of
pairs.

The script prints one JSON object on stdout and a table on stderr. bench/README.md describes the
timed regions.
"""
import argparse
import json
import os
import statistics
import sys

from common import ROOT, Failure, Worker, record, run_main, say, spread, temporary_folder

ITERATIONS = 6   # of a call; the first one, which sorts the edges, is reported separately
PULLS = 3
HOPS = 3
CLOSE = 1e-4            # relative difference; not 0, as the baseline sums in float
EDGE_BYTES = 12         # per edge and iteration: places 2 x 2, values 2 x 4
VERTEX_BYTES = 32       # per vertex: score read and written, indptr, sums written and read


def floats(line):
    return [float(word) for word in line.split()]


def open_worker(args, kind, scale, edge_factor, folder=None):
    worker = Worker([os.path.join(args.programs, "rung_score_speed"), kind, str(scale),
                     str(edge_factor), str(args.seed), str(args.threads),
                     *([folder] if folder else [])])
    if worker.answer() != "ready":
        raise Failure("rung_score_speed did not become ready")
    return worker


def iterations(args, kind, scale):
    """Measures one graph: rounds of pull, steps and copy."""
    worker = open_worker(args, kind, scale, args.edge_factor)
    difference = float(worker.order("compare", 3))
    if not difference < CLOSE:
        raise Failure(f"the scores have a relative difference of {difference}")
    rounds = []
    for idx in range(args.rounds + 1):
        orders = [("pull", PULLS), ("steps", ITERATIONS)]
        found = {order: floats(worker.order(order, count)) for order,
                 count in (orders if idx % 2 == 0 else reversed(orders))}
        found["copy"] = floats(worker.order("copy"))[0]
        rounds.append(found)
    worker.close()
    rounds = rounds[1:]   # the first round is a warm-up
    vertices, edges = 1 << scale, args.edge_factor << scale
    pull = [statistics.median(one["pull"]) for one in rounds]
    step = [statistics.median(one["steps"][1:]) for one in rounds]
    floor = [(EDGE_BYTES * edges + VERTEX_BYTES * vertices) / one["copy"] for one in rounds]
    return {
        "graph": kind, "scale": scale, "edge_factor": args.edge_factor, "vertices": vertices,
        "edges": edges, "difference": difference,
        "pull_s": spread(pull), "step_s": spread(step),
        "first_step_s": spread([one["steps"][0] for one in rounds]),
        "edges_per_s": spread([edges / seconds for seconds in step]),
        "ratio": spread([mine / own for mine, own in zip(pull, step)]),
        "copy_bytes_per_s": spread([one["copy"] for one in rounds]), "floor_s": spread(floor),
        "share_of_floor": spread([least / own for least, own in zip(floor, step)]),
        "rounds": rounds,
    }


def expected(args, kind, scale):
    worker = open_worker(args, kind, scale, args.edge_factor)
    pairs = [floats(worker.order("hops", HOPS)) for _ in range(args.rounds + 1)][1:]
    worker.close()
    return {"graph": kind, "scale": scale, "edge_factor": args.edge_factor, "hops": HOPS,
            "wrpagerank_s": spread([pair[0] for pair in pairs]),
            "expected_s": spread([pair[1] for pair in pairs]),
            "ratio": spread([pair[1] / pair[0] for pair in pairs]), "rounds": pairs}


def out_of_core(args, folder):
    """Measures files eight times as large as the budget. Each pair reads them directly before and
    after."""
    scale, factor = args.files_scale, args.files_edge_factor
    memory = (factor << scale) * 4 // 8
    worker = open_worker(args, "rmat", scale, factor, folder)
    worker.order("write")
    rounds = []
    for _ in range(args.rounds + 1):
        before = float(worker.order("read"))
        seconds = float(worker.order("files", ITERATIONS, memory))
        rounds.append({"read_s": [before, float(worker.order("read"))],
                       "passes_s": seconds / ITERATIONS})
    worker.close()
    rounds = rounds[1:]
    return {"graph": "rmat", "scale": scale, "edge_factor": factor, "memory_bytes": memory,
            "file_bytes": (factor << scale) * 4 + (8 << scale),
            "passes": ITERATIONS, "read_s": spread([statistics.mean(one["read_s"])
                                                    for one in rounds]),
            "pass_s": spread([one["passes_s"] for one in rounds]),
            "ratio": spread([one["passes_s"] / statistics.mean(one["read_s"]) for one in rounds]),
            "rounds": rounds}


def tell(result):
    for one in result["iterations"]:
        say(f"{one['graph']:8} {one['scale']}   pull {one['pull_s']['median']:.3f} s, step "
            f"{one['step_s']['median']:.3f} s "
            f"({one['edges_per_s']['median'] / 1e6:.0f} M edges/s): {one['ratio']['median']:.2f} "
            f"x; {one['share_of_floor']['median']:.2f} of the "
            f"floor; first {one['first_step_s']['median']:.2f} s")
    for one in result["expected"]:
        say(f"{one['graph']:8} {one['scale']}   {HOPS} hops of expected: "
            f"{one['ratio']['median']:.2f} x {HOPS} iterations of wrpagerank")
    if result["files"]:
        one = result["files"]
        say(f"out of core: {one['pass_s']['median']:.2f} s per pass, "
            f"{one['ratio']['median']:.2f} x "
            f"reading ({one['read_s']['median']:.2f} s)")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scales", default="22,24",
                        help="scales of the graphs: 2^scale vertices (default: 22,24)")
    parser.add_argument("--edge-factor", type=int, default=16,
                        help="edges per vertex (default: 16)")
    parser.add_argument("--files-scale", type=int, default=22,
                        help="scale of the graph out of core; 0: none (default: 22)")
    parser.add_argument("--files-edge-factor", type=int, default=64,
                        help="edges per vertex of this graph (default: 64)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count (default: 5)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", default=None,
                        help="folder for a temporary folder with the files")
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"))
    parser.add_argument("--programs", default=os.path.join(ROOT, "build", "bench"))
    parser.add_argument("--small", action="store_true", help="try the script in a few seconds")
    args = parser.parse_args()
    if args.small:
        # out of core, a budget of less than 30 MiB is too small
        args.scales, args.files_scale, args.rounds = "14", 0, 1
    if not os.path.exists(os.path.join(args.programs, "rung_score_speed")):
        raise Failure(f"{args.programs}: rung_score_speed was not found; build with "
                      "-DRUNG_BENCH=ON")
    scales = [int(scale) for scale in args.scales.split(",")]
    with temporary_folder(args.dir) as folder:
        result = record("score_speed", "score_speed.py", args.rung, folder)
        result["threads"] = args.threads
        result["iterations"] = [iterations(args, kind, scale) for scale in scales
                                for kind in ("rmat", "uniform")]
        result["expected"] = [expected(args, kind, scales[0]) for kind in ("rmat", "uniform")]
        result["files"] = out_of_core(args, folder) if args.files_scale else None
    tell(result)
    json.dump(result, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    run_main("score_speed.py", main)

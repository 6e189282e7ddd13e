#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the models of `rung generate` with the graphs that they were fitted to.

    bench/generator/generator.py                  ogbn-arxiv, and the packages of Debian
    bench/generator/generator.py --graphs FOLDER  also FOLDER/debian-docs.npz (edge_index [2, E])
    bench/generator/generator.py --names arxiv --at-most

Each model has the counts of its graph. In each setting (edges as given and in both directions,
fanouts 12,12,12 and 25,10, batches of 64, rows of 512 bytes) both are staged by `blend`, and then
measured by the same commands: `rung trace` reports the hits of 5, 10 and 20 % of the rows, `rung
bench --ids trace --cache 0 --merge-gap 16KiB` the device reads per cold row, with memory for all
neighbour lists and 10 % of the rows. Train vertices are the graph's own split; for graphs without
one, 10 % at random.

--at-most exits with 1 if hits differ by more than 3 points or reads by more than 15 %. Graphs that
are missing are skipped, with the reason; without any the exit status is 77. Prints one JSON object
on stdout and a table on stderr. Needs numpy.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import (ROOT, Failure, find_graph, lists_bytes, record, run_json, run_main, say,
                    temporary_folder, write_hole)

NAMES = ["arxiv", "debian-docs", "debian"]
FANOUTS = ["12,12,12", "25,10"]
DIRECTIONS = ["directed", "undirected"]
SHARES = [0.05, 0.1, 0.2]
BATCH = 64
ROW_BYTES = 512
POINTS_MAX, READS_MAX = 3.0, 0.15


def real_arxiv(np, args, folder):
    path = find_graph(args.graph)
    if not path:
        return None, "arxiv.npz was not found; use --graph or set RUNG_TEST_DATA to its folder"
    with np.load(path) as file:
        return save(np, folder, file["edge_index"], file["train_idx"]), None


def real_debian_docs(np, args, folder):
    path = args.graphs and os.path.join(args.graphs, "debian-docs.npz")
    if not path or not os.path.exists(path):
        return None, "debian-docs.npz was not found; bench/README.md describes it; use --graphs"
    with np.load(path) as file:
        return save(np, folder, file["edge_index"], None), None


def real_debian(np, _, folder):
    out = os.path.join(folder, "debian")
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "debian_graph.py"), out],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return None, f"tools/debian_graph.py: {done.stderr.strip()}"
    graph = save(np, folder, np.load(os.path.join(out, "edges.npy")),
                 np.load(os.path.join(out, "train.npy")),
                 len(np.load(os.path.join(out, "labels.npy"))))
    shutil.rmtree(out)
    return graph, None


REAL = {"arxiv": real_arxiv, "debian-docs": real_debian_docs, "debian": real_debian}


def save(np, folder, edges, train, vertices=0):
    """The graph as files; without a split 10 % of the vertices at random."""
    vertices = max(vertices, int(edges.max()) + 1, int(train.max()) + 1 if train is not None else 0)
    if train is None:
        train = np.random.default_rng(1).choice(vertices, vertices // 10, replace=False)
    paths = [os.path.join(folder, name) for name in ("real-edges.npy", "real-train.npy")]
    np.save(paths[0], edges.astype(np.int32))
    np.save(paths[1], np.sort(train).astype(np.int64))
    return {"edges": paths[0], "train": paths[1], "vertices": vertices,
            "edge_count": edges.shape[1]}


def generate(args, name, real, folder):
    """A model with the counts of the real graph."""
    out = os.path.join(folder, "model")
    report = run_json([args.rung, "generate", out, "--model", name, "--vertices",
                       str(real["vertices"]), "--edges", str(real["edge_count"]), "--width", "1",
                       "--seed", str(args.seed), "--json", "--quiet"])
    return {"edges": os.path.join(out, "edges.npy"), "train": os.path.join(out, "train.npy"),
            "vertices": report["vertices"], "parameters": report["parameters"]}


def measure(args, graph, direction, fanouts, folder):
    staged, features = os.path.join(folder, "staged"), os.path.join(folder, "features")
    write_hole(features, graph["vertices"] * ROW_BYTES)
    run_json([args.rung, "stage", "--json", "--quiet", "--graph", graph["edges"],
              *(["--undirected", "--dedup"] if direction == "undirected" else []),
              "--features", f"raw:{features},u8,{graph['vertices']}x{ROW_BYTES}", "--split",
              f"train={graph['train']}", "--fanout", fanouts, "--batch", str(BATCH), "--out",
              staged])
    trace = run_json([args.rung, "trace", staged, "--json", "--quiet", "--scores", "none", "--rows",
                      "1000000"])
    host = graph["vertices"] * ROW_BYTES // 10 + lists_bytes(staged)
    bench = run_json([args.rung, "bench", staged, "--json", "--quiet", "--ids", "trace", "--host",
                      str(host), "--structure", "max", "--cache", "0", "--merge-gap", "16KiB",
                      "--rows", str(args.rows)])
    shutil.rmtree(staged)
    os.unlink(features)
    at = [trace["curve"]["share"].index(share) for share in SHARES]
    return {"hits": [trace["curve"]["methods"]["staged"][i] for i in at],
            "reads_per_row": bench["device_reads"] / bench["read_rows"],
            "rows_per_batch": trace["rows"] / trace["batches"]}


def compare(real, model):
    return {"points": [100 * (b - a) for a, b in zip(real["hits"], model["hits"])],
            "reads_ratio": model["reads_per_row"] / real["reads_per_row"]}


def is_near(case):
    return (max(map(abs, case["points"])) <= POINTS_MAX
            and abs(case["reads_ratio"] - 1) <= READS_MAX)


def show(name, case):
    def numbers(one):
        return (" / ".join(f"{100 * hits:.1f}" for hits in one["hits"])
                + f"  {one['reads_per_row']:.3f}")
    say(f"{name:12} {case['direction']:10} {case['fanouts']:9} {numbers(case['real'])}   "
        f"{numbers(case['model'])}   {'near' if is_near(case) else 'far'}")


def compare_graph(np, args, name, folder):
    """The cases of a graph; none if it is missing."""
    real, why = REAL[name](np, args, folder)
    if not real:
        say(f"{name}: skipped: {why}")
        return [], None
    model = generate(args, name, real, folder)
    cases = []
    for direction in DIRECTIONS:
        for fanouts in FANOUTS:
            case = {"graph": name, "direction": direction, "fanouts": fanouts,
                    "real": measure(args, real, direction, fanouts, folder),
                    "model": measure(args, model, direction, fanouts, folder)}
            case.update(compare(case["real"], case["model"]))
            cases.append(case)
            show(name, case)
    shutil.rmtree(os.path.join(folder, "model"))
    return cases, {"vertices": real["vertices"], "edges": real["edge_count"],
                   "parameters": model["parameters"]}


def parse_args():
    words = lambda text: text.split(",")   # pylint: disable=unnecessary-lambda-assignment
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--graph", help="arxiv.npz (default: in $RUNG_TEST_DATA, or ../shared/data "
                                        "next to the checkout)")
    parser.add_argument("--graphs", metavar="FOLDER", help="folder of debian-docs.npz")
    parser.add_argument("--names", type=words, default=NAMES,
                        help="graphs to compare (default: " + ",".join(NAMES) + ")")
    parser.add_argument("--dir", help="folder for the temporary folder, about 500 MB")
    parser.add_argument("--rows", type=int, default=1000000,
                        help="rows to gather in each setting (default: 1000000)")
    parser.add_argument("--seed", type=int, default=0, help="of the models (default: 0)")
    parser.add_argument("--at-most", action="store_true",
                        help=f"exit with 1 above {POINTS_MAX:.0f} points or {READS_MAX:.0%}")
    return parser.parse_args()


def main():
    args = parse_args()
    try:
        import numpy as np   # pylint: disable=import-outside-toplevel
    except ImportError as missing:
        raise Failure("numpy was not found; install python3-numpy") from missing
    say(f"{'graph':12} {'direction':10} {'fanouts':9} real: hits % at 5 / 10 / 20 %, reads per row;"
        " then the model's")
    result, cases = {**record("generator", "generator/generator.py", args.rung), "graphs": {}}, []
    with temporary_folder(args.dir) as folder:
        for name in args.names:
            found, graph = compare_graph(np, args, name, folder)
            cases += found
            if graph:
                result["graphs"][name] = graph
    if not cases:
        return 77
    result.update(batch=BATCH, row_bytes=ROW_BYTES, seed=args.seed, near=sum(map(is_near, cases)),
                  cases=cases)
    print(json.dumps(result, indent=1))
    return 1 if args.at_most and result["near"] < len(cases) else 0


if __name__ == "__main__":
    run_main("generator.py", main)

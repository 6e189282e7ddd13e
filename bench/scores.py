#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the order of every score with the best order: the share of row requests that the first
1, 10 and 25 % of the rows serve.

    bench/scores.py                         ogbn-arxiv and Cora
    bench/scores.py --graphs FOLDER         also every FOLDER/NAME.npz, with edge_index [2, E] and,
                                            if it has a split, train_idx
    bench/scores.py --table RECORD...       the tables of docs/SCORES.md from such records

Settings: edges as given and in both directions (once if both are the same); train vertices: the
graph's own split, 1 % and 10 % at random, and 5 % in clusters (breadth first from random vertices);
fanouts, batch sizes, and both conventions of drawing. The program rung_scores measures each setting
with sampled batches that no score has seen. The ceiling is the order by the counts of other
batches.

Prints one JSON object on stdout and a table on stderr. Needs numpy.
"""
import argparse
import glob
import json
import os

from common import ROOT, Failure, numbers, record, run_json, run_main, say, temporary_folder

TOPS = ["1 %", "10 %", "25 %"]
# a batch of 1024 would request most of a smaller graph, so small graphs only get batches of 16
SMALL_VERTICES = 30000


def folders():
    return [folder for folder in (os.environ.get("RUNG_TEST_DATA", ""),
                                  os.path.join(ROOT, "..", "shared", "data")) if folder]


def find_graphs(args):
    """Paths by name: the known graphs that are available, then those of the folder."""
    found = {}
    for name in ("arxiv", "cora"):
        paths = [os.path.join(folder, f"{name}.npz") for folder in folders()]
        for path in filter(os.path.exists, reversed(paths)):
            found[name] = os.path.abspath(path)
    for path in sorted(glob.glob(os.path.join(args.graphs, "*.npz"))) if args.graphs else []:
        found[os.path.basename(path)[:-len(".npz")]] = os.path.abspath(path)
    return {name: path for name, path in found.items() if not args.names or name in args.names}


def neighbours_of(np, edges, vertices):
    """indptr and indices of the graph in both directions."""
    ends = np.concatenate([edges, edges[::-1]], axis=1)
    order = np.argsort(ends[1], kind="stable")
    return np.concatenate([[0],
                           np.cumsum(np.bincount(ends[1], minlength=vertices))]), ends[0][order]


def clustered(np, rng, edges, vertices, count):
    """Vertices in breadth-first order from a random one. When no more are reachable, it continues
    from another random one."""
    indptr, indices = neighbours_of(np, edges, vertices)
    seen, found = np.zeros(vertices, bool), []
    while len(found) < count:
        front = np.array([rng.choice(np.flatnonzero(~seen))])
        while len(front) and len(found) < count:
            seen[front] = True
            found.extend(front)
            front = np.unique(np.concatenate([indices[indptr[v]:indptr[v + 1]] for v in front]))
            front = front[~seen[front]]
    return np.array(found[:count])


def write_train_sets(np, args, arrays, vertices, folder):
    """Paths by name."""
    rng, sets = np.random.default_rng(args.seed), {}
    if "train_idx" in arrays:
        sets["own split"] = arrays["train_idx"]
    for percent in (1, 10):
        sets[f"{percent} % at random"] = rng.choice(vertices, max(vertices * percent // 100, 16),
                                                    replace=False)
    sets["5 % clustered"] = clustered(np, rng, arrays["edge_index"], vertices,
                                      max(vertices // 20, 16))
    paths = {}
    for name, ids in sets.items():
        if args.train and name not in args.train:
            continue
        paths[name] = os.path.join(folder, f"train-{len(paths)}.npy")
        np.save(paths[name], np.sort(np.asarray(ids)).astype(np.int64))
    return paths


def settings(args, vertices):
    batches = args.batches if vertices >= SMALL_VERTICES else [16]
    return [(fanouts, batch, draws) for draws in args.draws for batch in batches
            for fanouts in args.fanouts]


def is_symmetric(np, edges, vertices):
    there, back = (np.unique(ends[0].astype(np.int64) * vertices + ends[1])
                   for ends in (edges, edges[::-1]))
    return np.array_equal(there, back)


def directions_of(np, args, edges, vertices):
    """A graph that has every edge in both directions is measured once."""
    both = len(args.directions) > 1 and is_symmetric(np, edges, vertices)
    return args.directions[:1] if both else args.directions


def measure_graph(np, args, name, path, folder):
    with np.load(path) as file:
        arrays = {key: file[key] for key in ("edge_index", "train_idx") if key in file}
    vertices = int(arrays["edge_index"].max()) + 1
    if "train_idx" in arrays:
        vertices = max(vertices, int(arrays["train_idx"].max()) + 1)
    train_sets = write_train_sets(np, args, arrays, vertices, folder)
    cases = []
    for direction in directions_of(np, args, arrays["edge_index"], vertices):
        for train, train_path in train_sets.items():
            for fanouts, batch, draws in settings(args, vertices):
                case = {"graph": name, "direction": direction, "train_set": train,
                        "fanouts": fanouts, "batch": batch, "draws": draws}
                case.update(run_json([args.program, f"{path}:edge_index", str(vertices), direction,
                                      train_path, fanouts, str(batch),
                                      draws, str(args.requests), str(args.seed),
                                      str(args.threads)]))
                cases.append(case)
                of_ceiling = {score: case["scores"][score]["of_ceiling"][1]
                              for score in ("wrpagerank", "expected", "blend")}
                say(f"{name:12} {direction:10} {train:16} {fanouts:9} {batch:5} {draws:4}" +
                    "".join(f" {share:9.4f}" for share in of_ceiling.values()))
    return cases


def percent(values):
    return [round(100 * value, 2) for value in values]


def summary_of(cases):
    """For each score: mean and worst percent of the ceiling at each top, and the largest error of
    its forecast, in points."""
    summary = {"cases": len(cases)}
    for score in cases[0]["scores"]:
        found = [case["scores"][score] for case in cases]
        shares = list(zip(*[one["of_ceiling"] for one in found]))
        summary[
            score] = {"mean_percent_of_ceiling": percent([sum(top) / len(top) for top in shares]),
                          "worst_percent_of_ceiling": percent([min(top) for top in shares])}
        if "forecast" in found[0]:
            off = list(zip(*[[abs(a - b) for a, b in zip(one["forecast"], one["hits"])]
                             for one in found]))
            summary[
                score]["forecast_off_points_mean"] = percent([sum(top) / len(top) for top in off])
            summary[score]["forecast_off_points_worst"] = percent([max(top) for top in off])
    return summary


def summaries(cases):
    by_graph = {}
    for case in cases:
        by_graph.setdefault(f"{case['graph']}, {case['direction']}", []).append(case)
    return {"tops": TOPS, "all": summary_of(cases),
            **{name: summary_of(of_graph) for name, of_graph in by_graph.items()}}


def table_row(cells):
    return "| " + " | ".join(cells) + " |"


def mean_and_worst(summary, score, top):
    return (f"{summary[score]['mean_percent_of_ceiling'][top]:.1f} / "
            f"{summary[score]['worst_percent_of_ceiling'][top]:.1f}")


def print_tables(paths):
    """Prints tables of all cases of the records, by score and by graph: mean, worst, and errors of
    the forecasts."""
    cases = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            cases += json.load(file)["cases"]
    by = summaries(cases)
    whole, columns = by["all"], ("degree", "wrpagerank", "presample, 2 epochs", "expected", "blend")
    print(f"{whole['cases']} cases\n")
    print(table_row(["score"] + TOPS) + "\n|---|---|---|---|")
    for score in cases[0]["scores"]:
        print(table_row([score] + [mean_and_worst(whole, score, top) for top in range(len(TOPS))]))
    print("\n" + table_row(["graph", "cases", *columns, "forecast of expected", "of blend"]) + "\n"
          + "|---" * 9 + "|")
    for name in list(by)[2:]:
        off = [f"{max(by[name][score]['forecast_off_points_worst']):.1f}"
               for score in ("expected", "blend")]
        print(table_row([name,
                         str(by[name]["cases"])] + [mean_and_worst(by[name], score, 1)
                                                    for score in columns] + off))
    off = [f"{max(whole[score]['forecast_off_points_worst']):.1f}"
           for score in ("expected", "blend")]
    print(table_row(["all", str(whole["cases"])] + [mean_and_worst(whole, score, 1)
                                                    for score in columns] + off))


def text_of(result, cases):
    """JSON with one line per case, because there are hundreds."""
    head = json.dumps(result, indent=1)[:-2]
    return (head + ',\n "cases": [\n' + ",\n".join("  " + json.dumps(case)
                                                   for case in cases) + "\n ]\n}")


def parse_args():
    words = lambda text: text.split(",")   # pylint: disable=unnecessary-lambda-assignment
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--programs", default=os.path.join(ROOT, "build", "bench"),
                        help="folder of rung_scores (default: build/bench)")
    parser.add_argument("--graphs", metavar="FOLDER", help="more graphs")
    parser.add_argument("--names", type=words, help="graphs to measure (default: all found)")
    parser.add_argument("--directions", type=words, default=["directed", "undirected"],
                        help="(default: directed,undirected)")
    parser.add_argument("--train", type=words,
                        help="\"own split\", \"1 %% at random\", ... (default: all)")
    parser.add_argument("--fanouts", type=lambda text: text.split(":"),
                        default=["12,12,12", "25,10", "10,10,10"],
                        help="lists with ':' between them (default: 12,12,12:25,10:10,10,10)")
    parser.add_argument("--batches", type=numbers, default=[64, 1024],
                        help=f"seeds per batch (default: 64,1024); graphs of less than "
                             f"{SMALL_VERTICES} vertices: 16")
    parser.add_argument("--draws", type=words, default=["all", "new"],
                        help="vertices that draw at a hop (default: all,new)")
    parser.add_argument("--requests", type=int, default=30000000,
                        help="minimum row requests of a trace (default: 30000000)")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", nargs="+", metavar="RECORD",
                        help="do not measure; print tables of these records in Markdown")
    parser.add_argument("--small", action="store_true",
                        help="try the script on a tiny generated graph")
    args = parser.parse_args()
    args.program = os.path.join(args.programs, "rung_scores")
    return args


def write_small(np, folder):
    """A ring of 200 vertices with chords."""
    here = np.arange(200)
    ends = np.stack([np.concatenate([(here + step) % 200 for step in (1, 2, 3, 50)]),
                     np.tile(here, 4)])
    np.savez(os.path.join(folder, "ring.npz"), edge_index=ends.astype(np.int64))
    return {"ring": os.path.join(folder, "ring.npz")}


def main():
    args = parse_args()
    if args.table:
        print_tables(args.table)
        return 0
    try:
        import numpy as np   # pylint: disable=import-outside-toplevel
    except ImportError as missing:
        raise Failure("numpy was not found; install python3-numpy") from missing
    with temporary_folder(None) as folder:
        if args.small:
            args.requests = 1000
        graphs = write_small(np, folder) if args.small else find_graphs(args)
        if not graphs:
            say("skipped: no graph was found; set RUNG_TEST_DATA to the folder of arxiv.npz, or "
                "use --graphs")
            return 77
        say(f"{'graph':12} {'direction':10} {'train':16} {'fanouts':9} {'batch':>5} draws "
            "wrpagerank expected     blend"
            "  (10 %, relative to the ceiling)")
        result = record("scores", "scores.py", args.rung)
        cases = [case for name,
                 path in graphs.items() for case in measure_graph(np, args, name, path, folder)]
        print(text_of({**result, "seed": args.seed, "requests": args.requests,
                       "summary": summaries(cases)}, cases))
    return 0


if __name__ == "__main__":
    run_main("scores.py", main)

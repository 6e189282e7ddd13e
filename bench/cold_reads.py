#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares how rung and other strategies read the cold rows of batches, from the same file and for
the same ids, in turn.

It has three parts. dense: uniform rows in spans of a large file, from sparse to dense. trace:
sampled batches of a real graph. lookahead: cache hits of rung on such batches with some of them
announced, compared with Belady's algorithm and the static order; counted, not timed.
bench/README.md describes the strategies and the timed regions. Prints one JSON object on stdout and
tables on stderr. Needs the Python standard library; --rmat also needs numpy.
"""
import argparse
import array
import json
import os
import random
import shutil

from common import (ROOT, Failure, arxiv, as_typed, drop_cached, features_file, find_graph,
                    names_of, numbers, record, rmat, run_json, run_main, run_text, say,
                    sector_bytes, size, spread, stage, stage_graph, temporary_folder, write_hole)

PARTS = ("dense", "trace", "lookahead")
SPAN_ROWS = 8192
RESIDENT_OF_DENSE = 0.01   # a share that leaves room for slots of several rows
THREADS = 8 * (os.cpu_count() or 1)

# name: arguments of the program
BASELINES = {
    "mmap": ["mmap", "threads=1"],
    f"mmap-{THREADS}": ["mmap", f"threads={THREADS}"],
    "pread": ["pread", f"threads={THREADS}"],
    "uring-rows": ["uring-rows"],
    "uring-pages": ["uring-pages"],
    "uring-slot": ["uring-slot"],
}
ONE_READ_A_ROW = ("pread", "uring-rows", "uring-slot", "rung-rows")


class Programs:
    """The paths of the programs and their command lines."""

    def __init__(self, args):
        self.rung = args.rung
        self.cold = os.path.join(args.programs, "rung_cold_reads")
        built = run_text([self.cold, "strategies"]).split()
        self.baselines = {name: words for name, words in BASELINES.items() if words[0] in built}

    def leave_out_slots(self, dataset, row_bytes):
        """uring-slot reads whole sectors into the output, so rows must be whole sectors."""
        sector = sector_bytes(self.rung, dataset)
        if "uring-slot" in self.baselines and row_bytes % sector:
            say(f"uring-slot left out: rows of {row_bytes} bytes are not whole sectors of {sector}")
            del self.baselines["uring-slot"]

    def call(self, *words):
        return [self.cold, *(str(word) for word in words)]


# ---- timing ----

def sample(command, path, row_bytes):
    """The results of one run of a strategy."""
    drop_cached(path)
    out = run_json(command)
    if out["wrong_rows"] != 0:
        raise Failure(f"{as_typed(command)}: {out['wrong_rows']} rows are wrong")
    rows = out["rows"]
    return {**out, "rows_per_s": rows / out["seconds"],
            "reads_per_s": out["reads"] / out["seconds"], "reads_per_row": out["reads"] / rows,
            "bytes_read_per_byte_wanted": out["read_bytes"] / (rows * row_bytes),
            "cpu_us_per_row": out["cpu_seconds"] / rows * 1e6}


def race(args, path, row_bytes, commands):
    """{strategy: samples}. Every second round runs in reverse order; the first is dropped as a
    warm-up."""
    samples, dropped = {name: [] for name in commands}, 0 if args.small else 1
    for idx in range(args.rounds + dropped):
        for name in sorted(commands, key=list(commands).index, reverse=idx % 2 == 1):
            samples[name].append(sample(commands[name], path, row_bytes))
    return {name: all_of[dropped:] for name, all_of in samples.items()}


def summary(samples, commands):
    """The results of each strategy, and the ratio of each rung strategy to each other one, computed
    per round."""
    figures = ("rows_per_s", "reads_per_s", "reads_per_row", "bytes_read_per_byte_wanted",
               "cpu_us_per_row")
    out = {}
    for name, rounds in samples.items():
        out[name] = {figure: spread([r[figure] for r in rounds]) for figure in figures}
        out[name].update(samples=rounds, command=as_typed(commands[name]))
        if not name.startswith("rung"):
            continue
        others = [other for other in samples if not other.startswith("rung")
                  or other == "rung-rows"]
        out[name]["times_the_rows_per_s_of"] = {
            other: spread([mine["rows_per_s"] / theirs["rows_per_s"] for mine,
                           theirs in zip(rounds, samples[other])]) for other in others}
        out[name]["times_the_reads_of"] = {
            other: spread([mine["reads"] / max(1, theirs["reads"]) for mine,
                           theirs in zip(rounds, samples[other])]) for other in others}
    return out


def tell(title, strategies):
    say(f"{title}\n  {'':18} {'rows/s':>9} {'reads/s':>9} {'reads/row':>9} {'read/wanted':>11} "
        f"{'CPU us/row':>10}")
    for name, s in strategies.items():
        say(f"  {name:18} {s['rows_per_s']['median']:9.0f} {s['reads_per_s']['median']:9.0f} "
            f"{s['reads_per_row']['median']:9.3f}"
            f" {s['bytes_read_per_byte_wanted']['median']:11.2f} "
            f"{s['cpu_us_per_row']['median']:10.2f}")


def commands_of(programs, dataset, trace, resident, more):
    """{strategy: command}. `more` adds rung strategies: {name: words}."""
    wanted = {**programs.baselines, **{name: ["rung", *words] for name, words in more.items()}}
    return {name: programs.call("run", dataset, trace, words[0], f"resident={resident}",
                                *words[1:]) for name, words in wanted.items()}


# ---- the parts ----

def dense(args, programs, folder):
    """Uniform rows in spans. In the widest span no rows can be merged; in the narrowest, most can.
    """
    vertices, dataset = args.size // args.row_bytes, os.path.join(folder, "dense")
    resident = round(vertices * RESIDENT_OF_DENSE)
    say(f"staging {vertices} rows of {args.row_bytes} bytes")
    write_hole(f"{folder}/dense.features", vertices * args.row_bytes)
    stage(args.rung, f"{folder}/dense.features", vertices, args.row_bytes, dataset)
    run_text(programs.call("fill", dataset))
    programs.leave_out_slots(dataset, args.row_bytes)
    path, results = features_file(args.rung, dataset), []
    for density in args.densities:
        span = min(round(SPAN_ROWS / density * 100), vertices - resident)
        trace = os.path.join(folder, "dense.trace")
        make = programs.call("spans", dataset, trace, resident, SPAN_ROWS, span, args.span_batches,
                             args.seed)
        run_text(make)
        commands = commands_of(programs, dataset, trace, resident,
                               {"rung-rows": ["no-merge=1"], "rung": []})
        strategies = summary(race(args, path, args.row_bytes, commands), commands)
        tell(f"{SPAN_ROWS} rows of {args.row_bytes} bytes in a span of {span} "
             f"({SPAN_ROWS / span * 100:.2f} %)", strategies)
        results.append({"density_percent": SPAN_ROWS / span * 100, "span_rows": span,
                        "rows_per_batch": SPAN_ROWS,
                        "batches": args.span_batches, "row_bytes": args.row_bytes,
                        "resident_rows": resident, "vertices": vertices,
                        "one_read_a_row": list(ONE_READ_A_ROW), "trace": as_typed(make),
                        "strategies": strategies})
    shutil.rmtree(dataset)
    return results


def small_graph(folder):
    """A graph for --small: uneven degrees, without numpy."""
    draws, vertices = random.Random(1), 6000
    edges = array.array("I",
                        [int(vertices * draws.random() ** 3)
                         for _ in range(60_000)] + [draws.randrange(vertices)
                                                    for _ in range(60_000)])
    with open(f"{folder}/edges.bin", "wb") as out:
        edges.tofile(out)
    with open(f"{folder}/train.bin", "wb") as out:
        array.array("I", draws.sample(range(vertices), 2048)).tofile(out)
    return {"name": "6000 vertices, 60000 edges from a few of them", "vertices": vertices,
            "edges": f"raw:{folder}/edges.bin,u32,2x60000",
            "train": f"raw:{folder}/train.bin,u32,2048", "directions": {"both directions": True}}


def open_graph(args, folder):
    """Returns None if the graph is not available."""
    if args.small:
        return small_graph(folder)
    if args.rmat:
        return rmat(args.rmat, args.seed, folder)
    path = find_graph(args.graph)
    return arxiv(path) if path else None


def stage_sampled(args, programs, folder, graph):
    dataset = os.path.join(folder, "graph")
    say(f"staging {graph['name']}")
    stage_graph(args.rung, graph, args.row_bytes, args.score,
                graph["directions"].get("both directions", False), dataset)
    run_text(programs.call("fill", dataset))
    programs.leave_out_slots(dataset, args.row_bytes)
    return dataset


def trace_part(args, programs, folder, graph, dataset):
    """The first batches of an epoch. The first args.warmup of them fill caches and are not timed.
    """
    path, results, trace = features_file(args.rung,
                                         dataset), [], os.path.join(folder, "graph.trace")
    make = programs.call("sample", dataset, trace, args.fanout, args.batch,
                         args.warmup + args.trace_batches, args.seed)
    run_text(make)
    for share in args.resident:
        resident, cache = round(graph["vertices"] * share
                                / 100), round(graph["vertices"] * args.cache / 100)
        commands = commands_of(programs, dataset, trace, resident, {
            "rung-rows": ["no-merge=1"], "rung-one-in-flight": ["in-flight=1"], "rung": [],
            "rung-cache": [f"cache={cache}"],
            "rung-cache-ahead": [f"cache={cache}", f"ahead={args.ahead}"]})
        commands = {name: [*command, f"warmup={args.warmup}"] for name, command in commands.items()}
        strategies = summary(race(args, path, args.row_bytes, commands), commands)
        tell(f"{graph['name']}, fanout {args.fanout}, batch {args.batch}, {share} % resident",
             strategies)
        results.append({"fanout": args.fanout, "batch": args.batch, "batches": args.trace_batches,
                        "warmup": args.warmup,
                        "resident_percent": share, "resident_rows": resident, "cache_rows": cache,
                        "ahead": args.ahead,
                        "row_bytes": args.row_bytes, "trace": as_typed(make),
                        "strategies": strategies})
    return results


def lookahead(args, programs, folder, graph, dataset):
    """Counts cache hits after the first third of the trace, with W batches announced, and checks
    each row of each batch."""
    results, trace = [], os.path.join(folder, "ahead.trace")
    for case in args.lookahead:
        batch, batches, windows = case[0], case[1], case[2:]
        make = programs.call("sample", dataset, trace, args.fanout, batch, batches, args.seed)
        run_text(make)
        for share in args.resident:
            resident, cache = round(graph["vertices"] * share
                                    / 100), round(graph["vertices"] * args.cache / 100)
            bound = run_json(programs.call("count", dataset, trace, resident, cache, batches // 3))
            say(f"batch {batch}, {share} % resident, cache of {args.cache} %: Belady hits "
                f"{bound['belady_hits'] / bound['rows']:.3f},"
                f" static order {bound['static_hits'] / bound['rows']:.3f} of the cold rows")
            for window in windows:
                command = programs.call("run", dataset, trace, "rung", f"resident={resident}",
                                        f"cache={cache}", f"ahead={window}",
                                        "in-flight=1", f"warmup={batches // 3}", "check=1")
                out = run_json(command)
                if out["wrong_rows"] != 0 or out["rows"] != bound["rows"]:
                    raise Failure(f"{as_typed(command)}: {out['wrong_rows']} wrong rows, "
                                  f"{out['rows']} of {bound['rows']} counted")
                ahead = window * bound["rows"] / out["batches"] / cache
                results.append({
                    "batch": batch, "batches": batches, "fanout": args.fanout,
                    "resident_percent": share, "resident_rows": resident,
                    "cache_rows": cache, "window_batches": window,
                    "window_rows_over_cache_rows": ahead, "rows": out["rows"],
                    "hits": out["saved_rows"], "belady_hits": bound["belady_hits"],
                    "static_hits": bound["static_hits"],
                    "hits_over_belady": out["saved_rows"] / max(1, bound["belady_hits"]),
                    "hits_over_static": out["saved_rows"] / max(1, bound["static_hits"]),
                    "trace": as_typed(make), "command": as_typed(command)})
                say(f"  {window:4} batches ahead, {ahead:6.2f} times the cache size: hits "
                    f"{out['saved_rows'] / out['rows']:.3f},"
                    f" {results[-1]['hits_over_belady']:.3f} of Belady's, "
                    f"{results[-1]['hits_over_static']:.3f} of the static order's")
    return results


def parse_lookahead(text):
    """Parses BATCH:BATCHES:W,W,..., with ';' between cases."""
    return [[int(n) for n in case.replace(":", ",").split(",")] for case in text.split(";")]


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--programs",
                        help="folder of rung_cold_reads (default: bench/ next to the command)")
    parser.add_argument("--dir",
                        help="folder for the temporary folder; slightly more than --size is needed "
                             "(default: $TMPDIR)")
    parser.add_argument("--parts", type=names_of(PARTS, "part"), default=list(PARTS),
                        help=f"parts to run: {','.join(PARTS)} (default: all)")
    parser.add_argument("--size", type=size, default=size("6GiB"),
                        help="dense: bytes of features (default: 6GiB)")
    parser.add_argument("--row-bytes", type=int, default=512, help="(default: 512)")
    parser.add_argument("--densities", type=lambda text: [float(n) for n in text.split(",")],
                        default=[0.07, 6, 25],
                        help="dense: percent of the rows of a span that a batch requests "
                             "(default: 0.07,6,25)")
    parser.add_argument("--span-batches", type=int, default=12,
                        help="dense: batches per sample (default: 12)")
    parser.add_argument("--graph",
                        help="arxiv.npz (default: in $RUNG_TEST_DATA, or ../shared/data next to "
                             "the checkout)")
    parser.add_argument("--rmat", type=int, metavar="SCALE",
                        help="instead: a generated graph of 2^SCALE vertices")
    parser.add_argument("--score", default="degree",
                        help="score that orders the rows (default: degree)")
    parser.add_argument("--fanout", default="25,15", help="(default: 25,15)")
    parser.add_argument("--batch", type=int, default=1024,
                        help="trace: seeds per batch (default: 1024)")
    parser.add_argument("--trace-batches", type=int, default=6,
                        help="trace: batches per sample (default: 6)")
    parser.add_argument("--warmup", type=int, default=3,
                        help="trace: untimed batches before them (default: 3)")
    parser.add_argument("--resident", type=numbers, default=[5, 10],
                        help="percent of the rows in memory (default: 5,10)")
    parser.add_argument("--cache", type=int, default=10,
                        help="percent of the rows that the cache holds (default: 10)")
    parser.add_argument("--ahead", type=int, default=2,
                        help="trace: batches announced (default: 2)")
    parser.add_argument("--lookahead", type=parse_lookahead,
                        default=parse_lookahead("1024:45:1,2,3,4;64:300:1,4,16,32"),
                        help="lookahead: BATCH:BATCHES:W,W,...;... (default: "
                             "1024:45:1,2,3,4;64:300:1,4,16,32)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count (default: 5)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true",
                        help="try the script in a few seconds; the results are meaningless")
    args = parser.parse_args()
    if args.small:
        args.size, args.span_batches, args.rounds, args.densities, args.resident = size(
            "24MiB"), 2, 1, [25], [10]
        args.batch, args.trace_batches, args.warmup, args.fanout = 64, 3, 1, "5,3"
        args.lookahead = parse_lookahead("64:18:0,8")
    args.programs = args.programs or os.path.join(os.path.dirname(args.rung), "bench")
    return args


def main():
    args = parse_args()
    programs = Programs(args)
    with temporary_folder(args.dir) as folder:
        out = record("cold_reads", "cold_reads.py", args.rung, folder)
        if "dense" in args.parts:
            out["dense"] = dense(args, programs, folder)
        if {"trace", "lookahead"} & set(args.parts):
            graph = open_graph(args, folder)
            if not graph:
                say("skipped: arxiv.npz was not found; use --graph, set RUNG_TEST_DATA to its "
                    "folder, use --rmat, or --parts dense")
                return 77
            dataset = stage_sampled(args, programs, folder, graph)
            out["graph"] = graph["name"]
            if "trace" in args.parts:
                out["trace"] = trace_part(args, programs, folder, graph, dataset)
            if "lookahead" in args.parts:
                out["lookahead"] = lookahead(args, programs, folder, graph, dataset)
        print(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    run_main("cold_reads.py", main)

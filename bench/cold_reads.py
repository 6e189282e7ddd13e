#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares how rung and other strategies read the rows of batches, from the same file and for the
same ids, in turn, on the disk as it is and on a slower one.

It has four parts. dense: uniform cold rows in spans of a large file, from sparse to dense. trace:
sampled batches of several graphs, all strategies with the same memory. reads: device reads of rung
on these batches, with and without the window, which are counted. lookahead: cache hits of rung on
such batches with some of them announced, compared with Belady's algorithm and the static order;
counted, too. bench/README.md describes the strategies and the timed regions. Prints one JSON object
on stdout and tables on stderr. Needs the Python standard library; --rmat also needs numpy.
"""
import argparse
import contextlib
import json
import os
import shutil
import sys

from common import (ROOT, Failure, as_typed, drop_cached, features_file, names_of, numbers, record,
                    run_json, run_main, run_text, say, sector_bytes, size, spread, stage,
                    temporary_folder, write_hole)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "cold"))
# pylint: disable=wrong-import-position
import counted
import devices
import sets

PARTS = ("dense", "trace", "reads", "lookahead")
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
SETS = "arxiv:64:128,arxiv:1024:12,debian-docs:64:96,mag240m:16:256"
LOOKAHEAD = "1024:45:1,2,3,4;64:300:1,4,16,32"
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

def sample(command, path, row_bytes, device):
    """The results of one run of a strategy."""
    drop_cached(path)
    out = run_json(command, device.enter)
    if out["wrong_rows"] != 0:
        raise Failure(f"{as_typed(command)}: {out['wrong_rows']} rows are wrong")
    rows, seconds = out["rows"], out["seconds"]
    return {**out, "rows_per_s": rows / seconds, "reads_per_s": out["reads"] / seconds,
            "reads_per_row": out["reads"] / rows, "reads_per_batch": out["reads"] / out["batches"],
            "bytes_read_per_byte_wanted": out["read_bytes"] / (rows * row_bytes),
            "share_of_device": device.share_in_use(out["reads"] / seconds,
                                                   out["read_bytes"] / seconds),
            "cpu_us_per_row": out["cpu_seconds"] / rows * 1e6}


def race(args, path, row_bytes, commands, device):
    """{strategy: samples}. Every second round runs in reverse order; the first is dropped as a
    warm-up."""
    samples, dropped = {name: [] for name in commands}, 0 if args.small else 1
    for idx in range(args.rounds + dropped):
        for name in sorted(commands, key=list(commands).index, reverse=idx % 2 == 1):
            samples[name].append(sample(commands[name], path, row_bytes, device))
    return {name: all_of[dropped:] for name, all_of in samples.items()}


def summary(samples, commands):
    """The results of each strategy, and the ratio of each rung strategy to each other one, computed
    per round."""
    figures = ("rows_per_s", "reads_per_s", "reads_per_row", "reads_per_batch",
               "bytes_read_per_byte_wanted", "share_of_device", "cpu_us_per_row")
    out = {}
    for name, rounds in samples.items():
        out[name] = {figure: spread([r[figure] for r in rounds]) for figure in figures
                     if rounds[0][figure] is not None}
        out[name].update(samples=rounds, command=as_typed(commands[name]))
        if not name.startswith("rung"):
            continue
        others = [other for other in samples if other != name and (
            not other.startswith("rung") or other in ("rung-rows", "rung-announced"))]
        out[name]["times_the_rows_per_s_of"] = {
            other: spread([mine["rows_per_s"] / theirs["rows_per_s"] for mine,
                           theirs in zip(rounds, samples[other])]) for other in others}
        out[name]["times_the_reads_of"] = {
            other: spread([mine["reads"] / max(1, theirs["reads"]) for mine,
                           theirs in zip(rounds, samples[other])]) for other in others}
    return out


def tell(title, strategies):
    say(f"{title}\n  {'':18} {'rows/s':>9} {'reads/s':>9} {'reads/row':>9} {'read/wanted':>11} "
        f"{'of device':>9} {'CPU us/row':>10}")
    for name, s in strategies.items():
        share = f"{s['share_of_device']['median']:9.2f}" if "share_of_device" in s else f"{'-':>9}"
        say(f"  {name:18} {s['rows_per_s']['median']:9.0f} {s['reads_per_s']['median']:9.0f} "
            f"{s['reads_per_row']['median']:9.3f}"
            f" {s['bytes_read_per_byte_wanted']['median']:11.2f} {share} "
            f"{s['cpu_us_per_row']['median']:10.2f}")


def on_devices(args, title, path, row_bytes, commands, found):
    """The strategies on the device as it is, and throttled (None: not possible). rung reads with
    the merge gap that it would choose there."""
    out = {}
    for name, device in found.items():
        key = "strategies" if name == "as it is" else name
        if not device:
            out[key] = None
            continue
        gap = [] if device.gap is None else [f"gap={device.gap + 1}"]
        words = {strategy: [*command, *(gap if command[4] == "rung" else [])]
                 for strategy, command in commands.items()}
        out[key] = summary(race(args, path, row_bytes, words, device), words)
        tell(f"{title}, the device {name}", out[key])
    return out


def commands_of(programs, dataset, trace, common, more):
    """{strategy: command}. `more` adds rung strategies: {name: words}."""
    wanted = {**programs.baselines, **{name: ["rung", *words] for name, words in more.items()}}
    return {name: programs.call("run", dataset, trace, words[0], *common, *words[1:])
            for name, words in wanted.items()}


# ---- the parts ----

def dense(args, programs, folder, found):
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
    found.measure(dataset, path)
    for density in args.densities:
        span = min(round(SPAN_ROWS / density * 100), vertices - resident)
        trace = os.path.join(folder, "dense.trace")
        make = programs.call("spans", dataset, trace, resident, SPAN_ROWS, span, args.span_batches,
                             args.seed)
        run_text(make)
        commands = commands_of(programs, dataset, trace, [f"resident={resident}"],
                               {"rung-rows": ["no-merge=1"], "rung": []})
        strategies = on_devices(args, f"{SPAN_ROWS} rows of {args.row_bytes} bytes in a span of "
                                f"{span} ({SPAN_ROWS / span * 100:.2f} %)", path, args.row_bytes,
                                commands, found.devices)
        results.append({"density_percent": SPAN_ROWS / span * 100, "span_rows": span,
                        "rows_per_batch": SPAN_ROWS,
                        "batches": args.span_batches, "row_bytes": args.row_bytes,
                        "resident_rows": resident, "vertices": vertices,
                        "one_read_a_row": list(ONE_READ_A_ROW), "trace": as_typed(make),
                        **strategies})
    shutil.rmtree(dataset)
    return results


def announced(args, programs, row_bytes, run, path):
    """{strategy: words} of the strategies with announced batches. The cache of each is the one with
    the fewest reads out of args.cache_shares. `run` has the words before them."""
    out = {}
    for name, more in (("rung-announced", ["no-window=1"]), ("rung-window", [])):
        tried = {}
        for share in args.cache_shares:
            words = [f"cache={run.vertices * share // 100}", f"ahead={args.ahead}", *more]
            command = programs.call("run", run.dataset, run.trace, "rung", *run.words, *words)
            found = sample(command, path, row_bytes, devices.Device(None))
            tried[found["reads_per_batch"]] = words
        out[name] = tried[min(tried)]
    return out


class TraceRun:
    """A staged dataset and a trace of its batches, which all strategies read."""

    def __init__(self, args, programs, folder, graph, batch, batches):
        self.vertices, self.dataset = graph["vertices"], os.path.join(folder, "graph")
        self.trace = os.path.join(folder, "graph.trace")
        sets.stage(args, graph, args.row_bytes, batch, self.dataset)
        run_text(programs.call("fill", self.dataset))
        warmup = max(1, batches // 3)
        self.memory = self.vertices * args.row_bytes * args.memory // 100
        self.words = [f"memory={self.memory}", f"warmup={warmup}"]
        self.make = programs.call("sample", self.dataset, self.trace, args.fanout, batch,
                                  batches + warmup, args.seed)
        run_text(self.make)
        self.about = {"graph": graph["name"], "vertices": self.vertices, "fanout": args.fanout,
                      "score": args.score, "batch": batch, "batches": batches, "warmup": warmup,
                      "memory_percent": args.memory, "memory_bytes": self.memory,
                      "ahead": args.ahead, "row_bytes": args.row_bytes,
                      "trace": as_typed(self.make)}


def trace_part(args, programs, folder, found):
    """Sampled batches. Every strategy has the same memory: for the hottest rows, buffers, and with
    rung the cache. The batches of the warm-up fill the cache and are not timed."""
    results = []
    for name, batch, batches in args.sets:
        graph = sets.open_graph(args, folder, name)
        if isinstance(graph, str):
            say(f"{name}: {graph}")
            results.append({"graph": name, "batch": batch, "strategies": None, "why": graph})
            continue
        run = TraceRun(args, programs, folder, graph, batch, batches)
        path = features_file(args.rung, run.dataset)
        found.measure(run.dataset, path)
        kept = Programs(args)
        kept.leave_out_slots(run.dataset, args.row_bytes)
        kept.baselines.pop("mmap", None)   # one thread: minutes, and no system's choice
        more = announced(args, programs, args.row_bytes, run, path)
        commands = commands_of(kept, run.dataset, run.trace, run.words,
                               {"rung-rows": ["no-merge=1"], "rung": [], **more})
        title = f"{graph['name']}, batch {batch}, {args.memory} % of the row bytes as memory"
        results.append({**run.about, **on_devices(args, title, path, args.row_bytes, commands,
                                                  found.devices)})
        shutil.rmtree(run.dataset)
    return results


def lookahead(args, programs, folder, graph):
    """Counts cache hits after the first third of the trace, with W batches announced, and checks
    each row of each batch."""
    results, trace = [], os.path.join(folder, "ahead.trace")
    dataset = os.path.join(folder, "ahead")
    sets.stage(args, graph, args.row_bytes, args.lookahead[0][0], dataset)
    run_text(programs.call("fill", dataset))
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
                                        "no-window=1", "in-flight=1",
                                        f"warmup={batches // 3}", "check=1")
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


def parse_sets(text):
    """Parses NAME:BATCH:BATCHES,..."""
    found = [case.split(":") for case in text.split(",")]
    for case in found:
        if len(case) != 3 or case[0] not in sets.OPEN:
            raise argparse.ArgumentTypeError(f"'{':'.join(case)}' is not NAME:BATCH:BATCHES with "
                                             f"a name of {', '.join(sets.OPEN)}")
    return [(name, int(batch), int(batches)) for name, batch, batches in found]


def add_trace_options(add):
    add("--graph", help="arxiv.npz (default: in $RUNG_TEST_DATA, or ../shared/data next to the "
        "checkout)")
    add("--graphs", metavar="FOLDER", help="folder of debian-docs.npz (default: $RUNG_TEST_DATA)")
    add("--rmat", type=int, metavar="SCALE",
        help="instead of every graph: a generated one of 2^SCALE vertices")
    add("--sets", type=parse_sets, default=parse_sets(SETS), metavar="NAME:BATCH:BATCHES,...",
        help=f"trace, reads: graphs, seeds per batch, timed batches (default: {SETS})")
    add("--score", help="score that orders the rows (default: blend; lookahead: degree)")
    add("--fanout", help="(default: 25,10; lookahead: 25,15)")
    add("--memory", type=int, default=15,
        help="trace, reads: memory as percent of the row bytes (default: 15)")
    add("--cache-shares", type=numbers, default=[0, 1, 4, 8, 12],
        help="trace, reads: cache of rung as percent of the row bytes; the best of these is used "
             "(default: 0,1,4,8,12)")
    add("--ahead", type=int, default=16, help="trace, reads: batches announced (default: 16)")
    add("--widths", type=numbers, default=[512, 1536], help="reads: row bytes (default: 512,1536)")
    add("--counted-rows", type=int, default=500000,
        help="reads: rows of a run (default: 500000)")
    add("--staged", metavar="FOLDER", help="reads: keep the staged data there and use them again")
    add("--resident", type=numbers, default=[5, 10],
        help="lookahead: percent of the rows in memory (default: 5,10)")
    add("--cache", type=int, default=10,
        help="lookahead: percent of the rows that the cache holds (default: 10)")
    add("--lookahead", type=parse_lookahead, default=parse_lookahead(LOOKAHEAD),
        help=f"lookahead: BATCH:BATCHES:W,W,...;... (default: {LOOKAHEAD})")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rung", default=os.path.join(ROOT, "build", "rung"),
        help="the command (default: build/rung)")
    add("--programs", help="folder of rung_cold_reads (default: bench/ next to the command)")
    add("--dir", help="folder for the temporary folder; slightly more than --size is needed "
        "(default: $TMPDIR)")
    add("--parts", type=names_of(PARTS, "part"), default=list(PARTS),
        help=f"parts to run: {','.join(PARTS)} (default: all)")
    add("--no-throttle", action="store_true", help="only the device as it is")
    add("--throttle", type=int, metavar="READS",
        help="reads per second of the throttled device (default: 60 %% of the device's)")
    add("--size", type=size, default=size("6GiB"), help="dense: bytes of features (default: 6GiB)")
    add("--row-bytes", type=int, default=512, help="(default: 512)")
    add("--densities", type=lambda text: [float(n) for n in text.split(",")],
        default=[0.07, 6, 25],
        help="dense: percent of the rows of a span that a batch requests (default: 0.07,6,25)")
    add("--span-batches", type=int, default=12, help="dense: batches per sample (default: 12)")
    add_trace_options(add)
    add("--rounds", type=int, default=5, help="rounds that count (default: 5)")
    add("--seed", type=int, default=1)
    add("--small", action="store_true",
        help="try the script in a few seconds; the results are meaningless")
    args = parser.parse_args()
    if args.small:
        args.size, args.span_batches, args.rounds, args.densities, args.resident = size(
            "24MiB"), 2, 1, [25], [10]
        args.fanout, args.sets, args.cache_shares = "5,3", [("arxiv", 64, 6)], [0, 4]
        args.counted_rows, args.widths, args.no_throttle = 20000, [512], not args.throttle
        args.memory, args.ahead = 50, 2
        args.lookahead = parse_lookahead("64:18:0,8")
    args.programs = args.programs or os.path.join(os.path.dirname(args.rung), "bench")
    return args


def with_defaults(args, score, fanout):
    return argparse.Namespace(**{**vars(args), "score": args.score or score,
                                 "fanout": args.fanout or fanout})


class Found:
    """The devices, measured on the first dataset."""

    def __init__(self, args, folder, stack):
        self.args, self.folder, self.stack = args, folder, stack
        self.devices = self.about = None

    def measure(self, dataset, path):
        if not self.devices:
            self.devices, self.about = devices.measure(self.args, dataset, path, self.folder,
                                                       self.stack)


def main():
    args = parse_args()
    sampled = with_defaults(args, "blend", "25,10")
    programs = Programs(args)
    with temporary_folder(args.dir) as folder, contextlib.ExitStack() as stack:
        out = record("cold_reads", "cold_reads.py", args.rung, folder)
        found = Found(args, folder, stack)
        if "dense" in args.parts:
            out["dense"] = dense(args, programs, folder, found)
        if "trace" in args.parts:
            out["trace"] = trace_part(sampled, programs, folder, found)
        if "reads" in args.parts:
            out["reads"] = counted.part(sampled, folder)
        if "lookahead" in args.parts:
            graph = sets.open_graph(args, folder)
            if isinstance(graph, str):
                say(f"skipped: {graph}, --rmat, or --parts dense")
                return 77
            out["lookahead"] = lookahead(with_defaults(args, "degree", "25,15"), programs, folder,
                                         graph)
        out["devices"] = found.about
        print(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    run_main("cold_reads.py", main)

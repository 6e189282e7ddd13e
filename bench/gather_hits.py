#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares gathers of rows that are all in memory, on the CPU: rung, the simplest loop, numpy and
torch, in turn, over the same rows and ids.

The script stages random bytes: tables of half, 2 and 16 times the last-level cache, in each width.
Each program loads them into its own memory and gathers the same lists. The script prints one JSON
object on stdout and a table on stderr. numpy and torch are included if a Python has them (--numpy,
--torch); otherwise they are null, with the reason. bench/README.md describes the timed regions.
"""
import argparse
import array
import json
import os
import random
import shutil
import statistics
import sys
import time

from common import (DATA_OFFSET, ROOT, Failure, Worker, caches, features_file, memory_bytes,
                    missing, numbers, record, run_main, say, size, sizes, spread, stage,
                    temporary_folder, write_random)

LISTS = 4                    # used in turn: a single list would be served from the caches
TABLES = (0.5, 2, 16)        # sizes of the tables, in last-level caches
UNKNOWN_CACHE = 32 << 20     # where the kernel reports no caches
# a table is in the memory of three programs, twice in that of rung, and may be in the page cache as
# a file and its source
COPIES = 6
FILES = 2
SAMPLE_BYTES = 128 << 20     # a sample copies at least this much
CALIBRATION_ROUNDS = 3


# ---- numpy and torch, with the commands of rung_gather_hits ----

def load_floats(path, rows, row_bytes, ids_path):
    import numpy as np   # pylint: disable=import-outside-toplevel
    features = np.fromfile(path, np.float32, rows * row_bytes // 4,
                           offset=DATA_OFFSET).reshape(rows, row_bytes // 4)
    return features, np.fromfile(ids_path, np.int64)


def timed(pool, threads, count, work, repeats):
    """Each thread gathers its share of each list, once before the clock starts, as in
    rung_gather_hits. `work` gathers one share once."""
    shares = [slice(count * t // threads, count * (t + 1) // threads) for t in range(threads)]

    def repeated(share, times):
        for _ in range(times):
            work(share)

    for times in (1, repeats):
        begun = time.perf_counter()
        if threads == 1:
            repeated(shares[0], times)
        else:
            for future in [pool.submit(repeated, share, times) for share in shares]:
                future.result()
    return time.perf_counter() - begun


def numpy_contestants(path, rows, row_bytes, ids_path, count):
    from concurrent.futures import ThreadPoolExecutor   # pylint: disable=import-outside-toplevel
    import numpy as np   # pylint: disable=import-outside-toplevel
    features, ids = load_floats(path, rows, row_bytes, ids_path)
    lists, out, pool = ids.reshape(-1, count), np.empty((count, features.shape[1]),
                                                        np.float32), ThreadPoolExecutor(64)

    def take(threads, repeats):
        def work(share):
            for one in lists:
                # "raise" would copy the output again
                np.take(features, one[share], axis=0, out=out[share], mode="clip")
        return timed(pool, threads, count, work, repeats)

    def index(threads, repeats):
        def work(share):
            for one in lists:
                features[one[share]]   # pylint: disable=pointless-statement
        return timed(pool, threads, count, work, repeats)

    def check():
        np.take(features, lists[0], axis=0, out=out, mode="clip")
        return int((out.view(np.uint32) != features.view(np.uint32)[lists[0]]).any(axis=1).sum())
    return {"take": take, "index": index}, check, np.__version__


def torch_contestants(path, rows, row_bytes, ids_path, count):
    import numpy as np   # pylint: disable=import-outside-toplevel
    import torch   # pylint: disable=import-outside-toplevel
    features, ids = load_floats(path, rows, row_bytes, ids_path)
    table, lists = torch.from_numpy(features), torch.from_numpy(ids).reshape(-1, count)
    out = torch.empty((count, features.shape[1]), dtype=torch.float32)

    def index_select(threads, repeats):
        torch.set_num_threads(threads)
        for times in (1, repeats):   # as timed()
            begun = time.perf_counter()
            for _ in range(times):
                for one in lists:
                    torch.index_select(table, 0, one, out=out)
        return time.perf_counter() - begun

    def check():
        torch.index_select(table, 0, lists[0], out=out)
        return int((out.numpy().view(np.uint32) != features.view(np.uint32)[lists[0].numpy()]).any(
            axis=1).sum())
    return {"index_select": index_select}, check, torch.__version__


def serve(library, path, rows, row_bytes, ids_path, count):
    make = {"numpy": numpy_contestants, "torch": torch_contestants}[library]
    functions, check, version = make(path, int(rows), int(row_bytes), ids_path, int(count))
    print(version, flush=True)
    for order in sys.stdin:
        words = order.split()
        print(check() if words == ["check"]
              else f"{functions[words[0]](int(words[1]), int(words[2])):.9f}", flush=True)


# ---- the driver ----

def open_workers(args, dataset, ids_path, shape, absent):
    """{name: worker}, {contestant: (worker, order)}. shape: vertices, row_bytes, rows per gather"""
    vertices, row_bytes, rows = shape
    path = features_file(args.rung, dataset)
    program = Worker([os.path.join(args.programs, "rung_gather_hits"), dataset, ids_path,
                      str(rows)])
    workers = {"rung": program}
    contestants = {"rung": (program, ["rung"])}
    for library, names in (("numpy", ("take", "index")), ("torch", ("index_select",))):
        if library in absent:
            continue
        worker = Worker([getattr(args, library), "-B", os.path.abspath(__file__), "--serve",
                         library, path, str(vertices), str(row_bytes),
                         ids_path, str(rows)])
        worker.version = worker.answer()
        workers[library] = worker
        contestants.update({f"{library} {name}": (worker, [name]) for name in names})
    return workers, contestants


def choose_tables(args, folder):
    """The sizes of the tables, and how they were chosen, for the record."""
    last = max((one for one in caches() if one["type"] != "Instruction"),
               key=lambda one: one["level"], default={"bytes": None})["bytes"]
    bounds = {"free memory": memory_bytes("MemAvailable") // COPIES,
              "free disk": shutil.disk_usage(folder).free // FILES}
    bound_by = min(bounds, key=bounds.get)
    asked = args.size or [int((last or UNKNOWN_CACHE) * factor) for factor in TABLES]
    used = sorted({min(one, bounds[bound_by]) for one in asked})
    if used[-1] < max(asked):
        say(f"tables of at most {bounds[bound_by] >> 20} MiB, because of {bound_by}")
    return used, {"last_level_cache_bytes": last, "asked_bytes": asked, "used_bytes": used,
                  "bound_bytes": bounds[bound_by], "bound_by": bound_by}


def choose_floor(args, program, repeats):
    """Selects the fastest loop for each number of threads, before the comparison. If it were
    selected afterwards, it would also be the one with the luckiest sample.
    Returns {threads: {loop: its median}}, the fastest first."""
    variants, seconds = program.order("variants").split(), {threads: [] for threads in args.threads}
    for _ in range(1 if args.small else CALIBRATION_ROUNDS):
        for threads in args.threads:
            seconds[threads].append([float(program.order("floor", i, threads, repeats))
                                     for i in range(len(variants))])
    medians = {threads: {loop: statistics.median(samples)
                         for loop, samples in zip(variants, zip(*rounds))}
               for threads, rounds in seconds.items()}
    return variants, {threads: dict(sorted(loops.items(), key=lambda entry: entry[1]))
                      for threads, loops in medians.items()}


def with_reads(contestants, variants, loops):
    """Adds the gathers that are followed by a pass that reads their output: rung's, and those of
    the fastest loops with ordinary and with streaming stores. Returns {name: {threads: (worker,
    order)}}, with the floor."""
    program = contestants["rung"][0]

    def loop(wanted, *after):
        return {threads: (program, ["floor", variants.index(next(filter(wanted, found))), threads],
                          after) for threads, found in loops.items()}

    racers = {"floor": loop(lambda name: True)}
    for name, (worker, order) in contestants.items():
        racers[name] = {threads: (worker, [*order, threads], ()) for threads in loops}
    racers["rung, read"] = {threads: (program, ["rung", threads], ("read",)) for threads in loops}
    racers["ordinary stores, read"] = loop(lambda name: not name.startswith("stream"), "read")
    if any(name.startswith("stream") for name in variants):
        racers["streaming stores, read"] = loop(lambda name: name.startswith("stream"), "read")
    return racers


def race(args, racers, repeats):
    """{name: {threads: [seconds]}}. Every second round runs in reverse order; the first is dropped
    as a warm-up."""
    turns = [(name, threads) for threads in args.threads for name in racers]
    seconds = {name: {threads: [] for threads in args.threads} for name in racers}
    dropped = 0 if args.small else 1
    for idx in range(args.rounds + dropped):
        for name, threads in turns if idx % 2 == 0 else reversed(turns):
            worker, order, after = racers[name][threads]
            seconds[name][threads].append(float(worker.order(*order, repeats, *after)))
    return {name: {threads: samples[dropped:] for threads, samples in by.items()} for name,
            by in seconds.items()}


def best_of(by_threads):
    """(threads, samples) with the smallest median."""
    return min(by_threads.items(), key=lambda entry: spread(entry[1])["median"])


def against(rung, by_threads):
    """rung's speed relative to the other, each with its best number of threads, computed per round.
    """
    threads, samples = best_of(by_threads)
    mine_threads, mine = best_of(rung)
    return {"rung_threads": mine_threads, "threads": threads,
            **spread([theirs / ours for theirs, ours in zip(samples, mine)])}


def measure(args, folder, table_bytes, row_bytes, absent):
    vertices, dataset, ids_path = table_bytes // row_bytes, os.path.join(
        folder, "rows"), os.path.join(folder, "ids")
    # a batch has no row twice, and leaves others for the next
    rows = min(args.rows, vertices // 2)
    say(f"{table_bytes >> 20} MiB of rows of {row_bytes} bytes, {rows} per gather")
    write_random(f"{folder}/source.bin", vertices * row_bytes)
    stage(args.rung, f"{folder}/source.bin", vertices, row_bytes, dataset)
    draws = random.Random(args.seed)
    with open(ids_path, "wb") as out:
        for _ in range(LISTS):
            array.array("Q", draws.sample(range(vertices), rows)).tofile(out)
    workers, contestants = open_workers(args, dataset, ids_path, (vertices, row_bytes, rows),
                                        absent)
    repeats = max(1, args.sample_bytes // (LISTS * rows * row_bytes))
    variants, loops = choose_floor(args, workers["rung"], repeats)
    seconds = race(args, with_reads(contestants, variants, loops), repeats)
    wrong = {name: int(worker.order("check")) for name, worker in workers.items()}
    versions = {name: worker.version for name, worker in workers.items() if name != "rung"}
    for worker in workers.values():
        worker.close()
    shutil.rmtree(dataset)
    if any(wrong.values()):
        raise Failure(f"wrong rows: {wrong}")
    gathered = repeats * LISTS * rows
    return {"table_bytes": table_bytes, "row_bytes": row_bytes, "rows": rows, "repeats": repeats,
            **figures(args, gathered, seconds),
            "floor_loops": {threads: next(iter(found)) for threads, found in loops.items()},
            "loops_ns_per_row": {threads: {loop: s / gathered * 1e9 for loop, s in found.items()}
                                 for threads, found in loops.items()},
            "row_count": vertices, "wrong_rows": wrong, "versions": versions, "absent": absent}


def figures(args, gathered, seconds):
    others = ("floor", "numpy take", "numpy index", "torch index_select")
    reading = {name: by for name, by in seconds.items() if name.endswith(" stores, read")}
    result = {"ns_per_row": {name: {threads: {**spread(ns := [s / gathered * 1e9 for s in samples]),
                                              "samples": ns}
                                    for threads, samples in by.items()} for name,
                             by in seconds.items()},
              "times_as_fast_as": {name: against(seconds["rung"], seconds[name]) if name in seconds
                                   else None for name in others},
              "of_floor_by_threads": {threads: spread([theirs / ours for theirs,
                                                       ours in zip(seconds["floor"][
                                                           threads], seconds["rung"][threads])])
                                      for threads in args.threads},
              "read_times_as_fast_as": {name: against(seconds["rung, read"], by)
                                        for name, by in reading.items()}}
    for name, by in result["ns_per_row"].items():
        say(f"  {name:22}" + "".join(f" {entry['median']:8.0f} ns/row, {threads} thr."
                                     for threads, entry in by.items()))
    for label, ratio in (*result["times_as_fast_as"].items(),
                         *result["read_times_as_fast_as"].items()):
        say(f"  rung / {label:22} "
            + (f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})" if ratio
               else "null"))
    return result


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--programs",
                        help="folder of rung_gather_hits (default: bench/ next to the command)")
    parser.add_argument("--dir",
                        help="folder for the temporary folder; twice the largest size is needed "
                             "(default: $TMPDIR)")
    parser.add_argument("--size", type=sizes,
                        help="bytes of features, each measured, held by each program (default: "
                             "0.5, 2 and 16 times the last-level cache, bounded by free memory)")
    parser.add_argument("--row-bytes", type=numbers, default=[512, 1536, 4096],
                        help="widths, each measured (default: 512,1536,4096)")
    parser.add_argument("--rows", type=int, default=16384,
                        help="rows per gather, at most half of the table's (default: 16384)")
    parser.add_argument("--threads", type=numbers, default=[1, 2],
                        help="numbers of threads; the best counts (default: 1,2)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds that count (default: 7)")
    parser.add_argument("--numpy", metavar="PYTHON", default=sys.executable,
                        help="a Python with numpy (default: this one)")
    parser.add_argument("--torch", metavar="PYTHON", default=sys.executable,
                        help="a Python with numpy and torch (default: this one)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true",
                        help="try the script in a few seconds; the results are meaningless")
    args = parser.parse_args()
    args.sample_bytes = SAMPLE_BYTES
    if args.small:
        args.size = args.size or [size("8MiB")]
        args.rows, args.rounds, args.sample_bytes = 512, 1, 0
    args.programs = args.programs or os.path.join(os.path.dirname(args.rung), "bench")
    return args


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--serve":
        serve(*sys.argv[2:])
        return 0
    args = parse_args()
    absent = {library: why for library in ("numpy", "torch")
              if (why := missing(getattr(args, library), library))}
    for library, why in absent.items():
        say(f"without {library}: {why}")
    with temporary_folder(args.dir) as folder:
        out = record("gather_hits", "gather_hits.py", args.rung)
        tables, out["tables"] = choose_tables(args, folder)
        out["load_average"] = {"begin": os.getloadavg()[0]}
        out["results"] = [measure(args, folder, table_bytes, row_bytes, absent)
                          for table_bytes in tables for row_bytes in args.row_bytes]
        out["load_average"]["end"] = os.getloadavg()[0]
    print(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    run_main("gather_hits.py", main)

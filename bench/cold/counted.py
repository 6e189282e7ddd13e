# SPDX-License-Identifier: Apache-2.0
"""Device reads of `rung bench` on sampled batches, with the window and without it. Reads are
counted, so the features are holes, and the speed of the disk has no effect."""
import os
import shutil
import subprocess

import sets
from common import as_typed, features_file, lists_bytes, run_json, say

GAP = "16KiB"   # given, because a gap that is measured on a hole means nothing


def reads(args, dataset, batch, memory, cache, window):
    """Device reads per batch, with args.ahead batches announced and memory for all lists."""
    command = [args.rung, "bench", dataset, "--json", "--quiet", "--ids", "trace", "--batch",
               str(batch), "--fanout", args.fanout, "--structure", "max", "--host",
               str(memory + lists_bytes(dataset)), "--cache", str(cache), "--look-ahead",
               str(args.ahead), "--merge-gap", GAP, "--rows", str(args.counted_rows), "--warmup",
               str(args.counted_rows // 2), "--seed", str(args.seed), "--window", window]
    found = run_json(command)
    return {"reads_per_batch": found["device_reads"] / found["requests"],
            "reads_per_row": found["device_reads"] / found["rows"],
            "read_bytes_per_batch": found["device_read_bytes"] / found["requests"],
            "rows_per_batch": found["rows"] / found["requests"], "batches": found["requests"],
            "cache_bytes": cache, "command": as_typed(command)}


def open_dataset(args, graph, name, row_bytes, batch, folder):
    dataset = os.path.join(args.staged or folder, f"{name}-{row_bytes}")
    if not os.path.exists(dataset):
        sets.stage(args, graph, row_bytes, batch, dataset)
        subprocess.run(["fallocate", "--dig-holes", features_file(args.rung, dataset)],
                       stderr=subprocess.DEVNULL, check=False)   # only saves space
    return dataset


def count(args, folder, name, batch, row_bytes):
    """The fewest reads of each mode over the shares of the cache."""
    graph = sets.open_graph(args, folder, name)
    if isinstance(graph, str):
        say(f"{name}: {graph}")
        return {"graph": name, "batch": batch, "row_bytes": row_bytes, "why": graph}
    dataset = open_dataset(args, graph, name, row_bytes, batch, folder)
    rows = graph["vertices"] * row_bytes
    tried = {mode: [reads(args, dataset, batch, rows * args.memory // 100, rows * share // 100,
                          mode) for share in args.cache_shares] for mode in ("0", "auto")}
    best = {mode: min(runs, key=lambda run: run["reads_per_batch"]) for mode, runs in tried.items()}
    ratio = best["auto"]["reads_per_batch"] / best["0"]["reads_per_batch"]
    say(f"{graph['name']}, batch {batch}, rows of {row_bytes} bytes: reads per batch "
        + ", ".join(f"{run['reads_per_batch']:.1f} (window {mode}, cache "
                    f"{run['cache_bytes'] * 100 / rows:.0f} %)" for mode, run in best.items())
        + f", ratio {ratio:.3f}")
    if not args.staged:
        shutil.rmtree(dataset)
    return {"graph": graph["name"], "batch": batch, "row_bytes": row_bytes,
            "memory_percent": args.memory, "ahead": args.ahead, "fanout": args.fanout,
            "score": args.score, "best": best, "window_over_none": ratio, "tried": tried}


def part(args, folder):
    return [count(args, folder, name, batch, row_bytes)
            for name, batch, _ in args.sets for row_bytes in args.widths]

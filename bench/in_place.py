#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares rows left in their source with rows copied into rank order: staging, opening a store,
and gathering the rows of sampled batches, in turn.

Prints one JSON object. Ratios are in place over copied; hot vertices are spread over the source.
    in_place.py --rows 2097152 --row-bytes 1536 --edges 16000000
"""
import argparse
import json
import os
import time

from common import (ROOT, drop_cached, lists_bytes, record, run_json, run_main, say, spread,
                    temporary_folder, write_random, write_skewed_edges)

STEP = 2654435761   # a prime
KINDS = ("copied", "in_place")


def stage(args, kind, features, edges, train, out):
    command = [args.rung, "stage", "--json", "--quiet", "--graph",
               f"raw:{edges},u32,2x{args.edges}", "--features",
               f"raw:{features},u8,{args.rows}x{args.row_bytes}", "--split",
               f"train=raw:{train},u32,{args.rows // 16}", "--score", "wrpagerank",
               "--out", out]
    report = run_json(command + (["--in-place"] if kind == "in_place" else []))
    return {"seconds": report["seconds"], "bytes_written": report["bytes_written"]}


def gather(args, dataset, host, seed):
    began = time.monotonic()
    report = run_json([args.rung, "bench", "--json", "--host", str(host + lists_bytes(dataset)),
                       "--structure", "max", "--rows", str(args.gathered), "--seed", str(seed),
                       "--batch", str(args.batch), dataset])
    found = {key: report[key] for key in ("seconds", "device_reads", "device_read_bytes",
                                          "cache_hits", "merged_rows")}
    # loading the store and generating the ids
    return dict(found, rest_s=time.monotonic() - began - report["seconds"])


def by_turns(args, folder, host):
    runs = {kind: [] for kind in KINDS}
    for seed in range(1, args.pairs + 1):
        for kind in KINDS if seed % 2 else reversed(KINDS):
            runs[kind].append(gather(args, os.path.join(folder, kind), host, seed))
    ratios = {}
    for key in runs["copied"][0]:
        pairs = [(b[key], a[key]) for a, b in zip(runs["copied"], runs["in_place"])]
        # no ratio to zero
        ratios[key] = spread([b / a for b, a in pairs]) if all(a for _, a in pairs) else None
    return {"host_bytes": host, "runs": runs, "ratios": ratios}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--dir", type=os.path.abspath, default=".",
                        help="folder with room for twice the features")
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--row-bytes", type=int, default=1536)
    parser.add_argument("--edges", type=int, default=1000000)
    parser.add_argument("--hosts", default="5,10,50", help="host memory for rows in percent of the "
                        "features; all neighbour lists are in memory as well")
    parser.add_argument("--gathered", type=int, default=300000, help="rows per run")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--pairs", type=int, default=3)
    args = parser.parse_args()
    total = args.rows * args.row_bytes
    with temporary_folder(args.dir) as folder:
        features, edges, train = (os.path.join(folder, name)
                                  for name in ("features.raw", "edges.raw", "train.raw"))
        say(f"generating {total >> 20} MiB of features and {args.edges} edges")
        write_random(features, total)
        write_skewed_edges(edges, args.rows, args.edges, 1, STEP)
        with open(train, "wb") as out:
            out.write(b"".join((16 * i).to_bytes(4, "little") for i in range(args.rows // 16)))
        drop_cached(features)
        staged = {}
        for kind in KINDS:
            say(f"staging: {kind}")
            staged[kind] = stage(args, kind, features, edges, train, os.path.join(folder, kind))
        gathers = []
        for share in args.hosts.split(","):
            say(f"gathering with {share} % in host memory")
            gathers.append(dict(by_turns(args, folder, total * int(share) // 100),
                                percent=int(share)))
        found = record("in_place", "in_place.py", args.rung, folder)
    found.update(rows=args.rows, row_bytes=args.row_bytes, edges=args.edges, staged=staged,
                 gathers=gathers)
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    run_main("in_place.py", main)

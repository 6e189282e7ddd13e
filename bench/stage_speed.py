#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares staging in little memory with the floor, which is one direct read and one direct write
of the features by dd, and with numpy, which indexes one memmap into another. Staging and numpy run
under the same limit, page cache included.

The script prints one JSON object. The large run of bench/README.md:

    stage_speed.py --rows 8388608 --row-bytes 1536 --edges 64000000 --memory 1GiB \
        --limit 1536MiB --numpy-rows 200000
"""
import argparse
import json
import os
import subprocess
import sys
import time

from common import (ROOT, Failure, drop_cached, record, run_json, run_main, say, size,
                    temporary_folder, write_skewed_edges, write_random)
from limit import Limit

# copies rows of the source in the order of vertex_of_rank.npy, block by block, as scripts do
NUMPY = """
import sys, time
import numpy
source, order, out = sys.argv[1:4]
rows, columns, count = map(int, sys.argv[4:7])
x = numpy.memmap(source, dtype="u1", mode="r", shape=(rows, columns))
ids = numpy.load(order, mmap_mode="r")
y = numpy.memmap(out, dtype="u1", mode="w+", shape=(count, columns))
began = time.monotonic()
for first in range(0, count, 65536):
    last = min(first + 65536, count)
    y[first:last] = x[ids[first:last]]
y.flush()
print(time.monotonic() - began)
"""


def dd(*words):
    began = time.monotonic()
    done = subprocess.run(["dd", "bs=8M", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode:
        raise Failure("dd " + " ".join(words) + ": " + done.stderr)
    return time.monotonic() - began


def floor(features, folder, total):
    """Seconds of one direct read and one direct write."""
    out = os.path.join(folder, "written")
    read = dd("if=" + features, "of=/dev/null", "iflag=direct")
    write = dd("if=/dev/zero", "of=" + out, "oflag=direct", "conv=fsync",
               "count=%d" % -(-total // (8 << 20)))
    os.unlink(out)
    return {"read_s": read, "write_s": write}


def limited(args, command):
    """Runs a command under the limit. Returns output, seconds, and the peak of the limit."""
    with Limit(args.limit) as limit:
        began = time.monotonic()
        done = subprocess.run(limit.wrap(command), preexec_fn=limit.enter, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        seconds = time.monotonic() - began
        if done.returncode:
            raise Failure(" ".join(command[:2]) + f" ended with {done.returncode}: {done.stderr}")
        return done.stdout, seconds, {"kind": limit.kind,
                                      "bytes": args.limit if limit.kind else None,
                                      "peak_bytes": limit.peak()}


def stage(args, features, edges, out):
    source = f"raw:{features},u8,{args.rows}x{args.row_bytes}"
    output, seconds, limit = limited(args, [
        args.rung, "stage", "--json", "--quiet", "--graph", f"raw:{edges},u32,2x{args.edges}",
        "--features", source, "--score", args.score,
        "--memory", str(args.memory), "--row-order", args.row_order, "--out", out])
    report = json.loads(output)
    verified = run_json([args.rung, "verify", "--json", "--quiet", out, "--source", source])
    if not verified["ok"]:
        raise Failure("the staged dataset does not verify")
    return {"seconds": seconds, "limit": limit, "report": report, "verify_s": verified["seconds"]}


def numpy_rows(args, features, dataset, folder):
    """numpy, for the requested number of rows; the time for all rows is extrapolated."""
    count, out = min(args.numpy_rows, args.rows), os.path.join(folder, "numpy")
    if not count:
        return None
    drop_cached(features)   # each program must read the features from the disk
    try:
        output, _, limit = limited(args, [args.python, "-c", NUMPY, features,
                                          os.path.join(dataset, "vertex_of_rank.npy"), out,
                                          str(args.rows), str(args.row_bytes), str(count)])
    except Failure as failure:
        return {"rows": count, "failed": str(failure)}
    os.unlink(out)
    return {"rows": count, "seconds": float(output), "limit": limit,
            "all_rows_s": float(output) * args.rows / count,
            "scaled": count < args.rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--folder", default=".",
                        help="folder with room for three times the features")
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--row-bytes", type=int, default=1536)
    parser.add_argument("--edges", type=int, default=1000000)
    parser.add_argument("--memory", type=size, default=size("64MiB"))
    parser.add_argument("--limit", type=size, default=size("128MiB"),
                        help="limit on all memory, page cache included")
    parser.add_argument("--score", default="degree")
    parser.add_argument("--row-order", default="auto")
    parser.add_argument("--python", default=sys.executable, help="one with numpy")
    parser.add_argument("--numpy-rows", type=int, default=20000,
                        help="rows that numpy copies; 0: no comparison with numpy")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    total = args.rows * args.row_bytes
    with temporary_folder(args.folder) as folder:
        features, edges, out = (os.path.join(folder, name)
                                for name in ("features.raw", "edges.raw", "staged"))
        say(f"generating {total >> 20} MiB of features and {args.edges} edges")
        write_random(features, total)
        write_skewed_edges(edges, args.rows, args.edges, args.seed)
        drop_cached(features)
        drop_cached(edges)
        before = floor(features, folder, total)
        say("staging")
        staged = stage(args, features, edges, out)
        after = floor(features, folder, total)
        say("numpy")
        compared = numpy_rows(args, features, out, folder)
        least = min(sum(before.values()),
                    sum(after.values())), max(sum(before.values()), sum(after.values()))
        found = record("stage_speed", "stage_speed.py", args.rung, folder)
        found.update(rows=args.rows, row_bytes=args.row_bytes, edges=args.edges,
                     memory_bytes=args.memory, floor_before=before,
                     floor_after=after, stage=staged,
                     ratio_to_floor=[staged["seconds"] / seconds for seconds in reversed(least)],
                     numpy=compared)
        if compared and "seconds" in compared:
            found["numpy_over_stage"] = compared["all_rows_s"] / staged["seconds"]
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    run_main("stage_speed.py", main)

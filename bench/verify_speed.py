#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `rung verify` with direct sequential reads of the same files, in turn: checksums, and
the comparison with the source.

The script prints one JSON object on stdout and a table on stderr. bench/README.md describes the
timed regions. Needs the Python standard library.
"""
import argparse
import json
import mmap
import os
import time

from common import (ROOT, record, run_json, run_main, say, size, spread, stage, temporary_folder,
                    write_random)

READ_BYTES = 4 << 20


def read_directly(paths):
    """Reads each file from beginning to end with consecutive reads of 4 MiB. Returns bytes per
    second."""
    room, total, start = mmap.mmap(-1, READ_BYTES), 0, time.monotonic()
    for path in paths:
        fd, offset, got = os.open(path, os.O_RDONLY | os.O_DIRECT), 0, 1
        try:
            while got:
                got = os.preadv(fd, [room], offset)
                offset += got
        finally:
            os.close(fd)
        total += offset
    return total / (time.monotonic() - start)


def rounds(args, dataset, source):
    """One sample of each task per round, in turn. The first round is a warm-up."""
    files = [os.path.join(dataset, name) for name in sorted(os.listdir(dataset))
             if name.endswith(".npy")]
    command = [args.rung, "verify", "--json", "--quiet", dataset]
    samples = []
    for idx in range(args.rounds + 1):
        one = {}
        for what in ("read", "verify", "compare")[::1 if idx % 2 else -1]:
            if what == "read":
                one["read"] = read_directly(files)
                continue
            report = run_json(command + (["--source", source] if what == "compare" else []))
            if what == "verify":
                one["verify"] = report["bytes_per_s"]
            else:
                one["compare_s"], one["rows"] = report["seconds"], report["rows_compared"]
        samples.append(one)
    return samples[1:]


def measure(args, folder):
    vertices = args.size // args.row_bytes
    features, dataset = os.path.join(folder, "features"), os.path.join(folder, "dataset")
    write_random(features, vertices * args.row_bytes)
    source = stage(args.rung, features, vertices, args.row_bytes, dataset)
    samples = rounds(args, dataset, source)
    return {"bytes": vertices * args.row_bytes, "row_bytes": args.row_bytes,
            "read_bytes_per_s": spread([one["read"] for one in samples]),
            "verify_bytes_per_s": spread([one["verify"] for one in samples]),
            "of_read": spread([one["verify"] / one["read"] for one in samples]),
            "compare_s": spread([one["compare_s"] for one in samples]), "rounds": samples}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"), help="the command")
    parser.add_argument("--dir", default=None,
                        help="folder on the file system to measure (default: that of temporary "
                             "files)")
    parser.add_argument("--size", type=size, default=4 << 30, help="bytes of the features (4GiB)")
    parser.add_argument("--row-bytes", type=int, default=1536)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true",
                        help="try the script with little data and one round")
    args = parser.parse_args()
    if args.small:
        args.size, args.rounds = 8 << 20, 1
    with temporary_folder(args.dir) as folder:
        result = measure(args, folder)
        found = {**record("verify_speed", "verify_speed.py", args.rung, folder), **result}
    say(f"{'':>10}  read {result['read_bytes_per_s']['median'] / 1e9:.2f} GB/s, verify "
        f"{result['verify_bytes_per_s']['median'] / 1e9:.2f} GB/s, "
        f"ratio {result['of_read']['median']:.2f} ({result['of_read']['min']:.2f} to "
        f"{result['of_read']['max']:.2f}); with the source {result['compare_s']['median']:.1f} s")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    run_main("verify_speed.py", main)

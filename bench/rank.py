#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares ranking scores with copying them eight times with the same number of threads. Each
sample copies and then ranks; the first is dropped. The maps are checked afterwards.

The script prints one JSON object on stdout and a table on stderr. bench/README.md describes the
timed regions.
"""
import argparse
import json
import os
import sys

from common import ROOT, numbers, record, run_main, run_text, say, spread

KINDS = ("uniform", "heavy", "degrees")


def measure(args, kind, index_bytes):
    command = [os.path.join(args.programs, "rung_rank_speed"), str(args.count), str(index_bytes),
               str(args.threads), str(args.samples + 1), kind]
    pairs = [[float(word) for word in line.split()] for line in run_text(command).splitlines()][1:]
    ratios = [rank / copies for copies, rank in pairs]
    result = {"scores": kind, "count": args.count, "index_bytes": index_bytes,
              "threads": args.threads,
              "samples": [{"copies_s": copies, "rank_s": rank, "ratio": rank / copies} for copies,
                          rank in pairs],
              "copies_s": spread([copies for copies, _ in pairs]),
              "rank_s": spread([rank for _, rank in pairs]), "ratio": spread(ratios)}
    say(f"{kind:8} {index_bytes}-byte ids: ranked in {result['rank_s']['median']:.3f} s, 8 copies "
        f"in {result['copies_s']['median']:.3f} s, "
        f"ratio {result['ratio']['median']:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command, for the record (build/rung)")
    parser.add_argument("--programs", default=os.path.join(ROOT, "build", "bench"),
                        help="folder of rung_rank_speed (build/bench)")
    parser.add_argument("--count", type=int, default=100_000_000, help="scores (100 million)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(),
                        help="threads of both (all processors)")
    parser.add_argument("--samples", type=int, default=5, help="that count (5)")
    parser.add_argument("--index-bytes", type=numbers, default=[4],
                        help="bytes of the maps' ids (4)")
    parser.add_argument("--at-most", type=float, help="exit 1 if a median ratio is higher")
    parser.add_argument("--small", action="store_true", help="try the script in a second")
    args = parser.parse_args()
    if args.small:
        args.count, args.samples = 300_000, 1
    out = record("rank", "rank.py", args.rung)
    out["results"] = [measure(args, kind, index_bytes) for index_bytes in args.index_bytes
                      for kind in KINDS]
    print(json.dumps(out, indent=1))
    return int(args.at_most is not None and max(result["ratio"]["median"]
                                                for result in out["results"]) > args.at_most)


if __name__ == "__main__":
    sys.exit(run_main("rank.py", main))

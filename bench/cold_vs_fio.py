#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares cold random rows from a staged file with fio reading the same file at the same block
size and depth.

The script stages random bytes in a temporary folder, and runs fio and `rung bench` in turn. It
prints one JSON object on stdout and a short table on stderr. bench/README.md describes the timed
regions. Needs the Python standard library and fio.
"""
import argparse
import json
import os
import shlex
import shutil

from common import (ROOT, Failure, as_typed, drop_cached, features_file, first_line, numbers,
                    record, run_json, run_main, say, sector_bytes, size, spread, stage,
                    temporary_folder, write_random)

BATCH_ROWS, IN_FLIGHT = 4096, 4


# ---- the two runs ----

def fio_command(args, path, block_bytes, depth):
    return ["fio", "--name=r", f"--filename={path}", "--readonly", "--direct=1", "--time_based",
            f"--runtime={args.runtime}",
            "--randrepeat=0", "--norandommap", "--rw=randread", f"--bs={block_bytes}",
            "--ioengine=io_uring", f"--iodepth={depth}", "--output-format=json"]


def run_fio(command):
    job = run_json(command)["jobs"][0]
    if job["error"] != 0:
        raise Failure(f"{shlex.join(command)}: error {job['error']}")
    read = job["read"]
    cpu_seconds = (job["usr_cpu"] + job["sys_cpu"]) / 100 * read["runtime"] / 1000
    return {"iops": read["iops"], "reads": read["total_ios"],
            "cpu_us_per_read": cpu_seconds / read["total_ios"] * 1e6}


def bench_command(args, dataset, depth, host, rows, *more):
    return [args.rung, "bench", dataset, "--json", "--quiet", "--ids", "uniform", "--host",
            str(host), "--rows", str(rows),
            "--batch", str(BATCH_ROWS), "--in-flight", str(IN_FLIGHT), "--queue-depth", str(depth),
            "--cache", "0", *more]


def run_bench(command):
    """Counts device reads per second; rows from memory do not count."""
    out = run_json(command)
    return {"iops": out["device_reads"] / out["seconds"], "reads": out["device_reads"],
            "rows_per_s": out["rows_per_s"],
            "rows": out["rows"], "seconds": out["seconds"], "merged_rows": out["merged_rows"],
            "device_read_bytes": out["device_read_bytes"], "engine": out["engine"],
            "tiers": out["tiers"],
            "cpu_us_per_read": out["cpu_seconds"] / max(1, out["device_reads"]) * 1e6}


def run_pairs(args, path, fio, rung):
    """Runs args.pairs + 1 pairs and drops the first as a warm-up. Every second pair starts with
    rung."""
    pairs = []
    for idx in range(args.pairs + 1):
        drop_cached(path)
        if idx % 2:
            ours, theirs = run_bench(rung), run_fio(fio)
        else:
            theirs, ours = run_fio(fio), run_bench(rung)
        pair = {"fio": theirs, "rung": ours, "ratio": ours["iops"] / theirs["iops"],
                "cpu_ratio": ours["cpu_us_per_read"] / theirs["cpu_us_per_read"]}
        say(f"  {'warm-up' if idx == 0 else f'pair {idx}':8} fio {theirs['iops']:9.0f}/s  rung "
            f"{ours['iops']:9.0f}/s"
            f"  ratio {pair['ratio']:.3f}   cpu per read {theirs['cpu_us_per_read']:.2f} / "
            f"{ours['cpu_us_per_read']:.2f} us,"
            f" ratio {pair['cpu_ratio']:.3f}")
        pairs.append(pair)
    return pairs[1:]


def measure_depth(args, dataset, path, row_bytes, block_bytes, depth):
    fio = fio_command(args, path, block_bytes, depth)
    drop_cached(path)
    # so that rung runs about as long as fio
    rows = max(BATCH_ROWS, int(run_fio(fio)["iops"] * args.runtime))
    plain = bench_command(args, dataset, depth, args.host, rows, "--no-merge")
    merged = bench_command(args, dataset, depth, args.host, rows)
    say(f"rows of {row_bytes} bytes, depth {depth}")
    pairs = run_pairs(args, path, fio, plain)
    with_merging = [run_bench(merged) for _ in range(args.pairs)]
    check = run_json(bench_command(args, dataset, depth, args.host, min(rows, 200_000), "--check"))
    if check["wrong_rows"] != 0:
        raise Failure(f"the data are wrong: {check['wrong_rows']} of {check['rows']} rows")
    result = {"row_bytes": row_bytes, "block_bytes": block_bytes,
              "dataset_bytes": args.size, "depth": depth,
              "ratio": spread([p["ratio"] for p in pairs]),
              "cpu_ratio": spread([p["cpu_ratio"] for p in pairs])}
    for name in ("fio", "rung"):
        result[f"{name}_iops"] = spread([p[name]["iops"] for p in pairs])
        result[f"{name}_cpu_us_per_read"] = spread([p[name]["cpu_us_per_read"] for p in pairs])
    result.update(merging_rows_per_s=spread([m["rows_per_s"] for m in with_merging]),
                  checked_rows=check["rows"],
                  wrong_rows=check["wrong_rows"], pairs=pairs, merging=with_merging,
                  commands={"fio": shlex.join(fio), "rung": as_typed(plain),
                            "rung_merging": as_typed(merged)})
    say(f"  median ratio {result['ratio']['median']:.3f}, CPU per read "
        f"{result['cpu_ratio']['median']:.3f};"
        f" {result['merging_rows_per_s']['median']:.0f} rows/s with merging; 0 wrong rows")
    return result


def measure(args, folder, row_bytes):
    """Measures each queue depth. Returns the results."""
    vertices, dataset = args.size // row_bytes, os.path.join(folder, f"rows-{row_bytes}")
    if not os.path.exists(f"{folder}/source.bin"):
        say(f"writing {args.size >> 20} MiB of random bytes")
        write_random(f"{folder}/source.bin", args.size)
    say(f"staging rows of {row_bytes} bytes")
    source = stage(args.rung, f"{folder}/source.bin", vertices, row_bytes, dataset)
    path = features_file(args.rung, dataset)
    sector = sector_bytes(args.rung, dataset)
    block_bytes = -(-row_bytes // sector) * sector
    results = [measure_depth(args, dataset, path, row_bytes, block_bytes, depth)
               for depth in args.depth]
    say("verifying the file")
    verified = run_json([args.rung, "verify", "--json", "--quiet", dataset, "--source", source])
    if not verified["ok"]:
        raise Failure(f"the data are wrong: {verified}")
    for result in results:
        result["verified_rows"] = verified["rows_compared"]
    shutil.rmtree(dataset)
    return results


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--dir",
                        help="folder for the temporary folder; twice --size is needed (default: "
                             "$TMPDIR)")
    parser.add_argument("--size", type=size, default=size("4GiB"),
                        help="bytes of features (default: 4GiB)")
    parser.add_argument("--row-bytes", type=numbers, default=[512, 1536, 4096],
                        help="row widths and block sizes, each measured (default: 512,1536,4096)")
    parser.add_argument("--host", type=size, default=size("128MiB"),
                        help="host budget, for the staging slots and the rows that fit next to "
                             "them (default: 128MiB: two large slots for each"
                             " of 128 reads)")
    parser.add_argument("--depth", type=numbers, default=[64, 128],
                        help="reads in flight, each measured (default: 64,128)")
    parser.add_argument("--pairs", type=int, default=5, help="pairs that count (default: 5)")
    parser.add_argument("--runtime", type=int, default=2, help="seconds of each run (default: 2)")
    parser.add_argument("--at-least", type=float, metavar="RATIO",
                        help="exit 1 if a median ratio is below this")
    parser.add_argument("--small", action="store_true",
                        help="try the script: 16 MiB, one short pair; the results are meaningless")
    return parser.parse_args()


def main():
    args = parse_args()
    if args.small:
        args.size, args.host, args.pairs, args.runtime = size("16MiB"), size("2MiB"), 1, 1
    if not shutil.which("fio"):
        say("skipped: fio was not found (Debian: fio)")
        return 77
    with temporary_folder(args.dir) as folder:
        out = {**record("cold_vs_fio", "cold_vs_fio.py", args.rung, folder),
               "fio": first_line("fio", "--version"), "results": []}
        for row_bytes in args.row_bytes:
            out["results"] += measure(args, folder, row_bytes)
    print(json.dumps(out, indent=1))
    low = [(r["row_bytes"], r["depth"]) for r in out["results"]
           if args.at_least and r["ratio"]["median"] < args.at_least]
    if low:
        say(f"below {args.at_least} of fio at (row bytes, depth) {low}")
    return 1 if low else 0


if __name__ == "__main__":
    run_main("cold_vs_fio.py", main)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares gathers of quantized rows with those of float16 rows of the same data set, in turn: rows
that are all in memory, in a table that fits the caches and in one that does not, and rows of which
some or nearly all are in the file of a disk, with a limit on its reads.

The script stages random values twice, as float16 and with --quantize, and runs `rung bench` on both
in turn; both deliver float16. It prints one JSON object on stdout and a table on stderr. A ratio
above 1 means that quantized rows are faster. bench/README.md describes the cases.
"""
import argparse
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# pylint: disable=wrong-import-position
from common import (ROOT, Failure, record, run_json, run_main, say, size, spread,
                    temporary_folder, write_edges)
from limit import DeviceLimit

BLOCK = 1 << 20


def write_halves(path, total):
    """Random float16 between -2 and 2: the upper bit of the exponent is cleared."""
    table = bytes(byte & 0xbf for byte in range(256))
    with open(path, "wb") as out:
        for done in range(0, total, BLOCK):
            block = bytearray(os.urandom(min(BLOCK, total - done)))
            block[1::2] = block[1::2].translate(table)
            out.write(block)


def stage_both(args, folder, name, rows):
    """Stages the same rows as float16 and quantized. Returns both folders and the report."""
    source, edges = f"{folder}/{name}.raw", f"{folder}/{name}.edges"
    write_halves(source, rows * args.columns * 2)
    write_edges(edges, rows)
    edge_count = os.path.getsize(edges) // 8
    report = None
    for kind, more in (("f16", []), (args.quantize, ["--quantize", args.quantize])):
        report = run_json([args.rung, "stage", "--json", "--quiet", "--score", "degree",
                           "--graph", f"raw:{edges},u32,2x{edge_count}",
                           "--features", f"raw:{source},f16,{rows}x{args.columns}",
                           "--out", f"{folder}/{name}.{kind}", *more])
    os.unlink(source)
    return f"{folder}/{name}.f16", f"{folder}/{name}.{args.quantize}", report


def measure(args, folders, options, enter=None):
    """{"f16": samples, "quantized": samples} of `rung bench`, in turn, after one round each."""
    samples = {"f16": [], "quantized": []}
    for turn in range(args.samples + 1):
        for kind, folder in zip(samples, folders):
            got = run_json([args.rung, "bench", "--json", "--quiet", "--ids", "uniform",
                            "--seed", str(turn + 1), *options, folder], enter)
            if turn:
                samples[kind].append(got)
    return samples


def case(name, samples, wanted, **more):
    """The entry of a case, with the median of the ratios of pairs."""
    rates = {kind: [one["rows_per_s"] for one in runs] for kind, runs in samples.items()}
    ratio = statistics.median(q / f for q, f in zip(rates["quantized"], rates["f16"]))
    entry = {"case": name, **more, "rows_per_s": {k: spread(v) for k, v in rates.items()},
             "ratio": ratio, "wanted": wanted, "reached": ratio >= wanted,
             "reads_per_row": {k: statistics.median(one["device_reads"] / one["rows"]
                                                    for one in v) for k, v in samples.items()}}
    say(f"{name:28} f16 {entry['rows_per_s']['f16']['median']:12.0f} rows/s, quantized "
        f"{entry['rows_per_s']['quantized']['median']:12.0f}, ratio {ratio:.2f} "
        f"({wanted} asked)")
    return entry


def cold_cases(args, folders, rows):
    """Cold rows on a disk with a limit, with almost no memory and with that of 30 % of the rows."""
    row_bytes = args.columns * 2
    batches = (("sparse", args.batch), ("dense", rows // 4))
    for profile, bytes_per_read in (("16 KiB", 16384), ("4.4 KB", 4400)):
        limit = DeviceLimit(folders[0], args.reads_per_s, args.reads_per_s * bytes_per_read)
        with limit:
            if not limit.kind:
                say(f"no limit on the disk: {limit.why}")
                yield {"case": f"cold, {profile} per read", "skipped": limit.why}
                continue
            for density, batch in batches:
                for memory, share in (("none", 0.02), ("30 %", 0.3)):
                    host = int(rows * row_bytes * share)
                    options = ["--host", str(host), "--batch", str(batch), "--rows",
                               str(max(args.cold_rows, batch))]
                    yield case(f"cold {profile} {density} {memory}",
                               measure(args, folders, options, limit.enter), 1.8,
                               limit={"reads_per_s": args.reads_per_s,
                                      "bytes_per_s": args.reads_per_s * bytes_per_read,
                                      "kind": limit.kind},
                               batch=batch, host_bytes=host)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rung", default=os.path.join(ROOT, "build", "rung"))
    add("--dir", default=None, help="a folder on a disk (default: $TMPDIR)")
    add("--quantize", default="int8", help="as for rung stage (default: int8)")
    add("--columns", type=int, default=768, help="values of a row (default: 768)")
    add("--small", type=size, default=16 << 20, help="float16 table in the caches: 16MiB")
    add("--large", type=size, default=2 << 30, help="float16 table in memory: 2GiB")
    add("--batch", type=int, default=4096, help="rows per gather (default: 4096)")
    add("--rows", type=int, default=2000000, help="rows per sample (default: 2000000)")
    add("--cold-rows", type=int, default=120000, help="the same with a limit on the disk")
    add("--reads-per-s", type=int, default=20000, help="limit on the disk (default: 20000)")
    add("--samples", type=int, default=5, help="pairs per case (default: 5)")
    args = parser.parse_args()
    result = record("quantized_speed", "quantize/speed.py", args.rung, args.dir)
    result.update(quantize=args.quantize, columns=args.columns, note="synthetic rows", cases=[])
    with temporary_folder(args.dir) as folder:
        for name, table, wanted in (("small", args.small, 0.9), ("large", args.large, 1.0)):
            rows = table // (args.columns * 2)
            *folders, report = stage_both(args, folder, name, rows)
            if report["quantized"] is None:
                raise Failure("rung stage reports no quantization")
            options = ["--host", "max", "--batch", str(args.batch), "--rows", str(args.rows)]
            result["cases"].append(case(
                f"all hits, {name} table", measure(args, folders, options), wanted,
                table_bytes={"f16": rows * args.columns * 2, "quantized": report["feature_bytes"]},
                batch=args.batch))
        result["cases"].extend(cold_cases(args, folders, rows))
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    run_main("quantize/speed.py", main)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what rung itself does for cold rows, with the engines that read nothing: rows and reads
per second and per core, and how they scale with refill threads.

The script stages rows of zeros. It prints one JSON object on stdout and a table on stderr.
bench/README.md describes the timed region.
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import (ROOT, Failure, Worker, names_of, numbers, record, run_main, say, size, spread,
                    stage, temporary_folder, write_hole)

ENGINES = ("null", "null_instant")
READS = {"merged": 1, "single": 0}
FIELDS = ("seconds", "cpu_seconds", "rows", "reads", "threads")


def stage_rows(args, folder):
    vertices, dataset = args.size // args.row_bytes, os.path.join(folder, "rows")
    source = os.path.join(folder, "source.bin")
    write_hole(source, vertices * args.row_bytes)
    stage(args.rung, source, vertices, args.row_bytes, dataset)
    os.unlink(source)
    return dataset


def one_round(worker, threads):
    sample = dict(zip(FIELDS, (float(word) if "." in word else int(word)
                               for word in worker.order("round").split())))
    if sample["threads"] != threads:
        raise Failure(f"{sample['threads']} refill threads instead of {threads}")
    return sample


def summary(samples):
    """The rates of samples: of all threads together, and per core, which is per second of CPU time
    of the refill threads."""
    return {"rows_per_s": spread([s["rows"] / s["seconds"] for s in samples]),
            "rows_per_core_s": spread([s["rows"] / s["cpu_seconds"] for s in samples]),
            "reads_per_core_s": spread([s["reads"] / s["cpu_seconds"] for s in samples]),
            "rows_per_read": samples[0]["rows"] / max(1, samples[0]["reads"]),
            "cores_busy": spread([s["cpu_seconds"] / s["seconds"] for s in samples]),
            "samples": samples}


def measure(args, dataset, engine, reads):
    """All numbers of threads in turn; every second round in reverse order; the first is dropped."""
    workers = {threads: Worker([os.path.join(args.programs, "rung_null_device"), dataset, engine,
                                str(READS[reads]), str(args.batch), str(args.requests),
                                str(threads)]) for threads in args.threads}
    samples = {threads: [] for threads in workers}
    for idx in range(args.rounds + 1):
        for threads in list(workers) if idx % 2 == 0 else reversed(list(workers)):
            samples[threads].append(one_round(workers[threads], threads))
    for worker in workers.values():
        worker.close()
    found = {threads: summary(own[1:]) for threads, own in samples.items()}
    base = found[min(found)]
    for threads, rates in found.items():
        rates["times_as_fast"] = spread([
            mine["rows"] / mine["seconds"] / (theirs["rows"] / theirs["seconds"])
            for mine, theirs in zip(rates["samples"], base["samples"])])
        rates["core_as_fast"] = spread([
            mine["rows"] / mine["cpu_seconds"] / (theirs["rows"] / theirs["cpu_seconds"])
            for mine, theirs in zip(rates["samples"], base["samples"])])
        say(f"{engine:12} {reads:6} {threads} threads: "
            f"{rates['rows_per_core_s']['median'] / 1e6:6.2f} M rows/s per core, "
            f"{rates['reads_per_core_s']['median'] / 1e6:5.2f} M reads/s per core, "
            f"{rates['rows_per_s']['median'] / 1e6:6.2f} M rows/s, "
            f"{rates['times_as_fast']['median']:.2f} times one thread, "
            f"{rates['core_as_fast']['median']:.2f} per core")
    return {"engine": engine, "reads": reads, "threads": found}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--programs",
                        help="folder of rung_null_device (default: bench/ next to the command)")
    parser.add_argument("--dir", help="folder for the temporary folder (default: $TMPDIR)")
    parser.add_argument("--size", type=size, default=size("128MiB"),
                        help="bytes of features (default: 128MiB)")
    parser.add_argument("--row-bytes", type=int, default=512, help="bytes of a row (default: 512)")
    parser.add_argument("--batch", type=int, default=65536,
                        help="rows of a request (default: 65536)")
    parser.add_argument("--requests", type=int, default=4,
                        help="requests that are queued before the clock starts (default: 4)")
    parser.add_argument("--threads", type=numbers, default=[1, 2],
                        help="numbers of refill threads (default: 1,2)")
    parser.add_argument("--engines", type=names_of(ENGINES, "engine"), default=list(ENGINES),
                        help="engines (default: null,null_instant)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds that count (default: 15)")
    parser.add_argument("--small", action="store_true",
                        help="try the script in a few seconds; the results are meaningless")
    args = parser.parse_args()
    if args.small:
        args.size, args.batch, args.rounds = size("20MiB"), 2048, 1
    args.programs = args.programs or os.path.join(os.path.dirname(args.rung), "bench")
    return args


def main():
    args = parse_args()
    with temporary_folder(args.dir) as folder:
        out = record("null_device", "null_device/null_device.py", args.rung, folder)
        out.update(row_bytes=args.row_bytes, batch=args.batch, requests=args.requests)
        dataset = stage_rows(args, folder)
        out["results"] = [measure(args, dataset, engine, reads) for engine in args.engines
                          for reads in READS]
    print(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    run_main("null_device.py", main)

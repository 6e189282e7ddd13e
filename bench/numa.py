#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the results of `rung numa` with programs that measure the same: the loops of STREAM with
OpenMP, a second pointer chase, and fio. Pairs alternate, and ratios are computed per pair.

The script prints one JSON object on stdout and a table on stderr. bench/README.md describes the
comparison.
"""
import argparse
import json
import os
import shlex
import shutil
import statistics

from common import (ROOT, Failure, as_typed, first_line, names_of, record, run_json, run_main,
                    run_text, say, size, spread, temporary_folder, write_random)

PARTS = ("bandwidth", "latency", "gather", "reads")
KINDS = ("read", "write", "copy", "triad")
DEPTHS = (1, 8, 32, 128)
THREADS = {"all": None, "one": 1}


def pairs_of(count, ours, theirs):
    """The results of `count` pairs of both functions, after one pair that is dropped. Every second
    pair begins with rung."""
    pairs = []
    for number in range(count + 1):
        if number % 2:
            mine, other = ours(), theirs()
        else:
            other, mine = theirs(), ours()
        pairs.append((mine, other))
    return pairs[1:]


def compared(pairs, key):
    """The ratio of each pair at one key, rung / other."""
    mine, other = [pair[0][key] for pair in pairs], [pair[1][key] for pair in pairs]
    return {"ratio": spread([a / b for a, b in zip(mine, other)]), "rung": spread(mine),
            "other": spread(other),
            "samples": {"rung": mine, "other": other}}


def tell(name, result, unit=1e9, text="GB/s"):
    say(f"  {name:22} rung {result['rung']['median'] / unit:9.2f}  other "
        f"{result['other']['median'] / unit:9.2f} {text:8}"
        f" ratio {result['ratio']['median']:.3f} ({result['ratio']['min']:.3f} to "
        f"{result['ratio']['max']:.3f})")


def numa(args, *more):
    """One sample on the first node with CPUs and memory; the other programs do not choose nodes."""
    return [args.rung, "numa", "--json", "--quiet", "--samples", "1", "--seconds",
            str(args.seconds), *more]


def own_results(out, matrix):
    results = [result for result in out["results"]
               if result["matrix"] == matrix and not result["absent"]
               and result["cpu_node"] == result["memory_node"]]
    if not results:
        raise Failure("rung numa: %s: %s" % (matrix,
                                             {result["absent"] for result in out["results"]}))
    return [result for result in results if result["cpu_node"] == results[0]["cpu_node"]]


def bandwidth(args):
    ours_command = numa(args, "--only", "bandwidth")
    first = own_results(run_json(ours_command), "bandwidth")
    buffer_bytes, threads = first[0]["buffer_bytes"], first[0]["threads"]
    commands = {cores: [os.path.join(args.programs, "rung_bench_stream"), str(buffer_bytes),
                        str(count or threads), str(args.seconds)]
                for cores, count in THREADS.items()}

    def ours():
        return {(result["kind"], result["cores"]): result["bytes_per_s"]["median"]
                for result in own_results(run_json(ours_command), "bandwidth")}

    def theirs():
        found = {}
        for cores, command in commands.items():
            found.update({(line.split()[0], cores): float(line.split()[1])
                          for line in run_text(command).splitlines()})
        return found

    say(f"bandwidth, arrays of {buffer_bytes >> 20} MiB, {threads} threads and one")
    pairs, results = pairs_of(args.pairs, ours, theirs), []
    for cores in THREADS:
        for kind in KINDS:
            result = compared(pairs, (kind, cores))
            tell(f"{kind}, {cores} cores", result)
            results.append({"kind": kind, "cores": cores, "buffer_bytes": buffer_bytes,
                            "unit": "bytes_per_s", **result})
    return {"results": results, "commands": {"rung": as_typed(ours_command),
                                             **{cores: as_typed(command) for cores,
                                                command in commands.items()}}}


def latency(args):
    ours_command = numa(args, "--only", "latency")
    buffer_bytes = own_results(run_json(ours_command), "latency")[0]["buffer_bytes"]
    other_command = [os.path.join(args.programs, "rung_bench_latency"), str(buffer_bytes),
                     str(args.seconds)]
    say(f"idle latency, {buffer_bytes >> 20} MiB")
    result = compared(pairs_of(args.pairs,
                               lambda: {"ns": own_results(run_json(ours_command), "latency")[0][
                                   "latency_ns"]["median"]},
                               lambda: {"ns": float(run_text(other_command))}), "ns")
    tell("one dependent load", result, 1, "ns")
    return {"buffer_bytes": buffer_bytes, "unit": "ns", **result,
            "commands": {"rung": as_typed(ours_command), "other": as_typed(other_command)}}


def gathers(args):
    """Compares gathers with copies, which `rung numa` alternates sample by sample."""
    command = [args.rung, "numa", "--json", "--quiet", "--only", "latency,gather", "--samples",
               str(2 * args.pairs + 1), "--seconds", str(args.seconds / 2)]
    results = own_results(run_json(command), "gather")
    say("gathers relative to a copy")
    for result in results:
        say(f"  {result['row_bytes']:5} bytes, {result['cores']:3} cores {result['of_copy']:.3f}, "
            f"{result['lines_in_flight']:.1f} lines in flight")
    kept = ("row_bytes", "cores", "threads", "of_copy", "rows_in_flight", "lines_in_flight",
            "bytes_per_s", "rows_per_s")
    return {"results": [{key: result[key] for key in kept} for result in results],
            "commands": {"rung": as_typed(command)}}


def fio_command(args, path, row_bytes, depth):
    """fio with buffers in huge pages, as in rung. Reads into small pages have long lists of pages,
    which slow virtual disks."""
    return ["env", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1", "fio", "--name=r", "--thread",
            "--iomem_align=2m", f"--filename={path}", "--readonly", "--direct=1", "--time_based",
            f"--runtime={round(1000 * args.read_seconds)}ms",
            "--randrepeat=0", "--norandommap", "--rw=randread", f"--bs={row_bytes}",
            "--ioengine=io_uring", f"--iodepth={depth}",
            "--output-format=json"]


def reads(args, folder):
    path = os.path.join(folder, "reads.bin")
    say(f"writing {args.size >> 20} MiB of random bytes")
    write_random(path, args.size)
    os.sync()
    row_bytes = sorted({result["row_bytes"]
                        for result in own_results(run_json(numa(
                                args, "--only", "nvme", "--nvme", path, "--depths", "1")), "nvme")})
    results = []
    say(f"random reads of {row_bytes} bytes")
    # all pairs of one depth together, so that changes of the disk affect few ratios
    for depth in DEPTHS[::3] if args.small else DEPTHS:
        ours_command = [args.rung, "numa", "--json", "--quiet", "--only", "nvme", "--nvme", path,
                        "--depths", str(depth), "--samples", "1", "--seconds",
                        str(args.read_seconds)]

        def ours(command=tuple(ours_command)):
            return {result["row_bytes"]: result["reads_per_s"]["median"]
                    for result in own_results(run_json(list(command)), "nvme")}

        def theirs(depth=depth):
            return {one: run_json(fio_command(args, path, one, depth))["jobs"][0]["read"]["iops"]
                    for one in row_bytes}

        pairs = pairs_of(args.read_pairs, ours, theirs)
        for one in row_bytes:
            result = compared(pairs, one)
            tell(f"{one} bytes, depth {depth}", result, 1e3, "k reads/s")
            results.append({"row_bytes": one, "queue_depth": depth, "unit": "reads_per_s", **result,
                            "commands": {"rung": as_typed(ours_command),
                                         "fio": shlex.join(fio_command(args, path, one, depth))}})
    middle = statistics.median(result["ratio"]["median"] for result in results)
    say(f"  median of the medians {middle:.3f}")
    return {"file_bytes": args.size, "median_of_medians": middle, "results": results}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--programs", default=os.path.join(ROOT, "build", "bench"),
                        help="folder of rung_bench_stream (default: build/bench)")
    parser.add_argument("--dir",
                        help="folder for the temporary folder, on the disk to read (default: "
                             "$TMPDIR)")
    parser.add_argument("--size", type=size, default=size("2GiB"),
                        help="bytes of the file to read (default: 2GiB)")
    parser.add_argument("--parts", type=names_of(PARTS, "part"), default=list(PARTS),
                        help=f"parts to run: {','.join(PARTS)} (default: all)")
    parser.add_argument("--pairs", type=int, default=9, help="pairs that count (default: 9)")
    parser.add_argument("--read-pairs", type=int, default=7,
                        help="pairs of reads that count (default: 7)")
    parser.add_argument("--seconds", type=float, default=0.3,
                        help="seconds per sample (default: 0.3)")
    parser.add_argument("--read-seconds", type=float, default=0.5,
                        help="seconds per sample of reads (default: 0.5)")
    parser.add_argument("--small", action="store_true",
                        help="try the script; the results are meaningless")
    return parser.parse_args()


def main():
    args = parse_args()
    if args.small:
        args.size, args.pairs, args.read_pairs, args.seconds, args.read_seconds = size(
            "16MiB"), 1, 1, 0.01, 0.01
    parts = args.parts
    if "reads" in parts and not shutil.which("fio"):
        say("skipped: fio was not found (Debian: fio)")
        return 77
    with temporary_folder(args.dir) as folder:
        out = {**record("numa", "numa.py", args.rung, folder),
               "fio": first_line("fio", "--version") if "reads" in parts else None}
        for name, part in (("bandwidth", bandwidth), ("latency", latency), ("gather", gathers)):
            if name in parts:
                out[name] = part(args)
        if "reads" in parts:
            out["reads"] = reads(args, folder)
    print(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    run_main("numa.py", main)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cold random rows from a staged file, beside fio reading the same file at the same block size and depth.

Makes a dataset of random bytes in a temporary folder, stages it, and runs fio and `rung bench` in turn. One JSON object on
stdout, a short table on stderr. bench/README.md says what is inside the timed regions. Python standard library and fio.
"""
import argparse
import array
import json
import os
import platform
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
CHUNK_BYTES = 16 << 20
EDGES = 100_000
BATCH_ROWS, IN_FLIGHT = 4096, 4
MERGE_HOSTS = 4     # times --host for the series with merging: slots that hold several rows


class Failure(Exception):
    """Ends the run with its text."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def size(text):
    match = re.fullmatch(r"(\d+)([KMG]iB)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: give bytes, or a number with KiB, MiB or GiB")
    return int(match[1]) * UNITS[match[2] or ""]


def run_json(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failure(f"{shlex.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout[done.stdout.index("{"):])


def as_typed(command):
    """A command of the checkout as one types it there: its path says nothing to others."""
    return shlex.join([os.path.relpath(command[0], ROOT) if command[0].startswith(ROOT + os.sep) else command[0]] + command[1:])


# ---- the dataset ----------------------------------------------------------------------------------------------------

def write_random(path, total):
    with open(path, "wb") as out:
        for start in range(0, total, CHUNK_BYTES):
            out.write(os.urandom(min(CHUNK_BYTES, total - start)))


def write_edges(path, vertices):
    """EDGES random pairs of u32: the graph only gives the rows an order here."""
    ids = array.array("I", os.urandom(8 * EDGES))
    with open(path, "wb") as out:
        array.array("I", (i % vertices for i in ids)).tofile(out)


def stage(args, folder, row_bytes):
    """A staged dataset of args.size bytes: (its folder, the source of its features, the path of its features file)."""
    vertices = args.size // row_bytes
    source = f"raw:{folder}/source.bin,u8,{vertices}x{row_bytes}"
    dataset = os.path.join(folder, f"rows-{row_bytes}")
    if not os.path.exists(f"{folder}/source.bin"):
        say(f"writing {args.size >> 20} MiB of random bytes")
        write_random(f"{folder}/source.bin", args.size)
    write_edges(f"{folder}/edges.bin", vertices)
    say(f"staging rows of {row_bytes} bytes")
    run_json([args.rung, "stage", "--json", "--quiet", "--graph", f"raw:{folder}/edges.bin,u32,2x{EDGES}",
              "--features", source, "--score", "degree", "--out", dataset])
    files = run_json([args.rung, "info", "--json", dataset])["files"]
    features = max(files, key=lambda entry: entry["bytes"])["name"]
    return dataset, source, os.path.join(dataset, features)


def drop_cached(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


# ---- the two runs ---------------------------------------------------------------------------------------------------

def fio_command(args, path, row_bytes):
    return ["fio", "--name=r", f"--filename={path}", "--readonly", "--direct=1", "--time_based", f"--runtime={args.runtime}",
            "--randrepeat=0", "--norandommap", "--rw=randread", f"--bs={row_bytes}", "--ioengine=io_uring",
            f"--iodepth={args.depth}", "--output-format=json"]


def run_fio(command):
    job = run_json(command)["jobs"][0]
    if job["error"] != 0:
        raise Failure(f"{shlex.join(command)}: error {job['error']}")
    read = job["read"]
    cpu_seconds = (job["usr_cpu"] + job["sys_cpu"]) / 100 * read["runtime"] / 1000
    return {"iops": read["iops"], "reads": read["total_ios"], "cpu_us_per_read": cpu_seconds / read["total_ios"] * 1e6}


def bench_command(args, dataset, host, rows, *more):
    return [args.rung, "bench", dataset, "--json", "--quiet", "--ids", "uniform", "--host", str(host), "--rows", str(rows),
            "--batch", str(BATCH_ROWS), "--in-flight", str(IN_FLIGHT), "--queue-depth", str(args.depth), *more]


def run_bench(command):
    """Rows that were in memory do not count: the figure is device reads per second."""
    out = run_json(command)
    return {"iops": out["device_reads"] / out["seconds"], "reads": out["device_reads"], "rows_per_s": out["rows_per_s"],
            "rows": out["rows"], "seconds": out["seconds"], "merged_rows": out["merged_rows"],
            "device_read_bytes": out["device_read_bytes"], "engine": out["engine"], "tiers": out["tiers"],
            "cpu_us_per_read": out["cpu_seconds"] / max(1, out["device_reads"]) * 1e6}


def run_pairs(args, path, fio, rung):
    """args.pairs pairs, the first one more and dropped as warm-up; each second pair starts with rung."""
    pairs = []
    for idx in range(args.pairs + 1):
        drop_cached(path)
        if idx % 2:
            ours, theirs = run_bench(rung), run_fio(fio)
        else:
            theirs, ours = run_fio(fio), run_bench(rung)
        pair = {"fio": theirs, "rung": ours, "ratio": ours["iops"] / theirs["iops"]}
        say(f"  {'warm-up' if idx == 0 else f'pair {idx}':8} fio {theirs['iops']:9.0f}/s  rung {ours['iops']:9.0f}/s"
            f"  ratio {pair['ratio']:.3f}   cpu per read {theirs['cpu_us_per_read']:.1f} / {ours['cpu_us_per_read']:.1f} us")
        pairs.append(pair)
    return pairs[1:]


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measure(args, folder, row_bytes):
    dataset, source, path = stage(args, folder, row_bytes)
    fio = fio_command(args, path, row_bytes)
    drop_cached(path)
    rows = max(BATCH_ROWS, int(run_fio(fio)["iops"] * args.runtime))   # rung runs about as long as fio
    plain = bench_command(args, dataset, args.host, rows, "--no-merge")
    merged = bench_command(args, dataset, args.host * MERGE_HOSTS, rows)
    pairs = run_pairs(args, path, fio, plain)
    with_merging = [run_bench(merged) for _ in range(args.pairs)]

    say("  verifying")
    check = run_json(bench_command(args, dataset, args.host, min(rows, 200_000), "--check"))
    verified = run_json([args.rung, "verify", "--json", "--quiet", dataset, "--source", source])
    if check["wrong_rows"] != 0 or not verified["ok"]:
        raise Failure(f"the data are wrong: {check['wrong_rows']} of {check['rows']} rows, verify: {verified}")
    shutil.rmtree(dataset)
    return {
        "row_bytes": row_bytes, "dataset_bytes": args.size, "depth": args.depth,
        "fio_iops": spread([p["fio"]["iops"] for p in pairs]),
        "rung_iops": spread([p["rung"]["iops"] for p in pairs]),
        "ratio": spread([p["ratio"] for p in pairs]),
        "fio_cpu_us_per_read": spread([p["fio"]["cpu_us_per_read"] for p in pairs]),
        "rung_cpu_us_per_read": spread([p["rung"]["cpu_us_per_read"] for p in pairs]),
        "merging_rows_per_s": spread([m["rows_per_s"] for m in with_merging]),
        "checked_rows": check["rows"], "wrong_rows": check["wrong_rows"], "verified_rows": verified["rows_compared"],
        "pairs": pairs, "merging": with_merging,
        "commands": {"fio": shlex.join(fio), "rung": as_typed(plain), "rung_merging": as_typed(merged)},
    }


# ---- the record -----------------------------------------------------------------------------------------------------

def lines(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    return done.stdout.splitlines() if done.returncode == 0 and done.stdout else [None]


def first_line(*command):
    return lines(*command)[0]


def last_line(*command):
    return lines(*command)[-1]


def machine(folder):
    with open("/proc/cpuinfo") as info:
        model = re.search(r"model name\s*: (.+)", info.read())
    with open("/proc/meminfo") as info:
        memory_kib = int(re.search(r"MemTotal:\s+(\d+)", info.read())[1])
    return {"cpu": model[1] if model else platform.machine(), "cpus": os.cpu_count(), "memory_bytes": memory_kib * 1024,
            "kernel": platform.release(), "filesystem": first_line("stat", "-f", "-c", "%T", folder),
            "device": last_line("df", "--output=source", folder)}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"), help="the command (default: build/rung)")
    parser.add_argument("--dir", help="folder for the temporary folder; twice --size is needed (default: $TMPDIR)")
    parser.add_argument("--size", type=size, default=size("4GiB"), help="bytes of features (default: 4GiB)")
    parser.add_argument("--row-bytes", type=lambda text: [int(n) for n in text.split(",")], default=[4096, 512],
                        help="row widths and block sizes, each measured (default: 4096,512)")
    parser.add_argument("--host", type=size, default=size("4MiB"), help="host budget, for the staging slots and the rows that fit beside them (default: 4MiB)")
    parser.add_argument("--depth", type=int, default=64, help="reads in flight (default: 64)")
    parser.add_argument("--pairs", type=int, default=5, help="pairs that count (default: 5)")
    parser.add_argument("--runtime", type=int, default=2, help="seconds of each run (default: 2)")
    parser.add_argument("--at-least", type=float, metavar="RATIO", help="exit 1 when a median ratio is below this")
    return parser.parse_args()


def main():
    args = parse_args()
    if not shutil.which("fio"):
        say("skipped: fio was not found (Debian: fio)")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))   # the temporary folder goes on every way out
    with tempfile.TemporaryDirectory(prefix="rung-bench-", dir=args.dir) as folder:
        record = {"benchmark": "cold_vs_fio", "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                  "commit": first_line("git", "describe", "--always", "--dirty"), "rung": first_line(args.rung, "--version"),
                  "fio": first_line("fio", "--version"), "machine": machine(folder), "results": []}
        for row_bytes in args.row_bytes:
            result = measure(args, folder, row_bytes)
            record["results"].append(result)
            say(f"  rows of {row_bytes} bytes: median ratio {result['ratio']['median']:.3f},"
                f" {result['merging_rows_per_s']['median']:.0f} rows/s with merging, 0 wrong rows")
    print(json.dumps(record, indent=1))
    low = [r["row_bytes"] for r in record["results"] if args.at_least and r["ratio"]["median"] < args.at_least]
    if low:
        say(f"below {args.at_least} of fio at row bytes {low}")
    return 1 if low else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        say(f"cold_vs_fio.py: {failure}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)

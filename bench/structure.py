#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures sampling from a staged graph whose hottest neighbour lists are in memory and whose other
lists are in the file, on a model of a public graph.

memory: the structure with all lists in memory, next to the graph loaded as arrays. cold: a tenth of
the lists in memory, next to fio reading the same file at the same size. split: the division of the
host budget that `rung plan` chooses, next to nine others, by the device reads that training needs.
plan: predicted hits and seconds of an epoch next to measured ones. The script prints one JSON
object on stdout and a short table on stderr. bench/README.md describes the timed regions. Needs the
Python standard library, and fio for the part cold.
"""
import argparse
import json
import os
import shutil

from common import (ROOT, Failure, Worker, drop_cached, names_of, numbers, record, run_json,
                    run_main, say, size, spread, temporary_folder)

PARTS = ("memory", "cold", "split", "plan")
SPLITS = 9
ROWS_BYTES_MIN = 24 << 20   # of a host budget: left for slots, cache and rows in each division
HOST_MIN = 32 << 20


def make_model(args, folder):
    """Generates a model and stages it. Returns the folder of the dataset."""
    model, dataset = f"{folder}/model", f"{folder}/model.rung"
    say(f"generating {args.model} at {args.scale}")
    run_json([args.rung, "generate", model, "--model", args.model, "--scale", args.scale, "--json",
              "--quiet"])
    say("staging")
    run_json([args.rung, "stage", "--dataset", f"{model}/dataset.json", "--out", dataset, "--json",
              "--quiet"])
    shutil.rmtree(model)
    return dataset


# ---- samplers ----

def sampler(args, dataset):
    return Worker([os.path.join(args.programs, "rung_structure_rate"), dataset,
                   ",".join(map(str, args.fanout)), str(args.batch), str(args.passes)])


def ask(worker, order):
    worker.begin(order)
    return json.loads(worker.answer())


def measure_memory(args, dataset):
    """Alternates the two; the first round is dropped. All batches must be the same."""
    worker, pairs = sampler(args, dataset), []
    orders = {"arrays": f"memory {args.threads}",
              "structure": f"structure {args.threads} max merge"}
    for idx in range(args.pairs + 1):
        names = list(orders) if idx % 2 == 0 else list(orders)[::-1]
        pair = {name: ask(worker, orders[name]) for name in names}
        if pair["arrays"]["hash"] != pair["structure"]["hash"]:
            raise Failure("the batches differ between the graph in memory and the structure")
        for key, ratio in (("seconds", "speed_ratio"), ("cpu_seconds", "cpu_ratio")):
            pair[ratio] = pair["arrays"][key] / pair["structure"][key]
        pairs.append(pair)
    worker.close()
    pairs = pairs[1:]
    found = {ratio: spread([pair[ratio] for pair in pairs]) for ratio in ("speed_ratio",
                                                                         "cpu_ratio")}
    say("memory: speed of the structure with all lists / of arrays: "
        f"{found['speed_ratio']['median']:.3f}, by CPU time {found['cpu_ratio']['median']:.3f}")
    return {**found, "threads": args.threads, "pairs": pairs}


def fio_iops(path, block_bytes, depth, seconds):
    drop_cached(path)
    job = run_json(["fio", "--name=r", f"--filename={path}", "--readonly", "--direct=1",
                    "--time_based", f"--runtime={seconds}", "--randrepeat=0", "--norandommap",
                    "--rw=randread", f"--bs={block_bytes}", "--ioengine=io_uring",
                    f"--iodepth={depth}", "--output-format=json"])["jobs"][0]
    if job["error"] != 0:
        raise Failure(f"fio: error {job['error']}")
    return job["read"]["iops"]


def measure_cold(args, dataset):
    """Pairs of fio and of sampling with a tenth of the lists in memory, each block read alone so
    that both read the same sizes; then with merged reads."""
    if not shutil.which("fio"):
        say("cold: skipped: fio was not found (Debian: fio)")
        return None
    path = f"{dataset}/graph_indices.npy"
    worker, pairs = sampler(args, dataset), []
    wanted = ask(worker, f"memory {args.threads}")["hash"]
    lists = os.path.getsize(path) // 10
    for idx in range(args.pairs + 1):
        turns = ("fio", "rung") if idx % 2 == 0 else ("rung", "fio")
        pair = {}
        for turn in turns:
            if turn == "fio":
                pair["fio_iops"] = fio_iops(path, 512, args.depth, args.runtime)
            else:
                pair["rung"] = ask(worker, f"structure {args.cold_threads} {lists} apart")
        if pair["rung"]["hash"] != wanted:
            raise Failure("the batches differ between the graph in memory and the structure")
        pair["rung_iops"] = pair["rung"]["device_reads"] / pair["rung"]["seconds"]
        pair["ratio"] = pair["rung_iops"] / pair["fio_iops"]
        pairs.append(pair)
        say(f"  fio {pair['fio_iops']:.0f}/s, rung {pair['rung_iops']:.0f}/s, "
            f"ratio {pair['ratio']:.3f}")
    merged = [ask(worker, f"structure {args.cold_threads} {lists} merge")
              for _ in range(args.pairs)]
    worker.close()
    pairs, run = pairs[1:], merged[0]
    result = {"resident_bytes": lists, "ratio": spread([pair["ratio"] for pair in pairs]),
              "reads_per_batch": run["device_reads"] / run["batches"],
              "cold_blocks_per_batch": run["cold_blocks"] / run["batches"],
              "merged_speed_ratio": spread(
                  [pair["rung"]["seconds"] / one["seconds"] for pair, one in zip(pairs, merged)]),
              "threads": args.cold_threads, "depth": args.depth, "pairs": pairs, "merged": merged}
    say(f"cold: reads/s of rung / of fio: {result['ratio']['median']:.3f}; "
        f"{result['reads_per_batch']:.0f} reads for {result['cold_blocks_per_batch']:.0f} distinct "
        "cold blocks a batch")
    return result


# ---- the budget ----

def train(args, dataset, host, structure, epochs=1):
    """An epoch that only takes batches: the model does not compute, so the reads bound it."""
    return run_json([args.rung, "train", dataset, "--host", str(host), "--structure",
                     str(structure), "--batch", str(args.batch), "--fanout",
                     ",".join(map(str, args.fanout)), "--epochs", str(epochs), "--consumer",
                     "1000000", "--json", "--quiet"])


def reads_of(run):
    return (run["device_reads"] + run["structure"]["device_reads"]) / run["batches"]


def plan(args, dataset, host, *more):
    return run_json([args.rung, "plan", dataset, "--host", str(host), "--batch", str(args.batch),
                     "--fanout", ",".join(map(str, args.fanout)), "--json", "--quiet", *more])


def measure_split(args, dataset):
    """Device reads per batch with the chosen division and with nine divisions in equal steps."""
    results, lists = [], os.path.getsize(f"{dataset}/graph_indices.npy")
    for host in args.hosts:
        chosen = reads_of(train(args, dataset, host, "auto"))
        most = min(lists, host - ROWS_BYTES_MIN)
        least, tried = min(16 << 20, most // 2), {}
        for idx in range(SPLITS):
            structure = least + (most - least) * idx // (SPLITS - 1)
            tried[structure] = reads_of(train(args, dataset, host, structure))
        best = min(tried.values())
        results.append({"host_bytes": host, "chosen_reads_per_batch": chosen,
                        "reads_per_batch_by_structure_bytes": tried,
                        "ratio_to_best": chosen / best})
        say(f"split: host {host >> 20} MiB: {chosen:.0f} reads a batch, best of {SPLITS}: "
            f"{best:.0f}, ratio {chosen / best:.3f}")
    return results


def hit_share(tiers):
    """Share of requested rows served by the tier "host"."""
    total = sum(tier["hits"] for tier in tiers)
    return next(tier["hits"] for tier in tiers if tier["name"] == "host") / total


def measure_plan(args, dataset, folder):
    """Predicted and measured hits and seconds of an epoch. The machine is measured just before."""
    profile, results = f"{folder}/profile.json", []
    row_bytes = run_json([args.rung, "info", dataset, "--json"])["row_bytes"]
    with open(profile, "w", encoding="utf-8") as file:
        json.dump(run_json([args.rung, "numa", "--json", "--only", "latency,gather,nvme",
                            "--nvme", f"{dataset}/features.000.npy", "--row-bytes",
                            str(row_bytes)]), file)
    for host in args.hosts:
        predicted = plan(args, dataset, host, "--profile", profile)
        runs = [train(args, dataset, host, "auto") for _ in range(args.pairs)]
        seconds = spread([run["epochs"][0]["seconds"] for run in runs])
        hits = next(tier["hit_share"] for tier in predicted["tiers"] if tier["name"] == "host")
        measured = hit_share(runs[0]["tiers"])
        results.append({"host_bytes": host, "predicted_hits": hits, "measured_hits": measured,
                        "predicted_seconds": predicted["seconds_per_epoch"],
                        "measured_seconds": seconds,
                        "seconds_ratio": predicted["seconds_per_epoch"] / seconds["median"]})
        say(f"plan: host {host >> 20} MiB: hits {100 * hits:.1f} % predicted, "
            f"{100 * measured:.1f} % measured; {predicted['seconds_per_epoch']:.2f} s predicted, "
            f"{seconds['median']:.2f} s measured")
    return results


def host_sizes(text):
    hosts = [size(part) for part in text.split(",")]
    if min(hosts) < HOST_MIN:
        raise argparse.ArgumentTypeError(f"{min(hosts)} bytes are too few for nine divisions; use "
                                         f"at least {HOST_MIN >> 20}MiB")
    return hosts


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--programs", default=os.path.join(ROOT, "build", "bench"),
                        help="folder of rung_structure_rate (default: build/bench)")
    parser.add_argument("--dir", help="folder for the temporary folder (default: $TMPDIR)")
    parser.add_argument("--dataset", help="a staged dataset, instead of --model and --scale")
    parser.add_argument("--model", default="mag240m", help="(default: mag240m)")
    parser.add_argument("--scale", default="1/64", help="(default: 1/64)")
    parser.add_argument("--parts", type=names_of(PARTS, "part"), default=list(PARTS),
                        help=f"(default: {','.join(PARTS)})")
    parser.add_argument("--fanout", type=numbers, default=[25, 15], help="(default: 25,15)")
    parser.add_argument("--batch", type=int, default=16,
                        help="seeds; as small as the model (default: 16)")
    parser.add_argument("--passes", type=int, default=2,
                        help="passes over the train vertices in each run (default: 2)")
    parser.add_argument("--threads", type=int, default=2,
                        help="sampling threads, all lists in memory (default: 2)")
    parser.add_argument("--cold-threads", type=int, default=8,
                        help="sampling threads, some lists in the file (default: 8)")
    parser.add_argument("--depth", type=int, default=64, help="of fio (default: 64)")
    parser.add_argument("--runtime", type=int, default=4, help="seconds of fio (default: 4)")
    parser.add_argument("--hosts", type=host_sizes,
                        default=[size("128MiB"), size("256MiB"), size("512MiB")],
                        help="host budgets (default: 128MiB,256MiB,512MiB)")
    parser.add_argument("--pairs", type=int, default=7, help="pairs that count (default: 7)")
    parser.add_argument("--small", action="store_true",
                        help="try the script: a tiny model; the results are meaningless")
    return parser.parse_args()


def main():
    args = parse_args()
    if args.small:
        args.scale, args.pairs, args.runtime, args.passes = "1/1024", 1, 1, 1
        args.hosts = [size("64MiB")]
    with temporary_folder(args.dir) as folder:
        out = {**record("structure", "structure.py", args.rung, folder),
               "dataset": args.dataset, "model": None if args.dataset else args.model,
               "scale": None if args.dataset else args.scale, "fanout": args.fanout,
               "batch": args.batch}
        dataset, parts = args.dataset or make_model(args, folder), args.parts
        if "memory" in parts:
            out["memory"] = measure_memory(args, dataset)
        if "cold" in parts:
            out["cold"] = measure_cold(args, dataset)
        if "split" in parts:
            out["split"] = measure_split(args, dataset)
        if "plan" in parts:
            out["plan"] = measure_plan(args, dataset, folder)
    print(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    run_main("structure.py", main)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares epochs of GraphSAGE in torch on features larger than memory: rung, a memory map under
the same limit, and all features in RAM.

The script prints one JSON object on stdout and a table on stderr. It needs a Python with torch and
numpy, given by --python, with the package rung or with RUNG_LIBRARY. bench/README.md describes the
timed regions.

    epochs.py --scale 23 --row-width 768 --limit 3GiB --dir /mnt/nvme
"""
import argparse
import json
import os
import subprocess
import sys

from common import (ROOT, Failure, as_typed, drop_cached, features_file, record, rmat, run_json,
                    run_main, say, size, spread, temporary_folder)
from limit import Limit

CLASSES = 16
NOISE_ROWS = 1 << 16


def write_features(path, labels, width, seed):
    """float16 rows of noise with weak information about the class."""
    import numpy as np   # pylint: disable=import-outside-toplevel
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((NOISE_ROWS, width), np.float32).astype(np.float16)
    centres = (0.06 * rng.standard_normal((CLASSES, width), np.float32)).astype(np.float16)
    rows = np.lib.format.open_memmap(path, "w+", np.float16, (len(labels), width))
    step = NOISE_ROWS // 2
    for first in range(0, len(labels), step):
        part = labels[first : first + step]
        begin = int(rng.integers(NOISE_ROWS - len(part) + 1))
        rows[first : first + step] = noise[begin : begin + len(part)] + centres[part]
    rows.flush()


def make(args, folder):
    import numpy as np   # pylint: disable=import-outside-toplevel
    say(f"generating an R-MAT graph of scale {args.scale}, {args.edge_factor} edges per vertex")
    graph = rmat(args.scale, args.seed, folder, args.edge_factor)
    labels = np.random.default_rng(args.seed
                                   + 1).integers(0, CLASSES, graph["vertices"]).astype(np.int32)
    np.save(os.path.join(folder, "labels.npy"), labels)
    source = os.path.join(folder, "x.npy")
    say(f"writing {graph['vertices'] * args.row_width * 2 >> 20} MiB of features")
    write_features(source, labels, args.row_width, args.seed)
    out = os.path.join(folder, "staged")
    command = [args.rung, "stage", "--json", "--quiet", "--graph", graph["edges"], "--features",
               source, "--labels", os.path.join(folder, "labels.npy"),
               "--split", f"train={graph['train']}", "--fanout", args.fanouts, "--batch",
               str(args.batch_size), "--out", out]
    say("staging")
    staged = run_json(command)
    os.unlink(graph["edges"])
    return graph, out, source, {"command": as_typed(command), "seconds": staged["seconds"]}


def trainer(args, out, *more):
    return [args.python, os.path.join(ROOT, "python", "examples", "sage_torch.py"), out, "--json",
            "--fanouts", args.fanouts, "--batch-size",
            str(args.batch_size), "--seed", str(args.seed), *more]


def shown(command):
    """The command as a user would type it at the top of the checkout."""
    return as_typed(["python3", *[os.path.relpath(word, ROOT) if word.startswith(ROOT + os.sep)
                                  else word for word in command[1:]]])


def train(command, limit):
    """Returns the epochs and the peak memory."""
    # the cores are shared with threads that sample and read
    env = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    if limit is None:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=env)
        peak, kind = None, None
    else:
        with Limit(limit) as held:
            if held.kind is None:
                raise Failure("no control group can be made: run as root, or where systemd-run "
                              "--user works")
            done = subprocess.run(held.wrap(command), stdout=subprocess.PIPE, text=True,
                                  check=False, env=env, preexec_fn=held.enter)
            peak, kind = held.peak(), held.kind
    if done.returncode:
        raise Failure(f"{shown(command)}: exit {done.returncode}")
    epochs = [json.loads(line) for line in done.stdout.splitlines()]
    for epoch in epochs:
        say(f"  epoch {epoch['epoch']}: {epoch['seconds']:7.1f} s, waited "
            f"{epoch['feature_wait_s']:7.1f} s for rows, loss {epoch['loss']:.3f}")
    return {"command": shown(command), "epochs": epochs, "peak_bytes": peak,
            "limit": None if limit is None else {"bytes": limit, "kind": kind}}


def uring_rows(args, out, resident, batches):
    """Seconds in which io_uring reads each cold row of a batch, in groups that complete as a whole,
    on the otherwise idle machine."""
    program, trace = os.path.join(args.programs,
                                  "rung_cold_reads"), os.path.join(
                                      os.path.dirname(out), "epoch.trace")
    subprocess.run([program, "sample", out, trace, args.fanouts, str(args.batch_size), str(batches),
                    str(args.seed)], check=True, stdout=subprocess.PIPE)
    drop_cached(features_file(args.rung, out))
    command = [program, "run", out, trace, "uring-rows", f"resident={resident}", "check=0"]
    found = run_json(command)
    # the program expects rows that it generated itself, and these are different
    del found["checked_batches"], found["wrong_rows"]
    return {"command": as_typed(command), **found}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"))
    parser.add_argument("--programs", default=os.path.join(ROOT, "build", "bench"))
    parser.add_argument("--python", default=sys.executable,
                        help="a Python with torch (default: this one)")
    parser.add_argument("--dir",
                        help="folder on the disk to measure, with room for twice the features and "
                             "the edges")
    parser.add_argument("--scale", type=int, default=23, help="2^N vertices")
    parser.add_argument("--edge-factor", type=int, default=8)
    parser.add_argument("--row-width", type=int, default=768, help="float16 elements")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanouts", default="15,10")
    parser.add_argument("--limit", type=size, default=size("3GiB"),
                        help="limit on memory, page cache included")
    parser.add_argument("--host", default="1200MiB", help="part of --limit for rung's store")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--memmap-batches", type=int, default=2,
                        help="batches of the memory map; the epoch is extrapolated from them")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    args = parse_args()
    if subprocess.run([args.python, "-c", "import torch, numpy, rung; rung.Loader"], env=os.environ,
                      capture_output=True, check=False).returncode:
        say(f"skipped: {args.python} has no torch, numpy or rung")
        return 77
    with temporary_folder(args.dir) as folder:
        graph, out, source, staged = make(args, folder)
        found = {**record("epochs", "epochs.py", args.rung, folder), "graph": graph["name"],
                 "staged": staged}
        runs = {}
        for name, command, limit in (
                ("rung", trainer(args, out, "--epochs", str(args.epochs), "--host", args.host),
                 args.limit),
                ("memmap", trainer(args, out, "--features", "memmap", "--source", source,
                                   "--epochs", "1", "--batches", str(args.memmap_batches)),
                 args.limit),
                ("memory", trainer(args, out, "--features", "memory", "--source", source,
                                   "--epochs", "2"), None)):
            say(name)
            drop_cached(source)
            drop_cached(features_file(args.rung, out))
            runs[name] = train(command, limit)
        batches = runs["rung"]["epochs"][0]["batches"]
        resident = size(args.host) // (2 * args.row_width)
        cold = any(epoch["hits"].get("nvme") for epoch in runs["rung"]["epochs"])
        found["uring_rows"] = uring_rows(args, out, resident, batches) if cold else None
    wait = {name: [epoch["feature_wait_s"] * batches / epoch["batches"] for epoch in run["epochs"]]
            for name, run in runs.items()}
    total = {name: [epoch["seconds"] for epoch in run["epochs"]] for name, run in runs.items()}
    found.update(runs=runs, wait_s={name: spread(values) for name, values in wait.items()},
                 seconds={name: spread(values) for name, values in total.items()},
                 memmap_over_rung=wait["memmap"][0] / spread(wait["rung"])["median"],
                 epoch_over_memory=spread(total["rung"])["median"] / total["memory"][-1],
                 first_over_second=wait["rung"][0] / wait["rung"][1],
                 uring_rows_over_rung=found[
                     "uring_rows"]["seconds"] / spread(wait["rung"])["median"] if cold else None,
                 loss_falls=all(a["loss"] > b["loss"] for a,
                                b in zip(runs["rung"]["epochs"], runs["rung"]["epochs"][1:])))
    for name in ("memmap_over_rung", "epoch_over_memory", "first_over_second",
                 "uring_rows_over_rung"):
        say(f"{name} {'-' if found[name] is None else format(found[name], '.2f')}")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    run_main("epochs.py", main)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains GraphSAGE on quantized features and on the same features without quantization, and
compares accuracy and size.

The script prints one JSON object on stdout and a table on stderr. It fails if int8 with a scale per
row loses more accuracy than --at-most. bench/README.md describes the data sets.
"""
import argparse
import concurrent.futures
import json
import os
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
from common import (Failure, find_graph, names_of, record, run_json, run_main, run_text, say,
                    temporary_folder)

FORMATS = ("int8", "int8:column", "int4", "int4:column", "fp8", "fp8:column")
BOUND = "int8"
SPLITS = ("train", "valid", "test")
# of rung train. Few epochs: accuracies still rise, but all formats train alike
OPTIONS = {
    "debian": ["--fanout", "10,5", "--hidden", "32", "--lr", "0.01", "--dropout", "0.2",
               "--input-dropout", "0.1", "--epochs", "4"],
    "cora": ["--fanout", "25,10", "--hidden", "32", "--normalize", "l1", "--dropout", "0.7",
             "--weight-decay", "5e-4", "--lr", "0.01", "--epochs", "50"],
    "model": ["--fanout", "10,5", "--hidden", "64", "--lr", "0.01", "--dropout", "0.2",
              "--input-dropout", "0", "--batch", "1024", "--epochs", "4"]}
SEEDS_MIN = {"cora": 5}   # its splits have few vertices
# The rows alone give 20 % of the test split: the classes are in the means over neighbours.
MODEL = ["--model", "arxiv", "--vertices", "60000", "--set", "signal=1"]


class Skipped(Exception):
    """A data set is not available; the message has the reason."""


# ---- data sets: the options of rung stage, and a description ----

def splits(spec):
    return [word for name in SPLITS for word in ("--split", f"{name}={spec % name}")]


def debian(args, folder):
    out = os.path.join(folder, "debian")
    script = os.path.join(ROOT, "tools", "debian_graph.py")
    try:
        run_text([sys.executable, script, out, *(["--input", args.debian] if args.debian else [])])
    except Failure as failure:
        raise Skipped(f"tools/debian_graph.py: {str(failure).splitlines()[-1]}") from None
    return ["--graph", f"{out}/edges.npy", "--undirected", "--features", f"{out}/features.npy",
            "--labels", f"{out}/labels.npy", *splits(out + "/%s.npy")], {
                "name": "packages of Debian, as in tools/demo.sh",
                "features": "float16: weighted, hashed words of the descriptions; not converted"}


def cora(_args, _folder):
    npz = find_graph(None, "cora.npz")
    if npz is None:
        raise Skipped("cora.npz is neither in RUNG_TEST_DATA nor in ../shared/data")
    return ["--graph", f"{npz}:edge_index", "--features", f"{npz}:node_feat", "--labels",
            f"{npz}:node_label", *splits(npz + ":%s_idx")], {
                "name": "Cora, the standard split",
                "features": "float32: words of the papers; not converted"}


def model(args, folder):
    out = os.path.join(folder, "model")
    size = ["--vertices", "3000"] if args.small else []
    found = run_json([args.rung, "generate", out, *MODEL, *size, "--json", "--quiet"])
    return ["--dataset", f"{out}/dataset.json"], {
        "name": "a scale model of ogbn-arxiv", "parameters": found["parameters"],
        "features": "float32 as generated; not converted"}


SETS = {"debian": debian, "cora": cora, "model": model}


# ---- measurement ----

def stage(args, source, form, out):
    report = run_json([args.rung, "stage", *source, "--out", out, "--json", "--quiet",
                       *(["--quantize", form] if form else [])])
    return {"row_bytes": report["row_bytes"], "feature_bytes": report["feature_bytes"],
            "quantized": report["quantized"]}, report


def train(args, dataset, options, seed):
    # one thread each, as many at a time as there are CPUs: the results do not depend on it
    report = run_json([args.rung, "train", dataset, *options, "--seed", str(seed), "--host", "max",
                       "--threads", "1", "--json", "--quiet"])
    return {"seed": seed, "valid": report["valid_accuracy"], "test": report["test_accuracy"],
            "best_epoch": report["best_epoch"],
            "last_loss": report["epochs"][-1]["loss"]}


def means(runs):
    return {split: statistics.mean(run[split] for run in runs) for split in ("valid", "test")}


def losses(plain, runs):
    """Accuracy that a format loses, in points: the mean over the seeds, and its standard error.
    Runs of one seed have the same batches and first weights, so they are compared in pairs."""
    found = {}
    for split in ("valid", "test"):
        pairs = [100 * (one[split] - other[split]) for one, other in zip(plain, runs)]
        found[split] = {"mean": statistics.mean(pairs), "by_seed": pairs, "standard_error":
                        statistics.stdev(pairs) / len(pairs) ** 0.5 if len(pairs) > 1 else None}
    return found


def train_all(args, dataset, options, seeds):
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(lambda seed: train(args, dataset, options, seed), seeds))


def measure(args, name, folder):
    source, about = SETS[name](args, folder)
    options = OPTIONS[name] + (["--epochs", "2"] if args.small else [])
    seeds = range(1 if args.small else max(args.seeds, SEEDS_MIN.get(name, 0)))
    found = {"set": name, **about, "train": options, "formats": {}}
    for form in (None, *args.formats):
        dataset = os.path.join(folder, f"{name}.rung")
        staged, report = stage(args, [*source, "--force"], form, dataset)
        found.update(vertices=report["vertices"], edges=report["edges"])
        runs = train_all(args, dataset, options, seeds)
        result = found["formats"][form or "none"] = {**staged, "mean": means(runs), "runs": runs}
        if form:
            result["loss_points"] = losses(found["formats"]["none"]["runs"], runs)
        print_line(name, form or "none", result)
    return found


def print_line(name, form, result):
    loss = result.get("loss_points")
    say(f"{name:8} {form:12} {result['row_bytes']:5} bytes per row, "
        f"valid {100 * result['mean']['valid']:6.2f} %, test {100 * result['mean']['test']:6.2f} %"
        + (f", loss {loss['test']['mean']:+.2f} points" if loss else ""))


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rung", default=os.path.join(ROOT, "build", "rung"), help="(default: build/rung)")
    add("--dir", help="folder for the temporary folder (default: $TMPDIR)")
    add("--sets", type=names_of(SETS, "data set"), default=list(SETS),
        help=f"(default: {','.join(SETS)})")
    add("--formats", type=names_of(FORMATS, "format"), default=["int8", "int4"],
        help=f"of {','.join(FORMATS)} (default: int8,int4)")
    add("--seeds", type=int, default=3, help="runs of each format; Cora has 5 or more (default: 3)")
    add("--debian", metavar="FILE", help="text of apt-cache dumpavail (default: this machine's)")
    add("--at-most", type=float, default=0.3, metavar="POINTS",
        help="test accuracy that int8 may lose (default: 0.3)")
    add("--small", action="store_true", help="one seed, two epochs; the results are meaningless")
    return parser.parse_args()


def main():
    args = parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    found = {**record("quantize", "quantize/quantize.py", args.rung),
             "at_most_points": args.at_most, "sets": [], "skipped": {}}
    with temporary_folder(args.dir) as folder:
        for name in args.sets:
            try:
                found["sets"].append(measure(args, name, folder))
            except Skipped as why:
                found["skipped"][name] = str(why)
                say(f"{name:8} left out: {why}")
    lost = {one["set"]: one["formats"][BOUND]["loss_points"]["test"]["mean"]
            for one in found["sets"] if BOUND in one["formats"]}
    found["met"] = {name: points <= args.at_most for name, points in lost.items()}
    print(json.dumps(found, indent=1))
    return 0 if args.small or all(found["met"].values()) else 1


if __name__ == "__main__":
    run_main("quantize.py", main)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a scale model of MAG240M from its generation to its test accuracy, each phase under one
limit on all memory: of the process, the page cache, the graph and the rows.

The script prints one JSON object on stdout and a line per phase on stderr. The graph is synthetic,
of the size and the degrees of MAG240M times --scale, and the limit and the batch are those of the
original times --scale. bench/README.md describes the phases.

    scale_model.py --scale 1/64 --dir /mnt/nvme
    scale_model.py --scale 1/16 --dir /mnt/nvme --consumer 50/s
    scale_model.py --scale 1/64 --dir /mnt/nvme --opponents --venv /mnt/nvme/venv
"""
import argparse
import contextlib
import fractions
import json
import os
import re
import shutil
import signal
import sys
import tempfile

from common import ROOT, Failure, names_of, record, run_main, say, size, temporary_folder

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "scale_model"))
# pylint: disable=wrong-import-position
import phases
import opponents

MODELS = {"mag240m": {"vertices": 244_160_499, "edges": 1_728_364_232, "row_bytes": 1536}}
BATCH = 1024            # of the original
LIMIT = 24 << 30        # for the original
LIMIT_MIN = 96 << 20    # below it, the process itself is not a small part
PHASES = ("generate", "stage", "verify", "plan", "train", "unlimited", "small", "batch1024")
CONSUMERS = ("consumer", "consumer_without_window")
ABOUT = ["The graph, rows and labels are synthetic, with the sizes and degrees of the model.",
         "The machine's disk is shared or throttled: reads per second are those of this disk.",
         "The model is small: a share of the original's size, memory limit and batch."]


def scale(text):
    match = re.fullmatch(r"1/([1-9]\d*)|1", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is not a scale; use 1 or 1/N, such as 1/64")
    return fractions.Fraction(1, int(match[1] or 1))


def rate(text):
    match = re.fullmatch(r"(\d+(?:\.\d+)?)/s", text)
    if not match or not 0.001 <= float(match[1]) <= 1e6:   # as in rung train
        raise argparse.ArgumentTypeError(f"'{text}' is not a rate; use batches per second from "
                                         "0.001 to 1000000: 50/s")
    return float(match[1])


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rung", default=os.path.join(ROOT, "build", "rung"), help="(default: build/rung)")
    add("--model", choices=list(MODELS), default="mag240m")
    add("--scale", type=scale, default=scale("1/64"), help="1/N of the original (default: 1/64)")
    add("--limit", type=size, help="limit of each phase (default: 24GiB times the scale, at least "
        "96MiB)")
    add("--host", type=size, help="rung's budget (default: the limit less what is outside it)")
    add("--batch", type=int, help="seeds per batch (default: 1024 times the scale)")
    add("--epochs", type=int, default=3)
    add("--lr", type=float, default=0.001, help="of Adam, small as the batches (default: 0.001)")
    add("--dir", help="folder on the disk to measure (default: the temporary folder)")
    add("--source", help="folder with a generated dataset.json, instead of generating one")
    add("--keep", action="store_true", help="do not remove the data at the end")
    add("--phases", type=names_of(PHASES, "phase"), help=f"of {','.join(PHASES)} (default: all; "
        "unlimited and small only up to a scale of 1/64)")
    add("--consumer", type=rate, metavar="RATE/s", help="also measure a consumer that takes "
        "batches at this rate, such as 50/s, and computes nothing")
    add("--opponents", action="store_true", help="also train with PyG and GraphBolt")
    add("--venv", help="folder with their packages, created if it does not exist (default: in the "
        "data's folder)")
    add("--opponent-batches", type=int, default=100, help="their epoch is extrapolated from these, "
        "or from as many as fit in --opponent-seconds (default: 100)")
    add("--opponent-seconds", type=int, default=120, help="(default: 120)")
    add("--seed", type=int, default=1)
    args = parser.parse_args()
    args.limit = args.limit or max(int(LIMIT * args.scale), LIMIT_MIN)
    args.batch = args.batch or max(int(BATCH * args.scale), 1)
    if not args.phases:
        small = args.scale <= fractions.Fraction(1, 64)
        args.phases = [name for name in PHASES if small or name not in ("unlimited", "small")]
    if args.opponents and "train" not in args.phases:
        parser.error("--opponents needs the phase train, to compare with it")
    return args


# ---- disk space ----

def needed(args, model):
    """Bytes on the disk by part, at the moment when the most are in use."""
    vertices, edges = model["vertices"], model["edges"]
    rows = vertices * model["row_bytes"]
    parts = {"staged": rows + 24 * vertices + 8 * edges,    # both directions, 4 bytes each
             # directed edges while they are sorted by destination, and again by rank
             "temporary": 2 * 25 * edges}
    if not args.source:
        parts["generated"] = rows + 8 * vertices + 8 * edges
    if args.opponents:
        parts["opponents"] = 8 * vertices + 2 * 8 * edges
        if not opponents.is_ready(args.venv):
            parts["packages"] = 7 << 30
    return parts


def check_space(args, model, folder):
    parts = needed(args, model)
    total, free = sum(parts.values()), shutil.disk_usage(folder).free
    text = ", ".join(f"{name} {count / 1e9:.1f} GB" for name, count in parts.items())
    if free < total:
        raise Failure(f"{folder}: {free / 1e9:.1f} GB free, {total / 1e9:.1f} GB are needed "
                      f"({text}); free some, or use a smaller --scale")
    say(f"disk: {total / 1e9:.1f} GB needed ({text}), {free / 1e9:.1f} GB free")
    return {**{f"{name}_bytes": count for name, count in parts.items()}, "free_bytes": free}


def data_folder(args):
    """A folder for all data, as a context."""
    if not args.keep:
        return temporary_folder(args.dir)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))   # so that the phase ends as well
    folder = tempfile.mkdtemp(prefix="rung-bench-", dir=args.dir)
    say(f"the data are kept in {folder}")
    return contextlib.nullcontext(folder)


# ---- results ----

def print_phase(found):
    waited = found.get("wait_share")
    say(f"{found['name']:10} {found['seconds']:8.1f} s, peak {(found['peak_bytes'] or 0) >> 20:6} "
        f"MiB, read {found['read_bytes'] / 1e9:7.2f} GB, wrote {found['written_bytes'] / 1e9:6.2f} "
        "GB" + ("" if waited is None else f", waited {waited:.0%}"))


def losses(found):
    return [(epoch["loss"], epoch["valid_accuracy"], epoch["valid_loss"])
            for epoch in found["report"]["epochs"]]


def compare_losses(done):
    """Whether the losses under the limit are those of the other runs, bit for bit: JSON has all
    digits."""
    if "train" not in done:
        return None
    limited = losses(done["train"])
    found = {name: losses(done[name]) == limited[: len(done[name]["report"]["epochs"])]
             for name in ("unlimited", "small") if name in done}
    for name, same in found.items():
        if not same:
            say(f"the losses of '{name}' differ from those of 'train'")
    return found or None


def run_opponents(args, run, done, folder, found):
    found["opponents"] = opponents.run(args, run, folder)
    ours = done["train"]["epochs"][0]["seconds"]
    for name, other in found["opponents"].items():
        if isinstance(other, dict) and other.get("epoch_s"):
            other["times_the_epoch_of_rung"] = other["epoch_s"] / ours
            say(f"{name}: {other['epoch_s']:.0f} s per epoch in "
                f"{other['smallest_limit_bytes'] >> 20} MiB (rung {ours:.0f} s in "
                f"{args.limit >> 20} MiB)")


def main():
    args = parse_args()
    original = MODELS[args.model]
    model = {**original, "vertices": int(original["vertices"] * args.scale),
             "edges": int(original["edges"] * args.scale)}
    with data_folder(args) as folder:
        found = {**record("scale_model", "scale_model.py", args.rung, folder), "about": ABOUT,
                 "model": {"name": args.model, "scale": str(args.scale), **model},
                 "limit_bytes": args.limit, "batch": args.batch,
                 "disk": check_space(args, model, folder)}
        run = phases.Run(args, model, folder)
        done = {}
        wanted = [name for name in args.phases if not (name == "generate" and args.source)]
        for name in [*wanted, *(CONSUMERS if args.consumer else [])]:
            done[name] = getattr(run, name)()
            print_phase(done[name])
        found.update(phases=list(done.values()), same_losses=compare_losses(done))
        if args.opponents:
            run_opponents(args, run, done, folder, found)
    print(json.dumps(found, indent=1))
    return 0 if all((found["same_losses"] or {}).values()) else 1


if __name__ == "__main__":
    run_main("scale_model.py", main)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inserts the figures of bench/results/ into README.md, and draws the pictures in docs/img/.

usage: tools/figures.py [--check]

A table of the README stands between the lines `<!-- figures: NAME -->` and `<!-- end -->`. Each is
written again from the record that its function names. The pictures are drawn by the command
build/rung, or by that of the variable RUNG. --check changes nothing: exit 1 if a table or a picture
differs, with the lines that do.
"""

import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from statistics import mean, median

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
README = os.path.join(ROOT, "README.md")
IMAGES = os.path.join(ROOT, "docs/img")
# the command that draws each, without --svg
PICTURES = {
    "ladder.svg": ["plan", "--model", "mag240m", "--host", "24GiB", "--threads", "2"],
    "budgets.svg": ["plan", "--model", "mag240m", "--threads", "2"],
}


def record(name):
    with open(os.path.join(ROOT, "bench/results", name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def size_text(size):
    return f"{size / 2**20:.0f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"


def digits(value):
    """Three digits at most, with a comma for thousands: 41.6 -> 42, 38469 -> 38,500."""
    scale = 10 ** max(len(str(int(value))) - 3, 0)
    return f"{round(value / scale) * scale:,}"


def scale_model():
    """An epoch of training under a memory limit, by system."""
    found = record("scale_model_64")
    phases = {phase["name"]: phase for phase in found["phases"]}

    def epoch(name):
        return median(one["seconds"] for one in phases[name]["report"]["epochs"])

    ours, model = epoch("train"), found["model"]
    losses = "the same losses" if all(found["same_losses"].values()) else "other losses"
    rows = [("all rows in memory", size_text(phases["unlimited"]["peak_bytes"]),
             epoch("unlimited"), ""),
            ("**rung**", size_text(found["limit_bytes"]), ours, losses)]
    names = {"pyg, MADV_RANDOM": "PyG, memory-mapped with `MADV_RANDOM`",
             "pyg": "PyG, memory-mapped",
             "graphbolt, MADV_RANDOM": "GraphBolt on disk, with `MADV_RANDOM`",
             "graphbolt": "GraphBolt on disk"}
    others = [(name, found["opponents"][key]) for key, name in names.items()]
    rows += [(name, size_text(other["smallest_limit_bytes"]), other["epoch_s"],
              f"{digits(other['epoch_s'] / ours)} times the epoch of rung")
             for name, other in sorted(others, key=lambda pair: pair[1]["epoch_s"])]
    rows.append(consumer_row())
    title = (f"{model['vertices'] / 1e6:.1f} M vertices, "
             f"{size_text(model['vertices'] * model['row_bytes'])} of rows, GraphSAGE (25, 15)")
    return [f"| {title} | memory limit | s/epoch | |", "|---|--:|--:|---|",
            *(f"| {name} | {memory} | {seconds if isinstance(seconds, str) else digits(seconds)} | "
              f"{note} |" for name, memory, seconds, note in rows)]


def consumer_row():
    """Batches for a consumer at a fixed rate, with and without the window."""
    found = [record(f"scale_model_{scale}_consumer") for scale in (64, 16)]
    phases = [{phase["name"]: phase["report"] for phase in one["phases"] if "report" in phase}
              for one in found]

    def both(scale, key):
        return [key(phases[scale][name]) for name in ("consumer", "consumer_without_window")]

    seconds = [both(i, lambda report: report["epochs"][0]["seconds"]) for i in range(2)]
    reads = [both(i, lambda report: report["device_reads"]) for i in range(2)]
    rate = phases[0]["consumer"]["consumer"]
    return (f"{rate:.0f} batches/s consumed; **rung** with window, without",
            "; 1/16: ".join(size_text(one["limit_bytes"]) for one in found),
            "; ".join(f"{digits(one)}, {digits(other)}" for one, other in seconds),
            "; ".join(f"{one / other:.2f}" for one, other in reads) + " times the reads")


def cold_reads():
    """Rows of sampled batches with the same memory for each strategy, on two devices."""
    found = record("cold_reads")
    trace = next(one for one in found["trace"]
                 if one["graph"] == "ogbn-arxiv" and one["batch"] == 64)
    names = (("rung-window", f"**rung**: {trace['ahead']} coming batches are read together"),
             ("rung", "**rung**: each batch alone, near rows share a read"),
             ("uring-slot", "one read per row, io_uring (GNNDrive's strategy)"),
             ("uring-pages", "one read per 4 KiB page, io_uring (DiskGNN's)"),
             ("uring-rows", "one read per row, io_uring in groups (GraphBolt's)"),
             ("pread", "one read per row, `pread` in 16 threads (Ginex')"),
             ("mmap-16", "memory map, 16 threads"))

    def rows(device, key):
        return f"{trace[device][key]['rows_per_s']['median'] / 1000:,.0f} k"

    return ["| strategy | rows/s | throttled disk | reads per row |", "|---|--:|--:|--:|",
            *(f"| {name} | {rows('strategies', key)} | {rows('throttled', key)} | "
              f"{trace['strategies'][key]['reads_per_row']['median']:.2g} |"
              for key, name in names)]


def others():
    """The sentence on sampling, gathers and scores."""
    [sampled] = record("sampler")["results"]
    gathers = [one["times_as_fast_as"]["torch index_select"]["median"]
               for one in record("gather_hits")["results"]]
    cases = record("scores")["cases"] + record("scores_other")["cases"]

    def hits(score):   # with a tenth of the rows in memory
        return 100 * mean(one["scores"][score]["of_ceiling"][1] for one in cases)

    text = (
        f"Sampling on one core is {sampled['times_as_fast_as']['graphbolt']['1']['median']:.1f} "
        f"times as fast as GraphBolt's. Gathers from memory are {min(gathers):.1f} to "
        f"{max(gathers):.1f} times as fast as `torch.index_select`. With a tenth of the rows in "
        f"memory, the default score reaches {hits('blend'):.1f} % of the hits of the best fixed "
        f"order, on {len({one['graph'] for one in cases})} real graphs; two epochs of sampling "
        f"reach {hits('presample, 2 epochs'):.0f} %, and the degree {hits('degree'):.0f} %.")
    # a number and its % stay on one line
    return [line.replace("\0", " ") for line in textwrap.wrap(text.replace(" %", "\0%"), 100)]


TABLES = {"scale_model": scale_model, "cold_reads": cold_reads, "others": others}


def inserted(text):
    """The text with every table written again."""
    def table(match):
        return match[1] + "\n".join(TABLES[match[2]]()) + "\n" + match[3]

    pattern = r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)"
    return re.sub(pattern, table, text, flags=re.S)


def draw(folder):
    """Draw all pictures in a folder, and return their names."""
    rung = os.environ.get("RUNG", os.path.join(ROOT, "build/rung"))
    for name, words in PICTURES.items():
        try:
            subprocess.run([rung, *words, "--quiet", "--svg", os.path.join(folder, name)],
                           check=True, stdout=subprocess.DEVNULL)
        except FileNotFoundError:
            sys.exit(f"figures.py: {rung} was not found; build rung, or set RUNG")
    return sorted(PICTURES)


def differences(old_path, new, name):
    """Lines that differ between a file and its new text."""
    old = ""
    if os.path.exists(old_path):
        with open(old_path, encoding="utf-8") as file:
            old = file.read()
    return list(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name,
                                     "from the records"))


def check(new_readme):
    """Print all differences, and return whether there are any."""
    lines = differences(README, new_readme, "README.md")
    with tempfile.TemporaryDirectory(prefix="rung-figures-") as folder:
        for name in draw(folder):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                lines += differences(os.path.join(IMAGES, name), file.read(), "docs/img/" + name)
    sys.stdout.writelines(lines)
    return bool(lines)


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    with open(README, encoding="utf-8") as file:
        new = inserted(file.read())
    if not sys.argv[1:]:
        with open(README, "w", encoding="utf-8") as file:
            file.write(new)
        draw(IMAGES)
    elif check(new):
        sys.exit("figures.py: README.md or a picture differs; run tools/figures.py")


if __name__ == "__main__":
    main()

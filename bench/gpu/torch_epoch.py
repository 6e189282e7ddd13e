#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rung in a training process with torch, on a GPU: the order of work on streams, graph capture, an
epoch of GraphSAGE, interference, and two processes on one store.

    torch_epoch.py --dir /dev/shm
    torch_epoch.py --parts streams,capture --limit 60

Prints a JSON object on stdout, and one line per part on stderr. Each part is a process with its own
time limit, on a data set that `rung stage` creates in a temporary folder. Rows are derived from
their vertices, so that the GPU can compute the expected rows. Parts that cannot run are reported as
skipped, with the reason. parts/torch_parts.py lists the parts.

Exit: 0 done, 1 a part failed or exceeded its limit, 2 usage, 77 no part could run.
"""
import argparse
import contextlib
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIMITS = {"streams": 90, "capture": 60, "epoch": 240, "interference": 60, "processes": 60}
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SKIPPED = 77


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- options ----------------------------------------------------------------------------------

def size(text):
    match = re.fullmatch(r"(\d+)([KMG]iB)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size; use bytes, or a number with "
                                         "KiB, MiB or GiB")
    return int(match[1]) * UNITS[match[2] or ""]


def part_list(text):
    unknown = [name for name in text.split(",") if name not in LIMITS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown part '{unknown[0]}'; use {', '.join(LIMITS)}")
    return text.split(",")


def row_size(text):
    found = size(text)
    if not found or found % 4:
        raise argparse.ArgumentTypeError(f"'{text}': rows of float32 need a multiple of 4 bytes")
    return found


def positive(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return int(text)


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--parts", type=part_list, default=list(LIMITS), help=",".join(LIMITS) + " (default: all)")
    add("--device", choices=("cuda", "cpu"), default="cuda",
        help="cpu: run only the parts that need no GPU")
    add("--dir", default=None, help="needs 1.5 times the features (default: $TMPDIR)")
    add("--out", default=None, help="write the JSON object to this file as well")
    add("--rung", default=None, help="the command (default: $RUNG, next to the library, on PATH)")
    add("--limit", type=positive, default=None, metavar="SECONDS",
        help=f"of each part (default: {', '.join(f'{k} {v}' for k, v in LIMITS.items())})")
    add("--features-bytes", type=size, default=size("2GiB"), help="all rows (default: 2GiB)")
    add("--row-bytes", type=row_size, default=1024, help="of each row (default: 1024)")
    add("--degree", type=positive, default=15, help="edges per vertex (default: 15)")
    add("--fanouts", default="15,10", help="fanouts of GraphSAGE (default: 15,10)")
    add("--batch-size", type=positive, default=1024, help="seeds per batch (default: 1024)")
    add("--train-share", type=float, default=0.05, help="share of the vertices (default: 0.05)")
    add("--hidden", type=positive, default=256, help="width of the layers (default: 256)")
    add("--epochs", type=positive, default=3, help="measured epochs, after a warm-up (default: 3)")
    add("--batches", type=positive, default=1000, help="batches on each stream (default: 1000)")
    add("--batch-rows", type=positive, default=4096, help="rows of these batches (default: 4096)")
    add("--gpu", default="30%", help="rows on the GPU (default: 30%%)")
    add("--host", default="40%", help="rows in host memory (default: 40%%)")
    add("--engine", default="auto", help="how cold rows are read: auto, io_uring or pread")
    add("--ways", default=None, help="comma-separated results of `epoch` to measure (default: all)")
    add("--run", choices=[*LIMITS, "attached"], default=None, help=argparse.SUPPRESS)
    add("--data", default=None, help=argparse.SUPPRESS)    # of --run: the data set
    add("--share", default=None, help=argparse.SUPPRESS)   # of --run attached: the store
    return parser


def find_command(given):
    """The path of the rung command, or None."""
    beside = os.path.join(os.path.dirname(os.environ.get("RUNG_LIBRARY", "")) or ".", "rung")
    for path in (given, os.environ.get("RUNG"), beside, shutil.which("rung")):
        if path and os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    return None


# ---- the data set -----------------------------------------------------------------------------

def make_dataset(args, rung, folder):
    """Stages a data set and returns its description."""
    import numpy as np   # pylint: disable=import-outside-toplevel

    from torch_run import rows_of   # pylint: disable=import-outside-toplevel

    begun = time.monotonic()
    vertices, width = args.features_bytes // args.row_bytes, args.row_bytes // 4
    if vertices < 64:
        raise ValueError(f"--features-bytes {args.features_bytes}: {vertices} rows; use 64 or more")
    numbers = np.random.default_rng(1)
    sources = (vertices * numbers.random(vertices * args.degree, np.float32) ** 3).astype(np.int64)
    edges = np.stack([sources * 7919 % vertices,   # scatters the hot vertices
                      numbers.integers(0, vertices, vertices * args.degree)]).astype(np.uint32)
    np.save(os.path.join(folder, "edges.npy"), edges)
    train = numbers.choice(vertices, max(int(vertices * args.train_share), 1), replace=False)
    np.save(os.path.join(folder, "train.npy"), np.sort(train))
    np.save(os.path.join(folder, "labels.npy"), np.arange(vertices) % 32)
    features = os.path.join(folder, "features.raw")
    with open(features, "wb") as out:
        for first in range(0, vertices, 1 << 16):
            ids = np.arange(first, min(first + (1 << 16), vertices))
            rows_of(np, ids, width).tofile(out)
    data = os.path.join(folder, "data")
    command = [rung, "stage", "--json", "--quiet", "--graph", f"{folder}/edges.npy",
               "--features", f"raw:{features},f32,{vertices}x{width}",
               "--labels", f"{folder}/labels.npy", "--split", f"train={folder}/train.npy",
               "--fanout", args.fanouts, "--batch", str(args.batch_size), "--out", data]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"rung stage: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    for name in ("edges.npy", "train.npy", "labels.npy", "features.raw"):
        os.unlink(os.path.join(folder, name))
    return {"vertices": int(vertices), "edges": int(edges.shape[1]), "row_bytes": args.row_bytes,
            "train": len(train), "seconds": time.monotonic() - begun}


# ---- the parts, as processes ------------------------------------------------------------------

class Part:
    """One part: a process group that prints results as JSON objects {key: value}, one per line."""

    def __init__(self, name, limit, command):
        self.name, self.limit, self.command = name, limit, command
        self.process = None
        self.record = {"status": "skipped", "reason": "the run was stopped", "seconds": 0.0,
                       "results": {}}

    def end(self):
        """Kills the process and its children, so that none of them keeps using the GPU."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def _read(self, path):
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                # a killed process may leave a partial line
                if line.startswith("{") and line.endswith("}\n"):
                    self.record["results"].update(json.loads(line))

    def _judge(self, rc, errors):
        last = next((line for line in reversed(errors.splitlines()) if line.strip()), "")
        # faulthandler prints the error, and the calls of the thread after a line that names it
        crash = re.search(r"^(Fatal Python error: [^\n]*).*?^Current thread [^\n]*\n\s*([^\n]*)",
                          errors, re.M | re.S)
        if rc < 0 and crash:
            last = f"{crash[1]}: {crash[2]}"
        if rc == 0:
            return "passed", ""
        if rc == SKIPPED:
            return "skipped", last
        ended = f"signal {-rc}" if rc < 0 else f"exit {rc}"
        return "failed", f"{ended}: {last[:500]}"

    def run(self, folder):
        """Runs the part with its output in files, which keep the output of a killed process."""
        begun = time.monotonic()
        out, err = (os.path.join(folder, f"{self.name}.{kind}") for kind in ("out", "err"))
        with open(out, "wb") as stdout, open(err, "wb") as stderr:
            self.process = subprocess.Popen(   # pylint: disable=consider-using-with
                self.command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                start_new_session=True)
            try:
                rc = self.process.wait(self.limit)
            except subprocess.TimeoutExpired:
                rc = None
            finally:
                self.end()
                self.process.wait()
                self._read(out)
        with open(err, encoding="utf-8", errors="replace") as file:
            errors = file.read()
        status, reason = (("failed", f"ended after {self.limit} s") if rc is None
                          else self._judge(rc, errors))
        self.record.update(status=status, reason=reason, seconds=time.monotonic() - begun)
        if status == "failed":
            self.record["output"] = [line[:500] for line in errors.splitlines()[-60:]]


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = re.search(r"model name\s*: (.+)", info.read())
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        gpus = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        gpus = ""
    return {"gpus": gpus.splitlines(), "cpu": model[1] if model else platform.machine(),
            "cpus": os.cpu_count(), "kernel": platform.release(),
            "python": platform.python_version()}


def commit():
    packed = os.path.join(ROOT, "COMMIT")
    if os.path.exists(packed):
        with open(packed, encoding="utf-8") as file:
            return file.read().strip() or None
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True,
                          capture_output=True, check=False) if shutil.which("git") else None
    return done.stdout.strip() if done and done.returncode == 0 else None


def passed_on(words):
    """The options of this run, without those that concern only the parent process."""
    kept, words = [], iter(words)
    for word in words:
        if word in ("--parts", "--dir", "--out", "--rung", "--limit"):
            next(words, None)
        elif not word.startswith(("--parts=", "--dir=", "--out=", "--rung=", "--limit=")):
            kept.append(word)
    return kept


def run_parts(args, words, folder, record):
    rung = find_command(args.rung)
    if rung is None:
        raise ValueError("no rung command was found: give --rung")
    record["dataset"] = make_dataset(args, rung, folder)
    say(f"data set: {record['dataset']['vertices']} rows, {record['dataset']['seconds']:.1f} s")
    for name in args.parts:
        part = Part(name, args.limit or LIMITS[name],
                    [sys.executable, "-B", "-X", "faulthandler", os.path.abspath(__file__),
                     *passed_on(words), "--run", name,
                     "--data", os.path.join(folder, "data")])
        record["parts"][name] = part.record
        part.run(folder)
        say(f"{part.record['status']:8} {name:13} {part.record['seconds']:6.1f} s  "
            f"{part.record['reason']}")


def stopped(number, _frame):
    raise SystemExit(128 + number)


def write(record, out):
    print(json.dumps(record), flush=True)   # on one line: tests/gpu/run.sh extracts it from a log
    if out:
        with open(out + ".partial", "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
        os.replace(out + ".partial", out)


def main(words):
    args = make_parser().parse_args(words)
    sys.path.insert(0, os.path.join(HERE, "parts"))
    if args.run:
        from torch_parts import run_part   # pylint: disable=import-outside-toplevel

        return run_part(args)
    signal.signal(signal.SIGTERM, stopped)
    record = {"benchmark": "torch_epoch",
              "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit(),
              "command": shlex.join(["bench/gpu/torch_epoch.py",
                                     *(word.replace(ROOT + os.sep, "") for word in words)]),
              "machine": machine(),
              "options": {key: value for key, value in vars(args).items()
                          if key not in ("run", "data", "share", "dir", "out", "rung")},
              "dataset": None, "failure": None, "parts": {}}
    try:
        with tempfile.TemporaryDirectory(prefix="rung-torch-epoch-", dir=args.dir) as folder:
            run_parts(args, words, folder, record)
    except (OSError, ValueError, ImportError) as error:
        record["failure"] = str(error)
        say(f"torch_epoch.py: {error}")
    finally:
        for name in args.parts:
            record["parts"].setdefault(name, {"status": "skipped", "reason": "it was not started",
                                              "seconds": 0.0, "results": {}})
        write(record, args.out)
    found = {part["status"] for part in record["parts"].values()}
    if record["failure"] or "failed" in found:
        return 1
    return 0 if "passed" in found else SKIPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

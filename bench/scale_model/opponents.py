# SPDX-License-Identifier: Apache-2.0
"""PyG and GraphBolt on the model of scale_model.py, each under the limit, in an environment with
the newest packages from PyPI that work together."""
import json
import os
import subprocess
import sys

from common import run_text, say
from phases import evict, run_limited

HERE = os.path.dirname(os.path.abspath(__file__))
# dgl 2.1.0 is the newest GraphBolt on PyPI, and its libraries are built for torch up to 2.2.1.
PACKAGES = ("torch==2.2.1", "torchdata==0.7.1", "dgl==2.1.0", "torch_geometric", "numpy<2",
            "pandas<2.3", "pydantic", "pyyaml", "setuptools", "wheel", "ninja")
# PyG's sampler needs one of pyg-lib, which PyPI does not have, and torch-sparse, which is compiled
# for the torch that is installed: half an hour on two cores.
COMPILED = ("torch-scatter", "torch-sparse")
MARKER = "rung-opponents-ready"   # a file in the environment: the installation was completed
PROGRAMS = {"graphbolt": "dgl.graphbolt", "pyg": "torch_sparse"}   # and what they import
LIMIT_MAX = 16 << 30
START_SECONDS = 120   # to import packages and to open the data, before the first batch


def python_of(venv):
    return os.path.join(venv, "bin", "python")


def is_ready(venv):
    """Whether the packages need no installation. An environment without the marker was created by
    hand, or its installation was stopped: then the packages must work."""
    if not venv or not os.path.exists(python_of(venv)):
        return False
    return (os.path.exists(os.path.join(venv, MARKER))
            or why_absent(python_of(venv), "torch, numpy") is None)


def make_venv(venv):
    """Installs the packages. A package that does not install is reported by its program."""
    if is_ready(venv):
        return
    say(f"installing {', '.join(PACKAGES)}")
    run_text([sys.executable, "-m", "venv", venv])
    pip = [python_of(venv), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run_text([*pip, *PACKAGES])
    say(f"compiling {', '.join(COMPILED)}")
    path = os.path.join(venv, "bin") + os.pathsep + os.environ["PATH"]   # where ninja is
    done = subprocess.run([*pip, "--no-build-isolation", *COMPILED], check=False, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          env={**os.environ, "PATH": path})
    if done.returncode:
        say(done.stderr[-2000:])
    with open(os.path.join(venv, MARKER), "w", encoding="utf-8"):
        pass


def why_absent(python, module):
    done = subprocess.run([python, "-c", f"import {module}"], check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return (done.stderr.strip().splitlines() or ["failed"])[-1] if done.returncode else None


def read_ahead(folder):
    """Bytes that the kernel reads ahead in a memory map of a file in the folder, or None."""
    device = os.stat(folder).st_dev
    path = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    for queue in (f"{path}/queue", f"{path}/../queue"):   # a disk, or a partition of it
        try:
            with open(f"{queue}/read_ahead_kb", encoding="utf-8") as file:
                return int(file.read()) * 1024
        except OSError:
            pass
    return None


def attempt(args, command, limit, folders):
    """Runs a program once. Returns what was measured, and its report: None if it was killed or too
    slow, with `failed` if it ended with an error."""
    evict(*folders)
    text, messages, found = run_limited(command, limit, folders[0],
                                        {"OMP_NUM_THREADS": str(os.cpu_count())},
                                        START_SECONDS + args.opponent_seconds)
    tried = {"limit_bytes": limit, **{key: found[key] for key in (
        "killed", "stopped", "seconds", "peak_bytes", "read_bytes")}}
    if found["killed"] or found["stopped"]:
        return tried, None
    if found["exit"]:
        say(messages[-4000:])
        return tried, {"failed": (messages.strip().splitlines() or ["no message"])[-1]}
    report = json.loads(text.splitlines()[-1])
    return tried, {**report, "process_peak_bytes": found["process_peak_bytes"]}


def run_one(args, command, folders):
    """Runs a program under the limit; if the limit kills it, or leaves so little for the page cache
    that no batch is ready in time, under twice the limit, and so on."""
    tries, limit = [], args.limit
    while True:
        tried, report = attempt(args, command, limit, folders)
        tries.append(tried)
        if report or limit >= LIMIT_MAX:
            break
        say(f"  {'killed' if tried['killed'] else 'too slow'} at {limit >> 20} MiB after "
            f"{tried['seconds']:.0f} s")
        limit *= 2
    if not report or "failed" in report:
        return {**(report or {}), "tries": tries, "smallest_limit_bytes": None}
    # measured by the program from its first batch; packages and opening are not part of it
    return {**report, "tries": tries, "smallest_limit_bytes": limit,
            "epoch_s": report["seconds"] * report["batches_per_epoch"] / report["batches"],
            "extrapolated": report["batches"] < report["batches_per_epoch"]}


def run(args, run_of, folder):
    venv = args.venv or os.path.join(folder, "venv")
    make_venv(venv)
    python, graph = python_of(venv), os.path.join(folder, "opponents")
    os.makedirs(graph, exist_ok=True)
    say("opponents: sorting the edges by destination")
    run_text([python, os.path.join(HERE, "prepare.py"), run_of.description, graph])
    found = {"read_ahead_bytes": read_ahead(run_of.source)}
    for name, module in PROGRAMS.items():
        absent = why_absent(python, module)
        if absent:
            found[name] = {"absent": absent}
            say(f"{name}: {absent}")
            continue
        for variant, more in ((name, []), (f"{name}, MADV_RANDOM", ["--random"])):
            command = [python, os.path.join(HERE, f"{name}_epoch.py"), run_of.source, graph,
                       "--batch", str(args.batch), "--batches", str(args.opponent_batches),
                       "--seconds", str(args.opponent_seconds), "--seed", str(args.seed), "--lr",
                       str(args.lr), *more]
            say(variant)
            found[variant] = {"command": run_of.shown(["python", *command[1:]]),
                              **run_one(args, command, [folder, run_of.source, graph])}
    return found

# SPDX-License-Identifier: Apache-2.0
"""Code shared by the benchmark scripts: running commands, staging data, graphs, and the description
of the machine in a record."""
import argparse
import array
import glob
import json
import os
import platform
import random
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
EDGES_CHUNK = 1 << 20
DATA_OFFSET = 4096   # of the array in a file of a dataset: docs/FORMAT.md


class Failure(Exception):
    """Ends the run with its message."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def size(text):
    match = re.fullmatch(r"(\d+)([KMG]iB)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is not a valid size; use bytes, or a number "
                                         "with KiB, MiB or GiB")
    return int(match[1]) * UNITS[match[2] or ""]


def sizes(text):
    return [size(one) for one in text.split(",")]


def numbers(text):
    return [int(n) for n in text.split(",")]


def names_of(known, what):
    """The type of an argument that is a list of names, such as "a,b"; `what` is one of them."""
    def parse(text):
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown {what} '{name}'; use {', '.join(known)}")
        return text.split(",")
    return parse


def run_text(command, enter=None):
    """The output of a command. `enter` is called in the child before it, see limit.py."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=enter, check=False)
    if done.returncode != 0:
        raise Failure(f"{shlex.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def run_json(command, enter=None):
    out = run_text(command, enter)
    return json.loads(out[out.index("{"):])


def as_typed(command):
    """A command as typed at the top of the checkout, without the machine's path."""
    return shlex.join([os.path.relpath(command[0], ROOT) if command[0].startswith(ROOT + os.sep)
                       else command[0]] + command[1:])


def command_line(script):
    """The command line of this run, without options that name folders of this machine."""
    words = iter(sys.argv[1:])
    kept = [word for word in words if not (word in ("--rung", "--programs", "--dir", "--torch",
                                                    "--numpy", "--peers", "--venv", "--source",
                                                    "--graph", "--graphs")
                                          and next(words, None))]
    return shlex.join([f"bench/{script}", *kept])


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


# ---- programs that run in turn ----

class Worker:
    """A program that executes one command at a time, sent to it as a line."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)   # pylint: disable=consider-using-with
        self.command = command

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"{self.command[0]}: ended with status {self.process.wait()}")
        return line.strip()

    def begin(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()

    def order(self, *words):
        self.begin(*words)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def missing(python, library):
    """The reason why this Python cannot import the library, or None."""
    if not python or not shutil.which(python):
        return f"{python} was not found"
    done = subprocess.run([python, "-c", f"import numpy, {library}"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


# ---- datasets ----

def write_skewed_edges(path, rows, edges, seed, step=1):
    """Sources with low ids are hot. A step without a common factor with `rows` spreads the hot
    sources over all ids."""
    draws = random.Random(seed)
    with open(path, "wb") as out:
        for hot in (True, False):
            for first in range(0, edges, EDGES_CHUNK):
                raw = array.array("Q", draws.randbytes(8 * min(EDGES_CHUNK, edges - first)))
                ids = (int(rows * ((value >> 11) / (1 << 53)) ** 2) * step % rows if hot
                       else value % rows for value in raw)
                array.array("I", ids).tofile(out)


def write_random(path, total):
    with open(path, "wb") as out:
        for start in range(0, total, CHUNK_BYTES):
            out.write(os.urandom(min(CHUNK_BYTES, total - start)))


def write_hole(path, total):
    """A sparse file of zeros."""
    with open(path, "wb") as out:
        out.truncate(total)


def write_edges(path, vertices):
    """EDGES random pairs of u32; the graph serves only to order the rows."""
    ids = array.array("I", os.urandom(8 * EDGES))
    with open(path, "wb") as out:
        array.array("I", (i % vertices for i in ids)).tofile(out)


def stage(rung, features, vertices, row_bytes, out):
    """Stages the rows of a raw file in some order. Returns the spec of its features."""
    source = f"raw:{features},u8,{vertices}x{row_bytes}"
    edges = f"{out}.edges"
    write_edges(edges, vertices)
    run_json([rung, "stage", "--json", "--quiet", "--graph", f"raw:{edges},u32,2x{EDGES}",
              "--features", source, "--score", "degree",
              "--out", out])
    os.unlink(edges)
    return source


def features_file(rung, dataset):
    """The path of the features file, whose row 0 is at DATA_OFFSET."""
    files = run_json([rung, "info", "--json", dataset])["files"]
    largest = max((entry for entry in files if entry["name"].startswith("features")),
                  key=lambda entry: entry["bytes"])
    return os.path.join(dataset, largest["name"])


def sector_bytes(rung, dataset):
    """The unit of direct reads: 512 bytes, or 4096 on some drives."""
    return run_json([rung, "plan", "--json", "--quiet", "--host", "max", dataset])["sector_bytes"]


def lists_bytes(dataset):
    """The bytes of all neighbour lists, in blocks of 512. Gathers are measured without sampling, so
    with `--structure max` and a host budget that is larger by these bytes."""
    lists = os.path.getsize(os.path.join(dataset, "graph_indices.npy")) - DATA_OFFSET
    return -(-lists // 512) * 512


def drop_cached(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


# ---- graphs ----

def find_graph(path, name="arxiv.npz"):
    """A file of a graph: the given path, or in $RUNG_TEST_DATA, or next to the checkout; else
    None."""
    folders = [os.environ.get("RUNG_TEST_DATA", ""), os.path.join(ROOT, "..", "shared", "data")]
    for file in [path] if path else [os.path.join(folder, name) for folder in folders if folder]:
        if os.path.exists(file):
            return os.path.abspath(file)
    return None


def arxiv(path):
    return {"name": "ogbn-arxiv", "vertices": 169343, "edges": f"{path}:edge_index",
            "train": f"{path}:train_idx",
            "directions": {"as cited": False, "both directions": True}}


def rmat(scale, seed, folder, edge_factor=16):
    """Edges by R-MAT (Chakrabarti, Zhan, Faloutsos 2004), with the parameters of Graph500, which
    has 16 edges per vertex."""
    import numpy as np   # pylint: disable=import-outside-toplevel
    rng, vertices = np.random.default_rng(seed), 1 << scale
    ends = np.zeros((2, edge_factor * vertices), np.int32)
    for bit in range(scale):
        draw = rng.random(ends.shape[1], dtype=np.float32)
        ends[0] |= (draw >= 0.76).astype(np.int32) << bit
        ends[1] |= (((draw >= 0.57) & (draw < 0.76)) | (draw >= 0.95)).astype(np.int32) << bit
    name = rng.permutation(vertices).astype(np.int32)   # so that ids do not reveal degrees
    np.save(os.path.join(folder, "edges.npy"), name[ends])
    np.save(os.path.join(folder, "train.npy"),
            np.sort(rng.choice(vertices, vertices // 100, replace=False)).astype(np.int64))
    return {"name": f"R-MAT, scale {scale}, {edge_factor} edges per vertex, 0.57 0.19 0.19 0.05, "
                    "1 % train vertices",
            "vertices": vertices, "edges": os.path.join(folder, "edges.npy"),
            "train": os.path.join(folder, "train.npy"),
            "directions": {"as drawn": False}}


def stage_graph(rung, graph, row_bytes, score, undirected, out, *more):
    """Stages a graph with features of zeros. `more`: further options of rung stage."""
    features = f"{out}.features"
    write_hole(features, graph["vertices"] * row_bytes)
    run_json([rung, "stage", "--json", "--quiet", "--graph", graph["edges"],
              *(["--undirected"] if undirected else []),
              "--features", f"raw:{features},u8,{graph['vertices']}x{row_bytes}", "--split",
              f"train={graph['train']}",
              "--score", score, *more, "--out", out])
    os.unlink(features)


# ---- the record ----

def lines(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          cwd=ROOT, check=False)
    return done.stdout.splitlines() if done.returncode == 0 and done.stdout else [None]


def first_line(*command):
    return lines(*command)[0]


def caches():
    """The caches of the first CPU that this process may use, if the kernel reports them."""
    found = []
    for path in sorted(glob.glob(f"/sys/devices/system/cpu/cpu{min(os.sched_getaffinity(0))}"
                                 "/cache/index*")):
        def text(name, folder=path):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                return file.read().strip()
        try:
            found.append({"level": int(text("level")), "type": text("type"),
                          "bytes": int(text("size").rstrip("K")) * 1024,
                          "shared_by_cpus": text("shared_cpu_list")})
        except (OSError, ValueError):
            continue
    return found


def memory_bytes(key):
    """MemTotal or MemAvailable."""
    with open("/proc/meminfo", encoding="utf-8") as info:
        return int(re.search(rf"{key}:\s+(\d+)", info.read())[1]) * 1024


def machine(folder=None):
    """The machine; with a folder, also its file system and device."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = re.search(r"model name\s*: (.+)", info.read())
    what = {"cpu": model[1] if model else platform.machine(), "cpus": os.cpu_count(),
            "caches": caches(), "memory_bytes": memory_bytes("MemTotal"),
            "kernel": platform.release()}
    if folder:
        what.update(filesystem=first_line("stat", "-f", "-c", "%T", folder),
                    device=lines("df", "--output=source", folder)[-1])
    return what


def record(benchmark, script, rung, folder=None):
    """The keys at the start of every record."""
    return {"benchmark": benchmark, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "commit": first_line("git", "describe", "--always", "--dirty"),
            "rung": first_line(rung, "--version"),
            "command": command_line(script), "machine": machine(folder)}


def temporary_folder(where):
    """A folder that is removed in every case, including SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return tempfile.TemporaryDirectory(prefix="rung-bench-", dir=where)


def run_main(script, main):
    try:
        sys.exit(main())
    except Failure as failure:
        say(f"{script}: {failure}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)

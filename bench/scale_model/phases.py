# SPDX-License-Identifier: Apache-2.0
"""The phases of scale_model.py: one command each, under the limit."""
import json
import os
import shlex
import signal
import subprocess
import threading
import time

from common import ROOT, Failure, as_typed, drop_cached, say
from limit import Limit

FANOUT = "25,15"
# Memory of the process outside --host: 4 bytes per vertex of labels and 2 for the rest, and its
# code, libraries and heap.
VERTEX_BYTES = 6
PROCESS_BYTES = 24 << 20
# The rows of a batch are in memory about ten times: five buffers of the loader with a margin, a
# copy in float32, and the model's means and gradients.
BATCH_COPIES = 10


def evict(*folders):
    """Evict the files of earlier phases from the page cache: their pages are charged to a group
    that no longer exists, so the next phase would use them for free."""
    for folder in folders:
        for base, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(base, name)
                if os.path.isfile(path):
                    drop_cached(path)


def io_of(pid):
    """Bytes read and written on disks by a process that has ended and is not yet reaped."""
    with open(f"/proc/{pid}/io", encoding="utf-8") as file:
        words = dict(line.split(": ") for line in file.read().splitlines())
    return {"read_bytes": int(words["read_bytes"]), "written_bytes": int(words["write_bytes"])}


def wait(process):
    """Waits for the process. Returns its I/O and its peak of resident memory."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    counted = io_of(process.pid)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {**counted, "process_peak_bytes": used.ru_maxrss * 1024, "cpu_s": used.ru_utime
            + used.ru_stime}


def run_limited(command, limit_bytes, folder, env=None, seconds=None):
    """Runs a command under the limit; None: without one. Returns its output, its messages, and
    what was measured. `killed`: the limit was too small. `stopped`: it took longer than
    `seconds`."""
    out, err = (os.path.join(folder, name) for name in ("stdout", "stderr"))
    env = {**os.environ, "TMPDIR": folder, "OMP_WAIT_POLICY": "passive", **(env or {})}
    with Limit(limit_bytes or 1 << 62) as limit, open(out, "wb") as stdout, open(err,
                                                                                "wb") as stderr:
        if limit_bytes and limit.kind is None:
            raise Failure("no control group can be created: run as root, or where systemd-run "
                          "--user works")
        began = time.monotonic()
        process = subprocess.Popen(limit.wrap(command), preexec_fn=limit.enter, env=env,
                                   stdin=subprocess.DEVNULL, stdout=stdout,
                                   stderr=stderr)   # pylint: disable=consider-using-with
        too_late = threading.Event()   # set before the process is killed, unlike timer.finished

        def stop():
            too_late.set()
            process.kill()

        timer = threading.Timer(seconds or threading.TIMEOUT_MAX, stop)
        timer.start()
        try:
            used = wait(process)
            stopped = too_late.is_set() and process.returncode == -signal.SIGKILL
            timer.cancel()
        except BaseException:
            timer.cancel()
            process.kill()
            process.wait()
            raise
        found = {"command": None, "seconds": time.monotonic() - began, "exit": process.returncode,
                 "limit_bytes": limit_bytes, "limit_kind": limit.kind if limit_bytes else None,
                 "peak_bytes": limit.peak(), **used,
                 "stopped": stopped,
                 "killed": process.returncode == -9 and not stopped and limit.kills() != 0}
    with open(out, encoding="utf-8") as file:
        text = file.read()
    with open(err, encoding="utf-8", errors="replace") as file:
        messages = file.read()
    return text, messages, found


class Run:
    """The commands of a run, which share folders and the limit."""

    def __init__(self, args, model, folder):
        self.args, self.model, self.folder = args, model, folder
        self.source = args.source or os.path.join(folder, "source")
        self.staged = os.path.join(folder, "staged")
        self.description = os.path.join(self.source, "dataset.json")

    def shown(self, command):
        """The command as typed, with DIR for the folder of the data."""
        return as_typed(command).replace(self.folder, "DIR").replace(ROOT + "/", "")

    def measure(self, name, command, limit):
        """Runs a phase. Returns what was measured, with its report."""
        evict(self.source, self.staged)
        say(f"{name}: {self.shown(command)}")
        text, messages, found = run_limited(command, limit, self.folder)
        if found["killed"]:
            raise Failure(f"{name}: killed by the limit of {limit >> 20} MiB; use a larger "
                          f"--limit, or a smaller --host\n{messages}")
        if found["exit"]:
            raise Failure(f"{name}: {shlex.join(command)}: exit {found['exit']}\n{messages}{text}")
        return {"name": name, **found, "command": self.shown(command),
                "report": json.loads(text[text.index("{"):].replace(self.folder, "DIR"))}

    def rung(self, name, *words, limit=0):
        args = self.args
        return self.measure(name, [args.rung, words[0], "--json", "--quiet", *words[1:]],
                            args.limit if limit == 0 else limit)

    def memory(self):
        """For commands that keep data in files. A third is left for the page cache."""
        return str(self.args.limit * 2 // 3)

    def generate(self):
        args = self.args
        return self.rung("generate", "generate", self.source, "--model", args.model, "--scale",
                         str(args.scale), "--seed", str(args.seed), "--memory", self.memory())

    def stage(self):
        return self.rung("stage", "stage", "--dataset", self.description, "--fanout", FANOUT,
                         "--batch", str(self.args.batch), "--memory", self.memory(), "--out",
                         self.staged)

    def verify(self):
        return self.rung("verify", "verify", self.staged, "--dataset", self.description,
                         "--memory", self.memory())

    def host(self):
        """--host: the limit, less what is outside it."""
        args = self.args
        if args.host:
            return args.host
        rows = self.rows_per_batch(args.batch)
        outside = (VERTEX_BYTES * self.model["vertices"] + PROCESS_BYTES + self.batch_bytes(rows)
                   + args.limit // 16)
        if args.limit <= outside:
            raise Failure(f"--limit: {args.limit >> 20} MiB leave no budget for rung, "
                          f"{outside >> 20} MiB are used outside it; give more, or a smaller "
                          "--batch")
        return args.limit - outside

    def batch_bytes(self, rows):
        return int(BATCH_COPIES * rows * self.model["row_bytes"])

    def rows_per_batch(self, batch):
        """Rows of a sampled batch, by a plan without a limit."""
        command = [self.args.rung, "plan", "--json", "--quiet", self.staged, "--host", "max",
                   "--batch", str(batch)]
        text, messages, found = run_limited(command, None, self.folder)
        if found["exit"]:
            raise Failure(f"{shlex.join(command)}: exit {found['exit']}\n{messages}")
        return json.loads(text)["rows_per_batch"]

    def plan(self):
        found = self.rung("plan", "plan", self.staged, "--host", str(self.host()), "--batch",
                          str(self.args.batch))
        return {**found, "hit_share": {tier["name"]: tier["hit_share"]
                                       for tier in found["report"]["tiers"]}}

    def train_with(self, name, *words, limit=0):
        found = self.rung(name, "train", self.staged, *words, limit=limit)
        report = found["report"]
        hits = {tier["name"]: tier["hits"] for tier in report["tiers"]}
        requested, seconds = sum(hits.values()), sum(e["seconds"] for e in report["epochs"])
        return {**found, "hits": hits, "cache_hits": report["cache_hits"],
                "requested_rows": requested,
                "epochs": [{key: epoch[key] for key in ("loss", "seconds", "stall_s", "batches",
                                                        "rows", "valid_accuracy")}
                           for epoch in report["epochs"]],
                "reads_per_requested_row": report["device_reads"] / requested,
                "list_reads_per_batch": report["structure"]["reads_per_batch"],
                "wait_share": sum(epoch["stall_s"] for epoch in report["epochs"]) / seconds,
                "rows_per_s": sum(epoch["rows"] for epoch in report["epochs"]) / seconds,
                "test_accuracy": report["test_accuracy"],
                "majority_accuracy": report["majority_accuracy"]}

    def seeded(self, epochs, batch=None):
        args = self.args
        return ("--epochs", str(epochs), "--batch", str(batch or args.batch), "--lr", str(args.lr),
                "--seed", str(args.seed))

    def train(self):
        return self.train_with("train", "--host", str(self.host()), *self.seeded(self.args.epochs))

    def unlimited(self):
        """All rows in memory, without a limit."""
        return self.train_with("unlimited", "--host", "max", *self.seeded(self.args.epochs),
                               limit=None)

    def small(self):
        """The first epoch with a quarter of the budget."""
        return self.train_with("small", "--host", str(self.host() // 4), *self.seeded(1))

    def batch1024(self):
        """The original's batch, under a limit that is raised by the memory of its batches."""
        rows = self.rows_per_batch(1024)
        found = self.train_with("batch1024", "--host", str(self.host()), *self.seeded(1, 1024),
                                limit=self.args.limit + self.batch_bytes(rows))
        return {**found, "rows_per_batch": rows}

    def consumer(self, name="consumer", *words):
        """Batches at a fixed rate, nothing computed: the path of the features is the bound."""
        found = self.train_with(name, "--host", str(self.host()), "--consumer",
                                str(self.args.consumer), *words, *self.seeded(1))
        (epoch,) = found["epochs"]
        return {**found, "requested_rate": self.args.consumer,
                "achieved_rate": epoch["batches"] / epoch["seconds"]}

    def consumer_without_window(self):
        """The same, without reading rows ahead; the budget is divided for that."""
        return self.consumer("consumer_without_window", "--window", "0")

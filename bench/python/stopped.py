#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long a stopped process delays another one that shares a store with it.

The script prints one JSON object on stdout and a line on stderr. Run it with a Python that has
numpy and the package rung, or RUNG_LIBRARY and PYTHONPATH. bench/README.md describes the timed
regions.
"""
import argparse
import json
import os
import random
import signal
import statistics
import sys
import threading
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import ROOT, Failure, Worker, record, run_main, say, spread, temporary_folder

import rung

ASKED_MS = 200
MOVED_S = 0.05      # longest time for which the other process works between two stops


def gathers(store, args, seed):
    """Calls gather() for rows of one part of the file, most of which fit the cache."""
    rng = np.random.default_rng(seed)
    lists = [args.vertices - 1 - rng.integers(0, args.hot, args.rows) for _ in range(64)]
    out = np.empty((args.rows, args.row_bytes // 4), np.float32)
    while True:
        for ids in lists:
            yield store.gather(ids, out, ranks=True)


def attacher(args):
    """Gathers until it is killed. Reports once that it has begun."""
    with rung.attach(args.attach) as store:
        for number, _ in enumerate(gathers(store, args, 2)):
            if number == 20:
                print("ready", flush=True)


def timed(calls):
    start = time.perf_counter_ns()
    next(calls)
    return (time.perf_counter_ns() - start) / 1e6


class Guard:
    """Resumes a stopped process after some seconds, in case the other process would wait forever.
    """

    def __init__(self, pid, seconds):
        self.cut = False
        self.timer = threading.Timer(seconds, self._cut, [pid])

    def _cut(self, pid):
        self.cut = True
        os.kill(pid, signal.SIGCONT)

    def __enter__(self):
        self.timer.start()
        return self

    def __exit__(self, *_):
        self.timer.cancel()


def stop_once(calls, worker, args, draws):
    """Total time of the gathers during a stop, in ms."""
    until = time.perf_counter() + draws.uniform(0, MOVED_S)
    while time.perf_counter() < until:
        next(calls)
    os.kill(worker.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, worker.process.pid, os.WSTOPPED | os.WNOWAIT)
    with Guard(worker.process.pid, args.guard) as guard:
        took = [timed(calls) for _ in range(args.gathers)]
    os.kill(worker.process.pid, signal.SIGCONT)
    return took, guard.cut


def counters(store):
    stats = store.stats()
    names = ("cache_hits", "read_rows", "joined_rows", "late_rows", "cache_timeouts",
             "cache_wait_ns")
    return {name: getattr(stats, name, None) for name in names}


def measure(store, args, script):
    calls, draws, found = gathers(store, args, 1), random.Random(1), {}
    for _ in range(100):
        next(calls)
    found["alone_ms"] = spread([timed(calls) for _ in range(args.samples)])
    worker = Worker([sys.executable, script, "--attach", store.share_path,
                     f"--vertices={args.vertices}", f"--hot={args.hot}", f"--rows={args.rows}",
                     f"--row-bytes={args.row_bytes}"])
    try:
        if worker.answer() != "ready":
            raise Failure("the attaching process did not begin")
        found["together_ms"] = spread([timed(calls) for _ in range(args.samples)])
        before = counters(store)
        stops = [stop_once(calls, worker, args, draws) for _ in range(args.stops)]
        after = counters(store)
        found["counters"] = {name: after[name] - before[name] for name in after
                             if after[name] is not None}
    finally:
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.close()
    usual = statistics.median([gather for took, _ in stops for gather in took])
    delays = [sum(took) - args.gathers * usual for took, _ in stops]
    samples = [round(delay, 3) for delay in delays]
    return {**found, "gather_while_stopped_ms": usual,
            "delay_ms": {**spread(delays), "samples": samples},
            "stops_cut_short": sum(cut for _, cut in stops)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"))
    parser.add_argument("--dir", help="folder for the dataset (default: TMPDIR)")
    parser.add_argument("--vertices", type=int, default=200000)
    parser.add_argument("--row-bytes", type=int, default=512)
    parser.add_argument("--hot", type=int, default=40000, help="rows that both processes request")
    parser.add_argument("--rows", type=int, default=2048, help="of a gather")
    parser.add_argument("--gathers", type=int, default=10, help="during a stop")
    parser.add_argument("--stops", type=int, default=100)
    parser.add_argument("--samples", type=int, default=1000, help="gathers timed without a stop")
    parser.add_argument("--guard", type=float, default=5,
                        help="seconds after which a stopped process continues in any case")
    parser.add_argument("--attach", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.attach:
        attacher(args)
        return 0
    with temporary_folder(args.dir) as folder:
        rng, dataset = np.random.default_rng(1), os.path.join(folder, "g")
        rung.stage(dataset, graph=rng.integers(0, args.vertices, (2, 2 * args.vertices)),
                   features=rng.standard_normal((args.vertices, args.row_bytes // 4), np.float32),
                   score="degree")
        with rung.open(dataset, host="40%", cache=args.hot * args.row_bytes * 7 // 10,
                       share=os.path.join(folder, "share", "socket")) as store:
            found = {**record("stopped", "python/stopped.py", args.rung, folder), "rows": args.rows,
                     "row_bytes": args.row_bytes, "hot_rows": args.hot,
                     "cache_rows": store.stats().cache_rows, "gathers_per_stop": args.gathers,
                     "stops": args.stops, **measure(store, args, os.path.abspath(__file__)),
                     "asked_delay_ms_at_most": ASKED_MS}
    alone, together, delay = (found[name] for name in ("alone_ms", "together_ms", "delay_ms"))
    say(f"one gather: {alone['median']:.2f} ms alone, {together['median']:.2f} ms with another "
        f"process; delay by a stop: median {delay['median']:.1f} ms, maximum {delay['max']:.1f} ms "
        f"of {args.stops}, {found['stops_cut_short']} cut short")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    run_main("stopped.py", main)

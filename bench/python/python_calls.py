#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the time that Store.gather() takes in addition to the C call inside it, for rows that
are all in memory.

The script prints one JSON object on stdout and a table on stderr. Run it with a Python that has
numpy and the package rung, or RUNG_LIBRARY and PYTHONPATH. With torch, gathers into tensors are
measured as well. bench/README.md describes the timed regions.
"""
import argparse
import json
import os
import sys
import time
from ctypes import byref

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import ROOT, record, run_main, say, spread, temporary_folder

import rung
from rung._library import c, lib

DTYPE_I64 = 8   # RUNG_I64 of rung/dtype.h

ASKED_US = 30


def per_call(call, count):
    start = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - start) / count / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"))
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--width", type=int, default=128, help="of float32")
    parser.add_argument("--vertices", type=int, default=100000)
    parser.add_argument("--calls", type=int, default=300, help="calls per sample")
    parser.add_argument("--samples", type=int, default=21)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    with temporary_folder(None) as folder:
        rung.stage(os.path.join(folder, "g"),
                   graph=rng.integers(0, args.vertices, (2, 4 * args.vertices)),
                   features=rng.standard_normal((args.vertices, args.width), np.float32),
                   score="degree")
        with rung.open(os.path.join(folder, "g"), host="max") as store:
            ids = rng.integers(0, args.vertices, args.rows)
            out = np.empty((args.rows, args.width), np.float32)
            struct = c.rung_ids(ids.ctypes.data, args.rows, DTYPE_I64, c.RUNG_VERTICES)
            address = out.ctypes.data
            handle = store._memory.pointer   # pylint: disable=protected-access
            calls = {"c_call": lambda: lib.rung_gather(handle, byref(struct), address, 0),
                     "ctypes": lambda: lib.rung_request_put(None),
                     "numpy_out": lambda: store.gather(ids, out),
                     "numpy": lambda: store.gather(ids)}
            try:
                import torch   # pylint: disable=import-outside-toplevel
                tensor, room = torch.from_numpy(ids), torch.empty(args.rows, args.width)
                calls.update(torch_out=lambda: store.gather(tensor, room),
                             torch=lambda: store.gather(tensor))
            except ImportError:
                say("without torch")
            samples = {name: [] for name in calls}
            for _ in range(args.samples + 1):
                for name, call in calls.items():
                    samples[name].append(per_call(call, args.calls))
            samples = {name: taken[1:] for name, taken in samples.items()}
        found = {**record("python_calls", "python/python_calls.py", args.rung, folder),
                 "python": sys.version.split()[0], "rows": args.rows, "row_bytes": 4 * args.width}
    inside = [whole - ctypes for whole, ctypes in zip(samples["c_call"], samples["ctypes"])]
    found["us_per_call"] = {name: {**spread(taken), "samples": taken} for name,
                            taken in samples.items()}
    found["us_beyond_c"] = {name: spread([whole - c for whole, c in zip(taken, inside)]) for name,
                            taken in samples.items() if name not in ("c_call", "ctypes")}
    found["asked_us_at_most"] = ASKED_US
    for name, beyond in found["us_beyond_c"].items():
        say(f"{name:10} {found['us_per_call'][name]['median']:7.1f} us per call, "
            f"{beyond['median']:5.1f} beyond C ({beyond['min']:.1f} to {beyond['max']:.1f})")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    run_main("python_calls.py", main)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""R-GraphSAGE on a typed data set within a limit on all memory, page cache and torch included:
with convolutions written here, and with PyG's HeteroConv on the same batches. Both begin with the
same weights, and must have the same losses. Prints JSON.

    rung generate mag64 --model mag240m --scale 1/64 --typed
    rung stage --dataset mag64/dataset.json --out mag64.rung --batch 16 --fanout 15,10
    bench/hetero/train.py mag64.rung --limit 1024 --host 256MiB
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# pylint: disable=wrong-import-position
from common import ROOT, record, run_main
from limit import Limit


def model(kind, relations, width, hidden, classes):
    """Returns a model of two layers and a linear one, of this file ("own") or of PyG ("pyg")."""
    import torch
    from torch import nn
    from torch_geometric.nn import HeteroConv, SAGEConv

    class Own(nn.Module):
        def __init__(self, pyg):
            super().__init__()
            self.of = nn.ModuleDict()
            for relation, conv in pyg.convs.items():
                self.of["__".join(relation)] = nn.ModuleList([conv.lin_l, conv.lin_r])

        def forward(self, rows, edges):
            found = {}
            for name, (mean, own) in self.of.items():
                source, _, target = relation = tuple(name.split("__"))
                sources, targets = edges[relation]
                count = len(rows[target])
                total = torch.zeros(count, rows[source].shape[1])
                total = total.index_add_(0, targets, rows[source][sources])
                drawn = torch.zeros(count).index_add_(0, targets, torch.ones(len(targets)))
                each = mean(total / drawn.clamp(min=1)[:, None]) + own(rows[target])
                found[target] = found[target] + each if target in found else each
            return found

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            layers = [HeteroConv({relation: SAGEConv((wide, wide), hidden)
                                  for relation in relations}, aggr="sum")
                      for wide in (width, hidden)]
            self.layers = nn.ModuleList(layers if kind == "pyg" else map(Own, layers))
            self.head = nn.Linear(hidden, classes)

        def forward(self, rows, edges, seeds):
            for layer in self.layers:
                rows = {name: found.relu() for name, found in layer(rows, edges).items()}
            return self.head(rows[seeds])

    torch.manual_seed(1)
    return Net()


def train(args):
    import torch

    import rung

    with rung.open(args.dataset, host=args.host) as store:
        kind = store.seed_type
        with store.part(kind) as part:
            classes = int(part.array("labels").max()) + 1
        net = model(args.train, store.relations, store[kind].shape[1], args.hidden, classes)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
        loader = rung.Loader(store, "train", batch_size=args.batch, form="pyg", seed=1)
        losses, start = [], time.perf_counter()
        for i, batch in enumerate(loader):
            seeds = batch[kind].batch_size
            rows = {name: batch[name].x.float() for name in store.types}
            edges = {relation: batch[relation].edge_index for relation in store.relations}
            found = net(rows, edges, kind)[:seeds]
            loss = torch.nn.functional.cross_entropy(found, batch[kind].y[:seeds].long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
            if i + 1 == args.batches:
                break
        seconds, stats = time.perf_counter() - start, loader.stats()
        del batch, loader
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"losses": losses, "seconds": seconds, "wait_seconds": stats.wait,
                      "rows": stats.rows, "resident_peak_bytes": peak}))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="typed data set, all of whose types have rows of one width")
    parser.add_argument("--host", default="256MiB")
    parser.add_argument("--limit", type=int, default=1024, help="MiB of all memory")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--batches", type=int, default=0, help="0: an epoch")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--rung", default=f"{ROOT}/build/rung", help="command, for the record")
    parser.add_argument("--train", choices=("own", "pyg"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        train(args)
        return 0
    runs = {}
    for kind in ("own", "pyg"):
        command = [sys.executable, *sys.argv, "--train", kind]
        with Limit(args.limit << 20) as limit:
            done = subprocess.run(limit.wrap(command), preexec_fn=limit.enter, check=True,
                                  capture_output=True, text=True)
            runs[kind] = {**json.loads(done.stdout), "peak_bytes": limit.peak(),
                          "limited_by": limit.kind}
    losses = {kind: run.pop("losses") for kind, run in runs.items()}
    worst = max(abs(a - b) for a, b in zip(losses["own"], losses["pyg"], strict=True))
    found = record("hetero_train", "hetero/train.py", args.rung)
    print(json.dumps({**found, "limit_bytes": args.limit << 20, "host": args.host,
                      "batch": args.batch,
                      "batches": len(losses["own"]), "largest_difference": worst,
                      "first_losses": losses["own"][:5], "last_losses": losses["own"][-5:],
                      "mean_of_last_100": sum(losses["own"][-100:]) / len(losses["own"][-100:]),
                      **runs}, indent=1))
    return 0


if __name__ == "__main__":
    run_main("train.py", main)

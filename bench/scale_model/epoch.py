# SPDX-License-Identifier: Apache-2.0
"""Code shared by the programs of the opponents: arguments, memory-mapped arrays, the timed epoch.
The model is that of rung train: two layers of GraphSAGE, 128 wide, dropout 0.5, Adam."""
import argparse
import json
import mmap
import os
import sys
import time
import warnings

import numpy as np
import torch
from torch.nn import functional as F

FANOUTS = (25, 15)
HIDDEN = 128
WARM_UP = 2   # batches that are not timed

warnings.filterwarnings("ignore", message="The given NumPy array is not writable")


def parse_args(text):
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("source", help="folder with dataset.json")
    parser.add_argument("graph", help="folder of prepare.py")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--batches", type=int, required=True, help="timed ones, at most an epoch")
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--seconds", type=float, default=120, help="ends after the first batch "
                        "beyond this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", action="store_true",
                        help="advise the kernel to read no more than the pages that are accessed")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    return args


def mapped(args, folder, name):
    array = np.load(os.path.join(folder, name), mmap_mode="r")
    if args.random:
        array._mmap.madvise(mmap.MADV_RANDOM)   # pylint: disable=protected-access
    return torch.from_numpy(array)


def arrays(args):
    """features, labels, train ids, indptr, indices; all but the ids are memory-mapped."""
    with open(os.path.join(args.source, "dataset.json"), encoding="utf-8") as file:
        (vertices,) = json.load(file)["vertex_types"]
    train = np.load(os.path.join(args.source, vertices["splits"]["train"]))
    return (mapped(args, args.source, vertices["features"]),
            mapped(args, args.source, vertices["labels"]),
            torch.from_numpy(train.astype(np.int64)), mapped(args, args.graph, "indptr.npy"),
            mapped(args, args.graph, "indices.npy"))


def classes_of(labels, train):
    return int(labels[train].max()) + 1


def timed_epoch(args, version, train, batches, model):
    """Trains on the batches: pairs of a function that returns the logits, and the labels. Prints a
    JSON object."""
    batch_count = -(-len(train) // args.batch)
    if batch_count <= WARM_UP:
        sys.exit(f"{len(train)} train vertices are {batch_count} batches; the first {WARM_UP} are "
                 "not timed; use a smaller --batch")
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    total, seen, rows, done = 0.0, 0, 0, -WARM_UP
    began = time.perf_counter()
    model.train()
    for logits, labels, row_count in batches:
        loss = F.cross_entropy(logits(), labels.long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
        if done == 0:
            began = time.perf_counter()
        if done > 0:
            total, seen, rows = total + loss.item() * len(labels), seen + len(labels), (rows
                                                                                       + row_count)
        if done == args.batches or (done > 0 and time.perf_counter() - began > args.seconds):
            break
    print(json.dumps({**version, "seconds": time.perf_counter() - began, "batches": done,
                      "warm_up_batches": WARM_UP, "rows": rows, "loss": total / seen,
                      "batches_per_epoch": batch_count}))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GraphSAGE in plain torch on a staged data set, with features from a rung store or, to compare,
from a memory map or RAM.

    sage_torch.py papers.rung --host 4GiB
    sage_torch.py papers.rung --features memmap --source x.npy      usual without rung
    sage_torch.py papers.rung --features memory --source x.npy      all of them in RAM
"""
import itertools
import json
import queue
import sys
import threading
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from training import accuracy, add_training, make_parser, width_and_classes

import rung


class Sage(nn.Module):
    """Layers of mean aggregation (Hamilton et al., 2017). Aggregating before multiplying is faster:
    the first layer has few destinations and wide rows."""

    def __init__(self, width, hidden, classes, hops):
        super().__init__()
        widths = [width] + [hidden] * (hops - 1) + [classes]
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.mean = nn.ModuleList(nn.Linear(a, b, bias=False)
                                  for a, b in itertools.pairwise(widths))

    def forward(self, rows, blocks):
        for layer, block in enumerate(blocks):
            mean = F.embedding_bag(block.indices, rows, block.indptr.int(), mode="mean",
                                   include_last_offset=True)
            rows = self.own[layer](rows[: block.dst_count].float()) + self.mean[layer](mean.float())
            if layer + 1 < len(blocks):
                rows = F.relu(rows)
        return rows


class OtherLoader:
    """The same batches with rows from an array: a thread samples ahead, and rows are gathered on
    demand."""

    def __init__(self, path, fanouts, batch_size, seed, rows):
        self.dataset = rung.Dataset(path)
        self.sampler = rung.NeighborSampler(self.dataset, fanouts, seed=seed, threads=1)
        self.seed, self.epoch, self.rows, self.waited = seed, 0, rows, 0.0
        self.batch_size = batch_size or self.dataset.batch_size or 1024
        self.seeds = self.dataset.split("train")
        self.labels = torch.from_numpy(self.dataset.labels()[self.seeds])

    def __len__(self):
        return -(-len(self.seeds) // self.batch_size)

    def _sample(self, order, out, stop):
        for idx in range(len(self)):
            taken = order[idx * self.batch_size :][: self.batch_size]
            key = self.epoch * len(self) + idx
            sample = self.sampler.sample(self.seeds[taken], key, kind="torch")
            while not stop.is_set():
                try:
                    out.put((taken, sample), timeout=0.1)
                    break
                except queue.Full:
                    pass
        out.put(None)

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.seeds))
        out, stop = queue.Queue(4), threading.Event()
        worker = threading.Thread(target=self._sample, args=(order, out, stop), daemon=True)
        worker.start()
        self.waited = 0.0
        try:
            while (item := out.get()) is not None:
                taken, sample = item
                start = time.perf_counter()
                features = self.rows(sample.vertices)
                self.waited += time.perf_counter() - start
                yield rung.Batch(0, None, self.labels[taken], sample.ranks, features,
                                 sample.blocks[::-1], sample.vertices)
        finally:
            stop.set()
            while worker.is_alive():   # it may be blocked on the full queue
                try:
                    out.get_nowait()
                except queue.Empty:
                    worker.join(0.1)
            self.epoch += 1


def make_loader(args):
    """Return a loader, a function that returns the seconds the last epoch waited for rows, and the
    store or None."""
    fanouts = [int(fanout) for fanout in args.fanouts.split(",")]
    if args.features == "rung":
        store = rung.open(args.dataset, host=args.host, cache=args.cache, vertex_ids=False)
        loader = rung.Loader(store, fanouts=fanouts, batch_size=args.batch_size, seed=args.seed,
                             arrays="torch", threads=args.threads,
                             gathers=args.gathers)
        return loader, lambda: loader.stats().wait_rows, store
    if not args.source:
        sys.exit(f"sage_torch.py: --features {args.features} needs --source, a .npy file of the "
                 "features")
    mapped = np.load(args.source, mmap_mode="r")
    if args.features == "memory":
        whole = torch.from_numpy(np.fromfile(args.source, mapped.dtype,
                                             offset=mapped.offset).reshape(mapped.shape))
        rows = whole.index_select
        loader = OtherLoader(args.dataset, fanouts, args.batch_size, args.seed,
                             lambda ids: rows(0, ids))
    else:
        loader = OtherLoader(args.dataset, fanouts, args.batch_size, args.seed,
                             lambda ids: torch.from_numpy(mapped[ids.numpy()]))
    return loader, lambda: loader.waited, None


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--features", choices=("rung", "memmap", "memory"), default="rung")
    parser.add_argument("--source", help=".npy of features by vertex, for memmap and memory")
    parser.add_argument("--host", default=None,
                        help="host memory of the store (default: half of the free memory)")
    parser.add_argument("--test", metavar="SPLIT",
                        help="print the final accuracy on this split; needs --features rung")
    parser.add_argument("--cache", default=None,
                        help="part of --host for a cache of rows from the file (default: 1/8)")
    parser.add_argument("--fanouts", default="15,10")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=128)
    add_training(parser, epochs=3, lr=0.003)
    parser.add_argument("--threads", type=int, default=0, help="sampling threads")
    parser.add_argument("--gathers", type=int, default=0, help="number of batches gathered ahead")
    parser.add_argument("--json", action="store_true", help="print a JSON object per epoch")
    args = parser.parse_args()
    if args.test and args.features != "rung":
        sys.exit("sage_torch.py: --test needs --features rung")
    torch.manual_seed(args.seed)
    loader, waited, store = make_loader(args)
    with rung.Dataset(args.dataset) as dataset:
        width, classes = width_and_classes(dataset)
    model = Sage(width, args.hidden, classes, len(args.fanouts.split(",")))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        start, compute, total, seen, batches, rows = time.perf_counter(), 0.0, 0.0, 0, 0, 0
        for batch in loader:
            begin = time.perf_counter()
            loss = F.cross_entropy(model(batch.features, batch.blocks),
                                   batch.labels.long().flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, seen, batches, rows = total + loss.item() * len(
                batch.labels), seen + len(batch.labels), batches + 1, rows + len(batch.ranks)
            compute += time.perf_counter() - begin
            if batches == args.batches:
                break
        found = {"epoch": epoch, "loss": total / seen, "seconds": time.perf_counter() - start,
                 "feature_wait_s": waited(), "compute_s": compute,
                 "batches": batches, "rows": rows}
        if store is not None:
            stats = store.stats()
            found.update(device_reads=stats.device_reads, device_read_bytes=stats.device_read_bytes,
                         hits={tier.name: tier.hits for tier in stats.tiers},
                         cache_hits=stats.cache_hits, wait_s=loader.stats().wait)
        print(json.dumps(found) if args.json else
              f"epoch {epoch}: loss {found['loss']:.4f}, {found['seconds']:.2f} s, including "
              f"{found['feature_wait_s']:.2f} s waiting for rows and {compute:.2f} s computing;"
              f" {batches} batches, {rows} rows", flush=True)
    if args.test:
        fanouts = [int(fanout) for fanout in args.fanouts.split(",")]
        loader = rung.Loader(store, args.test, fanouts=fanouts, batch_size=args.batch_size,
                             shuffle=False, seed=args.seed, arrays="torch")
        found = accuracy(loader, model,
                         lambda batch: (model(batch.features, batch.blocks), batch.labels))
        print(json.dumps({"split": args.test, "accuracy": found}) if args.json
              else f"accuracy on {args.test}: {found:.4f}")


if __name__ == "__main__":
    main()

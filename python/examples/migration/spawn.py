#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A script that starts its ranks with torch.multiprocessing.spawn(), as PyG's examples for several
GPUs do. Three lines of such a script change:

- the store is opened by the ranks, of which those on a machine share one. `spawn` sets no variable
  of a launcher, so that each rank sets LOCAL_RANK;
- the seeds are all train vertices, not `train_idx.split(len(train_idx) // world_size)[rank]`:
  rung.Loader divides them. A list that the ranks have divided needs `rank=0, world_size=1`;
- the rank that evaluates alone passes `rank=0, world_size=1`.

    spawn.py data.rung --ranks 2
"""
import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import rung
import rung.distributed


class Mean(torch.nn.Module):
    """One layer: a vertex and the mean of its neighbours."""

    def __init__(self, width, classes):
        super().__init__()
        self.own, self.others = torch.nn.Linear(width, classes), torch.nn.Linear(width, classes)

    def forward(self, batch):
        block = batch.blocks[0]
        sums = torch.zeros(block.dst_count, batch.features.shape[1])
        sources, targets = block.edge_index()
        sums.index_add_(0, targets, batch.features[sources])
        count = block.indptr.diff().clamp(min=1)[:, None]
        return self.own(batch.features[: block.dst_count]) + self.others(sums / count)


def run(rank, world_size, path, meeting):
    os.environ["LOCAL_RANK"] = str(rank)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank,
                            world_size=world_size)
    store = rung.distributed.open(path, host="50%")
    loader = rung.Loader(store, "train", fanouts=(10,), batch_size=64)
    model = DistributedDataParallel(Mean(loader.num_features, loader.num_classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for epoch in range(3):
        seen = torch.zeros(1)
        for batch in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(batch), batch.labels).backward()
            optimizer.step()
            seen += len(batch.seeds)
        dist.all_reduce(seen)
        if rank == 0:
            print(f"epoch {epoch}: {int(seen)} seeds on {world_size} ranks")
    if rank == 0:
        right = count = 0
        for batch in rung.Loader(store, "test", fanouts=(10,), batch_size=64, rank=0,
                                 world_size=1):
            found = model.module(batch).argmax(1)
            right, count = right + int((found == batch.labels).sum()), count + len(found)
        print(f"accuracy on test {right / count:.4f} of {count} vertices", flush=True)
    dist.barrier()   # the ranks of a machine use the memory of the first
    del loader
    store.close()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, (args.ranks, args.data, os.path.join(folder, "meeting")), args.ranks)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data-parallel GraphSAGE in plain torch: the ranks of a machine share one store, so its memory and its cache exist once.

    torchrun --nproc-per-node 2 sage_ddp.py papers.rung --host 8GiB --test test

Gradients go by NCCL where each rank has a GPU, else by gloo. The model is that of sage_torch.py.
"""
import argparse
import os

import numpy as np
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import rung
import rung.distributed
from sage_torch import Sage


def accuracy(model, loader, device):
    right = seen = 0
    with torch.no_grad():
        for batch in loader:
            batch = batch.to(device)
            found = model(batch.features, batch.blocks).argmax(1)
            right += (found == batch.labels.flatten()).sum().item()
            seen += len(batch.labels)
    return right / seen


def train(args, device):
    fanouts = [int(fanout) for fanout in args.fanouts.split(",")]
    with rung.Dataset(args.dataset) as dataset:
        width, classes = int(np.prod(dataset.shape[1:])), int(np.nanmax(dataset.array("labels"))) + 1
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(Sage(width, args.hidden, classes, len(fanouts)).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    with rung.distributed.open(args.dataset, host=args.host, vertex_ids=False) as store:
        loader = rung.Loader(store, fanouts=fanouts, batch_size=args.batch_size, seed=args.seed)   # this rank's share of the seeds
        for epoch in range(1, args.epochs + 1):
            total = torch.zeros(2, dtype=torch.float64, device=device)
            for batch in loader:
                batch = batch.to(device)
                found = model(batch.features, batch.blocks)
                loss = F.cross_entropy(found, batch.labels.long().flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += torch.tensor([loss.item() * len(batch.labels), len(batch.labels)], dtype=torch.float64, device=device)
                if batch.idx + 1 == args.batches:
                    break
            dist.all_reduce(total)
            if dist.get_rank() == 0:
                print(f"epoch {epoch}: loss {total[0].item() / total[1].item():.4f} of {int(total[1])} seeds", flush=True)
        if args.test and dist.get_rank() == 0:
            whole = rung.Loader(store, args.test, fanouts=fanouts, batch_size=args.batch_size, shuffle=False, seed=args.seed, rank=0, world_size=1)
            print(f"accuracy on {args.test}: {accuracy(model.module, whole, device):.4f}")
        dist.barrier()   # the first rank's memory serves all of them to the end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="folder that rung stage made, with labels and a split train")
    parser.add_argument("--host", default=None, help="host memory of the store, once a machine (default: half of what is free)")
    parser.add_argument("--test", metavar="SPLIT", help="tell the accuracy on it in the end")
    parser.add_argument("--fanouts", default="15,10")
    parser.add_argument("--batch-size", type=int, default=1024, help="of each rank")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batches", type=int, help="of an epoch and rank at most")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", local_rank) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpus else "gloo")
    try:
        train(args, device)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

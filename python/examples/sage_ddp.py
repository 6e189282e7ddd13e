#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data-parallel GraphSAGE in plain torch. The ranks of a machine share one store, so its memory and
its cache exist once.

    torchrun --nproc-per-node 2 sage_ddp.py papers.rung --host 8GiB --test test

Gradients are exchanged by NCCL if each rank has a GPU, otherwise by gloo. The model is that of
sage_torch.py. With --state FILE the training is saved after each epoch, and resumes from there.
"""
import os
from functools import partial

import torch
import torch.distributed as dist
from sage_torch import Sage
from torch.nn.parallel import DistributedDataParallel
from training import accuracy, add_training, make_parser, train_epoch, width_and_classes

import rung
import rung.distributed


def train(args, device):
    fanouts = [int(fanout) for fanout in args.fanouts.split(",")]
    with rung.Dataset(args.dataset) as dataset:
        width, classes = width_and_classes(dataset)
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(Sage(width, args.hidden, classes, len(fanouts)).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    def outputs(batch, model=model):
        batch = batch.to(device)
        return model(batch.features, batch.blocks), batch.labels

    def saved(loader):
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict()}

    with rung.distributed.open(args.dataset, host=args.host, vertex_ids=False) as store:
        # the seeds of this rank
        loader = rung.Loader(store, fanouts=fanouts, batch_size=args.batch_size, seed=args.seed)
        if args.state and os.path.exists(args.state):   # on a disk that all machines see
            state = torch.load(args.state, map_location=device)
            for name, part in (("model", model), ("optimizer", optimizer), ("loader", loader)):
                part.load_state_dict(state[name])
        for epoch in range(loader.epoch + 1, args.epochs + 1):
            sums = train_epoch(loader, optimizer, outputs, args.batches)
            total = torch.tensor(sums, dtype=torch.float64, device=device)
            dist.all_reduce(total)
            if dist.get_rank() == 0:
                print(f"epoch {epoch}: loss {total[0].item() / total[1].item():.4f} of "
                      f"{int(total[1])} seeds", flush=True)
                if args.state:
                    torch.save(saved(loader), args.state + ".new")
                    os.replace(args.state + ".new", args.state)
        if args.test and dist.get_rank() == 0:
            whole = rung.Loader(store, args.test, fanouts=fanouts, batch_size=args.batch_size,
                                shuffle=False, seed=args.seed, rank=0, world_size=1)
            found = accuracy(whole, model.module, partial(outputs, model=model.module))
            print(f"accuracy on {args.test}: {found:.4f}")
        dist.barrier()   # all ranks use the memory of the first until the end


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--host", default=None,
                        help="host memory of the store, once per machine (default: half of the "
                             "free memory)")
    parser.add_argument("--test", metavar="SPLIT", help="print the final accuracy on this split")
    parser.add_argument("--state", help="file of the training, to save and to resume from")
    parser.add_argument("--fanouts", default="15,10")
    parser.add_argument("--batch-size", type=int, default=1024, help="of each rank (default: 1024)")
    parser.add_argument("--hidden", type=int, default=128)
    add_training(parser, epochs=3, lr=0.003,
                 batches="maximum number of batches per epoch and rank (default: all)")
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

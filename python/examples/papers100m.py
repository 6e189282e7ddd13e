#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ogbn-papers100M with GraphSAGE in PyTorch Geometric, and its 53 GiB of features in a rung store.

    rung stage --ogb-papers100M ogbn_papers100M --undirected --fanout 15,10,5 --draws new \\
               --out papers100M.rung
    rung plan papers100M.rung --host 8GiB
    papers100m.py papers100M.rung --host 8GiB

Two lines differ from a program without rung: `rung.open()` replaces loading `data.x`, and
rung.Loader replaces NeighborLoader.

The budget holds rows, neighbour lists and a cache of rows from the file, and divides as rung plan
prints. With --in-place the map of the rows (424 MiB) is part of it as well. It does not include the
offsets of the lists (about 2 bytes per vertex, 0.3 GiB), the maps of the store and of the loader (4
bytes per vertex each, 0.4 GiB), batches, and the model.
"""
import time

import torch
from torch_geometric.nn import GraphSAGE
from training import accuracy, add_training, make_parser, train_epoch, width_and_classes

import rung


def main():
    parser = make_parser(__doc__, dataset="folder written by rung stage")
    parser.add_argument("--host", default="8GiB", help="host memory of the store")
    parser.add_argument("--cache",
                        help="part of --host for a cache of rows from the file (default: as "
                             "rung plan divides it)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu",
                        help="device of the model")
    parser.add_argument("--fanouts", default="15,10,5")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.5)
    add_training(parser, epochs=20, lr=0.001)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    fanouts = [int(fanout) for fanout in args.fanouts.split(",")]
    with rung.Dataset(args.dataset) as dataset:
        width, classes = width_and_classes(dataset)
    model = GraphSAGE(width, args.hidden, len(fanouts), classes, dropout=args.dropout,
                      norm="batch_norm").to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    store = rung.open(args.dataset, host=args.host, cache=args.cache, structure="auto")
    loaders = {split: rung.Loader(store, split, fanouts=fanouts, batch_size=args.batch_size,
                                  shuffle=split == "train", seed=args.seed, form="pyg")
               for split in ("train", "valid", "test")}

    def outputs(batch):
        batch = batch.to(args.device)
        return model(batch.x.float(), batch.edge_index)[: batch.batch_size], batch.y

    best = (0.0, 0.0)
    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        total, seen = train_epoch(loaders["train"], optimizer, outputs, args.batches)
        waits = loaders["train"].stats()
        seconds = time.perf_counter() - start
        valid, test = (accuracy(loaders[split], model, outputs) for split in ("valid", "test"))
        best = max(best, (valid, test))
        stats = store.stats()
        print(f"epoch {epoch}: loss {total / seen:.4f}, valid {valid:.4f}, test {test:.4f}; "
              f"{seconds:.1f} s, {waits.wait_sample:.1f} waiting for samples, "
              f"{waits.wait_rows:.1f} for rows; so far {stats.hit_share('host'):.1%} of the rows "
              f"from memory, {stats.device_read_bytes / 2**30:.1f} GiB read", flush=True)
    print(f"test {best[1]:.4f} where valid is best, {best[0]:.4f}")
    store.close()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GraphSAGE or GAT in PyTorch Geometric on a staged data set, with features from a rung store.

    gnn_pyg.py cora.rung --model sage --host 20%                 PyG's NodeLoader, rung.FeatureStore
    gnn_pyg.py cora.rung --model gat --host 20% --loader rung    rung.Loader, which works ahead

Stage the data set with draws="new" ("--draws new"), because PyG samples that way. pyg-lib and
torch-sparse are not needed.
"""
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GAT, GraphSAGE
from training import accuracy, add_training, make_parser, train_epoch, width_and_classes

import rung
import rung.pyg


def node_loader(args, store, dataset, fanouts):
    """Create PyG's own loader, as for features in memory but with the store."""
    features = rung.FeatureStore(store, {"y": torch.from_numpy(dataset.labels())})
    sampler = rung.pyg.Sampler(dataset, fanouts, seed=args.seed)

    def make(split, shuffle):
        return NodeLoader((features, Data(num_nodes=dataset.vertex_count)), node_sampler=sampler,
                          input_nodes=torch.from_numpy(dataset.split(split)),
                          batch_size=args.batch_size, shuffle=shuffle, filter_per_worker=False)

    return make


def rung_loader(args, store, _dataset, fanouts):
    """Create rung's loader, which samples and gathers ahead."""

    def make(split, shuffle):
        return rung.Loader(store, split, fanouts=fanouts, batch_size=args.batch_size,
                           shuffle=shuffle, seed=args.seed, form="pyg")

    return make


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--model", choices=("sage", "gat"), default="sage")
    parser.add_argument("--loader", choices=("pyg", "rung"), default="pyg")
    parser.add_argument("--host", default=None,
                        help="host memory of the store (default: half of the free memory)")
    parser.add_argument("--fanouts", default="10,10")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--dropout", type=float, default=0.5)
    add_training(parser, epochs=20, lr=0.005)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    fanouts = [int(fanout) for fanout in args.fanouts.split(",")]
    with rung.Dataset(args.dataset) as dataset, rung.open(args.dataset, host=args.host) as store:
        width, classes = width_and_classes(dataset)
        shape = {"in_channels": width, "hidden_channels": args.hidden, "num_layers": len(fanouts),
                 "out_channels": classes, "dropout": args.dropout}
        model = GraphSAGE(**shape) if args.model == "sage" else GAT(**shape, heads=8)
        optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
        make = (node_loader if args.loader == "pyg" else rung_loader)(args, store, dataset, fanouts)
        loader = make("train", True)

        def outputs(batch):
            found = model(batch.x.float(), batch.edge_index)
            return found[: batch.batch_size], batch.y[: batch.batch_size]

        for epoch in range(1, args.epochs + 1):
            total, seen = train_epoch(loader, optimizer, outputs, args.batches)
            print(f"epoch {epoch}: loss {total / seen:.4f}", flush=True)
        for split in ("valid", "test"):
            if split in dataset.splits:
                print(f"accuracy on {split}: {accuracy(make(split, False), model, outputs):.4f}")
        stats = store.stats()
        print("rows from " + ", ".join(f"{tier.name} {tier.hits}"
                                       for tier in stats.tiers) + f"; {stats.device_reads} reads")


if __name__ == "__main__":
    main()

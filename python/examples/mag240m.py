#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The papers and citations of MAG240M (OGB-LSC) with GraphSAGE or GAT in PyTorch Geometric, and its
174 GiB of features in a rung store.

    rung stage --ogb-mag240m mag240m_kddcup2021:papers --fanout 25,15 --draws new --out mag240m.rung
    rung stage --ogb-mag240m mag240m_kddcup2021:papers --fanout 25,15 --draws new --in-place \\
               --out mag240m.rung                                               copies no rows
    rung plan mag240m.rung --host 8GiB
    mag240m.py mag240m.rung --host 8GiB --model sage
    mag240m.py mag240m.rung --host 8GiB --epochs 100 --predict predictions.npz

Only the features differ from a program without rung: `rung.FeatureStore(rung.open(...))` replaces
the loaded or mapped `paper_feat` in PyG's own NodeLoader.

The budget holds rows, neighbour lists and a cache of rows from the file, and divides as rung plan
prints. With --in-place the map of the rows (464 MiB) is part of it as well. It does not include the
offsets of the lists (about 2 bytes per vertex, 0.3 GiB), the store's map and three arrays of this
program (maps, labels; 0.5 GiB each), batches, and the model.
"""
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GATConv, SAGEConv
from training import accuracy, add_training, make_parser, train_epoch

import rung
import rung.pyg


class Gnn(nn.Module):
    """Convolutions, each with a skip connection and batch normalization, then a perceptron."""

    def __init__(self, model, width, hidden, classes, hops, heads, dropout):
        super().__init__()
        widths = [width] + [hidden] * (hops - 1)
        if model == "sage":
            self.convolutions = nn.ModuleList(SAGEConv(wide, hidden) for wide in widths)
        else:
            self.convolutions = nn.ModuleList(GATConv(wide, hidden // heads, heads)
                                              for wide in widths)
        self.skips = nn.ModuleList(nn.Linear(wide, hidden) for wide in widths)
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in widths)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU(),
                                  nn.Dropout(dropout), nn.Linear(hidden, classes))
        self.dropout = dropout

    def forward(self, x, edge_index, seeds):
        for convolution, skip, norm in zip(self.convolutions, self.skips, self.norms):
            x = F.dropout(F.elu(norm(convolution(x, edge_index) + skip(x))), self.dropout,
                          self.training)
        return self.head(x[:seeds])


class Papers:
    """Loaders of the staged data set, and the labels of the papers."""

    def __init__(self, args, dataset, store):
        self.dataset, self.batch_size = dataset, args.batch_size
        self.features = rung.FeatureStore(store)
        self.sampler = rung.pyg.Sampler(store,   # which has the neighbour lists
                                        [int(fanout) for fanout in args.fanouts.split(",")],
                                        seed=args.seed)
        self.labels = torch.from_numpy(dataset.labels()).flatten()

    def loader(self, split, shuffle=False):
        graph = Data(num_nodes=self.dataset.vertex_count)   # the edges are in the sampler
        return NodeLoader((self.features, graph), node_sampler=self.sampler,
                          input_nodes=torch.from_numpy(self.dataset.split(split)),
                          batch_size=self.batch_size, shuffle=shuffle, filter_per_worker=False)

    def labels_of(self, batch):
        return self.labels[batch.n_id[: batch.batch_size]].long()


def main():
    parser = make_parser(__doc__, dataset="folder written by rung stage")
    parser.add_argument("--model", choices=("sage", "gat"), default="sage")
    parser.add_argument("--host", default="8GiB", help="host memory of the store")
    parser.add_argument("--cache",
                        help="part of --host for a cache of rows from the file (default: as "
                             "rung plan divides it)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu",
                        help="device of the model")
    parser.add_argument("--predict", metavar="FILE",
                        help="write the classes of the split test-dev to this .npz file as y_pred")
    parser.add_argument("--fanouts", default="25,15")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=4, help="heads of gat; must divide --hidden")
    parser.add_argument("--dropout", type=float, default=0.5)
    add_training(parser, epochs=100, lr=0.001)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    with rung.Dataset(args.dataset) as dataset, rung.open(
            args.dataset, host=args.host, cache=args.cache, structure="auto") as store:
        papers = Papers(args, dataset, store)
        width, classes = int(np.prod(dataset.shape[1:])), int(np.nanmax(papers.labels.numpy())) + 1
        model = Gnn(args.model, width, args.hidden, classes, len(args.fanouts.split(",")),
                    args.heads, args.dropout).to(args.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 25, 0.25)
        train, valid = papers.loader("train", shuffle=True), papers.loader("valid")

        def outputs(batch):
            rows, edges = batch.x.to(args.device).float(), batch.edge_index.to(args.device)
            return model(rows, edges, batch.batch_size), papers.labels_of(batch).to(args.device)

        for epoch in range(1, args.epochs + 1):
            start = time.perf_counter()
            total, seen = train_epoch(train, optimizer, outputs, args.batches)
            schedule.step()
            seconds = time.perf_counter() - start
            share = accuracy(valid, model, outputs)
            stats = store.stats()
            print(f"epoch {epoch}: loss {total / seen:.4f}, valid {share:.4f}; {seconds:.1f} s; "
                  f"so far {stats.hit_share('host'):.1%} of the rows from memory, "
                  f"{stats.device_read_bytes / 2**30:.1f} GiB read", flush=True)
        if args.predict:
            model.eval()
            with torch.no_grad():
                found = torch.cat([outputs(batch)[0].argmax(1).cpu()
                                   for batch in papers.loader("test-dev")])
            np.savez_compressed(args.predict, y_pred=found.numpy().astype(np.int16))


if __name__ == "__main__":
    main()

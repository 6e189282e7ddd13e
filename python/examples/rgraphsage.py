#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""R-GraphSAGE on a staged data set with several vertex types, with the rows of all types from one
rung store.

    tools/debian_graph.py debian --typed
    rung stage --dataset debian/dataset.json --out debian.rung
    rgraphsage.py debian.rung --host 10%

A layer computes, for every relation, the mean of the sources of each vertex, multiplies it by a
matrix of the relation, and adds the results of all relations to the vertex's own row, multiplied by
a matrix of its type. Rows of edges, if a relation has them, are averaged in the same way.

A type without features gets a vector for each vertex, which is learned, if it has at most
--embed-max vertices. Larger types get the number of drawn neighbours in each relation instead.
"""
import json
import os
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.utils import degree, scatter
from training import accuracy, add_training, make_parser, train_epoch

import rung


class Layer(nn.Module):
    def __init__(self, widths, edge_widths, relations, hidden):
        super().__init__()
        self.own = nn.ModuleDict({kind: nn.Linear(wide, hidden) for kind, wide in widths.items()})
        self.mean = nn.ModuleDict({"/".join(relation): nn.Linear(widths[relation[0]], hidden,
                                                                 bias=False)
                                   for relation in relations})
        self.edge = nn.ModuleDict({"/".join(relation): nn.Linear(wide, hidden, bias=False)
                                   for relation, wide in edge_widths.items()})

    def forward(self, rows, edges, edge_rows):
        found = {kind: self.own[kind](each) for kind, each in rows.items()}
        for relation, (sources, targets) in edges.items():
            name, count = "/".join(relation), len(rows[relation[2]])
            mean = scatter(rows[relation[0]][sources], targets, dim_size=count, reduce="mean")
            found[relation[2]] = found[relation[2]] + self.mean[name](mean)
            if name in self.edge:
                mean = scatter(edge_rows[relation], targets, dim_size=count, reduce="mean")
                found[relation[2]] = found[relation[2]] + self.edge[name](mean)
        return found


class RGraphSage(nn.Module):
    """Relational GraphSAGE: a layer for each hop.

    Args:
        widths: {type: values per row, None without features}
        edge_widths: {relation: values per row of an edge}, of those with such rows
        counts: {type: number of vertices}
        relations: of the data set: (source type, name, target type)
        hidden, classes, hops: widths and number of the layers
        embed_max: vertices of the largest type with learned vectors
    """

    def __init__(self, widths, edge_widths, counts, relations, hidden, classes, hops, dropout,
                 embed_max):
        super().__init__()
        self.relations, self.dropout = relations, dropout
        bare = [kind for kind, wide in widths.items() if wide is None]
        self.embed = nn.ModuleDict({kind: nn.Embedding(counts[kind], hidden) for kind in bare
                                    if counts[kind] <= embed_max})
        widths = {kind: hidden if kind in self.embed else wide or self.degree_width(kind)
                  for kind, wide in widths.items()}
        inner = dict.fromkeys(widths, hidden)
        self.layers = nn.ModuleList(Layer(inner if hop else widths, edge_widths, relations, hidden)
                                    for hop in range(hops))
        self.head = nn.Linear(hidden, classes)

    def degree_width(self, kind):
        return 1 + sum(relation[2] == kind for relation in self.relations)

    def input_of(self, batch, kind):
        if "x" in batch[kind]:
            return batch[kind].x.float()
        if kind in self.embed:
            return self.embed[kind](batch[kind].n_id)
        count = batch[kind].num_nodes
        drawn = [degree(batch[relation].edge_index[1], count) for relation in self.relations
                 if relation[2] == kind]
        return torch.stack([torch.ones(count), *drawn], dim=1).log1p()

    def forward(self, batch, kind):
        """Return the model's output for the seeds, which are of the type `kind`."""
        rows = {each: self.input_of(batch, each) for each in self.layers[0].own}
        edges = {relation: batch[relation].edge_index for relation in self.relations}
        edge_rows = {relation: batch[relation].edge_attr.float() for relation in self.relations
                     if "edge_attr" in batch[relation]}
        for layer in self.layers:
            rows = {each: F.dropout(F.relu(found), self.dropout, self.training)
                    for each, found in layer(rows, edges, edge_rows).items()}
        return self.head(rows[kind][: batch[kind].batch_size])


def make_model(args, dataset, batch, kind):
    """Create the model whose inputs have the widths of those of a batch."""
    counts = {}
    for each in dataset.vertex_types:
        with rung.Dataset(os.path.join(args.dataset, "vertices", each)) as part:
            counts[each] = part.vertex_count
            if each == kind:
                classes = int(part.labels().max()) + 1
    widths = {each: batch[each].x.shape[1] if "x" in batch[each] else None
              for each in dataset.vertex_types}
    edge_widths = {relation: batch[relation].edge_attr.shape[1] for relation in dataset.relations
                   if "edge_attr" in batch[relation]}
    return RGraphSage(widths, edge_widths, counts, dataset.relations, args.hidden, classes,
                      len(args.fanouts.split(",")), args.dropout, args.embed_max)


def main():
    parser = make_parser(__doc__, dataset="folder staged with several vertex types, of which one "
                                          "has labels and a split train")
    parser.add_argument("--host", default=None,
                        help="host memory of the store (default: half of the free memory)")
    parser.add_argument("--fanouts", default="10,10")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--dropout", type=float, default=0.4)
    parser.add_argument("--embed-max", type=int, default=100000,
                        help="vertices of a type without features (default: 100000)")
    add_training(parser, epochs=8, lr=0.003)
    parser.add_argument("--json", action="store_true", help="print a JSON object per epoch")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    fanouts = [int(fanout) for fanout in args.fanouts.split(",")]
    with rung.Dataset(args.dataset) as dataset, rung.open(args.dataset, host=args.host) as store:

        def loader(split, shuffle=False):
            return rung.Loader(store, split, fanouts=fanouts, batch_size=args.batch_size,
                               shuffle=shuffle, seed=args.seed, form="pyg")

        def outputs(batch):
            return model(batch, kind), batch[kind].y[: batch[kind].batch_size]

        first = next(iter(loader("train")))
        kind = next(each for each in dataset.vertex_types if "batch_size" in first[each])
        model = make_model(args, dataset, first, kind)
        optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
        train = loader("train", shuffle=True)
        for epoch in range(1, args.epochs + 1):
            start = time.perf_counter()
            total, seen = train_epoch(train, optimizer, outputs, args.batches)
            found = {"epoch": epoch, "loss": total / seen, "seconds": time.perf_counter() - start}
            print(json.dumps(found) if args.json else
                  f"epoch {epoch}: loss {found['loss']:.4f}, {found['seconds']:.2f} s", flush=True)
        for split in ("valid", "test"):
            found = accuracy(loader(split), model, outputs)
            print(json.dumps({"split": split, "accuracy": found}) if args.json else
                  f"accuracy on {split}: {found:.4f}")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""An epoch with PyG's NeighborLoader. Features and the graph are memory-mapped: as an edge_index,
which is what most programs use, the graph would be sorted in memory first."""
import torch
import torch_geometric
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import SAGEConv
from torch_sparse import SparseTensor

from epoch import FANOUTS, HIDDEN, arrays, classes_of, parse_args, timed_epoch


class Sage(torch.nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.layers = torch.nn.ModuleList([SAGEConv(width, HIDDEN), SAGEConv(HIDDEN, classes)])

    def forward(self, rows, edges):
        rows = F.dropout(rows, 0.5, self.training)
        rows = F.dropout(F.relu(self.layers[0](rows, edges)), 0.5, self.training)
        return self.layers[1](rows, edges)


def batches(args, data, train, model):
    loader = NeighborLoader(data, FANOUTS, train, batch_size=args.batch, shuffle=True)
    for batch in loader:
        seeds = batch.batch_size
        yield (lambda batch=batch, seeds=seeds: model(batch.x.float(), batch.adj_t)[:seeds],
               batch.y[:seeds], len(batch.x))


def main():
    args = parse_args(__doc__)
    features, labels, train, indptr, indices = arrays(args)
    graph = SparseTensor(rowptr=indptr, col=indices, sparse_sizes=(len(features), len(features)),
                         is_sorted=True, trust_data=True)
    data = Data(x=features, y=labels, adj_t=graph)
    model = Sage(features.shape[1], classes_of(labels, train))
    timed_epoch(args, {"torch": torch.__version__, "torch_geometric": torch_geometric.__version__},
                train, batches(args, data, train, model), model)


if __name__ == "__main__":
    main()

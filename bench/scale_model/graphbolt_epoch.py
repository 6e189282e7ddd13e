# SPDX-License-Identifier: Apache-2.0
"""An epoch with GraphBolt, its features on disk as OnDiskDataset opens them with in_memory: false.
The graph is memory-mapped, too: OnDiskDataset would load it."""
import dgl
import dgl.graphbolt as gb
import torch
from dgl.nn.pytorch import SAGEConv
from torch.nn import functional as F

from epoch import FANOUTS, HIDDEN, arrays, classes_of, parse_args, timed_epoch


class Sage(torch.nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.layers = torch.nn.ModuleList([SAGEConv(width, HIDDEN, "mean"),
                                           SAGEConv(HIDDEN, classes, "mean")])

    def forward(self, blocks, rows):
        rows = F.dropout(rows, 0.5, self.training)
        rows = F.dropout(F.relu(self.layers[0](blocks[0], rows)), 0.5, self.training)
        return self.layers[1](blocks[1], rows)


def batches(args, parts, model):
    features, labels, train, indptr, indices = parts
    graph = gb.fused_csc_sampling_graph(indptr, indices)
    store = gb.BasicFeatureStore({("node", None, "feat"): gb.TorchBasedFeature(features)})
    items = gb.ItemSet((train, labels[train]), names=("seed_nodes", "labels"))
    pipe = gb.ItemSampler(items, batch_size=args.batch, shuffle=True)
    pipe = pipe.sample_neighbor(graph, list(FANOUTS)).fetch_feature(store, node_feature_keys=["feat"
                                                                                              ])
    for batch in gb.DataLoader(pipe):
        yield (lambda batch=batch: model(batch.blocks, batch.node_features["feat"].float()),
               batch.labels, len(batch.input_nodes))


def main():
    args = parse_args(__doc__)
    parts = arrays(args)
    features, labels, train = parts[:3]
    model = Sage(features.shape[1], classes_of(labels, train))
    timed_epoch(args, {"torch": torch.__version__, "dgl": dgl.__version__}, train,
                batches(args, parts, model), model)


if __name__ == "__main__":
    main()

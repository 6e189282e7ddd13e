#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A graph attention network (Velickovic et al., 2018) in plain torch on a staged data set, with
features from a rung store.

    gat_torch.py cora.rung --host 20% --fanouts 10,10 --batch-size 32 --epochs 20 --test test
"""
import torch
from torch import nn
from torch.nn import functional as F
from training import accuracy, add_training, make_parser, train_epoch, width_and_classes

import rung


class Attention(nn.Module):
    """A layer. In each head, every destination weighs its sources and itself by a softmax."""

    def __init__(self, width, out, heads):
        super().__init__()
        self.project = nn.Linear(width, heads * out, bias=False)
        self.of_source = nn.Parameter(torch.empty(heads, out))
        self.of_target = nn.Parameter(torch.empty(heads, out))
        self.bias = nn.Parameter(torch.zeros(heads, out))
        nn.init.xavier_normal_(self.of_source)
        nn.init.xavier_normal_(self.of_target)

    def forward(self, rows, block, dropout):
        heads, out = self.bias.shape
        rows = self.project(rows).view(-1, heads, out)
        loops = torch.arange(block.dst_count).expand(2, -1)   # destinations are the first sources
        sources, targets = torch.cat([block.edge_index(), loops], 1)
        score = F.leaky_relu((rows
                              * self.of_source).sum(2)[sources] + (rows[
                                  : block.dst_count] * self.of_target).sum(2)[targets], 0.2)
        spread = targets[:, None].expand(-1, heads)
        # A softmax per destination. The largest score is subtracted so that exp() cannot overflow.
        most = score.new_full((block.dst_count, heads),
                              -torch.inf).scatter_reduce(0, spread, score.detach(), "amax")
        weight = (score - most[targets]).exp()
        weight = weight / weight.new_zeros(block.dst_count,
                                           heads).index_add(0, targets, weight)[targets]
        weight = F.dropout(weight, dropout, self.training)
        return (rows.new_zeros(block.dst_count, heads,
                               out).index_add(0, targets,
                                              weight[:, :, None] * rows[sources]) + self.bias)


class Gat(nn.Module):
    def __init__(self, width, hidden, heads, classes, hops, dropout):
        super().__init__()
        widths = [width] + [hidden * heads] * (hops - 1)
        self.layers = nn.ModuleList([Attention(wide, hidden, heads)
                                     for wide in widths[:-1]] + [Attention(widths[-1], classes, 1)])
        self.dropout = dropout

    def forward(self, rows, blocks):
        rows = rows.float()
        for layer, block in zip(self.layers, blocks):
            rows = layer(F.dropout(rows, self.dropout, self.training), block, self.dropout)
            rows = F.elu(rows.flatten(1)) if layer is not self.layers[-1] else rows.flatten(1)
        return rows


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--host", default=None,
                        help="host memory of the store (default: half of the free memory)")
    parser.add_argument("--test", metavar="SPLIT", help="print the final accuracy on this split")
    parser.add_argument("--fanouts", default="15,10")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=8, help="width of each head (default: 8)")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dropout", type=float, default=0.6)
    add_training(parser, epochs=3, lr=0.005)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    fanouts = [int(fanout) for fanout in args.fanouts.split(",")]
    with rung.Dataset(args.dataset) as dataset:
        width, classes = width_and_classes(dataset)
    model = Gat(width, args.hidden, args.heads, classes, len(fanouts), args.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)

    def outputs(batch):
        return model(batch.features, batch.blocks), batch.labels

    with rung.open(args.dataset, host=args.host, vertex_ids=False) as store:
        loader = rung.Loader(store, fanouts=fanouts, batch_size=args.batch_size, seed=args.seed)
        for epoch in range(1, args.epochs + 1):
            total, seen = train_epoch(loader, optimizer, outputs, args.batches)
            print(f"epoch {epoch}: loss {total / seen:.4f}; "
                  f"{loader.stats().wait:.2f} s waiting for batches", flush=True)
        if args.test:
            loader = rung.Loader(store, args.test, fanouts=fanouts, batch_size=args.batch_size,
                                 shuffle=False, seed=args.seed)
            print(f"accuracy on {args.test}: {accuracy(loader, model, outputs):.4f}")


if __name__ == "__main__":
    main()

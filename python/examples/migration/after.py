#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GraphSAGE on sampled batches: before.py with PyG's loader and data in memory, after.py with rung.

    before.py data.pt       a torch_geometric Data, saved with torch.save()
    after.py data.rung      the same, staged with rung.stage("data.rung", data=data, draws="new")
"""
import argparse

import rung
import torch
import torch.nn.functional as F
from torch_geometric.nn import GraphSAGE

parser = argparse.ArgumentParser()
parser.add_argument("data")
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(1)
data = rung.open(args.data, host="50%")


def make_loader(split, shuffle):
    return rung.Loader(data, input_nodes=split, form="pyg", num_neighbors=[15, 10],
                          batch_size=128, shuffle=shuffle)


train_loader, test_loader = make_loader("train", True), make_loader("test", False)
model = GraphSAGE(train_loader.num_features, 64, 2, train_loader.num_classes).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def train():
    model.train()
    total = seen = 0
    for batch in train_loader:
        batch = batch.to(device)
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        loss = F.cross_entropy(out, batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()
        total, seen = total + float(loss) * batch.batch_size, seen + batch.batch_size
    return total / seen


@torch.no_grad()
def test():
    model.eval()
    right = seen = 0
    for batch in test_loader:
        batch = batch.to(device)
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        right += int((out.argmax(dim=-1) == batch.y[: batch.batch_size]).sum())
        seen += batch.batch_size
    return right / seen


for epoch in range(1, 6):
    print(f"epoch {epoch}: loss {train():.4f}, accuracy on test {test():.4f}")

# SPDX-License-Identifier: Apache-2.0
"""What the examples do alike: their options, an epoch of training, and the accuracy on a split.

`outputs` is a function of a batch, and gives what the model makes of it [seeds, classes] and the
labels of its seeds.
"""
import argparse

import numpy as np
import torch
from torch.nn import functional as F


def make_parser(description, dataset="folder that rung stage made, with labels and a split train"):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help=dataset)
    return parser


def add_training(parser, epochs, lr, batches="of an epoch at most"):
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--batches", type=int, help=batches)
    parser.add_argument("--lr", type=float, default=lr)
    parser.add_argument("--seed", type=int, default=1)


def width_and_classes(dataset):
    """Numbers in a row of features, and classes of the labels."""
    return int(np.prod(dataset.shape[1:])), int(np.nanmax(dataset.array("labels"))) + 1


def train_epoch(loader, optimizer, outputs, batches=None):
    """The sum of the losses of all seeds, and their number; `batches` are trained on at most."""
    total = seen = 0
    for count, batch in enumerate(loader, 1):
        found, labels = outputs(batch)
        loss = F.cross_entropy(found, labels.long().flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total, seen = total + loss.item() * len(labels), seen + len(labels)
        if count == batches:
            break
    return total, seen


def accuracy(loader, model, outputs):
    """The share of seeds whose class is the model's most likely one."""
    right = seen = 0
    model.eval()
    with torch.no_grad():
        for batch in loader:
            found, labels = outputs(batch)
            right += (found.argmax(1) == labels.flatten()).sum().item()
            seen += len(labels)
    model.train()
    return right / seen

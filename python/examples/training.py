# SPDX-License-Identifier: Apache-2.0
"""Shared by the examples: options, an epoch of training, and the accuracy on a split.

`outputs` is a function of a batch that returns the model's output [seeds, classes] and the labels
of the seeds.
"""
import argparse

import numpy as np
import torch
from torch.nn import functional as F


def make_parser(description, dataset="folder staged with labels and a split train"):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help=dataset)
    return parser


def add_training(parser, epochs, lr, batches="maximum number of batches per epoch (default: all)"):
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--batches", type=int, help=batches)
    parser.add_argument("--lr", type=float, default=lr)
    parser.add_argument("--seed", type=int, default=1)


def width_and_classes(dataset):
    """Return the number of features per row and the number of classes."""
    return int(np.prod(dataset.shape[1:])), int(np.nanmax(dataset.array("labels"))) + 1


def train_epoch(loader, optimizer, outputs, batches=None):
    """Train on at most `batches` batches; return the sum of the losses and the number of seeds."""
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
    """Return the share of seeds whose class is the most likely one of the model."""
    right = seen = 0
    model.eval()
    with torch.no_grad():
        for batch in loader:
            found, labels = outputs(batch)
            right += (found.argmax(1) == labels.flatten()).sum().item()
            seen += len(labels)
    model.train()
    return right / seen

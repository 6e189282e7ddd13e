# SPDX-License-Identifier: Apache-2.0
"""Sampling of neighbours, and batches of sampled vertices with their rows."""

from .batch import Batch, Block, Sample
from .loader import Loader
from .sampler import NeighborSampler

__all__ = ["Batch", "Block", "Loader", "NeighborSampler", "Sample"]

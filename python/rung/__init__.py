# SPDX-License-Identifier: Apache-2.0
"""rung: feature rows of graph neural networks on a ladder of memory tiers.

    store = rung.open("papers.rung", host="16GiB")
    x = store.gather(ids)            # a torch tensor for torch ids, otherwise a numpy array
"""

from ._library import VERSION as __version__
from .arrays import Array
from .dataset import Dataset, Graph
from .dtypes import DType
from .errors import (AbiError, AgainError, BusyError, CanceledError, ClosedError, CorruptError,
                     Error, ExistsError, ForkError, FormatError,
                     InvalidError, LibraryError, NoDeviceError, NoMemoryError, NoSpaceError,
                     NotFoundError, NotSupportedError, RangeError,
                     ReadError, TimedOutError)
from .gather import Gather
from .loader import Batch, Loader
from .sampler import Block, NeighborSampler, Sample
from .staging import StageResult, stage
from .stats import EpochStats, Stats, Tier
from .store import Store, attach, open   # pylint: disable=redefined-builtin

# Imported at first use, because both modules import torch. They are not in __all__: a star import
# would look them up.
_LAZY = {"FeatureStore": "pyg", "Feature": "graphbolt"}


def __getattr__(name: str):
    if name not in _LAZY:
        raise AttributeError(f"module 'rung' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value   # later look-ups do not come here
    return value


__all__ = ["AbiError", "AgainError", "Array", "Batch", "Block", "BusyError", "CanceledError",
           "ClosedError", "CorruptError", "DType",
           "Dataset", "EpochStats", "Error", "ExistsError", "ForkError", "FormatError", "Gather",
           "Graph", "InvalidError", "LibraryError",
           "Loader", "NeighborSampler", "NoDeviceError", "NoMemoryError", "NoSpaceError",
           "NotFoundError", "NotSupportedError",
           "RangeError", "ReadError", "Sample", "StageResult", "Stats", "Store", "Tier",
           "TimedOutError", "__version__", "attach", "open",
           "stage"]

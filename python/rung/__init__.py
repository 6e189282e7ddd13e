# SPDX-License-Identifier: Apache-2.0
"""rung: feature rows of graph neural networks on a ladder of memory tiers.

    store = rung.open("papers.rung", host="16GiB")
    x = store.gather(ids)            # a torch tensor for torch ids, otherwise a numpy array
"""

from typing import TYPE_CHECKING

from ._library import VERSION as __version__
from .arrays import Array
from .dataset import Dataset, Graph
from .dtypes import DType
from .errors import (
    AbiError,
    AgainError,
    BusyError,
    CanceledError,
    ClosedError,
    CorruptError,
    Error,
    ExistsError,
    ForkError,
    FormatError,
    InvalidError,
    LibraryError,
    NoDeviceError,
    NoMemoryError,
    NoSpaceError,
    NotFoundError,
    NotSupportedError,
    RangeError,
    ReadError,
    TimedOutError,
)
from .gather import Gather
from .hetero.batch import TypedBatch
from .hetero.store import TypedStore
from .opening import attach, open
from .planning import Plan, PlanPart, PlanTable, PlanTier, plan, plan_tables
from .rows import Quantization
from .sampling import Batch, Block, Loader, NeighborSampler, Sample
from .staging import QuantizedRows, StageResult, stage
from .stats import EpochStats, Stats, Tier
from .store import Store

if TYPE_CHECKING:
    from .graphbolt import Feature as Feature
    from .pyg import FeatureStore as FeatureStore
    from .pyg import GraphStore as GraphStore
else:
    # These modules import torch, so they are imported when a name is first used. The names are not
    # in __all__: a star import would look them up.
    _LATE = {"FeatureStore": "pyg", "GraphStore": "pyg", "Feature": "graphbolt"}

    def __getattr__(name):
        if name not in _LATE:
            raise AttributeError(f"module 'rung' has no attribute {name!r}")
        import importlib
        import sys

        try:
            value = getattr(importlib.import_module(f".{_LATE[name]}", __name__), name)
        except ModuleNotFoundError as error:
            missing = f"rung.{name}: {error.name} is not installed; use pip install 'rung[pyg]'"
            # `from rung import NAME` would replace the message of an AttributeError. For other
            # users hasattr() must return False, so it cannot be an ImportError.
            if sys._getframe(1).f_code.co_name == "_handle_fromlist":   # of importlib
                raise LibraryError(missing) from error
            raise AttributeError(missing) from error
        globals()[name] = value   # later look-ups do not come here
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), "Feature", "FeatureStore", "GraphStore"})


__all__ = ["AbiError", "AgainError", "Array", "Batch", "Block", "BusyError", "CanceledError",
           "ClosedError", "CorruptError", "DType",
           "Dataset", "EpochStats", "Error", "ExistsError", "ForkError", "FormatError", "Gather",
           "Graph", "InvalidError", "LibraryError",
           "Loader", "NeighborSampler", "NoDeviceError", "NoMemoryError", "NoSpaceError",
           "NotFoundError", "NotSupportedError",
           "Plan", "PlanPart", "PlanTable", "PlanTier", "Quantization", "QuantizedRows",
           "RangeError", "ReadError", "Sample", "StageResult", "Stats", "Store", "Tier",
           "TimedOutError", "TypedBatch", "TypedStore", "__version__", "attach", "open", "plan",
           "plan_tables", "stage"]

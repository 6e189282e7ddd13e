# SPDX-License-Identifier: Apache-2.0
"""rung: feature rows of graph neural networks on a ladder of memory tiers.

    store = rung.open("papers.rung", host="16GiB")
    x = store.gather(ids)            # torch in, torch out; numpy otherwise
"""

from ._library import VERSION as __version__
from .arrays import Array
from .dataset import Dataset, Graph
from .dtypes import DType
from .errors import (AbiError, AgainError, BusyError, CanceledError, ClosedError, CorruptError, Error, ExistsError, ForkError, FormatError,
                     InvalidError, LibraryError, NoDeviceError, NoMemoryError, NoSpaceError, NotFoundError, NotSupportedError, RangeError,
                     ReadError, TimedOutError)
from .staging import StageResult, stage
from .store import Gather, Stats, Store, Tier, attach, open   # pylint: disable=redefined-builtin

__all__ = ["AbiError", "AgainError", "Array", "BusyError", "CanceledError", "ClosedError", "CorruptError", "DType", "Dataset", "Error",
           "ExistsError", "ForkError", "FormatError", "Gather", "Graph", "InvalidError", "LibraryError", "NoDeviceError", "NoMemoryError",
           "NoSpaceError", "NotFoundError", "NotSupportedError", "RangeError", "ReadError", "StageResult", "Stats", "Store", "Tier",
           "TimedOutError", "__version__", "attach", "open", "stage"]

# SPDX-License-Identifier: Apache-2.0
"""Lists of ids: torch, numpy, lists and whatever speaks DLPack, as the library takes them."""

from __future__ import annotations

import sys
from typing import Any, Optional

import numpy as np

from ._library import Ids
from .arrays import CPU, CUDA, HOST_READABLE, Foreign, device_name
from .dtypes import ID_DLPACK, ID_NUMPY, ID_TORCH
from .errors import InvalidError

_ID_CURE = "ids are int32, uint32, int64 or uint64, in one dimension"


class Listed:
    """A list of ids as the library takes it, and what keeps its memory.

    Attributes: `kind` is what the rows come back as. `kept`: a GPU may still read the ids when
    this is gone, since torch keeps them for its streams, or since they are read at submission.
    """

    __slots__ = ("ids", "keeps", "kind", "device", "kept")

    def __init__(self, ids: Ids, keeps: Any, kind: str, device: tuple[int, int] = (CPU, 0),
                 kept: bool = False):
        self.ids, self.keeps, self.kind, self.device = ids, keeps, kind, device
        self.kept = kept


def torch_of(value: Any):
    """torch when `value` is one of its tensors: then it was imported, else it is left alone."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


def _torch_device(tensor) -> tuple[int, int]:
    return (CUDA, tensor.device.index or 0) if tensor.device.type == "cuda" else (CPU, 0)


def list_ids(ids: Any, space: int, stream: Optional[int] = None) -> Listed:
    """A list of ids as the library takes it.

    Args:
        stream: handle of a CUDA stream, on which the library will read ids that a GPU has
    """
    torch = torch_of(ids)
    if torch is not None:
        if ids.dtype == torch.bool and ids.dim() == 1:
            raise InvalidError("ids are a mask: give mask.nonzero().flatten()")
        code = ID_TORCH.get(str(ids.dtype))
        if code is None or ids.dim() != 1 or ids.device.type not in ("cpu", "cuda") or ids.layout != torch.strided:
            raise InvalidError(f"ids {list(ids.shape)} {ids.dtype} on {ids.device}: {_ID_CURE}, on the CPU or a CUDA device")
        given, ids = ids, ids.contiguous()
        listed = Ids(ids.data_ptr(), ids.shape[0], code, space)
        # record_stream() is for memory of a GPU: a GPU reads pinned ids, and torch would not wait
        kept = stream is not None and not (ids.device.type == "cpu" and ids.is_pinned())
        return Listed(listed, (given, ids), "torch", _torch_device(ids), kept)
    if not isinstance(ids, (np.ndarray, list, tuple, range)) and hasattr(ids, "__dlpack__"):
        foreign = Foreign(ids, stream)
        code = ID_DLPACK.get(foreign.dtype.dlpack) if foreign.dtype else None
        if code is None or len(foreign.shape) != 1 or not foreign.contiguous:
            raise InvalidError(f"ids {list(foreign.shape)}: {_ID_CURE}, without gaps")
        if foreign.device[0] not in (*HOST_READABLE, CUDA):
            raise InvalidError(f"ids are on {device_name(foreign.device)}: "
                               "give host or CUDA memory")
        return Listed(Ids(foreign.data, foreign.shape[0], code, space), foreign, "rung", foreign.device)
    try:
        array = np.asarray(ids)
    except ValueError as error:   # lists of lists
        raise InvalidError(f"ids: {error}; {_ID_CURE}") from None
    if array.size == 0 and array.ndim == 1 and not isinstance(ids, np.ndarray):
        array = array.astype(np.int64)
    code = ID_NUMPY.get(array.dtype)
    if code is None or array.ndim != 1:
        raise InvalidError(f"ids {list(array.shape)} {array.dtype}: {_ID_CURE}")
    array = np.ascontiguousarray(array)
    return Listed(Ids(array.ctypes.data, array.shape[0], code, space), array, "numpy")

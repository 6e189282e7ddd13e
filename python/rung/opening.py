# SPDX-License-Identifier: Apache-2.0
"""rung.open() and rung.attach()."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._library import string
from .dataset import Dataset
from .dtypes import gather_dtype
from .errors import Error
from .hetero.store import TypedStore
from .sizes import Size, gpu_arguments
from .store import Store

if TYPE_CHECKING:
    import torch


def open(path: str | os.PathLike[str], host: Size | None = None, *, gpu: Size | None = None,
         gpus: Sequence[int] = (), device: str | torch.device | None = None,
         cache: Size | None = None, share: bool | str | os.PathLike[str] = False,
         vertex_ids: bool = True, queue_depth: int = 0, engine: str = "auto",
         numa: str | int = "auto", requests: int = 0, batch_rows: int = 0, merge_gap: int = 0,
         buffered: bool = False, read_timeout: float | Sequence[float] = 0,
         profile: str | os.PathLike[str] | None = None, private_cache: bool = False,
         sample_on_gpu: bool = False, structure: Size | None = None,
         window: int | str = "auto", dtype: Any = None) -> Store:
    """Open the features of a staged data set.

    The hottest rows are read into memory; the others stay in the file, and are called cold.

    Args:
        path: folder written by `rung.stage()` or `rung stage`
        host: budget of host memory for rows, neighbour lists, staging slots and the cold-row
            cache: bytes, "4GiB", "10%" of the features, or "max" (default: half of the free memory)
        gpu: memory of each GPU for rows, in the same forms. With `gpu` or `gpus`, a GPU gathers if
            there is one (default: the CPU gathers)
        gpus: numbers of the GPUs that hold rows; the first one gathers
        device: "cpu", "cuda", "cuda:N" (with the GPU of `gpus=[N]`), a torch.device, or "auto"
            (`why_cpu` has the reason if the CPU gathers)
        cache: part of `host` for cold rows that will be needed again: bytes, "1GiB", or "10%"
            (default: an eighth, or as `structure="auto"` divides it); typed: a share of each table
        share: let other processes attach: True (for workers that this process forks or spawns), or
            the path of a socket
        private_cache: with `share`: do not share the cold-row cache; attached processes have none
        sample_on_gpu: for `rung.Loader(..., sample_on="gpu")`: the budgets `gpu` and `host` include
            the graph, of which the same share is on the GPUs as of the rows. Then `structure`
            counts only without a GPU, or if the graph does not fit; the CPU samples then
        structure: part of `host` for the neighbour lists of the hottest vertices and for reading
            the others: bytes, "1GiB", "10%" of the lists, "max", or "auto", which divides `host` by
            the reads of batches sampled as given at staging. Loaders and samplers use these lists
            (default: none; loaders load the graph, which is not part of `host`)
        vertex_ids: ids are original vertices; False: only ranks, which saves 4 bytes per vertex
        queue_depth, engine, merge_gap, buffered: see rung-bench(1); 0: default
        numa: "auto", "interleave", "none" or the number of a NUMA node, see rung-bench(1)
        read_timeout: seconds after which a read fails, or a list of them per range; 0: 30 s
        window: announced batches whose cold rows are read together before they begin: a number, 0
            (none), or "auto", which follows `cache`. Rows staged in place need `vertex_ids` for it
        profile: output of `rung numa --json`, for `queue_depth`, `merge_gap`, `numa` not given here
        requests, batch_rows: most gathers in flight (default 8), most ids of one (default 1 Mi)
        dtype: of gathered quantized rows: float16, bfloat16 or float32 of torch or numpy, its name,
            or "raw": uint8 [vertices, stored_row_bytes] (default: as staged, float32 for float64)

    Returns:
        A `Store`, which the caller closes; of a typed data set a `TypedStore`, with one budget.

    Raises:
        NotFoundError, FormatError, CorruptError, ReadError: the data set does not exist, or is
            malformed, damaged or unreadable.
        InvalidError: an argument is invalid, or a budget is too small (`min_bytes` works).
        NoMemoryError, NoDeviceError: no memory, or no such GPU.
    """
    arguments = dict(locals())
    arguments.update(path=os.path.abspath(os.fsdecode(string(path, "path"))),
                     dtype=_code(dtype), **gpu_arguments(device, gpus))
    if profile is not None:
        arguments["profile"] = os.path.abspath(os.fsdecode(string(profile, "profile")))
    return _open(arguments)


def attach(share_path: str | os.PathLike[str], *, vertex_ids: bool = True, requests: int = 0,
           batch_rows: int = 0, private_cache: bool = False, gpu: int | None = None,
           dtype: Any = None) -> Store:
    """Attach to a store that another process of this user on this machine opened with `share`.

    All attached processes use the same host memory.

    Args:
        share_path: path of the other store's socket (`Store.share_path`)
        vertex_ids, requests, batch_rows: as in `rung.open()`
        dtype: as in `rung.open()`, independent of that of the other process
        private_cache: do not use the shared cold-row cache, to which all attached processes write
        gpu: number of the GPU that gathers, if the other process's store gathers on a GPU
            (default: the calling thread's current GPU, in torch `torch.cuda.current_device()`)

    Returns:
        A `Store`, which the caller closes.

    Raises:
        NotFoundError: no store is shared at the path.
        NoDeviceError: no such GPU.
        AbiError: the other process has a different version.
        TimedOutError, InvalidError: see `rung.Error`.
    """
    absolute = os.path.abspath(os.fsdecode(string(share_path, "share_path")))
    return Store({"share_path": absolute, "vertex_ids": vertex_ids,
                  "requests": requests, "batch_rows": batch_rows,
                  "private_cache": private_cache, "gpu": gpu, "dtype": _code(dtype)})


def _open(arguments: dict[str, Any]) -> Store:
    if is_typed(arguments["path"]):
        return TypedStore(arguments)   # type: ignore[return-value]
    return Store(arguments)


def is_typed(path: str) -> bool:
    """Return whether the folder is a typed data set. Errors are left to the caller."""
    try:
        with Dataset(path) as dataset:
            return dataset.types is not None
    except Error:
        return False


def _code(dtype: Any) -> int:
    """Return librung's code of the argument `dtype`; 0 for the default."""
    found = gather_dtype(dtype)
    return 0 if found is None else found.code

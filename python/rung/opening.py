# SPDX-License-Identifier: Apache-2.0
"""rung.open() and rung.attach(): arguments of stores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Optional, Union

from .errors import InvalidError
from .sizes import Size
from .store import Store


def open(path: Union[str, os.PathLike], *, host: Optional[Size] = None, gpu: Optional[Size] = None,
         gpus: Sequence[int] = (),   # pylint: disable=redefined-builtin
         device: Optional[str] = None, cache: Optional[Size] = None,
         share: Union[bool, str, os.PathLike] = False, vertex_ids: bool = True,
         queue_depth: int = 0, engine: str = "auto", numa: Union[str, int] = "auto",
         requests: int = 0, batch_rows: int = 0, merge_gap: int = 0,
         buffered: bool = False, read_timeout: float = 0,
         profile: Union[str, os.PathLike, None] = None, private_cache: bool = False,
         sample_on_gpu: bool = False, structure: Optional[Size] = None) -> Store:
    """Open the features of a staged data set.

    The hottest rows are read into memory; the others stay in the file, and are called cold.

    Args:
        path: folder written by `rung.stage()` or `rung stage`
        host: budget of host memory for rows, neighbour lists, staging slots and the cold-row
            cache: bytes, "4GiB", "10%" of the features, or "max" (default: half of the free memory)
        gpu: memory of each GPU for rows, in the same forms. With `gpu` or `gpus`, a GPU gathers if
            there is one (default: the CPU gathers)
        gpus: numbers of the GPUs that hold rows; the first one gathers
        device: "cpu", "cuda" or "auto" (`why_cpu` has the reason if the CPU gathers)
        cache: part of `host` for cold rows that will be needed again: bytes, "1GiB", or "10%" of
            `host` (default: an eighth)
        share: let other processes attach: True (for workers that this process forks or spawns), or
            the path of a socket
        private_cache: with `share`: do not share the cold-row cache; attached processes have none
        sample_on_gpu: for `rung.Loader(..., sample_on="gpu")`: the budgets `gpu` and `host` include
            the graph; the same share of it is on the GPUs as of the rows. If it does not fit and
            `structure` is given, the CPU samples
        structure: part of `host` for the neighbour lists of the hottest vertices and for reading
            the others from the file: bytes, "1GiB", "10%" of the lists, "max" for all lists, or
            "auto", which divides `host` by the reads of sampled batches, with the fanouts and the
            batch size given at staging. Loaders and samplers then use the lists of the store, and
            attached processes share them. Default: no lists; loaders load the whole graph, which is
            not part of `host`
        vertex_ids: ids are original vertices; False: only ranks, which saves 4 bytes per vertex
        queue_depth: most reads in flight; 0: default
        engine, merge_gap, buffered: see rung-bench(1)
        numa: "auto", "interleave", "none" or the number of a NUMA node, see rung-bench(1)
        read_timeout: seconds after which a read fails; 0: 30 s
        profile: output of `rung numa --json` on this machine, which determines `queue_depth`,
            `merge_gap` and `numa` if they are not given
        requests: most gathers in flight (default 8)
        batch_rows: most ids of a gather in flight (default 1 Mi)

    Returns:
        A `Store`, which the caller closes.

    Raises:
        NotFoundError, FormatError, CorruptError, ReadError: the data set does not exist, or is
            malformed, damaged or unreadable.
        InvalidError: an argument is invalid, or a budget is too small (`min_bytes` works).
        NoMemoryError, NoDeviceError: memory is exhausted, or the GPU does not exist.
    """
    arguments = dict(locals())
    if not isinstance(gpus, Iterable) or isinstance(gpus, (str, bytes)):
        raise InvalidError(f"gpus={gpus!r}: not a list; use GPU numbers, such as [0]")
    arguments.update(path=os.path.abspath(os.fsdecode(path)), gpus=tuple(gpus))
    if profile is not None:
        arguments["profile"] = os.path.abspath(os.fsdecode(profile))
    return Store(arguments)


def attach(share_path: Union[str, os.PathLike], *, vertex_ids: bool = True, requests: int = 0,
           batch_rows: int = 0, private_cache: bool = False, gpu: Optional[int] = None) -> Store:
    """Attach to a store that another process of this user on this machine opened with `share`.

    All attached processes use the same host memory.

    Args:
        share_path: path of the other store's socket (`Store.share_path`)
        vertex_ids, requests, batch_rows: as in `rung.open()`
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
    return Store(dict(share_path=os.fsdecode(share_path), vertex_ids=vertex_ids, requests=requests,
                      batch_rows=batch_rows, private_cache=private_cache, gpu=gpu))

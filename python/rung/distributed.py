# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training with torch.distributed: the ranks of each machine share one store."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch
import torch.distributed as dist

from .errors import InvalidError
from .opening import attach
from .opening import open as open_store
from .owned import Folder
from .store import Store


def _local_rank() -> int:
    """Return the rank on this machine. Raises InvalidError if torch.distributed is not set up."""
    if not dist.is_initialized():
        raise InvalidError("torch.distributed is not initialised; start with torchrun and call "
                           "init_process_group() first")
    if "LOCAL_RANK" not in os.environ:
        raise InvalidError("LOCAL_RANK is not set; start with torchrun, or set it to the rank on "
                           "this machine")
    return int(os.environ["LOCAL_RANK"])


def _share_path() -> str:
    """Return a path that all ranks of a job on a machine agree on, and no other job uses."""
    job = "-".join(os.environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "MASTER_PORT"))
    return os.path.join(tempfile.gettempdir(), f"rung-{os.getuid()}-{job}", "store")


def _own_gpu(local_rank: int) -> int:
    """Return the number of this rank's GPU: 0 if its launcher makes only one visible."""
    return 0 if torch.cuda.device_count() == 1 else local_rank


def open(path: str | os.PathLike[str], *, share: str | os.PathLike[str] | None = None,
         vertex_ids: bool = True, **options: Any) -> Store:   # pylint: disable=redefined-builtin
    """Open a store that the ranks of a machine share; every rank of the process group calls this.

    The first rank of each machine opens the store and the others attach, so host memory and the
    cold-row cache exist once per machine. If the first rank gathers on a GPU (`gpu=`, `gpus=`),
    each other rank gathers on the GPU of its LOCAL_RANK.

    Args:
        path: staged data set; each machine opens its own copy under this path
        share: socket of this job on this machine (default: one in the temporary folder, with the
            job's id in its name)
        vertex_ids: as in `rung.open()`
        options: of `rung.open()`. The first rank of a machine uses them all, the others use
            `requests`, `batch_rows` and `dtype`

    Returns:
        The store, which the caller closes. The first rank's memory serves the whole machine: call
        `torch.distributed.barrier()` before closing it.

    Raises:
        InvalidError: no process group, or LOCAL_RANK is not set.
        Error: opening or attaching failed. All ranks raise if one fails, so that none waits
            forever; a rank that did not fail itself raises InvalidError with the other's message.
    """
    local_rank = _local_rank()
    share_path = os.fspath(share) if share is not None else _share_path()
    store, error, machine, on_gpu = None, None, os.uname().nodename, False
    try:
        # First turn: the first rank of each machine opens. Second turn: the others attach, which
        # needs the socket. All ranks exchange errors after each turn.
        for turn in (True, False):
            try:
                if turn and local_rank == 0:
                    store = open_store(path, share=share_path, vertex_ids=vertex_ids, **options)
                    if share is None:
                        store._folder = Folder(os.path.dirname(share_path))
                elif not turn and store is None and error is None:
                    given: dict[str, Any] = {name: options[name] for name in options
                                             if name in ("requests", "batch_rows", "dtype")}
                    if on_gpu:
                        given["gpu"] = _own_gpu(local_rank)
                    store = attach(share_path, vertex_ids=vertex_ids, **given)
            except Exception as found:   # pylint: disable=broad-exception-caught
                error = found   # raised below: a rank that left here would block the others' gather
            found_by: list[Any] = [None] * dist.get_world_size()
            own_error = None if error is None else f"{type(error).__name__}: {error}"
            own = machine if store is not None and store.gpu >= 0 else None
            dist.all_gather_object(found_by, (own_error, own))
            on_gpu = any(on == machine for _, on in found_by)
            failed = [(rank, text) for rank, (text, _) in enumerate(found_by) if text is not None]
            if failed:
                raise error or InvalidError(f"rank {failed[0][0]}: {failed[0][1]}")
    except BaseException:
        if store is not None:
            store.close()
        raise
    assert store is not None
    return store

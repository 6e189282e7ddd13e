# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training with torch.distributed: the ranks of each machine share one store."""

from __future__ import annotations

import os
import tempfile
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from ._library import VERSION
from .dataset import Dataset, digest
from .dtypes import gather_dtype
from .errors import InvalidError
from .opening import attach
from .opening import open as open_store
from .owned import Folder
from .sampling.division import shuffling
from .sampling.ranks import compare
from .store import Store


class _Launcher(NamedTuple):
    """Environment variables of a program that starts ranks."""

    local_rank: str         # rank on the machine
    same: tuple[str, ...]   # the same on all ranks of a machine; together they name job and machine


# The first whose local rank is set. Open MPI comes before Slurm and torchrun before both, because
# processes also inherit the variables of the outer launcher that started the inner one: torchrun
# runs as one task of srun, and so do the daemons of mpirun.
_LAUNCHERS = (
    # NODE_RANK: the number of the machine if Lightning starts the ranks
    _Launcher("LOCAL_RANK", ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "GROUP_RANK", "NODE_RANK")),
    # Open MPI does not number machines; _machine() has the host's name
    _Launcher("OMPI_COMM_WORLD_LOCAL_RANK", ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")),
    _Launcher("SLURM_LOCALID", ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_NODEID")),
)
_SOCKET_MAX = 107   # sun_path without its end


def _local_rank() -> int:
    """Return the rank on this machine. Raises InvalidError if the launcher is unknown."""
    for launcher in _LAUNCHERS:
        value = os.environ.get(launcher.local_rank)
        if value is None:
            continue
        if not (value.isascii() and value.isdigit()):
            raise InvalidError(f"{launcher.local_rank}={value!r}: not a rank; set it to the rank "
                               "on this machine, from 0")
        return int(value)
    raise InvalidError("LOCAL_RANK is not set; start with torchrun, srun or mpirun, or set it to "
                       "the rank on this machine")


def _machine() -> tuple[str, ...]:
    """Return what the ranks of a job on a machine have in common, and no other ranks.

    All variables count, also those of outer launchers: together they distinguish more jobs. A
    container or a namespace is a machine if its launcher or its host name numbers it.
    """
    names = [name for launcher in _LAUNCHERS for name in launcher.same]
    return os.uname().nodename, *(os.environ.get(name, "") for name in names)


def _share_path() -> str:
    """Return a path that all ranks of a job on a machine agree on, and no other job uses."""
    name = f"rung-{os.getuid()}-{digest(repr(_machine()).encode())}"
    path = os.path.join(tempfile.gettempdir(), name, "store")
    return path if len(os.fsencode(path)) <= _SOCKET_MAX else os.path.join("/tmp", name, "store")


def _own_gpu(local_rank: int) -> int:
    """Return the number of this rank's GPU: 0 if its launcher makes only one visible."""
    return 0 if torch.cuda.device_count() == 1 else local_rank


def _exchange(error: Exception | None, own: Any) -> list[Any]:
    """Return the objects of all ranks. If any rank has an error, all raise."""
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, (error and f"{type(error).__name__}: {error}", own))
    for rank, (text, _) in enumerate(found):
        if text is not None:
            raise error or InvalidError(f"rank {rank}: {text}")
    return [each for _, each in found]


def _facts(path: Any, vertex_ids: Any, options: dict[str, Any]) -> dict[str, str]:
    """Return what must be the same on all ranks, by name.

    Other options may differ, because they change only speed and memory: batches and rows are the
    same for every budget, engine and device.
    """
    dtype = gather_dtype(options.get("dtype"))
    with Dataset(path) as dataset:
        manifest = {f"{name!r} in manifest.json": value
                    for name, value in dataset._contents().items()}
    return {"version of rung": VERSION, "shuffling by numpy": shuffling(),
            "vertex_ids": str(bool(vertex_ids)),
            "dtype": "as staged" if dtype is None else dtype.name, **manifest}


def _open_or_attach(path: Any, share: Any, vertex_ids: bool, options: dict[str, Any]) -> Store:
    """Open on the first rank of each machine, then attach on the others, which need its socket."""
    local_rank, machine = _local_rank(), _machine()
    share_path = os.fspath(share) if share is not None else _share_path()
    store: Store | None = None
    on_gpu = False
    try:
        for turn in (True, False):
            error = None
            try:
                if turn and local_rank == 0:
                    store = open_store(path, share=share_path, vertex_ids=vertex_ids, **options)
                    if share is None:
                        store._folder = Folder(os.path.dirname(share_path))
                elif not turn and store is None:
                    given: dict[str, Any] = {name: options[name] for name in options
                                             if name in ("requests", "batch_rows", "dtype")}
                    if on_gpu:
                        given["gpu"] = _own_gpu(local_rank)
                    store = attach(share_path, vertex_ids=vertex_ids, **given)
            except Exception as found:   # pylint: disable=broad-exception-caught
                error = found   # a rank that left here would block the others' gather
            on_gpu = machine in _exchange(error, machine if store and store.gpu >= 0 else None)
    except BaseException:
        if store is not None:
            store.close()
        raise
    assert store is not None
    return store


def open(path: str | os.PathLike[str], *, share: str | os.PathLike[str] | None = None,
         vertex_ids: bool = True, check: bool = True,
         **options: Any) -> Store:   # pylint: disable=redefined-builtin
    """Open a store that the ranks of a machine share; every rank of the process group calls this.

    The first rank of each machine opens the store and the others attach, so host memory and the
    cold-row cache exist once per machine. If the first rank gathers on a GPU (`gpu=`, `gpus=`),
    each other rank gathers on the GPU of its rank on the machine.

    Ranks may be started by torchrun, srun or mpirun (Open MPI), or with LOCAL_RANK set.

    Args:
        path: staged data set; each machine opens its own copy under this path
        share: socket of this job on this machine (default: one in the temporary folder, whose name
            depends on the job and the machine)
        vertex_ids: as in `rung.open()`
        check: compare, before anything is opened, the contents of the manifests, the versions of
            rung, the order in which numpy shuffles, `vertex_ids` and `dtype`, and refuse ranks that
            differ. Other options may differ between machines: they do not change batches or rows
        options: of `rung.open()`. The first rank of a machine uses them all, the others use
            `requests`, `batch_rows` and `dtype`

    Returns:
        The store, which the caller closes. The first rank's memory serves the whole machine: call
        `torch.distributed.barrier()` before closing it.

    Raises:
        InvalidError: no process group, no rank on this machine, or ranks differ: the message has
            the values, the hosts, and what to do.
        Error: opening or attaching failed. All ranks raise if one fails, so that none waits
            forever; a rank that did not fail itself raises InvalidError with the other's message.
    """
    if not dist.is_initialized():
        raise InvalidError("torch.distributed is not initialised; start with torchrun and call "
                           "init_process_group() first")
    error, facts = None, {}
    try:
        _local_rank()
        facts = _facts(path, vertex_ids, options) if check else {}
    except Exception as found:   # pylint: disable=broad-exception-caught
        error = found   # all ranks raise
    compare(_exchange(error, (os.uname().nodename, facts)))
    return _open_or_attach(path, share, vertex_ids, options)

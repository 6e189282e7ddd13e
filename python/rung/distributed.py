# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training (torchrun, torch.distributed): the ranks of a machine share one store."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import Any, Optional, Union

import torch.distributed as dist

from .errors import InvalidError
from .store import Store, attach
from .store import open as open_store


def _share_path() -> str:
    """The same for all ranks of a job on a machine, and for no other job."""
    job = "-".join(os.environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "MASTER_PORT"))
    return os.path.join(tempfile.gettempdir(), f"rung-{os.getuid()}-{job}", "store")


def open(path: Union[str, os.PathLike], *, share: Optional[Union[str, os.PathLike]] = None, vertex_ids: bool = True, **options: Any) -> Store:   # pylint: disable=redefined-builtin
    """`rung.open()` for every rank of an initialised process group, called by all: the first rank of each machine opens the store, the others attach.

    Its host memory, and the cache of rows from the file, exist once a machine. On several machines each opens its own copy under `path`.

    Args:
        share: socket of this job on this machine (default: one in the temporary folder, named by the job)
        options: of `rung.open()`, those of the first rank of the machine; `requests` and `batch_rows` of each

    Raises what opening or attaching raises, on all ranks: none is left waiting.
    """
    if not dist.is_initialized():
        raise InvalidError("torch.distributed is not initialised: call init_process_group() first, and start with torchrun")
    if "LOCAL_RANK" not in os.environ:
        raise InvalidError("LOCAL_RANK is not set: start with torchrun, or set it to the rank on this machine")
    share_path = os.fspath(share) if share is not None else _share_path()
    store, error = None, None
    for turn in (True, False):
        try:
            if turn and int(os.environ["LOCAL_RANK"]) == 0:
                store = open_store(path, share=share_path, vertex_ids=vertex_ids, **options)
                if share is None:
                    store._own_folder = weakref.finalize(store, shutil.rmtree, os.path.dirname(share_path), ignore_errors=True)
            elif not turn and store is None and error is None:
                store = attach(share_path, vertex_ids=vertex_ids, **{name: options[name] for name in ("requests", "batch_rows") if name in options})
        except Exception as found:   # pylint: disable=broad-exception-caught   # raised below, once all ranks know
            error = found
        errors: list = [None] * dist.get_world_size()
        dist.all_gather_object(errors, None if error is None else f"{type(error).__name__}: {error}")
        failed = [(rank, text) for rank, text in enumerate(errors) if text is not None]
        if failed:
            if store is not None:
                store.close()
            if error is not None:
                raise error
            raise InvalidError(f"rank {failed[0][0]}: {failed[0][1]}")
    assert store is not None
    return store

# SPDX-License-Identifier: Apache-2.0
"""Lightning: a DataModule whose loaders are `rung.Loader`s over one store per machine.

Importing this module imports torch and the package lightning, or else pytorch_lightning; if the
program has imported one of them, that one.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch.distributed as dist

from .. import distributed
from ..errors import ClosedError, LibraryError
from ..opening import open as open_store
from ..sampling import Loader
from ..store import Store


def _base() -> Any:
    """Return the LightningDataModule of the package that is installed."""
    names = sorted(("lightning.pytorch", "pytorch_lightning"), key=lambda name:
                   name not in sys.modules)
    for name in names:
        try:
            return importlib.import_module(name).LightningDataModule
        except ModuleNotFoundError as error:
            if error.name not in ("lightning", "pytorch_lightning"):
                raise
    raise LibraryError("rung.lightning: lightning is not installed; use pip install "
                       "'rung[lightning]'")


class _Training(Loader[Any]):
    """A loader whose epochs end where Lightning ends them, as by limit_train_batches.

    Lightning also saves the state of the loader itself.
    """

    trainer: Any = None

    def state_dict(self) -> dict[str, Any]:
        state, trainer = super().state_dict(), self.trainer
        if state["batch"] and trainer and trainer.is_last_batch and not trainer.interrupted:
            state.update(epoch=state["epoch"] + 1, batch=0)
        return state


class _Repeated(Loader[Any]):
    """A loader for evaluation: every pass has the draws of the first, also after a restart."""

    def __iter__(self) -> Iterator[Any]:
        self.set_epoch(0)
        return super().__iter__()


_Base: Any = _base()


class DataModule(_Base):   # type: ignore[misc]
    """Training, validation and test batches of a staged data set.

        data = rung.lightning.DataModule("papers.rung", val="valid", store={"host": "8GiB"})
        lightning.Trainer(devices=4, num_nodes=2).fit(model, data)

    `setup()` opens the store, with several ranks by `rung.distributed.open()`, and `teardown()`
    closes it. Checkpoints have the position of the training batches, so that a run resumes inside
    an epoch. Batches are those of `rung.Loader` with the same options. Of a `rung.Batch`,
    pass `batch_size=len(batch.seeds)` to `self.log()`.

    Args:
        path: staged data set; each machine opens its own copy
        train, val, test: seeds of the loaders, as in `rung.Loader`; None: no such loader
        store: options of `rung.open()`
        options: of `rung.Loader`, such as fanouts, batch_size and seed. `shuffle` and `drop_last`
            are for training only; validation and test have the same batches in each pass

    Attributes:
        path: as given
        store: the store, while it is open
    """

    def __init__(self, path: str | os.PathLike[str], *, train: Any = "train", val: Any = None,
                 test: Any = None, store: Mapping[str, Any] | None = None,
                 **options: Any) -> None:
        super().__init__()
        self.path: str = os.fspath(path)
        self.store: Store | None = None
        self._store_options = dict(store or {})
        self._seeds = {"train": train, "val": val, "test": test}
        self._options = options
        self._loaders: dict[str, Loader[Any]] = {}
        self._state: Mapping[str, Any] | None = None   # of a training loader to be created
        for name, seeds in self._seeds.items():
            if seeds is None:   # the method of the base class: Lightning then leaves the loop out
                setattr(self, f"{name}_dataloader", getattr(super(), f"{name}_dataloader"))

    def setup(self, stage: str | None = None) -> None:
        """Open the store, unless it is open."""
        if self.store is None:
            several = dist.is_available() and dist.is_initialized()
            function: Any = distributed.open if several else open_store
            self.store = function(self.path, **self._store_options)

    def teardown(self, stage: str | None = None) -> None:
        """Close the loaders and the store, when all ranks are done."""
        store, loaders = self.store, list(self._loaders.values())
        self.store = None
        self._loaders.clear()
        if store is None:
            return
        if dist.is_available() and dist.is_initialized():
            dist.barrier()   # all ranks of a machine use the memory of the first
        for loader in loaders:   # Lightning keeps them, and they would keep the store
            loader._exit()
        store.close()

    def _loader(self, name: str) -> Loader[Any]:
        if name not in self._loaders:
            if self.store is None:
                raise ClosedError(f"{name}_dataloader(): the store is not open; call setup() first")
            options = dict(self._options)
            if name != "train":
                options.update(shuffle=False, drop_last=False)
            create: Any = _Training if name == "train" else _Repeated
            self._loaders[name] = create(self.store, self._seeds[name], **options)
        return self._loaders[name]

    def train_dataloader(self) -> Loader[Any]:
        """Return the training loader, at the position of the loaded checkpoint if there is one."""
        loader = self._loader("train")
        loader.trainer = self.trainer   # type: ignore[attr-defined]
        if self._state is not None:
            loader.load_state_dict(self._state)
            self._state = None
        return loader

    def val_dataloader(self) -> Loader[Any]:
        """Return the validation loader."""
        return self._loader("val")

    def test_dataloader(self) -> Loader[Any]:
        """Return the test loader."""
        return self._loader("test")

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the training loader, which is the same on all ranks."""
        loader = self._loaders.get("train")
        return {} if loader is None else {"train": loader.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at a position from `state_dict()`, checked when training begins."""
        self._state = state_dict.get("train")

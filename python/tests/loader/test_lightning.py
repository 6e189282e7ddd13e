# SPDX-License-Identifier: Apache-2.0
"""rung.lightning.DataModule with Lightning's Trainer: checkpoints in and after an epoch."""

import os
import subprocess
import sys

import numpy as np
import pytest

import rung

pytest.importorskip("torch")
try:
    import lightning.pytorch as lightning
except ImportError:
    lightning = pytest.importorskip("pytorch_lightning", reason="needs lightning")

pytestmark = pytest.mark.filterwarnings("ignore")
EPOCHS, BATCHES = 3, 10


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("lightning")
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((2000, 16)).astype(np.float32)
    rung.stage(path / "g", graph=rng.integers(0, 2000, (2, 12000)), features=rows,
               labels=np.arange(2000) % 3, splits={"train": np.arange(0, 800, 2),
                                                   "valid": np.arange(1, 200, 2)},
               fanouts=(4,), batch_size=40)
    return path / "g"


class Model(lightning.LightningModule):
    def __init__(self):
        import torch

        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(16, 3)
        self.losses, self.checked = [], []

    def training_step(self, batch, _):
        import torch

        assert type(batch) is rung.Batch
        loss = torch.nn.functional.cross_entropy(self.layer(batch.features[: len(batch.seeds)]),
                                                 batch.labels)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, _):
        self.checked.append(batch.ranks.tolist())

    def configure_optimizers(self):
        import torch

        return torch.optim.Adam(self.parameters(), 0.1)


def module(path, **options):
    import rung.lightning

    return rung.lightning.DataModule(path, **{"val": "valid", "store": {"host": "50%"}, "seed": 5,
                                              **options})


class TypedModel(Model):
    """A batch is a HeteroData, as with `form="pyg"`."""

    def training_step(self, batch, _):
        import torch

        found = batch["paper"]
        loss = torch.nn.functional.cross_entropy(self.layer(found.x[: found.batch_size]),
                                                 found.y[: found.batch_size])
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, _):
        self.checked.append([batch["paper"].n_id.tolist(), batch["author"].n_id.tolist()])


def train(data, folder, stop=-1, saved=None, kind=Model, **options):
    save = lightning.callbacks.ModelCheckpoint(folder, filename="{step}", save_top_k=-1,
                                               **(options or {"every_n_epochs": 1}))
    trainer = lightning.Trainer(max_epochs=EPOCHS, max_steps=stop, callbacks=[save], logger=False,
                                accelerator="cpu", enable_progress_bar=False,
                                enable_model_summary=False)
    model = kind()
    trainer.fit(model, data, ckpt_path=saved)
    return model


def test_runs_resume_in_and_after_an_epoch(path, tmp_path):
    data = module(path)
    whole = train(data, tmp_path / "epochs")
    assert data.store is None   # closed by teardown()
    assert len(whole.losses) == EPOCHS * BATCHES == len(set(whole.losses))
    assert len(whole.checked) == 2 + EPOCHS * 3   # two batches before the training
    assert whole.checked[:2] == whole.checked[2:4] == whole.checked[8:10]   # the same each time
    part = train(module(path), tmp_path / "steps", 17, every_n_train_steps=3)
    assert part.losses == whole.losses[:17]
    for folder, steps in (("epochs", (10, 20)), ("steps", (3, 9, 12, 15))):
        for step in steps:
            resumed = train(module(path), tmp_path / "again",
                            saved=tmp_path / folder / f"step={step}.ckpt")
            assert resumed.losses == whole.losses[step:], (folder, step)


def test_batches_with_types(tmp_path):
    data = pytest.importorskip("torch_geometric.data").HeteroData()
    import torch

    paper, author = data["paper"], data["author"]
    paper.x, paper.y = torch.randn(2000, 16), torch.arange(2000) % 3
    paper.train_mask, author.num_nodes = torch.arange(2000) < 400, 100
    data["author", "writes", "paper"].edge_index = torch.randint(100, (2, 5000))
    data["paper", "by", "author"].edge_index = torch.randint(100, (2, 5000))
    rung.stage(tmp_path / "typed", data=data, fanouts=(4, 2), batch_size=40)

    def new():
        return module(tmp_path / "typed", val=np.arange(60), form="pyg")

    whole = train(new(), tmp_path / "typed-epochs", kind=TypedModel)
    assert len(whole.losses) == EPOCHS * BATCHES == len(set(whole.losses))
    assert whole.checked[:2] == whole.checked[2:4] == whole.checked[-2:]
    train(new(), tmp_path / "steps", 14, kind=TypedModel, every_n_train_steps=7)
    resumed = train(new(), tmp_path / "again", saved=tmp_path / "steps" / "step=14.ckpt",
                    kind=TypedModel)
    assert resumed.losses == whole.losses[14:]


def seen_batches(folder, data, saved=None, **options):
    """Train, and return (epoch of Lightning, first seeds) of each step."""
    class Seen(Model):
        def __init__(self):
            super().__init__()
            self.seen = []

        def training_step(self, batch, _):
            self.seen.append((self.current_epoch, batch.seeds.tolist()))
            return super().training_step(batch, _)

    save = lightning.callbacks.ModelCheckpoint(folder, filename="{step}", save_top_k=-1,
                                               every_n_train_steps=1)
    trainer = lightning.Trainer(**{"max_epochs": EPOCHS, "callbacks": [save], "logger": False,
                                   "accelerator": "cpu", "enable_progress_bar": False,
                                   "enable_model_summary": False, **options})
    model = Seen()
    try:
        trainer.fit(model, data, ckpt_path=saved)
    except rung.ReadError:
        pass
    return model.seen


def test_an_epoch_that_lightning_ends_early_is_not_continued(path, tmp_path):
    """In each step, also the last one of an epoch: the loader's epochs remain Lightning's."""
    options = {"limit_train_batches": 4, "limit_val_batches": 0}
    whole = seen_batches(tmp_path / "whole", module(path), **options)
    assert [epoch for epoch, _ in whole] == [0] * 4 + [1] * 4 + [2] * 4
    assert len({tuple(seeds) for _, seeds in whole}) == 12
    for step in (3, 4, 5, 8):
        resumed = seen_batches(tmp_path / "again", module(path),
                               tmp_path / "whole" / f"step={step}.ckpt", **options)
        assert resumed == whole[step:], step


def test_a_checkpoint_after_a_failed_read(path, tmp_path):
    """OnExceptionCheckpoint saves the batch that could not be read; no batch is left out."""
    options = {"store": {"host": "20%"}, "look_ahead": 1, "gathers": 1, "val": None,
               "batch_size": 10, "warm_up": False}
    whole = seen_batches(tmp_path / "whole", module(path, **options))
    file = path / "features.000.npy"
    kept = file.read_bytes()

    class Damage(lightning.Callback):
        def on_train_batch_end(self, trainer, *_):
            if trainer.global_step == 3:
                os.truncate(file, 1000)

    def exceptions(folder):
        return lightning.callbacks.OnExceptionCheckpoint(folder, filename="failed")

    try:
        seen = seen_batches(None, module(path, **options),
                            callbacks=[Damage(), exceptions(tmp_path)])
    finally:
        with open(file, "r+b") as out:
            out.write(kept)
    assert 3 <= len(seen) < len(whole) // EPOCHS and seen == whole[: len(seen)]
    resumed = seen_batches(tmp_path / "again", module(path, **options), tmp_path / "failed.ckpt")
    assert resumed == whole[len(seen):]


def test_a_checkpoint_of_other_options_is_refused(path, tmp_path):
    train(module(path), tmp_path, 3, every_n_train_steps=3)
    with pytest.raises(rung.InvalidError, match="state: seed is 5, of this loader 6"):
        train(module(path, seed=6), tmp_path, saved=tmp_path / "step=3.ckpt")


def test_a_module_without_a_trainer(path):
    from lightning_utilities.core.overrides import is_overridden

    data = module(path, val=None, test="valid", batch_size=50, drop_last=True)
    parent = lightning.LightningDataModule
    assert [is_overridden(f"{name}_dataloader", data, parent)
            for name in ("train", "val", "test")] == [True, False, True]
    assert data.state_dict() == {}
    with pytest.raises(rung.ClosedError, match="call setup"):
        data.train_dataloader()
    data.setup("fit")
    store = data.store
    data.setup("test")
    assert data.store is store and data.store.path == str(path)
    loader, test = data.train_dataloader(), data.test_dataloader()
    assert data.train_dataloader() is loader and isinstance(test, rung.Loader)
    assert (len(loader), len(test)) == (8, 2)
    first = [next(iter(loader)).seeds.tolist() for _ in range(2)]
    assert first[0] != first[1]
    assert next(iter(test)).seeds.tolist() == np.arange(1, 101, 2).tolist()
    state = data.state_dict()
    data.teardown("fit")
    data.teardown("fit")
    with pytest.raises(rung.ClosedError):
        next(iter(loader))
    data.load_state_dict(state)   # before setup()
    data.setup("fit")
    assert data.train_dataloader().epoch == 2
    data.teardown("fit")


RANKS = """
import sys
sys.path.insert(0, sys.argv[1])
import test_lightning as test
from pathlib import Path

path, folder = Path(sys.argv[2]), Path(sys.argv[3])
trainer = test.lightning.Trainer(max_epochs=1, accelerator="cpu", devices=2, strategy="ddp",
                                 logger=False, enable_progress_bar=False,
                                 enable_checkpointing=False, enable_model_summary=False)
model, data = test.Model(), test.module(path)
trainer.fit(model, data)
(folder / str(trainer.global_rank)).write_text(repr((len(model.losses), data.store)))
"""


def test_two_ranks_share_a_store(path, tmp_path):
    script = tmp_path / "run.py"
    script.write_text(RANKS)
    (tmp_path / "t").mkdir()
    done = subprocess.run([sys.executable, "-W", "ignore", script, os.path.dirname(__file__), path,
                           tmp_path], capture_output=True, text=True, timeout=240, check=False,
                          env={**os.environ, "TMPDIR": str(tmp_path / "t"), "PYTHONPATH":
                               os.path.dirname(os.path.dirname(rung.__file__))})
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / name).read_text() for name in "01"] == ["(5, None)"] * 2
    assert not list((tmp_path / "t").glob("rung-*"))

# SPDX-License-Identifier: Apache-2.0
"""Data parallelism: two ranks on one machine with one store, and gradients by gloo."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest

import rung

pytest.importorskip("torch")

RANK = """
import json, os, sys
import numpy as np
import torch
import torch.distributed as dist
import rung
import rung.distributed

path = sys.argv[1]
own = rung.open(path, host="30%")
early = rung.Loader(own, batch_size=40, arrays="torch")   # before the group exists
dist.init_process_group("gloo")
torch.set_num_threads(1)
store = rung.distributed.open(path, host="30%")
rows = np.load(sys.argv[2])
with rung.Dataset(path) as dataset:
    vertex_of_rank = dataset.array("vertex_of_rank")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(rows.shape[1], 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
seen = []
for _ in range(2):
    for batch in rung.Loader(store, batch_size=40, arrays="torch"):
        assert np.array_equal(batch.features.numpy(), rows[vertex_of_rank[batch.ranks.numpy()]])
        seen += batch.seeds.tolist()
        outputs = model(batch.features[: len(batch.seeds)].float())
        loss = torch.nn.functional.cross_entropy(outputs, batch.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
weights = [p.detach().tolist() for p in model.parameters()]
with open(os.path.join(sys.argv[3], os.environ["RANK"]), "w") as out:
    json.dump({"seen": seen, "weights": weights, "attached": "share_path" in store._arguments,
               "host": store.stats().tiers[0].rows,
               "early": [batch.seeds.tolist() for batch in early]}, out)
dist.barrier()
store.close()
dist.destroy_process_group()
"""

FAILS = """
import sys
import torch.distributed as dist
import rung, rung.distributed
dist.init_process_group("gloo")
try:
    rung.distributed.open(sys.argv[1])
except rung.Error as error:
    print("refused:", error)
    dist.barrier()
    dist.destroy_process_group()   # its threads abort a program that exits first
    sys.exit(0)
sys.exit(1)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("ranks")
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((2000, 64)).astype(np.float32)
    np.save(path / "x.npy", rows)
    rung.stage(path / "g", graph=rng.integers(0, 2000, (2, 12000)), features=rows,
               labels=np.arange(2000) % 3, splits={"train": np.arange(0, 800, 2)},
               fanouts=(4,), batch_size=40)
    return path


def run_ranks(script, *arguments, ranks=2, **variables):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    package = os.path.dirname(os.path.dirname(rung.__file__))
    started = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", script,
                                 *map(str, arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank),
                                     "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                                     "MASTER_PORT": str(port), "PYTHONPATH": package, **variables})
               for rank in range(ranks)]
    done = [process.communicate(timeout=240) for process in started]
    return [(process.returncode, *texts) for process, texts in zip(started, done)]


def test_two_ranks_share_a_store(folder, tmp_path):
    import json

    temporary = tmp_path / "t"
    temporary.mkdir()
    for code, _, errors in run_ranks(RANK, folder / "g", folder / "x.npy", tmp_path,
                                     TMPDIR=str(temporary)):
        assert code == 0, errors
    assert not list(temporary.glob("rung-*"))
    found = [json.loads((tmp_path / str(rank)).read_text()) for rank in range(2)]
    assert [one["attached"] for one in found] == [False, True]
    assert found[0]["host"] == found[1]["host"] > 0
    assert found[0]["weights"] == found[1]["weights"]
    assert [len(one["early"]) for one in found] == [5, 5]
    assert len({seed for one in found for seeds in one["early"] for seed in seeds}) == 400
    for epoch in range(2):
        parts = [one["seen"][200 * epoch : 200 * (epoch + 1)] for one in found]
        assert len(set(parts[0]) | set(parts[1])) == 400


def test_all_ranks_fail_if_one_cannot_open(tmp_path):
    for code, text, errors in run_ranks(FAILS, tmp_path / "nothing"):
        assert code == 0, errors
        assert "nothing" in text

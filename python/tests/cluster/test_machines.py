# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training on two machines, which are namespaces of this one: the losses are those of
one machine, bit by bit, also if a machine fails in an epoch and all resume from the saved state."""

import os
import shutil
import sys
import time

import numpy as np
import pytest
from machines import PORT, Machine, connect, need_namespaces

import rung

pytest.importorskip("torch")

EPOCHS, BATCHES = 3, 5
STOP = "1 2"   # epoch and batch
# Rank 0 saves the state and prints the loss after each step. Machine 1 stops in the epoch.
TRAIN = """
import os, sys, time
import torch
import torch.distributed as dist
import rung
import rung.distributed

folder, stop = sys.argv[1:3]
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
try:
    rung.distributed.open(os.path.join(folder, "data", "odd"), host="50%").close()
except rung.InvalidError as error:
    print("refused:", rank, error, flush=True)
store = rung.distributed.open(os.path.join(folder, "data", "g"), host="50%")
loader = rung.Loader(store, seed=3, arrays="torch")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), 0.05)
state = os.path.join(folder, "state")
if os.path.exists(state):
    saved = torch.load(state)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    loader.load_state_dict(saved["loader"])
for epoch in range(loader.epoch, int(sys.argv[3])):
    for batch in loader:
        block = batch.blocks[-1]
        source, target = block.edge_index()
        mean = torch.zeros(block.dst_count, 16).index_add(0, target, batch.features[source])
        loss = torch.nn.functional.cross_entropy(
            model(batch.features[:block.dst_count] + mean / 4), batch.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "loader": loader.state_dict()}, state + ".new")
            os.rename(state + ".new", state)
            print("loss:", epoch, batch.idx, total.item().hex(), flush=True)
        if stop == f"{epoch} {batch.idx}":
            dist.barrier()
            if os.environ["GROUP_RANK"] == "1":
                open(os.path.join(folder, f"stopped{rank}"), "w").close()
                time.sleep(300)
dist.barrier()
store.close()
time.sleep(0.5)   # destroy_process_group() of torch 2.2 may deadlock right after barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n10.77.0.1 node-a\n10.77.0.2 node-b\n")
    for name in ("t", "data/g", "data/odd"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("own", "other"):
        rows = rng.standard_normal((2000, 16)).astype(np.float32)
        rung.stage(tmp_path / name, graph=np.random.default_rng(2).integers(0, 2000, (2, 12000)),
                   features=rows, labels=np.arange(2000) % 4, splits={"train": np.arange(800)},
                   fanouts=(4,), batch_size=40)
    shutil.copytree(tmp_path / "own", tmp_path / "copy")
    return tmp_path


@pytest.fixture
def machines(folder):
    need_namespaces()
    made = []
    try:
        for name, address in (("node-a", "10.77.0.1"), ("node-b", "10.77.0.2")):
            made.append(Machine(name, address, folder / "t", folder / "hosts"))
        made[0].bind(folder / "own", folder / "data" / "g")
        made[0].bind(folder / "own", folder / "data" / "odd")
        made[1].bind(folder / "copy", folder / "data" / "g")
        made[1].bind(folder / "other", folder / "data" / "odd")
        limited = connect(*made)
        print("rate of the link:", "limited" if limited else "not limited, without tc")
        yield made
    finally:
        found = [machine.end() for machine in made]
    assert found == [[], []]   # no process or namespace remains


def start(machine, folder, nodes, ranks, link, stop="-"):
    variables = {"GLOO_SOCKET_IFNAME": link, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore",
                 "PYTHONPATH": os.path.dirname(os.path.dirname(rung.__file__)),
                 "PYTHONDONTWRITEBYTECODE": "1"}
    node = int(machine.name == "node-b")
    address = "127.0.0.1" if nodes == 1 else "10.77.0.1"
    return machine.start(
        sys.executable, "-m", "torch.distributed.run", "--nnodes", str(nodes), "--node-rank",
        str(node), "--nproc-per-node", str(ranks), "--master-addr", address, "--master-port",
        str(PORT), str(folder / "train.py"), str(folder), stop, str(EPOCHS), **variables)


def finish(started, status=0):
    text, _ = started.communicate(timeout=200)
    assert (started.returncode == 0) == (status == 0), text
    return text


def losses(text):
    return [line.split()[1:] for line in text.splitlines() if line.startswith("loss:")]


def test_two_machines(folder, machines):
    one = losses(finish(start(machines[0], folder, 1, 4, "lo")))
    assert [each[:2] for each in one] == [[str(epoch), str(batch)] for epoch in range(EPOCHS)
                                          for batch in range(BATCHES)]
    assert machines[0].left() == []
    os.remove(folder / "state")

    runs = [start(machine, folder, 2, 2, "v0", STOP) for machine in machines]
    deadline = time.monotonic() + 200
    while not all((folder / f"stopped{rank}").exists() for rank in (2, 3)):
        assert time.monotonic() < deadline and runs[1].poll() is None, runs[1].communicate()[0]
        time.sleep(0.05)
    machines[1].kill()
    texts = [finish(started, status=1) for started in runs]
    for text, ranks in zip(texts, ((0, 1), (2, 3))):
        for rank in ranks:
            line = next(line for line in text.splitlines() if f"refused: {rank} " in line)
            assert "'checksums' in manifest.json" in line and "copy the data set" in line
            assert "on node-a (rank 0); " in line and " on node-b (rank 2), but " in line
    before = losses(texts[0])
    assert before == one[: 1 * BATCHES + 3]

    runs = [start(machine, folder, 2, 2, "v0") for machine in machines]
    after = losses([finish(started) for started in runs][0])
    assert before + after == one
    assert [machine.left() for machine in machines] == [[], []]

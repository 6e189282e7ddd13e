# SPDX-License-Identifier: Apache-2.0
"""Processes with stores on GPUs: attached processes, the ranks of a job, and interpreter exit.

On simulated GPUs, with the stand-in for torch.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import HERE, SIMULATED

needs_sim = pytest.mark.skipif(
    not os.path.isfile(SIMULATED),
    reason="RUNG_SIM_LIBRARY does not name a librung for simulated GPUs; ctest builds one",
)


@pytest.fixture
def simulated(monkeypatch):
    monkeypatch.setenv("RUNG_LIBRARY", SIMULATED)
    monkeypatch.setenv("RUNG_SIM_GPUS", "3")
    monkeypatch.setenv("PYTHONPATH", os.path.join(HERE, "standin"))


ATTACH = """
import os, pickle, subprocess, sys
import numpy as np
import rung

path, socket, expected = sys.argv[1], sys.argv[2], np.load(sys.argv[3])
ids = np.random.default_rng(3).integers(0, len(expected), 1000)
same = lambda store: np.array_equal(store.gather(ids), expected[ids], equal_nan=True)


def refused(call, says):
    try:
        call()
    except rung.Error as error:
        assert says in str(error), error
        return
    raise SystemExit("the call was accepted")


if len(sys.argv) == 4:
    store = rung.open(path, gpu="30%", host="40%", device="cuda", gpus=[2], share=socket)
    subprocess.run([sys.executable, *sys.argv, "child"], check=True)
    rung.open(path, share=socket + "2").close()
    with rung.open(path, share=socket + "2") as on_cpu:
        refused(lambda: rung.attach(on_cpu.share_path, gpu=0), "gathers on the CPU")
        assert rung.attach(on_cpu.share_path).gpu == -1
    store.close()
else:
    for gpu, device in ((None, 0), (0, 0), (1, 1), (2, 2)):
        with rung.attach(socket, gpu=gpu) as store:
            assert store.device == f"cuda:{device}" and same(store)
            with pickle.loads(pickle.dumps(store)) as other:   # on the same GPU
                assert other.device == store.device and same(other)
    refused(lambda: rung.attach(socket, gpu=3), "3")
    for wrong in (-1, 1.5, "1"):
        refused(lambda: rung.attach(socket, gpu=wrong), "gpu=")
"""


@needs_sim
def test_attached_to_a_gpu(program, staged, tmp_path, simulated):
    np.save(tmp_path / "expected.npy", staged.features)
    program(ATTACH, staged.path, tmp_path / "folder" / "socket", tmp_path / "expected.npy")


RANK = """
import os, sys
import numpy as np
import torch.distributed as dist
import rung, rung.distributed

expected = np.load(sys.argv[2])
ids = np.random.default_rng(3).integers(0, len(expected), 1000)
options = {} if sys.argv[3] == "cpu" else {"gpu": "30%", "device": "cuda"}
with rung.distributed.open(sys.argv[1], host="40%", **options) as store:
    assert np.array_equal(store.gather(ids), expected[ids], equal_nan=True)
    print(store.device)
    dist.barrier()
"""


@needs_sim
@pytest.mark.parametrize(
    ("where", "visible", "devices"),
    [
        ("gpu", "3", ["cuda:0", "cuda:1", "cuda:2"]),
        ("gpu", "1", ["cuda:0"] * 3),
        ("cpu", "3", ["cpu"] * 3),
    ],
)
def test_each_rank_gathers_on_its_gpu(
    staged, tmp_path, simulated, monkeypatch, where, visible, devices
):
    """If a launcher shows each rank only one GPU, that GPU has number 0."""
    import rung

    np.save(tmp_path / "expected.npy", staged.features)
    (tmp_path / "group").mkdir()
    package = os.path.dirname(os.path.dirname(os.path.abspath(rung.__file__)))
    variables = {
        **os.environ,
        "RUNG_SIM_GPUS": visible,
        "STANDIN_GROUP": str(tmp_path / "group"),
        "WORLD_SIZE": "3",
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join((package, os.environ["PYTHONPATH"])),
    }
    command = [sys.executable, "-c", RANK, staged.path, str(tmp_path / "expected.npy"), where]
    started = [
        subprocess.Popen(
            command,
            env={**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    assert [process.communicate(timeout=240)[0].strip() for process in started] == devices
    assert [process.returncode for process in started] == [0] * 3


EXIT = """
import atexit, ctypes, os, sys, threading
import numpy as np
import torch   # the stand-in

sim = ctypes.CDLL(os.environ["RUNG_LIBRARY"])
sim.sim_live.restype = ctypes.c_size_t
batches = before = []


@atexit.register   # registered before rung's handlers, so called after them
def show():
    same = (np.array_equal(batch.ranks.numpy(), one) for batch, one in zip(batches, before))
    print(sim.sim_live(), *same, flush=True)


import rung

path, which, socket = sys.argv[1:]


def forever(thing):
    # the extra reference keeps it alive at interpreter exit
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


def open_store(**options):
    given = {"gpu": "30%", "host": "40%", "device": "cuda", "share": socket, **options}
    return forever(rung.open(path, **given))


ids = np.arange(1000)
if which == "gathers":
    store = open_store()
    with torch.cuda.stream(torch.cuda.Stream(0)):
        given = torch.from_numpy(ids).to("cuda:0")
        held = torch.cuda.hold()
        forever(store.gather_async(given))
        forever(store.gather_async(given))
    threading.Timer(0.3, held.release).start()
elif which == "loader":
    loader = forever(rung.Loader(open_store(), batch_size=20))
    epoch = forever(iter(loader))
    next(epoch)
elif which == "batches":
    batches = [forever(batch) for batch in rung.Loader(open_store(), batch_size=200)]
    # batches in use stay valid until all atexit handlers have run
    before = [batch.ranks.numpy().copy() for batch in batches]
elif which == "threads":
    store = open_store()
    loader = forever(rung.Loader(store, batch_size=20))
    ended, began = [], threading.Event()

    def epochs():
        try:
            while True:
                for batch in loader:
                    began.set()
        except rung.ClosedError as error:
            ended.append(error)

    def gathers():
        try:
            while True:
                store.gather(ids)
        except rung.ClosedError as error:
            ended.append(error)

    threads = [threading.Thread(target=work, daemon=True) for work in (epochs, gathers)]
    for thread in threads:
        thread.start()
    began.wait()
elif which == "fork":
    store = open_store(host="max", sample_on_gpu=True)
    loader = forever(rung.Loader(store, batch_size=20, sample_on="gpu", draws="all"))
    epoch = forever(iter(loader))
    next(epoch)
    inside, leave = threading.Event(), threading.Event()

    def call():   # on a thread that does not exist in the child
        with store._calls.lock(), loader._calls.lock():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=call)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        assert not any(handle._steps for handle in (loader._handle, *loader._handle._of))
        atexit._clear()
        atexit.register(rung.forks._at_exit)
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
    leave.set()
    thread.join()
    assert os.path.exists(socket) and sum(1 for _ in epoch) == 29
    assert np.array_equal(store.gather(ids), store[:1000], equal_nan=True)
"""


@needs_sim
@pytest.mark.parametrize("which", ["gathers", "loader", "batches", "threads", "fork"])
def test_interpreter_exit(program, staged, tmp_path, simulated, which):
    """Open objects are closed while CUDA still works; memory in use stays valid."""
    socket = tmp_path / "folder" / "socket"
    live, *same = program(EXIT, staged.path, which, socket).split()
    if which in ("gathers", "loader", "fork"):
        assert not socket.exists()
    if which in ("loader", "fork"):   # the stand-in for torch holds no GPU memory then
        assert live == "0"
    assert same == (["True"] * 3 if which == "batches" else [])

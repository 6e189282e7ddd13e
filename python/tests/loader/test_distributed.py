# SPDX-License-Identifier: Apache-2.0
"""Data parallelism: ranks on one machine with one store, and gradients by gloo; how ranks find
their machine's store, and the refusal of ranks that differ."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import types

import numpy as np
import pytest

import rung

pytest.importorskip("torch")

RANK = """
import json, os, sys, time
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
time.sleep(0.5)   # see FAILS
dist.destroy_process_group()
"""

FAILS = """
import sys, time
import torch.distributed as dist
import rung, rung.distributed
dist.init_process_group("gloo")
try:
    rung.distributed.open(sys.argv[1])
except rung.Error as error:
    print("refused:", error)
    dist.barrier()
    time.sleep(0.5)   # destroy_process_group() of torch 2.2 may deadlock right after barrier()
    dist.destroy_process_group()   # its threads abort a program that exits first
    sys.exit(0)
sys.exit(1)
"""


# Forks four ranks for each case, because importing torch takes most of the time. By their variables
# they are on `nodes` machines. Each rank prints a line of JSON.
CASES = """
import json, os, sys
import torch, torch.distributed as dist
import rung, rung.distributed

def of_rank(case, path, rank, nodes, different):
    ranks = 4 // nodes
    os.environ.update(LOCAL_RANK=str(rank % ranks), GROUP_RANK=str(rank // ranks))
    dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/{case}", rank=rank,
                            world_size=4)
    own = different if rank == 3 else {}
    os.environ.update(own.pop("environment", {}))
    try:
        store = rung.distributed.open(own.pop("path", path), **{"host": "30%", **own})
        loader = rung.Loader(store, batch_size=20, seed=2, arrays="torch")
        found = {"attached": "share_path" in store._arguments,
                 "batches": [(batch.seeds.tolist(), batch.vertices.tolist())
                             for _ in range(2) for batch in loader]}
        dist.barrier()
        del loader   # it uses the store
        store.close()
    except rung.Error as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    found["left"] = [name for name in os.listdir(os.environ["TMPDIR"]) if "rung" in name]
    dist.barrier()
    if rank == 0:   # after its own store
        found["left"] = [name for name in os.listdir(os.environ["TMPDIR"]) if "rung" in name]
    os.write(1, (json.dumps([case, rank, found]) + "\\n").encode())
    dist.barrier()
    os._exit(0)   # destroy_process_group() of torch 2.2 may deadlock right after barrier()

torch.set_num_threads(1)
cases = json.loads(sys.argv[2])
for case, (nodes, different) in enumerate(cases):
    children = []
    for rank in range(4):
        children.append(os.fork())
        if children[-1] == 0:
            of_rank(case, sys.argv[1], rank, nodes, different)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
"""


# Two ranks for each case, forked as above. Each prints a line of JSON.
PAIRS = """
import json, os, sys
import numpy as np
import torch, torch.distributed as dist
import rung, rung.sampling.ranks

def seen(loader, epochs=1):
    return [seed for _ in range(epochs) for batch in loader for seed in batch.seeds.tolist()]

def refused(call):
    try:
        call()
    except rung.InvalidError as error:
        return str(error)

def whole(store, rank, ids):   # the first cure
    return seen(rung.Loader(store, ids, arrays="torch"))

def alone(store, rank, ids):   # the second
    return seen(rung.Loader(store, np.array_split(ids, 2)[rank], rank=0, world_size=1,
                            arrays="torch"))

def chunks(store, rank, ids):
    loader = rung.Loader(store, np.array_split(ids, 2)[rank], arrays="torch")
    errors = [refused(lambda: seen(loader)) for _ in range(2)]   # it remains an error
    return errors, whole(store, rank, ids), alone(store, rank, ids)

def options(store, rank, ids):
    changes = ({"seed": rank}, {"shuffle": bool(rank)}, {"batch_size": 10 + rank},
               {"drop_last": bool(rank)}, {"fanouts": (2 + rank,)})
    return [refused(lambda: seen(rung.Loader(store, ids, arrays="torch", **{"fanouts": (),
                                                                            **change})))
            for change in changes]

def one_iterates(store, rank, ids):
    rung.sampling.ranks._WAIT_S = 0.3   # not the result depends on it: the other never iterates
    if rank == 1:
        return None
    error = refused(lambda: seen(rung.Loader(store, ids, arrays="torch")))
    return error, seen(rung.Loader(store, ids, rank=0, world_size=1, arrays="torch"))

def host_ends(store, rank, ids):
    if rank == 0:
        os._exit(0)   # with the store of the group
    return refused(lambda: seen(rung.Loader(store, ids, arrays="torch")))

def epochs(store, rank, ids):
    loader = rung.Loader(store, ids, arrays="torch")
    return seen(loader, 2) + seen(loader) + whole(store, rank, ids)

def of_rank(case, path, rank):
    meeting = f"tcp://127.0.0.1:{sys.argv[3]}" if case == "host_ends" else (
        f"file://{os.getcwd()}/{case}")
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    with rung.Dataset(path) as dataset:
        ids = dataset.split("train")[:-1]
    with rung.open(path, host="30%") as store:
        found = globals()[case](store, rank, ids)
    os.write(1, (json.dumps([rank, found]) + "\\n").encode())
    if case != "host_ends":
        dist.barrier()
    os._exit(0)

torch.set_num_threads(1)
children = []
for rank in range(2):
    children.append(os.fork())
    if children[-1] == 0:
        of_rank(sys.argv[2], sys.argv[1], rank)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
"""


def run_pair(folder, tmp_path, case):
    """Run two ranks. @return what each has found"""
    package = os.path.dirname(os.path.dirname(rung.__file__))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PAIRS, folder / "g", case,
                           str(free_port())],
                          capture_output=True, text=True, timeout=240, cwd=tmp_path, check=False,
                          env={**os.environ, "PYTHONPATH": package})
    assert done.returncode == 0, done.stderr
    return [found for _, found in sorted(map(json.loads, done.stdout.splitlines()))]


def test_ranks_that_have_divided_the_seeds_are_refused(folder, tmp_path):
    """They would train on a half of them. Each cure in the message trains on all."""
    found = run_pair(folder, tmp_path, "chunks")
    host = os.uname().nodename
    for errors, whole, alone in found:
        for error in errors:
            assert re.fullmatch(
                f"seeds: 199 \\([0-9a-f]{{8}}\\) on {host} \\(rank 1\\), but 200 "
                f"\\([0-9a-f]{{8}}\\) on {host} \\(rank 0\\); pass all to each rank, or "
                "rank=0, world_size=1 with a part", error), error
        assert len(whole) == 199 and len(alone) in (199, 200)
    assert len({seed for _, whole, _ in found for seed in whole}) == 398   # of 399: equal shares
    assert len({seed for _, _, alone in found for seed in alone}) == 399


def test_ranks_must_agree_on_what_divides_the_seeds(folder, tmp_path):
    for errors in run_pair(folder, tmp_path, "options"):
        names = [error and error.partition(":")[0] for error in errors]
        assert names == ["seed", "shuffle", "batch_size * world_size", "drop_last", None]
        assert all(error.endswith("; pass the same to all ranks") for error in errors[:4])


def test_a_rank_that_iterates_alone_is_refused(folder, tmp_path):
    """The other never iterates, and nothing hangs."""
    (error, alone), other = run_pair(folder, tmp_path, "one_iterates")
    assert other is None and len(set(alone)) == 399
    assert error == ("loader: no epoch on rank 1 in 0 s; use rank=0, world_size=1 on one rank, or "
                     "a barrier() first")


def test_a_rank_whose_group_has_ended_is_refused(folder, tmp_path):
    assert run_pair(folder, tmp_path, "host_ends") == [
        "loader: the process group's store has ended, with other ranks; use rank=0, world_size=1 "
        "on one rank"]


def test_ranks_that_agree_are_compared_once_per_loader(folder, tmp_path):
    found = run_pair(folder, tmp_path, "epochs")
    assert [len(seen) for seen in found] == [199 * 4] * 2
    for epoch in range(4):
        parts = [seen[199 * epoch : 199 * (epoch + 1)] for seen in found]
        assert len(set(parts[0]) | set(parts[1])) == 398


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("ranks")
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((2000, 64)).astype(np.float32)
    np.save(path / "x.npy", rows)
    sources = {"graph": rng.integers(0, 2000, (2, 12000)), "labels": np.arange(2000) % 3,
               "splits": {"train": np.arange(0, 800, 2)}, "fanouts": (4,), "batch_size": 40}
    rung.stage(path / "g", features=rows, **sources)
    rung.stage(path / "other", features=-rows, **sources)
    rung.stage(path / "less", features=rows[:1000])
    return path


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def run_ranks(script, *arguments, ranks=2, **variables):
    port = free_port()
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


def run_cases(folder, tmp_path, *cases):
    """Run four ranks for each (nodes, how rank 3 differs). @return what the ranks of each found"""
    package = os.path.dirname(os.path.dirname(rung.__file__))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CASES, folder / "g",
                           json.dumps(cases)], capture_output=True, text=True, timeout=240,
                          cwd=tmp_path, check=False,
                          env={**os.environ, "PYTHONPATH": package, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    found = [[None] * 4 for _ in cases]
    for case, rank, each in map(json.loads, done.stdout.splitlines()):
        found[case][rank] = each
    return found


def test_the_arrangement_of_ranks_does_not_change_batches(folder, tmp_path):
    """On 1, 2 and 4 machines, all of them this one: each has its own store and socket."""
    found = run_cases(folder, tmp_path, (1, {}), (2, {}), (4, {}))
    for nodes, ranks in zip((1, 2, 4), found):
        assert [each["attached"] for each in ranks] == [rank % (4 // nodes) > 0
                                                        for rank in range(4)]
        assert ranks[0]["left"] == []
    batches = [[each["batches"] for each in ranks] for ranks in found]
    assert batches[0] == batches[1] == batches[2]
    assert [len(each) for each in batches[0]] == [10] * 4
    assert len({seed for each in batches[0] for seeds, _ in each[:5] for seed in seeds}) == 400


def test_a_rank_that_differs_is_refused_by_all(folder, tmp_path):
    host = os.uname().nodename
    cases = (({"path": str(folder / "other")}, "'checksums' in manifest.json: [0-9a-f]+",
              "copy"),
             ({"path": str(folder / "less")}, "'vertices' in manifest.json: 1000", "copy"),
             ({"dtype": "float16"}, "dtype: f16", "pass the same to all ranks"),
             ({"vertex_ids": False}, "vertex_ids: False", "pass the same to all ranks"))
    found = run_cases(folder, tmp_path, *((2, different) for different, _, _ in cases))
    for (_, words, cure), ranks in zip(cases, found):
        for each in ranks:
            assert re.match(f"InvalidError: {words} on {host} \\(rank 3\\), but .* on {host} "
                            f"\\(rank 0\\); {cure}", each["error"]), each
            assert each["left"] == []   # nothing was opened


def test_what_may_differ_and_what_fails_on_one_rank(folder, tmp_path):
    found = run_cases(folder, tmp_path, (2, {"host": "20%", "cache": "64KiB", "engine": "pread"}),
                      (2, {"check": False, "path": str(folder / "other")}),
                      (1, {"path": str(folder / "nothing")}),
                      (1, {"environment": {"LOCAL_RANK": "x"}}), (2, {"requests": -1}))
    for each in found[0] + found[1]:
        assert len(each["batches"]) == 10
    for ranks, words in zip(found[2:], ("nothing", "LOCAL_RANK='x': not a rank", "requests=-1")):
        assert all(words in each["error"] for each in ranks), ranks
        assert all(each["error"].startswith("InvalidError: rank 3: ") for each in ranks[:3])


TORCHRUN = {"LOCAL_RANK": "1", "GROUP_RANK": "2", "TORCHELASTIC_RUN_ID": "run", "MASTER_PORT": "7"}
SLURM = {"SLURM_LOCALID": "3", "SLURM_NODEID": "4", "SLURM_JOB_ID": "55", "SLURM_STEP_ID": "0",
         "MASTER_PORT": "7"}
OPEN_MPI = {"OMPI_COMM_WORLD_LOCAL_RANK": "5", "PMIX_NAMESPACE": "77@1", "MASTER_PORT": "7"}
LIGHTNING = {"LOCAL_RANK": "6", "NODE_RANK": "1", "MASTER_PORT": "7"}


@pytest.fixture
def launched(monkeypatch):
    """Set the variables of a launcher, and no others of any launcher."""
    import rung.distributed

    def set_variables(given):
        for launcher in rung.distributed._LAUNCHERS:
            for name in (launcher.local_rank, *launcher.same):
                monkeypatch.delenv(name, raising=False)
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        return rung.distributed

    return set_variables


@pytest.mark.parametrize("given, rank, others", [
    (TORCHRUN, 1, ("GROUP_RANK", "TORCHELASTIC_RUN_ID", "MASTER_PORT")),
    (SLURM, 3, ("SLURM_NODEID", "SLURM_JOB_ID", "SLURM_STEP_ID")),
    (OPEN_MPI, 5, ("PMIX_NAMESPACE",)),
    (LIGHTNING, 6, ("NODE_RANK", "MASTER_PORT")),
    ({**SLURM, **TORCHRUN}, 1, ("GROUP_RANK", "SLURM_JOB_ID")),   # srun torchrun
    ({**SLURM, **OPEN_MPI}, 5, ("PMIX_NAMESPACE", "SLURM_NODEID")),   # mpirun in an allocation
    ({**SLURM, "LOCAL_RANK": "0"}, 0, ("SLURM_NODEID",))])   # srun with a script that sets it
def test_launchers(launched, monkeypatch, given, rank, others):
    module = launched(given)
    assert module._local_rank() == rank
    path = module._share_path()
    for name in others:   # another job or machine
        launched({**given, name: given[name] + "1"})
        assert module._share_path() != path, name
    for name in ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "RANK"):
        if name in given:   # another rank of the machine
            launched({**given, name: "9"})
            assert module._share_path() == path, name
    launched(given)
    monkeypatch.setattr(os, "uname", lambda: types.SimpleNamespace(nodename="another"))
    assert module._share_path() != path


def test_no_launcher(launched):
    with pytest.raises(rung.InvalidError, match="LOCAL_RANK is not set; start with torchrun, srun"):
        launched({})._local_rank()
    for wrong in ("", "-1", "one", "\u0663"):
        with pytest.raises(rung.InvalidError, match="SLURM_LOCALID=.*: not a rank; set it"):
            launched({**SLURM, "SLURM_LOCALID": wrong})._local_rank()


def test_the_socket_has_a_short_path(launched, monkeypatch, tmp_path):
    module = launched({**TORCHRUN, "TORCHELASTIC_RUN_ID": "long/" * 100})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert module._share_path().startswith(str(tmp_path) + f"/rung-{os.getuid()}-")
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/" + 100 * "t")
    assert module._share_path().startswith(f"/tmp/rung-{os.getuid()}-")
    assert len(module._share_path()) <= 107


def test_the_message_about_many_machines():
    from rung.sampling.ranks import compare

    ranks = [(f"node{rank // 2}", {"dtype": "f32"}) for rank in range(20)]
    compare(ranks)
    for rank in range(4, 16):
        ranks[rank] = ranks[rank][0], {"dtype": "f16"}
    ranks[19] = "node9", {}   # check=False
    with pytest.raises(rung.InvalidError) as error:
        compare(ranks)
    assert str(error.value) == (
        "dtype: f32 on node0 (rank 0), f32 on node1 (rank 2), f32 on node8 (rank 16), f32 on node9 "
        "(rank 18), but f16 on node2 (rank 4); pass the same to all ranks")
    ranks[4:7] = [(f"far{rank}", {"dtype": "f64"}) for rank in range(3)]
    with pytest.raises(rung.InvalidError, match=r"\(rank 5\), others on 3 more hosts, but f16 on"):
        compare(ranks)

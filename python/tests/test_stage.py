# SPDX-License-Identifier: Apache-2.0
"""rung.stage(): sources of every kind, and the state after stopped runs."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import weakref

import numpy as np
import pytest
from conftest import random_rows, same

import rung

VERTICES = 500
NUMBERS = np.random.default_rng(11)
GRAPH = NUMBERS.integers(0, VERTICES, (2, 2000))
FEATURES = NUMBERS.random((VERTICES, 6)).astype(np.float32)
SMALL = {"graph": GRAPH, "features": FEATURES, "fanouts": (3, 2)}


@pytest.fixture
def files(tmp_path):
    """The same data as files."""
    np.save(tmp_path / "graph.npy", GRAPH)
    np.save(tmp_path / "features.npy", FEATURES)
    return {"graph": tmp_path / "graph.npy", "features": str(tmp_path / "features.npy"),
            "fanouts": (3, 2)}


def rows_of(path):
    with rung.open(path) as store:
        return store.gather(np.arange(len(store)))


def everything(path):
    """Return the files of a folder and their contents."""
    return {name: open(os.path.join(path, name), "rb").read() for name in sorted(os.listdir(path))}


def left(tmp_path):
    return sorted(name for name in os.listdir(tmp_path)
                  if name not in ("graph.npy", "features.npy"))


def test_the_result(tmp_path):
    out = tmp_path / "out.rung"
    found = rung.stage(out, **SMALL)
    assert isinstance(found, rung.StageResult)
    assert ((found.path, found.vertex_count, found.edge_count, found.row_bytes,
             found.feature_bytes) == (str(out), VERTICES, 2000, 24, VERTICES * 24))
    assert (found.bytes_written == sum(len(data) for data in everything(out).values())
            and found.memory_bytes > 0 and found.seconds > 0)
    assert (found.row_order in ("passes", "partition", "gather") and not found.in_place
            and not found.resumed)
    assert ({"graph", "score", "rank", "relabel", "features"} <= set(found.phases)
            and sum(found.phases.values()) <= found.seconds * 1.01)
    assert left(tmp_path) == ["out.rung"] and same(rows_of(out), FEATURES)


def test_arrays_and_files_give_the_same_data_set(tmp_path, files):
    rung.stage(tmp_path / "arrays.rung", **SMALL)
    rung.stage(tmp_path / "files.rung", **files)
    one, other = everything(tmp_path / "arrays.rung"), everything(tmp_path / "files.rung")
    assert ({name: data for name, data in one.items() if name != "manifest.json"
             and name != "checksums.npy"} == \
            {name: data for name, data in other.items() if name != "manifest.json"
             and name != "checksums.npy"})


@pytest.mark.parametrize("features", [
    np.asfortranarray(FEATURES), FEATURES[::-1][::-1], np.stack([FEATURES, FEATURES], 2)[:, :, 1],
    FEATURES.astype(">f4"), FEATURES.tolist(), FEATURES[:, 0],
    random_rows("bf16", (VERTICES, 4)), random_rows("f16", (VERTICES, 2, 2)),
    random_rows("bool", (VERTICES, 9)), random_rows("u64", (VERTICES, 1))])
def test_features_in_memory(tmp_path, features):
    rung.stage(tmp_path / "out.rung", graph=GRAPH, features=features, fanouts=(2,))
    expected = np.asarray(features)
    assert same(rows_of(tmp_path / "out.rung"), expected.astype(expected.dtype.newbyteorder("<")))


def test_rows_of_a_store_are_features(tmp_path):
    class Old:
        def __dlpack__(self, stream=None):
            return np.arange(VERTICES).__dlpack__()

    for dtype in ("bf16", "i16"):
        first = random_rows(dtype, (VERTICES, 3))
        rung.stage(tmp_path / "first.rung", graph=GRAPH, features=first, fanouts=(2,), force=True)
        with rung.open(tmp_path / "first.rung") as store:
            rung.stage(tmp_path / "second.rung", graph=GRAPH, features=store.gather(Old()),
                       fanouts=(2,), force=True)
        assert same(rows_of(tmp_path / "second.rung"), first)


def test_torch_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    for features in (torch.randn(VERTICES, 4).bfloat16(), torch.randn(4, VERTICES).T,
                     torch.randn(VERTICES, 3, requires_grad=True),
                     torch.randint(0, 9, (VERTICES,), dtype=torch.int16),
                     torch.randn(VERTICES, 2).bfloat16()[:, ::2]):
        rung.stage(tmp_path / "out.rung", graph=torch.from_numpy(GRAPH), features=features,
                   labels=torch.arange(VERTICES), splits={"train": torch.arange(9)},
                   fanouts=[2], force=True)
        with rung.open(tmp_path / "out.rung") as store:
            rows = store.gather(torch.arange(VERTICES))
        assert rows.dtype == features.dtype and torch.equal(rows, features.detach())
    if hasattr(torch, "float8_e4m3fn"):   # as bytes
        features = torch.randn(VERTICES, 4).to(torch.float8_e4m3fn)
        rung.stage(tmp_path / "out.rung", features=features, splits={"none": []}, force=True)
        with rung.open(tmp_path / "out.rung") as store:
            assert torch.equal(store.gather(torch.arange(VERTICES)), features.view(torch.uint8))
    with pytest.raises(rung.InvalidError, match=r"features: torch.qint8: .*; convert it"):
        rung.stage(tmp_path / "other.rung", features=torch.quantize_per_tensor(
            torch.ones(3, 4), 0.1, 0, torch.qint8))


def test_several_graphs_and_forms(tmp_path, files):
    indptr = np.concatenate([[0], np.cumsum(np.bincount(GRAPH[1], minlength=VERTICES))])
    np.save(tmp_path / "indptr.npy", indptr)
    np.save(tmp_path / "indices.npy", GRAPH[0][np.argsort(GRAPH[1], kind="stable")])
    for graph in ([GRAPH[:, :700], GRAPH[:, 700:]], (files["graph"],), GRAPH.T,
                  GRAPH.astype(np.int32), [GRAPH.tolist()],
                  f"csc:{tmp_path}/indptr.npy,{tmp_path}/indices.npy"):
        found = rung.stage(tmp_path / "out.rung", graph=graph, features=FEATURES, fanouts=(3, 2),
                           force=True)
        assert found.edge_count == 2000
    assert (rung.stage(tmp_path / "out.rung", undirected=True, dry_run=True, force=True,
                       **SMALL).edge_count >= 2000)
    assert (rung.stage(tmp_path / "out.rung", dedup=True, dry_run=True, force=True,
                       **SMALL).edge_count <= 2000)


def test_scores_given_by_the_caller(tmp_path):
    scores = NUMBERS.random(VERTICES).astype(np.float32)
    rung.stage(tmp_path / "out.rung", score_source=scores, **SMALL)
    with rung.Dataset(tmp_path / "out.rung") as dataset:
        assert (dataset.score == "given"
                and np.array_equal(dataset.array("vertex_of_rank"),
                                   np.argsort(-scores, kind="stable")))
    for score in ("expected", "presample", "ppr", "wrpagerank", "rpagerank", "degree"):
        rung.stage(tmp_path / "out.rung", score=score, force=True, draws="new", seed=2**63 - 1,
                   threads=1, **SMALL)
        with rung.Dataset(tmp_path / "out.rung") as dataset:
            assert (dataset.score, dataset.draws) == (score, "new")


def test_fanouts_of_all_kinds(tmp_path):
    for fanouts, kept in (([25, -1], (25, -1)), (np.array([3, 2]), (3, 2)), ((), (25, 10)),
                          (range(1, 3), (1, 2))):
        rung.stage(tmp_path / "out.rung", graph=GRAPH, features=FEATURES, fanouts=fanouts,
                   force=True)
        with rung.Dataset(tmp_path / "out.rung") as dataset:
            assert dataset.fanouts == kept
            assert rung.NeighborSampler(dataset).hop_count == len(kept)   # all are usable
    for wrong in ([0], [-2], [1.5], [2**32 - 1], ["3"], [True], [2**32], 10, None):
        with pytest.raises(rung.InvalidError, match="fanouts="):
            rung.stage(tmp_path / "out2.rung", graph=GRAPH, features=FEATURES, fanouts=wrong)


def test_in_place(tmp_path, files):
    found = rung.stage(tmp_path / "out.rung", in_place=True, **files)
    assert found.in_place and same(rows_of(tmp_path / "out.rung"), FEATURES)
    with pytest.raises(rung.InvalidError, match="in_place=True: the features are in memory; pass"):
        rung.stage(tmp_path / "other.rung", in_place=True, **SMALL)
    assert left(tmp_path) == ["out.rung"]


def test_other_options(tmp_path, files):
    (tmp_path / "disk").mkdir()
    for options in ({"row_order": "gather"}, {"row_order": "partition"}, {"pad": "sector"},
                    {"stripe": [tmp_path / "disk"]}, {"memory": "64MiB"}, {"memory": 64 << 20}):
        rung.stage(tmp_path / "out.rung", force=True, **options, **files)
        assert same(rows_of(tmp_path / "out.rung"), FEATURES)


def test_one_folder_for_stripes(tmp_path):
    (tmp_path / "other").mkdir()
    rung.stage(tmp_path / "out", features=np.ones((3000, 64), np.float32),
               stripe=str(tmp_path / "other"))
    assert os.listdir(tmp_path / "other")
    with rung.open(tmp_path / "out", host="max") as store:
        assert store.shape == (3000, 64)


def test_features_without_a_graph(tmp_path, files):
    """Ranks follow the given order, a train split (its rows first) or a score."""
    train = np.array([400, 7, 30])
    order = np.r_[np.sort(train), np.delete(np.arange(VERTICES), train)]
    scores = NUMBERS.random(VERTICES).astype(np.float32)
    for options, ranked in (({}, np.arange(VERTICES)), ({"splits": {"train": train}}, order),
                            ({"score_source": scores}, np.argsort(-scores, kind="stable"))):
        found = rung.stage(tmp_path / "out.rung", features=files["features"], force=True, **options)
        assert (found.vertex_count, found.edge_count) == (VERTICES, 0)
        assert same(rows_of(tmp_path / "out.rung"), FEATURES)
        with rung.Dataset(tmp_path / "out.rung") as dataset:
            assert np.array_equal(dataset.array("vertex_of_rank"), ranked)
    with rung.open(tmp_path / "out.rung") as store, rung.Dataset(store.path) as dataset:
        batches = list(rung.Loader(store, np.arange(9), arrays="numpy", batch_size=9))
        assert len(batches) == 1 and batches[0].blocks == []
        assert same(batches[0].features, FEATURES[batches[0].vertices])
        for sample in (lambda: rung.NeighborSampler(dataset),
                       lambda: rung.Loader(store, fanouts=(2,), seeds=[1])):
            with pytest.raises(rung.InvalidError, match="out.rung: has no edges to sample; stage"):
                sample()


def test_dry_run(tmp_path):
    found = rung.stage(tmp_path / "out.rung", dry_run=True, **SMALL)
    assert found.bytes_written > VERTICES * 24 and left(tmp_path) == []


def test_existing_output(tmp_path):
    rung.stage(tmp_path / "out.rung", **SMALL)
    before = everything(tmp_path / "out.rung")
    with pytest.raises(rung.ExistsError, match="out.rung: exists") as found:
        rung.stage(tmp_path / "out.rung", **SMALL)
    assert (isinstance(found.value, FileExistsError)
            and everything(tmp_path / "out.rung") == before and left(tmp_path) == ["out.rung"])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").write_text("x")
    with pytest.raises(rung.ExistsError):
        rung.stage(tmp_path / "other", force=True, **SMALL)
    assert os.listdir(tmp_path / "other") == ["mine"]
    rung.stage(tmp_path / "out.rung", force=True, **{**SMALL, "features": FEATURES * 2})
    assert same(rows_of(tmp_path / "out.rung"), FEATURES * 2)


@pytest.mark.parametrize("wrong, error, says", [
    ({"features": "none.npy"}, rung.NotFoundError, "none.npy"),
    ({"graph": "none.npy"}, rung.NotFoundError, "none.npy"),
    ({"features": object()}, rung.InvalidError, "features: unsupported type object; use a path"),
    ({"features": 5}, rung.InvalidError, "type int;"),
    ({"features": FEATURES[:-1]}, rung.Error, r"499|500"),
    ({"features": FEATURES.astype(complex)}, rung.FormatError, "c8|c16|dtype|type"),
    ({"graph": GRAPH[0]}, rung.Error, "dimension"),
    ({"graph": GRAPH * 1.0}, rung.FormatError, "i32, i64"),
    ({"graph": []}, rung.InvalidError, r"graph=\[\]: no source; use"),
    ({"graph": None}, rung.InvalidError, "fanouts need a graph"),
    ({"graph": None, "fanouts": (), "undirected": True}, rung.InvalidError,
     "undirected needs edges"),
    ({"score": "degree", "score_source": np.ones(VERTICES, np.float32)}, rung.InvalidError,
     "score='degree' and score_source: both"),
    ({"graph": GRAPH - 1}, rung.RangeError, "-1"), ({"vertex_count": 499}, rung.Error, "499"),
    ({"labels": np.arange(3)}, rung.Error, "labels|3"),
    ({"splits": {"a/b": [1]}}, rung.InvalidError, "a/b"),
    ({"splits": {"a\0": [1]}}, rung.InvalidError, "zero byte"),
    ({"splits": {"train": [VERTICES]}}, rung.RangeError, "500"),
    ({"splits": [[1]]}, rung.InvalidError, "splits: has type list; use a dict of sources by name"),
    ({"progress": 5}, rung.InvalidError, "progress=5: not a function"),
    ({"fanouts": "15,10"}, rung.InvalidError, "fanouts='15,10': not a list; use one number"),
    ({"fanouts": {"a": 5}}, rung.InvalidError, "fanouts: is a dict, but the graph is not typed"),
    ({"fanouts": (3, -2)}, rung.InvalidError, r"fanouts=.*: -2 is not valid; use 1 or more, or -1"),
    ({"fanouts": (0,)}, rung.InvalidError, r"fanouts=.*: 0 is not valid; use 1 or more, or -1"),
    ({"memory": "4GX"}, rung.InvalidError, "use bytes .4096., '64KiB', '1.5GiB', or 'max'"),
    ({"splits": {"train": [0.5]}}, rung.FormatError, "integer|bool|f64"),
    ({"arrays": {"x": np.arange(7)}}, rung.Error, "7"),
    ({"score": "best"}, rung.InvalidError, "best.*blend"),
    ({"score_source": np.arange(VERTICES)}, rung.Error, "f32|float32|i64"),
    ({"draws": "some"}, rung.InvalidError, "draws='some'"),
    ({"row_order": "x"}, rung.InvalidError, "row_order='x'"),
    ({"pad": 4}, rung.InvalidError, "pad=4"),
    ({"batch_size": -1}, rung.InvalidError, "batch_size=-1"),
    ({"batch_size": 2**32}, rung.InvalidError, "batch_size="),
    ({"vertex_count": -1}, rung.InvalidError, "vertex_count"),
    ({"seed": -1}, rung.InvalidError, "seed=-1"), ({"seed": 2**63}, rung.InvalidError, "seed="),
    ({"threads": -1}, rung.InvalidError, "threads=-1"),
    ({"memory": "1 GX"}, rung.InvalidError, "memory='1 GX'"),
    ({"memory": "10%"}, rung.InvalidError, "memory="), ({"stripe": ["none"]}, rung.Error, "none"),
    ({"features": "a\0.npy"}, rung.InvalidError, "zero byte"),
    ({"memory": 1}, rung.InvalidError, "memory")])
def test_invalid_input(tmp_path, monkeypatch, wrong, error, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=says):
        rung.stage("out.rung", **{**SMALL, **wrong})
    assert left(tmp_path) == []


def test_too_small_a_budget_reports_the_minimum(tmp_path):
    """Each phase of the work checks its own minimum."""
    memory = 1
    for _ in range(5):
        try:
            rung.stage(tmp_path / "out.rung", memory=memory, **SMALL)
            break
        except rung.InvalidError as error:
            assert (error.min_bytes > memory and str(error.min_bytes) in str(error)
                    and left(tmp_path) == [])
            memory = error.min_bytes
    assert memory > 1 and same(rows_of(tmp_path / "out.rung"), FEATURES)


def test_missing_output_folder(tmp_path):
    for sources in (SMALL, {**SMALL, "graph": "none.npy", "features": "none.npy"}):
        with pytest.raises(rung.NotFoundError, match="nowhere"):
            rung.stage(tmp_path / "nowhere" / "out.rung", **sources)
    assert left(tmp_path) == []


def test_unusual_folder_names(tmp_path):
    for name in ("a b", "a,b", "a:b", "csc:x", "ä", "+0,0", "%s"):
        (tmp_path / name).mkdir()
        rung.stage(tmp_path / name / "out.rung", labels=np.arange(VERTICES), **SMALL)
        assert same(rows_of(tmp_path / name / "out.rung"), FEATURES)


# ---- progress ----

def test_progress(tmp_path):
    told = []
    rung.stage(tmp_path / "out.rung", progress=lambda *args: told.append(args), **SMALL)
    assert {"score", "features", "files"} <= {step for step, _, _ in told}
    assert all(type(step) is str and 0 <= done and (total == 0 or done <= total) for step, done,
               total in told)


def test_progress_with_tqdm(tmp_path, capsys):
    pytest.importorskip("tqdm")
    rung.stage(tmp_path / "out.rung", progress=True, **SMALL)
    said = capsys.readouterr()
    assert said.out == "" and "features: 100%" in said.err


class Mine(BaseException):
    pass


def stopper(step, error):
    def progress(name, _done, _total):
        if name == step:
            raise error
    return progress


@pytest.mark.parametrize("step", ["score", "relabel", "features", "files"])
@pytest.mark.parametrize("error", [ValueError, Mine, KeyboardInterrupt, SystemExit])
def test_an_exception_in_progress_stops_and_leaves_nothing(tmp_path, step, error):
    with pytest.raises(error, match="mine"):
        rung.stage(tmp_path / "out.rung", progress=stopper(step, error("mine")), **SMALL)
    assert left(tmp_path) == []


def test_staging_of_files_can_be_resumed(tmp_path, files):
    rung.stage(tmp_path / "whole.rung", **files)
    with pytest.raises(Mine):
        rung.stage(tmp_path / "out.rung", progress=stopper("features", Mine), **files)
    assert left(tmp_path) == ["out.rung.partial", "whole.rung"]
    with pytest.raises(rung.ExistsError, match="unfinished work"):
        rung.stage(tmp_path / "out.rung", **files)
    with pytest.raises(rung.ExistsError):   # arrays: the work of another job is kept
        rung.stage(tmp_path / "out.rung", **SMALL)
    with pytest.raises(rung.InvalidError, match="another job"):
        rung.stage(tmp_path / "out.rung", resume=True, **SMALL)
    with pytest.raises(rung.InvalidError, match="row_order="):
        rung.stage(tmp_path / "out.rung", row_order="none", force=True, **SMALL)
    assert left(tmp_path) == ["out.rung.partial", "whole.rung"]
    found = rung.stage(tmp_path / "out.rung", resume=True, **files)
    assert (found.resumed and same(rows_of(tmp_path / "out.rung"), FEATURES)
            and left(tmp_path) == ["out.rung", "whole.rung"])
    one, other = everything(tmp_path / "out.rung"), everything(tmp_path / "whole.rung")
    assert (one.keys() == other.keys() and all(one[name] == other[name] for name in one
                                               if name not in ("manifest.json", "checksums.npy")))
    again = rung.stage(tmp_path / "out.rung", resume=True, **files)
    assert again.already_staged and not found.already_staged
    assert (again.bytes_written, again.edge_count) == (found.bytes_written, found.edge_count)
    assert everything(tmp_path / "out.rung") == one
    with pytest.raises(rung.ExistsError, match="another job: sampling was .* 1024.* is .* 99"):
        rung.stage(tmp_path / "out.rung", resume=True, batch_size=99, **files)
    (tmp_path / "out.rung" / "score.npy").unlink()
    with pytest.raises(rung.CorruptError, match="score.npy: is missing"):
        rung.stage(tmp_path / "out.rung", resume=True, **files)


def test_work_of_another_process_is_kept(tmp_path, files):
    """The other process holds the lock of the folder while our run fails for another reason."""
    import fcntl

    with pytest.raises(Mine):
        rung.stage(tmp_path / "out.rung", progress=stopper("features", Mine), **files)
    folder = os.open(tmp_path / "out.rung.partial", os.O_RDONLY | os.O_DIRECTORY)
    os.rename(tmp_path / "out.rung.partial", tmp_path / "aside")

    def progress(name, _done, _total):   # the locked folder appears during our run
        if name == "graph" and (tmp_path / "aside").exists():
            fcntl.flock(folder, fcntl.LOCK_EX)
            os.rename(tmp_path / "aside", tmp_path / "out.rung.partial")

    with pytest.raises(rung.Error):
        rung.stage(tmp_path / "out.rung", progress=progress, **SMALL)
    os.close(folder)
    assert left(tmp_path) == ["out.rung.partial"]


def test_ctrl_c(program, tmp_path, files):
    """SIGINT arrives while the library works, with and without a progress of the caller."""
    program("""
        import os, signal, sys, threading
        import numpy as np
        import rung
        folder, wanted = sys.argv[1], sys.argv[2]
        # SIGINT is ignored if the tests run in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
        def stop(name, done, total):
            if name == "features":
                os.kill(os.getpid(), signal.SIGINT)
        graph, features = np.random.default_rng(1).integers(0, 500, (2, 2000)), np.ones((500, 6))
        try:
            rung.stage(folder + "/out.rung", graph=graph, features=features, progress=stop)
            raise SystemExit("staging was not stopped")
        except KeyboardInterrupt:
            assert sorted(os.listdir(folder)) == sorted(wanted.split()), os.listdir(folder)
        real = rung.staging.progress.Progress._tell
        def tell(self, ctx, stage, done, total):       # before a line of it runs
            if stage == b"score":
                signal.raise_signal(signal.SIGINT)
            return real(self, ctx, stage, done, total)
        rung.staging.progress.Progress._tell = tell
        try:
            rung.stage(folder + "/out.rung", graph=graph, features=features)
            raise SystemExit("staging was not stopped")
        except KeyboardInterrupt:
            assert sorted(os.listdir(folder)) == sorted(wanted.split()), os.listdir(folder)
        def handler(number, frame):
            raise BlockingIOError("mine")
        signal.signal(signal.SIGINT, handler)
        try:
            rung.stage(folder + "/out.rung", graph=graph, features=features)
            raise SystemExit("staging was not stopped")
        except BlockingIOError as error:
            assert str(error) == "mine" and signal.getsignal(signal.SIGINT) is handler
        signal.signal(signal.SIGINT, lambda number, frame: print("handled"))
        thread = threading.Thread(target=rung.stage, args=(folder + "/out.rung",),
                                  kwargs={"graph": graph, "features": features})
        rung.staging.progress.Progress._tell = real
        thread.start()
        thread.join()
        assert os.path.exists(folder + "/out.rung")
    """, tmp_path, "graph.npy features.npy program.py")


def test_no_argument_is_kept(tmp_path):
    """The arguments are released at the end of the call, also after a failure."""
    class Owner(np.ndarray):
        pass

    for progress in (None, stopper("features", Mine), lambda *_: None):
        features = FEATURES.copy().view(Owner)
        gone = weakref.ref(features)
        try:
            rung.stage(tmp_path / "out.rung", force=True, progress=progress,
                       **{**SMALL, "features": features})
        except Mine:
            pass
        del features
        assert sys.exc_info() == (None, None, None)
        progress = None
        gc.collect()
        assert gone() is None


def test_signal_handlers_are_restored(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    rung.stage(tmp_path / "out.rung", **SMALL)
    assert signal.getsignal(signal.SIGINT) is before


REPLACED = """
import os, sys, warnings
import numpy as np
import rung
folder = sys.argv[1]
if os.getuid() == 0:   # root may remove any file
    os.chown(folder, 65534, -1)
    os.setuid(65534)
given = {"graph": np.zeros((2, 1), int), "features": np.ones((10, 2), "f4"), "score": "degree"}
rung.stage(folder + "/out", **given)
os.chmod(folder + "/out", 0o555)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    rung.stage(folder + "/out", force=True, **given)
os.chmod(folder + "/out.partial", 0o755)
print(*[warning.message for warning in caught])
"""


def test_a_replaced_data_set_that_cannot_be_removed_gives_a_warning():
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", REPLACED, folder], capture_output=True,
                              text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{folder}/out.partial: the replaced dataset could not be removed" in done.stdout

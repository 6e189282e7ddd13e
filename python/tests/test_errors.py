# SPDX-License-Identifier: Apache-2.0
"""Errors raise the matching exception with the library's message: file, position, value and
remedy."""

import ctypes
import json
import os
import pickle
import re
import shutil

import numpy as np
import pytest
from conftest import same, stage_small

import rung
from rung import _library, errors

BUILT_IN = {"InvalidError": ValueError, "NoMemoryError": MemoryError, "ReadError": OSError,
            "NoDeviceError": RuntimeError,
            "NotSupportedError": NotImplementedError, "AgainError": RuntimeError,
            "AbiError": RuntimeError, "NotFoundError": FileNotFoundError,
            "ExistsError": FileExistsError, "FormatError": ValueError, "RangeError": IndexError,
            "NoSpaceError": OSError, "CorruptError": ValueError,
            "CanceledError": RuntimeError, "TimedOutError": TimeoutError, "BusyError": OSError,
            "ClosedError": ValueError, "ForkError": RuntimeError,
            "LibraryError": ImportError}


@pytest.fixture
def copy(staged, tmp_path):
    """A copy of a data set that the test may damage."""
    path = tmp_path / "copy.rung"
    shutil.copytree(staged.path, path)
    return path


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_class_has_a_standard_base(name):
    cls = getattr(rung, name)
    assert (issubclass(cls, rung.Error) and issubclass(cls, BUILT_IN[name])
            and name in rung.__all__ and cls.__doc__)
    error = cls("a sentence")
    assert str(error) == "a sentence" and (error.status, error.min_bytes) == ("", 0)


@pytest.mark.parametrize("status", range(-16, 0))
def test_every_status_raises_its_class(status):
    name = _library.lib.rung_status_name(status).decode()
    with pytest.raises(errors._CLASSES[name]) as found:
        _library.check(status)
    assert found.value.status == name
    assert str(errors.error_of(status, name, "")) == f"{name} ({status})"


def test_success_raises_nothing():
    assert _library.check(0) == 0 and _library.check(7) == 7
    assert type(errors.error_of(-99, "RUNG_E_?", "text")) is rung.Error


def test_missing_data_set(tmp_path, staged):
    for path in (tmp_path / "none", str(tmp_path / "none"), os.fsencode(tmp_path / "none")):
        for call in (rung.open, rung.Dataset):
            with pytest.raises(rung.NotFoundError, match="none: cannot be opened") as found:
                call(path)
            assert found.value.status == "RUNG_E_NOENT"
    (tmp_path / "empty").mkdir()
    with pytest.raises(rung.NotFoundError, match="empty.*manifest"):
        rung.open(tmp_path / "empty")
    with pytest.raises(rung.InvalidError, match="zero byte"):
        rung.open(staged.path + "\0")
    with pytest.raises(rung.InvalidError, match="path=5: has type int"):
        rung.open(5)


def test_a_missing_file(copy):
    os.remove(copy / "features.000.npy")
    with pytest.raises(rung.Error, match="features.000.npy") as found:
        rung.open(copy)
    assert found.value.status in ("RUNG_E_NOENT", "RUNG_E_FORMAT", "RUNG_E_CORRUPT")


def test_a_truncated_file(copy):
    os.truncate(copy / "features.000.npy", 50000)
    with pytest.raises((rung.FormatError, rung.CorruptError), match=r"features.000.npy: .*50000"):
        rung.open(copy)


def test_a_changed_manifest(copy):
    text = (copy / "manifest.json").read_bytes()
    (copy / "manifest.json").write_bytes(text.replace(b"3000", b"3001", 1))
    with pytest.raises((rung.CorruptError, rung.FormatError), match="manifest"):
        rung.open(copy)
    (copy / "manifest.json").write_bytes(b"no json")
    with pytest.raises((rung.CorruptError, rung.FormatError), match="manifest"):
        rung.Dataset(copy)


def test_a_file_truncated_while_open(copy):
    """Rows after the new end cannot be read; rows in memory can."""
    with rung.open(copy, host="50%") as store:
        store.gather(np.arange(3000), ranks=True)
        os.truncate(copy / "features.000.npy", 120000)
        assert store.gather(np.arange(1000), ranks=True).shape == (1000, 16)
        for wait in (lambda: store.gather([2999], ranks=True),
                     store.gather_async([2999], ranks=True).wait):
            with pytest.raises(rung.ReadError,
                               match=r"features\.000\.npy( \(on .*\))?: row of rank 2999 at "
                                     r"offset \d+: .*(end|short)") as found:
                wait()
            assert found.value.status == "RUNG_E_IO" and isinstance(found.value, OSError)
        assert store.stats().request_errors == 2 and store.stats().failed_rows == 2


def test_invalid_ids_in_a_data_set(copy):
    path = copy / "vertex_of_rank.npy"
    bytes_ = bytearray(path.read_bytes())
    bytes_[-4:] = b"\xff\xff\xff\x7f"
    path.write_bytes(bytes_)
    with pytest.raises(rung.RangeError, match="vertex_of_rank"):
        rung.Dataset(copy).array("vertex_of_rank")


def test_too_small_a_budget_reports_the_minimum(staged):
    with pytest.raises(rung.InvalidError, match="give at least") as found:
        rung.open(staged.path, host=0)
    least = found.value.min_bytes
    assert str(least) in str(found.value) and 0 < least < 3000 * 64
    assert "a host budget of 0 bytes" in str(found.value)
    with pytest.raises(rung.InvalidError, match="structure of 0 bytes"):
        rung.open(staged.path, host="1MiB", structure=0)
    rung.open(staged.path, host=least).close()
    with pytest.raises(rung.InvalidError):
        rung.open(staged.path, host=least - 1)


def test_more_memory_than_exists(staged):
    """The size exceeds the address space."""
    with pytest.raises(rung.Error) as found:
        rung.open(staged.path, requests=4096, batch_rows=2**32 - 1)
    assert found.value.status in ("RUNG_E_NOMEM", "RUNG_E_INVAL"), found.value


@pytest.mark.parametrize("options, says", [
    ({"host": -1}, "host=-1: not a size; use bytes"), ({"host": True}, "host=True"),
    ({"host": 1.5}, "host=1.5"), ({"host": "4 Gob"}, "host='4 Gob'"),
    ({"host": ""}, "host=''"), ({"host": "101%"}, "more than 100 %"), ({"host": "16EiB"}, "host="),
    ({"host": "17179869184GiB"}, "more than 16 EiB"),
    ({"host": 2**64}, "host="), ({"host": 2**64 - 2}, "host="), ({"cache": 2**64 - 2}, "cache="),
    ({"cache": "101%"}, "more than 100 %"),
    ({"cache": "x"}, "cache='x'"), ({"gpu": []}, r"gpu=\[\]"),
    ({"device": "tpu"}, "device='tpu': unknown value; use one of cpu, cuda, auto"),
    ({"engine": "aio"}, "engine='aio': unknown value; use one of auto, io_uring"),
    ({"engine": "null"}, "engine='null': unknown value; use one of auto, io_uring"),
    ({"engine": "null_instant"}, "engine='null_instant': unknown value; use one of auto"),
    ({"numa": "node"}, "numa='node': unknown value; use one of auto, interleave, none"),
    ({"numa": -1}, "numa=-1"), ({"numa": True}, "numa=True"), ({"numa": 2**40}, "numa="),
    ({"queue_depth": -1}, "queue_depth=-1"),
    ({"queue_depth": 2**32}, "queue_depth="),
    ({"queue_depth": 5000}, "queue depth 5000 is above 4096"), ({"requests": -1}, "requests=-1"),
    ({"requests": 1.0}, "requests=1.0"), ({"requests": 5000}, "requests 5000"),
    ({"batch_rows": "9"}, "batch_rows='9'"), ({"merge_gap": -1}, "merge_gap=-1"),
    ({"window": -1}, "window=-1"), ({"window": 4097}, "window=4097"),
    ({"window": "x"}, "window='x'"),
    ({"read_timeout": -1}, "read_timeout=-1"), ({"read_timeout": float("nan")}, "read_timeout=nan"),
    ({"read_timeout": float("inf")}, "read_timeout=inf"),
    ({"gpus": [-1]}, "gpus=-1"), ({"gpus": [0.5]}, "gpus=0.5"), ({"gpus": 0}, "gpus=0"),
    ({"read_timeout": "1"}, "read_timeout='1'"),
    ({"device": "cpu", "gpu": "1GiB"}, "device='cpu': .*leave them out"),
    ({"device": "cpu", "gpus": [0]}, "device='cpu'"),
    ({"device": "cuda:1", "gpus": [0, 1]}, r"device='cuda:1': gpus=\[0, 1\] starts with another"),
    ({"device": "cuda:x"}, "device='cuda:x': unknown value; use one of cpu, cuda, auto"),
    ({"share": ""}, "share='': empty path; use True"),
    ({"share": 5}, "share=5: has type int; use a str or a path"),
    ({"numa": 900}, "NUMA node 900")])
def test_invalid_options(staged, options, says):
    with pytest.raises(rung.InvalidError, match=says):
        rung.open(staged.path, **options)


@pytest.mark.parametrize("options", [
    {"host": np.int64(200000)}, {"host": "200000"}, {"host": "200000B"}, {"host": "0.19 MiB"},
    {"host": "100%"}, {"host": "max", "cache": 0},
    {"host": "90%", "cache": "1%"}, {"cache": "10%"}, {"cache": "10%", "host": "max"},
    {"cache": "max"}, {"numa": 0}, {"numa": "none"}, {"numa": "interleave"},
    {"engine": "pread", "buffered": True},
    {"merge_gap": 2**32 - 1}, {"merge_gap": 4096, "queue_depth": np.int32(8)},
    {"read_timeout": 0.5},
    {"requests": 1, "batch_rows": 1}, {"device": "cpu"}])
def test_valid_options(staged, options):
    with rung.open(staged.path, **options) as store:
        assert (store.gather(np.arange(3000)).shape == (3000, 16) and store.device == "cpu"
                and store.gpu == -1)


def test_cache_percentage_refers_to_the_host_budget(staged):
    """The same as in the command: tests/cli/test_help.py."""
    def rows(cache, host):
        with rung.open(staged.path, host=host, cache=cache) as store:
            return store.stats().cache_rows
    assert rows("75%", 180000) == rows(135000, 180000) > 100
    assert rows("75%", "90%") == rows(3000 * 64 * 9 // 10 * 3 // 4, 3000 * 64 * 9 // 10) > 100
    assert rows("0%", 180000) == rows(0, 180000) == 0


def test_a_profile_chooses_omitted_options(staged, tmp_path):
    path = tmp_path / "machine.json"
    rows = {"matrix": "gather", "cores": "one", "cpu_node": 0, "memory_node": 0, "absent": None,
            "row_bytes": 256, "rows_per_s": {"median": 1e7}}
    reads = [{"drive": None, "file": "f", "row_bytes": size, "queue_depth": depth,
              "reads_per_s": 1e7 / size}
             # a drive that executes one read at a time
             for size in (512, 131072) for depth in (1, 16)]
    path.write_text(json.dumps({"schema": 1, "measured": {}, "results": [rows],
                                "nvme_read": reads}), encoding="utf-8")
    with rung.open(staged.path,
                   host="90%") as store, rung.open(staged.path, host="90%", profile=path) as chosen:
        assert store.stats().queue_depth > 3 and chosen.stats().queue_depth == 1
        assert same(chosen.gather(np.arange(3000)), staged.features)
        with pickle.loads(pickle.dumps(chosen)) as again:
            assert again.stats().queue_depth == 1
    with rung.open(staged.path, host="90%", profile=path, queue_depth=3) as store:
        assert store.stats().queue_depth == 3
    with pytest.raises(rung.NotFoundError, match="none.json"):
        rung.open(staged.path, profile=tmp_path / "none.json")
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(rung.FormatError, match="machine.json"):
        rung.open(staged.path, profile=path)


def built_with_cuda():
    built_in, why, idx = ctypes.c_int(), ctypes.c_char_p(), 0
    while name := _library.lib.rung_feature(idx, ctypes.byref(built_in), ctypes.byref(why)):
        if name == b"cuda":
            return bool(built_in.value)
        idx += 1
    raise AssertionError("the library does not report whether CUDA is built in")


def test_no_gpu(program, staged):
    """An existing GPU is hidden from CUDA."""
    os_variables = 'import os, sys\nos.environ["CUDA_VISIBLE_DEVICES"] = "-1"\nimport rung\n'
    said = program(os_variables + """
for options in ({"device": "cuda"}, {"device": "cuda", "gpu": "1GiB"},
                {"device": "cuda", "gpus": [0, 1]}):
    try:
        rung.open(sys.argv[1], **options)
        raise SystemExit("a hidden GPU was opened")
    except (rung.NoDeviceError, rung.NotSupportedError) as error:
        print(type(error).__name__, error.status, error)
for options in ({"device": "auto"}, {"gpu": "1GiB"}, {"gpus": [0]}):
    with rung.open(sys.argv[1], **options) as store:
        assert store.device == "cpu" and store.why_cpu and store.gather([1]).shape == (1, 16)
with rung.open(sys.argv[1]) as store:
    assert store.why_cpu == ""
""", staged.path).splitlines()
    cls, status = ("NoDeviceError",
                   "RUNG_E_NODEV") if built_with_cuda() else ("NotSupportedError", "RUNG_E_NOSUP")
    assert len(said) == 3 and all(re.match(f"{cls} {status} .*cuda", line) for line in said)


def test_a_missing_library(program, tmp_path):
    program("""
        import os, sys
        for path, says in ((sys.argv[1], "cannot open shared object file"),
                   ("libc.so.6", "has no rung_")):
            os.environ["RUNG_LIBRARY"] = path
            try:
                import rung
                raise SystemExit("a wrong library was loaded")
            except ImportError as error:
                assert says in str(error) and type(error).__name__ == "LibraryError", error
                for name in [name for name in sys.modules if name.startswith("rung")]:
                    del sys.modules[name]
    """, tmp_path / "none.so")


def test_closed_stores_and_data_sets(staged):
    with rung.open(staged.path) as store, rung.Dataset(staged.path) as dataset:
        pass
    calls = [lambda: store.gather([1]), lambda: store.gather_async([1]),
             lambda: store.prefetch([1]), lambda: store[1], store.stats,
             lambda: dataset.array("labels"), dataset.labels, dataset.graph,
             lambda: dataset.split("train")]
    for call in calls:
        with pytest.raises(rung.ClosedError,
                           match=f"{staged.path}: the (store|data set) was closed"):
            call()
    store.close()
    dataset.close()
    assert store.shape == dataset.shape == (3000, 16) and repr(store) and repr(dataset)


def test_each_wait_raises_a_new_error(copy):
    """A kept exception would keep its frames alive, with all their objects."""
    with rung.open(copy, host="50%") as store:
        os.truncate(copy / "features.000.npy", 120000)
        gather = store.gather_async([2999], ranks=True)
        found = []
        for _ in range(2):
            with pytest.raises(rung.ReadError) as caught:
                gather.wait()
            found.append(caught.value)
        assert found[0] is not found[1] and str(found[0]) == str(found[1])


def test_each_call_has_its_own_message(tmp_path):
    """The message belongs to the last call of this thread."""
    small = stage_small(tmp_path, vertices=50)
    with rung.open(small.path) as store:
        with pytest.raises(rung.RangeError, match="id 51 at"):
            store.gather([51])
        with pytest.raises(rung.RangeError, match="id 52 at"):
            store.gather([0, 52])


def test_classes_that_need_torch_name_the_extra(program):
    program("""
        import sys
        sys.modules["torch"] = None   # as if torch were not installed
        import rung
        cure = "is not installed; use pip install 'rung[pyg]'"
        for name in ("FeatureStore", "Feature"):
            assert not hasattr(rung, name) and getattr(rung, name, 5) == 5
            try:
                getattr(rung, name)
                raise SystemExit("no error")
            except AttributeError as error:
                assert str(error) == f"rung.{name}: torch {cure}", error
            try:
                exec(f"from rung import {name}")
                raise SystemExit("no error")
            except ImportError as error:
                assert isinstance(error, rung.LibraryError), error
                assert str(error) == f"rung.{name}: torch {cure}", error
        try:
            from rung import Nothing
            raise SystemExit("no error")
        except ImportError as error:
            assert "Nothing" in str(error) and cure not in str(error)
    """)


@pytest.mark.parametrize("call, message", [
    (lambda path: rung.open(None), "path=None: has type NoneType; use a str or a path"),
    (lambda path: rung.open(path, profile=5), "profile=5: has type int; use a str or a path"),
    (lambda path: rung.Dataset(5), "path=5: has type int; use a str or a path"),
    (lambda path: rung.plan(None), "path=None: has type NoneType; use a str or a path"),
    (lambda path: rung.plan(path, fanouts=()), "fanouts=(): no batches to sample; leave it out"),
    (lambda path: rung.Loader(path), "store: has type str; use a rung.Store, from rung.open()"),
    (lambda path: rung.stage(None, features=np.ones((2, 2))), "out=None: has type NoneType"),
    (lambda path: rung.stage("out", features=np.ones((2, 2)), stripe=5),
     "stripe: has type int; use a list of folders"),
    (lambda path: rung.stage("out", features=np.ones((2, 2)), splits={5: [1]}),
     "splits: the name 5 has type int; use a str"),
])
def test_values_of_the_wrong_type(call, message, staged, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(rung.InvalidError) as caught:
        call(staged.path)
    assert str(caught.value).startswith(message)
    assert os.listdir(tmp_path) == []


def test_a_plan_needs_edges_only_for_given_fanouts(tmp_path):
    rung.stage(tmp_path / "rows", features=np.ones((40, 4), np.float32))
    with pytest.raises(rung.InvalidError, match="has no edges to sample; stage it with its graph"):
        rung.plan(tmp_path / "rows", fanouts=(2,))
    assert rung.plan(tmp_path / "rows").rows_per_batch > 0


def test_values_that_need_torch_name_the_extra(staged, program):
    program(f"""
        import sys
        sys.modules["torch"] = None   # as if torch were not installed
        import rung
        with rung.open({staged.path!r}, structure="max") as store:
            for name, call in (("arrays", lambda: rung.Loader(store, arrays="torch")),
                               ("kind", lambda: rung.NeighborSampler(store).sample([1],
                                                                                   kind="torch"))):
                try:
                    call()
                    raise SystemExit("no error")
                except rung.LibraryError as error:
                    assert str(error) == (f"{{name}}='torch': torch is not installed; "
                                          "use pip install 'rung[pyg]'"), error
    """)


@pytest.mark.parametrize("dtype", ["bf16", "u16"])
def test_labels_that_numpy_or_torch_lack(dtype, tmp_path):
    torch = pytest.importorskip("torch")
    given = np.arange(40, dtype="u2") % 5
    labels = torch.from_numpy(given.astype("i4")).bfloat16() if dtype == "bf16" else given
    rung.stage(tmp_path / "data", features=np.ones((40, 4), np.float32), labels=labels,
               splits={"train": np.arange(8)})
    with rung.open(tmp_path / "data") as store:
        assert rung.Loader(store, fanouts=(), labels=False).num_classes == 5
        if not hasattr(torch, {"bf16": "bfloat16", "u16": "uint16"}[dtype]):   # torch 2.2
            with pytest.raises(rung.NotSupportedError, match="labels: torch .* has no uint16"):
                rung.Loader(store, fanouts=())
            return
        [batch] = rung.Loader(store, fanouts=(), shuffle=False)
        assert batch.labels.to(torch.int64).tolist() == given[:8].tolist()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/gpu/torch_epoch.py without a GPU: its options, its data set, its record, limits, and the
parts that a CPU or a simulated GPU can run."""
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.environ.get("RUNG_BUILD_DIR", "")
SOURCE = os.environ.get("RUNG_SOURCE_DIR", "")
LIBRARY = os.path.join(BUILD, "librung.so")
SIMULATED = os.path.join(BUILD, "tests/librung_sim.so")
SCRIPT = os.path.join(SOURCE, "bench/gpu/torch_epoch.py")
VENV = os.path.join(SOURCE, "build-python/venv/bin/python")   # created by tests/run.sh --all
PARTS = ["streams", "capture", "epoch", "interference", "processes"]
SMALL = ["--features-bytes", "256KiB", "--row-bytes", "256", "--batch-size", "16",
         "--batch-rows", "100"]
# seconds that a hanging part sleeps; identifies the processes of this run of the test
MARK = str(987640000000 + os.getpid())
ROWS = str(3000000 + os.getpid() % 100000)   # of a batch; the same for parts that are stopped
DEADLINE_S = 120   # a guard against hangs, not a measurement

PARTS_FOLDER = os.path.join(SOURCE, "bench/gpu/parts")
sys.path[:0] = [os.path.dirname(SCRIPT), PARTS_FOLDER]


def environment(library=LIBRARY, **more):
    return dict(os.environ, RUNG_LIBRARY=library, CUDA_VISIBLE_DEVICES="",
                PYTHONPATH=os.path.join(SOURCE, "python"), **more)


def left_of(mark, seconds=DEADLINE_S):
    """Processes with `mark` as an argument. Killed processes may need time to end."""
    deadline = time.monotonic() + seconds
    while (found := having(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def having(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found += [pid] if mark.encode() in file.read().split(b"\0") else []
        except OSError:
            pass   # the process has ended
    return found


class Base(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="rung-torch-epoch-test-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def run_it(self, *args, library=LIBRARY, python=sys.executable):
        done = subprocess.run([python, "-B", SCRIPT, "--dir", self.folder, *args],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=400, env=environment(library), check=False)
        self.said = done.stderr
        print(done.stderr, end="", file=sys.stderr)   # ctest searches it for sanitizer reports
        return done.returncode, json.loads(done.stdout) if done.stdout else None


class Arguments(Base):
    def test_invalid_options(self):
        for args in (["--parts", "streams,nothing"], ["--device", "gpu"], ["--limit", "0"],
                     ["--features-bytes", "2 GiB"], ["--row-bytes", "130"], ["more"]):
            self.assertEqual(self.run_it(*args), (2, None), args)

    def test_options_passed_to_parts(self):
        from torch_epoch import passed_on
        words = ["--parts", "epoch", "--dir=/x", "--limit", "9", "--epochs", "2", "--out", "f"]
        self.assertEqual(passed_on(words), ["--epochs", "2"])


class Limits(Base):
    def part(self, script, limit=60):
        from torch_epoch import Part
        part = Part("it", limit, ["sh", "-c", script])
        part.run(self.folder)
        return part.record

    def test_a_hanging_part_is_killed_with_its_children_and_its_results_are_kept(self):
        record = self.part(f"echo '{{\"a\": 1}}'; printf '{{\"b\"'; sleep {MARK} & sleep {MARK}",
                           limit=1)
        self.assertEqual((record["status"], record["reason"]), ("failed", "ended after 1 s"))
        self.assertEqual(record["results"], {"a": 1})
        self.assertEqual(left_of(MARK), [])

    def test_statuses_and_reasons(self):
        record = self.part("echo '{\"a\": {\"b\": 2}}'; echo noise")
        self.assertEqual((record["status"], record["results"]), ("passed", {"a": {"b": 2}}))
        record = self.part("echo why >&2; echo >&2; exit 77")
        self.assertEqual((record["status"], record["reason"]), ("skipped", "why"))
        record = self.part("echo first >&2; echo last >&2; exit 3")
        self.assertEqual((record["status"], record["reason"], record["output"]),
                         ("failed", "exit 3: last", ["first", "last"]))
        self.assertEqual(self.part("kill -SEGV $$")["reason"], "signal 11: ")

    def test_a_crash_names_its_place(self):
        code = "import ctypes\ndef crash():\n    ctypes.string_at(0)\ncrash()"
        record = self.part(f"exec {sys.executable} -X faulthandler -c '{code}'")
        self.assertRegex(record["reason"],
                         "^signal 11: Fatal Python error: Segmentation fault: File .* line ")
        self.assertIn('  File "<string>", line 3 in crash', record["output"])


@unittest.skipUnless(importlib.util.find_spec("numpy"), "no numpy")
@unittest.skipIf(os.environ.get("RUNG_SANITIZE"), "the interpreter lacks the sanitizer's runtime")
class Runs(Base):
    def make(self, *args):
        from torch_epoch import make_dataset, make_parser
        options = make_parser().parse_args([*SMALL, *args])
        return options, make_dataset(options, os.environ["RUNG"], self.folder)

    def test_the_data_set(self):
        options, record = self.make("--degree", "3")
        self.assertEqual((record["vertices"], record["edges"], record["train"]), (1024, 3072, 51))
        self.assertEqual(os.listdir(self.folder), ["data"])
        code = """
import sys, numpy as np
sys.path.insert(0, sys.argv[2])
import rung
from torch_run import rows_of
with rung.open(sys.argv[1], host="max") as store:
    rows = store[:]
    assert rows.dtype == np.float32 and rows.shape == (1024, 64), rows.shape
    assert (rows == rows_of(np, np.arange(1024), 64)).all()
    assert len(np.unique(rows, axis=0)) == 1024 and 0 <= rows.min() and rows.max() < 1
with rung.Dataset(sys.argv[1]) as dataset:
    assert len(dataset.split("train")) == 51 and dataset.batch_size == 16
"""
        subprocess.run([sys.executable, "-B", "-c", code, os.path.join(self.folder, "data"),
                        PARTS_FOLDER], env=environment(), check=True)
        self.assertEqual(options.row_bytes, 256)

    def test_a_record_of_the_cpu(self):
        out = os.path.join(self.folder, "out.json")
        rc, record = self.run_it(*SMALL, "--device", "cpu", "--parts", "streams,processes",
                                 "--out", out)
        self.assertEqual(rc, 0)
        with open(out, encoding="utf-8") as file:
            self.assertEqual(json.load(file), record)
        self.assertEqual(os.listdir(self.folder), ["out.json"])
        self.assertEqual(record["benchmark"], "torch_epoch")
        self.assertTrue({"date", "commit", "command", "machine", "options", "dataset",
                         "failure"} <= set(record))
        self.assertEqual(list(record["parts"]), ["streams", "processes"])
        self.assertEqual(record["parts"]["streams"]["status"], "skipped")
        part = record["parts"]["processes"]
        self.assertEqual((part["status"], part["reason"]), ("passed", ""))
        self.assertEqual((part["results"]["lists"], part["results"]["rows"]), (4, 100))
        for other in part["results"]["attached"]:
            self.assertEqual((other["device"], sum(other["hits"].values())), ("cpu", 400))

    def test_two_processes_on_a_simulated_gpu(self):
        if not os.path.exists(SIMULATED):
            self.skipTest("no library with simulated GPUs")
        rc, record = self.run_it(*SMALL, "--parts", "processes", library=SIMULATED)
        self.assertEqual(rc, 0, record)
        for other in record["parts"]["processes"]["results"]["attached"]:
            self.assertEqual(other["device"], "cuda:0")
            for tier in ("gpu", "host", "nvme"):
                self.assertGreater(other["hits"][tier], 0)

    def test_without_a_gpu_everything_is_skipped_with_a_reason(self):
        rc, record = self.run_it(*SMALL)
        self.assertEqual(rc, 77)
        self.assertEqual(list(record["parts"]), PARTS)
        for part in record["parts"].values():
            self.assertEqual(part["status"], "skipped")
            self.assertNotEqual(part["reason"], "")

    def test_wrong_rows_are_found(self):
        import torch_run
        right = torch_run.rows_of
        self.addCleanup(setattr, torch_run, "rows_of", right)
        torch_run.rows_of = lambda library, ids, width: right(library, ids ^ 1, width)
        self.make()
        done = subprocess.run(
            [sys.executable, "-B", SCRIPT, *SMALL, "--device", "cpu", "--run", "processes",
             "--data", os.path.join(self.folder, "data")],
            capture_output=True, text=True, env=environment(), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the process that opened the store has wrong rows", done.stderr)

    def test_a_terminated_run_leaves_its_record_and_no_files(self):
        command = [sys.executable, "-B", SCRIPT, "--dir", self.folder, *SMALL, "--device", "cpu",
                   "--parts", "processes,epoch", "--batch-rows", ROWS]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=environment()) as run:
            self.assertIn("data set:", run.stderr.readline())
            until = time.monotonic() + DEADLINE_S
            while len(having(ROWS)) < 2:   # a part runs, too
                self.assertIsNone(run.poll(), "the run has ended")
                self.assertLess(time.monotonic(), until)
                time.sleep(0.01)
            run.send_signal(signal.SIGTERM)
            out, _ = run.communicate(timeout=DEADLINE_S)
        record = json.loads(out)
        self.assertEqual(run.returncode, 128 + signal.SIGTERM)
        self.assertEqual([part["reason"] for part in record["parts"].values()],
                         ["the run was stopped", "it was not started"])
        self.assertEqual(os.listdir(self.folder), [])
        self.assertEqual(left_of(ROWS), [])

    def test_an_epoch_on_the_cpu_with_torch(self):
        python = sys.executable if importlib.util.find_spec("torch") else VENV
        if not os.path.exists(python) or subprocess.run(
                [python, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("no torch")
        rc, record = self.run_it(*SMALL, "--device", "cpu", "--parts", "epoch", "--epochs", "2",
                                 python=python)
        self.assertEqual(rc, 0, record)
        results = record["parts"]["epoch"]["results"]
        self.assertEqual(list(results), ["rung", "all_in_host_memory"])
        for name, way in results.items():
            self.assertEqual([one["batches"] for one in way["epochs"]], [4, 4])
            self.assertEqual(sum(way["hits"].values()), sum(one["rows"] for one in way["epochs"]))
            self.assertEqual(way["hits"]["nvme"] > 0, name == "rung")
            self.assertIsNone(way["idle_share"])
            self.assertEqual(way["reads"]["device_reads"] > 0, name == "rung")
        losses = [[one["loss"] for one in way["epochs"]] for way in results.values()]
        self.assertEqual(losses[0], losses[1])   # the same rows, whichever way they were read

    def test_an_unknown_way_is_an_error(self):
        options, _ = self.make("--device", "cpu")
        options.ways = "rung,walking"
        from torch_run import Wrong
        from torch_train import ways_of
        with self.assertRaisesRegex(Wrong, "unknown way 'walking'; use rung, all_in_host_memory"):
            ways_of(type("Run", (), {"args": options, "cuda": False}))

    def test_a_missing_command(self):
        env = environment(RUNG="/nonexistent", PATH="/nonexistent")
        done = subprocess.run([sys.executable, "-B", SCRIPT, "--rung", "/nonexistent/rung"],
                              capture_output=True, text=True, check=False,
                              env=dict(env, RUNG_LIBRARY="/nonexistent/librung.so"))
        self.assertEqual(done.returncode, 1)
        record = json.loads(done.stdout)
        self.assertEqual(record["failure"], "no rung command was found: give --rung")
        self.assertEqual({part["status"] for part in record["parts"].values()}, {"skipped"})


if __name__ == "__main__":
    unittest.main(verbosity=2)

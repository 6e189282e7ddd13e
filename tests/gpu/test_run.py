#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/run.sh: the dry run on this build, a run on simulated GPUs, how it handles programs
that fail or hang, and a packed tree on a system with only the C library."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock

BUILD = os.environ.get("RUNG_BUILD_DIR", "")
SOURCE = os.environ.get("RUNG_SOURCE_DIR", "")
RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run.sh")
PROGRAMS = ("rung", "bench/rung_gpu_bench", "tests/stress_test_gather_race", "tests/contract",
            "tests/unit_loader")
# None without NumPy
PYTHON = next((path for path in (sys.executable, "/usr/bin/python3") if not subprocess.run(
    [path, "-c", "import numpy"], capture_output=True, check=False).returncode), None)
STARTS = (*PROGRAMS, "librung.so", "bench/gpu/index_select.py", "bench/gpu/torch_epoch.py")
SMALL = ("--size 1MiB --row-bytes 512 --batch-bytes 64KiB --link-bytes 64KiB --cold-rows 1000"
         " --cold-host 256KiB --table-bytes 1MiB --samples 2 --batches 32")
# seconds that a hanging program sleeps; identifies the processes of this run of the test
MARK = str(987650000000 + os.getpid())
DEADLINE_S = 120   # a guard against hangs, not a measurement
GLIBC = re.compile(r"(libc|libm|libdl|librt|libpthread|libresolv|ld-linux-x86-64)\.so")


def left_of_mark(seconds=0):
    """Processes that sleep for MARK seconds. Killed processes may need some time to end."""
    deadline = time.monotonic() + seconds
    while (left := sleeping()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def sleeping():
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):   # the process has ended
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                left += [int(pid)] if MARK.encode() in file.read().split(b"\0") else []
    return left


class Run(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="rung-gpu-run-test-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def run_it(self, build, *args, code=0):
        """Returns the JSON object, or None without one."""
        out = os.path.join(self.folder, "out.json")
        done = subprocess.run(["bash", RUN, "--build", build, "--dir", self.folder, "--out", out,
                               *args], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=500, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.said = done.stderr
        self.assertEqual([name for name in os.listdir(self.folder)
                          if name.startswith("rung-gpu-run-")], [], "temporary files remain")
        if not os.path.exists(out):
            return None
        with open(out, encoding="utf-8") as file:
            return json.load(file)

    def states(self, record):
        return {step["name"]: step["state"] for step in record["steps"]}

    # ---- with fake programs ----

    def fake(self, **programs):
        """A build folder of shell scripts; programs that are not named do nothing and succeed."""
        build = os.path.join(self.folder, "build")
        for name in PROGRAMS:
            path = os.path.join(build, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n" + programs.get(os.path.basename(name), ":") + "\n")
            os.chmod(path, 0o755)
        return build

    def test_states_and_figures(self):
        build = self.fake(contract="""
case "$*" in
*' store/*') echo first; echo 'it FAILED'; exit 3;;
*' store_cache/*') echo skipped: no luck; exit 77;;
*' gpu_sampler/*') echo 'Synthesis: Tested: 0 | Passing: 0';;
esac""", rung_gpu_bench="""
case "$*" in
*launch*) echo '{"benchmark": "launch", "row_bytes": 512, "ratio": 2e-05, "at_most": 1.5e-05}';;
*gather*) echo '{"benchmark": "gather", "tier": "gpu", "aligned": 1, "row_bytes": 512,' \\
	'"ratio": 0.9, "at_least": 0.85}'; echo cut '{"benchmark": "ga';;
esac""")
        record = self.run_it(build, "--only", "contract,races,bench", code=1)
        states = self.states(record)
        self.assertEqual(states["stress_test_gather_race"], "passed")
        self.assertEqual({name: state for name, state in states.items() if "-cuda-" in name},
                         {"test_store-cuda-peer": "failed", "test_loader-cuda-gpu": "passed",
                          "test_store_cache-cuda-gpu": "skipped",
                          "test_gpu_sampler-cuda-gpu": "skipped",
                          "test_store_faults-cuda-gpu": "passed",
                          "test_store_timeouts-cuda-host": "passed",
                          "test_store_quantized-cuda-peer": "passed",
                          "test_store_quantized-cuda-gpu": "passed"})
        self.assertEqual(record["failed"], ["test_store-cuda-peer"])
        failed = next(step for step in record["steps"] if step["state"] == "failed")
        self.assertEqual((failed["why"], failed["output"]), (["it FAILED"], ["first", "it FAILED"]))
        self.assertIn("exit 3", failed["reason"])
        self.assertEqual({figure["what"]: figure["reached"] for figure in record["figures"]},
                         {"launch": False, "gather gpu": True})

    def test_output_that_is_not_json_is_a_failure(self):
        record = self.run_it(self.fake(rung="echo not this"), "--only", "numa", code=1)
        self.assertEqual((record["failed"], record["numa"]), (["numa_gpu_peer"], None))
        self.assertEqual(record["steps"][-1]["output"], ["not this"])

    def test_a_hanging_program_is_killed_with_its_children(self):
        build = self.fake(contract=f"sleep {MARK} & sleep {MARK}")
        record = self.run_it(build, "--only", "contract", "--seconds", "20", code=1)
        states = self.states(record)
        self.assertEqual(states["test_store-cuda-peer"], "failed")
        self.assertEqual(states["test_loader-cuda-gpu"], "skipped")   # no time is left
        self.assertIn("ended after", record["steps"][1]["reason"])
        self.assertEqual(left_of_mark(DEADLINE_S), [])

    def test_a_hanging_driver_is_a_failure(self):
        record = self.run_it(self.fake(rung_gpu_bench=f"sleep {MARK}"), "--seconds", "2", code=1)
        self.assertEqual(record["failed"], ["first_launch"])
        self.assertEqual(left_of_mark(DEADLINE_S), [])

    def start(self, build, *args):
        """Starts a run whose step test_loader hangs, and waits until it does."""
        out = os.path.join(self.folder, "out.json")
        run = subprocess.Popen(   # pylint: disable=consider-using-with
            ["bash", RUN, "--build", build, "--dir", self.folder, "--out", out, "--only",
             "contract", *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        until = time.monotonic() + DEADLINE_S
        while not left_of_mark():
            self.assertIsNone(run.poll(), "the run has ended")
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        return run, out

    def test_a_terminated_run_leaves_its_report_and_logs(self):
        logs = os.path.join(self.folder, "logs.tar.gz")
        build = self.fake(unit_loader=f"echo so far; sleep {MARK}")
        run, out = self.start(build, "--logs", logs)
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(DEADLINE_S), 128 + signal.SIGTERM)
        with open(out, encoding="utf-8") as file:
            record = json.load(file)
        self.assertEqual(self.states(record), {"first_launch": "passed", "test_store-cuda-peer":
                                               "passed", "test_loader-cuda-gpu": "failed"})
        self.assertEqual(record["steps"][-1]["reason"], "the run was terminated")
        self.assertEqual(record["steps"][-1]["output"], ["so far"])
        with tarfile.open(logs) as archive:
            self.assertIn("logs/test_loader-cuda-gpu.log", archive.getnames())
        self.assertEqual(left_of_mark(DEADLINE_S), [])
        self.assertEqual(sorted(os.listdir(self.folder)), ["build", "logs.tar.gz", "out.json"])

    def test_a_killed_run_leaves_the_finished_steps(self):
        run, out = self.start(self.fake(unit_loader=f"sleep {MARK}"))
        run.kill()
        run.wait()
        for pid in left_of_mark():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with open(out, encoding="utf-8") as file:
            self.assertEqual(self.states(json.load(file)),
                             {"first_launch": "passed", "test_store-cuda-peer": "passed"})

    def test_the_sanitizer_is_found_where_it_is_installed(self):
        home = os.path.join(self.folder, "cuda")
        os.makedirs(os.path.join(home, "compute-sanitizer"))
        tool = os.path.join(home, "compute-sanitizer/compute-sanitizer")
        with open(tool, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\ncase $2 in initcheck) exit 9;; esac\n")
        os.chmod(tool, 0o755)
        if shutil.which("compute-sanitizer"):
            self.skipTest("compute-sanitizer is on PATH")
        with unittest.mock.patch.dict(os.environ, CUDA_HOME=home):
            record = self.run_it(self.fake(), "--only", "sanitizer", code=1)
        self.assertEqual(self.states(record), {
            "first_launch": "passed", "memcheck": "passed", "initcheck": "failed",
            "sampler_memcheck": "passed", "sampler_racecheck": "passed"})

    def test_a_missing_gpu_is_reported_and_nothing_runs(self):
        build = self.fake(rung_gpu_bench="echo 'rung_gpu_bench: skipped: cuda: none here' >&2; "
                                         "exit 77")
        self.assertEqual(self.states(self.run_it(build, code=77)), {"first_launch": "skipped"})
        self.assertIn("skipped: cuda: none here", self.said)

    def test_a_dry_run_finds_what_is_missing(self):
        build = self.fake()   # its programs also pass without a GPU
        os.unlink(os.path.join(build, "tests/unit_loader"))
        record = self.run_it(build, "--dry-run", code=1)
        self.assertIn("tests/unit_loader", record["failed"])
        self.assertIn("librung.so", record["failed"])
        self.assertIn("tests/contract", record["failed"])
        self.assertIn("bench/rung_gpu_bench", record["failed"])

    def test_wrong_arguments(self):
        for args in (["--only", "contract,nothing"], ["--seconds", "soon"], ["--build"],
                     ["--unknown"]):
            done = subprocess.run(["bash", RUN, *args], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)

    # ---- with the programs of this build ----

    def test_the_dry_run_of_this_build(self):
        if not os.path.exists(os.path.join(BUILD, "bench/rung_gpu_bench")):
            self.skipTest("this build has no CUDA")
        record = self.run_it(BUILD, "--dry-run")
        self.assertTrue(record["dry_run"])
        self.assertEqual(record["failed"], [])
        states = self.states(record)
        self.assertEqual([states[name] for name in STARTS], ["passed"] * len(STARTS))
        planned = {step["name"]: step["command"] for step in record["steps"]
                   if step["state"] == "planned"}
        self.assertLessEqual({"rows_equal_the_cpus", "bench_table", "bench_cold", "torch_epoch",
                              "bench_index_select", "ncu_gather", "test_loader-cuda-gpu",
                              "rung_bench_check_gpu_30", "memcheck", "initcheck",
                              "sampler_memcheck", "sampler_racecheck", "numa_gpu_peer"},
                             set(planned))
        self.assertLess(list(planned).index("torch_epoch"), list(planned).index("memcheck"))
        self.assertEqual(planned["test_store-cuda-peer"],
                         "RUNG_TEST_DEVICE=cuda-peer tests/contract --jobs 1 --verbose "
                         "--filter store/*")
        for step in record["steps"][:len(PROGRAMS)]:
            if step["name"] in ("bench/rung_gpu_bench", "tests/contract",
                                "tests/stress_test_gather_race"):
                self.assertRegex(step["reason"], "cuda: looking for GPUs")

    def test_a_packed_tree_contains_its_libraries(self):
        if os.environ.get("RUNG_SANITIZE"):
            self.skipTest("a build with sanitizers is not packed")
        build, pack = os.path.join(self.folder, "static"), os.path.join(self.folder, "pack")
        cmake = subprocess.run(["cmake", "-S", SOURCE, "-B", build, "-DRUNG_STATIC_DEPS=ON",
                                "-DRUNG_CUDA=OFF", "-DRUNG_BLAS=OFF",
                                "-DRUNG_TESTS=OFF", "-DCMAKE_BUILD_TYPE=Debug",
                                "-DCMAKE_C_FLAGS_DEBUG=-O0",
                                "-DCMAKE_C_COMPILER=" + os.environ["RUNG_CC"]],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               check=False)
        if cmake.returncode != 0 and "RUNG_STATIC_DEPS=ON, but" in cmake.stdout:
            self.skipTest("an archive is missing")
        self.assertEqual(cmake.returncode, 0, cmake.stdout)
        subprocess.run(["cmake", "--build", build, "--parallel", "2", "--target", "rung_command",
                        "rung_shared"], check=True, capture_output=True)
        subprocess.run(["bash", RUN, "--build", build, "--pack", pack], check=True,
                       capture_output=True)
        libraries = os.listdir(os.path.join(pack, "lib"))
        self.assertTrue(any(name.startswith("libzip.so") for name in libraries), libraries)
        self.assertFalse([name for name in libraries
                          if name.startswith(("libc.so", "libstdc++", "libgcc_s"))])
        moved = os.path.join(self.folder, "moved")
        os.rename(pack, moved)
        for name in ("rung", "librung.so"):
            self.check_libraries(os.path.join(moved, name), os.path.join(moved, "lib"))
        planned = self.states(self.run_packed(moved))
        for name in ("torch_epoch", "bench_index_select"):   # the scripts exist and start
            self.assertEqual(planned[name], "planned")
        empty = os.path.join(self.folder, "empty")
        os.mkdir(empty)
        self.start_beside_the_c_library(moved)
        if PYTHON:
            subprocess.run([PYTHON, "-c", "import rung; rung.Dataset"], check=True, cwd=empty,
                           env={"PYTHONPATH": os.path.join(moved, "python"),
                                "RUNG_LIBRARY": os.path.join(moved, "librung.so")})
        self.assertEqual(os.listdir(empty), [])

    def run_packed(self, moved):
        """The planned steps of a packed tree, which here has no programs for GPUs."""
        out = os.path.join(self.folder, "packed.json")
        subprocess.run([os.path.join(moved, "tests/gpu/run.sh"), "--build", moved, "--dry-run",
                        "--dir", self.folder, "--out", out], capture_output=True, check=False)
        with open(out, encoding="utf-8") as file:
            return json.load(file)

    def check_libraries(self, program, folder):
        """Each library that it needs is in the folder, or part of the C library."""
        asked = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
        for name, found in re.findall(r"(\S+) => (\S+)", asked):
            if not GLIBC.match(name):
                self.assertEqual(found, os.path.join(folder, name), program)

    def start_beside_the_c_library(self, moved):
        """Start it below a root that contains only the C library and the packed tree."""
        if os.geteuid() != 0:
            return
        root = os.path.join(self.folder, "root")
        asked = subprocess.run(["ldd", os.path.join(moved, "rung")], check=True,
                               capture_output=True, text=True).stdout
        for path in re.findall(r"(/\S+) \(", asked):
            if GLIBC.match(os.path.basename(path)):
                os.makedirs(root + os.path.dirname(path), exist_ok=True)
                shutil.copy(path, root + path)
        shutil.copytree(moved, os.path.join(root, "moved"))
        for command in (["rung", "--version"], ["rung", "stage", "--help"]):
            # without /proc the loader gets the program's folder from the environment
            done = subprocess.run(["chroot", root, "/moved/" + command[0], *command[1:]],
                                  env=dict(os.environ, LD_ORIGIN_PATH="/moved"), text=True,
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_other_builds_are_not_packed(self):
        done = subprocess.run(["bash", RUN, "--build", self.fake(), "--pack",
                               os.path.join(self.folder, "pack")], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("RUNG_STATIC_DEPS=ON", done.stderr)

    def test_a_run_on_simulated_gpus(self):
        simulated = os.path.dirname(os.environ["RUNG_GPU_BENCH"])
        build = os.path.join(self.folder, "build")
        for name in ("bench", "tests"):
            os.makedirs(os.path.join(build, name))
        os.symlink(os.environ["RUNG_GPU_BENCH"], os.path.join(build, "bench/rung_gpu_bench"))
        # rung numa with small settings, and with room for its tables
        with open(os.path.join(build, "rung"), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\n[ "$1" != numa ] || set -- "$@" --quick --samples 2'
                       ' --seconds 0.001 --memory 16MiB\nRUNG_SIM_GPU_BYTES=%d exec %s "$@"\n'
                       % (8 << 30, os.path.join(simulated, "rung_sim_command")))
        os.chmod(os.path.join(build, "rung"), 0o755)
        library = os.path.join(simulated, "librung_sim.so")
        parts = "bench,command,numa"
        if os.path.exists(library) and PYTHON:
            os.symlink(library, os.path.join(build, "librung.so"))
            parts += ",torch"
            self.enterContext(unittest.mock.patch.dict(os.environ, PYTHON=PYTHON))
        record = self.run_it(build, "--only", parts, "--bench", SMALL, "--torch",
                             "--parts processes --features-bytes 1MiB --batch-rows 100")
        states = self.states(record)
        self.assertEqual({states[f"bench_{part}"] for part in (
            "table", "gather", "quantized", "launch", "cold", "epoch", "baselines")}, {"passed"})
        self.assertEqual({states[f"rung_bench_check_gpu_{share}"] for share in (0, 30, 100)},
                         {"passed"})
        self.assertEqual(states["numa_gpu_peer"], "passed")
        if "torch" in parts:
            self.assertEqual(states["torch_epoch"], "passed")
            torch = next(line for line in record["measured"]
                         if line["benchmark"] == "torch_epoch")
            self.assertEqual(torch["parts"]["processes"]["status"], "passed")
        self.assertEqual(record["numa"]["measured"]["matrices"], ["gpu", "peer"])
        self.assertEqual({gather["from"] for gather in record["numa"]["gpu_gather"]},
                         {"gpu", "host"})
        self.assertLessEqual({"gpu", "ceilings", "table", "gather", "mixed", "quantized", "launch",
                              "cold", "timeline", "epoch", "baselines"},
                             {line["benchmark"] for line in record["measured"]})
        self.assertTrue(record["figures"])


if __name__ == "__main__":
    unittest.main(verbosity=2)

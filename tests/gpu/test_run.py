#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/run.sh: the dry run against this build, a run on simulated GPUs, and what it makes of programs that fail or hang."""
import json
import os
import subprocess
import tempfile
import time
import unittest

BUILD = os.environ.get("RUNG_BUILD_DIR", "")
SOURCE = os.environ.get("RUNG_SOURCE_DIR", "")
RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run.sh")
PROGRAMS = ("rung", "bench/rung_gpu_bench", "tests/stress_test_gather_race", "tests/stress_test_share_race", "tests/test_kernels",
            "tests/test_store", "tests/test_store_faults", "tests/test_gpu_sampler", "tests/test_share", "tests/test_share_gpu")
SMALL = ("--size 1MiB --row-bytes 512 --batch-bytes 64KiB --link-bytes 64KiB --managed-bytes 64KiB --cold-rows 1000 --cold-host 256KiB"
         " --samples 2 --batches 32")
MARK = "987654"   # seconds that a hanging program sleeps, to find it by


class Run(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="rung-gpu-run-test-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def run_it(self, build, *args, code=0):
        """The JSON object, or None when there is none."""
        out = os.path.join(self.folder, "out.json")
        done = subprocess.run(["bash", RUN, "--build", build, "--dir", self.folder, "--out", out, *args], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=500, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.said = done.stderr
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("rung-gpu-run-")], [], "temporary files are left")
        if not os.path.exists(out):
            return None
        with open(out, encoding="utf-8") as file:
            return json.load(file)

    def states(self, record):
        return {step["name"]: step["state"] for step in record["steps"]}

    # ---- with programs that are none ----

    def fake(self, **programs):
        """A build folder of shell scripts; those that are not named do nothing and end well."""
        build = os.path.join(self.folder, "build")
        for name in PROGRAMS:
            path = os.path.join(build, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n" + programs.get(os.path.basename(name), ":") + "\n")
            os.chmod(path, 0o755)
        return build

    def test_states_and_figures(self):
        build = self.fake(test_store="echo first; echo 'it FAILED'; exit 3", test_kernels="echo skipped: no luck; exit 77",
                          test_gpu_sampler="echo 'Synthesis: Tested: 0 | Passing: 0'", rung_gpu_bench="""
case "$*" in *launch*) echo '{"benchmark": "launch", "row_bytes": 512, "ratio": 2e-05, "at_most": 1.5e-05}';;
*gather*) echo '{"benchmark": "gather", "tier": "gpu", "aligned": 1, "row_bytes": 512, "ratio": 0.9, "at_least": 0.85}'; echo cut '{"benchmark": "ga';; esac""")
        record = self.run_it(build, "--only", "contract,bench", code=1)
        states = self.states(record)
        self.assertEqual([states[f"{name}-cuda-peer"] for name in ("test_store", "test_store_faults", "test_gpu_sampler")],
                         ["failed", "passed", "skipped"])
        self.assertEqual(states["test_kernels"], "skipped")
        self.assertEqual(sorted(record["failed"]), [f"test_store-cuda-{kind}" for kind in ("gpu", "host", "peer")])
        failed = record["steps"][0]
        self.assertEqual((failed["why"], failed["output"]), (["it FAILED"], ["first", "it FAILED"]))
        self.assertIn("exit 3", failed["reason"])
        self.assertEqual({figure["what"]: figure["reached"] for figure in record["figures"]}, {"launch": False, "gather gpu": True})

    def test_what_is_no_json_is_a_failure(self):
        record = self.run_it(self.fake(rung="echo not this"), "--only", "numa", code=1)
        self.assertEqual((record["failed"], record["numa"]), (["numa_gpu_peer"], None))
        self.assertEqual(record["steps"][0]["output"], ["not this"])

    def test_a_program_that_hangs_is_ended_with_all_its_children(self):
        build = self.fake(test_store=f"sleep {MARK} & sleep {MARK}")
        begun = time.monotonic()
        record = self.run_it(build, "--only", "contract", "--seconds", "338", code=1)
        states = self.states(record)
        self.assertLess(time.monotonic() - begun, 60)
        self.assertEqual(states["test_store-cuda-host"], "failed")
        self.assertEqual(states["test_store-cuda-gpu"], "skipped")   # the time of the benchmarks is kept for them
        self.assertIn("ended after", record["steps"][0]["reason"])
        left = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    left += [pid] if MARK.encode() in file.read().split(b"\0") else []
            except OSError:
                pass   # has ended
        self.assertEqual(left, [])

    def test_no_gpu_is_said_and_nothing_is_run(self):
        build = self.fake(rung_gpu_bench="echo 'rung_gpu_bench: skipped: cuda: none here' >&2; exit 77")
        self.assertIsNone(self.run_it(build, code=77))
        self.assertIn("skipped: cuda: none here", self.said)

    def test_a_dry_run_finds_what_is_missing(self):
        build = self.fake()   # and programs that pass without a GPU
        os.unlink(os.path.join(build, "tests/test_share"))
        record = self.run_it(build, "--dry-run", code=1)
        self.assertIn("tests/test_share", record["failed"])
        self.assertIn("tests/test_store", record["failed"])
        self.assertIn("bench/rung_gpu_bench", record["failed"])

    def test_wrong_arguments(self):
        for args in (["--only", "contract,nothing"], ["--seconds", "soon"], ["--build"], ["--unknown"]):
            done = subprocess.run(["bash", RUN, *args], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)

    # ---- with those of this build ----

    def test_the_dry_run_of_this_build(self):
        if not os.path.exists(os.path.join(BUILD, "bench/rung_gpu_bench")):
            self.skipTest("this build has no CUDA")
        record = self.run_it(BUILD, "--dry-run")
        self.assertTrue(record["dry_run"])
        self.assertEqual(record["failed"], [])
        states = self.states(record)
        self.assertEqual([states[name] for name in PROGRAMS], ["passed"] * len(PROGRAMS))
        planned = {step["name"]: step["command"] for step in record["steps"] if step["state"] == "planned"}
        self.assertEqual({name for name in planned if "check" in name}, {"memcheck", "racecheck", "sampler_memcheck", "sampler_racecheck"})
        self.assertEqual(planned["test_store-cuda-peer"], "RUNG_TEST_DEVICE=cuda-peer tests/test_store --jobs 1 --verbose")
        for step in record["steps"][:len(PROGRAMS)]:
            if step["name"] in ("bench/rung_gpu_bench", "tests/test_store", "tests/stress_test_gather_race"):
                self.assertRegex(step["reason"], "cuda: looking for GPUs")

    def test_a_pack_brings_its_libraries(self):
        if os.environ.get("RUNG_SANITIZE"):
            self.skipTest("a build with sanitizers is not carried")
        build, pack = os.path.join(self.folder, "static"), os.path.join(self.folder, "pack")
        cmake = subprocess.run(["cmake", "-S", SOURCE, "-B", build, "-DRUNG_STATIC_DEPS=ON", "-DRUNG_CUDA=OFF", "-DRUNG_BLAS=OFF",
                                "-DRUNG_TESTS=OFF", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_COMPILER=" + os.environ["RUNG_CC"]],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if cmake.returncode != 0 and "RUNG_STATIC_DEPS=ON, but" in cmake.stdout:
            self.skipTest("an archive is missing")
        self.assertEqual(cmake.returncode, 0, cmake.stdout)
        subprocess.run(["cmake", "--build", build, "--parallel", "2", "--target", "rung_command"], check=True, capture_output=True)
        subprocess.run(["bash", RUN, "--build", build, "--pack", pack], check=True, capture_output=True)
        libraries = os.listdir(os.path.join(pack, "lib"))
        self.assertTrue(any(name.startswith("libzip.so") for name in libraries), libraries)
        self.assertFalse([name for name in libraries if name.startswith(("libc.so", "liburing", "libnuma", "libjansson", "libxxhash"))])
        moved = os.path.join(self.folder, "moved")
        os.rename(pack, moved)
        asked = subprocess.run(["ldd", os.path.join(moved, "rung")], check=True, capture_output=True, text=True).stdout
        for name in libraries:
            if name in asked:
                self.assertIn(os.path.join(moved, "lib", name), asked)
        subprocess.run([os.path.join(moved, "rung"), "--version"], check=True, capture_output=True)

    def test_other_builds_are_not_packed(self):
        done = subprocess.run(["bash", RUN, "--build", self.fake(), "--pack", os.path.join(self.folder, "pack")], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("RUNG_STATIC_DEPS=ON", done.stderr)

    def test_a_run_on_simulated_gpus(self):
        build = os.path.join(self.folder, "build")
        for name in ("bench", "tests"):
            os.makedirs(os.path.join(build, name))
        os.symlink(os.environ["RUNG_GPU_BENCH"], os.path.join(build, "bench/rung_gpu_bench"))
        os.symlink(os.path.join(os.path.dirname(os.environ["RUNG_GPU_BENCH"]), "sim_test_gather_race"),
                   os.path.join(build, "tests/stress_test_gather_race"))
        with open(os.path.join(build, "rung"), "w", encoding="utf-8") as file:   # rung numa, small and with room for its tables
            file.write('#!/bin/sh\nRUNG_SIM_GPU_BYTES=%d exec %s "$@" --quick --samples 2 --seconds 0.001\n'
                       % (8 << 30, os.path.join(os.path.dirname(os.environ["RUNG_GPU_BENCH"]), "rung_sim_command")))
        os.chmod(os.path.join(build, "rung"), 0o755)
        record = self.run_it(build, "--only", "races,bench,processes,numa", "--bench", SMALL)
        states = self.states(record)
        self.assertEqual([states[f"stress_test_gather_race-cuda-{kind}"] for kind in ("host", "peer")], ["passed"] * 2)
        self.assertEqual({states[f"bench_{part}"] for part in ("gather", "launch", "cold", "epoch", "baselines")}, {"passed"})
        self.assertEqual(states["stress_test_share_race"], "skipped")
        self.assertEqual(states["numa_gpu_peer"], "passed")
        self.assertEqual(record["numa"]["measured"]["matrices"], ["gpu", "peer"])
        self.assertEqual({gather["from"] for gather in record["numa"]["gpu_gather"]}, {"gpu", "host"})
        self.assertLessEqual({"gpu", "ceilings", "gather", "mixed", "launch", "cold", "timeline", "epoch", "baselines"},
                             {line["benchmark"] for line in record["measured"]})
        self.assertTrue(record["figures"])


if __name__ == "__main__":
    unittest.main(verbosity=2)

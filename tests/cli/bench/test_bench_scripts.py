# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of bench/ on small data: gathered rows are right and reports are complete. The
measured numbers are not checked."""
import ctypes
import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, main

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "bench")
PROGRAMS = os.path.join(os.environ.get("RUNG_BUILD_DIR", ""), "bench")


def is_built(program):
    return unittest.skipUnless(os.path.exists(os.path.join(PROGRAMS, program)),
                               f"{program} was not built: RUNG_BENCH is off")


def why_no_ring(entries=1024):
    """Return why the kernel refuses a ring of the size that the compared programs use, or None."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(425, entries, ctypes.create_string_buffer(120))   # io_uring_setup
    if fd < 0:
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        return "a ring of %d entries: %s; RLIMIT_MEMLOCK is %d" % (
            entries, os.strerror(ctypes.get_errno()), limit)
    os.close(fd)
    return None


needs_ring = unittest.skipIf(NO_RING := why_no_ring(), NO_RING)


class BenchScripts(CliTest):
    def run_script(self, script, *args):
        done = subprocess.run([sys.executable, "-B", os.path.join(BENCH, script), "--rung",
                               os.environ["RUNG"], *args],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=500, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        record = json.loads(done.stdout)
        self.assertLessEqual({"benchmark", "date", "commit", "rung", "command", "machine"},
                             set(record))
        return record

    def check_strategies(self, result, names):
        self.assertLessEqual(names, set(result["strategies"]))
        for name, strategy in result["strategies"].items():
            with self.subTest(name):
                self.assertEqual([sample["wrong_rows"] for sample in strategy["samples"]], [0])
                sample = strategy["samples"][0]
                self.assertGreater(sample["checked_batches"], 0)
                self.assertGreaterEqual(sample["read_bytes"], sample["reads"] * 512)
                if name in ("pread", "uring-rows", "uring-slot"):
                    self.assertEqual(sample["reads"], sample["rows"] - sample["known_rows"],
                                     "one read per row that is not in memory")
                elif name in ("mmap", "uring-pages"):
                    self.assertEqual(sample["read_bytes"], sample["reads"] * 4096, "pages")
                elif name.startswith("rung") and name != "rung-rows":
                    self.assertLess(sample["reads"], sample["rows"], "rows must share reads")

    @is_built("rung_cold_reads")
    @needs_ring
    def test_cold_reads_fetches_the_same_rows_with_every_strategy(self):
        record = self.run_script("cold_reads.py", "--programs", PROGRAMS, "--small", "--parts",
                                 "dense,trace", "--row-bytes", "1536")
        (dense,), (trace,) = record["dense"], record["trace"]
        self.check_strategies(dense, {"mmap", "pread", "rung-rows", "rung"})
        self.check_strategies(trace, {"pread", "rung-rows", "rung", "rung-announced",
                                      "rung-window"})
        self.assertIn("rung-announced",
                      trace["strategies"]["rung-window"]["times_the_reads_of"])
        for name, strategy in trace["strategies"].items():
            sample = strategy["samples"][0]
            self.assertGreater(sample["resident_rows"], 0, name)
            self.assertLessEqual(sample["resident_rows"] * 1536 + sample["buffer_bytes"],
                                 trace["memory_bytes"], name)
            self.assertEqual(sample["known_rows"] == 0, name.startswith("rung"), name)
        self.assertEqual(record["devices"]["throttled"], {"why": "--no-throttle"})
        self.assertIsNone(dense["throttled"])
        for result in (dense, trace):
            self.assertEqual(len({strategy["samples"][0]["rows"]
                                  for strategy in result["strategies"].values()}), 1,
                             "every strategy fetches the same rows")
            self.assertIn("pread", result["strategies"]["rung"]["times_the_rows_per_s_of"])

    @is_built("rung_cold_reads")
    def test_cold_reads_counts_the_reads_of_the_command(self):
        record = self.run_script("cold_reads.py", "--programs", PROGRAMS, "--small", "--parts",
                                 "reads", "--staged", self.folder)
        (result,) = record["reads"]
        self.assertEqual([run["cache_bytes"] for run in result["tried"]["0"]],
                         [0, 6000 * 512 * 4 // 100])
        self.assertEqual(set(result["best"]), {"0", "auto"})
        for mode, best in result["best"].items():
            self.assertLess(0, best["reads_per_batch"], mode)
            self.assertLess(best["reads_per_row"], 1, mode)
        self.assertEqual(os.listdir(self.folder), ["arxiv-512"])
        again = self.run_script("cold_reads.py", "--programs", PROGRAMS, "--small", "--parts",
                                "reads", "--staged", self.folder)
        self.assertEqual(again["reads"][0]["best"]["0"]["rows_per_batch"],
                         result["best"]["0"]["rows_per_batch"])

    @is_built("rung_bench_stream")
    @unittest.skipUnless(shutil.which("fio"), "fio is not installed (Debian: fio)")
    @needs_ring
    def test_numa_compares_each_value_with_another_program(self):
        record = self.run_script("numa.py", "--programs", PROGRAMS, "--small", "--dir", self.folder)
        kinds = {(result["kind"], result["cores"]) for result in record["bandwidth"]["results"]}
        self.assertEqual(kinds, {(kind, cores) for kind in ("read", "write", "copy", "triad")
                                 for cores in ("all", "one")})
        compared = record["bandwidth"]["results"] + [record["latency"]] + record["reads"]["results"]
        self.assertGreater(len(record["reads"]["results"]), 1)
        for result in compared:
            samples = result["samples"]
            self.assertEqual([len(samples["rung"]), len(samples["other"])], [1, 1])
            self.assertAlmostEqual(result["ratio"]["median"],
                                   samples["rung"][0] / samples["other"][0])
        self.assertTrue({64, 4096} <= {result["row_bytes"]
                                       for result in record["gather"]["results"]})

    def test_a_folder_other_than_a_control_group_sets_no_limit(self):
        sys.path.insert(0, BENCH)
        self.addCleanup(sys.path.remove, BENCH)
        limit = importlib.import_module("limit")
        limit.V1 = limit.V2 = self.folder
        with limit.Limit(1 << 30) as limited:
            self.assertIn(limited.kind, (None, "systemd-run"))
        limit.V1_DEVICE = self.folder
        with limit.DeviceLimit(self.folder, 1000, 4400000) as limited:
            self.assertIsNone(limited.kind)
            self.assertTrue(limited.why)
        self.assertEqual(os.listdir(self.folder), [])

    def test_stage_speed_keeps_its_memory_limit(self):
        record = self.run_script("stage_speed.py", "--folder", self.folder, "--rows", "20000",
                                 "--row-bytes", "1000", "--edges", "30000",
                                 "--memory", "16MiB", "--limit", "512MiB", "--numpy-rows", "0")
        report = record["stage"]["report"]
        self.assertGreater(report["rows"]["ranges"], 1)
        self.assertLessEqual(report["memory_bytes"], 16 << 20)
        self.assertEqual(len(record["ratio_to_floor"]), 2)
        self.assertIsNone(record["numpy"])

    def test_rows_in_place_equal_copied_rows(self):
        record = self.run_script("in_place.py", "--dir", self.folder, "--rows", "20000",
                                 "--row-bytes", "700", "--edges", "60000", "--hosts", "10,200",
                                 "--pairs", "1", "--gathered", "5000")
        self.assertLess(record["staged"]["in_place"]["bytes_written"] + 20000 * 700,
                        record["staged"]["copied"]["bytes_written"] + 8192)
        cold, warm = record["gathers"]
        self.assertGreater(cold["ratios"]["device_reads"]["median"], 0)
        self.assertIsNone(warm["ratios"]["device_reads"])

    def test_predicted_and_measured_seconds_are_reported(self):
        profile = os.path.join(self.folder, "machine.json")
        with open(profile, "w", encoding="utf-8") as out:
            json.dump({"schema": 1, "measured": {},
                       "results": [{"matrix": "gather", "cores": "one", "cpu_node": 0,
                                    "memory_node": 0, "absent": None,
                                                                 "row_bytes": 700,
                                    "rows_per_s": {"median": 5e6}}],
                       "nvme_read": [{"drive": None, "file": "f", "row_bytes": 4096,
                                      "queue_depth": 64, "reads_per_s": 1e5}]}, out)
        record = self.run_script("predict.py", "--dir", self.folder, "--rows", "20000",
                                 "--row-bytes", "700", "--edges", "60000", "--gathered", "5000",
                                 "--runs", "1", "--seconds", "0", "--profile", profile)
        self.assertEqual([one["percent"] for one in record["budgets"]], [0, 5, 10, 50, 100])
        self.assertEqual(record["budgets"][-1]["runs"][0]["predicted_reads"], 0)
        for one in record["budgets"]:
            self.assertEqual(one["measured_over_predicted"]["median"],
                             one["runs"][0]["seconds"] / one["runs"][0]["predicted"])

    @is_built("rung_score_speed")
    def test_edge_passes_match_the_baseline_scores(self):
        record = self.run_script("score_speed.py", "--programs", PROGRAMS, "--small")
        self.assertEqual([(one["graph"], one["scale"]) for one in record["iterations"]],
                         [("rmat", 14), ("uniform", 14)])
        for one in record["iterations"]:
            self.assertLess(one["difference"], 1e-4)
            self.assertEqual(one["edges"], 16 << 14)
            self.assertEqual([len(turn["steps"]) for turn in one["rounds"]], [6])
        self.assertEqual([len(one["rounds"]) for one in record["expected"]], [1, 1])

    @is_built("rung_cold_reads")
    def test_announced_batches_hit_nearly_as_often_as_belady(self):
        record = self.run_script("cold_reads.py", "--programs", PROGRAMS, "--small", "--parts",
                                 "lookahead")
        blind, ahead = record["lookahead"]
        self.assertEqual((blind["window_batches"], ahead["window_batches"]), (0, 8))
        self.assertGreater(ahead["window_rows_over_cache_rows"], 4)
        for result in (blind, ahead):
            # frames are chosen when rows arrive, a little later than in the model
            self.assertLess(result["hits"], 1.01 * result["belady_hits"])
            self.assertLess(result["belady_hits"], result["rows"])
        self.assertGreater(ahead["hits_over_belady"], 0.9)
        self.assertGreater(ahead["hits"], ahead["static_hits"])
        self.assertGreater(ahead["hits"], blind["hits"])

    @is_built("rung_gather_hits")
    def test_gather_hits_compares_with_installed_libraries(self):
        record = self.run_script("gather_hits.py", "--programs", PROGRAMS, "--small", "--row-bytes",
                                 "1536", "--torch", "/no/such/python")
        (result,) = record["results"]
        self.assertEqual(result["wrong_rows"]["rung"], 0)
        self.assertEqual(result["absent"]["torch"], "/no/such/python was not found")
        self.assertIsNone(result["times_as_fast_as"]["torch index_select"])
        self.assertEqual("numpy" in result["absent"], not importlib.util.find_spec("numpy"))
        if importlib.util.find_spec("numpy"):
            self.assertEqual(result["wrong_rows"]["numpy"], 0)
            self.assertIn("median", result["times_as_fast_as"]["numpy index"])
        self.assertEqual(set(result["ns_per_row"]["rung"]), {"1", "2"})
        self.assertRegex(result["floor_loops"]["2"],
                         "^(memcpy|spread|stream|stream-spread)-[0-9]+$")
        self.assertEqual(set(result["ns_per_row"]["floor"]), {"1", "2"})
        for threads, loop in result["floor_loops"].items():   # the fastest of all loops
            loops = result["loops_ns_per_row"][threads]
            self.assertEqual(loops[loop], min(loops.values()))
        self.assertIn("median", result["read_times_as_fast_as"]["ordinary stores, read"])
        self.assertEqual((result["table_bytes"], record["tables"]["used_bytes"]),
                         (8 << 20, [8 << 20]))
        self.assertGreaterEqual(record["tables"]["bound_bytes"], 8 << 20)
        self.assertIsInstance(record["machine"]["caches"], list)

    @is_built("rung_gather_hits")
    def test_gather_hits_gathers_at_most_half_of_each_table(self):
        record = self.run_script("gather_hits.py", "--programs", PROGRAMS, "--small", "--row-bytes",
                                 "4096", "--size", "1MiB,2MiB", "--torch", "/no/such/python",
                                 "--numpy", "/no/such/python")
        self.assertEqual([(result["table_bytes"], result["rows"], result["row_count"])
                          for result in record["results"]],
                         [(1 << 20, 128, 256), (2 << 20, 256, 512)])

    @is_built("rung_null_device")
    @needs_ring
    def test_null_device_counts_the_same_rows_with_every_number_of_threads(self):
        record = self.run_script("null_device/null_device.py", "--programs", PROGRAMS, "--small",
                                 "--threads", "1,2,3")
        self.assertEqual([(result["engine"], result["reads"]) for result in record["results"]],
                         [("null", "merged"), ("null", "single"), ("null_instant", "merged"),
                          ("null_instant", "single")])
        for result in record["results"]:
            self.assertEqual(set(result["threads"]), {"1", "2", "3"})
            for rates in result["threads"].values():
                self.assertEqual(rates["samples"][0]["rows"], 4 * 2048)
                reads = rates["samples"][0]["reads"]
                self.assertGreater(reads, 0)
                if result["reads"] == "merged":
                    self.assertLess(reads, 2048)
                else:   # distinct rows: some ids repeat
                    self.assertGreater(reads, 4096)

    def test_quantize_compares_accuracy_and_size(self):
        if subprocess.run([os.environ["RUNG"], "train", "--help"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("rung train is not in this build")
        record = self.run_script("quantize/quantize.py", "--small", "--sets", "model", "--formats",
                                 "int8,int4:column")
        (found,) = record["sets"]
        self.assertEqual(list(found["formats"]), ["none", "int8", "int4:column"])
        sizes = [one["row_bytes"] for one in found["formats"].values()]
        self.assertEqual(sizes, [512, 132, 64])
        self.assertIsNone(found["formats"]["none"]["quantized"])
        self.assertGreater(found["formats"]["int8"]["quantized"]["error_max"], 0)
        for form, result in found["formats"].items():
            self.assertEqual([run["seed"] for run in result["runs"]], [0])
            self.assertTrue(0 < result["mean"]["test"] <= 1)
            self.assertEqual("loss_points" in result, form != "none")
        self.assertEqual(list(record["met"]), ["model"])

    @is_built("rung_rank_speed")
    def test_rank_speed_checks_its_result(self):
        record = self.run_script("rank.py", "--programs", PROGRAMS, "--small", "--threads", "2",
                                 "--index-bytes", "4,8")
        self.assertEqual([(result["scores"], result["index_bytes"])
                          for result in record["results"]],
                         [(kind, index_bytes) for index_bytes in (4, 8)
                          for kind in ("uniform", "heavy", "degrees")])
        for result in record["results"]:
            (sample,) = result["samples"]
            self.assertEqual(sample["ratio"], sample["rank_s"] / sample["copies_s"])

    @unittest.skipUnless(importlib.util.find_spec("numpy"),
                         "numpy is not installed (Debian: python3-numpy)")
    @is_built("rung_sampler_rate")
    def test_sampler_result_does_not_depend_on_the_threads(self):
        record = self.run_script("sampler.py", "--programs", PROGRAMS, "--small", "--peers",
                                 "/no/such/python")
        (result,) = record["results"]
        self.assertEqual((result["wrong_edges"], result["absent"]["dgl"]),
                         (0, "/no/such/python was not found"))
        self.assertEqual(result["times_as_fast_as"], {"graphbolt": None, "dgl": None, "pyg": None})
        self.assertEqual(set(result["edges_per_s"]),
                         {"rung", "rung, in order", "rung, a batch at a time", "rung, new draw"})
        for rates in result["edges_per_s"].values():
            self.assertEqual(set(rates), {"1", "2"})
            self.assertGreater(rates["2"]["median"], 0)

    def test_verify_speed_compares_every_row(self):
        record = self.run_script("verify_speed.py", "--small")
        (sample,) = record["rounds"]
        self.assertEqual(sample["rows"], (8 << 20) // 1536)
        self.assertEqual(record["of_read"]["median"], sample["verify"] / sample["read"])

    @unittest.skipUnless(shutil.which("fio"), "fio is not installed (Debian: fio)")
    @needs_ring
    def test_cold_vs_fio_reads_the_same_file(self):
        record = self.run_script("cold_vs_fio.py", "--small", "--row-bytes", "512", "--depth", "32")
        (result,) = record["results"]
        self.assertEqual((result["row_bytes"], result["depth"], result["wrong_rows"]), (512, 32, 0))
        self.assertEqual(result["verified_rows"], (16 << 20) // 512)
        (pair,) = result["pairs"]
        self.assertEqual(pair["rung"]["merged_rows"], 0)
        self.assertEqual(pair["cpu_ratio"],
                         pair["rung"]["cpu_us_per_read"] / pair["fio"]["cpu_us_per_read"])

    def test_wrong_arguments_are_refused(self):
        for script, args, says in (
                ("structure.py", ["--parts", "memory,hot"], "unknown part 'hot'; use memory, cold"),
                ("structure.py", ["--hosts", "64MiB,8MiB"], "use at least 32MiB"),
                ("numa.py", ["--parts", "read"], "unknown part 'read'; use bandwidth, latency"),
                ("cold_reads.py", ["--parts", "dense,"], "unknown part ''; use dense, trace"),
                ("cold_reads.py", ["--sets", "arxiv:64"], "'arxiv:64' is not NAME:BATCH:BATCHES"),
                ("scale_model.py", ["--phases", "trian"], "unknown phase 'trian'; use generate"),
                ("scale_model.py", ["--consumer", "0.0001/s"], "from 0.001 to 1000000")):
            with self.subTest(args):
                done = subprocess.run([sys.executable, "-B", os.path.join(BENCH, script), *args],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(says, done.stderr)

    def module(self, *names):
        """A module of a folder in bench/, which may import those of bench/."""
        folders = [os.path.join(BENCH, *names[:-1]), BENCH]
        sys.path[:0] = folders
        self.addCleanup(lambda: [sys.path.remove(folder) for folder in folders])
        return importlib.import_module(names[-1])

    def test_an_environment_is_ready_when_its_packages_are_installed(self):
        opponents = self.module("scale_model", "opponents")
        self.assertFalse(opponents.is_ready(None))
        self.assertFalse(opponents.is_ready(self.folder))
        python = opponents.python_of(self.folder)
        os.mkdir(os.path.dirname(python))
        for code, ready in ((1, False), (0, True)):   # of `python -c "import torch, numpy"`
            with open(python, "w", encoding="utf-8") as out:
                out.write("#!/bin/sh\nexit %d\n" % code)
            os.chmod(python, 0o755)
            self.assertEqual(opponents.is_ready(self.folder), ready)
        with open(python, "w", encoding="utf-8") as out:
            out.write("#!/bin/sh\nexit 1\n")
        with open(os.path.join(self.folder, opponents.MARKER), "w", encoding="utf-8"):
            pass
        self.assertTrue(opponents.is_ready(self.folder))

    def test_a_command_that_takes_too_long_is_stopped(self):
        phases = self.module("scale_model", "phases")
        for command, seconds, stopped in ((["sleep", "600"], 0.1, True), (["true"], 600, False)):
            _, _, found = phases.run_limited(command, None, self.folder, seconds=seconds)
            self.assertEqual((found["stopped"], found["killed"]), (stopped, False))
            self.assertEqual(found["exit"], -9 if stopped else 0)

    @is_built("rung_structure_rate")
    @unittest.skipUnless(shutil.which("fio"), "fio is not installed (Debian: fio)")
    @needs_ring
    def test_structure_gives_the_batches_of_the_graph_in_memory(self):
        record = self.run_script("structure.py", "--programs", PROGRAMS, "--dir", self.folder,
                                 "--small", "--parts", "memory,cold")
        (memory,), (cold,) = record["memory"]["pairs"], record["cold"]["pairs"]
        self.assertEqual(memory["arrays"]["hash"], cold["rung"]["hash"])
        self.assertEqual(memory["structure"]["device_reads"], 0)
        self.assertGreater(cold["rung"]["device_reads"], 0)
        self.assertLess(record["cold"]["reads_per_batch"],
                        record["cold"]["cold_blocks_per_batch"])

    @is_built("rung_scores")
    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_scores_are_evaluated_on_other_batches(self):
        record = self.run_script("scores.py", "--programs", PROGRAMS, "--small", "--fanouts", "3,2",
                                 "--draws", "all", "--train",
                                 "10 % at random")
        self.assertEqual([case["direction"] for case in record["cases"]],
                         ["directed", "undirected"])
        for case in record["cases"]:
            self.assertLessEqual({"degree", "wrpagerank", "ppr", "presample, 1 epoch", "expected",
                                  "blend"}, set(case["scores"]))
            self.assertGreaterEqual(case["batches_counted"], 1024)
            for name, score in case["scores"].items():
                self.assertEqual(score["hits"], sorted(score["hits"]), "more rows give more hits")
                self.assertLessEqual(max(score["hits"]), 1)
                if name in ("expected", "blend"):
                    self.assertGreater(min(score["of_ceiling"]), 0.95)
                    self.assertLess(max(abs(a - b) for a,
                                        b in zip(score["hits"], score["forecast"])), 0.05)
        self.assertEqual(record["summary"]["all"]["cases"], 2)


if __name__ == "__main__":
    main()

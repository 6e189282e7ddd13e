#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The GPU benchmark on simulated GPUs, with small settings: every part runs, checks its rows, and
has correct counts. Times are not checked."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BENCH = os.environ.get("RUNG_GPU_BENCH", "")
WIDTHS = (512, 1200)
SAMPLES, WARMUPS = 3, 2
SIZE = 2 << 20
SMALL = ["--size", str(SIZE), "--row-bytes", ",".join(map(str, WIDTHS)), "--batch-bytes", "256KiB",
         "--link-bytes", "128KiB",
         "--managed-bytes", "256KiB", "--check-rows", "100", "--cold-rows", "3000", "--cold-host",
         "512KiB",
         "--samples", str(SAMPLES), "--batches", "64", "--table-bytes", "1MiB,2MiB,1GiB"]


def run(*args, **env):
    with tempfile.TemporaryDirectory(prefix="rung-gpu-bench-test-") as folder:
        done = subprocess.run([BENCH, "--dir", folder, *args], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=500,
                              env=dict(os.environ, **env), check=False)
        left = os.listdir(folder)
    print(done.stderr, end="", file=sys.stderr)   # ctest searches it for sanitizer reports
    return done, left


class GpuBench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done, cls.left = run(*SMALL)
        cls.status, cls.said = done.returncode, done.stderr
        cls.lines = [json.loads(line)
                     for line in done.stdout.splitlines()] if done.returncode == 0 else []

    def of(self, name):
        return [line for line in self.lines if line["benchmark"] == name]

    def check_times(self, times, count=SAMPLES):
        self.assertEqual(len(times["samples"]), count)
        self.assertEqual(times["samples"], sorted(times["samples"]))
        self.assertGreaterEqual(times["min"], 0)
        self.assertTrue(times["min"] <= times["median"] <= times["max"])

    def test_it_succeeds_and_leaves_no_files(self):
        self.assertEqual((self.status, self.said), (0, ""))
        self.assertEqual(self.left, [])
        self.assertEqual([line["benchmark"] for line in self.lines
                          if line["benchmark"] not in ("gather", "mixed", "baselines")],
                         ["gpu", "check", "ceilings"] + 5 * ["table"]
                         + 4 * ["quantized"] + ["launch", "cold", "cold", "timeline"]
                         + 3 * ["epoch"])

    def test_all_mixes_of_tiers_are_compared(self):
        check, = self.of("check")
        self.assertEqual(check["cases"], check["mixes"] * 4 * 2 * (len(WIDTHS) + 2))
        self.assertEqual(check["compared_rows"], check["cases"] * 100)

    def test_gathers_count_rows_in_their_tier(self):
        keys = ("tier", "row_bytes", "aligned", "shared")
        tiers = [tuple(line[key] for key in keys) for line in self.of("gather")]
        wanted = [(tier, width, 1, 0) for tier in ("gpu", "peer", "host") for width in WIDTHS]
        wanted += [("host", width, 1, 1) for width in WIDTHS]
        wanted += [("gpu", 1200, 0, 0), ("host", 1200, 0, 0)]
        self.assertEqual(sorted(tiers), sorted(wanted))
        for line in self.of("gather"):
            batch = (128 if line["tier"] == "host" else 256) << 10
            self.assertEqual(line["rows"], batch // line["row_bytes"])
            self.assertEqual(line["verified_rows"], line["rows"])
            self.assertEqual(line["counted_rows"], line["rows"] * (SAMPLES + WARMUPS + 1))
            aimed = line["aligned"] and line["tier"] != "peer" and not line["shared"]
            self.assertEqual("at_least" in line, bool(aimed))
            self.check_times(line["seconds"])

    def test_tables_without_files(self):
        lines = self.of("table")
        self.assertEqual([(line["table_bytes"], line.get("row_bytes")) for line in lines],
                         [(1 << 20, 512), (1 << 20, 1200), (2 << 20, 512), (2 << 20, 1200),
                          (1 << 30, None)])
        self.assertEqual(lines[-1]["skipped"], "the GPU has no room for it and a batch")
        for line in lines[:-1]:
            self.assertEqual(line["verified_rows"], (256 << 10) // line["row_bytes"])
            self.assertEqual(line["at_least"], 0.85)
            self.check_times(line["seconds"])
            self.check_times(line["plain_kernel"]["seconds"])

    def test_quantized_rows_are_compared(self):
        lines = self.of("quantized")
        self.assertEqual([(line["tier"], line["format"], line["row_bytes"]) for line in lines],
                         [("gpu", "int8", 772), ("gpu", "int4", 388),
                          ("host", "int8", 772), ("host", "int4", 388)])
        for line in lines:
            self.assertEqual(line["verified_rows"], line["rows"])
            self.check_times(line["seconds"])

    def test_mixed_batches_consist_of_their_parts(self):
        lines = self.of("mixed")
        self.assertEqual(len(lines), 3 * len(WIDTHS))
        first = {}
        for line in lines:
            host = round(line["host_share"] * line["rows"])
            before = first.get(line["row_bytes"], 0)
            total = line["gpu_part"]["counted_rows"] + line["host_part"]["counted_rows"]
            self.assertEqual(total - before, (2 * (SAMPLES + WARMUPS) + 1) * line["rows"])
            self.assertTrue(0 < host < line["rows"])
            first[line["row_bytes"]] = total
            self.assertEqual(line["at_most"], 1.1)
            self.check_times(line["gpu_part"]["seconds"])

    def test_hits_never_make_the_host_wait(self):
        launch, = self.of("launch")
        self.assertEqual(launch["host_waits"], 0)
        self.assertGreaterEqual(launch["batches"], 64)

    def test_every_baseline_delivers_the_rows(self):
        lines = self.of("baselines")
        self.assertEqual([line["row_bytes"] for line in lines], list(WIDTHS))
        for line in lines:
            for way in ("cpu_store_and_copy", "cpu_threads_and_copy", "zero_copy", "managed",
                        "rung_host"):
                self.assertEqual(line[way]["verified_rows"], (128 << 10) // line["row_bytes"])
                self.check_times(line[way]["seconds"])

    def test_cold_rows_come_from_the_file_on_both_devices(self):
        for line in self.of("cold"):
            for side in ("cpu", "cuda"):
                self.assertGreater(line[side]["device_reads"], 0)
                self.assertEqual(line[side]["verified_rows"], line["batch_rows"])
                self.check_times(line[side]["seconds_per_cold_row"])
            self.assertGreater(line["cuda"]["scatters"], 0)
            self.assertEqual(line["cpu"]["scatters"], 0)

    def test_the_timeline_is_in_order(self):
        line, = self.of("timeline")
        batches = line["batches"]
        self.assertGreater(len(batches), 10)
        for i, batch in enumerate(batches):
            self.assertLessEqual(batch["submit_us"], batch["read_us"])
            self.assertLessEqual(batch["gathered_us"], batch["complete_us"])
            if i >= 2:   # two in flight
                self.assertGreaterEqual(batch["submit_us"], batches[i - 2]["read_us"])
        self.assertGreater(line["scatters"], 0)
        self.assertLessEqual(line["scatters_before_last_read"], line["scatters"])

    def test_an_epoch_has_the_stated_share_of_cold_rows(self):
        lines = self.of("epoch")
        self.assertEqual([line["compute_share"] for line in lines], [0.5, 1, 2])
        for line in lines:
            self.assertTrue(0.03 < line["cold_share"] < 0.07, line["cold_share"])
            self.assertEqual(line["verified_rows"], line["batch_rows"])


class Refusals(unittest.TestCase):
    def test_a_missing_gpu_is_reported_in_one_line(self):
        for gpus in ("0", "none"):
            done, left = run(RUNG_SIM_GPUS=gpus)
            self.assertEqual((done.returncode, done.stdout, left), (77, "", []))
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn("rung_gpu_bench: skipped: cuda:", done.stderr)

    def test_only_some_parts(self):
        done, _ = run(*SMALL, "--only", "launch,ceilings")
        self.assertEqual([json.loads(line)["benchmark"] for line in done.stdout.splitlines()],
                         ["gpu", "ceilings", "launch"])

    def test_wrong_arguments(self):
        for args in (["--only", "launch,nothing"], ["--size", "1MiB"], ["--row-bytes", ""],
                     ["--size", "2 MiB"], ["--samples", "0"], ["--table-bytes", "some"], ["more"]):
            done, _ = run(*args)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)

    def test_a_table_needs_no_files(self):
        done, left = run("--only", "table", "--table-bytes", "1MiB", "--row-bytes", "512",
                         "--batch-bytes", "64KiB", "--link-bytes", "64KiB")
        self.assertEqual((done.returncode, left, done.stderr), (0, [], ""))
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["benchmark"] for line in lines], ["gpu", "ceilings", "table"])

    def test_rows_of_a_table_are_whole_words(self):
        done, _ = run("--only", "table", "--table-bytes", "1MiB", "--row-bytes", "100",
                      "--batch-bytes", "64KiB", "--link-bytes", "64KiB")
        self.assertEqual(done.returncode, 1)
        self.assertIn("a multiple of 8 bytes", done.stderr)

    def test_too_little_gpu_memory_ends_with_a_message(self):
        done, left = run(*SMALL, "--only", "launch", RUNG_SIM_GPU_BYTES="65536")
        self.assertEqual((done.returncode, left), (1, []))
        self.assertIn("not enough memory for rows", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

# SPDX-License-Identifier: Apache-2.0
"""rung bench --check: gathered rows equal those of the file, for every row width, both engines and
several threads."""
import ctypes
import errno
import json
import os
import random
import resource
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import RUNG, SANITIZED, CliTest, Graph, main, read_npy

WIDTHS = (1, 4, 100, 400, 512, 1200, 1536, 4096, 5000)
# rows of one run; each width has two such runs and a smaller one
ROWS = 20000 if SANITIZED else 60000


def rows_for(width):
    """Return enough rows for a file larger than the smallest budget, and few enough for speed."""
    return 100000 if width < 100 else 20000 if width < 1000 else 8000


def smallest_budget(width):
    """Return the bytes of four slots of one row each and a few rows in memory."""
    return 4 * (4096 * (2 + (width - 1) // 4096)) + 50 * width


class Widths(CliTest):
    def check(self, staged, *args, rows=None):
        bench = self.json_of("bench", staged, "--check", *args)
        self.assertEqual(bench["wrong_rows"], 0)
        self.assertIs(bench["checked"], True)
        self.assertEqual(sum(tier["hits"] for tier in bench["tiers"]), bench["rows"])
        if rows:
            self.assertEqual(bench["rows"], rows)
        return bench

    def nasty_ids(self, graph):
        """Return ids: one row repeated, ascending and descending runs, pairs across every border,
        and random ids."""
        count, draws = graph.vertices, random.Random(7)
        ids = [count - 1] * 700 + list(range(count - 1, count - 1200,
                                             -1)) + list(range(1500)) + [0, count - 1] * 300
        ids += [v for v in range(1000)
                for _ in range(2)] + [draws.randrange(count) for _ in range(3000)]
        return graph.write("nasty.npy", "<i8", (len(ids),),
                           struct.pack("<%dq" % len(ids), *ids)), len(ids)

    def test_no_wrong_row_at_any_width(self):
        checked = 0
        for width in WIDTHS:
            with self.subTest(width):
                graph = Graph(self.folder, vertices=rows_for(width), edges=2000, row_bytes=width,
                              seed=width)
                staged = self.stage(graph, "staged-%d" % width)
                cold = ["--host", smallest_budget(width)]
                bench = self.check(staged, *cold, "--ids", "uniform", "--rows", ROWS, "--threads",
                                   4, "--in-flight", 3,
                                   "--batch", 1000, rows=ROWS)
                self.assertGreater(bench["tiers"][1]["hits"], ROWS / 2,
                                   "most rows should come from the file")
                self.assertGreater(bench["device_reads"], 0)
                self.check(staged, "--host", "30%" if width >= 100 else smallest_budget(width),
                           "--ids", "zipf", "--rows",
                           ROWS, "--engine", "pread",
                           "--threads", 3, "--batch", 4096, rows=ROWS)
                ids, count = self.nasty_ids(graph)
                for more in ([], ["--no-merge", "--buffered"]):
                    self.check(staged, *cold, "--ids", ids, "--threads", 2, "--batch", 777, *more,
                               rows=count)
                checked += 2 * ROWS + 2 * count
        if not SANITIZED:
            self.assertGreater(checked, 1000000)

    def test_depth_one_and_batches_of_one(self):
        staged = self.stage(Graph(self.folder, vertices=3000, edges=100, row_bytes=100))
        for engine in ("auto", "pread"):
            self.check(staged, "--host", "40KiB", "--ids", "uniform", "--rows", 2000, "--batch", 1,
                       "--queue-depth", 1,
                       "--in-flight", 1, "--engine", engine)

    def test_one_batch_larger_than_all_slots(self):
        staged = self.stage(Graph(self.folder, vertices=8000, edges=100, row_bytes=512))
        bench = self.check(staged, "--host", smallest_budget(512), "--ids", "uniform", "--rows",
                           50000, "--batch", 50000,
                           rows=50000)
        self.assertGreater(bench["duplicate_rows"], 0)

    def test_merging_reduces_reads_and_keeps_the_rows(self):
        graph = Graph(self.folder, vertices=8000, edges=100, row_bytes=512)
        staged = self.stage(graph)
        ids = graph.write("all.npy", "<i4", (8000,), struct.pack("<8000i", *range(8000)))
        merged = self.check(staged, "--host", "512KiB", "--ids", ids)
        single = self.check(staged, "--host", "512KiB", "--ids", ids, "--no-merge")
        self.assertGreater(merged["merged_rows"], 0)
        self.assertEqual(single["merged_rows"], 0)
        self.assertLess(merged["device_reads"], single["device_reads"])
        self.assertEqual(single["device_reads"], single["tiers"][1]["hits"])

    def test_distant_rows_share_a_read_within_the_merge_gap(self):
        # rows are whole sectors, whether a sector has 512 or 4096 bytes
        graph = Graph(self.folder, vertices=4000, edges=100, row_bytes=4096)
        staged = self.stage(graph)
        _, _, vertices = read_npy(os.path.join(staged, "vertex_of_rank.npy"))
        ids = graph.write("some.npy", "<i4", (1000,),
                          struct.pack("<1000i", *vertices[1000::3]))   # 8 KiB between two rows
        default, apart, along = (self.check(staged, "--host", "2MiB", "--ids", ids, *gap)
                                 for gap in ([], ["--merge-gap", 0], ["--merge-gap", "8KiB"]))
        self.assertEqual(apart["device_reads"], apart["tiers"][1]["hits"])
        self.assertLessEqual(along["device_reads"] * 2, apart["device_reads"])
        self.assertEqual([bench["merge_gap_bytes"] for bench in (default, apart, along)],
                         [16384, 0, 8192])   # 16384: the default for a small file
        self.assertEqual(self.check(staged, "--host", "2MiB", "--ids", ids,
                                    "--merge-gap", "4KiB")["merged_rows"], 0)

    def test_report_lists_the_engines_that_were_skipped(self):
        staged = self.stage(Graph(self.folder, vertices=8000, edges=100, row_bytes=512))
        for more in ([], ["--engine", "pread"]):
            bench = self.check(staged, "--host", "512KiB", "--ids", "uniform", "--rows", 1000,
                               *more)
            self.assertEqual(bench["engine_steps"][-1], {"name": bench["engine"], "why": None})
            for step in bench["engine_steps"][:-1]:
                self.assertTrue(step["why"], step)

    def test_several_threads_read_a_file(self):
        staged = self.stage(Graph(self.folder, vertices=8000, edges=100, row_bytes=512))
        args = ["--host", "2MiB", "--cache", 0, "--ids", "uniform", "--rows", 20000,
                "--queue-depth", 13]
        for threads, depth in ((1, 13), (3, 13)):
            bench = self.check(staged, *args, "--refill-threads", threads)
            self.assertEqual((bench["refill_threads"], bench["queue_depth"]), (threads, depth))
        done = self.run_rung("bench", staged, *args, "--refill-threads", 2, "--explain")
        self.assertIn(", 2 refill threads", done.stdout)
        for wrong in ("0", "17", "two"):
            self.fails("bench", staged, "--refill-threads", wrong, code=2,
                       says=["--refill-threads", f"'{wrong}'"])

    def test_engines_that_read_nothing_count_reads_and_mark_the_rows(self):
        staged = self.stage(Graph(self.folder, vertices=8000, edges=100, row_bytes=512))
        args = ["bench", staged, "--host", "512KiB", "--ids", "uniform", "--rows", 1000,
                "--warmup", 0]
        counters = ("device_reads", "device_read_bytes", "merged_rows", "read_rows", "retries")
        real = self.json_of(*args, "--cache", 0, "--in-flight", 1)
        for engine in ("null", "null_instant"):
            if engine == "null" and real["engine"] != "io_uring":
                self.fails(*args, "--engine", engine, code=1, says="io_uring")
                continue
            found = self.json_of(*args, "--cache", 0, "--in-flight", 1, "--engine", engine)
            self.assertEqual(found["engine"], engine)
            self.assertIn("rows are not valid", found["engine_why"])
            self.assertEqual([found[name] for name in counters], [real[name] for name in counters])
            self.assertIn("not valid", self.run_rung(*args, "--engine", engine).stdout)
            self.fails(*args, "--engine", engine, "--check", code=2, says="--check and --engine")
            self.fails(*args, "--engine", engine, "--share", os.path.join(self.folder, "socket"),
                       code=2, says="read nothing, and other processes use this store")

    def test_everything_in_memory_reads_nothing(self):
        staged = self.stage(Graph(self.folder, vertices=8000, edges=100, row_bytes=400))
        bench = self.check(staged, "--host", "max", "--rows", 50000, "--ids", "uniform",
                           "--threads", 3)
        self.assertEqual((bench["device_reads"], bench["engine"]), (0, "none"))

    def test_warmup_rows_are_not_counted(self):
        staged = self.stage(Graph(self.folder, vertices=8000, edges=20000, row_bytes=400))
        for kind in ("uniform", "zipf"):
            bench = self.check(staged, "--host", "30%", "--ids", kind, "--batch", 100, "--warmup",
                               250, "--rows", 1050, "--threads", 3, rows=1050)
            self.assertEqual((bench["warmup_rows"], bench["requests"]), (300, 11))
        warm = self.json_of("bench", staged, "--host", "30%", "--rows", 20000, "--warmup", 5000,
                            "--batch", 50)
        self.assertGreaterEqual(warm["warmup_rows"], 5000)
        self.assertGreaterEqual(warm["rows"], 20000)
        total = warm["rows"] + warm["warmup_rows"]
        self.assertLess(total, 26000)   # whole batches of 50 seeds
        trace = self.json_of("bench", staged, "--host", "30%", "--rows", total, "--batch", 50,
                             "--warmup", 0)
        self.assertEqual(trace["rows"], total)   # the same batches
        self.assertGreater(trace["requests"], warm["requests"])
        self.assertEqual(sum(tier["hits"] for tier in warm["tiers"]), warm["rows"])

    def test_warmup_fills_the_cache(self):
        graph = Graph(self.folder, vertices=8000, edges=2000, row_bytes=400)
        staged = self.stage(graph)
        ids = graph.write("twice.npy", "<i4", (400,), struct.pack("<400i", *list(range(200)) * 2))
        budget = ["--host", "1MiB", "--cache", "512KiB", "--ids", ids, "--batch", 50]
        cold = self.check(staged, *budget, "--rows", 200, rows=200)
        self.assertEqual(cold["read_rows"], cold["tiers"][1]["hits"])
        self.assertGreater(cold["read_rows"], 0)
        warm = self.check(staged, *budget, "--warmup", 200, rows=200)
        self.assertEqual((warm["read_rows"], warm["device_reads"], warm["warmup_rows"]),
                         (0, 0, 200))
        self.assertEqual(warm["cache_hits"], cold["read_rows"])
        self.assertEqual(self.check(staged, *budget, "--warmup", 200, "--rows", 70)["rows"], 70)
        self.check(staged, *budget, "--warmup", 200, "--look-ahead", 3, "--threads", 2, rows=200)
        self.fails("bench", staged, *budget, "--warmup", 351, code=2,
                   says="has 400 ids, but --warmup alone uses 400; use a smaller --warmup, or "
                        "give more ids")

    def test_rows_of_announced_batches_are_read_ahead(self):
        staged = self.stage(Graph(self.folder, vertices=8000, edges=100, row_bytes=400))
        run = ["--host", "1MiB", "--cache", "512KiB", "--ids", "uniform", "--batch", 100,
               "--rows", 5000, "--warmup", 0]
        windows = {window: self.check(staged, *run, "--look-ahead", 16, "--window", window)
                   for window in (0, 4, "auto")}
        self.assertEqual((windows[0]["ahead_rows"], windows[0]["window_batches"]), (0, 0))
        for window, most in ((4, 4), ("auto", 17)):   # as many as are announced
            bench = windows[window]
            self.assertGreater(bench["ahead_rows"], 0)
            self.assertGreaterEqual(bench["window_batches"], 1)
            self.assertLessEqual(bench["window_batches"], most)
            self.assertGreater(bench["cache_hits"], windows[0]["cache_hits"])
            self.assertLess(bench["read_rows"], windows[0]["read_rows"])
        unannounced = self.check(staged, *run, "--window", 4)
        self.assertEqual((unannounced["ahead_rows"], unannounced["window_batches"]), (0, 0))
        for value, says in (("4097", "--window: '4097' is out of range"),
                            ("-1", "--window: unknown value '-1'"),
                            ("some", "--window: unknown value 'some'")):
            self.fails("bench", staged, "--window=" + value, code=2, says=says)

    def test_a_failed_read_during_warmup_ends_the_run(self):
        staged = self.stage(Graph(self.folder, vertices=8000, edges=100, row_bytes=400))
        path = os.path.join(staged, next(name for name in os.listdir(staged)
                                         if name.startswith("features")))
        socket = self.path("share", "socket")   # exists once the store is open
        process = self.start("bench", staged, "--quiet", "--host", "1MiB", "--cache", 0, "--ids",
                             "uniform", "--warmup", 10000000, "--rows", 1000,
                             "--threads", 3, "--share", socket)
        while not os.path.exists(socket):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        os.truncate(path, 4096)
        output, message = process.communicate(timeout=300)
        self.assertEqual((process.returncode, output), (1, ""), message)
        self.assertIn(path, message)

    def peak_of(self, staged, *args):
        """Return the peak memory of a run in KiB, and its report."""
        process, bench = self.share(staged, self.path("held/store"), "--quiet", *args)
        with open("/proc/%d/status" % process.pid, encoding="utf-8") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
        self.end(process)
        return peak, bench

    def test_memory_does_not_depend_on_the_length_of_a_run(self):
        """Arrays for a whole run would need 8 bytes per row and 16 per request."""
        staged = self.stage(Graph(self.folder, vertices=2000, edges=100, row_bytes=4))
        peaks = []
        for rows in (200000, 1200000) if SANITIZED else (2000000, 12000000):
            peak, bench = self.peak_of(staged, "--host", "max", "--ids", "uniform", "--batch", "8",
                                       "--rows", rows)
            self.assertEqual((bench["rows"], bench["requests"]), (rows, rows // 8))
            self.assertGreaterEqual(bench["latency_us"]["max"], bench["latency_us"]["p99"])
            peaks.append(peak)
        if not SANITIZED:
            self.assertLess(peaks[1] - peaks[0], 60 << 10, peaks)

    def test_maps_are_loaded_only_for_check(self):
        vertices = 600000   # the map has 8 bytes per vertex
        graph = Graph(self.folder, vertices=vertices, edges=100, row_bytes=1)
        staged = self.path("in-place")
        self.run_rung("stage", *graph.options(), "--in-place", "--out", staged, "--quiet")
        args = [staged, "--host", "max", "--ids", "uniform", "--rows", "1000", "--batch", "100"]
        plain, checked = (self.peak_of(*args, *check)[0] for check in ([], ["--check"]))
        if not SANITIZED:
            self.assertGreater(checked - plain, vertices * 8 // 1024 * 3 // 4)

    def test_limited_address_space_gives_a_result_or_a_message(self):
        if SANITIZED:
            self.skipTest("a sanitizer needs more address space than the limit")
        staged = self.stage(Graph(self.folder, vertices=8000, edges=100, row_bytes=512))
        for mib in (60, 80, 120, 200, 300):
            with self.subTest(mib):
                bench = subprocess.run([RUNG, "bench", staged, "--host", "1MiB",
                                        "--ids", "uniform", "--rows", "10000", "--json", "--quiet"],
                                       capture_output=True, text=True, timeout=120, check=False,
                                       preexec_fn=lambda: resource.setrlimit(
                                           resource.RLIMIT_AS, (mib << 20, mib << 20)))
                if bench.returncode == 0:
                    self.assertEqual(json.loads(bench.stdout)["rows"], 10000)
                else:
                    self.assertEqual(bench.returncode, 1, bench.stderr)
                    self.assertRegex(bench.stderr, "^rung bench: ")

    def test_check_finds_wrong_rows(self):
        """The store keeps the rows it loaded when it opened; the file changes afterwards."""
        staged = self.stage(Graph(self.folder, vertices=8000, edges=100, row_bytes=400))
        path = os.path.join(staged, next(name for name in os.listdir(staged)
                                         if name.startswith("features")))
        size = os.path.getsize(path) - 4096
        with open(path, "r+b") as file, subprocess.Popen(
                [RUNG, "bench", staged, "--check", "--json", "--quiet", "--host", "max", "--ids",
                 "uniform", "--rows", "2000000"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bench:
            fill = 0
            while bench.poll() is None:
                fill ^= 0xff
                file.seek(4096)
                file.write(bytes([fill]) * size)
                file.flush()
            message = bench.stderr.read()
            self.assertEqual(bench.returncode, 1, message)
            self.assertRegex(message, r"rung bench: \d+ wrong rows; the first has id \d+")


class SockFilter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8),
                ("k", ctypes.c_uint32)]


class SockProgram(ctypes.Structure):
    _fields_ = [("len", ctypes.c_uint16), ("filter", ctypes.POINTER(SockFilter))]


def refuse_io_uring(error):
    """Return a preexec_fn that makes io_uring_setup fail with `error`, as in a container without
    io_uring."""
    io_uring_setup = 425   # the same on all architectures
    code = (SockFilter * 4)(
        SockFilter(0x20, 0, 0, 0),                        # load the system call number
        SockFilter(0x15, 0, 1, io_uring_setup),           # another call: skip one line
        SockFilter(0x06, 0, 0, 0x00050000 | error),       # SECCOMP_RET_ERRNO
        SockFilter(0x06, 0, 0, 0x7fff0000))               # SECCOMP_RET_ALLOW
    program = SockProgram(4, code)
    libc = ctypes.CDLL(None, use_errno=True)

    def install():
        # PR_SET_NO_NEW_PRIVS; PR_SET_SECCOMP
        if (libc.prctl(38, 1, 0, 0, 0) != 0
                or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0):
            os._exit(77)
    return install


class Refused(CliTest):
    REASONS = ((errno.EPERM, "io_uring is refused here"),
               (errno.ENOSYS, "this kernel has no io_uring"))

    def setUp(self):
        super().setUp()
        if "io_uring  yes" not in self.run_rung("--version").stdout:
            self.skipTest("rung was built without io_uring")
        self.staged = self.stage(Graph(self.folder, vertices=8000, edges=100, row_bytes=512))
        self.args = ["bench", self.staged, "--check", "--host", "200KiB", "--ids", "uniform",
                     "--rows", "20000"]

    def refused(self, error, *more):
        done = subprocess.run([RUNG, *self.args, *more], capture_output=True, text=True,
                              check=False,
                              preexec_fn=refuse_io_uring(error))
        if done.returncode == 77:
            self.skipTest("no seccomp filter can be set here")
        return done

    def test_pread_is_used_and_the_reason_printed(self):
        for error, why in self.REASONS:
            with self.subTest(errno.errorcode[error]):
                done = self.refused(error)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, "(?s)engine: pread, .*" + why)
                self.assertIn("checked: 0 wrong rows", done.stdout)
                bench = json.loads(self.refused(error, "--json").stdout)
                self.assertEqual((bench["engine"], bench["wrong_rows"]), ("pread", 0))
                self.assertIn(why, bench["engine_why"])

    def test_engine_io_uring_fails_with_the_reason(self):
        for error, why in self.REASONS:
            with self.subTest(errno.errorcode[error]):
                done = self.refused(error, "--engine", "io_uring")
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(why, done.stderr)

    def test_io_uring_is_used_when_allowed(self):
        engine = self.json_of(*self.args)
        if engine["engine"] != "io_uring":
            self.skipTest("this kernel refuses io_uring: %s" % engine["engine_why"])
        self.assertEqual(engine["wrong_rows"], 0)


if __name__ == "__main__":
    main()

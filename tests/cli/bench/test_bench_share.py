# SPDX-License-Identifier: Apache-2.0
"""rung bench --share and --attach: two processes with one host tier, the end or death of either
process, and wrong paths."""
import json
import os
import re
import signal
import stat
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, Graph, main

# threads of an attached run: more than the engine starts on opening, so that gathering is visible
THREADS = 80
DEADLINE_S = 60


class Share(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=3000)
        self.staged = self.stage(self.graph)
        self.socket = self.path("run", "store")

    def shared(self):
        return self.share(self.staged, self.socket, "--host", "40%", "--rows", 1000)

    def attached(self, *args):
        return self.json_of("bench", "--attach", self.socket, "--check", *args)

    def test_an_attached_bench_gathers_the_same_rows(self):
        creator, first = self.shared()
        ids = self.graph.write("ids.npy", "<i4", (3000,), struct.pack("<3000i", *range(3000)))
        for more in ([], ["--ids", "uniform", "--rows", 5000, "--threads", 3],
                     ["--ids", "zipf", "--rows", 5000], ["--ids", ids],
                     ["--engine", "pread", "--queue-depth", 1]):
            with self.subTest(more):
                found = self.attached(*more)
                self.assertEqual((found["wrong_rows"], found["attached"], found["device"]),
                                 (0, True, "cpu"))
                self.assertEqual([tier["rows"] for tier in found["tiers"]],
                                 [tier["rows"] for tier in first["tiers"]])
                self.assertEqual(sum(tier["hits"] for tier in found["tiers"]), found["rows"])
                self.assertGreater(found["tiers"][0]["hits"], 0)
        self.assertIs(first["attached"], False)
        self.assertIsNone(creator.poll())

    def test_a_signal_ends_sharing(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            creator, _ = self.shared()
            creator.send_signal(number)
            self.assertEqual(creator.wait(DEADLINE_S), -number)
            held = re.escape("rung bench: the store stays shared at %s until SIGINT or SIGTERM\n" %
                             self.socket)   # missing if the signal comes first
            self.assertRegex(creator.stderr.read(),
                             "^(%s)?rung bench: interrupted by %s\n$" % (held, number.name))
            self.assertEqual(os.listdir(self.path("run")), [])
            self.fails("bench", "--attach", self.socket, code=1,
                       says=[self.socket, "no store is shared there"])

    def test_without_hold_sharing_ends_with_the_run(self):
        done = self.run_rung("bench", self.staged, "--rows", 1000, "--share", self.socket)
        self.assertEqual(done.stderr, "")
        self.assertEqual(os.listdir(self.path("run")), [])

    def gathering(self, rows):
        """Start an attached run and wait until it gathers: it has all its threads only then."""
        process = self.start("bench", "--attach", self.socket, "--check", "--json", "--quiet",
                             "--ids", "uniform", "--rows", rows,
                               "--threads", THREADS, "--batch", 100)
        until = time.monotonic() + DEADLINE_S
        while process.poll() is None and len(os.listdir("/proc/%d/task" % process.pid)) < THREADS:
            self.assertLess(time.monotonic(), until)
        return process

    def test_an_attached_bench_outlives_the_creator(self):
        rows, overtaken = 1 << 17, False
        # until the attached run is long enough to outlive the creator
        while not overtaken and rows <= 1 << 24:
            creator, _ = self.shared()
            attacher = self.gathering(rows)
            creator.kill()
            creator.wait(DEADLINE_S)
            overtaken = attacher.poll() is None
            found, message = attacher.communicate()
            self.assertEqual(attacher.returncode, 0, message)
            found = json.loads(found)
            self.assertEqual((found["wrong_rows"], found["rows"]), (0, rows))
            rows *= 4
        self.assertTrue(overtaken)
        self.assertTrue(stat.S_ISSOCK(os.stat(self.socket).st_mode),
                        "a killed process leaves the socket")
        self.fails("bench", "--attach", self.socket, code=1, says=[self.socket, "has ended"])
        self.shared()   # replaces the socket
        self.assertEqual(self.attached("--rows", 1000)["wrong_rows"], 0)

    def test_the_creator_outlives_a_killed_attacher(self):
        creator, _ = self.shared()
        attacher = self.gathering(1 << 24)
        attacher.kill()
        attacher.wait(DEADLINE_S)
        self.assertEqual(self.attached("--rows", 1000)["wrong_rows"], 0)
        self.assertIsNone(creator.poll())

    def test_two_cannot_share_at_one_path(self):
        self.shared()
        self.fails("bench", self.staged, "--rows", 1000, "--share", self.socket, code=1,
                   says=[self.socket, "attach to it"])

    def test_a_dataset_that_was_replaced(self):
        self.shared()
        other = Graph(self.folder, vertices=2999)
        self.run_rung("stage", *other.options(), "--out", self.staged, "--force", "--quiet")
        self.fails("bench", "--attach", self.socket, code=1,
                   says=[self.staged, "not the dataset", self.socket])

    def test_wrong_paths(self):
        self.fails("bench", "--attach", self.path("nowhere"), code=1,
                   says=[self.path("nowhere"), "no store is shared there"])
        self.fails("bench", "--attach", self.staged, code=1, says=self.staged)
        self.fails("bench", "--attach", self.path("x" * 108), code=2, says="107 bytes")
        open_to_all = self.path("open")
        os.mkdir(open_to_all)
        os.chmod(open_to_all, 0o755)
        share = ["bench", self.staged, "--rows", 1000, "--share"]
        self.fails(*share, os.path.join(open_to_all, "store"), code=2, says=[open_to_all, "755"])
        os.chmod(open_to_all, 0o700)
        with open(os.path.join(open_to_all, "store"), "wb") as file:
            file.write(b"no socket")
        self.fails(*share, os.path.join(open_to_all, "store"), code=1, says="is not a socket")

    def test_exclusive_options(self):
        for args, says in ((["x", "--attach", "p"], "DIR and --attach exclude each other"),
                           (["--attach", "p", "--host", "1GiB"],
                            "--attach and --host exclude each other"),
                           (["--attach", "p", "--gpu", "1GiB"],
                            "--attach and --gpu exclude each other"),
                           (["--attach", "p", "--device", "cpu"],
                            "--attach and --device exclude each other"),
                           (["--attach", "p", "--share", "q"],
                            "--attach and --share exclude each other"),
                           (["x", "--hold"], "--hold needs --share"),
                           (["--attach", "p", "--hold"], "--hold needs --share")):
            with self.subTest(args):
                self.fails("bench", *args, code=2, says=["rung bench: ", says])


if __name__ == "__main__":
    main()

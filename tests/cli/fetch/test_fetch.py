# SPDX-License-Identifier: Apache-2.0
"""rung fetch: whole copies and hottest rows, through every program, stopped and continued."""
import filecmp
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, Graph, main
from file_server import FileServer

DEADLINE_S = 120   # a guard against hangs, not a measurement
# prints a URL for curl, as s5cmd does: all that rung needs of it
S5CMD = """#!/bin/sh
[ "$1" = presign ] && [ "$2" = --expire ] || exit 1
case $4 in
s3://bucket/*) echo "%s/${4#s3://bucket/}?X-Amz-Signature=1" ;;
*) echo 'ERROR "presign '"$4"'": AccessDenied: no such bucket' >&2; exit 1 ;;
esac
"""


class Fetch(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        maker = cls()
        maker.setUp()
        cls.addClassCleanup(maker.doCleanups)
        cls.root = maker.folder
        graph = Graph(cls.root, vertices=9000, edges=9000, row_bytes=1000)
        cls.graph = graph
        cls.source = maker.stage(graph, "source.rung", score="degree")

    def serve(self, folder=None):
        if not shutil.which("curl"):
            self.skipTest("curl is not installed")
        server = FileServer(folder or self.root)
        self.addCleanup(server.close)
        return server

    def fetch(self, source, name, *options):
        return self.json_of("fetch", source, self.path(name), *options)

    def equal(self, one, other, names=None):
        names = names or sorted(os.listdir(one))
        self.assertEqual(filecmp.cmpfiles(one, other, names, shallow=False)[1:], ([], []))

    def check_whole(self, name):
        self.assertEqual(sorted(os.listdir(self.path(name))), sorted(os.listdir(self.source)))
        self.equal(self.source, self.path(name))

    def check_share(self, name):
        info = self.json_of("info", self.path(name))
        self.assertEqual([(r["begin"], r["end"], r["stored_first"]) for r in info["ranges"]],
                         [(0, 3600, 0), (3600, 9000, 0)])
        self.assertTrue(stat.S_ISLNK(os.lstat(self.path(name, "features.001.npy")).st_mode))
        self.assertEqual(os.path.getsize(self.path(name, "features.000.npy")), 4096 + 3600 * 1000)
        self.run_rung("verify", self.path(name), "--source", self.graph.features)
        self.json_of("bench", self.path(name), "--ids", "uniform", "--check", "--host", "1MiB",
                      "--rows", "20000")

    def test_folders(self):
        report = self.fetch(self.source, "whole.rung")
        self.check_whole("whole.rung")
        self.assertEqual((report["rows"], report["bytes_kept"], report["bytes_left"]), (9000, 0, 0))
        report = self.fetch(self.source + "/", "part.rung/", "--share", "40%")
        self.assertEqual((report["rows"], report["bytes_left"]), (3600, 4096 + 9000 * 1000))
        self.check_share("part.rung")
        # already done: nothing is transferred
        for name, options in (("whole.rung", ()), ("part.rung", ("--share", "0.4"))):
            report = self.fetch(self.source, name, *options)
            self.assertEqual(report["bytes_kept"], report["bytes"])
        self.fails("fetch", self.source, self.path("part.rung"), code=1, says="exists, and is not")
        # a copy of a share can be copied whole; its files are then all of the same machine
        self.fetch(self.path("part.rung"), "again.rung")
        shutil.rmtree(self.path("part.rung"))
        self.check_stored(self.path("again.rung"))
        # a copy does not change the files to which it refers
        self.fetch(self.path("again.rung"), "refers.rung", "--share", "0.1")
        with open(os.path.join(self.path("again.rung"), "features.001.npy"), "r+b") as file:
            file.seek(8_000_000)
            file.write(b"wrong")
        for name, code in (("refers.rung", 3), ("again.rung", 0)):
            done = self.run_rung("verify", self.path(name), "--source", self.graph.features,
                                 "--repair", code=code)
            self.assertEqual("repair that one" in done.stdout + done.stderr, code != 0)
        self.run_rung("verify", self.path("refers.rung"))
        # staging can replace a copy, and leaves the files to which it refers
        self.fetch(self.source, "over.rung", "--share", "0.4")
        self.run_rung("stage", *self.graph.options(score="degree"), "--out", self.path("over.rung"),
                      "--force", "--quiet")
        self.run_rung("verify", self.source)

    def check_stored(self, path):
        self.assertFalse(os.path.islink(os.path.join(path, "features.001.npy")))
        self.run_rung("verify", path, "--source", self.graph.features)

    def test_striped_sources(self):
        folders = [self.path("disk%d" % i) for i in range(3)]
        for folder in folders:
            os.mkdir(folder)
        stripes = [word for folder in folders for word in ("--stripe", folder)]
        striped = self.path("striped.rung")
        self.run_rung("stage", *self.graph.options(score="degree"), "--out", striped, *stripes,
                      "--pad", "sector", "--quiet")
        self.fetch(striped, "whole.rung")
        self.equal(striped, self.path("whole.rung"))
        for share in ("1%", "0.5", "0.999"):
            name = "part-%s.rung" % share.strip("%")
            report = self.fetch(striped, name, "--share", share)
            self.assertGreaterEqual(report["rows"], float(share.strip("%")) * 9000 /
                                    (100 if "%" in share else 1) - 1)
            self.run_rung("verify", self.path(name), "--source", self.graph.features)
            self.json_of("bench", self.path(name), "--ids", "uniform", "--check", "--host", "1MiB",
                      "--rows", "20000")
        # ranges, one of which is copied whole
        ranges = self.path("ranges.rung")
        self.run_rung("stage", *self.graph.options(score="degree"), "--out", ranges,
                      *stripes[:2], "--until", "30%", *stripes[2:], "--quiet")
        self.fetch(ranges, "r.rung", "--share", "0.6")
        self.assertEqual(len(self.json_of("info", self.path("r.rung"))["ranges"]), 3)
        self.run_rung("verify", self.path("r.rung"), "--source", self.graph.features)
        self.fetch(ranges, "first.rung", "--share", "0.3")
        self.assertEqual(len(self.json_of("info", self.path("first.rung"))["ranges"]), 2)

    def test_curl(self):
        server = self.serve()
        server.cut = {"features.000.npy": 3, "score.npy": 1}
        self.fetch(server.url + "/source.rung", "whole.rung", "--threads", "3")
        self.check_whole("whole.rung")
        self.fetch(server.url + "/source.rung", "part.rung", "--share", "0.4", "--rest",
                   self.source)
        self.check_share("part.rung")
        # without ranges a copy is continued as well
        server.ranges = False
        server.cut = {"features.000.npy": 2}
        self.fetch(server.url + "/source.rung", "plain.rung")
        self.check_whole("plain.rung")

    def test_s5cmd(self):
        server = self.serve()
        os.mkdir(self.path("bin"))
        with open(self.path("bin", "s5cmd"), "w", encoding="utf-8") as file:
            file.write(S5CMD % server.url)
        os.chmod(self.path("bin", "s5cmd"), 0o755)
        self.variables["PATH"] = self.path("bin") + ":" + os.environ["PATH"]
        self.fetch("s3://bucket/source.rung", "whole.rung")
        self.check_whole("whole.rung")
        self.fails("fetch", "s3://other/source.rung", self.path("no.rung"), code=1,
                   says=["s3://other/source.rung/manifest.json", "s5cmd", "AccessDenied"])

    def rsync(self):
        """Serve the source's parent as the module `m`, and return its URL."""
        if not shutil.which("rsync"):
            self.skipTest("rsync is not installed")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with open(self.path("rsyncd.conf"), "w", encoding="utf-8") as file:
            file.write("use chroot = no\n%s[m]\npath = %s\n" %
                       ("uid = 0\ngid = 0\n" if os.getuid() == 0 else "", self.root))
        daemon = subprocess.Popen(
            ["rsync", "--daemon", "--no-detach", "--address", "127.0.0.1", "--port", str(port),
             "--config", self.path("rsyncd.conf")], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, daemon)
        until = time.monotonic() + DEADLINE_S
        listens = False
        while not listens:
            self.assertIsNone(daemon.poll(), "the daemon has ended")
            self.assertLess(time.monotonic(), until)
            with socket.socket() as probe:
                listens = probe.connect_ex(("127.0.0.1", port)) == 0
            time.sleep(0.05)
        return "rsync://127.0.0.1:%d/m/" % port

    def test_rsync(self):
        url = self.rsync()
        self.fetch(url + "source.rung", "whole.rung")
        self.check_whole("whole.rung")
        self.fetch(url + "source.rung", "part.rung", "--share", "0.4", "--rest", self.source)
        self.check_share("part.rung")
        self.fails("fetch", url + "none.rung", self.path("no.rung"), code=1,
                   says=["none.rung/manifest.json", "rsync", "No such file"])
        # what a killed run leaves: whole blocks, and a part of one; then a damaged one
        for wrong in (2_500_000, 1_100_000):
            process = self.start("fetch", url + "source.rung", self.path("half.rung"))
            partial = self.path("half.rung.partial", "features.000.npy")
            while process.poll() is None and not os.path.exists(partial):
                time.sleep(0.001)
            process.kill()
            process.wait()
            shutil.rmtree(self.path("half.rung"), ignore_errors=True)
            if not os.path.exists(self.path("half.rung.partial")):
                continue   # it was done before it could be killed
            with open(partial, "wb") as file, open(self.source + "/features.000.npy", "rb") as good:
                data = bytearray(good.read(2_600_000))
                data[wrong] ^= 1
                file.write(data)
            report = self.fetch(url + "source.rung", "half.rung")
            self.assertEqual(report["bytes_kept"] // (1 << 20), wrong >> 20)
            self.check_whole("half.rung")
            shutil.rmtree(self.path("half.rung"))

    def test_interrupted_twenty_times(self):
        server = self.serve()
        url = server.url + "/source.rung"
        for turn in range(20):
            server.allow(900_000)   # of 9.8 MB: a block does not arrive in every turn
            process = self.start("fetch", url, self.path("copy.rung"), "--threads",
                                 str(1 + turn % 3))
            self.assertTrue(server.wait_idle(process), process.poll())
            number = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)[turn % 3]
            process.send_signal(number)
            self.assertEqual(process.wait(60), -number)
            self.assertFalse(os.path.exists(self.path("copy.rung")))
            self.run_rung("info", self.path("copy.rung.partial"), code=1)
        server.allow(None)
        report = self.fetch(url, "copy.rung")
        self.assertGreater(report["bytes_kept"], 0)
        self.check_whole("copy.rung")
        self.assertEqual(sorted(os.listdir(self.folder)), ["copy.rung"])

    def test_a_wrong_byte_at_the_source(self):
        server = self.serve()
        server.wrong = {"features.000.npy": 5_000_000}
        says = ["source.rung/features.000.npy: bytes 4194304 to 5242879", "rung verify"]
        self.fails("fetch", server.url + "/source.rung", self.path("c.rung"), code=3, says=says)
        server.wrong = {}
        self.assertGreater(self.fetch(server.url + "/source.rung", "c.rung")["bytes_kept"], 1 << 20)
        self.check_whole("c.rung")
        copy = self.path("bad.rung")
        shutil.copytree(self.source, copy)
        for name, at, words in (("graph_indices.npy", 5000, "graph_indices.npy: bytes 0 to"),
                                ("checksums.npy", 4100, "checksums.npy: does not match"),
                                ("manifest.json", 100, "does not match its own checksum")):
            with open(os.path.join(copy, name), "r+b") as file:
                file.seek(at)
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 1]))
                file.flush()
                self.fails("fetch", copy, self.path("d.rung"), code=3, says=words)
                file.seek(at)
                file.write(byte)
            shutil.rmtree(self.path("d.rung.partial"), ignore_errors=True)

    def test_refusals(self):
        out = self.path("out.rung")
        self.fails("fetch", code=2, says="SRC is missing")
        self.fails("fetch", self.source, code=2, says="DIR is missing")
        self.fails("fetch", self.source, out, "x", code=2, says="unexpected argument 'x'")
        for share in ("0", "1.1", "101%", "x"):
            self.fails("fetch", self.source, out, "--share", share, code=2, says="not a share")
        self.fails("fetch", self.path("none"), out, code=1, says="none/manifest.json")
        self.fails("fetch", "http://127.0.0.1:1/x", out, code=1, says="curl")
        self.fails("fetch", "rsync://127.0.0.1:1/x", out, "--share", "0.4", code=1, says="rsync")
        self.fails("fetch", self.source, self.path("no", "out"), code=1, says="parent folder")
        self.fails("fetch", self.source, self.path("x.partial"), code=2, says="reserved")
        os.mkdir(self.path("mine"))
        self.fails("fetch", self.source, self.path("mine"), code=1, says="exists")
        os.mkdir(self.path("work.rung.partial"))
        with open(self.path("work.rung.partial", "file"), "w", encoding="utf-8"):
            pass
        self.fails("fetch", self.source, self.path("work.rung"), code=1, says="rung did not write")
        self.variables["PATH"] = self.path("mine")
        self.fails("fetch", "http://127.0.0.1:1/x", out, code=1, says="curl is not installed")
        self.fails("fetch", "host:x", out, code=1, says="rsync is not installed")
        self.fails("fetch", "s3://b/x", out, code=1, says="s5cmd is not installed")
        self.assertFalse(os.path.exists(out) or os.path.exists(out + ".partial"))

    def test_rests(self):
        """--rest must be the same dataset."""
        server = self.serve()
        url, out = server.url + "/source.rung", self.path("out.rung")
        self.fails("fetch", url, out, "--share", "0.4", code=2, says="give --rest")
        other = self.stage(Graph(self.folder, vertices=9000, edges=9000, row_bytes=1000, seed=2),
                           "other.rung", score="degree")
        self.fails("fetch", url, out, "--share", "0.4", "--rest", other, code=3,
                   says=["other.rung/features.000.npy", "another dataset"])
        os.truncate(os.path.join(other, "features.000.npy"), 9_000_000)
        self.fails("fetch", url, out, "--share", "0.4", "--rest", other, code=1, says="has 9000000")
        self.fails("fetch", url, out, "--share", "0.4", "--rest", self.path("none"), code=1,
                   says="none/features.000.npy")
        in_place = self.path("in-place.rung")
        self.run_rung("stage", *self.graph.options(score="degree"), "--out", in_place, "--in-place",
                      "--quiet")
        self.fails("fetch", in_place, out, code=2, says=["staged in place", self.graph.features])
        self.assertFalse(os.path.exists(out) or os.path.exists(out + ".partial"))

    def test_unfinished_work_of_others(self):
        server = self.serve()
        server.allow(900_000)
        process = self.start("fetch", server.url + "/source.rung", self.path("c.rung"))
        self.assertTrue(server.wait_idle(process))
        self.fails("fetch", self.source, self.path("c.rung"), code=1, says="another process")
        process.kill()
        process.wait()
        self.fails("fetch", self.source, self.path("c.rung"), code=1, says="work of another run")
        self.run_rung("stage", *self.graph.options(score="degree"), "--out", self.path("c.rung"),
                      "--quiet", "--force")
        self.run_rung("verify", self.path("c.rung"))


if __name__ == "__main__":
    main()

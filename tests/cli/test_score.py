# SPDX-License-Identifier: Apache-2.0
"""rung score: its file, equal bits in memory and from files, budgets, refused input, and cleanup
after a stop."""
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import NAMED_ONLY, SANITIZED, CliTest, Graph, main, npy_bytes, read_npy

METHODS = ["degree", "rpagerank", "wrpagerank", "ppr", "presample", "expected", "blend"]
SAMPLING = ["--fanout", "4,3", "--batch", "40", "--batches", "4"]


class ScoreTest(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder)
        self.out = self.path("score.npy")
        self.base = ["--vertices", self.graph.vertices, "--split", f"train={self.graph.train_file}",
                     *SAMPLING]

    def score(self, *args, graph=None):
        """Return the written values and the report."""
        report = self.json_of("score", "--graph", graph or self.graph.graph, *self.base, *args,
                              "--out", self.out)
        descr, shape, values = read_npy(self.out)
        self.assertEqual((descr, shape), ("<f4", (report["vertices"],)))
        return values, report

    def refused(self, *args, code, says):
        """Check that the command fails, names every word of `says` and leaves nothing."""
        before = sorted(os.listdir(self.folder))
        message = self.fails("score", *args, code=code, says=says)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        return message

    def columns(self, of_sources=False, deflate=None):
        """Return a csc: spec of the same edges, or csr: with of_sources; deflate: stored in a .npz.

        The edges of csr: have another order than the edge list.
        """
        lists = [[] for _ in range(self.graph.vertices)]
        for u, v in self.graph.edges:
            lists[u if of_sources else v].append(v if of_sources else u)
        indptr = [0]
        for entries in lists:
            indptr.append(indptr[-1] + len(entries))
        name = "csr" if of_sources else "csc"
        if deflate is not None:
            path = self.graph.write_npz("columns.npz",
                                        {"p": npy_bytes("<i8", (len(indptr),), indptr),
                                         "i": npy_bytes(
                "<i8", (indptr[-1],), [i for entries in lists for i in entries])}, deflate)
            return "%s:%s:p,%s:i" % (name, path, path)
        return ("%s:%s,%s" % (name, self.graph.write(name + "_indptr.npy", "<i8", (len(indptr),),
                                                     indptr),
                              self.graph.write(name + "_indices.npy", "<i4", (indptr[-1],),
                                               [i for entries in lists for i in entries])))


class File(ScoreTest):
    def test_degree_score_is_the_out_degree(self):
        values, report = self.score("--score", "degree")
        degree = [0] * self.graph.vertices
        for u, _ in self.graph.edges:
            degree[u] += 1
        self.assertEqual(values, degree)
        self.assertEqual((report["method"], report["edges"], report["edge_passes"]),
                         ("degree", len(self.graph.edges), 1))
        self.assertGreater(report["edges_per_s"], 0)
        self.assertEqual((report["memory_bytes"], report["input_passes"], report["temp_bytes"]),
                         (None, None, None))

    def test_presample_with_fanout_all_counts_the_neighbourhood(self):
        """One batch of all train vertices: the rows are the vertices within one hop."""
        held = set(self.graph.train)
        held.update([u for u, v in self.graph.edges if v in held])
        values, report = self.score("--score", "presample", "--fanout", "all", "--batch", 1000,
                                    "--epochs", 3)
        self.assertEqual(values, [3 * (v in held) for v in range(self.graph.vertices)])
        self.assertEqual(report["batches_sampled"], 3)

    def test_data_begin_at_a_page_boundary(self):
        self.score("--score", "degree")
        with open(self.out, "rb") as file:
            content = file.read()
        self.assertEqual(content[:8], b"\x93NUMPY\x01\x00")
        self.assertEqual(struct.unpack("<H", content[8:10])[0], 4096 - 10)
        self.assertEqual((content[4095:4096], len(content)),
                         (b"\n", 4096 + 4 * self.graph.vertices))

    def test_an_existing_file_is_replaced(self):
        with open(self.out, "wb") as file:
            file.write(b"old")
        self.score("--score", "degree")
        os.chdir(self.folder)
        # a name without a folder
        self.run_rung("score", "--graph", self.graph.graph, "--score", "degree", "--out",
                      "here.npy")
        self.assertTrue(os.path.exists(self.path("here.npy")))
        self.assertEqual([name for name in os.listdir(self.folder) if "partial" in name], [])

    def test_every_option_changes_the_score(self):
        def differs(method, *changed):
            self.assertNotEqual(self.score("--score", method)[0],
                                self.score("--score", method, *changed)[0], changed)

        differs("wrpagerank", "--iterations", 2)
        differs("wrpagerank", "--damping", 0.5)
        differs("wrpagerank", "--undirected")
        differs("rpagerank", "--tolerance", 0.1)
        for changed in (["--fanout", "4,1"], ["--fanout", "4"], ["--batch", 10],
                        ["--draws", "new"]):
            differs("expected", *changed)
        for changed in (["--seed", 5], ["--batches", 2], ["--draws", "new"]):
            differs("blend", *changed)
        differs("presample", "--epochs", 2, "--batches", 14)
        values = self.score("--score", "ppr")[0]
        everybody = self.json_of("score", "--graph", self.graph.graph, "--score", "ppr", "--out",
                                 self.out)
        self.assertEqual(everybody["vertices"], 1 + max(max(edge) for edge in self.graph.edges))
        self.assertNotEqual(read_npy(self.out)[2], values)

    def test_blend_is_the_default(self):
        self.assertEqual(self.score()[0], self.score("--score", "blend")[0])

    def test_a_mask_equals_ids(self):
        mask = [0] * self.graph.vertices
        for v in self.graph.train:
            mask[v] = 1
        ids = self.score("--score", "ppr")[0]
        self.base[3] = "train=" + self.graph.write("mask.npy", "|b1", (len(mask),), mask)
        self.assertEqual(self.score("--score", "ppr")[0], ids)

    def test_printed_text(self):
        args = ["--graph", self.graph.graph, *self.base, "--out", self.out]
        text = self.run_rung("score", *args, "--score", "degree").stdout
        self.assertRegex(text,
                         r"^500 vertices, 3000 edges, read in .*s\ndegree in .*s, 1 edge "
                         r"pass\nwrote .*score.npy\n$")
        self.assertIn("8 batches sampled\n", self.run_rung("score", *args).stdout)

    def test_one_vertex_and_no_edges(self):
        none = self.graph.write("none.npy", "<i8", (2, 0), [])
        loop = self.graph.write("loop.npy", "<i8", (2, 1), [0, 0])
        for memory in ([], ["--memory", "256MiB"]):
            for method in METHODS:
                with self.subTest(method, memory=memory):
                    for edges, vertices in ((none, 3), (loop, 1)):
                        report = self.json_of("score", "--graph", edges, "--vertices", vertices,
                                              "--score", method, *SAMPLING, *memory,
                                              "--out", self.out)
                        self.assertEqual(report["vertices"], vertices)
                        self.assertEqual(len(read_npy(self.out)[2]), vertices)


class Files(ScoreTest):
    """A graph in memory and one in files within a budget give the same bits."""

    def same(self, *args, graph=None, runs=(("64MiB", 2),)):
        wanted = self.score(*args, graph=graph)[0]
        for budget, threads in runs:
            values, report = self.score(*args, "--memory", budget, "--threads", threads,
                                        graph=graph)
            self.assertEqual(values, wanted, (args, budget, threads))
        return report

    def test_every_method(self):
        for method in METHODS:
            with self.subTest(method):
                self.same("--score", method, runs=(("64MiB", 1), ("56MiB", 3)))

    def test_every_graph_format(self):
        graph, edges = self.graph, self.graph.edges
        half = len(edges) // 2
        flat = [end for edge in edges for end in edge]
        lists = [graph.write("%d.npy" % i, "<i4", (len(part), 2),
                             [end for edge in part for end in edge])
                 for i, part in enumerate((edges[:half], edges[half:]))]
        wanted = self.score("--score", "expected")[0]
        for name, spec in (("csc", self.columns()), ("csr", self.columns(of_sources=True)),
                           ("by edge", graph.write("by_edge.npy", "<u4", (len(edges), 2), flat)),
                           ("stored", graph.write_npz("s.npz",
                                                      {"e": npy_bytes("<i8", (len(
                                                          edges), 2), flat)}, False) + ":e"),
                           ("deflated", graph.write_npz("d.npz",
                                                        {"e": npy_bytes("<i8", (len(
                                                            edges), 2), flat)}, True) + ":e")):
            with self.subTest(name):
                report = self.same("--score", "expected", graph=spec)
                self.assertEqual(report["input_passes"] == 0, name == "csc")
                self.assertEqual(report["temp_bytes"] == 0, name == "csc")
                if name != "csr":   # its lists have another order, and so do the sums
                    self.assertEqual(self.score("--score", "expected", graph=spec)[0], wanted)
        self.same("--score", "expected", "--graph", lists[1], graph=lists[0])
        self.assertEqual(self.score("--score", "expected", "--graph", lists[1], graph=lists[0])[0],
                         wanted)
        for more in (["--undirected"], ["--dedup"], ["--undirected", "--dedup"]):
            self.same("--score", "expected", *more)
            self.same("--score", "expected", *more, graph=self.columns())

    def test_every_budget(self):
        for method in ("wrpagerank", "blend"):
            report = self.same("--score", method, runs=(("48MiB", 1), ("300MiB", 1), ("1GiB", 2)))
            self.assertEqual(report["memory_bytes"], 1 << 30)

    def test_too_small_a_budget_reports_the_minimum(self):
        columns = self.columns()
        for graph, method in ((self.graph.graph, "degree"), (columns, "presample"),
                              (columns, "expected"), (self.graph.graph, "blend"),
                              (self.columns(deflate=True), "degree")):
            with self.subTest(method):
                args = ["--graph", graph, *self.base, "--score", method, "--threads", 2, "--out",
                        self.out]
                least = set()
                for budget in ("0", "64KiB", "1MiB"):
                    message = self.refused(*args, "--memory", budget, code=2,
                                           says=["--memory", "at least"])
                    least.add(int(re.search(r"at least (\d+)$", message.strip())[1]))
                self.assertEqual(len(least), 1)
                self.refused(*args, "--memory", min(least) - 1, code=2,
                             says="at least %d" % min(least))
                self.run_rung("score", *args, "--memory", min(least))
                os.remove(self.out)


class Refused(ScoreTest):
    def args(self, **changes):
        options = {"graph": self.graph.graph, "train": self.graph.train_file, "method": "expected",
                   "fanout": "4,3", "out": self.out,
                   **changes}
        return [word for name, value in options.items() if value is not None
                for word in ("--" + name, value)]

    def test_train_ids(self):
        top = max(max(edge) for edge in self.graph.edges)
        for memory in (None, "256MiB"):
            for name, values, says in (("out of range", [3, top + 1],
                                        ["ids.npy: entry 1 is %d" % (top + 1), "0 to %d" % top]),
                                       ("negative", [3, -1], "ids.npy: entry 1 is -1"),
                                       ("twice", [3, 8, 3],
                                        ["ids.npy: entries 0 and 2 are both 3",
                                         "give each id once"]),
                                       ("none", [], ["ids.npy: has no vertex",
                                                     "omit --split"])):
                with self.subTest(name, memory=memory):
                    ids = self.graph.write("ids.npy", "<i8", (len(values),), values)
                    self.refused(*self.args(train=ids, memory=memory), code=1, says=says)
        self.refused(*self.args(train=self.graph.write("f.npy", "<f4", (2,), [0, 1])), code=1,
                     says=["f.npy", "f32"])
        self.refused(*self.args(train=self.path("none.npy"), graph=self.path("no.npy")), code=1,
                     says="none.npy: cannot be opened")

    def test_graphs(self):
        bad = self.graph.write("bad.npy", "<i8", (2, 2), [0, -5, 1, 1])
        for memory in (None, "256MiB"):
            self.refused(*self.args(graph=self.path("none.npy"), memory=memory), code=1,
                         says="none.npy")
            self.refused(*self.args(graph=bad, memory=memory), code=1, says=["bad.npy", "-5"])
            self.refused(*self.args(vertices="3", memory=memory), code=1, says="graph.npy")

    def test_outputs_are_checked_first(self):
        os.mkdir(self.path("folder"))
        for out, says in ((self.path("no", "such", "file.npy"), "No such file"),
                          (self.path("folder"), "cannot be the name of a file"),
                          (self.path("folder") + "/", "cannot be the name of a file"),
                          ("", "cannot be the name of a file"),
                          ("/proc/score.npy", "cannot be written"),
                          (self.path("n" * 246 + ".npy"), "File name too long")):
            with self.subTest(out):
                self.refused(*self.args(out=out, graph=self.path("none.npy")), code=1, says=says)

    @staticmethod
    def limit_file_size():
        """Make writes beyond a limit fail as on a full disk.

        The kernel also sends SIGXFSZ, which the command must ignore.
        """
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4500, 4500))

    def test_a_failed_write_keeps_the_old_file(self):
        with open(self.out, "wb") as file:
            file.write(b"old")
        before = sorted(os.listdir(self.folder))
        self.fails("score", *self.args(method="degree"), code=1, says=[self.out, "File too large"],
                   preexec_fn=self.limit_file_size)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        with open(self.out, "rb") as file:
            self.assertEqual(file.read(), b"old")


class Stopped(ScoreTest):
    def started(self, *more):
        """Start a run of minutes and wait until it has opened its output.

        Return the process, and whether the output is an unnamed file (O_TMPFILE).
        """
        process = self.start("score", "--graph", self.graph.graph, *self.base, "--score",
                             "presample", "--epochs", 1000000, "--batches",
                             100000000, "--batch", 1, "--out", self.out, *more)
        fds = "/proc/%d/fd" % process.pid
        while process.poll() is None:
            for fd in os.listdir(fds):
                try:
                    target = os.readlink(os.path.join(fds, fd))
                except FileNotFoundError:
                    continue
                if target.startswith(self.folder + "/#") or ".partial" in target:
                    return process, "/#" in target
            time.sleep(0.01)
        self.fail(process.stderr.read())

    def test_signals_leave_nothing(self):
        before = sorted(os.listdir(self.folder))
        for number, more in ((signal.SIGINT, []), (signal.SIGTERM, ["--memory", "256MiB"])):
            with self.subTest(number):
                process, _ = self.started(*more)
                process.send_signal(number)
                _, message = process.communicate(timeout=60)
                self.assertEqual(process.returncode, -number)
                self.assertEqual(message, "rung score: interrupted by %s\n" % number.name)
                self.assertEqual(sorted(os.listdir(self.folder)), before)

    @unittest.skipIf(SANITIZED, "the sanitizer must be the first library loaded")
    def test_a_file_system_without_unnamed_files(self):
        library = self.path("named_only.so")
        subprocess.run([os.environ.get("RUNG_CC", "cc"), "-shared", "-fPIC", "-x", "c", "-", "-o",
                        library, "-ldl"], input=NAMED_ONLY,
                       text=True, check=True)
        self.variables["LD_PRELOAD"] = library
        before = sorted(os.listdir(self.folder))
        process, unnamed = self.started()
        self.assertFalse(unnamed)
        (partial,) = set(os.listdir(self.folder)) - set(before)
        self.assertRegex(partial, r"^score\.npy\.[0-9a-f]{8}\.partial$")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.score("--score", "degree")
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(before + ["score.npy"]))

    def test_a_killed_run_leaves_nothing(self):
        before = sorted(os.listdir(self.folder))
        process, unnamed = self.started()
        process.kill()
        process.communicate()
        if not unnamed:
            self.skipTest("the file system of %s has no unnamed files" % self.folder)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""stage and verify on a small random graph, compared with simple loops in Python."""
import filecmp
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import CliTest, Graph, main, npy_bytes, read_npy


def in_lists(graph, undirected=False):
    """Return the in-neighbours of every vertex, in the order of the edges."""
    lists = [[] for _ in range(graph.vertices)]
    for u, v in graph.edges:
        lists[v].append(u)
        if undirected and u != v:
            lists[u].append(v)
    return lists


class Contents(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder)

    def check(self, staged, lists):
        """Check the folder: the graph relabelled by the staged maps, rows, labels and splits."""
        graph = self.graph

        def load(name):
            return read_npy(os.path.join(staged, name + ".npy"))[2]

        vertex_of_rank, rank_of_vertex = load("vertex_of_rank"), load("rank_of_vertex")
        self.assertEqual(sorted(vertex_of_rank), list(range(graph.vertices)))
        self.assertEqual([rank_of_vertex[v] for v in vertex_of_rank], list(range(graph.vertices)))
        score = load("score")
        order = sorted(range(graph.vertices), key=lambda rank: (-score[rank], vertex_of_rank[rank]))
        self.assertEqual(order, list(range(graph.vertices)),
                         "rows are not in the order of their scores")
        indptr, indices = load("graph_indptr"), load("graph_indices")
        for rank, vertex in enumerate(vertex_of_rank):
            mine = [vertex_of_rank[r] for r in indices[indptr[rank]:indptr[rank + 1]]]
            self.assertEqual(mine, lists[vertex], "in-neighbours of vertex %d" % vertex)
        files = [name for name in os.listdir(staged) if name.startswith("features")]
        self.assertEqual(len(files), 1)
        descr, shape, rows = read_npy(os.path.join(staged, files[0]))
        self.assertEqual((descr, shape), ("|u1", (graph.vertices, graph.row_bytes)))
        self.assertEqual(bytes(rows), b"".join(graph.row(v) for v in vertex_of_rank))
        self.assertEqual(load("labels"), [graph.labels[v] for v in vertex_of_rank])
        self.assertEqual([vertex_of_rank[r] for r in load("split_train")], graph.train)
        self.assertEqual([vertex_of_rank[r] for r in load("split_valid")], graph.valid)
        self.assertEqual(sorted(vertex_of_rank[r] for r in load("split_test")),
                         [v for v in range(graph.vertices) if graph.test_mask[v]])
        self.assertEqual(self.run_rung("verify", staged, "--source",
                                       graph.features).stdout.split(":")[0], "ok")

    def test_every_score_stages_the_same_graph(self):
        lists = in_lists(self.graph)
        for method in ("degree", "rpagerank", "wrpagerank", "ppr", "presample", "expected",
                       "blend"):
            with self.subTest(method):
                staged = self.stage(self.graph, method, score=method)
                self.check(staged, lists)
                self.assertEqual(self.json_of("info", staged)["score"], method)

    def test_degree_score_is_the_out_degree(self):
        staged = self.stage(self.graph, score="degree")
        degree = [0] * self.graph.vertices
        for u, _ in self.graph.edges:
            degree[u] += 1
        vertex_of_rank = read_npy(os.path.join(staged, "vertex_of_rank.npy"))[2]
        self.assertEqual(vertex_of_rank, sorted(range(self.graph.vertices),
                                                key=lambda v: (-degree[v], v)))

    def test_the_options_of_the_score_are_recorded(self):
        staged = self.stage(self.graph, draws="new", seed=7, batches=3, fanout="4,all", batch=50)
        info = self.json_of("info", staged)
        self.assertEqual((info["score"], info["score_batches"], info["score_seed"], info["draws"],
                          info["fanout"]),
                         ("blend", 6, 7, "new", [4, 4294967295]))
        self.assertIn("fanout 4,all, new vertices draw\n", self.run_rung("info", staged).stdout)
        staged = self.stage(self.graph, "presampled", score="presample", epochs=2, batch=50)
        self.assertEqual(self.json_of("info", staged)["score_batches"], 10)
        staged = self.stage(self.graph, "ranked", score="rpagerank", damping=0.5, tolerance=0.1,
                            iterations=9)
        info = self.json_of("info", staged)
        self.assertEqual((info["damping"], info["score_batches"], info["score_seed"]),
                         (0.5, None, None))
        self.assertLess(info["iterations"], 9)

    def test_the_score_equals_that_of_rung_score(self):
        graph = self.graph
        for method in ("expected", "blend"):
            with self.subTest(method):
                sampling = ["--fanout", "4,3", "--batch", 40]
                out = self.path(method + ".npy")
                self.run_rung("score", "--graph", graph.graph, "--vertices", graph.vertices,
                              "--split", f"train={graph.train_file}",
                              "--score", method, *sampling, "--out", out)
                staged = self.stage(graph, method, score=method, fanout="4,3", batch=40)
                score = read_npy(out)[2]
                vertex_of_rank = read_npy(os.path.join(staged, "vertex_of_rank.npy"))[2]
                self.assertEqual(read_npy(os.path.join(staged, "score.npy"))[2],
                                 [score[v] for v in vertex_of_rank])
                given = self.stage(graph, method + " given", score=out)
                names = ["vertex_of_rank.npy", "features.000.npy", "graph_indices.npy"]
                self.assertEqual(filecmp.cmpfiles(staged, given, names, shallow=False)[1:],
                                 ([], []))

    def test_undirected_adds_reverses(self):
        staged = self.path("staged")
        self.run_rung("stage", *self.graph.options(), "--undirected", "--out", staged)
        self.check(staged, in_lists(self.graph, undirected=True))

    def test_dedup_keeps_one_of_equal_edges(self):
        staged = self.path("staged")
        self.graph.edges = [edge for edge in self.graph.edges for _ in range(2)]
        doubled = self.graph.write("doubled.npy", "<i4", (len(self.graph.edges), 2),
                                   [end for edge in self.graph.edges for end in edge])
        self.run_rung("stage", *self.graph.options(graph=doubled), "--dedup", "--out", staged)
        descr, _, indptr = read_npy(os.path.join(staged, "graph_indptr.npy"))
        self.assertEqual(descr, "<u8")
        self.assertEqual(indptr[-1], len(set(self.graph.edges)))

    def test_a_given_score_decides_the_ranks(self):
        graph = self.graph
        score = [float((v * 7919) % graph.vertices) for v in range(graph.vertices)]
        given = graph.write("score.npy", "<f4", (graph.vertices,), score)
        staged = self.stage(graph, score=given)
        self.check(staged, in_lists(graph))
        vertex_of_rank = read_npy(os.path.join(staged, "vertex_of_rank.npy"))[2]
        self.assertEqual(vertex_of_rank, sorted(range(graph.vertices), key=lambda v: -score[v]))
        self.assertEqual(self.json_of("info", staged)["score"], "given")

    def test_all_source_formats_give_the_same_bytes(self):
        graph = self.graph
        staged = self.stage(graph)
        flat = [u for u, _ in graph.edges] + [v for _, v in graph.edges]
        half = len(graph.edges) // 2
        lists = in_lists(graph)
        indptr = [0]
        for neighbours in lists:
            indptr.append(indptr[-1] + len(neighbours))
        with open(graph.path("features.raw"), "wb") as file:
            file.write(b"header" + graph.rows)
        members = {"edges": npy_bytes("<i8", (2, len(graph.edges)), flat),
                   "x": npy_bytes("|u1", (graph.vertices, graph.row_bytes), graph.rows)}
        stored = graph.write_npz("stored.npz", members, deflate=False)
        deflated = graph.write_npz("deflated.npz", members, deflate=True)
        head, tail = graph.edges[:half], graph.edges[half:]
        variants = {
            "version2": {"features": graph.write("v2.npy", "|u1", (graph.vertices, graph.row_bytes),
                                                 graph.rows, version=(2, 0))},
            "version3": {"features": graph.write("v3.npy", "|u1", (graph.vertices, graph.row_bytes),
                                                 graph.rows, version=(3, 0))},
            "raw": {"features": "raw:%s,u8,%dx%d,6" % (graph.path("features.raw"), graph.vertices,
                                                       graph.row_bytes)},
            "stored": {"graph": stored + ":edges", "features": stored + ":x"},
            "deflated": {"graph": deflated + ":edges.npy", "features": deflated + ":x.npy"},
            "by edge": {"graph": graph.write("by_edge.npy", "<u4", (len(graph.edges), 2),
                                             [end for edge in graph.edges for end in edge])},
            "by side, Fortran": {"graph": graph.write("by_side_f.npy", "<i8", (2, len(graph.edges)),
                                                      [end for edge in graph.edges for end in edge],
                                                      fortran=True)},
            "by edge, Fortran": {"graph": graph.write("by_edge_f.npy", "<i8", (len(graph.edges), 2),
                                                      flat, fortran=True)},
            "two lists": {"graph": [
                graph.write("head.npy", "<u8", (2, len(head)),
                            [u for u, _ in head] + [v for _, v in head]),
                graph.write("tail.npy", "<i4", (2, len(tail)),
                            [u for u, _ in tail] + [v for _, v in tail])]},
            "csc": {"graph": "csc:%s,%s" % (
                graph.write("indptr.npy", "<i8", (len(indptr),), indptr),
                graph.write("indices.npy", "<i4", (len(graph.edges),),
                            [u for neighbours in lists for u in neighbours]))},
        }
        for name, changes in variants.items():
            with self.subTest(name):
                other = self.stage(graph, "as " + name, **changes)
                self.same_dataset(staged, other)

    def test_threads_do_not_change_the_bytes(self):
        staged = self.stage(self.graph, threads=1)
        other = self.stage(self.graph, "other", threads=7)
        names = os.listdir(staged)
        self.assertEqual(filecmp.cmpfiles(staged, other, names, shallow=False)[1:], ([], []))

    def test_one_row(self):
        graph = Graph(self.folder, vertices=1, edges=0)
        graph.graph = graph.write("graph.npy", "<i8", (2, 1), [0, 0])
        staged = self.stage(graph, split=None)
        self.assertEqual(self.json_of("info", staged)["vertices"], 1)
        self.assertEqual(self.json_of("bench", staged, "--check", "--ids", "uniform", "--rows",
                                      10)["wrong_rows"], 0)

    def test_no_edges(self):
        graph = self.graph
        staged = self.stage(graph, graph=graph.write("none.npy", "<i8", (2, 0), []))
        self.assertEqual(self.json_of("info", staged)["edges"], 0)
        self.assertEqual(self.json_of("bench", staged, "--check", "--rows", 1000)["wrong_rows"], 0)


class Folder(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder)

    def test_dry_run_writes_nothing_and_reports_the_real_sizes(self):
        out = self.path("out")
        before = sorted(os.listdir(self.folder))
        planned = self.json_of("stage", *self.graph.options(), "--out", out, "--dry-run")
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.assertIs(planned["dry_run"], True)
        self.assertIn("would write", self.run_rung("stage", *self.graph.options(), "--out", out,
                                                   "--dry-run").stdout)
        done = self.json_of("stage", *self.graph.options(), "--out", out)
        self.assertEqual(done["bytes_written"], sum(os.path.getsize(os.path.join(out, name))
                                                    for name in os.listdir(out)))
        # the length of the manifest is not known in advance
        self.assertLess(abs(planned["bytes_written"] - done["bytes_written"]), 8192)

    def test_existing_folder_is_kept_unless_forced(self):
        out = self.stage(self.graph, score="degree")
        self.fails("stage", *self.graph.options(), "--out", out, code=1, says=[out, "--force"])
        self.assertEqual(self.json_of("info", out)["score"], "degree")
        self.run_rung("stage", *self.graph.options(), "--out", out, "--force", "--quiet")
        self.assertEqual(self.json_of("info", out)["score"], "blend")
        self.run_rung("verify", out)

    def test_force_does_not_replace_other_folders(self):
        out = self.path("precious")
        os.mkdir(out)
        with open(os.path.join(out, "thesis.txt"), "w", encoding="utf-8") as file:
            file.write("years of work")
        self.fails("stage", *self.graph.options(), "--out", out, "--force", code=1, says=out)
        self.assertEqual(os.listdir(out), ["thesis.txt"])

    def test_a_failed_forced_run_keeps_the_old_folder(self):
        out = self.stage(self.graph, score="degree")
        broken = self.graph.write("broken.npy", "<i8", (2, 1), [0, self.graph.vertices])
        self.fails("stage", *self.graph.options(graph=broken), "--out", out, "--force", code=1,
                   says="broken.npy")
        self.run_rung("verify", out, "--source", self.graph.features)
        self.assertFalse(os.path.exists(out + ".partial"))

    def test_parent_folder_must_exist(self):
        self.fails("stage", *self.graph.options(), "--out", self.path("no", "such"), code=1,
                   says=self.path("no"))

    def test_verify_finds_rows_that_differ_from_the_source(self):
        graph = self.graph
        staged = self.stage(graph)
        changed = bytearray(graph.rows)
        for vertex in (33, 77):
            changed[vertex * graph.row_bytes + 5] ^= 1
        other = graph.write("other.npy", "|u1", (graph.vertices, graph.row_bytes), changed)
        report = self.json_of("verify", staged, "--source", other, code=3)
        self.assertEqual((report["ok"], report["rows_compared"], report["rows_different"]),
                         (False, graph.vertices, 2))
        self.assertIn(report["first_different"], (33, 77))
        self.assertEqual(report["bad"], [])
        self.assertIn("2 rows differ", self.run_rung("verify", staged, "--source", other,
                                                     code=3).stdout)


if __name__ == "__main__":
    main()

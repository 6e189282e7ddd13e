# SPDX-License-Identifier: Apache-2.0
"""stage, verify, info, plan and bench on a small random graph, compared with simple loops in
Python."""
import filecmp
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import CliTest, Graph, main, npy_bytes, read_npy, shape_of


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


class Results(CliTest):
    """Numbers that the test can compute, and the keys that scripts depend on."""

    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=4000, edges=20000, row_bytes=256)
        self.staged = self.path("staged")
        self.report = self.json_of("stage", *self.graph.options(), "--out", self.staged, "--fanout",
                                   "5,3", "--batch", 100)

    def test_shape_of_the_json(self):
        ids = self.graph.write("ids.npy", "<i8", (3,), [0, 3999, 0])
        shapes = {
            "stage": shape_of(self.report),
            "score": shape_of(self.json_of("score", "--graph", self.graph.graph, "--score",
                                           "degree", "--out",
                                           self.path("score.npy"))),
            "score --memory": shape_of(self.json_of("score", "--graph", self.graph.graph,
                                                    "--score", "degree", "--out",
                                                    self.path("score.npy"), "--memory", "256MiB")),
            "verify": shape_of(self.json_of("verify", self.staged)),
            "verify --source": shape_of(self.json_of("verify", self.staged, "--source",
                                                     self.graph.features)),
            "info": shape_of(self.json_of("info", self.staged)),
            "plan": shape_of(self.json_of("plan", self.staged, "--numa-node", "none", "--host",
                                          "20%")),
            "trace": shape_of(self.json_of("trace", self.staged, "--host", "20%", "--scores",
                                           "degree")),
            "bench": shape_of(self.json_of("bench", self.staged, "--numa-node", "none", "--host",
                                           "max", "--rows", 100)),
            "bench --profile": shape_of(self.json_of("bench", self.staged, "--numa-node", "none",
                                                     "--host", "max", "--rows", 100, "--profile",
                                                     self.profile())),
            "bench --check": shape_of(self.json_of("bench", self.staged, "--numa-node", "none",
                                                   "--host", "max", "--ids", ids, "--check")),
        }
        self.golden("json-shapes.json", json.dumps(shapes, indent=1) + "\n")

    def test_stage_report(self):
        self.assertEqual(self.report["vertices"], 4000)
        self.assertEqual(self.report["edges"], 20000)
        self.assertEqual(self.report["row_bytes"], 256)
        self.assertEqual(self.report["feature_bytes"], 4000 * 256)
        self.assertEqual(self.report["score"]["method"], "blend")
        self.assertEqual(self.report["score"]["iterations"], 2)
        self.assertEqual(self.report["score"]["batches_sampled"], 512)

    def test_info(self):
        info = self.json_of("info", self.staged)
        self.assertEqual((info["vertices"], info["edges"], info["dtype"], info["row_bytes"]),
                         (4000, 20000, "u8", 256))
        self.assertEqual((info["fanout"], info["batch"], info["draws"], info["labels"]),
                         ([5, 3], 100, "all", True))
        self.assertEqual((info["score"], info["score_batches"], info["score_seed"],
                          info["iterations"], info["damping"]),
                         ("blend", 512, 0, None, None))
        self.assertEqual(sorted(info["splits"]), ["test", "train", "valid"])
        for entry in info["files"]:
            path = os.path.join(self.staged, entry["name"])
            self.assertEqual(os.path.getsize(path), entry["bytes"])
            if entry["name"].endswith(".npy"):
                self.assertEqual(entry["data_offset"], 4096)
        text = self.run_rung("info", self.staged).stdout
        self.assertIn("blend, 512 batches sampled\n", text)
        self.assertIn("u8 [4000, 256], 256 bytes a row", text)

    def test_plan_divides_the_rows_and_the_budget(self):
        plan = self.json_of("plan", self.staged, "--host", "200KiB")
        host, nvme = plan["tiers"]
        self.assertEqual([host["name"], nvme["name"]], ["host", "nvme"])
        self.assertEqual(host["rows"] + nvme["rows"], 4000)
        self.assertEqual(host["bytes"], host["rows"] * 256)
        self.assertEqual(host["rows"],
                         (200 * 1024 - plan["slots"]["bytes"] - plan["cache"]["bytes"]) // 256)
        self.assertAlmostEqual(host["hit_share"] + nvme["hit_share"], 1)
        self.assertGreater(host["hit_share"], host["rows"] / 4000)   # hot rows come first
        self.assertEqual(plan["batches_per_epoch"], 20)
        self.assertAlmostEqual(plan["cold_rows_per_epoch"] / plan["rows_per_epoch"],
                               nvme["hit_share"])
        self.assertEqual(self.json_of("plan", self.staged, "--batch", 2000)["batches_per_epoch"], 1)

    def test_plan_reserves_a_share_of_the_budget_for_the_cache(self):
        room = 512 * 1024
        plan = self.json_of("plan", self.staged, "--host", room)
        self.assertGreater(plan["cache"]["rows"], 0)
        self.assertLessEqual(plan["cache"]["bytes"], room // 8)
        whole = self.json_of("plan", self.staged, "--host", room, "--cache", "max")
        self.assertGreater(whole["cache"]["rows"], plan["cache"]["rows"])
        self.assertLessEqual(whole["cache"]["bytes"] + whole["slots"]["bytes"], room)
        none = self.json_of("plan", self.staged, "--host", room, "--cache", "0")
        self.assertEqual(none["cache"], {"rows": 0, "bytes": 0})
        self.assertEqual(none["tiers"][0]["rows"], (room - none["slots"]["bytes"]) // 256)

    def profile(self, **change):
        rates = {"row_bytes": 256, "rows_per_s": {"median": 1e7}}
        reads = [{"drive": None, "file": "f", "row_bytes": size, "queue_depth": depth,
                  "reads_per_s": min(20e3 * depth, 1e9 / size)}
                 for size in (512, 131072) for depth in (1, 64)]
        gather = dict({"matrix": "gather", "cores": "one", "cpu_node": 0, "memory_node": 0,
                       "absent": None}, **rates)
        path = self.path("machine.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(dict({"schema": 1, "measured": {}, "results": [gather], "nvme_read": reads},
                           **change), out)
        return path

    def test_plan_predicts_seconds_from_a_profile_or_assumed_rates(self):
        assumed = self.json_of("plan", self.staged, "--host", "20%")
        self.assertIsNone(assumed["profile"])
        self.assertGreater(assumed["seconds_per_epoch"], 0)
        self.assertIn("rates of the machine are assumed",
                      self.run_rung("plan", self.staged, "--host", "20%").stdout)
        profile = self.profile()
        plan = self.json_of("plan", self.staged, "--host", "20%", "--profile", profile)
        self.assertEqual((plan["profile"], plan["bound"]), (profile, "nvme"))
        self.assertAlmostEqual(plan["seconds_per_epoch"],
                               plan["seconds_per_batch"] * plan["batches_per_epoch"])
        self.assertEqual(plan["seconds_per_batch"],
                         max(plan["nvme_seconds_per_batch"], plan["memory_seconds_per_batch"]))
        self.assertIn("by the profile " + profile,
                      self.run_rung("plan", self.staged, "--host", "20%", "--profile",
                                    profile).stdout)
        all_there = self.json_of("plan", self.staged, "--host", "max", "--profile", profile)
        self.assertEqual((all_there["bound"], all_there["nvme_seconds_per_batch"],
                          all_there["merge_gap_bytes"]), ("host memory", 0, None))
        seconds = [self.json_of("plan", self.staged, "--host", share, "--profile",
                                profile)["seconds_per_epoch"] for share in ("10%", "50%", "max")]
        self.assertEqual(seconds, sorted(seconds, reverse=True))

    def drive(self):
        """Return the name of the disk of the staged folder, from /sys; None without a disk."""
        number = os.stat(self.staged).st_dev
        link = "/sys/dev/block/%d:%d" % (os.major(number), os.minor(number))
        if not os.path.exists(link):
            return None
        folder = os.path.realpath(link)
        return os.path.basename(os.path.dirname(folder)
                                if os.path.exists(os.path.join(folder, "partition")) else folder)

    def test_plan_uses_the_reads_of_the_drive_of_the_features(self):
        own = self.drive()
        reads = [{"drive": name, "file": "f", "row_bytes": size, "queue_depth": 64,
                  "reads_per_s": rate}
                 for name, rate in (("other9n1", 1e6), (own or "another9n1", 1e3))
                 for size in (512, 4096)]
        plan = self.json_of("plan", self.staged, "--host", "20%", "--profile",
                            self.profile(nvme_read=reads))
        first = self.json_of("plan", self.staged, "--host", "20%", "--profile",
                             self.profile(nvme_read=reads[:2]))
        self.assertEqual(first["chosen"]["drives"], ["other9n1"])
        self.assertIn("other9n1", first["chosen"]["drives_why"])
        if own:
            self.assertEqual((plan["chosen"]["drives"], plan["chosen"]["drives_why"]),
                             ([own], "the features are on this drive"))
            # not exactly 1000: other merge gaps, so other reads
            self.assertAlmostEqual(plan["nvme_seconds_per_batch"] / first["nvme_seconds_per_batch"],
                                   1000, delta=500)
        else:
            self.assertEqual(plan["chosen"]["drives"], ["other9n1"])
            self.assertIn("does not name", plan["chosen"]["drives_why"])
        self.assertIn("  drive      other9n1: the features are on",
                      self.run_rung("plan", self.staged, "--host", "20%", "--profile",
                                    self.profile(nvme_read=reads[:2])).stdout)

    def chosen_profile(self):
        """Write a profile: a drive of 100 us and 199,000 reads/s, cores of 10 M rows/s each.

        Two cores reach the rate of all eight.
        """
        reads = [{"drive": None, "file": "f", "row_bytes": size, "queue_depth": depth,
                  "reads_per_s": min(10e3 * depth, most)}
                 for size, most in ((4096, 199e3), (65536, 199e3 / 8)) for depth in (1, 10, 20, 40)]
        gather = [{"matrix": "gather", "cores": cores, "threads": threads, "cpu_node": 0,
                   "memory_node": 0, "absent": None, "row_bytes": 256,
                   "rows_per_s": {"median": rate}} for cores, threads,
                  rate in (("one", 1, 1e7), ("all", 8, 1.9e7))]
        return self.profile(results=gather, nvme_read=reads)

    def test_omitted_options_are_chosen_from_the_profile(self):
        profile = self.chosen_profile()
        plan = self.json_of("plan", self.staged, "--host", "80%", "--profile", profile)
        chosen = plan["chosen"]
        self.assertEqual((chosen["queue_depth"], chosen["threads"]), (19, 2))
        sector = plan["sector_bytes"]   # a byte of a long read takes 0.61 ns, a row 5 us
        row = max(sector, 256)
        self.assertEqual(chosen["merge_gap_bytes"] % sector, 0)
        self.assertAlmostEqual(chosen["merge_gap_bytes"], 8192 / 0.95 - row, delta=0.2 * 8192)
        self.assertEqual((plan["queue_depth"], plan["merge_gap_bytes"], plan["threads"]),
                         (19, chosen["merge_gap_bytes"], 2))
        self.assertIn("each of which takes 100.5 us", chosen["queue_depth_why"])
        text = self.run_rung("plan", self.staged, "--host", "80%", "--profile", profile).stdout
        for line in ("  depth      19: ",
                     "  gap        %d bytes: another read" % chosen["merge_gap_bytes"],
                     "  threads    2: a core of node 0"):
            self.assertIn(line, text)
        own = self.json_of("plan", self.staged, "--host", "80%", "--profile", profile,
                           "--queue-depth", 5, "--threads", 1)
        self.assertEqual((own["queue_depth"], own["threads"], own["chosen"]), (5, 1, chosen))
        self.assertLess(own["slots"]["count"], plan["slots"]["count"])
        self.assertGreater(own["nvme_seconds_per_batch"], plan["nvme_seconds_per_batch"])
        self.assertFalse(chosen["interleaved"])
        self.assertEqual(chosen["interleaved_why"],
                         plan["placement_why"] or chosen["interleaved_why"])
        self.assertIsNone(self.json_of("plan", self.staged)["chosen"])

    def test_bench_uses_the_choices_of_the_profile(self):
        profile = self.chosen_profile()
        bench = lambda *options: self.json_of("bench", self.staged, "--host", "80%", "--rows", 2000,
                                              *options)
        plain, chosen = bench(), bench("--profile", profile)
        own = bench("--profile", profile, "--queue-depth", 7, "--merge-gap", 512, "--threads", 3)
        self.assertEqual((plain["chosen"], plain["threads"]), (None, 1))
        self.assertEqual((chosen["queue_depth"], chosen["merge_gap_bytes"]),
                         (19, chosen["chosen"]["merge_gap_bytes"]))
        self.assertEqual(chosen["threads"], min(2, len(os.sched_getaffinity(0))))
        self.assertEqual((own["queue_depth"], own["merge_gap_bytes"], own["threads"]), (7, 512, 3))
        self.assertEqual(own["chosen"], chosen["chosen"])

    def test_bench_reports_predicted_and_measured(self):
        profile = self.profile()
        bench = self.json_of("bench", self.staged, "--host", "20%", "--rows", 20000, "--cache", 0,
                             "--profile", profile)
        self.assertEqual(bench["predicted"]["profile"], profile)
        self.assertGreater(bench["predicted"]["seconds"], 0)
        self.assertEqual(bench["predicted"]["cache_hits"], 0)
        self.assertGreater(bench["predicted"]["device_reads"], 0)
        self.assertIn("predicted by " + profile,
                      self.run_rung("bench", self.staged, "--host", "20%", "--rows", 2000,
                                    "--profile", profile).stdout)
        for option in (("--in-flight", 1), ("--look-ahead", 3)):
            self.fails("bench", self.staged, "--profile", profile, *option, code=2,
                       says="leave out")

    def test_all_rows_of_a_long_run_are_predicted(self):
        """The prediction includes the rounds after the first and excludes the warm-up."""
        rows = 5 << 20
        bench = self.json_of("bench", self.staged, "--numa-node", "none", "--host", "max",
                             "--ids", "uniform", "--rows", rows, "--warmup", 1 << 20,
                             "--threads", 1, "--profile", self.profile())
        self.assertEqual((bench["rows"], bench["warmup_rows"]), (rows, 1 << 20))
        self.assertAlmostEqual(bench["predicted"]["memory_seconds"] / rows, 104e-9, delta=1e-12)

    def test_invalid_profiles_are_refused(self):
        self.fails("plan", self.staged, "--profile", self.path("none.json"), code=1,
                   says=["none.json", "rung numa --json"])
        self.fails("plan", self.staged, "--profile", self.profile(schema=2), code=1,
                   says=["machine.json", "schema 1"])
        self.fails("bench", self.staged, "--profile", self.profile(nvme_read=[{}]), code=1,
                   says=["machine.json", "nvme_read"])
        self.fails("plan", self.staged, "--host", "20%", "--profile", self.profile(nvme_read=[]),
                   code=2, says="the profile has no reads")

    def test_plan_with_everything_in_memory(self):
        plan = self.json_of("plan", self.staged, "--host", "max")
        self.assertEqual([tier["rows"] for tier in plan["tiers"]], [4000, 0])
        self.assertEqual((plan["slots"]["count"], plan["read_bytes_per_epoch"],
                          plan["tiers"][0]["hit_share"]), (0, 0, 1))

    def test_fanout_all_requests_whole_neighbourhoods(self):
        """One batch of all train vertices: the rows are the vertices within one hop."""
        reached = set(self.graph.train)
        train = set(self.graph.train)
        reached.update(u for u, v in self.graph.edges if v in train)
        plan = self.json_of("plan", self.staged, "--fanout", "all", "--batch",
                            len(self.graph.train))
        self.assertEqual(plan["rows_per_batch"], len(reached))

    def test_bench_confirms_the_predicted_hits(self):
        plan = self.json_of("plan", self.staged, "--host", "30%")
        bench = self.json_of("bench", self.staged, "--host", "30%", "--ids", "trace", "--rows",
                             60000)
        hits = sum(tier["hits"] for tier in bench["tiers"])
        self.assertEqual(hits, bench["rows"])
        self.assertAlmostEqual(bench["tiers"][0]["hits"] / hits, plan["tiers"][0]["hit_share"],
                               delta=0.03)

    def test_ids_of_a_file_are_vertices(self):
        rank_of_vertex = read_npy(os.path.join(self.staged, "rank_of_vertex.npy"))[2]
        host_rows = self.json_of("plan", self.staged, "--host", "100KiB")["tiers"][0]["rows"]
        hot = [v for v in range(4000) if rank_of_vertex[v] < host_rows]
        for descr, code in (("<i4", "i"), ("<u4", "I"), ("<i8", "q"), ("<u8", "Q")):
            ids = self.graph.write("hot.npy", descr, (len(hot),),
                                   struct.pack("<%d%s" % (len(hot), code), *hot))
            bench = self.json_of("bench", self.staged, "--host", "100KiB", "--ids", ids, "--check")
            self.assertEqual([tier["hits"] for tier in bench["tiers"]], [len(hot), 0])
            self.assertEqual((bench["device_reads"], bench["wrong_rows"]), (0, 0))

    def test_ids_that_are_not_vertices(self):
        for descr, values, says in (
                ("<i8", [3, -1], "element 1 is -1"),
                ("<i8", [4000], "element 0 is 4000, vertices go from 0 to 3999"),
                ("<i8", [1 << 32], "4294967296"), ("<f4", [1.0], "f32"), ("<i8", [], "0 rows")):
            ids = self.graph.write("ids.npy", descr, (len(values),), values)
            self.fails("bench", self.staged, "--ids", ids, code=1, says=["ids.npy", says])

    def test_equal_seeds_request_the_same_rows(self):
        for ids in ("trace", "uniform", "zipf"):
            runs = [self.json_of("bench", self.staged, "--host", "20%", "--ids", ids, "--rows",
                                 20000, "--seed", seed) for seed in (5, 5, 6)]
            hits = [run["tiers"][0]["hits"] for run in runs]
            self.assertEqual(hits[0], hits[1])
            self.assertNotEqual(hits[0], hits[2])

    def test_zipf_weights_ranks_correctly(self):
        bench = self.json_of("bench", self.staged, "--host", "20%", "--ids", "zipf", "--rows",
                             200000)
        host_rows = bench["tiers"][0]["rows"]
        weight = sum(1 / (rank + 1)
                     for rank in range(host_rows)) / sum(1 / (rank + 1) for rank in range(4000))
        self.assertAlmostEqual(bench["tiers"][0]["hits"] / 200000, weight, delta=0.01)

    def test_uniform_ids_are_uniform(self):
        bench = self.json_of("bench", self.staged, "--host", "20%", "--ids", "uniform", "--rows",
                             200000)
        self.assertAlmostEqual(bench["tiers"][0]["hits"] / 200000, bench["tiers"][0]["rows"] / 4000,
                               delta=0.01)


if __name__ == "__main__":
    main()

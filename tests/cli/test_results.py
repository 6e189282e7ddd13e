# SPDX-License-Identifier: Apache-2.0
"""The results of stage, info, plan and bench on a small random graph."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import CliTest, Graph, main, read_npy, shape_of


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
            "generate": shape_of(self.json_of("generate", self.path("model"), "--model", "arxiv",
                                              "--scale", "1/100", "--width", 1)),
            "score": shape_of(self.json_of("score", "--graph", self.graph.graph, "--score",
                                           "degree", "--out",
                                           self.path("score.npy"))),
            "score --memory": shape_of(self.json_of("score", "--graph", self.graph.graph,
                                                    "--score", "degree", "--out",
                                                    self.path("score.npy"), "--memory", "256MiB")),
            "fetch": shape_of(self.json_of("fetch", self.staged, self.path("copy"))),
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
        lists = sum(part["bytes"] for part in plan["budget"]["parts"]
                    if part["name"].startswith("list"))
        self.assertEqual(host["rows"],
                         (200 * 1024 - plan["slots"]["bytes"] - plan["cache"]["bytes"] - lists) //
                         256)
        self.assertAlmostEqual(host["hit_share"] + nvme["hit_share"], 1)
        self.assertGreater(host["hit_share"], host["rows"] / 4000)   # hot rows come first
        self.assertEqual(plan["batches_per_epoch"], 20)
        self.assertAlmostEqual(plan["cold_rows_per_epoch"] / plan["rows_per_epoch"],
                               nvme["hit_share"])
        self.assertEqual(self.json_of("plan", self.staged, "--host", "max", "--batch",
                                      2000)["batches_per_epoch"], 1)

    def test_plan_reserves_a_share_of_the_budget_for_the_cache(self):
        room = 512 * 1024
        lists = 80384   # 157 blocks of all 20000 edges

        def planned(cache):
            return self.json_of("plan", self.staged, "--host", room + lists, "--structure", "max",
                                "--cache", cache)
        plan = planned("10%")
        self.assertGreater(plan["cache"]["rows"], 0)
        self.assertLessEqual(plan["cache"]["bytes"], (room + lists) // 10)
        whole = planned("max")
        self.assertGreater(whole["cache"]["rows"], plan["cache"]["rows"])
        self.assertLessEqual(whole["cache"]["bytes"] + whole["slots"]["bytes"], room)
        none = planned("0")
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
        self.assertEqual((assumed["profile"], assumed["assumed"]), (None, ["host", "nvme"]))
        self.assertGreater(assumed["seconds_per_epoch"], 0)
        self.assertIn("rates of the machine are assumed",
                      self.run_rung("plan", self.staged, "--host", "20%").stdout)
        profile = self.profile()
        plan = self.json_of("plan", self.staged, "--host", "20%", "--profile", profile)
        self.assertEqual((plan["profile"], plan["bound"]), (profile, "drive"))
        self.assertAlmostEqual(plan["seconds_per_epoch"],
                               plan["seconds_per_batch"] * plan["batches_per_epoch"])
        self.assertEqual(plan["seconds_per_batch"],
                         max(plan["nvme_seconds_per_batch"], plan["memory_seconds_per_batch"]))
        self.assertIn("by the profile " + profile,
                      self.run_rung("plan", self.staged, "--host", "20%", "--profile",
                                    profile).stdout)
        all_there = self.json_of("plan", self.staged, "--host", "max", "--profile", profile)
        self.assertEqual((all_there["bound"], all_there["nvme_seconds_per_batch"],
                          all_there["merge_gap_bytes"]), ("memory", 0, None))
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
        self.assertIn("drive      other9n1: the features are on",
                      self.run_rung("plan", self.staged, "--host", "20%", "--explain", "--profile",
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
        self.assertIn("each of which takes 100 us", chosen["queue_depth_why"])
        text = self.run_rung("plan", self.staged, "--host", "80%", "--explain", "--profile",
                             profile).stdout
        for line in ("\n  depth      19: ",
                     "\n  gap        %d bytes: another read" % chosen["merge_gap_bytes"],
                     "\n  threads    2: a core of node 0"):
            self.assertIn(line, text)
        own = self.json_of("plan", self.staged, "--host", "80%", "--profile", profile,
                           "--queue-depth", 5, "--threads", 1)
        self.assertEqual((own["queue_depth"], own["threads"], own["chosen"]), (5, 1, chosen))
        self.assertLess(own["slots"]["count"], plan["slots"]["count"])
        self.assertGreater(own["nvme_seconds_per_batch"], plan["nvme_seconds_per_batch"])
        self.assertFalse(chosen["interleaved"])
        self.assertEqual(chosen["interleaved_why"],
                         plan["placement_why"] or chosen["interleaved_why"])
        self.assertIsNone(self.json_of("plan", self.staged, "--host", "max")["chosen"])

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
        text = self.run_rung("bench", self.staged, "--host", "20%", "--rows", 2000, "--profile",
                             profile, "--explain").stdout
        self.assertIn("predicted by " + profile, text)
        self.assertIn("chosen by " + profile, text)
        self.assertRegex(text, r"(?m)^  reads .*, drive busy \d+ %$")
        self.assertRegex(text, r"(?m)^  predicted .* rows/s, bound by drive; measured is ")
        for option in (("--in-flight", 1), ("--look-ahead", 3)):
            self.fails("bench", self.staged, "--profile", profile, *option, code=2,
                       says="omit")

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
                   code=2, says="the profile has no read rates")

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
        plan = self.json_of("plan", self.staged, "--host", "max", "--fanout", "all", "--batch",
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
                ("<i8", [4000], "element 0 is 4000, but vertex ids are 0 to 3999"),
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

# SPDX-License-Identifier: Apache-2.0
"""rung plan --machines: the arithmetic of a model and of a data set, counts given by hand, the
worked plan of docs/CLUSTER.md, and refused options."""
import json
import math
import os
import re
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import RUNG, TESTS, CliTest, Graph, main, shape_of

os.environ.setdefault("OMP_WAIT_POLICY", "passive")   # tests share the cores
SOURCE = os.path.dirname(TESTS)
READS_PER_S = 1e5     # of the profile, for each drive
ROWS_PER_S = 1e7
NIC = 1e9 / 8         # of 1Gb


class Machines(CliTest):
    def profile(self, name="machine.json", reads_per_s=READS_PER_S, reads=True):
        rows = [{"matrix": "gather", "cores": "one", "cpu_node": 0, "memory_node": 0,
                 "absent": None, "row_bytes": size, "rows_per_s": {"median": ROWS_PER_S}}
                for size in (512, 4096)]
        reads = [{"drive": None, "file": "f", "row_bytes": size, "queue_depth": 8,
                  "reads_per_s": reads_per_s} for size in (512, 131072)] if reads else []
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"schema": 1, "measured": {}, "results": rows, "nvme_read": reads}, out)
        return path

    def plan(self, *args, model="mag240m", host="24GiB", nic="1Gb", machines=4):
        return self.json_of("plan", "--model", model, "--host", host, "--machines", machines,
                            "--nic", nic, *args)

    def places(self, plan):
        found = {}
        for place in plan["machines"]["arrangements"]:
            name = place["name"]
            found[place["local_rows_share"] if name == "prefix" else name] = place
        return found

    def near(self, found, expected):
        self.assertTrue(math.isclose(found, expected, rel_tol=1e-9), (found, expected))


class Arithmetic(Machines):
    def test_shape_of_the_json(self):
        self.golden("plan-machines-shape.json",
                    json.dumps(shape_of(self.plan()["machines"]), indent=1) + "\n")
        self.assertIsNone(self.json_of("plan", "--model", "igb", "--host", "1GiB")["machines"])

    def test_a_model(self):
        plan = self.plan("--profile", self.profile())
        machines, places = plan["machines"], self.places(plan)
        cold, reads = machines["cold_rows_per_batch"], plan["reads_per_batch"]
        self.near(cold, plan["cold_rows_per_batch"])
        self.near(machines["reads_per_cold_row"], reads / cold)
        self.near(machines["bytes_per_cold_row"], 1536)
        self.near(machines["local_reads_per_s"], READS_PER_S)
        self.near(machines["break_even_storage_bytes_per_s"], READS_PER_S * 1536 * cold / reads)
        self.near(machines["break_even_memory_bytes_per_s"],
                  READS_PER_S * 1536 * cold / reads * 3 / 4)
        # 1112392 train vertices, of which each machine has a quarter
        self.assertEqual(machines["batches_per_epoch"], math.ceil(278098 / 1024))
        # lists have offsets of 8 bytes, two maps of 4, scores and train vertices 4 each
        copy = 244160499 * (1536 + 8 + 8 + 4) + 2 * 1728364232 * 4 + 1112392 * 4
        self.near(machines["copy_bytes"], copy)
        own = places["own copies"]
        self.near(own["fetch_seconds"], copy / NIC)
        self.near(own["cold_rows_per_s"], READS_PER_S * cold / reads)
        self.near(own["seconds_per_batch"], plan["seconds_per_batch"])
        self.near(own["seconds_per_epoch"], own["seconds_per_batch"] * 272)
        shared = places["shared storage"]
        self.near(shared["cold_rows_per_s"], NIC / 1536)
        self.near(shared["nic_bytes_per_batch"],
                  cold * 1536 + plan["cold_list_blocks_per_batch"] * 512)
        self.near(shared["seconds_per_batch"], shared["nic_bytes_per_batch"] / NIC)
        self.near(shared["from_storage_bytes_per_s"], 4 * NIC)
        memory = places["other memory"]
        self.near(memory["cold_rows_per_s"], NIC / 1536 * 4 / 3)
        self.near(memory["more_memory_bytes"], plan["tiers"][1]["bytes"] / 4)

    def test_prefixes_follow_the_curve(self):
        plan = self.plan("--profile", self.profile())
        places, served = self.places(plan), plan["tiers"][0]["hit_share"]
        # hits of 20 % of the rows of mag240m, as rung plan prints them
        hits = self.plan("--structure", "max", host=int(0.2 * 244160499 * 1536)
                         + 2 * 1728364232 * 4)["tiers"][0]["hit_share"]
        prefix = places[0.2]
        self.assertAlmostEqual(prefix["local_cold_share"], (hits - served) / (1 - served), places=3)
        remote = 1 - prefix["local_cold_share"]
        self.near(prefix["nic_bytes_per_batch"], remote * plan["cold_rows_per_batch"] * 1536)
        self.near(prefix["disk_bytes"],
                  plan["machines"]["copy_bytes"] - 0.8 * plan["feature_bytes"])
        self.assertEqual([0.8, 0.6, 0.4, 0.2], [key for key in places if not isinstance(key, str)])

    def test_rows_are_read_in_whole_sectors(self):
        # rows of 384 bytes begin at multiples of 128 in a sector: 384 bytes more; those of 1000
        # bytes, at multiples of 8: 504 bytes more; those of 256 bytes: half a sector
        for row_bytes, rest in ((384, 384), (1000, 504), (256, 256), (512, 0), (4096, 0)):
            machines = self.plan("--row-bytes", row_bytes)["machines"]
            self.near(machines["bytes_per_cold_row"],
                      row_bytes + machines["reads_per_cold_row"] * rest)
        machines = self.plan()["machines"]
        self.near(machines["bytes_per_cold_row_in_pages"],
                  1536 + machines["reads_per_cold_row"] * (4096 - 512))

    def test_the_rate_of_the_storage(self):
        plan = self.plan("--shared", "100MB")
        self.assertEqual(plan["machines"]["shared_bytes_per_s"], 100e6)
        shared = self.places(plan)["shared storage"]
        self.assertEqual(shared["limit"], "storage")
        self.near(shared["cold_rows_per_s"], 25e6 / 1536)
        self.near(shared["from_storage_bytes_per_s"], 100e6)
        path = self.profile("shared.json", reads_per_s=1e4)
        plan = self.plan("--shared", path)
        self.assertEqual((plan["machines"]["shared"], plan["machines"]["shared_bytes_per_s"]),
                         (path, None))
        shared = self.places(plan)["shared storage"]
        self.near(shared["cold_rows_per_s"], 1e4 / plan["machines"]["reads_per_cold_row"])
        self.near(shared["seconds_per_batch"],
                  (plan["reads_per_batch"] + plan["list_reads_per_batch"]) / 1e4)

    def test_several_drives(self):
        one, four = (self.plan("--profile", self.profile(), *args) for args in
                     ([], ["--drives", 4]))
        self.near(four["machines"]["local_reads_per_s"], 4 * READS_PER_S)
        self.near(four["machines"]["break_even_storage_bytes_per_s"],
                  4 * one["machines"]["break_even_storage_bytes_per_s"])
        lists = one["list_reads_per_batch"] / READS_PER_S     # they are on one drive
        self.near(four["nvme_seconds_per_batch"] - lists,
                  (one["nvme_seconds_per_batch"] - lists) / 4)

    def test_rates_of_the_network(self):
        for text, rate in (("100Gb", 12.5e9), ("25Gbit/s", 3.125e9), ("25 Gbit", 3.125e9),
                           ("100gb/s", 12.5e9), ("10Gbps", 1.25e9), ("12GB", 12e9),
                           ("12.5 GB/s", 12.5e9), ("800MBps", 8e8), ("1GiB/s", 2.0**30),
                           ("1e9b", 125e6), ("1Mb", 125e3), ("1PB", 1e15)):
            with self.subTest(text):
                plan = self.plan(nic=text, model="debian", host="1MiB")
                self.near(plan["machines"]["nic_bytes_per_s"], rate)

    def test_nothing_to_compare(self):
        plan = self.plan(host="max")
        self.assertEqual(plan["machines"]["arrangements"], [])
        for key in ("advice", "reads_per_cold_row", "break_even_memory_bytes_per_s"):
            self.assertIsNone(plan["machines"][key])
        text = self.run_rung("plan", "--model", "debian", "--host", "max", "--machines", 2,
                             "--nic", "1Gb").stdout
        self.assertIn("no rows are read in an epoch", text)

    def test_text(self):
        def text(*args):
            return " ".join(self.run_rung("plan", "--model", "mag240m", "--host", "24GiB",
                                          "--machines", 4, "--nic", "1Gb", *args).stdout.split())
        found = text()
        self.assertIn("4 machines, each with a NIC of 1.00 Gbit/s (125 MB/s) and 1/4 of the seeds: "
                      "272 batches an epoch", found)
        self.assertIn("shared storage: 125 MB/s / 1536 bytes read per cold row = 81.4 k "
                      "cold", found)
        self.assertIn("the rate of the storage is unknown", found)
        self.assertIn("rung numa --only gather,nvme --dir MOUNT --row-bytes 1536 --json", found)
        self.assertIn("rung does not serve rows to other machines", found)
        self.assertIn("with --shared: 100 MB/s / 4 machines = 25.0 MB/s for each: 16.3 k cold",
                      text("--shared", "100MB"))
        path = self.profile("shared.json")
        self.assertIn("by the profile %s, a machine reads" % path, text("--shared", path))
        self.assertIn("if the storage delivers", text("--compute", "10s"))


class Counts(Machines):
    """Counts in place of those of the model."""

    def counted(self, *args, model="mag240m"):
        return self.json_of("plan", "--model", model, "--host", "1TiB", *args)

    def test_trillions(self):
        plan = self.counted("--vertices", "10G", "--edges", "1T", "--row-bytes", 1536, "--train",
                            "1%")
        self.assertEqual((plan["vertices"], plan["edges"], plan["undirected"], plan["train"]),
                         (10**10, 10**12, False, 10**8))
        # more than 2^32 vertices have ids of 8 bytes
        self.assertEqual((plan["feature_bytes"], plan["lists_bytes"], plan["map_bytes"]),
                         (1536 * 10**10, 8 * 10**12, 16 * 10**10))
        self.assertEqual(plan["batches_per_epoch"], math.ceil(10**8 / 1024))
        # 1 + 25 + 25 x 15, if all draws differ
        self.assertEqual(plan["rows_per_batch"], 401 * 1024)
        self.assertEqual(plan["resident"]["vertex_ids_bytes"], 8 * 10**10)
        self.assertTrue(plan["curves"]["extrapolated"])

    def test_rows_of_a_sparse_graph(self):
        # 2 edges a vertex: 1 + 2 + 4 draws a seed, and 1 + 2 of them draw; the original has 14.2
        plan = self.counted("--vertices", "1G", "--edges", "2G")
        self.assertEqual(plan["rows_per_batch"], 7 * 1024)
        degree = 2 * 1728364232 / 244160499
        self.near(plan["list_blocks_per_batch"], 50.01 * 1024 * 3 / (1 + degree))
        # no batch has more rows than the graph
        self.assertEqual(self.counted("--vertices", 1000, "--edges", 10**6)["rows_per_batch"], 1000)

    def test_the_others_are_those_of_the_model(self):
        plan, model = self.counted("--vertices", "488320998"), self.counted()
        self.assertEqual(plan["edges"], 2 * model["edges"])
        for key in ("rows_per_batch", "list_blocks_per_batch", "row_bytes", "undirected"):
            self.assertEqual(plan[key], model[key])
        self.assertAlmostEqual(plan["train"], 2 * model["train"], delta=2)
        narrow = self.counted("--row-bytes", 512)
        self.assertEqual((narrow["row_bytes"], narrow["vertices"], narrow["rows_per_batch"]),
                         (512, model["vertices"], model["rows_per_batch"]))
        # 256 values of 4 bits, and a scale
        quantized = self.counted("--row-bytes", 512, "--quantize", "int4")
        self.assertTrue(128 < quantized["row_bytes"] <= 136)
        self.assertEqual(self.counted("--train", "50%")["train"], 122080250)

    def test_text(self):
        text = self.run_rung("plan", "--model", "mag240m", "--host", "1TiB", "--vertices", "10G",
                             "--edges", "1T", "--drives", 4).stdout
        self.assertIn("mag240m: 10000000000 vertices, 1000000000000 edges, ", text)
        self.assertIn("rows of a batch: at most 401 a seed, as if all draws differed", text)


class Dataset(Machines):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=20000, edges=100000, row_bytes=512)

    def staged(self, *args, **changes):
        self.run_rung("stage", *self.graph.options(**changes), "--out", self.path("s"), "--quiet",
                      "--fanout", "5,3", "--batch", 100, *args)
        return self.path("s")

    def planned(self, *args, host="3MiB"):
        return self.json_of("plan", self.path("s"), "--host", host, "--machines", 8, "--nic", "1Gb",
                            *args)

    def test_numbers(self):
        folder = self.staged()
        plan = self.planned()
        machines, places = plan["machines"], self.places(plan)
        files = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
        self.near(machines["copy_bytes"], files)
        cold = plan["rows_per_batch"] * plan["tiers"][1]["hit_share"]
        self.near(machines["cold_rows_per_batch"], cold)
        self.near(machines["reads_per_cold_row"], plan["reads_per_batch"] / cold)
        self.assertEqual(machines["batches_per_epoch"], math.ceil(10000 // 8 / 100))
        own = places["own copies"]
        self.near(own["seconds_per_batch"],
                  max(plan["nvme_seconds_per_batch"], plan["memory_seconds_per_batch"]))
        # the cache saves reads of cold rows
        self.assertGreater(plan["served_share"], plan["tiers"][0]["hit_share"])
        # bytes with those of gaps, by the rows and the lists of an epoch
        shared = places["shared storage"]
        self.near(shared["nic_bytes_per_batch"],
                  plan["drive_bytes_per_epoch"] / plan["batches_per_epoch"])
        self.near(shared["cold_rows_per_s"], NIC / machines["bytes_per_cold_row"])
        self.near(machines["break_even_storage_bytes_per_s"],
                  own["cold_rows_per_s"] * machines["bytes_per_cold_row"])

    def test_hits_of_a_prefix_are_those_of_a_trace(self):
        self.staged()
        plan = self.planned()
        curve = self.json_of("trace", self.path("s"))["curve"]
        served, places = plan["tiers"][0]["hit_share"], self.places(plan)
        for share in (0.2, 0.4):
            hits = places[share]["local_cold_share"] * (1 - served) + served
            staged = curve["methods"]["staged"][curve["share"].index(share)]
            self.assertAlmostEqual(hits, staged, delta=0.02)

    def test_rows_in_place_have_no_prefix(self):
        self.staged("--in-place")
        plan = self.planned()
        self.assertEqual(list(self.places(plan)), ["own copies", "shared storage", "other memory"])
        self.assertIn("no local prefix", self.run_rung(
            "plan", self.path("s"), "--host", "3MiB", "--machines", 8, "--nic", "1Gb").stdout)

    def test_quantized_rows_are_smaller(self):
        self.graph.features = self.graph.write("f.npy", "<f4", (20000, 16), [1.0] * 320000)
        self.staged(features=self.graph.features)
        plain, planned = self.planned(host="200KiB"), self.planned("--quantize", "int8",
                                                                   host="200KiB")
        self.near(plain["machines"]["copy_bytes"] - planned["machines"]["copy_bytes"],
                  20000 * 64 - sum(tier["bytes"] for tier in planned["tiers"]))


class Documentation(CliTest):
    """Commands of docs/CLUSTER.md print what the page shows. RUNG_UPDATE_GOLDEN=1 writes it."""
    PAGE = os.path.join(SOURCE, "docs", "CLUSTER.md")
    UNITS = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

    def setUp(self):
        super().setUp()
        with open(self.PAGE, encoding="utf-8") as file:
            self.page = file.read()

    def printed(self, match):
        command = match[1].replace("\\\n", " ")
        words = shlex.split(re.sub(r"^\$ rung", RUNG, command.strip()))
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=SOURCE,
                              env=self.environment())
        return match[1] + done.stdout

    def test_worked_plans(self):
        pattern = re.compile(r"(?<=^```\n)(\$ rung plan (?:.*\\\n)*.*\n)((?:(?!```).*\n)*)", re.M)
        self.assertTrue(pattern.search(self.page))
        current = pattern.sub(self.printed, self.page)
        if os.environ.get("RUNG_UPDATE_GOLDEN"):
            with open(self.PAGE, "w", encoding="utf-8") as file:
                file.write(current)
        else:
            self.assertEqual(self.page, current)

    def test_commands_use_existing_options(self):
        with open(self.PAGE, encoding="utf-8") as file:
            page = file.read().replace("\\\n", " ")
        used = 0
        for name, rest in re.findall(r"\brung ([a-z]+) (.*)", page):
            if " --" not in " " + rest:
                continue
            shown = self.run_rung(name, "--help").stdout
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest.split("`")[0]):
                self.assertRegex(shown, r"%s\b(?!-)" % option, "rung %s %s" % (name, rest))
                used += 1
        self.assertGreater(used, 25)

    def test_scripts_have_the_right_syntax(self):
        found = re.findall(r"^```(bash|python)\n(.*?)^```", self.page, re.M | re.S)
        self.assertGreater(len(found), 7)
        for language, text in found:
            if language == "python":
                compile(text, "CLUSTER.md", "exec")
            else:
                done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True,
                                      check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), text)

    def value(self, text):
        number, unit = re.fullmatch(r"([\d.]+) ?(.*)", text).groups()
        scale = self.UNITS.get(unit[:1], 1) if unit not in ("ms", "min", "s") else \
            {"ms": 1e-3, "s": 1, "min": 60}[unit]
        return float(number) * scale

    def test_derivations(self):
        """Rows of the tables `| quantity | formula | result |` whose formula is in Python."""
        rows = re.findall(r"^\| .* \| `([-+*/()0-9.e ]+)` \| (.*) \|$", self.page, re.M)
        self.assertGreater(len(rows), 8)
        for formula, result in rows:
            with self.subTest(formula):
                expected = eval(formula, {"__builtins__": {}})   # digits and operators alone
                digits = len(re.match(r"[\d.]+", result)[0].replace(".", "").lstrip("0"))
                self.assertLess(abs(self.value(result) / expected - 1), 6 * 10.0**-max(digits, 2),
                                (formula, result, expected))


class Refusals(Machines):
    def refused(self, *args, says, code=2):
        self.fails("plan", *args, code=code, says=["rung plan: ", says])

    def test_rates(self):
        model = ["--model", "igb", "--host", "1GiB", "--machines", 2, "--nic"]
        for text in ("100", "100G", "0Gb", "Gb", "-1Gb", "1Xb", "100Gbx", "10%", "max", "100G b",
                     "1KiB/h", ""):
            with self.subTest(text):
                self.refused(*model, text, says="--nic: '%s' is not a valid rate; give bits per "
                             "second such as 100Gb, or bytes such as 12GB" % text)
        for text in ("999kb", "1.1PB", "1e99Gb"):
            self.refused(*model, text,
                         says="--nic: '%s' is out of range; give 1Mb to 1PB a second" % text)

    def test_machines(self):
        model = ["--model", "igb"]
        for option in (["--nic", "1Gb"], ["--shared", "1GB"], ["--shared", "f.json"]):
            self.refused(*model, "--host", "1GiB", *option,
                         says="%s needs --machines N" % option[0])
        self.refused(*model, "--host", "1GiB", "--machines", 2,
                     says="--machines needs --nic RATE, such as 100Gb: that of one machine")
        for more in ([], ["--host", "1GiB", "--sweep"]):
            self.refused(*model, "--machines", 2, "--nic", "1Gb", *more,
                         says="--machines needs --host SIZE, the budget of a machine, without "
                         "--sweep")
        for count in (0, 1, 1000001, "x"):
            self.refused(*model, "--machines", count, says="--machines: '%s' is " % count)

    def test_counts(self):
        for option in (["--vertices", 100], ["--edges", 100], ["--row-bytes", 64],
                       ["--train", "1%"], ["--drives", 2]):
            self.refused(self.folder, *option,
                         says="%s needs --model, whose curves are used" % option[0])
            if option[0] != "--drives":
                self.refused("--model", "igb", "--scale", "1/2", *option,
                             says="%s and --scale exclude each other" % option[0])
        for text in ("1", "0%", "0.5", "%", "x%", "1M"):
            self.refused("--model", "igb", "--train", text, says="--train: '%s' is not a " % text)
        self.refused("--model", "mag240m", "--row-bytes", 1535,
                     says="--row-bytes: 1535 is not a multiple of 2, the bytes of a value of "
                     "mag240m")
        self.refused("--model", "igb", "--vertices", 15, says="--vertices: '15' is out of range")
        self.refused("--model", "igb", "--drives", 0, says="--drives: '0' is out of range")

    def test_profiles_of_the_storage(self):
        model = ["--model", "igb", "--host", "1GiB", "--machines", 2, "--nic", "1Gb", "--shared"]
        self.refused(*model, self.path("none"), code=1, says="none")
        path = self.profile(reads=False)
        self.refused(*model, path, says="--shared: %s has no read rates; measure the mount with "
                     "rung numa --only gather,nvme --dir MOUNT --json" % path)


if __name__ == "__main__":
    main()

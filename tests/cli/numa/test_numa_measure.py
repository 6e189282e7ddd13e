# SPDX-License-Identifier: Apache-2.0
"""rung numa: the output of measurements of this machine's memory and drives, and of simulated
GPUs."""
import csv
import json
import os
import subprocess
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import RUNG, SIM, main
from machine import FIXTURES
from numatest import NumaTest

# options that keep runs short on machines with any cache size
QUICK = ("--quick", "--samples", "2", "--seconds", "0.001", "--memory", "160MiB")
MIB = 1 << 20


class Measuring(NumaTest):
    """The output of measurements. Values must be valid numbers; their size depends on the machine.
    """

    def profile(self, *more, code=0):
        return self.json_of("numa", *QUICK, *more, "--quiet", code=code)

    def file_of(self, name, size):
        with open(self.path(name), "wb") as file:
            for at in range(0, size, MIB):
                file.write(os.urandom(min(MIB, size - at)))
        return self.path(name)

    def check_value(self, value, samples=2):
        self.assertEqual(set(value), {"median", "min", "max", "samples"})
        self.assertEqual(len(value["samples"]), samples)
        self.assertGreater(value["min"], 0)
        self.assertEqual((value["min"], value["max"]),
                         (min(value["samples"]), max(value["samples"])))
        self.assertLessEqual(value["min"], value["median"])
        self.assertLessEqual(value["median"], value["max"])

    def test_the_profile_has_the_shape_of_the_example(self):
        with open(os.path.join(FIXTURES, "profile-example.json"), encoding="ascii") as file:
            example = json.load(file)
        top = self.profile("--nvme", self.file_of("reads", 16 * MIB))
        self.assertEqual(list(top), list(example))
        for part in ("machine", "measured", "bandwidth"):
            self.assertEqual(list(top[part]), list(example[part]), part)
        keys = {}
        for result in example["results"]:
            if not result["absent"]:
                keys[result["matrix"]] = set(result)
        common = ["matrix", "kind", "cpu_node", "memory_node", "cores", "threads", "buffer_bytes",
                  "advised_bytes", "placement_share", "huge_share", "absent"]
        for result in top["results"]:
            self.assertEqual(list(result)[:len(common)], common)
            if not result["absent"] and result.get("level") != 0:   # level 0: no readers
                self.assertEqual(set(result), keys[result["matrix"]], result["matrix"])
        self.assertEqual(top["measured"]["matrices"], ["bandwidth", "latency", "loaded", "gather",
                                                       "gpu", "peer", "nvme", "touch", "register"])
        order = [top["measured"]["matrices"].index(result["matrix"]) for result in top["results"]]
        self.assertEqual(order, sorted(order), "results must be grouped by matrix")
        self.assertEqual(set(order), set(range(9)), "each matrix has a result, possibly absent")
        for read in top["nvme_read"]:
            self.assertEqual(list(read), list(example["nvme_read"][0]))

    def test_measured_values(self):
        top = self.profile("--only", "bandwidth,latency,gather", "--row-bytes", "100,1536,4096")
        count = len(top["nodes"])
        for name in ("read", "write", "copy", "triad"):
            self.assertEqual([len(row) for row in top["bandwidth"][name]], [count] * count)
        self.assertEqual([len(row) for row in top["latency_ns"]], [count] * count)
        self.assertEqual([gather["row_bytes"] for gather in top["bandwidth"]["gather"]],
                         [64, 100, 256, 1024, 1536, 4096], "each size once, ascending")
        medians = {}
        arrays = max(result["buffer_bytes"] for result in top["results"]
                     if result["matrix"] == "bandwidth")
        for result in top["results"]:
            if result["absent"]:
                continue
            for key in ("bytes_per_s", "rows_per_s", "latency_ns"):
                if key in result:
                    self.check_value(result[key])
            if result["matrix"] == "gather":
                for bytes_s, rows_s in zip(result["bytes_per_s"]["samples"],
                                           result["rows_per_s"]["samples"]):
                    self.assertAlmostEqual(bytes_s / rows_s, 2 * result["row_bytes"])
                self.assertGreater(result["of_copy"], 0)
                self.assertGreaterEqual(result["buffer_bytes"], 2 * arrays)
            if result["matrix"] == "bandwidth" and result["cores"] == "all":
                medians[result["kind"], result["cpu_node"],
                        result["memory_node"]] = result["bytes_per_s"]["median"]
        self.assertTrue(medians)
        numbers = [node["node"] for node in top["nodes"]]
        for (kind, cpu, memory), median in medians.items():
            self.assertEqual(top["bandwidth"][kind][numbers.index(cpu)][numbers.index(memory)],
                             median)

    def test_placement_of_memory_is_reported(self):
        top = self.profile("--only", "latency")
        for result in top["results"]:
            if top["placement"]["can_query"] and not result["absent"]:
                self.assertGreaterEqual(result["placement_share"], 0.95)
            elif not top["placement"]["can_query"]:
                self.assertIsNone(result["placement_share"])

    def test_reads_of_a_file(self):
        size = 24 * MIB
        top = self.profile("--only", "nvme", "--nvme", self.file_of("reads", size), "--row-bytes",
                           "1536,1000", "--depths", "1,7")
        results = [result for result in top["results"] if not result["absent"]]
        if not results:
            self.assertIn("page cache", top["results"][0]["absent"])
            self.skipTest("this file system does not support direct reads")
        self.assertEqual({result["buffer_bytes"] for result in results}, {size})
        sizes = list(dict.fromkeys(result["row_bytes"] for result in results))
        self.assertEqual(len(sizes), len(set(sizes)))
        self.assertTrue({4096, 16384, 65536, 131072} <= set(sizes))
        self.assertFalse([bytes_ for bytes_ in sizes if bytes_ % 512], "whole sectors")
        for result in results:
            self.check_value(result["reads_per_s"])
            bytes_a_read = result["bytes_per_s"]["median"] / result["reads_per_s"]["median"]
            self.assertAlmostEqual(bytes_a_read, result["row_bytes"])
        self.assertEqual(len(top["nvme_read"]), len(results))
        self.assertEqual({read["queue_depth"] for read in top["nvme_read"]}, {1, 7})

    def test_a_folder_is_left_unchanged(self):
        os.mkdir(self.path("disk"))
        top = self.profile("--only", "nvme", "--dir", self.path("disk"), "--dir-size", "16MiB")
        self.assertEqual(os.listdir(self.path("disk")), [])
        self.assertEqual({result["file"] for result in top["results"]}, {self.path("disk")})
        self.assertEqual({result["buffer_bytes"] for result in top["results"]}, {16 * MIB})

    def test_files_that_cannot_measure_a_disk(self):
        small = self.file_of("small", MIB)
        self.fails("numa", "--nvme", small, code=2,
                   says=[small, "1048576 bytes", "at least 16777216"])
        with open(self.path("holes"), "wb") as file:
            file.truncate(64 * MIB)
        self.fails("numa", "--nvme", self.path("holes"), code=2,
                   says=["holes", "67108864 bytes are on the disk", "sync it first"])
        self.fails("numa", "--nvme", self.path("none"), code=1,
                   says=[self.path("none"), "No such file"])
        self.fails("numa", "--nvme", self.path(), code=2,
                   says=["neither a file nor a block device", "--dir"])
        self.fails("numa", "--nvme", "/dev/null", code=2,
                   says=["neither a file nor a block device"])
        self.fails("numa", "--dir", self.path("none"), code=1,
                   says=[self.path("none"), "No such file"])
        self.fails("numa", "--dir", self.path(), "--dir-size", "1MiB", code=1,
                   says=["too small", "at least 16777216"])

    def test_too_little_memory_gives_a_reason(self):
        top = self.profile("--only", "bandwidth,latency,touch", "--memory", "1MiB", code=77)
        self.assertEqual({result["matrix"] for result in top["results"]},
                         {"bandwidth", "latency", "touch"})
        for result in top["results"]:
            self.assertRegex(result["absent"],
                             "do not fit into the 1 MiB that can be allocated on node|has no")
        for row in top["latency_ns"] + top["bandwidth"]["copy"]:
            self.assertEqual(set(row), {None})

    def test_loaded_latency_needs_a_second_core(self):
        mine = sorted(os.sched_getaffinity(0))
        done = subprocess.run([RUNG, "numa", *QUICK, "--only", "loaded,latency", "--json"],
                              capture_output=True, text=True, check=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, mine[-1:]))
        top = json.loads(done.stdout)
        whys = {result["absent"] for result in top["results"] if result["matrix"] == "loaded"}
        self.assertTrue(any("one usable core" in why for why in whys), whys)
        self.assertEqual({result["threads"] for result in top["results"] if not result["absent"]},
                         {1})

    def test_threads_are_bounded(self):
        top = self.profile("--only", "bandwidth", "--threads", "1")
        self.assertEqual({result["threads"] for result in top["results"] if not result["absent"]},
                         {1})

    def test_absent_hardware_gives_a_reason(self):
        top = self.json_of("numa", "--topology")
        if top["gpus"]:
            self.skipTest("this machine has a GPU")
        done = self.run_rung("numa", "--only", "gpu,peer", code=77)
        why = "cuda: looking for GPUs: |device cuda is not built in: "
        self.assertRegex(done.stdout, r"\n  gpu: no GPU \((%s)" % why)
        self.assertRegex(done.stdout, r"\n  peer: no GPU \((%s)" % why)
        measured = self.json_of("numa", "--only", "gpu", code=77)
        self.assertEqual(len(measured["results"]), 1)
        self.assertRegex(measured["results"][0]["absent"], r"^no GPU \((%s)" % why)
        of_gpus = [measured["gpu_" + key] for key in ("copy", "peer", "gather")]
        self.assertEqual(of_gpus + measured["nvme_read"], [[], [], []])

    def test_tables(self):
        said = self.run_rung("numa", *QUICK, "--quiet", "--nvme",
                             self.file_of("reads", 16 * MIB)).stdout
        for what in ("GB/s by all cores of a node", "latency in ns, idle",
                     "1000 random reads per second", "not measured:",
                     "medians of 2 samples of 0.001 s; quick", "One core gathers 1 KiB rows at",
                     "Next, for plans: rung numa --json"):
            self.assertIn(what, said)
        self.assertNotIn("first touch of fresh memory", said)
        self.assertFalse([line for line in said.splitlines() if line.endswith(" ")])

    def test_memory_below_the_advised_size_is_listed(self):
        top = self.profile("--only", "latency,gather", "--memory", "64MiB")
        there = [result for result in top["results"] if not result["absent"]]
        self.assertEqual({result["matrix"] for result in there}, {"latency", "gather"})
        for result in there:
            self.assertLess(result["buffer_bytes"], 64 * MIB)
        small = {result["matrix"] for result in there
                 if result["buffer_bytes"] < result["advised_bytes"]}
        said = self.run_rung("numa", *QUICK, "--quiet", "--only", "latency,gather",
                             "--memory", "64MiB").stdout
        for matrix in ("latency", "gather"):
            line = r"\n  %s, memory of node \d+: \S+ MiB; \S+ [MG]iB or more is advised\n" % matrix
            (self.assertRegex if matrix in small else self.assertNotRegex)(said, line)

    def test_csv_has_every_sample(self):
        done = self.run_rung("numa", *QUICK, "--quiet", "--only", "latency,touch,gpu", "--csv")
        lines = list(csv.DictReader(done.stdout.splitlines()))
        for number in (0, 1):
            self.assertTrue([line for line in lines
                             if line["matrix"] == "latency" and line["sample"] == str(number)])
        for line in lines:
            self.assertNotIn(None, line, "as many fields as headings")
            self.assertEqual(line["value"] == "", line["absent"] != "")

    def test_details(self):
        said = self.run_rung("numa", *QUICK, "--quiet", "--only", "gather,touch",
                             "--explain").stdout
        for what in ("rows in flight", "first touch of fresh memory"):
            self.assertIn(what, said)
        said = self.run_rung("numa", *QUICK, "--quiet", "--only", "touch").stdout
        self.assertIn("first touch of fresh memory", said)
        said = self.run_rung("numa", *QUICK, "--quiet", "--only", "bandwidth", "--threads",
                             "1").stdout
        self.assertIn("GB/s by all cores of a node", said)
        self.assertNotIn("GB/s by one core", said)

    def test_a_profile_equals_its_file(self):
        top = self.profile("--only", "latency,touch,gather")
        with open(self.path("new.json"), "w", encoding="utf-8") as file:
            json.dump(top, file)
        self.assertEqual(self.json_of("numa", "--from", self.path("new.json")), top)
        said = self.run_rung("numa", "--from", self.path("new.json"), "--compare",
                             self.path("new.json")).stdout
        self.assertRegex(said, r"^0 of \d+ values are more than 10 % worse than in ")

    def test_pictures(self):
        picture = self.path("heat.svg")
        self.run_rung("numa", *QUICK, "--quiet", "--svg", picture, "--nvme",
                      self.file_of("reads", 16 * MIB))
        root = xml.etree.ElementTree.parse(picture).getroot()
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for what in ("read", "idle latency", "gather 4 KiB", "node 0"):
            self.assertIn(what, texts)
        self.fails("numa", "--svg", self.path("none", "heat.svg"), code=1, says=self.path("none"))


class Gpus(NumaTest):
    """The output for simulated GPUs, which are unknown to the kernel of this machine. The measured
    numbers have no meaning.
    """
    command = SIM
    ROWS = [64, 256, 1024, 4096]
    SMALL = ("--quick", "--samples", "1", "--seconds", "0.000001", "--memory", "16MiB")

    def setUp(self):
        super().setUp()
        if not SIM:
            self.skipTest("RUNG_SIM names no command on simulated GPUs")
        self.gpus(2)

    def gpus(self, count, **variables):
        self.variables = {"RUNG_SIM_GPUS": str(count), "RUNG_SIM_GPU_BYTES": str(8 << 30),
                          **variables}
        return ["0000:%x:00.0" % (16 + i) for i in range(count)]

    def test_json(self):
        ids = self.gpus(2)
        top = self.json_of("numa", *self.SMALL, "--only", "gpu,peer")
        nodes = [node["node"] for node in top["nodes"]]
        kinds = [("to_gpu", None), ("from_gpu", None), ("both", None), ("read", None)]
        kinds += [("gather", row) for row in self.ROWS]
        results = {key: [result for result in top["results"] if result["matrix"] == key]
                   for key in ("gpu", "peer")}
        self.assertEqual([(r["gpu_bus_id"], r["memory_node"], r["kind"], r["row_bytes"])
                          for r in results["gpu"]],
                         [(gpu, node, *kind) for gpu in ids for node in nodes for kind in kinds])
        self.assertEqual([(r["gpu_bus_id"], r["to_gpu_bus_id"], r["kind"], r["row_bytes"])
                          for r in results["peer"]],
                         [(gpu, to, *kind) for gpu in ids for to in ids
                          for kind in [("copy", None)] + kinds[4:]])
        there = [result for result in top["results"] if not result["absent"]]
        for result in there:
            self.assertEqual((result["gpu"], result["cpu_node"], result["cores"]),
                             (None, None, None))
            values = {"bytes_per_s"} | ({"rows_per_s"} if result["kind"] == "gather" else set())
            self.assertEqual({key for key, value in result.items() if isinstance(value, dict)},
                             values)
            for key in values:
                self.assertEqual(len(result[key]["samples"]), 1)
                self.assertGreater(result[key]["min"], 0)
            if result["matrix"] == "gpu" and top["placement"]["can_query"]:
                self.assertGreaterEqual(result["placement_share"], 0.95)
        median = {(r["matrix"], r["gpu_bus_id"], r.get("to_gpu_bus_id"), r["memory_node"],
                   r["kind"], r["row_bytes"]): r for r in there}
        for copy in top["gpu_copy"]:
            for kind in ("to_gpu", "from_gpu", "both"):
                result = median.get(("gpu", copy["gpu_bus_id"], None, copy["memory_node"], kind,
                                     None))
                self.assertEqual(copy[kind + "_bytes_per_s"],
                                 result and result["bytes_per_s"]["median"])
        self.assertEqual(len(top["gpu_copy"]), 2 * len(nodes))
        self.assertEqual([(peer["from_gpu_bus_id"], peer["to_gpu_bus_id"])
                          for peer in top["gpu_peer"]], [(a, b) for a in ids for b in ids])
        for gather in top["gpu_gather"]:
            self.assertEqual(gather["from"], "host" if gather["memory_node"] is not None else
                             "gpu" if gather["from_gpu_bus_id"] == gather["gpu_bus_id"] else "peer")
            key = ("peer", gather["from_gpu_bus_id"], gather["gpu_bus_id"], None)
            if gather["from"] == "host":
                key = ("gpu", gather["gpu_bus_id"], None, gather["memory_node"])
            self.assertEqual(gather["rows_per_s"],
                             median[(*key, "gather", gather["row_bytes"])]["rows_per_s"]["median"])
        self.assertEqual(len(top["gpu_gather"]), len([r for r in there if r["kind"] == "gather"]))

    def test_tables_and_pictures(self):
        self.gpus(1)
        picture = self.path("heat.svg")
        said = self.run_rung("numa", *self.SMALL, "--only", "gpu,peer", "--quiet", "--svg",
                             picture).stdout
        self.assertRegex(said, r"\nto the GPU +0000:10:00.0 +[\d.]+ ")
        self.assertRegex(said, r"\ngather 64 B +0000:10:00.0 +[\d.]+ ")
        self.assertFalse([line for line in said.splitlines() if line.endswith(" ")])
        root = xml.etree.ElementTree.parse(picture).getroot()
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for what in ("GB/s between GPUs and pinned memory", "gather 64 B", "GB/s between GPUs"):
            self.assertIn(what, texts)

    def test_csv(self):
        self.gpus(1)
        done = self.run_rung("numa", *self.SMALL, "--quiet", "--only", "peer", "--csv")
        lines = list(csv.DictReader(done.stdout.splitlines()))
        self.assertEqual(len(lines), 1 + 2 * len(self.ROWS))
        for line in lines:
            self.assertNotIn(None, line, "as many fields as headings")
            self.assertEqual((line["gpu_bus_id"], line["to_gpu_bus_id"], line["gpu"],
                              line["absent"]), ("0000:10:00.0", "0000:10:00.0", "", ""))

    def test_gpus_without_peer_access(self):
        first, second = self.gpus(2, RUNG_SIM_PEERS="0")
        top = self.json_of("numa", *self.SMALL, "--only", "peer")
        for result in top["results"]:
            if result["gpu_bus_id"] == result["to_gpu_bus_id"]:
                self.assertIsNone(result["absent"])
            else:
                self.assertRegex(result["absent"],
                                 r"letting GPU \d read the memory of GPU \d: "
                                 r".*cudaErrorPeerAccessUnsupported")
        self.assertEqual([(peer["from_gpu_bus_id"], peer["to_gpu_bus_id"])
                          for peer in top["gpu_peer"]], [(first, first), (second, second)])
        self.assertEqual({gather["from"] for gather in top["gpu_gather"]}, {"gpu"})

    def test_full_or_missing_gpus(self):
        self.gpus(1, RUNG_SIM_GPU_BYTES="100000")
        top = self.json_of("numa", *self.SMALL, "--only", "gpu,peer", code=77)
        whys = {result["absent"] for result in top["results"]}
        full = "bytes to measure with: out of memory (cudaErrorMemoryAllocation)"
        self.assertTrue(any(full in why for why in whys), whys)
        self.assertEqual((top["gpu_peer"], top["gpu_gather"]), ([], []))
        self.assertEqual({copy["to_gpu_bytes_per_s"] for copy in top["gpu_copy"]}, {None})
        for count, why in (("0", "cudaErrorNoDevice"), ("none", "cudaErrorInsufficientDriver")):
            self.gpus(1, RUNG_SIM_GPUS=count)
            said = self.run_rung("numa", "--only", "gpu", code=77).stdout
            self.assertRegex(said.replace("\n", " "),
                             r"   gpu: no GPU \(cuda: looking for GPUs: .*%s" % why)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""rung numa: recorded and invented machines, files that hold what they cannot, and what measuring prints."""
import csv
import json
import os
import subprocess
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import RUNG, SIM, CliTest, main
from machine import FIXTURES, Machine

MACHINES = sorted(name[:-len(".machine")] for name in os.listdir(FIXTURES) if name.endswith(".machine"))
NODE0 = "sys/devices/system/node/node0/"
GPU0 = "sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:00.0/0000:1a:00.0/"
GPU1 = "sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:02.0/0000:1c:00.0/0000:1d:00.0/0000:1e:00.0/"
NVME0 = "sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:01.0/0000:1b:00.0/"


class NumaTest(CliTest):
    def setUp(self):
        super().setUp()
        self.machines = {}

    def machine(self, name, *changes):
        """The folder of a machine with these changes and no others."""
        if name not in self.machines:
            self.machines[name] = Machine(self.path(name), name)
        self.machines[name].restore()
        self.machines[name].change(*changes)
        return self.path(name)

    def topology(self, name, *more):
        return self.json_of("numa", "--topology", "--root", self.machine(name, *more))


class Machines(NumaTest):
    def test_tables_and_json_of_every_machine(self):
        self.assertGreater(len(MACHINES), 8)
        for name in MACHINES:
            with self.subTest(name):
                root = self.machine(name)
                self.golden(os.path.join(FIXTURES, name + ".txt"), self.run_rung("numa", "--topology", "--root", root).stdout)
                done = self.run_rung("numa", "--topology", "--root", root, "--json")
                self.golden(os.path.join(FIXTURES, name + ".json"), done.stdout)
                self.assertEqual(done.stderr, "")
                self.consistent(json.loads(done.stdout))

    def consistent(self, top):
        """What holds for every machine, whatever the golden files say."""
        nodes, gpus, nvme = top["nodes"], top["gpus"], top["nvme"]
        numbers = [node["node"] for node in nodes]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual([len(row) for row in top["distances"]], [len(nodes)] * len(nodes))
        for kind, rows, columns in (("gpu_gpu", gpus, gpus), ("gpu_nvme", gpus, nvme), ("nvme_nvme", nvme, nvme),
                                    ("gpu_node", gpus, nodes), ("nvme_node", nvme, nodes)):
            self.assertEqual([len(row) for row in top["links"][kind]], [len(columns)] * len(rows), kind)
        for kind in ("gpu_gpu", "nvme_nvme"):
            links = top["links"][kind]
            self.assertEqual(links, [list(column) for column in zip(*links)], kind + " is symmetric")
            self.assertEqual([row[i] for i, row in enumerate(links)], ["X"] * len(links))

    def test_links_of_two_sockets(self):
        """By hand: what the tree's comment says."""
        links = self.topology("two-sockets")["links"]
        self.assertEqual(links["gpu_gpu"], [["X", "PXB", "SYS", "SYS"], ["PXB", "X", "SYS", "SYS"],
                                            ["SYS", "SYS", "X", "PHB"], ["SYS", "SYS", "PHB", "X"]])
        self.assertEqual(links["gpu_nvme"], [["PIX", "PXB"] + ["SYS"] * 4, ["PXB", "PIX"] + ["SYS"] * 4,
                                             ["SYS", "SYS"] + ["NODE"] * 4, ["SYS", "SYS"] + ["NODE"] * 4])
        self.assertEqual(links["nvme_nvme"][2], ["SYS", "SYS", "X", "PIX", "PHB", "PHB"])
        self.assertEqual(links["nvme_nvme"][4][5], "PHB")
        self.assertEqual(links["gpu_node"], [["NODE", "SYS"]] * 2 + [["SYS", "NODE"]] * 2)

    def test_memory_of_a_gpu_is_its_own_node(self):
        top = self.topology("grace-hopper")
        self.assertEqual(top["nodes"][1]["gpu"], "0009:01:00.0")
        self.assertEqual(top["gpus"][0]["memory_node"], 1)
        self.assertEqual(top["links"]["gpu_node"], [["NODE", "X"] + ["SYS"] * 7])

    def test_virtual_functions_are_no_gpus(self):
        """Nor are a maker's other devices: only what its GPU driver has taken."""
        gpus = [gpu["bus_id"] for gpu in self.topology("two-sockets")["gpus"]]
        top = self.topology("two-sockets", GPU0 + "physfn -> ../0000:19:00.0", GPU1 + "class = 0x040300")
        self.assertEqual([gpu["bus_id"] for gpu in top["gpus"]], gpus[1:], "driver nvidia has it")
        top = self.topology("two-sockets", GPU1 + "class = 0x040300", GPU1 + "driver -> ../../bus/pci/drivers/snd_hda_intel")
        self.assertEqual([gpu["bus_id"] for gpu in top["gpus"]], gpus[:1] + gpus[2:])

    def test_what_a_job_may_use(self):
        top = self.topology("two-sockets")
        self.assertEqual(top["cpus"]["allowed"], "0-7")
        self.assertEqual([node["cpus_allowed"] for node in top["nodes"]], ["0-7", ""])
        self.assertEqual([node["memory_allowed"] for node in top["nodes"]], [True, False])
        self.assertEqual(top["memory"]["limit_bytes"], 64 << 30)
        self.assertEqual(top["memory"]["available_bytes"], 62 << 30)

    def test_the_root_may_be_given_through_links(self):
        folder = self.machine("two-sockets")
        os.symlink("two-sockets", self.path("link"))
        direct = self.json_of("numa", "--topology", "--root", folder)
        for root in (self.path("link"), folder + "/", self.path("link", "..", "two-sockets")):
            self.assertEqual(self.json_of("numa", "--topology", "--root", root), direct)

    def test_this_machine(self):
        top = self.json_of("numa", "--topology")
        self.consistent(top)
        self.assertEqual(sum(node["cpu_count"] for node in top["nodes"]), os.cpu_count())
        self.assertIsNotNone(top["memory"]["available_bytes"])
        placement = top["placement"]
        self.assertEqual(placement["can_bind"], placement["bind_why"] is None)
        self.assertEqual(placement["can_look"], placement["look_why"] is None)
        self.assertIn("where it lies can", self.run_rung("numa", "--topology").stdout)

    def test_processors_the_process_may_not_use(self):
        mine = sorted(os.sched_getaffinity(0))
        done = subprocess.run([RUNG, "numa", "--topology", "--json"], capture_output=True, text=True, check=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, mine[-1:]))
        self.assertEqual(json.loads(done.stdout)["cpus"]["allowed"], str(mine[-1]))


class Absent(NumaTest):
    """Each file may be missing: then what it would tell is not known, and the rest is as it was."""

    def test_every_file_alone(self):
        with open(os.path.join(FIXTURES, "two-sockets.machine"), encoding="ascii") as file:
            paths = [line.split()[0] for line in file if " = " in line or " -> " in line]
        self.assertGreater(len(paths), 80)
        whole = self.topology("two-sockets")
        for path in paths:
            with self.subTest(path):
                top = self.topology("two-sockets", path + " !")
                self.assertEqual(set(top), set(whole))
                if "node/online" not in path:
                    self.assertEqual(len(top["nodes"]), 2)

    def test_every_file_unreadable(self):
        if os.geteuid() == 0:
            self.skipTest("root may read every file")
        root = self.machine("two-sockets")
        os.chmod(os.path.join(root, NODE0, "meminfo"), 0)
        self.assertIsNone(self.json_of("numa", "--topology", "--root", root)["nodes"][0]["total_bytes"])

    def test_unknown_values(self):
        top = self.topology("two-sockets", NODE0 + "cpulist !", NODE0 + "distance !", NODE0 + "meminfo !", NODE0 + "hugepages !",
                            "proc !", GPU0 + "numa_node !", GPU0 + "driver !", GPU0 + "current_link_speed !")
        node, gpu = top["nodes"][0], top["gpus"][0]
        for key in ("cpus", "cpu_count", "cpus_allowed", "memory_allowed", "total_bytes", "free_bytes"):
            self.assertIsNone(node[key], key)
        self.assertEqual(node["huge_pages"], [])
        self.assertEqual(top["distances"], [[None, None], [21, 10]])
        self.assertEqual(top["memory"], {"total_bytes": None, "available_bytes": None, "limit_bytes": None, "nodes_allowed": None})
        self.assertEqual((gpu["node"], gpu["driver"], gpu["pcie"]["gt_per_s"], gpu["model"]), (None, None, None, None))
        self.assertEqual(top["links"]["gpu_node"][0], [None, None])
        self.assertEqual(top["links"]["gpu_gpu"][0], ["X", "PXB", None, None])

    def test_nothing_at_all(self):
        os.mkdir(self.path("empty"))
        self.fails("numa", "--topology", "--root", self.path("empty"), code=1, says=["neither node/online nor cpu/online", "sysfs"])

    def test_no_folder(self):
        self.fails("numa", "--topology", "--root", self.path("none"), code=1, says=[self.path("none"), "No such file"])
        with open(self.path("file"), "w", encoding="ascii"):
            pass
        self.fails("numa", "--topology", "--root", self.path("file"), code=1, says=[self.path("file"), "is no folder"])


class Malformed(NumaTest):
    def refused(self, line, value, what):
        """With this line in it the machine is refused: the message names file, value and what it is not."""
        path = line.split()[0].rstrip("/")
        said = self.fails("numa", "--topology", "--root", self.machine("two-sockets", line), code=1, says=[value, what])
        self.assertIn(os.path.basename(path) + (": '" + value if value else ""), said)
        self.assertTrue(said.rstrip("\n").isprintable(), said)

    def test_lists(self):
        online = "sys/devices/system/node/online"
        for text in ("0-", "-1", "1-0", "0,0", "0-1,1", "0,,1", ",0", "0,", "a", "0 1", "0x1", "1024", "0-1024", "4294967296", "99999999999999999999",
                     "0-1\\n2", "\\x1b[2J"):
            with self.subTest(text):
                self.refused("%s = %s" % (online, text), text.replace("\\n", "?").replace("\\x1b", "?"), "not a list of numbers below 1024")
        for path in ("sys/devices/system/cpu/online", NODE0 + "cpulist"):
            self.refused(path + " = 0-65536", "0-65536", "not a list of numbers below 65536")
        self.refused(online + " =", "", "none is online")
        self.refused(online + " = \\c", "", "none is online")
        self.refused("proc/self/status = Cpus_allowed_list:\\t0-3-5", "0-3-5", "a list of numbers")
        self.refused("sys/devices/system/node/has_cpu = none", "none", "a list of numbers")

    def test_memory(self):
        for text, value, what in (("garbage", "garbage", "lacks MemTotal"), ("\\c", "", "lacks MemTotal"),
                                  ("Node 0 MemTotal: 5 kB", "Node 0 MemTotal: 5 kB", "lacks MemTotal or MemFree"),
                                  ("Node 0 MemTotal: 5 MB\\nNode 0 MemFree: 1 kB", "5 MB", "in kB"),
                                  ("Node 0 MemTotal: -5 kB\\nNode 0 MemFree: 1 kB", "-5 kB", "in kB"),
                                  ("Node 0 MemTotal:\\nNode 0 MemFree: 1 kB", "", "in kB"),
                                  ("Node 0 MemTotal: 18014398509481984 kB\\nNode 0 MemFree: 1 kB", "18014398509481984 kB", "in kB")):
            with self.subTest(text):
                self.refused(NODE0 + "meminfo = " + text, value, what)
        pages = NODE0 + "hugepages/hugepages-2048kB/"
        self.refused(pages + "nr_hugepages = many", "many", "a number up to")
        self.refused(pages + "free_hugepages = 18446744073709551616", "18446744073709551616", "a number up to")

    def test_distances_and_ratings(self):
        self.refused(NODE0 + "distance = 10", "", "has 1 distances where 2 nodes are online")
        self.refused(NODE0 + "distance = 10 20 30", "", "has 3 distances where 2 nodes are online")
        self.refused(NODE0 + "distance = 10 256", "256", "a distance up to 255")
        self.refused(NODE0 + "distance = ten 20", "ten", "a distance up to 255")
        self.refused(NODE0 + "access0/initiators/read_bandwidth = 17592186044416", "17592186044416", "a number up to 17592186044415")
        self.refused(NODE0 + "access1/initiators/write_latency = 1.5", "1.5", "a number up to")

    def test_devices(self):
        self.refused(GPU0 + "class = 0x1030200", "0x1030200", "a hexadecimal number up to ffffff")
        self.refused(GPU0 + "vendor = nvidia", "nvidia", "a hexadecimal number")
        self.refused(GPU0 + "numa_node = -2", "-2", "the number of a node below 1024, or -1")
        self.refused(GPU0 + "numa_node = 1024", "1024", "the number of a node")
        self.refused(GPU0 + "current_link_speed = fast", "fast", "a speed such as")
        self.refused(GPU0 + "max_link_speed = 16.0 PCIe", "16.0 PCIe", "a speed such as")
        self.refused(GPU0 + "current_link_width = 256", "256", "a number up to 255")
        self.refused("proc/driver/nvidia/gpus/0000:1a:00.0/numa_status = Node: one", "one", "the number of a node")
        self.refused(NVME0 + "nvme/nvme0/nvme0n1/size = -1", "-1", "a number up to")

    def test_what_is_no_file_or_link(self):
        for line in (NODE0 + "cpulist/", NODE0 + "distance/"):
            self.refused(line, "", "is no plain file")
        self.refused(GPU0 + "driver = nvidia", "", "is no link")
        self.refused(NODE0 + "cpulist = 0\\x001", "0", "a byte 0 follows")
        self.refused(NODE0 + "cpulist = " + "0" * 65536, "", "has 65536 bytes or more")
        self.refused(NODE0 + "cpulist = " + "1," * 1000, "1," * 30 + "...", "a list of numbers")

    def test_a_fifo_is_not_waited_for(self):
        root = self.machine("two-sockets", NODE0 + "cpulist !")
        os.mkfifo(os.path.join(root, NODE0, "cpulist"))
        self.fails("numa", "--topology", "--root", root, code=1, says=["cpulist", "is no plain file"])

    def test_links_that_lead_in_a_circle_or_out(self):
        entry = "sys/bus/pci/devices/0000:1a:00.0"
        for line in (entry + " -> 0000:1a:00.0", NODE0 + "cpulist -> cpulist", "sys/block/nvme0n1 -> nvme0n1"):
            with self.subTest(line):
                self.fails("numa", "--topology", "--root", self.machine("two-sockets", line), code=1,
                           says=[line.split()[0], "Too many levels of symbolic links"])
        os.makedirs(self.path("outside", "0000:1a:00.0"))
        for name, text in (("class", "0x030200"), ("vendor", "0x10de")):
            with open(self.path("outside", "0000:1a:00.0", name), "w", encoding="ascii") as file:
                file.write(text)
        self.fails("numa", "--topology", "--root", self.machine("two-sockets", entry + " -> " + self.path("outside", "0000:1a:00.0")), code=1,
                   says=[entry, self.path("outside"), "which is not in"])

    def test_text_of_devices_is_printable(self):
        top = self.topology("two-sockets", NVME0 + "nvme/nvme0/model = \\x1b[31mred\\xff\\x20",
                            "proc/driver/nvidia/gpus/0000:1a:00.0/information = Model: \\t\\x07bell")
        self.assertEqual(top["nvme"][0]["model"], "?[31mred?")
        self.assertEqual(top["gpus"][0]["model"], "?bell")

    def test_too_many_of_something(self):
        root = self.machine("two-sockets", *("sys/block/nvme7n%d/" % (i + 1) for i in range(4100)))
        self.fails("numa", "--topology", "--root", root, code=1, says=["4110 GPUs and drives, more than 4096"])
        root = self.machine("two-sockets", *(NODE0 + "hugepages/hugepages-%dkB/" % (1 << i) for i in range(17)))
        self.fails("numa", "--topology", "--root", root, code=1, says=["page sizes, more than 16"])


# These keep runs short, whatever caches the machine has
QUICK = ("--quick", "--samples", "2", "--seconds", "0.001", "--memory", "160MiB")
MIB = 1 << 20


class Measuring(NumaTest):
    """What is printed of what was measured. Figures are looked at for being figures: how large they are is the machine's business."""

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
        self.assertEqual((value["min"], value["max"]), (min(value["samples"]), max(value["samples"])))
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
                  "advised_bytes", "placed_share", "huge_share", "absent"]
        for result in top["results"]:
            self.assertEqual(list(result)[:len(common)], common)
            if not result["absent"] and result.get("level") != 0:   # nobody reads meanwhile
                self.assertEqual(set(result), keys[result["matrix"]], result["matrix"])
        self.assertEqual(top["measured"]["matrices"], ["bandwidth", "latency", "loaded", "gather", "gpu", "peer", "nvme", "touch", "register"])
        order = [top["measured"]["matrices"].index(result["matrix"]) for result in top["results"]]
        self.assertEqual(order, sorted(order), "results come matrix by matrix")
        self.assertEqual(set(order), set(range(9)), "each matrix has a result, be it an absent one")
        for read in top["nvme_read"]:
            self.assertEqual(list(read), list(example["nvme_read"][0]))

    def test_figures(self):
        top = self.profile("--only", "bandwidth,latency,gather", "--rows", "100,1536,4096")
        count = len(top["nodes"])
        for name in ("read", "write", "copy", "triad"):
            self.assertEqual([len(row) for row in top["bandwidth"][name]], [count] * count)
        self.assertEqual([len(row) for row in top["latency_ns"]], [count] * count)
        self.assertEqual([gather["row_bytes"] for gather in top["bandwidth"]["gather"]], [64, 100, 256, 1024, 1536, 4096], "each once, ascending")
        medians = {}
        arrays = max(result["buffer_bytes"] for result in top["results"] if result["matrix"] == "bandwidth")
        for result in top["results"]:
            if result["absent"]:
                continue
            for key in ("bytes_per_s", "rows_per_s", "latency_ns"):
                if key in result:
                    self.check_value(result[key])
            if result["matrix"] == "gather":
                for bytes_s, rows_s in zip(result["bytes_per_s"]["samples"], result["rows_per_s"]["samples"]):
                    self.assertAlmostEqual(bytes_s / rows_s, 2 * result["row_bytes"])
                self.assertGreater(result["of_copy"], 0)
                self.assertGreaterEqual(result["buffer_bytes"], 2 * arrays)
            if result["matrix"] == "bandwidth" and result["cores"] == "all":
                medians[result["kind"], result["cpu_node"], result["memory_node"]] = result["bytes_per_s"]["median"]
        self.assertTrue(medians)
        numbers = [node["node"] for node in top["nodes"]]
        for (kind, cpu, memory), median in medians.items():
            self.assertEqual(top["bandwidth"][kind][numbers.index(cpu)][numbers.index(memory)], median)

    def test_what_lies_where_is_told(self):
        top = self.profile("--only", "latency")
        for result in top["results"]:
            if top["placement"]["can_look"] and not result["absent"]:
                self.assertGreaterEqual(result["placed_share"], 0.95)
            elif not top["placement"]["can_look"]:
                self.assertIsNone(result["placed_share"])

    def test_reads_of_a_file(self):
        size = 24 * MIB
        top = self.profile("--only", "nvme", "--nvme", self.file_of("reads", size), "--rows", "1536,1000", "--depths", "1,7")
        results = [result for result in top["results"] if not result["absent"]]
        if not results:
            self.assertIn("page cache", top["results"][0]["absent"])
            self.skipTest("this file system does no direct reads")
        self.assertEqual({result["buffer_bytes"] for result in results}, {size})
        sizes = list(dict.fromkeys(result["row_bytes"] for result in results))
        self.assertEqual(len(sizes), len(set(sizes)))
        self.assertTrue({4096, 16384, 65536, 131072} <= set(sizes))
        self.assertFalse([bytes_ for bytes_ in sizes if bytes_ % 512], "whole sectors")
        for result in results:
            self.check_value(result["reads_per_s"])
            self.assertAlmostEqual(result["bytes_per_s"]["median"] / result["reads_per_s"]["median"], result["row_bytes"])
        self.assertEqual(len(top["nvme_read"]), len(results))
        self.assertEqual({read["queue_depth"] for read in top["nvme_read"]}, {1, 7})

    def test_a_folder_is_left_as_it_was(self):
        os.mkdir(self.path("disk"))
        top = self.profile("--only", "nvme", "--dir", self.path("disk"), "--dir-size", "16MiB")
        self.assertEqual(os.listdir(self.path("disk")), [])
        self.assertEqual({result["file"] for result in top["results"]}, {self.path("disk")})
        self.assertEqual({result["buffer_bytes"] for result in top["results"]}, {16 * MIB})

    def test_files_that_say_nothing_of_a_disk(self):
        small = self.file_of("small", MIB)
        self.fails("numa", "--nvme", small, code=2, says=[small, "1048576 bytes", "16777216 at least"])
        with open(self.path("holes"), "wb") as file:
            file.truncate(64 * MIB)
        self.fails("numa", "--nvme", self.path("holes"), code=2, says=["holes", "67108864 bytes are on the disk", "written through"])
        self.fails("numa", "--nvme", self.path("none"), code=1, says=[self.path("none"), "No such file"])
        self.fails("numa", "--nvme", self.path(), code=2, says=["neither a file nor a block device", "--dir"])
        self.fails("numa", "--nvme", "/dev/null", code=2, says=["neither a file nor a block device"])
        self.fails("numa", "--dir", self.path("none"), code=1, says=[self.path("none"), "No such file"])
        self.fails("numa", "--dir", self.path(), "--dir-size", "1MiB", code=1, says=["too small", "16777216 at least"])

    def test_too_little_memory_is_a_reason(self):
        top = self.profile("--only", "bandwidth,latency,touch", "--memory", "1MiB", code=77)
        self.assertEqual({result["matrix"] for result in top["results"]}, {"bandwidth", "latency", "touch"})
        for result in top["results"]:
            self.assertRegex(result["absent"], "do not fit into the 1 MiB that may be taken of node|has no")
        for row in top["latency_ns"] + top["bandwidth"]["copy"]:
            self.assertEqual(set(row), {None})

    def test_one_processor_has_none_to_load_it(self):
        mine = sorted(os.sched_getaffinity(0))
        done = subprocess.run([RUNG, "numa", *QUICK, "--only", "loaded,latency", "--json"], capture_output=True, text=True, check=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, mine[-1:]))
        top = json.loads(done.stdout)
        whys = {result["absent"] for result in top["results"] if result["matrix"] == "loaded"}
        self.assertTrue(any("one core that may be used" in why for why in whys), whys)
        self.assertEqual({result["threads"] for result in top["results"] if not result["absent"]}, {1})

    def test_threads_are_bounded(self):
        top = self.profile("--only", "bandwidth", "--threads", "1")
        self.assertEqual({result["threads"] for result in top["results"] if not result["absent"]}, {1})

    def test_hardware_that_is_absent(self):
        top = self.json_of("numa", "--topology")
        if top["gpus"]:
            self.skipTest("there is a GPU")
        done = self.run_rung("numa", "--only", "gpu,peer", code=77)
        why = "cuda: looking for GPUs: |device cuda is not built in: "
        self.assertRegex(done.stdout, r"\n  gpu: no GPU \((%s)" % why)
        self.assertRegex(done.stdout, r"\n  peer: no GPU \((%s)" % why)
        measured = self.json_of("numa", "--only", "gpu", code=77)
        self.assertEqual(len(measured["results"]), 1)
        self.assertRegex(measured["results"][0]["absent"], r"^no GPU \((%s)" % why)
        self.assertEqual([measured["gpu_" + key] for key in ("copy", "peer", "gather")] + measured["nvme_read"], [[], [], []])

    def test_tables(self):
        said = self.run_rung("numa", *QUICK, "--quiet", "--nvme", self.file_of("reads", 16 * MIB)).stdout
        for what in ("bandwidth, bytes counted as STREAM does", "latency of one dependent load", "rows gathered from random places",
                     "first touch of fresh memory", "not measured:", "medians of 2 samples of 0.001 s; quick"):
            self.assertIn(what, said)
        self.assertFalse([line for line in said.splitlines() if line.endswith(" ")])

    def test_little_memory_gives_figures_and_what_is_smaller_than_advised_is_listed(self):
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
            self.assertTrue([line for line in lines if line["matrix"] == "latency" and line["sample"] == str(number)])
        for line in lines:
            self.assertNotIn(None, line, "as many fields as headings")
            self.assertEqual(line["value"] == "", line["absent"] != "")

    def test_heat_maps(self):
        picture = self.path("heat.svg")
        self.run_rung("numa", *QUICK, "--quiet", "--svg", picture, "--nvme", self.file_of("reads", 16 * MIB))
        root = xml.etree.ElementTree.parse(picture).getroot()
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for what in ("read, all cores", "latency, idle", "rows of 4.00 KiB gathered, all cores"):
            self.assertIn(what, texts)
        self.fails("numa", "--svg", self.path("none", "heat.svg"), code=1, says=self.path("none"))


class Gpus(NumaTest):
    """Simulated GPUs, which this machine's kernel knows nothing of: what there is of them. Their figures mean nothing."""
    command = SIM
    ROWS = [64, 256, 1024, 4096]
    SMALL = ("--quick", "--samples", "1", "--seconds", "0.000001", "--memory", "16MiB")

    def setUp(self):
        super().setUp()
        if not SIM:
            self.skipTest("RUNG_SIM names no command on simulated GPUs")
        self.gpus(2)

    def gpus(self, count, **variables):
        self.variables = {"RUNG_SIM_GPUS": str(count), "RUNG_SIM_GPU_BYTES": str(8 << 30), **variables}
        return ["0000:%x:00.0" % (16 + i) for i in range(count)]

    def test_json(self):
        ids = self.gpus(2)
        top = self.json_of("numa", *self.SMALL, "--only", "gpu,peer")
        nodes = [node["node"] for node in top["nodes"]]
        kinds = [("to_gpu", None), ("from_gpu", None), ("both", None), ("read", None)] + [("gather", row) for row in self.ROWS]
        results = {key: [result for result in top["results"] if result["matrix"] == key] for key in ("gpu", "peer")}
        self.assertEqual([(r["gpu_bus_id"], r["memory_node"], r["kind"], r["row_bytes"]) for r in results["gpu"]],
                         [(gpu, node, *kind) for gpu in ids for node in nodes for kind in kinds])
        self.assertEqual([(r["gpu_bus_id"], r["to_gpu_bus_id"], r["kind"], r["row_bytes"]) for r in results["peer"]],
                         [(gpu, to, *kind) for gpu in ids for to in ids for kind in [("copy", None)] + kinds[4:]])
        there = [result for result in top["results"] if not result["absent"]]
        for result in there:
            self.assertEqual((result["gpu"], result["cpu_node"], result["cores"]), (None, None, None))
            values = {"bytes_per_s", "rows_per_s"} if result["kind"] == "gather" else {"bytes_per_s"}
            self.assertEqual({key for key, value in result.items() if isinstance(value, dict)}, values)
            for key in values:
                self.assertEqual(len(result[key]["samples"]), 1)
                self.assertGreater(result[key]["min"], 0)
            if result["matrix"] == "gpu" and top["placement"]["can_look"]:
                self.assertGreaterEqual(result["placed_share"], 0.95)
        median = {(r["matrix"], r["gpu_bus_id"], r.get("to_gpu_bus_id"), r["memory_node"], r["kind"], r["row_bytes"]): r for r in there}
        for copy in top["gpu_copy"]:
            for kind in ("to_gpu", "from_gpu", "both"):
                result = median.get(("gpu", copy["gpu_bus_id"], None, copy["memory_node"], kind, None))
                self.assertEqual(copy[kind + "_bytes_per_s"], result and result["bytes_per_s"]["median"])
        self.assertEqual(len(top["gpu_copy"]), 2 * len(nodes))
        self.assertEqual([(peer["from_gpu_bus_id"], peer["to_gpu_bus_id"]) for peer in top["gpu_peer"]], [(a, b) for a in ids for b in ids])
        for gather in top["gpu_gather"]:
            self.assertEqual(gather["from"], "host" if gather["memory_node"] is not None else
                             "gpu" if gather["from_gpu_bus_id"] == gather["gpu_bus_id"] else "peer")
            key = ("gpu", gather["gpu_bus_id"], None, gather["memory_node"]) if gather["from"] == "host" else \
                  ("peer", gather["from_gpu_bus_id"], gather["gpu_bus_id"], None)
            self.assertEqual(gather["rows_per_s"], median[(*key, "gather", gather["row_bytes"])]["rows_per_s"]["median"])
        self.assertEqual(len(top["gpu_gather"]), len([r for r in there if r["kind"] == "gather"]))

    def test_tables_and_heat_maps(self):
        self.gpus(1)
        picture = self.path("heat.svg")
        said = self.run_rung("numa", *self.SMALL, "--only", "gpu,peer", "--quiet", "--svg", picture).stdout
        self.assertRegex(said, r"\nGPU +memory +to the GPU +from it +both at once +read by a kernel")
        self.assertRegex(said, r"\n0000:10:00.0 +node \d+ +[\d.]+ [KMGT]iB/s")
        self.assertRegex(said, r"\n0000:10:00.0  0000:10:00.0 +64 B ")
        self.assertFalse([line for line in said.splitlines() if line.endswith(" ")])
        root = xml.etree.ElementTree.parse(picture).getroot()
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for what in ("copies from pinned memory to GPUs", "rows of 64 B gathered by GPUs from pinned memory", "copies between GPUs", "0000:10:00.0",
                     "from 0000:10:00.0", "to 0000:10:00.0"):
            self.assertIn(what, texts)

    def test_csv(self):
        self.gpus(1)
        done = self.run_rung("numa", *self.SMALL, "--quiet", "--only", "peer", "--csv")
        lines = list(csv.DictReader(done.stdout.splitlines()))
        self.assertEqual(len(lines), 1 + 2 * len(self.ROWS))
        for line in lines:
            self.assertNotIn(None, line, "as many fields as headings")
            self.assertEqual((line["gpu_bus_id"], line["to_gpu_bus_id"], line["gpu"], line["absent"]), ("0000:10:00.0", "0000:10:00.0", "", ""))

    def test_gpus_that_do_not_reach_each_other(self):
        first, second = self.gpus(2, RUNG_SIM_PEERS="0")
        top = self.json_of("numa", *self.SMALL, "--only", "peer")
        for result in top["results"]:
            if result["gpu_bus_id"] == result["to_gpu_bus_id"]:
                self.assertIsNone(result["absent"])
            else:
                self.assertRegex(result["absent"], r"letting GPU \d read the memory of GPU \d: .*cudaErrorPeerAccessUnsupported")
        self.assertEqual([(peer["from_gpu_bus_id"], peer["to_gpu_bus_id"]) for peer in top["gpu_peer"]], [(first, first), (second, second)])
        self.assertEqual({gather["from"] for gather in top["gpu_gather"]}, {"gpu"})

    def test_gpus_that_are_full_or_not_there(self):
        self.gpus(1, RUNG_SIM_GPU_BYTES="100000")
        top = self.json_of("numa", *self.SMALL, "--only", "gpu,peer", code=77)
        whys = {result["absent"] for result in top["results"]}
        self.assertTrue(any("bytes to measure with: out of memory (cudaErrorMemoryAllocation)" in why for why in whys), whys)
        self.assertEqual((top["gpu_peer"], top["gpu_gather"]), ([], []))
        self.assertEqual({copy["to_gpu_bytes_per_s"] for copy in top["gpu_copy"]}, {None})
        for count, why in (("0", "cudaErrorNoDevice"), ("none", "cudaErrorInsufficientDriver")):
            self.gpus(1, RUNG_SIM_GPUS=count)
            self.assertRegex(self.run_rung("numa", "--only", "gpu", code=77).stdout, r"\n  gpu: no GPU \(cuda: looking for GPUs: .*%s" % why)


class Usage(NumaTest):
    def test_arguments(self):
        self.fails("numa", "--topology", "DIR", code=2, says="Too many arguments")
        self.fails("numa", "--root", code=2, says="--root")
        self.fails("numa", "--root", self.path(), code=2, says="it can be shown (--topology), not measured")
        self.fails("numa", "--topology", "--quick", code=2, says="--quick is of measuring")
        self.fails("numa", "--topology", "--csv", code=2, says="--csv is of measuring")
        self.fails("numa", "--csv", "--json", code=2, says="give one of them")
        self.fails("numa", "--dir-size", "1GiB", code=2, says="--dir-size is of the file that --dir writes")
        for text in ("", ",", "latency,", "latency,,touch", "everything"):
            self.fails("numa", "--only", text, code=2, says="--only: ")
        for option, text in (("--rows", "3"), ("--rows", "1048577"), ("--rows", "512,"), ("--rows", "x"), ("--depths", "0"), ("--depths", "129"), ("--samples", "0"),
                             ("--samples", "1001"), ("--seconds", "0"), ("--seconds", "61"), ("--seconds", "nan"), ("--memory", "10%"),
                             ("--memory", "0"), ("--dir-size", "max")):
            with self.subTest(option=option, text=text):
                self.fails("numa", option, text, code=2, says=option)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""rung numa --topology: recorded and synthetic machines, missing and malformed files."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import RUNG, main
from machine import FIXTURES
from numatest import NumaTest

MACHINES = sorted(name[:-len(".machine")] for name in os.listdir(FIXTURES)
                  if name.endswith(".machine"))
NODE0 = "sys/devices/system/node/node0/"
GPU0 = "sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:00.0/0000:1a:00.0/"
GPU1 = ("sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:02.0/0000:1c:00.0/0000:1d:00.0/"
        "0000:1e:00.0/")
NVME0 = "sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:01.0/0000:1b:00.0/"


class Machines(NumaTest):
    def test_tables_and_json_of_every_machine(self):
        self.assertGreater(len(MACHINES), 8)
        for name in MACHINES:
            with self.subTest(name):
                root = self.machine(name)
                self.golden(os.path.join(FIXTURES, name + ".txt"),
                            self.run_rung("numa", "--topology", "--root", root).stdout)
                done = self.run_rung("numa", "--topology", "--root", root, "--json")
                self.golden(os.path.join(FIXTURES, name + ".json"), done.stdout)
                self.assertEqual(done.stderr, "")
                self.consistent(json.loads(done.stdout))

    def consistent(self, top):
        """Check rules that hold on every machine, independently of the golden files."""
        nodes, gpus, nvme = top["nodes"], top["gpus"], top["nvme"]
        numbers = [node["node"] for node in nodes]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual([len(row) for row in top["distances"]], [len(nodes)] * len(nodes))
        for kind, rows, columns in (("gpu_gpu", gpus, gpus), ("gpu_nvme", gpus, nvme),
                                    ("nvme_nvme", nvme, nvme),
                                    ("gpu_node", gpus, nodes), ("nvme_node", nvme, nodes)):
            self.assertEqual([len(row) for row in top["links"][kind]], [len(columns)] * len(rows),
                             kind)
        for kind in ("gpu_gpu", "nvme_nvme"):
            links = top["links"][kind]
            self.assertEqual(links, [list(column) for column in zip(*links)],
                             kind + " is symmetric")
            self.assertEqual([row[i] for i, row in enumerate(links)], ["X"] * len(links))

    def test_links_of_two_sockets(self):
        """The expected links were derived by hand from the comment in the recorded tree."""
        links = self.topology("two-sockets")["links"]
        self.assertEqual(links["gpu_gpu"], [["X", "PXB", "SYS", "SYS"], ["PXB", "X", "SYS", "SYS"],
                                            ["SYS", "SYS", "X", "PHB"], ["SYS", "SYS", "PHB", "X"]])
        self.assertEqual(links["gpu_nvme"], [["PIX", "PXB"] + ["SYS"] * 4,
                                             ["PXB", "PIX"] + ["SYS"] * 4,
                                             ["SYS", "SYS"] + ["NODE"] * 4,
                                             ["SYS", "SYS"] + ["NODE"] * 4])
        self.assertEqual(links["nvme_nvme"][2], ["SYS", "SYS", "X", "PIX", "PHB", "PHB"])
        self.assertEqual(links["nvme_nvme"][4][5], "PHB")
        self.assertEqual(links["gpu_node"], [["NODE", "SYS"]] * 2 + [["SYS", "NODE"]] * 2)

    def test_memory_of_a_gpu_is_its_own_node(self):
        top = self.topology("grace-hopper")
        self.assertEqual(top["nodes"][1]["gpu"], "0009:01:00.0")
        self.assertEqual(top["gpus"][0]["memory_node"], 1)
        self.assertEqual(top["links"]["gpu_node"], [["NODE", "X"] + ["SYS"] * 7])

    def test_virtual_functions_are_not_gpus(self):
        """Other devices of the vendor count as GPUs only if its GPU driver is bound to them."""
        gpus = [gpu["bus_id"] for gpu in self.topology("two-sockets")["gpus"]]
        top = self.topology("two-sockets", GPU0 + "physfn -> ../0000:19:00.0",
                            GPU1 + "class = 0x040300")
        self.assertEqual([gpu["bus_id"] for gpu in top["gpus"]], gpus[1:],
                         "the driver nvidia is bound to it")
        top = self.topology("two-sockets", GPU1 + "class = 0x040300",
                            GPU1 + "driver -> ../../bus/pci/drivers/snd_hda_intel")
        self.assertEqual([gpu["bus_id"] for gpu in top["gpus"]], gpus[:1] + gpus[2:])

    def test_nodes_and_cores_a_job_may_use(self):
        top = self.topology("two-sockets")
        self.assertEqual(top["cpus"]["allowed"], "0-7")
        self.assertEqual([node["cpus_allowed"] for node in top["nodes"]], ["0-7", ""])
        self.assertEqual([node["memory_allowed"] for node in top["nodes"]], [True, False])
        self.assertEqual(top["memory"]["limit_bytes"], 64 << 30)
        self.assertEqual(top["memory"]["available_bytes"], 62 << 30)

    def test_the_root_may_contain_links(self):
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
        self.assertEqual(placement["can_query"], placement["query_why"] is None)
        self.assertIn("its placement can", self.run_rung("numa", "--topology").stdout)

    def test_processors_the_process_may_not_use(self):
        mine = sorted(os.sched_getaffinity(0))
        done = subprocess.run([RUNG, "numa", "--topology", "--json"], capture_output=True,
                              text=True, check=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, mine[-1:]))
        self.assertEqual(json.loads(done.stdout)["cpus"]["allowed"], str(mine[-1]))


class Absent(NumaTest):
    """Any file may be missing: its values are then unknown, and all others unchanged."""

    def test_each_file_missing(self):
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

    def test_each_file_unreadable(self):
        if os.geteuid() == 0:
            self.skipTest("root may read every file")
        root = self.machine("two-sockets")
        os.chmod(os.path.join(root, NODE0, "meminfo"), 0)
        self.assertIsNone(self.json_of("numa", "--topology", "--root",
                                       root)["nodes"][0]["total_bytes"])

    def test_unknown_values(self):
        top = self.topology("two-sockets", NODE0 + "cpulist !", NODE0 + "distance !",
                            NODE0 + "meminfo !", NODE0 + "hugepages !",
                            "proc !", GPU0 + "numa_node !", GPU0 + "driver !",
                            GPU0 + "current_link_speed !")
        node, gpu = top["nodes"][0], top["gpus"][0]
        for key in ("cpus", "cpu_count", "cpus_allowed", "memory_allowed", "total_bytes",
                    "free_bytes"):
            self.assertIsNone(node[key], key)
        self.assertEqual(node["huge_pages"], [])
        self.assertEqual(top["distances"], [[None, None], [21, 10]])
        self.assertEqual(top["memory"], {"total_bytes": None, "available_bytes": None,
                                         "limit_bytes": None, "nodes_allowed": None})
        self.assertEqual((gpu["node"], gpu["driver"], gpu["pcie"]["gt_per_s"], gpu["model"]),
                         (None, None, None, None))
        self.assertEqual(top["links"]["gpu_node"][0], [None, None])
        self.assertEqual(top["links"]["gpu_gpu"][0], ["X", "PXB", None, None])

    def test_empty_root(self):
        os.mkdir(self.path("empty"))
        self.fails("numa", "--topology", "--root", self.path("empty"), code=1,
                   says=["neither node/online nor cpu/online", "sysfs"])

    def test_missing_root(self):
        self.fails("numa", "--topology", "--root", self.path("none"), code=1,
                   says=[self.path("none"), "No such file"])
        with open(self.path("file"), "w", encoding="ascii"):
            pass
        self.fails("numa", "--topology", "--root", self.path("file"), code=1,
                   says=[self.path("file"), "not a folder"])


class Malformed(NumaTest):
    def refused(self, line, value, what):
        """Check that a machine with this line is refused with file, value and expected form."""
        path = line.split()[0].rstrip("/")
        said = self.fails("numa", "--topology", "--root", self.machine("two-sockets", line), code=1,
                          says=[value, what])
        self.assertIn(os.path.basename(path) + (": '" + value if value else ""), said)
        self.assertTrue(said.rstrip("\n").isprintable(), said)

    def test_lists(self):
        online = "sys/devices/system/node/online"
        for text in ("0-", "-1", "1-0", "0,0", "0-1,1", "0,,1", ",0", "0,", "a", "0 1", "0x1",
                     "1024", "0-1024", "4294967296", "99999999999999999999",
                     "0-1\\n2", "\\x1b[2J"):
            with self.subTest(text):
                self.refused("%s = %s" % (online, text),
                             text.replace("\\n", "?").replace("\\x1b", "?"),
                             "not a list of numbers below 1024")
        for path in ("sys/devices/system/cpu/online", NODE0 + "cpulist"):
            self.refused(path + " = 0-65536", "0-65536", "not a list of numbers below 65536")
        self.refused(online + " =", "", "it is empty")
        self.refused(online + " = \\c", "", "it is empty")
        self.refused("proc/self/status = Cpus_allowed_list:\\t0-3-5", "0-3-5", "a list of numbers")
        self.refused("sys/devices/system/node/has_cpu = none", "none", "a list of numbers")

    def test_memory(self):
        for text, value, what in (("garbage", "garbage", "lacks MemTotal"),
                                  ("\\c", "", "lacks MemTotal"),
                                  ("Node 0 MemTotal: 5 kB", "Node 0 MemTotal: 5 kB",
                                   "lacks MemTotal or MemFree"),
                                  ("Node 0 MemTotal: 5 MB\\nNode 0 MemFree: 1 kB", "5 MB", "in kB"),
                                  ("Node 0 MemTotal: -5 kB\\nNode 0 MemFree: 1 kB", "-5 kB",
                                   "in kB"),
                                  ("Node 0 MemTotal:\\nNode 0 MemFree: 1 kB", "", "in kB"),
                                  ("Node 0 MemTotal: 18014398509481984 kB\\nNode 0 MemFree: 1 kB",
                                   "18014398509481984 kB", "in kB")):
            with self.subTest(text):
                self.refused(NODE0 + "meminfo = " + text, value, what)
        pages = NODE0 + "hugepages/hugepages-2048kB/"
        self.refused(pages + "nr_hugepages = many", "many", "a number up to")
        self.refused(pages + "free_hugepages = 18446744073709551616", "18446744073709551616",
                     "a number up to")

    def test_distances_and_ratings(self):
        self.refused(NODE0 + "distance = 10", "", "has 1 distances, but 2 nodes are online")
        self.refused(NODE0 + "distance = 10 20 30", "", "has 3 distances, but 2 nodes are online")
        self.refused(NODE0 + "distance = 10 256", "256", "a distance up to 255")
        self.refused(NODE0 + "distance = ten 20", "ten", "a distance up to 255")
        self.refused(NODE0 + "access0/initiators/read_bandwidth = 17592186044416", "17592186044416",
                     "a number up to 17592186044415")
        self.refused(NODE0 + "access1/initiators/write_latency = 1.5", "1.5", "a number up to")

    def test_devices(self):
        self.refused(GPU0 + "class = 0x1030200", "0x1030200", "a hexadecimal number up to ffffff")
        self.refused(GPU0 + "vendor = nvidia", "nvidia", "a hexadecimal number")
        self.refused(GPU0 + "numa_node = -2", "-2", "the number of a node below 1024, or -1")
        self.refused(GPU0 + "numa_node = 1024", "1024", "the number of a node")
        self.refused(GPU0 + "current_link_speed = fast", "fast", "a speed such as")
        self.refused(GPU0 + "max_link_speed = 16.0 PCIe", "16.0 PCIe", "a speed such as")
        self.refused(GPU0 + "current_link_width = 256", "256", "a number up to 255")
        self.refused("proc/driver/nvidia/gpus/0000:1a:00.0/numa_status = Node: one", "one",
                     "the number of a node")
        self.refused(NVME0 + "nvme/nvme0/nvme0n1/size = -1", "-1", "a number up to")

    def test_files_and_links_of_wrong_kind(self):
        for line in (NODE0 + "cpulist/", NODE0 + "distance/"):
            self.refused(line, "", "not a regular file")
        self.refused(GPU0 + "driver = nvidia", "", "not a link")
        self.refused(NODE0 + "cpulist = 0\\x001", "0", "a null byte")
        self.refused(NODE0 + "cpulist = " + "0" * 65536, "", "has 65536 bytes or more")
        self.refused(NODE0 + "cpulist = " + "1," * 1000, "1," * 30 + "...", "a list of numbers")

    def test_a_fifo_does_not_block(self):
        root = self.machine("two-sockets", NODE0 + "cpulist !")
        os.mkfifo(os.path.join(root, NODE0, "cpulist"))
        self.fails("numa", "--topology", "--root", root, code=1,
                   says=["cpulist", "not a regular file"])

    def test_link_loops_and_links_out_of_the_root(self):
        entry = "sys/bus/pci/devices/0000:1a:00.0"
        for line in (entry + " -> 0000:1a:00.0", NODE0 + "cpulist -> cpulist",
                     "sys/block/nvme0n1 -> nvme0n1"):
            with self.subTest(line):
                self.fails("numa", "--topology", "--root", self.machine("two-sockets", line),
                           code=1,
                           says=[line.split()[0], "Too many levels of symbolic links"])
        os.makedirs(self.path("outside", "0000:1a:00.0"))
        for name, text in (("class", "0x030200"), ("vendor", "0x10de")):
            with open(self.path("outside", "0000:1a:00.0", name), "w", encoding="ascii") as file:
                file.write(text)
        self.fails("numa", "--topology", "--root",
                   self.machine("two-sockets",
                                entry + " -> " + self.path("outside", "0000:1a:00.0")), code=1,
                   says=[entry, self.path("outside"), "which is not in"])

    def test_text_of_devices_is_printable(self):
        top = self.topology("two-sockets", NVME0 + "nvme/nvme0/model = \\x1b[31mred\\xff\\x20",
                            "proc/driver/nvidia/gpus/0000:1a:00.0/information = Model: "
                            "\\t\\x07bell")
        self.assertEqual(top["nvme"][0]["model"], "?[31mred?")
        self.assertEqual(top["gpus"][0]["model"], "?bell")

    def test_too_many_devices_or_page_sizes(self):
        root = self.machine("two-sockets", *("sys/block/nvme7n%d/" % (i + 1) for i in range(4100)))
        self.fails("numa", "--topology", "--root", root, code=1,
                   says=["4110 GPUs and drives; at most 4096"])
        root = self.machine("two-sockets", *(NODE0 + "hugepages/hugepages-%dkB/" % (1 << i)
                                             for i in range(17)))
        self.fails("numa", "--topology", "--root", root, code=1, says=["page sizes; at most 16"])


class Usage(NumaTest):
    def test_arguments(self):
        self.fails("numa", "--topology", "DIR", code=2, says="arguments")
        self.fails("numa", "--root", code=2, says="--root")
        self.fails("numa", "--root", self.path(), code=2,
                   says="--root: a recorded machine cannot be measured; add --topology")
        self.fails("numa", "--topology", "--quick", code=2,
                   says="--quick and --topology exclude each other")
        self.fails("numa", "--topology", "--csv", code=2,
                   says="--csv and --topology exclude each other")
        self.fails("numa", "--csv", "--json", code=2, says="give only one")
        self.fails("numa", "--dir-size", "1GiB", code=2,
                   says="--dir-size needs --dir")
        for text in ("", ",", "latency,", "latency,,touch", "everything"):
            self.fails("numa", "--only", text, code=2, says="--only: ")
        for option, text in (("--row-bytes", "3"), ("--row-bytes", "1048577"),
                             ("--row-bytes", "512,"),
                             ("--row-bytes", "x"), ("--depths", "0"), ("--depths", "129"),
                             ("--samples", "0"),
                             ("--samples", "1001"), ("--seconds", "0"), ("--seconds", "61"),
                             ("--seconds", "nan"), ("--memory", "10%"),
                             ("--memory", "0"), ("--dir-size", "max")):
            with self.subTest(option=option, text=text):
                self.fails("numa", option, text, code=2, says=option)


if __name__ == "__main__":
    main()

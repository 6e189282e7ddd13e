# SPDX-License-Identifier: Apache-2.0
"""rung numa in a virtual machine of three nodes: compared with the machine's settings, and with the
fixture that record.sh makes of it.

The machine has two sockets, memory without CPUs with ratings in a firmware table (HMAT), a CPU that
is offline, a drive with two controllers, a drive below a bridge of node 1, and two drives at a
switch there. Skipped where test_vm.py is.
"""
import json
import os
import re
import shutil
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from clitest import RUNG
from emulate import KERNEL_OPTIONS, emulate
from machine import put
from test_vm import kernel, missing, run, which

RECORD = os.path.join(HERE, "..", "fixtures", "record.sh")
GIB_PER_S = {0: {0: 200, 1: 100, 2: 20}, 1: {0: 100, 1: 200, 2: 30}}   # from socket to node
LATENCY_NS = {0: {0: 90, 1: 150, 2: 300}, 1: {0: 150, 1: 90, 2: 250}}
DISTANCES = [[10, 21, 31], [21, 10, 17], [31, 17, 10]]

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs d /dev; mount -t proc p /proc; mount -t sysfs s /sys
echo 0 > /sys/devices/system/cpu/cpu3/online
echo 4 > /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages
echo "[begin all]"; /rung numa --topology --json; echo "[end $?]"
echo "[begin measured]"
/rung numa --quick --samples 1 --seconds 0.001 --only latency,touch --json --quiet
echo "[end $?]"
echo "[begin record]"; sh /record.sh; echo "[end $?]"
mkdir /cgroup; mount -t cgroup2 c /cgroup
echo +cpuset > /cgroup/cgroup.subtree_control; mkdir /cgroup/job
echo 0 > /cgroup/job/cpuset.cpus; echo 0,2 > /cgroup/job/cpuset.mems
echo $$ > /cgroup/job/cgroup.procs
echo "[begin job]"; /rung numa --topology --json; echo "[end $?]"
poweroff -f
"""


def numa_options():
    options = []
    for node, cpus in ((0, ",cpus=0-1,initiator=0"), (1, ",cpus=2-3,initiator=1"),
                       (2, ",initiator=1")):
        options += ["-object", "memory-backend-ram,id=m%d,size=256M" % node, "-numa",
                    "node,nodeid=%d,memdev=m%d%s" % (node, node, cpus)]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        options += ["-numa", "dist,src=%d,dst=%d,val=%d" % (a, b, DISTANCES[a][b])]
    for socket in (0, 1):
        for node in (0, 1, 2):
            place = "hmat-lb,initiator=%d,target=%d,hierarchy=memory,data-type=access-" % (
                socket, node)
            options += ["-numa", "%slatency,latency=%d" % (place, LATENCY_NS[socket][node]),
                        "-numa", "%sbandwidth,bandwidth=%dG" % (place, GIB_PER_S[socket][node])]
    return options


def device_options(disks):
    options = []
    for line in ("pxb-pcie,id=px,bus=pcie.0,bus_nr=64,numa_node=1",
                 "pcie-root-port,id=rp0,bus=px,chassis=1",
                 "pcie-root-port,id=rp1,bus=px,chassis=2,slot=2", "x3130-upstream,id=sw0,bus=rp1",
                 "xio3130-downstream,id=down0,bus=sw0,chassis=3,slot=3",
                 "xio3130-downstream,id=down1,bus=sw0,chassis=4,slot=4",
                 "nvme,serial=a,drive=d0,bus=rp0", "nvme,serial=b,drive=d1,bus=down0",
                 "nvme,serial=c,drive=d2,bus=down1,logical_block_size=4096,"
                 "physical_block_size=4096",
                 "nvme-subsys,id=both", "nvme,id=first,serial=d,subsys=both,bus=pcie.0",
                 "nvme,serial=d,subsys=both,bus=pcie.0",
                 "nvme-ns,drive=d3,bus=first,shared=on", "VGA,bus=pcie.0"):
        options += ["-device", line]
    for number, disk in enumerate(disks):
        options += ["-drive", "file=%s,if=none,format=raw,id=d%d" % (disk, number)]
    return options


class Numa(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        reason = missing()
        if reason:
            raise unittest.SkipTest(reason)
        holder = tempfile.TemporaryDirectory(prefix="rung-vm-numa-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = holder.name
        cls.make_initramfs(os.path.join(cls.folder, "root"))
        cls.said = cls.boot()

    @staticmethod
    def make_initramfs(root):
        for name in ("bin", "dev", "proc", "sys", "tmp", "lib64"):
            os.makedirs(os.path.join(root, name))
        shutil.copy(which("busybox"), os.path.join(root, "bin", "busybox"))
        shutil.copy(RUNG, os.path.join(root, "rung"))
        shutil.copy(RECORD, os.path.join(root, "record.sh"))
        for file in re.findall(r"(/\S+) \(0x", run("ldd", RUNG)):
            to = root + os.path.abspath(file)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(file, to)
        with open(os.path.join(root, "init"), "w", encoding="ascii") as file:
            file.write(INIT)
        os.chmod(os.path.join(root, "init"), 0o755)
        run("sh", "-c", "find . | cpio -o -H newc --quiet > ../initramfs", cwd=root)

    @classmethod
    def boot(cls):
        disks = [os.path.join(cls.folder, "disk%d" % number) for number in range(4)]
        for disk in disks:
            with open(disk, "wb") as file:
                file.truncate(64 << 20)
        command = [which("qemu-system-x86_64"), "-machine", "q35,hmat=on", "-accel",
                   "tcg,thread=multi", "-cpu", "max",
                   "-smp", "4,sockets=2,cores=2", "-m", "768", *numa_options(),
                   "-kernel", kernel(), "-initrd", os.path.join(cls.folder, "initramfs"),
                   "-append", KERNEL_OPTIONS, *device_options(disks),
                   "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio",
                   "-monitor", "none", "-no-reboot"]
        return emulate(command)

    def part(self, name):
        """The output between begin and end of a command, which must exit with 0."""
        found = re.search(r"^\[begin %s\]\n(.*?)^\[end (\d+)\]$" % name, self.said, re.M | re.S)
        self.assertTrue(found, self.said[-4000:])
        self.assertEqual(found[2], "0", found[1])
        return found[1]

    def topology(self, name):
        return json.loads(self.part(name))

    def test_nodes(self):
        top = self.topology("all")
        nodes = top["nodes"]
        self.assertEqual([(node["node"], node["cpus"], node["cpus_offline"]) for node in nodes],
                         [(0, "0-1", ""), (1, "2", "3"), (2, "", "")])
        self.assertEqual([(node["has_cpu"], node["has_memory"]) for node in nodes],
                         [(True, True), (True, True), (False, True)])
        self.assertEqual(top["distances"], DISTANCES)
        self.assertEqual([page["total"] for page in nodes[1]["huge_pages"]
                          if page["page_bytes"] == 2 << 20], [4])
        for node in nodes:
            self.assertLess(node["free_bytes"], node["total_bytes"])
            self.assertLess(node["total_bytes"], 257 << 20)

    def test_firmware_ratings(self):
        for node in self.topology("all")["nodes"]:
            near = 0 if node["node"] == 0 else 1
            self.assertGreaterEqual(len(node["rated"]), 1)
            for rated in node["rated"]:
                self.assertEqual(rated["from_nodes"], str(near))
                self.assertEqual(rated["read_bytes_per_s"], GIB_PER_S[near][node["node"]] << 30)
                self.assertEqual(rated["read_latency_ns"], LATENCY_NS[near][node["node"]])

    def test_drives(self):
        top = self.topology("all")
        drives = {drive["name"]: drive for drive in top["nvme"]}
        shared = [name for name, drive in drives.items() if drive["node"] is None]
        placed = [name for name, drive in drives.items() if drive["node"] == 1]
        self.assertEqual((len(shared), len(placed), len(drives)), (1, 3, 4))
        self.assertEqual({drive["transport"] for drive in drives.values()}, {"pcie"})
        self.assertEqual({drive["driver"] for drive in drives.values()}, {"nvme"})
        self.assertEqual({drive["bytes"] for drive in drives.values()}, {64 << 20})
        self.assertEqual(sorted(drive["sector_bytes"] for drive in drives.values()),
                         [512, 512, 512, 4096])
        self.assertEqual(top["gpus"], [], "the emulated VGA device is not a GPU")
        links = {(a, b): top["links"]["nvme_nvme"][i][j] for i, a in enumerate(drives) for j,
                 b in enumerate(drives)}
        self.assertEqual(sorted(links[a, b] for a in placed for b in placed if a < b),
                         ["PHB", "PHB", "PIX"])
        self.assertEqual([links[shared[0], name] for name in placed], [None] * 3)
        self.assertEqual([row for name, row in zip(drives, top["links"]["nvme_node"])
                          if name in placed], [["SYS", "NODE", "SYS"]] * 3)

    def test_memory_can_be_placed(self):
        built_in = "\n  numa      yes" in run(RUNG, "--version")
        placement = self.topology("all")["placement"]
        self.assertEqual((placement["can_bind"], placement["can_query"]), (built_in, built_in),
                         placement)

    def test_memory_is_measured_on_its_node(self):
        """All nodes have memory, the third has no CPUs. The speed of an emulated machine is
        meaningless."""
        top = self.topology("measured")
        self.assertEqual([[latency is None for latency in row] for row in top["latency_ns"]],
                         [[False] * 3, [False] * 3, [True] * 3] if top["placement"]["can_bind"]
                         else [[False, False, True]] * 2 + [[True] * 3])
        for result in top["results"]:
            if result["absent"] and result["cpu_node"] == 2:
                self.assertRegex(result["absent"], "node 2 has no CPUs|cannot be put on node 2")
            elif result["absent"]:
                self.assertRegex(result["absent"], "huge pages|cannot be put on node 2")
            elif top["placement"]["can_query"]:
                self.assertGreaterEqual(result["placement_share"], 0.95)

    def test_a_cpuset_limits_cpus_and_nodes(self):
        top = self.topology("job")
        self.assertEqual((top["cpus"]["allowed"], top["memory"]["nodes_allowed"]), ("0", "0,2"))
        self.assertEqual([node["memory_allowed"] for node in top["nodes"]], [True, False, True])
        self.assertEqual([node["cpus_allowed"] for node in top["nodes"]], ["0", "", ""])

    def test_a_recording_matches_the_machine(self):
        root = os.path.join(self.folder, "recorded")
        for line in self.part("record").splitlines():
            put(root, line)
        recorded, there = json.loads(run(RUNG, "numa", "--topology", "--json", "--root",
                                         root)), self.topology("all")
        for top in (recorded, there):
            del top["placement"], top["memory"]["available_bytes"]
            for node in top["nodes"]:
                del node["free_bytes"], node["available_bytes"]
        self.assertEqual(recorded, there)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    if result.wasSuccessful() and (result.skipped and not result.testsRun):
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)

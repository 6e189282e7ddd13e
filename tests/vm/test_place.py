# SPDX-License-Identifier: Apache-2.0
"""Placement of memory and threads, in virtual machines of two and of four nodes: place_guest.c
checks it page by page.

The drive is at node 1. The larger machine has memory without CPUs, and nodes of several sizes.
Skipped where test_vm.py is; without KVM a machine takes about twenty seconds.
"""
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from emulate import KERNEL_OPTIONS, emulate
from test_vm import kernel, make_disk, make_initramfs, missing, run, which

GUEST = os.environ.get("RUNG_VM_PLACE_GUEST", "")

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs d /dev; mount -t proc p /proc; mount -t sysfs s /sys
mkdir -p -m 700 /run/rung; mkdir /dev/shm; mount -t tmpfs m /dev/shm; ulimit -l unlimited
mount -t ext4 /dev/nvme0n1p1 /data || exec poweroff -f
/guest check /data/ds 1 %s
echo "guest ended with $?"
poweroff -f
"""


class Place(unittest.TestCase):
    def setUp(self):
        reason = missing()
        if reason:
            self.skipTest(reason)
        holder = tempfile.TemporaryDirectory(prefix="rung-vm-place-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        files = self.path("files")
        os.mkdir(files)
        run(GUEST, "make", files)
        for name in os.listdir(files):   # the sources
            if name != "ds":
                os.unlink(os.path.join(files, name))
        make_disk(self.path("disk"), files, 512, 1024, 8192)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def boot(self, nodes, distances):
        """Each node is (MiB, CPUs)."""
        options, cpu = [], 0
        for number, (size, cpus) in enumerate(nodes):
            on = ",cpus=%d-%d" % (cpu, cpu + cpus - 1) if cpus else ""
            options += ["-object", "memory-backend-ram,id=m%d,size=%dM" % (number, size), "-numa",
                        "node,nodeid=%d,memdev=m%d%s" % (number, number, on)]
            cpu += cpus
        for (a, b), distance in distances.items():
            options += ["-numa", "dist,src=%d,dst=%d,val=%d" % (a, b, distance)]
        for line in ("pxb-pcie,id=px,bus=pcie.0,bus_nr=64,numa_node=1",
                     "pcie-root-port,id=rp,bus=px,chassis=1",
                     "nvme,serial=rung,drive=disk,bus=rp,max_ioqpairs=8"):
            options += ["-device", line]
        command = [which("qemu-system-x86_64"), "-machine", "q35", "-accel", "tcg,thread=multi",
                   "-cpu", "max", "-smp", str(cpu),
                   "-m", str(sum(size for size, _ in nodes)), "-drive",
                   "file=%s,if=none,format=raw,id=disk" % self.path("disk"), *options,
                   "-kernel", kernel(), "-initrd", self.path("initramfs"),
                   "-append", KERNEL_OPTIONS,
                   "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio",
                   "-monitor", "none", "-no-reboot"]
        return emulate(command)

    def places_are_kept(self, order, nodes, distances):
        make_initramfs(self.folder, INIT % order, GUEST)
        said = self.boot(nodes, distances)
        self.assertIn("guest ended with 0", said)
        self.assertNotIn("FAILED", said)
        for what in ("near nodes come first", "a node that is too small is an error",
                     "an attached store", "interleave uses all nodes"):
            self.assertIn("ok " + what, said)

    def test_two_nodes(self):
        self.places_are_kept("0", [(256, 1), (192, 1)], {(0, 1): 21})

    def test_four_nodes_one_without_cpus(self):
        self.places_are_kept("3,0,2", [(192, 1), (160, 2), (128, 1), (96, 0)],
                             {(0, 1): 20, (0, 2): 30, (0, 3): 40, (1, 2): 30, (1, 3): 17,
                              (2, 3): 40})


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    if result.wasSuccessful() and result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)

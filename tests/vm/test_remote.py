# SPDX-License-Identifier: Apache-2.0
"""Datasets on a drive of another machine, over NVMe/TCP: two virtual machines on one network, and
remote_guest.c in the second one.

The target exports its drive. The client mounts it, gathers rows, loses the target for a while, and
has the hottest rows on its own drive. At last it removes the drive, as the kernel does after
ctrl_loss_tmo, and mounts it again. Skipped where test_vm.py is, or without the kernel's modules.
"""
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from emulate import KERNEL_OPTIONS
from test_vm import kernel, kernel_modules, make_initramfs, missing, run, which

GUEST = os.environ.get("RUNG_VM_REMOTE_GUEST", "")
RUNG = os.environ.get("RUNG", "")
SHARE = 40              # per cent of the rows that are on the client's own drive
NEAR_ROWS = 1500        # fewer than those
OUTAGES = 3
LIMIT = 120             # seconds until the next line; a slow machine needs less

# Reads fail two seconds after the client has noticed that the target does not answer.
CONNECT = ("transport=tcp,traddr=10.0.0.1,trsvcid=4420,nqn=rung,keep_alive_tmo=2,"
           "reconnect_delay=1,fast_io_fail_tmo=2,ctrl_loss_tmo=600")

BEGIN = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs d /dev; mount -t proc p /proc; mount -t sysfs s /sys
ulimit -l unlimited
for module in %s; do insmod /modules/$module.ko || echo "$module was not loaded"; done
ip link set lo up; ip link set eth0 up; ip addr add %s/24 dev eth0
"""

# "unlink" and "link" on the console take the drive off the network, and back. Without a constant
# device_uuid the drive gets a random one at each start, and the client refuses it.
TARGET = """
mount -t configfs c /sys/kernel/config; cd /sys/kernel/config/nvmet
mkdir subsystems/rung; echo 1 > subsystems/rung/attr_allow_any_host
mkdir subsystems/rung/namespaces/1
echo -n /dev/nvme0n1 > subsystems/rung/namespaces/1/device_path
echo 5f2c1a34-8f0e-4b6d-9d57-0a1b2c3d4e5f > subsystems/rung/namespaces/1/device_uuid
echo 1 > subsystems/rung/namespaces/1/enable
mkdir ports/1
echo tcp > ports/1/addr_trtype; echo ipv4 > ports/1/addr_adrfam
echo 10.0.0.1 > ports/1/addr_traddr; echo 4420 > ports/1/addr_trsvcid
ln -s $PWD/subsystems/rung ports/1/subsystems/rung || exec poweroff -f
echo "the target is ready"
while read word; do
  case $word in
  unlink) rm ports/1/subsystems/rung ;;
  link) ln -s $PWD/subsystems/rung ports/1/subsystems/rung ;;
  esac
  echo "$word: $?"
done
"""

CLIENT = """
mkdir /near /far
mount -t ext4 -o ro,noload /dev/nvme0n1 /near || exec poweroff -f
mount_far() {
  for i in $(seq 60); do [ -b /dev/nvme1n1 ] || { sleep 0.5; echo "%s" > /dev/nvme-fabrics; }; done
  mount -t ext4 -o ro,noload /dev/nvme1n1 /far || exec poweroff -f
}
mount_far
/guest outage /far/ds 1000 "%s"; echo "outage 1 ended with $?"
/guest outage /far/ds 30000 "%s"; echo "outage 2 ended with $?"
/guest outage /near/share 30000 "%s" %d; echo "outage 3 ended with $?"
/guest removed /far/ds /sys/class/nvme/nvme1/delete_controller; echo "removed ended with $?"
umount /far && mount_far
[ ! -e /bin/tc-netem ] || tc-netem qdisc add dev eth0 root netem delay 2ms loss 1%%
rung bench /far/ds --host 256KiB --ids uniform -n 2000 -b 500 --check --quiet
echo "bench ended with $?"
[ ! -e /bin/tc-netem ] || tc-netem -s qdisc show dev eth0
echo "the client has ended"
poweroff -f
"""


class Console:
    """A machine, and the lines that it prints."""

    def __init__(self, name, command):
        self.name, self.said, self.lines = name, [], queue.Queue()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace")
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.replace("\r", ""))
        self.lines.put(None)

    def wait(self, text, seconds):
        """Returns once the machine has printed a line with `text`."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError("%s has not printed '%s' in %d s:\n%s" % (
                    self.name, text, seconds, "".join(self.said[-60:])))
            self.said.append(line)
            if text in line:
                return

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Remote(unittest.TestCase):
    def setUp(self):
        modules, reason = kernel_modules(), missing()
        if not reason and not {"nvme-tcp", "nvmet-tcp"} <= set(modules):
            reason = "the kernel's modules for NVMe/TCP are missing: run tests/vm/kernel.sh"
        if not reason and "dgram" not in run(which("qemu-system-x86_64"), "-netdev", "help"):
            reason = "qemu is older than 7.2, which connects machines by datagrams"
        if reason:
            self.skipTest(reason)
        holder = tempfile.TemporaryDirectory(prefix="rung-vm-remote-")
        self.addCleanup(holder.cleanup)
        self.folder, self.modules = holder.name, modules
        self.make_disks()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def make_disks(self):
        """far: the dataset "ds"; near: "share", its hottest rows and links to /far/ds."""
        for name in ("far", "near"):
            os.mkdir(self.path(name))
        run(GUEST, "make", self.path("far"))
        for name in os.listdir(self.path("far")):   # the sources
            if name != "ds":
                os.unlink(self.path("far", name))
        run(RUNG, "fetch", self.path("far", "ds"), self.path("near", "share"), "--share",
            "%d%%" % SHARE, "--quiet")
        for name in os.listdir(self.path("near", "share")):
            link = self.path("near", "share", name)
            if os.path.islink(link):
                to = os.readlink(link).replace(self.path("far"), "/far")
                os.unlink(link)
                os.symlink(to, link)
        for name in ("far", "near"):
            with open(self.path(name + ".disk"), "wb") as file:
                file.truncate(32 << 20)
            run(which("mkfs.ext4"), "-q", "-F", "-b", "4096", "-d", self.path(name),
                self.path(name + ".disk"))

    def start(self, name, peer, init, programs=()):
        folder = self.path("machine-" + name)
        if not os.path.isdir(folder):
            os.mkdir(folder)
            make_initramfs(folder, init, GUEST, programs, self.modules)
        disk = {"target": "far", "client": "near"}[name]
        machine = Console(name, [
            which("qemu-system-x86_64"), "-machine", "q35", "-accel", "tcg", "-cpu", "max",
            "-smp", "1", "-m", "256", "-kernel", kernel(), "-initrd",
            os.path.join(folder, "initramfs"), "-append",
            KERNEL_OPTIONS + " loglevel=1 nvme_core.io_timeout=4",   # no lines in others
            "-drive", "file=%s,if=none,format=raw,id=disk" % self.path(disk + ".disk"),
            "-device", "nvme,serial=rung,drive=disk", "-netdev",
            "dgram,id=net,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s" % (
                self.path(name + ".net"), self.path(peer + ".net")),
            "-device", "virtio-net-pci,netdev=net,mac=52:54:00:00:00:0%d" % (
                1 if name == "target" else 2),
            "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-monitor",
            "none", "-no-reboot"])
        self.addCleanup(machine.end)
        return machine

    def start_target(self):
        return self.start("target", "client", BEGIN % (" ".join(self.modules), "10.0.0.1") + TARGET)

    def start_client(self, programs):
        init = BEGIN % (" ".join(self.modules), "10.0.0.2") + CLIENT % (
            CONNECT, "has not completed in 1000 ms", "Input/output error", "Input/output error",
            NEAR_ROWS)
        return self.start("client", "target", init, programs)

    def test_outages(self):
        tc = which("tc") if "sch_netem" in self.modules else ""
        if not tc:
            print("delay and loss of packets are not tested: the kernel has no module sch_netem, "
                  "or there is no tc (Debian: iproute2)")
        target = self.start_target()
        client = self.start_client([(RUNG, "rung")] + ([(tc, "tc-netem")] if tc else []))
        target.wait("the target is ready", LIMIT)
        client.wait("stop the target", LIMIT)   # it does not answer
        target.process.send_signal(signal.SIGSTOP)
        client.wait("start the target", LIMIT)
        target.process.send_signal(signal.SIGCONT)
        client.wait("outage 1 ended", LIMIT)

        client.wait("stop the target", LIMIT)   # it refuses the client
        target.send("unlink")
        client.wait("start the target", LIMIT)
        target.send("link")
        client.wait("outage 2 ended", LIMIT)

        client.wait("stop the target", LIMIT)   # it fails, and starts again
        target.end()
        client.wait("start the target", LIMIT)
        self.start_target()
        client.wait("outage 3 ended", LIMIT)
        client.wait("the client has ended", LIMIT)

        said = "".join(client.said)
        print("".join(line for line in client.said if line.startswith("until ")), end="")
        self.assertNotIn("FAILED", said)
        for part in ("outage 1", "outage 2", "outage 3", "removed", "bench"):
            self.assertIn("\n%s ended with 0\n" % part, said)
        self.assertEqual(said.count("ok the open store continues"), OUTAGES)
        for file, count in (("/far/ds/features.000.npy", 2), ("/near/share/features.001.npy", 1)):
            self.assertEqual(len(re.findall(
                r": %s \(on /far, nvme-tcp 10\.0\.0\.1:4420\): row of rank .*; restore the target "
                "or the network: " % re.escape(file), said)), count, said)
        self.assertIn("checked: 0 wrong rows", said)
        if tc:
            self.assertRegex(said, r"dropped [1-9]")


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    if result.wasSuccessful() and result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)

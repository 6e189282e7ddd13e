# SPDX-License-Identifier: Apache-2.0
"""The engines on NVMe disks: guest.c in virtual machines that emulate a disk with blocks of 512 or
4096 bytes and a bad sector.

Skipped if a machine cannot be started: it needs qemu-system-x86_64, busybox, cpio, mkfs.ext4,
debugfs, and the kernel that kernel.sh fetches. Nothing is installed or mounted here, and root is
not needed. Without KVM a machine takes about ten seconds.
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from emulate import KERNEL_OPTIONS, emulate

GUEST = os.environ.get("RUNG_VM_GUEST", "")
HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEM = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
TOOLS = ("qemu-system-x86_64", "busybox", "cpio", "mkfs.ext4", "debugfs", "ldd")
PARTITION = 8 << 20        # where the file system begins on the disk
DISK = 64 << 20
ROWS_AT = 4096             # of the features file; guest.c has the same offset
BAD_ROW = 20000

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs d /dev; mount -t proc p /proc; mount -t sysfs s /sys
ip link set lo up; ulimit -l unlimited
mount -t ext4 /dev/nvme0n1p1 /data || exec poweroff -f
/guest check /data/ds %d %d
echo "guest ended with $?"
poweroff -f
"""


def which(name):
    return shutil.which(name, path=SYSTEM)


def kernel():
    done = subprocess.run(["bash", os.path.join(HERE, "kernel.sh"), "--print"], capture_output=True,
                          text=True, check=False)
    return done.stdout.strip()


def kernel_modules():
    """The paths of the kernel's modules, by name, each after those that it needs."""
    done = subprocess.run(["bash", os.path.join(HERE, "kernel.sh"), "--modules"],
                          capture_output=True, text=True, check=False)
    return {os.path.basename(path)[:-len(".ko")]: path for path in done.stdout.split()}


def missing():
    """Why no machine can be started; "" if one can."""
    if os.uname().machine != "x86_64":
        return "the machine's kernel is for x86_64"
    lacking = [name for name in TOOLS if not which(name)]
    if lacking:
        return "not installed: " + ", ".join(lacking)
    return "" if kernel() else "no kernel to boot: run tests/vm/kernel.sh"


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=120, **more)
    if done.returncode:
        raise AssertionError("%s: %s%s" % (" ".join(command), done.stdout, done.stderr))
    return done.stdout


def make_disk(disk, files, disk_block, fs_block, group_blocks):
    """A disk with one partition that contains the folder `files`. Small block groups with separate
    tables, so that files have several extents."""
    with open(disk, "wb") as file:
        file.truncate(DISK)
        file.seek(446)
        file.write(struct.pack("<B3sB3sII", 0, b"\0\0\0", 0x83, b"\0\0\0", PARTITION // disk_block,
                               (DISK - PARTITION) // disk_block))
        file.seek(510)
        file.write(b"\x55\xaa")
    run(which("mkfs.ext4"), "-q", "-F", "-b", str(fs_block), "-g", str(group_blocks), "-O",
        "^flex_bg,^has_journal,^resize_inode",
        "-E", "offset=%d" % PARTITION, "-d", files, disk,
        str((DISK - PARTITION) // fs_block) if fs_block > 1024
        else "%dk" % ((DISK - PARTITION) // 1024))


def make_initramfs(folder, init, guest, programs=(), modules=None):
    """FOLDER/initramfs, which runs the script `init` with busybox, and the program `guest` as
    /guest. Further programs are pairs of a path and a name in /bin; `modules` are paths by name."""
    root = os.path.join(folder, "root")
    for name in ("bin", "dev", "proc", "sys", "tmp", "data", "lib64", "modules"):
        os.makedirs(os.path.join(root, name))
    shutil.copy(which("busybox"), os.path.join(root, "bin", "busybox"))
    for program, name in [(guest, "guest")] + [(p, "bin/" + name) for p, name in programs]:
        shutil.copy(program, os.path.join(root, name))
        for file in re.findall(r"(/\S+) \(0x", run("ldd", program)):
            to = root + os.path.abspath(file)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(file, to)
    for name, path in (modules or {}).items():
        shutil.copy(path, os.path.join(root, "modules", name + ".ko"))
    with open(os.path.join(root, "init"), "w", encoding="utf-8") as file:
        file.write(init)
    os.chmod(os.path.join(root, "init"), 0o755)
    run("sh", "-c", "find . | cpio -o -H newc --quiet > ../initramfs", cwd=root)


class Machine(unittest.TestCase):
    def setUp(self):
        reason = missing()
        if reason:
            self.skipTest(reason)
        holder = tempfile.TemporaryDirectory(prefix="rung-vm-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        os.mkdir(self.path("files"))
        run(GUEST, "make", self.path("files"))
        for name in os.listdir(self.path("files")):   # the sources
            if name != "ds":
                os.unlink(self.path("files", name))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def sector_of(self, offset, fs_block):
        """The disk's 512-byte sector with byte `offset` of the features."""
        said = run(which("debugfs"), "-R", "bmap /ds/features.000.npy %d" % (offset // fs_block),
                   "%s?offset=%d" % (self.path("disk"), PARTITION))
        return (PARTITION + int(said.split()[-1]) * fs_block + offset % fs_block) // 512

    def boot(self, block, sector):
        with open(self.path("errors"), "w", encoding="utf-8") as file:
            file.write('[inject-error]\nevent = "none"\niotype = "read"\nerrno = "5"\nsector = '
                       '"%d"\n' % sector)
        command = [
            which("qemu-system-x86_64"), "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu",
            "max", "-smp", "2", "-m", "512",
            "-kernel", kernel(), "-initrd", self.path("initramfs"),
            "-append", KERNEL_OPTIONS + " nvme.poll_queues=1",
            "-blockdev",
            "driver=raw,file.driver=file,file.filename=%s,node-name=disk" % self.path("disk"),
            "-blockdev",
            "driver=blkdebug,image=disk,config=%s,node-name=faulty" % self.path("errors"),
            "-device",
            "nvme,serial=rung,drive=faulty,max_ioqpairs=8,logical_block_size=%d,"
            "physical_block_size=%d" % (block, block),
            "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-monitor",
            "none", "-no-reboot"]
        return emulate(command)

    def engines_pass(self, disk_block, fs_block, group_blocks):
        bad = ROWS_AT + BAD_ROW * 512
        make_disk(self.path("disk"), self.path("files"), disk_block, fs_block, group_blocks)
        make_initramfs(self.folder, INIT % (disk_block, bad), GUEST)
        said = self.boot(disk_block, self.sector_of(bad, fs_block))
        self.assertIn("guest ended with 0", said)
        self.assertNotIn("FAILED", said)
        for engine in ("pread", "io_uring", "io_uring_poll", "nvme"):
            self.assertIn("ok %s: all rows except the bad ones" % engine, said)

    def test_blocks_of_512_bytes(self):
        self.engines_pass(512, 1024, 2048)

    def test_blocks_of_4096_bytes(self):
        self.engines_pass(4096, 4096, 1024)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    if result.wasSuccessful() and result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)

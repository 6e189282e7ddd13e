# SPDX-License-Identifier: Apache-2.0
"""Limits on a command and its children by a control group: Limit on memory, page cache included,
and DeviceLimit on the reads from a disk. The group is created here if that is permitted; for
memory, else by systemd."""
import os
import shutil
import subprocess

V1 = "/sys/fs/cgroup/memory"
V1_DEVICE = "/sys/fs/cgroup/blkio"
V2 = "/sys/fs/cgroup"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def write(path, value):
    """Writes to a file of the kernel. Fails in a folder that is not a control group."""
    with open(os.open(path, os.O_WRONLY), "w", encoding="utf-8") as file:
        file.write(str(value))


def has_v2(controller):
    path = V2 + "/cgroup.controllers"
    return os.path.exists(path) and controller in read(path).split()


class Group:
    """A control group that exists while a limit is in use."""

    def __init__(self):
        self.kind = self.group = None

    def create(self, base, name, values):
        """Creates the group in `base` and writes {file: value}."""
        group = "%s/%s-%d" % (base, name, os.getpid())
        os.mkdir(group)
        self.group = group
        for file, value in values.items():
            write(group + "/" + file, value)
        self.kind = "cgroup v2" if base == V2 else "cgroup v1"

    def enter(self):
        """Called in the child before it runs the command."""
        if self.group:
            write(self.group + "/cgroup.procs", os.getpid())

    def __exit__(self, *_):
        if self.group:
            os.rmdir(self.group)
            self.group = None


class Limit(Group):
    """Usage: with Limit(bytes) as limit: subprocess.run(limit.wrap(command),
    preexec_fn=limit.enter). Then limit.kind names the method, and limit.peak() has the peak."""

    def __init__(self, limit_bytes):
        super().__init__()
        self.bytes = limit_bytes

    def __enter__(self):
        v2 = has_v2("memory")
        base, name = (V2, "memory.max") if v2 else (V1, "memory.limit_in_bytes")
        self.peak_file = "memory.peak" if v2 else "memory.max_usage_in_bytes"
        try:
            self.create(base, "rung-bench", {name: self.bytes})
        except OSError:
            self.__exit__()
            if shutil.which("systemd-run") and subprocess.run(self.scope() + [
                    "true"], stdin=subprocess.DEVNULL, capture_output=True,
                                                              check=False).returncode == 0:
                self.kind = "systemd-run"
        return self

    def scope(self):
        return ["systemd-run", "--quiet", "--scope", "--user", "-p", "MemoryMax=%d" % self.bytes,
                "-p", "MemorySwapMax=0"]

    def wrap(self, command):
        return self.scope() + command if self.kind == "systemd-run" else command

    def peak(self):
        """Peak bytes, page cache included; None if the kernel does not report it."""
        try:
            return int(read(self.group + "/" + self.peak_file)) if self.group else None
        except OSError:
            return None

    def kills(self):
        """Processes killed because of the limit; None if the kernel does not report it."""
        name = "memory.events" if self.peak_file == "memory.peak" else "memory.oom_control"
        try:
            words = dict(line.split() for line in read(self.group + "/" + name).splitlines())
            return int(words["oom_kill"]) if "oom_kill" in words else None
        except (OSError, TypeError):
            return None


def disk_of(path):
    """MAJOR:MINOR of the whole disk that holds a file: partitions cannot be limited."""
    number = os.stat(path).st_dev
    folder = os.path.realpath("/sys/dev/block/%d:%d" % (os.major(number), os.minor(number)))
    if os.path.exists(folder + "/partition"):
        folder = os.path.dirname(folder)
    return read(folder + "/dev")


class DeviceLimit(Group):
    """Usage: with DeviceLimit(file, reads_per_s, bytes_per_s) as limit: if limit.kind:
    subprocess.run(command, preexec_fn=limit.enter). Else limit.why has the reason."""

    def __init__(self, path, reads_per_s, bytes_per_s):
        super().__init__()
        self.path, self.reads_per_s, self.bytes_per_s = path, reads_per_s, bytes_per_s
        self.why = None

    def __enter__(self):
        try:
            disk = disk_of(self.path)
            if has_v2("io"):
                base = V2
                values = {"io.max": "%s riops=%d rbps=%d" % (disk, self.reads_per_s,
                                                             self.bytes_per_s)}
            else:
                base = V1_DEVICE
                values = {"blkio.throttle.read_iops_device": "%s %d" % (disk, self.reads_per_s),
                          "blkio.throttle.read_bps_device": "%s %d" % (disk, self.bytes_per_s)}
            self.create(base, "rung-bench-device", values)
        except OSError as error:
            self.__exit__()
            self.why = str(error)
        return self

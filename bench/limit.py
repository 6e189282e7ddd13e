# SPDX-License-Identifier: Apache-2.0
"""A limit on the memory of a command and its children, page cache included: a control group created
here if that is permitted, else by systemd."""
import os
import shutil
import subprocess

V1 = "/sys/fs/cgroup/memory"
V2 = "/sys/fs/cgroup"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def write(path, number):
    """Writes to a file of the kernel. Fails in a folder that is not a control group."""
    with open(os.open(path, os.O_WRONLY), "w", encoding="utf-8") as file:
        file.write(str(number))


class Limit:
    """Usage: with Limit(bytes) as limit: subprocess.run(limit.wrap(command),
    preexec_fn=limit.enter). Then limit.kind names the method, and limit.peak() has the peak."""

    def __init__(self, limit_bytes):
        self.bytes = limit_bytes
        self.kind = self.group = None

    def __enter__(self):
        v2 = os.path.exists(V2
                            + "/cgroup.controllers") and "memory" in read(
                                V2 + "/cgroup.controllers")
        base, name = (V2, "memory.max") if v2 else (V1, "memory.limit_in_bytes")
        group = "%s/rung-bench-%d" % (base, os.getpid())
        self.peak_file = "memory.peak" if v2 else "memory.max_usage_in_bytes"
        try:
            os.mkdir(group)
            self.group = group
            write(group + "/" + name, self.bytes)
            self.kind = "cgroup v2" if v2 else "cgroup v1"
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

    def enter(self):
        """Called in the child before it runs the command."""
        if self.group:
            write(self.group + "/cgroup.procs", os.getpid())

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

    def __exit__(self, *_):
        if self.group:
            os.rmdir(self.group)
            self.group = None

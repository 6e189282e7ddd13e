# SPDX-License-Identifier: Apache-2.0
"""Machines on one host: namespaces with their own network, host name, processes, temporary folder,
shared memory and limit of memory. They end with the test, also if it is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

PORT = 29517   # of a private network
MEMORY = 6 << 30
_TOOLS = ("unshare", "nsenter", "ip", "mount", "hostname")
_NAMESPACES = ("net", "mnt", "uts", "ipc", "pid")
_UNSHARE = ("unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child",
            "--mount-proc")
# The first process of a machine: it reaps orphans, and ends with the pipe that the test holds.
_FIRST = """
import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
sys.stdin.read()
"""
_GROUPS = "/sys/fs/cgroup"


def need_namespaces():
    """Skip the test if it cannot create namespaces."""
    missing = [tool for tool in _TOOLS if not shutil.which(tool)]
    if missing:
        pytest.skip(f"{', '.join(missing)} not found (util-linux, iproute2)")
    done = subprocess.run([*_UNSHARE, "ip", "link", "add", "v0", "type", "veth", "peer", "v1"],
                          capture_output=True, text=True, timeout=60)
    if done.returncode:
        pytest.skip(f"cannot create namespaces with a network, as root can: {done.stderr.strip()}")


def _run(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 or not check, f"{command}: {done.stderr}"
    return done


class Machine:
    """A machine. `temporary` is a folder of the host under which it has its own TMPDIR."""

    def __init__(self, name, address, temporary, hosts):
        self.name, self.address, self.temporary = name, address, str(temporary)
        self.runs = []
        self._keeper = subprocess.Popen([*_UNSHARE, sys.executable, "-c", _FIRST],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # not earlier: until unshare(1) has made the mounts private, ours would be the host's, too
        assert self._keeper.stdout.readline() == b"ready\n"
        children = f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children"
        with open(children, encoding="ascii") as file:
            self.first = int(file.read())   # its number on the host
        self.namespaces = self._links(self.first)
        self._group = self._limit()
        self("hostname", name)
        for folder in (self.temporary, "/dev/shm"):
            self("mount", "-t", "tmpfs", "none", folder)
        self.bind(hosts, "/etc/hosts")

    @staticmethod
    def _links(pid):
        return {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in _NAMESPACES}

    def _limit(self):
        """Limit the machine's memory in a control group. @return None: here each process has one"""
        try:
            with open(f"{_GROUPS}/cgroup.subtree_control", encoding="ascii") as file:
                assert "memory" in file.read().split()
            group = f"{_GROUPS}/rung-{os.getpid()}-{self.name}"
            os.mkdir(group)
            with open(f"{group}/memory.max", "w", encoding="ascii") as file:
                file.write(str(MEMORY))
            return group
        except (OSError, AssertionError):
            return None

    def _inside(self, command):
        names = ("--net", "--mount", "--uts", "--ipc", "--pid")
        return ["nsenter", "--target", str(self.first), *names, "--", *command]

    def __call__(self, *command, check=True):
        return _run(*self._inside(command), check=check).stdout

    def bind(self, source, target):
        self("mount", "--bind", str(source), str(target))

    def start(self, *command, **variables):
        """Start a command on the machine, with its limit of memory."""
        limit = ('echo $$ > "$0/cgroup.procs"; ' if self._group
                 else f"ulimit -d {MEMORY >> 10}; ")
        inside = self._inside(["env", f"TMPDIR={self.temporary}", *command])
        started = subprocess.Popen(["sh", "-c", limit + 'exec "$@"', self._group or "sh", *inside],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env={**os.environ, **variables})
        self.runs.append(started)
        return started

    def processes(self):
        """Return the numbers on the host of all processes but the first."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") == self.namespaces["pid"]:
                    found.append(int(pid))
            except OSError:   # it has ended
                pass
        return [pid for pid in found if pid != self.first]

    def kill(self):
        """Kill all processes but the first, as the end of an agent in a job does."""
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)

    def left(self):
        """Return what the processes have left: files, shared memory, sockets, processes."""
        deadline = time.monotonic() + 20
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        files = (self("find", self.temporary, "-mindepth", "1")
                 + self("find", "/dev/shm", "!", "-type", "d")).split()   # /dev/shm/rung-UID stays
        with open(f"/proc/{self.first}/net/unix", encoding="ascii") as file:
            sockets = [line.split()[-1] for line in file if "rung" in line]
        # logs of torchrun, and what OpenMP's library in torch leaves if a process is killed
        files = [name for name in files if "/torchelastic_" not in name and "__KMP" not in name]
        return files + sockets + self.processes()

    def end(self):
        """End the machine. @return what still exists of it"""
        self.kill()
        for started in self.runs:
            started.communicate(timeout=60)
        self._keeper.communicate(timeout=60)
        if self._group:
            os.rmdir(self._group)
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                links = self._links(pid)
            except OSError:
                continue
            found += [pid for name in _NAMESPACES if links[name] == self.namespaces[name]]
        return found


def connect(first, second, rate="400mbit"):
    """Connect two machines by a link, whose rate is limited if tc can. @return whether it is"""
    _run("nsenter", "--target", str(first.first), "--net", "ip", "link", "add", "v0", "type",
         "veth", "peer", "name", "v0", "netns", str(second.first))
    limited = shutil.which("tc") is not None
    for machine in (first, second):
        machine("ip", "address", "add", f"{machine.address}/24", "dev", "v0")
        for link in ("lo", "v0"):
            machine("ip", "link", "set", link, "up")
        if limited:
            done = _run(*machine._inside(["tc", "qdisc", "add", "dev", "v0", "root", "tbf", "rate",
                                          rate, "burst", "256kb", "latency", "50ms"]), check=False)
            limited = done.returncode == 0
    return limited

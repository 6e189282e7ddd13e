# SPDX-License-Identifier: Apache-2.0
"""The soak on files whose device fails: FUSE exports of an image that has bad sectors, is slow, or
fails at random.

usage: devices.py [--seconds N]    for each device; 3 by default, as in ctest. A full soak is
                                   --seconds 200
       devices.py --json FILE      write the counters to FILE

Exit: 0 passed, 1 failed, 77 it cannot run here; the reason is printed. SOAK is the path of the soak
program.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

SECTOR = 512
# in the features file, in rows that are always cold; two are adjacent
BAD_SECTORS = [2103, 2500, 2501, 2950]
WAIT_S = 20


def missing():
    """Why the soak cannot run on this machine, or None."""
    if not os.environ.get("SOAK"):
        return "SOAK is not set to the soak program"
    for program, package in (("qemu-storage-daemon", "qemu-system-common"), ("nbdkit", "nbdkit"),
                             ("nbdfuse", "libnbd-bin"),
                             ("fusermount3", "fuse3")):
        if not shutil.which(program):
            return "%s was not found (Debian: %s)" % (program, package)
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be opened"
    return None


class Device:
    """The features file of a dataset, replaced by an export of it."""

    def __init__(self, folder):
        self.folder = folder
        self.image = os.path.join(folder, "image")
        self.mount = os.path.join(folder, "ds", "features.000.npy")
        self.process = None
        subprocess.run([os.environ["SOAK"], "--make", folder], check=True)
        os.rename(self.mount, self.image)
        self.bytes = os.path.getsize(self.image)
        with open(self.mount, "wb"):   # the mount point
            pass

    def start(self, command):
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(WAIT_S * 100):
            if os.path.getsize(self.mount) == self.bytes:
                return True
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        self.stop()
        return False

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
            return log.read().strip()

    def qemu(self, nodes, last):
        """Export the node `last` of `nodes`, on top of the image, which is node "raw"."""
        command = ["qemu-storage-daemon"]
        for node in ["driver=file,filename=%s,node-name=file,read-only=on" % self.image,
                     "driver=raw,file=file,node-name=raw,read-only=on"] + nodes:
            command += ["--object" if node.startswith("throttle-group") else "--blockdev", node]
        return self.start(command
                          + ["--export",
                             "type=fuse,id=export,node-name=%s,mountpoint=%s" % (last, self.mount)])

    def blkdebug(self):
        config = os.path.join(self.folder, "blkdebug.cfg")
        with open(config, "w", encoding="utf-8") as file:
            for sector in BAD_SECTORS:
                file.write('[inject-error]\nevent = "none"\niotype = "read"\nerrno = "5"\nsector '
                           '= "%d"\n' % sector)
        return self.qemu(
            ["driver=blkdebug,image=raw,config=%s,node-name=bad,read-only=on" % config], "bad")

    def throttle(self):
        return self.qemu(["throttle-group,id=slow,x-iops-read=2000",
                          "driver=throttle,throttle-group=slow,file=raw,node-name=slow,"
                          "read-only=on"],
                         "slow")

    def nbd(self):
        return self.start(["nbdfuse", "-r", self.mount, "--command", "nbdkit", "-s",
                           "--filter=error", "--filter=delay", "file", self.image,
                           "error-pread=EIO", "error-pread-rate=5%", "rdelay=1ms"])

    def stop(self):
        """Unmount. The exporter then ends, or is terminated."""
        if self.process is None:
            return
        subprocess.run(["fusermount3", "-u", self.mount], stderr=subprocess.DEVNULL, check=False)
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait(WAIT_S)
        self.process = None
        subprocess.run(["fusermount3", "-u", self.mount], stderr=subprocess.DEVNULL, check=False)

    def soak(self, seconds, *args):
        done = subprocess.run([os.environ["SOAK"], "--dataset", os.path.join(self.folder, "ds"),
                               "--seconds", str(seconds), *args],
                              stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout else {}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--json")
    args = parser.parse_args()
    reason = missing()
    if reason:
        print("devices: " + reason)
        return 77
    bad = [word for sector in BAD_SECTORS for word in ("--bad", str(sector * SECTOR))]
    half = str(max(1, int(args.seconds / 2)))
    folder = tempfile.mkdtemp(prefix="rung-devices-", dir=os.environ.get("TMPDIR", "/var/tmp"))
    device = Device(folder)
    results, failed = {}, False
    try:
        for name, start, runs in (
                ("bad_sectors", device.blkdebug, (("direct", ["--direct"] + bad),
                                                  ("buffered", ["--buffered"] + bad))),
                ("slow", device.throttle, (("direct", ["--direct"]), ("buffered", ["--buffered"]))),
                ("random_errors", device.nbd, (("direct", ["--direct", "--any-error"]),
                                               ("buffered", ["--buffered", "--any-error"])))):
            if not start():
                print("devices: %s: mounting failed: %s" % (name, device.log()))
                return 77
            for how, words in runs:
                code, counts = device.soak(half, *words)
                results[name + "_" + how] = counts
                print("%s, %s: %s" % (name, how, json.dumps({key: counts.get(key) for key in (
                    "stores", "requests", "read_rows", "retries", "failed_by_row", "wrong_rows",
                    "passed")})))
                failed = failed or code != 0
            device.stop()
    finally:
        device.stop()
        shutil.rmtree(folder, ignore_errors=True)
    for name in ("bad_sectors_direct", "bad_sectors_buffered"):
        if not results[name].get("failed_by_row"):
            print("devices: %s: no request failed" % name)
            failed = True
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

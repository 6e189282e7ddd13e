# SPDX-License-Identifier: Apache-2.0
"""The disk as it is, and limited to a rate of reads and a rate of bytes, whose ratio is that of
faster drives. Both are measured with fio."""
import os
import shutil

from common import run_json, run_text, say, sector_bytes
from limit import DeviceLimit

BYTES_A_READ = 4400   # PCIe 5 drives: 14 GB/s, 3.2 M reads/s
SHARE = 0.6           # of the reads/s of the device, so that the CPU is not the limit
LARGE_READ = 128 << 10
FIO_DEPTH = 64
FIO_SECONDS = 2
PROFILE_SECONDS = 0.5   # of each sample


class Device:
    """Commands run on this device through `enter`. `gap` is the merge gap that rung would choose;
    None: it measures the gap when it opens a store."""

    def __init__(self, fio, enter=None, gap=None):
        self.fio, self.enter, self.gap = fio, enter, gap

    def share_in_use(self, reads_per_s, bytes_per_s):
        """The larger of the shares of the two rates that fio reached; None: no fio."""
        if not self.fio:
            return None
        return max(reads_per_s / self.fio["reads_per_s"], bytes_per_s / self.fio["bytes_per_s"])


def fio_rates(path, sector, enter=None):
    """Random reads: the rate of the smallest ones, and the bandwidth of large ones."""
    rates = {}
    for block in (sector, LARGE_READ):
        job = run_json(["fio", "--name=read", "--readonly", f"--filename={path}", "--direct=1",
                        "--rw=randread", f"--bs={block}", "--ioengine=io_uring",
                        f"--iodepth={FIO_DEPTH}", "--time_based", f"--runtime={FIO_SECONDS}",
                        "--output-format=json"], enter)["jobs"][0]["read"]
        rates.update({"reads_per_s": job["iops"]} if block == sector
                     else {"bytes_per_s": job["bw_bytes"]})
    return rates


def gap_from_profile(args, dataset, path, folder, enter):
    """The merge gap, and the reason for it, that `rung plan` chooses from a profile of this
    device. A measurement at open is too short for a device whose limit is enforced over tenths of
    a second."""
    profile = os.path.join(folder, "profile.json")
    with open(profile, "w", encoding="utf-8") as out:
        out.write(run_text([args.rung, "numa", "--json", "--quiet", "--quick", "--only",
                            "latency,gather,nvme", "--samples", "5", "--seconds",
                            str(PROFILE_SECONDS), "--depths", str(FIO_DEPTH), "--nvme", path],
                           enter))
    plan = run_json([args.rung, "plan", "--json", "--quiet", "--host", "50%", "--structure", "max",
                     "--profile", profile, dataset])
    return plan["merge_gap_bytes"], plan["chosen"]["merge_gap_why"]


def measure(args, dataset, path, folder, stack):
    """The devices {"as it is", "throttled"} and their record. A device that cannot be limited is
    None, and `why` in its record has the reason. The limit ends with `stack`."""
    if args.no_throttle or not shutil.which("fio"):
        why = "--no-throttle" if args.no_throttle else "fio was not found (Debian: fio)"
        return ({"as it is": Device(None), "throttled": None},
                {"as it is": {"fio": None}, "throttled": {"why": why}})
    sector = sector_bytes(args.rung, dataset)
    plain, throttled = Device(fio_rates(path, sector)), None
    reads = args.throttle or round(plain.fio["reads_per_s"] * SHARE)
    limit = stack.enter_context(DeviceLimit(path, reads, reads * BYTES_A_READ))
    about = {"why": limit.why, "limit": limit.kind, "reads_per_s": reads,
             "bytes_per_s": reads * BYTES_A_READ}
    if limit.kind:
        throttled = Device(fio_rates(path, sector, limit.enter), limit.enter)
        throttled.gap, why = gap_from_profile(args, dataset, path, folder, limit.enter)
        about.update(fio=throttled.fio, merge_gap_bytes=throttled.gap, merge_gap_why=why)
    say(f"the device: {plain.fio}; throttled: {about}")
    return ({"as it is": plain, "throttled": throttled},
            {"as it is": {"fio": plain.fio}, "throttled": about})

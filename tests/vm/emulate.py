# SPDX-License-Identifier: Apache-2.0
"""Runs an emulated machine until it ends."""
import re
import subprocess
import sys
import tempfile
import threading

LIMIT = 240         # seconds until a machine is killed: a slow one needs less
START_LIMIT = 60    # seconds until its first program prints something

# Without no_timer_check a kernel mistakes a late emulated timer for a broken one.
KERNEL_OPTIONS = ("console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable"
                  " no_timer_check")


def emulate(command, limit=LIMIT, start_limit=START_LIMIT, attempts=3):
    """Returns the output of a machine until it ends, without carriage returns. Emulated CPUs that
    wait for each other sometimes lock up while the kernel starts: a machine in which no program has
    printed anything after `start_limit` seconds is started again."""
    said, begun = [], threading.Event()
    with tempfile.TemporaryFile("w+", errors="replace") as errors, subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
            errors="replace") as machine:
        timers = [threading.Timer(start_limit, lambda: begun.is_set() or machine.kill()),
                  threading.Timer(limit, machine.kill)]
        for timer in timers:
            timer.start()
        for line in machine.stdout:
            said.append(line.replace("\r", ""))
            if not re.match(r"\[ *[0-9]+\.[0-9]+\]|\s*$", line):   # not a kernel message
                begun.set()
        status = machine.wait()
        for timer in timers:
            timer.cancel()
        errors.seek(0)
        text = "".join(said) + errors.read()
    if not begun.is_set() and attempts > 1:   # also a kernel that has panicked
        print("the emulated machine has not started in %d s; retrying" % start_limit,
              file=sys.stderr)
        return emulate(command, limit, start_limit, attempts - 1)
    if status < 0:
        raise AssertionError("the machine has not ended in %d s, or not started in %d s:\n%s" % (
            limit, start_limit, text[-4000:]))
    return text

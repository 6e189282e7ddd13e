# SPDX-License-Identifier: Apache-2.0
"""In a program: raise an exception out of a signal handler at every point where Python can run one.

CPython runs handlers after calls, at the start of functions and at jumps backwards, in the main
thread. The signal is raised in C, by a property whose getter is a function of libc, in front of the
n-th instruction of a call: so no line of this file runs a handler, and the point where the
exception appears is the interpreter's own. A run without a signal counts the instructions.
"""

import ctypes
import dis
import gc
import os
import signal
import sys
import threading
import time


def _is_point(name):
    """Whether a handler may run after this instruction; elsewhere it would run in the tracer."""
    return (name.startswith("CALL") and "INTRINSIC" not in name
            or name in ("RESUME", "JUMP_ABSOLUTE", "JUMP_BACKWARD")
            or name.startswith("POP_JUMP_BACKWARD"))


class Interrupt(BaseException):
    """What the handler raises, as KeyboardInterrupt."""


class _Raise:
    """Reading `now` raises the signal, and runs no bytecode."""

    _as_parameter_ = int(signal.SIGALRM)
    now = property(ctypes.CDLL(None)["raise"])


_raise = _Raise()


_handled = []


def handler(_number, _frame):
    _handled.append(1)
    raise Interrupt


class _Tracer:
    """Counts instructions after which a handler may run; raises the signal before the n-th."""

    def __init__(self, at):
        self.at, self.seen = at, 0

    def trace(self, frame, event, _arg):
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            if _is_point(dis.opname[frame.f_code.co_code[frame.f_lasti]]):
                self.seen += 1
                if self.seen == self.at:
                    _raise.now
        return self.trace


def one(call, at):
    """Call it, with a signal before its n-th instruction. @return interrupted, instructions seen

    The tracer stays, idle. Since Python 3.12 a function's instructions are traced from its second
    traced call on, and no longer once it was called without a tracer.
    """
    tracer, interrupted = _Tracer(at), False
    _handled.clear()
    try:
        sys.settrace(tracer.trace)
        call()
    except Interrupt:
        interrupted = True
    except Exception:   # that another library made of it, such as numpy's TypeError in tofile()
        if not _handled:
            raise
        interrupted = True
    finally:
        seen, tracer.at = tracer.seen, 0
    return interrupted, seen


def points(call, after=lambda: None):
    """Points of `call()`, found in its second run: see one()."""
    for _ in range(2):
        count = one(call, 0)[1]
        after()
    return count


def at_every_point(call, after=lambda: None, most=400):
    """Interrupt `call()` at each of its points, or at `most`, evenly chosen. @return interrupts"""
    count = points(call, after)
    step = max(1, -(-count // most))
    done = 0
    for at in range(1, count + 1, step):
        interrupted, _ = one(call, at)
        done += interrupted
        after()
    sys.settrace(None)
    return done


def at_moments(call, moments, after=lambda: None):
    """Interrupt `call()` by a timer, at moments from the start to the end of what it takes."""
    begin = time.perf_counter()
    call()
    took = time.perf_counter() - begin
    after()
    for turn in range(moments):
        _handled.clear()
        try:
            signal.setitimer(signal.ITIMER_REAL, max(took * (turn + 0.5) / moments, 1e-6))
            call()
            while not _handled:   # it was faster this time
                time.sleep(0.0001)
        except Interrupt:
            pass
        except Exception:   # see one()
            if not _handled:
                raise
        after()


def in_use():
    """Threads, descriptors and KiB of memory of this process."""
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    kib = int(fields["RssAnon"].split()[0])
    return int(fields["Threads"]), len(os.listdir("/proc/self/fd")), kib


def settled(threads, descriptors):
    """Whether threads and descriptors are back at these numbers; a joined thread may linger."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        now = in_use()
        if now[0] <= threads and now[1] <= descriptors:
            return True
        time.sleep(0.01)
    return False


sys.unraisablehook = lambda _: None   # of an interrupt inside a finalizer of the standard library
assert threading.current_thread() is threading.main_thread()

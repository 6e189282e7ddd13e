# SPDX-License-Identifier: Apache-2.0
"""Raise an exception from a signal handler at every point where Python can run one.

CPython runs handlers in the main thread: after calls, at the start of functions and at backward
jumps. A property whose getter is a libc function raises the signal in C before the n-th instruction
of a call. So no line of this file runs the handler, and the interpreter decides where the exception
appears. A run without a signal counts the instructions.
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
    """Return whether a handler can run after this instruction, and not only in the tracer."""
    return ((name.startswith("CALL") and "INTRINSIC" not in name)
            or name in ("RESUME", "JUMP_ABSOLUTE", "JUMP_BACKWARD")
            or name.startswith("POP_JUMP_BACKWARD"))


class Interrupt(BaseException):
    """Raised by the handler, like KeyboardInterrupt."""


class _Raise:
    """Reading `now` raises the signal without running bytecode."""

    _as_parameter_ = int(signal.SIGALRM)
    now = property(ctypes.CDLL(None)["raise"])


_raise = _Raise()


_handled = []


def handler(_number, _frame):
    _handled.append(1)
    raise Interrupt


class _Tracer:
    """Counts instructions after which a handler can run; raises the signal before the n-th."""

    def __init__(self, at):
        self.at, self.seen = at, 0

    def trace(self, frame, event, _arg):
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            if _is_point(dis.opname[frame.f_code.co_code[frame.f_lasti]]):
                self.seen += 1
                if self.seen == self.at:
                    _raise.now   # noqa: B018
        return self.trace


def one(call, at):
    """Run `call` with a signal before its n-th instruction. @return interrupted, instructions seen

    The tracer stays installed, idle. Since Python 3.12 the instructions of a function are traced
    from its second traced call on, and no longer once it is called without a tracer.
    """
    tracer, interrupted = _Tracer(at), False
    _handled.clear()
    try:
        sys.settrace(tracer.trace)
        call()
    except Interrupt:
        interrupted = True
    except Exception:   # another library converted it, such as numpy's tofile() to TypeError
        if not _handled:
            raise
        interrupted = True
    finally:
        seen, tracer.at = tracer.seen, 0
    return interrupted, seen


def points(call, after=lambda: None):
    """Return the number of points of `call()`, counted in its second run: see one()."""
    for _ in range(2):
        count = one(call, 0)[1]
        after()
    return count


def at_every_point(call, after=lambda: None, most=400):
    """Interrupt `call()` at its points, at no more than `most` of them. @return interrupts"""
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
    """Interrupt `call()` by a timer, at moments spread over its running time."""
    begin = time.perf_counter()
    call()
    took = time.perf_counter() - begin
    after()
    for turn in range(moments):
        _handled.clear()
        try:
            signal.setitimer(signal.ITIMER_REAL, max(took * (turn + 0.5) / moments, 1e-6))
            call()
            while not _handled:   # this run was faster than the timer
                time.sleep(0.0001)
        except Interrupt:
            pass
        except Exception:   # see one()
            if not _handled:
                raise
        after()


def in_use():
    """Return the threads, descriptors and KiB of memory of this process."""
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    kib = int(fields["RssAnon"].split()[0])
    return int(fields["Threads"]), len(os.listdir("/proc/self/fd")), kib


def settled(threads, descriptors):
    """Return whether threads and descriptors are back at these numbers.

    A joined thread may linger for a moment.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        now = in_use()
        if now[0] <= threads and now[1] <= descriptors:
            return True
        time.sleep(0.01)
    return False


sys.unraisablehook = lambda _: None   # interrupts in finalizers of Python
assert threading.current_thread() is threading.main_thread()

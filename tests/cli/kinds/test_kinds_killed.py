# SPDX-License-Identifier: Apache-2.0
"""Every kind of data set: staging is killed, and resumes to the same bytes. RUNG_KILLS is the
number of kills per kind (4)."""
import os
import shutil
import signal
import subprocess
import sys
import unittest

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support")
sys.path[:0] = [SUPPORT, os.path.join(SUPPORT, "stage")]
from clitest import SANITIZED, main
from datasets import files
from kinds import KindsTest

# Kills the process at call number $KILL_AT of those that make data durable or visible; 0: appends a
# byte to the file $KILL_COUNT at each.
KILLING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static long calls;
static void count(void)
{
        int fd = open(getenv("KILL_COUNT"), O_WRONLY | O_CREAT | O_APPEND, 0666);
        if (__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) == atol(getenv("KILL_AT")))
                kill(getpid(), SIGKILL);
        if (write(fd, "x", 1) != 1)
                abort();
        close(fd);
}
#define CALL(name, parameters, arguments)                                     \
        int name parameters                                                   \
        {                                                                     \
                int (*real) parameters;                                       \
                *(void **)&real = dlsym(RTLD_NEXT, #name);                    \
                count();                                                      \
                return real arguments;                                        \
        }
CALL(fsync, (int fd), (fd))
CALL(fdatasync, (int fd), (fd))
CALL(renameat2, (int a, const char *b, int c, const char *d, unsigned e), (a, b, c, d, e))
CALL(renameat, (int a, const char *b, int c, const char *d), (a, b, c, d))
CALL(unlinkat, (int a, const char *b, int c), (a, b, c))
"""
KILLS = int(os.environ.get("RUNG_KILLS", "4"))


class Killed(KindsTest):
    @staticmethod
    def score(kind):
        """The fastest one."""
        return "expected" if kind.typed else "degree"

    def remove(self):
        shutil.rmtree(self.out)
        for name in ("one", "two"):
            for entry in os.listdir(self.path("sources", name)):
                os.unlink(self.path("sources", name, entry))

    def stage_killed(self, kind):
        """Every part is killed once, unless it ends before. Returns the exit codes."""
        codes = []
        for part in range(kind.parts - 1, -1, -1):
            slices = ["--part", f"{part}/{kind.parts}"] if kind.parts > 1 else []
            codes.append(subprocess.run(
                [self.command, "stage", "--quiet", "--out", self.out, *slices,
                 *self.sources.options(kind, self.score(kind))],
                env=self.environment(), capture_output=True, check=False).returncode)
        return codes

    @unittest.skipIf(SANITIZED, "a sanitizer's runtime must be loaded first")
    def test_killed_runs_resume_to_the_same_bytes(self):
        def check(kind):
            library = self.path("killing.so")
            subprocess.run([os.environ.get("RUNG_CC", "cc"), "-shared", "-fPIC", "-x", "c", "-",
                            "-o", library, "-ldl"], input=KILLING, text=True, check=True)
            self.stage(kind, score=self.score(kind))
            whole = files(self.out)
            counter = self.path("calls")
            self.variables.update(LD_PRELOAD=library, KILL_AT="0", KILL_COUNT=counter)
            self.remove()
            self.stage(kind, score=self.score(kind))
            calls = os.path.getsize(counter) // kind.parts
            self.assertGreater(calls, 10)
            for i in range(1, KILLS + 1):
                self.remove()
                self.variables["KILL_AT"] = str(1 + calls * i // (KILLS + 1))
                self.assertIn(-signal.SIGKILL, self.stage_killed(kind))
                self.variables["KILL_AT"] = "0"
                self.stage(kind, "--resume", score=self.score(kind))
                self.assertEqual(files(self.out), whole)
                left = [name for name in os.listdir(self.folder) if "partial" in name]
                self.assertEqual(left, [])
        self.each(check)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""rung doctor on this machine, and with parts of it refused."""
import ctypes
import errno
import json
import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import RUNG, SANITIZED, CliTest, Graph, main

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from test_bench import refuse_io_uring

CAP_IPC_LOCK = 14
# open() as on a file system that refuses O_DIRECT
NO_DIRECT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#define OPEN(name)                                                   \
        int name(const char *path, int flags, ...)                   \
        {                                                            \
                __builtin_va_list args;                              \
                int (*real)(const char *, int, ...);                 \
                __builtin_va_start(args, flags);                     \
                errno = EINVAL;                                      \
                if (flags & O_DIRECT)                                \
                        return -1;                                   \
                *(void **)&real = dlsym(RTLD_NEXT, #name);           \
                return real(path, flags, __builtin_va_arg(args, int)); \
        }
OPEN(open)
OPEN(open64)
"""


def no_locked_memory():
    """Run in the child: ulimit -l 0, without the capability that lifts the limit."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(24, CAP_IPC_LOCK, 0, 0, 0)   # PR_CAPBSET_DROP


class Doctor(CliTest):
    def doctor(self, *args, **kwargs):
        """Return the exit code, and the checks by name."""
        done = subprocess.run([RUNG, "doctor", *args, "--json"], capture_output=True, text=True,
                              check=False, timeout=60, **kwargs)
        if done.returncode == 77:
            self.skipTest("no seccomp filter can be set here")
        self.assertEqual(done.stderr, "")
        result = json.loads(done.stdout)
        checks = {check["name"]: check for check in result["checks"]}
        self.assertEqual(len(checks), len(result["checks"]))
        for check in checks.values():
            self.assertEqual(set(check), {"name", "state", "what", "cure"})
            self.assertIn(check["state"], ("ok", "absent", "missing"))
            if check["state"] == "missing":
                self.assertTrue(check["cure"], check)
            if check["state"] == "ok":
                self.assertIsNone(check["cure"])
        missing = [check for check in checks.values() if check["state"] == "missing"]
        self.assertEqual((result["ok"], done.returncode), (not missing, 1 if missing else 0))
        return checks

    def test_the_text_has_the_same_lines(self):
        staged = self.stage(Graph(self.folder))
        checks = self.doctor(staged)
        done = subprocess.run([RUNG, "doctor", staged], capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        for check in checks.values():
            self.assertIn("%-12s %-8s %s" % (check["name"], check["state"], check["what"]), lines)
        missing = [name for name, check in checks.items() if check["state"] == "missing"]
        self.assertEqual(lines[-1], "%d of %d checks failed: %s." % (
            len(missing), len(checks), ", ".join(missing))
            if missing else "Nothing that rung needs is missing here.")

    def test_a_dataset(self):
        staged = self.stage(Graph(self.folder, vertices=500, row_bytes=64))
        checks = self.doctor(staged)
        self.assertLessEqual({"kernel", "io_uring", "memlock", "huge pages", "OpenBLAS", "NUMA",
                              "access", "file system", "drive", "O_DIRECT", "dataset"}, set(checks))
        self.assertEqual(checks["dataset"]["what"], "500 rows of 64 bytes")
        self.assertEqual(checks["access"]["state"], "ok")

    def test_other_folders(self):
        self.assertEqual(self.doctor(self.folder)["dataset"]["state"], "absent")
        nowhere = self.doctor(self.path("nowhere"))["access"]
        self.assertEqual(nowhere["state"], "missing")
        self.assertIn("nowhere cannot be read: No such file", nowhere["what"])
        self.assertNotIn("access", self.doctor())
        staged = self.stage(Graph(self.folder))
        with open(os.path.join(staged, "manifest.json"), "w", encoding="utf-8") as file:
            file.write("{")
        self.assertEqual(self.doctor(staged)["dataset"]["state"], "missing")

    def test_a_file_that_cannot_be_read(self):
        if os.geteuid() == 0:
            self.skipTest("root reads every file")
        staged = self.stage(Graph(self.folder))
        os.chmod(os.path.join(staged, "graph_indptr.npy"), 0)
        access = self.doctor(staged)["access"]
        self.assertEqual(access["state"], "missing")
        self.assertIn("graph_indptr.npy cannot be read: Permission denied", access["what"])

    def test_refused_io_uring(self):
        if "io_uring  yes" not in self.run_rung("--version").stdout:
            self.assertIn("not in this build", self.doctor()["io_uring"]["what"])
            self.skipTest("rung was built without io_uring")
        for error, says in ((errno.EPERM, "refused"), (errno.ENOSYS, "not in this kernel"),
                            (errno.ENOMEM, "no memory may be locked")):
            check = self.doctor(preexec_fn=refuse_io_uring(error))["io_uring"]
            self.assertEqual(check["state"], "missing")
            self.assertIn(says, check["what"])

    def test_no_locked_memory(self):
        check = self.doctor(preexec_fn=no_locked_memory)["memlock"]
        self.assertEqual((check["state"], check["what"]),
                         ("missing", "at most 0 B may be locked, below 8 MiB"))
        self.assertIn("ulimit -l", check["cure"])

    def test_openblas(self):
        if "blas      yes" not in self.run_rung("--version").stdout:
            self.assertIn("not in this build", self.doctor()["OpenBLAS"]["what"])
            self.skipTest("rung was built without OpenBLAS")
        if SANITIZED:
            self.skipTest("a sanitizer needs address space")
        limited = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))
        check = self.doctor(preexec_fn=limited)["OpenBLAS"]
        self.assertEqual((check["state"], check["cure"]), ("absent", "ulimit -v unlimited"))
        found = self.doctor()["OpenBLAS"]
        if found["state"] != "ok":
            self.skipTest("OpenBLAS is not installed")
        library = found["what"].split(",")[0]
        with open(self.path(library), "wb"):
            pass
        check = self.doctor(env={**os.environ, "LD_LIBRARY_PATH": self.folder})["OpenBLAS"]
        self.assertEqual(check["state"], "absent")
        self.assertIn(library, check["what"])
        self.assertIn("install OpenBLAS", check["cure"])

    def test_refused_direct_reads(self):
        if SANITIZED:
            self.skipTest("a sanitizer's runtime must be loaded first")
        source, library = self.path("nodirect.c"), self.path("nodirect.so")
        with open(source, "w", encoding="ascii") as file:
            file.write(NO_DIRECT)
        subprocess.run([os.environ.get("RUNG_CC") or "cc", "-shared", "-fPIC", "-o", library,
                        source, "-ldl"], check=True)
        staged = self.stage(Graph(self.folder))
        for folder in (staged, self.folder):
            check = self.doctor(folder, env={**os.environ, "LD_PRELOAD": library})["O_DIRECT"]
            self.assertEqual((check["state"], check["what"]),
                             ("missing", "refused: Invalid argument"))

    def test_wrong_usage(self):
        self.fails("doctor", "one", "two", code=2, says="unexpected argument 'two'")
        self.fails("doctor", "--threads", 2, code=2, says="unknown option '--threads'")


if __name__ == "__main__":
    main()

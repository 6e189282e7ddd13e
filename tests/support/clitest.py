# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the command's tests: running it, arrays in files, golden files. Uses only
Python's standard library."""
import array
import filecmp
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

RUNG = os.environ.get("RUNG", "")
SIM = os.environ.get("RUNG_SIM", "")   # the same command on simulated GPUs; "" without them
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOLDEN = os.path.join(TESTS, "cli", "golden")
SANITIZED = bool(os.environ.get("RUNG_SANITIZE"))

# a shell can start background jobs with these signals ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(_number, signal.SIG_DFL)

# open() as on a file system without O_TMPFILE
NAMED_ONLY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#define OPEN(name)                                                            \
        int name(const char *path, int flags, ...)                            \
        {                                                                     \
                __builtin_va_list args;                                       \
                int (*real)(const char *, int, ...);                          \
                __builtin_va_start(args, flags);                              \
                errno = EOPNOTSUPP;                                           \
                if ((flags & O_TMPFILE) == O_TMPFILE)                         \
                        return -1;                                            \
                *(void **)&real = dlsym(RTLD_NEXT, #name);                    \
                return real(path, flags, __builtin_va_arg(args, int));        \
        }
OPEN(open)
OPEN(open64)
"""

# descr of numpy -> (code of struct and array, name in rung, bytes)
DTYPES = {
    "|b1": ("B", "bool", 1), "|u1": ("B", "u8", 1), "|i1": ("b", "i8", 1), "<i4": ("i", "i32", 4),
    "<u4": ("I", "u32", 4),
    "<i8": ("q", "i64", 8), "<u8": ("Q", "u64", 8), "<f4": ("f", "f32", 4), "<f8": ("d", "f64", 8),
    "<f2": ("e", "f16", 2),
}


def npy_bytes(descr, shape, data, version=(1, 0), fortran=False):
    """A .npy file: `data` is bytes, or numbers in C order."""
    if not isinstance(data, (bytes, bytearray)):
        data = struct.pack("<%d%s" % (len(data), DTYPES[descr][0]), *data)
    shape_text = "(%s)" % "".join("%d, " % dim for dim in shape)
    header = "{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (
        repr(descr), fortran, shape_text)
    count_bytes = 2 if version == (1, 0) else 4
    length = len(header) + 1
    length += -(6 + 2 + count_bytes + length) % 64
    header = header.ljust(length - 1) + "\n"
    prefix = b"\x93NUMPY" + bytes(version) + struct.pack("<H" if count_bytes == 2 else "<I", length)
    return prefix + header.encode("utf-8" if version == (3, 0) else "latin-1") + data


def read_npy(path):
    """(descr, shape, values as a list, or bytes for other types)."""
    with open(path, "rb") as file:
        content = file.read()
    assert content[:6] == b"\x93NUMPY", path
    size, offset = (struct.unpack("<H", content[8:10])[0],
                    10) if content[6] == 1 else (struct.unpack("<I", content[8:12])[0], 12)
    # safe: the tests wrote the file
    header = eval(content[offset:offset + size].decode("latin-1"), {"__builtins__": {}})
    data = content[offset + size:]
    if header["descr"] in DTYPES:
        values = array.array(DTYPES[header["descr"]][0]) if header["descr"] != "<f2" else None
        if values is not None:
            values.frombytes(data)
            data = list(values)
    return header["descr"], header["shape"], data


class Graph:
    """A random graph with features, labels and splits as .npy files in a folder."""

    def __init__(self, folder, vertices=500, edges=3000, row_bytes=64, seed=1):
        draws = random.Random(seed)
        self.folder, self.vertices, self.row_bytes = folder, vertices, row_bytes
        # squares make some vertices hot
        self.edges = [(int(vertices * draws.random() ** 2), draws.randrange(vertices))
                      for _ in range(edges)]
        self.rows = draws.randbytes(vertices * row_bytes)
        self.labels = [draws.randrange(7) for _ in range(vertices)]
        ids = list(range(vertices))
        draws.shuffle(ids)
        self.train, self.valid = ids[:vertices // 2], ids[vertices // 2:vertices * 3 // 4]
        self.test_mask = [0] * vertices
        for vertex in ids[vertices * 3 // 4:]:
            self.test_mask[vertex] = 1
        self.graph = self.write("graph.npy", "<i8", (2, edges),
                                [u for u, _ in self.edges] + [v for _, v in self.edges])
        self.features = self.write("features.npy", "|u1", (vertices, row_bytes), self.rows)
        self.label_file = self.write("labels.npy", "<i4", (vertices,), self.labels)
        self.train_file = self.write("train.npy", "<i8", (len(self.train),), self.train)
        self.valid_file = self.write("valid.npy", "<i4", (len(self.valid),), self.valid)
        self.test_file = self.write("test.npy", "|b1", (vertices,), self.test_mask)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, *args, **kwargs):
        with open(self.path(name), "wb") as file:
            file.write(npy_bytes(*args, **kwargs))
        return self.path(name)

    def write_npz(self, name, members, deflate):
        """members: {name: bytes of a .npy}"""
        method = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
        with zipfile.ZipFile(self.path(name), "w", method) as archive:
            for member, content in members.items():
                archive.writestr(member + ".npy", content)
        return self.path(name)

    def options(self, **changes):
        """Arguments of `rung stage`, without --out; None omits an option."""
        options = {
            "graph": self.graph, "features": self.features, "labels": self.label_file,
            "split": ["train=" + self.train_file, "valid=" + self.valid_file,
                      "test=" + self.test_file],
        }
        options.update(changes)
        words = []
        for name, values in options.items():
            for value in values if isinstance(values, list) else [values]:
                if value is not None:
                    words += ["--" + name, str(value)]
        return words

    def row(self, vertex):
        return self.rows[vertex * self.row_bytes:(vertex + 1) * self.row_bytes]


class CliTest(unittest.TestCase):
    """Runs the command in a private folder."""
    maxDiff = None
    command = RUNG

    def environment(self):
        """The command's environment, with the additions in self.variables."""
        env = dict(os.environ, LC_ALL="C", COLUMNS="80", **self.variables)
        env.pop("ARGP_HELP_FMT", None)
        return env

    def setUp(self):
        self.variables = {}
        self.folder = tempfile.mkdtemp(prefix="rung-cli-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_rung(self, *args, code=0, **kwargs):
        """Run it. The exit code must be `code`, and stderr must have no sanitizer's report."""
        done = subprocess.run([self.command, *map(str, args)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True,
                              env=self.environment(), timeout=300, check=False, **kwargs)
        if "Sanitizer" in done.stderr or "runtime error:" in done.stderr:
            print(done.stderr, file=sys.stderr)   # ctest looks for it too
        self.assertEqual(done.returncode, code,
                         "rung %s\n%s%s" % (" ".join(map(str, args)), done.stdout, done.stderr))
        return done

    def can_train(self):
        """Whether rung train, which needs BLAS, is in this build."""
        return "not in this build" not in self.run_rung("--help").stdout

    def json_of(self, *args, code=0, **kwargs):
        return json.loads(self.run_rung(*args, "--json", "--quiet", code=code, **kwargs).stdout)

    def start(self, *args):
        """Start it; it is killed if it still runs at the end of the test."""
        process = subprocess.Popen([self.command, *map(str, args)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment())
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def share(self, staged, socket, *args):
        """Start a bench that shares its store and holds it. Returns the process, and the JSON it
        printed when the bench was done."""
        process = self.start("bench", staged, "--share", socket, "--hold", "--json", *args)
        text = ""
        for line in process.stdout:
            text += line
            if line == "}\n":
                break
        self.assertTrue(text.endswith("}\n"), text or process.stderr.read())
        return process, json.loads(text)

    def stage(self, graph, name="staged", /, **changes):
        out = self.path(name)
        self.run_rung("stage", *graph.options(**changes), "--out", out, "--quiet")
        return out

    def same_dataset(self, one, other):
        """All files have the same bytes. The inputs named in the manifests may differ."""
        names, manifests = sorted(os.listdir(one)), []
        self.assertEqual(sorted(os.listdir(other)), names)
        names.remove("manifest.json")
        self.assertEqual(filecmp.cmpfiles(one, other, names, shallow=False)[1:], ([], []))
        for folder in (one, other):
            with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
                manifest = json.load(file)
            del manifest["job"], manifest["checksum"]
            manifests.append(manifest)
        self.assertEqual(*manifests)

    def fails(self, *args, code, says, **kwargs):
        """The command must fail with `code`, and stderr must be one message of rung that contains
        every word of `says`. Returns stderr."""
        done = self.run_rung(*args, code=code, **kwargs)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.startswith("rung"), done.stderr)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, done.stderr)
        return done.stderr

    def golden(self, name, text):
        """Compare with golden/NAME; RUNG_UPDATE_GOLDEN=1 writes it instead."""
        path = os.path.join(GOLDEN, name)
        if os.environ.get("RUNG_UPDATE_GOLDEN"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), text)


def shape_of(value):
    """The structure of a JSON value without the values: the keys and types that scripts depend
    on."""
    if isinstance(value, dict):
        return {key: shape_of(entry) for key, entry in sorted(value.items())}
    if isinstance(value, list):
        return [shape_of(value[0])] if value else []
    return {bool: "boolean", int: "number", float: "number", str: "text",
            type(None): "null"}[type(value)]


def main():
    """Run the tests of the calling file; exits with 77 if all were skipped."""
    if not RUNG:
        print("RUNG is not set to a command")
        sys.exit(77)
    result = unittest.main(module="__main__", exit=False).result
    if result.wasSuccessful() and result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)

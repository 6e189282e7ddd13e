# SPDX-License-Identifier: Apache-2.0
"""Bad input to `rung stage`: the exit code, the values named in the message, no folder left."""
import os
import resource
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import RUNG, CliTest, Graph, main, npy_bytes


class BadInput(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=100, edges=400, row_bytes=32)
        self.out = self.path("out")

    def refused(self, says, code=1, more=(), **changes):
        """Check that staging with this change fails with all words of `says` and leaves nothing."""
        before = sorted(os.listdir(self.folder))
        message = self.fails("stage", *self.graph.options(**changes), "--out", self.out, *more,
                             code=code, says=says)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.assertEqual(len(message.strip().splitlines()), 1, message)
        return message

    def edges(self, name, pairs, descr="<i8"):
        return self.graph.write(name, descr, (2, len(pairs)),
                                [u for u, _ in pairs] + [v for _, v in pairs])

    # ---- files ----

    def test_missing_files(self):
        for option in ("graph", "features", "labels"):
            with self.subTest(option):
                self.refused(["missing.npy", "No such file"], **{option: self.path("missing.npy")})
        self.refused(["missing.npy", "No such file"], split=["train=" + self.path("missing.npy")])
        self.refused(["missing.npy", "No such file"], score=self.path("missing.npy"))

    def test_folder_instead_of_a_file(self):
        os.mkdir(self.path("folder.npy"))
        self.refused(["folder.npy", "not a regular file"], code=2, features=self.path("folder.npy"))

    def test_fifo_does_not_block(self):
        os.mkfifo(self.path("pipe.npy"))
        pipe, says = self.path("pipe.npy"), ["pipe.npy", "not a regular file"]
        for option in ("graph", "features", "labels", "score"):
            with self.subTest(option):
                self.refused(says, code=2, **{option: pipe})
        self.refused(says, code=2, split=["train=" + pipe])
        self.fails("plan", self.stage(self.graph), "--profile", pipe, code=1,
                   says=["pipe.npy", "not a regular file"])

    def test_truncated_anywhere(self):
        whole = npy_bytes("|u1", (100, 32), self.graph.rows)
        for length in (0, 5, 6, 9, 10, 40, 127, 128, 129, len(whole) // 2, len(whole) - 1):
            with self.subTest(length):
                with open(self.path("short.npy"), "wb") as file:
                    file.write(whole[:length])
                self.refused("short.npy", features=self.path("short.npy"))
        self.refused(["short.npy", "truncated", "offset %d" % (len(whole) - 1), "3200"],
                     features=self.path("short.npy"))

    def test_truncated_raw(self):
        with open(self.path("rows.raw"), "wb") as file:
            file.write(self.graph.rows[:-1])
        self.refused(["rows.raw", "3199", "3200"],
                     features="raw:%s,u8,100x32" % self.path("rows.raw"))

    def test_wrong_magic(self):
        with open(self.path("text.npy"), "wb") as file:
            file.write(b"1,2,3\n" * 1000)
        self.refused(["text.npy", "raw:"], features=self.path("text.npy"))

    def test_wrong_header(self):
        good = npy_bytes("|u1", (100, 32), self.graph.rows)
        for name, content in (
                ("an unknown version", good[:6] + b"\x09" + good[7:]),
                ("a header longer than the file", good[:8] + b"\xff\xff" + good[10:]),
                ("no dictionary", good.replace(b"{'descr'", b"['descr'")),
                ("a negative dimension", good.replace(b"(100, 32, )", b"(-10, 32, )")),
                ("a product beyond 2^64", npy_bytes("|u1", (1 << 40, 1 << 40), self.graph.rows))):
            with self.subTest(name):
                with open(self.path("wrong.npy"), "wb") as file:
                    file.write(content)
                self.refused("wrong.npy", features=self.path("wrong.npy"))

    def test_fortran_order(self):
        path = self.graph.write("columns.npy", "|u1", (100, 32), self.graph.rows, fortran=True)
        self.refused(["columns.npy", "Fortran", "ascontiguousarray"], features=path)

    def test_big_endian(self):
        path = self.graph.write("big.npy", ">f4", (100, 8), self.graph.rows)
        self.refused(["big.npy", "big-endian", ">f4"], features=path)

    def test_object_dtype(self):
        path = self.graph.write("objects.npy", "|O", (100, 4), self.graph.rows)
        self.refused(["objects.npy", "object"], features=path)

    def test_other_dtypes(self):
        for descr in ("<U8", "<c8", "<M8[ns]"):
            with self.subTest(descr):
                self.refused(["other.npy", descr],
                             features=self.graph.write("other.npy", descr, (100, 4),
                                                       self.graph.rows))

    def test_npz(self):
        members = {"x": npy_bytes("|u1", (100, 32), self.graph.rows)}
        for deflate in (False, True):
            with self.subTest(deflate=deflate):
                path = self.graph.write_npz("a.npz", members, deflate)
                self.refused(["a.npz", "'y'"], features=path + ":y")
                with open(path, "rb") as file:
                    whole = file.read()
                with open(path, "wb") as file:
                    file.write(whole[:len(whole) * 2 // 3])
                self.refused("a.npz", features=path + ":x")

    def test_damaged_deflated_member(self):
        path = self.graph.write_npz("a.npz", {"x": npy_bytes("|u1", (100, 32), self.graph.rows)},
                                    deflate=True)
        with open(path, "r+b") as file:
            file.seek(1000)
            byte = file.read(1)
            file.seek(1000)
            file.write(bytes([byte[0] ^ 0x55]))
        self.refused("a.npz", features=path + ":x")

    def test_malformed_source_specs(self):
        for spec in ("raw:f", "raw:f,u8", "raw:f,u9,10x10", "raw:f,u8,10xx10", "raw:f,u8,0x,1",
                     "raw:f,u8,10x10,-1", "a.npz",
                     "features"):
            with self.subTest(spec):
                before = sorted(os.listdir(self.folder))
                done = subprocess.run([RUNG, "stage", *self.graph.options(features=spec), "--out",
                                       self.out],
                                      capture_output=True, text=True,
                                      check=False, cwd=self.folder)
                self.assertIn(done.returncode, (1, 2))
                self.assertIn(spec.removeprefix("raw:").split(",")[0], done.stderr)
                self.assertEqual(sorted(os.listdir(self.folder)), before)

    # ---- graph ----

    def test_edge_out_of_range_names_edge_and_value(self):
        good = self.graph.edges[:200]
        for value in (100, 1 << 32, (1 << 32) + 3, -1, -(1 << 63)):
            for place, edge in (("source", (value, 5)), ("target", (5, value))):
                with self.subTest(value=value, place=place):
                    self.refused(["bad.npy", "edge 200", str(value)],
                                 graph=self.edges("bad.npy", good + [edge] + good))

    def test_edge_out_of_range_in_other_types(self):
        self.refused(["bad.npy", "edge 1", str((1 << 64) - 1)],
                     graph=self.edges("bad.npy", [(0, 1), (2, (1 << 64) - 1)], "<u8"))
        self.refused(["bad.npy", "edge 0", "-7"], graph=self.edges("bad.npy", [(-7, 1)], "<i4"))
        self.refused(["bad.npy", "edge 1", "255"],
                     graph=self.graph.write("bad.npy", "<i8", (2, 2), [1, 255, 2, 3]))

    def test_message_names_the_second_list(self):
        self.refused(["bad.npy", "edge 2", "100"],
                     graph=[self.graph.graph, self.edges("bad.npy", [(0, 1), (1, 2), (100, 3)])])

    def test_too_few_vertices(self):
        top = max(max(edge) for edge in self.graph.edges)
        self.refused(["--vertices", "100"], more=["--vertices", "99"])
        self.assertGreater(top, 0)

    def test_edges_of_wrong_shape(self):
        for shape, count in (((3, 10), 30), ((20,), 20), ((2, 5, 2), 20)):
            with self.subTest(shape):
                self.refused("bad.npy",
                             graph=self.graph.write("bad.npy", "<i8", shape, [0] * count))
        self.refused(["bad.npy", "f32"], graph=self.graph.write("bad.npy", "<f4", (2, 5), [0] * 10))

    def csc(self, indptr, indices, descr="<i8"):
        return "csc:%s,%s" % (self.graph.write("indptr.npy", descr, (len(indptr),), indptr),
                              self.graph.write("indices.npy", "<i4", (len(indices),), indices))

    def test_indptr_not_monotone(self):
        indptr = [0] + [min(v, 40) for v in range(100)]
        indptr[30] = 35
        self.refused(["indptr.npy", "31"], graph=self.csc(indptr, [1] * 40))

    def test_indptr_with_wrong_first_or_last_entry(self):
        self.refused(["indptr.npy", "1"], graph=self.csc([1] * 101, [1]))
        self.refused(["indptr.npy", "7", "5"], graph=self.csc([0] * 100 + [7], [1] * 5))
        self.refused(["indptr.npy", "-4"], graph=self.csc([0] * 50 + [-4] + [0] * 50, []))

    def test_indptr_of_wrong_length(self):
        self.refused(["100", "50"], graph=self.csc([0] * 51, []))

    def test_index_out_of_range(self):
        message = self.refused(["indices.npy", "100"],
                               graph=self.csc([0] * 51 + [4] * 50, [0, 99, 100, 1]))
        self.assertIn("2", message)

    # ---- arrays that must match ----

    def test_row_count_differs_from_vertex_count(self):
        for rows in (99, 101):
            with self.subTest(rows):
                path = self.graph.write("rows.npy", "|u1", (rows, 32), bytes(rows * 32))
                self.refused([str(rows), "100"], features=path, more=["--vertices", "100"])

    def test_zero_rows(self):
        path = self.graph.write("empty.npy", "|u1", (0, 32), b"")
        self.refused(["empty.npy", "0"], features=path, graph=self.edges("none.npy", []),
                     labels=None, split=None)

    def test_rows_of_zero_bytes(self):
        self.refused("empty.npy", features=self.graph.write("empty.npy", "|u1", (100, 0), b""))

    def test_labels_of_wrong_length(self):
        for count in (0, 99, 101):
            with self.subTest(count):
                path = self.graph.write("wrong.npy", "<i4", (count,), [0] * count)
                self.refused(["wrong.npy", str(count), "100"], labels=path)

    def test_split_mask_of_wrong_length(self):
        for count in (99, 101):
            with self.subTest(count):
                path = self.graph.write("mask.npy", "|b1", (count,), [1] * count)
                self.refused(["mask.npy", str(count), "100"], split=["train=" + path])

    def test_split_out_of_range(self):
        for value in (100, -1, 1 << 32):
            with self.subTest(value):
                path = self.graph.write("ids.npy", "<i8", (3,), [0, 1, value])
                self.refused(["ids.npy", "2", str(value)], split=["train=" + path])

    def test_split_of_wrong_type_or_shape(self):
        self.refused(["ids.npy", "f32"],
                     split=["train=" + self.graph.write("ids.npy", "<f4", (3,), [0, 1, 2])])
        self.refused("ids.npy",
                     split=["train=" + self.graph.write("ids.npy", "<i4", (3, 2), [0] * 6)])

    def test_split_names(self):
        for name in ("../evil", "a/b", "a b", "."):
            with self.subTest(name):
                before = sorted(os.listdir(self.folder))
                done = subprocess.run([RUNG, "stage",
                                       *self.graph.options(
                                           split=[name + "=" + self.graph.train_file]), "--out",
                                       self.out],
                                      capture_output=True, text=True, check=False)
                self.assertIn(done.returncode, (1, 2))
                self.assertIn(name, done.stderr)
                self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_the_same_split_twice(self):
        before = sorted(os.listdir(self.folder))
        done = subprocess.run([RUNG, "stage",
                               *self.graph.options(split=["a=" + self.graph.train_file] * 2),
                               "--out", self.out],
                              capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (1, 2))
        self.assertIn("'a'", done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_score_of_wrong_type_or_length(self):
        self.refused(["score.npy", "f64"],
                     score=self.graph.write("score.npy", "<f8", (100,), [0] * 100))
        self.refused(["score.npy", "99", "100"],
                     score=self.graph.write("score.npy", "<f4", (99,), [0] * 99))

    def test_score_is_nan(self):
        score = [1.0] * 40 + [float("nan")] + [float("inf")] * 59
        self.refused(["score.npy", "score 40 is NaN", "nan_to_num"],
                     score=self.graph.write("score.npy", "<f4", (100,), score))

    def test_repeated_train_id(self):
        path = self.graph.write("twice.npy", "<i4", (3,), [5, 7, 5])
        for method in ("degree", "expected", "blend"):
            self.refused(["twice.npy", "entries 0 and 2 are both 5"], split=["train=" + path],
                         score=method)

    # ---- output ----

    def test_output_exists(self):
        os.mkdir(self.out)
        self.fails("stage", *self.graph.options(), "--out", self.out, code=1,
                   says=[self.out, "exists"])
        self.assertEqual(os.listdir(self.out), [])

    def test_output_cannot_be_created(self):
        self.refused("/proc/out", more=["--out", "/proc/out"])

    @staticmethod
    def limit_file_size():
        """Make writes beyond a limit fail as on a full disk.

        The kernel also sends SIGXFSZ, which the command must ignore.
        """
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))

    def test_writes_fail_for_lack_of_space(self):
        graph = Graph(self.folder, vertices=20000, edges=1000, row_bytes=64)
        before = sorted(os.listdir(self.folder))
        self.fails("stage", *graph.options(), "--out", self.out, code=1,
                   says=[self.out, "File too large"],
                   preexec_fn=self.limit_file_size)
        self.assertEqual(sorted(os.listdir(self.folder)),
                         sorted(before + [os.path.basename(self.out) + ".partial"]))
        # without the limit it succeeds
        self.run_rung("stage", *graph.options(), "--out", self.out, "--resume")
        self.run_rung("verify", self.out, "--source", graph.features)

    def on_a_small_disk(self, size, *args):
        """Run the command on a tmpfs of `size`; return the process and the names left on it."""
        disk = self.path("disk")
        os.makedirs(disk, exist_ok=True)
        script = ("mount -t tmpfs -o size=%s tmpfs '%s' || exit 99; \"$@\"; code=$?; "
                  "ls -A '%s' >&3; exit $code" % (size, disk, disk))
        listing = self.path("listing")
        with open(listing, "wb") as file:
            done = subprocess.run(["unshare", "-rm", "sh", "-c",
                                   "exec 3>&%d; " % file.fileno() + script, "sh", RUNG, *args],
                                  pass_fds=[file.fileno()],
                                  capture_output=True, text=True, check=False)
        with open(listing, encoding="utf-8") as file:
            names = file.read().split()
        os.remove(listing)
        if done.returncode in (99, 126, 127) or "unshare:" in done.stderr:
            self.skipTest("cannot mount a tmpfs here: " + done.stderr.strip())
        return done, names

    @unittest.skipUnless(shutil.which("unshare"), "unshare is not installed")
    def test_full_disk(self):
        graph = Graph(self.folder, vertices=20000, edges=1000, row_bytes=64)
        done, names = self.on_a_small_disk("1m", "stage", *graph.options(), "--out",
                                           self.path("disk", "out"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("free", done.stderr)   # reported before anything is written
        self.assertEqual(names, [])
        done, names = self.on_a_small_disk("16m", "stage", *graph.options(), "--out",
                                           self.path("disk", "out"))
        self.assertEqual((done.returncode, names), (0, ["out"]), done.stderr)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Damaged datasets: one byte changed, files truncated or missing, staging killed."""
import filecmp
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import RUNG, CliTest, Graph, main


class Corrupt(CliTest):
    def setUp(self):
        super().setUp()
        # features longer than one checksum block of 1 MiB
        self.graph = Graph(self.folder, vertices=20000, edges=30000, row_bytes=100)
        self.staged = self.stage(self.graph)
        self.assertIs(self.json_of("verify", self.staged)["ok"], True)

    def flipped(self, name, offset):
        """Flip a bit of the byte at an offset; restore it at the end of the with block."""
        path = os.path.join(self.staged, name)

        class Flip:
            def __enter__(flip):
                with open(path, "r+b") as file:
                    file.seek(offset)
                    flip.byte = file.read(1)
                    file.seek(offset)
                    file.write(bytes([flip.byte[0] ^ 0x01]))

            def __exit__(flip, *_):
                with open(path, "r+b") as file:
                    file.seek(offset)
                    file.write(flip.byte)
        return Flip()

    def test_one_byte_of_any_file(self):
        names = sorted(os.listdir(self.staged))
        self.assertGreaterEqual(len(names), 10)
        for name in names:
            size = os.path.getsize(os.path.join(self.staged, name))
            for offset in sorted({0, 7, size // 3, size * 2 // 3, size - 1}):
                with self.subTest(file=name, offset=offset), self.flipped(name, offset):
                    report = self.json_of("verify", self.staged, code=3)
                    self.assertIs(report["ok"], False)
                    named = [bad for bad in report["bad"] if bad["file"] == name]
                    self.assertTrue(named, "%s is not named in %r" % (name, report["bad"]))
                    self.assertLessEqual(named[0]["offset"], offset)
                    if name.startswith("features"):
                        self.assertGreater(named[0]["offset"] + (1 << 26), offset)
        self.assertIs(self.json_of("verify", self.staged)["ok"], True)

    def test_text_names_block_and_offset(self):
        name = next(name for name in os.listdir(self.staged) if name.startswith("features"))
        size = os.path.getsize(os.path.join(self.staged, name))
        with self.flipped(name, size - 1):
            bad = self.json_of("verify", self.staged, code=3)["bad"]
            self.assertEqual(len(bad), 1)
            text = self.run_rung("verify", self.staged, code=3).stdout
            self.assertIn("%s: block %d at offset %d" % (name, bad[0]["block"], bad[0]["offset"]),
                          text)
        self.assertGreaterEqual(bad[0]["block"], 0)

    def test_both_of_two_damaged_files_are_named(self):
        with self.flipped("labels.npy", 5000), self.flipped("graph_indptr.npy", 5000):
            bad = self.json_of("verify", self.staged, code=3)["bad"]
        self.assertEqual(sorted(entry["file"] for entry in bad), ["graph_indptr.npy", "labels.npy"])

    def test_changed_manifest_does_not_open(self):
        size = os.path.getsize(os.path.join(self.staged, "manifest.json"))
        for offset in range(0, size, size // 25):
            with self.subTest(offset), self.flipped("manifest.json", offset):
                for name in ("info", "plan", "bench"):
                    done = subprocess.run([RUNG, name, self.staged], capture_output=True, text=True,
                                          check=False)
                    self.assertIn(done.returncode, (1, 3))
                    self.assertIn("manifest.json", done.stderr)

    def test_resized_or_missing_files_do_not_open(self):
        for name in sorted(os.listdir(self.staged)):
            path, kept = os.path.join(self.staged, name), self.path("kept")
            shutil.copy(path, kept)
            for what in ("cut", "grown", "gone"):
                with self.subTest(file=name, what=what):
                    if what == "gone":
                        os.remove(path)
                    else:
                        with open(path, "r+b") as file:
                            file.seek(0, os.SEEK_END)
                            file.truncate(file.tell() + (1 if what == "grown" else -1))
                    done = subprocess.run([RUNG, "info", self.staged], capture_output=True,
                                          text=True, check=False)
                    self.assertIn(done.returncode, (1, 3))
                    self.assertIn(name, done.stderr)
                    done = subprocess.run([RUNG, "verify", self.staged], capture_output=True,
                                          text=True, check=False)
                    self.assertIn(done.returncode, (1, 3))
                    self.assertIn(name, done.stdout + done.stderr)
                shutil.copy(kept, path)
        self.run_rung("verify", self.staged)

    @staticmethod
    def put_special(kind, path):
        """Create a special file. Return False if this user is not permitted to create it."""
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            os.mkdir(path)
        elif kind == "socket":
            with socket.socket(socket.AF_UNIX) as end:
                end.bind(path)
        else:
            try:
                os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))   # /dev/zero
            except PermissionError:
                return False
        return True

    def test_special_files_count_as_damage(self):
        """None of them blocks: a plain open() of a FIFO would never return."""
        os.chdir(self.folder)   # the path of a socket must be short
        self.addCleanup(os.chdir, "/")
        for name in sorted(os.listdir(self.staged)):
            path, kept = os.path.join("staged", name), self.path("kept")
            os.rename(path, kept)
            for kind in ("fifo", "folder", "socket", "device"):
                with self.subTest(file=name, kind=kind):
                    if not self.put_special(kind, path):
                        continue
                    report = self.json_of("verify", "staged", "--source", self.graph.features,
                                          code=3)
                    self.assertEqual({entry["file"] for entry in report["bad"]}, {name})
                    if kind == "fifo":
                        self.run_rung("verify", "staged", "--repair", code=3)
                    done = subprocess.run([RUNG, "info", "staged"], capture_output=True, text=True,
                                          timeout=300, check=False)
                    self.assertIn(done.returncode, (1, 3))
                    self.assertIn(name, done.stderr)
                (os.rmdir if kind == "folder" else os.remove)(path)
            os.rename(kept, path)
        self.run_rung("verify", "staged")


class Killed(CliTest):
    KILLS = 25

    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=40000, edges=200000, row_bytes=300)
        begun = time.monotonic()
        self.reference = self.stage(self.graph, "reference")
        self.seconds = time.monotonic() - begun
        self.out = self.path("out")

    def start(self, *more):
        return subprocess.Popen([RUNG, "stage", *self.graph.options(), "--out", self.out, "--quiet",
                                 *more],
                                stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def opens(self, folder):
        done = subprocess.run([RUNG, "info", folder], capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1))
        return done.returncode == 0

    def same_as_reference(self, folder):
        names = sorted(os.listdir(self.reference))
        self.assertEqual(sorted(os.listdir(folder)), names)
        self.assertEqual(filecmp.cmpfiles(folder, self.reference, names, shallow=False)[1:],
                         ([], []))

    def test_sigkill_leaves_nothing_that_opens(self):
        whole = 0
        for kill in range(self.KILLS):
            process = self.start("--resume")   # sometimes resumes the previous run
            time.sleep(self.seconds * kill / self.KILLS * 1.1)
            process.kill()
            process.communicate()
            # Staging had finished; at most the journal remains to be removed.
            if os.path.exists(self.out):
                whole += 1
                if os.path.exists(os.path.join(self.out, "journal")):
                    self.run_rung("stage", *self.graph.options(), "--out", self.out, "--resume")
                self.same_as_reference(self.out)
                self.run_rung("verify", self.out)
                shutil.rmtree(self.out)
            self.assertFalse(self.opens(self.out))
            self.assertFalse(self.opens(self.out + ".partial"))
        self.assertLess(whole, self.KILLS)
        # resume after the last kill
        self.run_rung("stage", *self.graph.options(), "--out", self.out, "--resume")
        self.same_as_reference(self.out)
        self.assertFalse(os.path.exists(self.out + ".partial"))

    def test_sigkill_while_replacing_keeps_a_complete_folder(self):
        shutil.copytree(self.reference, self.out)
        for kill in range(self.KILLS):
            process = self.start("--force")
            time.sleep(self.seconds * kill / self.KILLS * 1.1)
            process.kill()
            process.communicate()
            self.run_rung("verify", self.out)   # the old dataset or the new one

    def test_sigint_and_sigterm_leave_nothing_or_a_resumable_folder(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            for share in (0.2, 0.5, 0.8):
                process = self.start()
                time.sleep(self.seconds * share)
                process.send_signal(number)
                message = process.communicate()[1]
                self.assertIn(process.returncode, (0, -number), message)
                if os.path.exists(self.out):   # it had finished
                    self.same_as_reference(self.out)
                    shutil.rmtree(self.out)
                left = os.path.exists(os.path.join(self.out + ".partial", "journal"))
                self.assertEqual(left, "--resume" in message, message)
                self.run_rung("stage", *self.graph.options(), "--out", self.out,
                              *(["--resume"] if left else []))
                self.same_as_reference(self.out)
                shutil.rmtree(self.out)

    def test_two_runs_at_once(self):
        """One run stages; the other fails and names the folder."""
        first, second = self.start(), self.start()
        results = [process.communicate()[1] for process in (first, second)]
        codes = sorted((first.returncode, second.returncode))
        self.assertEqual(codes, [0, 1], results)
        self.assertIn(self.out, "".join(results))
        self.same_as_reference(self.out)


if __name__ == "__main__":
    main()

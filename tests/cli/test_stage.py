# SPDX-License-Identifier: Apache-2.0
"""rung stage: memory budget, row orders, resuming after a stop, and parts on several machines."""
import filecmp
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import CliTest, Graph, TESTS, main

PARTS = 5   # of the tests of --part


class Stage(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=2000, edges=9000, row_bytes=3000)
        self.options = self.graph.options(score="degree")

    def test_every_row_order_verifies(self):
        for plan in ("passes", "partition", "gather", "auto"):
            out = self.path(plan)
            report = self.json_of("stage", *self.options, "--out", out, "--memory", "16MiB",
                                  "--row-order", plan)
            self.assertIn(report["rows"]["row_order"],
                          ("passes", "partition", "gather") if plan == "auto"
                          else (plan,))
            self.assertEqual(report["budget_bytes"], 16 << 20)
            self.assertLessEqual(report["memory_bytes"], 16 << 20)
            self.assertEqual([phase["name"] for phase in report["phases"]],
                             ["graph", "score", "rank", "relabel", "features", "labels", "files"])
            self.assertGreaterEqual(report["phases"][4]["bytes_written"], report["feature_bytes"])
            self.run_rung("verify", out, "--source", self.graph.features)

    def test_a_dry_run_prints_the_row_order_and_the_needed_space(self):
        out = self.path("out")
        for option, order in (("--row-order", "partition"), ("--plan", "deal")):
            text = self.run_rung("stage", *self.options, "--out", out, "--memory", "16MiB", option,
                                 order, "--dry-run").stdout
            self.assertIn("rows by partition in", text)
            self.assertIn("more temporarily", text)
        self.assertFalse(os.path.exists(out) or os.path.exists(out + ".partial"))

    def test_invalid_shares_are_reported(self):
        for options, words in ((["--until", "0.4"], "give --stripe first"),
                               (["--stripe", "x", "--until", "40"], "not a share"),
                               (["--stripe", "x", "--until", "0%"], "not a share"),
                               (["--stripe", "x", "--until", "0.5", "--until", "0.6"],
                                "give --stripe first"),
                               (["--stripe", "x", "--until", "0.5"], "ascend to 1")):
            self.fails("stage", *self.graph.options(), "--out", self.path("no"), *options,
                       code=2, says=[words])

    def test_too_little_memory_is_reported(self):
        self.fails("stage", *self.options, "--out", self.path("out"), "--memory", "1MiB", code=2,
                   says=["at least", "--memory"])
        self.assertFalse(os.path.exists(self.path("out.partial")))

    def test_file_names_that_look_like_specs(self):
        self.graph = Graph(self.folder, vertices=60, edges=300, row_bytes=16)
        os.mkdir(self.path("dir.npz:a"))
        names = {"graph": "edges+1,2", "features": "dir.npz:a/x.npy", "score": "hot",
                 "labels": "year.pt:y"}
        score = self.graph.write("score", "<f4", (60,), [(7 * v) % 60 for v in range(60)])
        for option, file in (("graph", self.graph.graph), ("features", self.graph.features),
                             ("score", score), ("labels", self.graph.label_file)):
            os.rename(file, self.path(names[option]))
        words = self.graph.options(**{option: self.path(name) for option, name in names.items()})
        out = self.path("out")
        report = self.json_of("stage", *words, "--out", out)
        self.assertEqual((report["edges"], report["score"]["method"]), (300, "given"))
        self.run_rung("verify", out, "--source", self.path(names["features"]),
                      "--graph", self.path(names["graph"]), "--labels", self.path(names["labels"]))

    def test_features_without_a_graph(self):
        out = self.path("out")
        words = ["--graph", "none", "--features", self.graph.features, "--out", out]
        report = self.json_of("stage", *words, "--labels", self.graph.label_file)
        self.assertEqual((report["vertices"], report["edges"]), (2000, 0))
        self.run_rung("verify", out, "--source", self.graph.features, "--graph", "none",
                      "--labels", self.graph.label_file)
        self.run_rung("plan", out, "--host", "1MiB")
        self.fails("stage", *words, "--graph", self.graph.graph, code=2,
                   says="--graph none: another --graph is given; omit one of them")
        self.fails("stage", *words, "--undirected", "--force", code=2,
                   says="undirected needs edges")
        self.fails("stage", *words, "--fanout", "5", "--force", code=2,
                   says="fanouts need a graph")
        self.fails("stage", "--graph", "none", "--igb", self.folder, "--out", out, code=2,
                   says="--graph none: the given dataset provides a graph; omit --graph")

    def interrupted(self, out):
        """Send SIGINT after the ranking; return whether the run was interrupted."""
        process = self.start("stage", *self.options, "--out", out, "--memory", "16MiB",
                             "--row-order",
                             "passes")
        journal = os.path.join(out + ".partial", "journal")
        while process.poll() is None and not os.path.exists(journal):
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        process.communicate()
        self.assertIn(process.returncode, (0, -signal.SIGINT))
        return os.path.exists(journal)

    def test_an_interrupted_run_resumes_only_with_resume(self):
        self.graph = Graph(self.folder, vertices=3000, edges=9000, row_bytes=20000)
        self.options = self.graph.options(score="degree")
        out = self.path("out")
        tries = 0
        while not self.interrupted(out):   # the run may have finished first
            tries += 1
            self.assertLess(tries, 50)
            if os.path.exists(out):
                self.run_rung("stage", *self.options, "--out", out, "--force", "--quiet")
                os.rename(out, "%s.%d" % (out, tries))
        self.fails("stage", *self.options, "--out", out, code=1, says=["--resume", "--force"])
        self.fails("stage", *self.options, "--out", out, "--resume", "--batch", "7", code=2,
                   says=["another job", "batches of 7"])
        report = self.json_of("stage", *self.options, "--out", out, "--resume")
        self.assertTrue(report["resumed"])
        self.assertIs(report["already_staged"], False)
        self.run_rung("verify", out, "--source", self.graph.features)

    def test_resuming_a_finished_job_succeeds(self):
        """A scheduler may repeat the command until it succeeds."""
        out = self.path("out")
        self.run_rung("stage", *self.options, "--out", out, "--resume")
        before = self.state(out)
        again = ["stage", *self.options, "--out", out, "--resume"]
        self.assertIn("already staged: " + out, self.run_rung(*again).stdout)
        report = self.json_of(*again)
        self.assertEqual((report["already_staged"], report["resumed"]), (True, True))
        self.assertEqual((report["rows"], report["phases"]), (None, None))
        self.assertEqual(report["edges"], 9000)
        self.fails(*again, "--batch", "7", code=1, says=["another job", "batches of 7", "--force"])
        self.fails("stage", *self.options, "--out", out, code=1, says="exists")
        self.assertEqual(self.state(out), before)
        os.truncate(os.path.join(out, "labels.npy"), 4100)
        self.fails(*again, code=3, says=["labels.npy", "4100 bytes", "--repair", "--force"])

    @staticmethod
    def state(folder):
        stats = {entry.name: entry.stat() for entry in os.scandir(folder)}
        return {name: (stat.st_mtime_ns, stat.st_ino) for name, stat in stats.items()}

    def test_a_replaced_dataset_that_cannot_be_removed_is_named(self):
        """The user must lack write permission, so root runs the command as another user."""
        home, out = self.path("home"), self.path("home", "out")
        command, user = self.path("rung"), {}
        os.mkdir(home)
        shutil.copy(self.command, command)
        if os.getuid() == 0:
            user = {"user": 65534}
            os.chmod(self.folder, 0o755)
            os.chmod(command, 0o755)
            for entry in os.scandir(self.folder):   # independent of the umask
                if entry.name.endswith(".npy"):
                    os.chmod(entry.path, 0o644)
            os.chown(home, 65534, -1)
            try:
                subprocess.run([command, "--version"], check=True, capture_output=True, **user)
            except (OSError, subprocess.SubprocessError) as error:
                self.skipTest("other users cannot reach %s: %s" % (self.folder, error))
        self.command = command
        stage = ["stage", *self.options, "--out", out, "--quiet"]
        self.run_rung(*stage, **user)
        os.chmod(out, 0o555)
        done = self.run_rung(*stage, "--batch", "7", "--force", **user)
        os.chmod(out + ".partial", 0o755)
        self.assertIn(out + ".partial: the replaced dataset could not be removed", done.stderr)
        self.assertIn("Permission denied", done.stderr)
        self.assertEqual(self.json_of("info", out)["batch"], 7)

    def test_names_that_are_not_utf8_are_reported(self):
        """JSON contains U+FFFD for each byte that is not UTF-8."""
        bad = self.path(os.fsdecode(b"b\xc3\xa4d\xff\xc3"))
        shown = self.path("b\u00e4d\ufffd\ufffd")
        os.mkdir(bad)
        out, score = os.path.join(bad, "out"), os.path.join(bad, "score.npy")
        profile = shutil.copy(os.path.join(TESTS, "fixtures", "profile-example.json"), bad)
        report = self.json_of("stage", *self.options, "--out", out)
        self.assertEqual(report["out"], os.path.join(shown, "out"))
        report = self.json_of("score", "--graph", self.graph.graph, "--score", "degree", "--out",
                              score)
        self.assertEqual(report["out"], os.path.join(shown, "score.npy"))
        report = self.json_of("plan", out, "--host", "max", "--profile", profile)
        self.assertEqual(report["profile"], os.path.join(shown, "profile-example.json"))
        self.json_of("info", out)
        self.json_of("trace", out, "--host", "20%", "--scores", "degree")
        store = ["--host", "max", "--numa-node", "none"]
        self.json_of("bench", out, *store, "--rows", 100)
        if self.can_train():
            self.json_of("train", out, *store, "--epochs", 1, "--hidden", 4, "--fanout", "2,2")
        rank_of_vertex = os.path.join(out, "rank_of_vertex.npy")
        os.remove(rank_of_vertex)
        os.mkdir(rank_of_vertex)
        report = self.json_of("verify", out, "--repair", code=3)
        self.assertIn(os.path.join(shown, "out", "rank_of_vertex.npy"), report["unrepaired"])
        os.rmdir(rank_of_vertex)
        self.assertIs(self.json_of("verify", out, "--repair")["ok"], True)


class StageParts(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=2000, edges=9000, row_bytes=3000)
        self.score = self.path("score.npy")
        self.run_rung("score", "--graph", self.graph.graph, "--score", "degree", "--out",
                      self.score)
        self.options = self.graph.options(score=self.score)
        self.out = self.path("out")

    def part(self, part, parts=PARTS):
        return ["stage", *self.options, "--out", self.out, "--part", "%d/%d" % (part, parts)]

    def is_whole(self):
        """Compare with the dataset of one process, of which only the features are one file."""
        whole = self.path("whole")
        self.run_rung("stage", *self.options, "--out", whole)
        for name in os.listdir(whole):
            if name not in ("manifest.json", "checksums.npy", "features.000.npy"):
                self.assertTrue(filecmp.cmp(os.path.join(whole, name),
                                            os.path.join(self.out, name), shallow=False), name)
        self.run_rung("verify", self.out, "--source", self.graph.features, "--graph",
                      self.graph.graph, "--labels", self.graph.label_file)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("out")],
                         ["out"])

    def test_processes_at_the_same_time(self):
        again = range(PARTS)
        for _ in range(2):   # part 0 may be ready before the others
            processes = [(part, self.start(*self.part(part), "--resume")) for part in again]
            again = []
            for part, process in processes:
                _, errors = process.communicate()
                if part == 0 and process.returncode == 1:
                    self.assertIn("continue part 0 with --resume", errors)
                    self.assertFalse(os.path.exists(self.out))
                    again = [0]
                else:
                    self.assertEqual((process.returncode, errors), (0, ""), part)
        self.is_whole()
        for part in range(PARTS):
            report = self.json_of(*self.part(part), "--resume")
            self.assertEqual((report["already_staged"], report["edges"]),
                             (True, None if part else 9000))

    def test_reports(self):
        text = self.run_rung(*self.part(1), "--dry-run").stdout
        self.assertIn("part 1/5: 400 rows from rank 400 on", text)
        self.assertIn("would write 1.15 MiB to %s.part-001-of-005.partial" % self.out, text)
        report = self.json_of(*self.part(1))
        self.assertEqual(report["part"],
                         {"part": 1, "parts": 5, "rank_first": 400, "rank_count": 400})
        self.assertEqual(report["bytes_written"], 4096 + 400 * 3000)
        self.fails(*self.part(0), code=1,
                   says=["2 (missing), 3 (missing), 4 (missing)", "--resume"])
        self.fails(*self.part(0), "--resume", "--batch", "7", code=2, says="batches of 7")
        self.fails("info", self.out + ".part-001-of-005.partial", code=1, says="partial")
        self.assertEqual(sorted(name for name in os.listdir(self.folder)
                                if name.startswith("out")),
                         ["out.part-001-of-005.partial", "out.partial"])

    def test_wrong_usage(self):
        stage = ["stage", *self.graph.options(), "--out", self.out]
        self.fails(*stage, "--part", "0/2", code=2, says=["the same scores", "rung score"])
        for text in ("1", "/2", "1/", "2/2", "0/17", "-1/2", "1/2x", "a/b", "0/0"):
            self.fails(*stage, "--part=" + text, code=2, says=["'%s' is not a part" % text])
        for option in (["--in-place"], ["--stripe", self.folder],
                       ["--stripe", self.folder, "--until", "40%", "--stripe", self.folder]):
            self.fails(*self.part(0), *option, code=2, says=["cannot be combined", option[0]])

    def test_an_interrupted_part_prints_how_to_continue(self):
        self.graph = Graph(self.folder, vertices=3000, edges=9000, row_bytes=20000)
        self.run_rung("score", "--graph", self.graph.graph, "--score", "degree", "--out",
                      self.score)
        self.options = self.graph.options(score=self.score) + ["--memory", "16MiB"]
        journal = self.out + ".part-001-of-002.partial/journal"
        for _ in range(50):   # the part may have finished first
            process = self.start(*self.part(1, 2), "--force", "--row-order", "passes")
            while process.poll() is None and not os.path.exists(journal):
                time.sleep(0.001)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
            if process.returncode == -signal.SIGINT and os.path.exists(journal):
                break
        self.assertIn("finished work is in %s.part-001-of-002.partial" % self.out, errors)
        self.assertTrue(self.json_of(*self.part(1, 2), "--resume")["resumed"])
        self.run_rung(*self.part(0, 2))
        self.is_whole()


if __name__ == "__main__":
    main()

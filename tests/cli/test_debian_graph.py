# SPDX-License-Identifier: Apache-2.0
"""tools/debian_graph.py on a small archive whose graph is computed by hand."""
import json
import math
import os
import struct
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import CliTest, main, read_npy

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools",
                      "debian_graph.py")

ARCHIVE = """\
Package: zeta
Section: contrib/libs
Description: Zeta engine

Package: alpha
Version: 2
Depends: libc6 (>= 2.34), beta:any (>= 1) | zeta [amd64 !i386],
 gamma-tools | not-there
Pre-Depends: zeta
Recommends: alpha
Suggests: virtual-thing, zeta
Conflicts: libc6
Section: games
Description: engine of games
 The long text of an engine.

Package: beta
Depends: alpha
Section: games
Description: games

Package: libc6
Section: libs
Tag: a::b,
 c::d
Description: library

Package: gamma-tools
Description: no section

Package: alpha
Version: 1
Depends: gamma-tools
Section: net
Description: an older one
"""
NAMES = ["alpha", "beta", "gamma-tools", "libc6", "zeta"]


class GraphTest(CliTest):
    def make(self, text=ARCHIVE, *more, out="data", code=0):
        with open(self.path("available"), "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([sys.executable, SCRIPT, self.path(out), "--input",
                              self.path("available"), *more],
                              capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def load(self, name, out="data"):
        return read_npy(self.path(out, name + ".npy"))

    def lines(self, name):
        with open(self.path("data", name), encoding="utf-8") as file:
            return file.read().splitlines()


class DebianGraph(GraphTest):
    def test_edges_point_from_dependency_to_package(self):
        self.make()
        self.assertEqual(self.lines("packages.txt"), NAMES)
        descr, shape, values = self.load("edges")
        self.assertEqual((descr, shape), ("<i8", (2, 5)))
        edges = {(NAMES[u], NAMES[v]) for u, v in zip(values[:5], values[5:])}
        self.assertEqual(edges, {("libc6", "alpha"), ("beta", "alpha"), ("zeta", "alpha"),
                                 ("gamma-tools", "alpha"), ("alpha", "beta")})

    def test_labels_are_sections_without_area(self):
        self.make()
        self.assertEqual(self.lines("classes.txt"), ["games", "libs"])
        self.assertEqual(self.load("labels"), ("<i8", (5,), [0, 0, -1, 1, 1]))

    def test_features_are_normalized_hashed_words(self):
        self.make()
        descr, shape, data = self.load("features")
        self.assertEqual((descr, shape, len(data)), ("<f2", (5, 512), 5 * 512 * 2))
        rows = [memoryview(data)[1024 * i:1024 * (i + 1)] for i in range(5)]
        # beta: the word "games" is in two of five packages, "beta" and "~beta" in one
        expected = {}
        for word, holders in (("games", 2), ("beta", 1), ("~beta", 1)):
            code = zlib.crc32(word.encode())
            expected[code % 512] = expected.get(code % 512,
                                                0) + (1 if code & 512
                                                      else -1) * math.log(5 / holders)
        length = math.sqrt(sum(value * value for value in expected.values()))
        values = self.halves(rows[1])
        for column in range(512):
            self.assertAlmostEqual(values[column], expected.get(column, 0) / length, delta=6e-4)
        for row in rows:
            self.assertAlmostEqual(sum(value * value for value in self.halves(row)), 1, delta=2e-3)

    def halves(self, row):
        return struct.unpack("<512e", row)

    def test_a_package_stays_in_its_split(self):
        text = "".join("Package: p%d\nSection: %s\n\n" % (i, "ab"[i % 2]) for i in range(5000))
        self.make(text)
        names = self.lines("packages.txt")
        splits = {name: [names[i] for i in self.load(name)[2]]
                  for name in ("train", "valid", "test")}
        self.assertEqual(sorted(sum(splits.values(), [])), names)
        for name, share in (("train", 0.6), ("valid", 0.2), ("test", 0.2)):
            self.assertAlmostEqual(len(splits[name]) / 5000, share, delta=0.03)
        self.make(text.replace("p1\n", "elsewhere\n"), "--force")
        names = self.lines("packages.txt")
        again = {name: [names[i] for i in self.load(name)[2]] for name in splits}
        for name in splits:
            self.assertEqual(set(again[name]) - {"elsewhere"}, set(splits[name]) - {"p1"})

    def test_packages_without_a_section_are_in_no_split(self):
        self.make()
        ids = sum((self.load(name)[2] for name in ("train", "valid", "test")), [])
        self.assertEqual(sorted(ids), [0, 1, 3, 4])

    def test_the_same_input_gives_the_same_bytes(self):
        self.make(out="data")
        self.make(out="again")
        for name in os.listdir(self.path("data")):
            with open(self.path("data", name),
                      "rb") as one, open(self.path("again", name), "rb") as other:
                self.assertEqual(one.read(), other.read(), name)

    def test_an_existing_dataset_is_replaced_only_with_force(self):
        self.make()
        self.assertIn("--force", self.make(code=1).stderr)
        self.make(ARCHIVE, "--force")
        os.mkdir(self.path("other"))
        self.assertIn("such a dataset", self.make(ARCHIVE, "--force", out="other", code=1).stderr)
        self.assertEqual(os.listdir(self.path("other")), [])

    def test_an_empty_archive_is_refused(self):
        self.assertIn("apt-get update", self.make("\n\n", code=1).stderr)
        self.assertEqual(os.listdir(self.folder), ["available"])


TYPED = """\
Package: alpha
Maintainer: One Team <Team@example.org>
Depends: beta
Section: contrib/games
Tag: game::arcade, role::program,
 use::gameplaying

Package: beta
Maintainer: Team <team@example.org>
Section: games
Tag: role::program, role::shared-lib

Package: gamma
Maintainer: other@example.org
Suggests: alpha
Section: doc
Tag: role::documentation

Package: delta
Tag: special::role::program-like
""" + "".join(f"""
Package: filler{i}
Maintainer: other@example.org
Section: libs
Tag: role::{'program' if i % 2 else 'plugin'}, implemented-in::c
""" for i in range(41))


class Typed(GraphTest):
    """--typed: the same rows, other labels, and more relations."""

    def setUp(self):
        super().setUp()
        self.make(TYPED, "--typed")
        self.names = self.lines("packages.txt")

    def pairs(self, name, targets):
        descr, (two, count), values = self.load(name)
        self.assertEqual((descr, two), ("<i8", 2))
        return {(self.names[a], targets[b]) for a, b in zip(values[:count], values[count:])
                if not self.names[a].startswith("filler")}

    def test_edges(self):
        self.assertEqual(self.pairs("depends", self.names), {("beta", "alpha"), ("alpha", "gamma")})
        maintainers, sections = self.lines("maintainers.txt"), self.lines("sections.txt")
        self.assertEqual(maintainers, ["other@example.org", "team@example.org"])
        self.assertEqual(sections, ["doc", "games", "libs"])
        self.assertEqual(self.pairs("maintained_by", maintainers),
                         {("alpha", maintainers[1]), ("beta", maintainers[1]),
                          ("gamma", maintainers[0])})
        self.assertEqual(self.pairs("in_section", sections),
                         {("alpha", "games"), ("beta", "games"), ("gamma", "doc")})

    def test_labels_are_single_and_frequent_roles(self):
        self.assertEqual(self.lines("classes.txt"), ["plugin", "program"])   # of 21 packages each
        labels = dict(zip(self.names, self.load("labels")[2]))
        self.assertEqual([labels[name] for name in ("alpha", "beta", "gamma", "delta", "filler0")],
                         [1, -1, -1, -1, 0])
        ids = sum((self.load(name)[2] for name in ("train", "valid", "test")), [])
        self.assertEqual(sorted(ids), [i for i, name in enumerate(self.names)
                                       if labels[name] >= 0])

    def test_rows_are_those_of_the_untyped_graph(self):
        self.make(TYPED, out="untyped")
        self.assertEqual(self.load("features"), self.load("features", "untyped"))

    def test_the_description(self):
        with open(self.path("data", "dataset.json"), encoding="utf-8") as file:
            found = json.load(file)
        package, maintainer, section = found["vertex_types"]
        self.assertEqual((package["count"], sorted(package["splits"])),
                         (len(self.names), ["test", "train", "valid"]))
        self.assertEqual((maintainer, section), ({"name": "maintainer", "count": 2},
                                                 {"name": "section", "count": 3}))
        for forward, reverse in zip(found["relations"][::2], found["relations"][1::2]):
            self.assertEqual((reverse["source"], reverse["target"]),
                             (forward["target"], forward["source"]))
            self.assertEqual(reverse["edges"], forward["edges"])
            self.assertTrue(reverse["reversed"])
            shape = self.load(forward["name"])[1]
            self.assertEqual((forward["count"], reverse["count"]), (shape[1],) * 2)
        self.assertEqual([each["name"] for each in found["relations"]],
                         ["depends", "needed_by", "maintained_by", "maintains", "in_section",
                          "has_package"])

    def test_force_replaces_either_form(self):
        self.make(TYPED, "--force")
        self.assertFalse(os.path.exists(self.path("data", "dataset.json")))
        self.make(TYPED, "--typed", "--force")
        self.assertTrue(os.path.exists(self.path("data", "dataset.json")))


class Report(CliTest):
    """tools/demo_report.py, which ends the demo."""

    def result(self, name, seconds, loss=0.5, command="rung plan x"):
        result = {"epochs": [{"seconds": s, "loss": loss, "valid_loss": 0.25,
                              "valid_accuracy": 0.75} for s in seconds],
                  "valid_accuracy": 0.75, "test_accuracy": 0.8, "majority_accuracy": 0.1,
                  "tiers": [{"name": "host", "hits": 20}, {"name": "nvme", "hits": 60}],
                  "verdict": {"wait_share": 0.125, "command": command}}
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(result, file)
        return self.path(name)

    def report(self, *files):
        script = os.path.join(os.path.dirname(SCRIPT), "demo_report.py")
        return subprocess.run([sys.executable, script, *files, files[1], "10 %"], text=True,
                              capture_output=True, check=False)

    def test_it_compares_the_medians(self):
        whole = self.result("all", [1, 2, 90])
        for seconds, says in (([2.5, 0, 99], "25 % slower than"), ([9, 1.5, 1], "25 % faster than"),
                              ([2.01, 2.01, 2.01], "as fast as")):
            done = self.report(self.result("part", seconds), whole)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("10 %% of the features in memory: %s with all in memory, the same losses"
                          % says, done.stdout)
            for word in ("25.00 %", "12.50 %", "80.00 %", "next: rung plan x"):
                self.assertIn(word, done.stdout)

    def test_other_losses_fail(self):
        whole = self.result("all", [1, 2, 3])
        done = self.report(self.result("part", [1, 2, 3], loss=0.5000000001), whole)
        self.assertEqual(done.returncode, 1)
        self.assertIn("OTHER LOSSES", done.stdout)
        self.assertIn("have different losses", done.stderr)

    def test_a_verdict_without_a_command(self):
        whole = self.result("all", [1, 2, 3], command=None)
        self.assertNotIn("next", self.report(whole, whole).stdout)


if __name__ == "__main__":
    main()

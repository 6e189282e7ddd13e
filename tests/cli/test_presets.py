# SPDX-License-Identifier: Apache-2.0
"""Folders of public data sets, in miniature: the staged contents, and the messages for missing or
damaged files."""
import gzip
import json
import math
import os
import random
import struct
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "support"))
import torchfile   # pylint: disable=wrong-import-position
from clitest import (CliTest, main, npy_bytes,
                     read_npy)   # pylint: disable=wrong-import-position

NAN = float("nan")


def floats(draws, count):
    return struct.pack("<%df" % count, *(draws.random() for _ in range(count)))


class Folder(CliTest):
    """Creates folders and compares the staged data with their contents."""

    def setUp(self):
        super().setUp()
        self.root = self.path("root")
        self.out = self.path("staged")
        self.draws = random.Random(5)

    def put(self, name, content):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def edges_between(self, count, sources, destinations):
        return [(self.draws.randrange(sources), self.draws.randrange(destinations))
                for _ in range(count)]

    @staticmethod
    def two_rows(edges):
        return npy_bytes("<i8", (2, len(edges)), [u for u, _ in edges] + [v for _, v in edges])

    def staged(self, *args):
        report = self.json_of("stage", *args, "--out", self.out, "--score", "degree")
        self.maps = [read_npy(os.path.join(self.out, name + ".npy"))[2]
                     for name in ("vertex_of_rank", "rank_of_vertex")]
        return report

    def array(self, name):
        return read_npy(os.path.join(self.out, name + ".npy"))

    def has_rows(self, rows, row_bytes):
        with open(os.path.join(self.out, "features.000.npy"), "rb") as file:
            content = file.read()[4096:]
        self.assertEqual(b"".join(content[rank * row_bytes:(rank + 1) * row_bytes]
                                  for rank in self.maps[1]), rows)

    def has_edges(self, edges):
        """Check the in-neighbours of every vertex, in any order."""
        lists = {}
        for source, destination in edges:
            lists.setdefault(destination, []).append(source)
        indptr, indices = self.array("graph_indptr")[2], self.array("graph_indices")[2]
        for rank, vertex in enumerate(self.maps[0]):
            found = [self.maps[0][other] for other in indices[indptr[rank]:indptr[rank + 1]]]
            self.assertEqual(sorted(found), sorted(lists.get(vertex, [])), vertex)

    def has_split(self, name, ids):
        self.assertEqual([self.maps[0][rank] for rank in self.array("split_" + name)[2]], list(ids))

    def has_years(self, years):
        by_rank = self.array("features_year")[2]
        self.assertEqual([by_rank[rank] for rank in self.maps[1]], list(years))

    def labels(self):
        by_rank = self.array("labels")[2]
        return [by_rank[rank] for rank in self.maps[1]]

    def refused(self, *args, code=1, says):
        self.fails("stage", *args, "--out", self.out, code=code, says=says)
        self.assertFalse(os.path.exists(self.out))


class Papers100M(Folder):
    papers, width = 300, 8

    def make(self, deflate=False, inside="papers100M-bin"):
        self.rows = floats(self.draws, self.papers * self.width)
        self.edges = self.edges_between(2000, self.papers, self.papers)
        self.classes = [float(self.draws.randrange(9)) if v % 3 == 0 else NAN
                        for v in range(self.papers)]
        members = {
            "edge_index": self.two_rows(self.edges),
            "node_feat": npy_bytes("<f4", (self.papers, self.width), self.rows),
            "node_year": npy_bytes("<i8", (self.papers, 1), [1990 + v for v in range(self.papers)]),
            "num_nodes_list": npy_bytes("<i8", (1,), [self.papers]),
        }
        self.npz(inside + "/raw/data.npz", members, deflate)
        self.npz(inside + "/raw/node-label.npz",
                 {"node_label": npy_bytes("<f4", (self.papers, 1), self.classes)}, True)
        self.splits = {"train": [3, 0, 299], "valid": [6], "test": list(range(9, 60, 3))}
        for name, ids in self.splits.items():
            self.put("%s/split/time/%s.csv.gz" % (inside, name),
                     gzip.compress("".join("%d\n" % i for i in ids).encode()))

    def npz(self, name, members, deflate):
        path = self.put(name, b"")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if deflate
                             else zipfile.ZIP_STORED) as archive:
            for member, content in members.items():
                archive.writestr(member + ".npy", content)

    def is_right(self):
        self.has_rows(self.rows, 4 * self.width)
        self.has_edges(self.edges)
        for name, ids in self.splits.items():
            self.has_split(name, ids)
        self.has_years(1990 + v for v in range(self.papers))
        self.assertEqual([-1 if math.isnan(c) else c for c in self.labels()],
                         [-1 if math.isnan(c) else c for c in self.classes])

    def test_stored_and_deflated_members_are_staged(self):
        for deflate in (False, True):
            self.make(deflate)
            report = self.staged("--ogb-papers100M", self.root, "--force")
            self.assertEqual((report["vertices"], report["edges"]), (self.papers, len(self.edges)))
            self.is_right()

    def test_the_inner_folder_is_accepted_too(self):
        self.make(inside="elsewhere")
        self.staged("--ogb-papers100M", os.path.join(self.root, "elsewhere"), "--undirected")
        self.has_edges(self.edges + [(v, u) for u, v in self.edges if u != v])

    def test_options_replace_files_of_the_folder(self):
        self.make()
        os.remove(os.path.join(self.root, "papers100M-bin/raw/node-label.npz"))
        os.remove(os.path.join(self.root, "papers100M-bin/split/time/test.csv.gz"))
        labels = self.put("labels.npy", npy_bytes("<i4", (self.papers,), range(self.papers)))
        self.staged("--ogb-papers100M", self.root, "--labels", labels, "--split", "train=range:5,8",
                    "--features", "id=range:0,300")
        self.assertEqual(self.labels(), list(range(self.papers)))
        self.has_split("train", [5, 6, 7])
        with open(os.path.join(self.out, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        self.assertEqual((manifest["splits"], manifest["arrays"]), (["train"], ["id"]))

    def test_missing_or_damaged_files_are_named(self):
        self.refused("--ogb-papers100M", self.root,
                     says=["not a folder of ogbn-papers100M", "papers100M-bin/raw/data.npz"])
        self.make()
        self.refused("--ogb-papers100M", self.root + ":part", code=2, says=["has no part 'part'"])
        test = os.path.join(self.root, "papers100M-bin/split/time/test.csv.gz")
        with open(test, "rb") as file:
            whole = file.read()
        for content, says in ((whole[:-6], "it is truncated"), (gzip.compress(b"1\nx\n"), "line 2"),
                              (b"1\n2\n", "rename it"),
                              (gzip.compress(b"5\n300\n"), "300"),
                              (whole[:-8] + b"12345678", "cannot be inflated"),
                              (gzip.compress(b"1\n\n2\n"), "line 2"),
                              (gzip.compress(b"1,2\n"), "line 1"),
                              (gzip.compress(b"9223372036854775808\n"), "63 bits")):
            self.put("papers100M-bin/split/time/test.csv.gz", content)
            self.refused("--ogb-papers100M", self.root, says=["test.csv.gz", says])
        os.remove(test)
        self.refused("--ogb-papers100M", self.root,
                     says=[test + ": is missing", "with its option"])
        self.refused("--ogb-papers100M", self.root, "--igb", self.root, code=2,
                     says="give only one dataset")


class Mag240M(Folder):
    papers, authors, institutions = 60, 40, 7
    all = papers + authors + institutions

    def make(self, full):
        base = "mag240m_kddcup2021/"
        self.cites = self.edges_between(300, self.papers, self.papers)
        self.cites += [(v, u) for u, v in self.cites[:30]]   # both directions of some
        self.writes = self.edges_between(90, self.authors, self.papers)
        self.works = self.edges_between(20, self.authors, self.institutions)
        self.put(base + "processed/paper___cites___paper/edge_index.npy", self.two_rows(self.cites))
        self.put(base + "processed/author___writes___paper/edge_index.npy",
                 self.two_rows(self.writes))
        self.put(base + "processed/author___affiliated_with___institution/edge_index.npy",
                 self.two_rows(self.works))
        self.rows = self.draws.randbytes(self.all * 1536)
        self.put(base + "processed/paper/node_feat.npy",
                 npy_bytes("<f2", (self.papers, 768), self.rows[:self.papers * 1536]))
        self.classes = [float(v % 5) if v % 2 else NAN for v in range(self.papers)]
        self.put(base + "processed/paper/node_label.npy",
                 npy_bytes("<f4", (self.papers,), self.classes))
        self.put(base + "processed/paper/node_year.npy",
                 npy_bytes("<i4", (self.papers,), range(self.papers)))
        self.splits = {"train": list(range(1, 40)), "valid": [50, 41], "test-dev": [52],
                       "test-challenge": []}
        self.split_file = self.put(base + "split_dict.pt", b"")
        self.meta_file = self.put(base + "meta.pt", b"")
        torchfile.write(self.split_file, self.splits)
        torchfile.write(self.meta_file, {"paper": self.papers, "author": self.authors,
                                         "institution": self.institutions, "num_classes": 153})
        if full:
            self.put(full + "/full_feat.npy", self.rows)
            self.put(full + "/full_feat_done.txt", b"done")

    @staticmethod
    def both_ways(edges, from_first, to_first):
        moved = [(u + from_first, v + to_first) for u, v in edges]
        return set(moved) | {(v, u) for u, v in moved}

    def cited(self):
        return self.both_ways(self.cites, 0, 0)

    def test_papers_alone(self):
        self.make(None)
        report = self.staged("--ogb-mag240m", self.root)
        self.assertEqual(report["vertices"], self.papers)
        self.has_rows(self.rows[:self.papers * 1536], 1536)
        self.has_edges(self.cited())
        self.has_years(range(self.papers))
        for name, ids in self.splits.items():
            self.has_split(name, ids)
        self.assertEqual([-1 if math.isnan(c) else c for c in self.labels()],
                         [-1 if math.isnan(c) else c for c in self.classes])

    def typed(self, *args):
        """Stage the typed graph, and read the maps of all types."""
        dataset = self.path("typed")
        report = self.json_of("stage", *args, "--out", dataset, "--force")
        self.dataset, self.ranked = dataset, {}
        for name in ("paper", "author", "institution"):
            self.ranked[name] = read_npy(
                os.path.join(dataset, "vertices", name, "vertex_of_rank.npy"))[2]
        return report

    def at(self, name):
        """Let the comparisons use the dataset of a type."""
        self.out = os.path.join(self.dataset, "vertices", name)
        self.maps = [self.ranked[name], self.array("rank_of_vertex")[2]]

    def has_relation(self, source, name, target, edges):
        """Check the in-neighbours of every vertex of the target type."""
        self.out = os.path.join(self.dataset, "edges", ".".join((source, name, target)))
        indptr, indices = self.array("graph_indptr")[2], self.array("graph_indices")[2]
        found = {(self.ranked[source][other], vertex)
                 for rank, vertex in enumerate(self.ranked[target])
                 for other in indices[indptr[rank]:indptr[rank + 1]]}
        self.assertEqual(found, set(edges))
        self.assertEqual(len(indices), len(found))

    def has_all_relations(self):
        self.has_relation("paper", "cites", "paper", self.cited())
        for source, name, target, edges in (("author", "writes", "paper", self.writes),
                                            ("author", "affiliated_with", "institution",
                                             self.works)):
            self.has_relation(source, name, target, edges)
            self.has_relation(target, "rev_" + name, source, [(v, u) for u, v in edges])
        info = self.json_of("info", self.dataset)
        self.assertEqual([relation["name"] for relation in info["relations"]],
                         ["cites", "writes", "rev_writes", "affiliated_with",
                          "rev_affiliated_with"])
        self.assertEqual(info["seed_type"], "paper")

    def has_papers(self):
        self.at("paper")
        self.has_rows(self.rows[:self.papers * 1536], 1536)
        self.has_years(range(self.papers))
        self.assertEqual(self.labels()[1:10:2], self.classes[1:10:2])
        for name, ids in self.splits.items():
            self.has_split(name, ids)

    def test_a_typed_graph_when_features_of_all_exist(self):
        for place in ("mag240m_kddcup2021", "mag240m"):
            self.make(place)
            report = self.typed("--ogb-mag240m", self.root)
            self.assertEqual(report["vertices"], self.all)
            self.has_all_relations()
            self.has_papers()
            first = self.papers
            for name, count in (("author", self.authors), ("institution", self.institutions)):
                self.at(name)
                self.has_rows(self.rows[first * 1536:(first + count) * 1536], 1536)
                self.assertEqual([file for file in os.listdir(self.out)
                                  if file.startswith(("labels", "split", "features_"))], [])
                first += count
            os.remove(os.path.join(self.root, place, "full_feat.npy"))

    def test_a_typed_graph_without_features_of_all(self):
        self.make(None)
        self.typed("--ogb-mag240m", self.root + ":all")
        self.has_all_relations()
        self.has_papers()
        for name in ("author", "institution"):
            self.at(name)
            self.assertFalse(os.path.exists(os.path.join(self.out, "features.000.npy")))
        features = os.path.join(self.root, "mag240m_kddcup2021/processed/paper/node_feat.npy")
        os.remove(features)
        self.out = self.path("staged")
        self.refused("--ogb-mag240m", self.root + ":all", says=[features + ": is missing"])

    def test_options_of_types_replace_files_of_the_typed_graph(self):
        self.make(None)
        os.remove(self.split_file)
        os.remove(os.path.join(self.root, "mag240m_kddcup2021/processed/paper/node_label.npy"))
        self.typed("--ogb-mag240m", self.root + ":all", "--split", "paper:train=range:5,8",
                   "--split", "author:train=range:0,2", "--labels", "paper=range:0,60",
                   "--features", "author:id=range:0,40", "--seed-type", "author", "--undirected",
                   "--fanout", "9,4", "--fanout", "paper:rev_writes:author=0,3")
        info = self.json_of("info", self.dataset)
        self.assertEqual([relation["fanout"] for relation in info["relations"]],
                         [[9, 4], [9, 4], [0, 3], [9, 4], [9, 4]])
        self.assertEqual(info["seed_type"], "author")
        self.assertEqual([(kind["arrays"], kind["splits"]) for kind in info["vertex_types"]],
                         [([], ["train"]), (["id"], ["train"]), ([], [])])
        self.at("paper")
        self.assertEqual(self.labels(), list(range(self.papers)))
        self.has_split("train", [5, 6, 7])

    def test_a_single_list_of_test_papers_is_split_as_by_ogb(self):
        self.make(None)
        for count in (0, 3, 4, 13):
            ids = self.draws.sample(range(self.papers), count)
            torchfile.write(self.split_file, {"train": [1], "test": ids, "valid": [2]})
            self.staged("--ogb-mag240m", self.root, "--force")
            self.has_split("test-whole", ids)
            self.has_split("test-dev", [v for i, v in enumerate(ids) if i % 5 < 3])
            self.has_split("test-challenge", [v for i, v in enumerate(ids) if i % 5 >= 3])
            with open(os.path.join(self.out, "manifest.json"), encoding="utf-8") as file:
                names = json.load(file)["splits"]
            self.assertEqual(names, ["train", "test-whole", "test-dev", "test-challenge", "valid"])
        # a file that has both parts is used unchanged
        torchfile.write(self.split_file, {"train": [1], "test": [3, 4], "test-dev": [4]})
        self.staged("--ogb-mag240m", self.root, "--force")
        self.has_split("test", [3, 4])
        self.has_split("test-dev", [4])

    def test_papers_alone_although_features_of_all_exist(self):
        self.make("mag240m")
        report = self.staged("--ogb-mag240m", self.root + "/mag240m_kddcup2021:papers")
        self.assertEqual(report["vertices"], self.papers)

    def test_incomplete_or_missing_features_of_all_are_refused(self):
        self.make("mag240m")
        full = os.path.join(self.root, "mag240m/full_feat")
        self.put("mag240m/full_feat.npy", self.rows[:-1])
        self.refused("--ogb-mag240m", self.root, says=["has %d bytes" % (len(self.rows) - 1),
                                                       "float16 [107, 768]"])
        os.remove(full + "_done.txt")
        self.refused("--ogb-mag240m", self.root, says=["may be incomplete", "full_feat_done.txt"])
        self.refused("--ogb-mag240m", self.root + ":authors", code=2,
                     says=["--ogb-mag240m: unknown part 'authors'", "use papers or all"])

    def test_an_author_out_of_range_is_refused(self):
        self.make("mag240m")
        self.writes[7] = (self.authors, 3)   # would be the first institution
        path = self.put("mag240m_kddcup2021/processed/author___writes___paper/edge_index.npy",
                        self.two_rows(self.writes))
        self.refused("--ogb-mag240m", self.root,
                     says=[path, "edge 7", "source id 40 is out of range 0..39"])

    def test_splits_other_than_a_plain_dict_are_refused(self):
        self.make(None)
        cases = (
            (torchfile.dict_pickle({"train": torchfile.ndarray([1.5], "f4")}),
             "dtype that is not an integer"),
            (torchfile.dict_pickle({"train": torchfile.ndarray([1], "i8", ">")}), "little-endian"),
            (torchfile.dict_pickle({"train": torchfile.ndarray([1, 2], shape=(1, 2))}),
             "does not have one dimension"),
            (torchfile.dict_pickle({"train": torchfile.ndarray([1, 2], shape=(3,))}), "fit"),
            (torchfile.dict_pickle({"train": [1]}, protocol=4), "protocol 2"),
            (torchfile.dict_pickle({"train": [1], "x": 3}), "'x' is not a split"),
            (torchfile.dict_pickle({"train": {"a": 1}}), "second dict"),
            (torchfile.dict_pickle({"train": [1]}, module="somewhere.else"), "class or function"),
            (torchfile.dict_pickle({"train": [1]})[:-30], "byte "),
            (b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00truetR.", "class or function"),
        )
        for content, says in cases:
            torchfile.write(self.split_file, content)
            self.refused("--ogb-mag240m", self.root, says=["split_dict.pt", says])
        for content, says in ((b"\x80\x02\x8a\x0al\xfc\x9cF", "not a zip file"),
                              (b"PK\3\4", "zip")):
            with open(self.split_file, "wb") as file:
                file.write(content)
            self.refused("--ogb-mag240m", self.root, says=["split_dict.pt", says])
        os.remove(self.split_file)
        self.refused("--ogb-mag240m", self.root, says=["split_dict.pt: is missing"])
        self.staged("--ogb-mag240m", self.root, "--split", "train=range:0,9")

    def test_unreadable_counts_are_refused_with_advice(self):
        self.make("mag240m")
        for content in (b"\x80\x02\x8a\x0al\xfc\x9cF",
                        torchfile.dict_pickle({"paper": 60}, protocol=4)):
            if content.startswith(b"\x80\x02"):
                with open(self.meta_file, "wb") as file:
                    file.write(content)
            else:
                torchfile.write(self.meta_file, content)
            said = self.fails("stage", "--ogb-mag240m", self.root, "--out", self.out, code=1,
                              says=["meta.pt", "torch", "save"])
            self.assertNotIn("split", said)   # no option replaces this file

    def test_counts_whose_size_overflows_are_refused(self):
        self.make("mag240m")
        # 1536 times the excess is a multiple of 2^64: a 64-bit product would look right
        torchfile.write(self.meta_file, {"paper": self.papers + (1 << 55), "author": self.authors,
                                         "institution": self.institutions})
        self.refused("--ogb-mag240m", self.root,
                     says=["full_feat.npy: has", "float16 [%d, 768]" % (self.all + (1 << 55))])

    def test_arrays_of_a_torch_file(self):
        self.make(None)
        torchfile.write(self.path("ids.pt"), {"a": torchfile.ndarray([200, 5], "u1"),
                                              "b": torchfile.ndarray([-1], "i4"), "n": 5}, "ids")
        bad = ["--ogb-mag240m", self.root, "--split"]
        self.refused(*bad, "train=%s:c" % self.path("ids.pt"),
                     says=["has no array 'c'; it has: a, b, n"])
        self.refused(*bad, "train=%s" % self.path("ids.pt"), code=2, says=["names no array"])
        self.refused(*bad, "train=%s:b" % self.path("ids.pt"), says=["entry 0 is -1"])
        self.refused(*bad, "train=%s:a" % self.path("ids.pt"), says=["entry 0 is 200"])


class Igb(Folder):
    papers = 50

    def make(self, size, header):
        base = size + "/processed/"
        self.rows = floats(self.draws, self.papers * 1024)
        self.classes = [float(v % 19) for v in range(self.papers)]
        self.edges = self.edges_between(200, self.papers, self.papers)
        features = npy_bytes("<f4", (self.papers, 1024), self.rows) if header else self.rows
        labels = struct.pack("<%df" % self.papers, *self.classes)
        self.feature_file = self.put(base + "paper/node_feat.npy", features)
        self.label_file = self.put(base + "paper/node_label_19.npy",
                                   npy_bytes("<f4", (self.papers,), labels) if header else labels)
        self.put(base + "paper__cites__paper/edge_index.npy",
                 npy_bytes("<i8", (len(self.edges), 2), [i for edge in self.edges for i in edge]))

    def test_with_and_without_headers(self):
        for size, header in (("tiny", True), ("full", False)):
            self.make(size, header)
            self.staged("--igb", self.root + ":" + size, "--force")
            self.has_rows(self.rows, 4096)
            self.has_edges(self.edges)
            self.assertEqual(self.labels(), self.classes)
            self.has_split("train", range(30))
            self.has_split("valid", range(30, 40))
            self.has_split("test", range(40, 50))
        self.staged("--igb", os.path.join(self.root, "full"), "--force")

    def test_a_folder_named_like_a_part_is_accepted(self):
        self.make("part:full", False)
        report = self.staged("--igb", os.path.join(self.root, "part:full"))
        self.assertEqual(report["vertices"], self.papers)

    def test_missing_or_damaged_files_are_named(self):
        self.make("full", False)
        self.refused("--igb", self.root, says=[self.root + "/processed/paper/node_feat.npy"])
        self.refused("--igb", self.root + ":big", code=2, says=["unknown part 'big'"])
        self.refused("--igb", self.root + ":small", says=["small/processed/paper/node_feat.npy"])
        self.put("full/processed/paper/node_label_19.npy", b"\0" * 4 * (self.papers - 1))
        self.refused("--igb", self.root + ":full",
                     says=[self.label_file, "has 49 labels for 50 papers"])
        self.put("full/processed/paper/node_feat.npy", self.rows[:-5])
        self.refused("--igb", self.root + ":full",
                     says=[self.feature_file, "not a whole number of rows of 4096"])


if __name__ == "__main__":
    main()

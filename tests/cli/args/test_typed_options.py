# SPDX-License-Identifier: Apache-2.0
"""Options of rung stage for typed graphs, descriptions of the same graphs, and rung info and rung
verify of the result."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, Graph, main, npy_bytes, read_npy

AUTHORS, WRITES = 40, 200


class Typed(CliTest):
    """500 papers with features, 40 authors without; citations, and authors of papers with rows."""

    def setUp(self):
        super().setUp()
        self.source = self.path("source")
        os.mkdir(self.source)
        self.graph = Graph(self.source)
        self.writes = [(i * 7 % AUTHORS, i * 13 % 500) for i in range(WRITES)]
        self.write_file = self.graph.write("writes.npy", "<i8", (WRITES, 2),
                                           [i for edge in self.writes for i in edge])
        self.row_file = self.graph.write("rows.npy", "<f4", (WRITES, 2), range(2 * WRITES))
        self.years = self.graph.write("year.npy", "<i4", (500,), range(500))
        self.out = self.path("out")

    def options(self):
        return ["--vertices", "paper=" + self.graph.features, "--vertices", "author=40",
                "--labels", "paper=" + self.graph.label_file,
                "--split", "paper:train=" + self.graph.train_file,
                "--split", "author:some=range:1,4", "--features", "paper:year=" + self.years,
                "--edges", "paper:cites:paper=" + self.graph.graph,
                "--edges", "author:writes:paper=" + self.write_file,
                "--edge-rows", "author:writes:paper=" + self.row_file,
                "--fanout", "6,4", "--fanout", "author:writes:paper=all,0", "--batch", "32",
                "--draws", "new"]

    def described(self, **changes):
        root = {
            "format": "rung-source", "version": 1,
            "vertex_types": [
                {"name": "paper", "count": 500, "features": "features.npy",
                 "labels": "labels.npy", "arrays": {"year": "year.npy"},
                 "splits": {"train": "train.npy"}},
                {"name": "author", "count": 40, "splits": {"some": "range:1,4"}}],
            "relations": [
                {"name": "cites", "source": "paper", "target": "paper", "edges": "graph.npy"},
                {"name": "writes", "source": "author", "target": "paper", "edges": "writes.npy",
                 "rows": "rows.npy", "fanouts": [2**32 - 1, 0]}],
            "training": {"fanouts": [6, 4], "batch_size": 32, "draws": "new"}}
        root.update(changes)
        path = os.path.join(self.source, "dataset.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(root, file)
        return path

    def files(self, folder):
        """All files but manifests, whose record of the inputs has other names."""
        found = {}
        for parent, _, names in os.walk(folder):
            for name in set(names) - {"manifest.json", "checksums.npy"}:
                with open(os.path.join(parent, name), "rb") as file:
                    found[os.path.relpath(file.name, folder)] = file.read()
        return found

    def info(self):
        return self.json_of("info", self.out)

    def names(self):
        return [":".join((relation["source"], relation["name"], relation["target"]))
                for relation in self.info()["relations"]]


class Staging(Typed):
    def test_options_and_a_description_stage_the_same_files(self):
        self.run_rung("stage", *self.options(), "--out", self.out)
        self.run_rung("stage", "--dataset", self.described(), "--out", self.path("described"))
        self.assertEqual(self.files(self.out), self.files(self.path("described")))
        report = self.json_of("verify", self.out, "--dataset", self.described())
        self.assertEqual((report["rows_compared"], report["lists_compared"]),
                         (500 + WRITES, 2 * 500))

    def test_verify_finds_differences_from_the_description(self):
        self.run_rung("stage", *self.options(), "--out", self.out)
        with open(self.row_file, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\1")
        report = self.json_of("verify", self.out, "--dataset", self.described(), code=3)
        self.assertEqual(report["rows_different"], 1)

    def test_the_report_counts_types_and_relations(self):
        text = self.run_rung("stage", *self.options(), "--out", self.out).stdout
        self.assertIn("540 vertices of 2 types, 3200 edges of 2 relations\n", text)

    def test_info_prints_types_and_relations(self):
        self.run_rung("stage", *self.options(), "--quantize", "author=int8", "--out", self.out,
                      code=2)
        self.run_rung("stage", *self.options(), "--out", self.out)
        info = self.info()
        paper, author = info["vertex_types"]
        self.assertEqual((paper["name"], paper["vertices"], paper["dtype"], paper["shape"],
                          paper["labels"], paper["arrays"], paper["splits"], paper["folder"]),
                         ("paper", 500, "u8", [500, 64], True, ["year"], ["train"],
                          "vertices/paper"))
        self.assertEqual((author["name"], author["vertices"], author["dtype"], author["shape"],
                          author["row_bytes"], author["splits"]),
                         ("author", 40, None, None, 0, ["some"]))
        cites, writes = info["relations"]
        self.assertEqual((cites["edges"], cites["fanout"], cites["rows"]), (3000, [6, 4], None))
        self.assertEqual((writes["source"], writes["target"], writes["edges"]),
                         ("author", "paper", WRITES))
        self.assertEqual((writes["rows"]["dtype"], writes["rows"]["shape"]), ("f32", [WRITES, 2]))
        self.assertEqual((info["seed_type"], info["dtype"], info["vertices"]),
                         ("paper", None, 540))
        text = self.run_rung("info", self.out).stdout
        for line in ("vertices  540 of 2 types\n", "edges     3200 of 2 relations\n",
                     "seeds     type paper\n", "type      author, 40 vertices\nfeatures  none\n",
                     "relation  author:writes:paper, 200 edges\nfanout    all,0\n"
                     "rows      f32 [200, 2], 8 bytes a row, 1.56 KiB\n"):
            self.assertIn(line, text)
        os.rename(os.path.join(self.out, "vertices", "author"), self.path("gone"))
        for more in ([], ["--json"]):
            self.fails("info", self.out, *more, code=1, says="vertices/author")

    def test_info_of_a_part_and_of_an_untyped_dataset(self):
        self.run_rung("stage", *self.options(), "--out", self.out)
        self.out = os.path.join(self.out, "vertices", "author")
        self.assertEqual((self.info()["dtype"], self.info()["seed_type"]), (None, None))
        self.assertIn("features  none\n", self.run_rung("info", self.out).stdout)

    def test_undirected_adds_opposite_relations_once(self):
        options = self.options()
        del options[options.index("--edge-rows"):][:2]
        options = [option for option in options if not option.endswith("rows.npy")
                   and option != "--edge-rows"]
        self.run_rung("stage", *options, "--undirected", "--fanout", "paper:rev_writes:author=0,7",
                      "--edges", "author:rev_knows:author=range:0,0",
                      "--out", self.out, code=1)   # edges are [2, E] or [E, 2]
        self.run_rung("stage", *options, "--undirected", "--dedup",
                      "--fanout", "paper:rev_writes:author=0,7", "--out", self.out)
        self.assertEqual(self.names(), ["paper:cites:paper", "author:writes:paper",
                                        "paper:rev_writes:author"])
        cites, writes, opposite = self.info()["relations"]
        both = set(self.graph.edges) | {(v, u) for u, v in self.graph.edges}
        self.assertEqual((cites["edges"], writes["edges"], opposite["edges"]),
                         (len(both), len(set(self.writes)), len(set(self.writes))))
        self.assertEqual((writes["fanout"], opposite["fanout"]), ([2**32 - 1, 0], [0, 7]))
        sums = sum(read_npy(os.path.join(self.out, opposite["folder"], "graph_indptr.npy"))[2][-1:])
        self.assertEqual(sums, len(set(self.writes)))

    def test_the_opposite_has_the_same_edge_rows(self):
        rest = ["--vertices", "paper=500", "--vertices", "author=40",
                "--edges", "author:writes:paper=" + self.write_file,
                "--edge-rows", "author:writes:paper=" + self.row_file, "--undirected"]
        self.run_rung("stage", *rest, "--out", self.out)
        writes, opposite = self.info()["relations"]
        self.assertEqual(opposite["name"], "rev_writes")
        for relation in (writes, opposite):
            folder = os.path.join(self.out, relation["rows"]["folder"])
            ids = read_npy(os.path.join(folder, "vertex_of_rank.npy"))[2]
            with open(os.path.join(folder, "features.000.npy"), "rb") as file:
                rows = memoryview(file.read()[4096:]).cast("f")
            self.assertEqual([rows[2 * i] for i in range(WRITES)], [2.0 * edge for edge in ids])

    def test_repeated_edges_are_joined_and_the_seed_type_is_chosen(self):
        self.run_rung("stage", *self.options()[:14], "--vertices", "7up=7", "--edges",
                      "paper:cites:paper=" + self.graph.graph, "--edges",
                      "author:writes:paper=" + self.write_file, "--seed-type", "author", "--edges",
                      "paper:cites:paper=" + self.graph.graph, "--out", self.out)
        self.assertEqual([relation["edges"] for relation in self.info()["relations"]],
                         [9000, WRITES])
        self.assertEqual(self.info()["seed_type"], "author")
        self.assertEqual([kind["name"] for kind in self.info()["vertex_types"]],
                         ["paper", "author", "7up"])

    def test_quantize_one_type_or_all(self):
        rows = self.graph.write("f.npy", "<f4", (40, 8), range(320))
        other = self.graph.write("g.npy", "<f4", (500, 4), range(2000))
        rest = ["--vertices", "paper=" + other, "--vertices", "author=" + rows, "--vertices",
                "venue=3", "--edges", "author:writes:paper=" + self.write_file, "--out", self.out]

        def formats():
            return [kind["quantized"] and kind["quantized"]["format"]
                    for kind in self.info()["vertex_types"]]
        self.run_rung("stage", *rest, "--quantize", "author=fp8:column")
        self.assertEqual(formats(), [None, "fp8", None])
        self.run_rung("stage", *rest, "--quantize", "paper=int4", "--quantize", "int8", "--force")
        self.assertEqual(formats(), ["int4", "int8", None])

    def test_options_change_a_description(self):
        stage = ("stage", "--dataset", self.described(), "--out", self.out, "--force")
        self.run_rung(*stage, "--fanout", "3,3", "--seed-type", "author", "--split",
                      "author:train=range:0,3")
        self.assertEqual([relation["fanout"] for relation in self.info()["relations"]],
                         [[3, 3], [3, 3]])
        self.assertEqual(self.info()["seed_type"], "author")
        self.assertEqual([kind["splits"] for kind in self.info()["vertex_types"]], [[], ["train"]])
        self.run_rung(*stage, "--edges", "paper:of:author=csc:%s,%s" % (
            self.graph.write("p.npy", "<i8", (41,), range(41)),
            self.graph.write("i.npy", "<i8", (40,), range(40))), "--vertices", "9", code=2)
        self.run_rung(*stage, "--edges", "paper:of:author=csc:%s,%s" % (
            self.graph.path("p.npy"), self.graph.path("i.npy")))
        self.assertEqual(self.names(), ["paper:cites:paper", "author:writes:paper",
                                        "paper:of:author"])

    def test_names_before_an_equals_sign_are_files_without_types(self):
        for name in ("a=y.npy", "a:b=x.npy"):
            with open(self.path(name), "wb") as file:
                file.write(npy_bytes("<i4", (500,), range(500)))
        self.run_rung("stage", "--graph", self.graph.graph, "--features", "a:b=x.npy", "--labels",
                      "a=y.npy", "--out", self.out, cwd=self.folder)
        self.assertTrue(self.info()["labels"])


class Refused(Typed):
    def usage(self, *args, says):
        self.fails("stage", *args, "--out", self.out, code=2, says=says)
        self.assertFalse(os.path.exists(self.out))

    def test_wrong_values(self):
        for option, says in (
                (["--vertices", "paper="], "--vertices: 'paper=' has no value; give TYPE=SRC"),
                (["--vertices", "paper=0"], "--vertices: '0'"),
                (["--edges", "paper:cites=x"], "--edges: 'paper:cites=x' is not of the form"),
                (["--edges", "a:b:c="], "--edges: 'a:b:c=' is not of the form"),
                (["--edges", "a:b:c:d=x"], "is not of the form SOURCE:RELATION:TARGET=SRC"),
                (["--edge-rows", "x.npy"], "--edge-rows: 'x.npy' is not of the form"),
                (["--fanout", "a:b:c=1,x"], "--fanout: 'x'"),
                (["--fanout", "a:b:c="], "--fanout: '' is not a list of fanouts"),
                (["--quantize", "paper=int3"], "--quantize: unknown value 'int3'"),
                (["--split", "paper:train="], "--split: 'paper:train=' is not of the form"),
                (["--vertices", "paper=9"], "--vertices: type 'paper' is given twice"),
                (["--labels", "venue=x"], "--labels: 'venue=x': unknown vertex type 'venue'; add"),
                (["--labels", "paper=x"], "--labels: type 'paper' is given twice"),
                (["--labels", "x.npy"], "--labels: 'x.npy' has no type; give TYPE=SRC"),
                (["--split", "venue:train=x"], "--split: 'venue:train=x': unknown vertex type"),
                (["--split", "valid=x"], "--split: 'valid' has no type; give TYPE:NAME=SRC"),
                (["--features", "venue:year=x"], "unknown vertex type 'venue'"),
                (["--features", "paper:new="], "--features: 'paper:new=' has no SRC"),
                (["--features", "year=x"], "--features: 'year' has no type; give TYPE:NAME=SRC"),
                (["--features", "x.npy"], "--features: 'x.npy': the graph is typed"),
                (["--quantize", "venue=int8"], "unknown vertex type 'venue'"),
                (["--quantize", "author=int8"], "--quantize: type 'author' has no features"),
                (["--seed-type", "venue"], "--seed-type: 'venue': unknown vertex type"),
                (["--edges", "venue:in:paper=x"], "unknown vertex type 'venue'; add --vertices"),
                (["--edges", "paper:in:venue=x"], "unknown vertex type 'venue'; add --vertices"),
                (["--edge-rows", "paper:a:paper=x"], "unknown relation 'paper:a:paper'; add --ed"),
                (["--edge-rows", "author:writes:paper=x"], "'author:writes:paper' is given twice"),
                (["--fanout", "paper:a:paper=1,1"], "--fanout: unknown relation 'paper:a:paper'"),
                (["--fanout", "paper:cites:paper=1"], "has 1 hops, and the other relations have 2"),
                (["--graph", "x.npy"], "--graph: the graph is typed; give --edges"),
                (["--graph", "none"], "--graph: the graph is typed; give --edges"),
                (["--vertices", "5"], "--vertices: 5 has no type; give TYPE=N"),
                (["--score", self.row_file], "is a file; use the name of a method for a typed"),
                (["--dataset", "x"], "--vertices: --dataset is already given")):
            with self.subTest(option=option):
                self.usage(*self.options(), *option, says=says)
        self.usage("--vertices", "paper=" + self.graph.features, says="--edges is missing; give")

    def test_a_single_fanout_of_a_relation_has_the_default_number_of_hops(self):
        rest = ["--vertices", "paper=500", "--edges", "paper:cites:paper=" + self.graph.graph]
        self.usage(*rest, "--fanout", "paper:cites:paper=3,2,1", says="has 3 hops, and the other")
        self.run_rung("stage", *rest, "--fanout", "paper:cites:paper=3,0", "--out", self.out)
        self.assertEqual(self.info()["relations"][0]["fanout"], [3, 0])
        self.assertEqual(self.info()["fanout"], [25, 10])

    def test_typed_options_need_types(self):
        plain = self.graph.options()
        for option, says in (
                (["--edges", "a:b:c=x"], "--edges"), (["--edge-rows", "a:b:c=x"], "--edge-rows"),
                (["--split", "a:b=x"], "--split TYPE:NAME"),
                (["--quantize", "a=int8"], "--quantize TYPE"),
                (["--fanout", "a:b:c=1"], "--fanout SOURCE:RELATION:TARGET"),
                (["--seed-type", "a"], "--seed-type")):
            self.usage(*plain, *option,
                       says=says + ": the graph is not typed; add --vertices TYPE=SRC")
        untyped = self.described(
            vertex_types=[{"name": "paper", "count": 500, "features": "features.npy"}],
            relations=[{"name": "cites", "source": "paper", "target": "paper",
                        "edges": "graph.npy"}])
        for option, says in ((["--labels", "paper=x"], "--labels TYPE: the graph is not typed"),
                             (["--split", "paper:a=x"], "--split TYPE:NAME: the graph is not")):
            self.usage("--dataset", untyped, *option, says=says)
        self.fails("score", "--graph", self.graph.graph, "--vertices", "paper=5", "--out",
                   self.out, code=2, says="which only rung stage reads; give a number")
        self.fails("score", "--graph", self.graph.graph, "--fanout", "a:b:c=5", "--out", self.out,
                   code=2, says="which only rung stage reads; give a list such as 25,10")
        self.fails("verify", self.out, "--vertices", "paper=5", code=2,
                   says="which only rung stage reads")

    def test_files_of_another_option_for_a_typed_description(self):
        for option, says in ((["--graph", "x"], "--graph: the graph is typed"),
                             (["--features", "x"], "--features: 'x': the graph is typed"),
                             (["--labels", "x"], "--labels: 'x' has no type"),
                             (["--split", "a=x"], "--split: 'a' has no type"),
                             (["--features", "a=x"], "--features: 'a' has no type")):
            self.usage("--dataset", self.described(), *option, says=says)


if __name__ == "__main__":
    main()

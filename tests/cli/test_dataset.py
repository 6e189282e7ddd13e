# SPDX-License-Identifier: Apache-2.0
"""rung stage --dataset and rung verify --dataset: data sets with a description, dataset.json."""
import copy
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import CliTest, Graph, main, read_npy

DESCRIPTION = {
    "format": "rung-source", "version": 1, "name": "a small one",
    "about": {"command": ["make", "--seed", 5], "scale": {"vertices": 1 / 64}},
    "vertex_types": [{
        "name": "paper", "count": 500, "features": "features.npy", "labels": "labels.npy",
        "arrays": {"year": "year.npy"},
        "splits": {"train": "train.npy", "valid": "valid.npy", "test": "test.npy"}}],
    "relations": [{"name": "cites", "source": "paper", "target": "paper", "edges": "graph.npy",
                   "count": 3000, "undirected": True}],
    "training": {"fanouts": [7, 4], "batch_size": 64, "draws": "new"},
}


class Described(CliTest):
    def setUp(self):
        super().setUp()
        self.source = self.path("source")
        os.mkdir(self.source)
        self.graph = Graph(self.source)
        self.years = self.graph.write("year.npy", "<i4", (500,), range(500))
        self.root = copy.deepcopy(DESCRIPTION)
        self.out = self.path("out")

    def described(self):
        return self.text(json.dumps(self.root))

    def text(self, text):
        with open(os.path.join(self.source, "dataset.json"), "w", encoding="utf-8") as file:
            file.write(text)
        return file.name

    def manifest(self, folder=None):
        with open(os.path.join(folder or self.out, "manifest.json"), encoding="utf-8") as file:
            return json.load(file)

    def plain(self, *more, out="plain"):
        """Stage the same data with options."""
        self.run_rung("stage", *self.graph.options(), "--features", "year=" + self.years,
                      "--undirected", "--fanout", "7,4", "--batch", "64", "--draws", "new",
                      "--out", self.path(out), *more)
        return self.path(out)

    def same_files(self, one, other):
        """Compare all files except manifests, and the manifests without names and jobs."""
        manifests = []
        for folder in (one, other):
            manifest = self.manifest(folder)
            for key in ("job", "checksum", "vertex_types", "relations"):
                manifest.pop(key, None)
            manifests.append(manifest)
        self.assertEqual(*manifests)
        self.assertEqual(sorted(os.listdir(one)), sorted(os.listdir(other)))
        for name in os.listdir(one):
            if name != "manifest.json":
                with open(os.path.join(one, name), "rb") as left, \
                        open(os.path.join(other, name), "rb") as right:
                    self.assertEqual(left.read(), right.read(), name)


class Staging(Described):
    def test_a_description_stages_the_same_files_as_options(self):
        self.run_rung("stage", "--dataset", self.described(), "--out", self.out)
        self.same_files(self.out, self.plain())

    def test_the_manifest_and_info_have_the_names(self):
        report = self.json_of("stage", "--dataset", self.described(), "--out", self.out)
        names = {"vertex_types": [{"name": "paper", "vertices": 500}],
                 "relations": [{"name": "cites", "source": "paper", "target": "paper",
                                "edges": report["edges"]}]}
        manifest, info = self.manifest(), self.json_of("info", self.out)
        self.assertGreater(report["edges"], 3000)
        for key, value in names.items():
            self.assertEqual(manifest[key], value)
            self.assertEqual(info[key], value)
        text = self.run_rung("info", self.out).stdout
        self.assertIn("vertices  500, type paper\n", text)
        self.assertIn("edges     %d, relation cites\n" % report["edges"], text)

    def test_without_a_description_the_names_are_defaults_and_not_in_the_manifest(self):
        plain = self.plain()
        self.assertNotIn("vertex_types", self.manifest(plain))
        self.assertNotIn("relations", self.manifest(plain))
        info = self.json_of("info", plain)
        self.assertEqual(info["vertex_types"], [{"name": "vertex", "vertices": 500}])
        self.assertEqual(info["relations"][0]["name"], "edge")
        self.root["vertex_types"][0]["name"] = "vertex"
        self.root["relations"][0].update(name="edge", source="vertex", target="vertex")
        self.run_rung("stage", "--dataset", self.described(), "--out", self.out)
        self.assertNotIn("vertex_types", self.manifest())

    def test_options_override_the_description(self):
        labels = self.graph.write("other.npy", "<i8", (500,), range(500))
        del self.root["vertex_types"][0]["labels"]
        os.remove(self.graph.train_file)
        self.run_rung("stage", "--dataset", self.described(), "--out", self.out, "--fanout", "3,2",
                      "--batch", "9", "--draws", "all", "--labels", labels, "--split",
                      "train=range:0,5", "--features", "id=range:0,500")
        manifest = self.manifest()
        self.assertEqual((manifest["fanouts"], manifest["batch_size"], manifest["draws"]),
                         ([3, 2], 9, "all"))
        self.assertEqual((manifest["splits"], manifest["arrays"]), (["train"], ["id"]))
        vertices = read_npy(os.path.join(self.out, "vertex_of_rank.npy"))[2]
        self.assertEqual(read_npy(os.path.join(self.out, "labels.npy"))[2], vertices)

    def test_options_override_features_and_graph(self):
        narrow = self.graph.write("narrow.npy", "|u1", (400, 3), bytes(1200))
        one = self.graph.write("one.npy", "<i8", (2, 1), [1, 2])
        os.remove(self.graph.graph)
        os.remove(self.graph.features)
        rest = ("--out", self.out, "--graph", one, "--features")
        wide = self.graph.write("wide.npy", "|u1", (500, 1), bytes(500))
        self.assertEqual(self.json_of("stage", "--dataset", self.described(), *rest,
                                      wide)["edges"], 1)
        self.fails("stage", "--dataset", self.described(), *rest, narrow, "--force", code=1,
                   says=["narrow.npy: has 400 rows, but the graph has 500 vertices"])

    def test_the_description_needs_only_what_the_format_requires(self):
        for key in ("name", "about", "training"):
            del self.root[key]
        for key in ("labels", "arrays", "splits"):
            del self.root["vertex_types"][0][key]
        for key in ("count", "undirected"):
            del self.root["relations"][0][key]
        report = self.json_of("stage", "--dataset", self.described(), "--out", self.out)
        self.assertEqual(report["edges"], 3000)
        manifest = self.manifest()
        self.assertEqual((manifest["fanouts"], manifest["batch_size"], manifest["draws"]),
                         ([25, 10], 1024, "all"))

    def test_files_are_relative_to_the_folder_of_the_description(self):
        name = os.path.relpath(self.described(), self.folder)
        self.run_rung("stage", "--dataset", name, "--out", self.out, cwd=self.folder)
        self.run_rung("stage", "--dataset", "dataset.json", "--out", self.path("inside"),
                      cwd=self.source)
        self.same_files(self.out, self.path("inside"))
        self.root["vertex_types"][0]["features"] = self.graph.features   # absolute
        colon = self.path("raw:a,b.npz:x")
        os.mkdir(colon)
        for file in os.listdir(self.source):
            if file != "features.npy":
                os.rename(os.path.join(self.source, file), os.path.join(colon, file))
        with open(os.path.join(colon, "dataset.json"), "w", encoding="utf-8") as file:
            json.dump(self.root, file)
        self.run_rung("stage", "--dataset", "raw:a,b.npz:x/dataset.json", "--out",
                      self.path("third"), cwd=self.folder)
        self.same_files(self.out, self.path("third"))

    def test_every_form_of_source(self):
        with open(self.graph.features, "rb") as file:
            content = file.read()
        with open(os.path.join(self.source, "rows.bin"), "wb") as file:
            file.write(b"12345" + content[-500 * 64:])
        with open(self.graph.label_file, "rb") as file:
            self.graph.write_npz("x.npz", {"y": file.read()}, True)
        lists = sorted((v, i, u) for i, (u, v) in enumerate(self.graph.edges))
        indptr = [sum(1 for v, _, _ in lists if v < vertex) for vertex in range(501)]
        self.graph.write("indices.npy", "<i8", (3000,), [u for _, _, u in lists])
        with open(os.path.join(self.source, "indptr.bin"), "wb") as file:
            file.write(b"".join(n.to_bytes(8, "little") for n in indptr))
        with open(os.path.join(self.source, "train.txt"), "w", encoding="utf-8") as file:
            file.write("".join("%d\n" % i for i in self.graph.train))
        self.root["relations"][0]["undirected"] = False
        self.run_rung("stage", "--dataset", self.described(), "--out", self.out)
        self.root["vertex_types"][0].update(
            features="raw:rows.bin,u8,500x64,5", labels="x.npz:y",
            arrays={"year": "every:1,0,1,year.npy"},
            splits={"train": "train.txt", "valid": "valid.npy", "test": "test.npy"})
        self.root["relations"][0]["edges"] = "csc:raw:indptr.bin,u64,501,indices.npy"
        self.run_rung("stage", "--dataset", os.path.relpath(self.described(), self.folder),
                      "--out", self.path("other"), cwd=self.folder)
        self.same_files(self.out, self.path("other"))
        years = self.graph.write("few.npy", "<i4", (300,), range(300))
        self.root["vertex_types"][0]["arrays"] = {"year": "pad:500," + os.path.basename(years),
                                                  "id": "range:0,500"}
        self.run_rung("stage", "--dataset", self.described(), "--out", self.out, "--force")
        self.assertIn(-1, read_npy(os.path.join(self.out, "features_year.npy"))[2])

    def test_a_memory_budget_gives_the_same_files(self):
        stage = ("stage", "--dataset", self.described(), "--score", "degree", "--out")
        self.run_rung(*stage, self.out)
        report = self.json_of(*stage, self.path("less"), "--memory", "32MiB")
        self.assertLessEqual(report["memory_bytes"], 32 << 20)
        self.same_files(self.out, self.path("less"))

    def test_in_place_works(self):
        self.run_rung("stage", "--dataset", self.described(), "--out", self.out, "--in-place")
        self.assertEqual(self.json_of("info", self.out)["in_place"], self.graph.features)

    def test_resume_sees_a_changed_description(self):
        stage = ("stage", "--dataset", self.described(), "--out", self.out, "--resume")
        self.run_rung(*stage)
        self.assertIn("already staged", self.run_rung(*stage).stdout)
        self.root["about"] = {}
        self.described()
        self.assertIn("already staged", self.run_rung(*stage).stdout)
        for change, says in (
                (lambda root: root["relations"][0].update(name="refers"),
                 ["graphs was", "relation cites", "relation refers"]),
                (lambda root: root["relations"][0].update(undirected=False), "undirected"),
                (lambda root: root["training"].update(batch_size=65), "batches of 65"),
                (lambda root: root["vertex_types"][0].pop("labels"), "labels was")):
            self.root = copy.deepcopy(DESCRIPTION)
            change(self.root)
            self.described()
            self.fails(*stage, code=1, says=says)
        plain = self.plain()
        self.root = copy.deepcopy(DESCRIPTION)
        self.fails("stage", "--dataset", self.described(), "--out", plain, "--resume", code=1,
                   says="vertex type paper")

    def test_a_dry_run_writes_nothing(self):
        self.run_rung("stage", "--dataset", self.described(), "--out", self.out, "--dry-run")
        self.assertFalse(os.path.exists(self.out))

    def test_usage_errors(self):
        name = self.described()
        self.fails("stage", "--dataset", name, "--igb", self.source, "--out", self.out, code=2,
                   says="--igb: --dataset is already given; give only one dataset")
        self.fails("stage", "--dataset", name, "--dataset", name, "--out", self.out, code=2,
                   says="--dataset: --dataset is already given")
        self.fails("stage", "--dataset", "", "--out", self.out, code=2,
                   says="--dataset: '' does not name a file")
        self.fails("stage", "--dataset", name, "--graph", "none", "--out", self.out, code=2,
                   says="--graph none: the given dataset provides a graph")
        self.fails("stage", "--dataset", name, code=2, says="--out is missing")
        self.fails("verify", self.out, "--dataset", name, "--graph", "none", code=2,
                   says="--graph none: the given dataset provides a graph")


class Refused(Described):
    def refused(self, *says):
        self.fails("stage", "--dataset", os.path.join(self.source, "dataset.json"), "--out",
                   self.out, code=1, says=list(says))
        self.assertFalse(os.path.exists(self.out))

    def change(self, *path, value):
        self.root = copy.deepcopy(DESCRIPTION)
        at = self.root
        for key in path[:-1]:
            at = at[key]
        if value is KeyError:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        self.described()

    def test_other_files(self):
        os.mkdir(os.path.join(self.source, "dataset.json"))
        self.refused("dataset.json: is not a regular file")
        os.rmdir(os.path.join(self.source, "dataset.json"))
        self.refused("dataset.json: cannot be opened: No such file")
        for text, says in (
                ("", "line 1, column 0: "), ("{", "correct the JSON there"),
                ('{"format": 1, "format": 1}', "duplicate object key"),
                ("[1]", "is a list; a description is one JSON object"),
                ('{"about":' * 3000, "maximum parsing depth reached"),
                ('{"format": "a\\u0000b"}', "\\u0000 is not allowed"),
                ("{}", "format: is missing"),
                ('{"format": "rung-dataset", "version": 1}',
                 "is the manifest of a staged dataset; give the dataset.json")):
            self.text(text)
            self.refused(says)
        self.text(" " * ((16 << 20) + 1))
        self.refused("has 16777217 bytes; a description has at most 16777216")

    def each(self, *cases):
        """For each case, the change of a value must give the messages."""
        for path, value, says in cases:
            with self.subTest(path=path, value=str(value)[:40]):
                self.change(*path, value=value)
                self.refused(*(says if isinstance(says, list) else [says]), "dataset.json: ")

    def test_wrong_values_are_named(self):
        paper = ("vertex_types", 0)
        self.each(
            (("format",), "x", 'format: is not "rung-source"'),
            (("format",), 5, 'format: is a number; give "rung-source"'),
            (("version",), 2, "version: is 2; this version of rung reads version 1"),
            (("version",), 1.0, "version: is a number with a fraction"),
            (("version",), KeyError, "version: is missing; give a whole number"),
            (("extra",), 1, "extra: unknown key; use one of format, version, name, about"),
            (("name",), ["x"], "name: is a list; give a text"),
            (("name",), "a\x1b[2Jb", "name: has control characters"),
            (("about",), "x", "about: is a text; give an object"),
            (("vertex_types",), KeyError, "vertex_types: is missing; give a list"),
            (("vertex_types",), {}, "vertex_types: is an object; give a list"),
            (("vertex_types",), [], "vertex_types: has 0 entries"),
            (("vertex_types",), [{}] * 65, "vertex_types: has 65 entries; give 1 to 64 objects"),
            (paper, None, "vertex_types: entry 0 is null; give a list of objects"),
            (("relations",), KeyError, "relations: is missing"),
            (("relations",), [{}] * 257, "relations: has 257 entries; give 1 to 256 objects"),
            (("training",), [], "training: is a list"),
            (("training", "epochs"), 5, "training.epochs: unknown key; use one of fanouts"),
            (("training", "fanouts"), [], "training.fanouts: has 0 entries; give 1 to 16"),
            (("training", "fanouts"), [1] * 17, "training.fanouts: has 17 entries"),
            (("training", "fanouts"), [5, 0], "training.fanouts: is 0"),
            (("training", "fanouts"), [2**32], "training.fanouts: is 4294967296"),
            (("training", "fanouts"), ["all"], "training.fanouts: is a text"),
            (("training", "fanouts"), 5, "training.fanouts: is a number; give a list"),
            (("training", "batch_size"), 0, "training.batch_size: is 0"),
            (("training", "draws"), "some", "training.draws: is an unknown word"),
            (("training", "draws"), None, "training.draws: is null"))

    def test_wrong_vertex_types_are_named(self):
        paper = ("vertex_types", 0)
        self.each(
            (paper + ("feature",), 1, "vertex_types[0].feature: unknown key; use one of name"),
            (paper + ("bad\x1b[2J\n" + "k" * 100,), 1, "vertex_types[0].bad?[2J?kk"),
            (paper + ("name",), "a b", "vertex_types[0].name: 'a b' is not a valid name"),
            (paper + ("name",), "", "vertex_types[0].name: '' is not a valid name"),
            (paper + ("name",), "n" * 64, "is not a valid name; use 1 to 63 letters"),
            (paper + ("name",), KeyError, "vertex_types[0].name: is missing"),
            (paper + ("count",), KeyError, "vertex_types[0].count: is missing"),
            (paper + ("count",), 0, "vertex_types[0].count: is 0; give a whole number from 1"),
            (paper + ("count",), -7, "vertex_types[0].count: is -7"),
            (paper + ("count",), 2**62, "vertex_types[0].count: is 4611686018427387904"),
            (paper + ("count",), "500", "vertex_types[0].count: is a text"),
            (paper + ("count",), True, "vertex_types[0].count: is true or false"),
            (paper + ("count",), 499,
             ["vertex_types[0].features: ", "features.npy has 500 rows", '"count" 499']),
            (paper + ("features",), KeyError, "vertex_types[0].features: is missing"),
            (paper + ("features",), "", "vertex_types[0].features: is empty; give a SRC"),
            (paper + ("features",), "x" * 8001, "vertex_types[0].features: has 8001 bytes"),
            (paper + ("features",), "none.npy",
             ["vertex_types[0].features: ", "/source/none.npy", "No such file"]),
            (paper + ("features",), "pad:5", "source 'pad:5': not valid"),
            (paper + ("labels",), "train.npy",
             ["vertex_types[0].labels: ", "train.npy has 250 rows"]),
            (paper + ("arrays",), [], "vertex_types[0].arrays: is a list; give an object"),
            (paper + ("arrays", "a.b"), "year.npy",
             "vertex_types[0].arrays.a.b: 'a.b' is not a valid name"),
            (paper + ("arrays", "y"), 5, "vertex_types[0].arrays.y: is a number"),
            (paper + ("arrays", "y"), "train.npy", "vertex_types[0].arrays.y: "),
            (paper + ("arrays",), {"a%d" % i: "year.npy" for i in range(65)},
             "vertex_types[0].arrays: has 65 entries; give at most 64"),
            (paper + ("splits",), {"s%d" % i: "train.npy" for i in range(257)},
             "vertex_types[0].splits: has 257 entries; give at most 256"),
            (paper + ("splits", "train"), "no.npy", "vertex_types[0].splits.train: "),
            (paper + ("splits", "../x"), "train.npy",
             "vertex_types[0].splits.../x: '../x' is not a valid name"))

    def test_wrong_relations_are_named(self):
        cites = ("relations", 0)
        self.each(
            (cites + ("weight",), "w.npy", "relations[0].weight: unknown key"),
            (cites + ("name",), "a/b", "relations[0].name: 'a/b' is not a valid name"),
            (cites + ("source",), "author",
             "relations[0].source: 'author' is not the name of a vertex type; use 'paper'"),
            (cites + ("target",), KeyError, "relations[0].target: is missing"),
            (cites + ("edges",), "year.npy", "relations[0].edges: "),
            (cites + ("edges",), "csc:year.npy",
             ["relations[0].edges: ", "needs two sources"]),
            (cites + ("edges",), "csc:year.npy,train.npy",
             ["relations[0].edges: ", "indptr has 500 entries"]),
            (cites + ("edges",), "csr:a,b,c", ["relations[0].edges: ", "/source/a"]),
            (cites + ("count",), 3001,
             ["relations[0].count: is 3001, but ", "graph.npy has 3000 edges"]),
            (cites + ("count",), 0, "relations[0].count: is 0, but "),
            (cites + ("undirected",), 1, "relations[0].undirected: is a number; give true"))


class Verifying(Described):
    def setUp(self):
        super().setUp()
        self.run_rung("stage", "--dataset", self.described(), "--out", self.out)

    def test_contents_are_compared_with_the_description(self):
        report = self.json_of("verify", self.out, "--dataset", self.described())
        self.assertEqual((report["rows_compared"], report["lists_compared"],
                          report["labels_compared"], report["array_rows_compared"],
                          report["split_ids_compared"]), (500, 500, 500, 500, 500))
        report = self.json_of("verify", self.out, "--dataset", self.described(), "--sample", "10")
        self.assertEqual(report["rows_compared"], 10)

    def test_differences_are_found(self):
        with open(self.graph.features, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(bytes([self.graph.rows[-1] ^ 1]))
        report = self.json_of("verify", self.out, "--dataset", self.described(), code=3)
        self.assertEqual(report["rows_different"], 1)
        self.root["relations"][0]["undirected"] = False
        report = self.json_of("verify", self.out, "--dataset", self.described(), code=3)
        self.assertGreater(report["lists_different"], 0)

    def test_options_replace_sources_of_the_description(self):
        os.remove(self.graph.label_file)
        self.fails("verify", self.out, "--dataset", self.described(), code=1,
                   says=["vertex_types[0].labels: ", "labels.npy"])
        other = self.graph.write("other.npy", "<i4", (500,), range(500))
        report = self.json_of("verify", self.out, "--dataset", self.described(), "--labels", other,
                              code=3)
        self.assertGreater(report["labels_different"], 0)

    def test_damaged_files_are_repaired_from_the_description(self):
        names = [name for name in sorted(os.listdir(self.out)) if name != "manifest.json"]
        for name in names:
            path = os.path.join(self.out, name)
            with open(path, "rb") as file:
                content = file.read()
            with open(path, "r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(bytes([content[-1] ^ 4]))
            if name == "score.npy":   # a description has no score
                with open(path, "wb") as file:
                    file.write(content)
                continue
            report = self.json_of("verify", self.out, "--dataset", self.described(), "--repair")
            self.assertEqual([block["file"] for block in report["repaired"]], [name])
            with open(path, "rb") as file:
                self.assertEqual(file.read(), content)


if __name__ == "__main__":
    main()

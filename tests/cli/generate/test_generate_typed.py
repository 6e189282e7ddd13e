# SPDX-License-Identifier: Apache-2.0
"""rung generate --typed: files and the description of several vertex types, equal bytes from all
thread counts, the laws of authors and institutions, and refused input."""
import collections
import itertools
import json
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "support"), HERE]
from clitest import main, shape_of
from test_generate import GenerateTest, read_array

# of MAG240M
VERTICES = {"paper": 121751666, "author": 122383112, "institution": 25721}
EDGES = {"cites": 1297748926, "writes": 386022720, "affiliated_with": 44592586}
FILES = {"cites": "edges.npy", "writes": "writes.npy", "affiliated_with": "affiliated_with.npy"}
LABELLED = 1398159


class TypedTest(GenerateTest):
    def typed(self, *args, out=None):
        return self.generate("--model", "mag240m", "--typed", *args, out=out)

    def description(self):
        with open(os.path.join(self.out, "dataset.json"), encoding="utf-8") as file:
            return json.load(file)

    def ends(self, name, report):
        """Rows 0 and 1 of a relation's edges."""
        count = report["relations"][name]
        ends = self.array(FILES[name], "<i4", (2, count))
        return ends[:count], ends[count:]


class Files(TypedTest):
    def test_counts_are_those_of_the_original_divided_by_the_scale(self):
        report = self.typed("--scale", "1/1024", "--width", 1)
        self.assertEqual(report["vertex_types"], {name: count // 1024
                                                  for name, count in VERTICES.items()})
        self.assertEqual(report["relations"], {name: count // 1024
                                               for name, count in EDGES.items()})
        self.assertEqual((report["vertices"], report["edges"]),
                         (VERTICES["paper"] // 1024, EDGES["cites"] // 1024))
        self.assertAlmostEqual(report["train"] + report["valid"] + report["test"],
                               LABELLED / 1024, delta=1)

    def test_numbers_of_papers_and_citations_can_be_given(self):
        for count, citations in ((16, 40), (3000, 1), (3000, 60000)):
            with self.subTest(count=count, citations=citations):
                self.out = self.path(f"{count}-{citations}")
                report = self.typed("--vertices", count, "--edges", citations, "--width", 1)
                papers = VERTICES["paper"]
                self.assertEqual(report["vertex_types"],
                                 {"paper": count, "author": VERTICES["author"] * count // papers,
                                  "institution": 16})   # at least
                self.assertEqual(report["relations"],
                                 {"cites": citations,
                                  "writes": EDGES["writes"] * count // papers,
                                  "affiliated_with": EDGES["affiliated_with"] * count // papers})
                self.check_ends(report)

    def test_the_description_names_every_file(self):
        report = self.typed("--vertices", 2000, "--width", 3)
        found = self.description()
        types = {each["name"]: each for each in found["vertex_types"]}
        self.assertEqual({name: each["count"] for name, each in types.items()},
                         report["vertex_types"])
        self.assertEqual(sorted(types["author"]), ["count", "features", "name"])
        self.assertEqual(sorted(types["paper"]["splits"]), ["test", "train", "valid"])
        for each in types.values():
            self.array(each["features"], "<f2", (each["count"], 3))
        self.assertEqual([(each["name"], each["source"], each["target"], each["edges"])
                          for each in found["relations"]],
                         [("cites", "paper", "paper", "edges.npy"),
                          ("writes", "author", "paper", "writes.npy"),
                          ("rev_writes", "paper", "author", "writes.npy"),
                          ("affiliated_with", "author", "institution", "affiliated_with.npy"),
                          ("rev_affiliated_with", "institution", "author",
                           "affiliated_with.npy")])
        for each in found["relations"]:
            reverse = each["name"].startswith("rev_")
            self.assertEqual(each["count"], report["relations"][each["name"][4 * reverse:]])
            self.assertEqual(each.get("reversed", False), reverse)
            self.assertEqual(each.get("undirected", False), each["name"] == "cites")
        paper = types["paper"]
        named = {paper["labels"], paper["arrays"]["year"], *paper["splits"].values(),
                 *[each["features"] for each in types.values()],
                 *[each["edges"] for each in found["relations"]], "dataset.json"}
        self.assertEqual(sorted(named), sorted(os.listdir(self.out)))

    def check_ends(self, report):
        """Check that all ends are vertices, and that no edge occurs twice."""
        types = report["vertex_types"]
        for name, source, target in (("cites", "paper", "paper"), ("writes", "author", "paper"),
                                     ("affiliated_with", "author", "institution")):
            ends = self.ends(name, report)
            self.assertEqual(len(set(zip(*ends))), len(ends[0]), name)
            self.assertTrue(0 <= min(ends[0]) and max(ends[0]) < types[source], name)
            self.assertTrue(0 <= min(ends[1]) and max(ends[1]) < types[target], name)

    def test_threads_and_memory_change_no_byte_and_a_seed_does(self):
        base = ["--vertices", 30000, "--width", 5]
        one, other = self.path("one"), self.path("other")
        self.typed(*base, "--threads", 1, out=one)
        for more in (["--threads", 2], ["--threads", 5], ["--memory", "8MiB"]):
            self.out = self.path("".join(map(str, more)).replace("/", ""))
            self.typed(*base, *more)
            self.same_files(one, self.out)
        self.typed(*base, "--seed", 1, out=other)
        for name in ("writes.npy", "affiliated_with.npy", "author_features.npy",
                     "institution_features.npy"):
            self.assertNotEqual(read_array(os.path.join(one, name)),
                                read_array(os.path.join(other, name)), name)

    def test_the_report(self):
        done = self.run_rung("generate", self.out, "--model", "mag240m", "--typed", "--vertices",
                             2000, "--width", 2)
        self.assertIn("2010 authors, who write 6341 times; 16 institutions, 732 affiliations",
                      done.stdout)
        report = self.typed("--vertices", 2000, "--width", 2, out=self.path("again"))
        self.assertEqual(shape_of(report)["relations"], dict.fromkeys(EDGES, "number"))
        sizes = sum(os.path.getsize(os.path.join(self.out, name))
                    for name in os.listdir(self.out))
        self.assertAlmostEqual(report["bytes"], sizes, delta=4096)


class Laws(TypedTest):
    """Properties that do not depend on the choice of the constants."""

    def test_every_paper_has_authors_and_few_have_many(self):
        report = self.typed("--vertices", 20000, "--width", 1)
        authors, papers = self.ends("writes", report)
        of_paper = sorted(collections.Counter(papers).values())
        self.assertEqual(len(of_paper), 20000)
        self.assertLess(of_paper[10000], sum(of_paper) / 20000)   # skewed to the right
        self.assertGreater(of_paper[-1], 3 * sum(of_paper) / 20000)
        of_author = sorted(collections.Counter(authors).values(), reverse=True)
        self.assertGreater(len(of_author), 0.95 * report["vertex_types"]["author"])
        self.assertGreater(sum(of_author[:200]), 0.05 * len(authors))   # of the first 1 %

    def test_papers_of_an_author_are_alike(self):
        """In class and year, more than random papers are."""
        report = self.typed("--vertices", 40000, "--width", 1, "--set", "community=2000")
        labels = self.array("labels.npy", "<i2", (40000,))
        years = self.array("year.npy", "<i2", (40000,))
        by_author = collections.defaultdict(list)
        for author, paper in zip(*self.ends("writes", report)):
            by_author[author].append(paper)
        pairs = [pair for papers in by_author.values() for pair in itertools.pairwise(papers)]
        apart = [abs(years[a] - years[b]) for a, b in pairs]
        apart_at_random = [abs(years[a] - years[d]) for (a, _), (_, d) in itertools.pairwise(pairs)]
        self.assertLess(sum(apart) / len(apart), 0.7 * sum(apart_at_random) / len(apart_at_random))
        both = [(labels[a], labels[b]) for a, b in pairs if labels[a] >= 0 and labels[b] >= 0]
        self.assertTrue(both)
        self.assertGreater(sum(a == b for a, b in both) / len(both), 0.5)

    def test_few_institutions_have_most_of_the_authors(self):
        report = self.typed("--scale", "1/256", "--width", 1)
        authors, institutions = self.ends("affiliated_with", report)
        sizes = sorted(collections.Counter(institutions).values(), reverse=True)
        self.assertEqual(len(sizes), report["vertex_types"]["institution"])
        self.assertGreater(sum(sizes[:10]), 0.25 * len(institutions))
        self.assertLess(sizes[0], 0.25 * len(institutions))
        self.assertLess(max(collections.Counter(authors).values()), 16)

    def test_rows_have_the_class_of_the_community(self):
        """The row of an author is nearer to the rows of its papers than to others."""
        report = self.typed("--vertices", 4000, "--width", 64, "--set", "signal=20")
        rows = {}
        for name, file in (("paper", "features.npy"), ("author", "author_features.npy")):
            count = report["vertex_types"][name]
            data = self.array(file, "<f2", (count, 64))
            rows[name] = [struct.unpack_from("<64e", data, 128 * row) for row in range(count)]

        def likeness(author, paper):
            return sum(a * b for a, b in zip(rows["author"][author], rows["paper"][paper]))
        authors, papers = (list(ends[:3000]) for ends in self.ends("writes", report))
        near = sum(map(likeness, authors, papers))
        others = papers[1500:] + papers[:1500]
        self.assertGreater(near, 3 * abs(sum(map(likeness, authors, others))))


class Refused(TypedTest):
    def test_other_models_have_one_type(self):
        for name in ("arxiv", "debian"):
            self.refused(self.out, "--model", name, "--typed", code=2,
                         says=f"--typed: {name} has one vertex type; use mag240m")

    def test_a_memory_budget_that_is_too_small(self):
        args = [self.out, "--model", "mag240m", "--typed", "--vertices", 20000, "--width", 1]
        done = self.run_rung("generate", *args, "--memory", 1, code=2)
        least = done.stderr.partition("at least ")[2].split(";")[0]
        self.refused(*args, "--memory", int(least) - 1, code=2, says=least)
        self.assertEqual(self.typed(*args[4:], "--memory", least, "--threads", 4)["threads"], 1)

    def test_a_disk_without_room(self):
        self.refused(self.out, "--model", "mag240m", "--typed", "--width", 65536, code=1,
                     says=["needs", "TiB", "are free"])


if __name__ == "__main__":
    main()

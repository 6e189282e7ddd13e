# SPDX-License-Identifier: Apache-2.0
"""rung numa --from and --compare: saved, synthetic and damaged profiles."""
import copy
import itertools
import json
import os
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import main
from machine import FIXTURES
from numatest import NumaTest


def value(median):
    return {"median": median, "min": median * .98, "max": median * 1.03,
            "samples": [median * .98, median, median * 1.03]}


def synthetic(nodes):
    """A profile of an imaginary machine: pairs of nodes are near, others far."""
    results = []
    for cpu, memory in itertools.product(range(nodes), range(nodes)):
        far = 1 if cpu == memory else .6 if cpu // 2 == memory // 2 else .4
        common = {"cpu_node": cpu, "memory_node": memory, "buffer_bytes": 1 << 29, "absent": None}
        for cores, threads in (("all", 16), ("one", 1)):
            more = {**common, "cores": cores, "threads": threads}
            for kind, rate in (("read", 9e9), ("copy", 8e9)):
                results.append({**more, "matrix": "bandwidth", "kind": kind,
                                "bytes_per_s": value(rate * far * threads)})
            results.append({**more, "matrix": "gather", "row_bytes": 1024, "of_copy": .5,
                            "bytes_per_s": value(4e9 * far * threads),
                            "rows_per_s": value(2e6 * far * threads)})
        results.append({**common, "matrix": "latency", "cores": "one", "threads": 1,
                        "latency_ns": value(90 / far)})
    order = ["bandwidth", "latency", "gather"]
    results.sort(key=lambda result: order.index(result["matrix"]))
    return {"schema": 1, "numa": True,
            "nodes": [{"node": node, "has_cpu": True, "has_memory": True,
                       "cpus": "%d-%d" % (16 * node, 16 * node + 15),
                       "total_bytes": 64 << 30, "free_bytes": 60 << 30} for node in range(nodes)],
            "measured": {"quick": False, "samples": 3, "sample_seconds": .2}, "results": results}


class Files(NumaTest):
    def save(self, name, top):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(top, file)
        return self.path(name)

    def texts(self, path):
        picture = self.path("picture.svg")
        self.run_rung("numa", "--from", path, "--svg", picture)
        root = xml.etree.ElementTree.parse(picture).getroot()
        self.assertLessEqual(float(root.get("width")), 760)
        return [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]

    def test_several_nodes(self):
        for nodes in (2, 4, 8):
            path = self.save("many.json", synthetic(nodes))
            said = self.run_rung("numa", "--from", path).stdout
            self.assertRegex(said, r"\nread +node 0 +144 +86.4 ")
            self.assertRegex(said, r"\nRemote reads cost [\d.]+ x: ")
            self.assertIn("One core gathers 1 KiB rows at 4.00 GB/s, 0.50 of its copy.", said)
            self.assertLessEqual(max(map(len, said.splitlines())), 100)
            texts = self.texts(path)
            for what in ("GB/s by all cores of a node", "144", "86.4 GB/s",
                         "far %.2f x near" % (.6 if nodes == 2 else
                                              (.6 + .4 * (nodes - 2)) / (nodes - 1))):
                self.assertIn(what, texts)
            self.assertEqual(texts.count("far %s x near" % "0.60"), 3 if nodes == 2 else 0)

    def test_the_example(self):
        path = os.path.join(FIXTURES, "profile-example.json")
        with open(path, encoding="ascii") as file:
            self.assertEqual(self.json_of("numa", "--from", path), json.load(file))
        said = self.run_rung("numa", "--from", path).stdout
        self.assertIn("nvme0n1 peaks at 837 k reads/s", said)
        self.assertLessEqual(max(map(len, said.splitlines())), 100)
        self.assertIn("nvme0n1: 837 k reads/s", self.texts(path))
        lines = self.run_rung("numa", "--from", path, "--csv").stdout.splitlines()
        self.assertTrue([line for line in lines if line.startswith("nvme,")])

    def test_a_recorded_topology(self):
        path = os.path.join(FIXTURES, "two-sockets.json")
        said = self.run_rung("numa", "--from", path, "--topology").stdout
        self.assertEqual(said, self.run_rung("numa", "--topology", "--root",
                                             self.machine("two-sockets")).stdout)
        self.fails("numa", "--from", path, code=1, says=["only the topology", "--topology"])

    def test_unstable_values(self):
        top = synthetic(1)
        top["results"][0]["bytes_per_s"].update(min=1, max=9e12)
        said = self.run_rung("numa", "--from", self.save("wild.json", top)).stdout
        self.assertRegex(said, r"\nread +node 0 +144 +unstable\n")

    def test_damaged_files(self):
        first = ("results", 0)
        for keys, wrong, says in (
                (("schema",), 2, "schema"), (("nodes",), None, "nodes: missing"),
                (("nodes",), [], "nodes: empty"), (("nodes",), {}, "nodes: not an array"),
                (("nodes", 0, "node"), None, "nodes[0].node: missing"),
                (("nodes", 0, "node"), 1 << 40, "nodes[0].node: not a whole number"),
                (("nodes", 1, "node"), 0, "nodes[1].node: not in ascending order"),
                (("nodes", 0, "cpus"), "0-4294967295", "nodes[0].cpus: not an ascending list"),
                (("nodes", 0, "cpus"), "5-", "nodes[0].cpus: not an ascending list"),
                (("distances",), [[10, "far"], [20, 10]], "distances: has an entry that is no"),
                (("distances",), [[10, -1], [20, 10]], "distances: has an entry that is no"),
                (("distances",), [[10, 1 << 32]], "distances: has an entry that is no"),
                (("distances",), {}, "distances: not an array"),
                (("nodes", 0, "total_bytes"), -1, "nodes[0].total_bytes"),
                (("measured",), 7, "measured: not an object"),
                (("results",), None, "results: missing"),
                (("results",), [{}] * 65537, "results: has too many entries"),
                ((*first, "matrix"), "heat", "results[0].matrix: unknown"),
                ((*first, "kind"), "\x1b[2J", "results[0].kind: has control characters"),
                ((*first, "kind"), None, "results[0].kind: missing"),
                ((*first, "threads"), "1", "results[0].threads: not a whole number"),
                ((*first, "bytes_per_s"), None, "has no value and no reason"),
                ((*first, "bytes_per_s"), 3, "results[0].bytes_per_s: not an object"),
                ((*first, "bytes_per_s", "median"), 1e300, "median: not a number from 0"),
                ((*first, "bytes_per_s", "median"), 0, "min <= median <= max"),
                ((*first, "bytes_per_s", "samples"), [None], "has a sample"),
                ((*first, "bytes_per_s", "samples"), [], "needs samples")):
            top = copy.deepcopy(synthetic(2))
            at = top
            for key in keys[:-1]:
                at = at[key]
            at[keys[-1]] = wrong
            with self.subTest(says):
                self.fails("numa", "--from", self.save("bad.json", top), code=1,
                           says=["bad.json: ", says])
        for text in ("", "[]", "{", '{"schema": 1, "nodes": NaN}', '{"schema": 1e999}'):
            with open(self.path("bad.json"), "w", encoding="ascii") as file:
                file.write(text)
            self.fails("numa", "--from", self.path("bad.json"), code=1, says="bad.json")
            self.fails("numa", "--compare", self.path("bad.json"), code=1, says="bad.json")
        self.fails("numa", "--from", self.path("none"), code=1, says="No such file")

    def test_comparisons(self):
        old = synthetic(2)
        new = copy.deepcopy(old)
        for idx, factor in ((0, .7), (1, 1.5)):
            rate = new["results"][idx]["bytes_per_s"]
            rate.update({key: rate[key] * factor for key in ("median", "min", "max")})
        # a noisy value: its range still has the old one
        new["results"][2]["bytes_per_s"]["median"] *= .7
        new["results"][2]["bytes_per_s"]["min"] *= .5
        old_path, new_path = self.save("old.json", old), self.save("new.json", new)

        said = self.run_rung("numa", "--from", new_path, "--compare", old_path, code=4).stdout
        self.assertRegex(said, r"\nread +all cores +node 0 -> node 0 +144 GB/s +101 GB/s +-30 % "
                               r"+worse\n")
        self.assertRegex(said, r"\ncopy .* \+50 % +better\n")
        self.assertLessEqual(max(map(len, said.splitlines())), 100)
        self.assertRegex(" ".join(said.split()), r"1 of 28 values are more than 10 % worse than "
                                                 r"in .*old.json, and 1 are better$")
        said = self.run_rung("numa", "--from", new_path, "--compare", old_path, "--threshold",
                             "35").stdout
        self.assertRegex(said, r"\n0 of 28 values are more than 35 % worse")
        said = self.run_rung("numa", "--from", self.save("four.json", synthetic(4)), "--compare",
                             old_path).stdout
        self.assertIn("only in the new profile: node 2\n", said)
        # less is better
        for result in new["results"]:
            if result["matrix"] == "latency":
                result["latency_ns"] = value(500)
        said = self.run_rung("numa", "--from", self.save("slow.json", new), "--compare", old_path,
                             code=4).stdout
        self.assertRegex(said, r"\nidle latency .* 500 ns .* worse\n")

    def test_other_numbers_of_threads_are_not_compared(self):
        old = synthetic(2)
        new = copy.deepcopy(old)
        for result in new["results"]:
            if result["cores"] == "all":        # as with --threads 8, at half the rates
                result["threads"] = 8
                result["bytes_per_s"] = value(result["bytes_per_s"]["median"] / 2)
        old_path, new_path = self.save("old.json", old), self.save("new.json", new)
        said = self.run_rung("numa", "--from", new_path, "--compare", old_path).stdout
        said = " ".join(said.split())
        self.assertIn("12 values are not compared, because they were measured with other numbers "
                      "of threads, such as 8 instead of 16; use the same --threads", said)
        self.assertIn("0 of 16 values are more than 10 % worse", said)
        new["results"] = [result for result in new["results"] if result["cores"] == "all"]
        self.fails("numa", "--from", self.save("all.json", new), "--compare", old_path, code=1,
                   says=["no value in common", "use the same --threads"])

    def test_options_that_exclude_each_other(self):
        path = self.save("one.json", synthetic(1))
        for options, says in ((("--from", path, "--quick"), "--from measures nothing"),
                              (("--from", path, "--threads", "1"), "--threads and --from"),
                              (("--topology", "--threads", "1"), "--threads and --topology"),
                              (("--topology", "--explain"), "leave out --topology"),
                              (("--from", path, "--explain", "--json"), "leave out --json"),
                              (("--from", path, "--explain", "--csv"), "leave out --csv"),
                              (("--compare", path, "--explain"), "leave out --compare"),
                              (("--from", path, "--root", self.path()), "--root and --from"),
                              (("--threshold", "5"), "--threshold needs --compare"),
                              (("--compare", path, "--json"), "--compare prints text"),
                              (("--compare", path, "--threshold", "0"), "--threshold"),
                              (("--topology", "--svg", "x.svg"), "exclude each other")):
            self.fails("numa", *options, code=2, says=says)


if __name__ == "__main__":
    main()

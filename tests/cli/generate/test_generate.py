# SPDX-License-Identifier: Apache-2.0
"""rung generate: its files, equal bytes from all thread counts, the laws of its graph, refused
input, and cleanup after a stop."""
import array
import collections
import filecmp
import json
import os
import resource
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import NAMED_ONLY, SANITIZED, CliTest, main
from generate_faults import FAULTS

os.environ.setdefault("OMP_WAIT_POLICY", "passive")   # tests share the cores
MODELS = ["mag240m", "papers100m", "wikikg90m", "igb", "arxiv", "debian-docs", "debian"]
YEARS = ["mag240m", "papers100m", "arxiv"]
# of the originals: vertices, edges, and vertices with a label
COUNTS = {"mag240m": (244160499, 1728364232, 1398159),
          "papers100m": (111059956, 1615685872, 1546782)}
TYPES = {"<i2": "h", "<i4": "i", "<i8": "q"}


def read_array(path):
    """(descr, shape, values) of a .npy whose data begin at byte 4096; rows of floats as bytes."""
    with open(path, "rb") as file:
        head, data = file.read(4096), file.read()
    assert head[:8] == b"\x93NUMPY\x01\x00", path
    # safe: the command under test wrote the file
    header = eval(head[10:].decode("latin-1"), {"__builtins__": {}})
    if header["descr"] in TYPES:
        values = array.array(TYPES[header["descr"]])
        values.frombytes(data)
        data = values
    return header["descr"], header["shape"], data


class GenerateTest(CliTest):
    def setUp(self):
        super().setUp()
        self.out = self.path("out")

    def generate(self, *args, out=None):
        return self.json_of("generate", out or self.out, *args)

    def array(self, name, descr, shape):
        found = read_array(os.path.join(self.out, name))
        self.assertEqual(found[:2], (descr, shape), name)
        return found[2]

    def edges(self, count):
        ends = self.array("edges.npy", "<i4", (2, count))
        return ends[:count], ends[count:]

    def same_files(self, one, other):
        names = sorted(os.listdir(one))
        self.assertEqual(sorted(os.listdir(other)), names)
        self.assertEqual(filecmp.cmpfiles(one, other, names, shallow=False)[1:], ([], []))

    def refused(self, *args, code, says, **kwargs):
        """Check that the command fails, names the words of `says` and leaves nothing."""
        before = sorted(os.listdir(self.folder))
        self.fails("generate", *args, code=code, says=says, **kwargs)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


class Files(GenerateTest):
    def test_counts_are_those_of_the_original_divided_by_the_scale(self):
        for name, scale in (("mag240m", 16384), ("papers100m", 4096)):
            vertices, edges, labelled = COUNTS[name]
            report = self.generate("--model", name, "--scale", f"1/{scale}", "--width", 1,
                                   out=self.path(name))
            self.assertEqual(report["vertices"], vertices // scale)
            self.assertEqual(report["edges"], edges // scale)
            self.assertEqual(report["scale"], 1 / scale)
            self.assertAlmostEqual(report["train"] + report["valid"] + report["test"],
                                   labelled / scale, delta=1)

    def test_a_batch_has_the_density_of_those_of_the_original(self):
        for name, counts, batch in (("arxiv", ["--scale", "1/16"], 64),
                                    ("arxiv", ["--scale", "1/3000"], 1),
                                    ("arxiv", ["--vertices", 16539], 100),
                                    ("arxiv", ["--vertices", 100], 1),
                                    ("debian", ["--vertices", 80000], 1024)):
            with self.subTest(counts):
                out = self.path(name + str(counts[1]).replace("/", "_"))
                self.generate("--model", name, *counts, "--width", 1, out=out)
                with open(os.path.join(out, "dataset.json"), encoding="utf-8") as file:
                    self.assertEqual(json.load(file)["training"]["batch_size"], batch)

    def test_every_model_stages_and_has_a_description(self):
        for name in MODELS:
            with self.subTest(name):
                self.out = self.path(name)
                report = self.generate("--model", name, "--vertices", 3000, "--width", 6)
                self.check_description(name, report)
                self.check_arrays(name, report)
                self.run_rung("stage", "--graph", os.path.join(self.out, "edges.npy"),
                              "--undirected", "--features",
                              os.path.join(self.out, "features.npy"), "--labels",
                              os.path.join(self.out, "labels.npy"), "--split",
                              "train=" + os.path.join(self.out, "train.npy"), "--fanout", "3,2",
                              "--batch", 16, "--quiet", "--out", self.path(name + ".rung"))

    def test_rows_of_any_width_fill_their_blocks(self):
        # 1047 rows fill a block of 4 MiB; AddressSanitizer sees a value beyond the last one
        self.generate("--model", "arxiv", "--vertices", 2100, "--width", 1001)
        self.array("features.npy", "<f4", (2100, 1001))

    def check_description(self, name, report):
        with open(os.path.join(self.out, "dataset.json"), encoding="utf-8") as file:
            found = json.load(file)
        self.assertEqual((found["format"], found["version"]), ("rung-source", 1))
        about = found["about"]
        self.assertEqual((about["generator"], about["model"], about["seed"], about["scale"]),
                         ("rung generate", name, 0, None))
        self.assertEqual(about["parameters"], report["parameters"])
        (vertices,), (relation,) = found["vertex_types"], found["relations"]
        self.assertEqual(vertices["count"], report["vertices"])
        self.assertEqual((relation["source"], relation["target"]), (vertices["name"],) * 2)
        self.assertEqual((relation["count"], relation["undirected"]), (report["edges"], True))
        self.assertEqual(found["training"]["draws"], "all")
        named = [vertices["features"], vertices["labels"], relation["edges"],
                 *vertices.get("arrays", {}).values(), *vertices["splits"].values()]
        self.assertEqual(sorted([*named, "dataset.json"]), sorted(os.listdir(self.out)))
        self.assertEqual("year" in vertices.get("arrays", {}), name in YEARS)

    def check_arrays(self, name, report):
        vertices = report["vertices"]
        descr, shape, _ = read_array(os.path.join(self.out, "features.npy"))
        self.assertEqual(shape, (vertices, 6))
        self.assertEqual(report["row_bytes"], 6 * int(descr[2:]))
        labels = self.array("labels.npy", "<i2", (vertices,))
        splits = {}
        for split in ("train", "valid", "test"):
            if report[split]:
                ids = self.array(split + ".npy", "<i8", (report[split],))
                self.assertEqual(list(ids), sorted(set(ids)))
                splits.update((vertex, split) for vertex in ids)
        self.assertEqual(len(splits), report["train"] + report["valid"] + report["test"])
        for vertex, label in enumerate(labels):
            self.assertTrue(0 <= label < report["classes"] if vertex in splits else label == -1)
        if name in YEARS:
            years = self.array("year.npy", "<i2", (vertices,))
            of_split = collections.defaultdict(set)
            for vertex, split in splits.items():
                of_split[split].add(years[vertex])
            if of_split["test"] and of_split["valid"]:
                self.assertLess(max(of_split["train"]), min(of_split["valid"]))
                self.assertLess(max(of_split["valid"]), min(of_split["test"]))

    def test_threads_and_memory_change_no_byte_and_a_seed_does(self):
        base = ["--model", "arxiv", "--vertices", 40000, "--width", 5]
        one = self.path("one")
        self.generate(*base, "--threads", 1, out=one)
        for more in (["--threads", 2], ["--threads", 5], ["--memory", "8MiB"]):
            other = self.path("other" + "".join(map(str, more)).replace("/", ""))
            self.generate(*base, *more, out=other)
            self.same_files(one, other)
        self.generate(*base, "--seed", 1)
        for name in ("edges.npy", "features.npy", "labels.npy"):
            self.assertFalse(filecmp.cmp(os.path.join(one, name), os.path.join(self.out, name),
                                         shallow=False))

    def test_the_report_names_the_next_command(self):
        done = self.run_rung("generate", self.out, "--model", "arxiv", "--vertices", 1000)
        self.assertIn("arxiv with 1000 vertices: 1000 vertices, 6886 edges", done.stdout)
        self.assertIn(f"rung stage --dataset {self.out}/dataset.json", done.stdout)

    def test_a_long_list_of_citations(self):
        """Vertices that cite half of all older ones."""
        report = self.generate("--model", "arxiv", "--vertices", 200, "--edges", 200 * 199 // 4)
        citing, cited = self.edges(report["edges"])
        self.assertEqual(len(set(zip(citing, cited))), report["edges"])


class Laws(GenerateTest):
    """Properties of the graph that do not depend on the fit of its parameters."""

    def test_old_vertices_are_cited(self):
        """Ids of communities reveal the order of time in each, and years that of all vertices."""
        report = self.generate("--model", "arxiv", "--vertices", 20000, "--width", 1)
        citing, cited = self.edges(report["edges"])
        years = self.array("year.npy", "<i2", (20000,))
        self.assertTrue(all(years[a] >= years[b] for a, b in zip(citing, cited)))
        self.assertEqual(len(set(zip(citing, cited))), report["edges"])   # no edge twice
        self.assertFalse(any(a == b for a, b in zip(citing, cited)))

    def test_the_cited_vertex_can_be_first(self):
        report = self.generate("--model", "debian", "--vertices", 5000, "--width", 1, "--set",
                               "mutual=0")
        first = collections.Counter(self.edges(report["edges"])[0])
        second = collections.Counter(self.edges(report["edges"])[1])
        self.assertGreater(max(first.values()), 4 * max(second.values()))

    def test_fame_and_copying_make_in_degrees_uneven(self):
        def top_share(out, *params):
            self.out = self.path(out)
            report = self.generate("--model", "arxiv", "--vertices", 30000, "--width", 1,
                                   *[word for param in params for word in ("--set", param)])
            degrees = sorted(collections.Counter(self.edges(report["edges"])[1]).values(),
                             reverse=True)
            return sum(degrees[:300]) / report["edges"]
        base = ["community=500", "recency=1"]
        even = top_share("even", *base, "fame=0", "copy=0")
        self.assertLess(even, 0.1)
        self.assertGreater(top_share("famous", *base, "fame=0.9", "copy=0"), 2 * even)
        self.assertGreater(top_share("copied", *base, "fame=0", "copy=0.95", "run=20"), 2 * even)

    def test_communities_and_classes(self):
        report = self.generate("--model", "arxiv", "--vertices", 20000, "--width", 1)
        labels = self.array("labels.npy", "<i2", (20000,))
        citing, cited = self.edges(report["edges"])
        same = sum(labels[a] == labels[b] for a, b in zip(citing, cited)) / report["edges"]
        sizes = collections.Counter(labels)
        by_chance = sum((size / 20000) ** 2 for size in sizes.values())
        self.assertEqual(len(sizes), report["classes"])
        self.assertGreater(same, 4 * by_chance)

    def test_ids_are_local_or_not(self):
        def gap(name):
            self.out = self.path(name)
            report = self.generate("--model", name, "--vertices", 20000, "--width", 1)
            citing, cited = self.edges(report["edges"])
            return sum(abs(a - b) for a, b in zip(citing, cited)) / report["edges"] / 20000
        self.assertAlmostEqual(gap("arxiv"), 1 / 3, delta=0.02)   # as between two random ids
        self.assertLess(gap("debian-docs"), 0.2)

    def test_links_in_return(self):
        def answered(mutual):
            self.out = self.path(f"mutual{mutual}")
            report = self.generate("--model", "debian-docs", "--vertices", 4000, "--width", 1,
                                   "--set", f"mutual={mutual}")
            pairs = set(zip(*self.edges(report["edges"])))
            self.assertEqual(len(pairs), report["edges"])
            return sum((b, a) in pairs for a, b in pairs) / len(pairs)
        self.assertEqual(answered(0), 0)
        some = answered(0.5)   # the communities with the fewest citations
        self.assertTrue(0 < some < 0.5, some)
        self.assertGreater(answered(1), 0.9)

    def test_seeds_do_not_change_which_shares_of_citations_communities_have(self):
        """In a stratified model only the order of the communities is drawn."""
        def shares(seed):
            self.out = self.path(f"seed{seed}")
            report = self.generate("--model", "debian-docs", "--vertices", 8100, "--edges", 30000,
                                   "--width", 1, "--seed", seed, "--set", "growth=0", "--set",
                                   "mutual=0", "--set", "community=270", "--set", "spread=0")
            citing, _ = self.edges(report["edges"])
            sizes = collections.Counter(vertex // 270 for vertex in citing)
            return [size / report["edges"] for size in sorted(sizes.values(), reverse=True)]
        for one, other in zip(shares(0), shares(1)):
            self.assertAlmostEqual(one, other, delta=0.01)

    def test_neighbours_help_where_a_row_alone_does_not(self):
        if not self.can_train():
            self.skipTest("rung train is not in this build")
        self.generate("--model", "arxiv", "--vertices", 12000, "--width", 64)
        staged = self.path("staged")
        arrays = {name: os.path.join(self.out, name + ".npy")
                  for name in ("edges", "features", "labels", "train", "valid", "test")}
        self.run_rung("stage", "--graph", arrays["edges"], "--undirected", "--features",
                      arrays["features"], "--labels", arrays["labels"],
                      *[word for split in ("train", "valid", "test")
                        for word in ("--split", f"{split}={arrays[split]}")],
                      "--fanout", "10,5", "--score", "degree", "--quiet", "--out", staged)
        training = ["train", staged, "--epochs", 6, "--hidden", 32, "--lr", 0.01, "--batch", 256,
                    "--fanout", "10,5", "--host", "max", "--seed", 1]
        with_edges = self.json_of(*training)["test_accuracy"]
        without = self.json_of(*training, "--no-edges")
        self.assertGreater(with_edges, without["test_accuracy"] + 0.1)
        self.assertGreater(without["test_accuracy"], without["majority_accuracy"])


class Refused(GenerateTest):
    def test_options(self):
        for args, says in (
                (["--model", "arxiv"], "DIR is missing"),
                ([self.out], ["--model is missing", "mag240m"]),
                ([self.out, "--model", "cora"], ["--model: unknown value 'cora'", *MODELS]),
                ([self.out, "x", "--model", "arxiv"], "unexpected argument 'x'"),
                ([self.out, "--model", "arxiv", "--scale", "0.5"], ["'0.5'", "1/N", "1/16"]),
                ([self.out, "--model", "arxiv", "--scale", "1/0"], "'0'"),
                ([self.out, "--model", "arxiv", "--scale", "1/99999"], ["1/99999", "at least 16"]),
                ([self.out, "--model", "arxiv", "--scale", "1/2", "--vertices", 20],
                 "--scale and --vertices exclude each other"),
                ([self.out, "--model", "arxiv", "--edges", 20], "--edges needs --vertices"),
                ([self.out, "--model", "arxiv", "--vertices", 15], ["--vertices", "15"]),
                ([self.out, "--model", "arxiv", "--width", 0], ["--width", "'0'"]),
                ([self.out, "--model", "arxiv", "--set", "copies=1"], ["'copies=1'", "NAME=VALUE"]),
                ([self.out, "--model", "arxiv", "--set", "copy"], ["'copy'", "NAME=VALUE"]),
                ([self.out, "--model", "arxiv", "--set", "copy=2"], ["'2'", "0.99"]),
                ([self.out, "--model", "arxiv", "--memory", "max"], ["--memory", "max"])):
            with self.subTest(args):
                self.refused(*args, code=2, says=says)

    def test_more_edges_than_pairs(self):
        for counts, says in ((["arxiv", "--vertices", 100, "--edges", 5000],
                              "--vertices: 100 are too few for 5000 edges"),
                             (["igb", "--vertices", 16],
                              "--vertices: 16 are too few for 237 edges"),
                             (["debian-docs", "--scale", "1/8000"],
                              "--scale: 1/8000 leaves 16 vertices, too few for 488 edges")):
            with self.subTest(counts):
                self.refused(self.out, "--model", *counts, code=2, says=says)

    def test_a_memory_budget_that_is_too_small(self):
        args = [self.out, "--model", "arxiv", "--vertices", 20000, "--width", 1]
        done = self.run_rung("generate", *args, "--memory", 1, code=2)
        self.assertIn("--memory: 1 bytes are not enough", done.stderr)
        least = done.stderr.partition("at least ")[2].split(";")[0]
        self.refused(*args, "--memory", int(least) - 1, code=2, says=least)
        self.assertEqual(self.generate(*args[1:], "--memory", least, "--threads", 4)["threads"], 1)

    def test_folders(self):
        os.mkdir(self.out)
        small = ["--model", "arxiv", "--vertices", 1000]
        self.refused(self.out, *small, code=1, says=[self.out + " exists"])
        self.refused(self.path("no", "such"), *small, code=1, says="No such file")
        self.refused("/proc/model", *small, code=1, says="/proc/model")
        self.refused("", *small, code=2, says="DIR is missing")
        # with and without room for the end of the temporary name; the disk would be too small
        for length in (256, 245):
            self.refused(self.path("d" * length), "--model", "igb", code=1,
                         says="File name too long")

    def test_a_disk_without_room(self):
        self.refused(self.out, "--model", "igb", code=1,
                     says=["needs 1.03 TiB", "are free", "--scale"])

    @staticmethod
    def limit_file_size():
        """Make writes beyond a limit fail as on a full disk."""
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

    def test_a_failed_write_leaves_nothing(self):
        self.refused(self.out, "--model", "arxiv", "--vertices", 30000, code=1,
                     says=[self.out + "/edges.npy cannot be written", "File too large"],
                     preexec_fn=self.limit_file_size)


class Stopped(GenerateTest):
    # a few gigabytes of rows, which take longer than the signal needs
    LONG = ["--model", "arxiv", "--vertices", 60000, "--width", 16384]
    SMALL = ["--model", "arxiv", "--vertices", 1000, "--width", 3]

    def started(self):
        """Start a long run and wait until it writes rows. Return the process, and whether its
        files have no names."""
        free = os.statvfs(self.folder)
        if free.f_bavail * free.f_frsize < 8 << 30:
            self.skipTest("less than 8 GiB are free in " + self.folder)
        process = self.start("generate", self.out, *self.LONG)
        fds = "/proc/%d/fd" % process.pid
        while process.poll() is None:
            targets = []
            for fd in os.listdir(fds):
                try:
                    targets.append(os.readlink(os.path.join(fds, fd)))
                except FileNotFoundError:
                    continue
            mine = [target for target in targets if target.startswith(self.folder)]
            if len(mine) == 7:   # all but dataset.json
                return process, any("/#" in target for target in mine)
            time.sleep(0.01)
        self.fail(process.stderr.read())

    def check_signal(self, number, unnamed):
        """Check that a signal ends a long run, and return the message after the first line."""
        process, found = self.started()
        self.assertEqual(found, unnamed)
        process.send_signal(number)
        _, message = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -number)
        first, _, more = message.partition("\n")
        self.assertEqual(first, "rung generate: interrupted by %s" % number.name)
        return more

    def check_hint(self, message, partial):
        self.assertRegex(partial, r"^out\.[0-9a-f]{8}\.partial$")
        self.assertEqual(message, f"rung generate: unfinished files are in {self.path(partial)}; "
                         "remove this folder\n")

    def test_signals_leave_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                before = sorted(os.listdir(self.folder))
                self.assertEqual(self.check_signal(number, True), "")
                self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_a_killed_run_leaves_nothing(self):
        process, unnamed = self.started()
        process.kill()
        process.communicate()
        if not unnamed:
            self.skipTest("the file system of %s has no unnamed files" % self.folder)
        self.assertEqual(os.listdir(self.folder), [])

    def preload(self, source, fault=None):
        """Preload a library into the commands that follow. Return the folder's files."""
        library = self.path("faults.so")
        subprocess.run([os.environ.get("RUNG_CC", "cc"), "-shared", "-fPIC", "-x", "c", "-", "-o",
                        library, "-ldl"], input=source, text=True, check=True)
        self.variables["LD_PRELOAD"] = library
        if fault:
            self.variables["RUNG_TEST_FAULT"] = fault
        return sorted(os.listdir(self.folder))

    @unittest.skipIf(SANITIZED, "the sanitizer must be the first library loaded")
    def test_a_file_system_without_unnamed_files(self):
        before = self.preload(NAMED_ONLY)
        message = self.check_signal(signal.SIGINT, False)
        left = sorted(set(os.listdir(self.folder)) - set(before))
        if left:   # the disk was too slow to remove gigabytes in the grace period
            self.check_hint(message, *left)
        before += left
        self.generate(*self.SMALL)
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(before + ["out"]))
        del self.variables["LD_PRELOAD"]
        self.generate(*self.SMALL, out=self.path("unnamed"))
        self.same_files(self.out, self.path("unnamed"))

    @unittest.skipIf(SANITIZED, "the sanitizer must be the first library loaded")
    def test_a_sync_that_outlasts_a_signal(self):
        """The files have names then, and the message names their folder."""
        before = self.preload(FAULTS, "fsync")
        process = self.start("generate", self.out, *self.SMALL, "--quiet")
        self.assertEqual(process.stderr.readline(), "syncing\n")
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        (partial,) = set(os.listdir(self.folder)) - set(before)
        self.check_hint(message.removeprefix("rung generate: interrupted by SIGINT\n"), partial)

    @unittest.skipIf(SANITIZED, "the sanitizer must be the first library loaded")
    def test_folders_of_other_processes_stay(self):
        before = self.preload(FAULTS, "mkdir")
        self.fails("generate", self.out, *self.SMALL, code=1, says=[self.out, "File exists"])
        theirs = set(os.listdir(self.folder)) - set(before)
        self.assertTrue(theirs)
        for name in theirs:
            self.assertEqual(os.listdir(self.path(name)), ["edges.npy"])

    @unittest.skipIf(SANITIZED, "the sanitizer must be the first library loaded")
    def test_a_description_that_does_not_fit(self):
        before = self.preload(FAULTS, "write")
        self.fails("generate", self.out, *self.SMALL, code=1,
                   says=[self.out + "/dataset.json cannot be written: No space left on device"])
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    @unittest.skipIf(SANITIZED, "the sanitizer must be the first library loaded")
    def test_a_file_system_that_cannot_reserve_blocks(self):
        self.preload(FAULTS, "fallocate")
        self.generate(*self.SMALL)
        del self.variables["LD_PRELOAD"]
        self.generate(*self.SMALL, out=self.path("reserved"))
        self.same_files(self.out, self.path("reserved"))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""rung plan without --host: the table of budgets, the knee, the advice, --compute, --explain and
the pictures."""
import os
import shlex
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, Graph, main

os.environ.setdefault("OMP_WAIT_POLICY", "passive")   # tests share the cores


class Sweep(CliTest):
    def setUp(self):
        super().setUp()
        graph = Graph(self.folder, vertices=8000, edges=60000, row_bytes=512)
        self.staged = self.stage(graph)

    def plan(self, *args):
        return self.json_of("plan", self.staged, "--fanout", "5,3", "--batch", 100, *args)

    def text(self, *args, target=None):
        return self.run_rung("plan", *(target or [self.staged]), *args).stdout

    def test_each_budget_is_that_of_host(self):
        sweep = self.plan()
        budgets = sweep["budgets"]
        self.assertGreater(len(budgets), 3)
        for budget in budgets:
            single = self.plan("--host", budget["budget"]["host_bytes"])
            del single["placements"], budget["placements"]
            self.assertEqual(single, budget)
        self.assertEqual((budgets[-1]["served_share"], budgets[-1]["reads_per_batch"]), (1, 0))
        self.assertGreaterEqual(budgets[-1]["budget"]["host_bytes"], sweep["whole_bytes"])

    def knee(self, points):
        """Independently: the point farthest below the line between the ends."""
        (x0, y0), (x1, y1) = points[0], points[-1]
        below = [1 - (x - x0) / (x1 - x0) - (y - y1) / (y0 - y1) for x, y in points]
        best = max(range(len(points)), key=lambda i: below[i])
        return points[best][0] if below[best] >= 0.1 else None

    def check_knee(self, sweep):
        points = [(budget["budget"]["host_bytes"], budget["seconds_per_batch"])
                  for budget in sweep["budgets"]]
        self.assertEqual(sweep["knee_host_bytes"], self.knee(points))
        seconds = [y for _, y in points]
        self.assertEqual(seconds, sorted(seconds, reverse=True))

    def test_knee_and_advice(self):
        models = [self.json_of("plan", "--model", name) for name in ("mag240m", "igb")]
        self.assertIsNotNone(models[0]["knee_host_bytes"])
        for sweep in models:
            self.check_knee(sweep)
            expected = sweep["knee_host_bytes"] or sweep["budgets"][-1]["budget"]["host_bytes"]
            self.assertEqual(sweep["advice"]["host_bytes"], expected)
        text = self.text(target=["--model", "mag240m"])
        self.assertEqual(text.count("<- knee"), 1)
        self.assertIn("is enough if a batch trains in", text)

    def test_compute_names_the_smallest_budget(self):
        budgets = self.plan()["budgets"]
        # a model between the second budget and the third
        compute = 0.99 * budgets[2]["seconds_per_batch"]
        sweep = self.plan("--compute", "%.12f" % compute)
        enough = [budget["budget"]["host_bytes"] for budget in sweep["budgets"]
                  if budget["idle_share"] < 0.05]
        self.assertEqual(sweep["advice"]["host_bytes"], enough[0])
        for budget in sweep["budgets"]:
            self.assertAlmostEqual(budget["idle_share"],
                                   max(0, 1 - compute / budget["seconds_per_batch"]))
        self.assertIsNone(self.plan("--compute", "0.001us")["advice"])
        self.assertIn("no budget keeps the trainer busy", self.text("--compute", "0.001us"))
        for given, seconds in (("90ms", 0.09), ("0.09", 0.09), ("2 s", 2), ("5us", 5e-6)):
            self.assertAlmostEqual(self.plan("--host", "max", "--compute", given)
                                   ["compute_seconds"], seconds)

    def test_a_given_budget_is_one_of_the_rows(self):
        sweep = self.plan("--sweep", "--host", "1MiB")
        self.assertIn(1 << 20, [each["budget"]["host_bytes"] for each in sweep["budgets"]])
        text = self.text("--sweep", "--host", "1MiB")
        self.assertIn("1.00 MiB *", text)
        self.assertIn("* the budget of --host", text)

    def test_another_drive_halves_the_reads_of_rows(self):
        plan = self.plan("--host", "1MiB", "--structure", "auto")
        rows, lists = plan["nvme_seconds_per_batch"], plan["list_nvme_seconds_per_batch"]
        self.assertGreater(rows, 0)
        self.assertAlmostEqual(plan["seconds_per_epoch_with_another_drive"],
                               plan["batches_per_epoch"] *
                               max(rows / 2 + lists, plan["memory_seconds_per_batch"]))

    def test_details_need_explain(self):
        short, long = (self.text("--host", "1MiB", *more) for more in ([], ["--explain"]))
        self.assertIn("predicted: ", short)
        self.assertIn("requests", short)
        for words in ("part of --host", "reads in flight"):
            self.assertNotIn(words, short)
            self.assertIn(words, long)

    def test_the_suggested_command_works(self):
        path = self.path("it's one")
        os.symlink(self.staged, path)
        for more in ([], ["--sweep", "--host=1MiB", "--compute", "2ms"]):
            [line] = [line for line in self.text(*more, target=[path]).splitlines()
                      if line.startswith("Details: ")]
            words = shlex.split(line)[2:]
            self.assertEqual((words[0], words[-1]), ("plan", "--explain"))
            self.assertIn(path, words)
            self.assertEqual([word for word in ("--sweep", "--host=1MiB") if word in words], [])
            self.assertEqual("--compute" in words, "--compute" in more)
            self.run_rung(*words)

    def test_a_picture_is_utf8_whatever_the_path(self):
        for name in (b"\xff\xfe", "\u00e9".encode() * 70, b"x" + "\u00e9".encode() * 70):
            path = self.path(os.fsdecode(name))
            os.symlink(self.staged, path)
            svg = self.path("utf8.svg")
            self.run_rung("plan", path, "--host", "1MiB", "--svg", svg, "--json")
            with open(svg, encoding="utf-8") as file:
                self.assertIn("?" if name == b"\xff\xfe" else "\u00e9", file.read())

    def test_lines_have_100_columns_at_most(self):
        for text in (self.text(), self.text("--compute", "1ms"),
                     self.text("--host", "1MiB", "--explain"),
                     self.text("--sweep", "--compute", "1ms", target=["--model", "mag240m"])):
            self.assertLessEqual(max(map(len, text.splitlines())), 100 + len(self.staged), text)
            self.assertNotIn("e+0", text)

    def test_pictures(self):
        for number, args in enumerate(([self.staged], [self.staged, "--host", "1MiB"],
                                       ["--model", "mag240m", "--compute", "90ms"],
                                       ["--model", "igb", "--host", "20GiB"])):
            path = self.path("%d.svg" % number)
            self.run_rung("plan", *args, "--svg", path)
            root = xml.etree.ElementTree.parse(path).getroot()
            words = " ".join(root.itertext())
            self.assertIn("prefers-color-scheme", words)
            self.assertIn("requests" if "--host" in args else "served from memory", words)
        self.fails("plan", self.staged, "--svg", self.path("none", "x.svg"), code=1,
                   says=["x.svg"])

    def test_wrong_options(self):
        for args, says in (
                (["--compute", "0"], "--compute: '0' is not a valid time; give one such as 90ms"),
                (["--compute", "1d"], "or 5min, from 1e-09 to 1e+06 s"),
                (["--compute", "ms"], "--compute: 'ms'"),
                (["--explain"], "--explain shows one budget; give --host SIZE"),
                (["--sweep", "--host", "1MiB", "--explain"], "--explain shows one budget"),
                (["--score", "degree"], "compare orders with rung trace --methods")):
            self.fails("plan", self.staged, *args, code=2, says=["rung plan: ", says])


if __name__ == "__main__":
    main()

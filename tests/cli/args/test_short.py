# SPDX-License-Identifier: Apache-2.0
"""Short options and the forms of help: rung -h, rung help COMMAND, rung COMMAND -h."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, Graph, main

COMMANDS = ["generate", "stage", "score", "verify", "fetch", "info", "plan", "trace", "numa",
            "doctor"]


class Short(CliTest):
    def test_forms_of_help(self):
        self.assertEqual(self.run_rung("-h").stdout, self.run_rung("--help").stdout)
        self.assertEqual(self.run_rung("help").stdout, self.run_rung("--help").stdout)
        self.assertEqual(self.run_rung("-V").stdout, self.run_rung("--version").stdout)
        for command in COMMANDS:
            text = self.run_rung(command, "--help").stdout
            self.assertTrue(text.startswith("Usage: rung %s " % command), text)
            for words in (["help", command], [command, "-h"], [command, "-?"], [command, "--he"]):
                self.assertEqual(self.run_rung(*words).stdout, text, words)
        self.fails("help", "infos", code=2, says="unknown command 'infos'; did you mean info?")
        self.fails("--hlep", code=2, says="did you mean --help?")

    def test_a_letter_means_the_same_everywhere(self):
        meaning = {}
        for command in COMMANDS:
            for letter, name in re.findall(r"^ +-(.), --([a-z-]+)",
                                           self.run_rung(command, "--help").stdout, re.MULTILINE):
                self.assertEqual(meaning.setdefault(letter, name), name, command)
        self.assertLessEqual({"h": "help", "j": "json", "q": "quiet", "t": "threads", "o": "out",
                              "n": "rows", "b": "batch", "m": "memory", "f": "force"}.items(),
                             meaning.items())

    def test_they_do_what_the_long_ones_do(self):
        graph = Graph(self.folder)
        staged = self.path("short")
        for _ in range(2):   # the second time -f replaces it
            self.run_rung("stage", *graph.options(), "-qfo", staged, "-m", "1G", "-b", 50, "-t1")
        done = self.json_of("bench", staged, "-n", 300, "-b100", "-t", 2, "-q", "--ids", "uniform")
        self.assertEqual((done["rows"], done["threads"]), (300, 2))
        self.assertEqual(self.run_rung("info", staged, "-j").stdout,
                         self.run_rung("info", staged, "--json").stdout)
        out = self.path("counts.npy")
        self.run_rung("trace", "-o", out, staged, "--scores=none", "-qj")
        self.assertTrue(os.path.exists(out))

    def test_wrong_letters(self):
        self.fails("info", "x", "-z", code=2, says=["option", "'z'"])
        self.fails("bench", "x", "-n", code=2, says=["argument", "'n'"])
        self.fails("bench", "x", "-n", "many", code=2, says="--rows: 'many' is not a whole number")
        self.fails("plan", "x", "-host", "4G", code=2, says="'-host'; did you mean --host?")
        self.fails("plan", "x", "-host=4G", code=2, says="'-host'; did you mean --host?")
        # an earlier spelling, --rows of numa, has no letter
        self.fails("numa", "-n", 512, code=2, says=["option", "'n'"])


if __name__ == "__main__":
    main()

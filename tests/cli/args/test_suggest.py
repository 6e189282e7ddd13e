# SPDX-License-Identifier: Apache-2.0
"""Suggestions for misspelled commands, options and values."""
import os
import random
import re
import string
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, Graph, main

# earlier spellings and refused options, which are accepted but not suggested
HIDDEN = {"method", "methods", "trace-rows", "prefetch", "gap", "ahead", "rows", "plan", "device",
          "gpu", "gpus", "peers", "replicate"}
MET = r"did you mean (.+)\?$"


def misspelled(word, draws):
    """Return the word with one mistake of each kind, at random places."""
    at = draws.randrange(len(word))
    other = draws.choice(string.ascii_lowercase)
    swap = draws.randrange(len(word) - 1) if len(word) > 1 else 0
    wrong = {word[:at] + word[at + 1:], word[:at] + other + word[at:],
             word[:at] + other + word[at + 1:],
             word[:swap] + word[swap:swap + 2][::-1] + word[swap + 2:]}
    return sorted(text for text in wrong if text != word)


class Suggestions(CliTest):
    def setUp(self):
        super().setUp()
        self.draws = random.Random(26)

    def commands(self):
        lines = self.run_rung("--help").stdout.splitlines()
        return [line.split()[0] for line in lines
                if re.match("  [a-z]", line) and not line.startswith("  rung")]

    def meant(self, *args):
        """Return the words that an error message suggests."""
        message = self.fails(*args, code=2, says="rung").splitlines()[0]
        found = re.search(MET, message)
        self.assertTrue(found, message)
        self.assertLessEqual(len(message), 100)
        return found[1].split(" or ")

    def suggests(self, word, args, known, prefix=""):
        """Each misspelled form of `word` leads back to it, alone unless others are as near."""
        for wrong in misspelled(word, self.draws):
            # too short to be recognised, another word, or a valid abbreviation
            if len(wrong) < 2 or any(name.startswith(wrong) for name in known):
                continue
            with self.subTest("%s -> %s" % (word, wrong)):
                self.assertIn(prefix + word, self.meant(*args(wrong)))

    def test_commands(self):
        commands = self.commands()
        self.assertGreater(len(commands), 8)
        for command in commands:
            for _ in range(4):
                self.suggests(command, lambda wrong: [wrong], commands)
        self.assertEqual(self.meant("trian"), ["train"])
        self.assertEqual(self.meant("gen"), ["generate"])

    def test_options_of_every_command(self):
        for command in self.commands():
            if command == "train" and not self.can_train():
                continue
            options = set(re.findall(r"^ +(?:-., )?--([A-Za-z0-9-]+)",
                                     self.run_rung(command, "--help").stdout, re.MULTILINE))
            self.assertGreaterEqual(len(options), 4)
            for option in sorted(options):
                self.suggests(option, lambda wrong: [command, "--" + wrong], options | HIDDEN, "--")
        self.assertEqual(self.meant("plan", "--hots", "4G"), ["--host"])
        self.assertEqual(self.meant("bench", "--engin=pread", "--thraeds", "3"), ["--threads"])

    def test_values(self):
        scores = ["blend", "expected", "presample", "ppr", "wrpagerank", "rpagerank", "degree"]
        for args, words in (
                (["bench", "x", "--engine"],
                 ["auto", "nvme", "io_uring_poll", "io_uring", "pread"]),
                (["plan", "x", "--device"], ["cpu", "cuda", "auto"]),
                (["plan", "x", "--numa-node"], ["auto", "interleave", "none"]),
                (["plan", "x", "--structure"], ["auto", "max"]),
                (["stage", "--pad"], ["none", "sector", "auto"]),
                (["stage", "--row-order"], ["auto", "passes", "partition", "gather"]),
                (["score", "--draws"], ["all", "new"]),
                (["stage", "--score"], scores), (["score", "--score"], scores),
                (["trace", "x", "--scores"], scores + ["none"]),
                (["plan", "--model"], ["mag240m", "papers100m", "wikikg90m", "igb", "arxiv",
                                       "debian-docs", "debian"]),
                (["numa", "--only"], ["bandwidth", "latency", "loaded", "gather", "gpu", "peer",
                                      "nvme", "touch", "register"]),
                (["bench", "x", "--ids"], ["trace", "uniform", "zipf"])):
            for word in words:
                self.suggests(word, lambda wrong: [*args, wrong], words)
        for option, words in (("--igb", ["tiny", "experimental", "small", "medium", "large",
                                         "full"]), ("--ogb-mag240m", ["papers", "all"])):
            for word in words:
                self.suggests(word, lambda wrong: ["stage", option, "folder:" + wrong], words)
        self.assertEqual(self.meant("numa", "--only", "latency,bandwith"), ["bandwidth"])

    def test_nothing_near_lists_what_is_accepted(self):
        for args, says in ((["pack"], "use one of generate stage"),
                           (["plan", "--pack"], "use rung plan --help to list the options"),
                           (["bench", "x", "--engine", "mmap"], "use auto, nvme, io_uring_poll"),
                           (["bench", "x", "--ids", "nope"],
                            "--ids: 'nope' is not a kind or file; use trace, uniform, zipf or a"),
                           (["numa", "--only", "cpu-speed"], "use bandwidth, latency, loaded"),
                           (["plan", "x", "--" + 100 * "w"], "use rung plan --help")):
            with self.subTest(args):
                self.assertNotIn("mean", self.fails(*args, code=2, says=says))

    def test_words_that_only_look_like_options(self):
        """A value may begin with dashes, and "--" ends the options."""
        self.fails("plan", "x", "--host", "--cach", code=2, says="--host: '--cach' is not a valid")
        self.fails("info", "--", "--jsno", code=1, says="--jsno")
        staged = self.stage(Graph(self.folder))
        self.assertIn("rows", self.json_of("bench", staged, "--rows=100", "--engi", "pread"))


if __name__ == "__main__":
    main()

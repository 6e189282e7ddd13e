# SPDX-License-Identifier: Apache-2.0
"""bash, zsh and fish complete the commands, options and values that the help lists."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, main

SCRIPTS = os.path.join(os.environ.get("RUNG_BUILD_DIR", "build"), "completions")


class Completion(CliTest):
    def commands(self):
        lines = self.run_rung("--help").stdout.splitlines()
        return [line.split()[0] for line in lines
                if re.match("  [a-z]", line) and not line.startswith("  rung")
                and "(not in this build)" not in line]

    def options(self, command):
        """Return pairs of letter, or "", and name."""
        found = re.findall(r"^ +(?:-(.), )?--([A-Za-z0-9-]+)",
                           self.run_rung(command, "--help").stdout, re.MULTILINE)
        self.assertGreaterEqual(len(found), 4)
        return [pair for pair in found if pair[1] != "usage"]

    def shell(self, *words, **kwargs):
        if not shutil.which(words[0]):
            self.skipTest(words[0] + " is not installed")
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300,
                              env={**os.environ, "HOME": self.folder, "LC_ALL": "C"}, **kwargs)
        self.assertEqual(done.stderr, "")
        return done.stdout


class Bash(Completion):
    script = os.path.join(SCRIPTS, "rung")

    def offered(self, *words):
        """Return the completions of the last word."""
        code = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rung
                  printf '%s\\n' "${COMPREPLY[@]}" """
        return self.shell("bash", "-c", code, "bash", self.script, "rung", *words).split()

    def test_commands(self):
        self.assertEqual(self.offered(""), ["--help", "--version", "help", *self.commands()])
        self.assertEqual(self.offered("st"), ["stage"])
        self.assertEqual(self.offered("help", "be"), ["bench"])

    def test_options_match_the_help(self):
        self.assertGreater(len(self.commands()), 7)
        for command in self.commands():
            self.assertEqual(sorted(self.offered(command, "--")),
                             sorted({"--" + name for _, name in self.options(command)}), command)

    def test_values(self):
        self.assertEqual(self.offered("stage", "--pad", ""), ["none", "sector", "auto"])
        self.assertEqual(self.offered("stage", "--pad", "=", "se"), ["sector"])
        self.assertEqual(self.offered("stage", "--pad", "="), ["none", "sector", "auto"])
        self.assertEqual(self.offered("bench", "dir", "--engine", "io"),
                         ["io_uring_poll", "io_uring"])
        self.assertEqual(self.offered("stage", "--score", "bl"), ["blend"])
        self.assertEqual(self.offered("numa", "--only", "b"), ["bandwidth"])
        self.assertEqual(self.offered("plan", "--model", "deb"), ["debian-docs", "debian"])

    def test_words_of_options_are_accepted(self):
        """Each word that is offered passes the check of its option."""
        for command, option in (("stage", "score"), ("score", "score"), ("trace", "scores"),
                                ("numa", "only"), ("bench", "ids"), ("plan", "numa-node"),
                                ("plan", "structure"), ("plan", "model"), ("generate", "model")):
            words = self.offered(command, "--" + option, "")
            self.assertGreater(len(words), 1)
            for word in words:
                self.run_rung(command, "--" + option, word, "--help")

    def test_file_names_are_completed_by_the_shell(self):
        self.assertEqual(self.offered("info", "di"), [])
        self.assertEqual(self.offered("stage", "--features", "-"), [])
        self.assertEqual(self.offered("stage", "-o", "-"), [])


class Zsh(Completion):
    script = os.path.join(SCRIPTS, "_rung")

    def arguments(self, *words):
        """Return what _rung passes to zsh's functions for the last word, one string each."""
        code = """_arguments() { print -rl -- "$@" }; _describe() { print -rl -- $commands }
                  compadd() { print -rl -- "${@[2,-1]}" }
                  script=$1; shift; words=("$@"); CURRENT=$#; source $script"""
        return self.shell("zsh", "-f", "-c", code, "zsh", self.script, "rung", *words).splitlines()

    def test_syntax(self):
        self.assertEqual(self.shell("zsh", "-n", self.script), "")

    def test_commands(self):
        offered = [line.partition(":")[0] for line in self.arguments("")]
        self.assertEqual(offered, [*self.commands(), "help", "--help", "--version"])
        self.assertEqual([line.partition(":")[0] for line in self.arguments("help", "")],
                         [*self.commands(), "help"])

    def test_options_match_the_help(self):
        for command in self.commands():
            found = set()
            for line in self.arguments(command, ""):
                spec = re.match(r"(?:\(-. --[a-zA-Z0-9-]+\))?\*?(--?)([A-Za-z0-9-]+)[+=]?\[", line)
                if spec:
                    found.add(spec[1] + spec[2])
            self.assertEqual(found, {dashes + name for pair in self.options(command)
                                     for dashes, name in zip(("-", "--"), pair) if name}, command)

    def test_values(self):
        bench = self.arguments("bench", "")
        self.assertTrue(any(line.endswith(":NAME:(auto nvme io_uring_poll io_uring pread null "
                                         "null_instant)")
                            for line in bench), bench)
        stage = self.arguments("stage", "")
        self.assertIn("(-o --out)--out=[Folder to create]:DIR:_files", stage)
        self.assertIn("*:DIR:_files", stage)

    def test_zsh_completes_a_line(self):
        """A real zsh in a pseudo-terminal: Tab after the unique beginning of a word."""
        code = """zmodload zsh/zpty || exit 0
                  wait_for() { local out all; repeat 4800; do
                      zpty -r -t z out && all+=$out; [[ $all == *$1* ]] && return; sleep 0.05
                  done; print -r -- "no $1 in $all"; exit }
                  zpty z zsh -f -i
                  zpty -w z "fpath=($1 \\$fpath); autoload -Uz compinit; compinit -u -D"
                  zpty -w z "print READ''Y"; wait_for READY
                  zpty -w -n z $'rung stage --score bl\\t'; wait_for blend
                  print completed"""
        self.assertIn(self.shell("zsh", "-f", "-c", code, "zsh", SCRIPTS).strip(),
                      ("completed", ""))   # "": this zsh has no zpty


class Fish(Completion):
    script = os.path.join(SCRIPTS, "rung.fish")

    def offered(self, line):
        """Return the completions of the last word of a line."""
        code = "source $argv[1]; complete -C $argv[2]"
        text = self.shell("fish", "--no-config", "-c", code, self.script, line)
        return {entry.partition("\t")[0] for entry in text.splitlines()}

    def test_syntax(self):
        self.assertEqual(self.shell("fish", "-n", self.script), "")

    def test_commands(self):
        self.assertEqual(self.offered("rung "), {*self.commands(), "help"})
        self.assertEqual(self.offered("rung help be"), {"bench"})

    def test_options_match_the_help(self):
        for command in self.commands():
            self.assertEqual(self.offered("rung %s --" % command),
                             {"--" + name for _, name in self.options(command)}, command)

    def test_values(self):
        self.assertEqual(self.offered("rung bench d --engine io"), {"io_uring", "io_uring_poll"})
        self.assertEqual(self.offered("rung stage --score bl"), {"blend"})
        self.assertIn(os.path.join(SCRIPTS, "rung.fish"),
                      self.offered("rung stage -o " + os.path.join(SCRIPTS, "rung.f")))
        self.assertEqual(self.offered("rung bench d --seed "), set())


if __name__ == "__main__":
    main()

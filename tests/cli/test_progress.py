# SPDX-License-Identifier: Apache-2.0
"""Progress: a bar on a terminal if the command takes longer than a second, nothing with --quiet,
never on standard output."""
import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import RUNG, CliTest, Graph, main


class Progress(CliTest):
    def on_a_terminal(self, *args, columns=0):
        """Run the command with a terminal as stderr; return the output of stderr and stdout."""
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        shown = []

        def drain():
            try:
                while chunk := os.read(ours, 65536):
                    shown.append(chunk)
            except OSError:   # the other end is closed
                pass

        reader = threading.Thread(target=drain)
        with subprocess.Popen([RUNG, *args], stdout=subprocess.PIPE, stderr=theirs,
                              text=True) as process:
            os.close(theirs)
            reader.start()
            result = process.stdout.read()
        reader.join()
        os.close(ours)
        self.assertEqual(process.returncode, 0)
        return b"".join(shown).decode(), json.loads(result)

    def test_bar_on_a_terminal(self):
        staged = self.stage(Graph(self.folder))
        rows = 1 << 21
        shown = ""
        while not shown and rows <= 1 << 28:   # until a run is long enough on this machine
            args = ["bench", staged, "--host", "max", "--ids", "uniform", "--rows", str(rows),
                    "--check", "--json"]
            shown, _ = self.on_a_terminal(*args)
            rows *= 2
        self.assertRegex(shown, r"rung bench: gathers \[#*\.*\] +\d+ %, \d.* rows/s, \d+ s, "
                                r"\d.* left")
        self.assertTrue(shown.endswith("\r\033[K"), "the bar must be wiped at the end")
        self.assertEqual(self.on_a_terminal(*args, "--quiet")[0], "")
        for columns in (20, 60):
            shown = self.on_a_terminal(*args, columns=columns)[0]
            for bar in shown.replace("\n", "").split("\r\033[K"):
                self.assertLess(len(bar), columns, bar)

    def test_short_commands_show_nothing(self):
        graph = Graph(self.folder)
        shown, report = self.on_a_terminal("stage", *graph.options(), "--out", self.path("out"),
                                           "--json")
        if report["seconds"] < 1:
            self.assertEqual(shown, "")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A changed byte in any file of every kind of data set: it is found, not accepted as staged, and
repaired."""
import os
import subprocess
import sys

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support")
sys.path[:0] = [SUPPORT, os.path.join(SUPPORT, "stage")]
from clitest import main
from datasets import files
from kinds import KindsTest


class Damage(KindsTest):
    @staticmethod
    def flip(path):
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last ^ 1]))

    def stage_last(self, kind, *more, codes):
        """Run part 0 of it, which must fail. Returns the message."""
        part = ["--part", f"0/{kind.parts}"] if kind.parts > 1 else []
        done = subprocess.run([self.command, "stage", *self.sources.options(kind, "expected"),
                               "--quiet", "--out", self.out, *part, *more], text=True,
                              env=self.environment(), capture_output=True, check=False)
        self.assertIn(done.returncode, codes, done.stderr)
        return done.stderr

    def test_a_changed_byte_is_found_and_repaired(self):
        def check(kind):
            self.stage(kind)
            whole = files(self.out)
            for name in sorted(whole):
                path = os.path.join(self.out, name)
                self.flip(path)
                manifest = name.endswith("manifest.json")
                bad = self.run_rung("verify", self.out, code=3)
                self.assertIn(name, bad.stdout + bad.stderr)
                # neither is accepted as staged; the record of the job may be what was damaged
                self.assertIn(os.path.basename(name),
                              self.stage_last(kind, "--resume", codes=(1, 3)))
                # scores have no source unless they were given
                if manifest or (name.endswith("score.npy") and kind.parts == 1):
                    self.flip(path)
                    continue
                fixed = self.json_of("verify", self.out, "--repair", *self.repairs(kind))
                self.assertEqual([entry["file"] for entry in fixed["repaired"]], [name])
                self.assertEqual(files(self.out), whole)
        self.each(check)


if __name__ == "__main__":
    main()

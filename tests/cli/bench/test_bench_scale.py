# SPDX-License-Identifier: Apache-2.0
"""bench/scale_model.py at 1/1024 of the original: every phase completes under the limit, and the
report is complete. The measured numbers are not checked."""
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "support"))
from clitest import RUNG, CliTest, main

BENCH = os.path.join(HERE, "..", "..", "..", "bench")
SCRIPT = os.path.join(BENCH, "scale_model.py")


def why_not():
    """Why the phases cannot run, or None."""
    sys.path.insert(0, BENCH)
    from limit import Limit   # pylint: disable=import-outside-toplevel
    sys.path.remove(BENCH)
    if subprocess.run([RUNG, "train", "--help"], capture_output=True, check=False).returncode:
        return "rung train is not in this build"
    with Limit(1 << 30) as limit:
        return None if limit.kind else "no control group can be created"


class ScaleModel(CliTest):
    def setUp(self):
        super().setUp()
        if reason := why_not():
            self.skipTest(reason)

    def command(self, *more):
        return [sys.executable, "-B", SCRIPT, "--rung", RUNG, "--dir", self.folder, "--scale",
                "1/1024", "--batch", "16", "--epochs", "1", *more]

    def run_script(self, *more, code=0):
        done = subprocess.run(self.command(*more), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=500, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(os.listdir(self.folder), [], "everything is removed at the end")
        return done

    def test_every_phase_keeps_the_limit_and_the_losses(self):
        limit = 160 << 20
        phases = ["generate", "stage", "verify", "plan", "train", "unlimited", "small"]
        record = json.loads(self.run_script("--limit", "160MiB", "--phases", ",".join(phases),
                                            "--consumer", "1000/s").stdout)
        self.assertLessEqual({"benchmark", "date", "commit", "rung", "command", "machine", "about",
                              "model", "disk"}, set(record))
        found = {phase["name"]: phase for phase in record["phases"]}
        self.assertEqual(list(found), phases + ["consumer", "consumer_without_window"])
        for name, phase in found.items():
            with self.subTest(name):
                self.assertEqual((phase["exit"], phase["killed"]), (0, False))
                self.assertEqual(phase["limit_bytes"], None if name == "unlimited" else limit)
                if phase["limit_bytes"] and phase["peak_bytes"]:
                    self.assertLessEqual(phase["peak_bytes"], limit)
        rows = record["model"]["vertices"] * record["model"]["row_bytes"]
        self.assertGreater(rows, 2 * limit, "the rows exceed the limit")
        self.assertEqual(record["same_losses"], {"unlimited": True, "small": True})
        self.assertTrue(found["verify"]["report"]["ok"])
        self.assertEqual(sum(found["train"]["hits"].values()), found["train"]["requested_rows"])
        self.assertIsNotNone(found["train"]["test_accuracy"])
        self.assertEqual(found["unlimited"]["hits"]["nvme"], 0)
        (epoch,) = found["consumer"]["epochs"]
        self.assertEqual((epoch["loss"], epoch["rows"]),
                         (None, found["train"]["epochs"][0]["rows"]))

    def test_a_limit_that_is_too_small_is_named(self):
        done = self.run_script("--limit", "8MiB", "--phases", "generate", code=1)
        self.assertRegex(done.stderr, "generate: (killed by the limit of 8 MiB|.*exit)")

    def test_missing_space_is_found_before_anything_is_written(self):
        done = self.run_script("--scale", "1", code=1)
        self.assertIn("GB are needed", done.stderr)

    def test_an_interrupted_run_removes_its_data(self):
        with subprocess.Popen(self.command("--limit", "160MiB"), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True,
                              start_new_session=True) as process:
            for line in process.stderr:   # until the second phase begins
                if line.startswith("stage: "):
                    break
            time.sleep(0.2)
            os.killpg(process.pid, signal.SIGINT)
            process.stderr.read()
        self.assertEqual(process.returncode, 130)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    main()

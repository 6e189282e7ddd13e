# SPDX-License-Identifier: Apache-2.0
"""A machine that does not start is started again; a machine that does not end is a failure.
Programs stand in for the machines."""
import os
import tempfile
import unittest

from emulate import emulate

LOCKED = "[   28.416668] watchdog: BUG: soft lockup"


class Emulate(unittest.TestCase):
    def count_starts(self, script, **limits):
        """Returns the output, or the failure, and the number of starts."""
        with tempfile.TemporaryDirectory() as folder:
            starts = os.path.join(folder, "starts")
            try:
                said = emulate(["sh", "-c",
                                "echo >> %s; starts=$(wc -l < %s); %s" % (starts, starts, script)],
                               **limits)
            except AssertionError as error:
                said = str(error)
            with open(starts, encoding="utf-8") as file:
                return said, len(file.readlines())

    def test_a_lockup_is_started_again(self):
        said, starts = self.count_starts("if [ $starts = 1 ]; then echo '%s'; exec sleep 1000; "
                                         "fi; echo up" % LOCKED, start_limit=1)
        self.assertIn("up\n", said)
        self.assertGreaterEqual(starts, 2)

    def test_a_kernel_panic_is_started_again(self):
        panic = "[    0.036000] Kernel panic"
        said, starts = self.count_starts("[ $starts = 1 ] && echo '%s' || echo up" % panic)
        self.assertEqual((said, starts), ("up\n", 2))

    def test_a_machine_that_never_starts_is_a_failure(self):
        said, starts = self.count_starts("echo '%s'; exec sleep 1000" % LOCKED, start_limit=3)
        self.assertIn("not started in 3 s", said)
        self.assertIn(LOCKED, said)
        self.assertEqual(starts, 3)

    def test_a_machine_with_output_is_not_started_again(self):
        for limit in (2, 20):   # on a busy machine a shell may need more than 2 s
            said, starts = self.count_starts("echo up; exec sleep 1000", limit=limit)
            self.assertIn("has not ended in %d s" % limit, said)
            if starts == 1:
                break
        self.assertEqual(starts, 1)

    def test_the_whole_output_is_returned(self):
        self.assertEqual(self.count_starts("printf 'up\\r\\n%s\\n'; echo error >&2" % LOCKED),
                         ("up\n%s\nerror\n" % LOCKED, 1))


if __name__ == "__main__":
    unittest.main()

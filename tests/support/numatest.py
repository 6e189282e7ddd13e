# SPDX-License-Identifier: Apache-2.0
"""Tests of `rung numa` on recorded machines."""
from clitest import CliTest
from machine import Machine


class NumaTest(CliTest):
    def setUp(self):
        super().setUp()
        self.machines = {}

    def machine(self, name, *changes):
        """The folder of a machine with exactly these changes."""
        if name not in self.machines:
            self.machines[name] = Machine(self.path(name), name)
        self.machines[name].restore()
        self.machines[name].change(*changes)
        return self.path(name)

    def topology(self, name, *more):
        return self.json_of("numa", "--topology", "--root", self.machine(name, *more))

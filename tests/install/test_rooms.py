#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom (docs/ARCHITECTURE.md), and what every source file begins with."""
import glob
import os
import re
import unittest

SOURCE = os.environ["RUNG_SOURCE_DIR"]
OWN_HEADERS = {"src": ("src",), "io": ("io", "src"), "numa": ("numa", "src"), "kernels": ("kernels", "src"),
               "tools": ("tools",), "tools/train": ("tools/train", "tools"), "bench/gpu": ("bench/gpu",)}
GENERATED = "rung_config.h"


def sources(folder):
    return sorted(p for pattern in ("*.[ch]", "*.cu") for p in glob.glob(os.path.join(SOURCE, folder, pattern)))


def includes(path):
    with open(path) as text:
        return re.findall(r'^\s*#\s*include\s+(["<])([^">]+)[">]', text.read(), re.M)


class Rooms(unittest.TestCase):
    def check_room(self, folder, rooms):
        allowed = {os.path.basename(h) for room in rooms for h in glob.glob(os.path.join(SOURCE, room, "*.h"))} | {GENERATED}
        for path in sources(folder):
            for mark, name in includes(path):
                where = f"{os.path.relpath(path, SOURCE)} includes {name}"
                if name.startswith("rung/"):
                    self.assertTrue(os.path.exists(os.path.join(SOURCE, "include", name)), where)
                elif mark == '"':
                    self.assertIn(os.path.basename(name), allowed, where)

    def test_every_room_keeps_to_its_headers(self):
        for folder, rooms in OWN_HEADERS.items():
            with self.subTest(room=folder):
                self.check_room(folder, rooms)

    def test_public_headers_include_the_c_library_and_each_other_only(self):
        for path in sources("include/rung"):
            for mark, name in includes(path):
                own = os.path.exists(os.path.join(SOURCE, "include/rung", name))
                self.assertTrue(own if mark == '"' else name in ("stddef.h", "stdint.h"), f"{path} includes {name}")

    def test_the_command_and_the_benchmark_use_public_names_only(self):
        for path in sources("tools") + sources("tools/train") + sources("bench/gpu"):
            with open(path) as text:
                self.assertEqual(re.findall(r"\brung__\w+", text.read()), [], path)

    def test_every_source_says_its_licence(self):
        files = [p for room in ("src", "io", "numa", "kernels", "tools", "tools/train", "include/rung", "tests/*", "bench", "bench/gpu")
                 for pattern in ("*.[ch]", "*.cu", "*.py", "*.sh", "*.cpp") for p in glob.glob(os.path.join(SOURCE, room, pattern))]
        self.assertGreater(len(files), 50)
        for path in files:
            with open(path) as text:
                self.assertIn("SPDX-License-Identifier: Apache-2.0", text.read(200), path)


if __name__ == "__main__":
    unittest.main(verbosity=2)

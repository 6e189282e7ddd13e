#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The machine code of gather and scatter, for each architecture of the build: loads in flight,
registers, spills.

cuobjdump and nvdisasm are part of CUDA toolkits; on PyPI they are nvidia-cuda-cuobjdump and
nvidia-cuda-nvdisasm. They are searched in PATH, next to nvcc, and in build-python/venv, where
tests/run.sh --all installs them."""
import glob
import os
import re
import shutil
import subprocess
import unittest

BUILD = os.environ.get("RUNG_BUILD_DIR", "")
SOURCE = os.environ.get("RUNG_SOURCE_DIR", "")
NVCC = os.environ.get("RUNG_NVCC", "")
PACKAGES = "build-python/venv/lib/python3*/site-packages"
KERNELS = {"gather.cu.o": "gather_rows", "scatter.cu.o": "scatter_rows"}
AHEAD = 4            # COPY_AHEAD of kernels/rows.h
REGISTERS_MAX = 64   # four blocks of 256 threads on an SM


def tool_path():
    folders = [os.environ.get("PATH", ""), os.path.dirname(os.path.realpath(NVCC)) if NVCC else ""]
    folders += glob.glob(os.path.join(SOURCE, PACKAGES, "nvidia/*/bin"))
    return os.pathsep.join(folder for folder in folders if folder)


def setUpModule():
    for tool in ("cuobjdump", "nvdisasm"):
        if not shutil.which(tool, path=tool_path()):
            raise unittest.SkipTest("%s was not found: install the CUDA toolkit's, or PyPI's "
                                    "nvidia-cuda-%s" % (tool, tool))


def cuobjdump(*args):
    """The tool's output as {architecture: {mangled function: lines}}."""
    tool = shutil.which("cuobjdump", path=tool_path())
    printed = subprocess.run([tool, *args], env=dict(os.environ, PATH=tool_path()), text=True,
                             capture_output=True, timeout=300, check=True).stdout
    functions, arch, lines = {}, None, None
    for line in printed.splitlines():
        new_arch = re.match(r"arch = (sm_\w+)", line)
        new_function = re.match(r"\s+Function ?:? (\w+)", line)
        if new_arch:
            arch, lines = new_arch.group(1), None
        elif new_function:
            lines = functions.setdefault(arch, {}).setdefault(new_function.group(1), [])
        elif lines is not None:
            lines.append(line)
    return functions


def of_width(functions, kernel, piece):
    """A kernel's instance for pieces of the mangled C type `piece`."""
    found = [name for name in functions if re.search(kernel + "I" + piece + "E", name)]
    assert len(found) == 1, (kernel, piece, sorted(functions))
    return found[0]


def instructions(lines):
    """(operation, operands) in the order of addresses, without predicates."""
    for line in lines:
        match = re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);", line)
        if match:
            yield match.groups()


def destination(operands):
    """The registers that a 128-bit load fills."""
    first = int(re.match(r"R(\d+)", operands).group(1))
    return set(range(first, first + 4))


def batches(lines):
    """The 128-bit loads, in batches. A batch ends where another instruction uses a register that it
    fills, or stores to memory."""
    found, loads, pending = [], 0, set()
    for operation, operands in instructions(lines):
        wide = operation.startswith("LDG") and ".128" in operation
        used = {int(n) for n in re.findall(r"\bR(\d+)\b", operands)}
        used |= destination(operands) if wide else set()
        if wide and not used & pending:
            loads, pending = loads + 1, pending | destination(operands)
        elif used & pending or re.match("ST|RED|ATOM", operation):
            if loads:
                found.append(loads)
            loads, pending = (1, destination(operands)) if wide else (0, set())
    return found + [loads] if loads else found


class Sass(unittest.TestCase):
    def each(self):
        for file, kernel in KERNELS.items():
            path = os.path.join(BUILD, "kernels", file)
            architectures = cuobjdump("-res-usage", path)
            self.assertTrue(architectures, "%s has no machine code" % file)
            for arch, functions in architectures.items():
                yield kernel, arch, functions, path

    def test_four_loads_are_in_flight_before_the_first_is_used(self):
        for kernel, arch, functions, path in self.each():
            with self.subTest(kernel=kernel, arch=arch):
                name = of_width(functions, kernel, "5uint4")
                found = batches(cuobjdump("-sass", "-arch", arch, "-fun", name, path)[arch][name])
                self.assertTrue(found, "no 128-bit loads")
                self.assertEqual(set(found), {AHEAD}, "128-bit loads of a batch: %s" % found)

    def test_registers_leave_room_for_four_blocks_and_nothing_is_spilled(self):
        for kernel, arch, functions, _ in self.each():
            for piece in ("5uint4", "j", "h", "10quant_word"):
                with self.subTest(kernel=kernel, arch=arch, piece=piece):
                    lines = functions[of_width(functions, kernel, piece)]
                    usage = dict(re.findall(r"(\w+):(\d+)", " ".join(lines)))
                    self.assertLessEqual(int(usage["REG"]), REGISTERS_MAX)
                    self.assertEqual((usage["STACK"], usage["LOCAL"]), ("0", "0"), "spilled bytes")

    def test_a_load_that_is_used_immediately_ends_its_batch(self):
        """ptxas generates this if the loop that loads also computes the next address."""
        serial = """
        /*1ac0*/              @!P0 LDG.E.128.CONSTANT R32, desc[UR8][R32.64] ;
        /*1cc0*/              @!P1 LDG.E.128.CONSTANT R16, desc[UR8][R18.64] ;
        /*1d00*/               @P0 MOV R20, R32 ;
        /*1e80*/              @!P2 LDG.E.128.CONSTANT R32, desc[UR8][R34.64] ;
        /*2390*/               @P0 STG.E.128.STRONG.SM desc[UR8][R50.64], R20 ;
        """
        self.assertEqual(batches(serial.splitlines()), [2, 1])


if __name__ == "__main__":
    unittest.main(verbosity=2)

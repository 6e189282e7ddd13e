# SPDX-License-Identifier: Apache-2.0
"""Quantized rows from the command line: staged, described, planned, verified, and gathered rows
that equal those of the file, decoded apart from the library."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from clitest import CliTest, Graph, main, npy_bytes

VERTICES, COLUMNS = 3000, 75
FORMATS = ("int8", "int8:column", "int4", "int4:column", "fp8", "fp8:row")


class Quantized(CliTest):
    def setUp(self):
        super().setUp()
        self.graph = Graph(self.folder, vertices=VERTICES, edges=9000, row_bytes=4)
        values = [((i * 2654435761) % 65521 / 65521 - 0.5) * 2 ** (i // COLUMNS % 9)
                  for i in range(VERTICES * COLUMNS)]
        self.features = self.path("values.npy")
        with open(self.features, "wb") as out:
            out.write(npy_bytes("<f4", (VERTICES, COLUMNS),
                                struct.pack(f"<{len(values)}f", *values)))

    def quantized(self, spelling, name="q"):
        out = self.path(name)
        report = self.json_of("stage", *self.graph.options(features=self.features,
                                                           score="degree"),
                              "--quantize", spelling, "--out", out, "--force")
        return out, report

    def test_every_format_is_gathered_and_verified(self):
        for spelling in FORMATS:
            out, report = self.quantized(spelling)
            form, _, scales = spelling.partition(":")
            wanted = {"format": form, "scales": scales or "row"}
            self.assertLessEqual(wanted.items(), report["quantized"].items())
            self.assertEqual(report["quantized"]["given_row_bytes"], 4 * COLUMNS)
            self.assertEqual(report["quantized"]["rows_compared"], VERTICES)
            self.assertGreater(report["quantized"]["error_max"], 0)
            self.assertEqual(report["quantized"]["clipped"], 0)
            info = self.json_of("info", out)
            self.assertLessEqual(wanted.items(), info["quantized"].items())
            self.assertEqual((info["dtype"], info["row_bytes"], info["format"]),
                             ("f32", 4 * COLUMNS, 2))
            self.assertEqual(info["quantized"]["row_bytes"], report["row_bytes"])
            self.run_rung("verify", out, "--source", self.features)
            for more in ((), ("--engine", "pread"), ("--look-ahead", "8", "--ids", "uniform")):
                bench = self.json_of("bench", out, "--check", "--host", "80KiB", "--rows", "20000",
                                     *more)
                self.assertEqual(bench["wrong_rows"], 0)
                self.assertGreater(bench["device_reads"], 0)

    def test_a_wrong_byte_is_found_by_the_check(self):
        out, report = self.quantized("int8")
        with open(os.path.join(out, "features.000.npy"), "r+b") as file:
            file.seek(4096 + 4 + 7)
            code = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([code ^ 1]))
        self.assertEqual(self.json_of("bench", out, "--check", "--host", "max",
                                      "--rows", "20000")["wrong_rows"], 0)
        self.run_rung("verify", out, code=3)
        self.assertEqual(report["row_bytes"], 80)

    def test_text_names_sizes_and_differences(self):
        text = self.run_rung("stage", *self.graph.options(features=self.features, score="degree"),
                             "--quantize", "int4", "--out", self.path("t"), "--dry-run").stdout
        self.assertIn("int4 with scales per row: 129 KiB instead of 879 KiB of rows (6.82 times "
                      "smaller)", text)
        self.assertRegex(text, r"differences of values in 3000 rows: [\d.]+ at most, [\d.]+ on "
                               r"average, 0 % clipped")
        out, _ = self.quantized("fp8:column")
        self.assertIn("stored as fp8, scales per column, 76 bytes a row",
                      self.run_rung("info", out).stdout)

    def test_a_plan_shows_what_it_would_save(self):
        plain = self.stage(self.graph, features=self.features)
        hits = {}
        for options in ((), ("--quantize", "int8")):
            plan = self.json_of("plan", plain, "--host", "300KiB", *options)
            self.assertEqual(plan["quantize"], options[1] if options else None)
            hits[options] = next(t["hit_share"] for t in plan["tiers"] if t["name"] == "host")
        self.assertGreater(hits["--quantize", "int8"], 1.5 * hits[()])
        out, _ = self.quantized("int8")
        self.fails("plan", out, "--host", "300KiB", "--quantize", "int4", code=2,
                   says="they are quantized already")
        model = [self.json_of("plan", "--model", "mag240m", "--host", "64GiB", *more)
                 for more in ((), ("--quantize", "int8"))]
        self.assertEqual([one["row_bytes"] for one in model], [1536, 772])
        self.assertLess(model[1]["seconds_per_epoch"], model[0]["seconds_per_epoch"])

    def test_wrong_options(self):
        options = [*self.graph.options(score="degree"), "--out", self.path("w")]
        for value in ("int9", "int8:rows", "int8:", ":row", ""):
            self.fails("stage", *options, "--quantize", value, code=2,
                       says="use int8, int4 or fp8, with scales per :row (default) or :column")
        self.fails("stage", *options, "--quantize", "int8", code=1,
                   says="features of dtype u8 cannot be quantized")
        self.fails("stage", *options, "--quantize", "int8", "--in-place", code=2,
                   says="features that stay in place cannot be quantized")
        self.fails("plan", "--model", "mag240m", "--quantize", "int2", code=2,
                   says="did you mean int8 or int4?")


if __name__ == "__main__":
    main()

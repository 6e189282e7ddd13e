/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of .npy files: accepted and rejected headers, the messages, and that no bytes break the
 * parser. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/npy.h"
#include "rung/rung.h"

struct npy_bytes {
	/* exactly `bytes` bytes, so that a sanitizer detects reads past the end */
	unsigned char *data;
	size_t bytes;
};

static struct npy_bytes make(unsigned major, const char *dict)
{
	size_t len = strlen(dict), prefix = major == 1 ? 10 : 12;
	struct npy_bytes npy = { malloc(prefix + len), prefix + len };

	memcpy(npy.data, "\x93NUMPY", 6);
	npy.data[6] = (unsigned char)major;
	npy.data[7] = 0;
	for (size_t i = 8; i < prefix; i++)
		npy.data[i] = (unsigned char)(len >> 8 * (i - 8));
	memcpy(npy.data + prefix, dict, len);
	return npy;
}

/* Parses with `data_bytes` of data after the header. */
static int parse(unsigned major, const char *dict, uint64_t data_bytes, struct rung__npy *out)
{
	struct npy_bytes npy = make(major, dict);
	int rc = rung__npy_parse("a.npy", npy.data, npy.bytes, npy.bytes + data_bytes, out);

	free(npy.data);
	return rc;
}

static void accepts(const char *dict, enum rung_dtype dtype, unsigned dim_count, uint64_t first,
                    uint64_t row_bytes)
{
	for (unsigned major = 1; major <= 3; major++) {
		struct rung__npy npy;

		cr_assert_eq(parse(major, dict, first * row_bytes, &npy), 0, "%s: %s", dict,
		             rung_last_error());
		cr_assert_eq(npy.array.dtype, dtype, "%s", dict);
		cr_assert_eq(npy.array.dim_count, dim_count);
		cr_assert_eq(npy.array.row_count, first);
		cr_assert_eq(npy.array.row_bytes, row_bytes);
		cr_assert_eq(npy.data_offset, strlen(dict) + (major == 1 ? 10 : 12));
	}
}

static void refuses(const char *dict, const char *words)
{
	struct rung__npy npy;

	cr_assert_eq(parse(1, dict, 1 << 20, &npy), RUNG_E_FORMAT, "%s", dict);
	cr_assert(strstr(rung_last_error(), words), "%s: '%s' not in '%s'", dict, words,
	          rung_last_error());
	cr_assert(strstr(rung_last_error(), "a.npy"));
}

Test(npy, fortran_order_transposes_a_matrix_but_not_a_vector)
{
	struct rung__npy npy;

	accepts("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", RUNG_F32, 2, 4, 12);
	accepts("{'descr': '<f4', 'fortran_order': True, 'shape': (5,), }", RUNG_F32, 1, 5, 4);
	cr_assert_eq(
		parse(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 3), }", 36, &npy),
		0);
	cr_assert(npy.transposed);
	cr_assert_eq(
		parse(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 3), }", 36, &npy),
		0);
	cr_assert_not(npy.transposed);
	cr_assert_eq(parse(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }", 12, &npy),
	             0);
	cr_assert_not(npy.transposed);
}

Test(npy, any_order_and_spacing_of_the_dict_is_accepted)
{
	accepts("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", RUNG_F32, 2, 3, 16);
	accepts("{\"shape\":(3,4,),\"fortran_order\":False,\"descr\":\"<f4\"}   \n", RUNG_F32, 2, 3,
	        16);
	accepts(" { 'fortran_order' :False ,\n'shape' : ( 5 , ) , 'descr' : '<i8' } \n", RUNG_I64,
	        1, 5, 8);
	accepts("{'descr': '<f2', 'fortran_order': False, 'shape': (10L, 2L), }\n", RUNG_F16, 2, 10,
	        4);
	accepts("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4), }", RUNG_F32, 2, 0, 16);
	accepts("{'descr': '<f4', 'fortran_order': False, 'shape': (2,1,1,1,1,1,1,3), }", RUNG_F32,
	        8, 2, 12);
}

Test(npy, every_dtype_is_recognised_by_its_descr)
{
	static const struct {
		const char *descr;
		enum rung_dtype dtype;
	} known[] = { { "|b1", RUNG_BOOL }, { "?", RUNG_BOOL },   { "|?", RUNG_BOOL },
		      { "|i1", RUNG_I8 },   { "<i1", RUNG_I8 },   { ">u1", RUNG_U8 },
		      { "<i2", RUNG_I16 },  { "<u2", RUNG_U16 },  { "=i4", RUNG_I32 },
		      { "<u4", RUNG_U32 },  { "i8", RUNG_I64 },   { "<u8", RUNG_U64 },
		      { "<f2", RUNG_F16 },  { "|V2", RUNG_BF16 }, { "V2", RUNG_BF16 },
		      { "<f4", RUNG_F32 },  { "=f8", RUNG_F64 } };
	char dict[128];

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		snprintf(dict, sizeof(dict),
		         "{'descr': '%s', 'fortran_order': False, 'shape': (6,), }",
		         known[i].descr);
		accepts(dict, known[i].dtype, 1, 6, rung_dtype_bytes(known[i].dtype));
	}
}

Test(npy, unsupported_arrays_are_rejected_with_a_remedy)
{
	refuses("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4, 2), }",
	        "numpy.ascontiguousarray");
	refuses("{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4), }", "a.astype('<f4')");
	refuses("{'descr': '>i8', 'fortran_order': False, 'shape': (3,), }", "big-endian");
	refuses("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", "Python objects");
	refuses("{'descr': [('a', '<f4'), ('b', '<i8')], 'fortran_order': False, 'shape': (3,), }",
	        "structured");
	refuses("{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }",
	        "'<c8' is not supported");
	refuses("{'descr': '<U7', 'fortran_order': False, 'shape': (3,), }",
	        "'<U7' is not supported");
	refuses("{'descr': '|V4', 'fortran_order': False, 'shape': (3,), }",
	        "'|V4' is not supported");
	refuses("{'descr': '', 'fortran_order': False, 'shape': (3,), }", "'' is not supported");
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "single value");
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }",
	        "more than 8 dimensions");
}

Test(npy, malformed_dicts_are_rejected_with_the_position)
{
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (3), }",
	        "byte 63: a comma is missing in shape");
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (3 4), }",
	        "a comma is missing in shape");
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (,), }",
	        "a dimension is not a number");
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }",
	        "a dimension is not a number");
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': [3], }", "shape is not a tuple");
	refuses("{'descr': '<f4', 'fortran_order': 0, 'shape': (3,), }", "neither True nor False");
	refuses("{'descr': '<f4' 'fortran_order': False, 'shape': (3,), }", "a comma is missing");
	refuses("{'descr': '<f4', 'fortran_order': False}", "no shape");
	refuses("{'descr': '<f4', 'shape': (3,)}", "no fortran_order");
	refuses("{'fortran_order': False, 'shape': (3,)}", "no descr");
	refuses("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "twice");
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}", "unknown key");
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)", "a comma is missing");
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} 1", "text after");
	refuses("{'descr': '<f4", "does not end");
	refuses("{'descr': '<f\\x34', 'fortran_order': False, 'shape': (3,)}", "escape");
	refuses("  ", "a dict is missing");
	refuses("import os", "a dict is missing");
}

Test(npy, sizes_that_overflow_are_rejected)
{
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,), }",
	        "more than 64 bits");
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }",
	        "more than 63 bits");
	refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
	        "more than 63 bits");
	refuses("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 9223372036854775807), }",
	        "more than 63 bits");
}

Test(npy, missing_bytes_are_counted)
{
	const char *dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
	struct rung__npy npy;
	char words[64];

	cr_assert_eq(parse(1, dict, 48, &npy), 0);
	cr_assert_eq(parse(1, dict, 49, &npy), 0, "bytes after the data must be ignored");
	cr_assert_eq(parse(1, dict, 47, &npy), RUNG_E_FORMAT);
	snprintf(words, sizeof(words), "1 bytes are missing at offset %zu", strlen(dict) + 10 + 47);
	cr_assert(strstr(rung_last_error(), words), "%s", rung_last_error());
}

Test(npy, wrong_magic_and_versions_are_rejected)
{
	struct npy_bytes npy = make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }");
	struct rung__npy out;

	npy.data[6] = 4;
	cr_assert_eq(rung__npy_parse("a.npy", npy.data, npy.bytes, npy.bytes + 4, &out),
	             RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "version 4.0 at byte 6"));
	npy.data[6] = 1;
	npy.data[0] = 'P';
	cr_assert_eq(rung__npy_parse("a.npy", npy.data, npy.bytes, npy.bytes + 4, &out),
	             RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "wrong magic"));
	cr_assert_eq(rung__npy_parse("a.npy", npy.data, 0, 0, &out), RUNG_E_FORMAT);
	free(npy.data);
}

/* Parses an exact copy of the bytes, so that a sanitizer detects reads past the end. */
static void parse_exactly(const unsigned char *data, size_t bytes)
{
	unsigned char *copy = malloc(bytes ? bytes : 1);
	struct rung__npy npy;
	int rc;

	memcpy(copy, data, bytes);
	rc = rung__npy_parse("a.npy", copy, bytes, bytes, &npy);
	cr_assert(rc == 0 || rc == RUNG_E_FORMAT, "%d", rc);
	if (rc == 0)
		cr_assert_leq(npy.data_offset + npy.array.row_count * npy.array.row_bytes, bytes);
	free(copy);
}

Test(npy, no_changed_byte_and_no_truncation_breaks_the_parser)
{
	struct npy_bytes npy =
		make(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 40), }      \n");
	uint64_t state = 88172645463325252u;

	for (size_t bytes = 0; bytes <= npy.bytes; bytes++)
		parse_exactly(npy.data, bytes);
	for (size_t at = 0; at < npy.bytes; at++) {
		unsigned char old = npy.data[at];

		for (unsigned value = 0; value < 256; value++) {
			npy.data[at] = (unsigned char)value;
			parse_exactly(npy.data, npy.bytes);
		}
		npy.data[at] = old;
	}
	for (int round = 0; round < 20000; round++) {
		struct npy_bytes other =
			make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 40), }");

		for (int i = 0; i < 4; i++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			other.data[10 + (state >> 33) % (other.bytes - 10)] =
				(unsigned char)"(){}[]',:0123456789 \\\"|<>="[(state >> 20) % 26];
		}
		parse_exactly(other.data, other.bytes);
		free(other.data);
	}
	free(npy.data);
}

Test(npy, a_written_header_fills_a_page_and_reads_back)
{
	for (int dtype = 1; dtype < RUNG_DTYPE_COUNT; dtype++) {
		for (unsigned dims = 1; dims <= RUNG_DIMS_MAX; dims++) {
			struct rung_array_info array = { .dtype = (enum rung_dtype)dtype,
				                         .dim_count = dims,
				                         .dims = { 3, 1, 2, 1, 5, 1, 1, 7 } };
			unsigned char head[RUNG__NPY_DATA_OFFSET];
			struct rung__npy npy;
			uint64_t bytes;

			cr_assert(rung__array_measure(&array, &bytes));
			rung__npy_format(&array, head);
			cr_assert_eq(head[sizeof(head) - 1], '\n');
			cr_assert_eq(rung__npy_parse("a.npy", head, sizeof(head),
			                             sizeof(head) + bytes, &npy),
			             0, "%s", rung_last_error());
			cr_assert(rung__array_equal(&npy.array, &array));
			cr_assert_eq(npy.data_offset, 4096);
			cr_assert_eq(npy.array.row_bytes, array.row_bytes);
		}
	}
}

Test(npy, shapes_around_32_bits_read_back)
{
	static const uint64_t counts[] = { 4294967295u, 4294967296u, 4294967297u, 8589934592u };

	for (size_t i = 0; i < 4; i++) {
		struct rung_array_info array = { .dtype = RUNG_F16,
			                         .dim_count = 2,
			                         .dims = { counts[i], 768 } };
		unsigned char head[RUNG__NPY_DATA_OFFSET];
		struct rung__npy npy;
		uint64_t bytes;

		cr_assert(rung__array_measure(&array, &bytes));
		cr_assert_eq(bytes, counts[i] * 1536);
		rung__npy_format(&array, head);
		cr_assert_eq(
			rung__npy_parse("a.npy", head, sizeof(head), sizeof(head) + bytes, &npy), 0,
			"%s", rung_last_error());
		cr_assert_eq(npy.array.row_count, counts[i]);
		cr_assert_eq(rung__npy_parse("a.npy", head, sizeof(head), sizeof(head) + bytes - 1,
		                             &npy),
		             RUNG_E_FORMAT);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of vertices in files: ids of every type, masks, and rejection of invalid sets. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dataset.h"
#include "base/base.h"
#include "rung/rung.h"
#include "expect_error.h"

static char dir[256], path[512];

static void setup(void)
{
	cr_assert_eq(support_tempdir(dir, sizeof(dir)), 0);
	snprintf(path, sizeof(path), "%s/ids.npy", dir);
}

static void teardown(void)
{
	support_remove(dir);
}

TestSuite(source_ids, .init = setup, .fini = teardown);

static int read_array(const char *descr, const char *shape, const void *data, size_t bytes,
                      uint64_t vertex_count, int distinct, uint64_t *count_out, uint64_t **ids_out)
{
	struct rung_source *src;
	int rc;

	cr_assert_eq(support_write_npy(path, descr, shape, data, bytes), 0);
	cr_assert_eq(rung_source_open(path, &src), 0, "%s", rung_last_error());
	rc = rung_source_read_vertices(src, vertex_count, distinct, count_out, ids_out);
	rung_source_close(src);
	return rc;
}

#define FAILS(status, words, descr, shape, vertex_count, distinct, ...)                            \
	FAILS_AT(status, words, descr, shape, vertex_count, distinct, (__VA_ARGS__),               \
	         sizeof(__VA_ARGS__))

#define FAILS_AT(status, words, descr, shape, vertex_count, distinct, data, bytes)                 \
	do {                                                                                       \
		uint64_t fa_count, *fa_ids = NULL;                                                 \
		int fa_rc = read_array(descr, shape, data, bytes, vertex_count, distinct,          \
		                       &fa_count, &fa_ids);                                        \
                                                                                                   \
		assert_error(fa_rc, status, words);                                                \
		cr_assert(strstr(rung_last_error(), "ids.npy"), "%s", rung_last_error());          \
		cr_assert_null(fa_ids);                                                            \
	} while (0)

Test(source_ids, ids_of_every_integer_type_keep_their_order)
{
	static const struct {
		const char *descr;
		size_t bytes;
	} types[] = { { "|i1", 1 }, { "|u1", 1 }, { "<i2", 2 }, { "<u2", 2 },
		      { "<i4", 4 }, { "<u4", 4 }, { "<i8", 8 }, { "<u8", 8 } };
	static const uint64_t wanted[] = { 99, 0, 7, 99 };

	for (size_t t = 0; t < RUNG__ARRAY_LEN(types); t++) {
		unsigned char data[sizeof(wanted)] = { 0 };
		uint64_t count, *ids;

		for (size_t i = 0; i < 4; i++)
			memcpy(data + i * types[t].bytes, &wanted[i], types[t].bytes);
		cr_assert_eq(read_array(types[t].descr, "(4,)", data, 4 * types[t].bytes, 100, 0,
		                        &count, &ids),
		             0, "%s", rung_last_error());
		cr_assert_eq(count, 4);
		cr_assert_arr_eq(ids, wanted, sizeof(wanted), "%s", types[t].descr);
		rung_free(ids);
	}
}

Test(source_ids, a_mask_selects_its_true_entries_in_order)
{
	static const unsigned char mask[] = { 0, 1, 1, 0, 0, 1 }, none[6];
	static const uint64_t wanted[] = { 1, 2, 5 };
	uint64_t count, *ids;

	cr_assert_eq(read_array("|b1", "(6,)", mask, sizeof(mask), 6, 1, &count, &ids), 0, "%s",
	             rung_last_error());
	cr_assert_eq(count, 3);
	cr_assert_arr_eq(ids, wanted, sizeof(wanted));
	rung_free(ids);
	cr_assert_eq(read_array("|b1", "(6,)", none, sizeof(none), 6, 1, &count, &ids), 0);
	cr_assert_eq(count, 0);
	rung_free(ids);
}

Test(source_ids, ids_out_of_range_are_named_with_their_position)
{
	FAILS(RUNG_E_RANGE, "entry 1 is -7, but vertex ids are 0 to 59", "<i4", "(3,)", 60, 0,
	      (int32_t[]){ 5, -7, 1 });
	FAILS(RUNG_E_RANGE, "entry 1 is -128", "|i1", "(2,)", 60, 0, (int8_t[]){ 5, -128 });
	FAILS(RUNG_E_RANGE, "entry 0 is -9223372036854775808", "<i8", "(2,)", 60, 0,
	      (int64_t[]){ INT64_MIN, 0 });
	FAILS(RUNG_E_RANGE, "entry 2 is 18446744073709551615", "<u8", "(3,)", 60, 0,
	      (uint64_t[]){ 0, 1, UINT64_MAX });
	FAILS(RUNG_E_RANGE, "entry 1 is 60", "<u2", "(2,)", 60, 0, (uint16_t[]){ 59, 60 });
}

Test(source_ids, a_repeated_id_is_rejected_if_ids_must_differ)
{
	uint64_t count, *ids;

	FAILS(RUNG_E_FORMAT, "entries 0 and 2 are both 63", "<i8", "(4,)", 65, 1,
	      (int64_t[]){ 63, 64, 63, 64 });
	cr_assert_eq(read_array("<i8", "(2,)", (int64_t[]){ 63, 64 }, 16, 65, 1, &count, &ids), 0,
	             "%s", rung_last_error());
	rung_free(ids);
}

/* A mask as integers would be read as the ids 0 and 1, repeated. */
Test(source_ids, a_mask_saved_as_integers_is_rejected)
{
	static const struct {
		const char *descr;
		size_t bytes;
	} types[] = { { "|i1", 1 }, { "|u1", 1 }, { "<i4", 4 }, { "<i8", 8 } };
	uint64_t count, *ids;

	for (size_t t = 0; t < RUNG__ARRAY_LEN(types); t++) {
		for (uint64_t vertices = 6; vertices <= 60; vertices += 54) {
			unsigned char data[48] = { 0 };

			data[0] = data[3 * types[t].bytes] = 1;
			for (int distinct = 0; distinct < 2; distinct++)
				FAILS_AT(RUNG_E_FORMAT, "looks like a mask saved as",
				         types[t].descr, "(6,)", vertices, distinct, data,
				         6 * types[t].bytes);
		}
	}
	FAILS(RUNG_E_FORMAT, "looks like a mask saved as u8: all 4 entries are 0 or 1", "|u1",
	      "(4,)", 4, 1, (uint8_t[]){ 0, 0, 0, 0 });
	FAILS(RUNG_E_FORMAT, "all 4 entries are 0 or 3", "<i8", "(4,)", 4, 1,
	      (int64_t[]){ 3, 0, 3, 0 });
	/* ids 0 and 1 of a graph of two vertices, and ids that only repeat */
	cr_assert_eq(read_array("<i8", "(2,)", (int64_t[]){ 1, 0 }, 16, 2, 1, &count, &ids), 0,
	             "%s", rung_last_error());
	rung_free(ids);
	FAILS(RUNG_E_FORMAT, "entries 0 and 2 are both 3", "<i8", "(4,)", 5, 1,
	      (int64_t[]){ 3, 0, 3, 0 });
}

Test(source_ids, other_arrays_are_rejected)
{
	FAILS(RUNG_E_FORMAT, "this is f32 and 1-D", "<f4", "(2,)", 60, 0, (float[]){ 1, 2 });
	FAILS(RUNG_E_FORMAT, "this is i32 and 2-D", "<i4", "(1, 2)", 60, 0, (int32_t[]){ 1, 2 });
	FAILS(RUNG_E_FORMAT, "the mask has 2 entries, but there are 60", "|b1", "(2,)", 60, 0,
	      (unsigned char[]){ 1, 1 });
	FAILS(RUNG_E_FORMAT, "has 3 ids, but there are only 2", "<i4", "(3,)", 2, 0,
	      (int32_t[]){ 0, 1, 1 });
}

Test(source_ids, nothing_leaks_whichever_allocation_fails)
{
	static const int32_t given[] = { 5, 3, 1 };
	struct rung_source *src;
	uint64_t count, *ids;
	int64_t allowed = 0;
	int rc;

	cr_assert_eq(support_write_npy(path, "<i4", "(3,)", given, sizeof(given)), 0);
	cr_assert_eq(rung_source_open(path, &src), 0);
	do {
		ids = NULL;
		rung__alloc_limit(allowed++);
		rc = rung_source_read_vertices(src, 10, 1, &count, &ids);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || (rc == RUNG_E_NOMEM && !ids), "%d %s", rc, rung_last_error());
	} while (rc < 0);
	cr_assert_eq(allowed, 4);
	rung_free(ids);
	rung_source_close(src);
}

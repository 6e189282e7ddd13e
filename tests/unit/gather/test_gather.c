/* SPDX-License-Identifier: Apache-2.0 */
/* The gather loop: the rows that it copies, the misses that it lists, and ids around 2^32. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "gather/copy.h"
#include "gather/gather.h"
#include "interrupted.h"

#define BORDER (UINT64_C(1) << 32)

static uint64_t ranks[16], ranks_tmp[16];
static uint32_t rows[16], rows_tmp[16];

static struct rung__misses empty_misses(void)
{
	return (struct rung__misses){
		.ranks = ranks, .rows = rows, .ranks_tmp = ranks_tmp, .rows_tmp = rows_tmp
	};
}

Test(gather, rows_in_the_view_are_copied_and_misses_listed_in_order)
{
	static const unsigned char held[3][4] = { "aaaa", "bbbb", "cccc" };
	const struct rung__view view = { held[0], 4, 0, 3 };
	const uint32_t ids[] = { 2, 7, 0, 3, 2, 7 };
	const struct rung_ids list = { ids, 6, RUNG_U32, RUNG_RANKS };
	struct rung__misses misses = empty_misses();
	unsigned char out[6 * 5];
	struct rung__gather gather = {
		.view = &view, .vertex_count = 8, .row_bytes = 4, .out = out, .out_stride = 5
	};

	memset(out, '.', sizeof(out));
	cr_assert_eq(rung__gather_run(&gather, &list, &misses), 0);
	cr_assert_arr_eq(out, "cccc......aaaa......cccc......", sizeof(out));
	cr_assert_eq(misses.count, 3);
	cr_assert(ranks[0] == 7 && ranks[1] == 3 && ranks[2] == 7);
	cr_assert(rows[0] == 1 && rows[1] == 3 && rows[2] == 5);
}

Test(gather, ids_around_32_bits_keep_all_their_bits)
{
	static const unsigned char held[4] = { 10, 11, 12, 13 }; /* ranks 2^32 - 2 to 2^32 + 1 */
	const struct rung__view view = { held, 1, BORDER - 2, 4 };
	const uint64_t ids[] = { BORDER - 3, BORDER - 2, BORDER - 1, BORDER,
		                 BORDER + 1, BORDER + 2, 0,          1 };
	const struct rung_ids list = { ids, 8, RUNG_U64, RUNG_RANKS };
	struct rung__misses misses = empty_misses();
	unsigned char out[8] = { 0 };
	struct rung__gather gather = { .view = &view,
		                       .vertex_count = BORDER + 3,
		                       .row_bytes = 1,
		                       .out = out,
		                       .out_stride = 1 };

	cr_assert_eq(rung__gather_run(&gather, &list, &misses), 0);
	cr_assert(out[1] == 10 && out[2] == 11 && out[3] == 12 && out[4] == 13);
	cr_assert(out[0] == 0 && out[5] == 0 && out[6] == 0 && out[7] == 0);
	cr_assert_eq(misses.count, 4);
	cr_assert(ranks[0] == BORDER - 3 && ranks[1] == BORDER + 2 && ranks[2] == 0 &&
	          ranks[3] == 1);
}

Test(gather, ids_out_of_range_are_rejected_for_every_type)
{
	const struct rung__view view = { (const unsigned char *)"", 0, 0, 0 };
	const uint64_t wide[] = { 0, BORDER + 3 };
	const uint32_t narrow[] = { 0, UINT32_MAX };
	const int32_t negative[] = { 0, -1 };
	const int64_t negative_wide[] = { 0, INT64_MIN };
	const struct {
		struct rung_ids ids;
		uint64_t vertex_count;
		const char *says;
	} cases[] = {
		{ { wide, 2, RUNG_U64, RUNG_RANKS },
		  BORDER + 3,
		  "id 4294967299 at index 1 is not in 0..4294967298" },
		{ { narrow, 2, RUNG_U32, RUNG_RANKS }, UINT32_MAX, "id 4294967295 at index 1" },
		{ { negative, 2, RUNG_I32, RUNG_RANKS }, BORDER + 3, "id -1 at index 1" },
		{ { negative_wide, 2, RUNG_I64, RUNG_RANKS },
		  BORDER + 3,
		  "id -9223372036854775808 at index 1" },
	};

	for (size_t i = 0; i < RUNG__ARRAY_LEN(cases); i++) {
		struct rung__misses misses = empty_misses();
		struct rung__gather gather = { .view = &view,
			                       .vertex_count = cases[i].vertex_count,
			                       .row_bytes = 1,
			                       .out_stride = 1 };

		cr_assert_eq(rung__gather_run(&gather, &cases[i].ids, &misses), RUNG_E_RANGE);
		cr_assert(strstr(rung_last_error(), cases[i].says), "%s", rung_last_error());
	}
}

Test(gather, maps_of_4_and_8_bytes_yield_the_same_ranks)
{
	const uint32_t narrow[] = { 2, 0, 3, 1 };
	const uint64_t wide[] = { 2, 0, 3, 1 };
	const struct rung__view view = { (const unsigned char *)"WXYZ", 1, 0, 4 };
	const int64_t ids[] = { 0, 1, 2, 3, 0 };
	const struct rung_ids list = { ids, 5, RUNG_I64, RUNG_VERTICES };

	for (unsigned map_bytes = 4; map_bytes <= 8; map_bytes += 4) {
		struct rung__misses misses = empty_misses();
		unsigned char out[5];
		struct rung__gather gather = { .view = &view,
			                       .rank_of_vertex =
			                               map_bytes == 4 ? (const void *)narrow : wide,
			                       .map_bytes = map_bytes,
			                       .vertex_count = 4,
			                       .row_bytes = 1,
			                       .out = out,
			                       .out_stride = 1 };

		cr_assert_eq(rung__gather_run(&gather, &list, &misses), 0);
		cr_assert_arr_eq(out, "YWZXY", 5);
		cr_assert_eq(misses.count, 0);
	}
}

/* Last-level caches that the outputs below exceed, and that hold them: with streaming stores and
 * with ordinary ones, any row width, alignment and stride must give the same result. */
static const uint64_t last_bytes[] = { UINT64_C(1) << 20, UINT64_C(1) << 36 };

enum { HELD = 61 }; /* rows from rank 1 on: ranks 0 and HELD + 1 miss */

/* Each output row equals its row in `held`, misses stay dots, and nothing is written between
 * rows. */
static void check_large_output(const struct rung__gather *gather, const uint32_t *ids,
                               uint64_t count, const unsigned char *held,
                               const struct rung__misses *misses)
{
	const size_t row_bytes = gather->row_bytes, stride = gather->out_stride;
	size_t missed = 0;
	unsigned char dots[4096];

	memset(dots, '.', sizeof(dots));
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t rank = (ids[i] * 5 + 3) % (HELD + 2);
		const unsigned char *row = (const unsigned char *)gather->out + i * stride;

		if (rank - 1 < HELD) {
			cr_assert(memcmp(row, held + (rank - 1) * row_bytes, row_bytes) == 0,
			          "%zu bytes, row %lu", row_bytes, (unsigned long)i);
		} else {
			cr_assert(misses->ranks[missed] == rank && misses->rows[missed] == i);
			cr_assert(memcmp(row, dots, row_bytes) == 0, "a missing row was written");
			missed++;
		}
		cr_assert(memcmp(row + row_bytes, dots, stride - row_bytes) == 0,
		          "written between rows");
	}
	cr_assert_eq(misses->count, missed);
}

Test(gather, outputs_smaller_and_larger_than_the_caches_have_the_same_rows)
{
	static const struct {
		size_t row_bytes, out_stride, shift;
	} cases[] = { { 1536, 1536, 0 }, { 4096, 4128, 0 },  { 1000, 1024, 0 },
		      { 100, 128, 0 },   { 1536, 1536, 16 }, { 1000, 1000, 0 } };
	enum { ROWS_BYTES = 6 << 20, OUT_BYTES = 2 * ROWS_BYTES, SLACK = 64 };
	unsigned char *held = malloc(HELD * 4096), *out = aligned_alloc(64, OUT_BYTES + SLACK);
	uint32_t vertex_of[HELD + 2], *ids = malloc(OUT_BYTES / 100 * sizeof(*ids)),
				      *miss_rows = malloc(OUT_BYTES / 100 * sizeof(*miss_rows));
	uint64_t *miss_ranks = malloc(OUT_BYTES / 100 * sizeof(*miss_ranks));

	for (size_t i = 0; i < HELD * 4096; i++)
		held[i] = (unsigned char)(i * 2654435761u >> 13);
	for (uint32_t v = 0; v < HELD + 2; v++)
		/* a permutation of the ranks, because 63 and 5 are coprime */
		vertex_of[v] = (v * 5 + 3) % (HELD + 2);
	for (size_t i = 0; i < 2 * RUNG__ARRAY_LEN(cases); i++) {
		const size_t c = i / 2;
		size_t row_bytes = cases[c].row_bytes, stride = cases[c].out_stride;
		uint64_t count = ROWS_BYTES / row_bytes;
		const struct rung__view view = { held, row_bytes, 1, HELD };
		const struct rung_ids list = { ids, count, RUNG_U32, RUNG_VERTICES };
		struct rung__misses misses = { .ranks = miss_ranks, .rows = miss_rows };
		unsigned char *to = out + cases[c].shift;
		struct rung__gather gather = {
			.view = &view,
			.rank_of_vertex = vertex_of,
			.map_bytes = 4,
			.vertex_count = HELD + 2,
			.row_bytes = row_bytes,
			.out = to,
			.out_stride = stride,
		};

		rung__caches.last_bytes = last_bytes[i % 2];
		memset(out, '.', OUT_BYTES + SLACK);
		for (uint64_t k = 0; k < count; k++)
			ids[k] = (uint32_t)(k * 7 % (HELD + 2));
		cr_assert_eq(rung__gather_run(&gather, &list, &misses), 0);
		check_large_output(&gather, ids, count, held, &misses);
	}
	free(held);
	free(out);
	free(ids);
	free(miss_rows);
	free(miss_ranks);
}

/* The last block of a row may be partial, and the prefetch must stop at the last row. */
Test(gather, large_outputs_of_any_row_width_have_the_same_rows)
{
	static const size_t widths[] = { 1, 64, 100, 127, 128, 160, 512, 1500, 4096, 40000 };

	for (size_t w = 0; w < 2 * RUNG__ARRAY_LEN(widths); w++) {
		const size_t width = widths[w / 2], stride = rung__align_up(width, 32),
			     held_rows = 97, count = (10u << 20) / stride;
		unsigned char *held = rung__malloc_aligned(64, held_rows * width),
			      *out = rung__malloc_aligned(64, count * stride);
		/* the view lacks ranks 0 to 2 */
		const struct rung__view view = { held, width, 3, held_rows };
		uint32_t *ids = rung__malloc_array(count, sizeof(*ids));
		struct rung_ids list = { ids, count, RUNG_U32, RUNG_RANKS };
		struct rung__gather gather = { .view = &view,
			                       .vertex_count = 100,
			                       .row_bytes = width,
			                       .out = out,
			                       .out_stride = stride };
		struct rung__misses misses = { .ranks = rung__malloc_array(count, 8),
			                       .rows = rung__malloc_array(count, 4) };
		uint64_t missed = 0;

		for (size_t i = 0; i < held_rows * width; i++)
			held[i] = (unsigned char)rung__mix64(i);
		for (size_t i = 0; i < count; i++)
			ids[i] = (uint32_t)(rung__mix64(i) % 100);
		rung__caches.last_bytes = last_bytes[w % 2];
		memset(out, 0x5a, count * stride);
		cr_assert_eq(rung__gather_run(&gather, &list, &misses), 0);
		for (size_t i = 0; i < count; i++) {
			if (ids[i] < 3) {
				cr_assert(missed < misses.count && misses.rows[missed] == i &&
				          misses.ranks[missed] == ids[i]);
				missed++;
				cr_assert_eq(out[i * stride], 0x5a,
				             "the row of a miss was written");
			} else {
				cr_assert_arr_eq(out + i * stride, held + (ids[i] - 3) * width,
				                 width, "row %zu of %zu bytes", i, width);
			}
			for (size_t k = width; k < stride; k++)
				cr_assert_eq(out[i * stride + k], 0x5a, "written between rows");
		}
		cr_assert_eq(missed, misses.count);
		rung__free(held);
		rung__free(out);
		rung__free(ids);
		rung__free(misses.ranks);
		rung__free(misses.rows);
	}
}

/* Rows of 1 MiB, each one byte after the one before, so that the last copied byte shows how many
 * rows were copied. */
#define WIDE      (1u << 20)
#define WIDE_ROWS 200u

static int gather_wide(unsigned char *out, struct rung__misses *misses)
{
	unsigned char *row = malloc(WIDE);
	const struct rung__view view = { row, WIDE, 0, 1 };
	uint32_t ids[WIDE_ROWS];
	const struct rung_ids list = { ids, WIDE_ROWS, RUNG_U32, RUNG_RANKS };
	struct rung__gather gather = {
		.view = &view, .vertex_count = 2, .row_bytes = WIDE, .out = out, .out_stride = 1
	};
	int rc;

	for (uint32_t i = 0; i < WIDE_ROWS; i++)
		ids[i] = i % 20 == 19; /* ten misses */
	memset(row, 1, WIDE);
	memset(out, 0, WIDE + WIDE_ROWS);
	rc = rung__gather_run(&gather, &list, misses);
	free(row);
	return rc;
}

Test(gather, a_canceled_gather_copies_no_more_than_64_mib)
{
	unsigned char *out = malloc(WIDE + WIDE_ROWS);
	struct rung__misses misses = empty_misses();
	uint32_t copied = 0;

	interrupt_begin(1);
	cr_assert_eq(gather_wide(out, &misses), RUNG_E_CANCELED);
	for (uint32_t i = 0; i < WIDE_ROWS; i++)
		copied = out[WIDE - 1 + i] ? i + 1 : copied;
	cr_assert_eq(interrupt_calls, 1);
	cr_assert_leq(copied, 64);
	free(out);
}

Test(gather, a_gather_that_could_be_canceled_lists_the_same_misses)
{
	unsigned char *out = malloc(WIDE + WIDE_ROWS);
	struct rung__misses misses = empty_misses();

	interrupt_begin(0);
	cr_assert_eq(gather_wide(out, &misses), 0);
	cr_assert_eq(interrupt_calls, 4);
	cr_assert_eq(misses.count, WIDE_ROWS / 20);
	for (uint32_t i = 0; i < misses.count; i++)
		cr_assert(misses.ranks[i] == 1 && misses.rows[i] == 20 * i + 19);
	cr_assert_eq(out[WIDE - 1 + WIDE_ROWS - 2], 1);
	free(out);
}

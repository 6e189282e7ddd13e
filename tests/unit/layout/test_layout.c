/* SPDX-License-Identifier: Apache-2.0 */
/* The positions of rows, and the rule that decides whether two rows share a read. */
#include <criterion/criterion.h>

#include "layout/layout.h"

TestSuite(layout, .timeout = 60);

/* Sectors of 512 bytes, rows of 100 bytes. */
static struct rung__read_rule rule = {
	.row_bytes = 100, .align = 512, .merge_gap_bytes = 1024, .read_bytes_max = 4096
};

/* Whether the row at `offset` joins a read of the row at 600, which ends in the sector from 512 to
 * 1024. */
static bool joins(uint64_t offset)
{
	return rung__row_joins(&rule, 600, 700, offset);
}

Test(layout, rows_of_one_sector_share_a_read)
{
	cr_assert(joins(700));
	cr_assert(joins(924));
	cr_assert(joins(600), "the same row");
}

Test(layout, gaps_are_measured_between_sectors)
{
	cr_assert(joins(2048), "its sector begins 1024 bytes after the read's end");
	cr_assert(joins(2559));
	cr_assert_not(joins(2560));
	rule.merge_gap_bytes = 0;
	cr_assert(joins(1024));
	cr_assert(joins(1535));
	cr_assert_not(joins(1536));
}

Test(layout, a_read_is_limited_in_length)
{
	rule.merge_gap_bytes = 1 << 20;
	cr_assert(joins(4508), "ends with the sector that ends at 4608, the last of 8");
	cr_assert_not(joins(4509), "ends one byte after that sector");
}

Test(layout, rows_are_read_separately_on_request)
{
	rule.apart = true;
	cr_assert_not(joins(700));
}

Test(layout, without_sectors_gaps_are_measured_in_bytes)
{
	rule.align = 1;
	cr_assert(joins(700 + 1024));
	cr_assert_not(joins(700 + 1025));
	rule.merge_gap_bytes = 1 << 20;
	cr_assert(joins(600 + 4096 - 100));
	cr_assert_not(joins(600 + 4096 - 99));
}

/* Ranges: 100 ranks in one file; 400 in three files that begin with the ranks of the first; 500. */
static const struct rung__layout ranges = {
	.data_offset = 4096,
	.row_stride = 8,
	.row_bytes = 8,
	.file_count = 5,
	.range_count = 3,
	.ranges = { { 100, 0, 100, 0, 1, 0 },
	            { 500, 0, 500, 1, 3, 7 },
	            { 1000, 500, 1000, 4, 1, 0 } },
};

Test(layout, ranks_and_positions_map_to_each_other)
{
	for (uint64_t rank = 0; rank < 1000; rank++) {
		const uint64_t file = rung__row_file(&ranges, rank),
			       row = (rung__row_offset(&ranges, rank) - 4096) / 8;

		cr_assert(rank < 100 ? file == 0 : rank < 500 ? file >= 1 && file <= 3 : file == 4);
		cr_assert_eq(rung__file_rank(&ranges, file, row), rank);
		cr_assert_lt(row, rung__file_rows(&ranges, 1000, file));
		cr_assert_leq(row, rung__file_rows(&ranges, rank, file));
		cr_assert_gt(rung__file_rows(&ranges, rank + 1, file), row);
	}
}

Test(layout, runs_end_with_blocks_and_ranges)
{
	cr_assert_eq(rung__row_run(&ranges, 40, 1000), 60);
	cr_assert_eq(rung__row_run(&ranges, 40, 9), 9);
	cr_assert_eq(rung__row_run(&ranges, 100, 1000), 5, "105 is a multiple of 7");
	cr_assert_eq(rung__row_run(&ranges, 497, 1000), 3, "the range ends");
	cr_assert_eq(rung__row_run(&ranges, 500, 1000), 500);
	for (uint64_t rank = 0, run; rank < 1000; rank += run) {
		run = rung__row_run(&ranges, rank, UINT64_MAX);
		for (uint64_t i = 1; i < run; i++) {
			cr_assert_eq(rung__row_file(&ranges, rank + i),
			             rung__row_file(&ranges, rank));
			cr_assert_eq(rung__row_offset(&ranges, rank + i),
			             rung__row_offset(&ranges, rank) + 8 * i);
		}
	}
}

Test(layout, the_rows_of_files_add_up)
{
	uint64_t sum = 0;

	for (uint64_t file = 1; file <= 3; file++)
		sum += rung__file_rows(&ranges, 1000, file);
	cr_assert_eq(sum, 500);
	cr_assert_eq(rung__file_rows(&ranges, 50, 0), 50);
	cr_assert_eq(rung__file_rows(&ranges, 1000, 0), 100);
	cr_assert_eq(rung__file_rows(&ranges, 500, 4), 0);
	cr_assert_eq(rung__file_rows(&ranges, 501, 4), 1);
}

Test(layout, broken_ranges_are_refused)
{
	struct rung__layout bad;

	cr_assert(rung__ranges_ok(&ranges, 1000));
	cr_assert_not(rung__ranges_ok(&ranges, 999));
	cr_assert_not(rung__ranges_ok(&ranges, 1001));
#define BROKEN(field, value)                                                                       \
	bad = ranges;                                                                              \
	bad.field = value;                                                                         \
	cr_assert_not(rung__ranges_ok(&bad, 1000), #field " = " #value)
	BROKEN(range_count, 0);
	BROKEN(range_count, 2);
	BROKEN(range_count, UINT64_MAX);
	BROKEN(file_count, 4);
	BROKEN(ranges[0].end, 0);
	BROKEN(ranges[0].end, 500);
	BROKEN(ranges[1].stored_first, 101);
	BROKEN(ranges[1].stored_end, 499);
	BROKEN(ranges[2].stored_end, 1001);
	BROKEN(ranges[1].file_first, 0);
	BROKEN(ranges[1].file_count, 0);
	BROKEN(ranges[1].file_count, UINT64_MAX);
	BROKEN(ranges[1].block_rows, 0);
	BROKEN(ranges[1].block_rows, 250);
	BROKEN(ranges[1].block_rows, UINT64_MAX);
}

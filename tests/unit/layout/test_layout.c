/* SPDX-License-Identifier: Apache-2.0 */
/* The rule that decides whether two rows share a read. */
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

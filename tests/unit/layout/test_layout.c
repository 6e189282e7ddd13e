/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows share a read. */
#include <criterion/criterion.h>

#include "layout/layout.h"

TestSuite(layout, .timeout = 60);

/* Sectors of 512 bytes, rows of 100. */
static struct rung__read_rule rule = {
	.row_bytes = 100, .align = 512, .merge_gap_bytes = 1024, .read_bytes_max = 4096
};

/* After a read of one row at 600, which ends in the sector from 512 to 1024. */
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

Test(layout, a_gap_is_counted_from_sector_to_sector)
{
	cr_assert(joins(2048), "its sector begins 1024 bytes after the read's end");
	cr_assert(joins(2559));
	cr_assert_not(joins(2560));
	rule.merge_gap_bytes = 0;
	cr_assert(joins(1024));
	cr_assert(joins(1535));
	cr_assert_not(joins(1536));
}

Test(layout, a_read_is_no_longer_than_its_limit)
{
	rule.merge_gap_bytes = 1 << 20;
	cr_assert(joins(4508), "ends with the sector at 4096, the last of 8");
	cr_assert_not(joins(4509), "goes one byte into the next sector");
}

Test(layout, rows_stand_apart_when_that_is_asked_for)
{
	rule.apart = true;
	cr_assert_not(joins(700));
}

Test(layout, without_sectors_bytes_count)
{
	rule.align = 1;
	cr_assert(joins(700 + 1024));
	cr_assert_not(joins(700 + 1025));
	rule.merge_gap_bytes = 1 << 20;
	cr_assert(joins(600 + 4096 - 100));
	cr_assert_not(joins(600 + 4096 - 99));
}

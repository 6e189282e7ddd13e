/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of ranges, and sizes that follow from the positions of rows. */
#include "layout/layout.h"

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

uint64_t rung__row_span(uint64_t row_bytes, uint64_t row_stride, uint64_t data_offset,
                        uint32_t align)
{
	uint64_t step = gcd(gcd(row_stride, data_offset), align);

	/* the worst row begins one step before the end of a block */
	return rung__align_up(align - step + row_bytes, align);
}

/* @param begin  the first rank of the range */
static bool range_ok(const struct rung__range *range, uint64_t begin, uint64_t row_count)
{
	if (range->end <= begin || range->end > row_count || range->stored_first > begin ||
	    range->stored_end < range->end || range->stored_end > row_count ||
	    range->file_count == 0 || range->file_count > RUNG__FILES_MAX)
		return false;
	/* the bound of block_rows keeps products with it below 2^63 */
	return range->file_count == 1 ||
	       (range->block_rows > 0 && range->block_rows <= INT64_MAX / 16 / RUNG__FILES_MAX &&
	        (range->file_count - 1) * range->block_rows <
	                range->stored_end - range->stored_first);
}

bool rung__ranges_ok(const struct rung__layout *layout, uint64_t row_count)
{
	uint64_t begin = 0, files = 0;

	if (layout->range_count == 0 || layout->range_count > RUNG__FILES_MAX)
		return false;
	for (uint64_t i = 0; i < layout->range_count; i++) {
		const struct rung__range *range = &layout->ranges[i];

		if (!range_ok(range, begin, row_count) || range->file_first != files)
			return false;
		begin = range->end;
		files += range->file_count;
	}
	return begin == row_count && files == layout->file_count;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that follow from the positions of rows. */
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

/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that vertices have in a batch. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/base.h"
#include "sample/sampler_positions.h"

/* Ids of 8 bytes that differ only in their upper halves, in a table of the lower halves. */
Test(sampler_positions, ids_that_differ_by_2_to_the_32_are_distinguished)
{
	enum { IDS = 3000 };
	uint64_t *ids = malloc(IDS * sizeof(*ids));
	struct rung__positions positions;

	cr_assert(ids && rung__positions_init(&positions, 1, true));
	for (uint64_t i = 0; i < IDS; i++)
		ids[i] = i / 3 + (i % 3 << 32);
	for (int again = 0; again < 2; again++) {
		for (uint32_t i = 0; i < IDS; i++) {
			cr_assert_eq(rung__positions_reserve(&positions, ids, i, i + 1), 0);
			cr_assert_eq(rung__positions_put(&positions, ids[i], i, ids, 8, true), i,
			             "new");
		}
		for (uint32_t i = 0; i < IDS; i++)
			cr_assert_eq(rung__positions_put(&positions, ids[i], IDS, ids, 8, true), i,
			             "known");
		rung__positions_clear(&positions, ids, IDS);
		for (uint32_t i = 0; i < 20; i++)
			cr_assert_eq(rung__positions_put(&positions, ids[i], i, ids, 8, true), i,
			             "forgotten");
		rung__positions_clear(&positions, ids, 20);
	}
	rung__positions_fini(&positions);
	free(ids);
}

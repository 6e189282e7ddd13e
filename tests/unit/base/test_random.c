/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers below a limit, and shuffles: every outcome is equally likely. */
#include <criterion/criterion.h>

#include "base/random.h"

Test(random, values_that_would_bias_the_result_are_rejected)
{
	uint64_t value;

	/* 2^64 = 3 n + 1: the last of the 2^64 values would give 0 a second time, so it is
	 * rejected */
	cr_assert(rung__bits_modulo(UINT64_MAX - 1, 3, &value));
	cr_assert_eq(value, 2);
	cr_assert_not(rung__bits_modulo(UINT64_MAX, 3, &value));
	/* 2^64 = n (2^63 + 1) + 2^63 - 1 */
	cr_assert(rung__bits_modulo(UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1, &value));
	cr_assert_eq(value, UINT64_C(1) << 63);
	cr_assert_not(rung__bits_modulo((UINT64_C(1) << 63) + 1, (UINT64_C(1) << 63) + 1, &value));
}

Test(random, no_value_is_rejected_for_a_power_of_two)
{
	uint64_t value;

	for (unsigned shift = 0; shift < 64; shift++) {
		cr_assert(rung__bits_modulo(UINT64_MAX, UINT64_C(1) << shift, &value));
		cr_assert_eq(value, (UINT64_C(1) << shift) - 1);
		cr_assert(rung__bits_below(UINT64_MAX, UINT64_C(1) << shift, &value));
		cr_assert_eq(value, (UINT64_C(1) << shift) - 1);
	}
}

/* The state is a number in a mixed radix. Each draw removes its lowest digit; the last digit has
 * base 2. */
static uint64_t digit_below(struct rung__rng *stream, uint64_t limit)
{
	const uint64_t digit = stream->state % limit;

	stream->state /= limit;
	return digit;
}

Test(random, each_order_comes_from_one_sequence_of_draws)
{
	enum { ITEMS = 5, ORDERS = 120 };
	uint64_t seen[ORDERS];

	for (uint64_t i = 0; i < ORDERS; i++) {
		uint64_t items[ITEMS] = { 0, 1, 2, 3, 4 }, kept = 0;
		struct rung__rng draws = { i };

		rung__shuffle(items, ITEMS, digit_below, &draws);
		seen[i] = 0;
		for (unsigned k = 0; k < ITEMS; k++) {
			seen[i] = seen[i] * ITEMS + items[k];
			kept |= UINT64_C(1) << items[k];
		}
		cr_assert_eq(kept, (1u << ITEMS) - 1, "an item was lost");
		for (uint64_t k = 0; k < i; k++)
			cr_assert_neq(seen[k], seen[i], "two sequences of draws give one order");
	}
}

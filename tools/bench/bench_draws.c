/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zipf draws rank r with probability proportional to 1/(r+1) by rejection-inversion (Hörmann,
 * Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
 * 1996) for exponent 1, where the integral of the hat is the logarithm. The cost of a draw does not
 * depend on the number of ranks, and no table is needed.
 */
#include "bench/bench_draws.h"

#include <math.h>

/* Uniform in [0, 1): 53 bits, the precision of a double. */
static double draw_unit(struct rung__rng *stream)
{
	return (double)(rung__rng_next(stream) >> 11) * 0x1p-53;
}

uint64_t bench_draw_zipf(struct rung__rng *stream, uint64_t count)
{
	const double low = log(1.5) - 1, high = log((double)count + 0.5);
	const double near = 2 - exp(log(2.5) - 0.5); /* below it no rejection test is needed */

	for (;;) {
		double u = high + draw_unit(stream) * (low - high), x = exp(u), k = floor(x + 0.5);
		if (k < 1)
			k = 1;
		if (k > (double)count)
			k = (double)count;
		if (k - x <= near || u >= log(k + 0.5) - 1 / k) {
			/* for huge counts, rounding can make k one too large */
			uint64_t rank = (uint64_t)k - 1;
			return rank < count ? rank : count - 1;
		}
	}
}

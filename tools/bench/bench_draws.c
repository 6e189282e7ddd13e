/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zipf draws rank r with probability proportional to 1/(r+1) by rejection-inversion (Hörmann,
 * Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
 * 1996) for exponent 1, where the integral of the hat is the logarithm.
 */
#include "bench/bench_draws.h"

#include <math.h>

static uint64_t draw(struct bench_draws *draws)
{
	/* splitmix64 (Steele, Lea, Flood 2014) */
	uint64_t x = draws->state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint64_t bench_draw_below(struct bench_draws *draws, uint64_t below)
{
	return (uint64_t)(((unsigned __int128)draw(draws) * below) >> 64);
}

static double draw_unit(struct bench_draws *draws)
{
	return (double)(draw(draws) >> 11) * 0x1p-53;
}

uint64_t bench_draw_zipf(struct bench_draws *draws, uint64_t count)
{
	const double low = log(1.5) - 1, high = log((double)count + 0.5);
	const double near = 2 - exp(log(2.5) - 0.5);

	for (;;) {
		double u = high + draw_unit(draws) * (low - high), x = exp(u), k = floor(x + 0.5);
		if (k < 1)
			k = 1;
		if (k > (double)count)
			k = (double)count;
		if (k - x <= near || u >= log(k + 0.5) - 1 / k) {
			/* for huge counts k may round up to one too many */
			uint64_t rank = (uint64_t)k - 1;
			return rank < count ? rank : count - 1;
		}
	}
}

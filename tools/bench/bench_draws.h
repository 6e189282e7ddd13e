/* SPDX-License-Identifier: Apache-2.0 */
/** Random numbers for the ids of rung bench: a seed gives the same ones on every machine. */
#ifndef RUNG_TOOL_BENCH_DRAWS_H
#define RUNG_TOOL_BENCH_DRAWS_H

#include <stdint.h>

struct bench_draws {
	uint64_t state;   /* starts as the seed */
};

/** Uniform in 0 .. below-1; the bias is below/2^64. */
uint64_t bench_draw_below(struct bench_draws *draws, uint64_t below);

/** Zipf with exponent 1 over 0 .. count-1. */
uint64_t bench_draw_zipf(struct bench_draws *draws, uint64_t count);

#endif

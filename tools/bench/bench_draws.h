/* SPDX-License-Identifier: Apache-2.0 */
/** Ids that rung bench draws: a seed gives the same ids on every machine. */
#ifndef RUNG_TOOL_BENCH_DRAWS_H
#define RUNG_TOOL_BENCH_DRAWS_H

#include "base/random.h"

/** Draw from 0 .. count - 1, Zipf-distributed with exponent 1. */
uint64_t bench_draw_zipf(struct rung__rng *stream, uint64_t count);

#endif

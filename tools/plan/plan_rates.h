/* SPDX-License-Identifier: Apache-2.0 */
/** Times of rows and reads from a profile, for a plan without a dataset. Private to tools/plan. */
#ifndef RUNG_TOOL_PLAN_RATES_H
#define RUNG_TOOL_PLAN_RATES_H

#include <rung/rung.h>

/** Seconds of one read of `bytes` bytes from the profile's first drive, with `depth` reads in
 * flight. @return 0: the profile has no reads */
double plan_read_seconds(const struct rung_profile *profile, uint32_t depth, double bytes);

/** The smallest queue depth that reaches 95 % of the highest rate of the smallest reads that hold
 * `bytes` bytes. @return 0: the profile has no reads */
uint32_t plan_read_depth(const struct rung_profile *profile, uint64_t bytes);

/**
 * Seconds from one row in memory to the next, on the fastest node.
 * @param threads      0: all cores of the node if they were measured, else one
 * @param threads_out  the number that it is for
 */
double plan_row_seconds(const struct rung_profile *profile, uint32_t threads, uint64_t row_bytes,
                        uint32_t *threads_out);

#endif

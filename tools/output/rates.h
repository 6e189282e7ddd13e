/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a store did between two snapshots of its statistics: rates, shares, and what it waits for.
 * The status lines of bench and train and the screen of top are derived from it.
 */
#ifndef RUNG_TOOL_RATES_H
#define RUNG_TOOL_RATES_H

#include <rung/stats.h>

#define TOOL_RATES_BYTES 160 /**< of a line, with its end */

struct tool_rates {
	double seconds;
	double rows, row_bytes;   /**< per second */
	double reads, read_bytes; /**< per second */
	double queue;             /**< mean number of reads in flight */
	double read_s;            /**< mean duration of a read; NaN without reads */
	double wait, wait_sample; /**< share of the time, 0 to 1; wait has both kinds */
	double memory;            /**< share of the rows not read from files; NaN without rows */
	struct {
		const char *name;
		double share;          /**< of the rows; NaN without rows */
	} sources[RUNG_TIERS_MAX + 1]; /**< the tiers that hold rows, and the cold-row cache */
	uint32_t source_count;
	const char *bottleneck; /**< one phrase */
};

/** @param before  may be all zero: since the store was opened */
void tool_rates_of(const struct rung_store_stats *before, const struct rung_store_stats *after,
                   double seconds, struct tool_rates *out);

/** "475 k rows/s, 69 % from memory; ...", for one line. @return `text` */
const char *tool_rates_line(char text[TOOL_RATES_BYTES], const struct tool_rates *rates);

#endif

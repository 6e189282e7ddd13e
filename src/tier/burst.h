/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The rate of reads at random positions of a file: the queue of a reader is kept full for a time.
 * It measures drives for `rung numa`, the largest useful merge gap (io/engine/merge_gap.c) and,
 * through row_reads.h, the schedules of staging.
 */
#ifndef RUNG_BURST_H
#define RUNG_BURST_H

#include "tier/reader.h"

#define RUNG__BURST_DEPTH_MAX 1024u
#define RUNG__BURST_WAIT_NS   30000000000ull /* longest wait for the next completion */

struct rung__burst {
	const struct rung__reader_ops *ops;
	struct rung__reader *reader; /* started */
	uint64_t file_bytes;
	uint64_t to;         /* offset in the pool, with memory for `depth` reads */
	uint32_t read_bytes; /* size of a read; each position in the file is a multiple of it */
	uint32_t depth;      /* at most RUNG__BURST_DEPTH_MAX */
	uint64_t ns;         /* duration, longer while fewer than reads_min reads have ended */
	uint64_t ns_max;     /* longest duration */
	uint32_t reads_min;
	uint64_t drawn; /* counter for drawing positions; the next burst continues it */

	/* results */
	uint64_t ended;   /* reads that ended while the queue was full */
	uint64_t took_ns; /* time until the last of these reads ended */
	int err;          /* errno of a read that failed or was short, which ends the burst; or 0 */
};

/** Called by the thread that reads. @return 0, or -errno if the reader cannot continue */
int rung__burst_run(struct rung__burst *burst);

#endif

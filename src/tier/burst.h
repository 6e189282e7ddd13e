/* SPDX-License-Identifier: Apache-2.0 */
/** How fast a reader reads at random places: the queue is kept full for a time. */
#ifndef RUNG_BURST_H
#define RUNG_BURST_H

#include "tier/reader.h"

#define RUNG__BURST_DEPTH_MAX 1024u
#define RUNG__BURST_WAIT_NS   30000000000ull /* for a read */

struct rung__burst {
	const struct rung__reader_ops *ops;
	struct rung__reader *reader; /* started */
	uint64_t file_bytes;
	uint64_t to;         /* offset in the pool, with memory for `depth` reads */
	uint32_t read_bytes; /* each place in the file is a multiple of it */
	uint32_t depth;      /* at most RUNG__BURST_DEPTH_MAX */
	uint64_t ns;         /* as long as this, or while fewer than reads_min ended */
	uint64_t ns_max;     /* but no longer than this */
	uint32_t reads_min;
	uint64_t drawn; /* counter for drawing positions; the next burst continues it */

	/* what came of it */
	uint64_t ended;   /* reads, while the queue was full */
	uint64_t took_ns; /* until the last of them */
	int err;          /* of a read that failed or came short, which ends it; 0 */
};

/** Called by the thread that reads. @return 0, or -errno if the reader cannot continue */
int rung__burst_run(struct rung__burst *burst);

#endif

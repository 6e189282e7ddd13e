/* SPDX-License-Identifier: Apache-2.0 */
/** Ranking by other measures, for tests: none has 2^32 vertices, and few enough for many buckets.
 * Private to the core. */
#ifndef RUNG_RANK_STATE_H
#define RUNG_RANK_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* With pairs, output and counters, a second-level cache of 1 MiB is full; 40 and 100 thousand take
 * longer. */
#define RUNG__BUCKET_SCORES (1u << 16)

struct rung__rank_measures {
	uint64_t bucket_scores; /* of a bucket, about; at least 32 */
	bool wide;              /* ids may need more than 4 bytes; index_bytes is 8 then */
};

/** rung_rank_order() without its checks. */
int rung__rank_order(const float *score, uint64_t vertex_count, unsigned index_bytes,
                     uint32_t threads, const struct rung__rank_measures *measures,
                     void *vertex_of_rank, void *rank_of_vertex);

#endif

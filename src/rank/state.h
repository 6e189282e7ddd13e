/* SPDX-License-Identifier: Apache-2.0 */
/** Ranking with other sizes, for tests: no test has 2^32 vertices, or enough vertices for many
 * buckets. Private to the core. */
#ifndef RUNG_RANK_STATE_H
#define RUNG_RANK_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* Pairs, output and counters then fill a second-level cache of 1 MiB; with 40 or 100 thousand
 * scores per bucket, ranking takes longer. */
#define RUNG__BUCKET_SCORES (1u << 16)

struct rung__rank_measures {
	uint64_t bucket_scores; /* approximate number of scores per bucket; at least 32 */
	/* use pairs for ids of more than 4 bytes; index_bytes is then 8 */
	bool wide;
};

/** rung_rank_order() without its checks. */
int rung__rank_order(const float *score, uint64_t vertex_count, unsigned index_bytes,
                     uint32_t threads, const struct rung__rank_measures *measures,
                     void *vertex_of_rank, void *rank_of_vertex);

#endif

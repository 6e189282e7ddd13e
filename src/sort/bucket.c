/* SPDX-License-Identifier: Apache-2.0 */
/* Store pairs in lists by key, in parallel and stable, chunk by chunk. Each chunk is first grouped
 * into buckets, which are ranges of keys. */
#include "sort/bucket.h"

#include "base/base.h"

#include <assert.h>

#define BUCKETS_MAX 1024u /* more buckets mean more write streams, which cost more than they save */
#define AHEAD_PAIRS 16u   /* destinations are prefetched this many pairs ahead */
/* a bucket has at least 4096 lists; their end positions fit in the second-level cache */
#define BUCKET_KEYS_BITS 12u

int rung__buckets_init(struct rung__buckets *buckets, uint64_t key_limit, unsigned index_bytes,
                       int threads)
{
	const uint64_t range = RUNG__MAX(key_limit, 1u);
	unsigned shift = BUCKET_KEYS_BITS;
	int rc = rung__partition_init(&buckets->partition, BUCKETS_MAX, threads);

	buckets->pairs = rung__malloc_array(RUNG__CHUNK_PAIRS, 2 * (size_t)index_bytes);
	if (rc == 0 && !buckets->pairs)
		rc = rung__fail(RUNG_E_NOMEM, "edges: no memory for %" PRIu64 " pairs",
		                RUNG__CHUNK_PAIRS);
	if (rc < 0) {
		rung__buckets_fini(buckets);
		return rc;
	}
	while ((range - 1) >> shift >= BUCKETS_MAX)
		shift++;
	rung__partition_set(&buckets->partition, index_bytes, 0, range, shift);
	return 0;
}

void rung__buckets_fini(struct rung__buckets *buckets)
{
	rung__partition_fini(&buckets->partition);
	rung__free(buckets->pairs);
	buckets->pairs = NULL;
}

/*
 * Append the pairs of a bucket to their lists. Compiled separately for ids of 4 and of 8 bytes, so
 * that the loop has no branch on the width.
 * @return number of stored pairs
 */
static inline __attribute__((always_inline)) uint64_t place_bucket(
	const struct rung__buckets *b, uint32_t bucket, unsigned index_bytes, uint64_t *next,
	const uint64_t *ends, void *lists)
{
	const uint64_t end = b->partition.firsts[bucket + 1];
	uint64_t placed = 0;

	for (uint64_t i = b->partition.firsts[bucket]; i < end; i++) {
		const uint64_t key = rung__id_get(b->pairs, index_bytes, 2 * i);
		const uint64_t at = next[key];

		if (i + AHEAD_PAIRS < end) {
			const uint64_t key_ahead =
				rung__id_get(b->pairs, index_bytes, 2 * (i + AHEAD_PAIRS));

			__builtin_prefetch((const char *)lists + next[key_ahead] * index_bytes, 1);
		}
		/* if the file has changed, keys can differ from those that were counted */
		if (at >= ends[key])
			continue;
		rung__id_set(lists, index_bytes, at,
		             rung__id_get(b->pairs, index_bytes, 2 * i + 1));
		next[key] = at + 1;
		placed++;
	}
	return placed;
}

uint64_t rung__buckets_place(const struct rung__buckets *b, const void *keys, const void *values,
                             uint64_t count, uint64_t *next, const uint64_t *ends, void *lists)
{
	const struct rung__pairs pairs = {
		.keys = keys, .values = values, .count = count, .stride = 1
	};
	const struct rung__partition *p = &b->partition;
	uint64_t placed = 0;

	assert(count <= RUNG__CHUNK_PAIRS);
	if (!rung__partition_pairs(p, &pairs, b->pairs))
		return 0;
#pragma omp parallel for num_threads(p->threads) schedule(dynamic, 1) reduction(+ : placed)
	for (uint32_t bucket = 0; bucket < p->bucket_count; bucket++) {
		if (p->id_bytes == 4)
			placed += place_bucket(b, bucket, 4, next, ends, lists);
		else
			placed += place_bucket(b, bucket, 8, next, ends, lists);
	}
	return placed;
}

void rung__count_keys(const void *keys, unsigned index_bytes, uint64_t count, int threads,
                      uint64_t *counts)
{
	if (threads == 1) { /* a single thread needs no atomic additions, which are slower */
		for (uint64_t i = 0; i < count; i++)
			counts[rung__id_get(keys, index_bytes, i)]++;
		return;
	}
#pragma omp parallel for num_threads(threads) schedule(static)
	for (uint64_t i = 0; i < count; i++) {
		uint64_t *slot = &counts[rung__id_get(keys, index_bytes, i)];

#pragma omp atomic
		(*slot)++;
	}
}

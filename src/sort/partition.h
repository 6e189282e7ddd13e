/* SPDX-License-Identifier: Apache-2.0 */
/** Pairs in memory brought together by ranges of their keys, in parallel and stable. Private to the
 * core. */
#ifndef RUNG_PARTITION_H
#define RUNG_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

/** Pair i is (keys[i * stride], values[i * stride]), ids of the graph's width: value is an
 * in-neighbour of key. */
struct rung__pairs {
	const void *keys, *values;
	uint64_t count;
	unsigned stride;
	bool skip_loops;  /* leave out pairs of equal ids */
	const char *spec; /* of the file they are from */
};

typedef int (*rung__pairs_fn)(void *ctx, const struct rung__pairs *pairs);

struct rung__partition {
	unsigned id_bytes;
	bool by_value;         /* ranges of values, not of keys */
	uint64_t first, range; /* of the ids */
	unsigned shift;
	/* [((range - 1) >> shift) + 1]; NULL: each is a separate bucket */
	const uint32_t *bucket_of;
	uint32_t bucket_count;
	int threads;
	/* [threads][bucket_count] pairs that were counted; then where a slice writes its next */
	uint64_t *starts;
	/* [bucket_count + 1] start of each bucket in the output, and the end */
	uint64_t *firsts;
};

/** First entry of slice `slice` of `slices` out of `count` entries; slice lengths differ by at most
 * one. */
static inline uint64_t rung__slice_begin(uint64_t count, int slice, int slices)
{
	const uint64_t s = (uint64_t)slice, more = count % (uint64_t)slices;

	return count / (uint64_t)slices * s + (s < more ? s : more);
}

/**
 * Counts of each slice to places: bucket by bucket, and inside a bucket slice by slice. So a slice
 * that writes its entries in order, each to the next place of its bucket, keeps the whole stable.
 *
 * @param counts  [slices][bucket_count] entries; they become places
 * @param firsts  [bucket_count + 1] gets where each bucket begins, and the number of all entries
 */
void rung__slice_starts(uint64_t *counts, uint32_t bucket_count, int slices, uint64_t *firsts);

/** Take starts and firsts for up to `bucket_count_max` buckets. */
int rung__partition_init(struct rung__partition *partition, uint32_t bucket_count_max, int threads);
/** Partition by keys, with each range of 1 << shift as a bucket. Other settings are changed
 * afterwards. */
void rung__partition_set(struct rung__partition *partition, unsigned id_bytes, uint64_t first,
                         uint64_t range, unsigned shift);
void rung__partition_fini(struct rung__partition *partition);

/**
 * Add the pairs of every bucket to starts[0, bucket_count), which rung__partition_clear() has made
 * 0.
 *
 * @return false when an id is outside of the range
 */
bool rung__partition_count(const struct rung__partition *partition,
                           const struct rung__pairs *pairs);
void rung__partition_clear(const struct rung__partition *partition);

/**
 * @param to  [pairs->count] key and value side by side, bucket by bucket
 * @return false when an id is outside of the range
 */
bool rung__partition_pairs(const struct rung__partition *partition, const struct rung__pairs *pairs,
                           void *to);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Grouping pairs in memory by ranges of their keys, in parallel and stable. Private to the
 * core. */
#ifndef RUNG_PARTITION_H
#define RUNG_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

/** Pair i is (keys[i * stride], values[i * stride]), ids of the graph's width; the value is an
 * in-neighbour of the key. */
struct rung__pairs {
	const void *keys, *values;
	uint64_t count;
	unsigned stride;
	bool skip_loops;  /* leave out pairs of equal ids (self loops) */
	const char *spec; /* name of their file, for messages */
};

typedef int (*rung__pairs_fn)(void *ctx, const struct rung__pairs *pairs);

struct rung__partition {
	unsigned id_bytes;
	bool by_value;         /* group by ranges of values instead of keys */
	uint64_t first, range; /* ids are in [first, first + range) */
	unsigned shift;
	/* [((range - 1) >> shift) + 1] bucket of each range; NULL: each range is a separate
	 * bucket */
	const uint32_t *bucket_of;
	uint32_t bucket_count;
	int threads;
	/* [threads][bucket_count] numbers of pairs; then the positions of each slice's next
	 * pairs */
	uint64_t *starts;
	/* [bucket_count + 1] start of each bucket in the output, and the end */
	uint64_t *firsts;
};

/** Divide `count` entries into `slices` slices, whose lengths differ by at most one. @return the
 * first entry of slice number `slice` */
static inline uint64_t rung__slice_begin(uint64_t count, int slice, int slices)
{
	const uint64_t s = (uint64_t)slice, more = count % (uint64_t)slices;

	return count / (uint64_t)slices * s + (s < more ? s : more);
}

/**
 * Convert the counts of each slice to output positions: bucket by bucket, and within a bucket slice
 * by slice. If each slice writes its entries in order, each to the next position of its bucket, the
 * result is stable.
 *
 * @param counts  [slices][bucket_count] numbers of entries, replaced by positions
 * @param firsts  [bucket_count + 1] written: first position of each bucket, and the total
 */
void rung__slice_starts(uint64_t *counts, uint32_t bucket_count, int slices, uint64_t *firsts);

/** Allocate starts and firsts for up to `bucket_count_max` buckets. @return 0 or RUNG_E_NOMEM */
int rung__partition_init(struct rung__partition *partition, uint32_t bucket_count_max, int threads);
/** Set up a partition by keys in which each range of 1 << shift is a bucket. Other settings can be
 * changed afterwards. */
void rung__partition_set(struct rung__partition *partition, unsigned id_bytes, uint64_t first,
                         uint64_t range, unsigned shift);
void rung__partition_fini(struct rung__partition *partition);

/**
 * Add the number of pairs of every bucket to `starts`, which rung__partition_clear() has set to 0.
 *
 * @return false when an id is out of range
 */
bool rung__partition_count(const struct rung__partition *partition,
                           const struct rung__pairs *pairs);
void rung__partition_clear(const struct rung__partition *partition);

/**
 * Count and write the pairs, bucket by bucket.
 *
 * @param to  [pairs->count] key and value next to each other
 * @return false when an id is out of range
 */
bool rung__partition_pairs(const struct rung__partition *partition, const struct rung__pairs *pairs,
                           void *to);

#endif

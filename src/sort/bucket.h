/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Storing (key, value) pairs in lists by key, in parallel and stable: the transposition of edges.
 * Private to the core.
 *
 * Writing pair by pair misses the cache on nearly every pair of a large graph. A chunk of pairs is
 * therefore first partitioned into buckets, which are ranges of keys. Then each bucket is written
 * by one thread, into a few thousand lists, whose ends are prefetched.
 */
#ifndef RUNG_BUCKET_H
#define RUNG_BUCKET_H

#include "sort/partition.h"

/*
 * 32 or 64 MiB of pairs. With 1 M vertices and 16 M edges, a chunk of 2^20 pairs has one
 * pair per list on average, and is as fast as the naive loop. A chunk of 2^22 has four per list,
 * and takes two thirds of the time, including the partition. 2^23 pairs are no faster.
 */
#define RUNG__CHUNK_PAIRS (UINT64_C(1) << 22)

struct rung__buckets {
	/* groups pairs by key; a bucket is a range of a few thousand keys */
	struct rung__partition partition;
	void *pairs; /* [RUNG__CHUNK_PAIRS] key, value */
};

/** Allocate the buckets for keys below `key_limit`. @return 0 or RUNG_E_NOMEM */
int rung__buckets_init(struct rung__buckets *buckets, uint64_t key_limit, unsigned index_bytes,
                       int threads);
void rung__buckets_fini(struct rung__buckets *buckets);

/**
 * Append every value to the list of its key: lists[next[key]++] = value, in the order of the pairs.
 *
 * @param keys    [count] of index_bytes, each below key_limit; count at most RUNG__CHUNK_PAIRS
 * @param next    [key_limit] position at which each list continues
 * @param ends    [key_limit] end of each list: a pair whose list is full is not written
 * @return pairs written: `count`, unless the keys differ from those that were counted
 */
uint64_t rung__buckets_place(const struct rung__buckets *buckets, const void *keys,
                             const void *values, uint64_t count, uint64_t *next,
                             const uint64_t *ends, void *lists);

/** counts[key]++ for every key, in parallel. */
void rung__count_keys(const void *keys, unsigned index_bytes, uint64_t count, int threads,
                      uint64_t *counts);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of a radix sort: every thread has a slice of the pairs; the positions of a bucket's
 * pairs follow from the counts of all slices.
 */
#include "base/base.h"
#include "sort/partition.h"

#include <string.h>

void rung__slice_starts(uint64_t *counts, uint32_t bucket_count, int slices, uint64_t *firsts)
{
	uint64_t sum = 0;

	for (uint32_t bucket = 0; bucket < bucket_count; bucket++) {
		firsts[bucket] = sum;
		for (int slice = 0; slice < slices; slice++) {
			uint64_t *start = &counts[(uint64_t)slice * bucket_count + bucket];
			const uint64_t here = *start;

			*start = sum;
			sum += here;
		}
	}
	firsts[bucket_count] = sum;
}

int rung__partition_init(struct rung__partition *partition, uint32_t bucket_count_max, int threads)
{
	*partition = (struct rung__partition){ .threads = threads };
	partition->starts =
		rung__malloc_array((uint64_t)threads * bucket_count_max, sizeof(uint64_t));
	partition->firsts = rung__malloc_array((uint64_t)bucket_count_max + 1, sizeof(uint64_t));
	if (partition->starts && partition->firsts)
		return 0;
	rung__partition_fini(partition);
	return rung__fail(RUNG_E_NOMEM,
	                  "edges: no memory for %" PRIu32 " buckets in each of %d threads",
	                  bucket_count_max, threads);
}

void rung__partition_fini(struct rung__partition *partition)
{
	rung__free(partition->starts);
	rung__free(partition->firsts);
	partition->starts = NULL;
	partition->firsts = NULL;
}

void rung__partition_set(struct rung__partition *partition, unsigned id_bytes, uint64_t first,
                         uint64_t range, unsigned shift)
{
	partition->id_bytes = id_bytes;
	partition->by_value = false;
	partition->first = first;
	partition->range = range;
	partition->shift = shift;
	partition->bucket_of = NULL;
	partition->bucket_count = (uint32_t)((range - 1) >> shift) + 1;
}

void rung__partition_clear(const struct rung__partition *p)
{
	memset(p->starts, 0, (uint64_t)p->threads * p->bucket_count * sizeof(*p->starts));
}

static inline uint64_t bucket_of(const struct rung__partition *p, uint64_t digit)
{
	return p->bucket_of ? p->bucket_of[digit >> p->shift] : digit >> p->shift;
}

/*
 * Count the pairs of a slice by bucket. Compiled separately for ids of 4 and of 8 bytes, so that
 * the loop has no branch on the width.
 * @return false: an id is out of range
 */
static inline __attribute__((always_inline)) bool count_slice(const struct rung__partition *p,
                                                              const struct rung__pairs *pairs,
                                                              unsigned id_bytes, int slice)
{
	const void *digits = p->by_value ? pairs->values : pairs->keys,
		   *others = p->by_value ? pairs->keys : pairs->values;
	const uint64_t end = rung__slice_begin(pairs->count, slice + 1, p->threads);
	uint64_t *counts = p->starts + (uint64_t)slice * p->bucket_count;

	for (uint64_t i = rung__slice_begin(pairs->count, slice, p->threads); i < end; i++) {
		const uint64_t id = rung__id_get(digits, id_bytes, i * pairs->stride),
			       digit = id - p->first;

		/* no such id was written to this file, so the file has changed */
		if (digit >= p->range)
			return false;
		if (!pairs->skip_loops || id != rung__id_get(others, id_bytes, i * pairs->stride))
			counts[bucket_of(p, digit)]++;
	}
	return true;
}

/* Write the pairs of a slice to their buckets, in order. */
static inline __attribute__((always_inline)) void partition_slice(const struct rung__partition *p,
                                                                  const struct rung__pairs *pairs,
                                                                  unsigned id_bytes, int slice,
                                                                  void *to)
{
	const uint64_t end = rung__slice_begin(pairs->count, slice + 1, p->threads);
	uint64_t *starts = p->starts + (uint64_t)slice * p->bucket_count;

	for (uint64_t i = rung__slice_begin(pairs->count, slice, p->threads); i < end; i++) {
		const uint64_t key = rung__id_get(pairs->keys, id_bytes, i * pairs->stride);
		const uint64_t value = rung__id_get(pairs->values, id_bytes, i * pairs->stride);
		uint64_t at;

		if (pairs->skip_loops && key == value)
			continue;
		at = 2 * starts[bucket_of(p, (p->by_value ? value : key) - p->first)]++;
		rung__id_set(to, id_bytes, at, key);
		rung__id_set(to, id_bytes, at + 1, value);
	}
}

bool rung__partition_count(const struct rung__partition *p, const struct rung__pairs *pairs)
{
	bool good = true;

#pragma omp parallel for num_threads(p->threads) schedule(static, 1) reduction(&& : good)
	for (int slice = 0; slice < p->threads; slice++)
		good = good && (p->id_bytes == 4 ? count_slice(p, pairs, 4, slice)
		                                 : count_slice(p, pairs, 8, slice));
	return good;
}

bool rung__partition_pairs(const struct rung__partition *p, const struct rung__pairs *pairs,
                           void *to)
{
	rung__partition_clear(p);
	if (!rung__partition_count(p, pairs))
		return false;
	rung__slice_starts(p->starts, p->bucket_count, p->threads, p->firsts);
#pragma omp parallel for num_threads(p->threads) schedule(static, 1)
	for (int slice = 0; slice < p->threads; slice++) {
		if (p->id_bytes == 4)
			partition_slice(p, pairs, 4, slice, to);
		else
			partition_slice(p, pairs, 8, slice, to);
	}
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of a radix sort: every thread has a slice of the pairs; where it writes those of a bucket follows from the histograms
 * of all slices, bucket by bucket and inside a bucket slice by slice.
 */
#include "base/base.h"
#include "sort/partition.h"

#include <string.h>

int rung__partition_init(struct rung__partition *partition, uint32_t bucket_count_max, int threads)
{
	*partition = (struct rung__partition){ .threads = threads };
	partition->starts = rung__malloc_array((uint64_t)threads * bucket_count_max, sizeof(uint64_t));
	partition->ends = rung__malloc_array(bucket_count_max, sizeof(uint64_t));
	if (partition->starts && partition->ends)
		return 0;
	rung__partition_fini(partition);
	return rung__fail(RUNG_E_NOMEM, "edges: no memory for %" PRIu32 " buckets of %d threads", bucket_count_max, threads);
}

void rung__partition_fini(struct rung__partition *partition)
{
	rung__free(partition->starts);
	rung__free(partition->ends);
	partition->starts = NULL;
	partition->ends = NULL;
}

void rung__partition_set(struct rung__partition *partition, unsigned id_bytes, uint64_t first, uint64_t range, unsigned shift)
{
	partition->id_bytes = id_bytes;
	partition->by_value = false;
	partition->first = first;
	partition->range = range;
	partition->shift = shift;
	partition->bucket_of = NULL;
	partition->bucket_count = (uint32_t)((range - 1) >> shift) + 1;
}

static uint64_t slice_begin(uint64_t count, int slice, int threads)
{
	return count / (uint64_t)threads * (uint64_t)slice + RUNG__MIN((uint64_t)slice, count % (uint64_t)threads);
}

static inline uint64_t bucket_of(const struct rung__partition *p, uint64_t digit)
{
	return p->bucket_of ? p->bucket_of[digit >> p->shift] : digit >> p->shift;
}

/* Written once for ids of 4 and of 8 bytes: the compiler drops the choice inside the loops. */
static inline __attribute__((always_inline)) bool
count_slice(const struct rung__partition *p, const struct rung__pairs *pairs, unsigned id_bytes, int slice)
{
	const void *digits = p->by_value ? pairs->values : pairs->keys, *others = p->by_value ? pairs->keys : pairs->values;
	const uint64_t end = slice_begin(pairs->count, slice + 1, p->threads);
	uint64_t *histogram = p->starts + (uint64_t)slice * p->bucket_count;

	memset(histogram, 0, p->bucket_count * sizeof(*histogram));
	for (uint64_t i = slice_begin(pairs->count, slice, p->threads); i < end; i++) {
		const uint64_t id = rung__id_get(digits, id_bytes, i * pairs->stride), digit = id - p->first;

		if (digit >= p->range)
			return false;
		if (!pairs->skip_loops || id != rung__id_get(others, id_bytes, i * pairs->stride))
			histogram[bucket_of(p, digit)]++;
	}
	return true;
}

static inline __attribute__((always_inline)) void
deal_slice(const struct rung__partition *p, const struct rung__pairs *pairs, unsigned id_bytes, int slice, void *to)
{
	const uint64_t end = slice_begin(pairs->count, slice + 1, p->threads);
	uint64_t *starts = p->starts + (uint64_t)slice * p->bucket_count;

	for (uint64_t i = slice_begin(pairs->count, slice, p->threads); i < end; i++) {
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

static void sum_up(const struct rung__partition *p)
{
	uint64_t sum = 0;

	for (uint32_t bucket = 0; bucket < p->bucket_count; bucket++) {
		for (int slice = 0; slice < p->threads; slice++) {
			uint64_t *start = &p->starts[(uint64_t)slice * p->bucket_count + bucket];
			const uint64_t here = *start;

			*start = sum;
			sum += here;
		}
		p->ends[bucket] = sum;
	}
}

bool rung__partition_pairs(const struct rung__partition *p, const struct rung__pairs *pairs, void *to)
{
	bool good = true;

#pragma omp parallel for num_threads(p->threads) schedule(static, 1) reduction(&& : good)
	for (int slice = 0; slice < p->threads; slice++)
		good = good && (p->id_bytes == 4 ? count_slice(p, pairs, 4, slice) : count_slice(p, pairs, 8, slice));
	if (!good)
		return false;
	sum_up(p);
#pragma omp parallel for num_threads(p->threads) schedule(static, 1)
	for (int slice = 0; slice < p->threads; slice++) {
		if (p->id_bytes == 4)
			deal_slice(p, pairs, 4, slice, to);
		else
			deal_slice(p, pairs, 8, slice, to);
	}
	return true;
}

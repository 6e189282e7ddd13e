/* SPDX-License-Identifier: Apache-2.0 */
/* Stable parallel placing of pairs into lists by key, chunk by chunk through buckets of neighbouring keys. */
#include "sort/bucket.h"

#include <assert.h>
#include <string.h>

#define BUCKETS_MAX 1024u        /* more write streams than this cost more than they save */
#define AHEAD_PAIRS 16u          /* pairs ahead whose place in its list is fetched */
#define BUCKET_KEYS_MIN 4096u    /* lists of one bucket: their ends fit the second-level cache */

int rung__buckets_init(struct rung__buckets *buckets, uint64_t key_limit, unsigned index_bytes, int threads)
{
	const uint64_t key_max = key_limit ? key_limit - 1 : 0;
	unsigned shift = 0;

	while (shift < 63 && (UINT64_C(1) << shift) < BUCKET_KEYS_MIN)
		shift++;
	while (key_max >> shift >= BUCKETS_MAX)
		shift++;
	*buckets = (struct rung__buckets){
		.index_bytes = index_bytes, .shift = shift, .bucket_count = (uint32_t)(key_max >> shift) + 1, .threads = threads,
	};
	buckets->starts = rung__malloc_array((uint64_t)threads * buckets->bucket_count, sizeof(uint32_t));
	buckets->ends = rung__malloc_array(buckets->bucket_count, sizeof(uint32_t));
	buckets->pairs = rung__malloc_array(RUNG__CHUNK_PAIRS, 2 * (size_t)index_bytes);
	if (buckets->starts && buckets->ends && buckets->pairs)
		return 0;
	rung__buckets_fini(buckets);
	return rung__fail(RUNG_E_NOMEM, "turning edges: no memory for %" PRIu64 " pairs and %" PRIu32 " buckets of %d threads",
	                  RUNG__CHUNK_PAIRS, (uint32_t)(key_max >> shift) + 1, threads);
}

void rung__buckets_fini(struct rung__buckets *buckets)
{
	rung__free(buckets->starts);
	rung__free(buckets->ends);
	rung__free(buckets->pairs);
	*buckets = (struct rung__buckets){ 0 };
}

/* The part of a chunk that slice `slice` of `threads` deals; slices in order make the result stable. */
static uint64_t slice_begin(uint64_t count, int slice, int threads)
{
	return count / (uint64_t)threads * (uint64_t)slice + RUNG__MIN((uint64_t)slice, count % (uint64_t)threads);
}

/* Written once for ids of 4 and of 8 bytes: the compiler drops the choice inside the loops. */
static inline __attribute__((always_inline)) void
count_slice(const struct rung__buckets *b, const void *keys, unsigned index_bytes, uint64_t count, int slice)
{
	uint32_t *histogram = b->starts + (uint64_t)slice * b->bucket_count;
	const uint64_t end = slice_begin(count, slice + 1, b->threads);

	memset(histogram, 0, b->bucket_count * sizeof(*histogram));
	for (uint64_t i = slice_begin(count, slice, b->threads); i < end; i++)
		histogram[rung__id_get(keys, index_bytes, i) >> b->shift]++;
}

static inline __attribute__((always_inline)) void
deal_slice(const struct rung__buckets *b, const void *keys, const void *values, unsigned index_bytes, uint64_t count, int slice)
{
	uint32_t *starts = b->starts + (uint64_t)slice * b->bucket_count;
	const uint64_t end = slice_begin(count, slice + 1, b->threads);

	for (uint64_t i = slice_begin(count, slice, b->threads); i < end; i++) {
		const uint64_t key = rung__id_get(keys, index_bytes, i);
		const uint64_t at = 2 * (uint64_t)starts[key >> b->shift]++;

		rung__id_set(b->pairs, index_bytes, at, key);
		rung__id_set(b->pairs, index_bytes, at + 1, rung__id_get(values, index_bytes, i));
	}
}

static inline __attribute__((always_inline)) uint64_t
place_bucket(const struct rung__buckets *b, uint32_t bucket, unsigned index_bytes, uint64_t *next, const uint64_t *ends,
             void *lists)
{
	const uint64_t first = bucket ? b->ends[bucket - 1] : 0;
	uint64_t placed = 0;

	for (uint64_t i = first; i < b->ends[bucket]; i++) {
		const uint64_t key = rung__id_get(b->pairs, index_bytes, 2 * i);
		const uint64_t at = next[key];

		if (i + AHEAD_PAIRS < b->ends[bucket]) {
			const uint64_t key_ahead = rung__id_get(b->pairs, index_bytes, 2 * (i + AHEAD_PAIRS));

			__builtin_prefetch((const char *)lists + next[key_ahead] * index_bytes, 1);
		}
		if (at >= ends[key])
			continue;
		rung__id_set(lists, index_bytes, at, rung__id_get(b->pairs, index_bytes, 2 * i + 1));
		next[key] = at + 1;
		placed++;
	}
	return placed;
}

/* Histograms of all slices to starting places: bucket by bucket, and inside a bucket slice by slice. */
static void sum_up(const struct rung__buckets *b)
{
	uint32_t sum = 0;

	for (uint32_t bucket = 0; bucket < b->bucket_count; bucket++) {
		for (int slice = 0; slice < b->threads; slice++) {
			uint32_t *start = &b->starts[(uint64_t)slice * b->bucket_count + bucket];
			const uint32_t here = *start;

			*start = sum;
			sum += here;
		}
		b->ends[bucket] = sum;
	}
}

uint64_t rung__buckets_place(const struct rung__buckets *b, const void *keys, const void *values, uint64_t count,
                             uint64_t *next, const uint64_t *ends, void *lists)
{
	uint64_t placed = 0;

	assert(count <= RUNG__CHUNK_PAIRS);
#pragma omp parallel for num_threads(b->threads) schedule(static, 1)
	for (int slice = 0; slice < b->threads; slice++) {
		if (b->index_bytes == 4)
			count_slice(b, keys, 4, count, slice);
		else
			count_slice(b, keys, 8, count, slice);
	}
	sum_up(b);
#pragma omp parallel for num_threads(b->threads) schedule(static, 1)
	for (int slice = 0; slice < b->threads; slice++) {
		if (b->index_bytes == 4)
			deal_slice(b, keys, values, 4, count, slice);
		else
			deal_slice(b, keys, values, 8, count, slice);
	}
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1) reduction(+ : placed)
	for (uint32_t bucket = 0; bucket < b->bucket_count; bucket++) {
		if (b->index_bytes == 4)
			placed += place_bucket(b, bucket, 4, next, ends, lists);
		else
			placed += place_bucket(b, bucket, 8, next, ends, lists);
	}
	return placed;
}

void rung__count_keys(const void *keys, unsigned index_bytes, uint64_t count, int threads, uint64_t *counts)
{
	if (threads == 1) {   /* without the price of atomic additions */
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranking by descending score: a parallel least-significant-digit radix sort, three passes of 11 bits. Every thread has a
 * slice of the input; where it writes a digit follows from the histograms of all slices, digit by digit and inside a digit
 * slice by slice. So the sort is stable, and with ids as the first order, ties stand by ascending id for any thread count.
 */
#include <string.h>

#include "internal.h"
#include "radix.h"
#include "rung/rank.h"

#define PASSES 3u

struct ranking {
	uint64_t count;
	unsigned index_bytes;
	int threads;
	uint64_t *starts;   /* [threads][RUNG__RADIX_SIZE] */
};

/* Ascending keys are descending scores. NaN gets the largest key, which no number has; -0.0 the key of 0.0. */
static uint32_t key_of(float score)
{
	uint32_t bits;

	if (score != score)
		return UINT32_MAX;
	if (score == 0)
		score = 0;
	memcpy(&bits, &score, sizeof(bits));
	return bits >> 31 ? bits : ~(bits | UINT32_C(1) << 31);
}

static uint64_t slice_begin(const struct ranking *rk, int slice)
{
	const uint64_t threads = (uint64_t)rk->threads, s = (uint64_t)slice;

	return rk->count / threads * s + RUNG__MIN(s, rk->count % threads);
}

static void count_digits(const struct ranking *rk, const uint32_t *keys, unsigned shift)
{
#pragma omp parallel for num_threads(rk->threads) schedule(static, 1)
	for (int slice = 0; slice < rk->threads; slice++) {
		uint64_t *histogram = rk->starts + (uint64_t)slice * RUNG__RADIX_SIZE;
		const uint64_t end = slice_begin(rk, slice + 1);

		memset(histogram, 0, RUNG__RADIX_SIZE * sizeof(*histogram));
		for (uint64_t i = slice_begin(rk, slice); i < end; i++)
			histogram[keys[i] >> shift & (RUNG__RADIX_SIZE - 1)]++;
	}
}

static void sum_up(const struct ranking *rk)
{
	uint64_t sum = 0;

	for (uint32_t digit = 0; digit < RUNG__RADIX_SIZE; digit++) {
		for (int slice = 0; slice < rk->threads; slice++) {
			uint64_t *start = &rk->starts[(uint64_t)slice * RUNG__RADIX_SIZE + digit];
			const uint64_t here = *start;

			*start = sum;
			sum += here;
		}
	}
}

/* ids NULL: they are 0, 1, 2 …  keys_to NULL: the last pass needs none. */
static void move(const struct ranking *rk, unsigned shift, const uint32_t *keys, const void *ids, uint32_t *keys_to, void *ids_to)
{
#pragma omp parallel for num_threads(rk->threads) schedule(static, 1)
	for (int slice = 0; slice < rk->threads; slice++) {
		uint64_t *starts = rk->starts + (uint64_t)slice * RUNG__RADIX_SIZE;
		const uint64_t end = slice_begin(rk, slice + 1);

		for (uint64_t i = slice_begin(rk, slice); i < end; i++) {
			const uint64_t at = starts[keys[i] >> shift & (RUNG__RADIX_SIZE - 1)]++;

			if (keys_to)
				keys_to[at] = keys[i];
			rung__id_set(ids_to, rk->index_bytes, at, ids ? rung__id_get(ids, rk->index_bytes, i) : i);
		}
	}
}

static void pass(const struct ranking *rk, unsigned digit, const uint32_t *keys, const void *ids, uint32_t *keys_to, void *ids_to)
{
	const unsigned shift = digit * RUNG__RADIX_BITS;

	count_digits(rk, keys, shift);
	sum_up(rk);
	move(rk, shift, keys, ids, keys_to, ids_to);
}

static void invert(const struct ranking *rk, const void *vertex_of_rank, void *rank_of_vertex)
{
#pragma omp parallel for num_threads(rk->threads) schedule(static)
	for (uint64_t r = 0; r < rk->count; r++)
		rung__id_set(rank_of_vertex, rk->index_bytes, rung__id_get(vertex_of_rank, rk->index_bytes, r), r);
}

int rung_rank_order(const float *score, uint64_t vertex_count, unsigned index_bytes, uint32_t threads, void *vertex_of_rank,
                    void *rank_of_vertex)
{
	struct ranking rk = { .count = vertex_count, .index_bytes = index_bytes, .threads = rung__threads(threads) };
	uint32_t *keys, *keys_tmp;
	void *ids_tmp;
	int rc = 0;

	_Static_assert(PASSES * RUNG__RADIX_BITS >= 32, "the passes cover a float");
	if ((index_bytes != 4 && index_bytes != 8) || index_bytes < rung_index_bytes(vertex_count))
		return rung__fail(RUNG_E_INVAL, "ranking %" PRIu64 " vertices: index_bytes is %u: it is 4 up to 2^32 vertices, or 8",
		                  vertex_count, index_bytes);
	keys = rung__malloc_array(vertex_count, sizeof(*keys));
	keys_tmp = rung__malloc_array(vertex_count, sizeof(*keys_tmp));
	ids_tmp = rung__malloc_array(vertex_count, index_bytes);
	rk.starts = rung__malloc_array((uint64_t)rk.threads * RUNG__RADIX_SIZE, sizeof(*rk.starts));
	if (!keys || !keys_tmp || !ids_tmp || !rk.starts) {
		rc = rung__fail(RUNG_E_NOMEM, "ranking %" PRIu64 " vertices: no memory", vertex_count);
		goto out;
	}
#pragma omp parallel for num_threads(rk.threads) schedule(static)
	for (uint64_t v = 0; v < vertex_count; v++)
		keys[v] = key_of(score[v]);
	pass(&rk, 0, keys, NULL, keys_tmp, vertex_of_rank);
	pass(&rk, 1, keys_tmp, vertex_of_rank, keys, ids_tmp);
	pass(&rk, 2, keys, ids_tmp, NULL, vertex_of_rank);
	if (rank_of_vertex)
		invert(&rk, vertex_of_rank, rank_of_vertex);
out:
	rung__free(keys);
	rung__free(keys_tmp);
	rung__free(ids_tmp);
	rung__free(rk.starts);
	return rc;
}

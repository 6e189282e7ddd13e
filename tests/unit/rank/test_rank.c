/* SPDX-License-Identifier: Apache-2.0 */
/* Ranking and the radix sorts, against qsort with an explicit order. */
#include <math.h>

#include "graphs.h"
#include "base/base.h"
#include "sort/radix.h"
#include "rank/rank_cuts.h"
#include "rank/state.h"
#include "rung/rank.h"

static const float *compared_scores;

static int by_score_then_id(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	const float sx = compared_scores[x], sy = compared_scores[y];

	if (isnan(sx) != isnan(sy))
		return isnan(sx) ? 1 : -1;
	if (!isnan(sx) && sx != sy)
		return sx > sy ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void assert_ranked(const float *score, uint64_t count, unsigned index_bytes,
                          struct rung__rank_measures measures, uint32_t threads)
{
	uint64_t *order = malloc(count * sizeof(*order) + 1);
	void *vertex_of_rank = malloc(count * index_bytes + 1),
	     *rank_of_vertex = malloc(count * index_bytes + 1);

	for (uint64_t v = 0; v < count; v++)
		order[v] = v;
	compared_scores = score;
	qsort(order, count, sizeof(*order), by_score_then_id);
	cr_assert_eq(rung__rank_order(score, count, index_bytes, threads, &measures, vertex_of_rank,
	                              rank_of_vertex),
	             0, "%s", rung_last_error());
	for (uint64_t r = 0; r < count; r++) {
		cr_assert_eq(test_id(vertex_of_rank, index_bytes, r), order[r],
		             "rank %d of %d, %u threads", (int)r, (int)count, threads);
		cr_assert_eq(test_id(rank_of_vertex, index_bytes, order[r]), r);
	}
	free(order);
	free(vertex_of_rank);
	free(rank_of_vertex);
}

static void assert_ranked_as_by_qsort(const float *score, uint64_t count, unsigned index_bytes,
                                      bool wide, uint32_t threads)
{
	const struct rung__rank_measures measures = { .bucket_scores = RUNG__BUCKET_SCORES,
		                                      .wide = wide };

	assert_ranked(score, count, index_bytes, measures, threads);
}

Test(rank, the_two_maps_of_a_permutation_that_is_not_its_own_inverse)
{
	const float score[] = { 0.1f, 0.4f, 0.2f, 0.3f };
	const uint32_t vertices[] = { 1, 3, 2, 0 }, ranks[] = { 3, 0, 2, 1 };
	uint32_t vertex_of_rank[4], rank_of_vertex[4];

	cr_assert_eq(rung_rank_order(score, 4, 4, 0, vertex_of_rank, rank_of_vertex), 0);
	cr_assert_arr_eq(vertex_of_rank, vertices, sizeof(vertices));
	cr_assert_arr_eq(rank_of_vertex, ranks, sizeof(ranks));
}

Test(rank, ties_are_ordered_by_id_zeros_are_equal_and_nan_is_last)
{
	const float score[] = { NAN,  -0.0f, 0.0f,   INFINITY, -INFINITY, -1.0f,
		                0.0f, -NAN,  1e-45f, -1e-45f,  -0.0f,     3.4e38f };
	const uint64_t vertices[] = { 3, 11, 8, 1, 2, 6, 10, 9, 5, 4, 0, 7 };
	uint64_t vertex_of_rank[12];

	cr_assert_eq(rung_rank_order(score, 12, 8, 3, vertex_of_rank, NULL), 0);
	cr_assert_arr_eq(vertex_of_rank, vertices, sizeof(vertices));
}

Test(rank, ranking_equals_qsort_for_any_count_width_and_threads)
{
	const uint64_t counts[] = { 0, 1, 2, 5, 63, 2049, 30011 };
	float *score = malloc(30011 * sizeof(*score));
	uint64_t state = 77;

	for (size_t c = 0; c < RUNG__ARRAY_LEN(counts); c++) {
		for (int kind = 0; kind < 3; kind++) {
			for (uint64_t v = 0; v < counts[c]; v++) {
				uint32_t bits = (uint32_t)(test_random(&state) >> 32);

				if (kind == 0)
					score[v] = (float)(bits % 7); /* many ties */
				else if (kind == 1)
					score[v] = (float)bits * 1e-9f;
				else
					/* any float value */
					memcpy(&score[v], &bits, sizeof(bits));
			}
			for (uint32_t threads = 1; threads <= 7; threads += 2)
				assert_ranked_as_by_qsort(score, counts[c],
				                          threads % 4 == 1 ? 4 : 8, threads == 7,
				                          threads);
		}
	}
	free(score);
}

/* Enough keys for streaming stores of whole lines, to addresses that are not multiples of a
 * line. */
Test(rank, many_scores_are_ranked_like_few)
{
	const uint64_t count = 270001;
	float *score = malloc(count * sizeof(*score));
	uint64_t state = 5;

	for (int kind = 0; kind < 3; kind++) {
		for (uint64_t v = 0; v < count; v++) {
			const double draw = (double)(test_random(&state) >> 40) + 1;

			score[v] = kind == 0   ? (float)draw * 1e-7f
			           : kind == 1 ? (float)(1e9 / (draw * draw))
			                       : (float)(uint32_t)(1e7 / draw);
		}
		assert_ranked_as_by_qsort(score, count, kind == 1 ? 8 : 4, false, 3);
		assert_ranked_as_by_qsort(score, count, 8, true, (uint32_t)kind + 1);
	}
	free(score);
}

static float float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Scores for which a sample, or a range of bits, predicts the distribution badly. */
static float draw_of_kind(int kind, uint64_t v, uint64_t *state)
{
	const uint32_t bits = (uint32_t)(test_random(state) >> 32);

	switch (kind) {
	case 0: /* all equal */
		return 0.25f;
	case 1: /* two values */
		return bits % 2 ? 0.25f : 0.75f;
	case 2: /* mostly one value, few others next to it and far away */
		return bits % 64    ? 1.0f
		       : bits % 128 ? float_of(0x3f800000 + (bits >> 29))
		                    : (float)bits;
	case 3: /* close together, except one far away */
		return v == 5 ? -3e30f : float_of(0x3f800000 + bits % 3000);
	case 4: /* ascending, many of them zero */
		return bits % 3 ? (float)v : 0.0f;
	case 5: /* mostly NaN */
		return bits % 16 ? NAN : (float)bits;
	default: /* mostly zero; a sample may miss the one in a thousand that is not */
		return bits % 1000 ? 0.0f : float_of(bits >> 2);
	}
}

Test(rank, skewed_scores_are_ranked_in_many_buckets)
{
	const uint64_t count = 20011;
	float *score = malloc(count * sizeof(*score));
	uint64_t state = 9;

	for (int kind = 0; kind < 7; kind++) {
		for (uint64_t v = 0; v < count; v++)
			score[v] = draw_of_kind(kind, v, &state);
		for (uint32_t threads = 1; threads <= 4; threads++) {
			const struct rung__rank_measures measures = { .bucket_scores =
				                                              32u << 2 * threads,
				                                      .wide = threads == 3 };

			assert_ranked(score, count, threads == 2 ? 4 : 8, measures, threads);
		}
	}
	free(score);
}

/* Two buckets are cut by a sample of 64 scores. Here these are all equal, so one bucket gets them
 * and the other all the rest. */
Test(rank, an_oversized_bucket_is_ranked)
{
	const uint64_t part = 500, count = 64 * part;
	float *score = malloc(count * sizeof(*score));
	struct rung__cuts cuts;

	for (uint64_t v = 0; v < count; v++) {
		const bool drawn = v % part == rung__mix64(v / part) % part;

		score[v] = drawn ? 1e30f : float_of(0x3f000000 + (uint32_t)(rung__mix64(v) >> 40));
	}
	cr_assert(rung__cuts_init(&cuts, score, count, 2));
	for (uint64_t v = 0; v < count; v++)
		cr_assert_eq(rung__cuts_find(&cuts, rung__rank_key(score[v])),
		             score[v] == 1e30f ? 1 : 2);
	rung__cuts_fini(&cuts);
	assert_ranked(score, count, 4, (struct rung__rank_measures){ .bucket_scores = count - 1 },
	              2);
	free(score);
}

Test(rank, there_may_be_more_threads_than_scores)
{
	const float score[] = { 1, 3, 2 };

	assert_ranked_as_by_qsort(score, 3, 4, false, 50);
	assert_ranked_as_by_qsort(score, 1, 8, true, 50);
}

/* The bucket found for a key must contain it. A key with more entries than a bucket holds has a
 * separate bucket. */
Test(rank, every_key_is_in_its_bucket)
{
	const uint64_t count = 20000;
	float *score = malloc(count * sizeof(*score));
	uint64_t state = 3;

	for (int kind = 0; kind < 7; kind++) {
		struct rung__cuts cuts;

		for (uint64_t v = 0; v < count; v++)
			score[v] = draw_of_kind(kind, v, &state);
		cr_assert(rung__cuts_init(&cuts, score, count, 50));
		cr_assert_eq(cuts.last[cuts.count - 1], UINT32_MAX);
		for (uint64_t i = 0; i < 2 * count; i++) {
			const uint32_t key = i < count ? rung__rank_key(score[i])
			                               : (uint32_t)(test_random(&state) >> 32);
			const uint32_t bucket = rung__cuts_find(&cuts, key);

			cr_assert_lt(bucket, cuts.count);
			cr_assert(key >= rung__cuts_first(&cuts, bucket) &&
			          key <= cuts.last[bucket]);
		}
		if (kind <= 2) {
			const uint32_t key = rung__rank_key(kind == 2 ? 1.0f : 0.25f),
				       bucket = rung__cuts_find(&cuts, key);

			cr_assert(key == rung__cuts_first(&cuts, bucket) &&
			          key == cuts.last[bucket]);
		}
		rung__cuts_fini(&cuts);
	}
	free(score);
}

Test(rank, four_bytes_do_not_hold_ids_above_two_to_the_32)
{
	cr_assert_eq(rung_rank_order(NULL, (UINT64_C(1) << 32) + 1, 4, 1, NULL, NULL),
	             RUNG_E_INVAL);
	cr_assert_eq(rung_rank_order(NULL, 1, 2, 1, NULL, NULL), RUNG_E_INVAL);
}

Test(rank, every_allocation_may_fail)
{
	const float score[] = { 1, 2, 3 };
	uint32_t vertex_of_rank[3], rank_of_vertex[3];
	int64_t limit = 0;
	int rc;

	for (;; limit++) {
		rung__alloc_limit(limit);
		rc = rung_rank_order(score, 3, 4, 2, vertex_of_rank, rank_of_vertex);
		rung__alloc_limit(-1);
		if (rc == 0)
			break;
		cr_assert_eq(rc, RUNG_E_NOMEM);
	}
	/* the allocations: five of the cuts, starts, firsts, cursors, pairs, rooms */
	cr_assert_eq(limit, 10);
}

struct pair {
	uint64_t key;
	uint32_t payload;
};

static int by_key_then_payload(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->payload < y->payload ? -1 : x->payload > y->payload;
}

Test(rank, pairs_are_sorted_stably_for_any_count_and_key_width)
{
	const uint64_t counts[] = { 0, 1, 2, 63, 64, 65, 1000, 40000 };
	const unsigned widths[] = { 1, 5, 11, 12, 22, 23, 33, 40, 63, 64 };
	uint64_t *keys = malloc(40000 * sizeof(*keys)), *keys_tmp = malloc(40000 * sizeof(*keys));
	uint32_t *payload = malloc(40000 * sizeof(*payload)),
		 *payload_tmp = malloc(40000 * sizeof(*payload));
	struct pair *pairs = malloc(40000 * sizeof(*pairs));
	uint64_t state = 31;

	for (size_t c = 0; c < RUNG__ARRAY_LEN(counts); c++) {
		for (size_t w = 0; w < RUNG__ARRAY_LEN(widths); w++) {
			const uint64_t mask =
				widths[w] == 64 ? UINT64_MAX : (UINT64_C(1) << widths[w]) - 1;
			/* some digits are equal in all keys */
			const uint64_t sparse = w % 2 ? UINT64_MAX : UINT64_C(0xf0f0f00ff00f0ff1);

			for (uint64_t i = 0; i < counts[c]; i++) {
				keys[i] = pairs[i].key = test_random(&state) & mask & sparse;
				/* ascending: a stable sort keeps them so */
				payload[i] = pairs[i].payload = (uint32_t)i;
			}
			qsort(pairs, counts[c], sizeof(*pairs), by_key_then_payload);
			rung__radix_sort_pairs(keys, payload, keys_tmp, payload_tmp, counts[c],
			                       widths[w]);
			for (uint64_t i = 0; i < counts[c]; i++) {
				cr_assert_eq(keys[i], pairs[i].key, "key %d of %d, %u bits", (int)i,
				             (int)counts[c], widths[w]);
				cr_assert_eq(payload[i], pairs[i].payload,
				             "payload %d of %d, %u bits", (int)i, (int)counts[c],
				             widths[w]);
			}
		}
	}
	free(keys);
	free(keys_tmp);
	free(payload);
	free(payload_tmp);
	free(pairs);
}

Test(rank, pairs_are_compared_by_the_given_bits_only)
{
	for (uint64_t count = 10; count <= 100; count += 90) {
		uint64_t keys[100], keys_tmp[100];
		uint32_t payload[100], payload_tmp[100];

		for (uint64_t i = 0; i < count; i++) {
			keys[i] = (count - i) << 20 | (i % 2);
			payload[i] = (uint32_t)i;
		}
		rung__radix_sort_pairs(keys, payload, keys_tmp, payload_tmp, count, 20);
		for (uint64_t i = 0; i < count; i++)
			cr_assert_eq(payload[i], i < count / 2 ? 2 * i : 2 * (i - count / 2) + 1);
	}
}

static int by_low_bits_then_high(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	if ((uint32_t)x != (uint32_t)y)
		return (uint32_t)x < (uint32_t)y ? -1 : 1;
	return (x > y) - (x < y);
}

Test(rank, keys_alone_are_sorted_stably_into_either_array)
{
	const uint64_t counts[] = { 0, 1, 2, 63, 64, 65, 1000, 40000 };
	/* zero to three digits */
	const uint32_t masks[] = { 0, 1, 0x7ff, 0xfff, 0xf0f0f, 0x3fffff, UINT32_MAX };
	uint64_t *first = malloc(40000 * sizeof(*first)), *second = malloc(40000 * sizeof(*second));
	uint64_t *sorted = malloc(40000 * sizeof(*sorted)), state = 32;
	bool stayed = false, moved = false;

	for (size_t c = 0; c < RUNG__ARRAY_LEN(counts); c++) {
		for (size_t m = 0; m < RUNG__ARRAY_LEN(masks); m++) {
			uint64_t *keys = first, *keys_tmp = second;

			/* bits that are not compared ascend; a stable sort preserves that */
			for (uint64_t i = 0; i < counts[c]; i++)
				keys[i] = sorted[i] = i << 32 | (test_random(&state) & masks[m]);
			qsort(sorted, counts[c], sizeof(*sorted), by_low_bits_then_high);
			rung__radix_sort_keys(&keys, &keys_tmp, counts[c], 32);
			cr_assert((keys == first && keys_tmp == second) ||
			          (keys == second && keys_tmp == first));
			stayed |= keys == first;
			moved |= keys == second;
			for (uint64_t i = 0; i < counts[c]; i++)
				cr_assert_eq(keys[i], sorted[i], "key %d of %d, mask %x", (int)i,
				             (int)counts[c], masks[m]);
		}
	}
	cr_assert(stayed && moved);
	free(first);
	free(second);
	free(sorted);
}

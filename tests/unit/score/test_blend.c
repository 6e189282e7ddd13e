/* SPDX-License-Identifier: Apache-2.0 */
/* Blend: an example worked out by hand, a naive computation that visits all vertices for each bin,
 * and counts drawn from a known truth. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score/presample.h"

struct counted {
	uint64_t count;
	float *expected;
	float *score;
	double *truth;
	uint32_t *counts, *apart;
	struct rung__blend_counts runs;
};

static struct counted make_counted(uint64_t count, uint64_t batches, uint64_t repeated,
                                   uint64_t epoch_batches)
{
	struct counted c = { .count = count,
		             .expected = calloc(count, 4),
		             .score = calloc(count, 4),
		             .truth = calloc(count, 8),
		             .counts = calloc(count, 4),
		             .apart = calloc(count, 4) };

	cr_assert(c.expected && c.score && c.truth && c.counts && c.apart);
	c.runs = (struct rung__blend_counts){ c.counts, batches, c.apart, repeated, epoch_batches };
	return c;
}

static void free_counted(struct counted *c)
{
	free(c->expected);
	free(c->score);
	free(c->truth);
	free(c->counts);
	free(c->apart);
}

static void blend(struct counted *c, int threads)
{
	memcpy(c->score, c->expected, c->count * sizeof(*c->score));
	cr_assert_eq(rung__blend_correct(&c->runs, c->count, threads, c->score), 0);
}

static double uniform(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (double)(*state * UINT64_C(2685821657736338717) >> 11) / 9007199254740992.0;
}

/* The truth is within a factor of four of the prediction, which spans four orders of magnitude and
 * is 1.5 times too large. The share `drawn` of the batches of a vertex results from draws, the rest
 * from seeds: with the same seeds, these are the same batches. */
static struct counted draw_counted(uint64_t count, uint64_t batches, uint64_t repeated,
                                   double drawn, uint64_t seed)
{
	struct counted c = make_counted(count, batches, repeated, 1000000007);
	uint64_t state = seed * 2 + 1;

	for (uint64_t v = 0; v < count; v++) {
		const double p = pow(10, -4 * uniform(&state)) / 6;

		c.expected[v] = (float)-log1p(-1.5 * p);
		c.truth[v] = fmin(1, p * pow(4, 2 * uniform(&state) - 1));
		for (uint64_t b = 0; b < batches; b++) {
			const uint32_t held = uniform(&state) < c.truth[v];

			c.counts[v] += held;
			if (b < repeated)
				c.apart[v] += held - (uniform(&state) < drawn
				                              ? uniform(&state) < c.truth[v]
				                              : held);
		}
	}
	return c;
}

/*
 * Four vertices, all predicted 1/2; m = 1 3/4 1/4 0 over four batches, one of which was repeated
 * with different results for vertices 1 and 2. g = (2 + 1/4) / (2 + 1/4) = 1, total = 1/4 + 1/16 +
 * 1/16 + 1/4 = 5/8; B = 3/8 / 3 = 1/8; the share of the draws is (2 + 4) / (1 + 4), limited to 1:
 * noise = 1/8 + 1/16 = 3/16, w = 7/10: p = 1/2 + 7/10 (m - 1/2) = 17/20 27/40 13/40 3/20.
 *
 * Without differences, the share of the draws is 4 / (1 + 4). An epoch of 8 batches is half done:
 * h = f = 1/2, h (1 - h) / f = 1/2. noise = 1/8 (4/5 + 1/5 / 2) + 1/16 = 7/40, w = 18/25.
 */
Test(blend, four_vertices_worked_out_by_hand)
{
	const uint32_t counts[4] = { 4, 3, 1, 0 }, otherwise[4] = { 0, 1, UINT32_MAX, 0 },
		       same[4] = { 0 };
	const double p[4] = { 17.0 / 20, 27.0 / 40, 13.0 / 40, 3.0 / 20 }, w = 18.0 / 25;
	float score[4] = { logf(2), logf(2), logf(2), logf(2) };

	cr_assert_eq(rung__blend_correct(&(struct rung__blend_counts){ counts, 4, otherwise, 1, 2 },
	                                 4, 1, score),
	             0);
	for (int v = 0; v < 4; v++)
		cr_assert_float_eq(-expm1(-(double)score[v]), p[v], 1e-6, "vertex %d: %g", v,
		                   (double)score[v]);
	for (int v = 0; v < 4; v++)
		score[v] = logf(2);
	cr_assert_eq(rung__blend_correct(&(struct rung__blend_counts){ counts, 4, same, 1, 8 }, 4,
	                                 1, score),
	             0);
	for (int v = 0; v < 4; v++)
		cr_assert_float_eq(-expm1(-(double)score[v]), 0.5 + w * (counts[v] / 4.0 - 0.5),
		                   1e-6);
}

static uint32_t exponent_and_three_bits(float x)
{
	int exponent;
	const double mantissa = frexp((double)x, &exponent); /* 1/2 to 1 */

	return (uint32_t)((exponent + 200) * 8 + (int)((mantissa - 0.5) * 16));
}

struct naive {
	double vertices, counted, independent, predicted, events;
};

static double share(const struct counted *c, uint64_t v)
{
	return c->counts[v] / (double)c->runs.batches;
}

static double prediction(const struct counted *c, uint64_t v)
{
	return -expm1(-(double)c->expected[v]);
}

static struct naive sum_up(const struct counted *c, const uint32_t *bins, uint32_t low,
                           uint32_t high)
{
	struct naive sums = { 0 };

	for (uint64_t v = 0; v < c->count; v++) {
		if (bins[v] < low || bins[v] >= high)
			continue;
		sums.vertices++;
		sums.counted += share(c, v);
		sums.independent +=
			share(c, v) * (1 - share(c, v)) / (1 - 1.0 / (double)c->runs.batches);
		sums.predicted += prediction(c, v);
		sums.events += pow((int32_t)c->apart[v], 2);
	}
	return sums;
}

static void naive_bin(const struct counted *c, const uint32_t *bins, uint32_t low, uint32_t high,
                      double *p_out)
{
	const double n = (double)c->runs.batches, f = n / (double)c->runs.epoch_batches,
		     h = fmod(f, 1), e = (double)c->runs.repeated;
	const struct naive sums = sum_up(c, bins, low, high);
	const double factor = (sums.counted + 1 / n) / (sums.predicted + 1 / n);
	const double draws = fmin(1, (sums.events + 4) / (2 * e * sums.independent + 4));
	const double noise =
		sums.independent / n * (draws + (1 - draws) * h * (1 - h) / f) + 1 / (n * n);
	double total = 0, weight;

	for (uint64_t v = 0; v < c->count; v++) {
		if (bins[v] >= low && bins[v] < high)
			total += pow(share(c, v) - factor * prediction(c, v), 2);
	}
	weight = fmax(0, 1 - noise / total);
	for (uint64_t v = 0; v < c->count; v++) {
		const double mean = factor * prediction(c, v);

		if (bins[v] >= low && bins[v] < high)
			p_out[v] = fmin(mean + weight * (share(c, v) - mean), 1 - 0.5 / n);
	}
}

/* Starting at the top, whole bins are combined until there are 256 vertices. The remaining vertices
 * belong to the last group. */
static void naive_blend(const struct counted *c, double *p_out)
{
	uint32_t *bins = malloc(c->count * sizeof(*bins)), low, high = 4000;

	for (uint64_t v = 0; v < c->count; v++)
		bins[v] = c->expected[v] > 0 ? exponent_and_three_bits(c->expected[v]) : UINT32_MAX;
	for (; sum_up(c, bins, 0, high).vertices > 0; high = low) {
		low = high - 1;
		while (low > 0 && (sum_up(c, bins, low, high).vertices < 256 ||
		                   sum_up(c, bins, 0, low).vertices < 256))
			low--;
		naive_bin(c, bins, low, high, p_out);
	}
	free(bins);
}

Test(blend, it_equals_the_naive_computation)
{
	const uint64_t counts[] = { 1, 255, 256, 300, 600, 1500 };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(counts); i++) {
		struct counted c = draw_counted(counts[i], 30, 4, 0.5, i);
		double *p = calloc(counts[i], sizeof(*p));

		c.runs.epoch_batches = i % 2 ? 7 : 100;
		/* some vertices that no edge leads to, some far below the others */
		for (uint64_t v = 0; v < counts[i]; v += 9)
			c.expected[v] = v % 2 ? 0 : c.expected[v] * 1e-9f;
		for (uint64_t v = 1; v < counts[i]; v += 9)
			c.expected[v] *= v % 2 ? 500.0f : 0.01f;
		naive_blend(&c, p);
		blend(&c, 2);
		for (uint64_t v = 0; v < counts[i]; v++) {
			const double found = -expm1(-(double)c.score[v]);

			cr_assert(fabs(found - p[v]) <= 1e-6 * p[v],
			          "%d of %d: %.9g, expected %.9g", (int)v, (int)counts[i], found,
			          p[v]);
		}
		free(p);
		free_counted(&c);
	}
}

static double mean_square_error(const struct counted *c, const double *p)
{
	double sum = 0;

	for (uint64_t v = 0; v < c->count; v++)
		sum += (p[v] - c->truth[v]) * (p[v] - c->truth[v]);
	return sum;
}

static int descending(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x < *y) - (*x > *y);
}

/* The share of accesses of the first tenth by p: the true one, and the one that p predicts. */
static void first_tenth(const struct counted *c, const double *p, double *truth_out,
                        double *forecast_out)
{
	double(*pairs)[2] = malloc(c->count * sizeof(*pairs)), sums[2] = { 0 }, tops[2] = { 0 };

	for (uint64_t v = 0; v < c->count; v++) {
		pairs[v][0] = p[v];
		pairs[v][1] = c->truth[v];
	}
	qsort(pairs, c->count, sizeof(*pairs), descending);
	for (uint64_t v = 0; v < c->count; v++) {
		for (int i = 0; i < 2; i++) {
			sums[i] += pairs[v][i];
			tops[i] += v < c->count / 10 ? pairs[v][i] : 0;
		}
	}
	*forecast_out = tops[0] / sums[0];
	*truth_out = tops[1] / sums[1];
	free(pairs);
}

Test(blend, it_is_closer_to_the_truth_than_its_inputs_and_predicts_its_hits)
{
	const uint64_t batches[] = { 12, 40, 240 };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(batches); i++) {
		struct counted c = draw_counted(10000, batches[i], batches[i] / 4, 1, 40 + i);
		double *blended = malloc(10000 * 8), *predicted = malloc(10000 * 8),
		       *counted = malloc(10000 * 8), best, hits, forecast;

		blend(&c, 2);
		for (uint64_t v = 0; v < c.count; v++) {
			blended[v] = -expm1(-(double)c.score[v]);
			predicted[v] = prediction(&c, v) / 1.5;
			counted[v] = share(&c, v);
		}
		best = fmin(mean_square_error(&c, predicted), mean_square_error(&c, counted));
		cr_assert_lt(mean_square_error(&c, blended), best);
		first_tenth(&c, blended, &hits, &forecast);
		cr_assert_lt(fabs(hits - forecast), 0.015, "%d batches: %g predicted, %g found",
		             (int)batches[i], forecast, hits);
		free(blended);
		free(predicted);
		free(counted);
		free_counted(&c);
	}
}

/* The same counts of whole epochs in both cases: they are the truth if the repeats agree, but not
 * if the repeats are different draws. */
Test(blend, counts_that_repeat_exactly_are_trusted)
{
	struct counted c = draw_counted(20000, 20, 10, 0, 5);
	double moved[2] = { 0 };

	for (int drawn = 0; drawn < 2; drawn++) {
		if (drawn) {
			free_counted(&c);
			c = draw_counted(20000, 20, 10, 1, 5);
		}
		c.runs.epoch_batches = 20;
		blend(&c, 1);
		for (uint64_t v = 0; v < c.count; v++)
			moved[drawn] += fabs(-expm1(-(double)c.score[v]) - share(&c, v)) / 20000;
	}
	cr_assert(moved[0] < 0.3 * moved[1], "%g, %g", moved[0], moved[1]);
	free_counted(&c);
}

Test(blend, without_counts_the_order_of_the_prediction_is_kept)
{
	struct counted c = make_counted(3000, 2, 1, 5);

	for (uint64_t v = 0; v < 3000; v++)
		c.expected[v] = powf(1.02f, -(float)v);
	blend(&c, 1);
	for (uint64_t v = 0; v < 3000; v++) {
		cr_assert(c.score[v] > 0 && c.score[v] <= c.expected[v], "vertex %d: %g", (int)v,
		          (double)c.score[v]);
		if (v > 0 && exponent_and_three_bits(c.expected[v]) ==
		                     exponent_and_three_bits(c.expected[v - 1]))
			cr_assert_lt(c.score[v], c.score[v - 1]);
	}
	free_counted(&c);
}

/* All vertices are in every batch, with extreme predictions among them. */
Test(blend, scores_are_finite_and_certain_vertices_stay_certain)
{
	struct counted c = make_counted(2000, 2, 1, 1);

	for (uint64_t v = 0; v < 2000; v++) {
		c.expected[v] = v % 4 == 0   ? 0
		                : v % 4 == 1 ? INFINITY
		                : v % 4 == 2 ? 80
		                             : 1e-30f * (float)v;
		c.counts[v] = v % 4 ? 2 : 0;
	}
	blend(&c, 3);
	for (uint64_t v = 0; v < 2000; v++) {
		cr_assert(!isnan(c.score[v]));
		if (v % 4 == 0)
			cr_assert_eq(c.score[v], 0);
		else if (v % 4 == 1)
			cr_assert(isinf(c.score[v]) && c.score[v] > 0);
		else
			cr_assert_float_eq(c.score[v], -log1p(-0.75), 1e-6,
			                   "absent from one of two batches: %g",
			                   (double)c.score[v]);
	}
	free_counted(&c);
}

Test(blend, bits_are_equal_for_any_thread_count)
{
	struct counted c = draw_counted(40000, 32, 4, 0.5, 77);
	float *first = malloc(40000 * sizeof(*first));

	blend(&c, 1);
	memcpy(first, c.score, 40000 * sizeof(*first));
	for (int threads = 2; threads <= 5; threads++) {
		blend(&c, threads);
		cr_assert_eq(memcmp(first, c.score, 40000 * sizeof(*first)), 0, "%d threads",
		             threads);
	}
	free(first);
	free_counted(&c);
}

/* A mock run whose batch b contains the vertices b + 100 and 7. */
struct told {
	uint64_t batches;
	uint64_t again_batches;
	uint64_t done;
	int fail_at;
};

static const uint64_t told_count = 200;

static int tell(const void *graph, const struct rung__run *run, uint32_t *counts)
{
	struct told *told = (struct told *)graph;

	cr_assert_eq(run->progress_done, told->done);
	cr_assert_eq(run->progress_total, 80);
	told->done += run->batch_count;
	if (told->fail_at-- == 0)
		return rung__fail(RUNG_E_CANCELED, "as asked");
	for (uint64_t b = run->batch_first; b < run->batch_first + run->batch_count; b++) {
		counts[b + 100]++;
		counts[7]++;
	}
	*(run->again ? &told->again_batches : &told->batches) += run->batch_count;
	return 0;
}

Test(blend, two_runs_are_sampled_the_second_beginning_with_the_same_seeds)
{
	const struct rung__run run = {
		.train_count = 5000, .batch_size = 10, .batch_count = 40, .threads = 2
	};
	struct told told = { .fail_at = -1 };
	float score[200], found[200];
	uint32_t counts[200] = { 0 }, apart[200] = { 0 };

	for (int v = 0; v < 200; v++) {
		score[v] = found[v] = 0.01f * (float)(v + 1);
		counts[v] = v == 7 ? 75 : v >= 100 && v < 175;
	}
	cr_assert_eq(rung__blend(tell, &told, &run, &told_count, 1, (float *[]){ found }), 0);
	cr_assert_eq(told.batches, 75);
	cr_assert_eq(told.again_batches, 5);
	cr_assert_eq(rung__blend_correct(&(struct rung__blend_counts){ counts, 75, apart, 5, 500 },
	                                 200, 1, score),
	             0);
	cr_assert_eq(memcmp(found, score, sizeof(score)), 0);
	for (int fail_at = 0; fail_at < 3; fail_at++) {
		told = (struct told){ .fail_at = fail_at };
		cr_assert_eq(rung__blend(tell, &told, &run, &told_count, 1, (float *[]){ found }),
		             RUNG_E_CANCELED);
	}
}

Test(blend, every_allocation_may_fail)
{
	const struct rung__run run = {
		.train_count = 5000, .batch_size = 10, .batch_count = 40, .threads = 1
	};
	float score[200] = { 0 };
	int64_t limit = 0;

	for (;; limit++) {
		struct told told = { .fail_at = -1 };
		int rc;

		rung__alloc_limit(limit);
		rc = rung__blend(tell, &told, &run, &told_count, 1, (float *[]){ score });
		rung__alloc_limit(-1);
		if (rc == 0)
			break;
		cr_assert_eq(rc, RUNG_E_NOMEM);
	}
	cr_assert_eq(limit, 4);
}

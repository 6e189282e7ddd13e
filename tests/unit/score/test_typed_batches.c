/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of typed graphs against simulated batches, and the batches that blend samples. */
#include "base/base.h"
#include "score/presample_files.h"
#include "typed_graphs.h"

static uint64_t *every_tenth(uint64_t count, uint64_t *train_count_out)
{
	uint64_t *train = malloc(count * sizeof(*train));

	*train_count_out = 0;
	for (uint64_t v = 0; v < count; v += 10)
		train[(*train_count_out)++] = v;
	return train;
}

static const float *order_by;

static int descending(const void *a, const void *b)
{
	const uint64_t i = *(const uint64_t *)a, k = *(const uint64_t *)b;

	if (order_by[i] != order_by[k])
		return order_by[i] < order_by[k] ? 1 : -1;
	return i < k ? -1 : i > k;
}

/* Accesses of the first tenth in the order of the scores. */
static double hits(const float *scores, const uint64_t *counts, uint64_t count)
{
	uint64_t *order = malloc(count * sizeof(*order));
	double sum = 0;

	for (uint64_t v = 0; v < count; v++)
		order[v] = v;
	order_by = scores;
	qsort(order, count, sizeof(*order), descending);
	for (uint64_t i = 0; i < count / 10; i++)
		sum += (double)counts[order[i]];
	free(order);
	return sum;
}

static double hits_of_oracle(const uint64_t *counts, uint64_t count)
{
	float *scores = malloc(count * sizeof(*scores));
	double sum;

	for (uint64_t v = 0; v < count; v++)
		scores[v] = (float)counts[v];
	sum = hits(scores, counts, count);
	free(scores);
	return sum;
}

/* The share of the oracle's hits at a tenth of the rows, of every type and every list and edge. */
static void assert_quality(enum rung_score_method method, enum rung_draws draws, double least)
{
	struct rung_score_opts opts = expected_opts(2, draws);
	uint64_t *train;
	struct typed_scores scores;
	struct simulated sim;
	struct typed typed;

	init_academic(&typed, 1000);
	opts.method = method;
	opts.batch_size = 10;
	train = every_tenth(1000, &opts.train_count);
	opts.train = train;
	typed_score(&typed, &opts, &scores);
	simulate(&typed, &opts, 200, 7, &sim);
	for (uint32_t i = 0; i < typed.graph.type_count; i++) {
		const double share = hits(scores.types[i], sim.types[i], typed.counts[i]) /
		                     hits_of_oracle(sim.types[i], typed.counts[i]);

		cr_expect_geq(share, least, "type %u: %.4f of the oracle's hits", i, share);
	}
	for (uint32_t r = 0; r < typed.graph.relation_count; r++) {
		const uint64_t lists = typed.counts[typed.relations[r].target_type],
			       edges = typed.lists[r].csc.edge_count;
		float *rows = malloc(edges * sizeof(*rows));
		double share = hits(scores.lists[r], sim.lists[r], lists) /
		               hits_of_oracle(sim.lists[r], lists);

		cr_expect_geq(share, least, "lists %u: %.4f", r, share);
		rung__typed_edge_rows(typed.lists[r].indptr, lists, scores.edges[r], rows);
		share = hits(rows, sim.edges[r], edges) / hits_of_oracle(sim.edges[r], edges);
		cr_expect_geq(share, 0.9, "edges %u: %.4f", r, share);
		free(rows);
	}
	simulated_fini(&typed, &sim);
	typed_scores_fini(&typed, &scores);
	typed_fini(&typed);
	free(train);
}

Test(typed_batches, expected_reaches_the_hits_of_sampled_batches)
{
	assert_quality(RUNG_SCORE_EXPECTED, RUNG_DRAWS_NEW, 0.97);
	assert_quality(RUNG_SCORE_EXPECTED, RUNG_DRAWS_ALL, 0.97);
}

Test(typed_batches, blend_reaches_the_hits_of_sampled_batches)
{
	assert_quality(RUNG_SCORE_BLEND, RUNG_DRAWS_NEW, 0.97);
	assert_quality(RUNG_SCORE_BLEND, RUNG_DRAWS_ALL, 0.97);
}

/* A batch of few seeds that draws nearly everything, over and over. */
Test(typed_batches, blend_grows_its_arrays_for_large_batches)
{
	static const uint64_t counts[] = { 300, 300 };
	static const uint32_t all[] = { UINT32_MAX, UINT32_MAX, UINT32_MAX };
	uint32_t found[600] = { 0 }, wanted[600] = { 0 };
	uint64_t passes;
	struct typed typed;
	struct rung__file_presample from = {
		.hop_count = 3, .memory_bytes = 2400, .grows = true, .edge_passes = &passes
	};
	const struct rung__run run = {
		.train_count = 300, .batch_size = 30, .batch_count = 10, .threads = 2
	};

	typed_init(&typed, 2, counts);
	typed_add_random(&typed, 0, 1, 3000, 1, all, 4);
	typed_add_reverse(&typed, 0, all, 4);
	from.graph = &typed.graph;
	cr_assert_eq(rung__presample_files(&from, &run, found), 0, "%s", rung_last_error());
	from.memory_bytes = 1 << 24;
	from.grows = false;
	cr_assert_eq(rung__presample_files(&from, &run, wanted), 0, "%s", rung_last_error());
	cr_assert_eq(memcmp(found, wanted, sizeof(found)), 0);
	from.memory_bytes = 2400;
	cr_assert_eq(rung__presample_files(&from, &run, found), RUNG_E_INVAL);
	typed_fini(&typed);
}

/* The counts of the library's sampled batches against the naive sampler's, whose draws differ: the
 * scaled sum of squares of the differences is about 1 for each vertex. */
Test(typed_batches, sampled_batches_have_the_probabilities_of_naive_ones)
{
	struct rung_score_opts opts = expected_opts(2, RUNG_DRAWS_NEW);
	uint32_t counts[3150] = { 0 };
	uint64_t passes;
	struct typed typed;
	struct simulated sim;
	struct rung__file_presample from = { .hop_count = 2,
		                             .draws = RUNG_DRAWS_NEW,
		                             .memory_bytes = 1 << 24,
		                             .edge_passes = &passes };
	struct rung__run run = { .batch_size = 10, .threads = 2 };
	double squares = 0, cases = 0;
	const uint32_t *at = counts;

	init_academic(&typed, 1000);
	opts.batch_size = 10;
	run.train = opts.train = every_tenth(1000, &opts.train_count);
	run.train_count = opts.train_count;
	simulate(&typed, &opts, 100, 7, &sim);
	run.batch_count = sim.batches;
	from.graph = &typed.graph;
	cr_assert_eq(rung__presample_files(&from, &run, counts), 0, "%s", rung_last_error());
	for (uint32_t i = 0; i < typed.graph.type_count; at += typed.counts[i], i++) {
		for (uint64_t v = 0; v < typed.counts[i]; v++) {
			const double a = (double)at[v], b = (double)sim.types[i][v],
				     n = (double)sim.batches,
				     noise = (a + b) * (1 - (a + b) / (2 * n));

			if (a + b < 20 || noise <= 0)
				continue;
			squares += (a - b) * (a - b) / noise;
			cases++;
		}
	}
	cr_assert_gt(cases, 500);
	/* seeds are in every epoch once, so that there is less noise than with independent ones */
	cr_assert(squares / cases < 1.15, "%.3f in %d cases", squares / cases, (int)cases);
	simulated_fini(&typed, &sim);
	typed_fini(&typed);
	free((void *)(uintptr_t)opts.train);
}

/* Count the batches of a run that a sampler samples. */
static void count_sampled(const struct typed *typed, const struct rung__run *run, uint64_t seed,
                          uint32_t *counts)
{
	struct rung_sampler_relation relations[RELATIONS_MAX];
	const struct rung_sampler_opts opts = { .size = sizeof(opts),
		                                .hop_count = 2,
		                                .seed = rung__run_seed(seed),
		                                .draws = RUNG_DRAWS_NEW,
		                                .type_counts = typed->counts,
		                                .type_count = typed->graph.type_count,
		                                .relations = relations,
		                                .relation_count = typed->graph.relation_count };
	struct rung_sampler *sampler;
	struct rung_batch *batch;
	uint64_t seeds[10];

	for (uint32_t r = 0; r < typed->graph.relation_count; r++)
		relations[r] = (struct rung_sampler_relation){
			.source_type = typed->relations[r].source_type,
			.target_type = typed->relations[r].target_type,
			.csc = typed->relations[r].csc,
			.fanouts = typed->relations[r].fanouts,
		};
	cr_assert_eq(rung_sampler_create(NULL, &opts, &sampler), 0, "%s", rung_last_error());
	cr_assert_eq(rung_batch_create(&batch), 0);
	for (uint64_t b = 0; b < run->batch_count; b++) {
		const uint64_t count = rung__run_seeds(run, seed, b, seeds);
		uint32_t *at = counts;

		cr_assert_eq(
			rung_sampler_sample(sampler, seeds, count, rung__run_key(run, b), batch), 0,
			"%s", rung_last_error());
		for (uint32_t i = 0; i < typed->graph.type_count; at += typed->counts[i], i++) {
			const struct rung_typed_vertices *type = &rung_batch_typed(batch)->types[i];

			for (uint64_t k = 0; k < type->count; k++)
				at[type->vertices[k]]++;
		}
	}
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
}

Test(typed_batches, counts_are_those_of_the_typed_sampler)
{
	uint32_t found[3150] = { 0 }, wanted[3150] = { 0 };
	uint64_t passes;
	struct typed typed;
	struct rung__file_presample from = { .hop_count = 2,
		                             .draws = RUNG_DRAWS_NEW,
		                             .seed = 5,
		                             .memory_bytes = 1 << 24,
		                             .edge_passes = &passes };
	const struct rung__run run = {
		.train_count = 1000, .batch_size = 10, .batch_count = 60, .threads = 2
	};

	init_academic(&typed, 1000);
	from.graph = &typed.graph;
	cr_assert_eq(rung__presample_files(&from, &run, found), 0, "%s", rung_last_error());
	count_sampled(&typed, &run, from.seed, wanted);
	cr_assert_eq(memcmp(found, wanted, sizeof(found)), 0);
	typed_fini(&typed);
}

Test(typed_batches, every_allocation_may_fail)
{
	static const uint64_t counts[] = { 80, 80 };
	static const uint32_t fanouts[] = { 2, 2 };
	struct rung_score_opts opts = expected_opts(2, RUNG_DRAWS_NEW);
	struct typed_scores scores;
	struct typed typed;
	int64_t limit = 0;
	int rc;

	typed_init(&typed, 2, counts);
	typed_add_random(&typed, 0, 1, 300, 1, fanouts, 4);
	typed_add_reverse(&typed, 0, fanouts, 4);
	opts.method = RUNG_SCORE_BLEND;
	opts.batches_max = 4;
	opts.threads = 1;
	typed_score(&typed, &opts, &scores);
	do {
		const struct rung__typed_scores out = { scores.types, scores.lists, scores.edges };

		rung__alloc_limit(limit++);
		rc = rung__score_typed(&typed.graph, &opts, &out, NULL);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%s", rung_last_error());
		cr_assert_lt(limit, 2000);
	} while (rc != 0);
	cr_assert_gt(limit, 30);
	typed_scores_fini(&typed, &scores);
	typed_fini(&typed);
}

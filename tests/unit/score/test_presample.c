/* SPDX-License-Identifier: Apache-2.0 */
/* Presampling: the batches of a run, and their counts compared with batches sampled one by one. */
#include "graphs.h"
#include "score/presample.h"
#include "expect_error.h"

#define VERTICES 500u

static const uint32_t fanouts[] = { 4, 3 };

static struct rung_sampler_opts sampler_opts(void)
{
	return (struct rung_sampler_opts){ .size = sizeof(struct rung_sampler_opts),
		                           .fanouts = fanouts,
		                           .hop_count = 2,
		                           .seed = 9 };
}

static void presample(const struct test_graph *graph, const struct rung__run *run, uint32_t *counts)
{
	const struct rung__presample_graph from = { &graph->csc, sampler_opts() };

	cr_assert_eq(rung__presample(&from, run, counts), 0, "%s", rung_last_error());
}

Test(presample, an_epoch_has_every_train_vertex_once_in_its_own_order)
{
	const uint64_t train_counts[] = { 1, 2, 3, 4, 5, 64, 65, 257 };
	uint64_t train[257], seeds[10], moved = 0;

	for (uint64_t i = 0; i < 257; i++)
		train[i] = 1000 + 3 * i;
	for (size_t t = 0; t < RUNG__ARRAY_LEN(train_counts); t++) {
		const struct rung__run run = { .train = train,
			                       .train_count = train_counts[t],
			                       .batch_size = 10 };
		const uint64_t batches = rung__epoch_batches(run.train_count, run.batch_size);
		uint64_t orders[2][257];

		for (uint64_t epoch = 0; epoch < 2; epoch++) {
			char seen[257] = { 0 };
			uint64_t at = 0;

			for (uint64_t b = 0; b < batches; b++) {
				const uint64_t count =
					rung__run_seeds(&run, 7, epoch * batches + b, seeds);

				cr_assert_eq(count, RUNG__MIN(10, run.train_count - b * 10));
				for (uint64_t i = 0; i < count; i++) {
					const uint64_t idx = (seeds[i] - 1000) / 3;

					cr_assert(seeds[i] >= 1000 && idx < run.train_count &&
					          train[idx] == seeds[i] && !seen[idx]);
					seen[idx] = 1;
					orders[epoch][at++] = seeds[i];
				}
			}
			cr_assert_eq(at, run.train_count);
		}
		if (run.train_count > 60)
			moved += memcmp(orders[0], orders[1],
			                run.train_count * sizeof(orders[0][0])) != 0;
	}
	cr_assert_eq(moved, 3);
}

Test(presample, any_train_vertex_is_equally_likely_at_any_position)
{
	const struct rung__run run = { .train_count = 7, .batch_size = 1 };
	uint64_t seeds[1], found[7][7] = { { 0 } };

	for (uint64_t epoch = 0; epoch < 7000; epoch++) {
		for (uint64_t at = 0; at < 7; at++) {
			rung__run_seeds(&run, 3, epoch * 7 + at, seeds);
			found[at][seeds[0]]++;
		}
	}
	for (uint64_t at = 0; at < 7; at++) {
		for (uint64_t v = 0; v < 7; v++) /* 1000 expected, the standard deviation is 29 */
			cr_assert(found[at][v] > 850 && found[at][v] < 1150, "%d at %d: %d", (int)v,
			          (int)at, (int)found[at][v]);
	}
}

/* 100 train vertices, 7 batches per epoch, the last one of 4. */
Test(presample, a_repeated_run_has_the_same_seeds_in_other_batches_and_new_draws)
{
	const uint64_t batch_counts[] = { 1, 3, 6, 7, 9, 14 };
	uint64_t seeds[16];

	for (size_t i = 0; i < RUNG__ARRAY_LEN(batch_counts); i++) {
		struct rung__run run = { .train_count = 100,
			                 .batch_size = 16,
			                 .batch_count = batch_counts[i] };
		uint64_t times[2][100] = { { 0 } }, batch_of[2][100];

		for (int again = 0; again < 2; again++) {
			run.again = again;
			for (uint64_t b = 0; b < run.batch_count; b++) {
				const uint64_t count = rung__run_seeds(&run, 4, b, seeds);

				cr_assert_eq(count, b % 7 < 6 ? 16 : 4);
				for (uint64_t k = 0; k < count; k++) {
					times[again][seeds[k]]++;
					batch_of[again][seeds[k]] = b;
				}
			}
		}
		cr_assert_eq(memcmp(times[0], times[1], sizeof(times[0])), 0, "%d batches",
		             (int)run.batch_count);
		if (run.batch_count > 1)
			cr_assert_neq(memcmp(batch_of[0], batch_of[1], sizeof(batch_of[0])), 0);
		cr_assert_neq(rung__run_key(&run, 0), 0);
	}
}

/* With one sampler, batch after batch. */
static void count_naively(const struct test_graph *graph, const struct rung__run *run,
                          uint32_t *counts)
{
	struct rung_sampler_opts opts = sampler_opts();
	uint64_t *seeds = malloc(run->batch_size * sizeof(*seeds)), count;
	struct rung_sampler *sampler;
	struct rung_batch *batch;

	opts.seed = rung__run_seed(opts.seed);
	cr_assert_eq(rung_sampler_create(&graph->csc, &opts, &sampler), 0);
	cr_assert_eq(rung_batch_create(&batch), 0);
	for (uint64_t b = run->batch_first; b < run->batch_first + run->batch_count; b++) {
		const uint64_t seed_count = rung__run_seeds(run, 9, b, seeds);
		const uint64_t *vertices;

		cr_assert_eq(rung_sampler_sample(sampler, seeds, seed_count, rung__run_key(run, b),
		                                 batch),
		             0);
		vertices = rung_batch_vertices(batch, &count);
		for (uint64_t i = 0; i < count; i++)
			counts[vertices[i]]++;
	}
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
	free(seeds);
}

Test(presample, counts_equal_batches_sampled_one_by_one_for_any_threads)
{
	for (unsigned index_bytes = 4; index_bytes <= 8; index_bytes += 4) {
		struct test_graph graph = test_graph_random(VERTICES, 6000, 5, index_bytes);
		uint64_t train[100];
		struct rung__run run = { .train = train,
			                 .train_count = 100,
			                 .batch_size = 16,
			                 .batch_first = 3,
			                 .batch_count = 25 };
		uint32_t naive[VERTICES] = { 0 }, again[VERTICES] = { 0 };

		for (uint64_t i = 0; i < 100; i++)
			train[i] = 499 - 4 * i;
		count_naively(&graph, &run, naive);
		for (run.threads = 1; run.threads <= 4; run.threads++) {
			uint32_t counts[VERTICES] = { 0 };

			presample(&graph, &run, counts);
			cr_assert_eq(memcmp(counts, naive, sizeof(counts)), 0, "%d threads",
			             run.threads);
		}
		run.batch_first = 0;
		run.again = true;
		memset(naive, 0, sizeof(naive));
		count_naively(&graph, &run, naive);
		presample(&graph, &run, again);
		cr_assert_eq(memcmp(again, naive, sizeof(again)), 0);
		test_graph_fini(&graph);
	}
}

Test(presample, parts_of_a_run_add_up)
{
	struct test_graph graph = test_graph_random(VERTICES, 6000, 6, 4);
	struct rung__run run = {
		.train_count = VERTICES, .batch_size = 64, .batch_count = 19, .threads = 2
	};
	uint32_t whole[VERTICES] = { 0 }, parts[VERTICES] = { 0 };
	uint64_t sum = 0;

	presample(&graph, &run, whole);
	run.batch_count = 8;
	presample(&graph, &run, parts);
	run.batch_first = 8;
	run.batch_count = 11;
	presample(&graph, &run, parts);
	cr_assert_eq(memcmp(whole, parts, sizeof(whole)), 0);
	run.batch_count = 0;
	presample(&graph, &run, parts);
	cr_assert_eq(memcmp(whole, parts, sizeof(whole)), 0, "without batches there are no counts");
	for (uint64_t v = 0; v < VERTICES; v++) {
		cr_assert_geq(whole[v], 2, "every vertex must be a seed in both epochs");
		sum += whole[v];
	}
	cr_assert_gt(sum, 19 * 64);
	test_graph_fini(&graph);
}

/* Vertex 0 draws 1 to 4 in one hop, so these are in every batch with 0; 5 and 6 are in no batch of
 * 0. */
Test(presample, certain_and_isolated_vertices_are_counted)
{
	const uint64_t train[] = { 0 };
	const struct rung__run run = { .train = train,
		                       .train_count = 1,
		                       .batch_size = 1024,
		                       .batch_count = 12,
		                       .threads = 3 };
	uint64_t *sources = malloc(4 * sizeof(*sources)),
		 *destinations = calloc(4, sizeof(*destinations));
	struct test_graph graph;
	uint32_t counts[7] = { 0 };

	for (uint64_t i = 0; i < 4; i++)
		sources[i] = i + 1;
	graph = test_graph_of_edges(7, 4, sources, destinations, 4);
	presample(&graph, &run, counts);
	for (uint64_t v = 0; v < 7; v++)
		cr_assert_eq(counts[v], v < 5 ? 12 : 0);
	test_graph_fini(&graph);
}

static void assert_refused(const struct test_graph *graph, const struct rung_sampler_opts *opts,
                           const struct rung__run *run, int status, const char *words)
{
	const struct rung__presample_graph from = { &graph->csc, *opts };
	uint32_t counts[VERTICES] = { 0 };

	assert_error(rung__presample(&from, run, counts), status, words);
}

static int cancel_at_second(void *ctx, const char *step, unsigned long long done,
                            unsigned long long total)
{
	cr_assert_str_eq(step, "presample");
	cr_assert(done >= 1 && done <= total && total == 40);
	return ++*(int *)ctx == 2;
}

Test(presample, failures_of_any_thread_reach_the_caller)
{
	struct test_graph graph = test_graph_random(VERTICES, 6000, 5, 4);
	const uint64_t outside[] = { 1, VERTICES };
	const uint32_t no_fanout[] = { 4, 0 };
	struct rung_sampler_opts opts = sampler_opts();
	struct rung__run run = {
		.train = outside, .train_count = 2, .batch_size = 2, .batch_count = 40, .threads = 2
	};
	int calls = 0;

	assert_refused(&graph, &opts, &run, RUNG_E_RANGE, "500");
	run.train = NULL;
	run.threads = 1;
	run.progress = cancel_at_second;
	run.progress_ctx = &calls;
	assert_refused(&graph, &opts, &run, RUNG_E_CANCELED, "2 of 40");
	opts.fanouts = no_fanout;
	assert_refused(&graph, &opts, &run, RUNG_E_INVAL, "fanout");
	test_graph_fini(&graph);
}

Test(presample, every_allocation_may_fail)
{
	struct test_graph graph = test_graph_random(VERTICES, 6000, 5, 8);
	const struct rung__run run = {
		.train_count = VERTICES, .batch_size = 8, .batch_count = 3, .threads = 2
	};
	const struct rung__presample_graph from = { &graph.csc, sampler_opts() };
	uint32_t counts[VERTICES] = { 0 };
	int64_t limit = 0;
	int rc;

	for (;; limit++) {
		rung__alloc_limit(limit);
		rc = rung__presample(&from, &run, counts);
		rung__alloc_limit(-1);
		if (rc == 0)
			break;
		cr_assert_eq(rc, RUNG_E_NOMEM);
		cr_assert_lt(limit, 1000);
	}
	cr_assert_geq(limit, 8);
	test_graph_fini(&graph);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Scores: small graphs worked out by hand, and a naive reference in double that pushes values along
 * the edge list instead of pulling them. */
#include <math.h>

#include "graphs.h"
#include "base/base.h"
#include "rung/rank.h"
#include "expect_error.h"
#include "propagation/propagation.h"

static void compute(const struct rung_csc *csc, const struct rung_score_opts *opts, float *score,
                    struct rung_score_report *report)
{
	cr_assert_eq(rung_score_compute(csc, opts, score, report), 0, "%s", rung_last_error());
}

static void assert_close(float found, double expected, double rtol, const char *what, uint64_t v)
{
	cr_assert(fabs((double)found - expected) <= rtol * fabs(expected),
	          "%s: vertex %d: %.9g, expected %.9g", what, (int)v, (double)found, expected);
}

/* Does steps along the input edges. @return the L1 change of the last step */
static double push_steps(const struct test_graph *graph, double *state, uint32_t steps,
                         double damping)
{
	const uint64_t vertex_count = graph->csc.vertex_count;
	double *next = malloc(vertex_count * sizeof(*next) + 1), change = 0;

	for (uint32_t step = 0; step < steps; step++) {
		change = 0;
		for (uint64_t v = 0; v < vertex_count; v++)
			next[v] = (1 - damping) / (double)vertex_count;
		for (uint64_t e = 0; e < graph->csc.edge_count; e++) {
			const uint64_t u = graph->sources[e], v = graph->destinations[e];

			next[u] += damping * state[v] /
			           (double)(graph->indptr[v + 1] - graph->indptr[v]);
		}
		for (uint64_t v = 0; v < vertex_count; v++) {
			change += fabs(next[v] - state[v]);
			state[v] = next[v];
		}
	}
	free(next);
	return change;
}

/* 0->1, 2->1, 1->3: in(1) = {0, 2}, in(3) = {1}, in(0) = in(2) = {} */
static struct test_graph chain(void)
{
	static const uint64_t sources[] = { 0, 2, 1 }, destinations[] = { 1, 1, 3 };
	uint64_t *s = malloc(sizeof(sources)), *d = malloc(sizeof(destinations));

	memcpy(s, sources, sizeof(sources));
	memcpy(d, destinations, sizeof(destinations));
	return test_graph_of_edges(4, 3, s, d, 4);
}

Test(score, degree_counts_the_lists_that_contain_a_vertex)
{
	struct test_graph graph = chain();
	const struct rung_score_opts opts = { .size = sizeof(opts), .method = RUNG_SCORE_DEGREE };
	struct rung_score_report report;
	float score[4];

	compute(&graph.csc, &opts, score, &report);
	cr_assert(score[0] == 1 && score[1] == 1 && score[2] == 1 && score[3] == 0);
	cr_assert_eq(report.edge_passes, 1);
	test_graph_fini(&graph);
}

Test(score, two_weighted_steps_worked_out_by_hand)
{
	struct test_graph graph = chain();
	const uint64_t train[] = { 3 }; /* start 1/4 1/4 1/4 1 */
	const struct rung_score_opts opts = {
		.size = sizeof(opts),
		.method = RUNG_SCORE_WRPAGERANK,
		.iterations = 2,
		.damping = 0.5,
		.train = train,
		.train_count = 1,
	};
	struct rung_score_report report;
	float score[4];

	/*
	 * step 1: c = 0 1/8 0 1;  s = 1/8 + 1/2 * {1/8, 1, 1/8, 0} = 3/16 5/8 3/16 1/8
	 * step 2: c = 0 5/16 0 1/8;  s = 1/8 + 1/2 * {5/16, 1/8, 5/16, 0} = 9/32 3/16 9/32 1/8
	 */
	compute(&graph.csc, &opts, score, &report);
	cr_assert(score[0] == 9.0f / 32 && score[1] == 3.0f / 16 && score[2] == 9.0f / 32 &&
	                  score[3] == 1.0f / 8,
	          "%g %g %g %g", (double)score[0], (double)score[1], (double)score[2],
	          (double)score[3]);
	cr_assert_eq(report.iterations, 2);
	cr_assert_float_eq(report.residual, 3.0 / 32 + 7.0 / 16 + 3.0 / 32, 1e-12);
	test_graph_fini(&graph);
}

/* A chain with vertex 1 in the middle, and its transpose, rank opposite ends first. */
Test(score, the_direction_of_the_edges_decides_the_order)
{
	struct test_graph graph = chain();
	const struct rung_score_opts opts = { .size = sizeof(opts),
		                              .method = RUNG_SCORE_RPAGERANK };
	struct test_graph turned = test_graph_of_edges(4, 3, graph.destinations, graph.sources, 4);
	uint32_t order[4], turned_order[4];
	float score[4];

	compute(&graph.csc, &opts, score, NULL);
	cr_assert_eq(rung_rank_order(score, 4, 4, 1, order, NULL), 0);
	compute(&turned.csc, &opts, score, NULL);
	cr_assert_eq(rung_rank_order(score, 4, 4, 1, turned_order, NULL), 0);
	cr_assert_eq(order[0], 1);
	cr_assert_eq(order[3], 3, "no vertex draws vertex 3");
	cr_assert_eq(turned_order[0], 3);
	graph.sources = graph.destinations = NULL; /* they belong to the transposed graph */
	test_graph_fini(&turned);
	test_graph_fini(&graph);
}

static void assert_equals_reference(const struct test_graph *graph, const uint64_t *train,
                                    uint64_t train_count)
{
	const uint64_t vertex_count = graph->csc.vertex_count;
	const struct rung_score_opts opts = {
		.size = sizeof(opts),
		.method = RUNG_SCORE_WRPAGERANK,
		.train = train,
		.train_count = train_count,
	};
	double *state = malloc(vertex_count * sizeof(*state)), change;
	float *score = malloc(vertex_count * sizeof(*score));
	struct rung_score_report report;

	for (uint64_t v = 0; v < vertex_count; v++)
		state[v] = 1.0 / (double)vertex_count;
	for (uint64_t i = 0; i < train_count; i++)
		state[train[i]] = 1.0 / (double)train_count;
	change = push_steps(graph, state, 5, 0.85);
	compute(&graph->csc, &opts, score, &report);
	for (uint64_t v = 0; v < vertex_count; v++)
		assert_close(score[v], state[v], 1e-6, "wrpagerank", v);
	cr_assert_eq(report.iterations, 5);
	cr_assert(fabs(report.residual - change) < 1e-6, "residual %g, expected %g",
	          report.residual, change);
	free(state);
	free(score);
}

Test(score, weighted_pagerank_equals_the_reference_on_random_graphs)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		const uint64_t vertex_count = seed == 1 ? 1 : 3000 * seed,
			       edge_count = seed == 2 ? 0 : 20000 * seed;
		struct test_graph graph =
			test_graph_random(vertex_count, edge_count, seed, seed % 2 ? 4 : 8);
		uint64_t *train = malloc(vertex_count * sizeof(*train)), count = 0;

		for (uint64_t v = 0; v < vertex_count; v += 10)
			train[count++] = v;
		assert_equals_reference(&graph, NULL, 0);
		assert_equals_reference(&graph, train, count);
		free(train);
		test_graph_fini(&graph);
	}
}

Test(score, reverse_pagerank_converges_to_the_fixed_point)
{
	struct test_graph graph = test_graph_random(9000, 100000, 3, 4);
	const struct rung_score_opts opts = { .size = sizeof(opts),
		                              .method = RUNG_SCORE_RPAGERANK };
	double *state = malloc(9000 * sizeof(*state)), apart = 0;
	float *score = malloc(9000 * sizeof(*score));
	struct rung_score_report report;

	for (uint64_t v = 0; v < 9000; v++)
		state[v] = 1.0 / 9000;
	cr_assert_lt(push_steps(&graph, state, 300, 0.85), 1e-12);
	compute(&graph.csc, &opts, score, &report);
	cr_assert_lt(report.residual, 1e-6);
	cr_assert_lt(report.iterations, 200);
	for (uint64_t v = 0; v < 9000; v++)
		apart += fabs(score[v] - state[v]);
	cr_assert_lt(apart, 1e-6 * 0.85 / 0.15 + 1e-6,
	             "the remaining error is at most d / (1 - d) times the last change: %g", apart);
	free(state);
	free(score);
	test_graph_fini(&graph);
}

Test(score, reverse_pagerank_stops_at_its_iteration_limit)
{
	struct test_graph graph = test_graph_random(900, 10000, 3, 4);
	const struct rung_score_opts opts = {
		.size = sizeof(opts),
		.method = RUNG_SCORE_RPAGERANK,
		.iterations = 3,
		.tolerance = 1e-30,
	};
	struct rung_score_report report;
	float score[900];

	compute(&graph.csc, &opts, score, &report);
	cr_assert_eq(report.iterations, 3);
	cr_assert_gt(report.residual, 1e-6);
	cr_assert_eq(report.edge_passes, 3);
	test_graph_fini(&graph);
}

/* Options with which every method runs, for comparisons of results. */
static struct rung_score_opts opts_of(enum rung_score_method method, const uint64_t *train,
                                      uint64_t train_count)
{
	static const uint32_t fanouts[] = { 4, 3, UINT32_MAX };

	return (struct rung_score_opts){
		.size = sizeof(struct rung_score_opts),
		.method = method,
		.train = train,
		.train_count = train_count,
		.fanouts = fanouts,
		.hop_count = 3,
		.batch_size = 16,
		.batches_max = 12,
	};
}

Test(score, bits_are_equal_for_any_thread_count)
{
	const uint32_t threads[] = { 1, 2, 3, 7 };
	struct test_graph graph = test_graph_random(20000, 300000, 8, 4);
	float *score = malloc(20000 * sizeof(*score)), *first = malloc(20000 * sizeof(*first));
	uint64_t train[100];

	for (uint64_t i = 0; i < 100; i++)
		train[i] = 100 * i;
	rung__propagation_set_block_edges(5000);
	for (enum rung_score_method method = RUNG_SCORE_DEGREE; method <= RUNG_SCORE_BLEND;
	     method++) {
		struct rung_score_report report, first_report;

		for (size_t t = 0; t < RUNG__ARRAY_LEN(threads); t++) {
			struct rung_score_opts opts = opts_of(method, train, 100);

			opts.threads = threads[t];
			compute(&graph.csc, &opts, t ? score : first, t ? &report : &first_report);
			if (t == 0)
				continue;
			cr_assert_eq(memcmp(score, first, 20000 * sizeof(*score)), 0,
			             "method %d, %u threads", (int)method, threads[t]);
			cr_assert(report.residual == first_report.residual &&
			          report.iterations == first_report.iterations);
		}
	}
	free(score);
	free(first);
	test_graph_fini(&graph);
}

/* Lists longer than a block, and blocks of one edge: blocks affect only the order of additions, and
 * for PageRank not even that. */
Test(score, pagerank_gives_the_same_bits_for_any_block_size)
{
	const uint32_t block_edges[] = { 1, 7, 300, 4096 };
	struct test_graph graph = test_graph_random(3000, 20000, 5, 8);
	float *score = malloc(3000 * sizeof(*score)), *first = malloc(3000 * sizeof(*first));

	for (enum rung_score_method method = RUNG_SCORE_DEGREE; method <= RUNG_SCORE_PPR;
	     method++) {
		const struct rung_score_opts opts =
			opts_of(method, (const uint64_t[]){ 3, 1, 4 }, 3);

		rung__propagation_set_block_edges(0);
		compute(&graph.csc, &opts, first, NULL);
		for (size_t i = 0; i < RUNG__ARRAY_LEN(block_edges); i++) {
			rung__propagation_set_block_edges(block_edges[i]);
			compute(&graph.csc, &opts, score, NULL);
			cr_assert_eq(memcmp(score, first, 3000 * sizeof(*score)), 0,
			             "method %d, %u edges", (int)method, block_edges[i]);
		}
	}
	free(score);
	free(first);
	test_graph_fini(&graph);
}

Test(score, personalised_pagerank_equals_the_reference)
{
	struct test_graph graph = test_graph_random(500, 4000, 12, 4);
	const uint64_t train[] = { 400, 7, 80 };
	const struct rung_score_opts opts = opts_of(RUNG_SCORE_PPR, train, 3);
	double state[500] = { 0 }, next[500];
	float score[500];

	for (int i = 0; i < 3; i++)
		state[train[i]] = 1.0 / 3;
	for (int step = 0; step < 5; step++) {
		memset(next, 0, sizeof(next));
		for (int i = 0; i < 3; i++)
			next[train[i]] = 0.15 / 3;
		for (uint64_t e = 0; e < 4000; e++) {
			const uint64_t u = graph.sources[e], v = graph.destinations[e];

			next[u] +=
				0.85 * state[v] / (double)(graph.indptr[v + 1] - graph.indptr[v]);
		}
		memcpy(state, next, sizeof(state));
	}
	compute(&graph.csc, &opts, score, NULL);
	for (uint64_t v = 0; v < 500; v++)
		assert_close(score[v], state[v], 1e-5, "ppr", v);
	test_graph_fini(&graph);
}

Test(score, presample_counts_the_vertices_of_batches)
{
	struct test_graph graph = test_graph_random(400, 3000, 2, 4);
	struct rung_score_opts opts = opts_of(RUNG_SCORE_PRESAMPLE, NULL, 0);
	struct rung_score_report report;
	float score[400];

	opts.fanouts = (const uint32_t[]){ UINT32_MAX };
	opts.hop_count = 1;
	opts.batches_max = 0;
	opts.epochs = 2;
	opts.batch_size = 400; /* every vertex is a seed of the only batch of an epoch */
	compute(&graph.csc, &opts, score, &report);
	cr_assert_eq(report.batches_sampled, 2);
	for (uint64_t v = 0; v < 400; v++)
		cr_assert(score[v] == 2, "vertex %d: %g", (int)v, (double)score[v]);
	test_graph_fini(&graph);
}

static void assert_refused(const struct rung_csc *csc, struct rung_score_opts opts, int status,
                           const char *words)
{
	float score[4];

	opts.size = sizeof(opts);
	assert_error(rung_score_compute(csc, &opts, score, NULL), status, words);
}

Test(score, options_out_of_range_are_rejected)
{
	struct test_graph graph = chain();
	const uint64_t train[] = { 1, 4 };

	assert_refused(&graph.csc,
	               (struct rung_score_opts){
			       .method = RUNG_SCORE_DEGREE, .train = train, .train_count = 2 },
	               RUNG_E_RANGE, "train: entry 1 is 4");
	assert_refused(&graph.csc,
	               (struct rung_score_opts){ .method = RUNG_SCORE_DEGREE, .train_count = 2 },
	               RUNG_E_INVAL, "train");
	assert_refused(&graph.csc,
	               (struct rung_score_opts){ .method = RUNG_SCORE_PPR, .damping = 1 },
	               RUNG_E_INVAL, "damping");
	assert_refused(&graph.csc,
	               (struct rung_score_opts){ .method = RUNG_SCORE_PPR, .damping = (double)NAN },
	               RUNG_E_INVAL, "damping");
	assert_refused(&graph.csc,
	               (struct rung_score_opts){ .method = RUNG_SCORE_PPR, .tolerance = -1 },
	               RUNG_E_INVAL, "tolerance");
	assert_refused(&graph.csc,
	               (struct rung_score_opts){ .method = RUNG_SCORE_RPAGERANK,
	                                         .tolerance = (double)INFINITY },
	               RUNG_E_INVAL, "tolerance");
	assert_refused(&graph.csc, (struct rung_score_opts){ .method = (enum rung_score_method)99 },
	               RUNG_E_INVAL, "method");
	test_graph_fini(&graph);
}

Test(score, invalid_sampling_options_are_rejected)
{
	static const uint32_t zero[] = { 5, 0 }, many[RUNG_HOPS_MAX + 1] = { 1 };
	struct test_graph graph = chain();

	for (enum rung_score_method method = RUNG_SCORE_PRESAMPLE; method <= RUNG_SCORE_BLEND;
	     method++) {
		assert_refused(&graph.csc, (struct rung_score_opts){ .method = method },
		               RUNG_E_INVAL, "no fanouts");
		assert_refused(&graph.csc,
		               (struct rung_score_opts){
				       .method = method, .fanouts = zero, .hop_count = 2 },
		               RUNG_E_INVAL, "the fanout of hop 1 is 0");
		assert_refused(&graph.csc,
		               (struct rung_score_opts){ .method = method,
		                                         .fanouts = many,
		                                         .hop_count = RUNG_HOPS_MAX + 1 },
		               RUNG_E_INVAL, "17 hops");
		assert_refused(&graph.csc,
		               (struct rung_score_opts){ .method = method,
		                                         .fanouts = zero,
		                                         .hop_count = 1,
		                                         .draws = (enum rung_draws)7 },
		               RUNG_E_INVAL, "not a valid value for draws");
	}
	assert_refused(&graph.csc, (struct rung_score_opts){ 0 }, RUNG_E_INVAL,
	               "score blend: no fanouts");
	test_graph_fini(&graph);
}

Test(score, a_repeated_train_vertex_is_rejected)
{
	struct test_graph graph = chain();
	const uint64_t train[] = { 2, 3, 0, 3 };

	assert_refused(&graph.csc,
	               (struct rung_score_opts){
			       .method = RUNG_SCORE_DEGREE, .train = train, .train_count = 4 },
	               RUNG_E_INVAL, "train: entries 1 and 3 are both 3");
	test_graph_fini(&graph);
}

Test(score, methods_have_names)
{
	enum rung_score_method method;

	cr_assert_str_eq(rung_score_method_name(RUNG_SCORE_DEFAULT), "blend");
	cr_assert_null(rung_score_method_name((enum rung_score_method)99));
	for (enum rung_score_method m = RUNG_SCORE_DEGREE; m <= RUNG_SCORE_BLEND; m++) {
		cr_assert_eq(rung_score_method_parse(rung_score_method_name(m), &method), 0);
		cr_assert_eq(method, m);
	}
	cr_assert_eq(rung_score_method_parse("pagerank", &method), RUNG_E_INVAL);
}

static int cancel_at_third(void *ctx, const char *step, unsigned long long done,
                           unsigned long long total)
{
	cr_assert_str_eq(step, "score");
	cr_assert_leq(done, total);
	return ++*(int *)ctx == 3;
}

Test(score, progress_can_cancel)
{
	struct test_graph graph = chain();
	int calls = 0;

	assert_refused(&graph.csc,
	               (struct rung_score_opts){ .method = RUNG_SCORE_PPR,
	                                         .progress = cancel_at_third,
	                                         .progress_ctx = &calls },
	               RUNG_E_CANCELED, "canceled");
	cr_assert_eq(calls, 3);
	test_graph_fini(&graph);
}

Test(score, every_allocation_may_fail)
{
	struct test_graph graph = test_graph_random(30, 100, 1, 4);
	float score[30];

	for (enum rung_score_method method = RUNG_SCORE_DEGREE; method <= RUNG_SCORE_BLEND;
	     method++) {
		struct rung_score_opts opts = opts_of(method, (const uint64_t[]){ 1, 2 }, 2);
		int64_t limit = 0;
		int rc;

		opts.threads = 1;
		for (;; limit++) {
			rung__alloc_limit(limit);
			rc = rung_score_compute(&graph.csc, &opts, score, NULL);
			rung__alloc_limit(-1);
			if (rc == 0)
				break;
			cr_assert_eq(rc, RUNG_E_NOMEM);
			cr_assert_lt(limit, 100);
		}
		cr_assert_geq(limit, 5);
	}
	test_graph_fini(&graph);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of typed graphs: probabilities worked out by hand and simulated, graphs that equal an
 * untyped one, the opposite of a relation, and every error. */
#include <math.h>

#include "base/base.h"
#include "propagation/propagation.h"
#include "typed_graphs.h"

static const uint32_t fanouts_a[] = { 3, 2, UINT32_MAX, 4 };

static uint64_t *copy_ids(const uint64_t *ids, uint64_t count)
{
	uint64_t *copy = malloc(count * sizeof(*copy) + 1);

	memcpy(copy, ids, count * sizeof(*copy));
	return copy;
}

static double chance(float score)
{
	return -expm1(-(double)score);
}

Test(typed, one_type_and_one_relation_have_the_bits_of_the_untyped_score)
{
	static const uint64_t train[] = { 0, 5, 9, 12, 30, 31, 40, 55, 56, 99 };

	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct rung_score_opts opts = expected_opts(4, RUNG_DRAWS_ALL);
		const uint64_t count = 100 * seed;
		struct typed_scores scores;
		struct typed typed;
		float *wanted = malloc(count * sizeof(*wanted));

		rung__propagation_set_block_edges(seed == 3 ? 9 : 0);
		typed_init(&typed, 1, &count);
		typed_add_random(&typed, 0, 0, 700 * seed, seed, fanouts_a, seed % 2 ? 4 : 8);
		opts.train = train;
		opts.train_count = seed == 2 ? 0 : RUNG__ARRAY_LEN(train);
		for (int draws = RUNG_DRAWS_ALL; draws <= RUNG_DRAWS_NEW; draws++) {
			opts.draws = (enum rung_draws)draws;
			opts.fanouts = fanouts_a;
			cr_assert_eq(rung_score_compute(&typed.lists[0].csc, &opts, wanted, NULL),
			             0);
			opts.fanouts = NULL;
			typed_score(&typed, &opts, &scores);
			cr_assert_eq(memcmp(scores.types[0], wanted, count * sizeof(float)), 0);
			typed_scores_fini(&typed, &scores);
			opts.method = RUNG_SCORE_BLEND;
			opts.fanouts = fanouts_a;
			cr_assert_eq(rung_score_compute(&typed.lists[0].csc, &opts, wanted, NULL),
			             0);
			typed_score(&typed, &opts, &scores);
			cr_assert_eq(memcmp(scores.types[0], wanted, count * sizeof(float)), 0);
			typed_scores_fini(&typed, &scores);
			opts.method = RUNG_SCORE_EXPECTED;
		}
		typed_fini(&typed);
		free(wanted);
	}
}

/* The edges of both relations of a bipartite graph as edges of one type: vertices of the second
 * type follow those of the first. */
static struct test_graph merge(const struct typed *typed)
{
	const struct test_graph *a = &typed->lists[0], *b = &typed->lists[1];
	const uint64_t a_count = a->csc.edge_count, count = a_count + b->csc.edge_count;
	uint64_t *sources = malloc(count * sizeof(*sources)),
		 *targets = malloc(count * sizeof(*targets));

	for (uint64_t e = 0; e < count; e++) {
		const struct test_graph *from = e < a_count ? a : b;
		const uint64_t i = e < a_count ? e : e - a_count;

		/* relation 0 is from type 0 to type 1 */
		sources[e] = from->sources[i] + (from == b ? typed->counts[0] : 0);
		targets[e] = from->destinations[i] + (from == a ? typed->counts[0] : 0);
	}
	return test_graph_of_edges(typed->counts[0] + typed->counts[1], count, sources, targets, 4);
}

static void assert_equals_merged(const struct typed *typed, struct rung_score_opts opts)
{
	struct test_graph merged = merge(typed);
	float *wanted = malloc(merged.csc.vertex_count * sizeof(*wanted));
	struct typed_scores scores;

	typed_score(typed, &opts, &scores);
	opts.fanouts = typed->relations[0].fanouts;
	cr_assert_eq(rung_score_compute(&merged.csc, &opts, wanted, NULL), 0);
	for (uint64_t v = 0; v < merged.csc.vertex_count; v++) {
		const double score = v < typed->counts[0] ? scores.types[0][v]
		                                          : scores.types[1][v - typed->counts[0]];

		cr_assert(fabs(score - wanted[v]) <= 1e-5 * wanted[v], "vertex %d: %.9g, not %.9g",
		          (int)v, score, (double)wanted[v]);
	}
	typed_scores_fini(typed, &scores);
	test_graph_fini(&merged);
	free(wanted);
}

/* With the same fanouts in both relations a bipartite graph is an untyped one. Its mutual edges and
 * overlaps are also the same. */
Test(typed, a_bipartite_graph_equals_the_same_graph_of_one_type)
{
	static const uint64_t train[] = { 0, 3, 4, 20, 41, 42, 77, 80, 81, 82, 83, 84, 85, 86, 87 };
	static const uint64_t counts[][2] = { { 90, 300 }, { 300, 90 }, { 400, 400 } };

	for (uint32_t i = 0; i < 6; i++) {
		struct rung_score_opts opts =
			expected_opts(4, i % 2 ? RUNG_DRAWS_ALL : RUNG_DRAWS_NEW);
		struct typed typed;

		rung__propagation_set_block_edges(i == 4 ? 9 : 0);
		typed_init(&typed, 2, counts[i / 2]);
		typed_add_random(&typed, 0, 1, 1200, i + 1, fanouts_a, i % 2 ? 4 : 8);
		if (i < 4) /* all edges are mutual, or else a few */
			typed_add_reverse(&typed, 0, fanouts_a, 4);
		else
			typed_add_random(&typed, 1, 0, 4000, i + 9, fanouts_a, 4);
		opts.train = train;
		opts.train_count = RUNG__ARRAY_LEN(train);
		assert_equals_merged(&typed, opts);
		typed_fini(&typed);
	}
}

/* Papers 0 (authors 0 and 1) and 2 (author 0, field 0), and paper 1 without edges; papers 0 and 1
 * are train vertices, in batches of one. Authors draw papers at the second hop only, and papers
 * fields at the third. */
static void init_papers(struct typed *typed)
{
	static const uint64_t counts[] = { 3, 2, 1, 5 }, authors[] = { 0, 1, 0 },
			      papers[] = { 0, 0, 2 }, field[] = { 0 }, paper[] = { 2 };
	static const uint32_t writes[] = { 1, 1, 1 }, written[] = { 0, 2, 0 },
			      about[] = { 0, 0, 1 }, none[] = { 0, 0, 0 };

	typed_init(typed, 4, counts);
	typed_add(typed, 1, 0, 3, copy_ids(authors, 3), copy_ids(papers, 3), writes, 4);
	typed_add_reverse(typed, 0, written, 4);
	typed_add(typed, 2, 0, 1, copy_ids(field, 1), copy_ids(paper, 1), about, 4);
	typed_add_reverse(typed, 2, none, 4);
}

static void assert_papers(enum rung_draws draws, double author, double edge)
{
	static const uint64_t train[] = { 0, 1 };
	struct rung_score_opts opts = expected_opts(3, draws);
	struct typed typed;
	struct typed_scores scores;
	struct simulated sim;

	opts.train = train;
	opts.train_count = 2;
	opts.batch_size = 1;
	init_papers(&typed);
	typed_score(&typed, &opts, &scores);
	cr_assert_float_eq(chance(scores.types[0][0]), 0.5, 1e-6);
	cr_assert_float_eq(chance(scores.types[0][1]), 0.5, 1e-6);
	cr_assert_float_eq(chance(scores.types[0][2]), 0.25, 1e-6);
	cr_assert_float_eq(chance(scores.types[1][0]), author, 1e-6);
	cr_assert_float_eq(chance(scores.types[1][1]), author, 1e-6);
	cr_assert_float_eq(chance(scores.types[2][0]), 0.25, 1e-6);
	for (unsigned v = 0; v < 5; v++) /* no relation has this type */
		cr_assert_eq(scores.types[3][v], 0);
	/* lists, and any of their edges */
	cr_assert_float_eq(chance(scores.lists[0][0]), 0.5, 1e-6);
	cr_assert_eq(scores.lists[0][1], 0); /* empty */
	cr_assert_float_eq(chance(scores.lists[0][2]), 0.25, 1e-6);
	cr_assert_float_eq(chance(scores.edges[0][0]), edge, 1e-6);
	cr_assert_float_eq(chance(scores.edges[0][2]), 0.25, 1e-6);
	cr_assert_float_eq(chance(scores.lists[1][0]), 0.25, 1e-6);
	cr_assert_float_eq(chance(scores.edges[1][0]), 0.25, 1e-6);
	cr_assert_float_eq(chance(scores.lists[2][2]), 0.25, 1e-6);
	cr_assert_eq(scores.lists[3][0], 0); /* draws nothing */
	cr_assert_eq(scores.edges[3][0], 0);
	/* the naive sampler agrees with what was worked out: 60000 batches, five deviations */
	simulate(&typed, &opts, 30000, 1, &sim);
	cr_assert_float_eq((double)sim.types[0][2] / 60000, 0.25, 0.01);
	cr_assert_float_eq((double)sim.types[1][0] / 60000, author, 0.01);
	cr_assert_float_eq((double)sim.types[2][0] / 60000, 0.25, 0.01);
	cr_assert_float_eq((double)sim.lists[1][0] / 60000, 0.25, 0.01);
	cr_assert_float_eq((double)sim.edges[0][0] / 60000, edge, 0.01);
	simulated_fini(&typed, &sim);
	typed_scores_fini(&typed, &scores);
	typed_fini(&typed);
}

/* Paper 0 draws one of its two authors at each hop, or only at the first. */
Test(typed, three_hops_worked_out_by_hand)
{
	assert_papers(RUNG_DRAWS_ALL, 0.5 * (1 - 0.125), 0.5 * (1 - 0.125));
	assert_papers(RUNG_DRAWS_NEW, 0.25, 0.25);
}

/* 1 -> 0 in one relation and 0 -> 1 in another, of the same type: vertex 1 is present only because
 * vertex 0 drew it, so it adds nothing. Train 0 and 2. */
Test(typed, the_reverse_in_another_relation_of_the_type_is_an_echo)
{
	static const uint64_t train[] = { 0, 2 }, count = 40;
	static const uint32_t fanouts[] = { 1, 1 };
	struct rung_score_opts opts = expected_opts(2, RUNG_DRAWS_ALL);
	uint64_t sources[20], targets[20];
	struct typed typed;
	struct typed_scores scores;

	opts.train = train;
	opts.train_count = 2;
	opts.batch_size = 1;
	for (uint64_t i = 0; i < 20; i++) {
		sources[i] = 2 * i + 1;
		targets[i] = 2 * i;
	}
	typed_init(&typed, 1, &count);
	typed_add(&typed, 0, 0, 20, copy_ids(sources, 20), copy_ids(targets, 20), fanouts, 4);
	typed_add_reverse(&typed, 0, fanouts, 4);
	typed_score(&typed, &opts, &scores);
	cr_assert_float_eq(chance(scores.types[0][0]), 0.5, 1e-6);
	cr_assert_float_eq(chance(scores.types[0][1]), 0.5, 1e-6);
	cr_assert_float_eq(chance(scores.types[0][2]), 0.5, 1e-6);
	cr_assert_eq(scores.types[0][4], 0);
	typed_scores_fini(&typed, &scores);
	typed_fini(&typed);
}

Test(typed, threads_and_blocks_do_not_change_the_result)
{
	struct rung_score_opts opts = expected_opts(2, RUNG_DRAWS_NEW);
	struct typed_scores scores, wanted;
	struct typed typed;

	init_academic(&typed, 1000);
	typed_score(&typed, &opts, &wanted);
	for (uint32_t threads = 1; threads <= 5; threads += 2) {
		opts.threads = threads;
		typed_score(&typed, &opts, &scores);
		cr_assert(typed_scores_equal(&typed, &scores, &wanted));
		typed_scores_fini(&typed, &scores);
	}
	typed_scores_fini(&typed, &wanted);
	typed_fini(&typed);
}

Test(typed, without_train_ids_all_vertices_of_the_seed_type_are_seeds)
{
	struct rung_score_opts opts = expected_opts(2, RUNG_DRAWS_ALL);
	struct typed_scores scores, wanted;
	uint64_t *train = malloc(2000 * sizeof(*train));
	struct typed typed;

	init_academic(&typed, 1000);
	typed.graph.seed_type = 1;
	typed_score(&typed, &opts, &scores);
	for (uint64_t v = 0; v < 2000; v++)
		train[v] = v;
	opts.train = train;
	opts.train_count = 2000;
	typed_score(&typed, &opts, &wanted);
	cr_assert(typed_scores_equal(&typed, &scores, &wanted));
	for (uint64_t v = 0; v < 2000; v++) /* in one of ceil(2000 / 7) batches, or drawn */
		cr_assert_geq(chance(scores.types[1][v]), 1.0 / 286 * (1 - 1e-6));
	typed_scores_fini(&typed, &scores);
	typed_scores_fini(&typed, &wanted);
	typed_fini(&typed);
	free(train);
}

static unsigned long long reported;

static int monotone(void *ctx, const char *step, unsigned long long done, unsigned long long total)
{
	(void)ctx;
	cr_assert(strcmp(step, "score") != 0 || (done >= reported && done <= total));
	reported = done;
	return 0;
}

static int cancel(void *ctx, const char *step, unsigned long long done, unsigned long long total)
{
	(void)ctx, (void)step, (void)total;
	return done > 9000;
}

Test(typed, progress_counts_the_edges_of_all_relations)
{
	struct rung_score_opts opts = expected_opts(2, RUNG_DRAWS_ALL);
	struct typed_scores scores;
	struct typed typed;

	init_academic(&typed, 1000);
	opts.progress = monotone;
	typed_score(&typed, &opts, &scores);
	cr_assert_eq(reported, 2 * 17000, "%llu", reported);
	opts.progress = cancel;
	cr_assert_eq(rung__score_typed(&typed.graph, &opts,
	                               &(struct rung__typed_scores){ .types = scores.types }, NULL),
	             RUNG_E_CANCELED);
	typed_scores_fini(&typed, &scores);
	typed_fini(&typed);
}

static void assert_fails(const struct typed *typed, const struct rung_score_opts *opts, int status,
                         const char *message)
{
	float *types[TYPES_MAX] = { malloc(4096), malloc(4096), malloc(4096), malloc(4096) };
	const struct rung__typed_scores out = { .types = types };

	cr_assert_eq(rung__score_typed(&typed->graph, opts, &out, NULL), status, "%s", message);
	cr_assert(strstr(rung_last_error(), message), "%s", rung_last_error());
	for (unsigned i = 0; i < TYPES_MAX; i++)
		free(types[i]);
}

Test(typed, options_that_are_wrong_are_refused)
{
	static const uint64_t twice[] = { 1, 2, 1 }, outside[] = { 0, 3 };
	struct rung_score_opts opts = expected_opts(3, RUNG_DRAWS_ALL);
	struct typed typed;

	init_papers(&typed);
	opts.train = twice;
	opts.train_count = 3;
	assert_fails(&typed, &opts, RUNG_E_INVAL, "entries 0 and 2 are both 1");
	opts.train = outside;
	opts.train_count = 2;
	assert_fails(&typed, &opts, RUNG_E_RANGE, "entry 1 is 3, not below the vertex count 3");
	opts.train_count = 0;
	opts.method = RUNG_SCORE_DEGREE;
	assert_fails(&typed, &opts, RUNG_E_INVAL, "score degree: not for several types");
	opts.method = RUNG_SCORE_EXPECTED;
	opts.hop_count = 0;
	assert_fails(&typed, &opts, RUNG_E_INVAL, "no fanouts");
	opts.hop_count = RUNG_HOPS_MAX + 1;
	assert_fails(&typed, &opts, RUNG_E_INVAL, "17 hops; use at most 16");
	opts.hop_count = 3;
	opts.draws = (enum rung_draws)9;
	assert_fails(&typed, &opts, RUNG_E_INVAL, "9 is not a valid value for draws");
	typed_fini(&typed);
}

Test(typed, relations_that_do_not_match_the_types_are_refused)
{
	const struct rung_score_opts opts = expected_opts(3, RUNG_DRAWS_ALL);
	float *edges[4] = { (float[3]){ 0 } };
	const struct rung__typed_scores edges_alone = { .edges = edges };
	struct rung__typed_relation relation;
	struct typed typed;

	init_papers(&typed);
	typed.graph.seed_type = 4;
	assert_fails(&typed, &opts, RUNG_E_INVAL, "seeds of type 4; there are 4 types");
	typed.graph.seed_type = 0;
	relation = typed.relations[1];
	typed.relations[1].target_type = 4;
	assert_fails(&typed, &opts, RUNG_E_INVAL, "relation 1: from type 0 to type 4");
	typed.relations[1].target_type = 0;
	assert_fails(&typed, &opts, RUNG_E_INVAL, "relation 1: 2 lists of 3 vertices");
	typed.relations[1] = relation;
	typed.relations[1].fanouts = NULL;
	assert_fails(&typed, &opts, RUNG_E_INVAL, "relation 1: no fanouts");
	typed.relations[1].fanouts = relation.fanouts;
	typed.relations[1].csc = NULL;
	assert_fails(&typed, &opts, RUNG_E_INVAL, "relation 1: give the lists");
	typed.relations[1] = relation;
	cr_assert_eq(rung__score_typed(&typed.graph, &opts, &edges_alone, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "relation 0: scores of edges without"), "%s",
	          rung_last_error());
	typed.graph.relation_count = 0;
	assert_fails(&typed, &opts, RUNG_E_INVAL, "4 types and 0 relations");
	typed.graph.relation_count = 4;
	typed_fini(&typed);
}

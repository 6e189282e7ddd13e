/* SPDX-License-Identifier: Apache-2.0 */
/* Expected access: probabilities worked out by hand, and a naive reference in double that follows
 * the formula edge by edge. */
#include <math.h>

#include "graphs.h"
#include "base/base.h"
#include "propagation/minhash.h"
#include "rung/rank.h"
#include "propagation/propagation.h"

struct drawers {
	uint64_t least[3];
	double count;
};

struct reference {
	const struct test_graph *graph;
	const struct rung_score_opts *opts;
	double *score;           /* [hop_count + 1][vertex_count] S of each hop */
	struct drawers *drawers; /* [vertex_count] */
};

static uint64_t degree_of(const struct reference *ref, uint64_t v)
{
	return ref->graph->indptr[v + 1] - ref->graph->indptr[v];
}

static bool draws_from(const struct reference *ref, uint64_t v, uint64_t u)
{
	for (uint64_t e = ref->graph->indptr[v]; e < ref->graph->indptr[v + 1]; e++) {
		if (test_id(ref->graph->csc.indices, ref->graph->csc.index_bytes, e) == u)
			return true;
	}
	return false;
}

static double chance(const struct reference *ref, uint32_t hop, uint64_t v)
{
	const double fanout = ref->opts->fanouts[hop], degree = (double)degree_of(ref, v);

	return degree == 0                             ? 0
	       : ref->opts->fanouts[hop] == UINT32_MAX ? 1
	                                               : fmin(1, fanout / degree);
}

/* 1 - P_t(v). This keeps all digits if P is near 1; use P itself near 0. */
static double missing(const struct reference *ref, uint32_t t, uint64_t v)
{
	return exp(-ref->score[t * ref->graph->csc.vertex_count + v]);
}

static double present(const struct reference *ref, uint32_t t, uint64_t v)
{
	return -expm1(-ref->score[t * ref->graph->csc.vertex_count + v]);
}

/* Three hashes of 21 bits: the minimum of each over the vertices that have x in their lists. */
static void find_drawers(struct reference *ref)
{
	for (uint64_t x = 0; x < ref->graph->csc.vertex_count; x++)
		ref->drawers[x] = (struct drawers){ .least = { (1 << 21) - 1, (1 << 21) - 1,
			                                       (1 << 21) - 1 } };
	for (uint64_t e = 0; e < ref->graph->csc.edge_count; e++) {
		struct drawers *drawers = &ref->drawers[ref->graph->sources[e]];

		if (ref->graph->sources[e] == ref->graph->destinations[e])
			continue;
		for (unsigned i = 0; i < 3; i++)
			drawers->least[i] =
				RUNG__MIN(drawers->least[i],
			                  rung__minhash_of(ref->graph->destinations[e]) >> 21 * i &
			                          ((1 << 21) - 1));
		drawers->count++;
	}
}

/* A count rounded to four binary digits. */
static double rounded(double count)
{
	double step = 1;

	while (count / step >= 16)
		step *= 2;
	return count < 1 ? 1 : floor(count / step) * step;
}

/* The share of the vertices with v in their lists that also have u. */
static double shared(const struct reference *ref, uint64_t u, uint64_t v)
{
	const struct drawers *of_u = &ref->drawers[u], *of_v = &ref->drawers[v];
	const double u_count = rounded(of_u->count), v_count = rounded(of_v->count);
	unsigned equal = 0;

	for (unsigned i = 0; i < 3; i++)
		equal += of_u->least[i] % 256 == of_v->least[i] % 256;
	return fmin(1, equal / 3.0 / (1 + equal / 3.0) * (u_count + v_count) / v_count);
}

/* -log(1 - the probability that v has drawn u by hop l) */
static double given(const struct reference *ref, uint64_t v, uint64_t u, uint32_t l)
{
	const bool mutual = draws_from(ref, u, v), only_new = ref->opts->draws == RUNG_DRAWS_NEW;
	const double share = l > 0 ? shared(ref, u, v) : 0;
	long double a = 0, A = 1, b = 0, B = 1, p_before = 0, P_before = 1, r_before = 0,
		    R_before = 1;

	for (uint32_t t = 0; t <= l; t++) {
		long double p = present(ref, t, v), P = missing(ref, t, v), r = present(ref, t, u),
			    R = missing(ref, t, u);
		const long double q_v = chance(ref, t, v), q_u = chance(ref, t, u), a_old = a,
				  A_old = A;

		if (mutual) {
			p = B > 0 && p > b ? (p - b) / B : 0;
			P = B > 0 && P < B ? P / B : 1;
			r = A_old > 0 && r > a_old ? (r - a_old) / A_old : 0;
			R = A_old > 0 && R < A_old ? R / A_old : 1;
		}
		if (p > present(ref, 0, v))
			p -= (p - present(ref, 0, v)) * share * powl(q_v, 0.25L);
		if (P < missing(ref, 0, v))
			P += (missing(ref, 0, v) - P) * share * powl(q_v, 0.25L);
		if (only_new) {
			p = fmaxl(p, p_before), P = fminl(P, P_before), r = fmaxl(r, r_before),
			R = fminl(R, R_before);
			a += (p - p_before) * q_v;
			A = (A - q_v * P_before) + q_v * P;
			b += (r - r_before) * q_u;
			B = (B - q_u * R_before) + q_u * R;
			p_before = p, P_before = P, r_before = r, R_before = R;
		} else {
			a += p > a ? (p - a) * q_v : 0;
			A = P < A ? A * (1 - q_v) + P * q_v : A;
			b += r > b ? (r - b) * q_u : 0;
			B = R < B ? B * (1 - q_u) + R * q_u : B;
		}
	}
	return a < 0.5L ? (double)-log1pl(-a) : (double)-logl(A);
}

static void run_reference(const struct reference *ref)
{
	const uint64_t vertex_count = ref->graph->csc.vertex_count;
	const uint64_t train_count = ref->opts->train_count ? ref->opts->train_count : vertex_count;
	const double batches = ceil((double)train_count / ref->opts->batch_size);
	double *seed = calloc(vertex_count, sizeof(*seed));

	for (uint64_t i = 0; i < train_count; i++)
		seed[ref->opts->train_count ? ref->opts->train[i] : i] = -log1p(-1 / batches);
	memcpy(ref->score, seed, vertex_count * sizeof(*seed));
	for (uint32_t l = 0; l < ref->opts->hop_count; l++) {
		double *next = ref->score + (l + 1) * vertex_count;

		memcpy(next, seed, vertex_count * sizeof(*seed));
		for (uint64_t e = 0; e < ref->graph->csc.edge_count; e++) {
			if (ref->graph->sources[e] != ref->graph->destinations[e])
				next[ref->graph->sources[e]] +=
					given(ref, ref->graph->destinations[e],
				              ref->graph->sources[e], l);
		}
	}
	free(seed);
}

static void assert_equals_reference(const struct test_graph *graph, struct rung_score_opts opts)
{
	const uint64_t vertex_count = graph->csc.vertex_count;
	struct reference ref = {
		graph,
		&opts,
		calloc((opts.hop_count + 1) * vertex_count, sizeof(double)),
		calloc(vertex_count, sizeof(struct drawers)),
	};
	const double *expected = ref.score + opts.hop_count * vertex_count;
	float *score = malloc(vertex_count * sizeof(*score));
	struct rung_score_report report;

	opts.size = sizeof(opts);
	opts.method = RUNG_SCORE_EXPECTED;
	find_drawers(&ref);
	run_reference(&ref);
	cr_assert_eq(rung_score_compute(&graph->csc, &opts, score, &report), 0, "%s",
	             rung_last_error());
	for (uint64_t v = 0; v < vertex_count; v++) {
		const bool equal = isinf(expected[v]) ? isinf(score[v])
		                                      : fabs((double)score[v] - expected[v]) <=
		                                                1e-5 * expected[v];

		cr_assert(equal, "vertex %d: %.9g, expected %.9g (%u hops, draws %d)", (int)v,
		          (double)score[v], expected[v], opts.hop_count, (int)opts.draws);
	}
	cr_assert_eq(report.iterations, opts.hop_count);
	free(ref.score);
	free(ref.drawers);
	free(score);
}

/* Every edge and its reverse; loops once. */
static struct test_graph both_ways(const struct test_graph *graph, unsigned index_bytes)
{
	const uint64_t edge_count = graph->csc.edge_count;
	uint64_t *sources = malloc(2 * edge_count * sizeof(*sources)),
		 *destinations = malloc(2 * edge_count * sizeof(*destinations));
	uint64_t count = 0;

	for (uint64_t e = 0; e < edge_count; e++) {
		sources[count] = graph->sources[e];
		destinations[count++] = graph->destinations[e];
		if (graph->sources[e] == graph->destinations[e])
			continue;
		sources[count] = graph->destinations[e];
		destinations[count++] = graph->sources[e];
	}
	return test_graph_of_edges(graph->csc.vertex_count, count, sources, destinations,
	                           index_bytes);
}

static void try_options(const struct test_graph *graph, uint64_t train_count)
{
	static const uint32_t fanouts[] = { 3, 2, UINT32_MAX, 4 };
	uint64_t *train = malloc(train_count * sizeof(*train));

	for (uint64_t i = 0; i < train_count; i++)
		train[i] = i * (graph->csc.vertex_count / train_count);
	for (uint32_t hops = 1; hops <= 4; hops++) {
		for (int draws = RUNG_DRAWS_ALL; draws <= RUNG_DRAWS_NEW; draws++)
			assert_equals_reference(
				graph, (struct rung_score_opts){ .fanouts = fanouts,
			                                         .hop_count = hops,
			                                         .batch_size = 7,
			                                         .draws = (enum rung_draws)draws,
			                                         .train = train,
			                                         .train_count = train_count });
	}
	assert_equals_reference(
		graph,
		(struct rung_score_opts){ .fanouts = fanouts, .hop_count = 2, .batch_size = 16 });
	free(train);
}

Test(expected, it_equals_the_reference_with_some_mutual_edges)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct test_graph graph =
			test_graph_random(60 * seed, 700 * seed, seed, seed % 2 ? 4 : 8);

		rung__propagation_set_block_edges(seed == 3 ? 9 : 0);
		try_options(&graph, 30);
		test_graph_fini(&graph);
	}
}

Test(expected, it_equals_the_reference_if_all_edges_are_mutual)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct test_graph half = test_graph_random(80 * seed, 400 * seed, seed, 4),
				  graph = both_ways(&half, seed % 2 ? 4 : 8);

		rung__propagation_set_block_edges(seed == 3 ? 9 : 0);
		try_options(&graph, 20);
		test_graph_fini(&half);
		test_graph_fini(&graph);
	}
}

Test(expected, it_equals_the_reference_without_mutual_edges_or_any_edges)
{
	struct test_graph graph = test_graph_random(300, 2000, 4, 4),
			  empty = test_graph_random(40, 0, 1, 4);
	struct test_graph one = test_graph_of_edges(1, 2, calloc(2, sizeof(uint64_t)),
	                                            calloc(2, sizeof(uint64_t)), 4);

	/* from the larger to the smaller id: no edge is mutual */
	for (uint64_t e = 0; e < 2000; e++) {
		const uint64_t a = graph.sources[e], b = graph.destinations[e];

		graph.sources[e] = RUNG__MAX(a, b);
		graph.destinations[e] = RUNG__MIN(a, b);
	}
	struct test_graph acyclic =
		test_graph_of_edges(300, 2000, graph.sources, graph.destinations, 4);

	try_options(&acyclic, 30);
	try_options(&empty, 10);
	try_options(&one, 1);
	graph.sources = graph.destinations = NULL;
	test_graph_fini(&graph);
	test_graph_fini(&acyclic);
	test_graph_fini(&empty);
	test_graph_fini(&one);
}

/* 1 -> 0, 2 -> 0, 0 -> 1: vertex 0 draws one of 1 and 2, vertex 1 draws 0. Train 0 and 3, batches
 * of one. */
Test(expected, two_hops_worked_out_by_hand)
{
	static const uint64_t from[] = { 1, 2, 0 }, to[] = { 0, 0, 1 }, train[] = { 0, 3 };
	static const uint32_t fanouts[] = { 1, 1 };
	uint64_t *sources = malloc(sizeof(from)), *destinations = malloc(sizeof(to));
	struct rung_score_opts opts = {
		.size = sizeof(opts),
		.method = RUNG_SCORE_EXPECTED,
		.fanouts = fanouts,
		.hop_count = 2,
		.batch_size = 1,
		.train = train,
		.train_count = 2,
	};
	struct test_graph graph;
	float score[4];

	memcpy(sources, from, sizeof(from));
	memcpy(destinations, to, sizeof(to));
	graph = test_graph_of_edges(4, 3, sources, destinations, 4);
	/* Hop 0: P of 1 and 2 is 1/2 * 1/2. Hop 1, all vertices draw: 0 has drawn 2 with
	 * probability 1/4 and draws again: 1/4 + (1/2 - 1/4) / 2 = 3/8. Vertex 1 is present only
	 * because 0 drew it, so its draw adds nothing: 0 stays at 1/2. */
	cr_assert_eq(rung_score_compute(&graph.csc, &opts, score, NULL), 0);
	cr_assert_float_eq(-expm1(-score[0]), 0.5, 1e-6);
	cr_assert_float_eq(-expm1(-score[1]), 0.375, 1e-6);
	cr_assert_float_eq(-expm1(-score[2]), 0.375, 1e-6);
	cr_assert_float_eq(-expm1(-score[3]), 0.5, 1e-6);
	/* If only new vertices draw, 0 does not draw again. */
	opts.draws = RUNG_DRAWS_NEW;
	cr_assert_eq(rung_score_compute(&graph.csc, &opts, score, NULL), 0);
	cr_assert_float_eq(-expm1(-score[1]), 0.25, 1e-6);
	cr_assert_float_eq(-expm1(-score[2]), 0.25, 1e-6);
	test_graph_fini(&graph);
}

/* 2 -> 0, 1 -> 0, 1 -> 2: vertex 0 draws 1 and 2. Vertex 2 is present only through 0, and draws 1,
 * which 0 has drawn already. Train 0 and 3. */
Test(expected, a_neighbour_shared_with_the_drawing_vertex_counts_once)
{
	static const uint64_t from[] = { 2, 1, 1 }, to[] = { 0, 0, 2 }, train[] = { 0, 3 };
	static const uint32_t fanouts[] = { 2, 2 };
	uint64_t *sources = malloc(sizeof(from)), *destinations = malloc(sizeof(to));
	const struct rung_score_opts opts = {
		.size = sizeof(opts),
		.method = RUNG_SCORE_EXPECTED,
		.fanouts = fanouts,
		.hop_count = 2,
		.batch_size = 1,
		.train = train,
		.train_count = 2,
	};
	double share, equal = 0;
	struct test_graph graph;
	float score[4];

	for (unsigned i = 0; i < 3; i++)
		equal += (rung__minhash_of(0) >> 21 * i & 0x1fffff) <
		         (rung__minhash_of(2) >> 21 * i & 0x1fffff);
	cr_assert_gt(equal, 0);
	/* the estimated share of the vertices that draw 2 and also draw 1; the exact share is 1 */
	share = fmin(1, equal / (3 + equal) * (2 + 1));
	memcpy(sources, from, sizeof(from));
	memcpy(destinations, to, sizeof(to));
	graph = test_graph_of_edges(4, 3, sources, destinations, 4);
	/* vertex 1 is absent if neither 0, which is present half the time, nor 2 has drawn it */
	cr_assert_eq(rung_score_compute(&graph.csc, &opts, score, NULL), 0);
	cr_assert_float_eq(-expm1(-score[2]), 0.5, 1e-6);
	cr_assert_float_eq(-expm1(-score[1]), 1 - 0.5 * (1 - 0.5 * (1 - share)), 1e-6);
	test_graph_fini(&graph);
}

Test(expected, one_batch_certainly_has_all_train_vertices)
{
	struct test_graph graph = test_graph_random(50, 300, 6, 4);
	const uint32_t fanouts[] = { 2 };
	const uint64_t train[] = { 11, 4 };
	const struct rung_score_opts opts = {
		.size = sizeof(opts),
		.method = RUNG_SCORE_EXPECTED,
		.fanouts = fanouts,
		.hop_count = 1,
		.train = train,
		.train_count = 2,
	};
	float score[50];

	cr_assert_eq(rung_score_compute(&graph.csc, &opts, score, NULL), 0);
	cr_assert(isinf(score[11]) && isinf(score[4]));
	for (int v = 0; v < 50; v++)
		cr_assert(!isnan(score[v]) && score[v] >= 0);
	test_graph_fini(&graph);
}

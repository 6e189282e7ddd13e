/* SPDX-License-Identifier: Apache-2.0 */
/* Relations draw uniformly and independently of each other, and invalid options of typed graphs are
 * refused. */
#include "expect_error.h"
#include "sample/sample.h"
#include "sampler_fixture.h"
#include "relations_fixture.h"

#define DEGREE 40u

/* Two types: vertex 0 of the first has DEGREE sources in both relations, from the second type. */
struct stars {
	struct test_graph graph;
	struct rung_sampler_relation relations[2];
	uint64_t counts[2];
};

static void stars_init(struct stars *stars, const uint32_t *fanouts)
{
	uint64_t *from = malloc(DEGREE * sizeof(*from)), *to = calloc(DEGREE, sizeof(*to));

	for (uint64_t e = 0; e < DEGREE; e++)
		from[e] = e;
	stars->graph = test_graph_of_edges(1, DEGREE, from, to, 4);
	stars->graph.csc.source_count = DEGREE;
	stars->counts[0] = 1;
	stars->counts[1] = DEGREE;
	for (uint32_t i = 0; i < 2; i++)
		stars->relations[i] = (struct rung_sampler_relation){ .source_type = 1,
			                                              .csc = &stars->graph.csc,
			                                              .fanouts = &fanouts[i] };
}

static struct rung_sampler *stars_sampler(const struct stars *stars)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;

	opts.hop_count = 1;
	opts.seed = 2024;
	opts.threads = 1;
	opts.type_counts = stars->counts;
	opts.type_count = 2;
	opts.relations = stars->relations;
	opts.relation_count = 2;
	opts.edge_positions = 1;
	return typed_sampler(&opts);
}

/* The seed is fixed, so the values are the same in every run. Limits are the 0.999 quantiles of
 * chi-square. */
Test(sampler_relations, every_relation_draws_each_neighbour_equally_often)
{
	static const uint32_t fanouts[2] = { 3, 7 };
	const uint64_t batches = 20000, seed = 0;
	struct stars stars;
	struct rung_sampler *sampler;
	struct rung_batch *batch = make_batch();
	double counts[2][DEGREE] = { { 0 } };

	stars_init(&stars, fanouts);
	sampler = stars_sampler(&stars);
	for (uint64_t key = 0; key < batches; key++) {
		const struct rung_typed_batch *found = typed_sample(sampler, &seed, 1, key, batch);

		for (uint32_t i = 0; i < 2; i++) {
			cr_assert_eq(found->blocks[i].edge_count, fanouts[i]);
			for (uint64_t e = 0; e < fanouts[i]; e++)
				counts[i][found->blocks[i].edges[e]]++;
		}
	}
	for (uint32_t i = 0; i < 2; i++) {
		const double share = fanouts[i] / (double)DEGREE,
			     expected = (double)batches * share;
		const double variance = expected * (1 - share) * DEGREE / (DEGREE - 1);
		double chi_square = 0;

		for (uint64_t v = 0; v < DEGREE; v++)
			chi_square +=
				(counts[i][v] - expected) * (counts[i][v] - expected) / variance;
		cr_assert(chi_square < 72.1 && chi_square > 10, "relation %u: %g", i, chi_square);
	}
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
	test_graph_fini(&stars.graph);
}

/* Every pair of the draws of two relations is equally likely. */
Test(sampler_relations, relations_draw_independently)
{
	static const uint32_t fanouts[2] = { 1, 1 };
	const uint64_t batches = 64000, seed = 0;
	const double expected = (double)batches / (DEGREE * DEGREE);
	struct stars stars;
	struct rung_sampler *sampler;
	struct rung_batch *batch = make_batch();
	double *counts = calloc((size_t)DEGREE * DEGREE, sizeof(*counts)), chi_square = 0;

	stars_init(&stars, fanouts);
	sampler = stars_sampler(&stars);
	for (uint64_t key = 0; key < batches; key++) {
		const struct rung_typed_batch *found = typed_sample(sampler, &seed, 1, key, batch);

		counts[found->blocks[0].edges[0] * DEGREE + found->blocks[1].edges[0]]++;
	}
	for (uint64_t i = 0; i < (uint64_t)DEGREE * DEGREE; i++)
		chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
	cr_assert(chi_square < 1781, "1599 degrees of freedom: %g", chi_square);
	free(counts);
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
	test_graph_fini(&stars.graph);
}

/* The draws of a relation at a vertex stay when the fanouts of others change, and when the vertex
 * has another position. */
Test(sampler_relations, draws_of_a_relation_do_not_depend_on_others)
{
	static const uint32_t none[2] = { 0, 0 }, few[2] = { 3, 2 }, many[2] = { 9, 9 };
	struct typed_graph typed;
	struct rung_sampler_opts opts;
	struct rung_batch *a = make_batch(), *b = make_batch();
	const uint64_t seeds[] = { 1, 5, 2 }, alone = 2;

	typed_graph_init(&typed);
	opts = typed_opts(&typed, 2);
	for (uint32_t i = 0; i < RELATIONS; i++)
		typed.relations[i].fanouts = i == 1 ? few : none;
	for (unsigned form = 0; form < 2; form++) {
		struct rung_sampler *sampler = typed_sampler(&opts);

		typed_sample(sampler, form ? &alone : seeds, form ? 1 : 3, 8, form ? b : a);
		rung_sampler_destroy(sampler);
		for (uint32_t i = 0; i < RELATIONS; i++)
			typed.relations[i].fanouts = i == 1 ? few : many;
	}
	for (uint32_t hop = 0; hop < 2; hop++) {
		const struct rung_block *x = &rung_batch_typed(a)->blocks[hop * RELATIONS + 1],
					*y = &rung_batch_typed(b)->blocks[hop * RELATIONS + 1];

		cr_assert(few[hop] == y->indptr[1] && few[hop] == x->indptr[3] - x->indptr[2]);
		cr_assert_arr_eq(x->edges + x->indptr[2], y->edges, few[hop] * sizeof(*y->edges));
	}
	rung_batch_destroy(a);
	rung_batch_destroy(b);
	typed_graph_fini(&typed);
}

/* A type without vertices, and one that no relation reaches. */
Test(sampler_relations, types_can_be_empty)
{
	static const uint32_t all = UINT32_MAX;
	const uint64_t counts[3] = { 2, 0, 5 }, seeds[2] = { 1, 0 };
	const uint64_t indptr[3] = { 0, 0, 0 };
	const struct rung_csc csc = { 2, 0, indptr, indptr, 4, 0 };
	struct rung_csc to_empty = { 0, 0, indptr, indptr, 4, 2 };
	const struct rung_sampler_relation relations[2] = {
		{ .csc = &csc, .fanouts = &all },
		{ .target_type = 1, .csc = &to_empty, .fanouts = &all }
	};
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler *sampler;
	struct rung_batch *batch = make_batch();
	const struct rung_typed_batch *found;

	opts.hop_count = 1;
	opts.type_counts = counts;
	opts.type_count = 3;
	opts.relations = relations;
	opts.relation_count = 2;
	opts.edge_positions = 1;
	sampler = typed_sampler(&opts);
	found = typed_sample(sampler, seeds, 2, 0, batch);
	cr_assert(found->types[0].count == 2 && found->types[1].count == 0 &&
	          found->types[2].count == 0);
	cr_assert(found->blocks[0].dst_count == 2 && found->blocks[0].src_count == 2 &&
	          found->blocks[0].edge_count == 0 && found->blocks[0].edges != NULL);
	cr_assert(found->blocks[1].dst_count == 0 && found->blocks[1].src_count == 2 &&
	          found->blocks[1].indptr[0] == 0);
	rung_sampler_destroy(sampler);
	rung_batch_destroy(batch);
}

static void refuse(const struct rung_sampler_opts *opts, int status, const char *words)
{
	struct rung_sampler *sampler;

	assert_error(rung_sampler_create(NULL, opts, &sampler), status, words);
}

Test(sampler_relations, options_that_do_not_fit_are_refused)
{
	static const uint32_t two[2] = { 2, 2 };
	struct typed_graph typed;
	struct rung_sampler_opts opts, good;
	struct rung_sampler *sampler;

	typed_graph_init(&typed);
	for (uint32_t i = 0; i < RELATIONS; i++)
		typed.relations[i].fanouts = two;
	good = opts = typed_opts(&typed, 2);
	assert_error(rung_sampler_create(&typed.graphs[0].csc, &opts, &sampler), RUNG_E_INVAL,
	             "relations and a graph were given");
	opts.fanouts = two;
	refuse(&opts, RUNG_E_INVAL, "relations and fanouts were given");
	opts = good;
	opts.hop_count = 0;
	refuse(&opts, RUNG_E_INVAL, "0 hops; use 1 to 16");
	opts.hop_count = RUNG_HOPS_MAX + 1;
	refuse(&opts, RUNG_E_INVAL, "17 hops; use 1 to 16");
	opts = good;
	opts.draws = (enum rung_draws)2;
	refuse(&opts, RUNG_E_INVAL, "draws is 2");
	opts = good;
	opts.type_count = 0;
	refuse(&opts, RUNG_E_INVAL, "sampler: 0 types");
	opts = good;
	opts.type_counts = NULL;
	refuse(&opts, RUNG_E_INVAL, "sampler: 0 types");
	opts = good;
	opts.relation_count = 0;
	refuse(&opts, RUNG_E_INVAL, "0 relations; pass at least one");
	opts = good;
	opts.seed_type = TYPES;
	refuse(&opts, RUNG_E_INVAL, "seed_type is 3; it must be below the number of types, 3");
	opts = good;
	opts.relations = NULL;
	assert_error(rung_sampler_create(&typed.graphs[1].csc, &opts, &sampler), RUNG_E_INVAL,
	             "3 types and 6 relations without opts.relations");
	opts = (struct rung_sampler_opts)RUNG_SAMPLER_OPTS_INIT;
	opts.hop_count = 1;
	assert_error(rung_sampler_create(&typed.graphs[1].csc, &opts, &sampler), RUNG_E_INVAL,
	             "no fanouts");
	opts.fanouts = two;
	assert_error(rung_sampler_create(&typed.graphs[0].csc, &opts, &sampler), RUNG_E_INVAL,
	             "the entries are vertices of another type, which has 900");
	typed_graph_fini(&typed);
}

Test(sampler_relations, relations_that_do_not_fit_are_refused)
{
	static const uint32_t two[2] = { 2, 2 }, none[2] = { 0, 0 };
	uint64_t counts[TYPES] = { type_counts[0], type_counts[1], type_counts[2] };
	struct typed_graph typed;
	struct rung_sampler_opts opts;
	struct rung_sampler_relation *relations = typed.relations, kept;
	struct rung_structure structure;
	struct test_graph *graphs = typed.graphs;

	typed_graph_init(&typed);
	for (uint32_t i = 0; i < RELATIONS; i++)
		relations[i].fanouts = two;
	opts = typed_opts(&typed, 2);
	opts.type_counts = counts;
	kept = relations[4];
	relations[4].source_type = 3;
	refuse(&opts, RUNG_E_INVAL, "relation 4: source_type is 3; it must be below");
	relations[4] = kept;
	relations[4].target_type = 7;
	refuse(&opts, RUNG_E_INVAL, "relation 4: target_type is 7; it must be below");
	relations[4] = kept;
	relations[4].csc = NULL;
	refuse(&opts, RUNG_E_INVAL, "relation 4: no graph was given");
	relations[4] = kept;
	relations[4].structure = &structure;
	refuse(&opts, RUNG_E_INVAL, "relation 4: two graphs were given");
	relations[4] = kept;
	relations[4].fanouts = NULL;
	refuse(&opts, RUNG_E_INVAL, "relation 4: no fanouts");
	relations[4] = kept;
	graphs[4].csc.index_bytes = 2;
	refuse(&opts, RUNG_E_INVAL, "relation 4: index_bytes is 2");
	graphs[4].csc.index_bytes = 4;
	graphs[4].csc.vertex_count = 39;
	refuse(&opts, RUNG_E_INVAL, "relation 4: the graph has 39 lists, but type 2 has 40");
	graphs[4].csc.vertex_count = 40;
	graphs[4].csc.source_count = 0;
	refuse(&opts, RUNG_E_INVAL, "relation 4: the graph has 40 sources, but type 1 has 900");
	graphs[4].csc.source_count = UINT64_C(1) << 33;
	opts.relations = &relations[4];
	opts.relation_count = 1;
	counts[AUTHOR] = UINT64_C(1) << 33;
	refuse(&opts, RUNG_E_INVAL, "relation 0: index_bytes is 4, but type 1 has 8589934592");
	counts[AUTHOR] = graphs[4].csc.source_count = 900;
	/* a list that is never read */
	graphs[4].indptr[40] = graphs[4].csc.edge_count = UINT64_C(1) << 33;
	refuse(&opts, RUNG_E_NOSUP, "relation 0: a neighbour list has");
	opts = typed_opts(&typed, 2);
	for (uint32_t i = 0; i < RELATIONS; i++)
		relations[i].fanouts = none;
	refuse(&opts, RUNG_E_INVAL, "the fanouts of all 6 relations are 0");
	typed_graph_fini(&typed);
}

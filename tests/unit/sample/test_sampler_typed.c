/* SPDX-License-Identifier: Apache-2.0 */
/* Typed batches: a naive replay of their draws gives the same vertices and blocks; one type with
 * one relation equals a graph without types; threads and tables change nothing. */
#include "base/base.h"
#include "sample/sample.h"
#include "sampler_fixture.h"
#include "relations_fixture.h"

#define HOPS    3u
#define SEEDS   20u
#define ALL     UINT32_MAX
#define BATCHES 9u

static struct typed_graph typed;
static uint64_t seeds[BATCHES * SEEDS];

/* By relation and hop. All relations draw, some only at some hops, or whole lists. */
static const uint32_t fanouts[][RELATIONS][HOPS] = {
	{ { 4, 3, 2 }, { 3, 3, 3 }, { 2, 2, 2 }, { 1, 1, 1 }, { 5, 40, 2 }, { 2, 2, 2 } },
	{ { 4, 0, 33 }, { 0, 2, 0 }, { 0, ALL, 0 }, { 0, 3, 1 }, { 0, 0, 50 }, { 1, 0, 0 } },
	{ { 0, 0, 2 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } },
	{ { ALL, 1, 0 }, { 40, 1, 0 }, { 0, 9, 9 }, { 0, ALL, 0 }, { 0, 0, ALL }, { ALL, 0, 1 } },
};

static void set_fanouts(unsigned set)
{
	for (uint32_t i = 0; i < RELATIONS; i++)
		typed.relations[i].fanouts = fanouts[set][i];
}

static void setup(void)
{
	typed_graph_init(&typed);
	for (uint64_t i = 0; i < RUNG__ARRAY_LEN(seeds); i++)
		seeds[i] = i * 7 % type_counts[PAPER];
}

static void teardown(void)
{
	typed_graph_fini(&typed);
}

TestSuite(sampler_typed, .init = setup, .fini = teardown);

Test(sampler_typed, batches_are_those_of_a_naive_sampler_with_the_same_draws)
{
	struct rung_batch *batch = make_batch();

	for (unsigned set = 0; set < RUNG__ARRAY_LEN(fanouts); set++) {
		set_fanouts(set);
		for (unsigned form = 0; form < 2 * TYPES; form++) {
			struct rung_sampler_opts opts = typed_opts(&typed, HOPS);
			struct rung_sampler *sampler;

			opts.draws = form % 2 ? RUNG_DRAWS_NEW : RUNG_DRAWS_ALL;
			opts.seed_type = form / 2;
			sampler = typed_sampler(&opts);
			for (uint64_t key = 0; key < 4; key++) {
				const uint64_t count = key == 3 ? 1 : SEEDS;
				const uint64_t first[SEEDS] = { 3, 1, 39, 7, 0, 2, 5, 9 };
				const uint64_t *from = form / 2 == PAPER ? seeds : first;
				const uint64_t used = form / 2 == PAPER ? count : 8;

				assert_typed_batch(&typed, &opts, from, used,
				                   typed_sample(sampler, from, used, key, batch));
			}
			rung_sampler_destroy(sampler);
		}
	}
	rung_batch_destroy(batch);
}

/* Whole lists leave no choice, so that the replay is a breadth-first search. */
Test(sampler_typed, whole_lists_give_a_breadth_first_search)
{
	static const uint32_t all[2] = { ALL, ALL };
	struct rung_sampler_opts opts = typed_opts(&typed, 2);
	struct rung_batch *batch = make_batch();

	for (uint32_t i = 0; i < RELATIONS; i++)
		typed.relations[i].fanouts = all;
	for (int draws = RUNG_DRAWS_ALL; draws <= RUNG_DRAWS_NEW; draws++) {
		struct rung_sampler *sampler;

		opts.draws = (enum rung_draws)draws;
		sampler = typed_sampler(&opts);
		assert_typed_batch(&typed, &opts, seeds, 5,
		                   typed_sample(sampler, seeds, 5, 0, batch));
		rung_sampler_destroy(sampler);
	}
	rung_batch_destroy(batch);
}

static void assert_like_untyped(const struct rung_batch *untyped, const struct rung_batch *batch,
                                uint32_t hops)
{
	const struct rung_typed_batch *found = rung_batch_typed(batch);
	uint64_t count;
	const uint64_t *vertices = rung_batch_vertices(untyped, &count);

	cr_assert_eq(found->types[0].count, count);
	cr_assert_arr_eq(found->types[0].vertices, vertices, count * sizeof(*vertices));
	for (uint32_t hop = 0; hop < hops; hop++) {
		const struct rung_block *x = rung_batch_block(untyped, hop),
					*y = &found->blocks[hop];

		cr_assert_eq(found->types[0].hop_counts[hop], x->dst_count);
		cr_assert_eq(x->dst_count, y->dst_count);
		cr_assert_eq(x->src_count, y->src_count);
		cr_assert_eq(x->edge_count, y->edge_count);
		cr_assert_arr_eq(x->indptr, y->indptr, (x->dst_count + 1) * sizeof(*x->indptr));
		cr_assert_arr_eq(x->indices, y->indices, x->edge_count * sizeof(*x->indices));
		cr_assert_arr_eq(x->edges, y->edges, x->edge_count * sizeof(*x->edges));
	}
}

Test(sampler_typed, one_type_and_one_relation_equal_a_graph_without_types)
{
	static const uint32_t few[HOPS] = { 5, 40, 2 };
	struct rung_batch *untyped = make_batch(), *batch = make_batch();

	for (unsigned form = 0; form < 16; form++) {
		struct test_graph graph = test_graph_random(2000, 30000, 5, form & 1 ? 8 : 4);
		const struct rung_sampler_relation relation = { .csc = &graph.csc, .fanouts = few };
		struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
		struct rung_sampler *sampler;

		opts.hop_count = HOPS;
		opts.seed = 77;
		opts.threads = form & 2 ? 3 : 1;
		opts.draws = form & 4 ? RUNG_DRAWS_NEW : RUNG_DRAWS_ALL;
		opts.edge_positions = 1;
		rung__sampler_table_bytes = form & 8 ? 1 : UINT64_C(32) << 20;
		opts.fanouts = few;
		cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &sampler), 0);
		sample(sampler, seeds, SEEDS, 3, untyped);
		rung_sampler_destroy(sampler);
		opts.fanouts = NULL;
		opts.type_counts = &graph.csc.vertex_count;
		opts.type_count = 1;
		opts.relations = &relation;
		opts.relation_count = 1;
		sampler = typed_sampler(&opts);
		typed_sample(sampler, seeds, SEEDS, 3, batch);
		rung_sampler_destroy(sampler);
		assert_like_untyped(untyped, batch, HOPS);
		test_graph_fini(&graph);
	}
	rung_batch_destroy(untyped);
	rung_batch_destroy(batch);
}

Test(sampler_typed, edges_of_a_graph_without_types_are_the_entries_that_were_drawn)
{
	static const uint32_t mixed[HOPS] = { ALL, 3, 50 };
	struct test_graph graph = test_graph_random(500, 20000, 6, 4);
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler *sampler;
	struct rung_batch *batch = make_batch();
	const uint64_t *vertices;
	uint64_t count;

	opts.fanouts = mixed;
	opts.hop_count = HOPS;
	opts.edge_positions = 1;
	opts.threads = 2;
	cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &sampler), 0);
	sample(sampler, seeds, 5, 1, batch);
	vertices = rung_batch_vertices(batch, &count);
	for (uint32_t hop = 0; hop < HOPS; hop++) {
		const struct rung_block *block = rung_batch_block(batch, hop);

		for (uint64_t i = 0; i < block->dst_count; i++) {
			const uint64_t begin = graph.indptr[vertices[i]];
			const uint64_t drawn = block->indptr[i + 1] - block->indptr[i];

			assert_draws(begin, graph.indptr[vertices[i] + 1] - begin, mixed[hop],
			             block->edges + block->indptr[i], drawn);
		}
		for (uint64_t e = 0; e < block->edge_count; e++)
			cr_assert_eq(vertices[block->indices[e]],
			             test_id(graph.indices, 4, block->edges[e]));
	}
	rung_sampler_destroy(sampler);
	sampler = make_sampler(&graph.csc, mixed, HOPS, 0, 1);
	sample(sampler, seeds, 5, 1, batch);
	cr_assert_null(rung_batch_block(batch, 0)->edges, "positions were not requested");
	rung_sampler_destroy(sampler);
	rung_batch_destroy(batch);
	test_graph_fini(&graph);
}

struct handed {
	struct rung_batch *expected[BATCHES];
	_Atomic uint64_t equal;
};

static int compare(void *ctx, const struct rung_batch *batch, uint64_t idx, uint32_t thread)
{
	struct handed *handed = ctx;

	(void)thread;
	handed->equal +=
		typed_equal(rung_batch_typed(batch), rung_batch_typed(handed->expected[idx]));
	return 0;
}

Test(sampler_typed, batches_are_equal_for_any_thread_count_and_table)
{
	struct rung_sampler_opts opts = typed_opts(&typed, HOPS);
	struct rung_sampler *sampler;
	struct rung_batch *batch = make_batch();
	struct handed handed = { .equal = 0 };

	set_fanouts(0);
	sampler = typed_sampler(&opts);
	for (uint64_t b = 0; b < BATCHES; b++) {
		handed.expected[b] = make_batch();
		typed_sample(sampler, seeds + b * SEEDS, SEEDS, b, handed.expected[b]);
	}
	rung_sampler_destroy(sampler);
	for (unsigned form = 0; form < 8; form++) {
		struct rung_minibatches batches = RUNG_MINIBATCHES_INIT;

		/* the tables of institutions are dense, and those of the other types hashed */
		rung__sampler_table_bytes = form & 1 ? 200 : UINT64_C(32) << 20;
		opts.threads = form & 2 ? 3 : 1;
		sampler = typed_sampler(&opts);
		for (uint64_t b = 0; b < BATCHES; b++)
			cr_assert(typed_equal(
				typed_sample(sampler, seeds + b * SEEDS, SEEDS, b, batch),
				rung_batch_typed(handed.expected[b])));
		batches.seeds = seeds;
		batches.seed_count = BATCHES * SEEDS;
		batches.batch_size = SEEDS;
		batches.any_order = form & 4 ? 1 : 0;
		handed.equal = 0;
		cr_assert_eq(rung_sampler_run(sampler, &batches, compare, &handed), 0);
		cr_assert_eq(handed.equal, BATCHES);
		rung_sampler_destroy(sampler);
	}
	for (uint64_t b = 0; b < BATCHES; b++)
		rung_batch_destroy(handed.expected[b]);
	rung_batch_destroy(batch);
}

Test(sampler_typed, later_batches_allocate_nothing)
{
	struct rung_sampler_opts opts = typed_opts(&typed, HOPS);
	struct rung_sampler *sampler;
	struct rung_batch *batch = make_batch();

	set_fanouts(0);
	for (int hashed = 0; hashed < 2; hashed++) {
		rung__sampler_table_bytes = hashed ? 1 : UINT64_C(32) << 20;
		sampler = typed_sampler(&opts);
		typed_sample(sampler, seeds, SEEDS, 1, batch);
		rung__alloc_limit(0);
		typed_sample(sampler, seeds, SEEDS, 1, batch);
		rung__alloc_limit(-1);
		rung_sampler_destroy(sampler);
	}
	rung_batch_destroy(batch);
}

Test(sampler_typed, a_batch_can_be_filled_by_samplers_with_and_without_types)
{
	static const uint32_t two[] = { 2, 2 };
	struct test_graph graph = test_graph_random(600, 5000, 3, 4);
	struct rung_sampler_opts opts = typed_opts(&typed, HOPS);
	struct rung_sampler *untyped = make_sampler(&graph.csc, two, 2, 1, 1), *sampler;
	struct rung_batch *batch = make_batch();
	const uint64_t outside = type_counts[PAPER];
	uint64_t count;

	set_fanouts(0);
	sampler = typed_sampler(&opts);
	cr_assert_null(rung_batch_typed(batch), "empty");
	for (int round = 0; round < 2; round++) {
		sample(untyped, seeds, SEEDS, 0, batch);
		cr_assert_null(rung_batch_typed(batch), "without types");
		cr_assert(rung_batch_vertices(batch, &count) != NULL && count >= SEEDS);
		cr_assert(rung_batch_block(batch, 1) != NULL);
		assert_typed_batch(&typed, &opts, seeds, SEEDS,
		                   typed_sample(sampler, seeds, SEEDS, 0, batch));
		rung_batch_vertices(batch, &count);
		cr_assert_eq(count, 0);
		cr_assert_null(rung_batch_block(batch, 0));
	}
	cr_assert_eq(rung_sampler_sample(sampler, &outside, 1, 0, batch), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "seed 0 is 600, not below the vertex count 600"));
	cr_assert_null(rung_batch_typed(batch), "a failed batch is empty");
	rung_sampler_destroy(untyped);
	rung_sampler_destroy(sampler);
	rung_batch_destroy(batch);
	test_graph_fini(&graph);
}

Test(sampler_typed, every_allocation_may_fail_and_the_batch_stays_usable)
{
	struct rung_sampler_opts opts = typed_opts(&typed, HOPS);

	set_fanouts(0);
	for (int hashed = 0; hashed < 2; hashed++) {
		struct rung_sampler *sampler;
		struct rung_batch *batch = make_batch();
		int64_t limit;
		int rc;

		rung__sampler_table_bytes = hashed ? 1 : UINT64_C(32) << 20;
		for (limit = 0, rc = -1; rc < 0; limit++) {
			rung__alloc_limit(limit);
			rc = rung_sampler_create(NULL, &opts, &sampler);
			rung__alloc_limit(-1);
			cr_assert(rc == 0 || rc == RUNG_E_NOMEM);
		}
		cr_assert_geq(limit, hashed ? 6 : 9);
		for (limit = 0, rc = -1; rc < 0; limit++) {
			rung_batch_destroy(batch);
			batch = make_batch();
			rung__alloc_limit(limit);
			rc = rung_sampler_sample(sampler, seeds, SEEDS, 1, batch);
			rung__alloc_limit(-1);
			cr_assert(rc == 0 || rc == RUNG_E_NOMEM);
			if (rc < 0)
				cr_assert_null(rung_batch_typed(batch));
			assert_typed_batch(&typed, &opts, seeds, SEEDS,
			                   typed_sample(sampler, seeds, SEEDS, 1, batch));
		}
		cr_assert_geq(limit, 30);
		rung_batch_destroy(batch);
		rung_sampler_destroy(sampler);
	}
}

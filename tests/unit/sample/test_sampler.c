/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler: batches are valid for the lists of the graph and equal for any thread count; invalid
 * seeds and options are rejected. */
#include "base/base.h"
#include "sample/sample.h"
#include "sampler_fixture.h"

/* How often v occurs in the list. */
static uint64_t occurrences(const struct test_graph *graph, uint64_t list, uint64_t v)
{
	uint64_t count = 0;

	for (uint64_t e = graph->indptr[list]; e < graph->indptr[list + 1]; e++)
		count += test_id(graph->indices, graph->csc.index_bytes, e) == v;
	return count;
}

static void assert_list_drawn(const struct test_graph *graph, uint32_t fanout, uint64_t dst,
                              const uint64_t *vertices, const uint32_t *drawn, uint64_t count)
{
	const uint64_t degree = graph->indptr[dst + 1] - graph->indptr[dst];

	cr_assert_eq(count, degree < fanout ? degree : fanout,
	             "the count must be min(fanout, in_degree)");
	for (uint64_t i = 0; i < count; i++) {
		uint64_t times = 0;

		for (uint64_t k = 0; k < count; k++)
			times += drawn[k] == drawn[i];
		cr_assert_leq(times, occurrences(graph, dst, vertices[drawn[i]]),
		              "draws must be from the list and without replacement");
		if (count == degree)
			cr_assert_eq(vertices[drawn[i]],
			             test_id(graph->indices, graph->csc.index_bytes,
			                     graph->indptr[dst] + i),
			             "a whole list must be in order");
	}
}

/* At each hop, the vertices from dst_first on draw. */
static void assert_batch_draws(const struct test_graph *graph, const uint32_t *fanouts,
                               uint32_t hop_count, const uint64_t *seeds, uint64_t seed_count,
                               enum rung_draws draws, const struct rung_batch *batch)
{
	uint64_t vertex_count, known = seed_count, dst_first = 0;
	const uint64_t *vertices = rung_batch_vertices(batch, &vertex_count);
	char *seen = calloc(graph->csc.vertex_count, 1);

	cr_assert_eq(memcmp(vertices, seeds, seed_count * sizeof(*seeds)), 0,
	             "seeds must come first");
	for (uint64_t i = 0; i < vertex_count; i++) {
		cr_assert(i < seed_count || !seen[vertices[i]],
		          "each vertex must occur once, except repeated seeds");
		seen[vertices[i]] = 1;
	}
	for (uint32_t hop = 0; hop < hop_count; hop++) {
		const struct rung_block *block = rung_batch_block(batch, hop);

		cr_assert_eq(block->dst_count, known,
		             "a hop must begin with the vertices of the hop before");
		cr_assert_eq(block->indptr[0], 0);
		cr_assert_eq(block->indptr[block->dst_count], block->edge_count);
		cr_assert_eq(block->indptr[dst_first], 0,
		             "a vertex that has drawn must not draw again");
		for (uint64_t i = dst_first; i < block->dst_count; i++)
			assert_list_drawn(graph, fanouts[hop], vertices[i], vertices,
			                  block->indices + block->indptr[i],
			                  block->indptr[i + 1] - block->indptr[i]);
		for (uint64_t e = 0; e < block->edge_count; e++) {
			cr_assert_leq(block->indices[e], known,
			              "vertices must be numbered in order of first appearance");
			known += block->indices[e] == known;
		}
		cr_assert_eq(block->src_count, known);
		dst_first = draws == RUNG_DRAWS_NEW ? block->dst_count : 0;
	}
	cr_assert_eq(known, vertex_count);
	cr_assert_null(rung_batch_block(batch, hop_count));
	free(seen);
}

static void assert_batch(const struct test_graph *graph, const uint32_t *fanouts,
                         uint32_t hop_count, const uint64_t *seeds, uint64_t seed_count,
                         const struct rung_batch *batch)
{
	assert_batch_draws(graph, fanouts, hop_count, seeds, seed_count, RUNG_DRAWS_ALL, batch);
}

static bool batches_equal(const struct rung_batch *a, const struct rung_batch *b,
                          uint32_t hop_count)
{
	uint64_t a_count, b_count;
	const uint64_t *a_vertices = rung_batch_vertices(a, &a_count),
		       *b_vertices = rung_batch_vertices(b, &b_count);
	bool equal = a_count == b_count &&
	             !memcmp(a_vertices, b_vertices, a_count * sizeof(*a_vertices));

	for (uint32_t hop = 0; equal && hop < hop_count; hop++) {
		const struct rung_block *x = rung_batch_block(a, hop),
					*y = rung_batch_block(b, hop);

		equal = x->dst_count == y->dst_count && x->src_count == y->src_count &&
		        x->edge_count == y->edge_count &&
		        !memcmp(x->indptr, y->indptr, (x->dst_count + 1) * sizeof(uint64_t)) &&
		        (x->edge_count == 0 || /* indices may be NULL */
		         !memcmp(x->indices, y->indices, x->edge_count * sizeof(uint32_t)));
	}
	return equal;
}

Test(sampler, batches_of_random_multigraphs_are_as_documented)
{
	const uint32_t fanouts[][3] = {
		{ 5, 3, 2 },    { 1, 1, 1 },          { 33, 2, 40 },
		{ 200, 32, 7 }, { UINT32_MAX, 2, 3 }, { 3, UINT32_MAX, 1 },
	};

	for (unsigned index_bytes = 4; index_bytes <= 8; index_bytes += 4) {
		struct test_graph graph = test_graph_random(600, 30000, 40, index_bytes);
		struct rung_batch *batch = make_batch();
		uint64_t seeds[30];

		for (uint64_t i = 0; i < 30; i++)
			seeds[i] = (i * 37 + 11) % 600;
		for (size_t f = 0; f < RUNG__ARRAY_LEN(fanouts); f++) {
			struct rung_sampler *sampler =
				make_sampler(&graph.csc, fanouts[f], 3, 5, 2);

			for (uint64_t key = 0; key < 4; key++) {
				sample(sampler, seeds, key == 3 ? 1 : 30, key, batch);
				assert_batch(&graph, fanouts[f], 3, seeds, key == 3 ? 1 : 30,
				             batch);
			}
			rung_sampler_destroy(sampler);
		}
		rung_batch_destroy(batch);
		test_graph_fini(&graph);
	}
}

Test(sampler, only_new_vertices_draw_on_request)
{
	const uint32_t fanouts[] = { 5, 3, 40, 2 };

	for (unsigned index_bytes = 4; index_bytes <= 8; index_bytes += 4) {
		struct test_graph graph = test_graph_random(3000, 30000, 40, index_bytes);
		struct rung_batch *all = make_batch(), *one = make_batch(), *two = make_batch();
		struct rung_sampler_opts opts = { .size = sizeof(opts),
			                          .fanouts = fanouts,
			                          .hop_count = 4,
			                          .seed = 5,
			                          .threads = 1 };
		struct rung_sampler *all_draw = make_sampler(&graph.csc, fanouts, 4, 5, 1), *alone,
				    *shared;
		const uint64_t seeds[] = { 7, 2999, 40 };
		const struct rung_block *a, *b;

		opts.draws = RUNG_DRAWS_NEW;
		cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &alone), 0);
		opts.threads = 3;
		cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &shared), 0);
		sample(all_draw, seeds, 3, 9, all);
		sample(alone, seeds, 3, 9, one);
		sample(shared, seeds, 3, 9, two);
		assert_batch_draws(&graph, fanouts, 4, seeds, 3, RUNG_DRAWS_NEW, one);
		cr_assert(batches_equal(one, two, 4));
		a = rung_batch_block(all, 0);
		b = rung_batch_block(one, 0);
		cr_assert_eq(memcmp(a->indices, b->indices, a->edge_count * sizeof(*a->indices)), 0,
		             "all vertices are new at hop 0");
		cr_assert_gt(rung_batch_block(all, 1)->edge_count,
		             rung_batch_block(one, 1)->edge_count);
		rung_sampler_destroy(all_draw);
		rung_sampler_destroy(alone);
		rung_sampler_destroy(shared);
		rung_batch_destroy(all);
		rung_batch_destroy(one);
		rung_batch_destroy(two);
		test_graph_fini(&graph);
	}
}

/* Degrees and fanouts around the limits between the algorithms. */
Test(sampler, lists_of_every_length_are_drawn_without_repeats)
{
	const uint64_t degrees[] = { 1, 2, 31, 32, 33, 63, 64, 65, 66, 100, 1000 };
	const uint32_t fanouts[] = { 1, 2, 31, 32, 33, 63, 64, 65, 99, 500, 999 };

	for (size_t d = 0; d < RUNG__ARRAY_LEN(degrees); d++) {
		struct test_graph graph = star(degrees[d]);
		struct rung_batch *batch = make_batch();
		const uint64_t seed = 0;

		for (size_t f = 0; f < RUNG__ARRAY_LEN(fanouts); f++) {
			struct rung_sampler *sampler =
				make_sampler(&graph.csc, &fanouts[f], 1, 1, 1);

			for (uint64_t key = 0; key < 5; key++) {
				sample(sampler, &seed, 1, key, batch);
				assert_batch(&graph, &fanouts[f], 1, &seed, 1, batch);
			}
			rung_sampler_destroy(sampler);
		}
		rung_batch_destroy(batch);
		test_graph_fini(&graph);
	}
}

Test(sampler, batches_are_equal_for_any_thread_count_and_id_width)
{
	const uint32_t fanouts[] = { 10, 40, 5 }, threads[] = { 2, 3, 7 };
	struct test_graph graph = test_graph_random(20000, 400000, 12, 4),
			  wide = test_graph_random(20000, 400000, 12, 8);
	struct rung_sampler *one = make_sampler(&graph.csc, fanouts, 3, 99, 1);
	struct rung_batch *expected = make_batch(), *found = make_batch();
	uint64_t seeds[700];

	for (uint64_t i = 0; i < 700; i++)
		seeds[i] = (i * 7919) % 20000;
	sample(one, seeds, 700, 3, expected);
	for (size_t t = 0; t < RUNG__ARRAY_LEN(threads); t++) {
		struct rung_sampler *sampler =
			make_sampler(t == 1 ? &wide.csc : &graph.csc, fanouts, 3, 99, threads[t]);

		/* another batch first: none of its state must remain */
		sample(sampler, seeds, 700, 2, found);
		cr_assert(!batches_equal(expected, found, 3),
		          "another key must give another batch");
		sample(sampler, seeds, 700, 3, found);
		cr_assert(batches_equal(expected, found, 3), "%u threads", threads[t]);
		rung_sampler_destroy(sampler);
	}
	for (int hashed = 0; hashed < 4; hashed++) {
		struct rung_sampler_opts opts = {
			.size = sizeof(opts), .fanouts = fanouts, .hop_count = 3, .seed = 99
		};
		struct rung_sampler *sampler;

		rung__sampler_table_bytes = 1;
		opts.threads = hashed % 2 ? 3 : 1;
		cr_assert_eq(
			rung_sampler_create(hashed / 2 ? &wide.csc : &graph.csc, &opts, &sampler),
			0);
		sample(sampler, seeds, 700, 2, found);
		/* small batches are cleared by another method */
		sample(sampler, seeds, 1, 2, found);
		sample(sampler, seeds, 700, 3, found);
		cr_assert(batches_equal(expected, found, 3),
		          "batches must not depend on the kind of table");
		sample(sampler, seeds, 1, 3, found);
		sample(sampler, seeds, 700, 3, found);
		cr_assert(batches_equal(expected, found, 3),
		          "a small batch must leave nothing in the table");
		rung_sampler_destroy(sampler);
	}
	rung_sampler_destroy(one);
	one = make_sampler(&graph.csc, fanouts, 3, 100, 1);
	sample(one, seeds, 700, 3, found);
	cr_assert(!batches_equal(expected, found, 3), "another seed must give another batch");
	rung_sampler_destroy(one);
	rung_batch_destroy(expected);
	rung_batch_destroy(found);
	test_graph_fini(&graph);
	test_graph_fini(&wide);
}

/* Each seed has the list of the first that is equal, and edges lead to the first. */
static void assert_repeats(const struct rung_block *block, const uint64_t *seeds,
                           uint64_t seed_count)
{
	for (uint64_t i = 0; i < seed_count; i++) {
		const uint64_t at = block->indptr[i], count = block->indptr[i + 1] - at;
		uint64_t first = 0;

		while (seeds[first] != seeds[i])
			first++;
		cr_assert_eq(block->indptr[first + 1] - block->indptr[first], count);
		cr_assert_arr_eq(block->indices + at, block->indices + block->indptr[first],
		                 count * sizeof(*block->indices));
		for (uint64_t e = 0; first < i && e < block->edge_count; e++)
			cr_assert_neq(block->indices[e], i);
	}
}

Test(sampler, repeated_seeds_have_separate_rows_and_lists)
{
	const uint32_t fanouts[][2] = { { 3, 2 }, { UINT32_MAX, UINT32_MAX } };
	struct test_graph graph = test_graph_random(100, 1000, 4, 4);
	uint64_t many[300];

	for (uint64_t i = 0; i < RUNG__ARRAY_LEN(many); i++)
		many[i] = i * 7 % 100; /* all vertices, three times */
	for (unsigned run = 0; run < 16; run++) {
		struct rung_sampler_opts opts = { .size = sizeof(opts),
			                          .fanouts = fanouts[run / 8],
			                          .hop_count = 2,
			                          .threads = run % 2 ? 3 : 1 };
		const uint64_t few[] = { 4, 9, 7, 9, 9, 4 };
		struct rung_batch *batch = make_batch(), *fresh = make_batch();
		struct rung_sampler *sampler, *other;

		opts.draws = run / 2 % 2 ? RUNG_DRAWS_NEW : RUNG_DRAWS_ALL;
		rung__sampler_table_bytes = run / 4 % 2 ? 1 : UINT64_MAX;
		cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &sampler), 0);
		for (uint64_t key = 0; key < 4; key++) {
			const uint64_t *seeds = key % 2 ? few : many;
			const uint64_t count = key % 2 ? 6 : 300;

			sample(sampler, seeds, count, key, batch);
			assert_batch_draws(&graph, opts.fanouts, 2, seeds, count, opts.draws,
			                   batch);
			assert_repeats(rung_batch_block(batch, 0), seeds, count);
			cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &other), 0);
			sample(other, seeds, count, key, fresh);
			cr_assert(batches_equal(batch, fresh, 2),
			          "a batch must leave nothing in the table");
			rung_sampler_destroy(other);
		}
		rung_sampler_destroy(sampler);
		rung_batch_destroy(batch);
		rung_batch_destroy(fresh);
	}
	test_graph_fini(&graph);
}

Test(sampler, invalid_seeds_are_named_and_leave_no_state)
{
	struct test_graph graph = test_graph_random(100, 1000, 4, 4);
	const uint32_t fanouts[] = { 5, 5 };
	struct rung_sampler *sampler = make_sampler(&graph.csc, fanouts, 2, 1, 1);
	struct rung_batch *batch = make_batch();
	const uint64_t outside[] = { 4, 9, 100 }, good[] = { 4, 9, 7 };
	uint64_t count;

	cr_assert_eq(rung_sampler_sample(sampler, outside, 3, 0, batch), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "seed 2 is 100") != NULL, "%s", rung_last_error());
	cr_assert_eq(rung_sampler_sample(sampler, good, 0, 0, batch), RUNG_E_INVAL);
	rung_batch_vertices(batch, &count);
	cr_assert_eq(count, 0);
	cr_assert_null(rung_batch_block(batch, 0));
	sample(sampler, good, 3, 0, batch);
	assert_batch(&graph, fanouts, 2, good, 3, batch);
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
	test_graph_fini(&graph);
}

Test(sampler, hop_counts_and_fanouts_have_limits)
{
	struct test_graph graph = star(3);
	uint32_t fanouts[RUNG_HOPS_MAX + 1];
	struct rung_sampler_opts opts = { .size = sizeof(opts),
		                          .fanouts = fanouts,
		                          .hop_count = RUNG_HOPS_MAX };
	struct rung_sampler *sampler;
	struct rung_batch *batch = make_batch();
	const uint64_t seed = 2;

	for (int i = 0; i <= RUNG_HOPS_MAX; i++)
		fanouts[i] = 2;
	cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &sampler), 0);
	sample(sampler, &seed, 1, 0, batch); /* without in-neighbours: sixteen empty blocks */
	for (uint32_t hop = 0; hop < RUNG_HOPS_MAX; hop++)
		cr_assert(rung_batch_block(batch, hop)->edge_count == 0 &&
		          rung_batch_block(batch, hop)->src_count == 1);
	rung_sampler_destroy(sampler);
	opts.hop_count = RUNG_HOPS_MAX + 1;
	cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &sampler), RUNG_E_INVAL);
	opts.hop_count = 0;
	cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &sampler), RUNG_E_INVAL);
	opts.hop_count = 2;
	opts.draws = (enum rung_draws)2;
	cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &sampler), RUNG_E_INVAL);
	opts.draws = RUNG_DRAWS_ALL;
	fanouts[1] = 0;
	cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &sampler), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "hop 1") != NULL);
	fanouts[1] = 1;
	graph.indptr[1] = graph.csc.edge_count = UINT64_C(1) << 32; /* never read */
	graph.indptr[2] = graph.indptr[3] = graph.indptr[4] = graph.indptr[1];
	graph.csc.index_bytes = 4;
	cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &sampler), RUNG_E_NOSUP);
	graph.csc.index_bytes = 8;
	cr_assert_eq(rung_sampler_create(&graph.csc, &opts, &sampler), 0);
	rung_sampler_destroy(sampler);
	rung_batch_destroy(batch);
	test_graph_fini(&graph);
}

Test(sampler, every_allocation_may_fail_and_the_batch_stays_usable)
{
	for (unsigned hashed = 0; hashed < 4; hashed++) {
		struct test_graph graph = test_graph_random(500, 30000, 4, hashed % 2 ? 8 : 4);
		const uint32_t fanouts[] = { 4, 40 };
		const struct rung_sampler_opts opts = {
			.size = sizeof(opts),
			.fanouts = fanouts,
			.hop_count = 2,
			.threads = hashed % 2 + 1,
		};
		const uint64_t seeds[] = { 1, 30, 499 };
		struct rung_sampler *sampler;
		struct rung_batch *batch = make_batch();
		int64_t limit;
		int rc;

		rung__sampler_table_bytes = hashed / 2 ? 1 : UINT64_C(32) << 20;
		for (limit = 0, rc = -1; rc < 0; limit++) {
			cr_assert_lt(limit, 12);
			rung__alloc_limit(limit);
			rc = rung_sampler_create(&graph.csc, &opts, &sampler);
			rung__alloc_limit(-1);
			cr_assert(rc == 0 || rc == RUNG_E_NOMEM);
		}
		for (limit = 0, rc = -1; rc < 0; limit++) {
			rung_batch_destroy(batch);
			batch = make_batch();
			rung__alloc_limit(limit);
			rc = rung_sampler_sample(sampler, seeds, 3, 1, batch);
			rung__alloc_limit(-1);
			cr_assert(rc == 0 || rc == RUNG_E_NOMEM);
			if (rc < 0) {
				uint64_t count;

				rung_batch_vertices(batch, &count);
				cr_assert_eq(count, 0);
				sample(sampler, seeds, 3, 1, batch);
			}
			assert_batch(&graph, fanouts, 2, seeds, 3, batch);
		}
		cr_assert_geq(limit, 6);
		rung_batch_destroy(batch);
		rung_sampler_destroy(sampler);
		test_graph_fini(&graph);
	}
}

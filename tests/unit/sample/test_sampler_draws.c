/* SPDX-License-Identifier: Apache-2.0 */
/* The draws of the sampler: uniform, and independent of the batch and of other hops. */
#include "base/base.h"
#include "sampler_fixture.h"

/* The seed is fixed, so these values are the same in every run. Limits are the 0.999 quantiles of
 * chi-square. */
static void assert_uniform(uint64_t degree, uint32_t fanout, uint64_t batches, double limit)
{
	struct test_graph graph = star(degree);
	struct rung_sampler *sampler = make_sampler(&graph.csc, &fanout, 1, 2024, 1);
	struct rung_batch *batch = make_batch();
	double *counts = calloc(degree, sizeof(*counts));
	const double share = (double)fanout / (double)degree, expected = (double)batches * share;
	/* draws without replacement vary less than a binomial */
	const double variance = expected * (1 - share) * (double)degree / (double)(degree - 1);
	double chi_square = 0;
	const uint64_t seed = 0;

	for (uint64_t key = 0; key < batches; key++) {
		uint64_t vertex_count;
		const uint64_t *vertices;

		sample(sampler, &seed, 1, key, batch);
		vertices = rung_batch_vertices(batch, &vertex_count);
		for (uint64_t i = 1; i < vertex_count; i++)
			counts[vertices[i] - 1]++;
	}
	for (uint64_t i = 0; i < degree; i++)
		chi_square += (counts[i] - expected) * (counts[i] - expected) / variance;
	cr_assert_lt(chi_square, limit, "degree %d, fanout %d: chi-square %g", (int)degree,
	             (int)fanout, chi_square);
	cr_assert_gt(chi_square, (double)degree / 4,
	             "degree %d, fanout %d: chi-square %g is too even for chance", (int)degree,
	             (int)fanout, chi_square);
	free(counts);
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
	test_graph_fini(&graph);
}

Test(sampler_draws, every_neighbour_is_drawn_equally_often)
{
	assert_uniform(20, 5, 20000, 43.8);
	assert_uniform(64, 1, 20000, 103.4);
	assert_uniform(100, 10, 20000, 148.2);
	assert_uniform(101, 32, 10000, 149.4);
	assert_uniform(201, 50, 10000, 267.5);
}

Test(sampler_draws, every_pair_of_neighbours_is_drawn_equally_often)
{
	struct test_graph graph = star(5);
	const uint32_t fanout = 2;
	struct rung_sampler *sampler = make_sampler(&graph.csc, &fanout, 1, 7, 1);
	struct rung_batch *batch = make_batch();
	double counts[6][6] = { { 0 } }, chi_square = 0;
	const uint64_t seed = 0;

	for (uint64_t key = 0; key < 20000; key++) {
		uint64_t vertex_count;
		const uint64_t *vertices;

		sample(sampler, &seed, 1, key, batch);
		vertices = rung_batch_vertices(batch, &vertex_count);
		counts[RUNG__MIN(vertices[1], vertices[2])][RUNG__MAX(vertices[1], vertices[2])]++;
	}
	for (int a = 1; a <= 5; a++) {
		for (int b = a + 1; b <= 5; b++)
			chi_square += (counts[a][b] - 2000) * (counts[a][b] - 2000) / 2000;
	}
	cr_assert_lt(chi_square, 27.9, "9 degrees of freedom: %g", chi_square);
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
	test_graph_fini(&graph);
}

/* Draws depend on the vertex, not on its position in the batch, so the draws of one seed are
 * independent of the others. */
Test(sampler_draws, draws_of_a_vertex_do_not_depend_on_the_batch)
{
	struct test_graph graph = test_graph_random(300, 30000, 6, 4);
	const uint32_t fanout = 7;
	struct rung_sampler *sampler = make_sampler(&graph.csc, &fanout, 1, 1, 1);
	struct rung_batch *alone = make_batch(), *among = make_batch();
	const uint64_t seed = 8, seeds[] = { 3, 5, 8, 13 };
	const struct rung_block *a, *b;
	uint64_t count;

	sample(sampler, &seed, 1, 6, alone);
	sample(sampler, seeds, 4, 6, among);
	a = rung_batch_block(alone, 0);
	b = rung_batch_block(among, 0);
	cr_assert_eq(a->edge_count, 7);
	for (uint64_t i = 0; i < 7; i++)
		cr_assert_eq(rung_batch_vertices(alone, &count)[a->indices[i]],
		             rung_batch_vertices(among, &count)[b->indices[b->indptr[2] + i]]);
	rung_batch_destroy(alone);
	rung_batch_destroy(among);
	rung_sampler_destroy(sampler);
	test_graph_fini(&graph);
}

/* A vertex that draws again at the next hop draws independently. */
Test(sampler_draws, hops_draw_independently)
{
	struct test_graph graph = star(50);
	const uint32_t fanouts[] = { 5, 5 };
	struct rung_sampler *sampler = make_sampler(&graph.csc, fanouts, 2, 1, 1);
	struct rung_batch *batch = make_batch();
	const uint64_t seed = 0;

	sample(sampler, &seed, 1, 0, batch);
	cr_assert_gt(rung_batch_block(batch, 1)->src_count, 6);
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
	test_graph_fini(&graph);
}

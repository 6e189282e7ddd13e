/* SPDX-License-Identifier: Apache-2.0 */
/** Small graphs for tests, built edge by edge without the code under test. */
#ifndef TESTS_GRAPHS_H
#define TESTS_GRAPHS_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "rung/graph.h"

struct test_graph {
	uint64_t *sources, *destinations; /* [edge_count] in input order */
	uint64_t *indptr;
	void *indices;
	struct rung_csc csc;
};

/* xorshift64*: not the generator of the library */
static inline uint64_t test_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

static inline uint64_t test_id(const void *ids, unsigned bytes, uint64_t i)
{
	return bytes == 4 ? ((const uint32_t *)ids)[i] : ((const uint64_t *)ids)[i];
}

static inline void *test_ids(const uint64_t *values, uint64_t count, unsigned bytes)
{
	void *ids = malloc(count * bytes + 1);

	cr_assert(ids != NULL);
	for (uint64_t i = 0; i < count; i++) {
		if (bytes == 4)
			((uint32_t *)ids)[i] = (uint32_t)values[i];
		else
			((uint64_t *)ids)[i] = values[i];
	}
	return ids;
}

/* Takes ownership of the two arrays. */
static inline struct test_graph test_graph_of_edges(uint64_t vertex_count, uint64_t edge_count,
                                                    uint64_t *sources, uint64_t *destinations,
                                                    unsigned index_bytes)
{
	struct test_graph graph = { .sources = sources, .destinations = destinations };
	uint64_t *lists = malloc(edge_count * sizeof(*lists) + 1),
		 *next = calloc(vertex_count + 1, sizeof(*next));

	graph.indptr = calloc(vertex_count + 1, sizeof(*graph.indptr));
	cr_assert(lists && next && graph.indptr);
	for (uint64_t e = 0; e < edge_count; e++)
		graph.indptr[destinations[e] + 1]++;
	for (uint64_t v = 0; v < vertex_count; v++)
		graph.indptr[v + 1] += graph.indptr[v];
	for (uint64_t e = 0; e < edge_count; e++)
		lists[graph.indptr[destinations[e]] + next[destinations[e]]++] = sources[e];
	graph.indices = test_ids(lists, edge_count, index_bytes);
	graph.csc = (struct rung_csc){ vertex_count,  edge_count,  graph.indptr,
		                       graph.indices, index_bytes, 0 };
	free(lists);
	free(next);
	return graph;
}

/* Random edges, some vertices much more likely than others, with self loops and parallel edges; the
 * last tenth has no in-edges. */
static inline struct test_graph test_graph_random(uint64_t vertex_count, uint64_t edge_count,
                                                  uint64_t seed, unsigned index_bytes)
{
	uint64_t *sources = malloc(edge_count * sizeof(*sources) + 1),
		 *destinations = malloc(edge_count * sizeof(*destinations) + 1);
	uint64_t state = seed * 2 + 1;

	cr_assert(sources && destinations);
	for (uint64_t e = 0; e < edge_count; e++) {
		const uint64_t range =
			test_random(&state) % 2 ? vertex_count : vertex_count / 20 + 1;

		sources[e] = test_random(&state) % range;
		destinations[e] = test_random(&state) % (vertex_count - vertex_count / 10);
	}
	return test_graph_of_edges(vertex_count, edge_count, sources, destinations, index_bytes);
}

static inline void test_graph_fini(struct test_graph *graph)
{
	free(graph->sources);
	free(graph->destinations);
	free(graph->indptr);
	free(graph->indices);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Small relations between two types of vertices, and their naive lists, for tests of edges in
 * files. */
#ifndef TESTS_UNIT_EDGES_RELATION_FIXTURE_H
#define TESTS_UNIT_EDGES_RELATION_FIXTURE_H

#include "edges_fixture.h"

#define WIDE_COUNT (UINT64_C(1) << 33) /* sources whose ids need 8 bytes */

static inline unsigned id_bytes(uint64_t source_count)
{
	return source_count > UINT64_C(1) << 32 ? 8 : 4;
}

static inline struct test_graph of_edges(uint64_t source_count, uint64_t target_count,
                                         uint64_t edge_count, uint64_t *sources, uint64_t *targets)
{
	struct test_graph graph = test_graph_of_edges(target_count, edge_count, sources, targets,
	                                              id_bytes(source_count));

	graph.csc.source_count = source_count;
	return graph;
}

/* Random edges; half of the sources are among the first twentieth, one edge connects the last two
 * vertices, and a fifth of all edges repeat another. */
static inline struct test_graph relation_random(uint64_t source_count, uint64_t target_count,
                                                uint64_t edge_count)
{
	uint64_t *sources = malloc(edge_count * sizeof(*sources) + 1),
		 *targets = malloc(edge_count * sizeof(*targets) + 1), state = 2 * edge_count + 1;

	for (uint64_t e = 0; e < edge_count; e++) {
		const uint64_t hot = source_count / 20 + 1;

		sources[e] = test_random(&state) % (e % 2 ? hot : source_count);
		targets[e] = test_random(&state) % (target_count - target_count / 10);
		if (e == 2) {
			sources[e] = source_count - 1;
			targets[e] = target_count - 1;
		} else if (e % 5 == 4) {
			sources[e] = sources[e / 2];
			targets[e] = targets[e / 2];
		}
	}
	return of_edges(source_count, target_count, edge_count, sources, targets);
}

static inline uint64_t *copy(const uint64_t *values, uint64_t count)
{
	uint64_t *there = malloc(count * sizeof(*there) + 1);

	memcpy(there, values, count * sizeof(*there));
	return there;
}

/* Every edge turned around, in the order of the input. */
static inline struct test_graph turned_edges(const struct test_graph *graph)
{
	const struct rung_csc *csc = &graph->csc;

	return of_edges(csc->vertex_count, csc->source_count, csc->edge_count,
	                copy(graph->destinations, csc->edge_count),
	                copy(graph->sources, csc->edge_count));
}

/* Every edge turned around, in the order of the lists. */
static inline struct test_graph turned_lists(const struct test_graph *graph)
{
	const struct rung_csc *csc = &graph->csc;
	uint64_t *sources = malloc(csc->edge_count * sizeof(*sources) + 1),
		 *targets = malloc(csc->edge_count * sizeof(*targets) + 1);

	for (uint64_t v = 0; v < csc->vertex_count; v++) {
		for (uint64_t e = csc->indptr[v]; e < csc->indptr[v + 1]; e++) {
			sources[e] = v;
			targets[e] = test_id(csc->indices, csc->index_bytes, e);
		}
	}
	return of_edges(csc->vertex_count, csc->source_count, csc->edge_count, sources, targets);
}

static inline struct rung_edges_opts opts_of(const struct rung_csc *csc, int reversed)
{
	struct rung_edges_opts opts = DEFAULTS;

	opts.graph.vertex_count = csc->vertex_count;
	opts.graph.source_count = csc->source_count;
	opts.graph.reversed = reversed;
	return opts;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Small typed graphs, and a naive sampler for them that shares no code with the library. */
#ifndef RUNG_TEST_TYPED_GRAPHS_H
#define RUNG_TEST_TYPED_GRAPHS_H

#include "graphs.h"
#include "rung/rank.h"
#include "score/typed.h"

enum { TYPES_MAX = 4, RELATIONS_MAX = 8 };

struct typed {
	uint64_t counts[TYPES_MAX];
	struct test_graph lists[RELATIONS_MAX];
	struct rung__typed_relation relations[RELATIONS_MAX];
	struct rung__typed_graph graph;
};

static inline void typed_init(struct typed *typed, uint32_t type_count, const uint64_t *counts)
{
	*typed = (struct typed){ .graph = { .type_counts = typed->counts,
		                            .type_count = type_count,
		                            .relations = typed->relations } };
	memcpy(typed->counts, counts, type_count * sizeof(*counts));
}

/* Add a relation with these edges. The arrays are freed by typed_fini(). */
static inline void typed_add(struct typed *typed, uint32_t source, uint32_t target,
                             uint64_t edge_count, uint64_t *sources, uint64_t *targets,
                             const uint32_t *fanouts, unsigned index_bytes)
{
	const uint32_t r = typed->graph.relation_count++;
	struct test_graph *lists = &typed->lists[r];

	*lists = test_graph_of_edges(typed->counts[target], edge_count, sources, targets,
	                             index_bytes);
	lists->csc.source_count = source == target ? 0 : typed->counts[source];
	typed->relations[r] = (struct rung__typed_relation){
		.source_type = source, .target_type = target, .csc = &lists->csc, .fanouts = fanouts
	};
}

/* The edges of relation r turned around. */
static inline void typed_add_reverse(struct typed *typed, uint32_t r, const uint32_t *fanouts,
                                     unsigned index_bytes)
{
	const struct test_graph *lists = &typed->lists[r];
	const uint64_t bytes = lists->csc.edge_count * sizeof(uint64_t);
	uint64_t *sources = malloc(bytes + 1), *targets = malloc(bytes + 1);

	memcpy(sources, lists->destinations, bytes);
	memcpy(targets, lists->sources, bytes);
	typed_add(typed, typed->relations[r].target_type, typed->relations[r].source_type,
	          lists->csc.edge_count, sources, targets, fanouts, index_bytes);
}

/* Random edges; half of their sources are among the first twentieth. */
static inline void typed_add_random(struct typed *typed, uint32_t source, uint32_t target,
                                    uint64_t edge_count, uint64_t seed, const uint32_t *fanouts,
                                    unsigned index_bytes)
{
	uint64_t *sources = malloc(edge_count * sizeof(*sources) + 1),
		 *targets = malloc(edge_count * sizeof(*targets) + 1);
	uint64_t state = 2 * seed + 1;

	for (uint64_t e = 0; e < edge_count; e++) {
		const uint64_t range = test_random(&state) % 2 ? typed->counts[source]
		                                               : typed->counts[source] / 20 + 1;

		sources[e] = test_random(&state) % range;
		targets[e] = test_random(&state) % typed->counts[target];
	}
	typed_add(typed, source, target, edge_count, sources, targets, fanouts, index_bytes);
}

static inline void typed_fini(struct typed *typed)
{
	for (uint32_t r = 0; r < typed->graph.relation_count; r++)
		test_graph_fini(&typed->lists[r]);
}

/* Results of rung__score_typed(), with every array. */
struct typed_scores {
	float *types[TYPES_MAX], *lists[RELATIONS_MAX], *edges[RELATIONS_MAX];
	struct rung_score_report report;
};

static inline void typed_score(const struct typed *typed, const struct rung_score_opts *opts,
                               struct typed_scores *scores)
{
	const struct rung__typed_scores out = { scores->types, scores->lists, scores->edges };

	for (uint32_t i = 0; i < typed->graph.type_count; i++)
		scores->types[i] = calloc(typed->counts[i] + 1, sizeof(float));
	for (uint32_t r = 0; r < typed->graph.relation_count; r++) {
		const uint64_t count = typed->counts[typed->relations[r].target_type];

		scores->lists[r] = calloc(count + 1, sizeof(float));
		scores->edges[r] = calloc(count + 1, sizeof(float));
	}
	cr_assert_eq(rung__score_typed(&typed->graph, opts, &out, &scores->report), 0, "%s",
	             rung_last_error());
}

static inline void typed_scores_fini(const struct typed *typed, struct typed_scores *scores)
{
	for (uint32_t i = 0; i < typed->graph.type_count; i++)
		free(scores->types[i]);
	for (uint32_t r = 0; r < typed->graph.relation_count; r++) {
		free(scores->lists[r]);
		free(scores->edges[r]);
	}
}

/* Whether all arrays have the same bits. */
static inline bool typed_scores_equal(const struct typed *typed, const struct typed_scores *a,
                                      const struct typed_scores *b)
{
	bool equal = true;

	for (uint32_t i = 0; i < typed->graph.type_count; i++)
		equal = equal &&
		        !memcmp(a->types[i], b->types[i], typed->counts[i] * sizeof(float));
	for (uint32_t r = 0; r < typed->graph.relation_count; r++) {
		const uint64_t bytes =
			typed->counts[typed->relations[r].target_type] * sizeof(float);

		equal = equal && !memcmp(a->lists[r], b->lists[r], bytes) &&
		        !memcmp(a->edges[r], b->edges[r], bytes);
	}
	return equal;
}

/* Counts of a simulation: batches with the vertex, with a read of the list, with the edge. */
struct simulated {
	uint64_t *types[TYPES_MAX], *lists[RELATIONS_MAX], *edges[RELATIONS_MAX];
	uint64_t batches;
	/* of the current batch: 1 + hop count at which a vertex was added, 0: not present; whether
	 * the list was read, or the edge drawn */
	uint32_t *since[TYPES_MAX];
	uint8_t *read[RELATIONS_MAX], *drawn[RELATIONS_MAX];
	uint64_t state;
};

/* Draw for vertex v at a hop: the first `fanout` positions of a random order. */
static inline void simulate_vertex(const struct typed *typed, struct simulated *sim, uint32_t r,
                                   uint32_t hop, uint64_t v)
{
	const struct test_graph *lists = &typed->lists[r];
	const uint64_t begin = lists->indptr[v], degree = lists->indptr[v + 1] - begin;
	const uint32_t fanout = typed->relations[r].fanouts[hop];
	const uint64_t count = degree < fanout ? degree : fanout;
	uint32_t *since = sim->since[typed->relations[r].source_type];
	uint64_t *order = malloc(degree * sizeof(*order) + 1);

	sim->read[r][v] = sim->read[r][v] || count > 0;
	for (uint64_t i = 0; i < degree; i++)
		order[i] = begin + i;
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t k = i + test_random(&sim->state) % (degree - i), edge = order[k];
		const uint64_t u = test_id(lists->csc.indices, lists->csc.index_bytes, edge);

		order[k] = order[i];
		sim->drawn[r][edge] = 1;
		since[u] = since[u] ? since[u] : hop + 2;
	}
	free(order);
}

static inline void simulate_batch(const struct typed *typed, struct simulated *sim,
                                  const struct rung_score_opts *opts, const uint64_t *seeds,
                                  uint64_t seed_count)
{
	for (uint64_t i = 0; i < seed_count; i++)
		sim->since[typed->graph.seed_type][seeds[i]] = 1;
	for (uint32_t hop = 0; hop < opts->hop_count; hop++) {
		for (uint32_t r = 0; r < typed->graph.relation_count; r++) {
			const uint32_t type = typed->relations[r].target_type;

			for (uint64_t v = 0; v < typed->counts[type]; v++) {
				const uint32_t since = sim->since[type][v];

				if (since && since <= hop + 1 &&
				    (opts->draws == RUNG_DRAWS_ALL || since == hop + 1))
					simulate_vertex(typed, sim, r, hop, v);
			}
		}
	}
	sim->batches++;
	for (uint32_t i = 0; i < typed->graph.type_count; i++) {
		for (uint64_t v = 0; v < typed->counts[i]; v++)
			sim->types[i][v] += sim->since[i][v] > 0;
		memset(sim->since[i], 0, typed->counts[i] * sizeof(**sim->since));
	}
	for (uint32_t r = 0; r < typed->graph.relation_count; r++) {
		const uint64_t lists = typed->counts[typed->relations[r].target_type];

		for (uint64_t v = 0; v < lists; v++)
			sim->lists[r][v] += sim->read[r][v];
		for (uint64_t e = 0; e < typed->lists[r].csc.edge_count; e++)
			sim->edges[r][e] += sim->drawn[r][e];
		memset(sim->read[r], 0, lists);
		memset(sim->drawn[r], 0, typed->lists[r].csc.edge_count);
	}
}

/* Sample whole epochs, each in a random order. */
static inline void simulate(const struct typed *typed, const struct rung_score_opts *opts,
                            uint64_t epochs, uint64_t seed, struct simulated *sim)
{
	const uint64_t seeds = typed->counts[typed->graph.seed_type],
		       train_count = opts->train_count ? opts->train_count : seeds;
	uint64_t *order = malloc(train_count * sizeof(*order) + 1);

	*sim = (struct simulated){ .state = 2 * seed + 1 };
	for (uint32_t i = 0; i < typed->graph.type_count; i++) {
		sim->types[i] = calloc(typed->counts[i] + 1, sizeof(**sim->types));
		sim->since[i] = calloc(typed->counts[i] + 1, sizeof(**sim->since));
	}
	for (uint32_t r = 0; r < typed->graph.relation_count; r++) {
		const uint64_t lists = typed->counts[typed->relations[r].target_type],
			       edges = typed->lists[r].csc.edge_count;

		sim->lists[r] = calloc(lists + 1, sizeof(**sim->lists));
		sim->read[r] = calloc(lists + 1, 1);
		sim->edges[r] = calloc(edges + 1, sizeof(**sim->edges));
		sim->drawn[r] = calloc(edges + 1, 1);
	}
	for (uint64_t i = 0; i < train_count; i++)
		order[i] = opts->train_count ? opts->train[i] : i;
	for (uint64_t epoch = 0; epoch < epochs; epoch++) {
		for (uint64_t i = train_count; i > 1; i--) {
			const uint64_t k = test_random(&sim->state) % i, id = order[k];

			order[k] = order[i - 1];
			order[i - 1] = id;
		}
		for (uint64_t i = 0; i < train_count; i += opts->batch_size)
			simulate_batch(typed, sim, opts, order + i,
			               train_count - i < opts->batch_size ? train_count - i
			                                                  : opts->batch_size);
	}
	free(order);
}

static inline void simulated_fini(const struct typed *typed, struct simulated *sim)
{
	for (uint32_t i = 0; i < typed->graph.type_count; i++) {
		free(sim->types[i]);
		free(sim->since[i]);
	}
	for (uint32_t r = 0; r < typed->graph.relation_count; r++) {
		free(sim->lists[r]);
		free(sim->read[r]);
		free(sim->edges[r]);
		free(sim->drawn[r]);
	}
}

/* Papers that cite papers, with authors, fields and institutions. */
static inline void init_academic(struct typed *typed, uint64_t papers)
{
	static const uint32_t cites[] = { 5, 3 }, writes[] = { 3, 2 }, written[] = { 2, 3 },
			      about[] = { 2, 1 }, of_field[] = { 0, 4 }, works[] = { 1, 1 };
	const uint64_t counts[] = { papers, 2 * papers, papers / 10, papers / 20 };

	typed_init(typed, 4, counts);
	typed_add_random(typed, 0, 0, 6 * papers, 1, cites, 4);
	typed_add_random(typed, 1, 0, 3 * papers, 2, writes, 8);
	typed_add_reverse(typed, 1, written, 4);
	typed_add_random(typed, 2, 0, 2 * papers, 3, about, 4);
	typed_add_reverse(typed, 3, of_field, 4);
	typed_add_random(typed, 3, 1, papers, 4, works, 4);
}

static inline struct rung_score_opts expected_opts(uint32_t hop_count, enum rung_draws draws)
{
	return (struct rung_score_opts){ .size = sizeof(struct rung_score_opts),
		                         .method = RUNG_SCORE_EXPECTED,
		                         .hop_count = hop_count,
		                         .batch_size = 7,
		                         .draws = draws };
}

#endif

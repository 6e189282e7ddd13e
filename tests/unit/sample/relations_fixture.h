/* SPDX-License-Identifier: Apache-2.0 */
/** A graph of papers, authors and institutions, and a naive replay of typed batches. */
#ifndef RELATIONS_FIXTURE_H
#define RELATIONS_FIXTURE_H

#include "graphs.h"
#include "rung/sampler.h"

#define TYPES     3u
#define RELATIONS 6u

enum { PAPER, AUTHOR, INSTITUTION };

static const uint64_t type_counts[TYPES] = { 600, 900, 40 };

struct typed_graph {
	struct test_graph graphs[RELATIONS];
	struct rung_sampler_relation relations[RELATIONS];
};

/* Lists of every length from 0 to far above the mean. */
static inline struct test_graph bipartite(uint64_t sources, uint64_t targets, uint64_t edges,
                                          uint64_t seed, unsigned index_bytes)
{
	uint64_t *from = malloc(edges * sizeof(*from)), *to = malloc(edges * sizeof(*to));
	uint64_t state = seed * 2 + 1;
	struct test_graph graph;

	cr_assert(from && to);
	for (uint64_t e = 0; e < edges; e++) {
		from[e] = test_random(&state) % sources;
		to[e] = test_random(&state) % (test_random(&state) % targets + 1);
	}
	graph = test_graph_of_edges(targets, edges, from, to, index_bytes);
	graph.csc.source_count = sources;
	return graph;
}

static inline void typed_graph_init(struct typed_graph *typed)
{
	static const uint32_t ends[RELATIONS][2] = {
		{ AUTHOR, PAPER },       { PAPER, PAPER },        { PAPER, AUTHOR },
		{ INSTITUTION, AUTHOR }, { AUTHOR, INSTITUTION }, { PAPER, PAPER }
	};

	memset(typed, 0, sizeof(*typed));
	for (uint32_t i = 0; i < RELATIONS; i++) {
		typed->graphs[i] = bipartite(type_counts[ends[i][0]], type_counts[ends[i][1]], 5000,
		                             i + 1, i % 2 ? 8 : 4);
		typed->relations[i].source_type = ends[i][0];
		typed->relations[i].target_type = ends[i][1];
		typed->relations[i].csc = &typed->graphs[i].csc;
	}
	/* source_count 0 is vertex_count */
	typed->graphs[1].csc.source_count = 0;
}

static inline void typed_graph_fini(struct typed_graph *typed)
{
	for (uint32_t i = 0; i < RELATIONS; i++)
		test_graph_fini(&typed->graphs[i]);
}

static inline struct rung_sampler_opts typed_opts(const struct typed_graph *typed, uint32_t hops)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;

	opts.hop_count = hops;
	opts.seed = 11;
	opts.threads = 1;
	opts.type_counts = type_counts;
	opts.type_count = TYPES;
	opts.relations = typed->relations;
	opts.relation_count = RELATIONS;
	opts.seed_type = PAPER;
	opts.edge_positions = 1;
	return opts;
}

static inline struct rung_sampler *typed_sampler(const struct rung_sampler_opts *opts)
{
	struct rung_sampler *sampler;

	cr_assert_eq(rung_sampler_create(NULL, opts, &sampler), 0, "%s", rung_last_error());
	return sampler;
}

static inline const struct rung_typed_batch *typed_sample(struct rung_sampler *sampler,
                                                          const uint64_t *seeds,
                                                          uint64_t seed_count, uint64_t key,
                                                          struct rung_batch *batch)
{
	const struct rung_typed_batch *found;

	cr_assert_eq(rung_sampler_sample(sampler, seeds, seed_count, key, batch), 0, "%s",
	             rung_last_error());
	found = rung_batch_typed(batch);
	cr_assert(found != NULL);
	return found;
}

static inline bool typed_equal(const struct rung_typed_batch *a, const struct rung_typed_batch *b)
{
	const uint64_t block_count = (uint64_t)a->hop_count * a->relation_count;
	bool equal = a->type_count == b->type_count && a->relation_count == b->relation_count &&
	             a->hop_count == b->hop_count;

	for (uint32_t i = 0; equal && i < a->type_count; i++) {
		const struct rung_typed_vertices *x = &a->types[i], *y = &b->types[i];

		equal = x->count == y->count &&
		        !memcmp(x->hop_counts, y->hop_counts,
		                (a->hop_count + 1) * sizeof(*x->hop_counts)) &&
		        (x->count == 0 ||
		         !memcmp(x->vertices, y->vertices, x->count * sizeof(*x->vertices)));
	}
	for (uint64_t i = 0; equal && i < block_count; i++) {
		const struct rung_block *x = &a->blocks[i], *y = &b->blocks[i];

		equal = x->dst_count == y->dst_count && x->src_count == y->src_count &&
		        x->edge_count == y->edge_count &&
		        !memcmp(x->indptr, y->indptr, (x->dst_count + 1) * sizeof(*x->indptr)) &&
		        (x->edge_count == 0 ||
		         (!memcmp(x->indices, y->indices, x->edge_count * sizeof(*x->indices)) &&
		          !memcmp(x->edges, y->edges, x->edge_count * sizeof(*x->edges))));
	}
	return equal;
}

/* What the naive replay knows: the vertices of each type so far. */
struct replay {
	uint64_t *vertices[TYPES];
	uint64_t counts[TYPES];
};

/* Position of a vertex; a new one is appended. */
static inline uint64_t replay_position(struct replay *replay, uint32_t type, uint64_t vertex)
{
	uint64_t i = 0;

	while (i < replay->counts[type] && replay->vertices[type][i] != vertex)
		i++;
	if (i == replay->counts[type])
		replay->vertices[type][replay->counts[type]++] = vertex;
	return i;
}

/* The draws of a list: the right number, inside the list, without repeats, and a whole list in its
 * order. */
static inline void assert_draws(uint64_t begin, uint64_t degree, uint32_t fanout,
                                const uint64_t *edges, uint64_t count)
{
	cr_assert_eq(count, fanout < degree ? fanout : degree);
	for (uint64_t i = 0; i < count; i++) {
		cr_assert(edges[i] >= begin && edges[i] < begin + degree,
		          "an edge of another list");
		for (uint64_t k = 0; k < i; k++)
			cr_assert_neq(edges[i], edges[k], "an edge was drawn twice");
		if (count == degree)
			cr_assert_eq(edges[i], begin + i, "a whole list must be in order");
	}
}

/* The block of a relation must follow from the positions that it drew. */
static inline void replay_block(struct replay *replay, const struct rung_sampler_relation *relation,
                                const struct test_graph *graph, uint32_t fanout, uint64_t first,
                                uint64_t known, const struct rung_block *block)
{
	const uint64_t *targets = replay->vertices[relation->target_type];

	cr_assert_eq(block->dst_count, known);
	cr_assert_eq(block->indptr[0], 0);
	cr_assert_eq(block->indptr[known], block->edge_count);
	cr_assert(block->edges != NULL);
	for (uint64_t i = 0; i < known; i++) {
		const uint64_t begin = graph->indptr[targets[i]],
			       degree = graph->indptr[targets[i] + 1] - begin;

		assert_draws(begin, degree, i < first ? 0 : fanout, block->edges + block->indptr[i],
		             block->indptr[i + 1] - block->indptr[i]);
		for (uint64_t e = block->indptr[i]; e < block->indptr[i + 1]; e++)
			cr_assert_eq(block->indices[e],
			             replay_position(replay, relation->source_type,
			                             test_id(graph->indices, graph->csc.index_bytes,
			                                     block->edges[e])));
	}
}

/* A batch must be what a naive sampler returns that draws the same positions. */
static inline void assert_typed_batch(const struct typed_graph *typed,
                                      const struct rung_sampler_opts *opts, const uint64_t *seeds,
                                      uint64_t seed_count, const struct rung_typed_batch *batch)
{
	struct replay replay = { .counts = { 0 } };
	uint64_t before[TYPES] = { 0 }, known[TYPES];

	for (uint32_t i = 0; i < TYPES; i++)
		replay.vertices[i] = malloc(type_counts[i] * sizeof(uint64_t));
	for (uint64_t i = 0; i < seed_count; i++)
		replay_position(&replay, opts->seed_type, seeds[i]);
	cr_assert_eq(batch->hop_count, opts->hop_count);
	cr_assert_eq(batch->type_count, TYPES);
	cr_assert_eq(batch->relation_count, RELATIONS);
	for (uint32_t hop = 0; hop < opts->hop_count; hop++) {
		const struct rung_block *blocks = &batch->blocks[hop * RELATIONS];

		memcpy(known, replay.counts, sizeof(known));
		for (uint32_t i = 0; i < TYPES; i++)
			cr_assert_eq(batch->types[i].hop_counts[hop], known[i]);
		for (uint32_t i = 0; i < RELATIONS; i++) {
			const struct rung_sampler_relation *relation = &opts->relations[i];
			const uint32_t target = relation->target_type;

			replay_block(&replay, relation, &typed->graphs[i], relation->fanouts[hop],
			             opts->draws == RUNG_DRAWS_NEW ? before[target] : 0,
			             known[target], &blocks[i]);
		}
		for (uint32_t i = 0; i < RELATIONS; i++)
			cr_assert_eq(blocks[i].src_count,
			             replay.counts[opts->relations[i].source_type]);
		memcpy(before, known, sizeof(before));
	}
	for (uint32_t i = 0; i < TYPES; i++) {
		cr_assert_eq(batch->types[i].count, replay.counts[i]);
		cr_assert_eq(batch->types[i].hop_counts[opts->hop_count], replay.counts[i]);
		cr_assert(replay.counts[i] == 0 ||
		          memcmp(batch->types[i].vertices, replay.vertices[i],
		                 replay.counts[i] * sizeof(uint64_t)) == 0);
		free(replay.vertices[i]);
	}
}

#endif

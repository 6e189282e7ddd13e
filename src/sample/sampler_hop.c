/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling a hop of a relation. It is processed in blocks of vertices, in three steps: the number
 * of neighbours of each vertex, the draws, and the numbering of the drawn vertices in the order of
 * their first appearance. The entries of graph and table that one step prefetches are therefore in
 * the cache when the next step needs them. Several threads share the draws of the whole hop as one
 * step; numbering is always serial, because a position depends on all earlier draws.
 *
 * The positions of the edges are drawn a second time, after the hop: draws are a function of keys,
 * so that batches without positions do not pay for them.
 */
#include <string.h>

#include "sample/sample.h"

/* vertices of a block: their few hundred draws stay in the cache until they are numbered */
#define BLOCK_VERTICES 64u
/* vertices whose draws threads share before they are numbered: whole blocks; starting the threads
 * takes little time compared with their draws */
#define SHARED_VERTICES (1u << 18)
#define AHEAD_VERTICES  24u /* list offsets are prefetched this many vertices ahead */
#define AHEAD_POSITIONS 24u /* table entries are prefetched this many drawn ids ahead */

/* A hop that is being sampled. */
struct hop {
	const struct rung__lists *lists;
	struct rung__space *space;
	struct rung__positions *positions; /* of the source type */
	struct rung__batch_type *sources;
	const struct rung__batch_type *targets; /* can be the sources */
	struct rung_batch *batch;               /* for wide_ids */
	struct rung__block_memory *out;
	uint64_t key; /* rung__draw_relation_key() */
	/* vertices before this position have drawn in an earlier hop, and do not draw again */
	uint64_t dst_first;
	uint64_t dst_count; /* number of target vertices before the hop */
	uint32_t fanout;
};

/* First step for the vertices first .. end - 1: fill the block's indptr, and ensure memory for the
 * edges and for the largest possible number of new vertices. The other steps then cannot fail for
 * lack of memory. @param list_out  [end - first] the lists of the vertices; NULL: not needed */
static int lay_out(const struct hop *hop, uint64_t first, uint64_t end, struct rung__list *list_out)
{
	const struct rung__lists *lists = hop->lists;
	const bool packed = lists->csc.indptr == NULL;
	const uint64_t *vertices = hop->targets->vertices;
	const uint64_t edges_before = hop->out->indptr[first];
	uint64_t edge_count = edges_before, vertices_max;
	int rc;

	for (uint64_t i = first; i < end; i++) {
		const struct rung__list list = rung__list_of(lists, vertices[i], packed);

		if (i + AHEAD_VERTICES < hop->dst_count)
			rung__list_prefetch(lists, vertices[i + AHEAD_VERTICES], packed);
		if (list_out)
			list_out[i - first] = list;
		edge_count += rung__draw_count(hop->fanout, list.degree);
		hop->out->indptr[i + 1] = edge_count;
	}
	rc = rung__batch_reserve_u32(&hop->out->indices, &hop->out->indices_capacity, edge_count);
	if (rc == 0 && hop->lists->csc.index_bytes == 8)
		rc = rung__batch_reserve_u64(&hop->batch->wide_ids, &hop->batch->wide_ids_capacity,
		                             edge_count);
	if (rc < 0)
		return rc;
	/* no overflow: both are numbers of entries in memory */
	vertices_max = hop->sources->count + (edge_count - edges_before);
	vertices_max = RUNG__MIN(vertices_max, rung__lists_sources(lists) + hop->sources->repeats);
	vertices_max = RUNG__MIN(vertices_max, RUNG__POSITION_NONE);
	rc = rung__batch_reserve_u64(&hop->sources->vertices, &hop->sources->capacity,
	                             vertices_max);
	return rc < 0 ? rc
	              : rung__positions_reserve(hop->positions, hop->sources->vertices,
	                                        hop->sources->count, vertices_max);
}

/* Memory for the ids before they are numbered: ids of 4 bytes are replaced by their positions in
 * place, wider ones need a separate array. */
static void *drawn_ids(const struct hop *hop)
{
	return hop->lists->csc.index_bytes == 4 ? (void *)hop->out->indices
	                                        : (void *)hop->batch->wide_ids;
}

/* Third step: convert drawn ids to positions and append new vertices. `drawn` can be the same array
 * as the indices, because each entry is read before it is written. Always inline, so that id_bytes
 * and hashed are constants in the loop. */
static inline __attribute__((always_inline)) int number(const struct hop *hop, const void *drawn,
                                                        unsigned id_bytes, bool hashed,
                                                        uint64_t first, uint64_t end)
{
	struct rung__positions *positions = hop->positions;
	uint64_t *vertices = hop->sources->vertices, vertex_count = hop->sources->count;
	uint32_t *indices = hop->out->indices;
	int rc = 0;

	for (uint64_t e = first; e < end; e++) {
		const uint64_t id = rung__id_get(drawn, id_bytes, e);
		uint32_t position;

		if (e + AHEAD_POSITIONS < end)
			rung__positions_fetch(positions,
			                      rung__id_get(drawn, id_bytes, e + AHEAD_POSITIONS),
			                      hashed);
		position = rung__positions_put(positions, id, (uint32_t)vertex_count, vertices,
		                               id_bytes, hashed);
		if (position == vertex_count) {
			if (vertex_count == RUNG__POSITION_NONE) {
				rc = rung__fail(RUNG_E_INVAL,
				                "sampling: more than %" PRIu32
				                " vertices in a batch; use fewer seeds",
				                RUNG__POSITION_NONE);
				break;
			}
			vertices[vertex_count++] = id;
		}
		indices[e] = position;
	}
	hop->sources->count = vertex_count;
	return rc;
}

/* Number the draws of vertices first .. end - 1. */
static int number_drawn(const struct hop *hop, uint64_t first, uint64_t end)
{
	const bool hashed = !hop->positions->dense;
	const uint32_t *narrow = hop->out->indices;
	const uint64_t *wide = hop->batch->wide_ids;

	first = hop->out->indptr[first];
	end = hop->out->indptr[end];
	if (hop->lists->csc.index_bytes == 4)
		return hashed ? number(hop, narrow, 4, true, first, end)
		              : number(hop, narrow, 4, false, first, end);
	return hashed ? number(hop, wide, 8, true, first, end)
	              : number(hop, wide, 8, false, first, end);
}

/* Second step for a block, whose lists were not kept in the first step. */
static void draw_block(const struct hop *hop, uint64_t first, uint64_t *set)
{
	const uint64_t end = RUNG__MIN(first + BLOCK_VERTICES, hop->dst_count);
	const uint64_t *vertices = hop->targets->vertices;
	const bool packed = hop->lists->csc.indptr == NULL;
	struct rung__list list[BLOCK_VERTICES];

	for (uint64_t i = first; i < end; i++)
		list[i - first] = rung__list_of(hop->lists, vertices[i], packed);
	rung__draw(hop->lists, hop->key, vertices, first, end, list, hop->out->indptr, set,
	           drawn_ids(hop));
}

/* The draws of vertices first .. end - 1 as work of the calling thread. */
static int hop_worked(const struct hop *hop, uint64_t first, uint64_t end)
{
	return rung__worked("sampling",
	                    (hop->out->indptr[end] - hop->out->indptr[first]) * RUNG__WORK_ROW);
}

/* Sample a hop on one thread, block by block. */
static int sample_alone(const struct hop *hop)
{
	struct rung__list list[BLOCK_VERTICES];
	int rc = 0;

	for (uint64_t first = hop->dst_first, end; first < hop->dst_count && rc == 0; first = end) {
		end = RUNG__MIN(first + BLOCK_VERTICES, hop->dst_count);
		rc = lay_out(hop, first, end, list);
		if (rc < 0)
			break;
		rung__draw(hop->lists, hop->key, hop->targets->vertices, first, end, list,
		           hop->out->indptr, hop->space->set, drawn_ids(hop));
		rc = number_drawn(hop, first, end);
		if (rc == 0)
			rc = hop_worked(hop, first, end);
	}
	return rc;
}

/* Sample a hop with the draws shared by threads, each with its hash set. Draws do not depend on the
 * thread, so the batch is the same as on one thread. */
static int sample_shared(const struct hop *hop, const struct rung__space *spaces, uint32_t threads)
{
	int rc = lay_out(hop, hop->dst_first, hop->dst_count, NULL);

	(void)threads; /* without OpenMP */
	for (uint64_t from = hop->dst_first, end; from < hop->dst_count && rc == 0; from = end) {
		end = RUNG__MIN(from + SHARED_VERTICES, hop->dst_count);
#pragma omp parallel num_threads(rung__threads(threads))
		{
			uint64_t *set = spaces[rung__thread_number()].set;

#pragma omp for schedule(dynamic, 4)
			for (uint64_t first = from; first < end; first += BLOCK_VERTICES)
				draw_block(hop, first, set);
		}
		rc = number_drawn(hop, from, end);
		if (rc == 0)
			rc = hop_worked(hop, from, end);
	}
	return rc;
}

/* Sample a hop some of whose lists are in a file. The lists are requested for all vertices of the
 * hop at once, because the device answers many requests as fast as one. */
static int sample_tiered(const struct hop *hop)
{
	int rc = lay_out(hop, hop->dst_first, hop->dst_count, NULL);

	for (uint64_t first = hop->dst_first; first < hop->dst_count && rc == 0;
	     first += BLOCK_VERTICES) {
		draw_block(hop, first, hop->space->set);
		rc = hop_worked(hop, first, RUNG__MIN(first + BLOCK_VERTICES, hop->dst_count));
	}
	if (rc == 0)
		rc = rung__draw_cold(hop->lists, hop->key, hop->targets->vertices, hop->dst_first,
		                     hop->dst_count, hop->out->indptr, hop->space, drawn_ids(hop));
	return rc < 0 ? rc : number_drawn(hop, hop->dst_first, hop->dst_count);
}

/* The positions of the edges of a hop that was sampled. */
static int list_edges(const struct hop *hop, const struct rung__space *spaces, uint32_t threads)
{
	const uint64_t blocks =
		(hop->dst_count - hop->dst_first + BLOCK_VERTICES - 1) / BLOCK_VERTICES;
	int rc = rung__batch_reserve_u64(&hop->out->edges, &hop->out->edges_capacity,
	                                 RUNG__MAX(hop->out->indptr[hop->dst_count], 1));

	if (rc < 0)
		return rc;
#pragma omp parallel num_threads(rung__threads(threads)) if (threads > 1)
	{
		uint64_t *set = threads > 1 ? spaces[rung__thread_number()].set : hop->space->set;

#pragma omp for schedule(dynamic, 4)
		for (uint64_t block = 0; block < blocks; block++) {
			const uint64_t first = hop->dst_first + block * BLOCK_VERTICES;

			rung__draw_edges(hop->lists, hop->key, hop->targets->vertices, first,
			                 RUNG__MIN(first + BLOCK_VERTICES, hop->dst_count),
			                 hop->out->indptr, set, hop->out->edges);
		}
	}
	return 0;
}

int rung__sample_relation(const struct rung_sampler *sampler, struct rung__space *space,
                          uint32_t relation_idx, uint32_t hop_idx, uint64_t key, uint64_t first,
                          uint64_t count, uint32_t threads, struct rung_batch *batch)
{
	const struct rung__sampled_relation *relation = &sampler->relations[relation_idx];
	const uint64_t block = (uint64_t)hop_idx * sampler->relation_count + relation_idx;
	const uint32_t fanout = relation->fanouts[hop_idx];
	const struct hop hop = {
		.lists = &relation->lists,
		.space = space,
		.positions = &space->positions[relation->source_type],
		.sources = &batch->types[relation->source_type],
		.targets = &batch->types[relation->target_type],
		.batch = batch,
		.out = &batch->memory[block],
		.key = key,
		.dst_first = fanout > 0 ? first : count,
		.dst_count = count,
		.fanout = fanout,
	};
	int rc = rung__batch_reserve_u64(&hop.out->indptr, &hop.out->indptr_capacity, count + 1);

	if (rc < 0)
		return rc;
	/* vertices that do not draw get empty lists */
	memset(hop.out->indptr, 0, (hop.dst_first + 1) * sizeof(*hop.out->indptr));
	if (hop.dst_first < count)
		rc = relation->tiered ? sample_tiered(&hop)
		     : threads > 1    ? sample_shared(&hop, sampler->spaces, threads)
		                      : sample_alone(&hop);
	if (rc == 0 && sampler->edge_positions)
		rc = list_edges(&hop, sampler->spaces, relation->tiered ? 1 : threads);
	if (rc < 0)
		return rc;
	batch->blocks[block] = (struct rung_block){
		.dst_count = count,
		.edge_count = hop.out->indptr[count],
		.indptr = hop.out->indptr,
		.indices = hop.out->indices,
		.edges = sampler->edge_positions ? hop.out->edges : NULL,
	};
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filling a batch. A hop is processed in blocks of vertices, in three steps: the number of
 * neighbours of each vertex, the draws, and the numbering of the drawn vertices in the order of
 * their first appearance. The entries of graph and table that one step prefetches are therefore in
 * the cache when the next step needs them. Several threads share the draws of the whole hop as one
 * step; numbering is always serial, because a position depends on all earlier draws.
 */
#include <string.h>

#include "sample/sample.h"

/* vertices of a block: their few hundred draws stay in the cache until they are numbered */
#define BLOCK_VERTICES  64u
#define AHEAD_VERTICES  24u /* list offsets are prefetched this many vertices ahead */
#define AHEAD_POSITIONS 24u /* table entries are prefetched this many drawn ids ahead */

int rung_batch_create(struct rung_batch **batch_out)
{
	struct rung_batch *batch = rung__zalloc(sizeof(*batch));

	if (!batch)
		return rung__fail(RUNG_E_NOMEM, "batch: no memory");
	*batch_out = batch;
	return 0;
}

void rung_batch_destroy(struct rung_batch *batch)
{
	if (!batch)
		return;
	for (uint32_t hop = 0; hop < RUNG_HOPS_MAX; hop++) {
		rung__free(batch->hops[hop].indptr);
		rung__free(batch->hops[hop].indices);
	}
	rung__free(batch->vertices);
	rung__free(batch->wide_ids);
	rung__free(batch);
}

const uint64_t *rung_batch_vertices(const struct rung_batch *batch, uint64_t *count_out)
{
	*count_out = batch->hop_count ? batch->vertex_count : 0;
	return batch->vertices;
}

const struct rung_block *rung_batch_block(const struct rung_batch *batch, uint32_t hop)
{
	return hop < batch->hop_count ? &batch->hops[hop].block : NULL;
}

/* Grow to `count` items; the content is kept, also on failure. The capacity grows by at least half,
 * so that growing is rare. */
static int reserve(void **items, uint64_t *capacity, uint64_t count, size_t item_bytes)
{
	uint64_t wanted;
	void *grown;

	if (count <= *capacity)
		return 0;
	if (!rung__add(count, count / 2, &wanted))
		wanted = count;
	grown = rung__realloc_array(*items, wanted, item_bytes);
	if (!grown)
		return rung__fail(RUNG_E_NOMEM,
		                  "batch: no memory for %" PRIu64
		                  " entries of %zu bytes; use a smaller batch or fanout",
		                  wanted, item_bytes);
	*items = grown;
	*capacity = wanted;
	return 0;
}

/* reserve() for an array of a type: a void ** to it would break aliasing rules. */
static int reserve_u64(uint64_t **items, uint64_t *capacity, uint64_t count)
{
	void *grown = *items;
	const int rc = reserve(&grown, capacity, count, sizeof(**items));

	*items = grown;
	return rc;
}

static int reserve_u32(uint32_t **items, uint64_t *capacity, uint64_t count)
{
	void *grown = *items;
	const int rc = reserve(&grown, capacity, count, sizeof(**items));

	*items = grown;
	return rc;
}

/* Check the seeds and number them: they are the first vertices of the batch. */
static int read_seeds(const struct rung_sampler *sampler, struct rung__positions *positions,
                      const uint64_t *seeds, uint64_t seed_count, struct rung_batch *batch)
{
	int rc;

	if (seed_count == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "sampling: a batch without seeds; pass at least one");
	if (seed_count >= RUNG__POSITION_NONE)
		return rung__fail(RUNG_E_INVAL,
		                  "sampling: %" PRIu64
		                  " seeds; a batch must have fewer than %" PRIu32 " vertices",
		                  seed_count, RUNG__POSITION_NONE);
	rc = reserve_u64(&batch->vertices, &batch->vertices_capacity, seed_count);
	if (rc == 0)
		rc = rung__positions_reserve(positions, batch->vertices, 0, seed_count);
	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < seed_count; i++) {
		uint32_t position;

		if (seeds[i] >= sampler->lists.csc.vertex_count)
			return rung__fail(RUNG_E_RANGE,
			                  "sampling: seed %" PRIu64 " is %" PRIu64
			                  ", not below the vertex count %" PRIu64
			                  "; correct the seeds",
			                  i, seeds[i], sampler->lists.csc.vertex_count);
		batch->vertices[i] = seeds[i];
		position = rung__positions_put(positions, seeds[i], (uint32_t)i, batch->vertices, 8,
		                               sampler->hashed);
		if (position != i)
			return rung__fail(RUNG_E_INVAL,
			                  "sampling: seeds %" PRIu32 " and %" PRIu64
			                  " are both %" PRIu64 "; pass each vertex once",
			                  position, i, seeds[i]);
		/* so that rung__positions_clear() removes them after an error */
		batch->vertex_count = i + 1;
	}
	return 0;
}

/* A hop that is being sampled. */
struct hop {
	const struct rung__lists *lists;
	struct rung__space *space;
	struct rung_batch *batch;
	struct batch_hop *out;
	uint64_t key; /* rung__draw_hop_key() */
	/* vertices before this position have drawn in an earlier hop, and do not draw again */
	uint64_t dst_first;
	uint64_t dst_count; /* number of vertices before the hop */
	uint32_t fanout;
};

/* First step for the vertices first .. end - 1: fill the block's indptr, and ensure memory for the
 * edges and for the largest possible number of new vertices. The other steps then cannot fail for
 * lack of memory. @param list_out  [end - first] the lists of the vertices; NULL: not needed */
static int lay_out(const struct hop *hop, uint64_t first, uint64_t end, struct rung__list *list_out)
{
	const struct rung__lists *lists = hop->lists;
	const bool packed = lists->csc.indptr == NULL;
	const uint64_t *vertices = hop->batch->vertices;
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
	rc = reserve_u32(&hop->out->indices, &hop->out->indices_capacity, edge_count);
	if (rc == 0 && hop->lists->csc.index_bytes == 8)
		rc = reserve_u64(&hop->batch->wide_ids, &hop->batch->wide_ids_capacity, edge_count);
	if (rc < 0)
		return rc;
	/* no overflow: both are numbers of entries in memory */
	vertices_max = hop->batch->vertex_count + (edge_count - edges_before);
	vertices_max = RUNG__MIN(vertices_max, hop->lists->csc.vertex_count);
	vertices_max = RUNG__MIN(vertices_max, RUNG__POSITION_NONE);
	rc = reserve_u64(&hop->batch->vertices, &hop->batch->vertices_capacity, vertices_max);
	return rc < 0 ? rc
	              : rung__positions_reserve(&hop->space->positions, hop->batch->vertices,
	                                        hop->batch->vertex_count, vertices_max);
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
	struct rung__positions *positions = &hop->space->positions;
	uint64_t *vertices = hop->batch->vertices, vertex_count = hop->batch->vertex_count;
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
	hop->batch->vertex_count = vertex_count;
	return rc;
}

/* Number the draws of vertices first .. end - 1. */
static int number_drawn(const struct hop *hop, uint64_t first, uint64_t end)
{
	const bool hashed = !hop->space->positions.dense;
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
	const uint64_t *vertices = hop->batch->vertices;
	const bool packed = hop->lists->csc.indptr == NULL;
	struct rung__list list[BLOCK_VERTICES];

	for (uint64_t i = first; i < end; i++)
		list[i - first] = rung__list_of(hop->lists, vertices[i], packed);
	rung__draw(hop->lists, hop->key, vertices, first, end, list, hop->out->indptr, set,
	           drawn_ids(hop));
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
		rung__draw(hop->lists, hop->key, hop->batch->vertices, first, end, list,
		           hop->out->indptr, hop->space->set, drawn_ids(hop));
		rc = number_drawn(hop, first, end);
	}
	return rc;
}

/* Sample a hop with the draws shared by threads, each with its hash set. Draws do not depend on the
 * thread, so the batch is the same as on one thread. */
static int sample_shared(const struct hop *hop, const struct rung__space *spaces, uint32_t threads)
{
	const uint64_t blocks =
		(hop->dst_count - hop->dst_first + BLOCK_VERTICES - 1) / BLOCK_VERTICES;
	int rc = lay_out(hop, hop->dst_first, hop->dst_count, NULL);

	(void)threads; /* without OpenMP */
	if (rc < 0)
		return rc;
#pragma omp parallel num_threads(rung__threads(threads))
	{
		uint64_t *set = spaces[rung__thread_number()].set;

#pragma omp for schedule(dynamic, 4)
		for (uint64_t block = 0; block < blocks; block++)
			draw_block(hop, hop->dst_first + block * BLOCK_VERTICES, set);
	}
	return number_drawn(hop, hop->dst_first, hop->dst_count);
}

/* Sample a hop some of whose lists are in a file. The lists are requested for all vertices of the
 * hop at once, because the device answers many requests as fast as one. */
static int sample_tiered(const struct hop *hop)
{
	int rc = lay_out(hop, hop->dst_first, hop->dst_count, NULL);

	for (uint64_t first = hop->dst_first; first < hop->dst_count && rc == 0;
	     first += BLOCK_VERTICES)
		draw_block(hop, first, hop->space->set);
	if (rc == 0)
		rc = rung__draw_cold(hop->lists, hop->key, hop->batch->vertices, hop->dst_first,
		                     hop->dst_count, hop->out->indptr, hop->space, drawn_ids(hop));
	return rc < 0 ? rc : number_drawn(hop, hop->dst_first, hop->dst_count);
}

/* Sample a hop into its block. */
static int sample_hop(const struct rung_sampler *sampler, struct rung__space *space,
                      uint32_t hop_idx, uint64_t key, uint64_t dst_first, uint32_t threads,
                      struct rung_batch *batch)
{
	const struct hop hop = {
		.lists = &sampler->lists,
		.space = space,
		.batch = batch,
		.out = &batch->hops[hop_idx],
		.key = key,
		.dst_first = dst_first,
		.dst_count = batch->vertex_count,
		.fanout = sampler->fanouts[hop_idx],
	};
	int rc = reserve_u64(&hop.out->indptr, &hop.out->indptr_capacity, hop.dst_count + 1);

	if (rc < 0)
		return rc;
	/* vertices that do not draw get empty lists */
	memset(hop.out->indptr, 0, (dst_first + 1) * sizeof(*hop.out->indptr));
	rc = sampler->tiered ? sample_tiered(&hop)
	     : threads > 1   ? sample_shared(&hop, sampler->spaces, threads)
	                     : sample_alone(&hop);
	if (rc < 0)
		return rc;
	hop.out->block = (struct rung_block){
		.dst_count = hop.dst_count,
		.src_count = batch->vertex_count,
		.edge_count = hop.out->indptr[hop.dst_count],
		.indptr = hop.out->indptr,
		.indices = hop.out->indices,
	};
	return 0;
}

int rung__sample(const struct rung_sampler *sampler, struct rung__space *space,
                 const uint64_t *seeds, uint64_t seed_count, uint64_t batch_key, uint32_t threads,
                 struct rung_batch *batch)
{
	uint64_t drawn = 0; /* vertices that have drawn in earlier hops */
	int rc;

	batch->hop_count = 0;
	batch->vertex_count = 0;
	rc = read_seeds(sampler, &space->positions, seeds, seed_count, batch);
	for (uint32_t hop = 0; rc == 0 && hop < sampler->hop_count; hop++) {
		const uint64_t known = batch->vertex_count,
			       key = rung__draw_hop_key(sampler->seed, batch_key, hop);

		rc = sample_hop(sampler, space, hop, key,
		                sampler->draws == RUNG_DRAWS_NEW ? drawn : 0, threads, batch);
		drawn = known;
	}
	/* done after an error too, because the table must be empty for the next batch */
	rung__positions_clear(&space->positions, batch->vertices, batch->vertex_count);
	if (rc < 0)
		return rc;
	batch->hop_count = sampler->hop_count;
	return 0;
}

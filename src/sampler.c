/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of sampled neighbourhoods. Per hop: lay out how many neighbours every vertex gets, draw them in parallel, then
 * number what was drawn in order of first appearance through a dense table of positions. Only entries that a batch touched
 * are reset, also when it fails.
 */
#include <string.h>

#include "sampler_internal.h"

#define POSITION_NONE UINT32_MAX
#define AHEAD_POSITIONS 24u   /* drawn ids ahead whose table entry is fetched */

static uint64_t largest_degree(const struct rung_csc *csc)
{
	uint64_t largest = 0;

#pragma omp parallel for reduction(max : largest) schedule(static)
	for (uint64_t v = 0; v < csc->vertex_count; v++)
		largest = RUNG__MAX(largest, csc->indptr[v + 1] - csc->indptr[v]);
	return largest;
}

static int check_opts(const struct rung_csc *csc, const struct rung_sampler_opts *opts)
{
	if (csc->index_bytes != 4 && csc->index_bytes != 8)
		return rung__fail(RUNG_E_INVAL, "sampler: index_bytes is %u: it is 4 (uint32_t) or 8 (uint64_t)", csc->index_bytes);
	if (opts->hop_count < 1 || opts->hop_count > RUNG_HOPS_MAX || !opts->fanouts)
		return rung__fail(RUNG_E_INVAL, "sampler: %" PRIu32 " hops: 1 to %d, with a fanout for each", opts->hop_count, RUNG_HOPS_MAX);
	for (uint32_t hop = 0; hop < opts->hop_count; hop++) {
		if (opts->fanouts[hop] == 0)
			return rung__fail(RUNG_E_INVAL, "sampler: fanout of hop %" PRIu32 " is 0: it is at least 1 (leave the hop out)", hop);
	}
	return 0;
}

int rung_sampler_create(const struct rung_csc *csc, const struct rung_sampler_opts *caller_opts,
                        struct rung_sampler **sampler_out)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler *sampler;
	int rc;

	rc = rung__opts_take(&opts, sizeof(opts), caller_opts, "rung_sampler_opts");
	if (rc < 0)
		return rc;
	rc = check_opts(csc, &opts);
	if (rc < 0)
		return rc;
	sampler = rung__zalloc(sizeof(*sampler));
	if (!sampler)
		return rung__fail(RUNG_E_NOMEM, "sampler: no memory");
	sampler->csc = *csc;
	sampler->hop_count = opts.hop_count;
	sampler->seed = opts.seed;
	sampler->threads = rung__threads(opts.threads);
	memcpy(sampler->fanouts, opts.fanouts, opts.hop_count * sizeof(*opts.fanouts));
	sampler->set_size = rung__draw_set_size(opts.fanouts, opts.hop_count, largest_degree(csc));
	sampler->position_of = rung__malloc_array(csc->vertex_count, sizeof(*sampler->position_of));
	sampler->sets = rung__zalloc_array((uint64_t)sampler->threads * sampler->set_size, sizeof(*sampler->sets));
	if (!sampler->position_of || !sampler->sets) {
		rung_sampler_destroy(sampler);
		return rung__fail(RUNG_E_NOMEM, "sampler over %" PRIu64 " vertices: no memory", csc->vertex_count);
	}
	memset(sampler->position_of, 0xff, csc->vertex_count * sizeof(*sampler->position_of));   /* POSITION_NONE */
	*sampler_out = sampler;
	return 0;
}

void rung_sampler_destroy(struct rung_sampler *sampler)
{
	if (!sampler)
		return;
	rung__free(sampler->position_of);
	rung__free(sampler->sets);
	rung__free(sampler);
}

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

/* Make room for `count` items; what is there stays, also on failure. A quarter more, so that growing ends soon. */
static int reserve(void **items, uint64_t *capacity, uint64_t count, size_t item_bytes)
{
	uint64_t wanted;
	void *grown;

	if (count <= *capacity)
		return 0;
	if (!rung__add(count, count / 4, &wanted))
		wanted = count;
	grown = rung__realloc_array(*items, wanted, item_bytes);
	if (!grown)
		return rung__fail(RUNG_E_NOMEM, "batch: no memory for %" PRIu64 " entries of %zu bytes: take a smaller batch or fanout", wanted,
		                  item_bytes);
	*items = grown;
	*capacity = wanted;
	return 0;
}

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

static int take_seeds(struct rung_sampler *sampler, const uint64_t *seeds, uint64_t seed_count, struct rung_batch *batch)
{
	int rc;

	if (seed_count == 0)
		return rung__fail(RUNG_E_INVAL, "sampling: a batch without seeds: at least one is needed");
	if (seed_count >= POSITION_NONE)
		return rung__fail(RUNG_E_INVAL, "sampling: %" PRIu64 " seeds: a batch holds fewer than %" PRIu32 " vertices", seed_count,
		                  POSITION_NONE);
	rc = reserve_u64(&batch->vertices, &batch->vertices_capacity, seed_count);
	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < seed_count; i++) {
		uint32_t *position;

		if (seeds[i] >= sampler->csc.vertex_count)
			return rung__fail(RUNG_E_RANGE, "sampling: seed %" PRIu64 " is %" PRIu64 ", not below the vertex count %" PRIu64
			                  ": correct the seeds", i, seeds[i], sampler->csc.vertex_count);
		position = &sampler->position_of[seeds[i]];
		if (*position != POSITION_NONE)
			return rung__fail(RUNG_E_INVAL, "sampling: seeds %" PRIu32 " and %" PRIu64 " are both %" PRIu64 ": give each once",
			                  *position, i, seeds[i]);
		*position = (uint32_t)i;
		batch->vertices[i] = seeds[i];
		batch->vertex_count = i + 1;
	}
	return 0;
}

/* How many neighbours each vertex of the batch gets: the block's indptr, and room for the edges. */
static int lay_out(const struct rung_sampler *sampler, uint32_t fanout, struct rung_batch *batch, struct batch_hop *hop)
{
	const uint64_t count = batch->vertex_count, *indptr = sampler->csc.indptr;
	uint64_t edge_count = 0, vertices_max;
	int rc;

	rc = reserve_u64(&hop->indptr, &hop->indptr_capacity, count + 1);
	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t v = batch->vertices[i];

		if (i + AHEAD_POSITIONS < count)
			__builtin_prefetch(&indptr[batch->vertices[i + AHEAD_POSITIONS]]);
		hop->indptr[i] = edge_count;
		edge_count += rung__draw_count(fanout, indptr[v + 1] - indptr[v]);
	}
	hop->indptr[count] = edge_count;
	rc = reserve_u32(&hop->indices, &hop->indices_capacity, edge_count);
	if (rc < 0)
		return rc;
	if (sampler->csc.index_bytes == 8) {
		rc = reserve_u64(&batch->wide_ids, &batch->wide_ids_capacity, edge_count);
		if (rc < 0)
			return rc;
	}
	if (!rung__add(count, edge_count, &vertices_max))
		vertices_max = UINT64_MAX;
	vertices_max = RUNG__MIN(vertices_max, sampler->csc.vertex_count);
	vertices_max = RUNG__MIN(vertices_max, POSITION_NONE);
	return reserve_u64(&batch->vertices, &batch->vertices_capacity, vertices_max);
}

/* Drawn ids to positions, new vertices at the end. drawn may be hop->indices: an entry is read before it is written. */
static inline __attribute__((always_inline)) int
number(struct rung_sampler *sampler, struct rung_batch *batch, uint32_t *indices, const void *drawn, unsigned index_bytes,
       uint64_t edge_count)
{
	uint32_t *position_of = sampler->position_of;
	uint64_t vertex_count = batch->vertex_count;
	int rc = 0;

	for (uint64_t e = 0; e < edge_count; e++) {
		const uint64_t id = rung__id_get(drawn, index_bytes, e);
		uint32_t position = position_of[id];

		if (e + AHEAD_POSITIONS < edge_count)
			__builtin_prefetch(&position_of[rung__id_get(drawn, index_bytes, e + AHEAD_POSITIONS)], 1);
		if (position == POSITION_NONE) {
			if (vertex_count == POSITION_NONE) {
				rc = rung__fail(RUNG_E_INVAL, "sampling: more than %" PRIu32 " vertices in a batch: take fewer seeds",
				                POSITION_NONE);
				break;
			}
			position = (uint32_t)vertex_count;
			position_of[id] = position;
			batch->vertices[vertex_count++] = id;
		}
		indices[e] = position;
	}
	batch->vertex_count = vertex_count;
	return rc;
}

static int sample_hop(struct rung_sampler *sampler, uint32_t hop_idx, uint64_t batch_key, struct rung_batch *batch)
{
	struct batch_hop *hop = &batch->hops[hop_idx];
	const uint64_t dst_count = batch->vertex_count;
	uint64_t edge_count;
	int rc;

	rc = lay_out(sampler, sampler->fanouts[hop_idx], batch, hop);
	if (rc < 0)
		return rc;
	edge_count = hop->indptr[dst_count];
	if (sampler->csc.index_bytes == 4) {
		rung__draw_hop(sampler, hop_idx, batch_key, batch->vertices, dst_count, hop->indptr, hop->indices);
		rc = number(sampler, batch, hop->indices, hop->indices, 4, edge_count);
	} else {
		rung__draw_hop(sampler, hop_idx, batch_key, batch->vertices, dst_count, hop->indptr, batch->wide_ids);
		rc = number(sampler, batch, hop->indices, batch->wide_ids, 8, edge_count);
	}
	hop->block = (struct rung_block){
		.dst_count = dst_count, .src_count = batch->vertex_count, .edge_count = edge_count, .indptr = hop->indptr,
		.indices = hop->indices,
	};
	return rc;
}

static void forget_positions(struct rung_sampler *sampler, const struct rung_batch *batch)
{
	for (uint64_t i = 0; i < batch->vertex_count; i++)
		sampler->position_of[batch->vertices[i]] = POSITION_NONE;
}

int rung_sampler_sample(struct rung_sampler *sampler, const uint64_t *seeds, uint64_t seed_count, uint64_t batch_key,
                        struct rung_batch *batch)
{
	int rc;

	batch->hop_count = 0;
	batch->vertex_count = 0;
	rc = take_seeds(sampler, seeds, seed_count, batch);
	for (uint32_t hop = 0; rc == 0 && hop < sampler->hop_count; hop++)
		rc = sample_hop(sampler, hop, batch_key, batch);
	forget_positions(sampler, batch);
	if (rc < 0)
		return rc;
	batch->hop_count = sampler->hop_count;
	return 0;
}

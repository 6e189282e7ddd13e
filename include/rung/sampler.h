/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Neighbour sampling: uniform, without replacement, deduplicated per batch.
 *
 * Hop 0 starts at the seeds; hop t draws min(fanout[t], in_degree) in-neighbours of every vertex the batch holds so far
 * (the seeds and earlier vertices draw again at each hop: the blocks of Hamilton, Ying, Leskovec, "Inductive Representation
 * Learning on Large Graphs", 2017, as DGL builds them). Vertices of a batch are numbered in order of first appearance, seeds
 * first, so those of hop t are a prefix of those of hop t+1. Draws are of places in a list: of two parallel edges both can
 * be drawn. A list no longer than the fanout is taken whole, in its order.
 */
#ifndef RUNG_SAMPLER_H
#define RUNG_SAMPLER_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RUNG_HOPS_MAX 16

struct rung_sampler;
struct rung_batch;

struct rung_sampler_opts {
	size_t size;               /**< sizeof(struct rung_sampler_opts), set by the initialiser */
	const uint32_t *fanouts;   /**< [hop_count], hop 0 (from the seeds) first, each at least 1; UINT32_MAX: all neighbours */
	uint32_t hop_count;        /**< 1 to RUNG_HOPS_MAX */
	uint64_t seed;             /**< of all draws */
	uint32_t threads;          /**< 0: as OpenMP has it; draws are the same for any number */
};

#ifdef __cplusplus
static inline struct rung_sampler_opts rung_sampler_opts_init(void)
{
	struct rung_sampler_opts opts = {};
	opts.size = sizeof(opts);
	return opts;
}
#else
#define RUNG_SAMPLER_OPTS_INIT { .size = sizeof(struct rung_sampler_opts) }
#endif

/** Edges drawn at one hop: destination i is vertex i of the batch, its sources are indices[indptr[i] .. indptr[i+1]). */
struct rung_block {
	uint64_t dst_count;        /**< vertices before this hop */
	uint64_t src_count;        /**< vertices after it; those below dst_count are the destinations themselves */
	uint64_t edge_count;
	const uint64_t *indptr;    /**< [dst_count + 1] */
	const uint32_t *indices;   /**< [edge_count] positions below src_count in the batch's vertices */
};

/**
 * Make a sampler over a graph.
 *
 * @param csc          borrowed until the sampler is destroyed; checked arrays (rung_csc_check, or loaded by rung)
 * @param sampler_out  free with rung_sampler_destroy()
 * @return 0, RUNG_E_INVAL, RUNG_E_NOMEM
 *
 * Memory: 4 bytes a vertex, and for fanouts above 32 that are not "all", up to 32 bytes times the fanout for each thread.
 */
RUNG_API int rung_sampler_create(const struct rung_csc *csc, const struct rung_sampler_opts *opts, struct rung_sampler **sampler_out);
RUNG_API void rung_sampler_destroy(struct rung_sampler *sampler);

/** An empty batch, to be filled again and again; its arrays grow to the largest batch seen. */
RUNG_API int rung_batch_create(struct rung_batch **batch_out);
RUNG_API void rung_batch_destroy(struct rung_batch *batch);

/**
 * Sample one batch.
 *
 * @param seeds       vertices, each at most once
 * @param seed_count  at least 1
 * @param batch_key   with the sampler's seed it decides every draw: the same key gives the same batch; use a running number
 * @param batch       filled; keeps its content until filled again
 * @return 0, RUNG_E_RANGE (a seed is no vertex), RUNG_E_INVAL (a seed twice, none, 2^32-1 vertices or more), RUNG_E_NOMEM;
 *         after a failure the batch is empty and can be filled again
 *
 * Threads: one per sampler at a time.
 */
RUNG_API int rung_sampler_sample(struct rung_sampler *sampler, const uint64_t *seeds, uint64_t seed_count, uint64_t batch_key,
                                 struct rung_batch *batch);

/** The vertices of a batch, seeds first. */
RUNG_API const uint64_t *rung_batch_vertices(const struct rung_batch *batch, uint64_t *count_out);

/** The block of a hop; NULL past the last. */
RUNG_API const struct rung_block *rung_batch_block(const struct rung_batch *batch, uint32_t hop);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Neighbour sampling: uniform, without replacement, deduplicated per batch (Hamilton, Ying, Leskovec, "Inductive Representation
 * Learning on Large Graphs", 2017).
 *
 * Hop 0 starts at the seeds; hop t draws min(fanout[t], in_degree) in-neighbours of every vertex the batch holds so far, or only of
 * those that hop t-1 brought (enum rung_draws). Vertices of a batch are numbered in order of first appearance, seeds
 * first, so those of hop t are a prefix of those of hop t+1. Draws are of places in a list: of two parallel edges both can
 * be drawn. A list no longer than the fanout is taken whole, in its order.
 *
 * What a vertex draws follows from the sampler's seed, the batch's key, the hop and the vertex: batches are the same whichever
 * thread makes them, one at a time (rung_sampler_sample) or many side by side (rung_sampler_run).
 */
#ifndef RUNG_SAMPLER_H
#define RUNG_SAMPLER_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Hops of a sampler at most. */
#define RUNG_HOPS_MAX 16

struct rung_sampler;
struct rung_batch;

/** Which vertices of a batch draw at a hop. */
enum rung_draws {
	RUNG_DRAWS_ALL = 0,   /**< all: seeds and earlier vertices draw again at each hop, the blocks that DGL builds */
	RUNG_DRAWS_NEW        /**< those that the hop before brought, at hop 0 the seeds; the others have empty lists. So PyG's NeighborLoader */
};

/** Options of rung_sampler_create(). */
struct rung_sampler_opts {
	size_t size;               /**< sizeof(struct rung_sampler_opts), set by the initialiser */
	const uint32_t *fanouts;   /**< [hop_count], hop 0 (from the seeds) first, each at least 1; UINT32_MAX: all neighbours */
	uint32_t hop_count;        /**< 1 to RUNG_HOPS_MAX */
	uint64_t seed;             /**< of all draws */
	uint32_t threads;          /**< 0: as OpenMP has it; draws are the same for any number */
	enum rung_draws draws;
};

/** Initialiser: all defaults. In C++: rung_sampler_opts_init(). */
#define RUNG_SAMPLER_OPTS_INIT { .size = sizeof(struct rung_sampler_opts) }
RUNG_INIT_FUNCTION(rung_sampler_opts, {})

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
 * @param csc          borrowed until the sampler is destroyed; checked arrays (rung_csc_check, or
 * loaded by rung)
 * @param sampler_out  free with rung_sampler_destroy()
 * @return 0, RUNG_E_INVAL, RUNG_E_NOMEM, RUNG_E_NOSUP (a list of 2^32 ids of 4 bytes)
 *
 * Memory: 4 bytes a vertex, or where that is more than 32 MiB 16 to 32 bytes for each vertex that
 * the largest batch has or could have; from the first rung_sampler_run() on as much for each
 * thread. For fanouts above 32 that are not "all", up to 32 bytes times the fanout for each thread.
 */
RUNG_API int rung_sampler_create(const struct rung_csc *csc, const struct rung_sampler_opts *opts, struct rung_sampler **sampler_out);
/** Free a sampler; batches stay. NULL is allowed. */
RUNG_API void rung_sampler_destroy(struct rung_sampler *sampler);

/** An empty batch, to be filled again and again; its arrays grow to the largest batch seen. */
RUNG_API int rung_batch_create(struct rung_batch **batch_out);
/** Free a batch and its arrays. NULL is allowed. */
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

/** Many batches: batch i has the next batch_size seeds, the last one what is left, and the key key_first + i. */
struct rung_minibatches {
	size_t size;               /**< sizeof(struct rung_minibatches), set by the initialiser */
	const uint64_t *seeds;     /**< [seed_count] vertices, in the order of the epoch (shuffle them first); each at most once in a batch */
	uint64_t seed_count;       /**< at least 1 */
	uint64_t batch_size;       /**< 0: 1024 */
	uint64_t key_first;
	int any_order;             /**< nonzero: batches are handed over as they are done, several at a time */
};

/** Initialiser: all defaults. In C++: rung_minibatches_init(). */
#define RUNG_MINIBATCHES_INIT { .size = sizeof(struct rung_minibatches) }
RUNG_INIT_FUNCTION(rung_minibatches, {})

/**
 * Takes a batch that was sampled.
 *
 * @param batch      valid until this returns
 * @param batch_idx  which it is, from 0
 * @param thread     the thread of the sampler that calls, below those of its options: for state of
 * its own
 * @return 0 to go on; a negative status ends the run
 */
typedef int (*rung_batch_fn)(void *ctx, const struct rung_batch *batch, uint64_t batch_idx, uint32_t thread);

/**
 * Sample many batches side by side, a thread each. They are handed over in order, one at a time, on any of the threads; or, with
 * any_order, each on the thread that made it while others make and hand over theirs. Either way they are what
 * rung_sampler_sample() gives for the same seeds and keys.
 *
 * A thread whose batch must wait for an earlier one goes on sampling, up to four batches a thread ahead of the one that is next.
 *
 * @return 0 when all were taken; of the first batch in order that could not be sampled (errors as rung_sampler_sample()) or was not
 *         taken, what it returned: in order, all before it were handed over and none behind it; else RUNG_E_INVAL, RUNG_E_NOMEM
 *
 * Memory: batches as large as the largest, one for each thread, four in order.  Threads: one call a sampler at a time.
 */
RUNG_API int rung_sampler_run(struct rung_sampler *sampler, const struct rung_minibatches *batches, rung_batch_fn take, void *ctx);

/** The vertices of a batch, seeds first. */
RUNG_API const uint64_t *rung_batch_vertices(const struct rung_batch *batch, uint64_t *count_out);

/** The block of a hop; NULL past the last. */
RUNG_API const struct rung_block *rung_batch_block(const struct rung_batch *batch, uint32_t hop);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Neighbour sampling: uniform, without replacement, with each vertex once per batch except repeated
 * seeds (Hamilton, Ying, Leskovec, "Inductive Representation Learning on Large Graphs", 2017).
 *
 * Hop 0 starts at the seeds. Hop t draws min(fanout[t], in_degree) in-neighbours of every vertex
 * that the batch has so far, or only of those that hop t-1 added (enum rung_draws). The vertices of
 * a batch are numbered in order of first appearance, seeds first, so that the vertices of hop t are
 * a prefix of those of hop t+1. Draws select positions in a list: both of two parallel edges can be
 * drawn. A list that is not longer than the fanout is used completely, in its order.
 *
 * Typed graphs. With opts.relations, vertices have types, and each relation has the lists of its
 * target type, whose entries are vertices of its source type, and its own fanouts. At each hop, all
 * relations draw, in their order, for the vertices that the batch had before the hop. The vertices
 * of each type are numbered separately. One type with one relation gives the batches of the same
 * graph without types.
 *
 * The draws of a vertex depend on the seed of the sampler, the key of the batch, the hop, the
 * vertex and the number of the relation only. Batches are therefore the same on any thread, one at
 * a time (rung_sampler_sample()) or many in parallel (rung_sampler_run()).
 *
 * Runs. rung_sampler_run() samples one batch per thread. By default its callback receives the
 * batches in order, one at a time, on any of the threads, while other threads sample up to four
 * batches per thread ahead. With any_order, each thread hands over its own batches, in parallel
 * with the others. If a batch cannot be sampled or is refused, the run returns the error of the
 * first such batch in order. In order, the callback has then received all batches before it and
 * none after it.
 *
 * Memory. A sampler uses 4 bytes per vertex; if that is more than 32 MiB, or some lists are in a
 * file, 16 to 32 bytes per vertex of the largest batch instead. The first rung_sampler_run()
 * allocates as much for each thread. Fanouts above 32 other than "all" need up to 32 bytes times
 * the fanout per thread. A run also holds one batch per thread, in order four, each as large as the
 * largest. With lists in a file, a thread also has buffers of 4 MiB for reading them, its hash
 * table counts every draw of a hop as a vertex, and each draw from a list in the file needs up to
 * 72 bytes more. In a typed graph, the bytes per vertex hold for each type: 4 per vertex of a type
 * up to 32 MiB that is the source of no relation in a file, else 16 to 32 per vertex of this type
 * in the largest batch. Positions of edges use 8 bytes per edge of a batch. After the largest batch
 * nothing is allocated.
 */
#ifndef RUNG_SAMPLER_H
#define RUNG_SAMPLER_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Maximum number of hops of a sampler. */
#define RUNG_HOPS_MAX 16

struct rung_sampler;
struct rung_batch;
struct rung_structure;

/** The vertices of a batch that draw at a hop. */
enum rung_draws {
	/** all: seeds and earlier vertices draw again at each hop, as in the blocks of DGL */
	RUNG_DRAWS_ALL = 0,
	/**
	 * the vertices that the previous hop added, at hop 0 the seeds; the lists of all others are
	 * empty, as in PyG's NeighborLoader
	 */
	RUNG_DRAWS_NEW
};

/** A relation of a typed graph, as samplers use it. Vertices of a type count from 0. */
struct rung_sampler_relation {
	uint32_t source_type, target_type; /**< below type_count of the sampler's options */
	/** lists of the vertices of target_type; their entries are vertices of source_type.
	 * Borrowed until the sampler is destroyed. NULL with `structure` */
	const struct rung_csc *csc;
	struct rung_structure *structure; /**< the same with cold lists in a file; borrowed */
	/** [hop_count] as in the sampler's options; 0: the relation draws nothing at that hop */
	const uint32_t *fanouts;
};

/** Options of rung_sampler_create(). */
struct rung_sampler_opts {
	size_t size; /**< sizeof(struct rung_sampler_opts), set by the initialiser */
	/** [hop_count], hop 0 (from the seeds) first, each at least 1; UINT32_MAX: all */
	const uint32_t *fanouts;
	uint32_t hop_count; /**< 1 to RUNG_HOPS_MAX */
	uint64_t seed;      /**< of all draws */
	/** 0: OpenMP's default, with lists in a file 8; draws do not depend on it */
	uint32_t threads;
	enum rung_draws draws;
	/** graph whose cold lists are in a file (structure.h), instead of one in memory; borrowed
	 * until the sampler is destroyed. NULL: the graph is in memory */
	struct rung_structure *structure;
	/** typed graphs: [type_count] number of vertices of each type; NULL: one type */
	const uint64_t *type_counts;
	uint32_t type_count;
	/** [relation_count]; `fanouts`, `structure` and the csc of rung_sampler_create() are then
	 * NULL */
	const struct rung_sampler_relation *relations;
	uint32_t relation_count;
	uint32_t seed_type; /**< type of the seeds */
	/** nonzero: blocks have the positions of their edges (struct rung_block). They are drawn a
	 * second time, without reading the lists */
	int edge_positions;
};

/** Initialiser: all defaults. In C++: rung_sampler_opts_init(). */
#define RUNG_SAMPLER_OPTS_INIT RUNG_INIT(struct rung_sampler_opts)
RUNG_INIT_FUNCTION(rung_sampler_opts, {})

/**
 * Edges drawn at one hop. Destination i is vertex i of the batch; its sources are
 * indices[indptr[i] .. indptr[i+1]).
 */
struct rung_block {
	uint64_t dst_count; /**< vertices before this hop */
	uint64_t src_count; /**< vertices after it, the destinations first */
	uint64_t edge_count;
	const uint64_t *indptr;  /**< [dst_count + 1] */
	const uint32_t *indices; /**< [edge_count] positions in the vertices of the batch */
	/** [edge_count] position of each edge in the lists: entry edges[i] of csc->indices was
	 * drawn. It is the number of the edge's row, if edges have rows. NULL without
	 * opts.edge_positions */
	const uint64_t *edges;
};

/** The vertices of one type in a typed batch, in order of first appearance. */
struct rung_typed_vertices {
	const uint64_t *vertices; /**< [count] */
	uint64_t count;
	/** number of them before hop i; entry hop_count is `count` */
	uint64_t hop_counts[RUNG_HOPS_MAX + 1];
};

/**
 * A typed batch. At each hop, every relation in its order draws from the vertices of its target
 * type that the batch had before the hop (enum rung_draws), and new vertices are added to those of
 * the source type, as in PyG's NeighborLoader.
 */
struct rung_typed_batch {
	uint32_t type_count, relation_count, hop_count;
	const struct rung_typed_vertices *types; /**< [type_count] */
	/** [hop_count * relation_count]: blocks[hop * relation_count + relation]. Destination i is
	 * vertex i of the target type, and indices are positions in the vertices of the source
	 * type. dst_count and src_count are the numbers of both before and after the hop */
	const struct rung_block *blocks;
};

/**
 * Create a sampler for a graph. See Memory at the top of this file.
 *
 * @param csc          borrowed until the sampler is destroyed; arrays that were checked by
 *                     rung_csc_check() or loaded by rung. NULL with opts->structure and with
 *                     opts->relations
 * @param opts         fanouts, seed, threads, types and relations; copied, but not their graphs
 * @param sampler_out  free it with rung_sampler_destroy()
 * @return 0, RUNG_E_INVAL, RUNG_E_NOMEM, RUNG_E_NOSUP (a list of 2^32 ids of 4 bytes)
 *
 * Threads: any; a sampler samples one batch at a time, or one run.
 */
RUNG_API int rung_sampler_create(const struct rung_csc *csc, const struct rung_sampler_opts *opts,
                                 struct rung_sampler **sampler_out);

/**
 * Free a sampler.
 *
 * @param sampler  the sampler; NULL is allowed
 *
 * Batches that it filled stay valid: they belong to the caller and do not refer to the sampler. The
 * graph is not freed. No call with the sampler may be running.
 *
 * Threads: any, but no other call with the same sampler.
 */
RUNG_API void rung_sampler_destroy(struct rung_sampler *sampler);

/**
 * Create an empty batch that samplers fill.
 *
 * @param batch_out  free it with rung_batch_destroy()
 * @return 0 or RUNG_E_NOMEM
 *
 * Use a batch again and again: its arrays grow to the size of the largest batch and are then
 * reused, so that sampling allocates nothing.
 *
 * Threads: any; a batch is used by one thread at a time.
 */
RUNG_API int rung_batch_create(struct rung_batch **batch_out);

/**
 * Free a batch and its arrays.
 *
 * @param batch  the batch; NULL is allowed
 *
 * The arrays that rung_batch_vertices() and rung_batch_block() returned become invalid. Do not pass
 * the batches that rung_sampler_run() hands to its callback: the sampler owns them.
 *
 * Threads: any, but no other call with the same batch.
 */
RUNG_API void rung_batch_destroy(struct rung_batch *batch);

/**
 * Sample one batch.
 *
 * @param seeds       [seed_count] vertices, of opts.seed_type in a typed graph; repeats allowed
 * @param seed_count  at least 1
 * @param batch_key   determines all draws, with the seed of the sampler. Use a running number
 * @param batch       filled; keeps its content until it is filled again
 * @return 0, RUNG_E_RANGE (a seed, or an entry of a list in a file, is not a vertex), RUNG_E_INVAL
 *         (no seeds, or a batch of 2^32-1 vertices or more), RUNG_E_NOMEM, and with
 *         lists in a file the errors of rung_gather(); after a failure the batch is empty and can
 *         be filled again
 *
 * Threads: one call per sampler at a time; the call itself uses the threads of the sampler, or
 * one for lists that are partly in a file.
 */
RUNG_API int rung_sampler_sample(struct rung_sampler *sampler, const uint64_t *seeds,
                                 uint64_t seed_count, uint64_t batch_key, struct rung_batch *batch);

/**
 * Input of rung_sampler_run(). Batch i has the next batch_size seeds, the last batch the rest, and
 * the key key_first + i.
 */
struct rung_minibatches {
	size_t size; /**< sizeof(struct rung_minibatches), set by the initialiser */
	/** [seed_count] vertices in the (shuffled) order of the epoch */
	const uint64_t *seeds;
	uint64_t seed_count; /**< at least 1 */
	uint64_t batch_size; /**< 0: 1024 */
	uint64_t key_first;
	int any_order; /**< nonzero: hand over finished batches in parallel */
};

/** Initialiser: all defaults. In C++: rung_minibatches_init(). */
#define RUNG_MINIBATCHES_INIT RUNG_INIT(struct rung_minibatches)
RUNG_INIT_FUNCTION(rung_minibatches, {})

/**
 * Callback of rung_sampler_run() that receives a sampled batch.
 *
 * @param batch      valid until the callback returns
 * @param batch_idx  number of the batch, from 0
 * @param thread     index of the calling thread, below the number of threads of the sampler, for
 *                   per-thread state
 * @return 0 to continue; a negative status ends the run
 */
typedef int (*rung_batch_fn)(void *ctx, const struct rung_batch *batch, uint64_t batch_idx,
                             uint32_t thread);

/**
 * Sample many batches in parallel, one thread per batch. See Runs and Memory at the top of this
 * file.
 *
 * @param batches  seeds, batch size and keys
 * @param accept   receives each batch
 * @param ctx      passed to `accept`
 * @return 0 if `accept` accepted all batches; else the error of the first batch in order that could
 *         not be sampled or was refused. RUNG_E_INVAL, RUNG_E_NOMEM
 *
 * Threads: one call per sampler at a time.
 */
RUNG_API int rung_sampler_run(struct rung_sampler *sampler, const struct rung_minibatches *batches,
                              rung_batch_fn accept, void *ctx);

/**
 * The vertices of a batch, seeds first, then in order of first appearance.
 *
 * @param batch      a batch that was filled
 * @param count_out  number of vertices; 0 for an empty batch
 * @return [*count_out] ids, which the batch owns; valid until the batch is filled again or freed
 *
 * They are the ids to gather: row i of the gather belongs to vertex i of all blocks.
 *
 * Threads: any, while the batch is not filled.
 */
RUNG_API const uint64_t *rung_batch_vertices(const struct rung_batch *batch, uint64_t *count_out);

/**
 * The edges that a hop drew.
 *
 * @param batch  a batch that was filled
 * @param hop    0 for the hop that starts at the seeds
 * @return the block, which the batch owns; valid until the batch is filled again or freed; NULL
 *         past the last hop
 *
 * A model computes its layers from the last hop to hop 0.
 *
 * Threads: any, while the batch is not filled.
 */
RUNG_API const struct rung_block *rung_batch_block(const struct rung_batch *batch, uint32_t hop);

/**
 * A batch of a sampler with relations.
 *
 * @param batch  a batch that was filled
 * @return the vertices of each type and the blocks of each relation, which the batch owns; valid
 *         until the batch is filled again or freed; NULL for an empty batch and one of an untyped
 *         graph
 *
 * rung_batch_vertices() and rung_batch_block() have nothing for such a batch.
 *
 * Threads: any, while the batch is not filled.
 */
RUNG_API const struct rung_typed_batch *rung_batch_typed(const struct rung_batch *batch);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Internals of samplers and batches. Private to sampler*.c; kernels/ shares the arithmetic of the
 * draws. */
#ifndef RUNG_SAMPLE_SAMPLE_H
#define RUNG_SAMPLE_SAMPLE_H

#include "base/base.h"
#include "rung/sampler.h"
#include "sample/lists.h"
#include "sample/sampler_positions.h"

/* up to this many draws, a search through all of them is faster than a hash set */
#define RUNG__DRAWS_IN_LIST 32u

/* Entries of lists to be read from the file, in buffers that grow. A *run* is a number of entries
 * that are adjacent in the file and in the batch: a list that is used completely, or one draw. */
struct rung__cold_runs {
	void *memory;                /* of the arrays up to idx_tmp, [capacity] each */
	uint64_t *edges, *edges_tmp; /* first entry of each run */
	uint64_t *slots;             /* by index: where its entries go in the drawn ids */
	uint64_t *counts;            /* by index: number of its entries */
	uint64_t *positions;         /* the draws of one list */
	uint32_t *idx, *idx_tmp;     /* index of each run in slots and counts */
	uint64_t count, capacity;
	uint64_t *blocks;     /* the blocks of a request; NULL until a list is cold */
	unsigned char *bytes; /* their contents */
};

/* Buffers of a sampling thread. */
struct rung__space {
	struct rung__positions *positions; /* [type_count] of the vertices of the thread's batch */
	uint64_t *set;                     /* [set_size] drawn positions + 1; 0: free */
	struct rung__cold_runs cold;       /* used if some lists are in a file */
};

/* The vertices of a type. */
struct rung__sampled_type {
	uint64_t vertex_count;
	bool hashed; /* positions are in hash tables, not in dense ones */
};

/* The lists of a relation, and how many of their entries each hop draws. */
struct rung__sampled_relation {
	struct rung__lists lists; /* the sampler does not own the arrays of the graph */
	bool tiered;              /* some lists are in a file */
	uint32_t source_type, target_type;
	uint32_t fanouts[RUNG_HOPS_MAX]; /* 0: draws nothing */
};

/* A graph without types has one type and one relation. */
struct rung_sampler {
	struct rung__sampled_relation *relations; /* [relation_count] */
	struct rung__sampled_type *types;         /* [type_count] */
	uint32_t relation_count, type_count;
	uint32_t seed_type;
	bool typed; /* batches have types and relations */
	bool edge_positions;
	bool tiered; /* a relation is */
	uint32_t hop_count;
	enum rung_draws draws;
	uint64_t seed;
	uint32_t threads;
	/* slots of each thread's hash set, a power of two; 0: no hop needs a set */
	uint64_t set_size;
	bool spread;                /* all spaces have positions, not only the first */
	struct rung__space *spaces; /* [threads] */
};

/* The arrays of a block. Capacities are in entries. */
struct rung__block_memory {
	uint64_t *indptr;
	uint64_t indptr_capacity;
	uint32_t *indices;
	uint64_t indices_capacity;
	uint64_t *edges;
	uint64_t edges_capacity;
};

/* The vertices of a type while a batch is sampled. */
struct rung__batch_type {
	uint64_t *vertices;
	uint64_t count, capacity;
	uint64_t repeats; /* vertices that are earlier in the list, too: repeated seeds */
};

/* Memory of a batch; it grows and is reused by later batches, also those of other samplers. */
struct rung_batch {
	struct rung__batch_type *types; /* [type_capacity] */
	struct rung_typed_vertices
		*listed; /* [type_capacity] as struct rung_typed_batch has them */
	uint32_t type_capacity;
	struct rung_block *blocks;         /* [block_capacity] the same */
	struct rung__block_memory *memory; /* [block_capacity] */
	uint64_t block_capacity;
	uint64_t *wide_ids; /* drawn ids of 8 bytes, before they are numbered */
	uint64_t wide_ids_capacity;
	struct rung_typed_batch typed; /* hop_count 0: empty, or its sampling failed */
	bool is_typed;
};

/** Number of draws at a vertex of this degree. A fanout of UINT32_MAX means the whole list, even if
 * it is longer than that. */
static RUNG__ANYWHERE inline uint64_t rung__draw_count(uint32_t fanout, uint64_t degree)
{
	return fanout == UINT32_MAX ? degree : RUNG__MIN((uint64_t)fanout, degree);
}

/** Slots that a thread's hash set needs for these fanouts and the largest degree; 0: no set is
 * needed. */
uint64_t rung__draw_set_size(const uint32_t *fanouts, uint32_t hop_count, uint64_t degree_max);

/** The common part of the key of all draws of a hop, in a graph without types. */
uint64_t rung__draw_hop_key(uint64_t seed, uint64_t batch_key, uint32_t hop);

/** The same for a relation. That of relation 0 equals the key without types. */
uint64_t rung__draw_relation_key(uint64_t seed, uint64_t batch_key, uint32_t hop,
                                 uint32_t relation);

/**
 * Draw in-neighbours of vertices[first .. end), except those whose lists are cold. The draws of
 * vertex i are stored in drawn[indptr[i] .. indptr[i+1]), either 0 or rung__draw_count() of them,
 * as ids of index_bytes of the graph.
 * @param list  [end - first] of these vertices; only those that draw are read
 * @param set   [set_size] of this thread
 */
void rung__draw(const struct rung__lists *lists, uint64_t hop_key, const uint64_t *vertices,
                uint64_t first, uint64_t end, const struct rung__list *list, const uint64_t *indptr,
                uint64_t *set, void *drawn);

/**
 * The same for the vertices whose lists are cold; together both are the draws of a graph in memory.
 * All blocks of the file that have drawn entries are requested at once, each of them once.
 * @return 0, RUNG_E_NOMEM, RUNG_E_RANGE (an entry is not a vertex), or the failure of a read
 */
int rung__draw_cold(const struct rung__lists *lists, uint64_t hop_key, const uint64_t *vertices,
                    uint64_t first, uint64_t end, const uint64_t *indptr, struct rung__space *space,
                    void *drawn);

/**
 * List the blocks that a hop of a batch has drawn from, wherever they are: those that
 * rung__draw_cold() would request if no list was in memory. For predictions.
 * @param batch  filled with this key by this sampler, which must not be sampling
 * @param add    receives the blocks, ascending, each once; a negative status ends the call
 * @return 0, RUNG_E_NOMEM, or the status of `add`
 */
int rung__hop_blocks(const struct rung_sampler *sampler, const struct rung_batch *batch,
                     uint64_t batch_key, uint32_t hop, int (*add)(void *ctx, uint64_t block),
                     void *ctx);

/** Free the buffers. Does nothing for a zeroed struct. */
void rung__cold_runs_fini(struct rung__cold_runs *cold);

/**
 * Draw positions in the list of a vertex, which has `degree` entries; `count` is below degree.
 * @param set        [rung__draw_set_size()] of this thread
 * @param positions  [count] written
 */
void rung__draw_positions(uint64_t hop_key, uint64_t vertex, uint64_t degree, uint64_t count,
                          uint64_t *set, uint64_t *positions);

/**
 * The positions, in the lists, of the edges that the vertices drew. All lists count, also cold
 * ones: a draw depends on no entry.
 * @param indptr  of the block; a vertex with an empty list in it did not draw
 * @param set     [set_size] of this thread
 * @param edges   written from indptr[first] to indptr[end] - 1
 */
void rung__draw_edges(const struct rung__lists *lists, uint64_t hop_key, const uint64_t *vertices,
                      uint64_t first, uint64_t end, const uint64_t *indptr, uint64_t *set,
                      uint64_t *edges);

/** Grow an array of a batch to `count` items; the content is kept, also on failure. @return 0 or
 * RUNG_E_NOMEM */
int rung__batch_reserve_u64(uint64_t **items, uint64_t *capacity, uint64_t count);
int rung__batch_reserve_u32(uint32_t **items, uint64_t *capacity, uint64_t count);

/** Empty a batch, and ensure that it has a type and a block for all that the sampler fills. @return
 * 0 or RUNG_E_NOMEM */
int rung__batch_begin(struct rung_batch *batch, const struct rung_sampler *sampler);

/** Complete a batch, whose types and blocks are filled. */
void rung__batch_end(struct rung_batch *batch, const struct rung_sampler *sampler);

/**
 * Sample what a relation draws at a hop into its block, except for the block's src_count.
 * @param first  vertices of the target type before this position do not draw
 * @param count  number of vertices of the target type before the hop
 */
int rung__sample_relation(const struct rung_sampler *sampler, struct rung__space *space,
                          uint32_t relation, uint32_t hop, uint64_t key, uint64_t first,
                          uint64_t count, uint32_t threads, struct rung_batch *batch);

/** Check the options of a sampler, and the graph in memory that is passed with them. @return 0,
 * RUNG_E_INVAL or RUNG_E_NOSUP */
int rung__sampler_check(const struct rung_csc *csc, const struct rung_sampler_opts *opts);

/** rung_sampler_sample() on the thread that owns this space. The draws of a hop are shared by
 * `threads` threads. */
int rung__sample(const struct rung_sampler *sampler, struct rung__space *space,
                 const uint64_t *seeds, uint64_t seed_count, uint64_t batch_key, uint32_t threads,
                 struct rung_batch *batch);

/** Size limit of a thread's dense table of positions, at 4 bytes per vertex; larger graphs use a
 * hash table. Tests set it. */
extern uint64_t rung__sampler_table_bytes;

/** Allocate positions for all spaces, if only the first has them. @return 0 or RUNG_E_NOMEM */
int rung__sampler_place_state(struct rung_sampler *sampler);

#endif

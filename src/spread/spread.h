/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Passes over all edges: every vertex v gives something to every u of in(v), and every u sums up
 * what it was given. Private to the core; scores are such passes.
 *
 * Adding to u at once would miss the cache on nearly every edge of a large graph. Instead
 * (propagation blocking: Beamer, Asanovic, Patterson, "Reducing Pagerank Communication via
 * Propagation Blocking", 2017; partition-centric: Lakhotia, Kannan, Prasanna, "Accelerating
 * PageRank using Partition-Centric Processing", 2018):
 *
 *   block   neighbouring v with about a million edges: what they give fits the cache
 *   bin     neighbouring u, a few thousand: their sums fit the cache
 *   tile    the edges of one block into one bin, in the order of the graph, as two numbers of 16 bits
 *
 * First each block writes what it gives, edge by edge in the order of its tiles, which is one
 * stream out of a cached array; then each bin reads its tiles, block by block, into its cached
 * sums. Memory sees streams alone: 2 + 4 bytes an edge, twice.
 *
 * Each u adds up in the order of the blocks, and in a block in the order of the graph, in double:
 * the bits of a sum depend neither on the number of threads nor on how much of the graph was in
 * memory at a time, as blocks are cut by indptr alone.
 *
 * Memory: 8 bytes a vertex for the sums; of a graph in memory tiles and values of all edges, 8
 * bytes an edge; of a graph in files as much of that as the budget allows: a *panel* of blocks at a
 * time, tiled anew in each pass.
 *
 * Mutual edges (u draws from v and v from u), and edges between vertices that the same ones draw
 * (minhash.h), need the state of both ends: v sends a *record*, and u's own state is cached where
 * it is met. Records of a block come behind its other edges, so the size of a block is part of what
 * `expected` is, to the last bit.
 *
 * All that is accessed at random lies in huge pages: with small ones address translation took half
 * of the time of some steps. Pulling along out-lists, the usual loop, moves 4 bytes an edge instead
 * of 12, but waits for a cache line an edge.
 */
#ifndef RUNG_SPREAD_H
#define RUNG_SPREAD_H

#include "base/base.h"
#include "rung/edges.h"
#include "rung/graph.h"

/** Edges into a bin out of a block. */
struct rung__spread_tile {
	uint64_t u_first, v_first, count; /**< edges from u_first + u[i] to v_first + v[i] */
	uint16_t *u;
	const uint16_t *v;
	const float *values; /**< [count] what v gives, or [count * width] records */
};

/**
 * What a pass gives and takes. Functions are called by several threads at a time, each for vertices
 * of its own.
 *
 * Some edges may take part otherwise: with width above 0, v gives them a record, and what u gets of
 * it is found where u's own state is at hand. These are the edges whose reverse is there too
 * (*mutual* edges), and those between vertices whose signatures agree on something.
 */
struct rung__spread_rule {
	void *ctx;
	/** messages[i]: what vertex first + i gives to each u; its list has indptr[i + 1] -
	 * indptr[i] entries */
	void (*send)(void *ctx, uint64_t first, uint64_t count, const uint64_t *indptr,
	             float *messages);
	/** floats of a record; 0: no edge gives one, and the next two are not called */
	uint32_t width;
	void (*send_records)(void *ctx, uint64_t first, uint64_t count, const uint64_t *indptr,
	                     float *records);
	/** sums[u[i]] += what vertex u_first + u[i] gets by its record, in this order; u[i] has
	 * RUNG__SPREAD_MUTUAL set where the edge is */
	void (*meet)(void *ctx, const struct rung__spread_tile *tile, double *sums);
	/** sums[u[i]] += values[i], in this order, and what else there is to do with such edges; of
	 * a bin one call at a time. NULL: that alone */
	void (*add)(void *ctx, const struct rung__spread_tile *tile, double *sums);
	/** all sums of vertices first .. first + count are there. @return what the pass adds up, in
	 * order of the vertices */
	double (*receive)(void *ctx, uint64_t first, uint64_t count, const double *sums);
};

struct rung__spread;

struct rung__spread_opts {
	int threads;
	bool drop_loops;    /* edges from a vertex to itself give nothing */
	uint32_t width_max; /* of the rules to come */
	/* of a graph in files: for everything here and other_bytes; 0: some 100 MiB */
	uint64_t memory_bytes;
	uint64_t other_bytes; /* that the caller takes out of memory_bytes */
	rung_progress_fn progress;
	void *progress_ctx;
	uint64_t pass_total; /* for progress: passes that will be done */
};

/** Over a graph in memory. @return 0 or RUNG_E_NOMEM */
int rung__spread_of_csc(const struct rung_csc *csc, const struct rung__spread_opts *opts,
                        struct rung__spread **spread_out);

/** Over a graph in files. @return 0, RUNG_E_INVAL (memory_bytes), RUNG_E_NOMEM */
int rung__spread_of_edges(struct rung_edges *edges, const struct rung__spread_opts *opts,
                          struct rung__spread **spread_out);

void rung__spread_close(struct rung__spread *spread);

/** One pass. @param sum_out what receive() returned, added up; may be NULL. @return 0,
 * RUNG_E_CANCELED, of files what a pass over them returns */
int rung__spread_pass(struct rung__spread *spread, const struct rung__spread_rule *rule,
                      double *sum_out);

/**
 * Find the edges that give records; until then none does, from then on rules have width. Reads all
 * edges once or twice more.
 * @param signatures  [vertex_count] minhash.h, as long as `spread`; NULL: mutual edges alone give
 *                    records
 * @return 0, RUNG_E_NOMEM, RUNG_E_CANCELED, of files what a pass over them returns
 */
int rung__spread_find_records(struct rung__spread *spread, const uint32_t *signatures);

/** In an element of u: bins are smaller. */
#define RUNG__SPREAD_MUTUAL 0x8000u

/** Vertices a block or a bin never exceeds: they are counted in 16 bits. */
#define RUNG__SPREAD_VERTICES_MAX 65536u

/** Passes over the edges so far. */
uint64_t rung__spread_passes(const struct rung__spread *spread);

/** Tests: edges of a block of what is opened from now on, 0 for the default. */
void rung__spread_set_block_edges(uint32_t edges);

#endif

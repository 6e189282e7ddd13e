/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Passes over all edges: every vertex v sends a value to every u of in(v), and every u sums the
 * values it receives. Private to the core; scores are such passes.
 *
 * Adding to u at once would miss the cache on nearly every edge of a large graph. Instead
 * (propagation blocking: Beamer, Asanovic, Patterson, "Reducing Pagerank Communication via
 * Propagation Blocking", 2017; partition-centric: Lakhotia, Kannan, Prasanna, "Accelerating
 * PageRank using Partition-Centric Processing", 2018) the edges are divided into
 *
 *   block   consecutive v with about a million edges: their values fit in the cache
 *   bin     a few thousand consecutive u: their sums fit in the cache
 *   tile    the edges of one block into one bin, in the order of the graph, as two 16-bit numbers
 *
 * First each block writes its values, edge by edge in the order of its tiles, as one stream from a
 * cached array; then each bin reads its tiles, block by block, into its cached sums. Memory is
 * accessed only in streams: 2 + 4 bytes per edge, in each of the two steps.
 *
 * Each u adds in the order of the blocks, and within a block in the order of the graph, in double.
 * The bits of a sum therefore depend neither on the number of threads nor on the part of the graph
 * that is in memory, because blocks are cut by indptr alone.
 *
 * Memory: 8 bytes per vertex for the sums. A graph in memory also needs the tiles and values of all
 * edges, 8 bytes per edge. A graph in files needs as much of that as the budget allows: one *panel*
 * of blocks at a time, tiled again in each pass.
 *
 * Mutual edges (u draws from v and v from u), and edges between vertices that are drawn by the same
 * vertices (minhash.h), need the state of both ends: v sends a *record*, and the state of u is
 * cached when the record is processed. Records of a block come after its other edges, so the size
 * of a block affects the last bits of `expected`.
 *
 * A relation of a typed graph connects two types: its lists are those of the vertices v of one
 * type, and have vertices u of another. Relations with the same type of u can add to the same sums.
 *
 * All randomly accessed memory is in huge pages: with small ones address translation took half the
 * time of some steps. Pulling along out-lists, the usual loop, moves 4 bytes per edge instead of
 * 12, but waits for a cache line per edge.
 */
#ifndef RUNG_PROPAGATION_H
#define RUNG_PROPAGATION_H

#include "base/base.h"
#include "rung/edges.h"
#include "rung/graph.h"

/** The edges of one block into one bin. */
struct rung__propagation_tile {
	uint64_t u_first, v_first, count; /**< edges from u_first + u[i] to v_first + v[i] */
	uint16_t *u;
	const uint16_t *v;
	const float *values; /**< [count] values of v, or [count * width] records */
};

/**
 * The functions of a pass. Several threads call them at the same time, each for different vertices.
 *
 * Some edges are handled differently: with `width` above 0, v sends a record along them, and the
 * value that u receives is computed where the state of u is cached. These are the edges whose
 * reverse exists too (*mutual* edges), and those between vertices whose signatures have a common
 * value.
 */
struct rung__propagation_rule {
	void *ctx;
	/** messages[i]: the value that vertex first + i sends to each u; its list has indptr[i + 1]
	 * - indptr[i] entries */
	void (*send)(void *ctx, uint64_t first, uint64_t count, const uint64_t *indptr,
	             float *messages);
	/** floats of a record; 0: no edge sends one, and the next two functions are not called */
	uint32_t width;
	/** as send(), with `width` floats per vertex */
	void (*send_records)(void *ctx, uint64_t first, uint64_t count, const uint64_t *indptr,
	                     float *records);
	/** sums[u[i]] += the value that vertex u_first + u[i] receives with its record, in this
	 * order; u[i] has RUNG__PROPAGATION_MUTUAL set if the edge is mutual */
	void (*combine)(void *ctx, const struct rung__propagation_tile *tile, double *sums);
	/** sums[u[i]] += values[i], in this order, and any other work for such edges. For one bin
	 * there is one call at a time. NULL: only the sum */
	void (*add)(void *ctx, const struct rung__propagation_tile *tile, double *sums);
	/** all sums of vertices first .. first + count are complete.
	 * @return a term of the pass's total; terms are added in the order of the vertices
	 * NULL: other relations add to the sums */
	double (*receive)(void *ctx, uint64_t first, uint64_t count, const double *sums);
	bool keeps_sums; /**< the sums begin with the values that they have, not with 0 */
};

struct rung__propagation;

struct rung__propagation_opts {
	int threads;
	bool drop_loops;    /* edges from a vertex to itself are skipped */
	uint32_t width_max; /* largest width of all rules that will be used */
	/* a relation between two types: number of vertices u, which the lists hold; 0: one type */
	uint64_t source_count;
	/* [number of u] for relations that add to the same sums, borrowed; NULL: allocated */
	double *sums;
	/* graph in files: memory budget, which includes other_bytes; 0: about 100 MiB */
	uint64_t memory_bytes;
	uint64_t other_bytes; /* the part of memory_bytes that the caller uses itself */
	rung_progress_fn progress;
	void *progress_ctx;
	uint64_t pass_total; /* number of passes that will be run, for the progress report */
};

/**
 * Open passes over a graph in memory. The graph's arrays must outlive prop.
 * @param prop_out  free with rung__propagation_close()
 * @return 0 or RUNG_E_NOMEM
 */
int rung__propagation_of_csc(const struct rung_csc *csc, const struct rung__propagation_opts *opts,
                             struct rung__propagation **prop_out);

/** The same for a graph in files.
 * @return 0, RUNG_E_INVAL (memory_bytes is too small), RUNG_E_NOMEM */
int rung__propagation_of_edges(struct rung_edges *edges, const struct rung__propagation_opts *opts,
                               struct rung__propagation **prop_out);

void rung__propagation_close(struct rung__propagation *prop);

/**
 * Run one pass.
 * @param sum_out  sum of the results of receive(); may be NULL
 * @return 0, RUNG_E_CANCELED; for files also the errors of a pass over them
 */
int rung__propagation_pass(struct rung__propagation *prop,
                           const struct rung__propagation_rule *rule, double *sum_out);

/**
 * Find the edges that send records. Before this call no edge sends one; afterwards a rule may have
 * a width above 0. Reads all edges once or twice more.
 * @param opposite      the relation in which u draws v, in memory or in files like `prop`: `prop`
 *                      itself with one relation, or one between the same types exchanged; NULL: no
 *                      edge is mutual
 * @param signatures_u, signatures_v
 *                      [number of u, of v] minhash.h, valid as long as `prop`; NULL: only mutual
 *                      edges send records
 * @return 0, RUNG_E_NOMEM, RUNG_E_CANCELED; for files also the errors of a pass over them
 */
int rung__propagation_find_records(struct rung__propagation *prop,
                                   struct rung__propagation *opposite, const uint32_t *signatures_u,
                                   const uint32_t *signatures_v);

/** Release the memory that only a pass needs, so that passes over other relations can use it, and
 * allocate it again.
 * @return 0 or RUNG_E_NOMEM */
void rung__propagation_rest(struct rung__propagation *prop);
int rung__propagation_resume(struct rung__propagation *prop);

/** Mark in an element of u. Bins have fewer vertices than this number, so the bit is free. */
#define RUNG__PROPAGATION_MUTUAL 0x8000u

/** A block or a bin never has more vertices: they are counted in 16 bits. */
#define RUNG__PROPAGATION_VERTICES_MAX 65536u

/** Number of passes over the edges so far. */
uint64_t rung__propagation_passes(const struct rung__propagation *prop);

/** Tests: edges per block of graphs opened from now on, 0 for the default. */
void rung__propagation_set_block_edges(uint32_t edges);

#endif

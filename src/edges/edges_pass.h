/* SPDX-License-Identifier: Apache-2.0 */
/** One pass over edges in files, and the chunks that it hands over. Private to rung; part of
 * edges.h. */
#ifndef RUNG_EDGES_PASS_H
#define RUNG_EDGES_PASS_H

#include <stdint.h>

#include "rung/edges.h"

/**
 * A part of the graph: the edges [edge_first, edge_first + edge_count), and the vertices of their
 * lists. Chunks are in the order of the edges and cover all of them; every vertex is in at least
 * one. A list is in one chunk unless it is longer than a chunk: then it fills several chunks alone,
 * and shares only the last.
 */
struct rung__edge_chunk {
	uint64_t vertex_first;
	uint64_t vertex_count; /* at least 1 */
	/* [vertex_count + 1] entries of the graph's indptr: edges indptr[i] .. indptr[i + 1] are
	 * the whole list of vertex_first + i, which may exceed the chunk */
	const uint64_t *indptr;
	uint64_t edge_first;  /* above indptr[0] if the first list began in an earlier chunk */
	uint64_t edge_count;  /* the end is below indptr[vertex_count] if the last list continues */
	const void *indices;  /* [edge_count] of index_bytes, each below the graph's vertex count */
	unsigned index_bytes; /* 4 or 8, rung_index_bytes() of the graph */
};

/** Edges of the chunk that belong to list vertex_first + i: positions [*begin_out, *end_out) in
 * `indices`. */
static inline void rung__edge_chunk_list(const struct rung__edge_chunk *chunk, uint64_t i,
                                         uint64_t *begin_out, uint64_t *end_out)
{
	*begin_out = i == 0 ? 0 : chunk->indptr[i] - chunk->edge_first;
	*end_out = i + 1 == chunk->vertex_count ? chunk->edge_count
	                                        : chunk->indptr[i + 1] - chunk->edge_first;
}

/**
 * Read every edge once. Private threads of the pass read ahead while `work` processes a chunk. All
 * of its input has been checked in this pass: offsets and ids are those of a graph with the sizes
 * of rung_edges_info(), even if other processes write to the files.
 *
 * @param work  called on the calling thread with each chunk in order; the chunk is invalid after it
 *              returns; a value other than 0 ends the pass
 * @return 0, the value returned by `work`, or RUNG_E_IO (a file became shorter), RUNG_E_FORMAT,
 *         RUNG_E_RANGE (files that changed)
 *
 * Threads: one pass at a time per graph.
 */
int rung__edges_pass(struct rung_edges *edges,
                     int (*work)(void *ctx, const struct rung__edge_chunk *chunk), void *ctx);

#endif

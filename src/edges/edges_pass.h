/* SPDX-License-Identifier: Apache-2.0 */
/** One pass over edges in files, and the chunks that it hands out. Private to rung; part of
 * edges.h. */
#ifndef RUNG_EDGES_PASS_H
#define RUNG_EDGES_PASS_H

#include <stdint.h>

#include "rung/edges.h"

/**
 * A part of the graph: the edges [edge_first, edge_first + edge_count), and the vertices whose
 * lists they are in. Chunks come in the order of the edges, together all of them, every vertex in
 * one chunk at least. A list lies in one chunk unless it is longer than chunks are: then it takes
 * several, the vertex alone in all but the last of them.
 */
struct rung__edge_chunk {
	uint64_t vertex_first;
	uint64_t vertex_count; /* at least 1 */
	/* [vertex_count + 1], the graph's: edges indptr[i] .. indptr[i + 1] are all of list
	 * vertex_first + i */
	const uint64_t *indptr;
	uint64_t edge_first;  /* above indptr[0] when the first list began in a chunk before */
	uint64_t edge_count;  /* ends below indptr[vertex_count] when the last list goes on */
	const void *indices;  /* [edge_count] of index_bytes, each below the graph's vertex count */
	unsigned index_bytes; /* 4 or 8, rung_index_bytes() of the graph */
};

/** Edges of chunk->indices that belong to list vertex_first + i: places [*begin_out, *end_out) in
 * `indices`. */
static inline void rung__edge_chunk_list(const struct rung__edge_chunk *chunk, uint64_t i,
                                         uint64_t *begin_out, uint64_t *end_out)
{
	*begin_out = i == 0 ? 0 : chunk->indptr[i] - chunk->edge_first;
	*end_out = i + 1 == chunk->vertex_count ? chunk->edge_count
	                                        : chunk->indptr[i + 1] - chunk->edge_first;
}

/**
 * Read every edge once. Threads of the pass's own read ahead while `work` has a chunk; all that it
 * is given has been checked in this pass: offsets and ids are those of a graph of the sizes that
 * rung_edges_info() tells, whoever writes to the files.
 *
 * @param work  called on the calling thread with each chunk in order, which is gone when it
 *              returns; not 0 ends the pass
 * @return 0, what `work` returned, or RUNG_E_IO (a file became shorter), RUNG_E_FORMAT,
 *         RUNG_E_RANGE (files that changed)
 *
 * Threads: one pass at a time on one graph.
 */
int rung__edges_pass(struct rung_edges *edges,
                     int (*work)(void *ctx, const struct rung__edge_chunk *chunk), void *ctx);

#endif

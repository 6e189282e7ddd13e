/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Graphs whose edges stay in files: for graphs larger than memory. Where rung_graph_load() gives arrays, these give passes,
 * which read every edge once, in order, through buffers of a fixed size.
 */
#ifndef RUNG_EDGES_H
#define RUNG_EDGES_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rung_edges;

/** Options of rung_edges_open(). */
struct rung_edges_opts {
	size_t size;                   /**< sizeof(struct rung_edges_opts), set by the initialiser */
	struct rung_graph_opts graph;  /**< what is read, as rung_graph_load() takes it, its progress included */
	uint64_t memory_bytes;         /**< of all buffers, while sorting and while a pass runs; 0: 256 MiB */
	uint64_t chunk_bytes;          /**< edges handed out at a time; 0: as memory_bytes allows, at most 16 MiB; else 4 KiB or more */
	const char *temp_dir;          /**< where a graph that needs sorting is put; NULL: $TMPDIR, or /var/tmp */
};

/** Initialiser: all defaults. In C++: rung_edges_opts_init(). */
#define RUNG_EDGES_OPTS_INIT { .size = sizeof(struct rung_edges_opts), .graph = RUNG_GRAPH_OPTS_INIT }
RUNG_INIT_FUNCTION(rung_edges_opts, { opts.graph.size = sizeof(opts.graph); })

/**
 * Open a graph for passes over its edges.
 *
 * A "csc:SRC,SRC" without `undirected` and `dedup` is read where it lies. Every other graph is sorted into two temporary files
 * first: indptr, 8 bytes a vertex, and indices, rung_index_bytes() an edge; the lists are those of rung_graph_load(), entry by
 * entry. While it is sorted there are temporary files of two ids an edge more. They have no names where the file system
 * can do without, and are gone when the graph is closed, the call fails or the process ends.
 *
 * A deflated member of a .npz is inflated anew in each pass; what that takes, less than 1 MiB, is taken out of memory_bytes.
 *
 * @param edges_out  the graph; close it with rung_edges_close()
 * @return 0, what rung_graph_load() returns, RUNG_E_INVAL when memory_bytes is too small (says the least that works),
 *         RUNG_E_NOSPC with the bytes needed
 */
RUNG_API int rung_edges_open(const struct rung_edges_opts *opts, struct rung_edges **edges_out);

/** What was opened, and what it takes. */
struct rung_edges_info {
	size_t size;              /**< sizeof(struct rung_edges_info), set by the caller */
	uint64_t vertex_count;
	uint64_t edge_count;
	unsigned index_bytes;     /**< rung_index_bytes(vertex_count) */
	unsigned input_passes;    /**< times the input was read to sort it; 0: it is read in place */
	uint64_t temp_bytes;      /**< written to temporary files, all together */
	uint64_t memory_bytes;    /**< of the buffers of a pass, and to inflate deflated members */
	uint64_t chunk_bytes;     /**< of edges handed out at a time, at most */
};

/** @return 0, or RUNG_E_INVAL, RUNG_E_ABI (size) */
RUNG_API int rung_edges_info(const struct rung_edges *edges, struct rung_edges_info *info_out);

/** Close, and remove the temporary files; NULL is allowed. */
RUNG_API void rung_edges_close(struct rung_edges *edges);

#ifdef __cplusplus
}
#endif
#endif

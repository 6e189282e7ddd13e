/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Graphs that are larger than memory: their edges stay in files. rung_graph_load() returns arrays;
 * these functions run passes instead, each of which reads every edge once, in order, through
 * buffers of a fixed size.
 *
 * A "csc:SRC,SRC" without `undirected` and `dedup` is read in place, as is a `reversed`
 * "csr:SRC,SRC". Every other graph is first sorted into two temporary files: indptr with 8 bytes
 * per vertex, and indices with index_bytes per edge. Their contents equal the arrays of
 * rung_graph_load(). While sorting runs, further temporary files hold two ids per edge. The files
 * have no names if the file system supports that. They are removed when the graph is closed, the
 * call fails or the process ends.
 *
 * Each pass inflates deflated members of a .npz again. The buffers for that, less than 1 MiB, are
 * part of memory_bytes.
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
	size_t size;                  /**< sizeof(struct rung_edges_opts), set by the initialiser */
	struct rung_graph_opts graph; /**< as for rung_graph_load() */
	uint64_t memory_bytes;        /**< of all buffers, also while sorting; 0: 256 MiB */
	/** bytes of edges per chunk, at least 4 KiB; 0: as many as memory_bytes allows, at most 16
	 * MiB */
	uint64_t chunk_bytes;
	/** for the files of a graph that is sorted; NULL: $TMPDIR, or /var/tmp */
	const char *temp_dir;
};

/** Initialiser: all defaults. In C++: rung_edges_opts_init(). */
#define RUNG_EDGES_OPTS_INIT                                                                       \
	{                                                                                          \
		.size = sizeof(struct rung_edges_opts), .graph = RUNG_GRAPH_OPTS_INIT              \
	}
RUNG_INIT_FUNCTION(rung_edges_opts, { opts.graph.size = sizeof(opts.graph); })

/**
 * Open a graph for passes over its edges.
 *
 * A graph that must be sorted is read and written to temporary files during the call; see above.
 * Otherwise only headers and the length of the lists are read.
 *
 * @param opts       input files and budgets
 * @param edges_out  the graph; close it with rung_edges_close()
 * @return 0; the errors of rung_graph_load(); RUNG_E_INVAL if memory_bytes is too small, with the
 *         smallest value that works; RUNG_E_NOSPC with the bytes needed
 *
 * Threads: any; one pass per graph at a time.
 */
RUNG_API int rung_edges_open(const struct rung_edges_opts *opts, struct rung_edges **edges_out);

/** Sizes of an open graph, and the resources it uses. */
struct rung_edges_info {
	size_t size; /**< sizeof(struct rung_edges_info), set by the caller */
	uint64_t vertex_count;
	uint64_t edge_count;
	unsigned index_bytes; /**< rung_index_bytes() of the larger of the two counts of vertices */
	unsigned input_passes; /**< how often the input was read to sort it; 0: read in place */
	uint64_t temp_bytes;   /**< total bytes written to temporary files */
	uint64_t memory_bytes; /**< buffers of a pass, including those for deflated members */
	uint64_t chunk_bytes;  /**< maximum bytes of edges per chunk */
	uint64_t source_count; /**< as in struct rung_csc: 0 within one type */
};

/**
 * Sizes of an open graph, and the resources that opening it used and that a pass will use.
 *
 * @param edges     an open graph
 * @param info_out  filled; its size must be set
 * @return 0, RUNG_E_INVAL or RUNG_E_ABI (size)
 *
 * The numbers of vertices and edges are those after `undirected` and `dedup` were applied.
 *
 * Threads: any.
 */
RUNG_API int rung_edges_info(const struct rung_edges *edges, struct rung_edges_info *info_out);

/**
 * Close a graph, free its buffers and remove its temporary files.
 *
 * @param edges  the graph; NULL is allowed
 *
 * No pass may be running, and objects that were created from the graph must be closed first. The
 * input files are not changed. Temporary files without names are removed even if the process ends
 * before it calls this function.
 *
 * Threads: any, but no other call with the same graph.
 */
RUNG_API void rung_edges_close(struct rung_edges *edges);

#ifdef __cplusplus
}
#endif
#endif

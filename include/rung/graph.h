/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Graphs in compressed sparse column form (CSC).
 *
 * An edge u -> v carries messages from u to v. Column v is the list of the in-neighbours of v:
 * indices[indptr[v] .. indptr[v+1]). A sampler draws from that list; its length is in_degree(v).
 *
 * Inputs. An edge index of shape [2,E] or [E,2] lists edges; one of shape [2,2] is read as [2,E].
 * "csc:SRC,SRC" names indptr and indices of such columns. "csr:SRC,SRC" has lists of
 * out-neighbours instead: v -> indices[indptr[v] .. indptr[v+1]). The two sources of csc: and csr:
 * may contain commas (raw:...): the first comma at which both sides open as sources of integers
 * separates them.
 *
 * Order. Inside a column, edges keep the order of the input; for csr: columns list their sources in
 * ascending order. With `undirected`, the reverse of an edge directly follows it; for csc: and csr:
 * the reverse edges follow all edges of their column, in the order of the file.
 *
 * Relations. With a source_count, the edges connect two types of vertices, and both count from 0:
 * columns are the targets' lists, of which there are vertex_count, and their entries are sources.
 * `reversed` turns the edges around after the specs were read, so that the counts, and "source" and
 * "destination" in messages, are those of the turned edges.
 *
 * Parts. Edge lists may connect parts of the vertices, such as authors and papers, whose ids each
 * start at 0. In "SRC+FIRST[:COUNT],FIRST[:COUNT]", source i of SRC is vertex FIRST + i, the second
 * pair does the same for destinations, and ids that are not below COUNT are refused. Append +0,0 to
 * a file name that itself ends in such a suffix.
 *
 * Memory. rung_graph_load() needs 8 bytes per vertex and 4 or 8 per edge. Edge lists need 8 more
 * bytes per vertex and at most 200 MiB while they are read; `dedup`, csr:, and `undirected` with
 * csc: need a second copy of the graph. Edge lists are read twice, or three times if vertex_count
 * is 0.
 */
#ifndef RUNG_GRAPH_H
#define RUNG_GRAPH_H

#include "source.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A graph in memory. The arrays are borrowed: their owner keeps and frees them. */
struct rung_csc {
	uint64_t vertex_count;
	uint64_t edge_count;
	const uint64_t *indptr; /**< [vertex_count + 1] */
	/** [edge_count], uint32_t if index_bytes is 4, uint64_t if it is 8 */
	const void *indices;
	unsigned index_bytes; /**< 4 or 8 */
	/** a relation: the entries are vertices of another type, which has this many; 0: they are
	 * vertices of the same type, of which there are vertex_count */
	uint64_t source_count;
};

/**
 * Bytes per vertex id in the arrays that rung creates for a graph of that size.
 *
 * @param vertex_count  number of vertices
 * @return 4 if every id below `vertex_count` fits in 32 bits, that is up to 2^32 vertices; else 8
 *
 * Use it to allocate the maps of rung_rank_order() and to interpret struct rung_csc.indices.
 * Cannot fail.
 *
 * Threads: any.
 */
RUNG_API unsigned rung_index_bytes(uint64_t vertex_count);

struct rung_graph;

/** Options of rung_graph_load(): the files of the edges, and how to process them. */
struct rung_graph_opts {
	size_t size; /**< sizeof(struct rung_graph_opts), set by the initialiser */
	/**
	 * [spec_count] SRC[+PARTS] of an edge index [2,E] or [E,2], or "csc:SRC,SRC" (indptr,
	 * indices), or "csr:SRC,SRC"
	 */
	const char *const *specs;
	/** edge indices are concatenated; csc: and csr: must be alone. 0: no edges */
	size_t spec_count;
	/** 0: largest id + 1, or the length of indptr - 1. Required if there are no specs */
	uint64_t vertex_count;
	int undirected; /**< nonzero: add the reverse of every edge; self loops are not doubled */
	int dedup;      /**< nonzero: keep one of equal edges; this sorts every list by id */
	rung_progress_fn progress; /**< may be NULL */
	void *progress_ctx;
	/** a relation between two types of vertices: the number of sources, and vertex_count is the
	 * number of targets; both count from 0, and `undirected` is refused. 0: one type */
	uint64_t source_count;
	int reversed; /**< nonzero: turn every edge around, after the specs were read */
};

/** Initialiser: all defaults. In C++: rung_graph_opts_init(). */
#define RUNG_GRAPH_OPTS_INIT RUNG_INIT(struct rung_graph_opts)
RUNG_INIT_FUNCTION(rung_graph_opts, {})

/**
 * Read a graph into memory, and check every id and every entry of indptr. See Memory at the top of
 * this file.
 *
 * @param opts       files of the edges, and how to process them
 * @param graph_out  the graph; free it with rung_graph_destroy()
 * @return 0, RUNG_E_RANGE (with edge and value), RUNG_E_FORMAT (shape, dtype, or indptr not
 *         monotone, with the index), RUNG_E_NOMEM, RUNG_E_CANCELED, or the errors of
 *         rung_source_open()
 *
 * Threads: any; it uses OpenMP threads.
 */
RUNG_API int rung_graph_load(const struct rung_graph_opts *opts, struct rung_graph **graph_out);

/**
 * The arrays of a graph.
 *
 * @param graph  a graph that rung_graph_load() returned
 * @return the arrays, which the graph owns; valid until rung_graph_destroy(); never NULL
 *
 * Pass them to rung_sampler_create() or rung_score_compute(). rung has checked them, so that
 * rung_csc_check() is not needed. Do not modify them.
 *
 * Threads: any.
 */
RUNG_API const struct rung_csc *rung_graph_csc(const struct rung_graph *graph);

/**
 * Free a graph and its arrays.
 *
 * @param graph  the graph; NULL is allowed
 *
 * Samplers and other objects that borrow the arrays must be destroyed first: they keep pointers to
 * them.
 *
 * Threads: any, but no other thread may use the graph or its arrays during the call or after it.
 */
RUNG_API void rung_graph_destroy(struct rung_graph *graph);

/**
 * Check a graph whose arrays were not created by rung.
 *
 * indptr must start at 0, never decrease and end at edge_count, and every entry of indices must be
 * below vertex_count or, in a relation, source_count. Functions that accept a struct rung_csc rely
 * on this and do not check it again.
 *
 * @param csc  the graph; its arrays are read completely
 * @return 0, RUNG_E_INVAL (index_bytes), RUNG_E_FORMAT or RUNG_E_RANGE with the first position that
 *         is wrong
 *
 * Threads: any; it uses OpenMP threads.
 */
RUNG_API int rung_csc_check(const struct rung_csc *csc);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Graphs in compressed sparse column form.
 *
 * An edge u -> v carries messages from u to v. Column v lists the in-neighbours of v: indices[indptr[v] .. indptr[v+1]).
 * A sampler draws from that list; in_degree(v) is its length.
 */
#ifndef RUNG_GRAPH_H
#define RUNG_GRAPH_H

#include "source.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A graph in memory, borrowed: whoever made the arrays keeps and frees them. */
struct rung_csc {
	uint64_t vertex_count;
	uint64_t edge_count;
	const uint64_t *indptr;   /**< [vertex_count + 1] */
	const void *indices;      /**< [edge_count], uint32_t or uint64_t as index_bytes says */
	unsigned index_bytes;     /**< 4 or 8 */
};

/** Bytes per vertex id in arrays that rung makes: 4 while every id below vertex_count fits, else 8. */
RUNG_API unsigned rung_index_bytes(uint64_t vertex_count);

struct rung_graph;

/** Options of rung_graph_load(): where edges are, and what is made of them. */
struct rung_graph_opts {
	size_t size;                 /**< sizeof(struct rung_graph_opts), set by the initialiser */
	const char *const *specs;    /**< [spec_count] SRC[+PARTS] of an edge index [2,E] or [E,2], or "csc:SRC,SRC" (indptr, indices), or "csr:SRC,SRC" */
	/** Lists are joined, csc: and csr: stand alone. 0: no edges */
	size_t spec_count;
	/** 0: largest id + 1, or the length of indptr - 1. Without specs it is needed. */
	uint64_t vertex_count;
	int undirected;              /**< nonzero: add the reverse of every edge; a self loop is not doubled */
	int dedup;                   /**< nonzero: keep one of equal edges; lists are then sorted by id */
	rung_progress_fn progress;   /**< may be NULL */
	void *progress_ctx;
};

/** Initialiser: all defaults. In C++: rung_graph_opts_init(). */
#define RUNG_GRAPH_OPTS_INIT { .size = sizeof(struct rung_graph_opts) }
RUNG_INIT_FUNCTION(rung_graph_opts, {})

/**
 * Read a graph into memory: 8 bytes a vertex and 4 or 8 an edge. An edge list takes 8 bytes a vertex more while it is read, and
 * buffers of at most 200 MiB; `dedup`, a csr:, and `undirected` for a csc:, need the graph once more while they work.
 * Edges keep the order of their lists inside a column; with `undirected` the reverse of an edge comes directly behind it
 * (behind all edges of its column for a csc: and a csr:). A csr: has the lists of out-neighbours: v -> indices[indptr[v] ..
 * indptr[v+1]). Columns then list their sources in ascending order, and the reverse edges, if any, in the order of the file.
 * Every id and every indptr entry is checked. An edge list is read twice, and three times when the vertex count is to be found.
 *
 * Edge lists may be of parts of the vertices, such as authors and papers, each with ids from 0 on: with
 * "SRC+FIRST[:COUNT],FIRST[:COUNT]" source i of SRC is vertex FIRST + i, destinations likewise, and an id that is not below COUNT is
 * refused. (A file whose name ends so is given with +0,0 behind it.)
 *
 * An edge index of shape [2,2] is read as [2,E]. In "csc:SRC,SRC" and "csr:SRC,SRC" the sources may hold commas themselves
 * (raw:...): the first comma at which both sides open as sources of integers separates them.
 *
 * @param graph_out  the graph; give it back with rung_graph_destroy()
 * @return 0, RUNG_E_RANGE (names edge and value), RUNG_E_FORMAT (shape, dtype, indptr not monotone: names the index),
 *         RUNG_E_CANCELED, or what rung_source_open() returns
 */
RUNG_API int rung_graph_load(const struct rung_graph_opts *opts, struct rung_graph **graph_out);

/** The arrays of a graph; valid until it is destroyed. */
RUNG_API const struct rung_csc *rung_graph_csc(const struct rung_graph *graph);

/** Free; NULL is allowed. */
RUNG_API void rung_graph_destroy(struct rung_graph *graph);

/**
 * Check a graph whose arrays come from elsewhere: indptr starts at 0, never decreases and ends at edge_count; every index is a vertex.
 * @return 0, RUNG_E_INVAL (index_bytes), RUNG_E_FORMAT or RUNG_E_RANGE with the first place that is wrong
 */
RUNG_API int rung_csc_check(const struct rung_csc *csc);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Graphs that own their arrays. Private to rung; the face of this room. */
#ifndef RUNG_GRAPH_GRAPH_H
#define RUNG_GRAPH_GRAPH_H

#include <string.h>

#include "base/base.h"
#include "rung/graph.h"

struct rung_graph {
	struct rung_csc csc; /* its arrays are the two below */
	uint64_t *indptr;
	void *indices;
};

/**
 * Create a graph from arrays of rung__malloc(). They belong to the call from its first line on: if
 * the check fails, or memory for the graph is lacking, they are freed and the error of
 * rung_csc_check() is returned.
 */
int rung__graph_adopt(uint64_t vertex_count, uint64_t edge_count, uint64_t *indptr, void *indices,
                      unsigned index_bytes, struct rung_graph **graph_out);

/** The graph of edge lists: every spec a SRC of [2,E] or [E,2]. graph_edges.c */
int rung__graph_from_edges(const struct rung_graph_opts *opts, struct rung_graph **graph_out);

/** Check the options before a file is opened. graph_load.c */
int rung__graph_opts_check(const struct rung_graph_opts *opts);

/** The first source, for its kind and for messages; without sources a name that is not a column
 * pair. */
static inline const char *rung__graph_first(const struct rung_graph_opts *opts)
{
	return opts->spec_count > 0 ? opts->specs[0] : "no edges";
}

#define RUNG__COLUMNS_PREFIX 4 /* bytes of "csc:" and "csr:" */

/** Whether a spec is a pair of sources "csc:SRC,SRC" or "csr:SRC,SRC". */
static inline bool rung__spec_is_csc(const char *spec)
{
	return strncmp(spec, "csc:", RUNG__COLUMNS_PREFIX) == 0;
}

static inline bool rung__spec_is_csr(const char *spec)
{
	return strncmp(spec, "csr:", RUNG__COLUMNS_PREFIX) == 0;
}

/** The lists of a csc: or csr: as the two files have them. graph_csc.c */
int rung__graph_from_columns(const char *spec, const struct rung_graph_opts *opts,
                             struct rung_graph **graph_out);

/** Its two sources. graph_csc.c */
int rung__columns_open(const char *spec, struct rung_source **indptr_out,
                       struct rung_source **indices_out);

/** Its vertices, which `wanted` is to be unless it is 0. graph_csc.c */
int rung__columns_count(const struct rung_source *indptr_src, uint64_t wanted,
                        uint64_t *vertex_count_out);

/** Append the reverse of every edge to its column; a self loop is not doubled. graph_turn.c */
int rung__graph_undirect(struct rung_graph *graph);

/** Turn lists of out-neighbours into lists of in-neighbours, in ascending order; undirected:
 * followed by the old list. graph_turn.c */
int rung__graph_flip(struct rung_graph *graph, bool undirected);

/** Keep one of equal entries in every column, which is then sorted by id. graph_turn.c */
int rung__graph_dedup(struct rung_graph *graph);

/**
 * The lists of out-neighbours, each in ascending order of the destination: one stable counting pass
 * over the edges. Both arrays are the caller's to free with rung__free(). graph_turn.c
 */
int rung__csc_turn(const struct rung_csc *csc, int threads, uint64_t **indptr_out,
                   void **indices_out);

/** Replace counts[0 .. count) by offsets: counts[i] becomes the sum of the counts before i. Returns
 * the total. */
uint64_t rung__offsets_of_counts(uint64_t *counts, uint64_t count);

/** Progress of a long function: nonzero when the caller wants it to stop, with the failure
 * recorded. */
static inline int rung__progress(rung_progress_fn progress, void *ctx, const char *stage,
                                 uint64_t done, uint64_t total)
{
	if (progress && progress(ctx, stage, done, total))
		return rung__fail(RUNG_E_CANCELED, "%s: canceled after %" PRIu64 " of %" PRIu64,
		                  stage, done, total);
	return 0;
}

/* the rest of what other rooms may use */
#include "graph/edge_lists.h"
#include "graph/graph_ids.h"
#include "graph/relabel.h"

#endif

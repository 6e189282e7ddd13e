/* SPDX-License-Identifier: Apache-2.0 */
/** Graphs that own their arrays. Private to rung; the header of graph/ for other folders. */
#ifndef RUNG_GRAPH_GRAPH_H
#define RUNG_GRAPH_GRAPH_H

#include <string.h>

#include "base/base.h"
#include "rung/graph.h"

struct rung_graph {
	struct rung_csc csc; /* points to the two arrays below */
	uint64_t *indptr;    /* [vertex_count + 1], freed with the graph */
	void *indices;       /* [edge_count] of csc.index_bytes, freed with the graph */
};

/** Number of vertices that the entries of lists may name. */
static inline uint64_t rung__csc_sources(const struct rung_csc *csc)
{
	return csc->source_count ? csc->source_count : csc->vertex_count;
}

/**
 * Create a graph from a struct whose arrays were allocated with rung__malloc(). The call takes them
 * over in any case: if it fails, they are freed.
 * @return 0, RUNG_E_NOMEM, or an error of rung_csc_check()
 */
int rung__graph_adopt(const struct rung_csc *csc, struct rung_graph **graph_out);

/**
 * rung_graph_load(), with the number of the edge at each position of the lists: its position in the
 * specs, one after the other. Not with `undirected` or `dedup`. Needs a second copy of the graph.
 * @param numbers_out  [edges] of rung_index_bytes() of their number; free it with rung__free()
 */
int rung__graph_load_numbered(const struct rung_graph_opts *opts, struct rung_graph **graph_out,
                              void **numbers_out);

/** Load the graph of edge lists: every spec is a SRC of [2,E] or [E,2]. graph_edges.c
 * @param numbers_out  not NULL: the numbers of edges instead of their sources, and graph_out is
 *                     NULL */
int rung__graph_from_edges(const struct rung_graph_opts *opts, struct rung_graph **graph_out,
                           void **numbers_out);

/** Check the options before a file is opened. graph_load.c */
int rung__graph_opts_check(const struct rung_graph_opts *opts);

/** The first spec. It shows the form of the graph, and messages call the graph by it. Without
 * specs, returns a text that rung__spec_is_csc() and rung__spec_is_csr() reject. */
static inline const char *rung__graph_first(const struct rung_graph_opts *opts)
{
	return opts->spec_count > 0 ? opts->specs[0] : "no edges";
}

#define RUNG__COLUMNS_PREFIX 4 /* bytes of "csc:" and "csr:" */

/** Whether the lists of a csc: or csr: are those of the sources, and have to be turned around. */
static inline bool rung__graph_by_row(const struct rung_graph_opts *opts)
{
	return (strncmp(rung__graph_first(opts), "csr:", RUNG__COLUMNS_PREFIX) == 0) !=
	       !!opts->reversed;
}

/** Number of lists of a csc: or csr: in the files, and the number of vertices that their entries
 * name; 0: not given. */
static inline uint64_t rung__graph_lists_wanted(const struct rung_graph_opts *opts)
{
	return opts->source_count && rung__graph_by_row(opts) ? opts->source_count
	                                                      : opts->vertex_count;
}

static inline uint64_t rung__graph_entries_limit(const struct rung_graph_opts *opts,
                                                 uint64_t list_count)
{
	if (!opts->source_count)
		return list_count;
	return rung__graph_by_row(opts) ? opts->vertex_count : opts->source_count;
}

/** What else than an entry of a list can be wrong if the entry is out of range. */
static inline const char *rung__graph_entries_cure(uint64_t source_count)
{
	return source_count ? "number of vertices of its type" : "length of indptr";
}

/** Whether a spec is a pair of sources "csc:SRC,SRC" or "csr:SRC,SRC". */
static inline bool rung__spec_is_csc(const char *spec)
{
	return strncmp(spec, "csc:", RUNG__COLUMNS_PREFIX) == 0;
}

static inline bool rung__spec_is_csr(const char *spec)
{
	return strncmp(spec, "csr:", RUNG__COLUMNS_PREFIX) == 0;
}

/** Load the lists of a csc: or csr: as the two files have them: those of csr: are the
 * out-neighbours. graph_csc.c */
int rung__graph_from_columns(const char *spec, const struct rung_graph_opts *opts,
                             struct rung_graph **graph_out);

/** Open the two sources of a csc: or csr:; the caller closes them. graph_csc.c */
int rung__columns_open(const char *spec, struct rung_source **indptr_out,
                       struct rung_source **indices_out);

/** Number of vertices, from the length of indptr. @param wanted 0, or the number that it must
 * equal.
 * @return 0, RUNG_E_FORMAT. graph_csc.c */
int rung__columns_count(const struct rung_source *indptr_src, uint64_t wanted,
                        uint64_t *vertex_count_out);

/** Append the reverse of every edge to the column of its source; a self loop is not doubled.
 * graph_turn.c */
int rung__graph_undirect(struct rung_graph *graph);

/** Convert lists of out-neighbours to lists of in-neighbours, in ascending order. With `undirected`
 * each new list is followed by the vertex's old list. graph_turn.c */
int rung__graph_flip(struct rung_graph *graph, bool undirected);

/** Sort every column by id and keep one of equal entries. graph_turn.c */
int rung__graph_dedup(struct rung_graph *graph);

/**
 * Transpose: the lists of out-neighbours, each in ascending order of the destination, by one stable
 * counting pass over the edges. The caller frees both arrays with rung__free(). graph_turn.c
 */
int rung__csc_turn(const struct rung_csc *csc, int threads, uint64_t **indptr_out,
                   void **indices_out);

/** Replace counts[0 .. count) by offsets: counts[i] becomes the sum of the counts before i. Returns
 * the total. */
uint64_t rung__offsets_of_counts(uint64_t *counts, uint64_t count);

/** Report the progress of a long function. @return 0, or RUNG_E_CANCELED if the caller wants it to
 * stop */
static inline int rung__progress(rung_progress_fn progress, void *ctx, const char *step,
                                 uint64_t done, uint64_t total)
{
	if (progress && progress(ctx, step, done, total))
		return rung__fail(RUNG_E_CANCELED, "%s: canceled after %" PRIu64 " of %" PRIu64,
		                  step, done, total);
	return progress ? 0 : rung__interrupt_poll(step);
}

/* the other parts of graph/ that files outside it may include */
#include "graph/edge_lists.h"
#include "graph/graph_ids.h"
#include "graph/relabel.h"

#endif

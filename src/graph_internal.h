/* SPDX-License-Identifier: Apache-2.0 */
/** Graphs that own their arrays. Private to the core and to staging. */
#ifndef RUNG_GRAPH_INTERNAL_H
#define RUNG_GRAPH_INTERNAL_H

#include "internal.h"
#include "rung/graph.h"

struct rung_graph {
	struct rung_csc csc;   /* its arrays are the two below */
	uint64_t *indptr;
	void *indices;
};

/**
 * Make a graph of arrays from rung__malloc() & co. They belong to the call from its first line on: when the check fails
 * (or there is no memory for the graph) they are freed, and the error of rung_csc_check() is returned.
 */
int rung__graph_adopt(uint64_t vertex_count, uint64_t edge_count, uint64_t *indptr, void *indices, unsigned index_bytes,
                      struct rung_graph **graph_out);

/** The graph of edge lists: every spec a SRC of [2,E] or [E,2]. graph_edges.c */
int rung__graph_from_edges(const struct rung_graph_opts *opts, struct rung_graph **graph_out);

/** The graph of a "csc:SRC,SRC" (`pair`: what follows "csc:"). graph_csc.c */
int rung__graph_from_csc(const char *pair, const struct rung_graph_opts *opts, struct rung_graph **graph_out);

/** Add the reverse of every edge behind the edges of its column; a self loop is not doubled. graph_turn.c */
int rung__graph_undirect(struct rung_graph *graph);

/** Keep one of equal entries in every column, which is then sorted by id. graph_turn.c */
int rung__graph_dedup(struct rung_graph *graph);

/**
 * The lists of out-neighbours, each in ascending order of the destination: one stable counting pass over the edges.
 * Both arrays are the caller's to free with rung__free(). graph_turn.c
 */
int rung__csc_turn(const struct rung_csc *csc, int threads, uint64_t **indptr_out, void **indices_out);

/** Sum up counts[0 .. count) in place to offsets: counts[i] becomes what lies before i. Returns the sum. */
uint64_t rung__offsets_of_counts(uint64_t *counts, uint64_t count);

/** Progress of a long function: nonzero when the caller wants it to stop, with the failure recorded. */
static inline int rung__progress(rung_progress_fn progress, void *ctx, const char *stage, uint64_t done, uint64_t total)
{
	if (progress && progress(ctx, stage, done, total))
		return rung__fail(RUNG_E_CANCELED, "%s: canceled after %" PRIu64 " of %" PRIu64, stage, done, total);
	return 0;
}

#endif

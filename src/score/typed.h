/* SPDX-License-Identifier: Apache-2.0 */
/** Scores of graphs with several types of vertices and relations between them. A graph of one type
 * is the case of one relation from the type to itself. Private to rung. */
#ifndef RUNG_TYPED_H
#define RUNG_TYPED_H

#include "rung/edges.h"
#include "rung/rank.h"

/** A relation, as scores use it. */
struct rung__typed_relation {
	uint32_t source_type, target_type;
	/** lists of the vertices of target_type, whose entries are vertices of source_type; all
	 * relations are in memory (csc), or all in files (edges) */
	const struct rung_csc *csc;
	struct rung_edges *edges;
	const uint32_t *fanouts; /**< [hop_count]; 0: the relation draws nothing at that hop */
};

struct rung__typed_graph {
	const uint64_t *type_counts; /**< [type_count] vertices of each type */
	uint32_t type_count;
	const struct rung__typed_relation *relations; /**< [relation_count] */
	uint32_t relation_count;
	uint32_t seed_type; /**< of the train ids, and of all seeds */
};

/** Results: -log(1 - P), with P the probability of an event in a batch. */
struct rung__typed_scores {
	float *const *types; /**< [type_count][vertices]: the batch has the vertex */
	/** [relation_count][vertices of target_type]: a hop of the batch reads the list of the
	 * vertex, which is not empty; the array, or an entry, may be NULL */
	float *const *lists;
	/** the same: a hop of the batch draws a given edge of the list of the vertex, whichever it
	 * is (rung__typed_edge_rows()). A relation with `edges` must have `lists` too */
	float *const *edges;
};

/**
 * Compute `expected` or `blend` of every vertex, list and edge.
 *
 * @param opts  method, train ids of seed_type (none: all of its vertices), hop_count, batch_size,
 *              draws, threads, seed, batches_max, progress, and for relations in files
 *              memory_bytes; `fanouts` is not used
 * @param report_out  may be NULL
 * @return 0, RUNG_E_INVAL (no relation, another method, a type out of range, numbers of lists that
 *         do not match, a train id that occurs twice), RUNG_E_RANGE (a train id), RUNG_E_NOMEM,
 *         RUNG_E_CANCELED, or the errors of reading
 *
 * Threads: one call per graph at a time; it uses OpenMP threads, whose number never changes the
 * result.
 */
int rung__score_typed(const struct rung__typed_graph *graph, const struct rung_score_opts *opts,
                      const struct rung__typed_scores *scores_out,
                      struct rung_score_report *report_out);

/**
 * Scores of the rows of edges: edge p belongs to the list of a vertex, whose edges all have the
 * same score.
 * @param indptr  [count + 1] offsets of `count` lists; row p of the result is edge indptr[0] + p
 * @param edges   [count] of struct rung__typed_scores, from the first of these lists on
 */
void rung__typed_edge_rows(const uint64_t *indptr, uint64_t count, const float *edges,
                           float *rows_out);

#endif

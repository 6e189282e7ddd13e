/* SPDX-License-Identifier: Apache-2.0 */
/** Helpers shared by the scoring methods. Private to score*.c. */
#ifndef RUNG_SCORE_STATE_H
#define RUNG_SCORE_STATE_H

#include "base/base.h"
#include "rung/rank.h"
#include "propagation/propagation.h"

/** A score being computed. */
struct rung__scoring {
	const struct rung_score_opts *opts; /* checked, the defaults filled in */
	const struct rung_csc *csc;         /* NULL: the graph is in files */
	struct rung_edges *edges;
	uint64_t vertex_count;
	int threads;
	uint64_t *is_train;   /* one bit per vertex; NULL: every vertex is a train vertex */
	uint64_t train_count; /* number of train vertices; vertex_count if none are given */
	float *score;         /* the caller's */
	struct rung_score_report *report;
};

static inline bool rung__is_train(const struct rung__scoring *scoring, uint64_t v)
{
	return !scoring->is_train || (scoring->is_train[v / 64] >> (v % 64) & 1);
}

/** Open edge passes for a score, over a graph in memory or in files. `opts` has the fields that the
 * method sets. score_passes.c */
int rung__scoring_propagation(const struct rung__scoring *scoring,
                              struct rung__propagation_opts *opts,
                              struct rung__propagation **prop_out);

/** degree, rpagerank, wrpagerank, ppr. score_pagerank.c */
int rung__score_degree(const struct rung__scoring *scoring);
int rung__score_pagerank(const struct rung__scoring *scoring);

/** expected, and the prediction that blend corrects: the same without o(v,u). score_expected.c */
int rung__score_expected(const struct rung__scoring *scoring);

/** presample, blend. score_blend.c */
int rung__score_presample(const struct rung__scoring *scoring);
int rung__score_blend(const struct rung__scoring *scoring);

#endif

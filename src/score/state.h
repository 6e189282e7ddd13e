/* SPDX-License-Identifier: Apache-2.0 */
/** Helpers shared by the scoring methods. Private to score*.c. */
#ifndef RUNG_SCORE_STATE_H
#define RUNG_SCORE_STATE_H

#include "base/base.h"
#include "edges/edges.h"
#include "rung/rank.h"
#include "propagation/propagation.h"
#include "score/typed.h"

/** A score being computed. */
struct rung__scoring {
	const struct rung_score_opts *opts;    /* checked, the defaults filled in */
	const struct rung__typed_graph *graph; /* checked; of an untyped graph `one` */
	struct rung__typed_relation relation;  /* of `one`; its fanouts are set with the options */
	struct rung__typed_graph one;
	const struct rung__typed_scores *scores; /* the caller's arrays */
	uint64_t vertex_count;                   /* of the type of the seeds */
	int threads;
	uint64_t *is_train;   /* one bit per vertex; NULL: every vertex is a train vertex */
	uint64_t train_count; /* number of train vertices; vertex_count if none are given */
	float *score;         /* of the type of the seeds */
	struct rung_score_report *report;
};

static inline bool rung__is_train(const struct rung__scoring *scoring, uint64_t v)
{
	return !scoring->is_train || (scoring->is_train[v / 64] >> (v % 64) & 1);
}

/** Open edge passes for a score, over a relation in memory or in files. `opts` has the fields that
 * the method sets. score_passes.c */
int rung__scoring_propagation(const struct rung__scoring *scoring,
                              const struct rung__typed_relation *relation,
                              struct rung__propagation_opts *opts,
                              struct rung__propagation **prop_out);

/** Read the edges of a relation once, as rung__edges_pass() does; those in memory are one chunk.
 * score_passes.c */
int rung__scoring_chunks(const struct rung__typed_relation *relation,
                         int (*work)(void *ctx, const struct rung__edge_chunk *chunk), void *ctx);

/** Number of edges of a relation. score_passes.c */
int rung__scoring_edge_count(const struct rung__typed_relation *relation, uint64_t *count_out);

/** degree, rpagerank, wrpagerank, ppr. score_pagerank.c */
int rung__score_degree(const struct rung__scoring *scoring);
int rung__score_pagerank(const struct rung__scoring *scoring);

/** expected, and the prediction that blend corrects: the same without o(v,u). score_expected.c */
int rung__score_expected(const struct rung__scoring *scoring);

/** Compute a score with checked `graph` and `scores`: the options of the caller are copied and
 * checked, and the train vertices marked. score.c */
int rung__scoring_compute(struct rung__scoring *scoring, const struct rung_score_opts *opts,
                          struct rung_score_report *report_out);

/** presample, blend. score_blend.c */
int rung__score_presample(const struct rung__scoring *scoring);
int rung__score_blend(const struct rung__scoring *scoring);

#endif

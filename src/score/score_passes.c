/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of the scores over edges in memory or in files. The method sets the fields of the options
 * that depend on it; the fields that depend on the call are set here. */

#include "score/state.h"

int rung__scoring_propagation(const struct rung__scoring *scoring,
                              struct rung__propagation_opts *opts,
                              struct rung__propagation **prop_out)
{
	opts->threads = scoring->threads;
	opts->progress = scoring->opts->progress;
	opts->progress_ctx = scoring->opts->progress_ctx;
	if (scoring->csc)
		return rung__propagation_of_csc(scoring->csc, opts, prop_out);
	/* the score array is part of the budget, although the caller has allocated it */
	opts->memory_bytes = scoring->opts->memory_bytes;
	opts->other_bytes += scoring->vertex_count * sizeof(*scoring->score);
	return rung__propagation_of_edges(scoring->edges, opts, prop_out);
}

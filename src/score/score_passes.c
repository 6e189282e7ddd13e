/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of the scores over edges in memory or in files. */

#include "score/score_internal.h"

int rung__scoring_spread(const struct rung__scoring *scoring, struct rung__spread_opts *opts,
                         struct rung__spread **spread_out)
{
	opts->threads = scoring->threads;
	opts->progress = scoring->opts->progress;
	opts->progress_ctx = scoring->opts->progress_ctx;
	if (scoring->csc)
		return rung__spread_of_csc(scoring->csc, opts, spread_out);
	opts->memory_bytes = scoring->opts->memory_bytes;
	opts->other_bytes += scoring->vertex_count * sizeof(*scoring->score);
	return rung__spread_of_edges(scoring->edges, opts, spread_out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of the scores over edges in memory or in files. The method sets the fields of the options
 * that depend on it; the fields that depend on the call are set here. */

#include "graph/graph.h"
#include "score/state.h"

int rung__scoring_propagation(const struct rung__scoring *scoring,
                              const struct rung__typed_relation *relation,
                              struct rung__propagation_opts *opts,
                              struct rung__propagation **prop_out)
{
	opts->threads = scoring->threads;
	if (!opts->progress) {
		opts->progress = scoring->opts->progress;
		opts->progress_ctx = scoring->opts->progress_ctx;
	}
	if (relation->csc)
		return rung__propagation_of_csc(relation->csc, opts, prop_out);
	/* the score arrays are part of the budget, although the caller has allocated them */
	opts->memory_bytes = scoring->opts->memory_bytes;
	for (uint32_t i = 0; i < scoring->graph->type_count; i++)
		opts->other_bytes += scoring->graph->type_counts[i] * sizeof(*scoring->score);
	return rung__propagation_of_edges(relation->edges, opts, prop_out);
}

int rung__scoring_chunks(const struct rung__typed_relation *relation,
                         int (*work)(void *ctx, const struct rung__edge_chunk *chunk), void *ctx)
{
	const struct rung_csc *csc = relation->csc;
	struct rung__edge_chunk all;

	if (!csc)
		return rung__edges_pass(relation->edges, work, ctx);
	all = (struct rung__edge_chunk){
		.vertex_count = csc->vertex_count,
		.indptr = csc->indptr,
		.edge_count = csc->edge_count,
		.indices = csc->indices,
		.index_bytes = csc->index_bytes,
	};
	return csc->vertex_count ? work(ctx, &all) : 0;
}

int rung__scoring_edge_count(const struct rung__typed_relation *relation, uint64_t *count_out)
{
	struct rung_edges_info info = { .size = sizeof(info) };
	int rc = 0;

	if (relation->edges)
		rc = rung_edges_info(relation->edges, &info);
	*count_out = relation->edges ? info.edge_count : relation->csc->edge_count;
	return rc;
}

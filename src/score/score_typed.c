/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of typed graphs: check the types and relations, and compute the score as for an untyped
 * graph, which is the case of one type and one relation. */
#include "graph/graph.h"
#include "score/state.h"

static int check_counts(const struct rung__typed_graph *graph, uint32_t r)
{
	const struct rung__typed_relation *relation = &graph->relations[r];
	const uint64_t sources = graph->type_counts[relation->source_type],
		       targets = graph->type_counts[relation->target_type];
	struct rung_edges_info info = { .size = sizeof(info) };
	uint64_t list_count, entry_count = 0;
	int rc = 0;

	if (relation->edges)
		rc = rung_edges_info(relation->edges, &info);
	if (rc < 0)
		return rc;
	list_count = info.vertex_count;
	if (relation->edges)
		entry_count = info.source_count ? info.source_count : info.vertex_count;
	if (relation->csc) {
		const struct rung_csc *csc = relation->csc;

		list_count = csc->vertex_count;
		entry_count = csc->source_count ? csc->source_count : csc->vertex_count;
	}
	if (list_count == targets && entry_count == sources)
		return 0;
	return rung__fail(RUNG_E_INVAL,
	                  "relation %" PRIu32 ": %" PRIu64 " lists of %" PRIu64
	                  " vertices; its types have %" PRIu64 " and %" PRIu64,
	                  r, list_count, entry_count, targets, sources);
}

static int check_relation(const struct rung__typed_graph *graph, uint32_t r)
{
	const struct rung__typed_relation *relation = &graph->relations[r];

	if (relation->source_type >= graph->type_count ||
	    relation->target_type >= graph->type_count)
		return rung__fail(RUNG_E_INVAL,
		                  "relation %" PRIu32 ": from type %" PRIu32 " to type %" PRIu32
		                  "; there are %" PRIu32 " types",
		                  r, relation->source_type, relation->target_type,
		                  graph->type_count);
	if (!relation->csc == !relation->edges || !relation->csc != !graph->relations->csc)
		return rung__fail(RUNG_E_INVAL,
		                  "relation %" PRIu32
		                  ": give the lists of all relations in memory, "
		                  "or of all in files",
		                  r);
	if (!relation->fanouts)
		return rung__fail(RUNG_E_INVAL,
		                  "relation %" PRIu32 ": no fanouts; give one per hop", r);
	return check_counts(graph, r);
}

static int check_graph(const struct rung__typed_graph *graph)
{
	int rc = 0;

	if (graph->type_count == 0 || graph->relation_count == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "score: %" PRIu32 " types and %" PRIu32
		                  " relations; give at least one of each",
		                  graph->type_count, graph->relation_count);
	if (graph->seed_type >= graph->type_count)
		return rung__fail(RUNG_E_INVAL,
		                  "score: seeds of type %" PRIu32 "; there are %" PRIu32 " types",
		                  graph->seed_type, graph->type_count);
	for (uint32_t r = 0; rc == 0 && r < graph->relation_count; r++)
		rc = check_relation(graph, r);
	return rc;
}

int rung__score_typed(const struct rung__typed_graph *graph, const struct rung_score_opts *opts,
                      const struct rung__typed_scores *scores_out,
                      struct rung_score_report *report_out)
{
	struct rung__scoring scoring = { .graph = graph, .scores = scores_out };
	int rc = check_graph(graph);

	for (uint32_t r = 0; rc == 0 && scores_out->edges && r < graph->relation_count; r++) {
		if (scores_out->edges[r] && !(scores_out->lists && scores_out->lists[r]))
			rc = rung__fail(RUNG_E_INVAL,
			                "relation %" PRIu32
			                ": scores of edges without those of lists; give both",
			                r);
	}
	if (rc < 0)
		return rc;
	if (opts->method != RUNG_SCORE_DEFAULT && opts->method != RUNG_SCORE_EXPECTED &&
	    opts->method != RUNG_SCORE_BLEND)
		return rung__fail(
			RUNG_E_INVAL, "score %s: not for several types; use expected or blend",
			rung_score_method_name(opts->method) ? rung_score_method_name(opts->method)
							     : "?");
	scoring.vertex_count = graph->type_counts[graph->seed_type];
	scoring.score = scores_out->types[graph->seed_type];
	return rung__scoring_compute(&scoring, opts, report_out);
}

void rung__typed_edge_rows(const uint64_t *indptr, uint64_t count, const float *edges,
                           float *rows_out)
{
	for (uint64_t v = 0; v < count; v++) {
		for (uint64_t p = indptr[v]; p < indptr[v + 1]; p++)
			rows_out[p - indptr[0]] = edges[v];
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays and edge passes of `expected`, for all types and relations. */
#include <float.h>

#include "graph/graph.h"
#include "score/expected.h"

/* Allocate the arrays. After a failure the caller frees those that exist. */
static int alloc_arrays(struct expected *ex)
{
	const struct rung__typed_graph *graph = ex->scoring->graph;
	const uint32_t hops = ex->scoring->opts->hop_count;
	uint64_t total = 0;
	bool complete = true;

	for (uint32_t i = 0; i < graph->type_count; i++) {
		struct expected_type *type = &ex->types[i];
		/* no overflow: indptr has more bytes */
		const uint64_t bytes = type->count * sizeof(float);

		total += type->count;
		type->sums = rung__map_pages(type->count * sizeof(*type->sums));
		type->signatures = ex->signs ? rung__map_pages(bytes) : NULL;
		complete = complete && type->sums && (!ex->signs || type->signatures);
		for (uint32_t t = 0; t < hops; t++) {
			type->present[t] = rung__map_pages(bytes);
			complete = complete && type->present[t];
		}
	}
	for (uint32_t i = 0; i < graph->relation_count; i++) {
		struct expected_relation *rel = &ex->relations[i];

		rel->in_degree = rung__map_pages(rel->target->count * sizeof(float));
		complete = complete && rel->in_degree;
	}
	if (complete)
		return 0;
	return rung__fail(RUNG_E_NOMEM,
	                  "score expected: no memory for %" PRIu64 " vertices and %" PRIu32 " hops",
	                  total, hops);
}

static void free_arrays(struct expected *ex)
{
	const struct rung__typed_graph *graph = ex->scoring->graph;

	for (uint32_t i = 0; ex->types && i < graph->type_count; i++) {
		struct expected_type *type = &ex->types[i];

		for (uint32_t t = 0; t < ex->scoring->opts->hop_count; t++)
			rung__unmap_pages(type->present[t], type->count * sizeof(float));
		rung__unmap_pages(type->signatures, type->count * sizeof(float));
		rung__unmap_pages(type->sums, type->count * sizeof(*type->sums));
	}
	for (uint32_t i = 0; ex->relations && ex->types && i < graph->relation_count; i++)
		rung__unmap_pages(ex->relations[i].in_degree,
		                  ex->relations[i].target->count * sizeof(float));
	rung__free(ex->types);
	rung__free(ex->relations);
}

int rung__expected_create(struct expected *ex)
{
	const struct rung__scoring *scoring = ex->scoring;
	const struct rung__typed_graph *graph = scoring->graph;
	uint64_t base = 0;

	ex->types = rung__zalloc_array(graph->type_count, sizeof(*ex->types));
	ex->relations = rung__zalloc_array(graph->relation_count, sizeof(*ex->relations));
	if (!ex->types || !ex->relations)
		return rung__fail(RUNG_E_NOMEM, "score expected: no memory for the types");
	for (uint32_t i = 0; i < graph->type_count; i++) {
		ex->types[i] = (struct expected_type){ .count = graph->type_counts[i],
			                               .base = base,
			                               .of_seeds = i == graph->seed_type,
			                               .score = scoring->scores->types[i] };
		base += graph->type_counts[i];
	}
	for (uint32_t i = 0; i < graph->relation_count; i++) {
		struct expected_relation *rel = &ex->relations[i];
		const struct rung__typed_relation *relation = &graph->relations[i];

		rel->ex = ex;
		rel->relation = relation;
		rel->source = &ex->types[relation->source_type];
		rel->target = &ex->types[relation->target_type];
		for (uint32_t t = 0; t < scoring->opts->hop_count; t++)
			rel->fanouts[t] = relation->fanouts[t] == UINT32_MAX
			                          ? FLT_MAX
			                          : (float)relation->fanouts[t];
	}
	return alloc_arrays(ex);
}

/* Report the progress of a pass over one of several relations in edges of all of them. */
static int report_relation(void *ctx, const char *step, unsigned long long done,
                           unsigned long long total)
{
	const struct expected_relation *rel = ctx;
	const struct expected *ex = rel->ex;
	const struct rung_score_opts *opts = ex->scoring->opts;
	double of_hop;

	if (strcmp(step, "score") != 0 || total == 0)
		return opts->progress(opts->progress_ctx, step, done, total);
	of_hop = (double)done / (double)total * opts->hop_count - ex->hop;
	return opts->progress(opts->progress_ctx, step,
	                      ex->edges_done + (uint64_t)(of_hop * (double)rel->edge_count),
	                      opts->hop_count * ex->edge_count);
}

/* Bytes of all arrays that the caller of the passes has, without the scores. */
static uint64_t array_bytes(const struct expected *ex)
{
	const struct rung__typed_graph *graph = ex->scoring->graph;
	const uint64_t each =
		(ex->scoring->opts->hop_count + UINT64_C(0) + ex->signs) * sizeof(float) +
		sizeof(double);
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < graph->type_count; i++)
		bytes += graph->type_counts[i] * each;
	for (uint32_t i = 0; i < graph->relation_count; i++)
		bytes += ex->relations[i].target->count * sizeof(float);
	return bytes;
}

/* Whether the relation draws at any hop, and has edges. A relation of a type to itself always has a
 * pass. */
static bool draws(const struct expected_relation *rel)
{
	const struct rung__typed_relation *relation = rel->relation;
	bool any = false;

	for (uint32_t t = 0; t < rel->ex->scoring->opts->hop_count; t++)
		any = any || relation->fanouts[t] > 0;
	return any && (rel->edge_count > 0 || rel->source == rel->target);
}

static int open_pass(struct expected *ex, struct expected_relation *rel)
{
	const struct rung__scoring *scoring = ex->scoring;
	const uint32_t hops = scoring->opts->hop_count;
	const bool alone = scoring->graph->relation_count == 1;
	struct rung__propagation_opts opts = {
		.drop_loops = rel->source == rel->target,
		.width_max = hops > 1 ? hops + 1 + ex->signs : 0,
		.source_count = rel->source == rel->target ? 0 : rel->source->count,
		.sums = rel->source->sums,
		.pass_total = hops,
		.other_bytes = array_bytes(ex),
		.progress = !alone && scoring->opts->progress ? report_relation : NULL,
		.progress_ctx = rel,
	};
	int rc = rung__scoring_edge_count(rel->relation, &rel->edge_count);

	if (rc < 0 || !draws(rel))
		return rc;
	rc = rung__scoring_propagation(scoring, rel->relation, &opts, &rel->prop);
	if (rc < 0)
		return rc;
	ex->edge_count += rel->edge_count;
	/* the passes of relations run one after the other, in the same memory */
	if (!alone)
		rung__propagation_rest(rel->prop);
	return 0;
}

int rung__expected_open(struct expected *ex)
{
	struct expected_relation *largest = NULL;
	uint64_t least = 0;

	for (uint32_t i = 0; i < ex->scoring->graph->relation_count; i++) {
		const int rc = open_pass(ex, &ex->relations[i]);

		if (rc == 0)
			continue;
		if (rung_last_error_min_bytes() == 0)
			return rc;
		/* the budget is too small; the message names the least for all relations */
		if (rung_last_error_min_bytes() > least)
			largest = &ex->relations[i];
		least = RUNG__MAX(least, rung_last_error_min_bytes());
	}
	return largest ? open_pass(ex, largest) : 0;
}

void rung__expected_close(struct expected *ex)
{
	for (uint32_t i = 0; ex->relations && i < ex->scoring->graph->relation_count; i++)
		rung__propagation_close(ex->relations[i].prop);
	free_arrays(ex);
}

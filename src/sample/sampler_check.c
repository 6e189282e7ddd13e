/* SPDX-License-Identifier: Apache-2.0 */
/* Checking the options of a sampler. */
#include "sample/sample.h"

static int check_untyped(const struct rung_csc *csc, const struct rung_sampler_opts *opts)
{
	if (!csc == !opts->structure)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: %s; pass either a graph in memory or opts.structure",
		                  csc ? "two graphs were given" : "no graph was given");
	if (csc && csc->index_bytes != 4 && csc->index_bytes != 8)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: index_bytes is %u; use 4 (uint32_t) or 8 (uint64_t)",
		                  csc->index_bytes);
	csc = csc ? csc : &opts->structure->lists.csc;
	if (csc->source_count && csc->source_count != csc->vertex_count)
		return rung__fail(
			RUNG_E_INVAL,
			"sampler: the entries are vertices of another type, which has %" PRIu64
			"; give the whole dataset, or pass the lists in opts.relations",
			csc->source_count);
	if (opts->type_counts || opts->type_count || opts->relation_count || opts->seed_type)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: %" PRIu32 " types and %" PRIu32
		                  " relations without opts.relations; pass it, or neither",
		                  opts->type_count, opts->relation_count);
	if (!opts->fanouts)
		return rung__fail(RUNG_E_INVAL, "sampler: no fanouts; pass one for each hop");
	for (uint32_t hop = 0; hop < opts->hop_count; hop++) {
		if (opts->fanouts[hop] == 0)
			return rung__fail(RUNG_E_INVAL,
			                  "sampler: the fanout of hop %" PRIu32
			                  " is 0; use at least 1, or omit the hop",
			                  hop);
	}
	return 0;
}

/* The types and the options that apply to all relations. */
static int check_types(const struct rung_csc *csc, const struct rung_sampler_opts *opts)
{
	if (csc || opts->structure || opts->fanouts)
		return rung__fail(
			RUNG_E_INVAL,
			"sampler: relations and %s were given; pass those of each relation "
			"in opts.relations only",
			opts->fanouts ? "fanouts" : "a graph");
	if (opts->type_count == 0 || !opts->type_counts)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: %" PRIu32
		                  " types; pass the vertex count of at least one type",
		                  opts->type_counts ? opts->type_count : 0);
	if (opts->relation_count == 0)
		return rung__fail(RUNG_E_INVAL, "sampler: 0 relations; pass at least one");
	if (opts->seed_type >= opts->type_count)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: seed_type is %" PRIu32
		                  "; it must be below the number of types, %" PRIu32,
		                  opts->seed_type, opts->type_count);
	return 0;
}

/* A relation has one graph, between types that exist. @param i  its number, for messages */
static int check_relation(const struct rung_sampler_opts *opts, uint32_t i)
{
	const struct rung_sampler_relation *relation = &opts->relations[i];
	const uint32_t type = RUNG__MAX(relation->source_type, relation->target_type);

	if (type >= opts->type_count)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: relation %" PRIu32 ": %s is %" PRIu32
		                  "; it must be below the number of types, %" PRIu32,
		                  i, type == relation->source_type ? "source_type" : "target_type",
		                  type, opts->type_count);
	if (!relation->csc == !relation->structure)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: relation %" PRIu32
		                  ": %s; pass either a graph in memory or a structure",
		                  i,
		                  relation->csc ? "two graphs were given" : "no graph was given");
	if (!relation->fanouts)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: relation %" PRIu32
		                  ": no fanouts; pass one for each hop, 0 to draw nothing",
		                  i);
	return 0;
}

/* The lists of a relation have the vertices of its types. */
static int check_lists(const struct rung_sampler_opts *opts, uint32_t i)
{
	const struct rung_sampler_relation *relation = &opts->relations[i];
	const struct rung_csc *csc =
		relation->csc ? relation->csc : &relation->structure->lists.csc;
	const uint64_t targets = opts->type_counts[relation->target_type],
		       sources = opts->type_counts[relation->source_type],
		       found = csc->source_count ? csc->source_count : csc->vertex_count;

	if (csc->index_bytes != 4 && csc->index_bytes != 8)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: relation %" PRIu32
		                  ": index_bytes is %u; use 4 (uint32_t) or 8 (uint64_t)",
		                  i, csc->index_bytes);
	if (csc->vertex_count != targets)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: relation %" PRIu32 ": the graph has %" PRIu64
		                  " lists, but type %" PRIu32 " has %" PRIu64
		                  " vertices; pass one list for each",
		                  i, csc->vertex_count, relation->target_type, targets);
	if (found != sources)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: relation %" PRIu32 ": the graph has %" PRIu64
		                  " sources, but type %" PRIu32 " has %" PRIu64
		                  " vertices; correct source_count",
		                  i, found, relation->source_type, sources);
	/* ids of 4 bytes are compared by their low halves only */
	if (csc->index_bytes == 4 && sources > UINT64_C(1) << 32)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: relation %" PRIu32
		                  ": index_bytes is 4, but type %" PRIu32 " has %" PRIu64
		                  " vertices; use 8",
		                  i, relation->source_type, sources);
	return 0;
}

static int check_typed(const struct rung_csc *csc, const struct rung_sampler_opts *opts)
{
	bool draws = false;
	int rc = check_types(csc, opts);

	for (uint32_t i = 0; i < opts->relation_count && rc == 0; i++) {
		rc = check_relation(opts, i);
		if (rc == 0)
			rc = check_lists(opts, i);
		for (uint32_t hop = 0; rc == 0 && hop < opts->hop_count; hop++)
			draws = draws || opts->relations[i].fanouts[hop] > 0;
	}
	if (rc == 0 && !draws)
		rc = rung__fail(RUNG_E_INVAL,
		                "sampler: the fanouts of all %" PRIu32
		                " relations are 0; at least one must be larger",
		                opts->relation_count);
	return rc;
}

int rung__sampler_check(const struct rung_csc *csc, const struct rung_sampler_opts *opts)
{
	if (opts->hop_count < 1 || opts->hop_count > RUNG_HOPS_MAX)
		return rung__fail(RUNG_E_INVAL, "sampler: %" PRIu32 " hops; use 1 to %d",
		                  opts->hop_count, RUNG_HOPS_MAX);
	if (opts->draws != RUNG_DRAWS_ALL && opts->draws != RUNG_DRAWS_NEW)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: draws is %d; use RUNG_DRAWS_ALL or RUNG_DRAWS_NEW",
		                  (int)opts->draws);
	return opts->relations ? check_typed(csc, opts) : check_untyped(csc, opts);
}

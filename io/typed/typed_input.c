/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a typed graph: checks, names, counts, and the settings that all parts share. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "dataset/dataset.h"
#include "typed/state.h"

static int fail_option(const char *option)
{
	return rung__fail(RUNG_E_INVAL,
	                  "staging: %s cannot be given for a typed graph; give it for a type or a "
	                  "relation, or omit it",
	                  option);
}

/* Options that describe the only type of an untyped graph, or that parts do not have. */
static int check_options(const struct rung_stage_opts *opts)
{
	const enum rung_score_method method = opts->score.method;

	if (opts->graph.spec_count > 0 || opts->graph.undirected || opts->graph.dedup)
		return fail_option("a graph");
	if (opts->features || opts->labels || opts->split_count > 0 || opts->array_count > 0)
		return fail_option("features, labels, a split or an array of no type");
	if (opts->vertex_type || opts->relation)
		return fail_option("the name of the only type or relation");
	if (opts->quantize != RUNG_QUANT_NONE)
		return fail_option("quantize");
	if (opts->score_spec)
		return fail_option("a score");
	if (opts->part_count > 0 || opts->stripe_count > 0)
		return fail_option("a part or a stripe");
	if (method != RUNG_SCORE_DEFAULT && method != RUNG_SCORE_BLEND &&
	    method != RUNG_SCORE_EXPECTED)
		return rung__fail(
			RUNG_E_INVAL,
			"staging: score %s is not defined for a typed graph; use blend or "
			"expected",
			rung_score_method_name(method) ? rung_score_method_name(method)
						       : "of this number");
	if (opts->type_count > RUNG__TYPES_MAX || opts->relation_count > RUNG__RELATIONS_MAX)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: %zu types and %zu relations; give at most %u and %u",
		                  opts->type_count, opts->relation_count, RUNG__TYPES_MAX,
		                  RUNG__RELATIONS_MAX);
	if (opts->relation_count == 0)
		return rung__fail(RUNG_E_INVAL, "staging: types without a relation; give the edges "
		                                "between them, or stage each type as a dataset");
	return 0;
}

/* Copy a name; it becomes part of the name of a folder. */
static int copy_name(const char *what, size_t idx, const char *given, char *name)
{
	if (!given || !rung__split_name_ok(given))
		return rung__fail(RUNG_E_INVAL,
		                  "staging: %s %zu: '%s' is not a valid name; use 1 to %u letters, "
		                  "digits, '_' and '-'",
		                  what, idx, given ? given : "", RUNG__SPLIT_NAME_BYTES - 1);
	strcpy(name, given);
	return 0;
}

/* The number of vertices of a type: the given one, or that of the rows. */
static int count_vertices(const struct rung_stage_type *type, uint64_t *count_out)
{
	struct rung_source *src = NULL;
	uint64_t rows = type->vertex_count;
	int rc = type->features ? rung_source_open(type->features, &src) : 0;

	if (rc < 0)
		return rc;
	if (src)
		rows = rung_source_info(src)->row_count;
	rung_source_close(src);
	if (type->vertex_count && rows != type->vertex_count)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: has %" PRIu64 " rows for %" PRIu64
		                  " vertices of type %s; give one for each vertex",
		                  type->features, rows, type->vertex_count, type->name);
	if (rows == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "%s%s has no vertices; give their number, or features",
		                  type->features ? "" : "type ",
		                  type->features ? type->features : type->name);
	*count_out = rows;
	return 0;
}

static int fill_types(struct rung__typed *typed)
{
	const struct rung_stage_opts *opts = &typed->stage.opts;
	struct rung__types *types = typed->stage.manifest->types;
	int rc = 0;

	for (size_t i = 0; i < opts->type_count; i++) {
		rc = copy_name("type", i, opts->types[i].name, types->types[i].name);
		if (rc == 0)
			rc = rung__stage_fail_input(
				count_vertices(&opts->types[i], &types->types[i].vertex_count),
				opts->types[i].features ? "features" : "vertices", NULL,
				opts->types[i].name);
		if (rc < 0)
			return rc;
		for (size_t j = 0; j < i; j++) {
			if (strcmp(types->types[j].name, types->types[i].name) == 0)
				return rung__fail(RUNG_E_INVAL,
				                  "staging: type %s is given twice; give each name "
				                  "once",
				                  types->types[i].name);
		}
		types->types[i].has_features = opts->types[i].features != NULL;
		typed->stage.manifest->vertex_count += types->types[i].vertex_count;
	}
	types->type_count = (uint32_t)opts->type_count;
	return 0;
}

static int find_type(const struct rung__types *types, const struct rung_stage_relation *relation,
                     const char *name, uint32_t *type_out)
{
	for (uint32_t i = 0; name && i < types->type_count; i++) {
		if (strcmp(types->types[i].name, name) == 0) {
			*type_out = i;
			return 0;
		}
	}
	return rung__fail(RUNG_E_INVAL,
	                  "staging: relation %s connects '%s', which is not the name of a type; "
	                  "give the type, or correct the name",
	                  relation->name, name ? name : "");
}

/* The fanouts of a relation, with those of the options as the default. */
static int fill_fanouts(const struct rung__manifest *m, const struct rung_stage_opts *opts,
                        uint32_t idx)
{
	const uint32_t *fanouts = opts->relations[idx].fanouts;

	if (fanouts && opts->fanout_count == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: relation %s has fanouts, but the number of hops is not "
		                  "given; give fanouts for all relations as well",
		                  opts->relations[idx].name);
	memcpy(m->types->relations[idx].fanouts, fanouts ? fanouts : m->fanouts,
	       m->fanout_count * sizeof(*fanouts));
	return 0;
}

/* Whether a relation has edge rows. An array without rows, of a relation without edges, is none:
 * a part has at least one row. */
static int find_rows(struct rung__typed *typed, uint32_t idx)
{
	const struct rung_stage_relation *relation = &typed->stage.opts.relations[idx];
	struct rung_source *src = NULL;
	int rc = relation->rows ? rung_source_open(relation->rows, &src) : 0;

	typed->has_rows[idx] = src && rung_source_info(src)->row_count > 0;
	rung_source_close(src);
	return rung__stage_fail_input(rc, "edge rows", NULL, relation->name);
}

static int fill_relation(struct rung__typed *typed, uint32_t idx)
{
	const struct rung_stage_opts *opts = &typed->stage.opts;
	const struct rung_stage_relation *relation = &opts->relations[idx];
	struct rung__types *types = typed->stage.manifest->types;
	int rc = copy_name("relation", idx, relation->name, types->relations[idx].name);

	if (rc == 0)
		rc = find_type(types, relation, relation->source,
		               &types->relations[idx].source_type);
	if (rc == 0)
		rc = find_type(types, relation, relation->target,
		               &types->relations[idx].target_type);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < idx; i++) {
		if (strcmp(types->relations[i].name, relation->name) == 0 &&
		    types->relations[i].source_type == types->relations[idx].source_type &&
		    types->relations[i].target_type == types->relations[idx].target_type)
			return rung__fail(RUNG_E_INVAL,
			                  "staging: relation %s from %s to %s is given twice; give "
			                  "each once",
			                  relation->name, relation->source, relation->target);
	}
	if (relation->undirected &&
	    types->relations[idx].source_type != types->relations[idx].target_type)
		return rung__fail(
			RUNG_E_INVAL,
			"staging: relation %s cannot be undirected, because it connects %s "
			"and %s; give the reverse edges as another relation",
			relation->name, relation->source, relation->target);
	if (relation->spec_count == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: relation %s has no edges; give their "
		                  "files",
		                  relation->name);
	if (relation->rows && relation->dedup)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: relation %s has edge rows, so equal edges cannot be "
		                  "merged; omit dedup",
		                  relation->name);
	if (relation->rows && relation->undirected)
		return rung__fail(
			RUNG_E_INVAL,
			"staging: relation %s has edge rows, which its reverse edges lack; "
			"give files with both directions and a row for each edge, or "
			"omit undirected",
			relation->name);
	rc = find_rows(typed, idx);
	return rc < 0 ? rc : fill_fanouts(typed->stage.manifest, opts, idx);
}

/* The type of the seeds: the given one, or the first with train vertices. */
static int find_seeds(struct rung__typed *typed)
{
	const struct rung_stage_opts *opts = &typed->stage.opts;
	struct rung__types *types = typed->stage.manifest->types;
	bool found = false;

	for (uint32_t i = 0; i < opts->type_count && !found; i++) {
		const struct rung_stage_type *type = &opts->types[i];

		if (opts->seed_type)
			found = strcmp(type->name, opts->seed_type) == 0;
		for (size_t j = 0; !opts->seed_type && j < type->split_count && !found; j++)
			found = type->splits[j].name && strcmp(type->splits[j].name, "train") == 0;
		types->seed_type = found ? i : 0;
	}
	if (opts->seed_type && !found)
		return rung__fail(
			RUNG_E_INVAL,
			"staging: the seeds are of type '%s', which is not given; correct "
			"the name",
			opts->seed_type);
	return 0;
}

/* The settings that trainers use, with their defaults, as for an untyped graph. */
static int fill_settings(struct rung__stage *stage)
{
	static const uint32_t fanouts[] = { 25, 10 };
	const struct rung_stage_opts *opts = &stage->opts;
	struct rung__manifest *m = stage->manifest;

	if (opts->fanout_count > RUNG_HOPS_MAX)
		return rung__fail(RUNG_E_INVAL, "staging: %u fanouts; give at most %d",
		                  opts->fanout_count, RUNG_HOPS_MAX);
	m->fanout_count = opts->fanout_count ? opts->fanout_count : RUNG__ARRAY_LEN(fanouts);
	memcpy(m->fanouts, opts->fanout_count ? opts->fanouts : fanouts,
	       m->fanout_count * sizeof(m->fanouts[0]));
	for (uint32_t i = 0; i < m->fanout_count; i++) {
		if (m->fanouts[i] == 0)
			return rung__fail(RUNG_E_INVAL,
			                  "staging: fanout %u is 0; give the number of neighbours "
			                  "to draw at each hop, as in 25,10",
			                  i);
	}
	m->batch_size = opts->batch_size ? opts->batch_size : 1024;
	m->draws = opts->score.draws;
	stage->method =
		opts->score.method == RUNG_SCORE_EXPECTED ? RUNG_SCORE_EXPECTED : RUNG_SCORE_BLEND;
	strcpy(m->score_method, rung_score_method_name(stage->method));
	m->score_sampled = stage->method == RUNG_SCORE_BLEND;
	m->score_seed = m->score_sampled ? opts->score.seed : 0;
	if (m->draws != RUNG_DRAWS_ALL && m->draws != RUNG_DRAWS_NEW)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: draws %d is not a valid value; use RUNG_DRAWS_ALL or "
		                  "RUNG_DRAWS_NEW",
		                  (int)m->draws);
	if (m->score_seed > INT64_MAX) /* the largest integer of the manifest */
		return rung__fail(RUNG_E_INVAL,
		                  "staging: score seed %" PRIu64
		                  " is out of range; use a seed below 2^63",
		                  m->score_seed);
	return 0;
}

int rung__typed_check(struct rung__typed *typed)
{
	struct rung__stage *stage = &typed->stage;
	struct rung__manifest *m = stage->manifest;
	int rc = check_options(&stage->opts);

	m->types = rung__zalloc(sizeof(*m->types));
	if (rc == 0 && !m->types)
		rc = rung__fail(RUNG_E_NOMEM, "staging: no memory for the types");
	m->no_features = m->no_maps = m->no_graph = true;
	snprintf(m->producer, sizeof(m->producer), "rung %s (%s)", rung_version(), rung_commit());
	if (rc < 0 || (rc = fill_settings(stage)) < 0 || (rc = fill_types(typed)) < 0 ||
	    (rc = find_seeds(typed)) < 0)
		return rc;
	for (uint32_t i = 0; i < stage->opts.relation_count && rc == 0; i++)
		rc = fill_relation(typed, i);
	m->types->relation_count = (uint32_t)stage->opts.relation_count;
	rung__types_name_folders(m->types, typed->has_rows);
	return rc;
}

int rung__typed_read_train(struct rung__typed *typed)
{
	const struct rung__types *types = typed->stage.manifest->types;
	const struct rung_stage_type *type = &typed->stage.opts.types[types->seed_type];
	struct rung_source *src;
	int rc = 0;

	for (size_t i = 0; i < type->split_count && rc == 0; i++) {
		if (!type->splits[i].name || !type->splits[i].spec ||
		    strcmp(type->splits[i].name, "train") != 0)
			continue;
		rc = rung_source_open(type->splits[i].spec, &src);
		if (rc < 0)
			return rc;
		rung__free(typed->train);
		rc = rung_source_read_vertices(src, types->types[types->seed_type].vertex_count, 1,
		                               &typed->train_count, &typed->train);
		rung_source_close(src);
		if (rc == 0 && typed->train_count == 0)
			rc = rung__fail(RUNG_E_FORMAT,
			                "%s: has no train vertex; omit the split 'train' to count "
			                "all vertices",
			                type->splits[i].spec);
	}
	return rc;
}

struct rung_graph_opts rung__typed_graph_opts(const struct rung__typed *typed, uint32_t relation)
{
	const struct rung_stage_relation *given = &typed->stage.opts.relations[relation];
	const struct rung__types *types = typed->stage.manifest->types;
	struct rung_graph_opts opts = RUNG_GRAPH_OPTS_INIT;

	opts.specs = given->specs;
	opts.spec_count = given->spec_count;
	opts.undirected = given->undirected;
	opts.dedup = given->dedup;
	opts.reversed = given->reversed;
	opts.vertex_count = types->types[types->relations[relation].target_type].vertex_count;
	/* within a type the graph is an ordinary one, which can be undirected */
	if (types->relations[relation].source_type != types->relations[relation].target_type)
		opts.source_count =
			types->types[types->relations[relation].source_type].vertex_count;
	return opts;
}

bool rung__typed_part(const struct rung__typed *typed, uint32_t number,
                      struct rung__typed_part *part_out)
{
	const struct rung__types *types = typed->stage.manifest->types;
	uint32_t idx = number, relation = 0;

	*part_out = (struct rung__typed_part){ .folder = rung__dataset_part(types, number, NULL) };
	if (!part_out->folder)
		return false;
	part_out->kind = RUNG__TYPED_ROWS;
	if (idx >= types->type_count) {
		idx -= types->type_count;
		part_out->kind = RUNG__TYPED_LISTS;
	}
	if (part_out->kind == RUNG__TYPED_LISTS && idx >= types->relation_count) {
		while (types->relations[relation].rows_folder != part_out->folder)
			relation++;
		idx = relation;
		part_out->kind = RUNG__TYPED_EDGE_ROWS;
	}
	part_out->idx = idx;
	return true;
}

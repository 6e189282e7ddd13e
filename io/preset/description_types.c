/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vertex types and relations of a description. One type with one relation is an untyped graph,
 * unless a key is used that only typed graphs have; both are read by the same functions.
 */
#include <string.h>

#include "base/base.h"
#include "preset/description.h"
#include "quant/quant.h"

/* as in a manifest: offsets of the graph then stay below 2^63 bytes */
#define VERTICES_MAX (INT64_MAX / 16)

/* Both lists while they are read. */
struct graph {
	struct rung_stage_type *types;
	size_t type_count;
	struct rung_stage_relation *relations;
	size_t relation_count;
	bool typed;
};

/* The first entry of a list; NULL if there is none. */
static const json_t *first_of(const json_t *root, const char *list)
{
	return json_array_get(json_object_get(root, list), 0);
}

/* Whether the graph is typed, which decides what is optional. */
static bool is_typed(const json_t *root)
{
	const json_t *type = first_of(root, "vertex_types"),
		     *relation = first_of(root, "relations");

	return json_array_size(json_object_get(root, "vertex_types")) > 1 ||
	       json_array_size(json_object_get(root, "relations")) > 1 ||
	       json_object_get(type, "quantize") || json_object_get(relation, "reversed") ||
	       json_object_get(relation, "rows") || json_object_get(relation, "fanouts") ||
	       json_object_get(json_object_get(root, "training"), "seed_type");
}

/* ---- vertices ---- */

/* Set entry `idx` of a list of splits or of arrays. */
static void set_named(void *list, size_t idx, bool arrays, const char *name, const char *spec)
{
	if (arrays)
		((struct rung_stage_array *)list)[idx] =
			(struct rung_stage_array){ .name = name, .spec = spec };
	else
		((struct rung_stage_split *)list)[idx] =
			(struct rung_stage_split){ .name = name, .spec = spec };
}

/* Named sources. @param named  [entries of the list]; NULL: they were not requested */
static int get_named(struct rung__preset *p, const struct rung__described *list, bool arrays,
                     uint64_t vertex_count, void *named)
{
	const char *key, *name, *spec = NULL;
	const json_t *value;
	size_t idx = 0;
	int rc;

	/* the iteration does not change the object; jansson's macro has no const version */
	json_object_foreach((json_t *)(uintptr_t)list->json, key, value)
	{
		if ((rc = rung__described_check_name(list, key, key)) < 0 ||
		    (rc = rung__described_source(p, list, key, true, false, &spec)) < 0)
			return rc;
		if (!named)
			continue;
		rc = arrays ? rung__described_check_rows(list, key, spec, vertex_count)
		            : rung__described_check_ids(list, key, spec);
		if (rc < 0)
			return rc;
		name = rung__preset_text(p, "%s", key);
		if (!name)
			return RUNG_E_NOMEM;
		set_named(named, idx++, arrays, name, spec);
	}
	return 0;
}

/* "arrays" or "splits". @param named_out, count_out  unchanged if they were not requested */
static int get_list(struct rung__preset *p, const struct rung__described *type, bool arrays,
                    uint64_t vertex_count, void **named_out, size_t *count_out)
{
	const char *key = arrays ? "arrays" : "splits";
	const size_t most = arrays ? RUNG__ARRAYS_MAX : RUNG__SPLITS_MAX;
	const bool wanted = p->wanted & (arrays ? RUNG_PRESET_ARRAYS : RUNG_PRESET_SPLITS);
	const char *prefix = rung__preset_text(p, "%s%s.", type->prefix, key);
	struct rung__described list;
	size_t count;
	int rc = prefix ? rung__described_object(type, key, prefix, &list) : RUNG_E_NOMEM;

	if (rc < 0 || !list.json)
		return rc;
	count = json_object_size(list.json);
	if (count > most)
		return rung__described_refuse(type, key, "has %zu entries; give at most %zu", count,
		                              most);
	if (!wanted)
		return get_named(p, &list, arrays, vertex_count, NULL);
	*count_out = count;
	*named_out = rung__preset_list(p, count,
	                               arrays ? sizeof(struct rung_stage_array)
	                                      : sizeof(struct rung_stage_split));
	return *named_out ? get_named(p, &list, arrays, vertex_count, *named_out) : RUNG_E_NOMEM;
}

/* A source with one row per vertex, which is opened if it is requested. */
static int get_rows(struct rung__preset *p, const struct rung__described *type, const char *key,
                    bool needed, bool wanted, uint64_t vertex_count, const char **spec_out)
{
	const char *spec = NULL;
	int rc = rung__described_source(p, type, key, needed, false, &spec);

	if (rc == 0 && wanted && spec)
		rc = rung__described_check_rows(type, key, spec, vertex_count);
	if (rc == 0 && wanted)
		*spec_out = spec;
	return rc;
}

/* FORMAT or FORMAT:SCALES, as the option has it. */
static int get_quantize(const struct rung__described *type, struct rung_stage_type *into)
{
	const char *text = NULL, *name;
	int rc = rung__described_text(type, "quantize", false, "a text such as \"int8\"", &text);
	size_t length;

	if (rc < 0 || !text)
		return rc;
	length = strcspn(text, ":");
	for (unsigned i = RUNG_QUANT_INT8; (name = rung__quant_format_name(i)); i++) {
		if (strlen(name) == length && strncmp(text, name, length) == 0)
			into->quantize = (enum rung_quant_format)i;
	}
	if (strcmp(text + length, ":column") == 0)
		into->quant_scales = RUNG_SCALES_COLUMN;
	else if (text[length] && strcmp(text + length, ":row") != 0)
		into->quantize = RUNG_QUANT_NONE;
	if (into->quantize != RUNG_QUANT_NONE)
		return 0;
	return rung__described_refuse(type, "quantize",
	                              "is an unknown word; use \"int8\", \"int4\" or \"fp8\", with "
	                              "scales per \":row\" (default) or \":column\"");
}

static int get_type(struct rung__preset *p, const struct rung__described *type, bool typed,
                    struct rung_stage_type *into)
{
	static const char *const keys[] = { "name",   "count",  "features", "labels",
		                            "arrays", "splits", "quantize", NULL };
	const char *name = NULL;
	void *arrays = NULL, *splits = NULL;
	int rc;

	if ((rc = rung__described_keys(type, keys)) < 0 ||
	    (rc = rung__described_name(type, "name", &name)) < 0 ||
	    (rc = rung__described_count(type, "count", true, 1, VERTICES_MAX,
	                                &into->vertex_count)) < 0 ||
	    (rc = get_rows(p, type, "features", !typed, p->wanted & RUNG_PRESET_FEATURES,
	                   into->vertex_count, &into->features)) < 0 ||
	    (rc = get_rows(p, type, "labels", false, p->wanted & RUNG_PRESET_LABELS,
	                   into->vertex_count, &into->labels)) < 0 ||
	    (rc = get_list(p, type, true, into->vertex_count, &arrays, &into->array_count)) < 0 ||
	    (rc = get_list(p, type, false, into->vertex_count, &splits, &into->split_count)) < 0 ||
	    (rc = get_quantize(type, into)) < 0)
		return rc;
	into->arrays = arrays;
	into->splits = splits;
	if (into->quantize && !json_object_get(type->json, "features"))
		return rung__described_refuse(
			type, "quantize",
			"is given, but the type has no \"features\"; add them, "
			"or omit this key");
	into->name = rung__preset_text(p, "%s", name);
	return into->name ? 0 : RUNG_E_NOMEM;
}

/* ---- edges ---- */

/* One end of a relation. @return its vertex type; NULL: refused */
static const struct rung_stage_type *get_end(const struct rung__described *relation,
                                             const char *key, const struct graph *graph, int *rc)
{
	const char *name = NULL;

	*rc = rung__described_name(relation, key, &name);
	for (size_t i = 0; *rc == 0 && i < graph->type_count; i++) {
		if (strcmp(name, graph->types[i].name) == 0)
			return &graph->types[i];
	}
	if (*rc == 0 && graph->type_count == 1)
		*rc = rung__described_refuse(relation, key,
		                             "'%s' is not the name of a vertex type; use '%s'",
		                             name, graph->types[0].name);
	else if (*rc == 0)
		*rc = rung__described_refuse(relation, key,
		                             "'%s' is not the name of a vertex type; use a name "
		                             "of \"vertex_types\"",
		                             name);
	return NULL;
}

/* The edges of a relation and their rows. */
static int get_edges(struct rung__preset *p, const struct rung__described *relation,
                     const struct rung_stage_type *source, const struct rung_stage_type *target,
                     struct rung_stage_relation *into)
{
	const bool wanted = p->wanted & RUNG_PRESET_GRAPH;
	struct rung__edge_counts counts = { .wanted = UINT64_MAX };
	const char *spec = NULL, *rows = NULL, **specs;
	int rc;

	if ((rc = rung__described_source(p, relation, "edges", true, true, &spec)) < 0 ||
	    (rc = rung__described_count(relation, "count", false, 0, VERTICES_MAX,
	                                &counts.wanted)) < 0 ||
	    (rc = rung__described_flag(relation, "undirected", &into->undirected)) < 0 ||
	    (rc = rung__described_flag(relation, "reversed", &into->reversed)) < 0 ||
	    (rc = rung__described_source(p, relation, "rows", false, false, &rows)) < 0)
		return rc;
	if (into->undirected && source != target)
		return rung__described_refuse(
			relation, "undirected",
			"is true, but \"source\" and \"target\" differ; add a "
			"relation from '%s' to '%s' with \"reversed\": true",
			target->name, source->name);
	if (into->undirected && rows)
		return rung__described_refuse(relation, "rows",
		                              "are given, but reverse edges have none; omit "
		                              "\"undirected\", and give both directions in "
		                              "\"edges\" and \"rows\"");
	if (!wanted)
		return 0;
	specs = rung__preset_list(p, 1, sizeof(*specs));
	if (!specs)
		return RUNG_E_NOMEM;
	specs[0] = spec;
	into->specs = specs;
	into->spec_count = 1;
	into->rows = rows;
	counts.sources = into->reversed ? target->vertex_count : source->vertex_count;
	counts.targets = into->reversed ? source->vertex_count : target->vertex_count;
	rc = rung__described_check_edges(relation, "edges", spec, &counts);
	return rc == 0 && rows ? rung__described_check_edge_rows(relation, rows, counts.found) : rc;
}

/* One number for each hop of the training. */
static int get_fanouts(struct rung__preset *p, const struct rung__described *relation,
                       struct rung_stage_relation *into)
{
	uint32_t *fanouts = rung__preset_list(p, RUNG_HOPS_MAX, sizeof(*fanouts)), count = 0;
	int rc = fanouts ? rung__described_fanouts(relation, "fanouts", 0, fanouts, &count)
	                 : RUNG_E_NOMEM;

	if (rc < 0 || count == 0)
		return rc;
	into->fanouts = fanouts;
	if (count == p->derived.fanout_count)
		return 0;
	return rung__described_refuse(relation, "fanouts",
	                              "has %u entries, and \"training.fanouts\" has %u; give the "
	                              "same number of hops in both",
	                              count, p->derived.fanout_count);
}

static int get_relation(struct rung__preset *p, const struct rung__described *relation,
                        const struct graph *graph, struct rung_stage_relation *into)
{
	static const char *const keys[] = { "name",       "source",   "target", "edges",   "count",
		                            "undirected", "reversed", "rows",   "fanouts", NULL };
	const struct rung_stage_type *source, *target = NULL;
	const char *name = NULL;
	int rc;

	if ((rc = rung__described_keys(relation, keys)) < 0 ||
	    (rc = rung__described_name(relation, "name", &name)) < 0)
		return rc;
	source = get_end(relation, "source", graph, &rc);
	if (source)
		target = get_end(relation, "target", graph, &rc);
	if (!target)
		return rc;
	into->source = source->name;
	into->target = target->name;
	if ((rc = get_edges(p, relation, source, target, into)) < 0 ||
	    (rc = get_fanouts(p, relation, into)) < 0)
		return rc;
	into->name = rung__preset_text(p, "%s", name);
	return into->name ? 0 : RUNG_E_NOMEM;
}

/* ---- the lists ---- */

/* An entry of a list, whose keys are shown as "LIST[IDX].KEY". */
static int get_entry(struct rung__preset *p, const struct rung__described *root, const char *key,
                     const json_t *list, size_t idx, struct rung__described *entry_out)
{
	const char *prefix = rung__preset_text(p, "%s[%zu].", key, idx);

	*entry_out = (struct rung__described){ root->file, prefix, json_array_get(list, idx) };
	return prefix ? 0 : RUNG_E_NOMEM;
}

static int get_types(struct rung__preset *p, const struct rung__described *root,
                     struct graph *graph)
{
	struct rung__described type;
	const json_t *list = NULL;
	int rc = rung__described_objects(root, "vertex_types", RUNG__TYPES_MAX, &list);

	if (rc < 0)
		return rc;
	graph->types = rung__preset_list(p, json_array_size(list), sizeof(*graph->types));
	if (!graph->types)
		return RUNG_E_NOMEM;
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct rung_stage_type *into = &graph->types[i];

		if ((rc = get_entry(p, root, "vertex_types", list, i, &type)) < 0 ||
		    (rc = get_type(p, &type, graph->typed, into)) < 0)
			return rc;
		for (size_t other = 0; other < i; other++) {
			if (strcmp(graph->types[other].name, into->name) == 0)
				return rung__described_refuse(&type, "name",
				                              "'%s' is the name of an earlier "
				                              "vertex type; use another one",
				                              into->name);
		}
		graph->type_count = i + 1;
	}
	return 0;
}

static bool same_relation(const struct rung_stage_relation *one,
                          const struct rung_stage_relation *other)
{
	return strcmp(one->name, other->name) == 0 && strcmp(one->source, other->source) == 0 &&
	       strcmp(one->target, other->target) == 0;
}

static int get_relations(struct rung__preset *p, const struct rung__described *root,
                         struct graph *graph)
{
	struct rung__described relation;
	const json_t *list = NULL;
	int rc = rung__described_objects(root, "relations", RUNG__RELATIONS_MAX, &list);

	if (rc < 0)
		return rc;
	graph->relations = rung__preset_list(p, json_array_size(list), sizeof(*graph->relations));
	if (!graph->relations)
		return RUNG_E_NOMEM;
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct rung_stage_relation *into = &graph->relations[i];

		if ((rc = get_entry(p, root, "relations", list, i, &relation)) < 0 ||
		    (rc = get_relation(p, &relation, graph, into)) < 0)
			return rc;
		for (size_t other = 0; other < i; other++) {
			if (same_relation(&graph->relations[other], into))
				return rung__described_refuse(&relation, "name",
				                              "'%s' from '%s' to '%s' is an "
				                              "earlier relation; use another "
				                              "name",
				                              into->name, into->source,
				                              into->target);
		}
		graph->relation_count = i + 1;
	}
	return 0;
}

/* One type and one relation as an untyped graph. */
static void set_untyped(struct rung__preset *p, const struct graph *graph)
{
	const struct rung_stage_type *type = &graph->types[0];
	const struct rung_stage_relation *relation = &graph->relations[0];

	p->derived.vertex_count = type->vertex_count;
	p->derived.vertex_type = type->name;
	p->derived.features = type->features;
	p->derived.labels = type->labels;
	p->derived.arrays = type->arrays;
	p->derived.array_count = type->array_count;
	p->derived.splits = type->splits;
	p->derived.split_count = type->split_count;
	p->derived.relation = relation->name;
	p->derived.graphs = relation->specs;
	p->derived.graph_count = relation->spec_count;
	p->derived.undirected = relation->specs ? relation->undirected : 0;
}

/* The name in "training", which must be that of a type. */
static int get_seed_type(struct rung__preset *p, const struct rung__described *root,
                         const struct graph *graph)
{
	struct rung__described training;
	const char *name = NULL;
	int rc = rung__described_object(root, "training", "training.", &training);

	if (rc < 0 || !json_object_get(training.json, "seed_type"))
		return rc;
	rc = rung__described_name(&training, "seed_type", &name);
	for (size_t i = 0; rc == 0 && i < graph->type_count; i++) {
		if (strcmp(name, graph->types[i].name) == 0) {
			p->derived.seed_type = graph->types[i].name;
			return 0;
		}
	}
	return rc < 0 ? rc
	              : rung__described_refuse(&training, "seed_type",
	                                       "'%s' is not the name of a vertex type; use a name "
	                                       "of \"vertex_types\"",
	                                       name);
}

int rung__described_graph(struct rung__preset *p, const struct rung__described *root)
{
	struct graph graph = { .typed = is_typed(root->json) };
	int rc;

	if ((rc = get_types(p, root, &graph)) < 0 || (rc = get_relations(p, root, &graph)) < 0 ||
	    (rc = get_seed_type(p, root, &graph)) < 0)
		return rc;
	if (!graph.typed) {
		set_untyped(p, &graph);
		return 0;
	}
	p->derived.types = graph.types;
	p->derived.type_count = graph.type_count;
	p->derived.relations = graph.relations;
	p->derived.relation_count = graph.relation_count;
	return 0;
}

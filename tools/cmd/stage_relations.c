/* SPDX-License-Identifier: Apache-2.0 */
/* Relations from the options of rung stage. */
#include <stdlib.h>
#include <string.h>

#include "cmd/stage_relations.h"
#include "cmd/stage_types.h"

/* Whether the text begins with the three names of a relation. */
static int has_names(const struct rung_stage_relation *relation, const char *text, size_t length)
{
	const char *names[3] = { relation->source, relation->name, relation->target };

	for (int i = 0; i < 3; i++) {
		const size_t name = strlen(names[i]);

		if (length < name || strncmp(text, names[i], name) != 0 ||
		    (i < 2 && text[name] != ':'))
			return 0;
		text += name + 1;
		length -= name + (i < 2);
	}
	return length == 0;
}

static struct rung_stage_relation *find_relation(const struct stage_typed *typed, const char *text,
                                                 size_t length)
{
	for (size_t i = 0; i < typed->relation_count; i++) {
		if (has_names(&typed->relations[i], text, length))
			return &typed->relations[i];
	}
	return NULL;
}

/* A relation without members at the end of the list. @return NULL: no memory */
static struct rung_stage_relation *new_relation(struct stage_build *build)
{
	struct stage_typed *typed = build->typed;
	struct rung_stage_relation *relations =
		stage_longer(build, typed->relations, typed->relation_count, sizeof(*relations));

	if (!relations)
		return NULL;
	typed->relations = relations;
	return &relations[typed->relation_count++];
}

/* The relation "SOURCE:RELATION:TARGET", between two types. */
static struct rung_stage_relation *add_relation(struct stage_build *build, const char *text,
                                                size_t length)
{
	const char *name = strchr(text, ':') + 1, *target = strchr(name, ':') + 1;
	const struct rung_stage_type *from, *to;
	struct rung_stage_relation *relation;

	from = stage_type_of(build, "--edges", text, (size_t)(name - 1 - text));
	if (!from)
		return NULL;
	to = stage_find_type(build->typed, target, length - (size_t)(target - text));
	if (!to) {
		STAGE_FAIL(build,
		           "--edges: '%s': unknown vertex type '%.*s'; add --vertices for it", text,
		           (int)(length - (size_t)(target - text)), target);
		return NULL;
	}
	relation = new_relation(build);
	if (!relation)
		return NULL;
	relation->source = from->name;
	relation->name = stage_own(build, strndup(name, (size_t)(target - 1 - name)));
	relation->target = to->name;
	return relation->name ? relation : NULL;
}

/* Edges of a relation; a relation that is repeated joins them. */
static void add_edges(struct stage_build *build, const char *text)
{
	const size_t length = tool_names_length(text, 3);
	struct rung_stage_relation *relation = find_relation(build->typed, text, length);
	const char **specs;

	if (!relation)
		relation = add_relation(build, text, length);
	if (!relation)
		return;
	specs = stage_longer(build, relation->specs, relation->spec_count, sizeof(*specs));
	if (!specs)
		return;
	specs[relation->spec_count++] = text + length + 1;
	relation->specs = specs;
}

/* The relation in an option, which must be known. @return NULL: unknown, which is printed */
static struct rung_stage_relation *relation_of(struct stage_build *build, const char *option,
                                               const char *text, size_t length)
{
	struct rung_stage_relation *relation = find_relation(build->typed, text, length);

	if (!relation)
		STAGE_FAIL(build, "%s: unknown relation '%.*s'; add --edges %.*s=SRC", option,
		           (int)length, text, (int)length, text);
	return relation;
}

static void set_rows(struct stage_build *build, const char *text)
{
	const size_t length = tool_names_length(text, 3);
	struct rung_stage_relation *relation = relation_of(build, "--edge-rows", text, length);

	if (relation && relation->rows)
		STAGE_FAIL(build, "--edge-rows: relation '%.*s' is given twice; give its rows once",
		           (int)length, text);
	else if (relation)
		relation->rows = text + length + 1;
}

/* Whether a relation is "rev_" and the name of an opposite one. */
static int is_opposite(const struct rung_stage_relation *relation,
                       const struct rung_stage_relation *of)
{
	return strncmp(relation->name, "rev_", 4) == 0 &&
	       strcmp(relation->name + 4, of->name) == 0 &&
	       strcmp(relation->source, of->target) == 0 &&
	       strcmp(relation->target, of->source) == 0;
}

/* The opposite of a relation between two types, unless one of the two directions is already the
 * opposite of the other, as in MAG240M. */
static void add_opposite(struct stage_build *build, size_t idx)
{
	const struct stage_typed *typed = build->typed;
	struct rung_stage_relation *relation, of = typed->relations[idx];
	char *name;

	for (size_t i = 0; i < typed->relation_count; i++) {
		if (is_opposite(&typed->relations[i], &of) ||
		    is_opposite(&of, &typed->relations[i]))
			return;
	}
	name = stage_own(build, malloc(strlen(of.name) + sizeof("rev_")));
	relation = name ? new_relation(build) : NULL;
	if (!relation)
		return;
	strcpy(stpcpy(name, "rev_"), of.name);
	*relation = of;
	relation->name = name;
	relation->source = of.target;
	relation->target = of.source;
	relation->reversed = !of.reversed;
	relation->fanouts = NULL;
}

/* --undirected and --dedup. */
static void set_directions(struct stage_build *build, const struct rung_graph_opts *graph)
{
	struct stage_typed *typed = build->typed;
	const size_t count = typed->relation_count;

	for (size_t i = 0; i < count && graph->undirected && !build->code; i++) {
		if (strcmp(typed->relations[i].source, typed->relations[i].target) == 0)
			typed->relations[i].undirected = 1;
		else
			add_opposite(build, i);
	}
	for (size_t i = 0; i < typed->relation_count; i++)
		typed->relations[i].dedup |= graph->dedup;
}

/* A list for all relations replaces those of a description. */
static void set_fanouts(struct stage_build *build, const struct tool_score_args *score,
                        struct rung_stage_opts *opts)
{
	static const uint32_t defaults[] = { 25, 10 }; /* of rung_stage() */
	struct stage_typed *typed = build->typed;

	if (score->typed_count && opts->fanout_count == 0) {
		opts->fanouts = defaults;
		opts->fanout_count = 2;
	}

	for (size_t i = 0; i < typed->relation_count && score->fanouts.count; i++)
		typed->relations[i].fanouts = NULL;
	for (size_t i = 0; i < score->typed_count && !build->code; i++) {
		const struct tool_relation_fanouts *given = &score->typed[i];
		struct rung_stage_relation *relation =
			relation_of(build, "--fanout", given->text, given->name_length);

		if (relation && given->fanouts.count != opts->fanout_count)
			STAGE_FAIL(
				build,
				"--fanout: '%s' has %u hops, and the other relations have %u; give "
				"the "
				"same number, also with --fanout LIST",
				given->text, given->fanouts.count, opts->fanout_count);
		else if (relation)
			relation->fanouts = given->fanouts.hops;
	}
}

void stage_build_relations(struct stage_build *build, const struct tool_score_args *score,
                           struct rung_stage_opts *opts)
{
	struct stage_typed *typed = build->typed;

	for (size_t i = 0; !build->code && i < typed->edges.count; i++)
		add_edges(build, typed->edges.texts[i]);
	for (size_t i = 0; !build->code && i < typed->edge_rows.count; i++)
		set_rows(build, typed->edge_rows.texts[i]);
	if (!build->code && typed->relation_count == 0)
		STAGE_FAIL(build, "--edges is missing; give SOURCE:RELATION:TARGET=SRC, such as "
		                  "author:writes:paper=writes.npy");
	if (!build->code)
		set_directions(build, &opts->graph);
	if (!build->code)
		set_fanouts(build, score, opts);
}

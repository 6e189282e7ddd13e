/* SPDX-License-Identifier: Apache-2.0 */
/* Types and relations from the options of rung stage, and which options fit a typed graph. */
#include "cmd/stage_relations.h"
#include "cmd/stage_typed.h"
#include "cmd/stage_types.h"

unsigned stage_typed_replaced(const struct stage_typed *typed)
{
	unsigned parts = 0;

	for (size_t i = 0; i < typed->labels.count; i++)
		parts |= tool_name_length(typed->labels.texts[i]) ? RUNG_PRESET_LABELS : 0;
	parts |= typed->splits.count ? RUNG_PRESET_SPLITS : 0;
	parts |= typed->arrays.count ? RUNG_PRESET_ARRAYS : 0;
	return parts;
}

/* An option that only typed graphs have, for another graph. */
static void refuse_typed(struct stage_build *build, const struct tool_score_args *score,
                         const struct rung_stage_opts *opts)
{
	const struct stage_typed *typed = build->typed;
	const char *option = typed->edges.count                       ? "--edges"
	                     : typed->edge_rows.count                 ? "--edge-rows"
	                     : typed->splits.count                    ? "--split TYPE:NAME"
	                     : typed->arrays.count && !opts->features ? "--features TYPE:NAME"
	                     : typed->labels.count && !opts->labels   ? "--labels TYPE"
	                     : typed->quantize.count                  ? "--quantize TYPE"
	                     : score->typed_count ? "--fanout SOURCE:RELATION:TARGET"
	                     : opts->seed_type    ? "--seed-type"
	                                          : NULL;

	if (option)
		STAGE_FAIL(build,
		           "%s: the graph is not typed; add --vertices TYPE=SRC for each type",
		           option);
}

/* An option of untyped graphs for a typed one. */
static void refuse_untyped(struct stage_build *build, const struct tool_graph_args *graph,
                           const struct rung_stage_opts *opts)
{
	if (graph->none || graph->opts.spec_count)
		STAGE_FAIL(build,
		           "--graph: the graph is typed; give --edges SOURCE:RELATION:TARGET=SRC");
	else if (opts->features)
		STAGE_FAIL(build,
		           "--features: '%s': the graph is typed; give --vertices TYPE=SRC, or "
		           "TYPE:NAME=SRC for another array",
		           opts->features);
	else if (opts->array_count)
		STAGE_FAIL(build, "--features: '%s' has no type; give TYPE:NAME=SRC",
		           opts->arrays[0].name);
	else if (opts->split_count)
		STAGE_FAIL(build, "--split: '%s' has no type; give TYPE:NAME=SRC",
		           opts->splits[0].name);
	else if (graph->opts.vertex_count)
		STAGE_FAIL(build, "--vertices: %llu has no type; give TYPE=N",
		           (unsigned long long)graph->opts.vertex_count);
	else if (opts->score_spec)
		STAGE_FAIL(build,
		           "--score: '%s' is a file; use the name of a method for a typed graph",
		           opts->score_spec);
}

int stage_typed_fill(const char *name, struct stage_typed *typed,
                     const struct tool_graph_args *graph, const struct tool_score_args *score,
                     struct rung_stage_opts *opts)
{
	struct stage_build build = { .name = name, .typed = typed };

	if (graph->type_count == 0 && opts->type_count == 0) {
		refuse_typed(&build, score, opts);
		return build.code;
	}
	refuse_untyped(&build, graph, opts);
	/* copies of a description's lists, which are constant */
	typed->types = stage_longer(&build, opts->types, opts->type_count, sizeof(*typed->types));
	typed->type_count = opts->type_count;
	typed->relations = stage_longer(&build, opts->relations, opts->relation_count,
	                                sizeof(*typed->relations));
	typed->relation_count = opts->relation_count;
	if (!build.code)
		stage_build_types(&build, graph, opts);
	if (!build.code)
		stage_build_relations(&build, score, opts);
	opts->types = typed->types;
	opts->type_count = typed->type_count;
	opts->relations = typed->relations;
	opts->relation_count = typed->relation_count;
	opts->graph.undirected = opts->graph.dedup = 0;
	return build.code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Vertex types from the options of rung stage. */
#include <stdlib.h>
#include <string.h>

#include "cmd/stage_types.h"

struct rung_stage_type *stage_find_type(const struct stage_typed *typed, const char *text,
                                        size_t length)
{
	for (size_t i = 0; i < typed->type_count; i++) {
		if (strlen(typed->types[i].name) == length &&
		    strncmp(typed->types[i].name, text, length) == 0)
			return &typed->types[i];
	}
	return NULL;
}

/* The type in "TYPE..." of an option. @return NULL: unknown, which is printed */
struct rung_stage_type *stage_type_of(struct stage_build *build, const char *option,
                                      const char *text, size_t length)
{
	struct rung_stage_type *type = stage_find_type(build->typed, text, length);

	if (!type)
		STAGE_FAIL(build, "%s: '%s': unknown vertex type '%.*s'; add --vertices %.*s=SRC",
		           option, text, (int)length, text, (int)length, text);
	return type;
}

static void add_type(struct stage_build *build, const struct tool_type *given)
{
	struct stage_typed *typed = build->typed;
	struct rung_stage_type *types, *type;

	if (stage_find_type(typed, given->text, given->name_length)) {
		STAGE_FAIL(build, "--vertices: type '%.*s' is given twice; give each type once",
		           (int)given->name_length, given->text);
		return;
	}
	types = stage_longer(build, typed->types, typed->type_count, sizeof(*types));
	if (!types)
		return;
	type = &types[typed->type_count];
	type->name = stage_own(build, strndup(given->text, given->name_length));
	type->vertex_count = given->count;
	type->features = given->count ? NULL : given->text + given->name_length + 1;
	typed->types = types;
	typed->type_count++;
}

static void set_labels(struct stage_build *build, const char *text)
{
	const size_t length = tool_name_length(text);
	struct rung_stage_type *type;

	if (length == 0) {
		STAGE_FAIL(build, "--labels: '%s' has no type; give TYPE=SRC, such as paper=y.npy",
		           text);
		return;
	}
	type = stage_type_of(build, "--labels", text, length);
	if (type && type->labels)
		STAGE_FAIL(build, "--labels: type '%s' is given twice; give its labels once",
		           type->name);
	else if (type)
		type->labels = text + length + 1;
}

/* "TYPE:NAME=SRC" becomes a split or an array. */
static void add_named(struct stage_build *build, const char *text, int array)
{
	const char *option = array ? "--features" : "--split", *name = strchr(text, ':') + 1;
	struct rung_stage_type *type =
		stage_type_of(build, option, text, (size_t)(name - 1 - text));
	const char *equals = strchr(name, '='), *copy;
	struct rung_stage_split *splits;
	struct rung_stage_array *arrays;

	if (!type)
		return;
	if (!equals[1]) {
		STAGE_FAIL(build, "%s: '%s' has no SRC; give TYPE:NAME=SRC", option, text);
		return;
	}
	copy = stage_own(build, strndup(name, (size_t)(equals - name)));
	if (!copy)
		return;
	if (array) {
		arrays = stage_longer(build, type->arrays, type->array_count, sizeof(*arrays));
		if (arrays)
			arrays[type->array_count++] =
				(struct rung_stage_array){ .name = copy, .spec = equals + 1 };
		type->arrays = arrays;
		return;
	}
	splits = stage_longer(build, type->splits, type->split_count, sizeof(*splits));
	if (splits)
		splits[type->split_count++] =
			(struct rung_stage_split){ .name = copy, .spec = equals + 1 };
	type->splits = splits;
}

int stage_quantize_parse(const char *text, enum rung_quant_format *format,
                         enum rung_quant_scales *scales)
{
	const char *colon = strchrnul(text, ':');
	const size_t length = (size_t)(colon - text);

	*format = RUNG_QUANT_NONE;
	for (int i = RUNG_QUANT_INT8; i <= RUNG_QUANT_FP8; i++) {
		if (strlen(tool_quant_formats[i]) == length &&
		    strncmp(tool_quant_formats[i], text, length) == 0)
			*format = (enum rung_quant_format)i;
	}
	*scales = strcmp(colon, ":column") == 0 ? RUNG_SCALES_COLUMN : RUNG_SCALES_ROW;
	return *format != RUNG_QUANT_NONE &&
	       (!*colon || strcmp(colon, ":column") == 0 || strcmp(colon, ":row") == 0);
}

/* "TYPE=FORMAT[:SCALES]", which was parsed before. */
static void set_quantize(struct stage_build *build, const char *text)
{
	const size_t length = tool_name_length(text);
	struct rung_stage_type *type = stage_type_of(build, "--quantize", text, length);

	if (type)
		stage_quantize_parse(text + length + 1, &type->quantize, &type->quant_scales);
	if (type && !type->features)
		STAGE_FAIL(build, "--quantize: type '%s' has no features; omit the option for it",
		           type->name);
}

/* Without a type: of all types with features. */
static void quantize_all(struct stage_build *build, struct rung_stage_opts *opts)
{
	for (size_t i = 0; i < build->typed->type_count && opts->quantize; i++) {
		if (build->typed->types[i].features) {
			build->typed->types[i].quantize = opts->quantize;
			build->typed->types[i].quant_scales = opts->quant_scales;
		}
	}
	opts->quantize = RUNG_QUANT_NONE;
}

void stage_build_types(struct stage_build *build, const struct tool_graph_args *graph,
                       struct rung_stage_opts *opts)
{
	const struct stage_typed *typed = build->typed;

	for (size_t i = 0; !build->code && i < graph->type_count; i++)
		add_type(build, &graph->types[i]);
	for (size_t i = 0; !build->code && i < typed->labels.count; i++)
		set_labels(build, typed->labels.texts[i]);
	for (size_t i = 0; !build->code && i < typed->splits.count; i++)
		add_named(build, typed->splits.texts[i], 0);
	for (size_t i = 0; !build->code && i < typed->arrays.count; i++)
		add_named(build, typed->arrays.texts[i], 1);
	if (!build->code)
		quantize_all(build, opts);
	for (size_t i = 0; !build->code && i < typed->quantize.count; i++)
		set_quantize(build, typed->quantize.texts[i]);
	if (!build->code && opts->seed_type)
		stage_type_of(build, "--seed-type", opts->seed_type, strlen(opts->seed_type));
}

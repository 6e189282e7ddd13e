/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options for a dataset with a description, and for the folders of public datasets, as an
 * alternative to options for each of their files. Options for single files take precedence, so that
 * one of them can be replaced.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "args/args.h"

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Only one dataset can be given, as a folder or as a description. */
static void refuse_second(const struct argp_state *state, const struct tool_preset_args *args,
                          const char *option)
{
	if (args->kind)
		argp_error(state, "%s: %s is already given; give only one dataset", option,
		           args->option);
}

/* Whether a list such as "papers or all" has this word. */
static bool has_word(const char *list, const char *word)
{
	for (size_t length; *list; list += length, list += strspn(list, " ,")) {
		length = strcspn(list, " ,");
		if (strlen(word) == length && strncmp(list, word, length) == 0)
			return true;
	}
	return false;
}

/* The value is ROOT, or ROOT:WORD with lower-case letters after the last colon. If a folder has the
 * whole text as its name, that folder is ROOT. `words` lists what is accepted; NULL: it is checked
 * later. */
static void set(const struct argp_state *state, struct tool_preset_args *args,
                enum rung_preset_kind kind, const char *option, const char *words, const char *arg)
{
	const char *colon = strrchr(arg, ':');
	size_t length = strlen(arg);

	refuse_second(state, args, option);
	if (colon && colon[1] && !is_folder(arg) &&
	    colon[1 + strspn(colon + 1, "abcdefghijklmnopqrstuvwxyz")] == 0) {
		args->part = strdup(colon + 1);
		length = (size_t)(colon - arg);
	}
	args->kind = kind;
	args->option = option;
	args->root = strndup(arg, length);
	if (!args->root || (length < strlen(arg) && !args->part))
		argp_failure(state, TOOL_FAILED, 0, "no memory for the options");
	if (words && args->part && !has_word(words, args->part))
		argp_error(state, "%s: unknown part '%s'; %s", option, args->part,
		           tool_meant(args->part, words, words));
	if (length == 0)
		argp_error(state, "%s: '%s' does not name a folder; give the folder of the dataset",
		           option, arg);
}

static void set_papers100m(const struct argp_state *state, void *args, const char *arg)
{
	set(state, args, RUNG_PRESET_OGB_PAPERS100M, "--ogb-papers100M", NULL, arg);
}

static void set_mag240m(const struct argp_state *state, void *args, const char *arg)
{
	set(state, args, RUNG_PRESET_OGB_MAG240M, "--ogb-mag240m", "papers or all", arg);
}

static void set_igb(const struct argp_state *state, void *args, const char *arg)
{
	set(state, args, RUNG_PRESET_IGB, "--igb",
	    "tiny, experimental, small, medium, large or full", arg);
}

static const struct tool_option options[] = {
	{ .group = 10,
	  .help = "Folders of public datasets, which provide the graph, features, labels and "
	          "splits that are not given:" },
	{ "ogb-papers100M", "ROOT", 10, "ogbn-papers100M", TOOL_SET(set_papers100m) },
	{ "ogb-mag240m", "ROOT[:papers|all]", 10,
	  "MAG240M of OGB-LSC: papers only, or all: the typed graph of papers, authors and "
	  "institutions (default: all if full_feat.npy exists)",
	  TOOL_SET(set_mag240m) },
	{ "igb", "ROOT[:SIZE]", 10,
	  "Papers of IGB or IGBH; SIZE: tiny, experimental, small, medium, large or full",
	  TOOL_SET(set_igb) },
	{ 0 },
};

const struct tool_option_set tool_preset_set = { options, NULL, NULL };

static void set_dataset(const struct argp_state *state, void *ctx, const char *arg)
{
	struct tool_preset_args *args = ctx;

	refuse_second(state, args, "--dataset");
	args->kind = RUNG_PRESET_DESCRIPTION;
	args->option = "--dataset";
	args->root = strdup(arg);
	if (!args->root)
		argp_failure(state, TOOL_FAILED, 0, "no memory for the options");
	if (!arg[0])
		argp_error(state, "--dataset: '' does not name a file; give a dataset.json");
}

static const struct tool_option dataset_options[] = {
	{ "dataset", "FILE", 1,
	  "Description of the dataset (dataset.json), which provides the graph, features, arrays, "
	  "labels and splits that are not given",
	  TOOL_SET(set_dataset) },
	{ 0 },
};

const struct tool_option_set tool_dataset_set = { dataset_options, NULL, NULL };

/* The names and settings of a description; public datasets have none. */
static void fill_settings(const struct rung_preset *preset, struct rung_stage_opts *opts)
{
	opts->vertex_type = preset->vertex_type;
	opts->relation = preset->relation;
	if (opts->fanout_count == 0) {
		opts->fanouts = preset->fanouts;
		opts->fanout_count = preset->fanout_count;
	}
	if (opts->batch_size == 0)
		opts->batch_size = preset->batch_size;
	if (opts->graph.vertex_count == 0 && preset->vertex_type)
		opts->graph.vertex_count = preset->vertex_count;
}

int tool_preset_fill(struct tool_preset_args *args, struct rung_stage_opts *opts)
{
	const struct rung_preset *preset;
	unsigned wanted = 0;
	int rc;

	if (!args->kind)
		return 0;
	/* only these parts are opened, so the folder need not have the files of the others */
	wanted |= opts->graph.spec_count ? 0 : RUNG_PRESET_GRAPH;
	wanted |= opts->features ? 0 : RUNG_PRESET_FEATURES;
	wanted |= opts->labels ? 0 : RUNG_PRESET_LABELS;
	wanted |= opts->split_count ? 0 : RUNG_PRESET_SPLITS;
	wanted |= opts->array_count ? 0 : RUNG_PRESET_ARRAYS;
	wanted &= ~args->replaced;
	rc = rung_preset_open(args->kind, args->root, args->part, wanted, &args->preset);
	if (rc < 0)
		return rc;
	preset = args->preset;
	opts->types = preset->types;
	opts->type_count = preset->type_count;
	opts->relations = preset->relations;
	opts->relation_count = preset->relation_count;
	if (!opts->seed_type)
		opts->seed_type = preset->seed_type;
	if (wanted & RUNG_PRESET_GRAPH) {
		opts->graph.specs = preset->graphs;
		opts->graph.spec_count = preset->graph_count;
		/* --undirected and --dedup take effect even if the preset does not imply them */
		opts->graph.undirected |= preset->undirected;
		opts->graph.dedup |= preset->dedup;
	}
	if (wanted & RUNG_PRESET_FEATURES)
		opts->features = preset->features;
	if (wanted & RUNG_PRESET_LABELS)
		opts->labels = preset->labels;
	if (wanted & RUNG_PRESET_ARRAYS) {
		opts->arrays = preset->arrays;
		opts->array_count = preset->array_count;
	}
	if (wanted & RUNG_PRESET_SPLITS) {
		opts->splits = preset->splits;
		opts->split_count = preset->split_count;
	}
	fill_settings(preset, opts);
	return 0;
}

void tool_preset_free(struct tool_preset_args *args)
{
	rung_preset_close(args->preset);
	free(args->root);
	free(args->part);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung stage: score and rank a graph, and write features and graph in that order. rung_stage() does
 * all of the work; this file reads the options, prints the report and prepares for signals, because
 * staging can run for hours and keeps finished work.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args/args.h"
#include "interrupt.h"
#include "output/json.h"
#include "cmd/stage_report.h"
#include "cmd/stage_typed.h"
#include "cmd/stage_types.h"
#include "tool.h"

/* Options write to `opts` directly where the library has the same field; cmd_stage() connects the
 * lists and the structs of shared options before the call. */
struct stage_args {
	struct rung_stage_opts opts;
	/* [split_count]; names are allocated here, SRCs are part of the command line */
	struct rung_stage_split *splits;
	size_t split_count;
	struct rung_stage_array *arrays; /* [array_count], owned in the same way */
	size_t array_count;
	const char *stripes[RUNG_FEATURE_FILES_MAX]; /* [opts.stripe_count] */
	double stripe_shares[RUNG_FEATURE_FILES_MAX];
	struct stage_typed typed;
	struct tool_graph_args graph;
	struct tool_score_args score;
	struct tool_preset_args preset;
	struct tool_common common;
};

/* "train=ids.npy": the name is copied, because the library needs it as a terminated string. */
static void add_split(const struct argp_state *state, void *ctx, const char *text)
{
	struct stage_args *args = ctx;
	const size_t length = tool_arg_split(state, text);
	struct rung_stage_split *split;

	if (tool_names_length(text, 2) > 0) {
		tool_texts_add(state, &args->typed.splits, text);
		return;
	}
	split = realloc(args->splits, (args->split_count + 1) * sizeof(*args->splits));
	if (split) {
		args->splits = split;
		split = &args->splits[args->split_count++];
		split->name = strndup(text, length);
		split->spec = text + length + 1;
	}
	if (!split || !split->name)
		argp_failure(state, TOOL_FAILED, 0, "no memory for the options");
}

/* --features NAME=SRC, whose name has `name_length` bytes: an array in addition to the features. */
static void add_array(const struct argp_state *state, struct stage_args *args, const char *text,
                      size_t name_length)
{
	struct rung_stage_array *array =
		realloc(args->arrays, (args->array_count + 1) * sizeof(*args->arrays));

	if (!text[name_length + 1])
		argp_error(state,
		           "--features: '%s' has no SRC; give NAME=SRC, such as year=year.npy",
		           text);
	if (array) {
		args->arrays = array;
		array = &args->arrays[args->array_count++];
		array->name = strndup(text, name_length);
		array->spec = text + name_length + 1;
	}
	if (!array || !array->name)
		argp_failure(state, TOOL_FAILED, 0, "no memory for the options");
}

/* The name of a method takes precedence: a file "degree" is written ./degree. Any other text is a
 * SRC if it has the form of one or names a file; otherwise it is a misspelled method. */
static void set_score(const struct argp_state *state, void *ctx, const char *text)
{
	struct stage_args *args = ctx;

	if (args->opts.score_spec)
		tool_set_once(state, "--score", &args->opts.score_spec, text);
	if (rung_score_method_parse(text, &args->score.opts.method) == 0)
		return;
	if (strstr(text, ".npy") || strstr(text, ".npz:") || strncmp(text, "raw:", 4) == 0 ||
	    access(text, F_OK) == 0)
		args->opts.score_spec = text;
	else
		argp_error(state, "--score: '%s' is not a method or file; %s", text,
		           tool_meant(text, TOOL_SCORES,
		                      TOOL_SCORES ", file.npy, file.npz:member or raw:..."));
}

/* A path that looks like NAME=SRC is written ./NAME=SRC. */
static void set_features(const struct argp_state *state, void *ctx, const char *arg)
{
	struct stage_args *args = ctx;
	const size_t name_length = tool_name_length(arg);

	if (name_length > 0)
		add_array(state, args, arg, name_length);
	else if (tool_names_length(arg, 2) > 0)
		tool_texts_add(state, &args->typed.arrays, arg);
	else
		tool_set_once(state, "--features", &args->opts.features, arg);
}

static void add_labels(const struct argp_state *state, void *ctx, const char *arg)
{
	struct stage_args *args = ctx;

	tool_texts_add(state, &args->typed.labels, arg);
}

/* @param list  of SOURCE:RELATION:TARGET=SRC */
static void add_of_relation(const struct argp_state *state, struct tool_texts *list,
                            const char *option, const char *arg)
{
	const size_t length = tool_names_length(arg, 3);

	if (length == 0 || !arg[length + 1])
		argp_error(state,
		           "%s: '%s' is not of the form SOURCE:RELATION:TARGET=SRC, such as "
		           "author:writes:paper=writes.npy",
		           option, arg);
	tool_texts_add(state, list, arg);
}

static void add_edges(const struct argp_state *state, void *ctx, const char *arg)
{
	struct stage_args *args = ctx;

	add_of_relation(state, &args->typed.edges, "--edges", arg);
}

static void add_edge_rows(const struct argp_state *state, void *ctx, const char *arg)
{
	struct stage_args *args = ctx;

	add_of_relation(state, &args->typed.edge_rows, "--edge-rows", arg);
}

static void add_stripe(const struct argp_state *state, void *ctx, const char *arg)
{
	struct stage_args *args = ctx;

	if (args->opts.stripe_count == RUNG_FEATURE_FILES_MAX)
		argp_error(state, "--stripe: too many folders; give at most %d",
		           RUNG_FEATURE_FILES_MAX);
	args->stripe_shares[args->opts.stripe_count] = 1;
	args->stripes[args->opts.stripe_count++] = arg;
}

/* End a range: it has the folders since the last one. */
static void end_range(const struct argp_state *state, void *ctx, const char *arg)
{
	struct stage_args *args = ctx;
	const double share = tool_arg_share(state, "--until", arg);
	size_t folder = args->opts.stripe_count;

	if (folder == 0 || args->stripe_shares[folder - 1] < 1)
		argp_error(state,
		           "--until: gives the share of the folders before it; give --stripe "
		           "first");
	while (folder > 0 && args->stripe_shares[folder - 1] >= 1)
		args->stripe_shares[--folder] = share;
}

/* I/N, in plain digits */
static void set_part(const struct argp_state *state, void *ctx, const char *arg)
{
	struct stage_args *args = ctx;
	const char *slash = strchrnul(arg, '/');
	char *ends[2] = { NULL, NULL };
	unsigned long part = 0, count = 0;

	if (strspn(arg, "0123456789") == (size_t)(slash - arg) &&
	    strspn(slash + !!*slash, "0123456789") == strlen(slash + !!*slash)) {
		part = strtoul(arg, &ends[0], 10);
		count = strtoul(slash + !!*slash, &ends[1], 10);
	}
	if (slash == arg || count == 0 || count > RUNG_FEATURE_FILES_MAX || part >= count)
		argp_error(state,
		           "--part: '%s' is not a part; give I/N, such as 0/4, 1/4, 2/4 and 3/4, "
		           "with at most %d parts",
		           arg, RUNG_FEATURE_FILES_MAX);
	args->opts.part = (uint32_t)part;
	args->opts.part_count = (uint32_t)count;
}

/* Parts must have the same order of rows, and separate files. */
static void check_part(const struct argp_state *state, const struct rung_stage_opts *opts)
{
	if (!opts->score_spec)
		argp_error(state, "--part: all parts need the same scores; compute them once, with "
		                  "'rung score --out score.npy', and add --score score.npy");
	if (opts->stripe_count > 0 || opts->in_place)
		argp_error(state, "--part: cannot be combined with %s; omit one of them",
		           opts->in_place ? "--in-place" : "--stripe");
}

/* Set the labels and features without a type: names before '=' belong to a file if there are no
 * types. */
static void set_untyped(const struct argp_state *state, struct stage_args *args, int may_be_typed)
{
	const struct stage_typed *typed = &args->typed;

	for (size_t i = 0; i < typed->labels.count; i++) {
		if (!may_be_typed || tool_name_length(typed->labels.texts[i]) == 0)
			tool_set_once(state, "--labels", &args->opts.labels,
			              typed->labels.texts[i]);
	}
	for (size_t i = 0; i < typed->arrays.count && !may_be_typed; i++)
		tool_set_once(state, "--features", &args->opts.features, typed->arrays.texts[i]);
}

/* The command has no operand; a forgotten --out is the usual reason for one. */
static void refuse_operand(const struct argp_state *state, void *args, const char *arg)
{
	(void)args;
	argp_error(state, "unexpected argument '%s'; to create this folder, use --out %s", arg,
	           arg);
}

/* A dataset (--dataset, --igb and so on), and types, replace the options for graph and features,
 * which are then optional. */
static void check_complete(const struct argp_state *state, void *ctx)
{
	struct stage_args *args = ctx;
	const int given = args->preset.kind || args->graph.type_count > 0;

	set_untyped(state, args, given);
	if (args->graph.type_count > 0 && args->preset.kind)
		argp_error(state, "--vertices: %s is already given; give only one dataset",
		           args->preset.option);
	if (!tool_graph_given(&args->graph) && !given)
		argp_error(
			state,
			"--graph is missing; give an edge index, csc:SRC,SRC, csr:SRC,SRC or none, "
			"or --dataset FILE");
	if (args->graph.none && args->preset.kind)
		argp_error(state, "--graph none: the given dataset provides a graph; omit --graph");
	if (!args->opts.features && !given)
		argp_error(state, "--features is missing; give file.npy, file.npz:member or "
		                  "raw:FILE,DTYPE,DIMxDIM");
	if (!args->opts.out_dir)
		argp_error(state, "--out is missing; give the folder to create");
	if (args->opts.part_count > 0)
		check_part(state, &args->opts);
}

/* [TYPE=]FORMAT[:row|:column] */
static void set_quantize(const struct argp_state *state, void *ctx, const char *arg)
{
	struct stage_args *args = ctx;
	const size_t length = tool_name_length(arg);
	const char *value = length ? arg + length + 1 : arg;
	enum rung_quant_format format;
	enum rung_quant_scales scales;

	if (!stage_quantize_parse(value, &format, &scales))
		argp_error(state,
		           "--quantize: unknown value '%s'; use int8, int4 or fp8, with scales "
		           "per :row (default) or :column",
		           value);
	if (length > 0) {
		tool_texts_add(state, &args->typed.quantize, arg);
		return;
	}
	args->opts.quantize = format;
	args->opts.quant_scales = scales;
}

static const struct tool_word pads[] = {
	{ "none", RUNG_STAGE_PAD_NONE },
	{ "sector", RUNG_STAGE_PAD_SECTOR },
	{ "auto", RUNG_STAGE_PAD_AUTO },
	{ 0 },
};

/* "deal" is the earlier name of "partition", accepted without notice */
static const struct tool_word row_orders[] = {
	{ "auto", RUNG_ROW_ORDER_AUTO },           { "passes", RUNG_ROW_ORDER_PASSES },
	{ "partition", RUNG_ROW_ORDER_PARTITION }, { "deal", RUNG_ROW_ORDER_PARTITION },
	{ "gather", RUNG_ROW_ORDER_GATHER },       { 0 },
};

static const struct tool_option options[] = {
	{ "features", "[[TYPE:]NAME=]SRC", 1,
	  "Feature rows [vertices, ...]; with a NAME (repeatable) another array with a row per "
	  "vertex",
	  TOOL_SET(set_features) },
	{ "out", "DIR", 1, "Folder to create", TOOL_TEXT(struct stage_args, opts.out_dir) },
	{ "labels", "[TYPE=]SRC", 1, "Labels [vertices, ...], written in rank order",
	  TOOL_SET(add_labels) },
	{ "split", "[TYPE:]NAME=SRC", 1,
	  "Named vertex ids, or a bool mask over the vertices (repeatable); 'train' gives the "
	  "train vertices of the score",
	  TOOL_SET(add_split) },
	{ "edges", "S:REL:T=SRC", 2,
	  "Typed graph: edges of relation REL from vertices of type S to those of type T "
	  "(repeatable); --vertices TYPE=SRC gives the features of a type, and TYPE=N a number of "
	  "vertices without features",
	  TOOL_SET(add_edges) },
	{ "edge-rows", "S:REL:T=SRC", 2, "Rows of these edges, one for each in their order",
	  TOOL_SET(add_edge_rows) },
	{ "seed-type", "TYPE", 2,
	  "Type of the seeds (default: the first one that has a split 'train')",
	  TOOL_TEXT(struct stage_args, opts.seed_type) },
	{ "score", "METHOD|SRC", 3,
	  "Rank by blend (default), expected, presample, ppr, wrpagerank, rpagerank or degree, "
	  "or by the float32 values of a file",
	  TOOL_SET(set_score), TOOL_KNOWN(TOOL_SCORES) },
	{ "stripe", "DIR", 3, "Stripe the rows over folders on several devices (repeatable)",
	  TOOL_SET(add_stripe) },
	{ "until", "SHARE", 3,
	  "The folders of --stripe before it have the hottest rows up to SHARE, such as 40%; those "
	  "after it the others (repeatable)",
	  TOOL_SET(end_range) },
	{ "pad", "NAME", 3,
	  "Pad rows: none (default); sector: to a multiple of 512 bytes; auto: so that no row of "
	  "up to 4 KiB crosses a 4 KiB block, if that saves more reads than it adds bytes",
	  TOOL_WORD(struct stage_args, opts.pad, pads, "none, sector or auto") },
	{ "quantize", "[TYPE=]FORMAT[:SCALES]", 3,
	  "Store values with fewer bits: int8, int4 or fp8, with scales per row (default) or "
	  "column, as in int8:column",
	  TOOL_SET(set_quantize) },
	{ "in-place", NULL, 3,
	  "Copy no rows: DIR then needs the file of --features, unchanged and at the same path",
	  TOOL_FLAG(struct stage_args, opts.in_place) },
	{ "part", "I/N", 5,
	  "Stage part I (from 0) of N, each with the same other options, on N machines with shared "
	  "storage; needs --score SRC. Part 0 completes DIR when the others are complete",
	  TOOL_SET(set_part) },
	{ "force", NULL, 5,
	  "Replace DIR if it is a staged dataset, and discard the work of an interrupted run",
	  TOOL_FLAG(struct stage_args, opts.force) },
	{ "resume", NULL, 5,
	  "Resume an interrupted run of the same job; if it has finished, check its result",
	  TOOL_FLAG(struct stage_args, opts.resume) },
	{ "memory", "SIZE", 7,
	  "Maximum memory to use (default: a quarter of RAM, or 3/4 of the free memory if that is "
	  "less)",
	  TOOL_BYTES(struct stage_args, opts.memory_bytes, 0,
	             "not in bytes; give a size such as 4GiB, or omit it for a quarter of RAM") },
	{ "row-order", "NAME", 7,
	  "How rows are ordered: passes, partition, gather, or auto (default): the "
	  "fastest one for the measured rates of the devices",
	  TOOL_WORD(struct stage_args, opts.row_order, row_orders,
	            "auto, passes, partition or gather"),
	  TOOL_OLD("plan") },
	{ "dry-run", NULL, 5, "Check inputs and space, print what will be written, write nothing",
	  TOOL_FLAG(struct stage_args, opts.dry_run) },
	{ 0 },
};

/* Each set writes to its own struct; some of its fields are copied to opts in cmd_stage(). */
static const struct tool_part parts[] = {
	TOOL_PART(tool_common_set, struct stage_args, common),
	TOOL_PART(tool_dataset_set, struct stage_args, preset),
	TOOL_PART(tool_graph_set, struct stage_args, graph),
	TOOL_PART(tool_score_set, struct stage_args, score),
	TOOL_PART(tool_preset_set, struct stage_args, preset),
	{ 0 },
};
const struct tool_command tool_stage_command = {
	.options = options,
	.parts = parts,
	.operands = "--graph GRAPH --features SRC --out DIR\n"
		    "--vertices T=SRC --edges S:REL:T=SRC --out DIR\n"
		    "--dataset FILE --out DIR\n--ogb-mag240m ROOT --out DIR",
	.doc = "Score and rank the vertices of a graph, and write graph, features, labels and "
	       "splits in that order to the folder DIR. "
	       "A SRC is file.npy, file.npz:member, or raw:FILE,DTYPE,DIM[xDIM][,OFFSET].",
	.operand = refuse_operand,
	.check = check_complete,
	.headings = { [1] = "Files:",
	              [2] = "Graph:",
	              [3] = "Order and layout of the rows:",
	              [4] = "Settings of single scores:",
	              [5] = "Runs:",
	              [7] = "Resources:" },
	.examples = "  rung stage --graph edges.npy --features x.npy --out graph.rung\n  rung "
		    "stage --dataset dataset.json --out graph.rung --memory 8G --resume",
};

static void free_args(struct stage_args *args)
{
	/* the library's structs have const names; those here were allocated by strndup() */
	for (size_t i = 0; i < args->split_count; i++)
		free((char *)(uintptr_t)args->splits[i].name);
	for (size_t i = 0; i < args->array_count; i++)
		free((char *)(uintptr_t)args->arrays[i].name);
	free(args->splits);
	free(args->arrays);
	free(args->graph.specs);
	free(args->graph.types);
	free(args->score.typed);
	stage_typed_free(&args->typed);
	tool_preset_free(&args->preset);
}

/* Print how to continue after a signal, with the folder of the part. */
static void prepare_interruption(const char *name, const struct rung_stage_opts *opts)
{
	char folder[PATH_MAX + 64];

	tool_stage_folder(opts, folder, sizeof(folder));
	folder[strlen(folder) - strlen(".partial")] = '\0'; /* added again there */
	tool_interrupt_resumable(name, folder, " with --resume");
}

/* Connect the lists and structs of options, which no longer move. */
static void connect(struct stage_args *args, struct tool_progress *progress)
{
	args->opts.graph = args->graph.opts;
	args->opts.score = args->score.opts;
	args->opts.splits = args->splits;
	args->opts.split_count = args->split_count;
	args->opts.arrays = args->arrays;
	args->opts.array_count = args->array_count;
	args->opts.stripe_dirs = args->stripes;
	args->opts.stripe_shares = args->stripe_shares;
	args->opts.fanouts = args->score.fanouts.hops;
	args->opts.fanout_count = args->score.fanouts.count;
	args->opts.batch_size = args->score.opts.batch_size;
	args->opts.threads = args->common.threads;
	args->opts.progress = tool_progress_update;
	args->opts.progress_ctx = progress;
	args->preset.replaced = stage_typed_replaced(&args->typed);
}

/* Add what a dataset provides and what types are. @return an exit code */
static int fill(const char *name, struct stage_args *args)
{
	/* after all options, because a preset fills in only those that were not given */
	int rc = tool_preset_fill(&args->preset, &args->opts);
	const struct rung_preset *preset = args->preset.preset;

	if (rc < 0)
		return tool_fail(name, rc);
	if (preset && preset->vertex_type && args->opts.graph.vertex_count != preset->vertex_count)
		return tool_error(
			name, TOOL_USAGE,
			"--vertices: is %llu, but \"count\" in %s is %llu; omit the option",
			(unsigned long long)args->opts.graph.vertex_count, args->preset.root,
			(unsigned long long)preset->vertex_count);
	if (preset && !args->score.draws_given)
		args->opts.score.draws = preset->draws;
	return stage_typed_fill(name, &args->typed, &args->graph, &args->score, &args->opts);
}

int cmd_stage(int argc, char **argv)
{
	struct stage_args args = {
		.opts = RUNG_STAGE_OPTS_INIT,
		.graph = { .opts = RUNG_GRAPH_OPTS_INIT, .may_be_typed = 1 },
		.score = { .opts = RUNG_SCORE_OPTS_INIT, .may_be_typed = 1 },
	};
	static const char *const steps[] = { "graph",    "score", "relabel", "scales",
		                             "features", "files", "check",   NULL };
	struct rung_stage_report report = { 0 };
	struct tool_progress progress;
	int rc, code;

	tool_args_parse(&tool_stage_command, argc, argv, &args);
	tool_progress_init(&progress, argv[0], args.common.quiet);
	progress.steps = steps;
	connect(&args, &progress);
	code = fill(argv[0], &args);
	if (code != TOOL_DONE) {
		free_args(&args);
		return code;
	}
	if (!args.opts.dry_run)
		prepare_interruption(argv[0], &args.opts);
	rc = rung_stage(&args.opts, &report);
	tool_progress_end(&progress);
	/* a warning only: the new dataset is complete, and the old one is left next to it */
	if (rc == 0 && report.old_left)
		tool_error(argv[0], TOOL_DONE, "%s", rung_last_error());
	if (rc < 0)
		code = tool_fail(argv[0], rc);
	else if (!args.common.json)
		tool_stage_print(&args.opts, &report);
	else if (tool_json_print(argv[0], tool_stage_json(&args.opts, &report)) < 0)
		code = TOOL_FAILED;
	free_args(&args);
	return code;
}

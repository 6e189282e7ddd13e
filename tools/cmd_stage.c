/* SPDX-License-Identifier: Apache-2.0 */
/* rung stage: score and rank a graph, write features and graph in that order. */
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "tool.h"

enum {
	KEY_FEATURES = 0x1001,
	KEY_OUT,
	KEY_LABELS,
	KEY_SPLIT,
	KEY_SCORE,
	KEY_FORCE,
	KEY_DRY_RUN,
	KEY_ORDER,
	KEY_BORDER,
	KEY_STRIPE,
	KEY_IN_PLACE,
	KEY_MEMORY,
	KEY_RESUME,
};

struct stage_args {
	struct rung_stage_opts opts;
	struct rung_stage_split *splits;     /* [opts.split_count]; their names are copies of ours */
	struct tool_graph_args graph;
	struct tool_score_args score;
	struct tool_common common;
};

static const struct argp_option options[] = {
	{ "features", KEY_FEATURES, "SRC", 0, "Feature rows [vertices, ...]", 1 },
	{ "out", KEY_OUT, "DIR", 0, "Folder to make", 1 },
	{ "labels", KEY_LABELS, "SRC", 0, "Labels [vertices, ...], carried along in rank order", 1 },
	{ "split", KEY_SPLIT, "NAME=SRC", 0,
	  "Named vertex ids, or a bool mask over the vertices (repeatable); 'train' gives the train vertices of the score", 1 },
	{ "score", KEY_SCORE, "METHOD|SRC", 0,
	  "Rank by blend (default), expected, presample, ppr, wrpagerank, rpagerank or degree, or by the float32 values of a file", 3 },
	{ "order", KEY_ORDER, "NAME", 0, "Order of the rows in the file: rank", 3 },
	{ "force", KEY_FORCE, NULL, 0, "Replace DIR when it is a staged dataset", 5 },
	{ "dry-run", KEY_DRY_RUN, NULL, 0, "Check inputs and space, say what will be written, write nothing", 5 },
	{ "border", KEY_BORDER, "SHARE", OPTION_HIDDEN, NULL, 9 },
	{ "stripe", KEY_STRIPE, "DIR", OPTION_HIDDEN, NULL, 9 },
	{ "in-place", KEY_IN_PLACE, NULL, OPTION_HIDDEN, NULL, 9 },
	{ "memory", KEY_MEMORY, "SIZE", OPTION_HIDDEN, NULL, 9 },
	{ "resume", KEY_RESUME, NULL, OPTION_HIDDEN, NULL, 9 },
	{ 0 },
};

static void add_split(const struct argp_state *state, struct stage_args *args, const char *text)
{
	const char *equals = strchr(text, '=');
	struct rung_stage_split *split;

	if (!equals || equals == text || !equals[1])
		argp_error(state, "--split: '%s' is not NAME=SRC; write train=ids.npy", text);
	split = realloc(args->splits, (args->opts.split_count + 1) * sizeof(*args->splits));
	if (split) {
		args->splits = split;
		split = &args->splits[args->opts.split_count++];
		split->name = strndup(text, (size_t)(equals - text));
		split->spec = equals + 1;
	}
	if (!split || !split->name)
		argp_failure(state, TOOL_FAILED, 0, "no memory for the options");
}

/* A method by its name; anything that can only be an array is one. */
static void set_score(const struct argp_state *state, struct stage_args *args, const char *text)
{
	if (strstr(text, ".npy") || strstr(text, ".npz:") || strncmp(text, "raw:", 4) == 0) {
		args->opts.score_spec = text;
		return;
	}
	args->opts.score_spec = NULL;
	if (rung_score_method_parse(text, &args->score.opts.method) < 0)
		argp_error(state,
			   "--score: '%s' is no method and no file; give blend, expected, presample, ppr, wrpagerank, rpagerank, "
			   "degree, file.npy, file.npz:member or raw:...",
			   text);
}

static int parse_not_yet(int key, const char *arg, const struct argp_state *state)
{
	switch (key) {
	case KEY_ORDER:
		if (strcmp(arg, "reader") == 0)
			tool_not_yet(state, "--order reader");
		else if (strcmp(arg, "rank") != 0)
			argp_error(state, "--order: '%s' is no order; give rank", arg);
		return 0;
	case KEY_BORDER:
		tool_not_yet(state, "--border");
		return 0;
	case KEY_STRIPE:
		tool_not_yet(state, "--stripe");
		return 0;
	case KEY_IN_PLACE:
		tool_not_yet(state, "--in-place");
		return 0;
	case KEY_MEMORY:
		tool_not_yet(state, "--memory");
		return 0;
	case KEY_RESUME:
		tool_not_yet(state, "--resume");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void check_complete(const struct argp_state *state, const struct stage_args *args)
{
	if (args->graph.opts.spec_count == 0)
		argp_error(state, "--graph is missing: an edge index, csc:SRC,SRC or csr:SRC,SRC");
	if (!args->opts.features)
		argp_error(state, "--features is missing: file.npy, file.npz:member or raw:FILE,DTYPE,DIMxDIM");
	if (!args->opts.out_dir)
		argp_error(state, "--out is missing: the folder to make");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct stage_args *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->common;
		state->child_inputs[1] = &args->graph;
		state->child_inputs[2] = &args->score;
		return 0;
	case KEY_FEATURES:
		args->opts.features = arg;
		return 0;
	case KEY_OUT:
		args->opts.out_dir = arg;
		return 0;
	case KEY_LABELS:
		args->opts.labels = arg;
		return 0;
	case KEY_SPLIT:
		add_split(state, args, arg);
		return 0;
	case KEY_SCORE:
		set_score(state, args, arg);
		return 0;
	case KEY_FORCE:
		args->opts.force = 1;
		return 0;
	case KEY_DRY_RUN:
		args->opts.dry_run = 1;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' belongs to no option; the folder to make is --out %s", arg, arg);
		return 0;
	case ARGP_KEY_END:
		check_complete(state, args);
		return 0;
	default:
		return parse_not_yet(key, arg, state);
	}
}

static const struct argp_child children[] = {
	{ &tool_common_argp, 0, NULL, 0 }, { &tool_graph_argp, 0, NULL, 0 }, { &tool_score_argp, 0, NULL, 0 }, { 0 },
};
static const struct argp stage_argp = {
	.options = options,
	.parser = parse,
	.args_doc = "--graph GRAPH --features SRC --out DIR",
	.doc = "Score and rank the vertices of a graph, and write graph, features, labels and splits in that order into the "
	       "folder DIR. "
	       "A SRC is file.npy, file.npz:member, or raw:FILE,DTYPE,DIM[xDIM][,OFFSET].",
	.children = children,
};

static const char *score_name(const struct stage_args *args)
{
	return args->opts.score_spec ? "given" : rung_score_method_name(args->score.opts.method);
}

static json_t *score_json(const struct stage_args *args, const struct rung_score_report *score)
{
	json_t *root = json_object();
	int computed = !args->opts.score_spec && !args->opts.dry_run;

	tool_json_set(root, "method", tool_json_text(score_name(args)));
	tool_json_set(root, "seconds", computed ? tool_json_real(score->seconds) : json_null());
	tool_json_set(root, "iterations", computed && score->iterations ? tool_json_u64(score->iterations) : json_null());
	tool_json_set(root, "residual",
		      computed && tool_score_converges(args->score.opts.method) ? tool_json_real(score->residual) : json_null());
	tool_json_set(root, "edge_passes", computed ? tool_json_u64(score->edge_passes) : json_null());
	tool_json_set(root, "batches_sampled", computed ? tool_json_u64(score->batches_sampled) : json_null());
	return root;
}

static json_t *report_json(const struct stage_args *args, const struct rung_stage_report *report)
{
	json_t *root = json_object();

	tool_json_set(root, "out", tool_json_text(args->opts.out_dir));
	tool_json_set(root, "dry_run", json_boolean(args->opts.dry_run));
	tool_json_set(root, "vertices", tool_json_u64(report->vertex_count));
	tool_json_set(root, "edges", tool_json_u64(report->edge_count));
	tool_json_set(root, "row_bytes", tool_json_u64(report->row_bytes));
	tool_json_set(root, "feature_bytes", tool_json_u64(report->feature_bytes));
	tool_json_set(root, "bytes_written", tool_json_u64(report->bytes_written));
	tool_json_set(root, "free_bytes", tool_json_u64(report->free_bytes));
	tool_json_set(root, "memory_bytes", tool_json_u64(report->memory_bytes));
	tool_json_set(root, "score", score_json(args, &report->score));
	tool_json_set(root, "seconds", tool_json_real(report->seconds));
	tool_json_set(root, "peak_rss_bytes", tool_json_u64(tool_peak_rss()));
	return root;
}

static void print_report(const struct stage_args *args, const struct rung_stage_report *report)
{
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES];

	printf("%llu vertices, %llu edges, rows of %llu bytes\n", (unsigned long long)report->vertex_count,
	       (unsigned long long)report->edge_count, (unsigned long long)report->row_bytes);
	if (args->opts.dry_run) {
		printf("would write %s to %s", tool_bytes_text(text, (double)report->bytes_written), args->opts.out_dir);
		printf(" (%s free), holding %s in memory\n", tool_bytes_text(text, (double)report->free_bytes),
		       tool_bytes_text(more, (double)report->memory_bytes));
		return;
	}
	printf("ranked by %s", score_name(args));
	if (!args->opts.score_spec)
		printf(" in %s", tool_seconds_text(text, report->score.seconds));
	printf("\nwrote %s to %s in %s\n", tool_bytes_text(text, (double)report->bytes_written), args->opts.out_dir,
	       tool_seconds_text(more, report->seconds));
}

static void free_args(struct stage_args *args)
{
	for (size_t i = 0; i < args->opts.split_count; i++)
		free((char *)(uintptr_t)args->splits[i].name);
	free(args->splits);
	free(args->graph.specs);
}

int cmd_stage(int argc, char **argv)
{
	struct stage_args args = {
		.opts = RUNG_STAGE_OPTS_INIT, .graph = { .opts = RUNG_GRAPH_OPTS_INIT }, .score = { .opts = RUNG_SCORE_OPTS_INIT },
	};
	struct rung_stage_report report = { 0 };
	struct tool_progress progress;
	int rc, code = TOOL_DONE;

	argp_parse(&stage_argp, argc, argv, 0, NULL, &args);
	tool_progress_init(&progress, argv[0], args.common.quiet);
	args.opts.graph = args.graph.opts;
	args.opts.score = args.score.opts;
	args.opts.splits = args.splits;
	args.opts.fanouts = args.score.fanouts.hops;
	args.opts.fanout_count = args.score.fanouts.count;
	args.opts.batch_size = args.score.opts.batch_size;
	args.opts.threads = args.common.threads;
	args.opts.progress = tool_progress;
	args.opts.progress_ctx = &progress;
	rc = rung_stage(&args.opts, &report);
	tool_progress_end(&progress);
	if (rc < 0)
		code = tool_fail(argv[0], rc);
	else if (!args.common.json)
		print_report(&args, &report);
	else if (tool_json_print(argv[0], report_json(&args, &report)) < 0)
		code = TOOL_FAILED;
	free_args(&args);
	return code;
}

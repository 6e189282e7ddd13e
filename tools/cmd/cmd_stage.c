/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung stage: score and rank a graph, and write features and graph in that order. rung_stage() does
 * all of the work; this file reads the options, prints the report and prepares for signals, because
 * staging can run for hours and keeps finished work.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args/args.h"
#include "interrupt.h"
#include "output/json.h"
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

	args->opts.score_spec = NULL; /* if --score is repeated, the last one counts */
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
	else
		args->opts.features = arg;
}

static void add_stripe(const struct argp_state *state, void *ctx, const char *arg)
{
	struct stage_args *args = ctx;

	if (args->opts.stripe_count == RUNG_FEATURE_FILES_MAX)
		argp_error(state, "--stripe: too many folders; give at most %d",
		           RUNG_FEATURE_FILES_MAX);
	args->stripes[args->opts.stripe_count++] = arg;
}

/* The command has no operand; a forgotten --out is the usual reason for one. */
static void refuse_operand(const struct argp_state *state, void *args, const char *arg)
{
	(void)args;
	argp_error(state, "unexpected argument '%s'; to create this folder, use --out %s", arg,
	           arg);
}

/* A dataset (--dataset, --igb and so on) replaces the options for graph and features, which are
 * then optional. */
static void check_complete(const struct argp_state *state, void *ctx)
{
	const struct stage_args *args = ctx;

	if (!tool_graph_given(&args->graph) && !args->preset.kind)
		argp_error(
			state,
			"--graph is missing; give an edge index, csc:SRC,SRC, csr:SRC,SRC or none, "
			"or --dataset FILE");
	if (args->graph.none && args->preset.kind)
		argp_error(state, "--graph none: the given dataset provides a graph; omit --graph");
	if (!args->opts.features && !args->preset.kind)
		argp_error(state, "--features is missing; give file.npy, file.npz:member or "
		                  "raw:FILE,DTYPE,DIMxDIM");
	if (!args->opts.out_dir)
		argp_error(state, "--out is missing; give the folder to create");
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
	{ "features", "[NAME=]SRC", 1,
	  "Feature rows [vertices, ...]; with a NAME (repeatable) another array with a row per "
	  "vertex",
	  TOOL_SET(set_features) },
	{ "out", "DIR", 1, "Folder to create", TOOL_TEXT(struct stage_args, opts.out_dir) },
	{ "labels", "SRC", 1, "Labels [vertices, ...], written in rank order",
	  TOOL_TEXT(struct stage_args, opts.labels) },
	{ "split", "NAME=SRC", 1,
	  "Named vertex ids, or a bool mask over the vertices (repeatable); 'train' gives the "
	  "train vertices of the score",
	  TOOL_SET(add_split) },
	{ "score", "METHOD|SRC", 3,
	  "Rank by blend (default), expected, presample, ppr, wrpagerank, rpagerank or degree, "
	  "or by the float32 values of a file",
	  TOOL_SET(set_score), TOOL_KNOWN(TOOL_SCORES) },
	{ "stripe", "DIR", 3, "Stripe the rows over folders on several devices (repeatable)",
	  TOOL_SET(add_stripe) },
	{ "pad", "NAME", 3,
	  "Pad rows: none (default); sector: to a multiple of 512 bytes; auto: so that no row of "
	  "up to 4 KiB crosses a 4 KiB block, if that saves more reads than it adds bytes",
	  TOOL_WORD(struct stage_args, opts.pad, pads, "none, sector or auto") },
	{ "in-place", NULL, 3,
	  "Copy no rows: DIR then needs the file of --features, unchanged and at the same path",
	  TOOL_FLAG(struct stage_args, opts.in_place) },
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
	.operands = "--graph GRAPH --features SRC --out DIR\n--dataset FILE --out DIR\n"
		    "--ogb-mag240m ROOT --out DIR",
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

/* As in the manifest: "given" for the values of a file. */
static const char *score_name(const struct stage_args *args)
{
	return args->opts.score_spec ? "given" : rung_score_method_name(args->score.opts.method);
}

static json_t *score_json(const struct stage_args *args, const struct rung_score_report *score,
                          int already_staged)
{
	json_t *root = json_object();
	/* otherwise no score ran, and the zeros of the report are not results */
	int computed = !args->opts.score_spec && !args->opts.dry_run && !already_staged;

	tool_json_set(root, "method", tool_json_text(score_name(args)));
	tool_json_set(root, "seconds", computed ? tool_json_real(score->seconds) : json_null());
	tool_json_set(root, "iterations",
	              computed && score->iterations ? tool_json_u64(score->iterations)
	                                            : json_null());
	tool_json_set(root, "residual",
	              computed && tool_score_converges(args->score.opts.method)
	                      ? tool_json_real(score->residual)
	                      : json_null());
	tool_json_set(root, "edge_passes",
	              computed ? tool_json_u64(score->edge_passes) : json_null());
	tool_json_set(root, "batches_sampled",
	              computed ? tool_json_u64(score->batches_sampled) : json_null());
	return root;
}

/* The library stores 0 for a rate that it did not measure; JSON has null. */
static json_t *measured(double value)
{
	return value > 0 ? tool_json_real(value) : json_null();
}

/* How the rows were (or would be) brought into order, with the expected time of each way. */
static json_t *rows_json(const struct rung_stage_report *report)
{
	json_t *root = json_object(), *expected = json_object();

	tool_json_set(root, "row_order", tool_json_text(rung_row_order_name(report->row_order)));
	tool_json_set(root, "ranges", tool_json_u64(report->range_count));
	tool_json_set(root, "bytes_read", tool_json_u64(report->rows_bytes_read));
	tool_json_set(root, "bytes_written", tool_json_u64(report->rows_bytes_written));
	tool_json_set(root, "temp_bytes", tool_json_u64(report->temp_bytes));
	for (int order = RUNG_ROW_ORDER_PASSES; order <= RUNG_ROW_ORDER_GATHER; order++)
		tool_json_set(expected, rung_row_order_name((enum rung_row_order)order),
		              measured(report->row_order_seconds[order]));
	tool_json_set(root, "expected_seconds", expected);
	tool_json_set(root, "read_bytes_per_s", measured(report->read_bytes_per_s));
	tool_json_set(root, "write_bytes_per_s", measured(report->write_bytes_per_s));
	tool_json_set(root, "row_reads_per_s", measured(report->row_reads_per_s));
	tool_json_set(root, "resumed_rows", tool_json_u64(report->rows_resumed));
	return root;
}

/* Time and bytes of each phase: shows which one to speed up. */
static json_t *phases_json(const struct rung_stage_report *report)
{
	json_t *phases = json_array();

	for (size_t i = 0; i < report->phase_count; i++) {
		const struct rung_stage_phase *phase = &report->phases[i];
		json_t *entry = json_object();

		tool_json_set(entry, "name", tool_json_text(phase->name));
		tool_json_set(entry, "seconds", tool_json_real(phase->seconds));
		tool_json_set(entry, "bytes_read", tool_json_u64(phase->bytes_read));
		tool_json_set(entry, "bytes_written", tool_json_u64(phase->bytes_written));
		tool_json_append(phases, entry);
	}
	return phases;
}

/* `rows` is null if no rows are moved (in place, already staged), `phases` if nothing ran. */
static json_t *report_json(const struct stage_args *args, const struct rung_stage_report *report)
{
	json_t *root = json_object();

	tool_json_set(root, "out", tool_json_text(args->opts.out_dir));
	tool_json_set(root, "dry_run", json_boolean(args->opts.dry_run));
	tool_json_set(root, "vertices", tool_json_u64(report->vertex_count));
	tool_json_set(root, "edges", tool_json_u64(report->edge_count));
	tool_json_set(root, "row_bytes", tool_json_u64(report->row_bytes));
	tool_json_set(root, "row_stride", tool_json_u64(report->row_stride));
	tool_json_set(root, "feature_files", tool_json_u64(report->feature_file_count));
	tool_json_set(root, "feature_bytes", tool_json_u64(report->feature_bytes));
	tool_json_set(root, "bytes_written", tool_json_u64(report->bytes_written));
	tool_json_set(root, "free_bytes", tool_json_u64(report->free_bytes));
	tool_json_set(root, "memory_bytes", tool_json_u64(report->memory_bytes));
	tool_json_set(root, "budget_bytes", tool_json_u64(report->budget_bytes));
	tool_json_set(root, "graph_in_files", json_boolean(report->graph_in_files));
	tool_json_set(root, "resumed", json_boolean(report->resumed));
	tool_json_set(root, "already_staged", json_boolean(report->already_staged));
	tool_json_set(root, "in_place", json_boolean(report->in_place));
	tool_json_set(root, "rows",
	              report->in_place || report->already_staged ? json_null() : rows_json(report));
	tool_json_set(root, "phases",
	              args->opts.dry_run || report->already_staged ? json_null()
	                                                           : phases_json(report));
	tool_json_set(root, "score", score_json(args, &report->score, report->already_staged));
	tool_json_set(root, "seconds", tool_json_real(report->seconds));
	tool_json_set(root, "peak_rss_bytes", tool_json_u64(tool_peak_rss()));
	return root;
}

/*
 * The chosen order of a dry run and the reason for it:
 *
 *     rows by partition in 31 parts: reads 24.0 GiB, writes 24.0 GiB
 *     58 s expected, 210 s with passes, 97 s with gather: measured 2.10 GiB/s read, ...
 *
 * Without the second line if there was too little data to measure the devices.
 */
static void print_plan(const struct rung_stage_report *report)
{
	char in[TOOL_TEXT_BYTES], out[TOOL_TEXT_BYTES], text[TOOL_TEXT_BYTES];

	if (report->in_place) {
		printf("rows stay where they are\n");
		return;
	}
	printf("rows by %s in %llu part%s: reads %s, writes %s",
	       rung_row_order_name(report->row_order), (unsigned long long)report->range_count,
	       report->range_count == 1 ? "" : "s",
	       tool_bytes_text(in, (double)report->rows_bytes_read),
	       tool_bytes_text(out, (double)report->rows_bytes_written));
	if (report->temp_bytes)
		printf(", %s more temporarily", tool_bytes_text(text, (double)report->temp_bytes));
	if (report->rows_seconds > 0)
		printf("\n%s expected", tool_seconds_text(text, report->rows_seconds));
	for (int order = RUNG_ROW_ORDER_PASSES; order <= RUNG_ROW_ORDER_GATHER; order++) {
		if (order != (int)report->row_order && report->row_order_seconds[order] > 0)
			printf(", %s with %s",
			       tool_seconds_text(text, report->row_order_seconds[order]),
			       rung_row_order_name((enum rung_row_order)order));
	}
	if (report->rows_seconds > 0)
		printf(": measured %s/s read, %s/s written, %s rows/s read one by one",
		       tool_bytes_text(in, report->read_bytes_per_s),
		       tool_bytes_text(out, report->write_bytes_per_s),
		       tool_count_text(text, report->row_reads_per_s));
	printf("\n");
}

/* A few lines for people; a dry run, and a result that exists already, end it early. */
static void print_report(const struct stage_args *args, const struct rung_stage_report *report)
{
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES];

	printf("%llu vertices, %llu edges, rows of %llu bytes\n",
	       (unsigned long long)report->vertex_count, (unsigned long long)report->edge_count,
	       (unsigned long long)report->row_bytes);
	/* --pad: the user should see its cost */
	if (report->row_stride != report->row_bytes)
		printf("%llu bytes from row to row: %.1f %% more\n",
		       (unsigned long long)report->row_stride,
		       100.0 * (double)(report->row_stride - report->row_bytes) /
		               (double)report->row_bytes);
	if (report->already_staged) {
		printf("already staged: %s holds all %s of this job\n", args->opts.out_dir,
		       tool_bytes_text(text, (double)report->bytes_written));
		return;
	}
	if (args->opts.dry_run) {
		printf("would write %s to %s", tool_bytes_text(text, (double)report->bytes_written),
		       args->opts.out_dir);
		printf(" (%s free), holding %s in memory\n",
		       tool_bytes_text(text, (double)report->free_bytes),
		       tool_bytes_text(more, (double)report->memory_bytes));
		print_plan(report);
		return;
	}
	printf("ranked by %s", score_name(args));
	if (!args->opts.score_spec)
		printf(" in %s", tool_seconds_text(text, report->score.seconds));
	printf("\nwrote %s to %s in %s\n", tool_bytes_text(text, (double)report->bytes_written),
	       args->opts.out_dir, tool_seconds_text(more, report->seconds));
	if (report->in_place)
		printf("rows stay where they are: the dataset needs their file as it is\n");
}

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
	tool_preset_free(&args->preset);
}

/*
 * Make signals cancel staging instead of ending the process at once, and print how to continue.
 * The hint is printed only if the journal exists by then: it is created when the ranks are known,
 * and before that the library removes the folder. Both texts must outlive this call, because the
 * handler reads them; they are never freed. Without memory for them no hint is printed.
 */
static void prepare_interruption(const char *name, const char *out_dir)
{
	int length = (int)strlen(out_dir);
	char *journal, *hint;

	/* "out/" is staged in "out.partial", as in the library */
	while (length > 1 && out_dir[length - 1] == '/')
		length--;
	if (asprintf(&journal, "%.*s.partial/journal", length, out_dir) < 0)
		journal = NULL;
	if (asprintf(&hint,
	             "%s: finished work is in %.*s.partial; to continue, "
	             "run the same command with --resume\n",
	             name, length, out_dir) < 0)
		hint = NULL;
	tool_interrupt_hint(journal, hint);
	tool_interrupt_grace(TOOL_GRACE_MS);
}

int cmd_stage(int argc, char **argv)
{
	struct stage_args args = {
		.opts = RUNG_STAGE_OPTS_INIT,
		.graph = { .opts = RUNG_GRAPH_OPTS_INIT },
		.score = { .opts = RUNG_SCORE_OPTS_INIT },
	};
	static const char *const steps[] = { "graph", "score", "relabel", "features",
		                             "files", "check", NULL };
	struct rung_stage_report report = { 0 };
	struct tool_progress progress;
	int rc, code = TOOL_DONE;

	tool_args_parse(&tool_stage_command, argc, argv, &args);
	tool_progress_init(&progress, argv[0], args.common.quiet);
	progress.steps = steps;
	/* the options are complete now: their lists no longer move */
	args.opts.graph = args.graph.opts;
	args.opts.score = args.score.opts;
	args.opts.splits = args.splits;
	args.opts.split_count = args.split_count;
	args.opts.arrays = args.arrays;
	args.opts.array_count = args.array_count;
	args.opts.stripe_dirs = args.stripes;
	args.opts.fanouts = args.score.fanouts.hops;
	args.opts.fanout_count = args.score.fanouts.count;
	args.opts.batch_size = args.score.opts.batch_size;
	args.opts.threads = args.common.threads;
	args.opts.progress = tool_progress_update;
	args.opts.progress_ctx = &progress;
	/* after all options, because a preset fills in only those that were not given */
	rc = tool_preset_fill(&args.preset, &args.opts);
	if (rc == 0 && args.preset.preset && !args.score.draws_given)
		args.opts.score.draws = args.preset.preset->draws;
	if (rc == 0 && !args.opts.dry_run)
		prepare_interruption(argv[0], args.opts.out_dir);
	if (rc == 0)
		rc = rung_stage(&args.opts, &report);
	tool_progress_end(&progress);
	/* a warning only: the new dataset is complete, and the old one is left next to it */
	if (rc == 0 && report.old_left)
		tool_error(argv[0], TOOL_DONE, "%s", rung_last_error());
	if (rc < 0)
		code = tool_fail(argv[0], rc);
	else if (!args.common.json)
		print_report(&args, &report);
	else if (tool_json_print(argv[0], report_json(&args, &report)) < 0)
		code = TOOL_FAILED;
	free_args(&args);
	return code;
}

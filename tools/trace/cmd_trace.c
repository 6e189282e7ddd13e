/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung trace: sample epochs on a staged graph, and report the hits of tiers of any size and order.
 * The steps: open the outputs (cmd_trace.c), sample the epochs into a trace (trace_sample.c),
 * compute hits and curves from it (trace_curves.c), write chart, counts and report
 * (trace_report.c). No feature row is read.
 */
#include <stdlib.h>
#include <string.h>

#include "args/args.h"
#include "output/out_file.h"
#include "trace/trace.h"

#define METHODS_DEFAULT "degree,wrpagerank,expected,blend"

/* Each method once, in the order given: a curve that is listed twice would be computed twice. */
static void add_method(struct trace_args *args, enum rung_score_method method)
{
	for (uint32_t m = 0; m < args->method_count; m++) {
		if (args->methods[m] == method)
			return;
	}
	if (args->method_count < TRACE_METHODS_MAX)
		args->methods[args->method_count++] = method;
}

/* --scores replaces the whole list, also the default; "none" leaves it empty. `state` is NULL for
 * the default, which has no errors. */
static void set_methods(const struct argp_state *state, void *ctx, const char *text)
{
	struct trace_args *args = ctx;
	char *list = strdup(text), *next = list; /* a copy, because strsep() writes to it */

	args->method_count = 0;
	if (!list)
		argp_failure(state, TOOL_FAILED, 0, "no memory for the options");
	while (next && strcmp(text, "none") != 0) {
		const char *word = strsep(&next, ",");
		enum rung_score_method method;

		if (rung_score_method_parse(word, &method) < 0)
			argp_error(state, "--scores: unknown value '%s'; %s", word,
			           tool_meant(word, TOOL_SCORES ", none", TOOL_SCORES " or none"));
		add_method(args, method);
	}
	free(list);
}

static const struct tool_option options[] = {
	{ "fanout", "LIST", 1, "Neighbours drawn per hop (default: as staged)",
	  TOOL_FANOUTS(struct trace_args, fanouts) },
	{ "batch", "N", 1, "Seeds per batch (default: as staged)",
	  TOOL_U32(struct trace_args, batch, 1, UINT32_MAX) },
	{ "epochs", "N", 1, "Epochs to sample (default: 1)",
	  TOOL_U32(struct trace_args, epochs, 1, 1000000) },
	{ "seed", "N", 1, "Seed of shuffles and draws (default: 1)",
	  TOOL_U64(struct trace_args, seed, 0, UINT64_MAX) },
	{ "draws", "all|new", 1,
	  "Vertices that draw at a hop: all of the batch (default), or new ones, which the last "
	  "hop added",
	  TOOL_WORD(struct trace_args, draws, tool_draws, "all or new") },
	{ "scores", "LIST", 2, "Scores to compare, or none (default: " METHODS_DEFAULT ")",
	  TOOL_SET(set_methods), TOOL_OLD("methods"), TOOL_KNOWN(TOOL_SCORES ", none") },
	{ "rows", "N", 2, "Requests simulated for LRU and Belady (default: the first 67108864)",
	  TOOL_U64(struct trace_args, kept_max, 3, UINT64_MAX), TOOL_OLD("trace-rows") },
	{ "svg", "FILE", 3, "Draw the hit curves to FILE", TOOL_TEXT(struct trace_args, svg) },
	{ "out", "FILE.npy", 3, "Write the number of requests of each vertex: u64 by original id",
	  TOOL_TEXT(struct trace_args, out) },
	{ 0 },
};

static const struct tool_part parts[] = {
	TOOL_PART(tool_gpu_set, struct trace_args, store),
	TOOL_PART(tool_rows_budget_set, struct trace_args, store),
	TOOL_PART(tool_placement_set, struct trace_args, store),
	TOOL_PART(tool_lists_set, struct trace_args, store),
	TOOL_PART(tool_common_set, struct trace_args, common),
	{ 0 },
};
const struct tool_command tool_trace_command = {
	.options = options,
	.parts = parts,
	.operands = "DIR",
	.doc = "Sample epochs on the graph of the staged dataset DIR. Report how many of the row "
	       "requests each tier serves, and how many a tier of any size would serve with rows "
	       "in the order of each score, compared with the best static order (oracle), LRU and "
	       "Belady's rule.",
	.operand_kind = TOOL_OPERAND_DIR,
	.dir = offsetof(struct trace_args, dir),
	.headings = { [1] = "Budget and batches:",
	              [2] = "Comparison:",
	              [3] = "Output:",
	              TOOL_GPU_HEADING,
	              TOOL_MEMORY_HEADING },
	.examples = "  rung trace graph.rung --host 10%\n  rung trace graph.rung --scores "
		    "degree,blend --svg hits.svg",
};

struct outputs {
	struct tool_out svg, counts; /* --svg, --out; without a path their calls do nothing */
};

/* @return an exit code; if opening the second file fails, the caller abandons both */
static int open_outputs(const char *name, const struct trace_args *args, struct outputs *outputs)
{
	int code = tool_out_open(name, args->svg, &outputs->svg);

	return code ? code : tool_out_open(name, args->out, &outputs->counts);
}

/* Open the graph for scores, which read all edges in each pass, in the files of the dataset.
 * @return a status */
static int open_edges(const struct rung_dataset *ds, struct trace_input *input)
{
	struct rung_edges_opts opts = RUNG_EDGES_OPTS_INIT;
	const char *dir = rung_dataset_dir(ds);
	char *spec;
	int rc;

	if (asprintf(&spec, "csc:%s/graph_indptr.npy,%s/graph_indices.npy", dir, dir) < 0)
		return RUNG_E_NOMEM;
	opts.graph.specs = (const char *const[]){ spec };
	opts.graph.spec_count = 1;
	rc = rung_edges_open(&opts, &input->edges);
	free(spec);
	return rc;
}

/* Graph, train ranks, and the settings that were not given as they were staged. The caller frees
 * graph and seeds, even after a failure. @return an exit code */
static int open_input(const char *name, const struct trace_args *args, const struct tool_data *data,
                      struct trace_input *input)
{
	const struct rung_dataset_info *info = rung_dataset_info(data->ds);
	int rc;

	input->ds = data->ds;
	input->plan = data->plan;
	input->batch = args->batch ? args->batch : info->batch_size;
	tool_fanouts_of(&args->fanouts, info, &input->fanouts);
	rc = tool_train_ranks(data->ds, &input->seed_count, &input->seeds);
	if (rc == 0)
		rc = tool_lists_open(&args->store, data->ds, NULL, &input->lists);
	if (rc == 0 && input->lists.structure && args->method_count)
		rc = open_edges(data->ds, input);
	if (rc < 0)
		return tool_fail(name, rc);
	if (input->seed_count == 0)
		return tool_error(name, TOOL_FAILED,
		                  "%s: the split train is empty; stage it with train vertices",
		                  args->dir);
	return TOOL_DONE;
}

static int make_trace(const struct trace_args *args, const struct trace_input *input,
                      struct rung_trace **trace_out)
{
	struct rung_trace_opts opts = RUNG_TRACE_OPTS_INIT;

	opts.vertex_count = rung_dataset_info(input->ds)->vertex_count;
	opts.kept_max = args->kept_max;
	opts.threads = args->common.threads;
	opts.progress = tool_progress_update;
	opts.progress_ctx = input->progress;
	return rung_trace_create(&opts, trace_out);
}

/* Evaluate the trace, and write the outputs, which are not committed yet. @return an exit code */
static int count(const char *name, const struct trace_args *args, const struct trace_input *input,
                 const struct rung_trace *trace, struct outputs *outputs,
                 struct trace_result *result)
{
	int rc = trace_count_tiers(args, input, trace, result);

	if (rc == 0)
		rc = trace_add_curves(args, input, trace, result);
	tool_progress_end(input->progress);
	if (rc < 0)
		return tool_fail(name, rc);
	if (outputs->svg.file)
		trace_write_svg(args, input, result, outputs->svg.file);
	return trace_write_counts(name, input->ds, trace, &outputs->counts);
}

/* All steps from an open dataset to the report. The report comes after the commits, so the files
 * that it describes exist by then. @return an exit code */
static int run(const char *name, const struct trace_args *args, const struct tool_data *data,
               struct outputs *outputs)
{
	struct tool_progress progress;
	struct trace_input input = { .progress = &progress };
	struct trace_result result = { 0 };
	struct rung_trace *trace = NULL;
	int code, rc;

	tool_progress_init(&progress, name, args->common.quiet);
	code = open_input(name, args, data, &input);
	if (code == TOOL_DONE) {
		rc = make_trace(args, &input, &trace);
		code = rc < 0 ? tool_fail(name, rc) : TOOL_DONE;
	}
	if (code == TOOL_DONE)
		code = trace_sample(name, args, &input, trace, &result) < 0 ? TOOL_FAILED
		                                                            : TOOL_DONE;
	if (code == TOOL_DONE)
		code = count(name, args, &input, trace, outputs, &result);
	if (code == TOOL_DONE)
		code = tool_out_commit(&outputs->svg);
	if (code == TOOL_DONE)
		code = tool_out_commit(&outputs->counts);
	if (code == TOOL_DONE)
		code = trace_report(name, args, &input, &result);
	rung_trace_destroy(trace);
	rung_edges_close(input.edges);
	tool_lists_close(&input.lists);
	free(input.seeds);
	return code;
}

int cmd_trace(int argc, char **argv)
{
	struct trace_args args = { .seed = 1, .epochs = 1 };
	struct outputs outputs = { 0 };
	struct tool_data data;
	int rc, code;

	set_methods(NULL, &args, METHODS_DEFAULT);
	tool_args_parse(&tool_trace_command, argc, argv, &args);
	/* a plan without a store: tiers and budgets matter, their memory is not allocated */
	rc = tool_plan(argv[0], args.dir, &args.store, NULL, &data);
	if (rc < 0)
		return tool_fail(argv[0], rc);
	/* before sampling, which may take hours, so that a wrong path fails at once */
	code = open_outputs(argv[0], &args, &outputs);
	if (code == TOOL_DONE)
		code = run(argv[0], &args, &data, &outputs);
	tool_out_abandon(&outputs.svg);
	tool_out_abandon(&outputs.counts);
	tool_close(&data);
	return code;
}

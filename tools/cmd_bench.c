/* SPDX-License-Identifier: Apache-2.0 */
/* rung bench: measure gathers from a staged dataset, and check them. The parts are declared in bench.h. */
#include <stdlib.h>

#include "bench.h"

#define REQUESTS_MAX 4096u   /* threads * in-flight */

enum { KEY_IDS = 0x1001, KEY_ROWS, KEY_BATCH, KEY_IN_FLIGHT, KEY_FANOUT, KEY_SEED, KEY_CHECK };

static const struct argp_option options[] = {
	{ "ids", KEY_IDS, "KIND|SRC", 0,
	  "Rows to ask for: trace (those of sampled batches, the default), uniform, zipf (exponent 1 over the ranks), or the "
	  "vertex ids in a file", 1 },
	{ "rows", KEY_ROWS, "N", 0,
	  "Rows to gather (default: 1048576; of a file: all); trace goes on to the end of its last batch", 1 },
	{ "batch", KEY_BATCH, "N", 0,
	  "Rows of a request (default: 4096); of trace: seeds of a batch (default: as it was staged)", 1 },
	{ "fanout", KEY_FANOUT, "LIST", 0, "Neighbours drawn per hop by trace (default: as staged)", 1 },
	{ "in-flight", KEY_IN_FLIGHT, "N", 0, "Requests in flight of each submitting thread (default: 2)", 1 },
	{ "seed", KEY_SEED, "N", 0, "Seed of the ids (default: 1)", 1 },
	{ "check", KEY_CHECK, NULL, 0, "Compare every row with the staged file, read another way; the run is slower", 1 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct bench_args *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->store;
		state->child_inputs[1] = &args->store;
		state->child_inputs[2] = &args->store;
		state->child_inputs[3] = &args->common;
		return 0;
	case KEY_IDS:
		args->ids = arg;
		return 0;
	case KEY_ROWS:
		args->rows = tool_arg_u64(state, "--rows", arg, 1, UINT64_MAX / 16);
		return 0;
	case KEY_BATCH:
		args->batch = tool_arg_u32(state, "--batch", arg, 1, UINT32_MAX);
		return 0;
	case KEY_FANOUT:
		args->fanouts = tool_arg_fanouts(state, "--fanout", arg);
		return 0;
	case KEY_IN_FLIGHT:
		args->in_flight = tool_arg_u32(state, "--in-flight", arg, 1, REQUESTS_MAX);
		return 0;
	case KEY_SEED:
		args->seed = tool_arg_u64(state, "--seed", arg, 0, UINT64_MAX);
		return 0;
	case KEY_CHECK:
		args->check = 1;
		return 0;
	case ARGP_KEY_ARG:
		tool_arg_dir(state, arg, &args->dir);
		return 0;
	case ARGP_KEY_END:
		if (!args->dir)
			argp_error(state, "DIR is missing: the staged dataset");
		if (args->common.threads == 0)
			args->common.threads = 1;
		args->store.vertex_ids = bench_ids_are_vertices(args);
		if ((uint64_t)args->common.threads * args->in_flight > REQUESTS_MAX) {
			argp_error(state, "--threads %u times --in-flight %u is more than %u requests", args->common.threads,
				   args->in_flight, REQUESTS_MAX);
		}
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {
	{ &tool_gpu_argp, 0, NULL, 0 },    { &tool_budget_argp, 0, NULL, 0 }, { &tool_engine_argp, 0, NULL, 0 },
	{ &tool_common_argp, 0, NULL, 0 }, { 0 },
};
static const struct argp bench_argp = {
	.options = options,
	.parser = parse,
	.args_doc = "DIR",
	.doc = "Gather rows of the staged dataset DIR and report rows per second, reads, latencies and CPU time. Ids are made "
	       "and the store "
	       "is opened before the clock starts. --threads is the number of submitting threads (default: 1).",
	.children = children,
};

static int open_store(const char *name, const struct bench_args *args, const struct bench_ids *ids, struct tool_data *data)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	int rc;

	if (ids->rows_max > UINT32_MAX) {
		return tool_error(name, TOOL_FAILED, "a request of %llu rows is too long; give a smaller --batch",
		                  (unsigned long long)ids->rows_max);
	}
	opts.requests_max = args->common.threads * args->in_flight;
	opts.batch_rows_max = (uint32_t)ids->rows_max;
	rc = tool_open_store(&args->store, &opts, data);
	return rc < 0 ? tool_fail(name, rc) : TOOL_DONE;
}

/* Everything between an open dataset and its closing; returns an exit code. */
static int bench(const char *name, const struct bench_args *args, struct tool_data *data, struct tool_progress *progress)
{
	struct bench_ids ids;
	struct bench_truth truth;
	struct bench_result result = { 0 };
	int code, rc = bench_ids_make(name, args, data->ds, progress, &ids);

	tool_progress_end(progress);
	code = tool_exit_code(rc);
	if (rc < 0)
		goto free_ids;
	rc = bench_truth_open(name, data->ds, ids.space, &truth);
	code = tool_exit_code(rc);
	if (rc < 0)
		goto free_ids;
	code = open_store(name, args, &ids, data);
	if (code)
		goto close_truth;
	rc = bench_run(name, args, data->store, &ids, &truth, progress, &result);
	code = rc < 0 ? tool_exit_code(rc) : bench_report(name, args, data, &ids, &result);
	free(result.latency_ns);
close_truth:
	bench_truth_close(&truth);
free_ids:
	bench_ids_free(&ids);
	return code;
}

int cmd_bench(int argc, char **argv)
{
	struct bench_args args = { .ids = "trace", .in_flight = 2, .seed = 1 };
	struct tool_progress progress;
	struct tool_data data;
	int rc, code;

	argp_parse(&bench_argp, argc, argv, 0, NULL, &args);
	tool_progress_init(&progress, argv[0], args.common.quiet);
	rc = tool_plan(argv[0], args.dir, &args.store, &data);
	if (rc < 0)
		return tool_fail(argv[0], rc);
	code = bench(argv[0], &args, &data, &progress);
	rc = tool_close(&data);
	if (rc < 0 && code == TOOL_DONE)
		code = tool_fail(argv[0], rc);
	return code;
}

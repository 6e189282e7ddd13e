/* SPDX-License-Identifier: Apache-2.0 */
/* rung bench: measure gathers from a staged dataset, and check them. The ids are made in bench_ids.c, timed in bench_run.c. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "json.h"

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
		state->child_inputs[2] = &args->common;
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
	{ &tool_budget_argp, 0, NULL, 0 }, { &tool_engine_argp, 0, NULL, 0 }, { &tool_common_argp, 0, NULL, 0 }, { 0 },
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

static double percentile_us(const struct bench_result *result, uint64_t count, double share)
{
	uint64_t idx = (uint64_t)(share * (double)count);

	return (double)result->latency_ns[idx < count ? idx : count - 1] / 1e3;
}

/* What the run itself did: the counters after it, less those before. */
static struct rung_store_stats difference(const struct bench_result *result)
{
	struct rung_store_stats stats = result->after;

	for (uint32_t i = 0; i < stats.tier_count; i++) {
		stats.tiers[i].hits -= result->before.tiers[i].hits;
		stats.tiers[i].bytes -= result->before.tiers[i].bytes;
	}
	stats.device_reads -= result->before.device_reads;
	stats.device_read_bytes -= result->before.device_read_bytes;
	stats.merged_rows -= result->before.merged_rows;
	stats.duplicate_rows -= result->before.duplicate_rows;
	stats.retries -= result->before.retries;
	return stats;
}

static void set_settings(json_t *root, const struct bench_args *args, const struct bench_ids *ids,
			 const struct rung_store_stats *stats)
{
	tool_json_set(root, "engine", tool_json_text(stats->engine));
	tool_json_set(root, "engine_why", tool_json_text(stats->engine_why && *stats->engine_why ? stats->engine_why : NULL));
	tool_json_set(root, "direct", json_boolean(stats->direct));
	tool_json_set(root, "queue_depth", tool_json_u64(stats->queue_depth));
	tool_json_set(root, "sector_bytes", tool_json_u64(stats->sector_bytes));
	tool_json_set(root, "ids", tool_json_text(args->ids));
	tool_json_set(root, "requests", tool_json_u64(ids->batch_count));
	tool_json_set(root, "in_flight", tool_json_u64(args->in_flight));
	tool_json_set(root, "threads", tool_json_u64(args->common.threads));
	tool_json_set(root, "seed", tool_json_u64(args->seed));
	tool_json_set(root, "checked", json_boolean(args->check));
}

static json_t *bench_json(const struct bench_args *args, const struct bench_ids *ids, uint64_t row_bytes,
			  const struct bench_result *result)
{
	struct rung_store_stats stats = difference(result);
	json_t *root = json_object(), *latency = json_object();

	tool_json_set(latency, "p50", tool_json_real(percentile_us(result, ids->batch_count, 0.5)));
	tool_json_set(latency, "p99", tool_json_real(percentile_us(result, ids->batch_count, 0.99)));
	tool_json_set(latency, "max", tool_json_real(percentile_us(result, ids->batch_count, 1)));
	tool_json_set(root, "rows", tool_json_u64(ids->count));
	tool_json_set(root, "row_bytes", tool_json_u64(row_bytes));
	tool_json_set(root, "seconds", tool_json_real(result->seconds));
	tool_json_set(root, "rows_per_s", tool_json_real((double)ids->count / result->seconds));
	tool_json_set(root, "bytes_per_s", tool_json_real((double)ids->count * (double)row_bytes / result->seconds));
	tool_json_set(root, "device_reads", tool_json_u64(stats.device_reads));
	tool_json_set(root, "device_read_bytes", tool_json_u64(stats.device_read_bytes));
	tool_json_set(root, "merged_rows", tool_json_u64(stats.merged_rows));
	tool_json_set(root, "duplicate_rows", tool_json_u64(stats.duplicate_rows));
	tool_json_set(root, "retries", tool_json_u64(stats.retries));
	tool_json_set(root, "cache_hits", json_null());   /* this version keeps no cold rows */
	tool_json_set(root, "tiers", tool_json_hits(&stats));
	tool_json_set(root, "latency_us", latency);
	tool_json_set(root, "cpu_seconds", tool_json_real(result->cpu_seconds));
	tool_json_set(root, "wrong_rows", args->check ? tool_json_u64(result->wrong_rows) : json_null());
	set_settings(root, args, ids, &stats);
	return root;
}

static void print_bench(const struct bench_args *args, const struct bench_ids *ids, uint64_t row_bytes,
			const struct bench_result *result)
{
	struct rung_store_stats stats = difference(result);
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES];
	double rows = (double)ids->count;

	tool_print_hits(&stats);
	tool_print_engine(&stats);
	printf("%llu rows of %llu bytes in %llu requests: %s", (unsigned long long)ids->count, (unsigned long long)row_bytes,
	       (unsigned long long)ids->batch_count, tool_seconds_text(text, result->seconds));
	printf(", %s rows/s, %s/s\n", tool_count_text(text, rows / result->seconds),
	       tool_bytes_text(more, rows * (double)row_bytes / result->seconds));
	printf("device: %s reads", tool_count_text(text, (double)stats.device_reads));
	printf(", %s; %llu rows merged, %llu asked for twice\n", tool_bytes_text(more, (double)stats.device_read_bytes),
	       (unsigned long long)stats.merged_rows, (unsigned long long)stats.duplicate_rows);
	printf("request: p50 %.0f us, p99 %.0f us, max %.0f us; CPU %.2f s\n", percentile_us(result, ids->batch_count, 0.5),
	       percentile_us(result, ids->batch_count, 0.99), percentile_us(result, ids->batch_count, 1), result->cpu_seconds);
	if (args->check)
		printf("checked: %llu wrong rows (times include the check)\n", (unsigned long long)result->wrong_rows);
}

static int report(const char *name, const struct bench_args *args, const struct bench_ids *ids, uint64_t row_bytes,
                  const struct bench_result *result)
{
	if (!args->common.json)
		print_bench(args, ids, row_bytes, result);
	else if (tool_json_print(name, bench_json(args, ids, row_bytes, result)) < 0)
		return TOOL_FAILED;
	if (result->wrong_rows == 0)
		return TOOL_DONE;
	return tool_error(name, TOOL_FAILED, "%llu wrong rows; the first has id %llu", (unsigned long long)result->wrong_rows,
	                  (unsigned long long)result->first_wrong);
}

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
	opts.vertex_ids = ids->space == RUNG_VERTICES;
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
	code = rc < 0 ? tool_exit_code(rc) : report(name, args, &ids, truth.row_bytes, &result);
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
	rc = tool_plan(args.dir, &args.store, &data);
	if (rc < 0)
		return tool_fail(argv[0], rc);
	code = bench(argv[0], &args, &data, &progress);
	rc = tool_close(&data);
	if (rc < 0 && code == TOOL_DONE)
		code = tool_fail(argv[0], rc);
	return code;
}

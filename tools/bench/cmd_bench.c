/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung bench: measure gathers from a staged dataset, and check them. The parts are declared in
 * bench.h. The order of bench(): ids, the check's files, a forecast, and only then the store, whose
 * buffers have to fit the longest request.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "args/args.h"
#include "bench/bench.h"
#include "interrupt.h"

#define REQUESTS_MAX   4096u     /* threads * in-flight */
#define LOOK_AHEAD_MAX 4096u     /* the most announced batches that a store accepts */
#define HOLD_POLL_NS   100000000 /* interval between two checks for a signal */

/* Check the options for the origin of the store and for sharing it. An attached store already has
 * its dataset and its budgets. */
static void check_origin(const struct argp_state *state, const struct bench_args *args)
{
	const char *budget = args->store.host.given    ? "host"
	                     : args->store.cache.given ? "cache"
	                     : args->store.numa_given  ? "numa-node"
	                                               : args->store.device_option;

	if (args->dir && args->attach)
		argp_error(state,
		           "DIR and --attach exclude each other: the store at %s determines the "
		           "dataset",
		           args->attach);
	if (args->attach && budget)
		argp_error(state,
		           "--attach and --%s exclude each other: the process that shares the "
		           "store has already placed the rows",
		           budget);
	if (args->attach && args->share)
		argp_error(state,
		           "--attach and --share exclude each other: other processes can attach to "
		           "%s, too",
		           args->attach);
	if (args->store.profile && (args->attach || args->in_flight < 2 || args->look_ahead ||
	                            bench_ids_are_vertices(args)))
		argp_error(state,
		           "--profile predicts only runs with a private store, two or more "
		           "requests in flight, and generated ids; omit --attach, --in-flight 1, "
		           "--look-ahead and ids in files");
	if (args->store.structure_given && !bench_ids_are_sampled(args))
		argp_error(state, "--structure needs --ids trace: other ids are not sampled");
	if (args->hold && !args->share)
		argp_error(state, "--hold needs --share: it keeps a shared store open");
	if (args->private_cache && !args->share && !args->attach)
		argp_error(state, "--private-cache needs --share or --attach: without them, the "
		                  "cache is always private");
}

static const struct tool_option options[] = {
	{ "ids", "KIND|SRC", 1,
	  "Rows to request: trace (those of sampled batches, the default), uniform, zipf (exponent "
	  "1 over the ranks), or the vertex ids in a file",
	  TOOL_TEXT(struct bench_args, ids) },
	{ "rows", "N", 1,
	  "Rows to gather (default: 1048576; from a file: all); trace also gathers the rest of its "
	  "last batch",
	  TOOL_U64(struct bench_args, rows, 1, UINT64_MAX / 16) },
	{ "warmup", "N", 1,
	  "Rows to gather before the clock starts, in whole requests (default: 0)",
	  TOOL_U64(struct bench_args, warmup, 0, UINT64_MAX / 16) },
	{ "batch", "N", 1,
	  "Rows per request (default: 4096); with trace: seeds per batch (default: as staged)",
	  TOOL_U32(struct bench_args, batch, 1, UINT32_MAX) },
	{ "fanout", "LIST", 1, "With trace: neighbours drawn per hop (default: as staged)",
	  TOOL_FANOUTS(struct bench_args, fanouts) },
	{ "in-flight", "N", 1, "Requests in flight per submitting thread (default: 2)",
	  TOOL_U32(struct bench_args, in_flight, 1, REQUESTS_MAX) },
	{ "look-ahead", "N", 1,
	  "Announce N batches ahead, so that the cache keeps their rows (default: 0)",
	  TOOL_U32(struct bench_args, look_ahead, 0, LOOK_AHEAD_MAX), TOOL_OLD("prefetch") },
	{ "seed", "N", 1, "Seed of the ids (default: 1)",
	  TOOL_U64(struct bench_args, seed, 0, UINT64_MAX) },
	{ "check", NULL, 1,
	  "Compare every row with the staged file, read without the store; the run is slower",
	  TOOL_FLAG(struct bench_args, check) },
	{ "share", "PATH", 2,
	  "While the store is open, share it through the socket PATH, which is in a private folder",
	  TOOL_TEXT(struct bench_args, share) },
	{ "hold", NULL, 2,
	  "With --share: after the report, keep the store open until SIGINT or SIGTERM",
	  TOOL_FLAG(struct bench_args, hold) },
	{ "attach", "PATH", 2, "Use the store that another process shares at PATH, instead of DIR",
	  TOOL_TEXT(struct bench_args, attach) },
	{ "private-cache", NULL, 2,
	  "With --share or --attach: do not share the cold-row cache, because every process could "
	  "write to it",
	  TOOL_FLAG(struct bench_args, private_cache) },
	{ 0 },
};

static void check(const struct argp_state *state, void *ctx)
{
	struct bench_args *args = ctx;

	if (!args->attach)
		tool_need_dir(state, args->dir);
	check_origin(state, args);
	/* with --share: processes that attach may use vertex ids, and cannot load the map
	 * themselves */
	args->store.vertex_ids = bench_ids_are_vertices(args) || args->share;
	if ((uint64_t)args->common.threads * args->in_flight > REQUESTS_MAX)
		argp_error(
			state,
			"--threads %u times --in-flight %u exceeds %u requests; lower one of them",
			args->common.threads, args->in_flight, REQUESTS_MAX);
}

static const struct tool_part parts[] = {
	TOOL_PART(tool_gpu_set, struct bench_args, store),
	TOOL_PART(tool_budget_set, struct bench_args, store),
	TOOL_PART(tool_placement_set, struct bench_args, store),
	TOOL_PART(tool_structure_set, struct bench_args, store),
	TOOL_PART(tool_engine_set, struct bench_args, store),
	TOOL_PART(tool_common_set, struct bench_args, common),
	{ 0 },
};
const struct tool_command tool_bench_command = {
	.options = options,
	.parts = parts,
	.operands = "DIR\n--attach PATH",
	.doc = "Gather rows of the staged dataset DIR and report rows per second, reads, latencies "
	       "and CPU time. Ids are generated and the store is opened before the clock starts. "
	       "--threads is the number of submitting threads (default: from --profile, else 1).",
	.operand_kind = TOOL_OPERAND_DIR_OR_NOT,
	.dir = offsetof(struct bench_args, dir),
	.check = check,
};

/*
 * Open the dataset of a shared store. Its folder is known only after attaching, but the sizes for
 * the real attachment are known only after the ids have been generated from the dataset. So this
 * attaches with minimal sizes, reads the folder, and detaches. @return a status
 */
static int find_shared(const struct bench_args *args, struct tool_data *data)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	struct rung_store_info info = { .size = sizeof(info) };
	int rc;

	opts.requests_max = opts.batch_rows_max = 1;
	rc = tool_attach_store(args->attach, &args->store, &opts, data);
	if (rc < 0)
		return rc;
	rc = rung_store_info(data->store, &info);
	if (rc >= 0)
		rc = rung_dataset_open(info.dataset_dir, &data->ds);
	rung_store_close(data->store);
	data->store = NULL;
	return rc;
}

/* Since find_shared(), another store may have been shared at the path, or another dataset moved to
 * the folder. @return an exit code */
static int check_attached(const char *name, const struct bench_args *args,
                          const struct tool_data *data)
{
	const struct rung_dataset_info *dataset = rung_dataset_info(data->ds);
	struct rung_store_info info = { .size = sizeof(info) };
	int rc = rung_store_info(data->store, &info);

	if (rc < 0)
		return tool_fail(name, rc);
	if (strcmp(info.dataset_dir, rung_dataset_dir(data->ds)) == 0 &&
	    info.vertex_count == dataset->vertex_count &&
	    info.features.dtype == dataset->features.dtype &&
	    info.features.row_bytes == dataset->features.row_bytes)
		return TOOL_DONE;
	return tool_error(name, TOOL_FAILED,
	                  "%s: not the dataset of the store shared at %s; share the store again",
	                  rung_dataset_dir(data->ds), args->attach);
}

/* Open or attach the store, with room for the longest request. @return an exit code */
static int open_store(const char *name, const struct bench_args *args, const struct bench_ids *ids,
                      struct tool_data *data)
{
	/* until a trace is sampled completely, any further request may have as many rows as the
	 * bound */
	const uint64_t most = ids->counted ? ids->rows_max : ids->rows_bound;
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	int rc;

	if (most > UINT32_MAX) {
		return tool_error(name, TOOL_FAILED,
		                  "a request of %llu rows is too large; give a smaller --batch",
		                  (unsigned long long)most);
	}
	opts.requests_max = args->common.threads * args->in_flight;
	opts.batch_rows_max = (uint32_t)most;
	opts.share_path = args->share;
	opts.private_cache = args->private_cache;
	/* the window holds announced batches, the one being submitted, and those in flight */
	if (args->look_ahead)
		opts.window_rows_max = ((uint64_t)args->look_ahead + 1 + opts.requests_max) * most;
	if (args->attach)
		rc = tool_attach_store(args->attach, &args->store, &opts, data);
	else
		rc = tool_open_store(&args->store, &opts, data);
	if (rc < 0)
		return tool_fail(name, rc);
	return args->attach ? check_attached(name, args, data) : TOOL_DONE;
}

/* Keep the store shared until a signal. The signal is polled for, because one that another thread
 * receives does not interrupt the sleep of this thread. */
static void hold(const char *name, const struct bench_args *args)
{
	const struct timespec pause = { .tv_nsec = HOLD_POLL_NS };

	if (!args->common.quiet)
		tool_error(name, TOOL_DONE, "the store stays shared at %s until SIGINT or SIGTERM",
		           args->share);
	while (!tool_interrupted())
		nanosleep(&pause, NULL);
}

/* A pass over the ids of a run, for its forecast. */
struct walk {
	struct bench_ids *ids;
	struct tool_progress *progress;
	uint64_t batch, end; /* the next request; requests before `end` are in memory */
	uint64_t rows;       /* of the requests before `batch` */
	int first_round;     /* nonzero: end with the first round */
	int failed;          /* nonzero: the ids failed, and the reason is printed */
};

/* A rung_forecast_next_fn. */
static int next_batch(void *ctx, const uint64_t **ranks_out, uint64_t *count_out)
{
	struct walk *walk = ctx;
	int rc = 0;

	if (bench_ids_over(walk->ids, walk->batch) ||
	    (walk->first_round && walk->batch == walk->ids->end))
		return 0;
	if (walk->batch == walk->end)
		rc = bench_ids_round(walk->ids, walk->batch, &walk->end);
	if (tool_progress_update(walk->progress, "forecast", walk->rows, walk->ids->count))
		rc = RUNG_E_CANCELED;
	walk->failed = rc < 0;
	if (rc < 0)
		return rc;
	*ranks_out = bench_ids_of(walk->ids, walk->batch++, count_out);
	walk->rows += *count_out;
	return 1;
}

/*
 * Forecast the run, or only its first round. The first round is enough to open the store, and lets
 * a long run begin soon: if a signal ends the run, there are results of gathers, not just part of a
 * forecast. The forecast of the whole run follows after it.
 * @return a status, the failure printed
 */
static int forecast(const char *name, const struct bench_args *args, const struct tool_data *data,
                    struct bench_ids *ids, int first_round, struct tool_progress *progress,
                    struct rung_forecast *out)
{
	struct rung_forecast_opts opts = RUNG_FORECAST_OPTS_INIT;
	struct walk walk = { .ids = ids, .first_round = first_round, .progress = progress };
	int rc;

	if (first_round) /* bench_ids_make() has generated it already */
		walk.end = ids->end;
	opts.profile = data->profile;
	opts.merge_gap_bytes = args->store.merge_gap_bytes;
	opts.no_merge = args->store.no_merge;
	opts.threads = args->common.threads;
	/* the store has placed its rows by the first forecast */
	opts.keep_placement = !first_round;
	/* a first round of warm-up requests only would leave nothing to forecast */
	if (!first_round || ids->warmup_count < ids->end)
		opts.warmup_batches = ids->warmup_count;
	rc = rung_plan_forecast(data->plan, &opts, next_batch, &walk, out);
	tool_progress_end(progress);
	if (rc < 0 && !walk.failed)
		tool_fail(name, rc);
	return rc;
}

/* The number of threads chosen by the plan, but at most the number of CPUs available to this
 * process, which can be fewer than those of the profile. */
static uint32_t default_threads(const struct bench_args *args, const struct tool_data *data)
{
	const struct rung_tuning *tuning = data->plan ? rung_plan_tuning(data->plan) : NULL;
	const uint32_t most = REQUESTS_MAX / args->in_flight;
	uint32_t threads = tuning ? tuning->threads : 1;
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && threads > (uint32_t)CPU_COUNT(&cpus))
		threads = (uint32_t)CPU_COUNT(&cpus);
	threads = threads < most ? threads : most;
	return threads ? threads : 1;
}

/* Print the result, with the forecast of all requests, which a long run computes only now.
 * @return an exit code */
static int report(const char *name, const struct bench_args *args, const struct tool_data *data,
                  struct bench_ids *ids, int forecast_is_whole, struct tool_progress *progress,
                  struct rung_forecast *predicted, const struct bench_result *result)
{
	const int wanted = data->profile && !result->interrupted;
	int code, rc = 0;

	if (wanted && !forecast_is_whole)
		rc = forecast(name, args, data, ids, 0, progress, predicted);
	code = bench_report(name, args, data, ids, wanted && rc >= 0 ? predicted : NULL, result);
	return rc < 0 && code == TOOL_DONE ? tool_exit_code(rc) : code;
}

/* Everything between opening and closing the dataset. @return an exit code */
static int bench(const char *name, const struct bench_args *args, struct tool_data *data,
                 struct tool_progress *progress)
{
	struct bench_ids ids;
	struct bench_truth truth = { .file_count = 0 };
	struct rung_forecast predicted = { .size = sizeof(predicted) };
	struct bench_result result = { 0 };
	int whole, code, rc = bench_ids_make(name, args, data, progress, &ids);

	tool_progress_end(progress);
	whole = bench_ids_over(&ids, ids.end); /* all requests are in memory */
	code = tool_exit_code(rc);
	if (rc < 0)
		goto free_ids;
	rc = args->check ? bench_truth_open(name, data->ds, ids.space, &truth) : 0;
	code = tool_exit_code(rc);
	if (rc < 0)
		goto free_ids;
	if (data->profile)
		rc = forecast(name, args, data, &ids, 1, progress, &predicted);
	code = rc < 0 ? tool_exit_code(rc) : open_store(name, args, &ids, data);
	if (code)
		goto close_truth;
	/* from here on a signal must not end the process before the store is closed, which removes
	 * the socket of --share */
	tool_interrupt_grace(TOOL_GRACE_MS);
	rc = bench_run(name, args, data->store, &ids, &truth, progress, &result);
	code = rc < 0 ? TOOL_FAILED /* opening has ruled out missing hardware and wrong usage */
	              : report(name, args, data, &ids, whole, progress, &predicted, &result);
	/* workers still use the store and the ids: nothing can be closed, so the process ends */
	if (result.left_behind) {
		tool_flush(name);
		tool_interrupt_end();
	}
	tool_interrupt_grace(TOOL_GRACE_MS); /* shorter: only for closing */
	free(result.latency_ns);
	if (code == TOOL_DONE && args->hold && !tool_interrupted()) {
		code = tool_flush(name);
		if (code == TOOL_DONE)
			hold(name, args);
	}
close_truth:
	bench_truth_close(&truth);
free_ids:
	bench_ids_free(&ids);
	return code;
}

int cmd_bench(int argc, char **argv)
{
	struct bench_args args = { .ids = "trace", .in_flight = 2, .seed = 1 };
	struct tool_sampling sampling;
	struct tool_progress progress;
	struct tool_data data = { 0 };
	int rc, code;

	tool_args_parse(&tool_bench_command, argc, argv, &args);
	tool_progress_init(&progress, argv[0], args.common.quiet);
	sampling = (struct tool_sampling){
		.fanouts = args.fanouts, .batch = args.batch, .seed = args.seed, .apart = 1
	};
	rc = args.attach ? find_shared(&args, &data)
	                 : tool_plan(argv[0], args.dir, &args.store,
	                             bench_ids_are_sampled(&args) ? &sampling : NULL, &data);
	if (rc < 0)
		return tool_fail(argv[0], rc);
	if (args.common.threads == 0)
		args.common.threads = default_threads(&args, &data);
	code = bench(argv[0], &args, &data, &progress);
	rc = tool_close(&data);
	if (rc < 0 && code == TOOL_DONE)
		code = tool_fail(argv[0], rc);
	return code;
}

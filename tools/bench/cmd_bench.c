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
#include <unistd.h>

#include "args/args.h"
#include "bench/bench.h"
#include "interrupt.h"
#include "output/status.h"

#define HOLD_POLL_NS 100000000 /* interval between two checks for a signal */

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
	    info.quantization.format == dataset->quantization.format &&
	    (info.quantization.format != RUNG_QUANT_NONE
	             ? info.quantization.row_bytes == dataset->stored_row_bytes
	             : info.features.dtype == dataset->features.dtype &&
	                       info.features.row_bytes == dataset->features.row_bytes))
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
	opts.refill_threads = args->refill_threads;
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
	uint64_t last;       /* end before this request, or with the ids */
	uint64_t rows;       /* of the requests before `batch` */
	int first_round;     /* nonzero: end with the first round */
	int failed;          /* nonzero: the ids failed, and the reason is printed */
};

/* A rung_forecast_next_fn. */
static int next_batch(void *ctx, const uint64_t **ranks_out, uint64_t *count_out)
{
	struct walk *walk = ctx;
	int rc = 0;

	if (bench_ids_over(walk->ids, walk->batch) || walk->batch >= walk->last ||
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
 * Forecast the requests before `last`, or with 0 only those of the first round. The first round is
 * enough to open the store, and lets a long run begin soon: if a signal ends the run, there are
 * results of gathers, not just part of a forecast. The forecast of all requests follows after it.
 * @return a status, the failure printed
 */
static int forecast(const char *name, const struct bench_args *args, const struct tool_data *data,
                    struct bench_ids *ids, uint64_t last, struct tool_progress *progress,
                    struct rung_forecast *out)
{
	struct rung_forecast_opts opts = RUNG_FORECAST_OPTS_INIT;
	const int first_round = last == 0;
	struct walk walk = { .ids = ids, .first_round = first_round, .progress = progress };
	int rc;

	walk.last = first_round ? UINT64_MAX : last;
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
	const uint32_t most = BENCH_REQUESTS_MAX / args->in_flight;
	uint32_t threads = tuning ? tuning->threads : 1;
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && threads > (uint32_t)CPU_COUNT(&cpus))
		threads = (uint32_t)CPU_COUNT(&cpus);
	threads = threads < most ? threads : most;
	return threads ? threads : 1;
}

/* The runs of --repeat. */
struct runs {
	struct bench_result results[BENCH_REPEAT_MAX];
	uint32_t count;
};

/* Print the results, with the forecast of all requests, which a long run computes only now.
 * @return an exit code */
static int report(const char *name, const struct bench_args *args, const struct tool_data *data,
                  struct bench_ids *ids, int whole, struct tool_progress *progress,
                  struct rung_forecast *predicted, const struct runs *runs)
{
	const int wanted = data->profile && !tool_interrupted();
	const struct bench_result *median = bench_median_run(runs->results, runs->count);
	const uint64_t last = ids->warmup_count + median->request_count;
	int code, rc = 0;

	/* --runtime may have ended the run before its last request */
	if (wanted && (!whole || last < ids->batch_count))
		rc = forecast(name, args, data, ids, last, progress, predicted);
	code = bench_report(name, args, data, ids, wanted && rc >= 0 ? predicted : NULL,
	                    runs->results, runs->count);
	return rc < 0 && code == TOOL_DONE ? tool_exit_code(rc) : code;
}

/* All runs, until a signal. @return a status, the failure printed */
static int run_all(const char *name, const struct bench_args *args, struct rung_store *store,
                   struct bench_ids *ids, const struct bench_truth *truth,
                   struct tool_progress *progress, struct runs *runs)
{
	char step[48];
	int rc = 0;

	while (rc >= 0 && runs->count < args->repeat && !tool_interrupted()) {
		snprintf(step, sizeof(step), "gathers");
		if (args->repeat > 1)
			snprintf(step, sizeof(step), "gathers, run %u of %u", runs->count + 1,
			         args->repeat);
		rc = bench_run(name, args, store, ids, truth, progress, step,
		               &runs->results[runs->count]);
		runs->count++;
	}
	return rc;
}

/* Measure with the open store, and report. @return an exit code */
static int measure(const char *name, const struct bench_args *args, struct tool_data *data,
                   struct bench_ids *ids, const struct bench_truth *truth, int whole,
                   struct rung_forecast *predicted, struct tool_progress *progress)
{
	struct runs *runs = calloc(1, sizeof(*runs));
	int code, rc;

	if (!runs)
		return tool_error(name, TOOL_FAILED, "no memory for the results");
	rc = run_all(name, args, data->store, ids, truth, progress, runs);
	code = rc < 0 ? TOOL_FAILED /* opening has ruled out missing hardware and wrong usage */
	              : report(name, args, data, ids, whole, progress, predicted, runs);
	/* workers still use the store and the ids: nothing can be closed, so the process ends */
	if (runs->count && runs->results[runs->count - 1].left_behind) {
		tool_flush(name);
		tool_interrupt_end();
	}
	for (uint32_t i = 0; i < runs->count; i++)
		free(runs->results[i].latency_ns);
	free(runs);
	return code;
}

/* Everything between opening and closing the dataset. @return an exit code */
static int bench(const char *name, const struct bench_args *args, struct tool_data *data,
                 struct tool_progress *progress)
{
	struct bench_ids ids;
	struct bench_truth truth = { .file_count = 0 };
	struct rung_forecast predicted = { .size = sizeof(predicted) };
	struct tool_status status;
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
		rc = forecast(name, args, data, &ids, 0, progress, &predicted);
	code = rc < 0 ? tool_exit_code(rc) : open_store(name, args, &ids, data);
	if (code)
		goto close_truth;
	/* from here on a signal must not end the process before the store is closed, which removes
	 * the socket of --share */
	tool_interrupt_grace(TOOL_GRACE_MS);
	tool_status_start(&status, progress, data->store, args->status);
	code = measure(name, args, data, &ids, &truth, whole, &predicted, progress);
	tool_interrupt_grace(TOOL_GRACE_MS); /* shorter: only for closing */
	if (code == TOOL_DONE && args->hold && !tool_interrupted()) {
		code = tool_flush(name);
		if (code == TOOL_DONE)
			hold(name, args);
	}
	tool_status_stop(&status);
close_truth:
	bench_truth_close(&truth);
free_ids:
	bench_ids_free(&ids);
	return code;
}

/* Open or attach, and measure. @return an exit code */
static int open_and_bench(const char *name, struct bench_args *args)
{
	struct tool_sampling sampling = {
		.fanouts = args->fanouts, .batch = args->batch, .seed = args->seed, .apart = 1
	};
	struct tool_progress progress;
	struct tool_data data = { 0 };
	int rc, code;

	tool_progress_init(&progress, name, args->common.quiet);
	rc = args->attach ? find_shared(args, &data)
	                  : tool_plan(name, args->dir, &args->store,
	                              bench_ids_are_sampled(args) ? &sampling : NULL, &data);
	if (rc < 0)
		return tool_fail(name, rc);
	if (args->common.threads == 0)
		args->common.threads = default_threads(args, &data);
	code = bench(name, args, &data, &progress);
	rc = tool_close(&data);
	if (rc < 0 && code == TOOL_DONE)
		code = tool_fail(name, rc);
	return code;
}

int cmd_bench(int argc, char **argv)
{
	struct bench_args args = { .ids = "trace",
		                   .in_flight = 2,
		                   .seed = 1,
		                   .repeat = 1,
		                   .warmup = UINT64_MAX,
		                   .argv = argv };
	struct tool_out csv = { 0 };
	int code;

	tool_args_parse(&tool_bench_command, argc, argv, &args);
	args.csv_out = &csv;
	code = tool_out_open(argv[0], args.csv && strcmp(args.csv, "-") ? args.csv : NULL, &csv);
	if (code == TOOL_DONE)
		code = open_and_bench(argv[0], &args);
	tool_out_abandon(&csv);
	return code;
}

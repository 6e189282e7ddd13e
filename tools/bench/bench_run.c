/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timed run of rung bench: its memory and its threads, the clock that runs in each round, and
 * the result. The main thread prepares a round and watches it; the workers gather (bench_gather.c).
 *
 * Ids and outputs are memory of the store, which is GPU memory if a GPU gathers. Outputs are copied
 * to host memory to be checked.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/run.h"
#include "interrupt.h"

#define BUFFER_ALIGN 4096u
#define REPORT_NS    100000000u /* interval at which the main thread reports progress */
#define DRAIN_NS     300000000u /* time for requests in flight to complete after a signal */
#define GRACE_MS     5000u      /* from a signal to the end of the process: DRAIN_NS and report */
/* Latencies that are kept, 8 MiB. A longer run keeps those of every second, fourth, eighth …
 * request. Tests keep fewer. */
#ifndef LATENCIES_MAX
#define LATENCIES_MAX (1u << 20)
#endif

static int no_output(struct run *run, int rc, const char *why)
{
	char text[BENCH_TEXT_BYTES];

	snprintf(text, sizeof(text),
	         "not enough memory for the output of all requests: %s; use a smaller --batch, "
	         "--in-flight or --threads",
	         why);
	bench_abandon(run, rc, text);
	return rc;
}

static int out_of_memory(struct run *run)
{
	return no_output(run, RUNG_E_NOMEM, "out of memory");
}

/* A worker: runs one round after another until run->over. */
static void *work(void *ctx)
{
	struct worker *worker = ctx;
	struct run *run = worker->run;

	for (;;) { /* rounds */
		pthread_barrier_wait(&run->ready);
		pthread_barrier_wait(&run->go);
		if (run->over)
			return NULL;
		bench_gather_all(worker);
		worker->ended_ns = tool_now_ns();
		pthread_mutex_lock(&run->lock);
		run->running--;
		pthread_cond_signal(&run->ended);
		pthread_mutex_unlock(&run->lock);
	}
}

/* Show the rows so far. With --runtime their total is that of the runtime at the rate so far.
 * @param end_ns  UINT64_MAX: without --runtime. @return nonzero after a signal */
static int show(const struct run *run, struct tool_progress *progress, uint64_t now_ns,
                uint64_t end_ns)
{
	const uint64_t rows = atomic_load(&run->rows_done);
	uint64_t total = run->ids->count;

	if (end_ns != UINT64_MAX) {
		const double left = end_ns > now_ns ? (double)(end_ns - now_ns) * 1e-9 : 0;

		total = (uint64_t)((double)rows * run->args->runtime /
		                   fmax(run->args->runtime - left, 1e-3));
	}
	return tool_progress_update(progress, run->step, rows, total);
}

/* Report progress until all workers have ended the round, or until DRAIN_NS after a signal: if a
 * request hangs on a device, its worker is abandoned. */
static void watch(struct run *run, struct tool_progress *progress, uint64_t end_ns)
{
	uint64_t drained_ns = UINT64_MAX, now_ns = tool_now_ns(), until_ns;
	struct timespec until;

	pthread_mutex_lock(&run->lock);
	while (run->running && now_ns < drained_ns) {
		until_ns = now_ns + REPORT_NS;
		if (now_ns < end_ns && end_ns < until_ns)
			until_ns = end_ns;
		until.tv_sec = (time_t)(until_ns / 1000000000);
		until.tv_nsec = (long)(until_ns % 1000000000);
		pthread_cond_timedwait(&run->ended, &run->lock, &until);
		pthread_mutex_unlock(&run->lock);
		now_ns = tool_now_ns();
		if (now_ns >= end_ns) /* --runtime is over: requests in flight complete */
			atomic_store(&run->stop, 1);
		/* without the lock: drawing can take long on a slow terminal */
		if (show(run, progress, now_ns, end_ns) && drained_ns == UINT64_MAX) {
			atomic_store(&run->stop, 1);
			drained_ns = tool_now_ns() + DRAIN_NS;
		}
		pthread_mutex_lock(&run->lock);
	}
	run->left_behind = run->running != 0;
	pthread_mutex_unlock(&run->lock);
}

static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void worker_fini(struct run *run, struct worker *worker)
{
	free(worker->flights);
	rung_store_free(run->store, worker->buffers);
	free(worker->rows);
	free(worker->row);
}

/* Write all outputs once before the clock starts, so that page faults of the first touch are not
 * counted as part of a gather. @return a status */
static int touch(struct run *run, struct worker *worker)
{
	int rc = 0;

	memset(worker->rows, BENCH_UNWRITTEN, run->buffer_bytes);
	for (uint32_t i = 0; i < run->args->in_flight && rc >= 0; i++) {
		if (tool_interrupted())
			return RUNG_E_CANCELED;
		worker->flights[i].out = (char *)worker->buffers + i * run->buffer_bytes;
		rc = rung_store_copy(run->store, worker->flights[i].out, worker->rows,
		                     run->buffer_bytes);
	}
	return rc;
}

/* Replace a worker's buffers with new ones of buffer_bytes per flight. @return a status, the
 * failure recorded in the run */
static int make_buffers(struct run *run, struct worker *worker)
{
	uint64_t bytes;
	int rc;

	rung_store_free(run->store, worker->buffers);
	free(worker->rows);
	worker->buffers = worker->rows = NULL;
	if (__builtin_mul_overflow(run->buffer_bytes, run->args->in_flight, &bytes) ||
	    bytes > PTRDIFF_MAX)
		return out_of_memory(run);
	worker->rows = malloc(run->buffer_bytes);
	if (!worker->rows)
		return out_of_memory(run);
	rc = rung_store_alloc(run->store, bytes, &worker->buffers);
	if (rc >= 0)
		rc = touch(run, worker);
	if (rc == RUNG_E_CANCELED)
		bench_abandon(run, rc, "");
	else if (rc < 0)
		no_output(run, rc, rung_last_error());
	if (!run->truth) { /* it was needed only to touch the outputs */
		free(worker->rows);
		worker->rows = NULL;
	}
	return rc;
}

static int worker_init(struct run *run, struct worker *worker)
{
	worker->run = run;
	worker->flights = calloc(run->args->in_flight, sizeof(*worker->flights));
	worker->row = malloc(run->row_bytes);
	if (!worker->flights || !worker->row)
		return out_of_memory(run);
	return make_buffers(run, worker);
}

/*
 * Run a round: start the workers together at batch `first`, and wait until all have reached `end`.
 * Times are added to those of earlier rounds; the clock does not run between rounds.
 */
static void race(struct run *run, const struct worker *workers, uint64_t first, uint64_t end,
                 struct tool_progress *progress, struct bench_result *result)
{
	const uint32_t thread_count = run->args->common.threads;
	uint64_t begun_ns, ended_ns = 0, end_ns = UINT64_MAX;
	double cpu;

	pthread_barrier_wait(&run->ready);
	run->running = thread_count;
	run->end_batch = end;
	atomic_store(&run->next_batch, first);
	/* every round up to the first timed one resets times and counters, so that they exclude the
	 * warm-up; no round contains both warm-up and timed requests */
	if (first <= run->ids->warmup_count) {
		rung_store_stats(run->store, &result->before);
		result->seconds = result->cpu_seconds = 0;
	}
	tool_interrupt_grace(GRACE_MS);
	cpu = cpu_seconds();
	begun_ns = tool_now_ns();
	/* the clock of --runtime runs in timed rounds only, as that of the result */
	if (run->args->runtime > 0 && first >= run->ids->warmup_count)
		end_ns = begun_ns + (uint64_t)(1e9 * fmax(run->args->runtime - result->seconds, 0));
	pthread_barrier_wait(&run->go);
	watch(run, progress, end_ns);
	result->cpu_seconds += cpu_seconds() - cpu;
	/* the end is taken from the workers' clocks, because watch() may notice it late */
	if (run->left_behind)
		ended_ns = tool_now_ns();
	for (uint32_t i = 0; i < thread_count && !run->left_behind; i++) {
		if (workers[i].ended_ns > ended_ns)
			ended_ns = workers[i].ended_ns;
	}
	rung_store_stats(run->store, &result->after);
	result->seconds += (double)(ended_ns - begun_ns) / 1e9;
}

/* Copy the ids of the round to memory of the store, for a GPU; the CPU reads them where they are.
 * @return a status, the failure recorded in the run */
static int place_ids(struct run *run, const struct bench_result *result)
{
	const uint64_t bytes =
		run->ids->starts[run->ids->end - run->ids->first] * sizeof(*run->ids->ids);
	int rc;

	if (result->info.device == RUNG_DEVICE_CPU)
		return 0;
	rung_store_free(run->store, run->placed);
	run->placed = NULL;
	rc = rung_store_alloc(run->store, bytes, &run->placed);
	if (rc >= 0)
		rc = rung_store_copy(run->store, run->placed, run->ids->ids, bytes);
	if (rc < 0)
		bench_abandon(run, rc, rung_last_error());
	return rc;
}

/*
 * Set the bytes of a request's output. Until all batches of a trace are known, this is an eighth
 * more than the largest one so far needs, so that buffers seldom grow.
 */
static int find_buffer_bytes(struct run *run)
{
	const struct bench_ids *ids = run->ids;
	const uint64_t spare = ids->counted ? 0 : ids->rows_max / 8;
	const uint64_t rows =
		spare < ids->rows_bound - ids->rows_max ? ids->rows_max + spare : ids->rows_bound;
	uint64_t bytes;

	if (__builtin_mul_overflow(rows, run->row_bytes, &bytes) ||
	    bytes > PTRDIFF_MAX - BUFFER_ALIGN)
		return RUNG_E_NOMEM;
	run->buffer_bytes = (bytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
	return 0;
}

static int grow_buffers(struct run *run, struct worker *workers)
{
	int rc = 0;

	if (run->ids->rows_max <= run->buffer_bytes / run->row_bytes)
		return 0;
	if (find_buffer_bytes(run) < 0)
		return out_of_memory(run);
	for (uint32_t i = 0; i < run->args->common.threads && rc >= 0; i++)
		rc = make_buffers(run, &workers[i]);
	return rc;
}

/* Make room for the latencies of `timed` requests in total. If the array is too small, every second
 * entry is dropped and the step doubles, until they fit: the rest are still evenly distributed. */
static void make_latencies(struct run *run, uint64_t timed)
{
	for (; (timed - 1) / run->latency_step >= LATENCIES_MAX; run->latency_step *= 2) {
		for (uint64_t i = 0; i < LATENCIES_MAX; i++)
			run->latency_ns[i] = 2 * i < LATENCIES_MAX ? run->latency_ns[2 * i] : 0;
	}
	run->latency_count = (timed - 1) / run->latency_step + 1;
}

/* Buffers, ids and latencies for the next round: no worker uses them between two rounds. @return a
 * status, the failure recorded in the run */
static int prepare_round(struct run *run, struct worker *workers, uint64_t first, uint64_t end,
                         const struct bench_result *result)
{
	int rc = grow_buffers(run, workers);

	if (rc >= 0 && first > 0) /* run_on_device() has placed the ids of the first round */
		rc = place_ids(run, result);
	if (end > run->ids->warmup_count)
		make_latencies(run, end - run->ids->warmup_count);
	return rc;
}

/* All rounds: the warm-up, then the timed ones. */
static void race_all(struct run *run, struct worker *workers, struct tool_progress *progress,
                     struct bench_result *result)
{
	const struct bench_ids *ids = run->ids;
	uint64_t end;

	for (uint64_t first = 0; !bench_ids_over(ids, first) && !run->stop; first = end) {
		int rc = bench_ids_round(run->ids, first, &end);

		if (rc == RUNG_E_CANCELED) /* the rounds so far are reported */
			return;
		if (rc < 0) {
			bench_abandon(run, rc, ""); /* the failure is printed */
			return;
		}
		/* a round ends where the warm-up ends */
		if (first < ids->warmup_count && end > ids->warmup_count)
			end = ids->warmup_count;
		if (prepare_round(run, workers, first, end, result) < 0)
			return;
		race(run, workers, first, end, progress, result);
	}
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Start the workers, run all rounds, and join the workers, unless some were abandoned.
 * @return the status of the run */
static int run_workers(const char *name, struct run *run, struct tool_progress *progress,
                       struct bench_result *result)
{
	const uint32_t thread_count = run->args->common.threads;
	struct worker *workers = calloc(thread_count, sizeof(*workers));
	uint32_t ready = 0, started = 0;

	if (!workers)
		return out_of_memory(run);
	while (ready < thread_count && worker_init(run, &workers[ready]) >= 0)
		ready++;
	if (ready < thread_count)
		goto free_workers;
	/* + 1: the main thread */
	pthread_barrier_init(&run->ready, NULL, thread_count + 1);
	pthread_barrier_init(&run->go, NULL, thread_count + 1);
	for (; started < thread_count; started++) {
		int err = pthread_create(&workers[started].thread, NULL, work, &workers[started]);
		/* the process ends: the workers that did start wait at a barrier that is never
		 * complete, and cannot be joined */
		if (err) {
			fprintf(stderr, "%s: thread %u of %u: %s\n", name, started + 1,
			        thread_count, strerror(err));
			exit(TOOL_FAILED);
		}
	}
	race_all(run, workers, progress, result);
	if (run->left_behind)
		return run->error;
	pthread_barrier_wait(&run->ready);
	run->over = 1;
	pthread_barrier_wait(&run->go);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_barrier_destroy(&run->ready);
	pthread_barrier_destroy(&run->go);
free_workers:
	for (uint32_t i = 0; i < thread_count; i++)
		worker_fini(run, &workers[i]);
	free(workers);
	return run->error;
}

static int run_on_device(const char *name, struct run *run, struct tool_progress *progress,
                         struct bench_result *result)
{
	uint64_t end;
	int rc = bench_ids_round(run->ids, 0, &end);

	if (rc < 0)
		bench_abandon(run, rc, ""); /* the failure is printed */
	else if ((rc = place_ids(run, result)) >= 0)
		rc = run_workers(name, run, progress, result);
	if (!run->left_behind)
		rung_store_free(run->store, run->placed);
	return rc;
}

/*
 * Fill in the result from the timed requests that are complete. Abandoned workers can still change
 * the counters, so each counter is read atomically and only once. @return a status
 */
static int collect(const struct run *run, struct bench_result *result)
{
	const struct bench_ids *ids = run->ids;

	result->latency_ns = malloc((run->latency_count + 1) * sizeof(*result->latency_ns));
	if (!result->latency_ns)
		return RUNG_E_NOMEM;
	for (uint64_t i = 0; i < run->latency_count; i++) {
		const uint64_t ns = atomic_load_explicit(&run->latency_ns[i], memory_order_relaxed);

		if (ns)
			result->latency_ns[result->latency_count++] = ns;
	}
	qsort(result->latency_ns, result->latency_count, sizeof(*result->latency_ns),
	      compare_times);
	/* the longest of all requests, even if its entry was dropped */
	if (result->latency_count)
		result->latency_ns[result->latency_count - 1] = atomic_load(&run->latency_max_ns);
	result->request_count = atomic_load(&run->timed_requests);
	result->rows = atomic_load(&run->timed_rows);
	if (tool_interrupted() &&
	    (!ids->counted || result->request_count < ids->batch_count - ids->warmup_count))
		result->interrupted = tool_interrupt_name();
	if (result->request_count == 0) { /* interrupted during the warm-up */
		result->seconds = result->cpu_seconds = 0;
		result->before = result->after;
	}
	result->wrong_rows = atomic_load(&run->wrong_rows);
	result->first_wrong = atomic_load(&run->first_wrong);
	return 0;
}

static int no_memory(const char *name, const struct bench_ids *ids)
{
	tool_error(name, TOOL_FAILED,
	           "no memory for a request of %llu rows; give a smaller --batch",
	           (unsigned long long)ids->rows_max);
	return RUNG_E_NOMEM;
}

/* Locks and latencies, the run, and its result. @return a status, the failure printed */
static int run_all(struct run *run, const char *name, struct tool_progress *progress,
                   struct bench_result *result)
{
	pthread_condattr_t monotonic;
	int rc;

	pthread_mutex_init(&run->announce_lock, NULL);
	pthread_mutex_init(&run->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&run->ended, &monotonic);
	run->latency_step = 1;
	run->latency_ns = calloc(LATENCIES_MAX, sizeof(*run->latency_ns));
	if (!run->latency_ns || find_buffer_bytes(run) < 0)
		return no_memory(name, run->ids);
	rc = run_on_device(name, run, progress, result);
	result->left_behind = run->left_behind;
	tool_progress_end(progress);
	if (rc < 0 && *run->text)
		tool_error(name, TOOL_FAILED, "%s", run->text);
	else if (rc >= 0 && (rc = collect(run, result)) < 0)
		no_memory(name, run->ids);
	return rc;
}

int bench_run(const char *name, const struct bench_args *args, struct rung_store *store,
              struct bench_ids *ids, const struct bench_truth *truth,
              struct tool_progress *progress, const char *step, struct bench_result *result)
{
	/* allocated, because abandoned workers use it after this call */
	struct run *run = calloc(1, sizeof(*run));
	int rc;

	if (!run)
		return no_memory(name, ids);
	*result = (struct bench_result){
		.info.size = sizeof(result->info),
		.before.size = sizeof(result->before),
		.after.size = sizeof(result->after),
	};
	rc = rung_store_info(store, &result->info);
	if (rc < 0) {
		free(run);
		return tool_fail(name, rc), rc;
	}
	run->args = args;
	run->step = step;
	run->store = store;
	run->ids = ids;
	run->truth = args->check ? truth : NULL;
	run->row_bytes = result->info.features.row_bytes;
	rc = run_all(run, name, progress, result);
	if (run->left_behind)
		return rc;
	free(run->latency_ns);
	free(run);
	return rc;
}

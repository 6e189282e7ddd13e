/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timed part of rung bench. Threads take the next request from a common counter; each keeps its requests in a ring and waits
 * for the oldest. A request's time ends when its thread sees it complete: it looks at all of its requests after every submit and
 * wait.
 *
 * Ids and output are memory of the store, which is the GPU's where a GPU gathers. What the host has to see of it is copied.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench.h"

#define BUFFER_ALIGN  4096u
#define REPORT_NS     100000000u   /* how often the main thread looks at the progress */
#define TEXT_BYTES    1024
#define UNWRITTEN     0xa5         /* what a checked buffer holds before its request */

struct flight {
	struct rung_request *req;
	uint64_t batch_idx;
	uint64_t begun_ns;
	int seen;            /* its time is taken */
	char *out;
};

struct run {
	const struct bench_args *args;
	struct rung_store *store;
	const struct bench_ids *ids;
	const uint64_t *store_ids;         /* the same, where gathers read them */
	const struct bench_truth *truth;   /* NULL: no check */
	uint64_t row_bytes;
	uint64_t buffer_bytes;             /* of one flight */
	uint64_t *latency_ns;
	pthread_barrier_t ready, go;
	uint64_t end_batch;                /* of the warm-up, and then of all; set between the barriers */
	pthread_mutex_t announce_lock;     /* of announced, and of their order */
	uint64_t announced;                /* batches before it */
	pthread_mutex_t lock;              /* of running, error, text */
	pthread_cond_t ended;
	uint32_t running;
	int error;
	char text[TEXT_BYTES];
	_Atomic uint64_t next_batch;
	_Atomic uint64_t rows_done;
	_Atomic uint64_t wrong_rows;
	_Atomic uint64_t first_wrong;
	_Atomic int stop;
};

struct worker {
	struct run *run;
	struct flight *flights;            /* [in_flight] a ring */
	void *buffers;                     /* of the store */
	char *rows;                        /* of one flight, for the host; NULL when there is no check */
	char *row;                         /* for the check */
	uint64_t ended_ns;
	pthread_t thread;
};

/* The first failure is kept; the others follow from it. */
static void give_up(struct run *run, int rc, const char *text)
{
	pthread_mutex_lock(&run->lock);
	if (run->error == 0) {
		run->error = rc;
		snprintf(run->text, sizeof(run->text), "%s", text);
	}
	pthread_mutex_unlock(&run->lock);
	atomic_store(&run->stop, 1);
}

static int no_output(struct run *run, int rc, const char *why)
{
	char text[TEXT_BYTES];

	snprintf(text, sizeof(text), "no room for the output of all requests: %s; a smaller --batch, --in-flight or --threads helps", why);
	give_up(run, rc, text);
	return rc;
}

static int out_of_memory(struct run *run)
{
	return no_output(run, RUNG_E_NOMEM, "out of memory");
}

static void look(struct worker *worker, uint64_t first, uint64_t end)
{
	struct run *run = worker->run;

	for (uint64_t i = first; i < end; i++) {
		struct flight *flight = &worker->flights[i % run->args->in_flight];
		if (!flight->seen && rung_request_poll(flight->req)) {
			run->latency_ns[flight->batch_idx] = tool_now_ns() - flight->begun_ns;
			flight->seen = 1;
		}
	}
}

static struct rung_ids batch_of(const struct run *run, const uint64_t *all, uint64_t batch_idx)
{
	uint64_t first = run->ids->starts[batch_idx];

	return (struct rung_ids){
		.data = all + first,
		.count = run->ids->starts[batch_idx + 1] - first,
		.dtype = RUNG_U64,
		.space = run->ids->space,
	};
}

/* The batches up to `end`; those for which the window has no room yet are announced next time. */
static int announce(struct run *run, uint64_t end)
{
	int rc = 0;

	end = end < run->ids->batch_count ? end : run->ids->batch_count;
	pthread_mutex_lock(&run->announce_lock);
	while (run->announced < end && rc >= 0) {
		struct rung_ids ids = batch_of(run, run->ids->ids, run->announced);

		rc = rung_prefetch(run->store, &ids);
		run->announced += rc >= 0;
	}
	pthread_mutex_unlock(&run->announce_lock);
	return rc == RUNG_E_AGAIN ? 0 : rc;
}

static int submit(struct worker *worker, struct flight *flight, uint64_t batch_idx)
{
	struct run *run = worker->run;
	struct rung_ids ids = batch_of(run, run->store_ids, batch_idx);

	flight->batch_idx = batch_idx;
	flight->seen = 0;
	if (run->truth) {
		int rc;
		memset(worker->rows, UNWRITTEN, ids.count * run->row_bytes);
		rc = rung_store_copy(run->store, flight->out, worker->rows, ids.count * run->row_bytes);
		if (rc < 0)
			return rc;
	}
	if (run->args->prefetch) {
		int rc = announce(run, batch_idx + 1 + run->args->prefetch);
		if (rc < 0)
			return rc;
	}
	flight->begun_ns = tool_now_ns();
	return rung_gather_submit(run->store, &ids, flight->out, 0, NULL, &flight->req);
}

static void check(struct worker *worker, const struct flight *flight)
{
	struct run *run = worker->run;
	uint64_t first = run->ids->starts[flight->batch_idx], end = run->ids->starts[flight->batch_idx + 1];
	char text[TEXT_BYTES];
	int rc = rung_store_copy(run->store, worker->rows, flight->out, (end - first) * run->row_bytes);

	if (rc < 0) {
		give_up(run, rc, rung_last_error());
		return;
	}
	for (uint64_t i = first; i < end; i++) {
		int equal =
			bench_truth_check(run->truth, run->ids->ids[i], worker->rows + (i - first) * run->row_bytes, worker->row);
		if (equal < 0) {
			snprintf(text, sizeof(text), "%s: row of id %llu: %s", run->truth->dir,
				 (unsigned long long)run->ids->ids[i], strerror(-equal));
			give_up(run, RUNG_E_IO, text);
			return;
		}
		if (!equal && atomic_fetch_add(&run->wrong_rows, 1) == 0)
			atomic_store(&run->first_wrong, run->ids->ids[i]);
	}
}

static void finish(struct worker *worker, struct flight *flight)
{
	struct run *run = worker->run;
	uint64_t rows = run->ids->starts[flight->batch_idx + 1] - run->ids->starts[flight->batch_idx];
	int rc = rung_request_wait(flight->req, -1);

	if (!flight->seen)
		run->latency_ns[flight->batch_idx] = tool_now_ns() - flight->begun_ns;
	flight->seen = 1;
	if (rc < 0) {
		const char *why = rung_request_error(flight->req);
		give_up(run, rc, *why ? why : rung_last_error());
	} else if (run->truth) {
		check(worker, flight);
	}
	rung_request_put(flight->req);
	atomic_fetch_add_explicit(&run->rows_done, rows, memory_order_relaxed);
}

static void gather_all(struct worker *worker)
{
	struct run *run = worker->run;
	uint64_t oldest = 0, newest = 0, depth = run->args->in_flight;   /* flights oldest .. newest-1 are in the air */

	for (;;) {
		while (newest - oldest < depth && !atomic_load_explicit(&run->stop, memory_order_relaxed)) {
			uint64_t idx = atomic_fetch_add_explicit(&run->next_batch, 1, memory_order_relaxed);
			int rc;
			if (idx >= run->end_batch)
				break;
			rc = submit(worker, &worker->flights[newest % depth], idx);
			if (rc < 0) {
				give_up(run, rc, rung_last_error());
				break;
			}
			newest++;
			look(worker, oldest, newest);
		}
		if (oldest == newest)
			return;
		finish(worker, &worker->flights[oldest % depth]);
		oldest++;
		look(worker, oldest, newest);
	}
}

static void *work(void *ctx)
{
	struct worker *worker = ctx;
	struct run *run = worker->run;

	for (int leg = run->ids->warmup_count ? 0 : 1; leg < 2; leg++) {   /* the warm-up, if there is one; what is timed */
		pthread_barrier_wait(&run->ready);
		pthread_barrier_wait(&run->go);
		gather_all(worker);
		worker->ended_ns = tool_now_ns();
		pthread_mutex_lock(&run->lock);
		run->running--;
		pthread_cond_signal(&run->ended);
		pthread_mutex_unlock(&run->lock);
	}
	return NULL;
}

static void watch(struct run *run, struct tool_progress *progress)
{
	struct timespec until;

	pthread_mutex_lock(&run->lock);
	while (run->running) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += REPORT_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&run->ended, &run->lock, &until);
		pthread_mutex_unlock(&run->lock);
		if (tool_progress(progress, "gathers", atomic_load(&run->rows_done), run->ids->count))
			give_up(run, RUNG_E_CANCELED, "canceled");
		pthread_mutex_lock(&run->lock);
	}
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

/* Written once before the clock starts: page faults of the first touch are not the gather's. */
static int touch(struct run *run, struct worker *worker)
{
	int rc = 0;

	memset(worker->rows, UNWRITTEN, run->buffer_bytes);
	for (uint32_t i = 0; i < run->args->in_flight && rc >= 0; i++) {
		worker->flights[i].out = (char *)worker->buffers + i * run->buffer_bytes;
		rc = rung_store_copy(run->store, worker->flights[i].out, worker->rows, run->buffer_bytes);
	}
	return rc;
}

static int worker_init(struct run *run, struct worker *worker)
{
	uint32_t depth = run->args->in_flight;
	uint64_t bytes;
	int rc;

	worker->run = run;
	if (__builtin_mul_overflow(run->buffer_bytes, depth, &bytes) || bytes > PTRDIFF_MAX)
		return out_of_memory(run);
	worker->flights = calloc(depth, sizeof(*worker->flights));
	worker->rows = malloc(run->buffer_bytes);
	worker->row = malloc(run->row_bytes);
	if (!worker->flights || !worker->rows || !worker->row)
		return out_of_memory(run);
	rc = rung_store_alloc(run->store, bytes, &worker->buffers);
	if (rc >= 0)
		rc = touch(run, worker);
	if (rc < 0)
		no_output(run, rc, rung_last_error());
	if (!run->truth) {
		free(worker->rows);
		worker->rows = NULL;
	}
	return rc;
}

/* Let the threads go at once, from batch `first` on, and wait until all have come to `end`. */
static void race(struct run *run, const struct worker *workers, uint64_t first, uint64_t end, struct tool_progress *progress,
                 struct bench_result *result)
{
	const uint32_t thread_count = run->args->common.threads;
	uint64_t begun_ns, ended_ns = 0;
	double cpu;

	pthread_barrier_wait(&run->ready);
	run->running = thread_count;
	run->end_batch = end;
	atomic_store(&run->next_batch, first);
	rung_store_stats(run->store, &result->before);
	cpu = cpu_seconds();
	begun_ns = tool_now_ns();
	pthread_barrier_wait(&run->go);
	watch(run, progress);
	result->cpu_seconds = cpu_seconds() - cpu;
	for (uint32_t i = 0; i < thread_count; i++) {
		if (workers[i].ended_ns > ended_ns)
			ended_ns = workers[i].ended_ns;
	}
	rung_store_stats(run->store, &result->after);
	result->seconds = (double)(ended_ns - begun_ns) / 1e9;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int run_workers(const char *name, struct run *run, struct tool_progress *progress, struct bench_result *result)
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
	pthread_barrier_init(&run->ready, NULL, thread_count + 1);
	pthread_barrier_init(&run->go, NULL, thread_count + 1);
	for (; started < thread_count; started++) {
		int err = pthread_create(&workers[started].thread, NULL, work, &workers[started]);
		if (err) {   /* those started wait at a barrier that will never be full */
			fprintf(stderr, "%s: thread %u of %u: %s\n", name, started + 1, thread_count, strerror(err));
			exit(TOOL_FAILED);
		}
	}
	if (run->ids->warmup_count)
		race(run, workers, 0, run->ids->warmup_count, progress, result);
	race(run, workers, run->ids->warmup_count, run->ids->batch_count, progress, result);   /* over at once after a failure */
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

/* On the CPU the host's own will do; a GPU reads them in its own memory. */
static int place_ids(struct run *run, const struct bench_result *result, void **placed_out)
{
	uint64_t bytes = run->ids->count * sizeof(*run->ids->ids);
	void *placed;
	int rc;

	run->store_ids = run->ids->ids;
	if (result->info.device == RUNG_DEVICE_CPU)
		return 0;
	rc = rung_store_alloc(run->store, bytes, &placed);
	if (rc < 0)
		return rc;
	*placed_out = placed;
	run->store_ids = placed;
	return rung_store_copy(run->store, placed, run->ids->ids, bytes);
}

/* With the ids where gathers read them. */
static int run_on_device(const char *name, struct run *run, struct tool_progress *progress, struct bench_result *result)
{
	void *placed = NULL;
	int rc = rung_store_info(run->store, &result->info);

	if (rc >= 0)
		rc = place_ids(run, result, &placed);
	if (rc < 0)
		give_up(run, rc, rung_last_error());
	else
		rc = run_workers(name, run, progress, result);
	rung_store_free(run->store, placed);
	return rc;
}

int bench_run(const char *name, const struct bench_args *args, struct rung_store *store, const struct bench_ids *ids,
              const struct bench_truth *truth, struct tool_progress *progress, struct bench_result *result)
{
	struct run run = {
		.args = args, .store = store, .ids = ids, .truth = args->check ? truth : NULL, .row_bytes = truth->row_bytes
	};
	const uint64_t timed = ids->batch_count - ids->warmup_count;
	uint64_t bytes;
	int rc;

	*result = (struct bench_result){
		.info.size = sizeof(result->info), .before.size = sizeof(result->before), .after.size = sizeof(result->after)
	};
	pthread_mutex_init(&run.announce_lock, NULL);
	pthread_mutex_init(&run.lock, NULL);
	pthread_cond_init(&run.ended, NULL);
	run.latency_ns = calloc(ids->batch_count, sizeof(*run.latency_ns));
	if (!run.latency_ns || __builtin_mul_overflow(ids->rows_max, run.row_bytes, &bytes) ||
	    bytes > PTRDIFF_MAX - BUFFER_ALIGN) {
		free(run.latency_ns);
		tool_error(name, TOOL_FAILED, "no memory for a request of %llu rows; give a smaller --batch",
			   (unsigned long long)ids->rows_max);
		return RUNG_E_NOMEM;
	}
	run.buffer_bytes = (bytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
	rc = run_on_device(name, &run, progress, result);
	tool_progress_end(progress);
	if (rc < 0) {
		tool_error(name, TOOL_FAILED, "%s", run.text);
		free(run.latency_ns);
		return rc;
	}
	memmove(run.latency_ns, run.latency_ns + ids->warmup_count, timed * sizeof(*run.latency_ns));
	qsort(run.latency_ns, timed, sizeof(*run.latency_ns), compare_times);
	result->latency_ns = run.latency_ns;
	result->wrong_rows = atomic_load(&run.wrong_rows);
	result->first_wrong = atomic_load(&run.first_wrong);
	return 0;
}

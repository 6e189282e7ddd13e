/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of a worker of rung bench. Workers claim the next request from a common counter;
 * each keeps its requests in a ring and waits for the oldest. The latency of a request ends when
 * its worker notices that it is complete: it polls all of its requests after every submit and wait.
 */
#include <string.h>

#include "bench/run.h"

void bench_abandon(struct run *run, int rc, const char *text)
{
	pthread_mutex_lock(&run->lock);
	if (run->error == 0) {
		run->error = rc;
		snprintf(run->text, sizeof(run->text), "%s", text);
	}
	pthread_mutex_unlock(&run->lock);
	atomic_store(&run->stop, 1);
}

/* Record the latency of a complete request, and count it, unless it belongs to the warm-up. Several
 * workers do this at once; relaxed order is enough, because the values are read after the round. */
static void see(struct run *run, struct flight *flight)
{
	const uint64_t ns = tool_now_ns() - flight->begun_ns,
		       timed = flight->batch_idx - run->ids->warmup_count;
	uint64_t count;
	uint64_t most = atomic_load_explicit(&run->latency_max_ns, memory_order_relaxed);

	flight->seen = 1;
	if (flight->batch_idx < run->ids->warmup_count)
		return;
	bench_ids_of(run->ids, flight->batch_idx, &count);
	atomic_fetch_add_explicit(&run->timed_requests, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&run->timed_rows, count, memory_order_relaxed);
	if (timed % run->latency_step == 0)
		atomic_store_explicit(&run->latency_ns[timed / run->latency_step], ns ? ns : 1,
		                      memory_order_relaxed);
	while (ns > most && !atomic_compare_exchange_weak(&run->latency_max_ns, &most, ns))
		;
}

/* Poll the flights first .. end - 1. If only the oldest were waited for, a later request that
 * completes earlier would get a latency that lasts until the oldest completes. */
static void poll_flights(struct worker *worker, uint64_t first, uint64_t end)
{
	struct run *run = worker->run;

	for (uint64_t i = first; i < end; i++) {
		struct flight *flight = &worker->flights[i % run->args->in_flight];
		if (!flight->seen && rung_request_poll(flight->req))
			see(run, flight);
	}
}

/* The ids of a request, in host memory. */
static struct rung_ids batch_of(const struct run *run, uint64_t batch_idx)
{
	struct rung_ids ids = { .dtype = RUNG_U64, .space = run->ids->space };

	ids.data = bench_ids_of(run->ids, batch_idx, &ids.count);
	return ids;
}

/* Announce the batches before `end` to the cold-row cache, in their order. If the window has no
 * room (RUNG_E_AGAIN), a later call announces the rest. @return a status */
static int announce(struct run *run, uint64_t end)
{
	int rc = 0;

	/* later batches are not in memory yet */
	end = end < run->ids->end ? end : run->ids->end;
	pthread_mutex_lock(&run->announce_lock);
	/* batches of an earlier round that were never accepted: their ids are no longer in
	 * memory */
	if (run->announced < run->ids->first)
		run->announced = run->ids->first;
	while (run->announced < end && rc >= 0) {
		struct rung_ids ids = batch_of(run, run->announced);

		rc = rung_prefetch(run->store, &ids);
		run->announced += rc >= 0;
	}
	pthread_mutex_unlock(&run->announce_lock);
	return rc == RUNG_E_AGAIN ? 0 : rc;
}

/* Submit a request. With --check its output is overwritten first, so that the check detects rows
 * that the gather does not write. @return a status */
static int submit(struct worker *worker, struct flight *flight, uint64_t batch_idx)
{
	struct run *run = worker->run;
	struct rung_ids ids = batch_of(run, batch_idx);

	/* a GPU reads its copy of the ids, at the same position */
	if (run->placed)
		ids.data = (const uint64_t *)run->placed +
		           ((const uint64_t *)ids.data - run->ids->ids);
	flight->batch_idx = batch_idx;
	flight->seen = 0;
	if (run->truth) {
		int rc;
		memset(worker->rows, BENCH_UNWRITTEN, ids.count * run->row_bytes);
		rc = rung_store_copy(run->store, flight->out, worker->rows,
		                     ids.count * run->row_bytes);
		if (rc < 0)
			return rc;
	}
	if (run->args->look_ahead) {
		int rc = announce(run, batch_idx + 1 + run->args->look_ahead);
		if (rc < 0)
			return rc;
	}
	flight->begun_ns = tool_now_ns(); /* the time excludes announcing and overwriting */
	return rung_gather_submit(run->store, &ids, flight->out, 0, RUNG_STREAM_OWN, &flight->req);
}

/* Compare all rows of a complete request. Wrong rows are counted and the run continues; only a file
 * that cannot be read ends it. */
static void check(struct worker *worker, const struct flight *flight)
{
	struct run *run = worker->run;
	uint64_t count;
	const uint64_t *ids = bench_ids_of(run->ids, flight->batch_idx, &count);
	char text[BENCH_TEXT_BYTES];
	int rc = rung_store_copy(run->store, worker->rows, flight->out, count * run->row_bytes);

	if (rc < 0) {
		bench_abandon(run, rc, rung_last_error());
		return;
	}
	for (uint64_t i = 0; i < count; i++) {
		int equal = bench_truth_check(run->truth, ids[i], worker->rows + i * run->row_bytes,
		                              worker->row);
		if (equal < 0) {
			snprintf(text, sizeof(text), "%s: row of id %llu: %s", run->truth->dir,
			         (unsigned long long)ids[i], strerror(-equal));
			bench_abandon(run, RUNG_E_IO, text);
			return;
		}
		if (!equal && atomic_fetch_add(&run->wrong_rows, 1) == 0)
			atomic_store(&run->first_wrong, ids[i]);
	}
}

/* Wait for a request, record and check it, and release it. */
static void finish(struct worker *worker, struct flight *flight)
{
	struct run *run = worker->run;
	uint64_t rows = batch_of(run, flight->batch_idx).count;
	int rc = rung_request_wait(flight->req, -1);

	if (!flight->seen)
		see(run, flight);
	if (rc < 0) {
		const char *why = rung_request_error(flight->req);
		bench_abandon(run, rc, *why ? why : rung_last_error());
	} else if (run->truth) {
		check(worker, flight);
	}
	rung_request_put(flight->req);
	atomic_fetch_add_explicit(&run->rows_done, rows, memory_order_relaxed);
}

/* Keep in_flight requests submitted until none is left. After a failure or a signal no more are
 * submitted, but those in flight are completed, because their buffers are freed afterwards. */
void bench_gather_all(struct worker *worker)
{
	struct run *run = worker->run;
	const uint64_t depth = run->args->in_flight;
	uint64_t oldest = 0, newest = 0; /* flights oldest .. newest-1 are submitted */

	for (;;) {
		while (newest - oldest < depth &&
		       !atomic_load_explicit(&run->stop, memory_order_relaxed)) {
			uint64_t idx = atomic_fetch_add_explicit(&run->next_batch, 1,
			                                         memory_order_relaxed);
			int rc;

			if (idx >= run->end_batch)
				break;
			rc = submit(worker, &worker->flights[newest % depth], idx);
			if (rc < 0) {
				bench_abandon(run, rc, rung_last_error());
				break;
			}
			newest++;
			poll_flights(worker, oldest, newest);
		}
		if (oldest == newest)
			return;
		finish(worker, &worker->flights[oldest % depth]);
		oldest++;
		poll_flights(worker, oldest, newest);
	}
}

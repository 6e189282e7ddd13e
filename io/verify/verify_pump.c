/* SPDX-License-Identifier: Apache-2.0 */
/* Processes items as jobs, with memory for each thread. The calling thread waits, reports the
 * progress, and cancels, because the user's progress function must run on the calling thread. */
#include "base/jobs.h"
#include "verify/verify_pump.h"

#define POLL_NS UINT64_C(50000000) /* time between two calls of progress */

struct pump_run {
	const struct rung__pump *pump;
	unsigned char *buffers; /* [threads][pump->buffer_bytes] */
};

/* Process one item in a job, with the memory of the thread. */
static int work(void *ctx, uint64_t item, uint32_t worker)
{
	const struct pump_run *run = ctx;
	const struct rung__pump *pump = run->pump;

	return pump->work(pump->ctx, item, run->buffers + worker * pump->buffer_bytes);
}

/* The number of threads: the requested number within its limits, reduced to what memory and items
 * allow. */
static uint32_t thread_count(const struct rung__pump *pump)
{
	uint64_t count = RUNG__MAX((uint64_t)pump->threads, RUNG__PUMP_THREADS_MIN);

	count = RUNG__MIN(count, RUNG__PUMP_THREADS_MAX);
	if (pump->memory_bytes)
		count = RUNG__MIN(count, pump->memory_bytes / pump->buffer_bytes);
	return (uint32_t)RUNG__MAX(RUNG__MIN(count, pump->item_count), 1u);
}

static bool is_canceled(const struct rung__pump *pump, uint64_t done)
{
	return pump->progress &&
	       pump->progress(pump->progress_ctx, pump->step, done, pump->item_count);
}

/* Run the jobs and wait for them. After a cancellation, wait for jobs that are in flight, because
 * they use the memory that the caller frees. */
static int run_jobs(struct pump_run *run, uint32_t threads)
{
	const struct rung__pump *pump = run->pump;
	struct rung__jobs *jobs;
	bool canceled = false;
	uint64_t done;
	int rc = rung__jobs_start(threads, pump->item_count, work, run, &jobs);

	if (rc < 0)
		return rc;
	while (!canceled && !rung__jobs_over(jobs, POLL_NS, &done))
		canceled = is_canceled(pump, done);
	if (canceled)
		rung__jobs_stop(jobs);
	rc = rung__jobs_end(jobs);
	/* the last call of progress reports the total, and can cancel as well */
	if (canceled || (rc == 0 && is_canceled(pump, pump->item_count)))
		rc = rung__fail(RUNG_E_CANCELED, "%s: canceled", pump->step);
	return rc;
}

int rung__pump_run(const struct rung__pump *pump)
{
	const uint32_t threads = thread_count(pump);
	const uint64_t bytes = threads * pump->buffer_bytes;
	struct pump_run run = { pump, rung__malloc_aligned(RUNG__PAGE_BYTES, (size_t)bytes) };
	int rc;

	if (run.buffers)
		rc = run_jobs(&run, threads);
	else
		rc = rung__fail(RUNG_E_NOMEM, "%s: no memory for buffers of %" PRIu64 " bytes",
		                pump->step, bytes);
	rung__free(run.buffers);
	return rc;
}

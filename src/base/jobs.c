/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each thread claims the next job number until none is left. So a thread with short jobs does more
 * of them, and jobs start in the order of their numbers. One lock guards the counters; it is not
 * held during a job.
 */
#include "base/jobs.h"

#include <assert.h>
#include <string.h>

#include "base/thread.h"

struct worker {
	pthread_t thread;
	struct rung__jobs *jobs;
	uint32_t number; /* index in jobs->workers */
};

struct rung__jobs {
	pthread_mutex_t lock;   /* guards begun, ended, stopped and failure */
	pthread_cond_t changed; /* a job has ended, or the jobs were stopped */
	rung__job_fn fn;
	void *ctx;
	uint64_t count, begun, ended; /* ended <= begun <= count */
	bool stopped;                 /* a job failed, or rung__jobs_stop() was called */
	struct rung__failure failure; /* the first failure */
	uint32_t worker_count;        /* threads that were started */
	struct worker workers[];      /* space for the requested number */
};

/* Record that a job has ended with `rc`. With the lock held. */
static void note(struct rung__jobs *jobs, int rc)
{
	jobs->ended++;
	assert(jobs->ended <= jobs->begun && jobs->begun <= jobs->count);
	rung__failure_keep(&jobs->failure, rc);
	jobs->stopped |= rc < 0;
	pthread_cond_broadcast(&jobs->changed);
}

/* A thread. */
static void *work(void *ctx)
{
	struct worker *worker = ctx;
	struct rung__jobs *jobs = worker->jobs;

	pthread_mutex_lock(&jobs->lock);
	while (!jobs->stopped && jobs->begun < jobs->count) {
		const uint64_t job = jobs->begun++;
		int rc;

		pthread_mutex_unlock(&jobs->lock);
		rc = jobs->fn(jobs->ctx, job, worker->number);
		pthread_mutex_lock(&jobs->lock);
		note(jobs, rc);
	}
	pthread_mutex_unlock(&jobs->lock);
	return NULL;
}

/* Start up to `threads` threads. Fewer are enough, because any of them can do any job. @return 0,
 * or an errno value if none could be started */
static int start_workers(struct rung__jobs *jobs, uint32_t threads)
{
	int err = 0;

	while (jobs->worker_count < threads && err == 0) {
		struct worker *worker = &jobs->workers[jobs->worker_count];

		*worker = (struct worker){ .jobs = jobs, .number = jobs->worker_count };
		err = rung__thread_start(&worker->thread, work, worker);
		jobs->worker_count += err == 0;
	}
	return jobs->worker_count ? 0 : err;
}

int rung__jobs_start(uint32_t threads, uint64_t count, rung__job_fn fn, void *ctx,
                     struct rung__jobs **jobs_out)
{
	const uint32_t wanted = (uint32_t)RUNG__MAX(RUNG__MIN(threads, count), 1u);
	struct rung__jobs *jobs = rung__zalloc(sizeof(*jobs) + wanted * sizeof(jobs->workers[0]));
	int err;

	if (!jobs)
		return rung__fail(RUNG_E_NOMEM, "no memory for %" PRIu32 " threads", wanted);
	jobs->fn = fn;
	jobs->ctx = ctx;
	jobs->count = count;
	pthread_mutex_init(&jobs->lock, NULL);
	rung__cond_init(&jobs->changed);
	/* jobs may end from here on */
	err = start_workers(jobs, wanted);
	if (err == 0) {
		*jobs_out = jobs;
		return 0;
	}
	rung__jobs_end(jobs);
	return rung__fail_thread(err, "a thread");
}

bool rung__jobs_wait(struct rung__jobs *jobs, uint64_t ended)
{
	bool good;

	pthread_mutex_lock(&jobs->lock);
	while (jobs->ended < ended && !jobs->stopped)
		pthread_cond_wait(&jobs->changed, &jobs->lock);
	/* after a failure the result is false, even if enough jobs have ended */
	good = !jobs->stopped;
	pthread_mutex_unlock(&jobs->lock);
	return good;
}

bool rung__jobs_over(struct rung__jobs *jobs, uint64_t ns, uint64_t *ended_out)
{
	const struct timespec until = rung__deadline(ns);
	bool over;
	int err = 0;

	pthread_mutex_lock(&jobs->lock);
	while (jobs->ended < jobs->count && !jobs->stopped && err == 0)
		err = pthread_cond_timedwait(&jobs->changed, &jobs->lock, &until);
	over = jobs->ended == jobs->count || jobs->stopped;
	*ended_out = jobs->ended;
	pthread_mutex_unlock(&jobs->lock);
	return over;
}

void rung__jobs_stop(struct rung__jobs *jobs)
{
	pthread_mutex_lock(&jobs->lock);
	jobs->stopped = true;
	pthread_cond_broadcast(&jobs->changed);
	pthread_mutex_unlock(&jobs->lock);
}

int rung__jobs_end(struct rung__jobs *jobs)
{
	int rc;

	if (!jobs)
		return 0;
	for (uint32_t i = 0; i < jobs->worker_count; i++)
		pthread_join(jobs->workers[i].thread, NULL);
	rc = rung__failure_report(&jobs->failure);
	pthread_cond_destroy(&jobs->changed);
	pthread_mutex_destroy(&jobs->lock);
	rung__free(jobs);
	return rc;
}

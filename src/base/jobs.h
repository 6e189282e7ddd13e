/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Numbered jobs, done by a few threads. They are for work that mostly waits for files, so more
 * threads than CPUs make sense. Private to rung.
 *
 * Threads: one thread calls start and end; any thread, including one that does a job, may call
 * stop.
 */
#ifndef RUNG_JOBS_H
#define RUNG_JOBS_H

#include "base/base.h"

struct rung__jobs;

/** Do job number `job`. @param worker  index of the calling thread, below the number of threads.
 * @return 0, or a failure, after which no further job is started */
typedef int (*rung__job_fn)(void *ctx, uint64_t job, uint32_t worker);

/**
 * Start jobs 0 to count - 1, each once, in this order but concurrently. Call rung__jobs_end() in
 * any case, also after a failed job.
 * @param threads  number of threads, at most one per job; fewer are used if not all can be started
 * @param ctx      for `fn`; valid until rung__jobs_end()
 * @return 0, RUNG_E_NOMEM, or the status of errno if no thread can be started
 */
int rung__jobs_start(uint32_t threads, uint64_t count, rung__job_fn fn, void *ctx,
                     struct rung__jobs **jobs_out);

/** Wait until `ended` jobs have ended, in any order. @return false if a job failed or the jobs were
 * stopped */
bool rung__jobs_wait(struct rung__jobs *jobs, uint64_t ended);

/**
 * Wait until all jobs have ended, one has failed or they were stopped, for at most `ns`.
 * @param ended_out  number of jobs that have ended, for progress
 * @return false if the time ran out first
 */
bool rung__jobs_over(struct rung__jobs *jobs, uint64_t ns, uint64_t *ended_out);

/** Start no further job. Jobs in flight continue. */
void rung__jobs_stop(struct rung__jobs *jobs);

/** Wait for the jobs that were started, end the threads, and free `jobs`. NULL is allowed. @return
 * 0, or the first failure */
int rung__jobs_end(struct rung__jobs *jobs);

#endif

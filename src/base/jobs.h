/* SPDX-License-Identifier: Apache-2.0 */
/** Numbered jobs done by a few threads, for work that mostly waits for files: more of them than
 * CPUs make sense. Private to rung. */
#ifndef RUNG_JOBS_H
#define RUNG_JOBS_H

#include "base/base.h"

struct rung__jobs;

/** Job `job`, done by thread `worker` of those there are. @return 0, or a failure, after which no
 * further job is begun */
typedef int (*rung__job_fn)(void *ctx, uint64_t job, uint32_t worker);

/** Start jobs 0 to count - 1, each once, in this order but concurrently. Always finish with
 * rung__jobs_end(). */
int rung__jobs_start(uint32_t threads, uint64_t count, rung__job_fn fn, void *ctx,
                     struct rung__jobs **jobs_out);

/** Wait until `ended` jobs have ended. @return false if a job failed or the jobs were stopped */
bool rung__jobs_wait(struct rung__jobs *jobs, uint64_t ended);

/**
 * Wait until all jobs have ended, one has failed or they were stopped, for at most `ns`.
 * @param ended_out  number of jobs that have ended, for progress
 * @return false if the time ran out first
 */
bool rung__jobs_over(struct rung__jobs *jobs, uint64_t ns, uint64_t *ended_out);

/** Begin no further one. */
void rung__jobs_stop(struct rung__jobs *jobs);

/** Wait for the jobs that were started. @return 0, or the first failure. NULL is allowed. */
int rung__jobs_end(struct rung__jobs *jobs);

#endif

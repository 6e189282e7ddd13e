/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: threads that each claim the next job number until none is left. */
#include <criterion/criterion.h>
#include <stdatomic.h>

#include "base/jobs.h"

TestSuite(jobs, .timeout = 60);

#define JOBS    1000u
#define WAIT_NS UINT64_C(1000000000)

struct counts {
	_Atomic uint32_t done[JOBS];
	_Atomic bool hold;
	uint64_t fails;
};

static int count(void *ctx, uint64_t job, uint32_t worker)
{
	struct counts *counts = ctx;

	cr_assert_lt(worker, 4);
	while (counts->hold)
		;
	counts->done[job]++;
	return job == counts->fails ? rung__fail(RUNG_E_IO, "job %u", (unsigned)job) : 0;
}

Test(jobs, each_job_runs_once)
{
	struct counts counts = { .fails = JOBS };
	struct rung__jobs *jobs;
	uint64_t ended = 0;

	cr_assert_eq(rung__jobs_start(4, JOBS, count, &counts, &jobs), 0);
	while (!rung__jobs_over(jobs, WAIT_NS, &ended))
		;
	cr_assert_eq(ended, JOBS);
	cr_assert_eq(rung__jobs_end(jobs), 0);
	for (uint32_t i = 0; i < JOBS; i++)
		cr_assert_eq(counts.done[i], 1, "job %u", i);
}

Test(jobs, the_wait_ends_at_its_timeout)
{
	struct counts counts = { .hold = true, .fails = JOBS };
	struct rung__jobs *jobs;
	uint64_t ended = 7;

	cr_assert_eq(rung__jobs_start(4, JOBS, count, &counts, &jobs), 0);
	cr_assert_not(rung__jobs_over(jobs, 1000, &ended));
	cr_assert_eq(ended, 0);
	rung__jobs_stop(jobs);
	cr_assert(rung__jobs_over(jobs, WAIT_NS, &ended), "stopped");
	counts.hold = false;
	cr_assert_eq(rung__jobs_end(jobs), 0);
	cr_assert_eq(counts.done[JOBS - 1], 0, "no job starts after the stop");
}

Test(jobs, a_failure_stops_the_jobs_and_is_reported)
{
	struct counts counts = { .fails = 10 };
	struct rung__jobs *jobs;
	uint64_t ended;

	cr_assert_eq(rung__jobs_start(1, JOBS, count, &counts, &jobs), 0);
	while (!rung__jobs_over(jobs, WAIT_NS, &ended))
		;
	cr_assert_eq(ended, 11);
	cr_assert_eq(rung__jobs_end(jobs), RUNG_E_IO);
	cr_assert_str_eq(rung_last_error(), "job 10");
	cr_assert_eq(counts.done[11], 0);
}

Test(jobs, zero_jobs_end_at_once)
{
	struct counts counts = { .fails = JOBS };
	struct rung__jobs *jobs;
	uint64_t ended = 7;

	cr_assert_eq(rung__jobs_start(4, 0, count, &counts, &jobs), 0);
	cr_assert(rung__jobs_over(jobs, WAIT_NS, &ended));
	cr_assert_eq(ended, 0);
	cr_assert_eq(rung__jobs_end(jobs), 0);
}

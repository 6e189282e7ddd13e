/* SPDX-License-Identifier: Apache-2.0 */
/* Canceling calls of a thread: the amount of work between two questions, and none after a yes. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "base/base.h"
#include "expect_error.h"

static uint64_t asked, cancel_at;

static int canceled(void *ctx, const char *step, unsigned long long done, unsigned long long total)
{
	cr_assert_eq(ctx, &asked);
	cr_assert_str_eq(step, "step");
	cr_assert_eq(total, 0);
	cr_assert_eq(done, (asked + 1) * RUNG__WORK_BYTES);
	return ++asked == cancel_at;
}

static void begin(uint64_t at)
{
	asked = 0;
	cancel_at = at;
	rung_interrupt_set(canceled, &asked);
}

Test(interrupt, the_caller_is_asked_after_each_64_mib)
{
	begin(0);
	for (uint64_t i = 1; i <= 1000; i++) {
		cr_assert_eq(rung__worked("step", RUNG__WORK_BYTES / 4), 0);
		cr_assert_eq(asked, i / 4);
	}
}

Test(interrupt, a_row_counts_so_that_a_million_is_the_same)
{
	cr_assert_eq(RUNG__WORK_BYTES / RUNG__WORK_ROW, 1u << 20);
}

Test(interrupt, a_nonzero_answer_is_the_status_of_the_work)
{
	begin(2);
	cr_assert_eq(rung__worked("step", RUNG__WORK_BYTES), 0);
	cr_assert_eq(rung__worked("step", RUNG__WORK_BYTES - 1), 0);
	assert_error(rung__worked("step", 1), RUNG_E_CANCELED, "step: canceled");
}

static void *work_elsewhere(void *arg)
{
	cr_assert_not(rung__interruptible());
	cr_assert_eq(rung__worked("step", 100 * RUNG__WORK_BYTES), 0);
	return arg;
}

Test(interrupt, other_threads_and_later_calls_run_to_their_end)
{
	pthread_t other;

	begin(1);
	cr_assert(rung__interruptible());
	cr_assert_eq(pthread_create(&other, NULL, work_elsewhere, NULL), 0);
	pthread_join(other, NULL);
	rung_interrupt_set(NULL, NULL);
	cr_assert_eq(rung__worked("step", 100 * RUNG__WORK_BYTES), 0);
	cr_assert_eq(asked, 0);
}

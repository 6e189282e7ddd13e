/* SPDX-License-Identifier: Apache-2.0 */
/* Closing a store while its reads are stuck, its thread is blocked, or rows are still to be
 * read. */
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#include "refill/state.h"
#include "script_store.h"

static _Atomic int set_back_s;

/*
 * Replaces libc's clock_gettime(), for the library as well: the settable clock can be set back
 * here.
 */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	const long rc = syscall(SYS_clock_gettime, clock, now);

	if (rc == 0 && clock == CLOCK_REALTIME)
		now->tv_sec -= atomic_load(&set_back_s);
	return (int)rc;
}

Test(store_close, a_close_ends_while_a_read_is_stuck)
{
	static struct rung_store *left;
	struct rung_request *request;

	open_with_timeout(SMALL);
	script.decide = hold_bad_rank;
	atomic_store(&holding, 1);
	request = submit((const uint64_t[]){ BAD_RANK }, 1, out);
	await_held(1);
	cr_assert_eq(rung_store_close(f.store), RUNG_E_TIMEDOUT);
	cr_assert(strstr(rung_last_error(), "features.000.npy: 1 reads in flight"), "%s",
	          rung_last_error());
	cr_assert_eq(rung_request_poll(request), 1);
	left = f.store; /* the stuck read may still write to its memory */
	f.store = NULL;
	let_go();
	close_all();
	cr_assert_not_null(left);
}

static void pause_refill(const struct script_read *read, struct script_fate *fate)
{
	(void)read;
	(void)fate;
	atomic_fetch_add(&script.held, 1);
	usleep(200000);
}

/* The close measures its limit with a clock that cannot be set. */
Test(store_close, setting_the_clock_while_a_store_closes_changes_nothing)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .read_timeout_ms = 20000 };

	open_script(SMALL, &opts);
	script.decide = pause_refill;
	submit((const uint64_t[]){ BAD_RANK }, 1, out);
	await_held(1);
	atomic_store(&set_back_s, 3600);
	cr_assert_eq(rung_store_close(f.store), 0, "%s", rung_last_error());
	f.store = NULL;
	close_all();
}

static void block_refill(const struct script_read *read, struct script_fate *fate)
{
	(void)read;
	(void)fate;
	atomic_fetch_add(&script.held, 1);
	while (!atomic_load(&script.release))
		usleep(1000);
}

Test(store_close, a_close_blocked_by_something_else_does_not_blame_reads)
{
	static struct rung_store *left;

	if (fixture_on_cuda())
		cr_skip_test("the device thread waits 60 s for the request first");
	open_with_timeout(SMALL);
	script.decide = block_refill;
	submit((const uint64_t[]){ BAD_RANK }, 1, out);
	await_held(1);
	cr_assert_eq(rung_store_close(f.store), RUNG_E_TIMEDOUT);
	cr_assert(strstr(rung_last_error(), "refill thread has been blocked"), "%s",
	          rung_last_error());
	left = f.store;
	f.store = NULL;
	let_go();
	close_all();
	cr_assert_not_null(left);
}

static void *close_store(void *arg)
{
	*(int *)arg = rung_store_close(f.store);
	return NULL;
}

Test(store_close, a_close_does_not_wait_for_rows_read_one_by_one)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	uint64_t run[RUN];
	struct rung__refill *refill;
	pthread_t thread;
	bool closing = false;
	int rc = -1;

	open_script(SMALL, &opts);
	for (unsigned i = 0; i < RUN; i++)
		run[i] = BAD_RANK + i;
	atomic_store(&holding, 1);
	atomic_store(&failing, EIO);
	fail_first = BAD_RANK;
	fail_end = BAD_RANK + 1;
	script.decide = fail_ranks;
	submit(run, RUN, out);
	await_held(1);
	refill = f.store->refills[0];
	pthread_create(&thread, NULL, close_store, &rc);
	while (!closing) {
		pthread_mutex_lock(&refill->box.lock);
		closing = refill->box.closing;
		pthread_mutex_unlock(&refill->box.lock);
	}
	atomic_store(&script.release, 1);
	pthread_join(thread, NULL);
	cr_assert_eq(rc, 0);
	cr_assert_leq(atomic_load(&script.sent), 2, "%llu reads",
	              (unsigned long long)atomic_load(&script.sent));
	f.store = NULL;
	close_all();
}

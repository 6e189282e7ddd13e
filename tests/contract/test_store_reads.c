/* SPDX-License-Identifier: Apache-2.0 */
/* Reads that fail, are short or are refused, and files that are truncated: which requests fail. */
#include <errno.h>
#include <sys/mman.h>

#include "script_store.h"
#include "interrupted.h"

Test(store_reads, a_failed_request_reads_no_more_rows_one_by_one)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	uint64_t run[RUN];

	open_script(SMALL, &opts);
	for (unsigned i = 0; i < RUN; i++)
		run[i] = BAD_RANK + i;
	atomic_store(&failing, EIO);
	fail_first = BAD_RANK;
	fail_end = BAD_RANK + RUN;
	script.decide = fail_ranks;
	ends_with(submit(run, RUN, out), RUNG_E_IO, "row of rank 2900");
	/* one merged read, then the first row alone, twice */
	cr_assert_eq(atomic_load(&script.sent), 3);
	all_rows_are_accounted_for();
	close_all();
}

Test(store_reads, a_request_that_waits_for_a_row_of_a_failed_one_gets_it)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct rung_request *fails, *waits;
	uint64_t run[RUN];

	open_script(LARGE, &opts);
	for (unsigned i = 0; i < RUN; i++)
		run[i] = BAD_RANK + i;
	atomic_store(&holding, 1);
	atomic_store(&failing, ENODATA);
	fail_first = BAD_RANK;
	fail_end = BAD_RANK + RUN - 1;
	script.decide = fail_ranks;
	fails = submit(run, RUN, out);
	await_held(1);
	waits = submit(run + RUN - 1, 1, out + 100 * WIDTH);
	/* on CUDA its gather may not have run yet */
	while (stats().tiers[fixture_tier(&f, "nvme")].hits < RUN + 1)
		usleep(1000);
	usleep(20000);
	atomic_store(&script.release, 1);
	ends_with(fails, RUNG_E_IO, strerror(ENODATA));
	cr_assert_eq(rung_request_wait(waits, -1), 0, "%s", rung_last_error());
	fixture_check(&f, run + RUN - 1, 1, out + 100 * WIDTH, WIDTH);
	rung_request_put(waits);
	all_rows_are_accounted_for();
	close_all();
}

static void shorten(const struct script_read *read, struct script_fate *fate)
{
	fate->bytes_max = 1 + (uint32_t)(read->number * 37 % read->fetch.bytes);
}

Test(store_reads, short_reads_of_any_length_are_completed)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };

	for (uint32_t align = 1; align <= 512; align *= 512) {
		script_reset();
		script.align = align;
		fixture_open(&f, ROWS, WIDTH, SMALL, &opts, &script_reader);
		script.decide = shorten;
		fixture_random_ids(&f, ids, ASKED, 3);
		fixture_gather_and_check(&f, ids, ASKED);
		cr_assert_gt(stats().retries, 0);
		all_rows_are_accounted_for();
		close_all();
	}
}

Test(store_reads, a_tier_that_refuses_reads_fails_requests_and_leaks_nothing)
{
	struct rung_request *requests[3];
	unsigned char *pool, resident;

	open_with_timeout(SMALL);
	script.decide = hold_next;
	atomic_store(&holding, 1);
	for (unsigned i = 0; i < 3; i++)
		requests[i] = submit((const uint64_t[]){ 2000 + i * 100, 2050 + i * 100 }, 2, out);
	await_held(1);
	atomic_store(&script.refuses, true);
	atomic_store(&script.broken, ENODEV);
	ends_with(submit(ids, ASKED, out), RUNG_E_IO, strerror(ENODEV));
	for (unsigned i = 0; i < 3; i++)
		rung_request_put(requests[i]);
	let_go();
	all_rows_are_accounted_for();
	pool = f.store->pool.base;
	fixture_free_memories(&f);
	cr_assert_eq(rung_store_close(f.store), 0);
	f.store = NULL;
	/* unmapped, since no read can write to it any more */
	cr_assert(mincore(pool, 1, &resident) < 0 && errno == ENOMEM);
	close_all();
}

Test(store_reads, a_file_truncated_after_open_fails_the_missing_rows)
{
	static const enum rung_engine engines[] = { RUNG_ENGINE_PREAD, RUNG_ENGINE_IO_URING };
	static const uint64_t here[] = { 2000, 2001, 2050 }, gone[] = { 2050, 2850 };

	for (unsigned i = 0; i < 4; i++) {
		struct rung_store_opts opts = { .size = sizeof(opts),
			                        .engine = engines[i % 2],
			                        .buffered = i >= 2 };
		char path[300];

		if (opts.engine == RUNG_ENGINE_IO_URING && !fixture_has_io_uring())
			continue;
		fixture_open(&f, ROWS, WIDTH, SMALL, &opts, NULL);
		out = fixture_memory(&f, ASKED * WIDTH);
		snprintf(path, sizeof(path), "%s/features.000.npy", f.dir);
		cr_assert_eq(truncate(path, (off_t)offset_of(2800)), 0);
		fixture_gather_and_check(&f, here, 3);
		ends_with(submit(gone, 2, out), RUNG_E_IO,
		          "row of rank 2850 at offset 1463296: the file ends");
		ends_with(submit(gone, 2, out), RUNG_E_IO, "truncated");
		fixture_gather_and_check(&f, here, 3);
		all_rows_are_accounted_for();
		fixture_close(&f);
	}
}

static int cancel_when_held(void *ctx, const char *step, unsigned long long done,
                            unsigned long long total)
{
	(void)ctx;
	(void)step;
	(void)done;
	(void)total;
	return atomic_load(&script.held) == 4;
}

/* Hold the first reads back until the request has been canceled. */
static void *release_when_canceled(void *arg)
{
	bool canceled = false;

	while (!canceled) {
		for (uint32_t i = 0; i < f.store->request_count; i++)
			canceled |= f.store->requests[i].status == RUNG_E_CANCELED;
		usleep(1000);
	}
	atomic_store(&script.release, 1);
	return arg;
}

Test(store_reads, a_canceled_gather_begins_no_further_read)
{
	struct rung_store_opts opts = {
		.size = sizeof(opts), .queue_depth = 4, .batch_rows_max = 200, .no_merge = 1
	};
	struct rung_ids list;
	pthread_t thread;

	if (fixture_on_cuda())
		cr_skip_test("the device thread begins reads when its gather has run");
	open_script(SMALL, &opts);
	atomic_store(&holding, ASKED);
	script.decide = hold_next;
	list = fixture_ids(&f, ids, ASKED, RUNG_U64, RUNG_RANKS);
	pthread_create(&thread, NULL, release_when_canceled, NULL);
	rung_interrupt_set(cancel_when_held, NULL);
	cr_assert_eq(rung_gather(f.store, &list, out, 0), RUNG_E_CANCELED);
	cr_assert_str_eq(rung_last_error(), "request: canceled");
	rung_interrupt_set(NULL, NULL);
	pthread_join(thread, NULL);
	cr_assert_eq(atomic_load(&script.sent), 4);
	all_rows_are_accounted_for();
	atomic_store(&holding, 0);
	fixture_gather_and_check(&f, ids, ASKED);
	close_all();
}

Test(store_reads, a_canceled_wait_leaves_its_request_in_flight)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .queue_depth = 4 };
	struct rung_request *request;

	open_script(SMALL, &opts);
	atomic_store(&holding, 1);
	script.decide = hold_next;
	request = submit(ids, ASKED, out);
	interrupt_begin(2);
	cr_assert_eq(rung_request_wait(request, -1), RUNG_E_CANCELED);
	cr_assert_eq(interrupt_calls, 2);
	cr_assert_eq(rung_request_poll(request), 0);
	interrupt_begin(0);
	cr_assert_eq(rung_request_wait(request, 60000000), RUNG_E_TIMEDOUT);
	let_go();
	cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
	fixture_check(&f, ids, ASKED, out, WIDTH);
	interrupt_begin(1); /* putting waits, whatever the caller says */
	rung_request_put(request);
	close_all();
}

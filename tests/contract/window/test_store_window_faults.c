/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever happens to a read ahead of the batches, only the batches that need its rows notice. */
#include <pthread.h>
#include <stdio.h>

#include "window_fixture.h"

Test(store_window_faults, a_row_that_cannot_be_read_ahead_fails_only_its_batch)
{
	uint64_t bad, offset;
	bool has_failed = false;
	char text[100];

	stage(1, WIDTH);
	open_store(KEPT, (struct rung_store_opts){ .window = 8 });
	bad = ranks_of(9)[7];
	offset = rung__row_offset(&f.store->shape.layout, bad);
	snprintf(text, sizeof(text), "row of rank %llu at offset %llu", (unsigned long long)bad,
	         (unsigned long long)offset);
	atomic_store(&bad_offset, offset);
	for (uint64_t n = 0, known = 0; n < BATCHES / 2; n++) {
		bool needs = false;
		int rc;

		for (; known < BATCHES && known <= n + 8; known++)
			announce(known);
		for (unsigned i = 0; i < BATCH; i++)
			needs |= ranks_of(n)[i] == bad;
		rc = gather(n);
		cr_assert_eq(rc, needs ? RUNG_E_IO : 0, "batch %llu: %s", (unsigned long long)n,
		             rung_last_error());
		if (needs) {
			has_failed = true;
			cr_assert(strstr(rung_last_error(), text), "%s", rung_last_error());
			cr_assert(strstr(rung_last_error(), "features.000.npy"), "%s",
			          rung_last_error());
		}
		await_reads();
	}
	cr_assert(has_failed);
	cr_assert_gt(stats_now().ahead_rows, 0);
	atomic_store(&bad_offset, 0);
	cr_assert_eq(gather(9), 0, "%s", rung_last_error());
	close_store();
	fixture_close(&f);
}

Test(store_window_faults, short_reads_ahead_are_completed)
{
	for (uint64_t width = 512; width <= 4096; width += 3584) {
		stage(1, width);
		open_store(KEPT, (struct rung_store_opts){ 0 });
		atomic_store(&short_of_all, 3);
		gather_all(BATCHES / 2, 8);
		cr_assert_gt(stats_now().ahead_rows, 0);
		cr_assert_gt(stats_now().retries, 0);
		close_store();
		fixture_close(&f);
	}
}

static void release(void)
{
	atomic_store(&holding, 0);
	atomic_store(&script.release, 1);
	await_reads();
}

/* Gather batch n, and hold back all reads of the sweep that follows. Reads are not merged. */
static void stop_device(uint64_t n)
{
	gather_all(n, 8);
	announce(n + 8);
	for (unsigned i = 0; i < BATCH; i++)
		spared[row_of(rung__row_offset(&f.store->shape.layout, ranks_of(n)[i]))] = true;
	atomic_store(&script.release, 0);
	atomic_store(&holding, INT32_MAX);
	cr_assert_eq(gather(n), 0, "%s", rung_last_error());
	for (unsigned tries = 0; tries < 60000 && atomic_load(&script.held) == 0; tries++)
		usleep(1000);
	cr_assert_gt(atomic_load(&script.held), 0);
}

Test(store_window_faults, batches_behind_a_stuck_sweep_fail_and_the_store_goes_on)
{
	stage(1, WIDTH);
	for (unsigned window = 2; window <= 8; window += 6) {
		open_store(KEPT, (struct rung_store_opts){ .window = window,
		                                           .read_timeout_ms = TIMEOUT_MS,
		                                           .queue_depth = 4,
		                                           .no_merge = 1 });
		stop_device(8);
		for (uint64_t n = 9; n < 14; n++) { /* the queue is full of reads ahead */
			cr_assert_eq(gather(n), RUNG_E_IO);
			cr_assert(strstr(rung_last_error(), strerror(ETIMEDOUT)), "%s",
			          rung_last_error());
		}
		release();
		for (uint64_t n = 9; n < 20; n++)
			cr_assert_eq(gather(n), 0, "%s", rung_last_error());
		close_store();
	}
	fixture_close(&f);
}

Test(store_window_faults, a_late_read_ahead_harms_no_other_batch)
{
	static const uint64_t widths[] = { 512, 4096 }; /* many rows in a slot; few */

	for (int w = 0; w < 2; w++) {
		unsigned failed = 0;

		stage(1, widths[w]);
		open_store(KEPT, (struct rung_store_opts){ .read_timeout_ms = TIMEOUT_MS,
		                                           .no_merge = w });
		gather_all(6, 8);
		atomic_store(&holding, 1);
		/* a batch that waits for the read fails, unless it had timed out before */
		for (uint64_t n = 6; n < 16; n++)
			failed += gather(n) != 0;
		cr_assert_leq(failed, 1);
		atomic_store(&script.release, 1);
		gather_all(BATCHES, 8);
		close_store();
		fixture_close(&f);
	}
}

static void *release_later(void *arg)
{
	usleep(30000);
	atomic_store(&script.release, 1);
	return arg;
}

Test(store_window_faults, a_store_can_be_closed_during_a_sweep)
{
	for (uint32_t file_count = 1; file_count <= 3; file_count += 2) {
		pthread_t thread;

		stage(file_count, WIDTH);
		open_store(KEPT, (struct rung_store_opts){ .queue_depth = 8, .no_merge = 1 });
		stop_device(8);
		cr_assert_eq(pthread_create(&thread, NULL, release_later, NULL), 0);
		cr_assert_eq(rung_store_close(f.store), 0, "%s", rung_last_error());
		pthread_join(thread, NULL);
		f.store = NULL;
		cr_assert_eq(atomic_load(&script.violations), 0);
		cr_assert_eq(atomic_load(&script.sent), atomic_load(&script.ended));
		fixture_close(&f);
	}
}

Test(store_window_faults, a_broken_engine_ends_the_sweep)
{
	for (unsigned refuses = 0; refuses < 2; refuses++) {
		stage(1, WIDTH);
		open_store(KEPT, (struct rung_store_opts){ .queue_depth = 8, .no_merge = 1 });
		stop_device(8);
		atomic_store(&script.refuses, refuses);
		atomic_store(&script.broken, ENODEV);
		atomic_store(&script.release, 1);
		/* they were not announced, so most of their rows are not cached */
		for (uint64_t n = 20; n < 24; n++) {
			cr_assert_eq(gather(n), RUNG_E_IO);
			cr_assert(strstr(rung_last_error(), "accepts no more reads"), "%s",
			          rung_last_error());
		}
		fixture_free_memories(&f);
		cr_assert_eq(rung_store_close(f.store), 0, "%s", rung_last_error());
		f.store = NULL;
		cr_assert_eq(atomic_load(&script.violations), 0);
		fixture_close(&f);
	}
}

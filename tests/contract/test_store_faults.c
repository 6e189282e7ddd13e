/* SPDX-License-Identifier: Apache-2.0 */
/* The store over a tier that fails: no request is lost or hangs, and the store continues. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fault_reader.h"
#include "store_fixture.h"

#define ROWS  3000
#define WIDTH 512
#define ASKED 700

static struct store_fixture f;
static uint64_t ids[ASKED];
static unsigned char *out;

static void open_rows(uint64_t rows, uint64_t width, int no_merge)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .requests_max = 4,
		                        .no_merge = no_merge };

	support_fault_reset();
	fixture_open(&f, rows, width, 20 * RUNG__MAX(width, 4096), &opts, &support_fault_reader);
	atomic_store(&support_fault.seen, 0);
	fixture_random_ids(&f, ids, ASKED, 3);
	out = fixture_memory(&f, ASKED * width);
}

static void open_over_faults(int no_merge)
{
	open_rows(ROWS, WIDTH, no_merge);
}

static void close_all(void)
{
	fixture_close(&f);
}

static uint64_t retries(void)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	rung_store_stats(f.store, &stats);
	return stats.retries;
}

/* Ranks from one sector to the next; at least 1. */
static uint64_t sector_rows(void)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	rung_store_stats(f.store, &stats);
	return RUNG__MAX(stats.sector_bytes / WIDTH, 1);
}

static struct rung_request *submit(uint64_t first, uint64_t count)
{
	struct rung_ids list = fixture_ids(&f, ids + first, count, RUNG_U64, RUNG_RANKS);
	struct rung_request *request = NULL;

	cr_assert_eq(rung_gather_submit(f.store, &list, out + first * WIDTH, 0, NULL, &request), 0,
	             "%s", rung_last_error());
	return request;
}

Test(store_faults, a_read_that_fails_once_is_retried)
{
	static const int errors[] = { EIO, EAGAIN, EINTR, ENODATA, ETIMEDOUT };

	for (unsigned e = 0; e < RUNG__ARRAY_LEN(errors); e++) {
		for (int no_merge = 0; no_merge < 2; no_merge++) {
			open_over_faults(no_merge);
			support_fault.kind = SUPPORT_FAULT_ERRNO;
			support_fault.err = errors[e];
			support_fault.first = 5;
			support_fault.count = 1;
			fixture_gather_and_check(&f, ids, ASKED);
			cr_assert_geq(retries(), 1);
			close_all();
		}
	}
}

Test(store_faults, short_reads_are_completed)
{
	open_rows(600, 8192, 0); /* several sectors, whether of 512 bytes or of 4096 */
	support_fault.kind = SUPPORT_FAULT_SHORT;
	support_fault.count = UINT64_MAX;
	fixture_gather_and_check(&f, ids, ASKED);
	cr_assert_geq(retries(), 1);
	close_all();
}

Test(store_faults, completions_may_come_in_any_order)
{
	open_over_faults(0);
	support_fault.kind = SUPPORT_FAULT_REVERSED;
	fixture_gather_and_check(&f, ids, ASKED);
	support_fault.kind = SUPPORT_FAULT_LATE;
	support_fault.first = atomic_load(&support_fault.seen);
	support_fault.count = 40;
	fixture_gather_and_check(&f, ids, ASKED);
	close_all();
}

Test(store_faults, a_bad_sector_fails_only_requests_for_its_row)
{
	struct rung_request *hit, *spared;
	uint64_t step, first, bad;
	char says[64];

	if (fixture_in_place())
		cr_skip_test(
			"adjacent ranks are not adjacent in the file where rows stay in place");
	open_over_faults(0);
	step = sector_rows();
	first = ROWS - 21 * step;
	bad = first + 10 * step;
	for (unsigned i = 0; i < 20; i++) /* on both sides of the bad sector: one merged read */
		ids[i] = first + i * step;
	for (unsigned i = 0; i < 20; i++)
		ids[20 + i] = first + (i + (i >= 10)) * step;
	snprintf(says, sizeof(says), "row of rank %lu at offset %lu", (unsigned long)bad,
	         (unsigned long)(4096 + bad * WIDTH));
	support_fault.bad_offset = 4096 + bad * WIDTH;
	hit = submit(0, 20);
	spared = submit(20, 20);
	cr_assert_eq(rung_request_wait(hit, -1), RUNG_E_IO);
	cr_assert(strstr(rung_request_error(hit), says), "%s", rung_request_error(hit));
	cr_assert(strstr(rung_request_error(hit), strerror(ENODATA)));
	cr_assert(strstr(rung_request_error(hit), "features.000.npy"));
	cr_assert_eq(rung_request_wait(spared, -1), 0, "%s", rung_last_error());
	fixture_check(&f, ids + 20, 20, out + 20 * WIDTH, WIDTH);
	rung_request_put(hit);
	rung_request_put(spared);
	support_fault.bad_offset = 0;
	/* the sector can be read again, and the store works */
	fixture_gather_and_check(&f, ids, 20);
	close_all();
}

Test(store_faults, a_read_that_always_fails_ends_after_a_bounded_number_of_tries)
{
	struct rung_request *request;

	open_over_faults(0);
	support_fault.kind = SUPPORT_FAULT_ERRNO;
	support_fault.err = EIO;
	support_fault.count = UINT64_MAX;
	request = submit(0, ASKED);
	cr_assert_eq(rung_request_wait(request, -1), RUNG_E_IO);
	rung_request_put(request);
	support_fault.kind = SUPPORT_FAULT_NONE;
	fixture_gather_and_check(&f, ids, ASKED);
	close_all();
}

Test(store_faults, an_empty_read_is_reported_as_truncation)
{
	struct rung_request *request;

	open_over_faults(0);
	support_fault.kind = SUPPORT_FAULT_EMPTY;
	support_fault.count = UINT64_MAX;
	request = submit(0, 10);
	cr_assert_eq(rung_request_wait(request, -1), RUNG_E_IO);
	cr_assert(strstr(rung_request_error(request), "truncated"));
	rung_request_put(request);
	close_all();
}

Test(store_faults, a_wait_with_a_limit_ends_while_the_device_is_silent)
{
	struct rung_request *request;

	open_over_faults(0);
	support_fault.kind = SUPPORT_FAULT_HELD;
	support_fault.count = UINT64_MAX;
	request = submit(0, ASKED);
	cr_assert_eq(rung_request_wait(request, 1000000), RUNG_E_TIMEDOUT);
	cr_assert_eq(rung_request_poll(request), 0);
	cr_assert_str_empty(rung_request_error(request));
	atomic_store(&support_fault.release, 1);
	cr_assert_eq(rung_request_wait(request, -1), 0);
	fixture_check(&f, ids, ASKED, out, WIDTH);
	rung_request_put(request);
	close_all();
}

static void *release_soon(void *arg)
{
	usleep(50000);
	atomic_store(&support_fault.release, 1);
	return arg;
}

Test(store_faults, closing_cancels_queued_reads_and_waits_for_reads_in_flight)
{
	pthread_t thread;

	open_over_faults(0);
	support_fault.kind = SUPPORT_FAULT_HELD;
	support_fault.count = UINT64_MAX;
	for (unsigned i = 0; i < 4; i++)
		submit(i * 100, 100);
	while (atomic_load(&support_fault.seen) == 0) /* until reads are in flight and held */
		usleep(1000);
	pthread_create(&thread, NULL, release_soon, NULL);
	cr_assert_eq(rung_store_close(f.store), 0);
	cr_assert_eq(atomic_load(&support_fault.release), 1); /* not before the reads completed */
	f.store = NULL;
	pthread_join(thread, NULL);
	close_all();
}

Test(store_faults, a_lost_device_fails_every_request_and_hangs_none)
{
	struct rung_request *requests[3];

	open_over_faults(0);
	support_fault.kind = SUPPORT_FAULT_GONE;
	support_fault.err = ENODEV;
	support_fault.first = 20;
	for (unsigned i = 0; i < 3; i++)
		requests[i] = submit(i * 200, 200);
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(rung_request_wait(requests[i], -1), RUNG_E_IO);
		cr_assert(strstr(rung_request_error(requests[i]), strerror(ENODEV)), "%s",
		          rung_request_error(requests[i]));
		rung_request_put(requests[i]);
	}
	requests[0] = submit(0, 200); /* still lost: fails at once */
	cr_assert_eq(rung_request_wait(requests[0], -1), RUNG_E_IO);
	rung_request_put(requests[0]);
	support_fault.kind = SUPPORT_FAULT_NONE;
	close_all();
}

Test(store_faults, a_device_lost_with_every_slot_in_flight_hangs_no_request)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .requests_max = 4 };
	struct rung_request *requests[3];

	support_fault_reset();
	fixture_open(&f, ROWS, WIDTH, 4 * 4096, &opts, &support_fault_reader);
	cr_assert_eq(rung_plan_slots(f.plan)->slot_count, 4);
	fixture_random_ids(&f, ids, ASKED, 3);
	out = fixture_memory(&f, ASKED * WIDTH);
	support_fault.kind = SUPPORT_FAULT_GONE;
	support_fault.err = ENODEV;
	for (unsigned i = 0; i < 3; i++)
		requests[i] = submit(i * 200, 200);
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(rung_request_wait(requests[i], 10000000000), RUNG_E_IO, "%s",
		             rung_last_error());
		rung_request_put(requests[i]);
	}
	support_fault.kind = SUPPORT_FAULT_NONE;
	close_all();
}

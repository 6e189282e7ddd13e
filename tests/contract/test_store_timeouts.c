/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that do not complete in time: only the requests that wait for them fail, and their memory
 * is not reused until they complete.
 */
#include <errno.h>

#include "script_store.h"
#include "share_fixture.h"

Test(store_timeouts, a_late_read_fails_only_its_request)
{
	static const uint64_t bad[] = { BAD_RANK, BAD_RANK + 1 };
	struct rung_request *hit;

	open_with_timeout(SMALL);
	script.decide = hold_bad_rank;
	atomic_store(&holding, 1);
	hit = submit(bad, 2, out);
	await_held(1);
	for (unsigned i = 0; i < 5; i++)
		fixture_gather_and_check(&f, ids, ASKED);
	cr_assert_eq(rung_request_wait(hit, 60000000000), RUNG_E_IO);
	cr_assert(strstr(rung_request_error(hit), "row of rank 2900 at offset 1488896"), "%s",
	          rung_request_error(hit));
	cr_assert(strstr(rung_request_error(hit), "features.000.npy"));
	ends_with(hit, RUNG_E_IO, strerror(ETIMEDOUT));
	for (unsigned i = 0; i < 5; i++) /* its slot is still in use: the others share the rest */
		fixture_gather_and_check(&f, ids, ASKED);
	fixture_gather_and_check(&f, bad, 2); /* read again, into another slot */
	let_go();
	fixture_gather_and_check(&f, bad, 2);
	all_rows_are_accounted_for();
	close_all();
}

Test(store_timeouts, a_range_has_its_timeout)
{
	static const uint64_t bad[] = { BAD_RANK, BAD_RANK + 1 };
	const uint32_t timeouts[] = { TIMEOUT_MS, TIMEOUT_MS };
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .requests_max = 8,
		                        .read_timeout_ms = 600000,
		                        .range_timeouts_ms = timeouts,
		                        .range_timeout_count = 1 };
	struct rung_store *store;

	open_script(SMALL, &opts);
	script.decide = hold_bad_rank;
	atomic_store(&holding, 1);
	ends_with(submit(bad, 2, out), RUNG_E_IO, strerror(ETIMEDOUT));
	let_go();
	opts.range_timeout_count = 2;
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &store), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "2 read timeouts for 1 ranges"), "%s",
	          rung_last_error());
	close_all();
}

Test(store_timeouts, reads_stuck_in_every_slot_fail_requests_until_they_complete)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .requests_max = 6,
		                        .read_timeout_ms = TIMEOUT_MS,
		                        .no_merge = 1 };
	struct rung_request *requests[6];

	open_script(SMALL, &opts);
	for (unsigned round = 0; round < 2;
	     round++) { /* twice, to show that no slot has been lost */
		atomic_store(&script.release, 0);
		atomic_store(&script.late_peak, 0);
		atomic_store(&holding, INT32_MAX);
		script.decide = hold_next;
		for (unsigned i = 0; i < 6; i++) /* the last rows are cold */
			requests[i] = submit((const uint64_t[]){ 2000 + i * 40, 2001 + i * 40,
			                                         2005 + i * 40, 2011 + i * 40,
			                                         2021 + i * 40 },
			                     5, out);
		for (unsigned i = 0; i < 6; i++)
			ends_with(requests[i], RUNG_E_IO, strerror(ETIMEDOUT));
		requests[0] = submit(ids, ASKED, out);
		cr_assert_eq(rung_request_wait(requests[0], 60000000000), RUNG_E_IO);
		cr_assert(strstr(rung_request_error(requests[0]), "no other can be sent"), "%s",
		          rung_request_error(requests[0]));
		rung_request_put(requests[0]);
		cr_assert_eq(atomic_load(&script.late_peak), stats().queue_depth);
		let_go();
		fixture_gather_and_check(&f, ids, ASKED);
	}
	all_rows_are_accounted_for();
	close_all();
}

/* Gather enough rows to replace those in all frames, and check them. */
static void replace_all_rows(void)
{
	uint64_t many[ASKED];

	for (unsigned round = 0; round < 8; round++) {
		for (unsigned i = 0; i < ASKED; i++)
			many[i] = 2000 + (round * ASKED + i) * 7 % 800;
		fixture_gather_and_check(&f, many, ASKED);
	}
}

Test(store_timeouts, a_late_read_uses_no_frame)
{
	static const uint64_t bad[] = { BAD_RANK };

	open_with_timeout(LARGE);
	script.decide = hold_bad_rank;
	atomic_store(&holding, 1);
	ends_with(submit(bad, 1, out), RUNG_E_IO, strerror(ETIMEDOUT));
	replace_all_rows();
	cr_assert_eq(stats().cache_rows_filled, stats().cache_rows);
	fixture_gather_and_check(&f, bad, 1);
	let_go(); /* it writes to its slot, which no other read has used */
	replace_all_rows();
	fixture_gather_and_check(&f, bad, 1);
	all_rows_are_accounted_for();
	close_all();
}

Test(store_timeouts, slow_reads_do_not_delay_others)
{
	/* the default timeout of 30 s is not reached */
	struct rung_store_opts opts = { .size = sizeof(opts), .requests_max = 4, .no_merge = 1 };
	static const uint64_t slow[] = { 2700, 2720, 2740, 2760, 2780, 2800 };
	struct rung_request *request;
	uint64_t expired, next = 2600;

	open_script(LARGE, &opts); /* many slots, because completions are polled in groups */
	atomic_store(&holding, RUNG__ARRAY_LEN(slow));
	script.decide = hold_next;
	request = submit(slow, RUNG__ARRAY_LEN(slow), out);
	await_held(RUNG__ARRAY_LEN(slow));
	do { /* until the store has noticed that they are slow */
		expired = atomic_load(&script.expired);
		fixture_gather_and_check(&f, &next, 1);
		next++;
	} while (expired == 0 || atomic_load(&script.expired) > expired);
	for (unsigned i = 0; i < 30; i++)
		fixture_gather_and_check(&f, ids + i * 10, 10);
	cr_assert_eq(atomic_load(&script.expired), expired); /* no wait ran to its timeout */
	let_go();
	cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
	fixture_check(&f, slow, RUNG__ARRAY_LEN(slow), out, WIDTH);
	rung_request_put(request);
	close_all();
}

Test(store_timeouts, stuck_reads_block_no_other_reads)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .queue_depth = 4096,
		                        .read_timeout_ms = TIMEOUT_MS };
	struct rung_request *request;
	/* two rows per read */
	uint64_t stuck[240], pairs[10], slots;

	open_script(LARGE, &opts);
	slots = rung_plan_slots(f.plan)->slot_count;
	cr_assert(slots >= 16 && 2 * slots <= RUNG__ARRAY_LEN(stuck));
	for (uint64_t i = 0; i < 2 * (slots - 1); i++)
		stuck[i] = 1800 + i / 2 * 10 + i % 2;
	for (uint64_t i = 0; i < RUNG__ARRAY_LEN(pairs); i++)
		pairs[i] = 1600 + i / 2 * 10 + i % 2;
	atomic_store(&holding, (int)slots - 1);
	script.decide = hold_next;
	ends_with(submit(stuck, 2 * (slots - 1), fixture_memory(&f, sizeof(stuck) / 8 * WIDTH)),
	          RUNG_E_IO, strerror(ETIMEDOUT));
	cr_assert_eq(atomic_load(&script.sent), slots - 1);
	/* one slot is left, and each pair releases it for the next */
	request = submit(pairs, RUNG__ARRAY_LEN(pairs), out);
	cr_assert_eq(rung_request_wait(request, 60000000000), 0, "%s", rung_last_error());
	rung_request_put(request);
	let_go();
	close_all();
}

static void delay_all(const struct script_read *read, struct script_fate *fate)
{
	(void)read;
	fate->delay_ns = 150000000;
}

Test(store_timeouts, time_in_which_the_thread_did_not_run_is_not_counted)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .read_timeout_ms = 200 };

	open_script(SMALL, &opts);
	script.decide = delay_all;
	script.oversleep_ns = 400000000;
	fixture_gather_and_check(&f, (const uint64_t[]){ BAD_RANK }, 1);
	close_all();
}

/* The fixture's store, shared over the script, and a store attached to it that reads for itself. */
static struct rung_store *open_shared(uint32_t shared_timeout_ms, uint32_t timeout_ms)
{
	struct rung_store_opts shared_opts = { .size = sizeof(shared_opts),
		                               .read_timeout_ms = shared_timeout_ms };
	struct rung_store_opts opts = { .size = sizeof(opts), .read_timeout_ms = timeout_ms };
	struct rung_store *attached;
	char path[300];

	script_reset();
	fixture_open(&f, ROWS, WIDTH, LARGE, NULL, NULL);
	cr_assert_eq(rung_store_close(f.store), 0);
	snprintf(path, sizeof(path), "%s/share/socket", f.parent);
	shared_opts.share_path = path;
	cr_assert_eq(rung__store_open_over(f.ds, f.plan, &shared_opts, &script_reader, &f.store), 0,
	             "%s", rung_last_error());
	cr_assert_eq(rung_store_attach(path, &opts, &attached), 0, "%s", rung_last_error());
	out = fixture_memory(&f, ASKED * WIDTH);
	script.decide = hold_bad_rank;
	atomic_store(&holding, 1);
	return attached;
}

Test(store_timeouts, rows_stuck_in_another_process_are_read_again)
{
	static const uint64_t bad[] = { BAD_RANK };
	/* only the stuck read is late, however busy the machine is */
	struct rung_store *attached = open_shared(TIMEOUT_MS, 30000), *sharing = f.store;

	ends_with(submit(bad, 1, out), RUNG_E_IO, strerror(ETIMEDOUT));
	f.store = attached;
	fixture_gather_and_check(&f, bad, 1);
	cr_assert_eq(stats().read_rows, 1);
	all_rows_are_accounted_for();
	let_go();
	fixture_gather_and_check(&f, bad, 1);
	cr_assert_eq(stats().read_rows, 1); /* the late row is a hit for both */
	f.store = sharing;
	fixture_gather_and_check(&f, bad, 1);
	cr_assert_eq(rung_store_close(attached), 0);
	close_all();
}

Test(store_timeouts, a_failed_request_releases_only_its_own_frames)
{
	static const uint64_t kept[] = { 2800 }, bad[] = { BAD_RANK }, both[] = { BAD_RANK, 2990 };
	struct rung_store *attached = open_shared(0, 0), *sharing = f.store;
	struct rung_request *stuck = submit(bad, 1, out);
	char path[300];

	await_held(1);
	snprintf(path, sizeof(path), "%s/features.000.npy", f.dir);
	cr_assert_eq(truncate(path, (off_t)offset_of(2950)), 0);
	f.store = attached;
	out = fixture_memory(&f, ASKED * WIDTH);
	for (unsigned i = 0; i < 2; i++) {
		struct rung_request *request = submit(kept, 1, out);

		cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
		rung_request_put(request);
		cr_assert_eq(stats().cache_hits, i);
		if (i == 0) /* the same request struct: its first row has no frame this time */
			ends_with(submit(both, 2, out), RUNG_E_IO, "truncated");
	}
	all_rows_are_accounted_for();
	let_go();
	cr_assert_eq(rung_request_wait(stuck, -1), 0, "%s", rung_last_error());
	rung_request_put(stuck);
	fixture_free_memories(&f);
	cr_assert_eq(rung_store_close(attached), 0);
	f.store = sharing;
	close_all();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are read before their batch begins: they are right, and cost fewer reads. */
#include "window_fixture.h"

Test(store_window, rows_are_right_whatever_their_width)
{
	static const uint64_t widths[] = { 100, 512, 4096 };

	for (unsigned w = 0; w < RUNG__ARRAY_LEN(widths); w++) {
		for (uint32_t file_count = 1; file_count <= 3; file_count += 2) {
			stage(file_count, widths[w]);
			for (int no_merge = 0; no_merge < 2; no_merge++) {
				open_store(KEPT / 2,
				           (struct rung_store_opts){ .no_merge = no_merge });
				gather_all(BATCHES / 2, 8);
				cr_assert_gt(stats_now().ahead_rows, 0);
				cr_assert_geq(stats_now().window_batches, 3);
				close_store();
			}
			fixture_close(&f);
		}
	}
}

Test(store_window, near_rows_of_several_batches_share_a_read)
{
	for (uint32_t file_count = 1; file_count <= 3; file_count += 2) {
		uint64_t reads[2], read_rows[2];

		stage(file_count, WIDTH);
		for (unsigned w = 0; w < 2; w++) {
			open_store(KEPT,
			           (struct rung_store_opts){ .window = w ? 0 : RUNG_WINDOW_NONE });
			gather_all(BATCHES, 10);
			reads[w] = stats_now().device_reads;
			read_rows[w] = stats_now().read_rows + stats_now().ahead_rows;
			cr_assert_eq(stats_now().ahead_rows > 0, w);
			cr_assert_eq(stats_now().window_batches, w ? 10 : 0);
			close_store();
		}
		/* 1/2 to 1/3, on any machine: the sweep may be a step late, but not more */
		cr_assert_lt(reads[1] * 4, reads[0] * 3, "%llu, %llu", (unsigned long long)reads[1],
		             (unsigned long long)reads[0]);
		/* rows are not evicted before their use */
		cr_assert_lt(read_rows[1] * 10, read_rows[0] * 13, "%llu, %llu",
		             (unsigned long long)read_rows[1], (unsigned long long)read_rows[0]);
		fixture_close(&f);
	}
}

Test(store_window, rows_are_right_with_gathers_in_flight)
{
	for (uint32_t file_count = 1; file_count <= 3; file_count += 2) {
		stage(file_count, WIDTH);
		open_store(KEPT / 3, (struct rung_store_opts){ .window = 6 });
		for (uint64_t n = 0, known = 0; n + 4 <= BATCHES; n += 4) {
			struct rung_request *requests[4];
			unsigned char *outs[4];

			for (; known < BATCHES && known <= n + 10; known++)
				announce(known);
			for (unsigned r = 0; r < 4; r++)
				requests[r] = submit(n + r, &outs[r]);
			for (unsigned r = 0; r < 4; r++) {
				cr_assert_eq(rung_request_wait(requests[r], HANG_NS), 0, "%s",
				             rung_last_error());
				fixture_check(&f, ranks_of(n + r), BATCH, outs[r],
				              (size_t)f.row_bytes);
				rung_request_put(requests[r]);
			}
			fixture_free_memories(&f);
		}
		cr_assert_gt(stats_now().ahead_rows, 0);
		close_store();
		fixture_close(&f);
	}
}

Test(store_window, a_cache_smaller_than_a_batch_reads_ahead_only_on_demand)
{
	stage(1, WIDTH);
	open_store(BATCH / 3, (struct rung_store_opts){ 0 });
	gather_all(BATCHES / 2, 8);
	cr_assert_eq(stats_now().ahead_rows, 0);
	cr_assert_eq(stats_now().window_batches, 0);
	close_store();
	open_store(BATCH / 3, (struct rung_store_opts){ .window = 8 });
	gather_all(BATCHES / 2, 8);
	cr_assert_gt(stats_now().ahead_rows, 0);
	close_store();
	fixture_close(&f);
}

Test(store_window, the_window_is_as_long_as_the_option_says)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .window = RUNG_WINDOW_MAX + 1 };

	stage(1, WIDTH);
	open_store(KEPT, (struct rung_store_opts){ .window = 1 });
	gather_all(BATCHES / 3, 8);
	cr_assert_gt(stats_now().ahead_rows, 0);
	cr_assert_eq(stats_now().window_batches, 1);
	close_store();
	open_store(KEPT, (struct rung_store_opts){ .window = RUNG_WINDOW_MAX });
	gather_all(BATCHES / 3, 8);
	cr_assert_gt(stats_now().ahead_rows, 0);
	cr_assert_eq(stats_now().window_batches, 8); /* all that are announced */
	close_store();
	cr_assert_eq(rung__store_open_over(f.ds, f.plan, &opts, &script_reader, &f.store),
	             RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(),
	                 "a window of 4097 batches is too long; give at most 4096"),
	          "%s", rung_last_error());
	f.store = NULL;
	fixture_close(&f);
}

/* ---- batches that are not gathered ---- */

Test(store_window, batches_that_are_never_gathered_do_not_harm_others)
{
	stage(1, WIDTH);
	open_store(KEPT, (struct rung_store_opts){ .window = 4 });
	for (uint64_t n = 0; n < 20; n++)
		announce(n);
	for (uint64_t n = 0; n < 20; n += 3) { /* two of three are skipped */
		cr_assert_eq(gather(n), 0, "%s", rung_last_error());
		await_reads();
	}
	for (uint64_t n = 20; n < BATCHES; n++)
		cr_assert_eq(gather(n), 0, "%s", rung_last_error());
	cr_assert_gt(stats_now().ahead_rows, 0);
	close_store();
	fixture_close(&f);
}

Test(store_window, withdrawn_batches_leave_only_idle_frames)
{
	uint64_t names[RUNG__CACHE_BATCHES_MAX], kept[8];
	const struct rung__cache *cache;
	uint32_t count;

	stage(1, WIDTH);
	open_store(KEPT, (struct rung_store_opts){ .window = 4 });
	cache = f.store->cache;
	announce(0);
	announce(1);
	for (uint64_t n = 2; n < 10; n++) {
		const struct rung_ids list = { ranks_of(n), BATCH, RUNG_U64, RUNG_RANKS };

		cr_assert_eq(rung__prefetch(f.store, &list, names, &count), 0, "%s",
		             rung_last_error());
		cr_assert_eq(count, 1);
		kept[n - 2] = names[0];
	}
	cr_assert_eq(gather(0), 0, "%s", rung_last_error());
	cr_assert_eq(gather(1), 0, "%s", rung_last_error());
	await_reads();
	cr_assert_gt(stats_now().ahead_rows, 0);
	rung__prefetch_undo(f.store, kept, 8);
	check_all();
	rung__cache_lock(f.store->cache);
	cr_assert_eq(cache->window.listed_count, 0);
	cr_assert_eq(cache->window.wanted.levels[cache->window.wanted.level_count - 1][0], 0);
	cr_assert_eq(cache->index->idle_count, cache->index->filled_count);
	rung__cache_unlock(f.store->cache);
	for (uint64_t n = 0; n < BATCHES; n++)
		cr_assert_eq(gather(n), 0, "%s", rung_last_error());
	close_store();
	fixture_close(&f);
}

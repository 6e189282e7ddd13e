/* SPDX-License-Identifier: Apache-2.0 */
/* The loader: batches are announced ahead to the cold-row cache, as long as its window has room. */
#include <sched.h>

#include "loader_fixture.h"

Test(loader_announce, batches_are_announced_if_cold_rows_can_be_cached)
{
	struct rung_loader_pass pass = whole_pass();
	struct rung_loader *loader;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	cr_assert_gt(rung_plan_cache(f.plan)->row_count, 0);
	loader = make_loader(2, 4, 2);
	run_pass(loader, pass);
	cr_assert_eq(stats_of(loader).announced, BATCHES);
	cr_assert_eq(stats_of(loader).announce_refused, 0);
	pass.batch_first = 3;
	run_pass(loader, pass);
	cr_assert_eq(stats_of(loader).announced, BATCHES - 3);
	rung_loader_destroy(loader);
	close_store();

	open_store(RUNG_BYTES_MAX, (struct rung_store_opts){ 0 });
	loader = make_loader(2, 4, 2);
	run_pass(loader, pass);
	cr_assert_eq(stats_of(loader).announced, 0);
	rung_loader_destroy(loader);
	close_store();
}

/* The highest number of cold rows in a batch. */
static uint64_t cold_rows_max(void)
{
	const uint64_t cold_first = rung_plan_tier(f.plan, fixture_tier(&f, "nvme"))->rank_first;
	uint64_t most = 0;

	for (uint64_t b = 0; b < BATCHES; b++) {
		uint64_t count, cold = 0;
		const uint64_t *vertices = rung_batch_vertices(expected[b], &count);

		for (uint64_t i = 0; i < count; i++)
			cold += vertices[i] >= cold_first;
		most = RUNG__MAX(most, cold);
	}
	return most;
}

/* A store whose window has room for about this number of batches. */
static void open_with_window(double batches, uint32_t batch_rows_max)
{
	uint64_t rows;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	rows = cold_rows_max();
	cr_assert_gt(rows, 10);
	close_store();
	open_store(HOST_BYTES,
	           (struct rung_store_opts){ .window_rows_max = (uint64_t)((double)rows * batches),
	                                     .batch_rows_max = batch_rows_max });
}

Test(loader_announce, a_rejected_announcement_is_repeated_after_the_next_gather)
{
	struct rung_loader_stats stats;
	struct rung_loader *loader;

	open_with_window(2.5, 0);
	loader = make_loader(2, 8, 1);
	run_pass(loader, whole_pass());
	stats = stats_of(loader);
	cr_assert_gt(stats.announce_refused, 0);
	cr_assert_gt(stats.announced, 0);
	cr_assert_leq(stats.announced, BATCHES);
	rung_loader_destroy(loader);
	close_store();

	open_with_window(0.1, 0); /* room for no batch */
	loader = make_loader(2, 8, 2);
	run_pass(loader, whole_pass());
	cr_assert_eq(stats_of(loader).announced, 0);
	rung_loader_destroy(loader);
	close_store();
}

/* Otherwise announcements of abandoned passes would fill the window. */
Test(loader_announce, announcements_of_an_abandoned_pass_are_withdrawn)
{
	static const uint32_t ahead = 5, gathers = 2;
	struct rung_loader *loader;

	/* that many batches may have ended without having been removed from the window */
	open_with_window(ahead + 2 * gathers, 100);
	loader = make_loader(2, ahead, gathers);
	for (int again = 0; again < 20; again++) {
		begin(loader, whole_pass());
		while (stats_of(loader).announced < ahead + gathers &&
		       stats_of(loader).announce_refused == 0)
			sched_yield();
		cr_assert_eq(stats_of(loader).announce_refused, 0);
	}
	run_pass(loader, whole_pass());
	cr_assert_eq(stats_of(loader).announced, BATCHES);
	rung_loader_destroy(loader);
	close_store();
}

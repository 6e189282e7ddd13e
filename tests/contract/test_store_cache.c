/* SPDX-License-Identifier: Apache-2.0 */
/* The store's cold-row cache: rows are correct, each is read once while it is cached, announced
 * rows are kept, and every row is counted. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/state.h"
#include "fault_reader.h"
#include "store_fixture.h"

#define ROWS         4000u
#define WIDTH        512u
#define ASKED        900u
#define HOST_BYTES   600000u
#define CACHE_HEADER 45000u /* of the index, whatever the number of frames */

static struct store_fixture f;
static uint64_t ids[ASKED * 2];

/* Stage the dataset and make a plan; the store that the fixture opens is closed again. */
static void stage(uint64_t width)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .batch_rows_max = 256 };

	support_fault_reset();
	fixture_open(&f, ROWS, width, HOST_BYTES / WIDTH * width, &opts, &support_fault_reader);
	cr_assert_eq(rung_store_close(f.store), 0);
	f.store = NULL;
}

/* @param kept  about how many rows the cache holds */
static void open_store(uint64_t kept, struct rung_store_opts opts)
{
	int gpus[3];
	struct rung_plan_opts plan_opts =
		fixture_plan_opts(ROWS * f.row_bytes, HOST_BYTES / WIDTH * f.row_bytes, gpus);

	support_fault_reset();
	opts.size = sizeof(opts);
	opts.batch_rows_max = opts.batch_rows_max ? opts.batch_rows_max : 4096;
	plan_opts.cache_bytes = kept ? CACHE_HEADER + kept * (f.row_bytes + 64) : RUNG_BYTES_NONE;
	rung_plan_destroy(f.plan);
	cr_assert_eq(rung_plan_create(f.ds, &plan_opts, &f.plan), 0, "%s", rung_last_error());
	cr_assert_geq(rung_plan_cache(f.plan)->row_count, kept * 3 / 4);
	cr_assert_leq(rung_plan_cache(f.plan)->row_count, kept * 3 / 2);
	cr_assert_eq(rung__store_open_over(f.ds, f.plan, &opts, &support_fault_reader, &f.store), 0,
	             "%s", rung_last_error());
	atomic_store(&support_fault.seen, 0);
}

static struct rung_store_stats stats_now(void)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(rung_store_stats(f.store, &stats), 0);
	return stats;
}

static uint64_t cold_first(void)
{
	return rung_plan_tier(f.plan, fixture_tier(&f, "nvme"))->rank_first;
}

static uint64_t cold_count(void)
{
	return rung_plan_tier(f.plan, fixture_tier(&f, "nvme"))->row_count;
}

/* Each requested cold row is counted once as one of these. */
static void check_sum(void)
{
	struct rung_store_stats stats = stats_now();

	cr_assert_eq(stats.cache_hits + stats.joined_rows + stats.read_rows + stats.duplicate_rows +
	                     stats.failed_rows,
	             stats.tiers[fixture_tier(&f, "nvme")].hits);
	cr_assert_eq(stats.cache_rows, rung_plan_cache(f.plan)->row_count);
	cr_assert_leq(stats.cache_rows_filled, stats.cache_rows);
}

static void close_store(void)
{
	check_sum();
	fixture_free_memories(&f);
	cr_assert_eq(rung_store_close(f.store), 0);
	f.store = NULL;
}

/* @return the number of distinct cold rows in a list */
static uint64_t distinct_cold(const uint64_t *ranks, uint64_t count)
{
	bool seen[ROWS] = { false };
	uint64_t distinct = 0;

	for (uint64_t i = 0; i < count; i++) {
		distinct += ranks[i] >= cold_first() && !seen[ranks[i]];
		seen[ranks[i]] = true;
	}
	return distinct;
}

static struct rung_request *submit(const uint64_t *ranks, uint64_t count, unsigned char **out)
{
	struct rung_ids list = fixture_ids(&f, ranks, count, RUNG_U64, RUNG_RANKS);
	struct rung_request *request = NULL;

	*out = fixture_memory(&f, count * f.row_bytes);
	cr_assert_eq(rung_gather_submit(f.store, &list, *out, 0, NULL, &request), 0, "%s",
	             rung_last_error());
	return request;
}

static int prefetch(const uint64_t *ranks, uint64_t count)
{
	struct rung_ids list = { ranks, count, RUNG_U64, RUNG_RANKS };

	return rung_prefetch(f.store, &list);
}

/* ---- rows ---- */

Test(store_cache, rows_are_right_with_a_cache_smaller_than_a_batch)
{
	static const uint64_t widths[] = { 100, 512, 4096 };

	for (unsigned w = 0; w < RUNG__ARRAY_LEN(widths); w++) {
		stage(widths[w]);
		for (int no_merge = 0; no_merge < 2; no_merge++) {
			open_store(80, (struct rung_store_opts){ .no_merge = no_merge });
			for (uint64_t round = 0; round < 6; round++) {
				fixture_random_ids(&f, ids, ASKED, round);
				if (round % 2)
					cr_assert_eq(prefetch(ids, ASKED), 0, "%s",
					             rung_last_error());
				fixture_gather_and_check(&f, ids, ASKED);
			}
			cr_assert_gt(stats_now().cache_hits, 0);
			close_store();
		}
		fixture_close(&f);
	}
}

Test(store_cache, a_cached_row_is_not_read_again)
{
	struct rung_store_stats stats;

	stage(WIDTH);
	open_store(400, (struct rung_store_opts){ 0 });
	fixture_random_ids(&f, ids, 300, 1);
	fixture_gather_and_check(&f, ids, 300);
	stats = stats_now();
	cr_assert_gt(stats.read_rows, 50);
	cr_assert_eq(stats.read_rows, distinct_cold(ids, 300));
	cr_assert_eq(stats.cache_rows_filled, stats.read_rows);
	cr_assert_eq(stats.cache_hits, 0);
	for (unsigned i = 0; i < 3; i++)
		fixture_gather_and_check(&f, ids, 300);
	cr_assert_eq(stats_now().device_reads, stats.device_reads);
	cr_assert_eq(stats_now().read_rows, stats.read_rows);
	cr_assert_eq(stats_now().cache_hits, 3 * (stats.read_rows + stats.duplicate_rows));
	close_store();
	fixture_close(&f);
}

Test(store_cache, without_a_cache_every_row_is_read_and_prefetching_succeeds)
{
	stage(WIDTH);
	open_store(0, (struct rung_store_opts){ 0 });
	fixture_random_ids(&f, ids, ASKED, 1);
	cr_assert_eq(prefetch(ids, ASKED), 0);
	ids[7] = ROWS; /* an error, as with a cache */
	cr_assert_eq(prefetch(ids, ASKED), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "id 4000 at index 7 is not in 0..3999"), "%s",
	          rung_last_error());
	ids[7] = 7;
	fixture_gather_and_check(&f, ids, ASKED);
	fixture_gather_and_check(&f, ids, ASKED);
	cr_assert_eq(stats_now().read_rows, 2 * distinct_cold(ids, ASKED));
	cr_assert_eq(stats_now().cache_hits, 0);
	close_store();
	fixture_close(&f);
}

/* ---- in flight ---- */

/* Several requests want the same rows while the reads of the first are held back: they share the
 * slot or the frame that the first reads into. */
static void gather_together(uint64_t width, int no_merge, uint64_t count)
{
	struct rung_request *requests[3];
	unsigned char *outs[3];
	struct rung_store_stats stats;

	stage(width);
	open_store(100, (struct rung_store_opts){ .no_merge = no_merge });
	for (uint64_t i = 0; i < count; i++)
		ids[i] = ROWS - 1 - i * 3;
	support_fault.kind = SUPPORT_FAULT_HELD;
	support_fault.count = UINT64_MAX;
	for (unsigned r = 0; r < 3; r++)
		requests[r] = submit(ids, count, &outs[r]);
	for (unsigned tries = 0; tries < 1000 && atomic_load(&support_fault.seen) == 0; tries++)
		usleep(1000);
	/* let the other requests find their rows in flight; a late request may find them cached */
	usleep(20000);
	atomic_store(&support_fault.release, 1);
	for (unsigned r = 0; r < 3; r++) {
		cr_assert_eq(rung_request_wait(requests[r], -1), 0, "%s", rung_last_error());
		fixture_check(&f, ids, count, outs[r], (size_t)width);
		rung_request_put(requests[r]);
	}
	support_fault.kind = SUPPORT_FAULT_NONE;
	stats = stats_now();
	cr_assert_eq(stats.read_rows, count);
	cr_assert_eq(stats.cache_hits + stats.joined_rows, 2 * count);
	fixture_gather_and_check(&f, ids, count);
	cr_assert_eq(stats_now().read_rows, count);
	close_store();
	fixture_close(&f);
}

Test(store_cache, rows_wanted_by_several_requests_in_flight_are_read_once)
{
	gather_together(512, 0, 30);  /* merged reads into slots */
	gather_together(100, 1, 20);  /* rows read alone into slots */
	gather_together(4096, 1, 20); /* the same, whole sectors */
}

Test(store_cache, a_failed_read_fails_only_the_requests_that_wait_for_it)
{
	struct rung_request *requests[3];
	unsigned char *outs[3];

	stage(4096);
	open_store(100, (struct rung_store_opts){ .no_merge = 1 });
	for (uint64_t i = 0; i < 10; i++)
		ids[i] = ROWS - 20 + i;
	support_fault.bad_offset = 4096 + (ROWS - 15) * 4096;
	requests[0] = submit(ids, 10, &outs[0]);
	requests[1] = submit(ids, 10, &outs[1]);
	requests[2] = submit(ids, 5, &outs[2]);
	cr_assert_eq(rung_request_wait(requests[0], -1), RUNG_E_IO);
	cr_assert_eq(rung_request_wait(requests[1], -1), RUNG_E_IO);
	cr_assert(strstr(rung_request_error(requests[1]), strerror(ENODATA)), "%s",
	          rung_request_error(requests[1]));
	cr_assert_eq(rung_request_wait(requests[2], -1), 0, "%s", rung_last_error());
	fixture_check(&f, ids, 5, outs[2], 4096);
	for (unsigned r = 0; r < 3; r++)
		rung_request_put(requests[r]);
	check_sum();
	cr_assert_gt(stats_now().failed_rows, 0);
	support_fault.bad_offset = 0;
	fixture_gather_and_check(&f, ids, 10); /* the failed row was not cached */
	close_store();
	fixture_close(&f);
}

Test(store_cache, counters_add_up_whatever_happens_to_reads)
{
	static const enum support_fault_kind kinds[] = { SUPPORT_FAULT_ERRNO, SUPPORT_FAULT_SHORT,
		                                         SUPPORT_FAULT_REVERSED,
		                                         SUPPORT_FAULT_LATE };

	stage(WIDTH);
	for (unsigned k = 0; k < RUNG__ARRAY_LEN(kinds); k++) {
		open_store(100, (struct rung_store_opts){ .requests_max = 4 });
		support_fault.kind = kinds[k];
		support_fault.err = EIO;
		support_fault.count = 60;
		for (uint64_t round = 0; round < 5; round++) {
			struct rung_request *requests[4];
			unsigned char *outs[4];

			for (unsigned r = 0; r < 4; r++) {
				fixture_random_ids(&f, ids, 300, round * 2 + r % 3);
				requests[r] = submit(ids, 300, &outs[r]);
			}
			for (unsigned r = 0; r < 4; r++) {
				int rc = rung_request_wait(requests[r], -1);

				cr_assert(rc == 0 || (rc == RUNG_E_IO &&
				                      kinds[k] == SUPPORT_FAULT_ERRNO),
				          "%s", rung_last_error());
				fixture_random_ids(&f, ids, 300, round * 2 + r % 3);
				if (rc == 0)
					fixture_check(&f, ids, 300, outs[r], WIDTH);
				rung_request_put(requests[r]);
			}
			fixture_free_memories(&f);
		}
		close_store();
	}
	fixture_close(&f);
}

/* ---- announcing ---- */

Test(store_cache, a_list_that_cannot_be_announced_is_refused_as_a_whole)
{
	struct rung_ids list = { ids, 10, RUNG_F32, RUNG_RANKS };
	uint64_t count;

	stage(WIDTH);
	open_store(100, (struct rung_store_opts){ .window_rows_max = 500, .batch_rows_max = 256 });
	cr_assert_eq(rung_prefetch(f.store, &list), RUNG_E_INVAL);
	list = (struct rung_ids){ ids, 10, RUNG_U64, RUNG_VERTICES };
	cr_assert_eq(rung_prefetch(f.store, &list), RUNG_E_INVAL);
	cr_assert_eq(prefetch(NULL, 0), 0);
	for (uint64_t i = 0; i < 1000; i++)
		ids[i] = ROWS - 1 - i;
	ids[700] = ROWS;
	cr_assert_eq(prefetch(ids, 1000), RUNG_E_AGAIN); /* there is no room for its third part */
	cr_assert(strstr(rung_last_error(), "window_rows_max"), "%s", rung_last_error());
	ids[300] = ROWS;
	cr_assert_eq(prefetch(ids, 1000), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "id 4000 at index 300 is not in 0..3999"), "%s",
	          rung_last_error());
	ids[300] = ROWS - 301;
	for (count = 0; prefetch(ids, 500) == 0; count++)
		cr_assert_lt(count, 2);
	cr_assert_eq(count, 1); /* the refused lists occupy no room */
	cr_assert_eq(prefetch(ids, 1), RUNG_E_AGAIN);
	fixture_gather_and_check(&f, ids, 256);
	fixture_gather_and_check(&f, ids + 256, 244);
	cr_assert_eq(prefetch(ids, 500), 0, "%s", rung_last_error());
	close_store();
	fixture_close(&f);
}

#define BATCHES 60u
#define BATCH   150u

/* Batch n of a trace over the cold rows: a hotter row is more likely to occur; each row occurs at
 * most once. */
static void draw(uint64_t n, uint64_t *ranks)
{
	bool taken[ROWS] = { false };
	uint64_t count = cold_count();

	for (uint64_t i = 0, draws = 0; i < BATCH; draws++) {
		uint64_t at = rung__mix64(n << 32 | draws) % count;

		at = at * at / count;
		if (taken[at])
			continue;
		taken[at] = true;
		ranks[i++] = cold_first() + at;
	}
}

/* @param ahead  batches announced before they are gathered */
static uint64_t trace_hits(unsigned ahead)
{
	unsigned announced = 0;
	uint64_t hits;

	/* rows that are read ahead would count as hits */
	open_store(200, (struct rung_store_opts){ .window_rows_max = (ahead + 2) * BATCH,
	                                          .window = RUNG_WINDOW_NONE });
	for (unsigned n = 0; n < BATCHES; n++) {
		for (; ahead > 0 && announced < BATCHES && announced <= n + ahead; announced++) {
			draw(announced, ids);
			cr_assert_eq(prefetch(ids, BATCH), 0, "%s", rung_last_error());
		}
		draw(n, ids);
		fixture_gather_and_check(&f, ids, BATCH);
	}
	hits = stats_now().cache_hits;
	close_store();
	return hits;
}

/* Hits if the hottest cold rows stayed in the cache once they have been read. */
static uint64_t static_hits(void)
{
	bool seen[ROWS] = { false };
	uint64_t hits = 0;

	open_store(200, (struct rung_store_opts){ 0 });
	for (unsigned n = 0; n < BATCHES; n++) {
		draw(n, ids);
		for (unsigned i = 0; i < BATCH; i++) {
			hits += ids[i] < cold_first() + stats_now().cache_rows && seen[ids[i]];
			seen[ids[i]] = true;
		}
	}
	close_store();
	return hits;
}

Test(store_cache, announced_rows_hit_more_often)
{
	uint64_t fixed, without, two, eight;

	stage(WIDTH);
	fixed = static_hits();
	without = trace_hits(0);
	two = trace_hits(2);
	eight = trace_hits(8);
	cr_assert_gt(without, 0);
	cr_assert_geq(two, fixed);
	cr_assert_gt(two, without);
	cr_assert_gt(eight, two);
	fixture_close(&f);
}

Test(store_cache, vertices_and_narrow_ids_are_announced_as_well)
{
	uint64_t vertices[BATCH];
	uint32_t narrow[BATCH];
	struct rung_ids lists[2] = { { vertices, BATCH, RUNG_I64, RUNG_VERTICES },
		                     { narrow, BATCH, RUNG_I32, RUNG_RANKS } };

	stage(WIDTH);
	open_store(200, (struct rung_store_opts){ .vertex_ids = 1 });
	for (unsigned l = 0; l < 2; l++) {
		draw(l, ids);
		for (unsigned i = 0; i < BATCH; i++) {
			vertices[i] = f.vertex_of_rank[ids[i]];
			narrow[i] = (uint32_t)ids[i];
		}
		cr_assert_eq(rung_prefetch(f.store, &lists[l]), 0, "%s", rung_last_error());
		cr_assert_neq(f.store->cache->window.oldest, 0);
		fixture_gather_and_check(&f, ids, BATCH);
		cr_assert_eq(f.store->cache->window.oldest, 0); /* that batch was the oldest */
	}
	narrow[5] = UINT32_MAX;
	cr_assert_eq(rung_prefetch(f.store, &lists[1]), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "id -1 at index 5"), "%s", rung_last_error());
	close_store();
	fixture_close(&f);
}

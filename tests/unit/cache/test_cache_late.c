/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that are chosen when rows have been read, not before. */
#include "cache_worker.h"

#define ENTRIES (FRAMES / 4 + 1)

static void announce(uint64_t first, uint64_t count, uint64_t *batch_out)
{
	uint64_t ranks[FRAMES];

	for (uint64_t i = 0; i < count; i++)
		ranks[i] = RANK_FIRST + first + i;
	cr_assert_eq(rung__cache_announce(f.cache, ranks, count, batch_out), 0);
}

static void begin(uint64_t first, uint64_t count, uint64_t *batch_out)
{
	uint64_t ranks[FRAMES];

	for (uint64_t i = 0; i < count; i++)
		ranks[i] = RANK_FIRST + first + i;
	rung__cache_begin(f.cache, ranks, count, batch_out);
}

/* Look up a row that must be read. @return the number that stands for its read */
static uint32_t start_read(uint64_t batch, uint64_t row)
{
	struct rung__cache_slot slot;

	rung__cache_lock(f.cache);
	cr_assert_eq(rung__cache_look_up(f.cache, batch, RANK_FIRST + row, 5, &slot),
	             RUNG__CACHE_KEEP);
	rung__cache_unlock(f.cache);
	return slot.frame;
}

static uint32_t end_read(uint32_t frame, uint64_t row)
{
	rung__cache_lock(f.cache);
	frame = cache_fixture_fill(&f, frame, RANK_FIRST + row, 0);
	rung__cache_unlock(f.cache);
	return frame;
}

static void check_lists(void)
{
	const char *fault = cache_fixture_check(&f);

	cr_assert(!fault, "%s", fault);
}

/* A cache whose frames have rows that a later batch needs: 0 .. FRAMES - 1. */
static void open_full(uint64_t *later_out)
{
	uint64_t batch;

	cache_fixture_open(&f, &shape, 1000, 20);
	announce(0, FRAMES, &batch);
	announce(500, 20, &batch);
	announce(510, 10, &batch);
	announce(500, 5, &batch);
	announce(0, FRAMES, later_out);
	begin(0, FRAMES, &batch);
	for (uint64_t i = 0; i < FRAMES; i++)
		cr_assert_eq(cache_fixture_take(&f, batch, RANK_FIRST + i), RUNG__CACHE_KEEP);
	rung__cache_end(f.cache, batch);
}

Test(cache_late, rows_in_flight_occupy_no_frames)
{
	uint64_t batch, later;
	uint32_t frame;

	open_full(&later);
	begin(500, 20, &batch);
	frame = start_read(batch, 510);
	cr_assert_geq(frame, FRAMES);
	cr_assert_eq(rung__cache_filled_count(f.cache), FRAMES);
	check_lists();
	frame = end_read(frame, 510);
	cr_assert_lt(frame, FRAMES);
	cr_assert_eq(rung__cache_filled_count(f.cache), FRAMES);
	check_lists();
	cr_assert_eq(cache_fixture_take(&f, batch, RANK_FIRST + 510), RUNG__CACHE_HIT);
	cache_fixture_close(&f);
}

Test(cache_late, of_two_rows_in_flight_the_one_that_is_needed_sooner_gets_the_frame)
{
	uint64_t batch, later;
	uint32_t far, near, frame;

	open_full(&later);
	begin(500, 20, &batch);
	rung__cache_lock(f.cache); /* all frames but one are pinned, as if they were being copied */
	for (uint64_t i = 1; i < FRAMES; i++) {
		struct rung__cache_slot slot;

		cr_assert_eq(rung__cache_look_up(f.cache, 0, RANK_FIRST + i, 0, &slot),
		             RUNG__CACHE_HIT);
	}
	rung__cache_unlock(f.cache);
	far = start_read(batch, 500);  /* needed by the batch after the next */
	near = start_read(batch, 510); /* needed by the next batch */
	frame = end_read(far, 500);
	cr_assert_lt(frame, FRAMES);
	cr_assert_eq(end_read(near, 510), frame);
	check_lists();
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + 510), RUNG__CACHE_HIT);
	cache_fixture_close(&f);
}

Test(cache_late, a_row_that_is_worth_no_frame_any_more_gets_none)
{
	uint64_t batch, dropped, later;
	uint32_t frame;

	open_full(&later);
	begin(500, 20, &batch);
	frame = start_read(batch, 510);
	begin(510, 10, &dropped); /* the batch that needs it ends without it */
	rung__cache_end(f.cache, dropped);
	cr_assert_eq(end_read(frame, 510), RUNG__CACHE_NONE);
	check_lists();
	cache_fixture_close(&f);
}

Test(cache_late, a_failed_read_leaves_nothing)
{
	uint64_t batch, later;
	uint32_t frame;

	open_full(&later);
	begin(500, 20, &batch);
	frame = start_read(batch, 510);
	rung__cache_lock(f.cache);
	rung__cache_failed(f.cache, frame);
	rung__cache_unlock(f.cache);
	check_lists();
	cr_assert_eq(start_read(batch, 510), frame);
	cache_fixture_close(&f);
}

Test(cache_late, a_row_in_flight_is_not_read_twice)
{
	uint64_t batch, next, later;
	struct rung__cache_slot slot;
	uint32_t frame;

	open_full(&later);
	begin(500, 20, &batch);
	begin(510, 10, &next);
	frame = start_read(batch, 510);
	rung__cache_lock(f.cache);
	cr_assert_eq(rung__cache_look_up(f.cache, next, RANK_FIRST + 510, 6, &slot),
	             RUNG__CACHE_READING);
	cr_assert(slot.frame == frame && slot.reader == 5);
	rung__cache_unlock(f.cache);
	cache_fixture_close(&f);
}

Test(cache_late, more_rows_in_flight_get_frames_at_once)
{
	uint64_t batch;
	uint32_t frames[ENTRIES + 1];

	cache_fixture_open(&f, &shape, 1000, 20);
	announce(0, ENTRIES + 1, &batch);
	announce(0, ENTRIES + 1, &batch);
	begin(0, ENTRIES + 1, &batch);
	for (uint64_t i = 0; i <= ENTRIES; i++) {
		frames[i] = start_read(batch, i);
		cr_assert_eq(frames[i] >= FRAMES, i < ENTRIES);
	}
	check_lists();
	for (uint64_t i = 0; i <= ENTRIES; i++)
		cr_assert_lt(end_read(frames[i], i), FRAMES);
	check_lists();
	cr_assert_eq(rung__cache_filled_count(f.cache), ENTRIES + 1);
	cache_fixture_close(&f);
}

Test(cache_late, without_the_lock_a_row_that_was_read_is_not_kept)
{
	struct cache_fixture other;
	uint64_t batch, later;
	uint32_t frame;

	open_full(&later);
	cache_fixture_attach(&other, &f, 1000, 20);
	begin(500, 20, &batch);
	frame = start_read(batch, 510);
	rung__cache_lock(other.cache);
	cr_assert(other.cache->locked);
	cr_assert_eq(end_read(frame, 510), RUNG__CACHE_NONE);
	rung__cache_unlock(other.cache);
	cr_assert_eq(start_read(batch, 511), frame); /* the entry is empty again */
	cache_fixture_detach(&other);
	cache_fixture_close(&f);
}

Test(cache_late, the_reads_of_a_leaving_client_end)
{
	struct cache_fixture other;
	struct rung__cache_slot slot;
	uint64_t batch, later;
	uint32_t frame;

	open_full(&later);
	cache_fixture_attach(&other, &f, 1000, 20);
	begin(500, 20, &batch);
	frame = start_read(batch, 510);
	rung__cache_lock(other.cache);
	cr_assert_eq(rung__cache_look_up(other.cache, 0, RANK_FIRST + 510, 0, &slot),
	             RUNG__CACHE_REMOTE);
	cr_assert_eq(slot.reader, f.cache->seat);
	rung__cache_unlock(other.cache);
	cr_assert_geq(frame, FRAMES);
	cache_fixture_detach(&f);
	f.cache = other.cache;
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + 510), RUNG__CACHE_PASS);
	check_lists();
	cache_fixture_close(&f);
}

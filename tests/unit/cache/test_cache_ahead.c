/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ahead: the sweep has passed every row of a batch before the batch begins. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache_fixture.h"
#include "graphs.h"

#define RANK_FIRST 100u
#define ROWS       1003u
#define BATCH      40u
#define BATCHES    60u

static struct cache_fixture f;
static uint64_t names[BATCHES];
static uint32_t kept[ROWS]; /* how often the sweep has got a frame for a row */

static void open_cache(uint64_t frames)
{
	const struct rung__cache_shape shape = { RANK_FIRST, ROWS, frames };

	cache_fixture_open(&f, &shape, BATCHES * BATCH, BATCHES);
	memset(kept, 0, sizeof(kept));
}

static void close_cache(void)
{
	const char *fault = cache_fixture_check(&f);

	cr_assert(!fault, "%s", fault);
	cache_fixture_close(&f);
}

/* The ranks of batch n: random, and each at most once. */
static const uint64_t *ranks_of(uint64_t n)
{
	static uint64_t ranks[BATCH];
	bool taken[ROWS] = { false };
	uint64_t state = n + 1;

	for (unsigned i = 0; i < BATCH;) {
		const uint64_t row = test_random(&state) % ROWS;

		if (!taken[row])
			ranks[i++] = RANK_FIRST + row;
		taken[row] = true;
	}
	return ranks;
}

static void announce(uint64_t n)
{
	cr_assert_eq(rung__cache_announce(f.cache, ranks_of(n), BATCH, &names[n]), 0, "%s",
	             rung_last_error());
}

static void begin(uint64_t n)
{
	rung__cache_begin(f.cache, ranks_of(n), BATCH, &names[n]);
}

static void advance(struct rung__ahead *ahead, uint64_t waiting)
{
	rung__cache_lock(f.cache);
	rung__ahead_advance(f.cache, ahead, waiting);
	rung__cache_unlock(f.cache);
}

/* Pass everything that is owed, as refill does, and fill frames at once. @return rows read */
static uint64_t sweep(struct rung__ahead *ahead)
{
	struct rung__cache_slot slot;
	uint64_t rank, read = 0;

	rung__cache_lock(f.cache);
	while (rung__ahead_peek(f.cache, ahead, &rank)) {
		cr_assert_geq(rank, RANK_FIRST);
		cr_assert_lt(rank, RANK_FIRST + ROWS);
		cr_assert_neq(rung__cache_window_next(f.cache, rank - RANK_FIRST), 0);
		if (rung__ahead_look_up(f.cache, ahead, rank, 0, &slot) == RUNG__CACHE_KEEP) {
			f.contents[slot.frame] = rank;
			rung__cache_filled(f.cache, slot.frame, 0);
			kept[rank - RANK_FIRST]++;
			read++;
		}
		rung__ahead_pass(f.cache, ahead, rank);
	}
	rung__cache_unlock(f.cache);
	cr_assert_eq(ahead->owed, 0);
	return read;
}

/* Gather batch n. @return its rows that were in the cache */
static unsigned gather(uint64_t n)
{
	unsigned hits = 0;

	begin(n);
	for (unsigned i = 0; i < BATCH; i++)
		hits += cache_fixture_take(&f, names[n], ranks_of(n)[i]) == RUNG__CACHE_HIT;
	rung__cache_end(f.cache, names[n]);
	return hits;
}

Test(cache_ahead, every_row_is_read_once_and_before_its_batch_begins)
{
	for (unsigned window = 2; window <= 17; window += 5) {
		struct rung__ahead ahead = { .batches = 0 };

		open_cache(ROWS);
		for (uint64_t n = 0, known = 0; n < BATCHES; n++) {
			unsigned hits;

			for (; known < BATCHES && known <= n + window; known++)
				announce(known);
			hits = gather(n);
			if (n >= window)
				cr_assert_eq(hits, BATCH, "batch %llu of a window of %u",
				             (unsigned long long)n, window);
			advance(&ahead, 0);
			cr_assert_leq(ahead.batches, window);
			sweep(&ahead);
			cr_assert_null(cache_fixture_check(&f));
		}
		for (unsigned row = 0; row < ROWS; row++) /* frames suffice: it is never evicted */
			cr_assert_leq(kept[row], 1);
		close_cache();
	}
}

/* Too few frames for the rows of a window: the sweep reads what fits, and all lists stay sound. */
Test(cache_ahead, scarce_frames_get_the_rows_that_are_needed_first)
{
	unsigned hits[2] = { 0 };

	for (unsigned reads_ahead = 0; reads_ahead < 2; reads_ahead++) {
		struct rung__ahead ahead = { .near_rows = ROWS };

		open_cache(2 * BATCH);
		for (uint64_t n = 0, known = 0; n < BATCHES; n++) {
			for (; known < BATCHES && known <= n + 16; known++)
				announce(known);
			hits[reads_ahead] += gather(n);
			advance(&ahead, 0);
			/* 7/4 of the frames are the rows of 3.5 batches */
			cr_assert_eq(ahead.batches, RUNG__MIN(4u, BATCHES - 1 - n));
			if (reads_ahead)
				sweep(&ahead);
			cr_assert_null(cache_fixture_check(&f));
		}
		close_cache();
	}
	cr_assert_gt(hits[1], hits[0]);
	cr_assert_gt(hits[1], BATCHES * BATCH / 2);
}

Test(cache_ahead, steps_add_up_to_whole_sweeps)
{
	struct rung__ahead ahead = { .batches_max = 7 };
	uint64_t passed = 0;

	open_cache(ROWS);
	for (uint64_t n = 0; n < 30; n++)
		announce(n);
	for (uint64_t n = 0; n < 22; n++) {
		gather(n);
		advance(&ahead, 0);
		cr_assert_eq(ahead.batches, 7);
		cr_assert_eq(ahead.owed, ahead.step);
		/* equal steps, until the first sweep has shown where the rows are */
		cr_assert(n >= 6 || ahead.step == (ROWS - 1) / 6 + 1);
		passed += ahead.owed;
		sweep(&ahead);
		cr_assert_eq(ahead.position, passed % ROWS);
		/* each row is passed in time for its batch */
		cr_assert_geq(passed, (n + 1) / 7 * ROWS);
	}
	advance(&ahead, 0); /* no batch has begun since */
	cr_assert_eq(ahead.owed, 0);
	/* four batches begin before the next sweep, and then more than a sweep has steps */
	for (uint64_t n = 22; n < 26; n++)
		gather(n);
	advance(&ahead, 0);
	cr_assert_eq(ahead.batches, 4);
	cr_assert_eq(ahead.owed, ROWS);
	sweep(&ahead);
	cr_assert_eq(ahead.position, passed % ROWS);
	close_cache();
}

/* Hot rows are near each other: a step passes few of them, or many others. */
Test(cache_ahead, steps_have_about_the_same_number_of_rows)
{
	struct rung__ahead ahead = { .weight_sum = 0 };
	uint64_t most = 0, least = ROWS;

	open_cache(ROWS);
	for (uint32_t i = 0; i < 100; i++) /* 900 of 1000 rows are in the first tenth */
		ahead.found[i * RUNG__AHEAD_PARTS / 100] += i < 10 ? 90 : 1;
	ahead.position = ROWS - 1;
	ahead.owed = 1;
	rung__cache_lock(f.cache);
	rung__ahead_pass(f.cache, &ahead, RANK_FIRST + ROWS - 1); /* the end of a sweep */
	cr_assert_eq(ahead.position, 0);
	rung__cache_unlock(f.cache);
	for (uint64_t n = 0; n < 12; n++)
		announce(n);
	for (uint64_t n = 0, at = 0; n < 3; n++, at += ahead.step) {
		ahead.batches_max = 9;
		ahead.owed = 0;
		ahead.position = at;
		gather(n);
		advance(&ahead, 0);
		most = RUNG__MAX(most, ahead.step);
		least = RUNG__MIN(least, ahead.step);
	}
	cr_assert_lt(least, ROWS / 20);
	cr_assert_lt(most, ROWS / 10);
	close_cache();
}

Test(cache_ahead, a_batch_that_waits_gets_its_step_later)
{
	struct rung__ahead ahead = { .batches_max = 10 };

	open_cache(ROWS);
	for (uint64_t n = 0; n < 30; n++)
		announce(n);
	for (uint64_t n = 0; n < 3; n++)
		begin(n);
	advance(&ahead, 3);
	cr_assert_eq(ahead.owed, 0);
	advance(&ahead, 2);
	cr_assert_eq(ahead.owed, ahead.step);
	advance(&ahead, 2);
	cr_assert_eq(ahead.owed, ahead.step);
	advance(&ahead, 5); /* parts of batches that were not announced wait, too */
	cr_assert_eq(ahead.owed, ahead.step);
	advance(&ahead, 0);
	cr_assert_eq(ahead.owed, 3 * ahead.step);
	sweep(&ahead);
	cr_assert_eq(ahead.position, 3 * ahead.step);
	close_cache();
}

static bool has(uint64_t n, uint64_t rank)
{
	const uint64_t *ranks = ranks_of(n);

	for (unsigned i = 0; i < BATCH; i++) {
		if (ranks[i] == rank)
			return true;
	}
	return false;
}

Test(cache_ahead, rows_of_later_batches_than_the_window_are_not_read)
{
	struct rung__ahead ahead = { .batches_max = 2 };
	uint64_t read = 0;

	open_cache(ROWS);
	for (uint64_t n = 0; n < 20; n++)
		announce(n);
	for (uint64_t n = 0; n < 17; n++) {
		uint32_t before[ROWS];

		gather(n);
		advance(&ahead, 0);
		cr_assert_eq(ahead.batches, 2);
		memcpy(before, kept, sizeof(kept));
		read += sweep(&ahead);
		for (uint64_t row = 0; row < ROWS; row++)
			cr_assert(kept[row] == before[row] || has(n + 1, RANK_FIRST + row) ||
			          has(n + 2, RANK_FIRST + row));
	}
	cr_assert_gt(read, 0);
	close_cache();
}

Test(cache_ahead, passing_behind_the_last_row_continues_at_the_first)
{
	struct rung__ahead ahead = { .batches_max = 1 };

	open_cache(ROWS);
	announce(0);
	announce(1);
	begin(0);
	advance(&ahead, 0);
	cr_assert_eq(ahead.owed, ROWS);
	rung__ahead_pass(f.cache, &ahead, RANK_FIRST + 9);
	cr_assert_eq(ahead.position, 10);
	cr_assert_eq(ahead.owed, ROWS - 10);
	ahead.owed = ROWS;
	/* a block of rows of another file can end behind the last row */
	rung__ahead_pass(f.cache, &ahead, RANK_FIRST + ROWS + 50);
	cr_assert_eq(ahead.position, 0);
	cr_assert_eq(ahead.owed, 10);
	close_cache();
}

Test(cache_ahead, withdrawn_batches_are_not_read)
{
	struct rung__ahead ahead = { .batches_max = 4 };

	open_cache(ROWS);
	for (uint64_t n = 0; n < 6; n++)
		announce(n);
	for (uint64_t n = 1; n < 6; n++)
		rung__cache_end(f.cache, names[n]);
	cr_assert_null(cache_fixture_check(&f));
	gather(0);
	advance(&ahead, 0);
	cr_assert_eq(ahead.batches, 0);
	cr_assert_eq(sweep(&ahead), 0);
	/* one that is withdrawn after its rows were read leaves idle frames */
	announce(7);
	announce(8);
	gather(7);
	advance(&ahead, 0);
	cr_assert_eq(ahead.batches, 1);
	cr_assert_gt(sweep(&ahead), 0);
	rung__cache_end(f.cache, names[8]);
	cr_assert_null(cache_fixture_check(&f));
	cr_assert_eq(f.cache->index->idle_count, f.cache->index->filled_count);
	close_cache();
}

Test(cache_ahead, the_map_of_wanted_rows_follows_whatever_happens_to_batches)
{
	struct rung__ahead ahead = { .batches = 0 };
	uint64_t state = 77;

	open_cache(3 * BATCH);
	for (unsigned step = 0; step < 4000; step++) {
		const uint64_t n = test_random(&state) % BATCHES;

		if (!names[n] && test_random(&state) % 2) {
			announce(n);
		} else if (test_random(&state) % 3 == 0) {
			rung__cache_end(f.cache, names[n]);
			names[n] = 0;
		} else {
			rung__cache_end(f.cache, names[n]);
			begin(n);
			cache_fixture_take(&f, names[n], ranks_of(n)[step % BATCH]);
		}
		if (step % 5 == 0) {
			advance(&ahead, test_random(&state) % 2);
			sweep(&ahead);
		}
		if (step % 20 == 0)
			cr_assert_null(cache_fixture_check(&f));
	}
	for (uint64_t n = 0; n < BATCHES; n++)
		rung__cache_end(f.cache, names[n]);
	cr_assert_eq(f.cache->index->idle_count, f.cache->index->filled_count);
	close_cache();
}

Test(cache_ahead, a_window_is_as_long_as_the_frames_allow)
{
	cr_assert_eq(rung__ahead_batches(85, 100, 10, false), 0); /* 1.49 batches */
	cr_assert_eq(rung__ahead_batches(86, 100, 10, false), 2);
	cr_assert_eq(rung__ahead_batches(1000, 100, 10, false), 10);
	cr_assert_eq(rung__ahead_batches(500, 100, 10, false), 9);
	cr_assert_eq(rung__ahead_batches(500, 100, 10, true), 4);
	cr_assert_eq(rung__ahead_batches(400, 100, 10, true), 2);
	cr_assert_eq(rung__ahead_batches(399, 100, 10, true), 0);
	cr_assert_eq(rung__ahead_batches(200, 100, 10, true), 0);
	cr_assert_eq(rung__ahead_batches(1000, 100, 1, false), 1); /* the last one that is known */
	cr_assert_eq(rung__ahead_batches(1000, 100, 0, false), 0);
	cr_assert_eq(rung__ahead_batches(0, 100, 10, false), 0);
	cr_assert_eq(rung__ahead_batches(0, 0, 10, true), 10); /* no rows need no frames */
	cr_assert_eq(rung__ahead_batches(UINT32_MAX, 1, 4096, true), 4096);
}

#define COUNT (RANK_FIRST + ROWS)

Test(cache_ahead, the_sweep_follows_the_order_of_the_file)
{
	static uint32_t position_of_rank[COUNT], rank_of_position[COUNT];
	const struct rung__ahead_order order = { position_of_rank, rank_of_position, 4, COUNT };
	struct rung__ahead ahead = { .owed = COUNT };
	uint64_t ranks[20], batch, rank, at = 0, found = 0;
	struct rung__cache_slot slot;

	for (uint32_t r = 0; r < COUNT; r++) {
		position_of_rank[r] = COUNT - 1 - r;
		rank_of_position[COUNT - 1 - r] = r;
	}
	open_cache(100);
	rung__ahead_close(f.cache);
	cr_assert_eq(rung__ahead_open(f.cache, &order), 0);
	for (uint64_t i = 0; i < 20; i++)
		ranks[i] = RANK_FIRST + i * 11;
	cr_assert_eq(rung__cache_announce(f.cache, ranks, 20, &batch), 0);
	rung__cache_lock(f.cache);
	for (; rung__ahead_peek(f.cache, &ahead, &rank); found++) {
		cr_assert(found == 0 || position_of_rank[rank] > at);
		at = position_of_rank[rank];
		rung__ahead_pass(f.cache, &ahead, rank);
	}
	cr_assert_eq(found, 20);
	/* a damaged map leads back, and to rows that cannot be cached, but the sweep ends */
	for (uint32_t p = 0; p < COUNT; p++)
		rank_of_position[p] = RANK_FIRST - 1;
	for (ahead.owed = COUNT; rung__ahead_peek(f.cache, &ahead, &rank);) {
		cr_assert_eq(rung__ahead_look_up(f.cache, &ahead, rank, 0, &slot),
		             RUNG__CACHE_PASS);
		rung__ahead_pass(f.cache, &ahead, rank);
	}
	rung__cache_unlock(f.cache);
	cache_fixture_close(&f); /* the walk over the lists does not know the order */
}

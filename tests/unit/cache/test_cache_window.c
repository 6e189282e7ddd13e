/* SPDX-License-Identifier: Apache-2.0 */
/* The cold-row cache's window: how batches are recognised, when they expire, which announcements
 * are rejected; and rows that one of two clients is reading. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cache_fixture.h"
#include "graphs.h"

#define RANK_FIRST 100u
#define ROWS       1000u
#define FRAMES     64u

static const struct rung__cache_shape shape = { RANK_FIRST, ROWS, FRAMES };
static struct cache_fixture f;

static void check_lists(void)
{
	const char *fault = cache_fixture_check(&f);

	cr_assert(!fault, "%s", fault);
}

static void close_all(void)
{
	check_lists();
	cache_fixture_close(&f);
}

/* Ranks of the rows first, first + step, ..., for a batch. */
static const uint64_t *rows(uint64_t first, uint64_t step)
{
	static uint64_t ranks[ROWS];

	for (uint64_t i = 0; i < ROWS; i++)
		ranks[i] = RANK_FIRST + (first + i * step) % ROWS;
	return ranks;
}

static uint64_t announce(uint64_t first, uint64_t count)
{
	uint64_t batch = 0;

	cr_assert_eq(rung__cache_announce(f.cache, rows(first, 1), count, &batch), 0, "%s",
	             rung_last_error());
	cr_assert_neq(batch, 0);
	return batch;
}

static uint64_t begin(uint64_t first, uint64_t count)
{
	uint64_t batch = UINT64_MAX;

	rung__cache_begin(f.cache, rows(first, 1), count, &batch);
	cr_assert_neq(batch, UINT64_MAX);
	return batch;
}

/* ---- room ---- */

Test(cache_window, a_full_window_accepts_no_announcement)
{
	uint64_t batch = 77, first;

	cache_fixture_open(&f, &shape, 100, 3);
	first = announce(0, 60);
	cr_assert_eq(rung__cache_announce(f.cache, rows(200, 1), 41, &batch), RUNG_E_AGAIN);
	cr_assert_eq(batch, 77);
	cr_assert(strstr(rung_last_error(), "41 rows"), "%s", rung_last_error());
	check_lists();
	announce(100, 20);
	announce(200, 20);
	/* the window has room for three batches */
	cr_assert_eq(rung__cache_announce(f.cache, rows(300, 1), 0, &batch), RUNG_E_AGAIN);
	cr_assert_eq(begin(400, 10), 0);
	/* its rows are cached all the same */
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + 400), RUNG__CACHE_KEEP);
	rung__cache_end(f.cache, 0);
	check_lists();
	rung__cache_end(f.cache, first);
	announce(500, 60);
	cr_assert_eq(f.cache->window.rows_left, 0);
	close_all();
}

/* Its memory must not follow its capacity, which is 100 times as much. */
Test(cache_window, its_memory_follows_the_announced_rows)
{
	const struct rung__cache_window *window;
	uint64_t heads;

	cache_fixture_open(&f, &shape, 100 * ROWS, 100);
	window = &f.cache->window;
	for (uint64_t first = 0; first < 20; first++) {
		rung__cache_end(f.cache, announce(first * 40, 60));
		check_lists();
		cr_assert_eq(window->fresh_count, 60);
		cr_assert_eq(window->batches_fresh, 1);
		cr_assert_leq(window->heads_count, 1 + 2 * 60);
	}
	heads = window->heads_count;
	/* announcements accumulate: the number of heads grows with their rows */
	for (uint64_t first = 0; first < 30; first++) {
		announce(first * 7, 60);
		check_lists();
		cr_assert_leq(window->heads_count, heads + 2 * 60);
		heads = window->heads_count;
	}
	cr_assert_eq(window->fresh_count, 30 * 60);
	close_all();
}

Test(cache_window, room_is_released_whatever_the_order_of_ends)
{
	uint64_t state = 9, names[8] = { 0 };
	bool begun[8] = { false };

	cache_fixture_open(&f, &shape, 8 * 300, 8);
	for (unsigned step = 0; step < 3000; step++) {
		unsigned which = (unsigned)(test_random(&state) % 8);
		uint64_t count = 1 + test_random(&state) % 300, first = test_random(&state) % 500;

		if (names[which]) {
			rung__cache_end(f.cache, names[which]);
			/* a second end of the same batch has no effect */
			rung__cache_end(f.cache, names[which]);
			names[which] = 0;
		} else if (test_random(&state) % 2) {
			names[which] = announce(first, count);
			begun[which] = false;
		} else {
			names[which] = begin(first, count);
			begun[which] = true;
			cr_assert_neq(names[which], 0);
		}
		for (unsigned i = 0; i < 20; i++)
			cache_fixture_take(&f, begun[which] ? names[which] : 0,
			                   RANK_FIRST +
			                           (first + test_random(&state) % count) % ROWS);
		if (step % 100 == 0)
			check_lists();
	}
	for (unsigned i = 0; i < 8; i++)
		rung__cache_end(f.cache, names[i]);
	check_lists();
	for (unsigned i = 0; i < 8; i++)
		announce(i, 300);
	close_all();
}

/* From /proc/self/maps, in which an emulator lists this program's memory; statm would include the
 * emulator's. */
static uint64_t mapped_bytes(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned long long first, end;
	uint64_t bytes = 0;
	char line[512];

	cr_assert(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx-%llx", &first, &end) == 2)
			bytes += end - first;
	}
	fclose(file);
	cr_assert_gt(bytes, 0);
	return bytes;
}

Test(cache_window, its_memory_is_as_forecast)
{
	const uint64_t rows_max = 1 << 22, said = rung__cache_window_bytes(rows_max, 100),
		       small = 1 << 20;
	void *index = mmap(NULL, rung__cache_index_bytes(&shape), PROT_READ | PROT_WRITE,
	                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t before = mapped_bytes(), after;
	struct rung__cache *cache;

	cr_assert_leq(said, 40 * rows_max + 100 * sizeof(struct rung__cache_batch));
	cr_assert_eq(rung__cache_open(&shape, index, -1, true, rows_max, 100, &cache), 0);
	after = mapped_bytes();
	cr_assert_leq(after - before, said + small);
	cr_assert_geq(after - before + small, said);
	rung__cache_close(cache);
	cr_assert_leq(mapped_bytes(), before + small);
	munmap(index, rung__cache_index_bytes(&shape));
}

/* ---- which batch ---- */

Test(cache_window, a_batch_is_recognised_by_its_rows)
{
	uint64_t first, second, third;

	cache_fixture_open(&f, &shape, 1000, 10);
	first = announce(0, 30);
	second = announce(10, 30);
	third = announce(0, 31);
	cr_assert_eq(begin(10, 30), second);
	cr_assert_eq(begin(0, 31), third);
	cr_assert_eq(begin(0, 30), first);
	/* the first has begun already: this is another, unannounced batch */
	cr_assert_neq(begin(0, 30), first);
	close_all();
}

Test(cache_window, the_oldest_of_equal_batches_begins_first)
{
	uint64_t names[4];

	cache_fixture_open(&f, &shape, 1000, 10);
	for (unsigned i = 0; i < 4; i++)
		names[i] = announce(5, 20);
	for (unsigned i = 0; i < 4; i++) {
		cr_assert_eq(begin(5, 20), names[i]);
		cr_assert_eq(cache_fixture_take(&f, names[i], RANK_FIRST + 5),
		             i == 0 ? RUNG__CACHE_KEEP : RUNG__CACHE_HIT);
		check_lists();
		rung__cache_end(f.cache, names[i]);
	}
	cr_assert_eq(f.cache->window.rows_left, 1000);
	close_all();
}

Test(cache_window, a_batch_that_is_overtaken_too_often_is_forgotten)
{
	uint64_t late;

	cache_fixture_open(&f, &shape, 1000, 10);
	late = announce(900, 20);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + 900), RUNG__CACHE_KEEP);
	for (unsigned i = 0; i < RUNG__CACHE_OVERTAKEN_MAX; i++) {
		announce(i, 10);
		rung__cache_end(f.cache, begin(i, 10));
	}
	cr_assert_eq(f.cache->window.rows_left, 1000 - 20);
	cr_assert_eq(f.cache->frames[0].next_use, 1);
	announce(500, 10);
	rung__cache_end(f.cache, begin(500, 10));
	cr_assert_eq(f.cache->window.rows_left, 1000);
	/* nor is a use of its rows expected any more */
	cr_assert_eq(f.cache->frames[0].next_use, 0);
	check_lists();
	cr_assert_neq(begin(900, 20), late);
	close_all();
}

Test(cache_window, unannounced_batches_overtake_none_but_age_all)
{
	uint64_t waited_for;

	cache_fixture_open(&f, &shape, 1000, 10);
	waited_for = announce(900, 20);
	for (unsigned i = 0; i < RUNG__CACHE_LOOKAHEAD_MAX; i++)
		rung__cache_end(f.cache, begin(i, 10));
	cr_assert_eq(begin(900, 20), waited_for);
	rung__cache_end(f.cache, waited_for);
	announce(900, 20);
	for (unsigned i = 0; i <= RUNG__CACHE_LOOKAHEAD_MAX; i++)
		rung__cache_end(f.cache, begin(i, 10));
	cr_assert_eq(f.cache->window.rows_left, 1000);
	close_all();
}

Test(cache_window, the_clock_may_wrap_around)
{
	uint64_t hits = 0;

	cache_fixture_open(&f, &shape, 1000, 10);
	f.cache->index->clock = f.cache->window.time_last = f.cache->window.time_begun =
		UINT32_MAX - 500;
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t batch;

		if (i == 0)
			announce(0, 10);
		announce((i + 1) % 50 * 10, 10);
		batch = begin(i % 50 * 10, 10);
		for (uint64_t r = 0; r < 10; r++)
			hits += cache_fixture_take(&f, batch, RANK_FIRST + i % 50 * 10 + r) ==
			        RUNG__CACHE_HIT;
		rung__cache_end(f.cache, batch);
		if (i % 100 == 0)
			check_lists();
	}
	cr_assert_lt(f.cache->index->clock, 1000);
	/* the first rows of each cycle stay cached */
	cr_assert_geq(hits, 950 / 50 * FRAMES * 9 / 10);
	close_all();
}

Test(cache_window, expected_uses_by_a_stuck_client_expire)
{
	struct cache_fixture other;
	uint64_t batch, row = RANK_FIRST + 10;

	cache_fixture_open(&f, &shape, 1000, 10);
	cache_fixture_attach(&other, &f, 1000, 10);
	for (uint64_t i = 0; i < FRAMES; i++)
		cache_fixture_take(&f, 0, RANK_FIRST + i);
	cr_assert_eq(rung__cache_announce(other.cache, &row, 1, &batch), 0);
	cr_assert_neq(f.cache->frames[10].next_use, 0);
	/* the other client begins no batch */
	for (unsigned i = 0; i <= RUNG__CACHE_BEHIND_MAX; i++) {
		cr_assert_neq(f.cache->frames[10].state, 0);
		announce(500, 1);
		rung__cache_end(f.cache, begin(500, 1));
	}
	announce(500, 1);
	rung__cache_end(f.cache, begin(500, 1));
	/* colder than all cached rows */
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + 700), RUNG__CACHE_KEEP);
	cr_assert_eq(f.cache->frames[10].row, 700);
	cache_fixture_detach(&other);
	close_all();
}

/* ---- rows in flight ---- */

static enum rung__cache_lookup take(const struct cache_fixture *client, uint64_t rank,
                                    uint32_t reader, struct rung__cache_slot *place)
{
	enum rung__cache_lookup found;

	*place = (struct rung__cache_slot){ RUNG__CACHE_NONE, RUNG__CACHE_NONE };
	rung__cache_lock(client->cache);
	found = rung__cache_look_up(client->cache, 0, rank, reader, place);
	rung__cache_unlock(client->cache);
	return found;
}

Test(cache_window, only_one_of_two_clients_reads_a_row)
{
	struct cache_fixture other;
	struct rung__cache_slot place, again;

	cache_fixture_open(&f, &shape, 1000, 10);
	cache_fixture_attach(&other, &f, 1000, 10);
	cr_assert_eq(take(&f, RANK_FIRST + 3, 42, &place), RUNG__CACHE_KEEP);
	cr_assert_eq(take(&f, RANK_FIRST + 3, 43, &again), RUNG__CACHE_READING);
	cr_assert_eq(again.frame, place.frame);
	cr_assert_eq(again.reader, 42);
	cr_assert_eq(take(&other, RANK_FIRST + 3, 1, &again), RUNG__CACHE_REMOTE);
	rung__cache_lock(f.cache);
	cr_assert_eq(rung__cache_filled_count(f.cache), 0);
	rung__cache_filled(f.cache, place.frame, 1);
	rung__cache_unlock(f.cache);
	cr_assert_eq(take(&other, RANK_FIRST + 3, 1, &again), RUNG__CACHE_HIT);
	cr_assert_eq(again.frame, place.frame);
	cr_assert_eq(f.cache->frames[place.frame].pins,
	             (1u << f.cache->seat) | (1u << other.cache->seat));
	rung__cache_lock(f.cache);
	rung__cache_unpin(f.cache, place.frame);
	rung__cache_unlock(f.cache);
	cr_assert_eq(f.cache->frames[place.frame].pins, 1u << other.cache->seat);
	rung__cache_lock(other.cache);
	rung__cache_unpin(other.cache, place.frame);
	rung__cache_unlock(other.cache);
	cache_fixture_detach(&other);
	close_all();
}

Test(cache_window, a_row_whose_read_failed_is_read_by_the_next_client)
{
	struct cache_fixture other;
	struct rung__cache_slot place, again;

	cache_fixture_open(&f, &shape, 1000, 10);
	cache_fixture_attach(&other, &f, 1000, 10);
	cr_assert_eq(take(&f, RANK_FIRST + 3, 42, &place), RUNG__CACHE_KEEP);
	cr_assert_eq(take(&other, RANK_FIRST + 3, 1, &again), RUNG__CACHE_REMOTE);
	rung__cache_lock(f.cache);
	rung__cache_failed(f.cache, place.frame);
	rung__cache_unlock(f.cache);
	cr_assert_eq(take(&other, RANK_FIRST + 3, 1, &again), RUNG__CACHE_KEEP);
	cr_assert_eq(again.frame, place.frame);
	cr_assert_eq(take(&f, RANK_FIRST + 3, 42, &place), RUNG__CACHE_REMOTE);
	rung__cache_lock(other.cache);
	rung__cache_filled(other.cache, again.frame, 0);
	rung__cache_unlock(other.cache);
	cache_fixture_detach(&other);
	close_all();
}

Test(cache_window, an_expected_use_is_kept_while_another_client_reads_the_row)
{
	struct cache_fixture other;
	struct rung__cache_slot place;
	uint64_t batch;

	cache_fixture_open(&f, &shape, 1000, 10);
	cache_fixture_attach(&other, &f, 1000, 10);
	cr_assert_eq(take(&other, RANK_FIRST, 1, &place), RUNG__CACHE_KEEP);
	batch = begin(0, 1);
	rung__cache_lock(f.cache);
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(rung__cache_look_up(f.cache, batch, RANK_FIRST, 0, &place),
		             RUNG__CACHE_REMOTE);
		cr_assert_neq(rung__cache_window_next(f.cache, 0), 0);
	}
	rung__cache_unlock(f.cache);
	rung__cache_lock(other.cache);
	rung__cache_failed(other.cache, 0);
	rung__cache_unlock(other.cache);
	cr_assert_eq(cache_fixture_take(&f, batch, RANK_FIRST), RUNG__CACHE_KEEP);
	cr_assert_eq(rung__cache_window_next(f.cache, 0), 0);
	cache_fixture_detach(&other);
	close_all();
}

Test(cache_window, frames_of_the_reads_of_a_leaving_client_are_empty)
{
	struct cache_fixture other;
	struct rung__cache_slot place;

	cache_fixture_open(&f, &shape, 1000, 10);
	cache_fixture_attach(&other, &f, 1000, 10);
	for (uint64_t i = 0; i < FRAMES; i++)
		cr_assert_eq(take(i % 2 ? &f : &other, RANK_FIRST + i, 1, &place),
		             RUNG__CACHE_KEEP);
	cache_fixture_detach(&other);
	check_lists();
	for (uint64_t i = 0; i < FRAMES; i += 2)
		cr_assert_eq(take(&f, RANK_FIRST + i, 1, &place), RUNG__CACHE_KEEP);
	cr_assert_eq(take(&f, RANK_FIRST + FRAMES, 1, &place), RUNG__CACHE_PASS);
	rung__cache_lock(f.cache);
	for (uint32_t i = 0; i < FRAMES; i++) {
		if (f.cache->held[i])
			rung__cache_filled(f.cache, i, 0);
	}
	rung__cache_unlock(f.cache);
	close_all();
}

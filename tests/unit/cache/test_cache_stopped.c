/* SPDX-License-Identifier: Apache-2.0 */
/* The cold-row cache while one of its processes is stopped with the lock held, or in a read. */
#include "cache_worker.h"

static uint64_t timeouts_of(const struct cache_fixture *client)
{
	uint64_t timeouts, wait_ns;

	rung__cache_waits(client->cache, &timeouts, &wait_ns);
	cr_assert(timeouts == 0 || wait_ns > 0);
	return timeouts;
}

static void keep(struct cache_fixture *client, uint64_t rank, uint32_t pins, uint32_t *frame_out)
{
	struct rung__cache_slot place;

	rung__cache_lock(client->cache);
	cr_assert_eq(rung__cache_look_up(client->cache, 0, rank, 0, &place), RUNG__CACHE_KEEP);
	client->contents[place.frame] = rank;
	if (pins > 0)
		rung__cache_filled(client->cache, place.frame, pins);
	rung__cache_unlock(client->cache);
	*frame_out = place.frame;
}

Test(cache_stopped, without_the_lock_rows_bypass_the_cache_and_updates_are_delayed)
{
	struct cache_fixture other;
	struct rung__cache_slot place;
	uint64_t ranks[3] = { RANK_FIRST, RANK_FIRST + 1, RANK_FIRST + 9 }, batch, ahead;
	uint32_t frames[4];
	const char *fault;

	cache_fixture_open(&f, &shape, 1000, 20);
	cache_fixture_attach(&other, &f, 1000, 20);
	keep(&f, RANK_FIRST, 2, &frames[0]);     /* pinned */
	keep(&f, RANK_FIRST + 1, 0, &frames[1]); /* this and the next two are being read */
	keep(&f, RANK_FIRST + 2, 0, &frames[2]);
	keep(&f, RANK_FIRST + 3, 0, &frames[3]);
	rung__cache_lock(other.cache);
	cr_assert(other.cache->locked);
	for (unsigned round = 0; round < 3; round++) {
		rung__cache_lock(f.cache);
		cr_assert(!f.cache->locked);
		cr_assert_eq(rung__cache_look_up(f.cache, 0, RANK_FIRST, 0, &place),
		             RUNG__CACHE_PASS);
		if (round == 0) {
			rung__cache_unpin(f.cache, frames[0]);
			rung__cache_unpin(f.cache, frames[0]);
			rung__cache_filled(f.cache, frames[1], 1);
			rung__cache_pin(f.cache, frames[1]);
			rung__cache_filled(f.cache, frames[2], 1);
		} else if (round == 1) {
			rung__cache_unpin(f.cache, frames[1]);
			rung__cache_unpin(f.cache, frames[2]);
			rung__cache_failed(f.cache, frames[3]);
		}
		rung__cache_reap_dead(f.cache);
		rung__cache_late(f.cache, other.cache->seat);
		rung__cache_unlock(f.cache);
	}
	cr_assert_eq(rung__cache_announce(f.cache, ranks, 3, &ahead), 0);
	rung__cache_begin(f.cache, ranks, 2, &batch);
	rung__cache_end(f.cache, batch);
	cr_assert_eq(timeouts_of(&f), 1); /* only the first call waited */
	rung__cache_unlock(other.cache);

	rung__cache_lock(f.cache);
	cr_assert(f.cache->locked);
	fault = cache_fixture_fault(f.cache, false);
	cr_assert(!fault, "%s", fault);
	fault = cache_window_fault(f.cache);
	cr_assert(!fault, "%s", fault);
	cr_assert_eq(rung__cache_filled_count(f.cache), 3);
	cr_assert_eq(f.cache->frames[frames[0]].pins, 0);
	cr_assert_eq(f.cache->frames[frames[1]].pins, 1u << f.cache->seat);
	cr_assert_eq(f.cache->frames[frames[2]].pins, 0);
	cr_assert_eq(rung__cache_frame_state(&f.cache->frames[frames[3]]), RUNG__CACHE_FRAME_EMPTY);
	rung__cache_unpin(f.cache, frames[1]);
	rung__cache_unlock(f.cache);
	cache_fixture_detach(&other);
	cr_assert_eq(timeouts_of(&f), 1);
	cache_fixture_close(&f);
}

Test(cache_stopped, each_stop_with_the_lock_causes_one_wait)
{
	struct cache_fixture other, joins, leaves;

	cache_fixture_open(&f, &shape, 1000, 20);
	cache_fixture_attach(&other, &f, 1000, 20);
	cache_fixture_attach(&leaves, &f, 10, 2);
	keep(&leaves, RANK_FIRST + 5, 1, &(uint32_t){ 0 });
	for (uint64_t stop = 1; stop <= 2; stop++) {
		rung__cache_lock(other.cache);
		for (unsigned i = 0; i < 50; i++)
			cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST), RUNG__CACHE_PASS);
		cr_assert_eq(timeouts_of(&f), stop);
		rung__cache_unlock(other.cache);
		cr_assert_neq(cache_fixture_take(&f, 0, RANK_FIRST), RUNG__CACHE_PASS);
	}
	rung__cache_lock(other.cache);
	/* nor do clients wait that attach or detach in the meantime */
	cache_fixture_attach(&joins, &f, 10, 2);
	cr_assert_eq(timeouts_of(&joins), 1);
	cache_fixture_detach(&leaves);
	rung__cache_unlock(other.cache);
	cr_assert_neq(cache_fixture_take(&joins, 0, RANK_FIRST + 1), RUNG__CACHE_PASS);
	survive(3);
	cr_assert_eq(__builtin_popcount(f.cache->index->joined), 3);
	/* reclaimed, because the client could not unpin it */
	cr_assert_eq(f.cache->frames[0].pins, 0);
	cache_fixture_detach(&joins);
	cache_fixture_detach(&other);
	cache_fixture_close(&f);
}

Test(cache_stopped, a_reader_is_late_until_it_ends_a_read)
{
	struct cache_fixture other;
	uint32_t frames[2];

	cache_fixture_open(&f, &shape, 1000, 20);
	cache_fixture_attach(&other, &f, 1000, 20);
	keep(&other, RANK_FIRST, 0, &frames[0]);
	keep(&other, RANK_FIRST + 1, 0, &frames[1]);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST), RUNG__CACHE_REMOTE);
	rung__cache_lock(f.cache);
	rung__cache_late(f.cache, other.cache->seat);
	rung__cache_late(f.cache, other.cache->seat);
	rung__cache_unlock(f.cache);
	cr_assert_eq(f.cache->timeouts, 1);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST), RUNG__CACHE_LATE);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + 1), RUNG__CACHE_LATE);
	rung__cache_lock(other.cache);
	rung__cache_failed(other.cache, frames[1]);
	rung__cache_unlock(other.cache);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST), RUNG__CACHE_REMOTE);
	rung__cache_seat_release(other.cache); /* as if it had died */
	rung__cache_lock(f.cache);
	rung__cache_late(f.cache, other.cache->seat);
	rung__cache_unlock(f.cache);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST), RUNG__CACHE_KEEP);
	cache_fixture_detach(&other);
	cache_fixture_close(&f);
}

Test(cache_stopped, a_client_does_not_inherit_lateness_with_its_seat)
{
	struct cache_fixture other, next;
	uint32_t frame;

	cache_fixture_open(&f, &shape, 1000, 20);
	cache_fixture_attach(&other, &f, 10, 2);
	keep(&other, RANK_FIRST, 0, &frame);
	rung__cache_lock(f.cache);
	rung__cache_late(f.cache, other.cache->seat);
	rung__cache_unlock(f.cache);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST), RUNG__CACHE_LATE);
	rung__cache_seat_release(other.cache); /* as if it had died */
	cache_fixture_attach(&next, &f, 10, 2);
	cr_assert_eq(next.cache->seat, other.cache->seat);
	keep(&next, RANK_FIRST + 1, 0, &frame);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + 1), RUNG__CACHE_REMOTE);
	rung__cache_lock(next.cache);
	rung__cache_failed(next.cache, frame);
	rung__cache_unlock(next.cache);
	cache_fixture_detach(&next);
	cache_fixture_detach(&other);
	cache_fixture_close(&f);
}

Test(cache_stopped, a_client_that_opens_without_the_lock_adopts_the_clock_later)
{
	const uint64_t rank = RANK_FIRST;
	struct cache_fixture other, joins;
	uint64_t batch;

	cache_fixture_open(&f, &shape, 1000, 20);
	cache_fixture_attach(&other, &f, 10, 2);
	rung__cache_lock(other.cache);
	other.cache->index->clock = UINT32_C(3) << 30;
	cache_fixture_attach(&joins, &f, 10, 2);
	rung__cache_unlock(other.cache);
	rung__cache_begin(joins.cache, &rank, 1, &batch);
	cr_assert_leq(f.cache->index->clock - (UINT32_C(3) << 30), 1u);
	rung__cache_end(joins.cache, batch);
	cache_fixture_detach(&joins);
	cache_fixture_detach(&other);
	cache_fixture_close(&f);
}

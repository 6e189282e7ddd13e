/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of the cold-row cache, one per process: consistency of the index after the lock is
 * acquired, and recovery from dead clients.
 *
 * A process that dies with the lock held may have left any list half changed, so the next holder
 * rebuilds all lists from the frames. A row that is neither pinned nor being read may have been in
 * the middle of an eviction, and is dropped. A frame that a living client reads or has pinned is
 * changed only by that client, and is marked with one store. An interrupted rebuild is repeated by
 * the next holder.
 *
 * A client that cannot get the lock (cache_lock.c) does not touch the index. Updates of its frames
 * are kept in a list of the process and applied when it has the lock; its private window is always
 * exact.
 */
#include <sched.h>

#include "cache/state.h"

#define YIELDS_MAX 32u /* yields after an unlock, so that waiting threads get the lock */

static uint32_t bit(uint32_t client)
{
	return UINT32_C(1) << client;
}

/* ---- the dead ---- */

/* The joined clients whose seats are still locked, one bit each. */
static uint32_t living_clients(const struct rung__cache *cache)
{
	const uint32_t joined = rung__cache_load(&cache->index->joined);
	uint32_t living = 0;

	for (uint32_t client = 0; client < RUNG__CACHE_CLIENTS_MAX; client++) {
		if (!(joined & bit(client)))
			continue;
		if (client == cache->seat ? cache->joined : rung__cache_seat_lives(cache, client))
			living |= bit(client);
	}
	return living;
}

/* Release the reads and pins of these clients. It visits every frame: clients rarely die. */
static void reclaim(struct rung__cache *cache, uint32_t clients)
{
	for (uint32_t link = 0; (link = rung__cache_frames_after(cache, link)) != 0;) {
		const struct rung__cache_frame *frame = &cache->frames[link - 1];
		const uint32_t reader = __atomic_load_n(&frame->state, __ATOMIC_RELAXED) >> 8;
		uint32_t pins;

		if (rung__cache_frame_state(frame) == RUNG__CACHE_FRAME_READING) {
			if (reader < RUNG__CACHE_CLIENTS_MAX && (clients & bit(reader))) {
				rung__cache_frames_clear(cache, link);
				rung__cache_frames_push(cache, link);
			}
			continue;
		}
		pins = rung__cache_load(&frame->pins) & clients;
		for (; pins; pins &= pins - 1)
			rung__cache_frames_unpin(cache, link, (uint32_t)__builtin_ctz(pins));
	}
	cache->index->joined &= ~clients;
}

void rung__cache_reap_dead(struct rung__cache *cache)
{
	uint32_t dead;

	if (!cache->shared || !cache->locked)
		return;
	dead = rung__cache_load(&cache->index->joined) & ~living_clients(cache);
	if (dead)
		reclaim(cache, dead);
}

/* The lock was acquired from a dead holder: rebuild all lists. */
static void rebuild(struct rung__cache *cache)
{
	uint32_t living = living_clients(cache);

	rung__cache_frames_rebuild(cache, living);
	cache->index->joined = living;
}

/* ---- deferred updates ---- */

void rung__cache_defer(struct rung__cache *cache, uint32_t frame_idx)
{
	cache->later[frame_idx] = cache->later_first;
	cache->later_first = frame_idx + 1;
}

/* Apply the updates that were deferred while this process did not have the index. */
static void do_deferred(struct rung__cache *cache)
{
	while (cache->later_first) {
		const uint32_t frame_idx = cache->later_first - 1, held = cache->held[frame_idx];

		cache->later_first = cache->later[frame_idx];
		cache->held[frame_idx] = held & RUNG__CACHE_HELD_COUNT;
		if (held & RUNG__CACHE_HELD_FILLED)
			rung__cache_frame_filled(cache, frame_idx);
		else if (held & RUNG__CACHE_HELD_FAILED)
			rung__cache_frame_failed(cache, frame_idx);
		else if (held == 0)
			rung__cache_frames_unpin(cache, frame_idx + 1, cache->seat);
	}
}

/* ---- lock ---- */

/* Become a client when the index is first locked. An earlier client of the seat may have died while
 * others considered it late. The seat's count of reads is changed here, so the new client is not
 * considered late. */
static void join(struct rung__cache *cache)
{
	const uint32_t clock = rung__cache_load(&cache->index->clock);

	if (rung__cache_load(&cache->index->joined) & bit(cache->seat))
		reclaim(cache, bit(cache->seat));
	cache->index->ended[cache->seat]++;
	cache->window.time_last = cache->window.time_begun = clock;
	cache->index->joined |= bit(cache->seat);
	cache->joined = true;
}

void rung__cache_lock(struct rung__cache *cache)
{
	bool from_dead = false;

	if (pthread_mutex_trylock(&cache->own) != 0) {
		atomic_fetch_add_explicit(&cache->waiting, 1, memory_order_relaxed);
		pthread_mutex_lock(&cache->own);
		atomic_fetch_sub_explicit(&cache->waiting, 1, memory_order_relaxed);
	}
	cache->locked = !cache->shared || rung__cache_index_lock(cache, &from_dead);
	if (!cache->locked)
		return;
	/* the lists must be sound before anything else uses them */
	if (from_dead)
		rebuild(cache);
	if (cache->shared && !cache->joined)
		join(cache);
	if (cache->later_first)
		do_deferred(cache);
	cache->clock = rung__cache_load(&cache->index->clock);
}

/* @return true: another process waits for the lock */
static bool unlock(struct rung__cache *cache)
{
	bool waited_for;

	cache->filled_count = rung__cache_filled_count(cache);
	waited_for = cache->shared && cache->locked && rung__cache_index_unlock(cache);
	cache->locked = false;
	pthread_mutex_unlock(&cache->own);
	return waited_for;
}

void rung__cache_unlock(struct rung__cache *cache)
{
	unlock(cache);
}

/* A mutex and a futex are not fair: without the yields this thread would usually have both locks
 * again before another thread has woken. */
void rung__cache_pause(struct rung__cache *cache)
{
	bool waited_for = unlock(cache);

	for (unsigned i = 0; i < YIELDS_MAX; i++) {
		if (atomic_load_explicit(&cache->waiting, memory_order_relaxed) == 0 &&
		    !(waited_for && rung__cache_index_is_free(cache)))
			break;
		sched_yield();
	}
	rung__cache_lock(cache);
}

/* ---- readers that are late ---- */

bool rung__cache_is_late(const struct rung__cache *cache, uint32_t client)
{
	if (client >= RUNG__CACHE_CLIENTS_MAX) /* damaged value: treat the row as not being read */
		return true;
	return (cache->late_readers & bit(client)) &&
	       rung__cache_load(&cache->index->ended[client]) == cache->late_ended[client];
}

void rung__cache_late(struct rung__cache *cache, uint32_t client)
{
	if (!cache->locked || rung__cache_is_late(cache, client))
		return;
	if (!rung__cache_seat_lives(cache, client)) { /* it died: release its reads */
		rung__cache_reap_dead(cache);
		return;
	}
	cache->late_readers |= bit(client);
	cache->late_ended[client] = rung__cache_load(&cache->index->ended[client]);
	atomic_fetch_add_explicit(&cache->timeouts, 1, memory_order_relaxed);
}

/* ---- leaving ---- */

void rung__cache_leave(struct rung__cache *cache)
{
	rung__cache_lock(cache);
	for (uint32_t frame_idx = 0;
	     cache->locked && cache->joined && frame_idx < cache->entries_end; frame_idx++) {
		if (cache->held[frame_idx] & RUNG__CACHE_HELD_READING)
			rung__cache_frame_failed(cache, frame_idx);
		else if (cache->held[frame_idx] > 0)
			rung__cache_frames_unpin(cache, frame_idx + 1, cache->seat);
	}
	/* without the lock the others find the seat empty, and release these pins and reads */
	if (cache->locked)
		cache->index->joined &= ~bit(cache->seat);
	cache->joined = false;
	rung__cache_unlock(cache);
	rung__cache_seat_release(cache);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of the cold-row cache: who is there, who has died, and what the dead have left.
 *
 * A client's thread holds a robust mutex as long as it lives; whoever tries it learns of its death. The lock is robust too. A process
 * that dies with it held may have left any list half changed, so they are all made anew; a row that nobody reads or has pinned may have
 * been in the middle of being replaced, and is given up. What a living client reads or has pinned only that client changes, and what says
 * so is stored by one instruction. A rebuild that is cut short is done again by the next.
 *
 * A read may outlive who began it: the kernel lets a killed process go while the device still writes into the frame. Such a frame
 * is lost for a time, or another row read into it would be overwritten.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "cache_internal.h"

static uint32_t bit(uint32_t client)
{
	return UINT32_C(1) << client;
}

/* Of those that joined, the ones whose thread holds its mutex. */
static uint32_t living_clients(struct rung__cache_index *index)
{
	const uint32_t joined = rung__cache_load(&index->joined);
	uint32_t living = 0;

	for (uint32_t client = 0; client < RUNG__CACHE_CLIENTS_MAX; client++) {
		int rc = joined & bit(client) ? pthread_mutex_trylock(&index->alive[client]) : 0;

		if (!(joined & bit(client)))
			continue;
		if (rc == EOWNERDEAD)
			pthread_mutex_consistent(&index->alive[client]);
		if (rc == 0 || rc == EOWNERDEAD)
			pthread_mutex_unlock(&index->alive[client]);
		else
			living |= bit(client);
	}
	return living;
}

static void rebuild(struct rung__cache *cache)
{
	struct rung__cache_index *index = cache->index;
	uint32_t living = living_clients(index);

	rung__cache_frames_rebuild(cache, living);
	index->joined = living;
	atomic_store(&index->waiting, 0);
}

void rung__cache_lock(struct rung__cache *cache)
{
	struct rung__cache_index *index = cache->index;

	atomic_fetch_add_explicit(&index->waiting, 1, memory_order_relaxed);
	pthread_mutex_lock(&cache->own);
	if (pthread_mutex_lock(&index->lock) == EOWNERDEAD) {
		pthread_mutex_consistent(&index->lock);
		rebuild(cache);
	}
	atomic_fetch_sub_explicit(&index->waiting, 1, memory_order_relaxed);
}

void rung__cache_unlock(struct rung__cache *cache)
{
	pthread_mutex_unlock(&cache->index->lock);
	pthread_mutex_unlock(&cache->own);
}

/* What a dead client was reading, and its pins: each frame is looked at, it is rare. */
static void take_back(struct rung__cache *cache, uint32_t client)
{
	uint32_t fresh = RUNG__MIN(rung__cache_load(&cache->index->fresh_count), cache->frame_count);

	for (uint32_t link = 1; link <= fresh; link++) {
		struct rung__cache_frame *frame = &cache->frames[link - 1];

		if (rung__cache_frame_state(frame) == RUNG__CACHE_FRAME_READING && frame->state >> 8 == client)
			rung__cache_frames_lose(cache, link);
		else
			rung__cache_frames_unpin(cache, link, client);
	}
}

void rung__cache_bury(struct rung__cache *cache)
{
	struct rung__cache_index *index = cache->index;
	uint32_t dead = rung__cache_load(&index->joined) & ~living_clients(index);

	for (uint32_t client = 0; client < RUNG__CACHE_CLIENTS_MAX; client++) {
		if (dead & bit(client))
			take_back(cache, client);
	}
	if (dead) {
		index->joined &= ~dead;
		atomic_store(&index->waiting, 0);
	}
}

/* A client's number, and its mutex held; RUNG__CACHE_CLIENTS_MAX: all are taken. */
static uint32_t take_seat(struct rung__cache *cache)
{
	struct rung__cache_index *index = cache->index;
	uint32_t client;

	rung__cache_bury(cache);
	for (client = 0; client < RUNG__CACHE_CLIENTS_MAX; client++) {
		int rc = index->joined & bit(client) ? EBUSY : pthread_mutex_trylock(&index->alive[client]);

		if (rc == EOWNERDEAD)   /* it died on its way in or out */
			pthread_mutex_consistent(&index->alive[client]);
		if (rc == 0 || rc == EOWNERDEAD) {
			index->joined |= bit(client);
			break;
		}
	}
	return client;
}

int rung__cache_join(struct rung__cache *cache, uint32_t *client_out)
{
	uint32_t *held = rung__zalloc_array(cache->frame_count, sizeof(*held)), *of_dead = NULL;
	uint32_t client;

	if (!held)
		return rung__fail(RUNG_E_NOMEM, "cold-row cache: no memory for pins of %u frames", cache->frame_count);
	rung__cache_lock(cache);
	client = take_seat(cache);
	if (client < RUNG__CACHE_CLIENTS_MAX) {
		of_dead = cache->held[client];   /* a thread of this process that did not leave */
		cache->held[client] = held;
	}
	rung__cache_unlock(cache);
	rung__free(of_dead);
	if (client == RUNG__CACHE_CLIENTS_MAX) {
		rung__free(held);
		return rung__fail(RUNG_E_BUSY, "cold-row cache: %u clients are there already: attach fewer processes", client);
	}
	*client_out = client;
	return 0;
}

void rung__cache_leave(struct rung__cache *cache, uint32_t client)
{
	uint32_t *held = cache->held[client];

	rung__cache_lock(cache);
	for (uint32_t frame_idx = 0; frame_idx < cache->frame_count; frame_idx++) {
		if (held[frame_idx] & RUNG__CACHE_HELD_READING)
			rung__cache_frames_lose(cache, frame_idx + 1);
		else if (held[frame_idx] > 0)
			rung__cache_frames_unpin(cache, frame_idx + 1, client);
	}
	cache->index->joined &= ~bit(client);
	cache->held[client] = NULL;
	pthread_mutex_unlock(&cache->index->alive[client]);
	rung__cache_unlock(cache);
	rung__free(held);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of the index when a read into a frame ends. They are made at once, or deferred and made
 * later (cache_clients.c).
 *
 * Each read that ends, even in failure, raises the count of its client, which shows the others that
 * the client is not late.
 */
#include "cache/state.h"

void rung__cache_frame_filled(struct rung__cache *cache, uint32_t frame_idx)
{
	struct rung__cache_frame *frame = &cache->frames[frame_idx];
	const uint32_t pins = cache->held[frame_idx];

	cache->index->ended[cache->seat]++;
	frame->pins = pins > 0 ? UINT32_C(1) << cache->seat : 0;
	/* the next use that this process knows now: batches may have been announced during the
	 * read */
	rung__cache_frames_fill(cache, frame_idx + 1, rung__cache_window_next(cache, frame->row));
	if (pins == 0)
		rung__cache_frames_offer(cache, frame_idx + 1);
}

void rung__cache_frame_failed(struct rung__cache *cache, uint32_t frame_idx)
{
	cache->index->ended[cache->seat]++;
	rung__cache_frames_clear(cache, frame_idx + 1);
	rung__cache_frames_push(cache, frame_idx + 1);
}

uint64_t rung__cache_filled_count(struct rung__cache *cache)
{
	return cache->locked ? RUNG__MIN(cache->index->filled_count, cache->frame_count)
	                     : cache->filled_count;
}

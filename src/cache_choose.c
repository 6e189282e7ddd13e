/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cold-row cache's choice: whether a row is worth a frame, and which one is given up for it.
 *
 * With batches announced, Belady's rule on what is known: of two rows the one wanted later goes, a row that no known batch wants is
 * wanted later than all that are known, and of two such rows the colder one goes, be it the one that has just come. Equal times keep
 * what is there. Without announcements what is known reaches as far as the batches in flight: it is kept, and among the rest SIEVE
 * chooses.
 */
#include "cache_internal.h"

#define HAND_VISITED_MAX 128u   /* steps of SIEVE's hand, after which it takes no notice of visits: a step may miss every cache */
#define HAND_STEPS_MAX 1024u    /* and after which it gives up looking for a frame that is neither pinned nor wanted */

static bool lookahead(const struct rung__cache_index *index)
{
	return index->announced != 0 && index->clock - index->announced <= RUNG__CACHE_LOOKAHEAD_MAX;
}

static uint32_t sieve(struct rung__cache *cache)
{
	struct rung__cache_index *index = cache->index;
	uint32_t link = rung__cache_load(&index->hand);

	for (unsigned steps = 0; steps < HAND_STEPS_MAX; steps++) {
		struct rung__cache_frame *frame = rung__cache_frame_at(cache, link);

		if (!frame) {   /* beyond the newest, or at the very beginning */
			link = rung__cache_load(&index->oldest);
			frame = rung__cache_frame_at(cache, link);
			if (!frame)
				return 0;
		}
		index->hand = link;
		if (rung__cache_frame_offered(frame) && frame->next_use == 0) {
			if (!frame->visited || steps >= HAND_VISITED_MAX)
				return link;
			frame->visited = 0;
		}
		link = rung__cache_load(&frame->newer);
	}
	index->hand = link;
	return rung__cache_frames_coldest(cache);
}

/* Of the frames that no known batch wants. */
static uint32_t idle_frame(struct rung__cache *cache, uint64_t row, uint32_t next_use)
{
	uint32_t link;

	if (!lookahead(cache->index))
		return sieve(cache);
	link = rung__cache_frames_coldest(cache);
	if (link && next_use == 0 && cache->frames[link - 1].row < row)
		return 0;
	return link;
}

static uint32_t victim(struct rung__cache *cache, uint64_t row, uint32_t next_use)
{
	bool stale = false;
	uint32_t farthest = rung__cache_frames_farthest(cache, &stale);
	const struct rung__cache_frame *frame = rung__cache_frame_at(cache, farthest);

	if (frame && stale)
		return farthest;
	if (cache->index->idle_count > 0)
		return idle_frame(cache, row, next_use);
	return frame && next_use != 0 && rung__cache_later(frame->next_use, next_use) ? farthest : 0;
}

uint32_t rung__cache_choose(struct rung__cache *cache, uint64_t row, uint32_t next_use)
{
	uint32_t link = rung__cache_frames_pop(cache);
	const struct rung__cache_frame *frame;

	if (link)
		return link;
	link = victim(cache, row, next_use);
	frame = rung__cache_frame_at(cache, link);
	if (!frame || !rung__cache_frame_offered(frame))
		return 0;
	rung__cache_frames_clear(cache, link);
	return link;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacement in the cold-row cache: whether a row is cached, and which row it evicts.
 *
 * With announced batches the rule is Belady's, with bypassing (L. A. Belady, "A study of
 * replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966). Between
 * two rows, the one that is needed later is evicted. A row that no known batch needs counts as
 * needed later than all others; of two rows without a known use the colder one is evicted, even if
 * it was read just now. For equal times the cached row stays. An empty window therefore gives the
 * static order by score, and with a long window no policy is better.
 *
 * A frame for a row that a known batch needs is chosen when the row has been read. If it was chosen
 * before the read, the frames of all rows in flight, which can be a quarter of a small cache, could
 * not be used for rows that are needed sooner. Until then the row has an entry, so that no batch
 * reads it again. Rows for a device, and rows that are read ahead, which are lost without a frame,
 * get theirs before the read.
 *
 * Without announcements only the batches in flight are known: their rows are kept. Among the
 * others, a row that is hotter than the coldest cached row evicts it at once. A colder row is
 * admitted if it misses twice in a short time, and evicts the row that SIEVE selects (Y. Zhang et
 * al., "SIEVE is Simpler than LRU", NSDI 2024). In sampled batches every row occurs once per batch,
 * which is a scan for a cache that knows only history: SIEVE and S3-FIFO then keep no row that is
 * requested again, while the order by score still gives hits. History helps if training uses other
 * rows than the score predicts.
 */
#include "cache/state.h"

/* steps of SIEVE's hand after which it ignores visits: each step may miss all CPU caches */
#define HAND_VISITED_MAX 128u
/* steps after which it stops its search for a frame that is neither pinned nor needed */
#define HAND_STEPS_MAX 256u
#define IDLE_SHARE     8u /* the hand moves only if at least 1/8 of the filled frames are idle */

/* Whether batches are announced, by this process or another one. */
static bool lookahead(const struct rung__cache_index *index)
{
	return index->announced != 0 &&
	       index->clock - index->announced <= RUNG__CACHE_LOOKAHEAD_MAX;
}

/* The victim that SIEVE selects: the hand moves from the oldest frame to the newest, and stops at
 * an idle frame that was not hit since it last passed. The order of filling is not changed by
 * hits. */
static uint32_t sieve(struct rung__cache *cache)
{
	struct rung__cache_index *index = cache->index;
	uint32_t link = rung__cache_load(&index->hand);

	for (unsigned steps = 0; steps < HAND_STEPS_MAX; steps++) {
		struct rung__cache_frame *frame = rung__cache_frame_at(cache, link);

		if (!frame) { /* past the newest frame, or not moved yet: start at the oldest */
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
	/* too many pinned or needed frames: the next search continues from here */
	index->hand = link;
	return rung__cache_frames_coldest(cache);
}

/*
 * Without announcements, history is used only where the score has proven wrong. A row colder than
 * all cached rows is remembered when it misses, and forgotten after about as many further rows as
 * there are frames. If it misses again before that, it is cached, and SIEVE selects the victim.
 * Hotter rows evict the coldest row instead, because SIEVE would evict rows that are hotter still.
 */
static bool missed_lately(struct rung__cache *cache, uint64_t row)
{
	uint64_t hash = rung__mix64(row);
	uint32_t *ghost = &cache->ghosts[hash & cache->heads_mask],
		 tag = (uint32_t)(hash >> 32) | 1;
	bool known = rung__cache_load(ghost) == tag;

	__atomic_store_n(ghost, known ? 0 : tag, __ATOMIC_RELAXED);
	return known;
}

/* The victim for a row without announcements; 0: the row is not admitted. */
static uint32_t by_history(struct rung__cache *cache, uint64_t row, uint32_t next_use,
                           uint32_t coldest)
{
	struct rung__cache_index *index = cache->index;
	const struct rung__cache_frame *frame = &cache->frames[coldest - 1];

	/* another batch in flight needs the row, or it is hotter than the coldest cached one */
	if (next_use != 0 || row < frame->row)
		return coldest;
	if (!missed_lately(cache, row))
		return 0;
	if (!frame->visited || index->idle_count < index->filled_count / IDLE_SHARE)
		return coldest;
	return sieve(cache);
}

/* Choose among the frames that no known batch needs; 0: all of them are worth more than the row. */
static uint32_t idle_frame(struct rung__cache *cache, uint64_t row, uint32_t next_use)
{
	uint32_t coldest = rung__cache_frames_coldest(cache);

	if (!rung__cache_frame_at(cache, coldest))
		return 0;
	if (!lookahead(cache->index))
		return by_history(cache, row, next_use, coldest);
	return next_use == 0 && cache->frames[coldest - 1].row < row ? 0 : coldest;
}

/* The frame to evict for a row; 0: the row is not cached. */
static uint32_t victim(struct rung__cache *cache, uint64_t row, uint32_t next_use)
{
	bool stale = false;
	uint32_t farthest = rung__cache_frames_farthest(cache, &stale);
	const struct rung__cache_frame *frame = rung__cache_frame_at(cache, farthest);

	/* first a frame that only a dead process needs; then an idle one, whose next use is the
	 * farthest */
	if (frame && stale)
		return farthest;
	if (cache->index->idle_count > 0)
		return idle_frame(cache, row, next_use);
	/* at equal times the cached row stays */
	return frame && next_use != 0 && rung__cache_later(frame->next_use, next_use) ? farthest
	                                                                              : 0;
}

uint32_t rung__cache_choose(struct rung__cache *cache, uint64_t row, uint32_t next_use)
{
	uint32_t link = rung__cache_frames_pop(cache);
	const struct rung__cache_frame *frame;

	if (link)
		return link;
	link = victim(cache, row, next_use);
	frame = rung__cache_frame_at(cache, link);
	/* no victim, or a damaged index: in a sound one, every frame in these lists is offered */
	if (!frame || !rung__cache_frame_offered(frame))
		return 0;
	rung__cache_frames_clear(cache, link);
	return link;
}

/* Assign a frame or an entry, which `link` leads to, to a row; 0: none. */
static enum rung__cache_lookup claim(struct rung__cache *cache, uint32_t link, uint64_t row,
                                     uint32_t reader, struct rung__cache_slot *slot_out)
{
	/* this process reads into the frame or has pinned it: the index was damaged */
	if (!link || cache->held[link - 1] != 0)
		return RUNG__CACHE_PASS;
	rung__cache_frames_claim(cache, link, row, cache->seat);
	cache->held[link - 1] = RUNG__CACHE_HELD_READING | reader;
	*slot_out = (struct rung__cache_slot){ .frame = link - 1, .reader = reader };
	return RUNG__CACHE_KEEP;
}

enum rung__cache_lookup rung__cache_admit(struct rung__cache *cache, uint64_t row,
                                          uint32_t next_use, uint32_t reader,
                                          struct rung__cache_slot *slot_out)
{
	uint32_t link = rung__cache_choose(cache, row, next_use);

	return claim(cache, link, row, reader, slot_out);
}

enum rung__cache_lookup rung__cache_defer_choice(struct rung__cache *cache, uint64_t row,
                                                 uint32_t next_use, uint32_t reader,
                                                 struct rung__cache_slot *slot_out)
{
	if (!cache->chooses_late || next_use == 0 || !lookahead(cache->index))
		return RUNG__CACHE_PASS;
	return claim(cache, rung__cache_entries_pop(cache), row, reader, slot_out);
}

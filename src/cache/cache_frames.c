/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of the cold-row cache: the frame of each row, and the orders of frames from which a
 * victim is chosen.
 *
 * By row: chains from a table of heads. By fill time: one list, for SIEVE. By next use: one list
 * per time, modulo the number of lists, and a bit for each list that is not empty. By rank, for
 * rows that no known batch needs: one bit per row, and above it one bit per word, so that the
 * coldest row is found with one step per level. Every operation ends in bounded time, whatever the
 * index contains.
 */
#include <string.h>

#include "cache/state.h"

/* there are at least as many heads as frames, so a longer chain is damaged */
#define CHAIN_MAX 1024u
/* number of buckets for valid times; the others are the gap, with frames of dead processes
 * (state.h) */
#define GAP_BEGIN (RUNG__CACHE_BEHIND_MAX + RUNG__CACHE_AHEAD_MAX)

_Static_assert(GAP_BEGIN + 512u <= RUNG__CACHE_BUCKETS,
               "a bucket is in the gap for 512 batches, in which its frames are found");

/* ---- by row ---- */

uint32_t rung__cache_frames_find(const struct rung__cache *cache, uint64_t row)
{
	uint32_t link = rung__cache_load(&cache->heads[rung__cache_hash(row) & cache->heads_mask]);

	for (unsigned steps = 0; steps < CHAIN_MAX; steps++) {
		const struct rung__cache_frame *frame = rung__cache_entry_at(cache, link);

		if (!frame)
			return 0;
		if (frame->row == row)
			return link;
		link = rung__cache_load(&frame->hash_next);
	}
	return 0;
}

static void hash_insert(struct rung__cache *cache, uint32_t link, struct rung__cache_frame *frame)
{
	uint32_t *head = &cache->heads[rung__cache_hash(frame->row) & cache->heads_mask];

	frame->hash_next = *head;
	*head = link;
}

/* Does nothing if the frame is not in the chain, which happens only in a damaged index. */
static void hash_remove(struct rung__cache *cache, uint32_t link,
                        const struct rung__cache_frame *removed)
{
	uint32_t *from = &cache->heads[rung__cache_hash(removed->row) & cache->heads_mask];

	for (unsigned steps = 0; steps < CHAIN_MAX; steps++) {
		uint32_t at = rung__cache_load(from);
		struct rung__cache_frame *frame = rung__cache_entry_at(cache, at);

		if (!frame)
			return;
		if (at == link) {
			*from = frame->hash_next;
			return;
		}
		from = &frame->hash_next;
	}
}

/* ---- by filling ---- */

/* Append a frame as the newest. */
static void age_insert(struct rung__cache *cache, uint32_t link, struct rung__cache_frame *frame)
{
	struct rung__cache_index *index = cache->index;
	uint32_t before = rung__cache_load(&index->newest);
	struct rung__cache_frame *older = rung__cache_frame_at(cache, before);

	frame->older = before;
	frame->newer = 0;
	if (older)
		older->newer = link;
	else
		index->oldest = link;
	index->newest = link;
}

static void age_remove(struct rung__cache *cache, uint32_t link,
                       const struct rung__cache_frame *frame)
{
	struct rung__cache_index *index = cache->index;
	uint32_t newer_link = rung__cache_load(&frame->newer),
		 older_link = rung__cache_load(&frame->older);
	struct rung__cache_frame *newer = rung__cache_frame_at(cache, newer_link);
	struct rung__cache_frame *older = rung__cache_frame_at(cache, older_link);

	if (newer)
		newer->older = older_link;
	else
		index->newest = older_link;
	if (older)
		older->newer = newer_link;
	else
		index->oldest = newer_link;
	if (index->hand == link) /* move the hand to the frame that it would have visited next */
		index->hand = newer_link;
}

/* ---- by next use ---- */

/* Add a frame to the bucket of its next use, and set the bits that lead to the bucket. */
static void bucket_insert(struct rung__cache *cache, uint32_t link, struct rung__cache_frame *frame)
{
	struct rung__cache_index *index = cache->index;
	uint32_t bucket = rung__cache_load(&frame->next_use) % RUNG__CACHE_BUCKETS;
	uint32_t first = rung__cache_load(&index->buckets[bucket]);
	struct rung__cache_frame *next = rung__cache_frame_at(cache, first);

	frame->use_prev = 0;
	frame->use_next = first;
	if (next)
		next->use_prev = link;
	index->buckets[bucket] = link;
	index->bucket_bits[bucket / 64] |= UINT64_C(1) << bucket % 64;
	index->bucket_groups[bucket / 64 / 64] |= UINT64_C(1) << bucket / 64 % 64;
}

/* The bucket is empty. */
static void bucket_clear_bit(struct rung__cache_index *index, uint32_t bucket)
{
	index->bucket_bits[bucket / 64] &= ~(UINT64_C(1) << bucket % 64);
	if (index->bucket_bits[bucket / 64] == 0)
		index->bucket_groups[bucket / 64 / 64] &= ~(UINT64_C(1) << bucket / 64 % 64);
}

static void bucket_remove(struct rung__cache *cache, const struct rung__cache_frame *frame)
{
	uint32_t bucket = rung__cache_load(&frame->next_use) % RUNG__CACHE_BUCKETS;
	uint32_t prev_link = rung__cache_load(&frame->use_prev),
		 next_link = rung__cache_load(&frame->use_next);
	struct rung__cache_frame *prev = rung__cache_frame_at(cache, prev_link);
	struct rung__cache_frame *next = rung__cache_frame_at(cache, next_link);

	if (next)
		next->use_prev = prev_link;
	if (prev)
		prev->use_next = next_link;
	else
		cache->index->buckets[bucket] = next_link;
	if (!prev && !next)
		bucket_clear_bit(cache->index, bucket);
}

/* The number of the highest bit below `end` that is set; -1: all are clear. */
static int highest_below(const uint64_t *words, uint32_t end)
{
	for (uint32_t word = (end + 63) / 64; word-- > 0;) {
		uint64_t bits = __atomic_load_n(&words[word], __ATOMIC_RELAXED);

		if (word == end / 64)
			bits &= (UINT64_C(1) << end % 64) - 1;
		if (bits)
			return (int)(word * 64 + 63 - (uint32_t)__builtin_clzll(bits));
	}
	return -1;
}

/* The last bucket below `end` that is not empty; -1: all are empty. Two levels of bits: first the
 * word that contains `end`, then the groups. */
static int last_bucket_below(const struct rung__cache_index *index, uint32_t end)
{
	uint64_t same_word =
		end % 64 ? __atomic_load_n(&index->bucket_bits[end / 64], __ATOMIC_RELAXED) &
				   ((UINT64_C(1) << end % 64) - 1)
			 : 0;
	int word;

	if (same_word)
		return (int)(end / 64 * 64 + 63 - (uint32_t)__builtin_clzll(same_word));
	word = highest_below(index->bucket_groups, end / 64);
	if (word >= 0) {
		uint64_t bits = __atomic_load_n(&index->bucket_bits[word], __ATOMIC_RELAXED);

		return bits ? word * 64 + 63 - __builtin_clzll(bits) : -1;
	}
	return -1;
}

uint32_t rung__cache_frames_farthest(const struct rung__cache *cache, bool *stale_out)
{
	const struct rung__cache_index *index = cache->index;
	/* the buckets are a ring that begins at the oldest valid time: the farthest next use is in
	 * the last bucket before it, or, if those below it are empty, in the last one of all */
	uint32_t first = (index->clock - RUNG__CACHE_BEHIND_MAX) % RUNG__CACHE_BUCKETS;
	int bucket = last_bucket_below(index, first);

	if (bucket < 0)
		bucket = last_bucket_below(index, RUNG__CACHE_BUCKETS);
	if (bucket < 0)
		return 0;
	*stale_out = ((uint32_t)bucket - first) % RUNG__CACHE_BUCKETS > GAP_BEGIN;
	return rung__cache_load(&index->buckets[bucket]);
}

/* ---- by rank ---- */

static void map_set(struct rung__cache *cache, uint64_t row)
{
	cache->index->idle_count += rung__cache_map_set(&cache->idle, row);
}

static void map_clear(struct rung__cache *cache, uint64_t row)
{
	cache->index->idle_count -= rung__cache_map_clear(&cache->idle, row);
}

uint32_t rung__cache_frames_coldest(struct rung__cache *cache)
{
	const struct rung__cache_frame *frame;
	uint64_t row;
	uint32_t link;

	if (!rung__cache_map_last(&cache->idle, &row))
		return 0;
	link = rung__cache_frames_find(cache, row);
	frame = rung__cache_frame_at(cache, link);
	if (frame && rung__cache_frame_offered(frame) && frame->next_use == 0)
		return link;
	map_clear(cache, row); /* damage: the next call finds another row */
	return 0;
}

/* ---- a frame's life ---- */

void rung__cache_frames_offer(struct rung__cache *cache, uint32_t link)
{
	struct rung__cache_frame *frame = &cache->frames[link - 1];

	if (frame->next_use)
		bucket_insert(cache, link, frame);
	else
		map_set(cache, __atomic_load_n(&frame->row, __ATOMIC_RELAXED));
}

void rung__cache_frames_withdraw(struct rung__cache *cache, uint32_t link)
{
	struct rung__cache_frame *frame = &cache->frames[link - 1];

	if (frame->next_use)
		bucket_remove(cache, frame);
	else
		map_clear(cache, __atomic_load_n(&frame->row, __ATOMIC_RELAXED));
}

void rung__cache_frames_want(struct rung__cache *cache, uint32_t link, uint32_t next_use)
{
	struct rung__cache_frame *frame = &cache->frames[link - 1];
	bool offered = rung__cache_frame_offered(frame);

	if (offered)
		rung__cache_frames_withdraw(cache, link);
	frame->next_use = next_use;
	if (offered)
		rung__cache_frames_offer(cache, link);
}

void rung__cache_frames_unpin(struct rung__cache *cache, uint32_t link, uint32_t client)
{
	struct rung__cache_frame *frame = &cache->frames[link - 1];

	if (!(frame->pins & UINT32_C(1) << client))
		return;
	frame->pins &= ~(UINT32_C(1) << client);
	if (rung__cache_frame_offered(frame))
		rung__cache_frames_offer(cache, link);
}

/* Empty frames first, then frames that were never used: memory is touched only as it is needed. */
uint32_t rung__cache_frames_pop(struct rung__cache *cache)
{
	struct rung__cache_index *index = cache->index;
	uint32_t link = rung__cache_load(&index->free);
	struct rung__cache_frame *frame = rung__cache_frame_at(cache, link);

	if (frame) {
		index->free = frame->older;
	} else {
		link = rung__cache_load(&index->fresh_count) + 1;
		frame = rung__cache_frame_at(cache, link);
		if (!frame)
			return 0;
		index->fresh_count = link;
		/* fresh_count is raised before the frame is claimed: if this process dies, the
		 * rebuild visits only frames below it */
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	}
	return rung__cache_frame_state(frame) == RUNG__CACHE_FRAME_EMPTY ? link : 0;
}

uint32_t rung__cache_entries_pop(struct rung__cache *cache)
{
	struct rung__cache_index *index = cache->index;
	uint32_t link = rung__cache_load(&index->free_entries);
	struct rung__cache_frame *entry = rung__cache_entry_at(cache, link);

	if (entry && link > cache->frame_count) {
		index->free_entries = entry->older;
	} else {
		const uint32_t fresh = rung__cache_load(&index->fresh_entries);

		if (fresh >= cache->entries_end - cache->frame_count)
			return 0;
		link = cache->frame_count + fresh + 1;
		entry = &cache->frames[link - 1];
		index->fresh_entries = fresh + 1;
		__atomic_signal_fence(__ATOMIC_SEQ_CST); /* as for frames */
	}
	return rung__cache_frame_state(entry) == RUNG__CACHE_FRAME_EMPTY ? link : 0;
}

void rung__cache_frames_push(struct rung__cache *cache, uint32_t link)
{
	uint32_t *free =
		link > cache->frame_count ? &cache->index->free_entries : &cache->index->free;

	cache->frames[link - 1].older = *free;
	*free = link;
}

uint32_t rung__cache_frames_after(const struct rung__cache *cache, uint32_t link)
{
	const struct rung__cache_index *index = cache->index;

	if (link < RUNG__MIN(rung__cache_load(&index->fresh_count), cache->frame_count))
		return link + 1;
	link = RUNG__MAX(link, cache->frame_count);
	return link - cache->frame_count < RUNG__MIN(rung__cache_load(&index->fresh_entries),
	                                             cache->entries_end - cache->frame_count)
	               ? link + 1
	               : 0;
}

void rung__cache_frames_claim(struct rung__cache *cache, uint32_t link, uint64_t row,
                              uint32_t client)
{
	struct rung__cache_frame *frame = &cache->frames[link - 1];

	frame->row = row;
	frame->pins = 0;
	frame->next_use = 0;
	frame->visited = 0;
	rung__cache_frame_set(frame, RUNG__CACHE_FRAME_READING, client);
	hash_insert(cache, link, frame);
}

void rung__cache_frames_fill(struct rung__cache *cache, uint32_t link, uint32_t next_use)
{
	struct rung__cache_frame *frame = &cache->frames[link - 1];

	frame->next_use = next_use;
	age_insert(cache, link, frame);
	cache->index->filled_count++;
	rung__cache_frame_set(frame, RUNG__CACHE_FRAME_FILLED, 0);
}

void rung__cache_frames_clear(struct rung__cache *cache, uint32_t link)
{
	struct rung__cache_frame *frame = &cache->frames[link - 1];

	if (rung__cache_frame_offered(frame))
		rung__cache_frames_withdraw(cache, link);
	if (rung__cache_frame_state(frame) == RUNG__CACHE_FRAME_FILLED) {
		age_remove(cache, link, frame);
		cache->index->filled_count--;
	}
	hash_remove(cache, link, frame);
	frame->pins = 0;
	rung__cache_frame_set(frame, RUNG__CACHE_FRAME_EMPTY, 0);
}

/* Put a frame into the lists that its state calls for. A row without a pin may be in the middle of
 * an eviction, so it is dropped. */
static void rebuild_frame(struct rung__cache *cache, uint32_t link, uint32_t living)
{
	struct rung__cache_frame *frame = &cache->frames[link - 1];
	const uint16_t word = __atomic_load_n(&frame->state, __ATOMIC_RELAXED);
	enum rung__cache_state state = (enum rung__cache_state)(word & 0xff);
	uint32_t pins = rung__cache_load(&frame->pins) & living;

	if (state == RUNG__CACHE_FRAME_READING && word >> 8 < RUNG__CACHE_CLIENTS_MAX &&
	    (living >> (word >> 8) & 1)) {
		frame->pins = 0;
		hash_insert(cache, link, frame);
	} else if (state == RUNG__CACHE_FRAME_FILLED && pins != 0 && link <= cache->frame_count) {
		frame->pins = pins;
		hash_insert(cache, link, frame);
		age_insert(cache, link, frame);
		cache->index->filled_count++;
	} else {
		frame->pins = 0;
		rung__cache_frame_set(frame, RUNG__CACHE_FRAME_EMPTY, 0);
		rung__cache_frames_push(cache, link);
	}
}

void rung__cache_frames_rebuild(struct rung__cache *cache, uint32_t living)
{
	struct rung__cache_index *index = cache->index;

	memset(cache->heads, 0, (cache->heads_mask + 1) * sizeof(*cache->heads));
	for (unsigned level = 0; level < cache->idle.level_count; level++)
		memset(cache->idle.levels[level], 0,
		       cache->idle.level_words[level] * sizeof(uint64_t));
	memset(index->buckets, 0, sizeof(index->buckets));
	memset(index->bucket_bits, 0, sizeof(index->bucket_bits));
	memset(index->bucket_groups, 0, sizeof(index->bucket_groups));
	index->free = index->free_entries = index->newest = index->oldest = index->hand = 0;
	index->filled_count = index->idle_count = 0;
	for (uint32_t link = 0; (link = rung__cache_frames_after(cache, link)) != 0;)
		rebuild_frame(cache, link, living);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cold-row cache: its memory, and the life of a row in it.
 *
 * A row is looked up; if it is not cached, it may get a frame, which refill fills; it is pinned
 * while it is copied; then it is offered for eviction again. The functions here check `locked`:
 * without the lock of the index they record the change in `held`, from which it is applied later.
 */
#include <assert.h>
#include <string.h>

#include "cache/state.h"

/* ---- memory ---- */

/* Offsets in the index. */
struct layout {
	uint64_t heads, heads_count, ghosts, frames, idle, bytes;
	struct rung__cache_map map;
};

/* Rows in flight are at most a quarter of the rows in frames: a cache with more of them at a time
 * would hold little else. */
static uint64_t entry_count(const struct rung__cache_shape *shape)
{
	return RUNG__MIN(shape->frame_count / 4 + 1, RUNG__CACHE_ENTRIES_MAX);
}

/* Compute the offsets. Nothing overflows: frames need less than 2^39 bytes, and the words for 2^64
 * rows less than 2^62. @return false if the shape is invalid */
static bool lay_out(const struct rung__cache_shape *shape, struct layout *layout)
{
	uint64_t rank_end;

	*layout = (struct layout){ 0 };
	if (shape->frame_count == 0 || shape->frame_count >= UINT32_MAX || shape->row_count == 0 ||
	    shape->frame_count + entry_count(shape) >= UINT32_MAX ||
	    !rung__add(shape->rank_first, shape->row_count, &rank_end))
		return false;
	layout->heads = rung__align_up(sizeof(struct rung__cache_index), 64);
	layout->heads_count = rung__cache_heads_count(shape->frame_count);
	layout->ghosts = layout->heads + layout->heads_count * sizeof(uint32_t);
	layout->frames =
		rung__align_up(layout->ghosts + layout->heads_count * sizeof(uint32_t), 64);
	layout->idle = rung__align_up(layout->frames + (shape->frame_count + entry_count(shape)) *
	                                                       sizeof(struct rung__cache_frame),
	                              64);
	layout->bytes = layout->idle + rung__cache_map_lay_out(&layout->map, shape->row_count);
	layout->bytes = rung__align_up(layout->bytes, RUNG__PAGE_BYTES);
	return true;
}

uint64_t rung__cache_index_bytes(const struct rung__cache_shape *shape)
{
	struct layout layout;

	return lay_out(shape, &layout) ? layout.bytes : 0;
}

/* The memory is zeroed, which is an index with empty lists. */
static void init_index(struct rung__cache_index *index, const struct rung__cache_shape *shape)
{
	index->shape = *shape;
	index->version = RUNG__CACHE_VERSION;
	index->magic = RUNG__CACHE_MAGIC;
}

/* Check an index that another process has created. Its lists are not checked: whatever they
 * contain is safe to follow. */
static int check_index(const struct rung__cache_index *index, const struct rung__cache_shape *shape)
{
	if (index->magic != RUNG__CACHE_MAGIC || index->version != RUNG__CACHE_VERSION)
		return rung__fail(
			RUNG_E_FORMAT,
			"cold-row cache: the other process uses index version %u, but this "
			"process uses %u; use the same version of rung in both",
			index->magic == RUNG__CACHE_MAGIC ? index->version : 0,
			RUNG__CACHE_VERSION);
	if (index->shape.rank_first != shape->rank_first ||
	    index->shape.row_count != shape->row_count ||
	    index->shape.frame_count != shape->frame_count)
		return rung__fail(
			RUNG_E_FORMAT,
			"cold-row cache: use the same settings in all processes; the other has "
			"%" PRIu64 " frames for %" PRIu64 " rows from rank %" PRIu64
			" on, this one %" PRIu64 " for %" PRIu64 " from %" PRIu64,
			index->shape.frame_count, index->shape.row_count, index->shape.rank_first,
			shape->frame_count, shape->row_count, shape->rank_first);
	return 0;
}

/* Set the pointers into the index. They are computed from this process's numbers, because those in
 * the index are untrusted. */
static void map_index(struct rung__cache *cache, void *index, const struct layout *layout)
{
	unsigned char *base = index;

	cache->index = index;
	cache->heads = (uint32_t *)(void *)(base + layout->heads);
	cache->heads_mask = layout->heads_count - 1;
	cache->ghosts = (uint32_t *)(void *)(base + layout->ghosts);
	cache->frames = (struct rung__cache_frame *)(void *)(base + layout->frames);
	cache->frame_count = (uint32_t)cache->shape.frame_count;
	cache->entries_end = cache->frame_count + (uint32_t)entry_count(&cache->shape);
	cache->idle = layout->map;
	rung__cache_map_place(&cache->idle, base + layout->idle);
}

static int alloc_memory(struct rung__cache *cache, uint64_t rows_max, uint32_t batches_max)
{
	cache->held = rung__zalloc_array(cache->entries_end, sizeof(*cache->held));
	if (cache->shared)
		cache->later = rung__zalloc_array(cache->entries_end, sizeof(*cache->later));
	if (!cache->held || (cache->shared && !cache->later))
		return rung__fail(RUNG_E_NOMEM, "cold-row cache: no memory to pin %u frames",
		                  cache->frame_count);
	return rung__cache_window_init(cache, rows_max, batches_max);
}

static void free_cache(struct rung__cache *cache)
{
	rung__ahead_close(cache);
	rung__cache_window_fini(cache);
	rung__free(cache->later);
	rung__free(cache->held);
	pthread_mutex_destroy(&cache->own);
	rung__free(cache);
}

int rung__cache_open(const struct rung__cache_shape *shape, void *index, int fd, bool create,
                     uint64_t rows_max, uint32_t batches_max, struct rung__cache **cache_out)
{
	struct rung__cache *cache;
	struct layout layout;
	int rc = 0;

	if (!lay_out(shape, &layout))
		return rung__fail(RUNG_E_FORMAT,
		                  "cold-row cache: %" PRIu64 " frames for %" PRIu64
		                  " rows from rank %" PRIu64 " on are not a valid size",
		                  shape->frame_count, shape->row_count, shape->rank_first);
	if (create)
		init_index(index, shape);
	else
		rc = check_index(index, shape);
	if (rc < 0)
		return rc;
	cache = rung__zalloc(sizeof(*cache));
	if (!cache)
		return rung__fail(RUNG_E_NOMEM, "cold-row cache: out of memory");
	cache->shape = *shape;
	cache->shared = fd >= 0;
	cache->seat_fd = -1;
	map_index(cache, index, &layout);
	pthread_mutex_init(&cache->own, NULL);
	rc = alloc_memory(cache, rows_max, batches_max);
	if (rc == 0 && cache->shared)
		rc = rung__cache_seat_acquire(cache, fd);
	if (rc < 0) {
		free_cache(cache);
		return rc;
	}
	/* the first lock makes this process a client, and releases the pins and reads of a dead
	 * client that had this seat. It is done now, because a row may never be looked up */
	rung__cache_lock(cache);
	rung__cache_unlock(cache);
	*cache_out = cache;
	return 0;
}

void rung__cache_close(struct rung__cache *cache)
{
	if (!cache)
		return;
	rung__cache_lock(cache);
	rung__cache_window_drop(cache);
	rung__cache_unlock(cache);
	if (cache->shared)
		rung__cache_leave(cache);
	free_cache(cache);
}

/* ---- rows ---- */

/* The next use of a frame after a hit. `next_use` is the next use by this process; `known` is
 * stored in the frame, perhaps by another process, and is kept if it is nearer and still to
 * come. */
static uint32_t nearest(const struct rung__cache *cache, uint32_t known, uint32_t next_use)
{
	if (known != 0 && rung__cache_later(known, cache->clock) &&
	    (next_use == 0 || rung__cache_later(next_use, known)))
		return known;
	return next_use;
}

/* Pin a filled frame, and set its next use. Its position in the lists depends on the next use, so
 * the frame is withdrawn first. The last unpin offers it again. */
static void pin_hit(struct rung__cache *cache, uint32_t link, uint32_t next_use)
{
	struct rung__cache_frame *frame = &cache->frames[link - 1];

	if (rung__cache_frame_offered(frame))
		rung__cache_frames_withdraw(cache, link);
	frame->next_use = nearest(cache, frame->next_use, next_use);
	frame->visited = 1;
	frame->pins |= UINT32_C(1) << cache->seat;
	cache->held[link - 1]++;
}

/* The client that reads into a frame, or NONE. State and client are one word, read once, because
 * another process may change it at any time. */
static uint32_t reader_of(const struct rung__cache_frame *frame)
{
	const uint16_t word = __atomic_load_n(&frame->state, __ATOMIC_RELAXED);

	return (word & 0xff) == RUNG__CACHE_FRAME_READING ? word >> 8 : RUNG__CACHE_NONE;
}

/* A row that another client is reading. If that client is late, the row must be read here.
 * Otherwise its use stays in the window, because the row will be looked up again. */
static enum rung__cache_lookup accept_remote(struct rung__cache *cache, uint32_t client,
                                             uint64_t batch, uint64_t row,
                                             struct rung__cache_slot *slot_out)
{
	if (!rung__cache_is_late(cache, client)) {
		*slot_out =
			(struct rung__cache_slot){ .frame = RUNG__CACHE_NONE, .reader = client };
		return RUNG__CACHE_REMOTE;
	}
	rung__cache_window_remove(cache, batch, row);
	return RUNG__CACHE_LATE;
}

void rung__cache_choose_late(struct rung__cache *cache)
{
	cache->chooses_late = true;
}

/* A row that must be read: without a frame for now, or with one, or it is not cached. */
static enum rung__cache_lookup look_up_missing(struct rung__cache *cache, uint64_t row,
                                               uint32_t next_use, uint32_t reader,
                                               struct rung__cache_slot *slot_out)
{
	const enum rung__cache_lookup found =
		rung__cache_defer_choice(cache, row, next_use, reader, slot_out);

	return found == RUNG__CACHE_KEEP
	               ? found
	               : rung__cache_admit(cache, row, next_use, reader, slot_out);
}

enum rung__cache_lookup rung__cache_look_up(struct rung__cache *cache, uint64_t batch,
                                            uint64_t rank, uint32_t reader,
                                            struct rung__cache_slot *slot_out)
{
	const uint64_t row = rank - cache->shape.rank_first;
	const struct rung__cache_frame *frame;
	uint32_t link, held, client, next_use;

	assert(reader <= RUNG__CACHE_HELD_COUNT);
	if (row >= cache->shape.row_count)
		return RUNG__CACHE_PASS;
	if (!cache->locked) { /* the window is private: it is kept exact without the index */
		rung__cache_window_remove(cache, batch, row);
		return RUNG__CACHE_PASS;
	}
	rung__cache_prefetch(cache, row);
	link = rung__cache_frames_find(cache, row);
	frame = rung__cache_entry_at(cache, link);
	held = frame ? cache->held[link - 1] : 0;
	client = frame ? reader_of(frame) : RUNG__CACHE_NONE;
	if (client != RUNG__CACHE_NONE && client != cache->seat &&
	    !(held & RUNG__CACHE_HELD_READING))
		return accept_remote(cache, client, batch, row, slot_out);
	next_use = rung__cache_window_remove(cache, batch, row);
	if (!frame)
		return look_up_missing(cache, row, next_use, reader, slot_out);
	*slot_out = (struct rung__cache_slot){ .frame = link - 1,
		                               .reader = held & RUNG__CACHE_HELD_COUNT };
	if (held & RUNG__CACHE_HELD_READING)
		return RUNG__CACHE_READING;
	if (rung__cache_frame_state(frame) != RUNG__CACHE_FRAME_FILLED ||
	    link > cache->frame_count) /* the index was damaged */
		return RUNG__CACHE_PASS;
	pin_hit(cache, link, next_use);
	return RUNG__CACHE_HIT;
}

uint32_t rung__cache_arrived(struct rung__cache *cache, uint32_t frame_idx)
{
	const uint64_t row = __atomic_load_n(&cache->frames[frame_idx].row, __ATOMIC_RELAXED);
	const uint32_t reader = cache->held[frame_idx] & RUNG__CACHE_HELD_COUNT;
	struct rung__cache_slot slot = { RUNG__CACHE_NONE, 0 };

	assert(cache->held[frame_idx] & RUNG__CACHE_HELD_READING);
	if (frame_idx < cache->frame_count)
		return frame_idx;
	rung__cache_failed(cache, frame_idx); /* the entry is empty again */
	if (cache->locked)
		rung__cache_admit(cache, row, rung__cache_window_next(cache, row), reader, &slot);
	return slot.frame;
}

void rung__cache_filled(struct rung__cache *cache, uint32_t frame_idx, uint32_t pins)
{
	assert(cache->held[frame_idx] & RUNG__CACHE_HELD_READING);
	cache->held[frame_idx] = pins;
	if (cache->locked) {
		rung__cache_frame_filled(cache, frame_idx);
		return;
	}
	cache->held[frame_idx] |= RUNG__CACHE_HELD_FILLED;
	rung__cache_defer(cache, frame_idx);
}

void rung__cache_failed(struct rung__cache *cache, uint32_t frame_idx)
{
	assert(cache->held[frame_idx] & RUNG__CACHE_HELD_READING);
	cache->held[frame_idx] = 0;
	if (cache->locked) {
		rung__cache_frame_failed(cache, frame_idx);
		return;
	}
	cache->held[frame_idx] = RUNG__CACHE_HELD_FAILED;
	rung__cache_defer(cache, frame_idx);
}

void rung__cache_pin(struct rung__cache *cache, uint32_t frame_idx)
{
	assert((cache->held[frame_idx] & RUNG__CACHE_HELD_COUNT) > 0 &&
	       !(cache->held[frame_idx] & RUNG__CACHE_HELD_READING));
	cache->held[frame_idx]++;
}

void rung__cache_unpin(struct rung__cache *cache, uint32_t frame_idx)
{
	assert((cache->held[frame_idx] & RUNG__CACHE_HELD_COUNT) > 0 &&
	       !(cache->held[frame_idx] & RUNG__CACHE_HELD_READING));
	/* a deferred update of the frame also makes this nonzero; it will apply this change too */
	if (--cache->held[frame_idx] != 0)
		return;
	if (cache->locked)
		rung__cache_frames_unpin(cache, frame_idx + 1, cache->seat);
	else
		rung__cache_defer(cache, frame_idx);
}

void rung__cache_waits(const struct rung__cache *cache, uint64_t *timeouts_out,
                       uint64_t *wait_ns_out)
{
	*timeouts_out = atomic_load_explicit(&cache->timeouts, memory_order_relaxed);
	*wait_ns_out = atomic_load_explicit(&cache->wait_ns, memory_order_relaxed);
}

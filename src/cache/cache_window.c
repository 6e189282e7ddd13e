/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window of the cold-row cache: the coming batches that this process knows.
 *
 * A *use* is one row of one batch. A batch has the list of its uses, which are all released at its
 * end. Batches are added and removed a few rows at a time, and the lock is released in between, so
 * a batch can begin and end before its last row is known.
 *
 * Time. The time of an announced batch is one step after the last batch that was added; that of a
 * submitted batch is one step after the last batch that began. Neither is before the clock, so
 * processes with equal progress have comparable times.
 */
#include <assert.h>

#include "cache/state.h"

#define NAME_BATCH_BITS 12
#define HEADS_PER_USE   2u /* heads added for each new use, until the table has heads_max */
#define ROWS_AHEAD      8u /* distance of the prefetch of table heads */

_Static_assert(1u << NAME_BATCH_BITS == RUNG__CACHE_BATCHES_MAX, "a name contains the number");

/* ---- batches ---- */

static struct rung__cache_batch *batch_at(const struct rung__cache_window *window, uint32_t link)
{
	return link ? &window->batches[link - 1] : NULL;
}

static uint32_t batch_link(const struct rung__cache_window *window,
                           const struct rung__cache_batch *batch)
{
	return (uint32_t)(batch - window->batches) + 1;
}

/* The batch of a name, or NULL. The low bits of a name are the batch's number, the high bits count
 * all batches, so a name is not valid for a later batch with the same number. */
static struct rung__cache_batch *find_batch(const struct rung__cache_window *window, uint64_t name)
{
	uint64_t batch_idx = name & (RUNG__CACHE_BATCHES_MAX - 1);

	return name != 0 && batch_idx < window->batches_max &&
	                       window->batches[batch_idx].name == name
	               ? &window->batches[batch_idx]
	               : NULL;
}

/* Hash of a batch's rows. A sum is independent of the order, so the multiplications do not wait for
 * each other. */
static uint64_t hash_of(const uint64_t *ranks, uint64_t count)
{
	uint64_t hash = 0;

	for (uint64_t i = 0; i < count; i++)
		hash += rung__mix64(ranks[i]);
	return hash;
}

/* The list of announced batches that have not begun, oldest first. */
static void list_append(struct rung__cache_window *window, struct rung__cache_batch *batch)
{
	uint32_t link = batch_link(window, batch);

	batch->listed = true;
	window->listed_count++;
	window->listed_rows += batch->row_count;
	batch->older = window->newest;
	batch->newer = 0;
	if (window->newest)
		batch_at(window, window->newest)->newer = link;
	else
		window->oldest = link;
	window->newest = link;
}

static void list_remove(struct rung__cache_window *window, struct rung__cache_batch *batch)
{
	batch->listed = false;
	window->listed_count--;
	window->listed_rows -= batch->row_count;
	if (batch->newer)
		batch_at(window, batch->newer)->older = batch->older;
	else
		window->newest = batch->older;
	if (batch->older)
		batch_at(window, batch->older)->newer = batch->newer;
	else
		window->oldest = batch->newer;
}

/* ---- time ---- */

static uint32_t later_of(uint32_t a, uint32_t b)
{
	return rung__cache_later(a, b) ? a : b;
}

/* The time of a new batch. 0 is not a valid time. */
static uint32_t next_time(const struct rung__cache *cache, bool announced)
{
	uint32_t clock = cache->clock;
	uint32_t time = later_of(
		(announced ? cache->window.time_last : cache->window.time_begun) + 1, clock);

	/* many batches were announced and ended without having begun: times beyond this bound would
	 * be in the gap of the buckets */
	if (rung__cache_later(time, clock + RUNG__CACHE_AHEAD_MAX))
		time = clock + RUNG__CACHE_AHEAD_MAX;
	return time ? time : 1;
}

/* Record that batches are announced, also for the other processes. */
static void note_announced(struct rung__cache *cache)
{
	cache->window.unannounced_run = 0;
	if (cache->locked)
		cache->index->announced = cache->clock ? cache->clock : 1;
}

/* Advance the clock: a batch of that time begins. */
static void step_clock(struct rung__cache *cache, uint32_t time, bool announced)
{
	struct rung__cache_index *index = cache->index;

	cache->window.time_begun = later_of(time, cache->window.time_begun);
	cache->window.time_last = later_of(time, cache->window.time_last);
	cache->clock = later_of(time, cache->clock);
	if (cache->locked)
		index->clock = cache->clock;
	if (announced)
		note_announced(cache);
	else
		cache->window.unannounced_run++;
	if (cache->locked && cache->clock - index->announced > RUNG__CACHE_LOOKAHEAD_MAX)
		index->announced = 0; /* the clock, after it has wrapped, could be near it again */
}

/* ---- adding a batch ---- */

/* Create a batch and reserve space for its rows, so that adding them cannot fail. NULL: the window
 * is full. */
static struct rung__cache_batch *create_batch(struct rung__cache_window *window, uint64_t count,
                                              uint64_t hash, uint32_t time)
{
	struct rung__cache_batch *batch = batch_at(window, window->batch_free);

	if (count > window->rows_left || (!batch && window->batches_fresh == window->batches_max))
		return NULL;
	if (batch)
		window->batch_free = batch->older;
	else
		batch = &window->batches[window->batches_fresh++];
	window->rows_left -= count;
	*batch = (struct rung__cache_batch){
		.name = ++window->name_last << NAME_BATCH_BITS |
		        (uint64_t)(batch - window->batches),
		.hash = hash,
		.row_count = count,
		.time = time,
		.entering = true,
	};
	return batch;
}

/* Take a free use. The table of heads grows with the uses, so that lookups stay short while a small
 * window touches little memory. */
static uint32_t remove_use(struct rung__cache_window *window)
{
	uint32_t link = window->free;

	if (link) {
		window->free = rung__cache_use_at(window, link)->batch_next;
		return link;
	}
	for (unsigned i = 0; i < HEADS_PER_USE; i++)
		rung__cache_uses_grow(window);
	return ++window->fresh_count; /* exists: create_batch() has reserved it */
}

/* Add a row of the batch, and update the next use of its frame if it is cached. */
static void enter_row(struct rung__cache *cache, struct rung__cache_batch *batch, uint64_t row)
{
	struct rung__cache_window *window = &cache->window;
	uint32_t link = remove_use(window), frame_link;
	const struct rung__cache_frame *frame;

	*rung__cache_use_at(window, link) = (struct rung__cache_use){
		.row = row,
		.time = batch->time,
		.batch = (uint16_t)(batch - window->batches),
	};
	if (batch->last)
		rung__cache_use_at(window, batch->last)->batch_next = link;
	else
		batch->first = link;
	batch->last = link;
	batch->use_count++;
	if (!rung__cache_uses_insert(window, link))
		return;
	rung__ahead_want(cache, row);
	if (!cache->locked)
		return; /* the frame, if any, cannot be updated now */
	frame_link = rung__cache_frames_find(cache, row);
	frame = rung__cache_frame_at(cache, frame_link);
	if (frame && rung__cache_frame_state(frame) == RUNG__CACHE_FRAME_FILLED &&
	    (frame->next_use == 0 || rung__cache_later(frame->next_use, batch->time)))
		rung__cache_frames_want(cache, frame_link, batch->time);
}

static void forget(struct rung__cache *cache, struct rung__cache_batch *batch);

/* Add the rows of a batch, with pauses for other threads and processes. During a pause another
 * thread may end the batch; then this one drops it. */
static void enter(struct rung__cache *cache, struct rung__cache_batch *batch, const uint64_t *ranks,
                  uint64_t count)
{
	const struct rung__cache_shape *shape = &cache->shape;

	for (uint64_t i = 0; i < count && !batch->over; i++) {
		if (i + ROWS_AHEAD < count)
			rung__cache_prefetch(cache, ranks[i + ROWS_AHEAD] - shape->rank_first);
		if (ranks[i] - shape->rank_first < shape->row_count)
			enter_row(cache, batch, ranks[i] - shape->rank_first);
		if (i % RUNG__CACHE_LOCKED_ROWS == RUNG__CACHE_LOCKED_ROWS - 1)
			rung__cache_pause(cache);
	}
	batch->entering = false;
	if (batch->over)
		forget(cache, batch);
}

/* ---- removing a batch ---- */

/* Remove a row from the map of wanted ones if it has no use left. @return its next use, or 0 */
static uint32_t note_unwanted(struct rung__cache *cache, const uint32_t *from, uint64_t row)
{
	const uint32_t time = rung__cache_uses_time(&cache->window, from, row);

	if (time == 0)
		rung__ahead_drop(cache, row);
	return time;
}

/* Remove a use that will not happen. The next use of its frame becomes the row's next known use, or
 * 0. */
static void forget_use(struct rung__cache *cache, struct rung__cache_use *use)
{
	struct rung__cache_window *window = &cache->window;
	uint32_t *from = rung__cache_uses_find(window, use->row), link;
	const struct rung__cache_frame *frame;
	bool first = *from && rung__cache_use_at(window, *from) == use;

	rung__cache_uses_remove(window, from, use->batch);
	note_unwanted(cache, from, use->row);
	if (!first || !cache->locked)
		return;
	link = rung__cache_frames_find(cache, use->row);
	frame = rung__cache_frame_at(cache, link);
	if (frame && rung__cache_frame_state(frame) == RUNG__CACHE_FRAME_FILLED &&
	    frame->next_use == use->time)
		rung__cache_frames_want(cache, link, rung__cache_uses_time(window, from, use->row));
}

/* Free the batch. Its uses form a list, so all of them are freed in one step. */
static void free_batch(struct rung__cache_window *window, struct rung__cache_batch *batch)
{
	if (batch->last) {
		rung__cache_use_at(window, batch->last)->batch_next = window->free;
		window->free = batch->first;
	}
	window->rows_left += batch->row_count;
	batch->older = window->batch_free;
	window->batch_free = batch_link(window, batch);
}

/* Remove a batch that is no longer needed. Its name is cleared first: no other thread can find it
 * during the pauses below. */
static void forget(struct rung__cache *cache, struct rung__cache_batch *batch)
{
	struct rung__cache_window *window = &cache->window;
	uint32_t link = batch->first;

	batch->name = 0;
	if (batch->listed)
		list_remove(window, batch);
	batch->over = true;
	if (batch->entering)
		return; /* enter() calls this function again when it finds `over` set */
	for (uint64_t i = 1; batch->use_count > 0; i++) {
		struct rung__cache_use *use = rung__cache_use_at(window, link);

		if (!use->over) {
			batch->use_count--;
			forget_use(cache, use);
		}
		link = use->batch_next;
		if (i % RUNG__CACHE_LOCKED_ROWS == 0)
			rung__cache_pause(cache);
	}
	free_batch(window, batch);
}

/* Drop announced batches that will probably not be gathered: many batches that were announced later
 * have begun, or for a long time no batch was announced and no announced one has begun. Otherwise
 * their rows would keep their frames. */
static void abandon(struct rung__cache *cache)
{
	struct rung__cache_window *window = &cache->window;

	while (window->oldest &&
	       (batch_at(window, window->oldest)->overtaken > RUNG__CACHE_OVERTAKEN_MAX ||
	        window->unannounced_run > RUNG__CACHE_LOOKAHEAD_MAX))
		forget(cache, batch_at(window, window->oldest));
}

/* ---- the functions of cache.h ---- */

int rung__cache_announce(struct rung__cache *cache, const uint64_t *ranks, uint64_t count,
                         uint64_t *batch_out)
{
	const uint64_t hash = hash_of(ranks, count);
	struct rung__cache_window *window = &cache->window;
	struct rung__cache_batch *batch;

	rung__cache_lock(cache);
	batch = create_batch(window, count, hash, next_time(cache, true));
	if (batch) {
		*batch_out = batch->name;
		window->time_last = later_of(batch->time, window->time_last);
		note_announced(cache);
		list_append(window, batch);
		enter(cache, batch, ranks, count);
		abandon(cache);
	}
	rung__cache_unlock(cache);
	return batch ? 0
	             : rung__fail(RUNG_E_AGAIN,
	                          "cold-row cache: a batch of %" PRIu64
	                          " rows does not fit in a window of at most %u rows and %u "
	                          "batches; gather announced batches first",
	                          count, window->rows_max, window->batches_max);
}

/* Find the announced batch with these rows. Each older announced batch that has not begun is
 * counted as overtaken once more. */
static struct rung__cache_batch *match(struct rung__cache_window *window, uint64_t count,
                                       uint64_t hash)
{
	struct rung__cache_batch *batch = batch_at(window, window->oldest);

	while (batch && (batch->row_count != count || batch->hash != hash))
		batch = batch_at(window, batch->newer);
	for (struct rung__cache_batch *older = batch ? batch_at(window, batch->older) : NULL; older;
	     older = batch_at(window, older->older))
		older->overtaken++;
	return batch;
}

void rung__cache_begin(struct rung__cache *cache, const uint64_t *ranks, uint64_t count,
                       uint64_t *batch_out)
{
	const uint64_t hash = hash_of(ranks, count);
	struct rung__cache_window *window = &cache->window;
	struct rung__cache_batch *batch;

	rung__cache_lock(cache);
	batch = match(window, count, hash);
	if (batch) {
		list_remove(window, batch);
		window->begun_count++;
		step_clock(cache, batch->time, true);
		*batch_out = batch->name;
	} else {
		uint32_t time = next_time(cache, false);

		batch = create_batch(window, count, hash, time);
		step_clock(cache, time, false);
		*batch_out = batch ? batch->name : 0;
		if (batch)
			enter(cache, batch, ranks, count);
	}
	abandon(cache);
	rung__cache_unlock(cache);
}

void rung__cache_end(struct rung__cache *cache, uint64_t name)
{
	struct rung__cache_batch *batch;

	rung__cache_lock(cache);
	batch = find_batch(&cache->window, name);
	if (batch)
		forget(cache, batch);
	rung__cache_unlock(cache);
}

uint32_t rung__cache_window_remove(struct rung__cache *cache, uint64_t name, uint64_t row)
{
	struct rung__cache_window *window = &cache->window;
	struct rung__cache_batch *batch = find_batch(window, name);
	uint32_t *from = rung__cache_uses_find(window, row);
	struct rung__cache_use *use =
		batch && *from
			? rung__cache_uses_remove(window, from, (uint16_t)(batch - window->batches))
			: NULL;

	if (!use)
		return rung__cache_uses_time(window, from, row);
	use->over = 1;
	batch->use_count--;
	return note_unwanted(cache, from, row);
}

/* ---- memory ---- */

uint64_t rung__cache_window_bytes(uint64_t rows_max, uint32_t batches_max)
{
	return rows_max * sizeof(struct rung__cache_use) +
	       rung__cache_heads_count(rows_max) * sizeof(uint32_t) +
	       batches_max * sizeof(struct rung__cache_batch);
}

static uint64_t uses_bytes(const struct rung__cache_window *window)
{
	return window->rows_max * sizeof(*window->uses);
}

static uint64_t heads_bytes(const struct rung__cache_window *window)
{
	return window->heads_max * sizeof(*window->heads);
}

int rung__cache_window_init(struct rung__cache *cache, uint64_t rows_max, uint32_t batches_max)
{
	struct rung__cache_window *window = &cache->window;

	assert(rows_max <= RUNG__CACHE_WINDOW_ROWS_MAX && batches_max <= RUNG__CACHE_BATCHES_MAX);
	window->rows_left = window->rows_max = (uint32_t)rows_max;
	window->heads_max = rung__cache_heads_count(rows_max);
	window->heads_count = 1;
	/* accessed at random: large tables get huge pages, and their first 2 MiB small ones */
	window->uses = rung__map_growing(uses_bytes(window));
	window->heads = rung__map_growing(heads_bytes(window));
	window->batches = rung__zalloc_array(batches_max, sizeof(*window->batches));
	if (!window->uses || !window->heads || !window->batches)
		return rung__fail(RUNG_E_NOMEM,
		                  "cold-row cache: no memory for %" PRIu64
		                  " rows of %u announced batches",
		                  rows_max, batches_max);
	window->batches_max = batches_max;
	return 0;
}

void rung__cache_window_drop(struct rung__cache *cache)
{
	for (uint32_t i = 0; i < cache->window.batches_fresh; i++) {
		if (cache->window.batches[i].name)
			forget(cache, &cache->window.batches[i]);
	}
}

void rung__cache_window_fini(struct rung__cache *cache)
{
	struct rung__cache_window *window = &cache->window;

	rung__free(window->batches);
	rung__unmap_pages(window->heads, heads_bytes(window));
	rung__unmap_pages(window->uses, uses_bytes(window));
}

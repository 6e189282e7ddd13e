/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of the tests, and the invariants of its lists. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cache_fixture.h"

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "cache fixture: %s: %s\n", what, rung_last_error());
	abort();
}

static void *shared_memory(uint64_t bytes, int fd)
{
	const int flags = MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0);
	void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	need(memory != MAP_FAILED, "memory");
	return memory;
}

int cache_fixture_fd(const struct rung__cache_shape *shape)
{
	int fd = memfd_create("rung-test-cache", MFD_CLOEXEC);

	need(fd >= 0 && ftruncate(fd, (off_t)rung__cache_index_bytes(shape)) == 0, "memfd");
	return fd;
}

void cache_fixture_open(struct cache_fixture *f, const struct rung__cache_shape *shape,
                        uint64_t rows_max, uint32_t batches_max)
{
	*f = (struct cache_fixture){ .shape = *shape };
	f->fd = cache_fixture_fd(shape);
	f->index = shared_memory(rung__cache_index_bytes(shape), f->fd);
	f->contents = shared_memory(shape->frame_count * sizeof(*f->contents), -1);
	need(rung__cache_open(shape, f->index, f->fd, true, rows_max, batches_max, &f->cache) ==
	                     0 &&
	             rung__ahead_open(f->cache, NULL) == 0,
	     "opening");
	rung__cache_choose_late(f->cache);
}

void cache_fixture_close(struct cache_fixture *f)
{
	cache_fixture_detach(f);
	munmap(f->contents, (size_t)(f->shape.frame_count * sizeof(*f->contents)));
	munmap(f->index, (size_t)rung__cache_index_bytes(&f->shape));
	close(f->fd);
}

void cache_fixture_attach(struct cache_fixture *f, const struct cache_fixture *first,
                          uint64_t rows_max, uint32_t batches_max)
{
	*f = *first;
	f->wrong = 0;
	need(rung__cache_open(&f->shape, f->index, f->fd, false, rows_max, batches_max,
	                      &f->cache) == 0 &&
	             rung__ahead_open(f->cache, NULL) == 0,
	     "opening");
	rung__cache_choose_late(f->cache);
}

void cache_fixture_detach(struct cache_fixture *f)
{
	rung__cache_close(f->cache);
}

uint32_t cache_fixture_fill(struct cache_fixture *f, uint32_t frame, uint64_t rank, uint32_t pins)
{
	frame = rung__cache_arrived(f->cache, frame);
	if (frame == RUNG__CACHE_NONE)
		return frame;
	f->contents[frame] = rank;
	rung__cache_filled(f->cache, frame, pins);
	return frame;
}

enum rung__cache_lookup cache_fixture_take(struct cache_fixture *f, uint64_t batch, uint64_t rank)
{
	struct rung__cache_slot place;
	enum rung__cache_lookup found;

	rung__cache_lock(f->cache);
	found = rung__cache_look_up(f->cache, batch, rank, 0, &place);
	if (found == RUNG__CACHE_KEEP)
		cache_fixture_fill(f, place.frame, rank, 0);
	if (found == RUNG__CACHE_HIT) {
		f->wrong += f->contents[place.frame] != rank;
		rung__cache_unpin(f->cache, place.frame);
	}
	rung__cache_unlock(f->cache);
	return found;
}

/* ---- lists ---- */

enum { IN_FREE = 1, IN_AGE = 2, IN_HASH = 4, IN_BUCKET = 8 };

struct walk {
	const struct rung__cache *cache;
	const struct rung__cache_index *index;
	unsigned char *seen; /* [entries_end] lists that a frame or entry is in */
};

/* A list must not contain a frame twice. @return NULL if the link is invalid or visited before */
static const struct rung__cache_frame *visit(struct walk *w, uint32_t link, unsigned list)
{
	const uint32_t end =
		list & (IN_FREE | IN_HASH) ? w->cache->entries_end : w->cache->frame_count;

	if (link - 1u >= end || (w->seen[link - 1] & list))
		return NULL;
	w->seen[link - 1] |= (unsigned char)list;
	return &w->cache->frames[link - 1];
}

static const char *walk_unused(struct walk *w)
{
	for (uint32_t link = w->index->free; link; link = w->cache->frames[link - 1].older) {
		const struct rung__cache_frame *frame = visit(w, link, IN_FREE);

		if (!frame || rung__cache_frame_state(frame) != RUNG__CACHE_FRAME_EMPTY ||
		    link > w->index->fresh_count)
			return "the list of empty frames";
	}
	for (uint32_t link = w->index->free_entries; link;
	     link = w->cache->frames[link - 1].older) {
		const struct rung__cache_frame *entry = visit(w, link, IN_FREE);

		if (!entry || rung__cache_frame_state(entry) != RUNG__CACHE_FRAME_EMPTY ||
		    link <= w->cache->frame_count ||
		    link > w->cache->frame_count + w->index->fresh_entries)
			return "the list of empty entries";
	}
	for (uint32_t link = w->index->fresh_count + 1; link <= w->cache->frame_count; link++)
		visit(w, link, IN_FREE);
	for (uint32_t link = w->cache->frame_count + w->index->fresh_entries + 1;
	     link <= w->cache->entries_end; link++)
		visit(w, link, IN_FREE);
	return NULL;
}

static const char *walk_ages(struct walk *w)
{
	uint64_t count = 0;
	uint32_t older = 0;

	for (uint32_t link = w->index->oldest; link; link = w->cache->frames[link - 1].newer) {
		const struct rung__cache_frame *frame = visit(w, link, IN_AGE);

		if (!frame || frame->older != older ||
		    rung__cache_frame_state(frame) != RUNG__CACHE_FRAME_FILLED)
			return "the order of filling";
		older = link;
		count++;
	}
	if (older != w->index->newest)
		return "the newest frame";
	if (w->index->hand &&
	    (w->index->hand > w->cache->frame_count || !(w->seen[w->index->hand - 1] & IN_AGE)))
		return "the hand";
	return count == w->index->filled_count ? NULL : "the count of filled frames";
}

static const char *walk_hash(struct walk *w)
{
	for (uint64_t head = 0; head <= w->cache->heads_mask; head++) {
		for (uint32_t link = w->cache->heads[head]; link;
		     link = w->cache->frames[link - 1].hash_next) {
			const struct rung__cache_frame *frame = visit(w, link, IN_HASH);

			if (!frame || (rung__cache_hash(frame->row) & w->cache->heads_mask) != head)
				return "a chain by row";
			if (rung__cache_frames_find(w->cache, frame->row) != link)
				return "a row in two frames";
		}
	}
	return NULL;
}

static const char *walk_buckets(struct walk *w)
{
	for (uint32_t bucket = 0; bucket < RUNG__CACHE_BUCKETS; bucket++) {
		uint32_t prev = 0;

		if ((w->index->bucket_bits[bucket / 64] >> bucket % 64 & 1) !=
		    (w->index->buckets[bucket] != 0))
			return "the bit of a bucket";
		for (uint32_t link = w->index->buckets[bucket]; link;
		     link = w->cache->frames[link - 1].use_next) {
			const struct rung__cache_frame *frame = visit(w, link, IN_BUCKET);

			if (!frame || frame->use_prev != prev || frame->next_use == 0 ||
			    frame->next_use % RUNG__CACHE_BUCKETS != bucket)
				return "a bucket";
			prev = link;
		}
	}
	for (uint32_t word = 0; word < RUNG__CACHE_BUCKETS / 64; word++) {
		if ((w->index->bucket_groups[word / 64] >> word % 64 & 1) !=
		    (w->index->bucket_bits[word] != 0))
			return "the bit of a word of buckets";
	}
	return NULL;
}

static bool map_has(const struct rung__cache_map *map, unsigned level, uint64_t at)
{
	return map->levels[level][at / 64] >> at % 64 & 1;
}

static const char *walk_levels(const struct rung__cache_map *map)
{
	for (unsigned level = 1; level < map->level_count; level++) {
		for (uint64_t word = 0; word < map->level_words[level - 1]; word++) {
			if (map_has(map, level, word) != (map->levels[level - 1][word] != 0))
				return "a higher level of a map";
		}
	}
	return NULL;
}

static const char *walk_map(const struct walk *w)
{
	uint64_t count = 0;

	for (uint64_t row = 0; row < w->cache->shape.row_count; row++) {
		uint32_t link;

		if (!map_has(&w->cache->idle, 0, row))
			continue;
		link = rung__cache_frames_find(w->cache, row);
		if (!link || !rung__cache_frame_offered(&w->cache->frames[link - 1]) ||
		    w->cache->frames[link - 1].next_use != 0)
			return "a row among the idle ones";
		count++;
	}
	if (count != w->index->idle_count)
		return "the count of idle frames";
	return walk_levels(&w->cache->idle);
}

static const char *check_frame(const struct walk *w, uint32_t link, bool alone)
{
	const struct rung__cache_frame *frame = &w->cache->frames[link - 1];
	unsigned wanted;

	switch (rung__cache_frame_state(frame)) {
	case RUNG__CACHE_FRAME_EMPTY:
		wanted = IN_FREE;
		break;
	case RUNG__CACHE_FRAME_READING:
		wanted = IN_HASH;
		if (!(w->index->joined >> (frame->state >> 8) & 1))
			return "the reader of a frame";
		break;
	default:
		if (link > w->cache->frame_count)
			return "an entry with a row";
		wanted = IN_HASH | IN_AGE |
		         (rung__cache_frame_offered(frame) && frame->next_use ? IN_BUCKET : 0);
		if (frame->pins & ~w->index->joined)
			return "the pins of a frame";
		if (alone && frame->next_use != rung__cache_window_next(w->cache, frame->row))
			return "the next use of a frame";
		break;
	}
	return w->seen[link - 1] == wanted ? NULL : "the lists that a frame is in";
}

/* The number of frames that are offered and not wanted by a known batch. */
static uint64_t idle_frames(const struct rung__cache *cache)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < cache->frame_count; i++)
		count += rung__cache_frame_offered(&cache->frames[i]) &&
		         cache->frames[i].next_use == 0;
	return count;
}

const char *cache_fixture_fault(const struct rung__cache *cache, bool alone)
{
	struct walk w = { .cache = cache,
		          .index = cache->index,
		          .seen = calloc(cache->entries_end, 1) };
	const char *fault = walk_unused(&w);

	if (!fault)
		fault = walk_ages(&w);
	if (!fault)
		fault = walk_hash(&w);
	if (!fault)
		fault = walk_buckets(&w);
	if (!fault)
		fault = walk_map(&w);
	if (!fault && idle_frames(cache) != cache->index->idle_count)
		fault = "idle frames that are not in the map";
	for (uint32_t link = 1; !fault && link <= cache->entries_end; link++)
		fault = check_frame(&w, link, alone);
	free(w.seen);
	return fault;
}

/* ---- the window ---- */

static uint64_t uses_of_batches(const struct rung__cache_window *window, uint64_t *rows_out)
{
	uint64_t uses = 0;

	for (uint32_t i = 0; i < window->batches_max; i++) {
		if (window->batches[i].name) {
			uses += window->batches[i].use_count;
			*rows_out += window->batches[i].row_count;
		}
	}
	return uses;
}

/* The rows with uses are those that may be read ahead. */
static const char *walk_wanted(const struct rung__cache *cache)
{
	for (uint64_t row = 0; row < cache->shape.row_count; row++) {
		if (map_has(&cache->window.wanted, 0, row) !=
		    (rung__cache_window_next(cache, row) != 0))
			return "the map of wanted rows";
	}
	return walk_levels(&cache->window.wanted);
}

/* The batches that are announced and have not begun. */
static const char *walk_listed(const struct rung__cache_window *window)
{
	uint64_t count = 0, rows = 0;

	for (uint32_t i = 0; i < window->batches_max; i++) {
		count += window->batches[i].name && window->batches[i].listed;
		rows += window->batches[i].name && window->batches[i].listed
		                ? window->batches[i].row_count
		                : 0;
	}
	return count == window->listed_count && rows == window->listed_rows
	               ? NULL
	               : "the sum of the announced batches";
}

const char *cache_window_fault(const struct rung__cache *cache)
{
	const struct rung__cache_window *window = &cache->window;
	uint64_t rows = 0, left = uses_of_batches(window, &rows);
	const char *fault = walk_listed(window);

	if (!fault)
		fault = walk_wanted(cache);
	if (fault)
		return fault;
	if (rows + window->rows_left != window->rows_max)
		return "the remaining room";
	for (uint64_t head = 0; head < window->heads_count; head++) {
		for (uint32_t first = window->heads[head]; first;
		     first = rung__cache_use_at(window, first)->hash_next) {
			uint32_t last = 0, time = rung__cache_use_at(window, first)->time;

			if (rung__cache_window_head(
				    window,
				    rung__cache_hash(rung__cache_use_at(window, first)->row)) !=
			    &window->heads[head])
				return "the head of a row";
			for (uint32_t link = first; link;
			     link = rung__cache_use_at(window, link)->later) {
				const struct rung__cache_use *use =
					rung__cache_use_at(window, link);

				if (left-- == 0 || use->over ||
				    use->row != rung__cache_use_at(window, first)->row ||
				    rung__cache_later(time, use->time))
					return "the uses of a row";
				time = use->time;
				last = link;
			}
			if (rung__cache_use_at(window, first)->last != last)
				return "the last use of a row";
		}
	}
	return left == 0 ? NULL : "uses that are in no list";
}

const char *cache_fixture_check(const struct cache_fixture *f)
{
	const char *fault;

	rung__cache_lock(f->cache);
	fault = cache_fixture_fault(f->cache, true);
	if (!fault)
		fault = cache_window_fault(f->cache);
	rung__cache_unlock(f->cache);
	return !fault && f->wrong > 0 ? "rows in a wrong frame" : fault;
}

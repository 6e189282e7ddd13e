/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A client of the cold-row cache that does random operations, and the state that must hold after
 * another client has died.
 */
#ifndef SUPPORT_CACHE_WORKER_H
#define SUPPORT_CACHE_WORKER_H

#include <unistd.h>

#include <criterion/criterion.h>

#include "cache_fixture.h"
#include "graphs.h"

#define RANK_FIRST 100u
#define ROWS       1000u
#define FRAMES     64u
#define BATCH      40u
#define HELD_MAX   8u

static const struct rung__cache_shape shape = { RANK_FIRST, ROWS, FRAMES };
static struct cache_fixture f;

/* One row that the worker holds in the cache. */
struct worker {
	struct cache_fixture f;
	uint64_t state;
	struct {
		uint32_t frame;
		uint64_t rank;
		bool read; /* else pinned */
	} held[HELD_MAX];
	unsigned held_count;
};

static inline void let_go(struct worker *w, unsigned which)
{
	uint32_t frame = w->held[which].frame;

	if (!w->held[which].read) {
		w->f.wrong += w->f.contents[frame] != w->held[which].rank;
		rung__cache_unpin(w->f.cache, frame);
	} else if (test_random(&w->state) % 4 == 0) {
		rung__cache_failed(w->f.cache, frame);
	} else {
		cache_fixture_fill(&w->f, frame, w->held[which].rank, 0);
	}
	w->held[which] = w->held[--w->held_count];
}

static inline void work_on_row(struct worker *w, uint64_t batch, uint64_t rank)
{
	struct rung__cache_slot place;
	enum rung__cache_lookup found = rung__cache_look_up(w->f.cache, batch, rank, 0, &place);

	if (found == RUNG__CACHE_HIT)
		w->f.wrong += w->f.contents[place.frame] != rank;
	if (found == RUNG__CACHE_HIT || found == RUNG__CACHE_KEEP) {
		w->held[w->held_count].frame = place.frame;
		w->held[w->held_count].rank = rank;
		w->held[w->held_count++].read = found == RUNG__CACHE_KEEP;
	}
	if (w->held_count == HELD_MAX)
		let_go(w, (unsigned)(test_random(&w->state) % HELD_MAX));
}

/* The rows of a batch: a run from a random row on, with some left out. */
static inline void draw(struct worker *w, uint64_t *ranks)
{
	uint64_t rank =
		RANK_FIRST + test_random(&w->state) % (ROWS / 2) * (test_random(&w->state) % 2);

	for (unsigned i = 0; i < BATCH; i++)
		ranks[i] = rank += 1 + test_random(&w->state) % 3;
}

static inline void work_on_batch(struct worker *w)
{
	uint64_t ranks[2][BATCH], batch = 0;

	draw(w, ranks[0]);
	draw(w, ranks[1]);
	if (test_random(&w->state) % 2)
		rung__cache_announce(w->f.cache, ranks[0], BATCH, &batch);
	rung__cache_announce(w->f.cache, ranks[1], BATCH, &batch);
	rung__cache_begin(w->f.cache, ranks[0], BATCH, &batch);
	rung__cache_lock(w->f.cache);
	for (unsigned i = 0; i < BATCH; i++)
		work_on_row(w, batch, ranks[0][i]);
	rung__cache_unlock(w->f.cache);
	rung__cache_end(w->f.cache, batch);
}

static inline void check_contents(void)
{
	for (uint32_t i = 0; i < FRAMES; i++) {
		const struct rung__cache_frame *frame = &f.cache->frames[i];

		if (rung__cache_frame_state(frame) == RUNG__CACHE_FRAME_FILLED)
			cr_assert_eq(f.contents[i], RANK_FIRST + frame->row);
	}
}

/* Acquires the lock even if another client holds it, without getting a CPU, for so long that a
 * normal call would give up and continue without the index. */
static inline void lock_for_certain(struct rung__cache *cache)
{
	for (;;) {
		rung__cache_lock(cache);
		if (cache->locked)
			return;
		rung__cache_unlock(cache);
		usleep(1000);
	}
}

static inline void survive(int clients_left)
{
	const char *fault;

	lock_for_certain(f.cache);
	rung__cache_reap_dead(f.cache);
	fault = cache_fixture_fault(f.cache, false);
	cr_assert(!fault, "%s", fault);
	cr_assert_leq(__builtin_popcount(f.cache->index->joined), clients_left);
	check_contents();
	rung__cache_unlock(f.cache);
}

#endif

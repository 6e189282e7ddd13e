/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races of the cold-row cache: clients of two windows on one index take, read, pin and give back rows, while others announce batches and
 * some clients end without leaving. Rows are written and read without the lock, as refill does: who may is what the cache says.
 * A plain program (0, 1), so that it runs under ThreadSanitizer.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cache_fixture.h"

#define SIDES 2          /* as processes: each has a window */
#define CLIENTS 2        /* of each at the same time */
#define BATCHES 1500     /* of each side */
#define BATCH 64
#define AHEAD 6
#define FRAMES 48
#define ROWS 400
#define RANK_FIRST 1000
#define DIES_EVERY 200   /* batches */

struct side {
	struct rung__cache *cache;
	_Atomic uint64_t next;   /* batch to begin */
};

static const struct rung__cache_shape shape = { RANK_FIRST, ROWS, FRAMES };
static struct side sides[SIDES];
static uint64_t contents[FRAMES];
static _Atomic uint64_t wrong, kept, hits, refused;

/* The rows of a side's n-th batch, the same whoever asks. */
static void rows_of(const struct side *side, uint64_t n, uint64_t *ranks)
{
	uint64_t row = rung__mix64(n * SIDES + (side == &sides[1])) % 40;

	for (unsigned i = 0; i < BATCH; i++) {
		ranks[i] = RANK_FIRST + row;
		row += 1 + rung__mix64(n << 16 | i) % 5;
	}
}

struct client {
	struct side *side;
	uint32_t id;
	uint64_t batch;
};

static bool take(const struct client *c, uint64_t rank)
{
	struct rung__cache *cache = c->side->cache;
	struct rung__cache_place place;
	enum rung__cache_found found;

	rung__cache_lock(cache);
	found = rung__cache_take(cache, c->id, c->batch, rank, 3, &place);
	rung__cache_unlock(cache);
	if (found == RUNG__CACHE_ELSEWHERE)
		return false;
	if (found == RUNG__CACHE_READING)   /* it has finished all it began */
		atomic_fetch_add(&wrong, 1);
	if (found == RUNG__CACHE_KEEP) {
		contents[place.frame] = rank;
		rung__cache_lock(cache);
		if (rank % 50 == 0)
			rung__cache_failed(cache, c->id, place.frame);
		else
			rung__cache_filled(cache, c->id, place.frame, rank % 3 == 0);
		if (rank % 3 == 0 && rank % 50 != 0)
			rung__cache_unpin(cache, c->id, place.frame);
		rung__cache_unlock(cache);
		atomic_fetch_add(&kept, 1);
	}
	if (found == RUNG__CACHE_HIT) {
		if (contents[place.frame] != rank)
			atomic_fetch_add(&wrong, 1);
		rung__cache_lock(cache);
		rung__cache_unpin(cache, c->id, place.frame);
		rung__cache_unlock(cache);
		atomic_fetch_add(&hits, 1);
	}
	return true;
}

static void serve(struct client *c, uint64_t n)
{
	uint64_t ranks[BATCH];

	rows_of(c->side, n, ranks);
	rung__cache_begin(c->side->cache, ranks, BATCH, &c->batch);
	for (unsigned i = 0; i < BATCH; i++) {
		while (!take(c, ranks[i])) {
			rung__cache_lock(c->side->cache);
			rung__cache_bury(c->side->cache);
			rung__cache_unlock(c->side->cache);
			sched_yield();
		}
	}
	rung__cache_end(c->side->cache, c->batch);
}

/* With a pin, and a frame that it was reading into: it pins one row, and begins another. */
static void die_as_client(const struct client *c)
{
	struct rung__cache_place place;

	rung__cache_lock(c->side->cache);
	for (uint64_t row = 0; row < 2; row++)
		rung__cache_take(c->side->cache, c->id, 0, RANK_FIRST + row * (ROWS - 1), 0, &place);
	rung__cache_unlock(c->side->cache);
}

static void *client_main(void *arg)
{
	struct client c = { .side = arg };

	if (rung__cache_join(c.side->cache, &c.id) < 0) {
		fprintf(stderr, "%s\n", rung_last_error());
		atomic_fetch_add(&wrong, 1);
		return NULL;
	}
	for (;;) {
		uint64_t n = atomic_fetch_add(&c.side->next, 1);

		if (n >= BATCHES)
			break;
		serve(&c, n);
		if (n % DIES_EVERY == DIES_EVERY - 1) {
			die_as_client(&c);
			return c.side;   /* another takes its place */
		}
	}
	rung__cache_leave(c.side->cache, c.id);
	return NULL;
}

/* One client after the other. */
static void *seat_main(void *arg)
{
	pthread_t thread;
	void *again = arg;

	while (again) {
		pthread_create(&thread, NULL, client_main, arg);
		pthread_join(thread, &again);
	}
	return NULL;
}

static void *announcer_main(void *arg)
{
	struct side *side = arg;

	for (uint64_t n = 0; n < BATCHES;) {
		uint64_t ranks[BATCH], batch, next = atomic_load(&side->next);

		n = RUNG__MAX(n, next);
		if (n >= BATCHES)
			break;
		if (n > next + AHEAD) {
			sched_yield();
			continue;
		}
		rows_of(side, n, ranks);
		if (rung__cache_announce(side->cache, ranks, BATCH, &batch) < 0) {
			atomic_fetch_add(&refused, 1);
			sched_yield();
			continue;
		}
		if (n++ % 10 == 9)   /* taken back, perhaps while it is served */
			rung__cache_end(side->cache, batch);
	}
	return NULL;
}

int main(void)
{
	const uint64_t bytes = rung__cache_index_bytes(&shape);
	void *index = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_t threads[SIDES * (CLIENTS + 1)];
	const char *fault;
	unsigned count = 0;

	for (unsigned s = 0; s < SIDES; s++) {
		if (rung__cache_open(&shape, index, s == 0, (AHEAD + CLIENTS) * BATCH, AHEAD + CLIENTS, &sides[s].cache) < 0) {
			fprintf(stderr, "%s\n", rung_last_error());
			return 1;
		}
	}
	for (unsigned s = 0; s < SIDES; s++) {
		pthread_create(&threads[count++], NULL, announcer_main, &sides[s]);
		for (unsigned i = 0; i < CLIENTS; i++)
			pthread_create(&threads[count++], NULL, seat_main, &sides[s]);
	}
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	rung__cache_lock(sides[0].cache);
	rung__cache_bury(sides[0].cache);
	fault = cache_fixture_fault(sides[0].cache, false);
	if (!fault)
		fault = cache_window_fault(sides[0].cache);
	if (sides[0].cache->index->joined)
		fault = "somebody is still there";
	rung__cache_unlock(sides[0].cache);
	for (unsigned s = SIDES; s-- > 0;)
		rung__cache_close(sides[s].cache);
	munmap(index, bytes);
	printf("%llu rows kept, %llu hits, %llu announcements refused, %llu wrong: %s\n", (unsigned long long)atomic_load(&kept),
	       (unsigned long long)atomic_load(&hits), (unsigned long long)atomic_load(&refused), (unsigned long long)atomic_load(&wrong),
	       fault ? fault : "all lists are whole");
	return fault || atomic_load(&wrong) || atomic_load(&hits) == 0 ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races of the cold-row cache: clients of one index, with two threads each, take, read, pin and
 * release rows, while others announce batches, some clients end without leaving, and some hold the
 * lock longer than others wait for it. Rows are written and read without the lock, as in refill:
 * the cache decides who may. A plain program (exit 0 or 1), so that it runs under ThreadSanitizer.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cache_fixture.h"

#define SIDES      2   /* like processes: each is a client and has a window */
#define THREADS    2   /* per side, like refill threads: each has the rows of its files */
#define LIVES      8   /* per side */
#define BATCHES    400 /* per life */
#define BATCH      64
#define AHEAD      6
#define FRAMES     48
#define ROWS       400
#define RANK_FIRST 1000
#define STOPPED_US 150000

struct side {
	struct rung__cache *cache;
	unsigned life;
	_Atomic uint64_t next; /* next batch to begin */
};

static const struct rung__cache_shape shape = { RANK_FIRST, ROWS, FRAMES };
static struct side sides[SIDES];
static uint64_t contents[FRAMES];
static _Atomic uint64_t wrong, kept, hits, refused, timeouts;

/* The rows of a side's n-th batch, the same for every thread. */
static void rows_of(const struct side *side, uint64_t n, uint64_t *ranks)
{
	uint64_t row = rung__mix64((n + side->life * BATCHES) * SIDES + (side == &sides[1])) % 40;

	for (unsigned i = 0; i < BATCH; i++) {
		ranks[i] = RANK_FIRST + row;
		row += 1 + rung__mix64(n << 16 | i) % 5;
	}
}

struct client {
	struct side *side;
	unsigned thread;
	uint64_t batch;
};

static bool take(const struct client *c, uint64_t rank)
{
	struct rung__cache *cache = c->side->cache;
	struct rung__cache_slot place;
	enum rung__cache_lookup found;

	rung__cache_lock(cache);
	found = rung__cache_look_up(cache, c->batch, rank, 3, &place);
	rung__cache_unlock(cache);
	if (found == RUNG__CACHE_REMOTE)
		return false;
	if (found == RUNG__CACHE_READING) /* this thread has finished all its reads */
		atomic_fetch_add(&wrong, 1);
	if (found == RUNG__CACHE_KEEP) {
		rung__cache_lock(cache);
		if (rank % 50 != 0)
			place.frame = rung__cache_arrived(cache, place.frame);
		rung__cache_unlock(cache);
		if (place.frame == RUNG__CACHE_NONE)
			return true;
		if (rank % 50 != 0)
			contents[place.frame] = rank;
		rung__cache_lock(cache);
		if (rank % 50 == 0)
			rung__cache_failed(cache, place.frame);
		else
			rung__cache_filled(cache, place.frame, rank % 3 == 0);
		rung__cache_unlock(cache);
		if (rank % 3 == 0 && rank % 50 != 0) {
			rung__cache_lock(cache);
			rung__cache_unpin(cache, place.frame);
			rung__cache_unlock(cache);
		}
		atomic_fetch_add(&kept, 1);
	}
	if (found == RUNG__CACHE_HIT) {
		if (contents[place.frame] != rank)
			atomic_fetch_add(&wrong, 1);
		rung__cache_lock(cache);
		rung__cache_unpin(cache, place.frame);
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
		while (ranks[i] / 2 % THREADS == c->thread && !take(c, ranks[i])) {
			rung__cache_lock(c->side->cache);
			rung__cache_reap_dead(c->side->cache);
			rung__cache_unlock(c->side->cache);
			sched_yield();
		}
	}
	rung__cache_end(c->side->cache, c->batch);
}

static void *client_main(void *arg)
{
	struct client *c = arg;

	for (;;) {
		uint64_t n = atomic_fetch_add(&c->side->next, 1);

		if (n >= BATCHES)
			return NULL;
		serve(c, n);
		/* hold the lock for longer than others wait for it */
		if (n == BATCHES / 2 && c->side->life == 1) {
			rung__cache_lock(c->side->cache);
			usleep(STOPPED_US);
			rung__cache_unlock(c->side->cache);
		}
	}
}

/*
 * Dies with a pin and with a frame that it was reading into: it pins one row and begins to read
 * another. Then the kernel releases its seat.
 */
static void die(struct rung__cache *cache)
{
	struct rung__cache_slot place;

	rung__cache_lock(cache);
	for (uint64_t row = 0; row < 2; row++)
		rung__cache_look_up(cache, 0, RANK_FIRST + row * (ROWS - 1), 0, &place);
	rung__cache_unlock(cache);
	rung__cache_seat_release(cache);
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
		if (n++ % 10 == 9) /* withdrawn, perhaps while it is processed */
			rung__cache_end(side->cache, batch);
	}
	return NULL;
}

static void *index_memory;
static int index_fd;

static void open_side(struct side *side)
{
	atomic_store(&side->next, 0);
	if (rung__cache_open(&shape, index_memory, index_fd, false, (AHEAD + THREADS) * BATCH,
	                     AHEAD + THREADS, &side->cache) < 0) {
		fprintf(stderr, "%s\n", rung_last_error());
		exit(1);
	}
	if (side == &sides[1])
		rung__cache_choose_late(side->cache);
}

/* One life of a client after another; every second life ends as if the client were killed. */
static void *side_main(void *arg)
{
	struct side *side = arg;

	for (side->life = 0; side->life < LIVES; side->life++) {
		struct client clients[THREADS];
		pthread_t threads[THREADS + 1];
		uint64_t late, wait_ns;

		open_side(side);
		for (unsigned i = 0; i < THREADS; i++) {
			clients[i] = (struct client){ .side = side, .thread = i };
			pthread_create(&threads[i], NULL, client_main, &clients[i]);
		}
		pthread_create(&threads[THREADS], NULL, announcer_main, side);
		for (unsigned i = 0; i <= THREADS; i++)
			pthread_join(threads[i], NULL);
		rung__cache_waits(side->cache, &late, &wait_ns);
		atomic_fetch_add(&timeouts, late);
		if (side->life % 2 == 0)
			die(side->cache);
		rung__cache_close(side->cache);
	}
	return NULL;
}

int main(void)
{
	const uint64_t bytes = rung__cache_index_bytes(&shape);
	struct rung__cache *first;
	pthread_t threads[SIDES];
	const char *fault;

	index_fd = cache_fixture_fd(&shape);
	index_memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, index_fd, 0);
	if (rung__cache_open(&shape, index_memory, index_fd, true, BATCH, 1, &first) < 0) {
		fprintf(stderr, "%s\n", rung_last_error());
		return 1;
	}
	for (unsigned s = 0; s < SIDES; s++)
		pthread_create(&threads[s], NULL, side_main, &sides[s]);
	for (unsigned s = 0; s < SIDES; s++)
		pthread_join(threads[s], NULL);
	rung__cache_lock(first);
	rung__cache_reap_dead(first);
	fault = cache_fixture_fault(first, false);
	if (first->index->joined != 1u << first->seat)
		fault = "a client is still joined";
	rung__cache_unlock(first);
	rung__cache_close(first);
	munmap(index_memory, bytes);
	printf("%llu rows cached, %llu hits, %llu announcements refused, ",
	       (unsigned long long)atomic_load(&kept), (unsigned long long)atomic_load(&hits),
	       (unsigned long long)atomic_load(&refused));
	printf("%llu waits timed out, %llu wrong: %s\n", (unsigned long long)atomic_load(&timeouts),
	       (unsigned long long)atomic_load(&wrong), fault ? fault : "all lists are consistent");
	return fault || atomic_load(&wrong) || atomic_load(&hits) == 0 ? 1 : 0;
}

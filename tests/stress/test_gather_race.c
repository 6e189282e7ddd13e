/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races: threads that announce, submit, poll, wait and gather on one store at the same time, a
 * thread that reads the counters, and the refill threads between them, which also read ahead, for
 * both engines. A plain program (exit 0, 1 or 77), so that it runs under ThreadSanitizer.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_fixture.h"

#define SUBMITTERS 4
#define ROUNDS     60
#define IN_FLIGHT  3
#define AHEAD      5 /* rounds; the last announcements are not gathered */
#define BATCH      200
#define WIDTH      400
#define HOST_BYTES 600000 /* slots, and a cache of some rows */

static struct store_fixture f;
static _Atomic uint64_t wrong;
static _Atomic int running;

struct flight {
	struct rung_request *request;
	uint64_t ranks[BATCH];
	struct rung_ids ids; /* the same ranks, in memory of the store */
	unsigned char *out;  /* in memory of the store */
};

static void *store_memory(uint64_t bytes)
{
	void *memory;

	if (rung_store_alloc(f.store, bytes, &memory) == 0)
		return memory;
	fprintf(stderr, "%s\n", rung_last_error());
	exit(1);
}

static void land(struct flight *flight, unsigned how)
{
	if (how == 0) {
		while (!rung_request_poll(flight->request))
			sched_yield();
	}
	if (rung_request_wait(flight->request, -1) != 0) {
		fprintf(stderr, "%s\n", rung_last_error());
		atomic_fetch_add(&wrong, 1);
	}
	atomic_fetch_add(&wrong, fixture_wrong_rows(&f, flight->ranks, BATCH, flight->out, WIDTH));
	rung_request_put(flight->request);
	flight->request = NULL;
}

static void announce(uint64_t seed)
{
	uint64_t ranks[BATCH];
	const struct rung_ids ids = { ranks, BATCH, RUNG_U64, RUNG_RANKS };
	int rc;

	fixture_random_ids(&f, ranks, BATCH, seed);
	rc = rung_prefetch(f.store, &ids);
	if (rc != 0 && rc != RUNG_E_AGAIN) {
		fprintf(stderr, "%s\n", rung_last_error());
		atomic_fetch_add(&wrong, 1);
	}
}

static void launch(struct flight *flight, uint64_t seed)
{
	struct rung_ids ids = flight->ids;
	int rc;

	fixture_random_ids(&f, flight->ranks, BATCH, seed);
	if (seed % 2) /* ids in plain memory: on a GPU cold rows are read before the gather runs */
		ids.data = flight->ranks;
	else
		rung_store_copy(f.store, (void *)ids.data, flight->ranks, sizeof(flight->ranks));
	rc = rung_gather_submit(f.store, &ids, flight->out, 0, RUNG_STREAM_OWN, &flight->request);
	if (rc == RUNG_E_AGAIN) { /* other threads have all requests: gather directly */
		flight->request = NULL;
		rc = rung_gather(f.store, &ids, flight->out, 0);
		atomic_fetch_add(&wrong,
		                 fixture_wrong_rows(&f, flight->ranks, BATCH, flight->out, WIDTH));
	}
	if (rc != 0) {
		fprintf(stderr, "%s\n", rung_last_error());
		atomic_fetch_add(&wrong, 1);
	}
}

static void *submitter(void *arg)
{
	uint64_t id = (uint64_t)(uintptr_t)arg;
	struct flight *flights = calloc(IN_FLIGHT, sizeof(*flights));

	for (unsigned i = 0; i < IN_FLIGHT; i++) {
		flights[i].ids = (struct rung_ids){ store_memory(sizeof(flights[i].ranks)), BATCH,
			                            RUNG_U64, RUNG_RANKS };
		flights[i].out = store_memory(BATCH * WIDTH);
	}

	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct flight *flight = &flights[round % IN_FLIGHT];

		if (flight->request)
			land(flight, (unsigned)(round % 2));
		announce(id * 1000 + round + AHEAD);
		launch(flight, id * 1000 + round);
	}
	for (unsigned i = 0; i < IN_FLIGHT; i++) {
		if (flights[i].request)
			land(&flights[i], 1);
		rung_store_free(f.store, (void *)flights[i].ids.data);
		rung_store_free(f.store, flights[i].out);
	}
	free(flights);
	return NULL;
}

static void *watcher(void *arg)
{
	uint64_t last = 0;

	while (atomic_load(&running)) {
		struct rung_store_stats stats = { .size = sizeof(stats) };

		rung_store_stats(f.store, &stats);
		if (stats.requests < last)
			atomic_fetch_add(&wrong, 1);
		last = stats.requests;
		sched_yield();
	}
	return arg;
}

static void race(enum rung_engine engine, uint32_t refill_threads)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .engine = engine,
		                        .refill_threads = refill_threads,
		                        .window = 2 * SUBMITTERS,
		                        .requests_max = SUBMITTERS * IN_FLIGHT - 2 };
	struct rung_store_stats stats = { .size = sizeof(stats) };
	pthread_t threads[SUBMITTERS], watch;

	fixture_open(&f, 5000, WIDTH, HOST_BYTES, &opts, NULL);
	atomic_store(&running, 1);
	pthread_create(&watch, NULL, watcher, NULL);
	for (uintptr_t i = 0; i < SUBMITTERS; i++)
		pthread_create(&threads[i], NULL, submitter, (void *)i);
	for (unsigned i = 0; i < SUBMITTERS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&running, 0);
	pthread_join(watch, NULL);
	rung_store_stats(f.store, &stats);
	printf("%llu rows read ahead\n", (unsigned long long)stats.ahead_rows);
	if (stats.ahead_rows == 0) /* it is not a race with the sweep */
		atomic_fetch_add(&wrong, 1);
	fixture_close(&f);
}

int main(void)
{
	race(RUNG_ENGINE_PREAD, 1);
	race(RUNG_ENGINE_PREAD, 3);
	if (fixture_has_io_uring())
		race(RUNG_ENGINE_IO_URING, 2);
	printf("%llu wrong rows\n", (unsigned long long)atomic_load(&wrong));
	return atomic_load(&wrong) ? 1 : 0;
}

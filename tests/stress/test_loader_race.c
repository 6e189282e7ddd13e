/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races: a loader whose passes end at any batch, threads that put its batches, a thread that reads
 * the counters, a thread that gathers on the same store, and a second loader on it. A plain program
 * (exit 0 or 1), so that it runs under ThreadSanitizer.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "store_fixture.h"

#define ROWS       5000
#define WIDTH      400
#define HOST_BYTES 600000
#define SEEDS      600
#define BATCH      20
#define BATCHES    (SEEDS / BATCH)
#define PASSES     18
#define PUTTERS    2
#define KEPT       5

static struct store_fixture f;
static struct rung_graph *graph;
static uint64_t seeds[SEEDS];
static struct rung_loader *loader;
static _Atomic(const struct rung_loader_batch *) given[PUTTERS]; /* to be put; NULL: free */
static _Atomic uint64_t wrong;
static _Atomic int running;

static void need(int rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s\n", rung_last_error());
	exit(1);
}

static void check(const struct rung_loader_batch *batch, uint64_t idx)
{
	bool good = batch->batch_idx == idx && batch->seed_count == BATCH &&
	            (!batch->request || rung_request_wait(batch->request, -1) == 0);

	for (uint64_t i = 0; i < BATCH && good; i++)
		good = batch->seeds[i] == seeds[idx * BATCH + i];
	if (!good ||
	    fixture_wrong_rows(&f, batch->ranks, batch->rank_count, batch->rows, WIDTH) > 0)
		atomic_fetch_add(&wrong, 1);
}

static struct rung_loader *make(uint32_t threads, uint32_t ahead, uint32_t gathers)
{
	static const uint32_t fanouts[] = { 4, 3 };
	struct rung_loader_opts opts = RUNG_LOADER_OPTS_INIT;
	struct rung_loader *made;

	opts.sampler.fanouts = fanouts;
	opts.sampler.hop_count = 2;
	opts.batch_size = BATCH;
	opts.threads = threads;
	opts.look_ahead = ahead;
	opts.gathers = gathers;
	need(rung_loader_create(f.store, rung_graph_csc(graph), &opts, &made));
	return made;
}

static void begin(struct rung_loader *of, uint64_t key_first)
{
	struct rung_loader_pass pass = RUNG_LOADER_PASS_INIT;

	pass.seeds = seeds;
	pass.seed_count = SEEDS;
	pass.key_first = key_first;
	need(rung_loader_begin(of, &pass));
}

static void *put_given(void *arg)
{
	_Atomic(const struct rung_loader_batch *) *from = arg;

	for (;;) {
		const struct rung_loader_batch *batch = atomic_exchange(from, NULL);

		rung_loader_put(loader, batch, NULL);
		if (!batch && !atomic_load(&running))
			return NULL;
		sched_yield();
	}
}

static void *watch(void *arg)
{
	while (atomic_load(&running)) {
		struct rung_loader_stats stats = { .size = sizeof(stats) };

		need(rung_loader_stats(loader, &stats));
		if (stats.batches > BATCHES || stats.rows < stats.batches * BATCH)
			atomic_fetch_add(&wrong, 1);
		sched_yield();
	}
	return arg;
}

static void *run_second(void *arg)
{
	struct rung_loader *second = make(1, 2, 1);
	const struct rung_loader_batch *batch;

	while (atomic_load(&running)) {
		begin(second, 0);
		for (uint64_t b = 0; b < BATCHES; b++) {
			need(rung_loader_next(second, &batch));
			check(batch, b);
			rung_loader_put(second, batch, NULL);
		}
	}
	rung_loader_destroy(second);
	return arg;
}

static void *gather(void *arg)
{
	for (uint64_t i = 0; atomic_load(&running); i++) {
		void *ids_memory, *out;
		uint64_t ranks[100];
		struct rung_ids ids = { .count = 100, .dtype = RUNG_U64, .space = RUNG_RANKS };

		fixture_random_ids(&f, ranks, ids.count, i);
		need(rung_store_alloc(f.store, sizeof(ranks), &ids_memory));
		need(rung_store_alloc(f.store, ids.count * WIDTH, &out));
		need(rung_store_copy(f.store, ids_memory, ranks, sizeof(ranks)));
		ids.data = ids_memory;
		need(rung_gather(f.store, &ids, out, 0));
		atomic_fetch_add(&wrong, fixture_wrong_rows(&f, ranks, ids.count, out, WIDTH) > 0);
		rung_store_free(f.store, out);
		rung_store_free(f.store, ids_memory);
	}
	return arg;
}

/* Hand a batch to a putter. Waits if the putter has not put its last batch yet. */
static void give(const struct rung_loader_batch *batch, uint64_t to)
{
	const struct rung_loader_batch *none = NULL;

	while (!atomic_compare_exchange_weak(&given[to], &none, batch)) {
		none = NULL;
		sched_yield();
	}
}

static void run_passes(void)
{
	for (uint64_t pass = 0; pass < PASSES; pass++) {
		const struct rung_loader_batch *kept[KEPT] = { NULL };
		uint64_t leave = pass % 3 == 0 ? BATCHES : rung__mix64(pass) % BATCHES;

		begin(loader, pass * BATCHES);
		for (uint64_t b = 0; b < leave; b++) {
			const struct rung_loader_batch *batch;

			need(rung_loader_next(loader, &batch));
			check(batch, b);
			if (kept[b % KEPT])
				give(kept[b % KEPT], b % PUTTERS);
			kept[b % KEPT] = batch;
		}
		if (pass % 2)
			need(rung_loader_end(loader));
		for (uint64_t i = 0; i < KEPT; i++) {
			if (kept[i])
				give(kept[i], i % PUTTERS);
		}
	}
}

int main(void)
{
	const struct rung_store_opts opts = { .size = sizeof(opts), .requests_max = 5 };
	pthread_t putters[PUTTERS], others[3];

	fixture_open(&f, ROWS, WIDTH, HOST_BYTES, &opts, NULL);
	need(rung_dataset_load_graph(f.ds, &graph));
	for (uint64_t i = 0; i < SEEDS; i++)
		seeds[i] = (i * 1237 + 11) % ROWS;
	loader = make(3, 4, 2);
	atomic_store(&running, 1);
	for (uint64_t i = 0; i < PUTTERS; i++)
		pthread_create(&putters[i], NULL, put_given, (void *)&given[i]);
	pthread_create(&others[0], NULL, watch, NULL);
	pthread_create(&others[1], NULL, run_second, NULL);
	pthread_create(&others[2], NULL, gather, NULL);
	run_passes();
	atomic_store(&running, 0);
	for (uint64_t i = 0; i < PUTTERS; i++)
		pthread_join(putters[i], NULL);
	for (uint64_t i = 0; i < 3; i++)
		pthread_join(others[i], NULL);
	begin(loader, 0);
	rung_loader_destroy(loader);
	rung_graph_destroy(graph);
	fixture_close(&f);
	printf("%llu wrong batches\n", (unsigned long long)atomic_load(&wrong));
	return atomic_load(&wrong) ? 1 : 0;
}

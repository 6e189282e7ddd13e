/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races: samplers of several threads that read lists of one structure from the file at the same
 * time, next to gathers of the same store and a thread that reads the counters. A plain program
 * (exit 0 or 1), so that it runs under ThreadSanitizer.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset.h"
#include "rung/rung.h"

#define VERTICES 20000u
#define EDGES    300000u
#define SEEDS    32u
#define BATCHES  20u
#define SAMPLERS 6u
#define HOPS     2u

static const uint32_t fanouts[HOPS] = { 7, 5 };
static struct rung_dataset *ds;
static struct rung_graph *graph;
static struct rung_store *store;
static uint64_t expected[BATCHES];
static _Atomic int wrong, running;

static void need(int rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s\n", rung_last_error());
	exit(1);
}

static struct rung_sampler *make_sampler(struct rung_structure *structure)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler *sampler;

	opts.fanouts = fanouts;
	opts.hop_count = HOPS;
	opts.threads = 1;
	opts.structure = structure;
	need(rung_sampler_create(structure ? NULL : rung_graph_csc(graph), &opts, &sampler));
	return sampler;
}

/* Sample a batch; the result depends on all of its vertices and edges. */
static uint64_t sample(struct rung_sampler *sampler, struct rung_batch *batch, uint64_t key)
{
	uint64_t seeds[SEEDS], count, hash = key;
	const uint64_t *vertices;

	for (uint64_t i = 0; i < SEEDS; i++)
		seeds[i] = (i * 601 + key * 37) % VERTICES;
	need(rung_sampler_sample(sampler, seeds, SEEDS, key, batch));
	vertices = rung_batch_vertices(batch, &count);
	for (uint64_t i = 0; i < count; i++)
		hash = (hash ^ vertices[i]) * UINT64_C(0x9e3779b97f4a7c15);
	for (uint32_t hop = 0; hop < HOPS; hop++) {
		const struct rung_block *block = rung_batch_block(batch, hop);

		for (uint64_t e = 0; e < block->edge_count; e++)
			hash = (hash ^ block->indices[e]) * UINT64_C(0x9e3779b97f4a7c15);
	}
	return hash;
}

static void sample_all(struct rung_structure *structure, uint64_t first, uint64_t *hashes)
{
	struct rung_sampler *sampler = make_sampler(structure);
	struct rung_batch *batch;

	need(rung_batch_create(&batch));
	for (uint64_t i = 0; i < BATCHES; i++)
		hashes[(first + i) % BATCHES] = sample(sampler, batch, (first + i) % BATCHES);
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
}

/* Threads begin at different batches, so that they need different blocks at the same time. */
static void *sampler_main(void *arg)
{
	uint64_t hashes[BATCHES];

	sample_all(rung_store_structure(store), (uint64_t)(uintptr_t)arg * 3, hashes);
	if (memcmp(hashes, expected, sizeof(hashes)) != 0)
		atomic_fetch_add(&wrong, 1);
	return NULL;
}

static void *stats_main(void *arg)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };
	uint64_t ids[50], before = 0;
	struct rung_ids list = { ids, 50, RUNG_U64, RUNG_RANKS };
	unsigned char rows[50 * 64];

	(void)arg;
	for (uint64_t round = 0; atomic_load(&running); round++) {
		for (uint64_t i = 0; i < 50; i++)
			ids[i] = (round * 7919 + i * 397) % VERTICES;
		need(rung_gather(store, &list, rows, 0));
		need(rung_structure_stats(rung_store_structure(store), &stats));
		if (stats.device_reads < before)
			atomic_fetch_add(&wrong, 1);
		before = stats.device_reads;
		sched_yield();
	}
	return NULL;
}

static void open_all(char *parent, size_t bytes)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	struct rung_plan *plan;
	char dir[256];

	if (support_tempdir(parent, bytes) != 0)
		exit(1);
	need(support_dataset(parent, VERTICES, EDGES, 64, 3));
	snprintf(dir, sizeof(dir), "%s/ds", parent);
	need(rung_dataset_open(dir, &ds));
	need(rung_dataset_load_graph(ds, &graph));
	opts.device = RUNG_DEVICE_CPU;
	opts.host_bytes = 600000;
	opts.structure_bytes = 100000;
	need(rung_plan_create(ds, &opts, &plan));
	need(rung_store_open(ds, plan, NULL, &store));
	rung_plan_destroy(plan);
}

int main(void)
{
	pthread_t samplers[SAMPLERS], stats;
	char parent[200];

	open_all(parent, sizeof(parent));
	sample_all(NULL, 0, expected);
	atomic_store(&running, 1);
	pthread_create(&stats, NULL, stats_main, NULL);
	for (uintptr_t i = 0; i < SAMPLERS; i++)
		pthread_create(&samplers[i], NULL, sampler_main, (void *)i);
	for (unsigned i = 0; i < SAMPLERS; i++)
		pthread_join(samplers[i], NULL);
	atomic_store(&running, 0);
	pthread_join(stats, NULL);
	need(rung_store_close(store));
	rung_graph_destroy(graph);
	rung_dataset_close(ds);
	support_remove(parent);
	if (atomic_load(&wrong))
		fprintf(stderr, "%d threads have different batches or counters\n",
		        atomic_load(&wrong));
	return atomic_load(&wrong) > 0;
}

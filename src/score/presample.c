/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Count the vertices of sampled batches: PreSC of Yang et al., "GNNLab: A Factored System for
 * Sample-based GNN Training over GPUs", 2022. Batches are independent, each is sampled by one
 * thread, and counts are integers, so they are the same for any number of threads and any order.
 *
 * The order of an epoch is computed, not stored: position i of epoch e is a keyed permutation of 0
 * .. train_count-1, a Feistel network over the next even number of bits, repeated until the result
 * is in range (Black, Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). So a run needs no
 * copy of its train vertices, and any batch can be generated alone.
 */
#include <string.h>

#include "graph/graph.h"
#include "score/presample.h"
#include "base/random.h"

#define SHUFFLE_KEY UINT64_C(0x73687566666c6531) /* keys that a caller is unlikely to use */
#define RUN_KEY     UINT64_C(0x70726573616d706c)
#define AGAIN_KEY   UINT64_C(0x616761696e)
#define ROUNDS      6u

/* A permutation of 0 .. 2^(2 * half_bits) - 1. */
static uint64_t feistel(uint64_t x, unsigned half_bits, uint64_t key)
{
	const uint64_t mask = (UINT64_C(1) << half_bits) - 1;
	uint64_t left = x >> half_bits, right = x & mask;

	for (uint64_t round = 0; round < ROUNDS; round++) {
		const uint64_t next = left ^ (rung__key_join(key + round, right) & mask);

		left = right;
		right = next;
	}
	return left << half_bits | right;
}

/* Half of the even number of bits for 0 .. count-1. The range is at most four times too large, so
 * that few repetitions are needed. */
static unsigned half_bits_for(uint64_t count)
{
	unsigned half_bits = 1;

	while (half_bits < 32 && (count - 1) >> 2 * half_bits)
		half_bits++;
	return half_bits;
}

uint64_t rung__run_seed(uint64_t seed)
{
	return rung__key_join(seed, RUN_KEY);
}

/* Position i in a permutation of 0 .. count-1 that the key determines. */
static uint64_t permuted(uint64_t i, uint64_t count, uint64_t key)
{
	const unsigned half_bits = half_bits_for(count);

	do {
		i = feistel(i, half_bits, key);
	} while (i >= count);
	return i;
}

uint64_t rung__run_seeds(const struct rung__run *run, uint64_t seed, uint64_t batch,
                         uint64_t *seeds_out)
{
	const uint64_t per_epoch = rung__epoch_batches(run->train_count, run->batch_size),
		       epoch = batch / per_epoch;
	const uint64_t first = batch % per_epoch * run->batch_size;
	const uint64_t count = RUNG__MIN(run->batch_size, run->train_count - first);
	const uint64_t key = rung__key_join(rung__key_join(seed, SHUFFLE_KEY), epoch);
	/* the part of the epoch that the run uses, whose seeds are redistributed */
	uint64_t part = run->train_count;

	if (run->again && run->batch_count - epoch * per_epoch < per_epoch)
		part = RUNG__MIN(part, (run->batch_count - epoch * per_epoch) * run->batch_size);
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t place =
			run->again ? permuted(first + i, part, key ^ AGAIN_KEY) : first + i;
		const uint64_t position = permuted(place, run->train_count, key);

		seeds_out[i] = run->train ? run->train[position] : position;
	}
	return count;
}

/* State shared by the threads. */
struct presampling {
	const struct rung_csc *csc;
	struct rung_sampler_opts sampler_opts;
	const struct rung__run *run;
	/* the caller's seed, for the order of epochs; the sampler has a different one */
	uint64_t seed;
	uint32_t *counts;
	uint64_t next; /* next batch to be sampled, counted from the first of the run; atomic */
	uint64_t done; /* batches that are complete, for progress; atomic */
	struct rung__failure failure;
};

/* State of a thread. */
struct presample_worker {
	struct rung_sampler *sampler;
	struct rung_batch *batch;
	uint64_t *seeds;
};

static void worker_fini(struct presample_worker *worker)
{
	rung_sampler_destroy(worker->sampler);
	rung_batch_destroy(worker->batch);
	rung__free(worker->seeds);
}

static int worker_init(struct presample_worker *worker, const struct presampling *ps)
{
	const uint64_t seeds_max = RUNG__MIN(ps->run->batch_size, ps->run->train_count);
	int rc;

	*worker = (struct presample_worker){ 0 };
	rc = rung_sampler_create(ps->csc, &ps->sampler_opts, &worker->sampler);
	if (rc < 0)
		return rc;
	rc = rung_batch_create(&worker->batch);
	if (rc == 0) {
		worker->seeds = rung__malloc_array(seeds_max, sizeof(*worker->seeds));
		if (!worker->seeds)
			rc = rung__fail(RUNG_E_NOMEM,
			                "presampling: no memory for %" PRIu64 " seeds", seeds_max);
	}
	if (rc < 0)
		worker_fini(worker);
	return rc;
}

/* Sample a batch and count its vertices, in counters that all threads share. */
static int count_batch(struct presampling *ps, struct presample_worker *worker, uint64_t batch)
{
	const uint64_t seed_count = rung__run_seeds(ps->run, ps->seed, batch, worker->seeds);
	const uint64_t *vertices;
	uint64_t count;
	int rc;

	rc = rung_sampler_sample(worker->sampler, worker->seeds, seed_count,
	                         rung__run_key(ps->run, batch), worker->batch);
	if (rc < 0)
		return rc;
	vertices = rung_batch_vertices(worker->batch, &count);
	for (uint64_t i = 0; i < count; i++) {
#pragma omp atomic
		ps->counts[vertices[i]]++;
	}
	return 0;
}

/* Sample batches until all are done or a thread has failed.
 * @param reports  this is the calling thread, which alone may call the progress function */
static int work(struct presampling *ps, struct presample_worker *worker, bool reports)
{
	const struct rung__run *run = ps->run;
	int rc = 0;

	while (rc == 0 && __atomic_load_n(&ps->failure.rc, __ATOMIC_RELAXED) == 0) {
		const uint64_t at = __atomic_fetch_add(&ps->next, 1, __ATOMIC_RELAXED);
		uint64_t done;

		if (at >= run->batch_count)
			break;
		rc = count_batch(ps, worker, run->batch_first + at);
		done = __atomic_add_fetch(&ps->done, 1, __ATOMIC_RELAXED);
		if (rc == 0 && reports)
			rc = rung__progress(run->progress, run->progress_ctx, "presample",
			                    run->progress_done + done,
			                    run->progress_total ? run->progress_total
			                                        : run->batch_count);
	}
	return rc;
}

int rung__presample(const void *graph, const struct rung__run *run, uint32_t *counts)
{
	const struct rung__presample_graph *from = graph;
	struct presampling ps = {
		.csc = from->csc,
		.sampler_opts = from->sampler_opts,
		.seed = from->sampler_opts.seed,
		.run = run,
		.counts = counts,
	};

	if (run->batch_count == 0 || run->train_count == 0)
		return 0;
	ps.sampler_opts.threads = 1;
	ps.sampler_opts.seed = rung__run_seed(ps.seed);
#pragma omp parallel num_threads((int)RUNG__MIN((uint64_t)run->threads, run->batch_count))
	{
		struct presample_worker worker;
		bool reports = false;
		int rc = worker_init(&worker, &ps);

#pragma omp master
		reports = true;
		if (rc == 0) {
			rc = work(&ps, &worker, reports);
			worker_fini(&worker);
		}
		rung__failure_keep(&ps.failure, rc);
	}
	return rung__failure_report(&ps.failure);
}

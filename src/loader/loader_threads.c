/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader's threads: workers that sample, each the batch with the next number, and the feeder,
 * which announces and gathers in order.
 *
 * A batch is announced before its gather is submitted or not at all. An announcement after the
 * gather would keep rows in the cache for a batch that never comes. Gathering has priority, because
 * the caller may be waiting for it; an announcement is delayed by one gather at most.
 *
 * Errors do not stop a thread. The failure of a batch stays in its slot, and rung_loader_next()
 * reports it when that batch is due, so errors appear in the order of the batches.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "loader/state.h"
#include "base/thread.h"

/* ---- workers ---- */

/* A batch without edges consists of its seeds. They are checked here, because no sampler does it.
 * The copy belongs to the batch, because the pass may end while the caller holds the batch. */
static int read_seeds(struct rung_loader *loader, struct rung__feed_batch *batch,
                      const uint64_t *seeds, uint64_t count)
{
	const uint64_t vertex_count = loader->store->shape.vertex_count;
	int rc = rung__feed_reserve(&batch->seeds, &batch->seeds_capacity, count);

	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < count; i++) {
		if (seeds[i] >= vertex_count)
			return rung__fail(RUNG_E_RANGE,
			                  "loader: seed %" PRIu64 " is %" PRIu64
			                  ", not below the vertex count %" PRIu64
			                  "; correct the seeds",
			                  i, seeds[i], vertex_count);
		batch->seeds[i] = seeds[i];
	}
	batch->handed.ranks = batch->seeds;
	batch->handed.rank_count = count;
	return 0;
}

/* Copy the ranks of a batch sampled on the GPU to host memory, where the cold-row cache needs them
 * for the announcement. Waits for the worker's stream. The ranks follow the batch's seeds in its
 * pinned memory. */
static int fetch_ranks(const struct rung__feed_worker *worker, struct rung__feed_batch *batch)
{
	const struct rung_loader *loader = worker->loader;
	const struct rung_loader_batch *handed = &batch->handed;
	uint64_t *ranks = batch->pinned_seeds + loader->opts.batch_size;
	int rc;

	rung__feed_list_parts(loader, batch);
	batch->parts[0].host_ids = NULL;
	if (!loader->announces)
		return 0;
	rc = loader->store->device_ops->fetch(loader->store->device, ranks, handed->ranks,
	                                      handed->rank_count * sizeof(*ranks), worker->stream);
	if (rc == 0)
		batch->parts[0].host_ids = ranks;
	return rc;
}

/* Sample on the worker's stream and wait. The worker waits instead of the caller, so that the
 * number of ranks, which sizes the rows, is known when the batch reaches the feeder. */
static int sample_on_gpu(const struct rung__feed_worker *worker, uint64_t idx,
                         struct rung__feed_batch *batch, const uint64_t *seeds)
{
	const struct rung_loader *loader = worker->loader;
	struct rung_loader_batch *handed = &batch->handed;
	/* the caller's work on the previous content may still be in flight */
	int rc = rung__feed_order(loader, &batch->item, worker->stream);

	if (rc < 0)
		return rc;
	memcpy(batch->pinned_seeds, seeds, handed->seed_count * sizeof(*seeds));
	rc = rung__gpu_batch_sample(batch->gpu_sample, batch->pinned_seeds, handed->seed_count,
	                            loader->key_first + idx, worker->stream);
	if (rc == 0)
		rc = rung__gpu_batch_wait(batch->gpu_sample, -1);
	if (rc < 0)
		return rc;
	handed->on_gpu = 1;
	handed->ranks = rung__gpu_batch_vertices(batch->gpu_sample, &handed->rank_count);
	handed->seeds = handed->ranks;
	handed->block_count = loader->hop_count;
	for (uint32_t hop = 0; hop < handed->block_count; hop++) {
		batch->blocks[hop] = rung__gpu_batch_block(batch->gpu_sample, hop);
		batch->edge_count += batch->blocks[hop]->edge_count;
	}
	return fetch_ranks(worker, batch);
}

/* Sample batch `idx` of the pass: its vertices and blocks. The key depends only on the number, so
 * the content does not depend on which worker samples it. Lock not held; loader->seeds does not
 * change while a worker samples. */
static int sample(struct rung__feed_worker *worker, uint64_t idx, struct rung__feed_batch *batch)
{
	struct rung_loader *loader = worker->loader;
	const uint64_t size = loader->opts.batch_size, first = idx * size,
		       count = RUNG__MIN(size, loader->seed_count - first);
	struct rung_loader_batch *handed = &batch->handed;
	int rc;

	*handed = (struct rung_loader_batch){ .batch_idx = idx,
		                              .seed_count = count,
		                              .blocks = batch->blocks };
	batch->edge_count = 0;
	if (batch->gpu_sample)
		return sample_on_gpu(worker, idx, batch, loader->seeds + first);
	if (!worker->sampler) {
		rc = read_seeds(loader, batch, loader->seeds + first, count);
		handed->seeds = handed->ranks;
		return rc < 0 ? rc : rung__feed_list_parts(loader, batch);
	}
	rc = rung_sampler_sample(worker->sampler, loader->seeds + first, count,
	                         loader->key_first + idx, batch->sample);
	if (rc < 0 || loader->typed)
		return rc < 0 ? rc : rung__feed_list_parts(loader, batch);
	handed->ranks = rung_batch_vertices(batch->sample, &handed->rank_count);
	handed->seeds = handed->ranks;
	handed->block_count = loader->hop_count;
	for (uint32_t hop = 0; hop < handed->block_count; hop++) {
		batch->blocks[hop] = rung_batch_block(batch->sample, hop);
		batch->edge_count += batch->blocks[hop]->edge_count;
	}
	return rung__feed_list_parts(loader, batch);
}

/* Whether a worker may begin a batch. Batches that are claimed but not submitted are limited to
 * look_ahead, so the next number always finds its slot EMPTY. */
static bool may_claim(const struct rung_loader *loader)
{
	return loader->active && loader->claimed < loader->end &&
	       loader->claimed - loader->submitted < loader->opts.look_ahead;
}

/* Sample the next batch into its slot. With the lock held; it is released while sampling: the slot
 * belongs to this worker from `claimed++` until it is SAMPLED. */
static void sample_next(struct rung__feed_worker *worker)
{
	struct rung_loader *loader = worker->loader;
	const uint64_t idx = loader->claimed++;
	struct rung__feed_slot *slot = rung__feed_slot(loader, idx);
	struct rung__feed_batch *batch = NULL;
	uint64_t begin_ns, end_ns;
	int rc;

	loader->sampling++;
	pthread_mutex_unlock(&loader->lock);
	begin_ns = rung__now_ns();
	rc = rung__feed_acquire_batch(loader, &batch);
	if (rc == 0)
		rc = sample(worker, idx, batch);
	end_ns = rung__now_ns();
	if (rc == 0) {
		batch->handed.times.sample_begin_ns = begin_ns;
		batch->handed.times.sample_end_ns = end_ns;
	}
	pthread_mutex_lock(&loader->lock);
	loader->counters.sample_ns += end_ns - begin_ns;
	if (rc == 0)
		loader->unit_count_max = RUNG__MAX(loader->unit_count_max, batch->unit_count);
	assert(slot->state == RUNG__FEED_EMPTY && !slot->batch);
	slot->batch = batch;
	slot->state = RUNG__FEED_SAMPLED;
	rung__failure_keep(&slot->failure, rc);
	loader->sampling--;
	pthread_cond_signal(&loader->work);
	/* wakes rung_loader_end() and await_slot(), which counts the time from here on as waiting
	 * for rows */
	pthread_cond_broadcast(&loader->moved);
}

/* Make the store's GPU current in this thread, before the thread's first call of the device. A
 * failure is ignored, because the next calls fail as well and report it. */
static void adopt(const struct rung_loader *loader)
{
	if (loader->store->device)
		loader->store->device_ops->adopt(loader->store->device);
}

static void *run_worker(void *ctx)
{
	struct rung__feed_worker *worker = ctx;
	struct rung_loader *loader = worker->loader;

	if (worker->stream)
		adopt(loader);
	pthread_mutex_lock(&loader->lock);
	while (!loader->stop) {
		if (may_claim(loader))
			sample_next(worker);
		else
			pthread_cond_wait(&loader->room, &loader->lock);
	}
	pthread_mutex_unlock(&loader->lock);
	return NULL;
}

/* ---- the feeder ---- */

/* Acquire rows for a batch and start its gathers into them. */
static int gather(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	int rc = rung__feed_acquire_rows(loader, batch);

	return rc < 0 ? rc : rung__feed_gather(loader, batch);
}

/* Submit the gather of the next batch, or pass on its failure. With the lock held; it is released
 * while gathering: only the feeder changes a SAMPLED slot. */
static void submit_next(struct rung_loader *loader)
{
	struct rung__feed_slot *slot = rung__feed_slot(loader, loader->submitted);
	int rc = slot->failure.rc;

	if (rc == 0) {
		struct rung__feed_batch *batch = slot->batch;
		struct rung_loader_times *times = &batch->handed.times;

		pthread_mutex_unlock(&loader->lock);
		times->gather_begin_ns = rung__now_ns();
		rc = gather(loader, batch);
		/* An announcement ends with the gather that it was for. Without a gather it must be
		 * withdrawn, or its rows would occupy the cache. */
		if (rc < 0)
			rung__feed_withdraw(loader, batch);
		times->gather_end_ns = rung__now_ns();
		/* without a request the rows are complete */
		if (!loader->store->device && !batch->handed.request &&
		    !batch->handed.request_count)
			times->rows_ns = times->gather_end_ns;
		pthread_mutex_lock(&loader->lock);
		loader->counters.gather_ns += times->gather_end_ns - times->gather_begin_ns;
		rung__failure_keep(&slot->failure, rc);
	}
	assert(slot->state == RUNG__FEED_SAMPLED &&
	       slot == rung__feed_slot(loader, loader->submitted));
	slot->state = RUNG__FEED_READY;
	loader->submitted++;
	assert(loader->submitted <= loader->claimed);
	/* this batch was gathered: an announcement that was refused is not tried again */
	loader->announced = RUNG__MAX(loader->announced, loader->submitted);
	loader->refused = false; /* the gather has freed space in the store's window */
	pthread_cond_signal(&loader->room);
}

/* Announce the batch with the number `announced`. With the lock held; it is released while
 * announcing: only the feeder changes a SAMPLED slot. */
static void announce_next(struct rung_loader *loader)
{
	struct rung__feed_batch *batch = rung__feed_slot(loader, loader->announced)->batch;
	uint64_t begin_ns, end_ns;
	int rc;

	pthread_mutex_unlock(&loader->lock);
	begin_ns = rung__now_ns();
	rc = rung__feed_announce(loader, batch);
	end_ns = rung__now_ns();
	if (rc == 0) {
		batch->handed.times.announce_begin_ns = begin_ns;
		batch->handed.times.announce_end_ns = end_ns;
	}
	pthread_mutex_lock(&loader->lock);
	loader->counters.announce_ns += end_ns - begin_ns;
	loader->refused = rc == RUNG_E_AGAIN;
	loader->counters.announce_refused += loader->refused;
	loader->counters.announced += rc == 0;
	/* other failures are reported by the batch's gather */
	loader->announced += !loader->refused;
}

static bool is_sampled(const struct rung_loader *loader, uint64_t idx)
{
	return idx < loader->claimed && rung__feed_slot(loader, idx)->state == RUNG__FEED_SAMPLED;
}

/*
 * Take one step of the feeder: submit a gather if one may start, else announce a batch. A gather
 * may start when fewer than opts.gathers batches are submitted but not handed over, and when its
 * batch was announced or the window of the store is full. In the latter case waiting could
 * deadlock: only gathers make room in the window. With the lock held. @return false: nothing to do
 */
static bool feed(struct rung_loader *loader)
{
	if (!loader->active)
		return false;
	/* without a cache, and for batches that failed, there is nothing to announce */
	while (is_sampled(loader, loader->announced) &&
	       (!loader->announces || rung__feed_slot(loader, loader->announced)->failure.rc < 0))
		loader->announced++;
	if (is_sampled(loader, loader->submitted) &&
	    loader->submitted - loader->handed < loader->opts.gathers &&
	    (loader->announced > loader->submitted || loader->refused))
		submit_next(loader);
	else if (is_sampled(loader, loader->announced) && !loader->refused)
		announce_next(loader);
	else
		return false;
	return true;
}

static void *run_feeder(void *ctx)
{
	struct rung_loader *loader = ctx;

	adopt(loader);
	pthread_mutex_lock(&loader->lock);
	while (!loader->stop) {
		loader->feeding = true; /* rung_loader_end() waits until this is false */
		if (feed(loader)) {
			pthread_cond_broadcast(&loader->moved);
			continue;
		}
		loader->feeding = false;
		pthread_cond_broadcast(&loader->moved);
		pthread_cond_wait(&loader->work, &loader->lock);
	}
	pthread_mutex_unlock(&loader->lock);
	return NULL;
}

/* ---- start and stop ---- */

int rung__feed_start(struct rung_loader *loader)
{
	int err = rung__thread_start(&loader->feeder, run_feeder, loader);

	/* each thread is counted as soon as it runs: after an error rung__feed_stop() joins the
	 * counted ones */
	loader->feeder_runs = err == 0;
	while (err == 0 && loader->worker_count < loader->opts.threads) {
		struct rung__feed_worker *worker = &loader->workers[loader->worker_count];

		err = rung__thread_start(&worker->thread, run_worker, worker);
		loader->worker_count += err == 0;
	}
	/* fewer workers than requested are enough: batches do not depend on their number */
	return err && loader->worker_count == 0 ? rung__fail_thread(err, "loader: a thread") : 0;
}

void rung__feed_stop(struct rung_loader *loader)
{
	pthread_mutex_lock(&loader->lock);
	loader->stop = true;
	pthread_cond_broadcast(&loader->room);
	pthread_cond_broadcast(&loader->work);
	pthread_mutex_unlock(&loader->lock);
	if (loader->feeder_runs)
		pthread_join(loader->feeder, NULL);
	for (uint32_t i = 0; i < loader->worker_count; i++)
		pthread_join(loader->workers[i].thread, NULL);
}

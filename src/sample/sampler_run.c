/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many batches concurrently. Threads claim batch numbers; batch i is sampled in slot i mod
 * slot_count, and number i is issued only when the previous batch of that slot has been handed
 * over. In order, a thread that has sampled the next batch also hands over all complete batches
 * after it, unless another thread is doing so. The thread with the smallest number is sampling or
 * handing over, never waiting, so there is always progress.
 */
#include <pthread.h>
#include <stdio.h>

#include "sample/sample.h"

#define BATCH_SIZE_DEFAULT 1024u
/* batches differ in size: with fewer slots, threads wait for each other */
#define SLOTS_A_THREAD 4u

/* Memory of a batch. In order, batch i is in slot i mod slot_count; in any order, the slot is the
 * thread's. */
struct slot {
	struct rung_batch *batch;
	bool ready; /* sampled and not yet handed over */
};

/* One call of rung_sampler_run(). */
struct run {
	struct rung_sampler *sampler;
	struct rung_minibatches batches; /* options, with defaults filled in */
	rung_batch_fn accept;
	void *ctx;
	struct slot *slots; /* [slot_count] */
	uint64_t slot_count;
	pthread_mutex_t lock; /* guards all members below, and `ready` */
	pthread_cond_t moved; /* `handed` or `end` has changed */
	uint64_t claimed;     /* next number to be claimed */
	/* if batches are accepted in order: all numbers below it were handed over */
	uint64_t handed;
	bool handing; /* a thread is handing over */
	/* batches below this number are to be sampled: all of them, or those before the first that
	 * failed */
	uint64_t end;
	int rc; /* failure of batch number `end`; 0: no batch has failed */
	char text[RUNG__ERROR_BYTES];
};

/* Record the failure of a batch. If several fail, the one with the smallest number is kept, as if
 * the batches were sampled one after the other. The message is copied from the calling thread. With
 * the lock held. */
static void fail(struct run *run, uint64_t idx, int rc)
{
	if (idx >= run->end)
		return;
	run->end = idx;
	run->rc = rc;
	snprintf(run->text, sizeof(run->text), "%s", rung_last_error());
	pthread_cond_broadcast(&run->moved);
}

/* Claim the next number, when its slot is free. With the lock held; released while waiting. @return
 * false: no batch is left */
static bool claim(struct run *run, uint64_t *idx_out)
{
	while (!run->batches.any_order && run->claimed < run->end &&
	       run->claimed >= run->handed + run->slot_count)
		pthread_cond_wait(&run->moved, &run->lock);
	if (run->claimed >= run->end)
		return false;
	*idx_out = run->claimed++;
	return true;
}

/* Hand over all batches that are complete, in order. One thread at a time, because `accept` expects
 * them in order. With the lock held; it is released during `accept`. */
static void hand_over(struct run *run, uint32_t thread)
{
	if (run->handing)
		return;
	run->handing = true;
	while (run->handed < run->end) {
		struct slot *slot = &run->slots[run->handed % run->slot_count];
		int rc;

		if (!slot->ready)
			break;
		pthread_mutex_unlock(&run->lock);
		/* `handed` and the slot cannot change, because only this thread hands over */
		rc = run->accept(run->ctx, slot->batch, run->handed, thread);
		pthread_mutex_lock(&run->lock);
		slot->ready = false;
		if (rc < 0) {
			fail(run, run->handed, rc);
			break;
		}
		run->handed++;
		pthread_cond_broadcast(&run->moved);
	}
	run->handing = false;
}

/* Sample batch `idx` on this thread, with its space. */
static int sample(const struct run *run, uint64_t idx, uint32_t thread, struct rung_batch *batch)
{
	const struct rung_minibatches *all = &run->batches;
	const uint64_t first = idx * all->batch_size;

	return rung__sample(run->sampler, &run->sampler->spaces[thread], all->seeds + first,
	                    RUNG__MIN(all->batch_size, all->seed_count - first),
	                    all->key_first + idx, 1, batch);
}

/* The body of a thread of the run. */
static void work(struct run *run, uint32_t thread)
{
	uint64_t idx;

	pthread_mutex_lock(&run->lock);
	while (claim(run, &idx)) {
		struct slot *slot =
			&run->slots[run->batches.any_order ? thread : idx % run->slot_count];
		int rc;

		pthread_mutex_unlock(&run->lock);
		rc = sample(run, idx, thread, slot->batch);
		if (rc == 0 && run->batches.any_order)
			rc = run->accept(run->ctx, slot->batch, idx, thread);
		pthread_mutex_lock(&run->lock);
		slot->ready = rc == 0;
		if (rc < 0)
			fail(run, idx, rc);
		else if (!run->batches.any_order)
			hand_over(run, thread);
	}
	pthread_mutex_unlock(&run->lock);
}

static void run_fini(struct run *run)
{
	for (uint64_t i = 0; run->slots && i < run->slot_count; i++)
		rung_batch_destroy(run->slots[i].batch);
	rung__free(run->slots);
}

/* Allocate positions for all threads, and the slots. */
static int run_init(struct run *run)
{
	const uint32_t threads = run->sampler->threads;
	int rc = rung__sampler_place_state(run->sampler);

	if (rc < 0)
		return rc;
	run->slot_count = RUNG__MIN(
		run->batches.any_order || threads == 1 ? threads : SLOTS_A_THREAD * threads,
		run->end);
	run->slots = rung__zalloc_array(run->slot_count, sizeof(*run->slots));
	if (!run->slots)
		return rung__fail(RUNG_E_NOMEM, "sampling batches: no memory");
	for (uint64_t i = 0; i < run->slot_count && rc == 0; i++)
		rc = rung_batch_create(&run->slots[i].batch);
	return rc;
}

int rung_sampler_run(struct rung_sampler *sampler, const struct rung_minibatches *batches,
                     rung_batch_fn accept, void *ctx)
{
	struct run run = {
		.sampler = sampler,
		.batches = RUNG_MINIBATCHES_INIT,
		.accept = accept,
		.ctx = ctx,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.moved = PTHREAD_COND_INITIALIZER,
	};
	uint32_t threads;
	int rc = rung__opts_copy_in(&run.batches, sizeof(run.batches), batches, "rung_minibatches");

	if (rc < 0)
		return rc;
	if (run.batches.seed_count == 0 || !run.batches.seeds)
		return rung__fail(RUNG_E_INVAL, "sampling batches: no seeds; pass at least one");
	if (run.batches.batch_size == 0)
		run.batches.batch_size = BATCH_SIZE_DEFAULT;
	run.end = (run.batches.seed_count - 1) / run.batches.batch_size + 1;
	rc = run_init(&run);
	if (rc == 0) {
		threads = (uint32_t)RUNG__MIN((uint64_t)sampler->threads, run.end);
		(void)threads; /* without OpenMP */
#pragma omp parallel num_threads(rung__threads(threads))
		work(&run, (uint32_t)rung__thread_number());
		rc = run.rc ? rung__fail_text(run.rc, run.text) : 0;
	}
	run_fini(&run);
	pthread_cond_destroy(&run.moved);
	pthread_mutex_destroy(&run.lock);
	return rc;
}

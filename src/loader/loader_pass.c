/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes of the loader: beginning and ending them, handing batches over, counters.
 *
 * This is the consumer's end of the three counters in state.h: the caller's thread advances
 * `handed`. It waits for sampling and gathering in await_slot(), for rows in await_rows(), and
 * counts each wait, because these times show whether sampling or gathering limits the pass.
 */
#include <assert.h>
#include <string.h>

#include "loader/state.h"
#include "base/random.h"

/* ---- passes ---- */

/* Number of batches of the whole pass, whatever batch_first is: batch numbers always count from its
 * beginning. */
static uint64_t count_batches(const struct rung_loader *loader, const struct rung_loader_pass *pass)
{
	const uint64_t size = loader->opts.batch_size, left = pass->seed_count % size;

	return pass->seed_count / size + (left > 0 && !pass->drop_last);
}

/* The seeds in the order of the pass. All of them are shuffled even if the pass begins later, so a
 * resumed pass has the batches of the interrupted one. The caller frees the list. */
static int copy_seeds(const struct rung_loader_pass *pass, uint64_t **seeds_out)
{
	struct rung__rng stream = { rung__mix64(pass->shuffle_seed) };
	uint64_t *seeds = rung__malloc_array(pass->seed_count, sizeof(*seeds));

	if (!seeds)
		return rung__fail(RUNG_E_NOMEM, "loader: no memory for %" PRIu64 " seeds",
		                  pass->seed_count);
	if (pass->seed_count > 0)
		memcpy(seeds, pass->seeds, pass->seed_count * sizeof(*seeds));
	if (pass->shuffle)
		rung__shuffle(seeds, pass->seed_count, rung__rng_below, &stream);
	*seeds_out = seeds;
	return 0;
}

int rung_loader_begin(struct rung_loader *loader, const struct rung_loader_pass *caller_pass)
{
	struct rung_loader_pass pass = RUNG_LOADER_PASS_INIT;
	uint64_t *seeds = NULL, batch_count;
	int rc = rung__opts_copy_in(&pass, sizeof(pass), caller_pass, "rung_loader_pass");

	if (rc < 0)
		return rc;
	if (pass.seed_count > 0 && !pass.seeds)
		return rung__fail(RUNG_E_INVAL,
		                  "loader: seed_count is %" PRIu64
		                  " but seeds is NULL; pass a list",
		                  pass.seed_count);
	batch_count = count_batches(loader, &pass);
	if (pass.batch_first > batch_count)
		return rung__fail(RUNG_E_INVAL,
		                  "loader: a pass of %" PRIu64
		                  " batches cannot begin with batch %" PRIu64
		                  "; begin with at most the number of batches",
		                  batch_count, pass.batch_first);
	rc = copy_seeds(&pass, &seeds);
	if (rc < 0)
		return rc;
	/* Every step that can fail has succeeded, so the running pass is ended only now. Its seeds
	 * are freed afterwards, when no worker reads them any more. */
	rung_loader_end(loader);
	rung__free(loader->seeds);
	pthread_mutex_lock(&loader->lock);
	loader->seeds = seeds;
	loader->seed_count = pass.seed_count;
	loader->key_first = pass.key_first;
	loader->end = batch_count;
	loader->claimed = loader->submitted = loader->handed = loader->announced = pass.batch_first;
	loader->refused = false;
	loader->counters = (struct rung__feed_counters){ .begin_ns = rung__now_ns() };
	loader->active = true;
	pthread_cond_broadcast(&loader->room);
	pthread_mutex_unlock(&loader->lock);
	return 0;
}

int rung_loader_end(struct rung_loader *loader)
{
	pthread_mutex_lock(&loader->lock);
	loader->active = false; /* no thread begins a batch from here on */
	while (loader->sampling > 0 || loader->feeding)
		pthread_cond_wait(&loader->moved, &loader->lock);
	if (loader->counters.begin_ns && !loader->counters.end_ns)
		loader->counters.end_ns = rung__now_ns();
	pthread_mutex_unlock(&loader->lock);
	/* without the lock: the threads are idle and claim nothing while no pass is active */
	for (; loader->handed < loader->claimed; loader->handed++) {
		struct rung__feed_slot *slot = rung__feed_slot(loader, loader->handed);

		/* The cache keeps the rows of announced batches. It must forget those of a batch
		 * that will never be gathered. */
		if (slot->batch)
			rung__feed_withdraw(loader, slot->batch);
		rung__feed_drain(loader, slot->batch);
		rung__feed_release_batch(loader, slot->batch);
		*slot = (struct rung__feed_slot){ .state = RUNG__FEED_EMPTY };
	}
	/* only now that the pass is over, because freeing may make the device wait for all its
	 * work */
	rung__feed_free_dropped(loader);
	return 0;
}

/* ---- handing over ---- */

/* Wait until the slot's batch has been submitted or has failed. The time of each wait is added to
 * one of two counters: to wait_sample_ns if the batch was not sampled yet (more threads would
 * help), else to wait_rows_ns (more memory would help). With the lock held; it is released while
 * waiting. */
static void await_slot(struct rung_loader *loader, const struct rung__feed_slot *slot)
{
	while (slot->state != RUNG__FEED_READY) {
		const bool sampled = slot->state == RUNG__FEED_SAMPLED;
		const enum rung__wait kind = sampled ? RUNG__WAIT_ROWS : RUNG__WAIT_SAMPLE;
		const uint64_t begin_ns = rung__now_ns();

		rung__watch_wait_begin(loader->store->watch, kind);
		pthread_cond_wait(&loader->moved, &loader->lock);
		rung__watch_wait_end(loader->store->watch, kind);
		*(sampled ? &loader->counters.wait_rows_ns : &loader->counters.wait_sample_ns) +=
			rung__now_ns() - begin_ns;
	}
}

/* Wait until the rows are complete, on the CPU. On a GPU the caller or its stream waits for the
 * request. With the lock held; it is released while waiting, which is safe because a READY slot
 * belongs to this thread. */
static int await_rows(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	uint64_t begin_ns;
	int rc;

	if (loader->store->device)
		return 0;
	pthread_mutex_unlock(&loader->lock);
	begin_ns = rung__now_ns();
	rc = rung__feed_wait(loader, batch);
	begin_ns = rung__now_ns() - begin_ns;
	pthread_mutex_lock(&loader->lock);
	loader->counters.wait_rows_ns += begin_ns;
	return rc;
}

/* Enter a batch in the list of those that the caller has to put, and count it. */
static void hold(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	rung__queue_push_first(&loader->held, &batch->held_link);
	loader->counters.batches++;
	loader->counters.rows += batch->row_count;
	loader->counters.edges += batch->edge_count;
}

/* Wait for the next batch and remove it from its slot, which is then free for batch
 * `handed` + slot_count. With the lock held; it is released while waiting. @return 0, or the
 * batch's failure. *batch_out is set in either case, to be handed over or released; NULL if memory
 * for the batch could not be allocated */
static int wait_next(struct rung_loader *loader, struct rung__feed_batch **batch_out)
{
	struct rung__feed_slot *slot = rung__feed_slot(loader, loader->handed);
	int rc;

	await_slot(loader, slot);
	rc = rung__failure_report(&slot->failure);
	if (rc == 0)
		rc = await_rows(loader, slot->batch);
	assert(loader->handed < loader->submitted && slot->state == RUNG__FEED_READY);
	*batch_out = slot->batch;
	*slot = (struct rung__feed_slot){ .state = RUNG__FEED_EMPTY };
	loader->handed++;
	pthread_cond_signal(&loader->work); /* now the feeder can submit one more gather */
	return rc;
}

int rung_loader_next(struct rung_loader *loader, const struct rung_loader_batch **batch_out)
{
	struct rung__feed_batch *batch = NULL;
	uint64_t idx;
	int rc;

	pthread_mutex_lock(&loader->lock);
	if (!loader->active || loader->handed == loader->end) {
		const bool active = loader->active;

		/* for the counters, the first call after the last batch ends the pass */
		if (active && !loader->counters.end_ns)
			loader->counters.end_ns = rung__now_ns();
		pthread_mutex_unlock(&loader->lock);
		return active ? 0
		              : rung__fail(RUNG_E_INVAL, "loader: no pass is running; begin one "
		                                         "with rung_loader_begin()");
	}
	idx = loader->handed;
	rc = wait_next(loader, &batch);
	if (rc == 0)
		hold(loader, batch);
	pthread_mutex_unlock(&loader->lock);
	if (rc < 0) {
		struct rung__failure failure = { 0 };

		/* The batch is skipped: its memory is reused, and the next call returns the next.
		 * If one table's gather was not submitted, those of other tables may still be in
		 * flight. */
		rung__failure_keep(&failure,
		                   rung__fail(rc, "batch %" PRIu64 ": %s", idx, rung_last_error()));
		rung__feed_drain(loader, batch);
		rung__feed_release_batch(loader, batch);
		return rung__failure_report(&failure);
	}
	*batch_out = &batch->handed;
	return 1;
}

/* On a GPU: the caller's stream waits for the rows, and the next user of their memory waits for
 * that stream. Without the first wait the event of the stream could pass before the gathers have
 * written all rows. */
static void lend_until(struct rung_loader *loader, struct rung__feed_batch *batch,
                       struct CUstream_st *stream)
{
	rung__feed_wait_stream(loader, batch, stream);
	rung__feed_lent_until(loader, batch, stream);
}

void rung_loader_put(struct rung_loader *loader, const struct rung_loader_batch *handed,
                     struct CUstream_st *stream)
{
	struct rung__feed_batch *batch;

	if (!handed)
		return;
	/* the caller's pointer is to a member of our struct */
	batch = (struct rung__feed_batch *)((uintptr_t)handed -
	                                    offsetof(struct rung__feed_batch, handed));
	if (loader->store->device)
		lend_until(loader, batch, stream);
	else
		rung__feed_drain(loader, batch);
	/* `held` is guarded by the lock: any thread may put a batch */
	pthread_mutex_lock(&loader->lock);
	rung__queue_remove(&loader->held, &batch->held_link);
	pthread_mutex_unlock(&loader->lock);
	rung__feed_release_batch(loader, batch);
}

/* Put a batch that no work has used: after the wait for its rows, the loader's stream has nothing
 * left to do for it, so the memory can be reused at once. */
static void put_unused(struct rung_loader *loader, const struct rung_loader_batch *batch)
{
	if (batch && batch->request)
		rung__request_await(batch->request);
	for (uint32_t i = 0; batch && i < batch->request_count; i++)
		rung__request_await(batch->requests[i]);
	rung_loader_put(loader, batch, loader->stream);
}

/* Get `count` batches of the pass without putting any. The real pass will report the errors of
 * single batches again, so only RUNG_E_NOMEM ends the warm-up. @return 0 or RUNG_E_NOMEM; held[i]
 * stays NULL for a failed batch and after the end of the pass */
static int hold_batches(struct rung_loader *loader, const struct rung_loader_batch **held,
                        uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (rung_loader_next(loader, &held[i]) == RUNG_E_NOMEM)
			return RUNG_E_NOMEM;
	}
	return 0;
}

int rung_loader_warm_up(struct rung_loader *loader, const struct rung_loader_pass *pass)
{
	/* as many as are in memory at the same time, so that no memory for rows is touched for the
	 * first time during the pass */
	const uint32_t count = loader->opts.gathers + RUNG__FEED_HELD;
	const struct rung_loader_batch **held = rung__zalloc(count * sizeof(*held));
	int rc;

	if (!held)
		return rung__fail(RUNG_E_NOMEM, "loader: no memory to warm up");
	rc = rung_loader_begin(loader, pass);
	if (rc == 0) {
		rc = hold_batches(loader, held, count);
		for (uint32_t i = 0; i < count; i++)
			put_unused(loader, held[i]);
		rung_loader_end(loader);
		pthread_mutex_lock(&loader->lock);
		loader->counters = (struct rung__feed_counters){ 0 };
		pthread_mutex_unlock(&loader->lock);
	}
	rung__free(held);
	return rc;
}

/* ---- counters ---- */

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

int rung_loader_stats(const struct rung_loader *loader, struct rung_loader_stats *stats_out)
{
	/* locking changes only the mutex, not what the caller sees as const */
	pthread_mutex_t *lock = (pthread_mutex_t *)&loader->lock;
	struct rung__feed_counters c;
	struct rung_loader_stats stats;

	pthread_mutex_lock(lock);
	c = loader->counters;
	pthread_mutex_unlock(lock);
	stats = (struct rung_loader_stats){
		.batches = c.batches,
		.rows = c.rows,
		.edges = c.edges,
		.seconds = c.begin_ns ? seconds((c.end_ns ? c.end_ns : rung__now_ns()) - c.begin_ns)
		                      : 0,
		.wait_s = seconds(c.wait_sample_ns + c.wait_rows_ns),
		.wait_sample_s = seconds(c.wait_sample_ns),
		.wait_rows_s = seconds(c.wait_rows_ns),
		.sample_s = seconds(c.sample_ns),
		.gather_s = seconds(c.gather_ns),
		.announce_s = seconds(c.announce_ns),
		.announced = c.announced,
		.announce_refused = c.announce_refused,
	};
	return rung__opts_copy_out(stats_out, &stats, sizeof(stats), "rung_loader_stats");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of a refill thread: it reads the cold rows of queued requests and copies them to their
 * destinations.
 *
 * The device's queue is never drained between requests: as reads complete, free slots get the next
 * reads of the oldest request, then of the following one. They are submitted before the completed
 * rows are copied, so the device works at the same time; copying first reached 0.75 to 0.93 of the
 * drive's rate at depth 64 instead of 0.89 to 1.00. For this reason there are more slots than the
 * queue depth. Completions are reaped in groups, which saves system calls and keeps the queue
 * nearly full.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "refill/state.h"

/* interval of checks for completed slow reads while there is nothing else to do */
#define SLOW_NS 1000000
/* the interval while another process reads rows that are needed here */
#define REMOTE_NS 200000
/* completions per group; depth / 8, at most 16, was measured as fastest, and half the depth is as
 * slow as draining the queue */
#define GROUP_MAX 16u

/*
 * Reads for gathers that have not run use at most half of the slots. When such a gather runs
 * depends on the caller's streams, which can wait for other requests, and those need slots too.
 * @return the oldest part that is allowed to use a slot, or NULL
 */
static struct rung__part *oldest_part(const struct rung__refill *refill)
{
	const bool full = refill->early_count >= RUNG__MAX(refill->slot_count / 2, 1u);
	struct rung__link *link = rung__queue_first(&refill->issuing);

	while (link && full && rung__part_is_early(RUNG__ENTRY(link, struct rung__part, link)))
		link = rung__queue_after(&refill->issuing, link);
	return RUNG__ENTRY(link, struct rung__part, link);
}

/* The remaining rows of a failed request need no slot. */
static void skip_rest(struct rung__refill *refill, struct rung__part *part)
{
	rung__add_own(&refill->counters->failed_rows, part->end - part->cursor);
	part->cursor = part->end;
	rung__part_touch(refill, part, 0);
}

/*
 * Whether the next token is for reading ahead. A batch gets its own reads before its step of the
 * sweep, and the step comes before the reads of the batch after the next: rows that are read in
 * time cost fewer reads than those for which a batch waits. A batch that has failed does not wait:
 * the device may be stuck.
 */
static bool ahead_is_next(const struct rung__refill *refill, const struct rung__part *part)
{
	if (!refill->ahead_part || refill->stop || refill->broken ||
	    (part && part->request->status < 0))
		return false;
	return refill->ahead.owed > (part ? refill->ahead.step : 0) &&
	       rung__refill_ahead_has_room(refill);
}

/* Submit the next read ahead. @return false if no token is free */
static bool read_ahead(struct rung__refill *refill)
{
	uint32_t token;

	if (refill->in_flight + refill->starved >= refill->depth ||
	    refill->free_count <= refill->starved)
		return false;
	token = rung__token_acquire(refill);
	if (!rung__refill_ahead_next(refill, token)) {
		rung__token_free(refill, token);
		return true;
	}
	rung__read_send(refill, token);
	return true;
}

/* Submit the next read of a part. If `starved` is set, one token is reserved for rows that another
 * process was expected to read. @return false if no token is free */
static bool read_next(struct rung__refill *refill, struct rung__part *part)
{
	uint64_t wait_ns;
	uint32_t token;

	if (refill->in_flight + refill->starved >= refill->depth ||
	    refill->free_count <= refill->starved)
		return false;
	token = rung__token_acquire(refill);
	if (!rung__next_read(refill, token, part)) {
		rung__token_free(refill, token);
		return true;
	}
	wait_ns = refill->now_ns - part->request->submit_ns;
	rung__add_own(
		&refill->counters->phases[RUNG_READ_PHASE_QUEUE][rung__latency_bucket(wait_ns)], 1);
	rung__read_send(refill, token);
	return true;
}

/*
 * Give free tokens to the waiting parts, oldest first. A part leaves the list when its last row has
 * been begun. It completes here if all its rows were in the cache, otherwise when its reads
 * complete.
 */
static void issue(struct rung__refill *refill)
{
	struct rung__part *part;

	refill->now_ns = rung__now_ns();
	for (;;) {
		part = oldest_part(refill);
		if (ahead_is_next(refill, part)) {
			if (!read_ahead(refill))
				break;
			continue;
		}
		if (!part)
			break;
		if (part->request->status < 0)
			skip_rest(refill, part);
		if (part->cursor < part->end && !read_next(refill, part))
			break;
		if (part->cursor == part->end) {
			rung__queue_remove(&refill->issuing, &part->link);
			rung__part_touch(refill, part, 0);
			rung__refill_ahead_advance(refill);
			rung__parts_complete(refill);
		}
	}
	rung__parts_complete(refill);
}

/* Fail the requests with rows that have not been begun. issue() then skips those rows. */
static void fail_issuing(const struct rung__refill *refill, int status, const char *text)
{
	RUNG__QUEUE_EACH(part, &refill->issuing, struct rung__part, link)
	rung__request_fail(part->request, status, text);
}

/* Cancel all requests that wait, including those whose rows another process reads. Reads in flight
 * still complete. */
static void cancel(const struct rung__refill *refill)
{
	fail_issuing(refill, RUNG_E_CANCELED, rung__closed_text);
	RUNG__QUEUE_EACH(part, &refill->remote, struct rung__part, remote_link)
	rung__request_fail(part->request, RUNG_E_CANCELED, rung__closed_text);
}

/* Fail the requests that wait, as cancel() does, because the reader has failed. */
static void fail_gone(const struct rung__refill *refill)
{
	RUNG__QUEUE_EACH(part, &refill->issuing, struct rung__part, link)
	rung__read_fail_gone(refill, part->request);
	RUNG__QUEUE_EACH(part, &refill->remote, struct rung__part, remote_link)
	rung__read_fail_gone(refill, part->request);
}

/* Free the slots whose rows a device has copied. */
static void reclaim_slots(struct rung__refill *refill, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t token = refill->reclaimed[i]; token != RUNG__SLOT_NONE;
		     token = refill->slot_next[token]) {
			assert(token < refill->slot_count && refill->reads[token].held);
			refill->reads[token].held = false;
			if (!refill->reads[token].busy)
				rung__token_free(refill, token);
		}
	}
}

/* True if no part waits for a token or for another process. */
static bool no_part_waits(const struct rung__refill *refill)
{
	return rung__queue_is_empty(&refill->issuing) && rung__queue_is_empty(&refill->remote);
}

/* True if the thread can only wait: no read is expected to complete soon, and neither a part nor
 * the sweep can get a token. If the reader has failed and parts wait, the thread is not idle,
 * because it must fail them. */
static bool is_idle(const struct rung__refill *refill)
{
	/* no token is free until the device has copied rows from some slots */
	const bool stuck = refill->free_count == 0 && refill->device;
	const struct rung__part *part = oldest_part(refill);

	return rung__reads_expected(refill) == 0 &&
	       ((!part && !ahead_is_next(refill, NULL)) ||
	        ((stuck || refill->in_flight >= refill->depth) && !refill->broken));
}

/* Sleep until there is something to do. The sleep is bounded while slow reads are in flight or
 * another process reads rows that are needed here, because neither wakes this thread. The box's
 * lock is held. */
static void await_work(struct rung__refill *refill)
{
	const bool remote = !rung__queue_is_empty(&refill->remote);
	struct timespec until = rung__deadline(remote ? REMOTE_NS : SLOW_NS);

	while (rung__queue_is_empty(&refill->box.queue) && refill->box.returned_count == 0 &&
	       is_idle(refill) && (!refill->box.over || refill->in_flight > 0)) {
		if (!remote && refill->in_flight == 0)
			pthread_cond_wait(&refill->box.wake, &refill->box.lock);
		else if (pthread_cond_timedwait(&refill->box.wake, &refill->box.lock, &until) ==
		         ETIMEDOUT)
			return;
	}
}

/*
 * Collect queued requests and returned slots; wait for them if there is nothing else to do.
 * @return true once nothing more will come
 */
static bool drain_queue(struct rung__refill *refill)
{
	uint32_t returned;
	bool over;

	pthread_mutex_lock(&refill->box.lock);
	await_work(refill);
	returned = refill->box.returned_count;
	assert(returned <= refill->slot_count);
	if (returned > 0)
		memcpy(refill->reclaimed, refill->box.returned,
		       returned * sizeof(*refill->box.returned));
	refill->box.returned_count = 0;
	rung__queue_join(&refill->issuing, &refill->box.queue);
	refill->stop = refill->box.closing;
	over = refill->box.over;
	pthread_mutex_unlock(&refill->box.lock);
	reclaim_slots(refill, returned);
	return over;
}

/*
 * Device: every slot has rows to be copied, or is lost to a read that does not complete, and some
 * of these rows were not handed over yet. Send them in slot batches that are not full; otherwise
 * the device and this thread would wait for each other.
 */
static void send_what_is_held(struct rung__refill *refill)
{
	struct rung__part *part;

	if (!refill->device || no_part_waits(refill) || refill->free_count > 0 ||
	    rung__reads_expected(refill) > 0)
		return;
	while ((part = RUNG__ENTRY(rung__queue_first(&refill->holding), struct rung__part,
	                           held_link)) != NULL)
		rung__slot_batch_send(refill, part, false);
}

/* Wait for a group of completions, submit the next reads, then copy the rows that were read. */
static void reap(struct rung__refill *refill)
{
	uint32_t group = RUNG__MIN(RUNG__MAX(refill->depth / 8, 1u), GROUP_MAX);
	/* slow reads must delay neither the other reads in flight nor queued reads */
	uint32_t expected = rung__reads_expected(refill);
	uint32_t want = expected < group ? 1 : group;
	uint64_t timeout_ns = expected == 0                            ? 0
	                      : !rung__queue_is_empty(&refill->remote) ? REMOTE_NS
	                                                               : refill->tick_ns;
	int count =
		refill->ops->reap(refill->reader, want, timeout_ns, refill->fetched, refill->depth);
	uint32_t whole = 0;

	refill->now_ns = rung__now_ns();
	if (count < 0) {
		refill->broken = -count;
		rung__reads_abandon(refill);
		rung__parts_complete(refill);
		return;
	}
	assert((uint32_t)count <= refill->in_flight);
	refill->in_flight -= (uint32_t)count;
	/* short and failed reads are sent again before new reads take their places in the queue;
	 * complete reads are copied after the submission below */
	for (int i = 0; i < count; i++) {
		struct rung__fetched *fetched = &refill->fetched[i];

		if (rung__read_is_whole(refill, fetched))
			refill->fetched[whole++] = *fetched;
		else
			rung__read_end(refill, fetched);
	}
	issue(refill);
	if (whole > 0 && refill->in_flight > 0 && !refill->broken) {
		/* submit, so that the device is busy during the copies */
		int rc = refill->ops->reap(refill->reader, 0, 0, NULL, 0);

		if (rc < 0)
			/* the next wait for reads fails in the same way, and abandons the reads */
			refill->broken = -rc;
	}
	for (uint32_t i = 0; i < whole; i++) {
		if (i + 1 < whole)
			rung__read_prefetch(refill, refill->fetched[i + 1].token);
		rung__read_end(refill, &refill->fetched[i]);
	}
	rung__parts_complete(refill);
}

/* The queue is full of reads that are past their timeout, so requests that wait for a token would
 * never get one. */
static void fail_stuck(const struct rung__refill *refill)
{
	char text[RUNG__ERROR_BYTES], where[RUNG__MOUNT_TEXT_BYTES];

	snprintf(text, sizeof(text),
	         "%s%s: %u reads have not completed in %" PRIu64
	         " ms, and no other can be sent: %s%s",
	         refill->geometry.path, rung__refill_where(refill, where), refill->in_flight,
	         refill->timeout_ns / 1000000u, strerror(ETIMEDOUT), rung__refill_cure(refill));
	fail_issuing(refill, RUNG_E_IO, text);
	RUNG__QUEUE_EACH(part, &refill->remote, struct rung__part, remote_link)
	{
		/* this thread could not read their rows either */
		if (refill->now_ns - part->remote_ns > refill->timeout_ns)
			rung__request_fail(part->request, RUNG_E_IO, text);
	}
}

/* Once per tick: check for reads that are late, and for processes that have died, whose pins and
 * reads are released. */
static void tick(struct rung__refill *refill)
{
	uint64_t passed_ns = refill->now_ns - refill->ticked_ns;

	if (passed_ns < refill->tick_ns)
		return;
	refill->ticked_ns = refill->now_ns;
	/* after a long absence one tick counts as passed: the thread was stopped, not the device */
	if (rung__reads_check_late(refill, passed_ns > TICKS_MISSED_MAX * refill->tick_ns
	                                           ? passed_ns - refill->tick_ns
	                                           : 0) &&
	    refill->in_flight >= refill->depth)
		fail_stuck(refill);
	if (refill->cache) {
		rung__cache_lock(refill->cache);
		rung__cache_reap_dead(refill->cache);
		rung__cache_unlock(refill->cache);
	}
	rung__parts_complete(refill);
}

void rung__refill_run(struct rung__refill *refill)
{
	/* failures come before issue(), which skips the rows of failed requests; slots are handed
	 * over after it and rung__remote_poll(), which can free or use the last token */
	for (;;) {
		bool over = drain_queue(refill);

		atomic_store_explicit(&refill->seen_ns, rung__now_ns(), memory_order_relaxed);
		atomic_store_explicit(&refill->seen_reads, refill->in_flight, memory_order_relaxed);
		if (refill->stop)
			cancel(refill);
		if (refill->broken)
			fail_gone(refill);
		issue(refill);
		rung__remote_poll(refill);
		send_what_is_held(refill);
		rung__show_in_flight(refill);
		if (refill->in_flight > 0)
			reap(refill);
		else if (over && no_part_waits(refill))
			return;
		rung__show_in_flight(refill);
		tick(refill);
	}
}

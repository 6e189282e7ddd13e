/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The refill thread, one a file of the features: reads the cold rows of queued requests and puts them where they are wanted.
 *
 * The device's queue is never drained between requests: as reads end, free slots take the next reads of the oldest request, then of
 * the one behind it, and are sent before the rows that came are copied: the device works while we do. That is what the slots beyond
 * the queue depth are for. Reads are taken back in groups, which costs fewer system calls and leaves the queue nearly full.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "refill/refill_internal.h"
#include "base/thread.h"

#define TICK_NS_MAX 100000000ull
#define TICKS_MISSED_MAX 4u    /* a thread that was not here for longer was stopped, or had no CPU: reads may have come back meanwhile */
#define SLOW_NS 1000000        /* between looks at reads that are slow, while there is nothing else to do */
#define ELSEWHERE_NS 200000    /* the same while another process reads rows for us */
#define STOP_TIMEOUTS 2u       /* a device that has not answered for so many times as long as a read may take is given up */
#define STOP_SPARE_NS 1000000000ull
#define TIMEOUT_DEFAULT_MS 30000u
#define GROUP_MAX 16u          /* measured best: depth / 8, at most 16; half the depth is as slow as a barrier */

/*
 * Reads for gathers that are still to run may take half of the slots: when they run is up to the
 * caller's streams, which may wait for other requests, and those need slots.
 * @return the oldest part that may have a slot; NULL: there is none
 */
static struct rung__part *oldest_part(const struct rung__refill *refill)
{
	const bool full = refill->early_count >= RUNG__MAX(refill->slot_count / 2, 1u);
	struct rung__part *part = refill->issuing;

	while (part && full && rung__part_is_early(part))
		part = part->next;
	return part;
}

static void unlink_part(struct rung__refill *refill, const struct rung__part *part)
{
	struct rung__part **from = &refill->issuing, *before = NULL;

	for (; *from != part; from = &before->next)
		before = *from;
	*from = part->next;
	if (refill->issuing_tail == part)
		refill->issuing_tail = before;
}

/* What is left of a failed request needs no slot to end. */
static void skip_rest(struct rung__refill *refill, struct rung__part *part)
{
	rung__add_own(&refill->counters.failed_rows, part->end - part->cursor);
	part->cursor = part->end;
	rung__part_touch(refill, part, 0);
}

/* The next read of a part. @return false when there is no token for it */
static bool read_next(struct rung__refill *refill, struct rung__part *part)
{
	uint64_t wait_ns;
	uint32_t token;

	if (refill->in_flight + refill->starved >= refill->depth ||
	    refill->free_count <= refill->starved)
		return false;
	token = refill->free_tokens[--refill->free_count];
	if (!rung__read_plan(refill, token, part)) {
		refill->free_tokens[refill->free_count++] = token;
		return true;
	}
	wait_ns = refill->now_ns - part->request->submit_ns;
	rung__add_own(&refill->counters.stages[RUNG_STAGE_QUEUE][rung__latency_bucket(wait_ns)], 1);
	rung__read_send(refill, token);
	return true;
}

/*
 * Hand free tokens to the parts that wait, oldest first. A part leaves the list with its last read,
 * though the next one may be of another part: it settles once, here or when its reads come back.
 */
static void issue(struct rung__refill *refill)
{
	struct rung__part *part;

	refill->now_ns = rung__now_ns();
	while ((part = oldest_part(refill)) != NULL) {
		if (part->request->status < 0)
			skip_rest(refill, part);
		if (part->cursor < part->end && !read_next(refill, part))
			break;
		if (part->cursor == part->end) {
			unlink_part(refill, part);
			rung__part_touch(refill, part, 0);
			rung__parts_settle(refill);
		}
	}
	rung__parts_settle(refill);
}

static void fail_issuing(const struct rung__refill *refill, int status, const char *text)
{
	for (struct rung__part *part = refill->issuing; part; part = part->next)
		rung__request_fail(part->request, status, text);
}

/* Those whose rows another process reads, too. */
static void cancel(const struct rung__refill *refill)
{
	fail_issuing(refill, RUNG_E_CANCELED, rung__closed_text);
	for (struct rung__part *part = refill->elsewhere; part; part = part->elsewhere_next)
		rung__request_fail(part->request, RUNG_E_CANCELED, rung__closed_text);
}

static void fail_gone(const struct rung__refill *refill)
{
	for (struct rung__part *part = refill->issuing; part; part = part->next)
		rung__read_fail_gone(refill, part->request);
	for (struct rung__part *part = refill->elsewhere; part; part = part->elsewhere_next)
		rung__read_fail_gone(refill, part->request);
}

/* Slots that a device has copied from are free again. */
static void take_back_slots(struct rung__refill *refill, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t token = refill->taken_back[i]; token != RUNG__SLOT_NONE; token = refill->slot_next[token]) {
			refill->reads[token].held = false;
			if (!refill->reads[token].busy)
				rung__token_free(refill, token);
		}
	}
}

/* Nothing can be done but wait: no read is about to come back, and no part waits for a token that is there. */
static bool is_idle(const struct rung__refill *refill)
{
	bool stuck = refill->free_count == 0 && refill->device;   /* until the device has copied */

	return rung__reads_expected(refill) == 0 &&
	       (!oldest_part(refill) ||
	        ((stuck || refill->in_flight >= refill->depth) && !refill->broken));
}

static void await_work(struct rung__refill *refill)
{
	struct timespec until = rung__deadline(refill->elsewhere ? ELSEWHERE_NS : SLOW_NS);

	while (!refill->box.queue_head && refill->box.returned_count == 0 && is_idle(refill) && (!refill->box.over || refill->in_flight > 0)) {
		if (!refill->elsewhere && refill->in_flight == 0)
			pthread_cond_wait(&refill->box.wake, &refill->box.lock);
		else if (pthread_cond_timedwait(&refill->box.wake, &refill->box.lock, &until) == ETIMEDOUT)
			return;
	}
}

/*
 * Take over what has been queued and what slots have come back, waiting for it when there is nothing else to do.
 * @return true once nothing more will come
 */
static bool take_queue(struct rung__refill *refill)
{
	struct rung__part *head;
	uint32_t returned;
	bool over;

	pthread_mutex_lock(&refill->box.lock);
	await_work(refill);
	returned = refill->box.returned_count;
	if (returned > 0)
		memcpy(refill->taken_back, refill->box.returned, returned * sizeof(*refill->box.returned));
	refill->box.returned_count = 0;
	head = refill->box.queue_head;
	if (head) {
		if (refill->issuing)
			refill->issuing_tail->next = head;
		else
			refill->issuing = head;
		refill->issuing_tail = refill->box.queue_tail;
		refill->box.queue_head = refill->box.queue_tail = NULL;
	}
	refill->stop = refill->box.closing;
	over = refill->box.over;
	pthread_mutex_unlock(&refill->box.lock);
	take_back_slots(refill, returned);
	return over;
}

/*
 * Every slot is full of rows for the device, or lost to a read that does not come back, and the device has not been told of some: a parcel
 * need not be full to be sent.
 */
static void send_what_is_held(struct rung__refill *refill)
{
	if (!refill->device || (!refill->issuing && !refill->elsewhere) || refill->free_count > 0 || rung__reads_expected(refill) > 0)
		return;
	while (refill->holding)
		rung__parcel_send(refill, refill->holding, false);
}

static void reap(struct rung__refill *refill)
{
	uint32_t group = RUNG__MIN(RUNG__MAX(refill->depth / 8, 1u), GROUP_MAX);
	uint32_t expected = rung__reads_expected(refill);   /* slow ones must not keep the others waiting, nor what is queued */
	uint32_t want = expected < group ? 1 : group;
	uint64_t timeout_ns = expected == 0 ? 0 : refill->elsewhere ? ELSEWHERE_NS : refill->tick_ns;
	int count = refill->ops->reap(refill->tier, want, timeout_ns, refill->fetched, refill->depth);
	uint32_t whole = 0;

	refill->now_ns = rung__now_ns();
	if (count < 0) {
		refill->broken = -count;
		rung__reads_give_up(refill);
		rung__parts_settle(refill);
		return;
	}
	refill->in_flight -= (uint32_t)count;
	for (int i = 0; i < count; i++) {   /* those that have to be sent again, before new reads take their places in the queue */
		struct rung__fetched *fetched = &refill->fetched[i];

		if (rung__read_is_whole(refill, fetched))
			refill->fetched[whole++] = *fetched;
		else
			rung__read_end(refill, fetched);
	}
	issue(refill);
	if (whole > 0 && refill->in_flight > 0 && !refill->broken) {
		int rc = refill->ops->reap(refill->tier, 0, 0, NULL, 0);   /* send, so that the device is busy while we copy */

		if (rc < 0)
			refill->broken = -rc;   /* the next wait for reads says so again and gives them up */
	}
	for (uint32_t i = 0; i < whole; i++) {
		if (i + 1 < whole)
			rung__read_prefetch(refill, refill->fetched[i + 1].token);
		rung__read_end(refill, &refill->fetched[i]);
	}
	rung__parts_settle(refill);
}

/* Every read that may be in flight is one that does not come back: those who wait for their turn wait in vain. */
static void fail_stuck(const struct rung__refill *refill)
{
	char text[RUNG__ERROR_BYTES];

	snprintf(text, sizeof(text), "%s: %u reads have not come back for %" PRIu64 " ms, and no other can be sent: %s",
	         refill->geometry.path, refill->in_flight, refill->timeout_ns / 1000000u, strerror(ETIMEDOUT));
	fail_issuing(refill, RUNG_E_IO, text);
	for (struct rung__part *part = refill->elsewhere; part; part = part->elsewhere_next) {
		if (refill->now_ns - part->elsewhere_ns > refill->timeout_ns)   /* nor do those rows come */
			rung__request_fail(part->request, RUNG_E_IO, text);
	}
}

/* Now and then: reads that are late, and processes that have died. */
static void tick(struct rung__refill *refill)
{
	uint64_t passed_ns = refill->now_ns - refill->ticked_ns;

	if (passed_ns < refill->tick_ns)
		return;
	refill->ticked_ns = refill->now_ns;
	if (rung__reads_look_late(refill, passed_ns > TICKS_MISSED_MAX * refill->tick_ns ? passed_ns - refill->tick_ns : 0) &&
	    refill->in_flight >= refill->depth)
		fail_stuck(refill);
	if (refill->cache) {
		rung__cache_lock(refill->cache);
		rung__cache_bury(refill->cache);
		rung__cache_unlock(refill->cache);
	}
	rung__parts_settle(refill);
}

static void run(struct rung__refill *refill)
{
	for (;;) {
		bool over = take_queue(refill);

		atomic_store_explicit(&refill->seen_ns, rung__now_ns(), memory_order_relaxed);
		atomic_store_explicit(&refill->seen_reads, refill->in_flight, memory_order_relaxed);
		if (refill->stop)
			cancel(refill);
		if (refill->broken)
			fail_gone(refill);
		issue(refill);
		rung__elsewhere_look(refill);
		send_what_is_held(refill);
		if (refill->in_flight > 0)
			reap(refill);
		else if (over && !refill->issuing && !refill->elsewhere)
			return;
		tick(refill);
	}
}

/* ---- start and stop ---- */

static void learn_geometry(struct rung__refill *refill)
{
	const struct rung__layout *layout = &refill->layout;
	const struct rung__geometry *geometry = &refill->geometry;

	refill->ops->geometry(refill->tier, &refill->geometry);   /* start may have gone from direct to buffered */
	refill->ops->engine(refill->tier, &refill->engine);
	refill->read_bytes_max = RUNG__MIN(refill->slot_bytes, RUNG__MAX(geometry->read_bytes_max, geometry->align));
	refill->gap_bytes = geometry->gap_bytes;
	refill->frames_exact = layout->row_stride % geometry->align == 0 && layout->data_offset % geometry->align == 0 &&
	                       refill->store->pool.frame_bytes % geometry->align == 0 &&
	                       rung__align_up(layout->row_bytes, geometry->align) <= refill->store->pool.frame_bytes;
}

/* Near the drive, and with it the threads that the engine starts. A node whose CPUs are all forbidden to us is no place. */
static void go_near_drive(struct rung__refill *refill)
{
	int32_t node = refill->store->shape.places.drives[refill->file_idx];

	pthread_setname_np(pthread_self(), "rung-refill");
	if (refill->store->topology && node >= 0 && rung__placement_run_on(refill->store->topology, (uint32_t)node) == 0)
		refill->cpu_node = node;
}

static int begin(struct rung__refill *refill)
{
	int rc;

	go_near_drive(refill);
	rc = refill->ops->start(refill->tier);   /* here: a ring belongs to the thread that made it */

	if (rc < 0)
		return rc;
	learn_geometry(refill);
	refill->cache = refill->store->cache;
	return 0;
}

static void *refill_main(void *ctx)
{
	struct rung__refill *refill = ctx;
	int rc = begin(refill);

	pthread_mutex_lock(&refill->box.lock);
	refill->started = true;
	refill->start_status = rc;
	if (rc < 0)
		snprintf(refill->start_error, sizeof(refill->start_error), "%s", rung_last_error());
	pthread_cond_signal(&refill->box.wake);
	pthread_mutex_unlock(&refill->box.lock);
	if (rc == 0) {
		run(refill);
		refill->ops->stop(refill->tier);
	}
	rung__end_reach(&refill->end);
	return NULL;
}

static int create_thread(struct rung__refill *refill)
{
	int rc = rung__thread_start(&refill->thread, refill_main, refill);

	return rc == 0 ? 0 : rung__fail(RUNG_E_NOMEM, "store: the refill thread could not be started: %s", strerror(rc));
}

static int await_start(struct rung__refill *refill)
{
	pthread_mutex_lock(&refill->box.lock);
	while (!refill->started)
		pthread_cond_wait(&refill->box.wake, &refill->box.lock);
	pthread_mutex_unlock(&refill->box.lock);
	if (refill->start_status == 0)
		return 0;
	pthread_join(refill->thread, NULL);
	return rung__fail_text(refill->start_status, refill->start_error);
}

static void free_refill(struct rung__refill *refill)
{
	if (refill->tier)
		refill->ops->close(refill->tier);
	rung__end_fini(&refill->end);
	rung__refill_box_fini(&refill->box);
	rung__free(refill->taken_back);
	rung__free(refill->parcels);
	rung__free(refill->slot_next);
	rung__free(refill->fetched);
	rung__free(refill->free_tokens);
	rung__free(refill->reads);
	rung__free(refill);
}

static int take_memory(struct rung__refill *refill)
{
	uint64_t count = refill->slot_count;

	refill->reads = rung__zalloc_array(count, sizeof(*refill->reads));
	refill->free_tokens = rung__malloc_array(count, sizeof(*refill->free_tokens));
	refill->fetched = rung__malloc_array(refill->depth, sizeof(*refill->fetched));
	refill->slot_next = rung__malloc_array(count, sizeof(*refill->slot_next));
	refill->parcels = rung__malloc_array(count, sizeof(*refill->parcels));
	refill->taken_back = rung__malloc_array(count, sizeof(*refill->taken_back));
	refill->box.returned = rung__malloc_array(count, sizeof(*refill->box.returned));
	if (!refill->reads || !refill->free_tokens || !refill->fetched || !refill->slot_next || !refill->parcels || !refill->taken_back ||
	    !refill->box.returned)
		return rung__fail(RUNG_E_NOMEM, "store: no memory for %u staging slots", refill->slot_count);
	for (uint32_t i = 0; i < refill->slot_count; i++)
		refill->free_tokens[refill->free_count++] = refill->slot_count - 1 - i;
	return 0;
}

int rung__refill_start(struct rung_store *store, uint32_t file_idx, const struct rung__tier_ops *ops, const struct rung__tier_args *args)
{
	struct rung__refill *refill = rung__zalloc(sizeof(*refill));
	struct rung__tier_args tier_args = *args;
	uint32_t timeout_ms = store->opts.read_timeout_ms ? store->opts.read_timeout_ms : TIMEOUT_DEFAULT_MS;
	int rc;

	if (!refill)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	if (!ops) {
		rung__free(refill);
		return rung__fail(RUNG_E_NOSUP, "store: rows in files need io/, which this build leaves "
		                  "out; build without RUNG_CORE_ONLY");
	}
	if (!rung__tier_ops_valid(ops) || ops->kind != RUNG__FETCHABLE) {
		rung__free(refill);
		return rung__fail(RUNG_E_INVAL, "store: the fetchable tier's table of functions is not complete");
	}
	refill->store = store;
	refill->file_idx = file_idx;
	refill->cpu_node = -1;
	refill->ops = ops;
	refill->layout = store->shape.layout;
	refill->slot_count = (uint32_t)store->shape.slot_count;
	refill->slot_bytes = (uint32_t)store->shape.slot_bytes;
	refill->slots_at = (uint64_t)file_idx * refill->slot_count * refill->slot_bytes;
	refill->depth = args->queue_depth;
	refill->merge = !store->opts.no_merge;
	refill->device = store->device != NULL;
	refill->timeout_ns = timeout_ms * 1000000ull;
	refill->tick_ns = RUNG__MIN(TICK_NS_MAX, refill->timeout_ns / 4);
	rung__refill_box_init(&refill->box);
	rung__end_init(&refill->end);
	rc = take_memory(refill);
	if (rc < 0)
		goto free_all;
	tier_args.pool = store->pool.base;
	tier_args.pool_bytes = store->pool.bytes;
	tier_args.probe_at = refill->slots_at;
	tier_args.probe_bytes = (uint64_t)refill->slot_count * refill->slot_bytes;
	tier_args.token_count = refill->slot_count;
	rc = ops->open(&tier_args, &refill->tier);
	if (rc < 0)
		goto free_all;
	rc = create_thread(refill);
	if (rc < 0)
		goto free_all;
	rc = await_start(refill);
	if (rc < 0)
		goto free_all;
	store->refills[file_idx] = refill;
	store->refill_boxes[file_idx] = &refill->box;
	return 0;
free_all:
	free_refill(refill);
	return rc;
}

int rung__refill_node(const struct rung__refill *refill)
{
	return refill->cpu_node;
}

/*
 * A thread that waits for reads is at the top of its loop each tick. One that has not been there
 * for some ticks waits for something else.
 */
static int not_ended(const struct rung__refill *refill, uint64_t waited_ns)
{
	const uint64_t blocked_ns = rung__now_ns() -
		atomic_load_explicit(&refill->seen_ns, memory_order_relaxed);
	const uint32_t reads = atomic_load_explicit(&refill->seen_reads, memory_order_relaxed);

	if (reads > 0 && blocked_ns < TICKS_MISSED_MAX * TICK_NS_MAX)
		return rung__fail(RUNG_E_TIMEDOUT, "%s: %u reads in flight have not come back for "
		                  "%" PRIu64 " ms: the device is stuck; their memory is left",
		                  refill->geometry.path, reads, waited_ns / 1000000u);
	return rung__fail(RUNG_E_TIMEDOUT, "%s: the refill thread has been blocked for %" PRIu64
	                  " ms: a call to the drive does not return, or a process that shares the "
	                  "store is stopped; the store's memory is left", refill->geometry.path,
	                  blocked_ns / 1000000u);
}

int rung__refill_stop(struct rung__refill *refill)
{
	struct rung_store *store = refill->store;
	const uint64_t wait_ns = refill->timeout_ns * STOP_TIMEOUTS + STOP_SPARE_NS;

	pthread_mutex_lock(&refill->box.lock);
	refill->box.over = true;
	pthread_cond_signal(&refill->box.wake);
	pthread_mutex_unlock(&refill->box.lock);
	if (!rung__end_join(&refill->end, refill->thread, wait_ns))
		return not_ended(refill, wait_ns);
	if (refill->lost)   /* the kernel may still write to the pool: it stays */
		store->reads_lost = true;
	free_refill(refill);
	return 0;
}

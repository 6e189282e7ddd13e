/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The refill thread: reads the cold rows of queued requests into staging slots and copies them to their output rows.
 *
 * The device's queue is never drained between requests: as reads end, free slots take the next reads of the oldest request, then of
 * the one behind it, and are sent before the rows that came are copied: the device works while we do. That is what the slots beyond
 * the queue depth are for. Reads are taken back in groups, which costs fewer system calls and leaves the queue nearly full.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "refill_internal.h"
#include "thread.h"

#define TICK_NS 100000000ull   /* how long a wait for reads lasts at most before stop is looked at */
#define STOP_WAIT_S 60         /* a device that has not answered for so long is given up */
#define GROUP_MAX 16u          /* measured best: depth / 8, at most 16; half the depth is as slow as a barrier */

/* Hand free slots to the requests that wait, oldest first. */
static void issue(struct rung__refill *refill)
{
	while (refill->issuing) {
		struct rung_request *request = refill->issuing;
		uint32_t slot_idx;

		if (request->status < 0) {   /* failed already: no more of it is read, and it needs no slot to end */
			request->cursor = request->misses.count;
			refill->issuing = request->next;
			rung__read_over(refill, request);
			continue;
		}
		if (refill->in_flight >= refill->depth || refill->free_count == 0)
			return;
		slot_idx = refill->free_slots[--refill->free_count];
		rung__read_begin(refill, slot_idx, request);
		if (request->cursor == request->misses.count)
			refill->issuing = request->next;   /* before a failing send can complete it */
		rung__read_send(refill, slot_idx);
	}
}

static void cancel_issuing(struct rung__refill *refill)
{
	for (struct rung_request *request = refill->issuing; request; request = request->next) {
		if (request->status == 0) {
			request->status = RUNG_E_CANCELED;
			snprintf(request->error, sizeof(request->error), "the store was closed while the request was in flight");
		}
	}
}

static void fail_issuing(struct rung__refill *refill)
{
	for (struct rung_request *request = refill->issuing; request; request = request->next)
		rung__read_fail_gone(refill, request);
}

/* Slots that a device has copied from are free again. */
static void take_back_slots(struct rung__refill *refill, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t slot_idx = refill->taken_back[i]; slot_idx != RUNG__SLOT_NONE; slot_idx = refill->slot_next[slot_idx])
			refill->free_slots[refill->free_count++] = slot_idx;
	}
}

/* Nothing can be done but wait: no read is in flight, and no request waits for a slot that is there. */
static bool is_idle(const struct rung__refill *refill)
{
	return refill->in_flight == 0 && (!refill->issuing || (refill->free_count == 0 && refill->device && !refill->broken));
}

/* The store is being closed, and no hand-off thread is left that could bring something. Under store->lock. */
static bool is_over(const struct rung_store *store)
{
	return store->stop && !store->handoff_runs;
}

/*
 * Take over what has been queued and what slots have come back, waiting for it when there is nothing else to do.
 * @return true once nothing more will come
 */
static bool take_queue(struct rung__refill *refill)
{
	struct rung_store *store = refill->store;
	struct rung_request *head;
	uint32_t returned;
	bool over;

	pthread_mutex_lock(&store->lock);
	while (!store->queue_head && store->returned_count == 0 && is_idle(refill) && !is_over(store))
		pthread_cond_wait(&store->queued, &store->lock);
	returned = store->returned_count;
	if (returned > 0)
		memcpy(refill->taken_back, store->returned, returned * sizeof(*store->returned));
	store->returned_count = 0;
	head = store->queue_head;
	if (head) {
		if (refill->issuing)
			refill->issuing_tail->next = head;
		else
			refill->issuing = head;
		refill->issuing_tail = store->queue_tail;
		store->queue_head = store->queue_tail = NULL;
	}
	refill->stop = store->stop;
	over = is_over(store);
	pthread_mutex_unlock(&store->lock);
	take_back_slots(refill, returned);
	return over;
}

/* Every slot is full of rows for the device, and it has not been told of some: a parcel need not be full to be sent. */
static void send_what_is_held(struct rung__refill *refill)
{
	struct rung_store *store = refill->store;

	if (!refill->device || !refill->issuing || refill->free_count > 0 || refill->in_flight > 0)
		return;
	for (uint32_t i = 0; i < store->request_count; i++) {
		if (store->requests[i].held_count > 0)
			rung__parcel_send(refill, &store->requests[i], false);
	}
}

static void reap(struct rung__refill *refill)
{
	uint32_t group = RUNG__MIN(RUNG__MAX(refill->depth / 8, 1u), GROUP_MAX);
	uint32_t want = refill->in_flight < group ? 1 : group;
	int count = refill->ops->reap(refill->tier, want, TICK_NS, refill->fetched, refill->depth);
	uint32_t whole = 0;

	if (count < 0) {
		refill->broken = -count;
		rung__reads_give_up(refill);
		return;
	}
	refill->in_flight -= (uint32_t)count;
	for (int i = 0; i < count; i++) {   /* those that have to be sent again, before new reads take their places in the queue */
		struct rung__fetched *fetched = &refill->fetched[i];

		if (rung__read_is_whole(refill, fetched))
			refill->fetched[whole++] = *fetched;
		else
			rung__read_end(refill, fetched->token, fetched->result);
	}
	issue(refill);
	if (whole > 0 && refill->in_flight > 0 && !refill->broken) {
		int rc = refill->ops->reap(refill->tier, 0, 0, NULL, 0);   /* send, so that the device is busy while we copy */

		if (rc < 0)
			refill->broken = -rc;   /* the next wait for reads says so again and gives them up */
	}
	for (uint32_t i = 0; i < whole; i++)
		rung__read_end(refill, refill->fetched[i].token, refill->fetched[i].result);
}

static void run(struct rung__refill *refill)
{
	for (;;) {
		bool over = take_queue(refill);

		if (refill->stop)
			cancel_issuing(refill);
		if (refill->broken)
			fail_issuing(refill);
		issue(refill);
		send_what_is_held(refill);
		if (refill->in_flight > 0)
			reap(refill);
		else if (over && !refill->issuing)
			return;
	}
}

/* ---- start and stop ---- */

static void *refill_main(void *ctx)
{
	struct rung__refill *refill = ctx;
	int rc = refill->ops->start(refill->tier);   /* here: a ring belongs to the thread that made it */

	if (rc == 0) {
		refill->ops->geometry(refill->tier, &refill->geometry);   /* start may have gone from direct to buffered */
		refill->ops->engine(refill->tier, &refill->engine);
	}
	pthread_mutex_lock(&refill->start_lock);
	refill->started = true;
	refill->start_status = rc;
	if (rc < 0)
		snprintf(refill->start_error, sizeof(refill->start_error), "%s", rung_last_error());
	pthread_cond_signal(&refill->start_cond);
	pthread_mutex_unlock(&refill->start_lock);
	if (rc == 0) {
		run(refill);
		refill->ops->stop(refill->tier);
	}
	return NULL;
}

static int create_thread(struct rung__refill *refill)
{
	int rc = rung__thread_start(&refill->thread, refill_main, refill);

	return rc == 0 ? 0 : rung__fail(RUNG_E_NOMEM, "store: the refill thread could not be started: %s", strerror(rc));
}

static int await_start(struct rung__refill *refill)
{
	pthread_mutex_lock(&refill->start_lock);
	while (!refill->started)
		pthread_cond_wait(&refill->start_cond, &refill->start_lock);
	pthread_mutex_unlock(&refill->start_lock);
	if (refill->start_status == 0)
		return 0;
	pthread_join(refill->thread, NULL);
	return rung__fail_text(refill->start_status, refill->start_error);
}

static void free_refill(struct rung__refill *refill)
{
	if (refill->tier)
		refill->ops->close(refill->tier);
	pthread_cond_destroy(&refill->start_cond);
	pthread_mutex_destroy(&refill->start_lock);
	if (refill->device && refill->slots)
		refill->store->device_ops->unpin(refill->store->device, refill->slots);
	rung__free(refill->store->returned);
	refill->store->returned = NULL;
	rung__unmap_pages(refill->slots, (uint64_t)refill->slot_count * refill->slot_bytes);
	rung__free(refill->taken_back);
	rung__free(refill->parcels);
	rung__free(refill->slot_next);
	rung__free(refill->fetched);
	rung__free(refill->free_slots);
	rung__free(refill->reads);
	rung__free(refill);
}

static int init_device(struct rung__refill *refill)
{
	struct rung_store *store = refill->store;
	uint64_t count = refill->slot_count;

	refill->slot_next = rung__malloc_array(count, sizeof(*refill->slot_next));
	refill->parcels = rung__malloc_array(count, sizeof(*refill->parcels));
	refill->taken_back = rung__malloc_array(count, sizeof(*refill->taken_back));
	store->returned = rung__malloc_array(count, sizeof(*store->returned));
	if (!refill->slot_next || !refill->parcels || !refill->taken_back || !store->returned)
		return rung__fail(RUNG_E_NOMEM, "store: no memory for %u staging slots", refill->slot_count);
	return store->device_ops->pin(store->device, "staging slots", refill->slots, count * refill->slot_bytes);
}

static int init_slots(struct rung__refill *refill)
{
	refill->slots = rung__map_pages((uint64_t)refill->slot_count * refill->slot_bytes);
	refill->reads = rung__zalloc_array(refill->slot_count, sizeof(*refill->reads));
	refill->free_slots = rung__malloc_array(refill->slot_count, sizeof(*refill->free_slots));
	refill->fetched = rung__malloc_array(refill->depth, sizeof(*refill->fetched));
	if (!refill->slots || !refill->reads || !refill->free_slots || !refill->fetched)
		return rung__fail(RUNG_E_NOMEM, "store: no memory for %u staging slots of %u bytes", refill->slot_count, refill->slot_bytes);
	for (uint32_t i = 0; i < refill->slot_count; i++)
		refill->free_slots[refill->free_count++] = refill->slot_count - 1 - i;
	return refill->device ? init_device(refill) : 0;
}

int rung__refill_start(struct rung_store *store, const struct rung__tier_ops *ops, const struct rung__tier_args *args)
{
	struct rung__refill *refill = rung__zalloc(sizeof(*refill));
	struct rung__tier_args tier_args = *args;
	int rc;

	if (!refill)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	if (!rung__tier_ops_valid(ops) || ops->kind != RUNG__FETCHABLE) {
		rung__free(refill);
		return rung__fail(RUNG_E_INVAL, "store: the fetchable tier's table of functions is not complete");
	}
	refill->store = store;
	refill->ops = ops;
	refill->slot_count = (uint32_t)store->shape.slot_count;
	refill->slot_bytes = (uint32_t)store->shape.slot_bytes;
	refill->depth = args->queue_depth;
	refill->merge = !store->opts.no_merge;
	refill->device = store->device != NULL;
	pthread_mutex_init(&refill->start_lock, NULL);
	pthread_cond_init(&refill->start_cond, NULL);
	rc = init_slots(refill);
	if (rc < 0)
		goto free_all;
	tier_args.pool = refill->slots;
	tier_args.pool_bytes = (uint64_t)refill->slot_count * refill->slot_bytes;
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
	store->refill = refill;
	return 0;
free_all:
	free_refill(refill);
	return rc;
}

int rung__refill_stop(struct rung__refill *refill)
{
	struct timespec until;
	int rc;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += STOP_WAIT_S;
	rc = pthread_timedjoin_np(refill->thread, NULL, &until);
	if (rc != 0)
		return rung__fail(RUNG_E_TIMEDOUT, "%s: reads in flight have not come back for %d s: the device is stuck; their memory is left",
		                  refill->geometry.path, STOP_WAIT_S);
	if (refill->broken)   /* reads given up may still be written by the kernel: their memory stays */
		refill->slots = NULL;
	free_refill(refill);
	return 0;
}

void rung__refill_engine(const struct rung__refill *refill, struct rung__engine_state *state_out, uint32_t *depth_out, uint32_t *align_out)
{
	*state_out = refill->engine;
	*depth_out = refill->depth;
	*align_out = refill->geometry.align;
}

const unsigned char *rung__refill_slots(const struct rung__refill *refill, uint64_t *offset_align_out)
{
	const struct rung__geometry *geometry = &refill->geometry;
	uint64_t ored = refill->slot_bytes | geometry->data_offset | geometry->row_stride | geometry->align;

	*offset_align_out = ored & (0 - ored);   /* rows begin at multiples of it in the file, and reads and slots too */
	return refill->slots;
}

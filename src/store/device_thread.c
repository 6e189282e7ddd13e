/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device thread: between a device and refill.
 *
 *     caller: gather on its stream -> [gathered?] - misses -> sorter -> refill -+
 *                                         \- none -> done                       |
 *                                                                              |
 *     done <- [scattered?] <- scatter on the device's stream <- slot batches -+
 *                 \- slots that were copied from -> refill
 *
 * There are two kernels with refill between them. A *slot batch* is a set of rows of one request
 * that are in slots. A separate thread sorts misses (misses.c), because the copies of all requests
 * wait for this one. This thread polls all gathers and scatters in flight: a wait for one of them
 * could last forever if requests depend on each other through the caller's streams. After open, it
 * alone queues rung's own work on the device; refill does not call the device. No kernel waits for
 * the host and no call waits for the device, so neither a single hardware queue nor blocking
 * launches can deadlock.
 *
 * A poll loads a word that the kernel stores last (kernels/finish.h), without a call to CUDA. While
 * something is in flight the thread polls every 20 us, and less often the longer nothing completes,
 * but at least every 100 us; otherwise it sleeps until it is woken. A kernel that never runs stores
 * no word, so each request in flight is also queried every RUNG__CHECK_NS.
 *
 * For ids in plain host memory the misses are listed at submission (known.c) and go to the sorter
 * at once. Their slot batches wait here until the gather has run, because earlier work on the
 * stream can still be using the output.
 *
 * If no row is cold there is no thread, and a request has only a word and an event. The caller that
 * polls or waits detects its end (rung__device_thread_complete()), rung_request_wait_stream() makes
 * other streams wait for the event, and a request that is put early is reclaimed when a later one
 * needs it. The host never waits.
 *
 * Errors. A failure of a gather or a scatter fails its request. A device that has broken down
 * reports the same error for all, so all fail and none hangs. Ids out of range fail a request when
 * its gather has run; its misses are then not read.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "store/store.h"
#include "base/thread.h"

/* timer slack in ns: by default the kernel adds 50 us, which is more than the shortest poll
 * interval */
#define SLACK_NS    2000
#define STOP_WAIT_S 60 /* a device that has not answered for this time is abandoned */

struct rung__device_thread {
	struct rung_store *store;
	struct rung__device_thread_box *box; /* the store's mailbox, guarded by store->lock */
	const struct rung__device_ops *ops;
	struct rung__device *device;
	struct rung_request **active; /* [request_count], in order of submission */
	uint32_t active_count;
	bool polling;      /* work is in flight on the device, and only polling detects its end */
	uint64_t now_ns;   /* start of this round of polls */
	uint64_t found_ns; /* time of the last poll that found a completion */
	bool stop;         /* copy of store->stop: gathers that end after it was set get no reads */
	char error[RUNG__ERROR_BYTES]; /* message of the last scatter that failed */

	pthread_t thread;
	struct rung__end end;
};

static struct rung__slot_batch *pop(struct rung__queue *slot_batches)
{
	return RUNG__ENTRY(rung__queue_pop(slot_batches), struct rung__slot_batch, link);
}

/* ---- the thread ---- */

/* The mailbox of the refill thread that sent it. A request's parts are numbered as the
 * mailboxes are. */
static struct rung__refill_box *box_of(const struct rung__device_thread *h,
                                       const struct rung__slot_batch *slot_batch)
{
	return h->store->refill_boxes[slot_batch->part - slot_batch->part->request->parts];
}

/* Remove a request from the list and complete it. The list keeps its order. */
static void end(struct rung__device_thread *h, uint32_t active_idx)
{
	struct rung_request *request = h->active[active_idx];

	memmove(&h->active[active_idx], &h->active[active_idx + 1],
	        (--h->active_count - active_idx) * sizeof(*h->active));
	rung__request_finish(request, request->status);
}

/* Allow refill to copy the request's rows to the output: the work before the gather on the stream
 * has finished. */
static void may_copy(struct rung__device_thread *h, struct rung_request *request)
{
	atomic_store_explicit(&request->may_copy, true, memory_order_relaxed);
	for (uint32_t f = 0; f < h->store->refill_count; f++)
		rung__refill_may_copy(h->store->refill_boxes[f]);
}

/* Check whether a gather has run, and pass its misses on. @return true when the request has
 * ended, and has left the list */
static bool poll_gather(struct rung__device_thread *h, uint32_t active_idx)
{
	struct rung_request *request = h->active[active_idx];
	struct rung__gather_result result;
	int rc = h->ops->gathered(h->device, rung__request_index(request),
	                          rung__check_is_due(request, h->now_ns), &result);

	if (rc == 0) {
		h->polling = true;
		return false;
	}
	h->found_ns = h->now_ns;
	if (rc < 0)
		rung__request_fail(request, rc, rung_last_error());
	else
		rung__gather_result_accept(request, &result);
	if (request->status == 0 && request->misses.count > 0 && h->stop)
		rung__request_fail(request, RUNG_E_CANCELED,
		                   "the store was closed while the request was in flight");
	request->reading = true;
	/* refill has the misses already, so the request ends with its last slot batch, even after a
	 * failure */
	if (request->known && request->misses.count > 0) {
		may_copy(h, request);
		return false;
	}
	if (request->status < 0 || request->misses.count == 0) {
		request->read_through = true;
		end(h, active_idx);
		return true;
	}
	rung__sorter_accept(h->store->sorter, request);
	return false;
}

/* Unpin the frames of a slot batch. Adjacent entries with the same position in the pool copy one
 * row to several output rows; refill has pinned its frame once for all of them. The cache's lock is
 * acquired only if a row is in a frame. */
static void unpin_frames(struct rung__device_thread *h, const struct rung__slot_batch *slot_batch)
{
	const struct rung__pool *pool = &h->store->pool;
	const uint64_t *placements = slot_batch->part->request->misses.ranks_tmp;
	bool locked = false;

	for (uint64_t i = slot_batch->first; i < slot_batch->first + slot_batch->count; i++) {
		if (placements[i] < pool->frames_at ||
		    (i > slot_batch->first && placements[i] == placements[i - 1]))
			continue;
		if (!locked)
			rung__cache_lock(h->store->cache);
		locked = true;
		rung__cache_unpin(h->store->cache, (uint32_t)((placements[i] - pool->frames_at) /
		                                              pool->frame_bytes));
	}
	if (locked)
		rung__cache_unlock(h->store->cache);
}

/* Return the memory of a slot batch that has been copied, or is skipped. */
static void release(struct rung__device_thread *h, const struct rung__slot_batch *slot_batch)
{
	unpin_frames(h, slot_batch);
	if (slot_batch->slot_head != RUNG__SLOT_NONE)
		rung__refill_return(box_of(h, slot_batch), slot_batch->slot_head);
}

/* Remember the failure. poll_reads() fails the request with it when the last of its slot batches
 * has been released. */
static void scatter_failed(struct rung__device_thread *h, struct rung_request *request, int rc)
{
	if (request->device_status == 0)
		request->device_status = rc;
	snprintf(h->error, sizeof(h->error), "%s", rung_last_error());
}

/* The largest power of two that divides the positions of all rows in the pool, which bounds the
 * width of the pieces that the kernel copies. */
static uint64_t places_align(const struct rung_store *store)
{
	const struct rung__layout *layout = &store->shape.layout;
	/* the lowest set bit of all terms; slots follow each other from offset 0, and a read
	 * begins at a sector */
	uint64_t ored = store->shape.slot_bytes | layout->data_offset | layout->row_stride |
	                store->sector_bytes | store->pool.frames_at | store->pool.frame_bytes;

	return ored & (0 - ored);
}

/* Queue the scatter of a slot batch on the device's stream, as number `idx` of the request. */
static int launch(struct rung__device_thread *h, const struct rung_request *request,
                  const struct rung__slot_batch *slot_batch, uint32_t idx)
{
	struct rung__scatter scatter = {
		.first = slot_batch->first,
		.count = slot_batch->count,
		.slots = h->store->pool.base,
		.offset_align = places_align(h->store),
		.out = request->out,
		.out_stride = request->out_stride,
		.idx = idx,
	};
	int rc = h->ops->scatter(h->device, rung__request_index(request), &scatter);

	if (rc == 0)
		rung__counter_add(&rung__counters(h->store)->scatters, 1);
	return rc;
}

/* The request has failed, so its remaining rows need not be copied. */
static bool is_lost(const struct rung_request *request)
{
	return request->device_status < 0 || (request->read_through && request->status < 0);
}

/* Queue waiting slot batches on the device while it accepts more; slot batches of a failed request
 * are skipped. */
static void launch_slot_batches(struct rung__device_thread *h, struct rung_request *request)
{
	struct rung__slot_batch *slot_batch;

	while (request->scatter_count < RUNG__SCATTERS_MAX &&
	       (slot_batch = pop(&request->waiting)) != NULL) {
		uint32_t idx =
			(request->scatter_first + request->scatter_count) % RUNG__SCATTERS_MAX;
		int rc = 0;

		if (slot_batch->count > 0 && !is_lost(request)) {
			rc = launch(h, request, slot_batch, idx);
			if (rc == 0) {
				assert(!request->scatters[idx]);
				request->scatters[idx] = slot_batch;
				request->scatter_count++;
				continue;
			}
			scatter_failed(h, request, rc);
		}
		release(h, slot_batch);
	}
}

/* Release the slot batches whose scatters have run. They end in order, because they are on one
 * stream. */
static void poll_scatters(struct rung__device_thread *h, struct rung_request *request)
{
	while (request->scatter_count > 0) {
		uint32_t idx = request->scatter_first;
		int rc = h->ops->scattered(h->device, rung__request_index(request), idx,
		                           rung__check_is_due(request, h->now_ns));

		if (rc == 0)
			return;
		h->found_ns = h->now_ns;
		if (rc < 0)
			scatter_failed(h, request, rc);
		request->scatter_first = (idx + 1) % RUNG__SCATTERS_MAX;
		request->scatter_count--;
		assert(request->scatters[idx]);
		release(h, request->scatters[idx]);
		request->scatters[idx] = NULL;
	}
}

/* Wake the callers of rung_request_wait_stream(): the request's last scatter is on the stream, so
 * other work can be ordered after it. */
static void mark_launched(struct rung_request *request)
{
	if (atomic_load_explicit(&request->state, memory_order_relaxed) != RUNG__REQUEST_BUSY)
		return;
	pthread_mutex_lock(&request->lock);
	atomic_store_explicit(&request->state, RUNG__REQUEST_LAUNCHED, memory_order_release);
	pthread_cond_broadcast(&request->done);
	pthread_mutex_unlock(&request->lock);
}

/* Advance a request whose gather has run: from slot batches to scatters to the end. */
static void poll_reads(struct rung__device_thread *h, uint32_t active_idx)
{
	struct rung_request *request = h->active[active_idx];

	/* first, so that the scatters that have run make room for new ones */
	poll_scatters(h, request);
	launch_slot_batches(h, request);
	if (request->scatter_count > 0)
		h->polling = true;
	if (!request->read_through || !rung__queue_is_empty(&request->waiting))
		return;
	if (request->scatter_count > 0) {
		/* callers of a failed request wait for DONE, and then get its failure */
		if (!is_lost(request))
			mark_launched(request);
		return;
	}
	if (request->device_status < 0)
		rung__request_fail(request, request->device_status, h->error);
	end(h, active_idx);
}

/* Accept the requests whose gathers were submitted. Under store->lock. */
static void drain_inbox(struct rung__device_thread *h)
{
	struct rung_request *request;

	while ((request = RUNG__ENTRY(rung__queue_pop(&h->box->inbox), struct rung_request,
	                              link)) != NULL) {
		assert(h->active_count < h->store->request_count);
		h->active[h->active_count++] = request;
	}
}

/* Sort slot batches by request, and count the parts that have sent their last one. Under
 * store->lock. */
static void accept_slot_batches(struct rung__device_thread *h)
{
	struct rung__slot_batch *slot_batch;

	while ((slot_batch = pop(&h->box->slot_batches)) != NULL) {
		struct rung_request *request = slot_batch->part->request;

		if (slot_batch->last && --request->lasts_left == 0)
			request->read_through = true;
		rung__queue_push(&request->waiting, &slot_batch->link);
	}
}

static bool has_work(const struct rung__device_thread_box *box)
{
	return !rung__queue_is_empty(&box->inbox) || !rung__queue_is_empty(&box->slot_batches);
}

/* Sleep until there is something new, or until the next poll is due. Without work in flight on the
 * device only the mailbox can bring something. */
static void accept_work(struct rung__device_thread *h)
{
	struct timespec until = rung__deadline(rung__poll_ns(h->now_ns - h->found_ns));
	struct rung_store *store = h->store;
	bool work;

	pthread_mutex_lock(&store->lock);
	while (!has_work(h->box) && (h->stop || !store->stop)) {
		if (h->polling) {
			if (pthread_cond_timedwait(&h->box->work, &store->lock, &until) ==
			    ETIMEDOUT)
				break;
		} else {
			if (h->stop && h->active_count == 0)
				break;
			pthread_cond_wait(&h->box->work, &store->lock);
		}
	}
	h->stop = store->stop;
	work = has_work(h->box);
	drain_inbox(h);
	accept_slot_batches(h);
	pthread_mutex_unlock(&store->lock);
	h->now_ns = rung__now_ns();
	if (work)
		h->found_ns = h->now_ns;
}

static void *device_thread_main(void *ctx)
{
	struct rung__device_thread *h = ctx;

	prctl(PR_SET_TIMERSLACK, SLACK_NS);
	/* after a failure the next calls fail as well, and report the failure */
	h->ops->adopt(h->device);
	do {
		accept_work(h);
		h->polling = false;
		/* from the end: a request that ends moves only those that were polled already */
		for (uint32_t i = h->active_count; i-- > 0;) {
			if (!h->active[i]->reading && poll_gather(h, i))
				continue;
			if (h->active[i]->reading)
				poll_reads(h, i);
		}
	} while (!h->stop || h->active_count > 0);
	rung__end_reach(&h->end);
	return NULL;
}

/* ---- from the other threads ---- */

/* GPU memory ends with the process that allocated it. The creator shuts down its end of the socket
 * pair when it closes, and the kernel does when it dies (share.h). */
static int check_alive(const struct rung_store *store)
{
	struct pollfd other = { .fd = store->alive_fd, .events = POLLIN };

	if (store->alive_fd < 0 || poll(&other, 1, 0) <= 0)
		return 0;
	return rung__fail(RUNG_E_NODEV, "gather: the process that shared the store has closed it "
	                                "or has ended, and its GPU memory is gone; "
	                                "attach again once the store is shared again");
}

int rung__device_thread_submit(struct rung_request *request, const struct rung_ids *ids, void *out,
                               size_t out_stride, struct CUstream_st *stream)
{
	struct rung_store *store = request->store;
	struct rung_ids ranks;
	/* copied, because the device thread may write the count as soon as it has the request */
	uint64_t misses;
	int rc = check_alive(store);

	request->id_dtype = ids->dtype;
	request->misses.count = 0;
	if (rc == 0 && ids->count > 0)
		rc = store->device_ops->check_ids(store->device, ids->data);
	if (rc < 0)
		return rc;
	request->known = rc == 1;
	if (request->known) {
		rc = rung__known_list(request, ids, &ranks);
		ids = &ranks;
	}
	if (rc == 0)
		rc = store->device_ops->gather(store->device, rung__request_index(request), ids,
		                               request->known, out, out_stride, stream);
	if (rc < 0)
		return rc;
	atomic_store_explicit(&request->may_copy, false, memory_order_relaxed);
	request->reading = request->read_through = false;
	request->device_status = 0;
	request->scatter_first = request->scatter_count = 0;
	misses = request->misses.count;
	atomic_store_explicit(&request->state, RUNG__REQUEST_BUSY, memory_order_relaxed);
	if (!store->device_thread)
		return 0;
	rung__device_thread_begin(store, request);
	/* the request cannot end before this: it is in flight until its misses have been read */
	if (request->known && misses > 0)
		rung__sorter_accept(store->sorter, request);
	return 0;
}

/* Called after the thread has ended, or if it was never started. */
static void free_device_thread(struct rung__device_thread *h)
{
	rung__end_fini(&h->end);
	pthread_cond_destroy(&h->box->work);
	rung__free(h->active);
	rung__free(h);
}

int rung__device_thread_start(struct rung_store *store)
{
	struct rung__device_thread *h = rung__zalloc(sizeof(*h));
	int rc;

	if (!h)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	h->store = store;
	h->box = &store->device_thread_box;
	h->ops = store->device_ops;
	h->device = store->device;
	rung__cond_init(&h->box->work);
	rung__end_init(&h->end);
	h->active = rung__malloc_array(store->request_count, sizeof(struct rung_request *));
	if (!h->active) {
		free_device_thread(h);
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	}
	rc = rung__thread_start(&h->thread, device_thread_main, h);
	if (rc != 0) {
		free_device_thread(h);
		return rung__fail_thread(rc, "store: the device thread");
	}
	store->device_thread = h;
	return 0;
}

int rung__device_thread_stop(struct rung__device_thread *h)
{
	pthread_mutex_lock(&h->store->lock);
	pthread_cond_signal(&h->box->work);
	pthread_mutex_unlock(&h->store->lock);
	/* after a timeout the thread still runs, so nothing that it uses is freed */
	if (!rung__end_join(&h->end, h->thread, STOP_WAIT_S * 1000000000ull)) {
		return rung__fail(RUNG_E_TIMEDOUT,
		                  "device %s: requests in flight have not ended for %d s: "
		                  "the GPU or a drive is stuck; the store's memory is not freed",
		                  h->ops->name, STOP_WAIT_S);
	}
	free_device_thread(h);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: submit, poll, wait, put, and the gather that waits by itself. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "radix.h"
#include "store_internal.h"

static unsigned latency_bucket(uint64_t ns)
{
	uint64_t us = ns / 1000;
	unsigned octave;

	if (us < 2)
		return (unsigned)us;   /* [1,1.41) and below; [1.41,2) cannot be told apart at whole microseconds */
	octave = 63u - (unsigned)__builtin_clzll(us);
	/* second half of the octave from 2^(k+1/2) on: 181/128 = sqrt(2) to 4 digits */
	octave = octave * 2 + ((us << 7) >> octave >= 181);
	return RUNG__MIN(octave, RUNG_LATENCY_BUCKETS - 1u);
}

void rung__request_finish(struct rung_request *request, int status)
{
	struct rung__counters *counters = &request->store->counters;

	rung__count(&counters->latency[latency_bucket(rung__now_ns() - request->submit_ns)], 1);
	if (status < 0)
		rung__count(&counters->request_errors, 1);
	pthread_mutex_lock(&request->lock);
	request->status = status;
	atomic_store_explicit(&request->state, RUNG__REQUEST_DONE, memory_order_release);
	pthread_cond_broadcast(&request->done);
	pthread_mutex_unlock(&request->lock);
}

int rung_request_poll(const struct rung_request *request)
{
	return atomic_load_explicit(&request->state, memory_order_acquire) == RUNG__REQUEST_DONE;
}

static struct timespec deadline(int64_t timeout_ns)
{
	uint64_t until = rung__now_ns() + (uint64_t)timeout_ns;

	return (struct timespec){ .tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u) };
}

/* The lock is taken even when the state is already DONE: refill may still be inside rung__request_finish() with it. */
int rung_request_wait(struct rung_request *request, int64_t timeout_ns)
{
	struct timespec until = deadline(timeout_ns < 0 ? 0 : timeout_ns);
	int waited = 0;
	bool done;

	pthread_mutex_lock(&request->lock);
	while (!(done = rung_request_poll(request)) && waited != ETIMEDOUT) {
		if (timeout_ns < 0)
			pthread_cond_wait(&request->done, &request->lock);
		else
			waited = pthread_cond_timedwait(&request->done, &request->lock, &until);
	}
	pthread_mutex_unlock(&request->lock);
	if (!done)
		return rung__fail(RUNG_E_TIMEDOUT, "request: not complete after %" PRId64 " ns", timeout_ns);
	return request->status < 0 ? rung__fail_text(request->status, request->error) : 0;
}

const char *rung_request_error(const struct rung_request *request)
{
	return rung_request_poll(request) && request->status < 0 ? request->error : "";
}

static bool is_sync(const struct rung_request *request)
{
	return (uint32_t)(request - request->store->requests) >= request->store->opts.requests_max;
}

static void put_back(struct rung_request *request)
{
	struct rung_store *store = request->store;

	atomic_store_explicit(&request->state, RUNG__REQUEST_FREE, memory_order_relaxed);
	pthread_mutex_lock(&store->lock);
	if (is_sync(request)) {
		request->next = store->sync_free_list;
		store->sync_free_list = request;
		pthread_cond_signal(&store->freed);
	} else {
		request->next = store->free_list;
		store->free_list = request;
	}
	pthread_mutex_unlock(&store->lock);
}

void rung_request_put(struct rung_request *request)
{
	if (!request)
		return;
	rung_request_wait(request, -1);
	put_back(request);
}

static struct rung_request *take_free(struct rung_store *store, bool sync)
{
	struct rung_request **list = sync ? &store->sync_free_list : &store->free_list;
	struct rung_request *request;

	pthread_mutex_lock(&store->lock);
	while (sync && !*list)
		pthread_cond_wait(&store->freed, &store->lock);
	request = *list;
	if (request)
		*list = request->next;
	pthread_mutex_unlock(&store->lock);
	return request;
}

static void enqueue(struct rung_store *store, struct rung_request *request)
{
	request->next = NULL;
	pthread_mutex_lock(&store->lock);
	if (store->queue_tail)
		store->queue_tail->next = request;
	else
		store->queue_head = request;
	store->queue_tail = request;
	pthread_cond_signal(&store->queued);
	pthread_mutex_unlock(&store->lock);
}

static int check(const struct rung_store *store, const struct rung_ids *ids, size_t out_stride)
{
	if (out_stride < store->shape.layout.row_bytes)
		return rung__fail(RUNG_E_INVAL, "gather: output stride %zu is less than a row of %" PRIu64 " bytes", out_stride,
		                  store->shape.layout.row_bytes);
	if (ids->space == RUNG_VERTICES && !store->rank_of_vertex)
		return rung__fail(RUNG_E_INVAL, "gather: vertex ids need a store opened with vertex_ids set");
	return 0;
}

/* Rank bits that can differ: fewer passes of the sort. */
static unsigned rank_bits(const struct rung_store *store)
{
	return 64u - (unsigned)__builtin_clzll(store->shape.vertex_count | 1);
}

/* Copy what is in memory; what is not goes to refill. The request is BUSY from here on and nobody else's yet. */
static int start(struct rung_request *request, const struct rung_ids *ids, uint64_t index_first, void *out, size_t out_stride)
{
	struct rung_store *store = request->store;
	struct rung__misses *misses = &request->misses;
	struct rung__gather gather = {
		.view = &store->host_view,
		.rank_of_vertex = ids->space == RUNG_VERTICES ? store->rank_of_vertex : NULL,
		.map_bytes = (unsigned)store->shape.map_bytes,
		.vertex_count = store->shape.vertex_count,
		.row_bytes = (size_t)store->shape.layout.row_bytes,
		.out = out,
		.out_stride = out_stride,
		.index_first = index_first,
	};
	int rc;

	request->submit_ns = rung__now_ns();
	rc = rung__gather_run(&gather, ids, misses);
	if (rc < 0)
		return rc;
	rung__count(&store->counters.requests, 1);
	rung__count(&store->counters.tier_hits[RUNG__TIER_HOST], ids->count - misses->count);
	rung__count(&store->counters.tier_hits[RUNG__TIER_NVME], misses->count);
	atomic_store_explicit(&request->state, RUNG__REQUEST_BUSY, memory_order_relaxed);
	request->status = 0;
	request->error[0] = 0;
	if (misses->count == 0) {
		rung__request_finish(request, 0);
		return 0;
	}
	rung__radix_sort_pairs(misses->ranks, misses->rows, misses->ranks_tmp, misses->rows_tmp, misses->count, rank_bits(store));
	request->out = out;
	request->out_stride = out_stride;
	request->cursor = 0;
	request->reads_pending = 0;
	enqueue(store, request);
	return 0;
}

int rung_gather_submit(struct rung_store *store, const struct rung_ids *ids, void *out, size_t out_stride,
                       struct rung_request **req_out)
{
	struct rung_request *request;
	int rc;

	out_stride = out_stride ? out_stride : (size_t)store->shape.layout.row_bytes;
	rc = check(store, ids, out_stride);
	if (rc < 0)
		return rc;
	if (ids->count > store->opts.batch_rows_max)
		return rung__fail(RUNG_E_INVAL, "gather: %" PRIu64 " ids in one request, the store was opened for %u: open it with a larger "
		                  "batch_rows_max, or use rung_gather()", ids->count, store->opts.batch_rows_max);
	request = take_free(store, false);
	if (!request)
		return rung__fail(RUNG_E_AGAIN, "gather: all %u requests are in flight: wait for one and put it", store->opts.requests_max);
	rc = start(request, ids, 0, out, out_stride);
	if (rc < 0) {
		put_back(request);
		return rc;
	}
	*req_out = request;
	return 0;
}

int rung_gather(struct rung_store *store, const struct rung_ids *ids, void *out, size_t out_stride)
{
	size_t id_bytes = rung_dtype_bytes(ids->dtype);
	struct rung_request *request;
	int rc;

	out_stride = out_stride ? out_stride : (size_t)store->shape.layout.row_bytes;
	rc = check(store, ids, out_stride);
	if (rc < 0)
		return rc;
	request = take_free(store, true);
	for (uint64_t first = 0; first < ids->count && rc == 0; first += store->opts.batch_rows_max) {
		struct rung_ids part = *ids;

		part.data = (const char *)ids->data + first * id_bytes;
		part.count = RUNG__MIN(ids->count - first, store->opts.batch_rows_max);
		rc = start(request, &part, first, (char *)out + first * out_stride, out_stride);
		if (rc == 0)
			rc = rung_request_wait(request, -1);
	}
	put_back(request);
	return rc;
}

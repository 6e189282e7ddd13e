/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: submit, poll, wait, put, and the gather that waits by itself. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "store/store_internal.h"
#include "base/thread.h"

unsigned rung__bucket(uint64_t value)
{
	unsigned octave;

	if (value < 2)
		return (unsigned)value;   /* [1,1.41) and below; [1.41,2) cannot be told apart with whole numbers */
	octave = 63u - (unsigned)__builtin_clzll(value);
	/* second half of the octave from 2^(k+1/2) on: 181/128 = sqrt(2) to 4 digits */
	octave = octave * 2 + (value >> (octave > 7 ? octave - 7 : 0) << (octave > 7 ? 0 : 7 - octave) >= 181);
	return RUNG__MIN(octave, RUNG_LATENCY_BUCKETS - 1u);
}

static bool is_sync(const struct rung_request *request)
{
	return rung__request_index(request) >= request->store->opts.requests_max;
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

void rung__request_finish(struct rung_request *request, int status)
{
	struct rung_store *store = request->store;
	struct rung__counters *counters = &store->counters;
	bool give_back, first;

	pthread_mutex_lock(&request->lock);
	first = atomic_load_explicit(&request->state, memory_order_relaxed) != RUNG__REQUEST_DONE;   /* two may settle one */
	if (first) {
		rung__count(&counters->latency[rung__bucket((rung__now_ns() - request->submit_ns) / 1000)], 1);
		if (status < 0)
			rung__count(&counters->request_errors, 1);
		request->status = status;
		atomic_store_explicit(&request->state, RUNG__REQUEST_DONE, memory_order_release);
		pthread_cond_broadcast(&request->done);
	}
	give_back = store->handoff && request->retired;
	pthread_mutex_unlock(&request->lock);
	if (give_back)
		put_back(request);
}

void rung__request_fail(struct rung_request *request, int status, const char *text)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&request->status, &none, status))   /* several refill threads may fail one */
		snprintf(request->error, sizeof(request->error), "%s", text);
}

static int state_of(const struct rung_request *request)
{
	return atomic_load_explicit(&request->state, memory_order_acquire);
}

/* A device without a hand-off thread: nobody but those who look finds out. */
static bool looked_after(const struct rung_request *request)
{
	return request->store->device && !request->store->handoff;
}

int rung_request_poll(struct rung_request *request)
{
	if (looked_after(request))
		rung__handoff_settle(request);
	return state_of(request) == RUNG__REQUEST_DONE;
}

/* Without a thread that would wake us: look again and again, until the limit. */
static void settle_within(struct rung_request *request, int64_t timeout_ns)
{
	const uint64_t begin_ns = rung__now_ns();
	uint64_t waited_ns = 0;

	if (rung_request_poll(request))
		return;
	rung__count(&request->store->counters.host_waits, 1);
	while (timeout_ns < 0 || waited_ns < (uint64_t)timeout_ns) {
		const struct timespec pause = { .tv_nsec = (long)rung__look_ns(waited_ns) };

		nanosleep(&pause, NULL);
		if (rung_request_poll(request))
			return;
		waited_ns = rung__now_ns() - begin_ns;
	}
}

/* The lock is taken even when the state is there already: refill may still be inside rung__request_finish() with it. */
static bool await_state(struct rung_request *request, int state, int64_t timeout_ns)
{
	struct timespec until = rung__deadline(timeout_ns < 0 ? 0 : (uint64_t)timeout_ns);
	int waited = 0;
	bool there;

	pthread_mutex_lock(&request->lock);
	if (request->store->device && state_of(request) < state)
		rung__count(&request->store->counters.host_waits, 1);
	while (!(there = state_of(request) >= state) && waited != ETIMEDOUT) {
		if (timeout_ns < 0)
			pthread_cond_wait(&request->done, &request->lock);
		else
			waited = pthread_cond_timedwait(&request->done, &request->lock, &until);
	}
	pthread_mutex_unlock(&request->lock);
	return there;
}

int rung_request_wait(struct rung_request *request, int64_t timeout_ns)
{
	bool done;

	if (looked_after(request)) {
		settle_within(request, timeout_ns);
		done = state_of(request) == RUNG__REQUEST_DONE;
	} else {
		done = await_state(request, RUNG__REQUEST_DONE, timeout_ns);
	}
	if (!done)
		return rung__fail(RUNG_E_TIMEDOUT, "request: not complete after %" PRId64 " ns", timeout_ns);
	return request->status < 0 ? rung__fail_text(request->status, request->error) : 0;
}

int rung_request_wait_stream(struct rung_request *request, struct CUstream_st *stream)
{
	struct rung_store *store = request->store;

	if (!store->device)
		return rung_request_wait(request, -1);
	if (store->handoff)
		await_state(request, RUNG__REQUEST_LAUNCHED, -1);
	if (state_of(request) == RUNG__REQUEST_DONE && request->status < 0)
		return rung__fail_text(request->status, request->error);
	return store->device_ops->order(store->device, rung__request_index(request), stream);
}

const char *rung_request_error(const struct rung_request *request)
{
	return state_of(request) == RUNG__REQUEST_DONE && request->status < 0 ? request->error : "";
}

/* Leave a request of a device to whoever completes it. @return false when it is done: the caller puts it */
static bool retire(struct rung_request *request)
{
	struct rung_store *store = request->store;
	bool busy;

	pthread_mutex_lock(&request->lock);
	busy = state_of(request) != RUNG__REQUEST_DONE;
	request->retired = busy;
	pthread_mutex_unlock(&request->lock);
	if (busy && !store->handoff) {
		request->next = NULL;
		pthread_mutex_lock(&store->lock);
		if (store->retired_tail)
			store->retired_tail->next = request;
		else
			store->retired_head = request;
		store->retired_tail = request;
		pthread_mutex_unlock(&store->lock);
	}
	return busy;
}

void rung_request_put(struct rung_request *request)
{
	if (!request)
		return;
	if (request->store->device) {
		if (retire(request))
			return;
	} else {
		rung_request_wait(request, -1);
	}
	put_back(request);
}

void rung__request_harvest(struct rung_store *store, bool must)
{
	for (;;) {
		struct rung_request *request;
		bool block, done;

		pthread_mutex_lock(&store->lock);
		request = store->retired_head;
		block = must && !store->free_list;
		if (request) {
			store->retired_head = request->next;
			if (!store->retired_head)
				store->retired_tail = NULL;
		}
		pthread_mutex_unlock(&store->lock);
		if (!request)
			return;
		done = rung_request_poll(request);
		if (!done && block) {
			rung_request_wait(request, -1);
			done = true;
		}
		if (done) {
			put_back(request);
			continue;
		}
		pthread_mutex_lock(&store->lock);
		request->next = store->retired_head;
		store->retired_head = request;
		if (!store->retired_tail)
			store->retired_tail = request;
		pthread_mutex_unlock(&store->lock);
		return;
	}
}

static struct rung_request *take_free(struct rung_store *store, bool sync)
{
	struct rung_request **list = sync ? &store->sync_free_list : &store->free_list;
	struct rung_request *request;

	if (store->device && !store->handoff)
		rung__request_harvest(store, !sync);
	pthread_mutex_lock(&store->lock);
	while (sync && !*list)
		pthread_cond_wait(&store->freed, &store->lock);
	request = *list;
	if (request)
		*list = request->next;
	pthread_mutex_unlock(&store->lock);
	return request;
}

int rung__gather_check(const struct rung_store *store, const struct rung_ids *ids)
{
	if (ids->dtype != RUNG_I32 && ids->dtype != RUNG_U32 && ids->dtype != RUNG_I64 && ids->dtype != RUNG_U64)
		return rung__fail(RUNG_E_INVAL, "gather: ids of dtype %s: give i32, u32, i64 or u64", rung_dtype_name(ids->dtype));
	if (ids->space == RUNG_VERTICES && !store->rank_of_vertex)
		return rung__fail(RUNG_E_INVAL, "gather: vertex ids need a store opened with vertex_ids set");
	return 0;
}

static int check(const struct rung_store *store, const struct rung_ids *ids, size_t out_stride)
{
	if (out_stride < store->shape.layout.row_bytes)
		return rung__fail(RUNG_E_INVAL, "gather: output stride %zu is less than a row of %" PRIu64 " bytes", out_stride,
		                  store->shape.layout.row_bytes);
	return rung__gather_check(store, ids);
}

/* Copy what is in memory; what is not goes to refill. The request is BUSY from here on and nobody else's yet. */
static int start_on_cpu(struct rung_request *request, const struct rung_ids *ids, uint64_t index_first, void *out, size_t out_stride)
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

	rung__misses_lay_out(misses, ids->count);
	rc = rung__gather_run(&gather, ids, misses);
	if (rc < 0)
		return rc;
	rung__count(&store->counters.tier_hits[RUNG__TIER_HOST], ids->count - misses->count);
	rung__count(&store->counters.tier_hits[RUNG__TIER_NVME], misses->count);
	atomic_store_explicit(&request->state, RUNG__REQUEST_BUSY, memory_order_relaxed);
	if (misses->count == 0)
		rung__request_finish(request, 0);
	else
		rung__misses_queue(request);
	return 0;
}

static int start(struct rung_request *request, const struct rung_ids *ids, uint64_t index_first, void *out, size_t out_stride,
                 struct CUstream_st *stream)
{
	int rc;

	request->submit_ns = rung__now_ns();
	atomic_store_explicit(&request->checked_ns, request->submit_ns, memory_order_relaxed);
	request->status = 0;
	request->error[0] = 0;
	request->retired = false;
	request->out = out;
	request->out_stride = out_stride;
	request->index_first = index_first;
	if (request->store->device)
		rc = rung__handoff_submit(request, ids, out, out_stride, stream);
	else
		rc = start_on_cpu(request, ids, index_first, out, out_stride);
	if (rc == 0)
		rung__count(&request->store->counters.requests, 1);
	return rc;
}

int rung_gather_submit(struct rung_store *store, const struct rung_ids *ids, void *out, size_t out_stride,
                       struct CUstream_st *stream, struct rung_request **req_out)
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
	if (stream && stream != RUNG_STREAM_OWN && !store->device)
		return rung__fail(RUNG_E_INVAL, "gather: a CUDA stream, and the store gathers on "
				  "the CPU; give RUNG_STREAM_OWN");
	request = take_free(store, false);
	if (!request)
		return rung__fail(RUNG_E_AGAIN, "gather: all %u requests are in flight: wait for one and put it", store->opts.requests_max);
	rc = start(request, ids, 0, out, out_stride, stream);
	if (rc < 0) {
		put_back(request);
		return rc;
	}
	*req_out = request;
	return 0;
}

int rung_gather(struct rung_store *store, const struct rung_ids *ids, void *out, size_t out_stride)
{
	return rung__gather(store, ids, out, out_stride, RUNG_STREAM_OWN);
}

int rung__gather(struct rung_store *store, const struct rung_ids *ids, void *out, size_t out_stride,
                 struct CUstream_st *stream)
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
		rc = start(request, &part, first, (char *)out + first * out_stride, out_stride,
		           stream);
		if (rc == 0)
			rc = rung_request_wait(request, -1);
	}
	put_back(request);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion of a request, on any of the threads that can complete it.
 *
 * DONE is stored with release under request->lock, and the waiting threads are woken before the
 * lock is released. A thread that has seen DONE acquires that lock once before it reuses the
 * request (store/request.c), so this code has finished with it by then.
 */
#include <stdio.h>

#include "state/state.h"

unsigned rung__latency_bucket(uint64_t value)
{
	unsigned octave;

	if (value < 8)
		return (unsigned)value;
	/* the three bits after the highest are the number of the eighth */
	octave = 63u - (unsigned)__builtin_clzll(value);
	octave = (octave - 2) * 8 + ((unsigned)(value >> (octave - 3)) & 7);
	return RUNG__MIN(octave, RUNG_LATENCY_BUCKETS - 1u);
}

/* True for the requests that are reserved for rung_gather(), which are the last in the array. */
static bool is_sync(const struct rung_request *request)
{
	return rung__request_index(request) >= request->store->opts.requests_max;
}

void rung__request_free(struct rung_request *request)
{
	struct rung_store *store = request->store;

	atomic_store_explicit(&request->state, RUNG__REQUEST_FREE, memory_order_relaxed);
	pthread_mutex_lock(&store->lock);
	/* at the front, so that the same requests are reused, and few of them use memory */
	if (is_sync(request)) {
		rung__queue_push_first(&store->sync_free, &request->link);
		pthread_cond_signal(&store->freed);
	} else {
		rung__queue_push_first(&store->free, &request->link);
	}
	pthread_mutex_unlock(&store->lock);
}

void rung__request_finish(struct rung_request *request, int status)
{
	struct rung_store *store = request->store;
	struct rung__counters *counters = rung__counters(store);
	bool release, first;

	pthread_mutex_lock(&request->lock);
	/* without a device thread, two polling threads can both find that the gather has run */
	first = atomic_load_explicit(&request->state, memory_order_relaxed) != RUNG__REQUEST_DONE;
	if (first) {
		request->done_ns = rung__now_ns();
		rung__counter_add(&counters->latency[rung__latency_bucket(
					  (request->done_ns - request->submit_ns) / 1000)],
		                  1);
		if (status < 0)
			rung__counter_add(&counters->request_errors, 1);
		request->status = status;
		atomic_store_explicit(&request->state, RUNG__REQUEST_DONE, memory_order_release);
		pthread_cond_broadcast(&request->done);
	}
	/* the request was put before it was done: rung_request_put() left it to the device thread,
	 * which is the thread that calls this */
	release = store->device_thread && request->retired;
	pthread_mutex_unlock(&request->lock);
	/* freed after the unlock, because another thread may use the request at once */
	if (release)
		rung__request_free(request);
}

void rung__request_fail(struct rung_request *request, int status, const char *text)
{
	int none = 0;

	/* several refill threads can fail one request; only the first one writes the text */
	if (atomic_compare_exchange_strong(&request->status, &none, status))
		snprintf(request->error, sizeof(request->error), "%s", text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Completion of a request, on whichever thread it happens. */
#include <stdio.h>

#include "state/state.h"

unsigned rung__latency_bucket(uint64_t value)
{
	unsigned octave;

	if (value < 2)
		/* [1,1.41) and less; integers cannot separate [1.41,2) */
		return (unsigned)value;
	octave = 63u - (unsigned)__builtin_clzll(value);
	/* second half of the octave from 2^(k+1/2) on: 181/128 = sqrt(2) to 4 digits */
	octave = octave * 2 +
	         (value >> (octave > 7 ? octave - 7 : 0) << (octave > 7 ? 0 : 7 - octave) >= 181);
	return RUNG__MIN(octave, RUNG_LATENCY_BUCKETS - 1u);
}

static bool is_sync(const struct rung_request *request)
{
	return rung__request_index(request) >= request->store->opts.requests_max;
}

void rung__request_free(struct rung_request *request)
{
	struct rung_store *store = request->store;

	atomic_store_explicit(&request->state, RUNG__REQUEST_FREE, memory_order_relaxed);
	pthread_mutex_lock(&store->lock);
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
	struct rung__counters *counters = &store->counters;
	bool release, first;

	pthread_mutex_lock(&request->lock);
	/* two may settle one */
	first = atomic_load_explicit(&request->state, memory_order_relaxed) != RUNG__REQUEST_DONE;
	if (first) {
		rung__counter_add(&counters->latency[rung__latency_bucket(
					  (rung__now_ns() - request->submit_ns) / 1000)],
		                  1);
		if (status < 0)
			rung__counter_add(&counters->request_errors, 1);
		request->status = status;
		atomic_store_explicit(&request->state, RUNG__REQUEST_DONE, memory_order_release);
		pthread_cond_broadcast(&request->done);
	}
	release = store->device_thread && request->retired;
	pthread_mutex_unlock(&request->lock);
	if (release)
		rung__request_free(request);
}

void rung__request_fail(struct rung_request *request, int status, const char *text)
{
	int none = 0;

	/* several refill threads may fail one */
	if (atomic_compare_exchange_strong(&request->status, &none, status))
		snprintf(request->error, sizeof(request->error), "%s", text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results of a gather on a device: hits are counted, ids out of range fail the request.
 *
 * The device thread calls rung__gather_result_accept() for the requests of a store with cold rows.
 * Without cold rows the threads that poll or wait call rung__device_thread_complete().
 */
#include <assert.h>
#include <stdio.h>

#include "store/store.h"

/* The device reports the id with the smallest index, as 64 bits. It is printed with its sign if the
 * caller's type has one. */
static void fail_bad_id(struct rung_request *request, const struct rung__gather_result *result)
{
	uint64_t index = result->bad_index + request->index_first;
	uint64_t last = request->store->shape.vertex_count - 1;
	char text[RUNG__ERROR_BYTES];
	int len;

	if (request->id_dtype == RUNG_I32 || request->id_dtype == RUNG_I64)
		len = snprintf(text, sizeof(text), "gather: id %" PRId64 " at index %" PRIu64,
		               (int64_t)result->bad_id, index);
	else
		len = snprintf(text, sizeof(text), "gather: id %" PRIu64 " at index %" PRIu64,
		               result->bad_id, index);
	snprintf(text + len, sizeof(text) - (size_t)len,
	         " is not in 0..%" PRIu64 ", the first of %" PRIu64 " such ids", last,
	         result->bad_count);
	rung__request_fail(request, RUNG_E_RANGE, text);
}

void rung__gather_result_accept(struct rung_request *request,
                                const struct rung__gather_result *result)
{
	_Atomic uint64_t *hits = rung__counters(request->store)->tier_hits;

	/* a failed request counts no hits, as on the CPU, where it fails before hits are counted */
	if (result->bad_count > 0) {
		fail_bad_id(request, result);
		return;
	}
	rung__counter_add(&hits[RUNG__TIER_GPU], result->local_rows);
	rung__counter_add(&hits[RUNG__TIER_PEER], result->peer_rows);
	rung__counter_add(&hits[RUNG__TIER_HOST], result->host_rows);
	if (request->known) /* refill has the misses already, so the count must not be written */
		assert(request->misses.count == result->miss_count);
	else
		request->misses.count = result->miss_count;
	rung__counter_add(&hits[RUNG__TIER_NVME], result->miss_count);
}

void rung__device_thread_complete(struct rung_request *request)
{
	struct rung_store *store = request->store;
	struct rung__gather_result result;
	bool busy;
	int rc;

	if (atomic_load_explicit(&request->state, memory_order_acquire) == RUNG__REQUEST_DONE)
		return;
	rc = store->device_ops->gathered(store->device, rung__request_index(request),
	                                 rung__check_is_due(request, rung__now_ns()), &result);
	if (rc == 0)
		return;
	/* another thread may have polled and completed the request at the same time */
	pthread_mutex_lock(&request->lock);
	busy = atomic_load_explicit(&request->state, memory_order_relaxed) == RUNG__REQUEST_BUSY;
	if (busy && rc < 0)
		rung__request_fail(request, rc, rung_last_error());
	else if (busy)
		rung__gather_result_accept(request, &result);
	pthread_mutex_unlock(&request->lock);
	/* called without the lock, which it acquires; if two threads reach this line, only one
	 * completes the request */
	if (busy)
		rung__request_finish(request, request->status);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a gather on a device: hits are counted, ids out of range fail the request. */
#include <assert.h>
#include <stdio.h>

#include "store/store.h"

static void fail_bad_id(struct rung_request *request, const struct rung__found *found)
{
	uint64_t index = found->bad_index + request->index_first;
	uint64_t last = request->store->shape.vertex_count - 1;
	char text[RUNG__ERROR_BYTES];
	int len;

	if (request->id_dtype == RUNG_I32 || request->id_dtype == RUNG_I64)
		len = snprintf(text, sizeof(text), "gather: id %" PRId64 " at index %" PRIu64,
		               (int64_t)found->bad_id, index);
	else
		len = snprintf(text, sizeof(text), "gather: id %" PRIu64 " at index %" PRIu64,
		               found->bad_id, index);
	snprintf(text + len, sizeof(text) - (size_t)len,
	         " is not in 0..%" PRIu64 ", the first of %" PRIu64 " such ids", last,
	         found->bad_count);
	rung__request_fail(request, RUNG_E_RANGE, text);
}

void rung__found_take(struct rung_request *request, const struct rung__found *found)
{
	_Atomic uint64_t *hits = request->store->counters.tier_hits;

	if (found->bad_count > 0) {
		fail_bad_id(request, found);
		return;
	}
	rung__count(&hits[RUNG__TIER_GPU], found->local_rows);
	rung__count(&hits[RUNG__TIER_PEER], found->peer_rows);
	rung__count(&hits[RUNG__TIER_HOST], found->host_rows);
	if (request->known) /* the count is refill's by now */
		assert(request->misses.count == found->miss_count);
	else
		request->misses.count = found->miss_count;
	rung__count(&hits[RUNG__TIER_NVME], found->miss_count);
}

void rung__handoff_settle(struct rung_request *request)
{
	struct rung_store *store = request->store;
	struct rung__found found;
	bool busy;
	int rc;

	if (atomic_load_explicit(&request->state, memory_order_acquire) == RUNG__REQUEST_DONE)
		return;
	rc = store->device_ops->gathered(store->device, rung__request_index(request),
	                                 rung__check_is_due(request, rung__now_ns()), &found);
	if (rc == 0)
		return;
	pthread_mutex_lock(&request->lock); /* another thread may have looked as well */
	busy = atomic_load_explicit(&request->state, memory_order_relaxed) == RUNG__REQUEST_BUSY;
	if (busy && rc < 0)
		rung__request_fail(request, rc, rung_last_error());
	else if (busy)
		rung__found_take(request, &found);
	pthread_mutex_unlock(&request->lock);
	if (busy)
		rung__request_finish(request, request->status);
}

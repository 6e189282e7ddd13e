/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers: checked, then started on the CPU or a device; and the synchronous gather.
 *
 * Types, strides and counts are checked before a request is acquired. Nothing is allocated:
 * requests and their lists were allocated when the store was opened. On the CPU the calling thread
 * copies the rows that are in memory before the call returns.
 */
#include "store/store.h"

int rung__gather_check(const struct rung_store *store, const struct rung_ids *ids)
{
	if (ids->dtype != RUNG_I32 && ids->dtype != RUNG_U32 && ids->dtype != RUNG_I64 &&
	    ids->dtype != RUNG_U64)
		return rung__fail(
			RUNG_E_INVAL,
			"gather: ids of dtype %s are not supported; give i32, u32, i64 or u64",
			rung_dtype_name(ids->dtype));
	if (ids->space == RUNG_VERTICES && !store->rank_of_vertex)
		return rung__fail(RUNG_E_INVAL,
		                  "gather: vertex ids need a store opened with vertex_ids set");
	return 0;
}

/* The checks that rung_gather() and rung_gather_submit() share. */
static int check(const struct rung_store *store, const struct rung_ids *ids, size_t out_stride)
{
	if (out_stride < store->form.out_bytes)
		return rung__fail(RUNG_E_INVAL,
		                  "gather: output stride %zu is less than a row of %" PRIu64
		                  " bytes",
		                  out_stride, store->form.out_bytes);
	return rung__gather_check(store, ids);
}

/* Copy the rows in memory, and queue the others for refill. On a failure, which is an id out of
 * range, no other thread knows the request, and the caller frees it. */
static int start_on_cpu(struct rung_request *request, const struct rung_ids *ids,
                        uint64_t index_first, void *out, size_t out_stride)
{
	struct rung_store *store = request->store;
	struct rung__misses *misses = &request->misses;
	struct rung__counters *counters = rung__counters(store);
	struct rung__gather gather = {
		.view = &store->host_view,
		.rank_of_vertex = ids->space == RUNG_VERTICES ? store->rank_of_vertex : NULL,
		.map_bytes = (unsigned)store->shape.map_bytes,
		.vertex_count = store->shape.vertex_count,
		.row_bytes = (size_t)store->form.row_bytes,
		.form = store->form.decode ? &store->form : NULL,
		.out = out,
		.out_stride = out_stride,
		.index_first = index_first,
	};
	int rc;

	/* the lists are laid out for this many ids, so a small batch in a large request touches few
	 * pages */
	rung__misses_lay_out(misses, ids->count);
	rc = rung__gather_run(&gather, ids, misses);
	if (rc < 0)
		return rc;
	rung__counter_add(&counters->tier_hits[RUNG__TIER_HOST], ids->count - misses->count);
	rung__counter_add(&counters->tier_hits[RUNG__TIER_NVME], misses->count);
	/* relaxed, because the queue's lock publishes it with the rest of the request */
	atomic_store_explicit(&request->state, RUNG__REQUEST_BUSY, memory_order_relaxed);
	if (misses->count == 0)
		rung__request_finish(request, 0);
	else
		rung__misses_queue(request);
	return 0;
}

/* Start a gather with an acquired request. index_first: position of the first id in the caller's
 * list, for messages. After a failure the request is still the caller's. */
static int start(struct rung_request *request, const struct rung_ids *ids, uint64_t index_first,
                 void *out, size_t out_stride, struct CUstream_st *stream)
{
	int rc;

	/* reset everything that the request's previous gather could have left */
	request->submit_ns = rung__now_ns();
	atomic_store_explicit(&request->checked_ns, request->submit_ns, memory_order_relaxed);
	request->status = 0;
	request->error[0] = 0;
	request->retired = false;
	request->out = out;
	request->out_stride = out_stride;
	request->index_first = index_first;
	if (request->store->device)
		rc = rung__device_thread_submit(request, ids, out, out_stride, stream);
	else
		rc = start_on_cpu(request, ids, index_first, out, out_stride);
	if (rc == 0)
		rung__counter_add(&rung__counters(request->store)->requests, 1);
	return rc;
}

int rung_gather_submit(struct rung_store *store, const struct rung_ids *ids, void *out,
                       size_t out_stride, struct CUstream_st *stream, struct rung_request **req_out)
{
	struct rung_request *request;
	int rc;

	out_stride = out_stride ? out_stride : (size_t)store->form.out_bytes;
	rc = check(store, ids, out_stride);
	if (rc < 0)
		return rc;
	if (ids->count > store->opts.batch_rows_max)
		return rung__fail(RUNG_E_INVAL,
		                  "gather: %" PRIu64 " ids in one request, but the store "
		                  "was opened for at most %u; open it with a larger "
		                  "batch_rows_max, or use rung_gather()",
		                  ids->count, store->opts.batch_rows_max);
	if (stream && stream != RUNG_STREAM_OWN && !store->device)
		return rung__fail(RUNG_E_INVAL,
		                  "gather: got a CUDA stream, but the store gathers on "
		                  "the CPU; pass RUNG_STREAM_OWN");
	request = rung__request_acquire(store, false);
	if (!request)
		return rung__fail(
			RUNG_E_AGAIN,
			"gather: all %u requests are in flight; wait for one and release it",
			store->opts.requests_max);
	rc = start(request, ids, 0, out, out_stride, stream);
	if (rc < 0) {
		rung__request_free(request);
		return rc;
	}
	*req_out = request;
	return 0;
}

int rung_gather(struct rung_store *store, const struct rung_ids *ids, void *out, size_t out_stride)
{
	return rung__gather_stream(store, ids, out, out_stride, RUNG_STREAM_OWN);
}

int rung__gather_stream(struct rung_store *store, const struct rung_ids *ids, void *out,
                        size_t out_stride, struct CUstream_st *stream)
{
	size_t id_bytes = rung_dtype_bytes(ids->dtype);
	struct rung_request *request;
	int rc;

	out_stride = out_stride ? out_stride : (size_t)store->form.out_bytes;
	rc = check(store, ids, out_stride);
	if (rc < 0)
		return rc;
	/* all parts use one request, so they run one after the other; this blocks while other calls
	 * use all requests of this kind */
	request = rung__request_acquire(store, true);
	for (uint64_t first = 0; first < ids->count && rc == 0;
	     first += store->opts.batch_rows_max) {
		struct rung_ids part = *ids;

		part.data = (const char *)ids->data + first * id_bytes;
		part.count = RUNG__MIN(ids->count - first, store->opts.batch_rows_max);
		rc = start(request, &part, first, (char *)out + first * out_stride, out_stride,
		           stream);
		if (rc < 0)
			break;
		rc = rung_request_wait(request, -1);
		/* rows for which no read has begun are skipped; reads in flight write to `out` */
		if (rc == RUNG_E_CANCELED) {
			rung__request_fail(request, rc, rung_last_error());
			rung__request_await(request);
		}
	}
	rung__request_free(request);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's cost of a batch of hits: the calls that submit it, by the clock of the calling thread.
 * Between groups the host waits for the GPU, outside the timed region, so that no call finds the
 * GPU's queue full.
 */
#include "bench.h"

#define ROWS     1024u /* per batch: the kernel is short, because only the calls are measured */
#define GROUP    32u   /* batches between two waits */
#define REQUESTS 64u   /* more than a group, so that a request is always free */

/* @param first_call  seconds of rung_gather_submit() alone, per batch. @return seconds per batch */
static double submit_group(const struct bench *b, struct rung_store *store,
                           const struct bench_lists *lists, void *out, double *first_call)
{
	double begun = bench_now(), submitting = 0;

	for (unsigned i = 0; i < GROUP; i++) {
		struct rung_ids ids = { lists->device[i % BENCH_LISTS], lists->count, RUNG_U64,
			                RUNG_RANKS };
		struct rung_request *request;
		double before = bench_now();

		bench_need(rung_gather_submit(store, &ids, out, 0, b->stream, &request),
		           "gathering");
		submitting += bench_now() - before;
		bench_need(rung_request_wait_stream(request, b->stream), "waiting for rows");
		rung_request_put(request);
	}
	*first_call = submitting / GROUP;
	return (bench_now() - begun) / GROUP;
}

void bench_launch(struct bench *b)
{
	struct bench_place place = { .device = RUNG_DEVICE_CUDA,
		                     .host_bytes = RUNG_BYTES_MAX,
		                     .batch_rows_max = ROWS,
		                     .requests_max = REQUESTS };
	unsigned groups = b->batches / GROUP + 1;
	struct bench_times all = { 0 }, submits = { 0 };
	struct bench_data data;
	struct bench_lists lists;
	struct bench_store store;
	uint64_t waits;
	void *out;

	if (groups > BENCH_SAMPLES_MAX) /* one sample per group */
		groups = BENCH_SAMPLES_MAX;
	bench_data_open(b, b->widths[0], 0, &data);
	place.gpu_rows = data.row_count;
	bench_store_open(b, &data, &place, &store);
	bench_lists_make(b, 0, data.row_count, data.row_count < ROWS ? data.row_count : ROWS,
	                 &lists);
	out = bench_device_alloc(lists.count * data.row_bytes);
	waits = bench_stats(&store).host_waits;
	for (unsigned g = 0; g < b->warmups + groups; g++) {
		double submit, batch = submit_group(b, store.store, &lists, out, &submit);

		bench_cuda(cudaStreamSynchronize(b->stream), "gathering");
		if (g >= b->warmups) {
			bench_add(&all, batch);
			bench_add(&submits, submit);
		}
	}
	waits = bench_stats(&store).host_waits - waits;
	out_begin("launch");
	out_u64("row_bytes", data.row_bytes);
	out_u64("rows", lists.count);
	out_u64("batches", (uint64_t)GROUP * (b->warmups + groups));
	out_u64("host_waits", waits);
	out_u64("verified_rows", bench_verify(b, &data, store.store, &lists, out, data.row_bytes));
	out_times("submit_seconds", &submits);
	out_times("seconds", &all);
	out_ratio(bench_median(&all), 1, "at_most", 15e-6);
	out_end();
	if (waits)
		bench_die("the host waited %llu times in batches of hits",
		          (unsigned long long)waits);
	bench_cuda(cudaFree(out), "freeing");
	bench_lists_free(&lists);
	bench_store_close(&store);
	bench_data_close(&data);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An epoch as a trainer runs it: gathers with a few cold rows, two in flight, and a kernel of known
 * length after each batch. It is measured in three variants with the same batches: the gathers
 * alone, the kernels alone, and both. With perfect overlap, the third variant takes as long as the
 * slower of the first two, which is the ceiling.
 */
#include <stdlib.h>

#include "bench.h"
#include "kernels.h"

#define BATCH_ROWS   8192u
#define COLD_SHARE   0.05 /* of the ids */
#define IN_FLIGHT    2u
#define PROBE_ROUNDS 20000u /* measured, to find the rounds of a given time */

struct epoch {
	const struct bench *b;
	const struct bench_data *data;
	struct bench_store store;
	cudaStream_t compute;
	uint64_t batches, batch_rows;
	uint64_t *ranks, *device_ranks;
	unsigned char *out; /* IN_FLIGHT batches, used in turn */
	unsigned rounds;    /* of the kernel after a batch */
};

static unsigned char *out_of(const struct epoch *e, uint64_t batch)
{
	return e->out + batch % IN_FLIGHT * e->batch_rows * e->data->row_bytes;
}

static void start_compute(const struct epoch *e)
{
	bench_cuda(bench_kernel_compute(e->b->scratch, e->rounds, e->b->sm_count, e->compute),
	           "launching a kernel");
}

/*
 * Batch i uses the memory of batch i - 2, so its gather waits for the event after the kernel that
 * reads batch i - 2. `gathers` and `computes` select the work of the variant. @return seconds
 */
static double run(const struct epoch *e, int gathers, int computes)
{
	struct rung_request *requests[IN_FLIGHT];
	cudaEvent_t used[IN_FLIGHT];
	double begun;

	for (unsigned i = 0; i < IN_FLIGHT; i++)
		bench_cuda(cudaEventCreateWithFlags(&used[i], cudaEventDisableTiming),
		           "creating an event");
	begun = bench_now();
	for (uint64_t i = 0; i < e->batches + IN_FLIGHT; i++) {
		unsigned at = i % IN_FLIGHT;

		if (i >= IN_FLIGHT) {
			if (gathers)
				bench_need(rung_request_wait_stream(requests[at], e->compute),
				           "waiting for rows");
			if (computes)
				start_compute(e);
			bench_cuda(cudaEventRecord(used[at], e->compute), "recording an event");
			if (gathers)
				rung_request_put(requests[at]);
		}
		if (i < e->batches && gathers) {
			struct rung_ids ids = { e->device_ranks + i * e->batch_rows, e->batch_rows,
				                RUNG_U64, RUNG_RANKS };

			bench_cuda(cudaStreamWaitEvent(e->b->stream, used[at], 0),
			           "ordering streams");
			bench_need(rung_gather_submit(e->store.store, &ids, out_of(e, i), 0,
			                              e->b->stream, &requests[at]),
			           "gathering");
		}
	}
	bench_cuda(cudaStreamSynchronize(e->compute), "running an epoch");
	begun = bench_now() - begun;
	for (unsigned i = 0; i < IN_FLIGHT; i++)
		bench_cuda(cudaEventDestroy(used[i]), "destroying an event");
	return begun;
}

/* At most five samples, after one warm-up. */
static struct bench_times sample(const struct epoch *e, int gathers, int computes)
{
	unsigned samples = e->b->samples < 5 ? e->b->samples : 5;
	struct bench_times times = { 0 };

	for (unsigned i = 0; i <= samples; i++) {
		double seconds = run(e, gathers, computes);

		if (i > 0)
			bench_add(&times, seconds);
	}
	return times;
}

/* The kernel of a batch, alone on the stream that bench_time_stream() times. */
static void probe(void *ctx, unsigned turn)
{
	const struct epoch *e = ctx;

	(void)turn;
	bench_cuda(bench_kernel_compute(e->b->scratch, e->rounds, e->b->sm_count, e->b->stream),
	           "launching a kernel");
}

/* The number of rounds that take about `seconds`. */
static unsigned rounds_for(struct epoch *e, double seconds)
{
	struct bench_times times;
	double rounds;

	e->rounds = PROBE_ROUNDS;
	bench_time_stream(e->b, probe, e, &times);
	rounds = seconds / bench_median(&times) * PROBE_ROUNDS;
	return rounds < 1 ? 1 : rounds > 1e9 ? 1000000000u : (unsigned)rounds;
}

static uint64_t verify(const struct epoch *e)
{
	uint64_t last = e->batches - 1;

	bench_verify_output(e->data, e->ranks + last * e->batch_rows, e->batch_rows,
	                    out_of(e, last), e->data->row_bytes);
	return e->batch_rows;
}

/* Half of the rows are on the GPU and a quarter is in host memory. One id in twenty is in the
 * remaining quarter, which is cold. */
static void make_ranks(struct epoch *e)
{
	const struct rung_plan_tier *cold = bench_tier(&e->store, "nvme");
	uint64_t count = e->batches * e->batch_rows;

	if (cold->row_count == 0)
		bench_die("no row is cold: use a larger --size");
	e->ranks = bench_alloc(count * 8);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t draw = bench_draw(e->b->seed + 5, i);

		if ((double)(draw % 1000) < COLD_SHARE * 1000)
			e->ranks[i] = cold->rank_first + (draw >> 10) % cold->row_count;
		else
			e->ranks[i] = (draw >> 10) % cold->rank_first;
	}
	e->device_ranks = bench_device_alloc(count * 8);
	bench_upload(e->device_ranks, e->ranks, count * 8);
}

static void open_epoch(const struct bench *b, const struct bench_data *data, struct epoch *e)
{
	struct bench_place place = { .device = RUNG_DEVICE_CUDA,
		                     .requests_max = IN_FLIGHT * 2,
		                     .batch_rows_max = BATCH_ROWS };

	*e = (struct epoch){ .b = b, .data = data, .batches = b->batches / 16 + 2 };
	e->batch_rows = data->row_count / 2 < BATCH_ROWS ? data->row_count / 2 : BATCH_ROWS;
	place.gpu_rows = data->row_count / 2;
	place.host_bytes = data->row_count / 4 * data->row_stride;
	bench_store_open(b, data, &place, &e->store);
	make_ranks(e);
	e->out = bench_device_alloc(IN_FLIGHT * e->batch_rows * data->row_bytes);
	bench_cuda(cudaStreamCreateWithFlags(&e->compute, cudaStreamNonBlocking),
	           "creating a stream");
}

static void close_epoch(struct epoch *e)
{
	bench_store_close(&e->store);
	bench_cuda(cudaStreamDestroy(e->compute), "destroying a stream");
	bench_cuda(cudaFree(e->device_ranks), "freeing");
	bench_cuda(cudaFree(e->out), "freeing");
	free(e->ranks);
}

static void one_epoch(struct epoch *e, double reads_seconds, double share)
{
	struct bench_times reads, computes, both;
	uint64_t cold_before, cold_rows;

	e->rounds = rounds_for(e, reads_seconds / (double)e->batches * share);
	cold_before = bench_hits(&e->store, "nvme");
	reads = sample(e, 1, 0);
	/* the warm-up has cold rows too */
	cold_rows = (bench_hits(&e->store, "nvme") - cold_before) / (reads.count + 1);
	computes = sample(e, 0, 1);
	both = sample(e, 1, 1);
	out_begin("epoch");
	out_u64("row_bytes", e->data->row_bytes);
	out_u64("batches", e->batches);
	out_u64("batch_rows", e->batch_rows);
	out_real("cold_share", (double)cold_rows / (double)(e->batches * e->batch_rows));
	out_real("compute_share", share); /* target: time of the kernels per time of the gathers */
	out_u64("verified_rows", verify(e));
	out_times("reads_seconds", &reads);
	out_times("compute_seconds", &computes);
	out_times("seconds", &both);
	out_ratio(bench_median(&both),
	          bench_median(&reads) > bench_median(&computes) ? bench_median(&reads)
	                                                         : bench_median(&computes),
	          "at_most", 1.15);
	out_end();
}

void bench_epoch(struct bench *b)
{
	/* gathers take longer, both take equally long, kernels take longer */
	static const double shares[] = { 0.5, 1, 2 };
	struct bench_data data;
	struct bench_times reads;
	struct epoch e;

	bench_data_open(b, b->widths[b->width_count - 1], 0, &data);
	open_epoch(b, &data, &e);
	reads = sample(&e, 1, 0);
	for (unsigned i = 0; i < sizeof(shares) / sizeof(*shares); i++)
		one_epoch(&e, bench_median(&reads), shares[i]);
	close_epoch(&e);
	bench_data_close(&data);
}

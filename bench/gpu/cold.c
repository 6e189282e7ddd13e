/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows from the file: the same batches of the same dataset on the CPU device and through the GPU,
 * alternating, with the same host budget and the same number of batches in flight. Then one run
 * through the GPU with a time for every step of every batch.
 */
#include <pthread.h>
#include <stdlib.h>

#include "bench.h"

#define BATCH_ROWS       4096u
#define IN_FLIGHT_MAX    4u
#define TIMELINE_BATCHES 24u
#define POLLS_MAX        512u
#define POLL_US          100

struct cold {
	const struct bench *b;
	const struct bench_data *data;
	struct bench_store store;
	int on_gpu;
	uint64_t batches, batch_rows;
	uint64_t *ranks;        /* all batches, host memory */
	uint64_t *device_ranks; /* NULL on the CPU */
	unsigned char *out;     /* IN_FLIGHT_MAX batches, used in turn */
};

/* `batches` 0: as many as b->cold_rows fill. */
static void cold_open(const struct bench *b, const struct bench_data *data, enum rung_device device,
                      uint64_t batches, struct cold *cold)
{
	struct bench_place place = { .device = device,
		                     .host_bytes = b->cold_host,
		                     .batch_rows_max = BATCH_ROWS,
		                     .requests_max = IN_FLIGHT_MAX };
	uint64_t count, bytes;

	*cold = (struct cold){ .b = b, .data = data, .on_gpu = device == RUNG_DEVICE_CUDA };
	cold->batch_rows = data->row_count / 2 < BATCH_ROWS ? data->row_count / 2 : BATCH_ROWS;
	cold->batches = batches ? batches : b->cold_rows / cold->batch_rows + 1;
	count = cold->batches * cold->batch_rows;
	bytes = IN_FLIGHT_MAX * cold->batch_rows * data->row_bytes;
	bench_store_open(b, data, &place, &cold->store);
	cold->ranks = bench_alloc(count * 8);
	for (uint64_t i = 0; i < count; i++)
		cold->ranks[i] = bench_draw(b->seed + 77, i) % data->row_count;
	if (!cold->on_gpu) {
		cold->out = bench_alloc(bytes);
		return;
	}
	cold->device_ranks = bench_device_alloc(count * 8);
	bench_upload(cold->device_ranks, cold->ranks, count * 8);
	cold->out = bench_device_alloc(bytes);
}

static void cold_close(struct cold *cold)
{
	bench_store_close(&cold->store);
	if (cold->on_gpu) {
		bench_cuda(cudaFree(cold->device_ranks), "freeing");
		bench_cuda(cudaFree(cold->out), "freeing");
	} else {
		free(cold->out);
	}
	free(cold->ranks);
}

static unsigned char *out_of(const struct cold *cold, uint64_t batch)
{
	return cold->out + batch % IN_FLIGHT_MAX * cold->batch_rows * cold->data->row_bytes;
}

static struct rung_request *submit(const struct cold *cold, uint64_t batch)
{
	const uint64_t *ranks = cold->on_gpu ? cold->device_ranks : cold->ranks;
	struct rung_ids ids = { ranks + batch * cold->batch_rows, cold->batch_rows, RUNG_U64,
		                RUNG_RANKS };
	struct CUstream_st *stream = cold->on_gpu ? cold->b->stream : RUNG_STREAM_OWN;
	struct rung_request *request;

	bench_need(rung_gather_submit(cold->store.store, &ids, out_of(cold, batch), 0, stream,
	                              &request),
	           "gathering");
	return request;
}

/* @return seconds from the first submission until the last row has arrived */
static double cold_run(const struct cold *cold, unsigned in_flight)
{
	struct rung_request *requests[IN_FLIGHT_MAX];
	double begun = bench_now();

	for (uint64_t i = 0; i < cold->batches + in_flight; i++) {
		if (i >= in_flight) {
			bench_need(rung_request_wait(requests[i % in_flight], -1),
			           "waiting for rows");
			rung_request_put(requests[i % in_flight]);
		}
		if (i < cold->batches)
			requests[i % in_flight] = submit(cold, i);
	}
	return bench_now() - begun;
}

/* Checks the last batch. @return rows compared */
static uint64_t cold_verify(const struct cold *cold)
{
	uint64_t last = cold->batches - 1, wrong;
	const uint64_t *ranks = cold->ranks + last * cold->batch_rows;

	if (cold->on_gpu) {
		bench_verify_output(cold->data, ranks, cold->batch_rows, out_of(cold, last),
		                    cold->data->row_bytes);
		return cold->batch_rows;
	}
	wrong = bench_wrong_rows(cold->data, ranks, cold->batch_rows, out_of(cold, last),
	                         cold->data->row_bytes);
	if (wrong)
		bench_die("%llu rows are wrong", (unsigned long long)wrong);
	return cold->batch_rows;
}

/* Adds the seconds per cold row of a run to `per_row`, unless it is a warm-up. */
static void one_run(struct cold *cold, unsigned in_flight, int keep, struct bench_times *per_row)
{
	uint64_t before = bench_hits(&cold->store, "nvme");
	double seconds = cold_run(cold, in_flight);

	if (keep)
		bench_add(per_row, seconds / (double)(bench_hits(&cold->store, "nvme") - before));
}

static void out_side(const char *key, const struct cold *cold, const struct bench_times *per_row)
{
	struct rung_store_stats stats = bench_stats(&cold->store);

	out_object(key);
	out_real("cold_rows_per_s", 1 / bench_median(per_row));
	out_times("seconds_per_cold_row", per_row);
	out_u64("verified_rows", cold_verify(cold));
	out_u64("slots", rung_plan_slots(cold->store.plan)->slot_count);
	out_u64("device_reads", stats.device_reads);
	out_u64("merged_rows", stats.merged_rows);
	out_u64("scatters", stats.scatters);
	out_u64("queue_depth", stats.queue_depth);
	out_text("engine", stats.engine);
	out_u64("direct", (uint64_t)stats.direct);
	out_end();
}

static void compare(const struct bench *b, const struct bench_data *data)
{
	unsigned pairs = b->samples < 5 ? b->samples : 5;
	struct bench_times cpu_times = { 0 }, gpu_times = { 0 }, alone = { 0 };
	struct cold cpu, gpu;

	cold_open(b, data, RUNG_DEVICE_CPU, 0, &cpu);
	cold_open(b, data, RUNG_DEVICE_CUDA, 0, &gpu);
	/* the first pair is the warm-up; the order alternates, so that drift affects both */
	for (unsigned i = 0; i <= pairs; i++) {
		one_run(i % 2 ? &cpu : &gpu, IN_FLIGHT_MAX, i > 0, i % 2 ? &cpu_times : &gpu_times);
		one_run(i % 2 ? &gpu : &cpu, IN_FLIGHT_MAX, i > 0, i % 2 ? &gpu_times : &cpu_times);
	}
	one_run(&gpu, 1, 1, &alone);
	out_begin("cold");
	out_u64("row_bytes", data->row_bytes);
	out_u64("batch_rows", cpu.batch_rows);
	out_u64("batches", cpu.batches);
	out_u64("in_flight", IN_FLIGHT_MAX);
	out_u64("host_bytes", b->cold_host);
	out_side("cpu", &cpu, &cpu_times);
	out_side("cuda", &gpu, &gpu_times);
	out_real("cuda_one_in_flight_rows_per_s", 1 / bench_median(&alone));
	out_ratio(1 / bench_median(&gpu_times), 1 / bench_median(&cpu_times), "at_least", 0.95);
	out_end();
	cold_close(&cpu);
	cold_close(&gpu);
}

void bench_cold(struct bench *b)
{
	for (unsigned w = 0; w < b->width_count; w++) {
		struct bench_data data;

		/* only the first and the last width, because a run takes seconds */
		if (w > 0 && w < b->width_count - 1)
			continue;
		bench_data_open(b, b->widths[w], 0, &data);
		compare(b, &data);
		bench_data_close(&data);
	}
}

/* ---- timeline ---- */

/* A thread that samples the counters while batches run: the reads that have completed, and the
 * copies to the GPU that have been queued. */
struct watch {
	const struct bench_store *store;
	double begun;
	struct {
		double at;
		uint64_t reads, scatters;
	} polls[POLLS_MAX]; /* only where a counter changed */
	unsigned count;
	_Atomic int stop;
};

static void *sample_counters(void *arg)
{
	const struct timespec pause = { .tv_nsec = POLL_US * 1000 };
	struct watch *watch = arg;

	while (!watch->stop && watch->count < POLLS_MAX) {
		struct rung_store_stats stats = bench_stats(watch->store);
		unsigned n = watch->count;

		if (n == 0 || watch->polls[n - 1].reads != stats.device_reads ||
		    watch->polls[n - 1].scatters != stats.scatters) {
			watch->polls[n].at = bench_now() - watch->begun;
			watch->polls[n].reads = stats.device_reads;
			watch->polls[n].scatters = stats.scatters;
			watch->count++;
		}
		nanosleep(&pause, NULL);
	}
	return NULL;
}

struct batch_times {
	/* host clock: submitted; all its rows read and the last copy queued on a stream */
	double submit, read;
	cudaEvent_t gathered, complete; /* GPU: the gather has run; all rows have arrived */
};

/* @return milliseconds */
static float since(cudaEvent_t base, cudaEvent_t event)
{
	float ms;

	bench_cuda(cudaEventElapsedTime(&ms, base, event), "reading elapsed time");
	return ms;
}

/* Like a trainer: two batches in flight, and a second stream that waits for the rows. */
static void timeline_run(const struct cold *cold, cudaStream_t compute, double begun,
                         struct batch_times *times)
{
	struct rung_request *requests[2];

	for (uint64_t i = 0; i < cold->batches + 2; i++) {
		if (i >= 2) {
			struct rung_request *request = requests[i % 2];

			bench_need(rung_request_wait_stream(request, compute), "waiting for rows");
			times[i - 2].read = bench_now() - begun;
			bench_cuda(cudaEventRecord(times[i - 2].complete, compute),
			           "recording an event");
			rung_request_put(request);
		}
		if (i < cold->batches) {
			times[i].submit = bench_now() - begun;
			requests[i % 2] = submit(cold, i);
			bench_cuda(cudaEventRecord(times[i].gathered, cold->b->stream),
			           "recording an event");
		}
	}
	bench_cuda(cudaStreamSynchronize(compute), "gathering");
}

static void out_polls(const struct watch *watch)
{
	uint64_t last_reads = watch->polls[watch->count - 1].reads, during = 0;

	out_array("counters");
	for (unsigned i = 0; i < watch->count; i++) {
		out_object(NULL);
		out_real("us", watch->polls[i].at * 1e6);
		out_u64("reads", watch->polls[i].reads);
		out_u64("scatters", watch->polls[i].scatters);
		out_end();
		if (watch->polls[i].reads < last_reads)
			during = watch->polls[i].scatters;
	}
	out_end();
	out_u64("scatters", watch->polls[watch->count - 1].scatters);
	/* copies to the GPU that were queued while rows were still being read */
	out_u64("scatters_before_last_read", during);
}

static void out_batches(const struct cold *cold, cudaEvent_t base, const struct batch_times *times)
{
	out_array("batches");
	for (uint64_t i = 0; i < cold->batches; i++) {
		out_object(NULL);
		out_real("submit_us", times[i].submit * 1e6);
		out_real("gathered_us", since(base, times[i].gathered) * 1e3);
		out_real("read_us", times[i].read * 1e6);
		out_real("complete_us", since(base, times[i].complete) * 1e3);
		out_end();
	}
	out_end();
}

static void timeline(const struct bench *b, const struct bench_data *data)
{
	struct batch_times *times = bench_alloc(TIMELINE_BATCHES * sizeof(*times));
	struct watch *watch = bench_alloc(sizeof(*watch));
	cudaStream_t compute;
	cudaEvent_t base;
	pthread_t thread;
	struct cold cold;

	cold_open(b, data, RUNG_DEVICE_CUDA, TIMELINE_BATCHES, &cold);
	cold_run(&cold, 2); /* warm-up */
	bench_cuda(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), "creating a stream");
	bench_cuda(cudaEventCreateWithFlags(&base, cudaEventDefault), "creating an event");
	for (unsigned i = 0; i < TIMELINE_BATCHES; i++) {
		bench_cuda(cudaEventCreateWithFlags(&times[i].gathered, cudaEventDefault),
		           "creating an event");
		bench_cuda(cudaEventCreateWithFlags(&times[i].complete, cudaEventDefault),
		           "creating an event");
	}
	bench_cuda(cudaEventRecord(base, b->stream), "recording an event");
	bench_cuda(cudaEventSynchronize(base), "waiting for an event");
	*watch = (struct watch){ .store = &cold.store, .begun = bench_now() };
	if (pthread_create(&thread, NULL, sample_counters, watch) != 0)
		bench_die("a thread cannot be created");
	timeline_run(&cold, compute, watch->begun, times);
	watch->stop = 1;
	pthread_join(thread, NULL);
	out_begin("timeline");
	out_u64("row_bytes", data->row_bytes);
	out_u64("batch_rows", cold.batch_rows);
	out_u64("verified_rows", cold_verify(&cold));
	out_batches(&cold, base, times);
	out_polls(watch);
	out_end();
	for (unsigned i = 0; i < TIMELINE_BATCHES; i++) {
		bench_cuda(cudaEventDestroy(times[i].gathered), "destroying an event");
		bench_cuda(cudaEventDestroy(times[i].complete), "destroying an event");
	}
	bench_cuda(cudaEventDestroy(base), "destroying an event");
	bench_cuda(cudaStreamDestroy(compute), "destroying a stream");
	cold_close(&cold);
	free(watch);
	free(times);
}

void bench_timeline(struct bench *b)
{
	struct bench_data data;

	bench_data_open(b, b->widths[b->width_count - 1], 0, &data);
	timeline(b, &data);
	bench_data_close(&data);
}

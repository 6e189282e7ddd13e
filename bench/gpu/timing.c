/* SPDX-License-Identifier: Apache-2.0 */
/* Samples: warm-ups are dropped, the others are kept in ascending order and printed. */
#include <math.h>
#include <time.h>

#include "bench.h"
#include "kernels.h"

#define HEAD_START_ROUNDS 100000u /* about 200 us at 2 GHz, several times a submission */

double bench_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void bench_add(struct bench_times *times, double seconds)
{
	unsigned at = times->count++;

	if (at >= BENCH_SAMPLES_MAX)
		bench_die("more than %d samples", BENCH_SAMPLES_MAX);
	for (; at > 0 && times->seconds[at - 1] > seconds; at--)
		times->seconds[at] = times->seconds[at - 1];
	times->seconds[at] = seconds;
}

double bench_median(const struct bench_times *times)
{
	unsigned half = times->count / 2;

	if (times->count == 0)
		return NAN;
	return times->count % 2 ? times->seconds[half]
	                        : (times->seconds[half - 1] + times->seconds[half]) / 2;
}

void bench_time_stream(const struct bench *b, bench_work_fn work, void *ctx,
                       struct bench_times *times_out)
{
	cudaEvent_t begun, ended;

	*times_out = (struct bench_times){ 0 };
	bench_cuda(cudaEventCreateWithFlags(&begun, cudaEventDefault), "creating an event");
	bench_cuda(cudaEventCreateWithFlags(&ended, cudaEventDefault), "creating an event");
	for (unsigned turn = 0; turn < b->warmups + b->samples; turn++) {
		float ms = 0;

		bench_cuda(bench_kernel_delay(b->scratch, HEAD_START_ROUNDS, b->stream),
		           "launching a kernel");
		bench_cuda(cudaEventRecord(begun, b->stream), "recording an event");
		work(ctx, turn);
		bench_cuda(cudaEventRecord(ended, b->stream), "recording an event");
		bench_cuda(cudaEventSynchronize(ended), "waiting for the timed work");
		bench_cuda(cudaEventElapsedTime(&ms, begun, ended), "reading elapsed time");
		if (turn >= b->warmups)
			bench_add(times_out, ms / 1e3);
	}
	bench_cuda(cudaEventDestroy(begun), "destroying an event");
	bench_cuda(cudaEventDestroy(ended), "destroying an event");
}

void bench_time_host(const struct bench *b, bench_work_fn work, void *ctx,
                     struct bench_times *times_out)
{
	*times_out = (struct bench_times){ 0 };
	for (unsigned turn = 0; turn < b->warmups + b->samples; turn++) {
		double begun = bench_now();

		work(ctx, turn);
		bench_cuda(cudaStreamSynchronize(b->stream), "waiting for the timed work");
		if (turn >= b->warmups)
			bench_add(times_out, bench_now() - begun);
	}
}

void out_times(const char *key, const struct bench_times *times)
{
	out_object(key);
	out_real("median", bench_median(times));
	out_real("min", times->count ? times->seconds[0] : NAN);
	out_real("max", times->count ? times->seconds[times->count - 1] : NAN);
	out_array("samples");
	for (unsigned i = 0; i < times->count; i++)
		out_real(NULL, times->seconds[i]);
	out_end();
	out_end();
}

void out_ratio(double value, double ceiling, const char *bound, double figure)
{
	out_real("value", value);
	out_real("ceiling", ceiling);
	out_real("ratio", value / ceiling);
	if (bound)
		out_real(bound, figure);
}

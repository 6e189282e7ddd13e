/* SPDX-License-Identifier: Apache-2.0 */
/* Errors, and memory of the host and of the GPU. A failed allocation ends the program. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

void bench_die(const char *format, ...)
{
	va_list args;

	fputs("rung_gpu_bench: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(BENCH_FAILED);
}

void bench_need(int rc, const char *what)
{
	if (rc < 0)
		bench_die("%s: %s", what, rung_last_error());
}

void bench_cuda(cudaError_t err, const char *what)
{
	if (err != cudaSuccess)
		bench_die("%s: %s (%s)", what, cudaGetErrorString(err), cudaGetErrorName(err));
}

void *bench_alloc(uint64_t bytes)
{
	void *memory = malloc(bytes ? bytes : 1);

	if (!memory)
		bench_die("out of memory: %llu bytes of host memory", (unsigned long long)bytes);
	return memory;
}

void *bench_device_alloc(uint64_t bytes)
{
	void *memory = NULL;

	bench_cuda(cudaMalloc(&memory, bytes), "allocating GPU memory");
	return memory;
}

void *bench_pinned_alloc(uint64_t bytes)
{
	void *memory = NULL;

	bench_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped), "allocating pinned memory");
	return memory;
}

void bench_upload(void *to, const void *from, uint64_t bytes)
{
	bench_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copying to the GPU");
	bench_cuda(cudaDeviceSynchronize(), "copying to the GPU");
}

void bench_poison(void *at, uint64_t bytes)
{
	bench_cuda(cudaMemset(at, BENCH_POISON, bytes), "poisoning the output");
	bench_cuda(cudaDeviceSynchronize(), "poisoning the output");
}

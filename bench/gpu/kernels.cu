/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels for ceilings and baselines. They are plain on purpose: rung's gather is compared with the
 * result of a few lines of CUDA. Memory is read with __ldg and written with __stwb, as in kernels/,
 * so that the simulated GPUs of the tests see every access.
 */
#include <cuda_runtime.h>

#include "kernels.h"

#define THREADS       256u
#define BLOCKS_PER_SM 8u /* 2048 threads, the most that an SM holds */
#define WARP          32u
#define AHEAD         4u /* loads in flight per thread */

static __global__ void copy_line(uint4 *to, const uint4 *from, uint64_t count)
{
	const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;

	for (; i + (AHEAD - 1) * step < count; i += AHEAD * step) {
		uint4 piece[AHEAD];

#pragma unroll
		for (unsigned k = 0; k < AHEAD; k++)
			piece[k] = __ldg(from + i + k * step);
#pragma unroll
		for (unsigned k = 0; k < AHEAD; k++)
			__stwb(to + i + k * step, piece[k]);
	}
	for (; i < count; i += step)
		__stwb(to + i, __ldg(from + i));
}

template <class Piece>
static __global__ void copy_rows(unsigned char *to, const unsigned char *table, uint64_t stride,
                                 uint32_t row_bytes, const unsigned long long *ids, uint64_t count)
{
	const uint64_t warps = (uint64_t)gridDim.x * (blockDim.x / WARP);
	const uint32_t pieces = row_bytes / (uint32_t)sizeof(Piece);

	for (uint64_t i = (uint64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
	     i < count; i += warps) {
		const Piece *from = (const Piece *)(table + __ldg(ids + i) * stride);
		Piece *row = (Piece *)(to + i * row_bytes);

		for (uint32_t p = threadIdx.x % WARP; p < pieces; p += WARP)
			__stwb(row + p, __ldg(from + p));
	}
}

/* The word at a position of a filled table (splitmix64's mix, shortened). */
static __device__ unsigned long long word_at(uint64_t idx, uint64_t seed)
{
	uint64_t x = (idx + seed) * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 31;
}

static __global__ void fill_words(unsigned long long *to, uint64_t count, uint64_t seed)
{
	const uint64_t step = (uint64_t)gridDim.x * blockDim.x;

	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
		__stwb(to + i, word_at(i, seed));
}

static __global__ void compare_rows(const unsigned long long *rows, uint32_t row_words,
                                    const unsigned long long *ids, uint64_t count, uint64_t seed,
                                    unsigned long long *wrong)
{
	const uint64_t step = (uint64_t)gridDim.x * blockDim.x, words = count * row_words;

	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) {
		const uint64_t at = __ldg(ids + i / row_words) * row_words + i % row_words;

		if (__ldg(rows + i) != word_at(at, seed))
			atomicAdd(wrong, 1ull);
	}
}

static __global__ void compute(float *out, unsigned rounds)
{
	float x = (float)(threadIdx.x + 1);

	/* each round depends on the last one, so the time grows with the rounds alone */
	for (unsigned i = 0; i < rounds; i++)
		x = x * 0.999f + 0.001f;
	/* without a store the compiler would remove the loop */
	__stwb(out + (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, x);
}

extern "C" cudaError_t bench_kernel_copy(void *to, const void *from, uint64_t bytes,
                                         unsigned sm_count, cudaStream_t stream)
{
	uint4 *to_pieces = (uint4 *)to;
	const uint4 *from_pieces = (const uint4 *)from;
	uint64_t count = bytes / sizeof(uint4);
	void *args[] = { &to_pieces, &from_pieces, &count };

	return cudaLaunchKernel(copy_line, dim3(sm_count * BLOCKS_PER_SM), dim3(THREADS), args, 0,
	                        stream);
}

extern "C" cudaError_t bench_kernel_rows(void *to, const void *table, uint64_t stride,
                                         uint32_t row_bytes, const uint64_t *ids, uint64_t count,
                                         unsigned sm_count, cudaStream_t stream)
{
	unsigned char *out = (unsigned char *)to;
	const unsigned char *rows = (const unsigned char *)table;
	const unsigned long long *list = (const unsigned long long *)ids;
	void *args[] = { &out, &rows, &stride, &row_bytes, &list, &count };
	const dim3 grid(sm_count * BLOCKS_PER_SM), block(THREADS);
	const uint64_t ored =
		(uint64_t)(uintptr_t)to | (uint64_t)(uintptr_t)table | stride | row_bytes;

	if (ored % sizeof(uint4) == 0)
		return cudaLaunchKernel(copy_rows<uint4>, grid, block, args, 0, stream);
	if (ored % sizeof(unsigned) == 0)
		return cudaLaunchKernel(copy_rows<unsigned>, grid, block, args, 0, stream);
	return cudaErrorInvalidValue;
}

extern "C" cudaError_t bench_kernel_fill(void *to, uint64_t bytes, uint64_t seed, unsigned sm_count,
                                         cudaStream_t stream)
{
	unsigned long long *words = (unsigned long long *)to;
	uint64_t count = bytes / sizeof(*words);
	void *args[] = { &words, &count, &seed };
	const dim3 grid(sm_count * BLOCKS_PER_SM), block(THREADS);

	return cudaLaunchKernel(fill_words, grid, block, args, 0, stream);
}

extern "C" cudaError_t bench_kernel_compare(const void *rows, uint32_t row_bytes,
                                            const uint64_t *ids, uint64_t count, uint64_t seed,
                                            uint64_t *wrong, unsigned sm_count, cudaStream_t stream)
{
	const unsigned long long *words = (const unsigned long long *)rows;
	const unsigned long long *list = (const unsigned long long *)ids;
	unsigned long long *found = (unsigned long long *)wrong;
	uint32_t row_words = row_bytes / (uint32_t)sizeof(*words);
	void *args[] = { &words, &row_words, &list, &count, &seed, &found };
	const dim3 grid(sm_count * BLOCKS_PER_SM), block(THREADS);

	return cudaLaunchKernel(compare_rows, grid, block, args, 0, stream);
}

extern "C" uint64_t bench_compute_floats(unsigned sm_count)
{
	return (uint64_t)sm_count * BLOCKS_PER_SM * THREADS;
}

extern "C" cudaError_t bench_kernel_compute(float *out, unsigned rounds, unsigned sm_count,
                                            cudaStream_t stream)
{
	void *args[] = { &out, &rounds };

	return cudaLaunchKernel(compute, dim3(sm_count * BLOCKS_PER_SM), dim3(THREADS), args, 0,
	                        stream);
}

extern "C" cudaError_t bench_kernel_delay(float *out, unsigned rounds, cudaStream_t stream)
{
	void *args[] = { &out, &rounds };

	return cudaLaunchKernel(compute, dim3(1), dim3(WARP), args, 0, stream);
}

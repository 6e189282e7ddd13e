/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Prefix sums over more items than a block holds, in three kernels: warps sum tiles of SCAN_TILE
 * items, one block turns the sums of tiles into prefixes, and warps process their tiles again.
 * Blocks never wait for each other: the end of a kernel is the barrier. Sums saturate at
 * UINT64_MAX, because numbers from damaged arrays must not wrap to small ones. Valid CUDA and
 * C++17.
 */
#ifndef RUNG_KERNELS_SCAN_H
#define RUNG_KERNELS_SCAN_H

#include "warp.h"

#define SCAN_THREAD_SUMS 4u /* number of adjacent sums per thread and round */

static __device__ __forceinline__ uint64_t add_capped(uint64_t a, uint64_t b)
{
	const uint64_t sum = a + b;

	return sum < a ? UINT64_MAX : sum;
}

/** Sum over this lane and the lanes with lower numbers. */
static __device__ __forceinline__ uint64_t warp_sum_up_to(uint64_t value)
{
	const uint32_t lane = threadIdx.x % WARP_LANES;

	for (uint32_t delta = 1; delta < WARP_LANES; delta *= 2) {
		const uint64_t below = __shfl_up_sync(WARP_ALL, value, delta);

		if (lane >= delta)
			value = add_capped(value, below);
	}
	return value;
}

/** Sum over the lanes with lower numbers. @param sum_out  the sum over all lanes */
static __device__ __forceinline__ uint64_t warp_sum_before(uint64_t value, uint64_t *sum_out)
{
	const uint64_t up_to = warp_sum_up_to(value);
	const uint64_t before = __shfl_up_sync(WARP_ALL, up_to, 1);

	*sum_out = __shfl_sync(WARP_ALL, up_to, (int)WARP_LANES - 1);
	return threadIdx.x % WARP_LANES ? before : 0;
}

/** Replace each sum by the sum of those before it. All threads of a block of BLOCK_THREADS call it.
 * @return the sum of all, in every thread */
static __device__ __forceinline__ uint64_t block_scan(uint64_t *sums, uint64_t count)
{
	__shared__ uint64_t warp_sums[BLOCK_THREADS / WARP_LANES];
	const uint32_t warp = threadIdx.x / WARP_LANES;
	uint64_t carry = 0;

	for (uint64_t first = 0; first < count; first += BLOCK_THREADS * SCAN_THREAD_SUMS) {
		const uint64_t at = first + threadIdx.x * SCAN_THREAD_SUMS;
		uint64_t mine[SCAN_THREAD_SUMS], sum = 0, before, warp_sum;

		for (uint32_t k = 0; k < SCAN_THREAD_SUMS; k++) {
			mine[k] = at + k < count ? __ldcg(sums + at + k) : 0;
			sum = add_capped(sum, mine[k]);
		}
		before = warp_sum_before(sum, &warp_sum);
		if (threadIdx.x % WARP_LANES == 0)
			warp_sums[warp] = warp_sum;
		__syncthreads();
		before = add_capped(before, carry);
		for (uint32_t w = 0; w < BLOCK_THREADS / WARP_LANES; w++) {
			before = w < warp ? add_capped(before, warp_sums[w]) : before;
			carry = add_capped(carry, warp_sums[w]);
		}
		for (uint32_t k = 0; k < SCAN_THREAD_SUMS; k++) {
			if (at + k < count)
				__stwb(sums + at + k, before);
			before = add_capped(before, mine[k]);
		}
		__syncthreads(); /* warp_sums is overwritten next */
	}
	return carry;
}

#endif

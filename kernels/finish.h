/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The end of a launch: detecting its last block and notifying the host. Valid CUDA and C++17.
 *
 * The host polls a word in host memory, which costs a load and no call to CUDA. Once it has read
 * the turn there, it may use everything that the launch wrote: output rows, miss lists, the report.
 * This chain guarantees it:
 *
 *     a lane writes -> system fence -> barrier of the block -> the block's ticket, an atomic
 *         -> the last block draws the highest ticket -> fence -> report -> fence
 *         -> store-release of the word, system scope
 *         -> load-acquire of the word by the host -> the host reads
 *
 * Each arrow is an order, so all writes of all blocks come before the reads of the host. The fence
 * of the writing lanes has system scope because rows, lists and report may be in host memory, where
 * visibility to another block is not enough. Reads are ordered in the same way: the launch reads no
 * slot and no id after it has written the word. It accesses no memory at all after the word, counts
 * included, so the next launch may use the memory, on any stream, even before this launch has left
 * the GPU.
 *
 * A launch can leave this to the next launch on its stream, which draws no tickets. The end of the
 * first launch then takes the place of the fences, the barriers and the tickets: everything it
 * wrote comes before the second launch, whose fence and store-release follow. For the host both are
 * one launch.
 *
 * The word contains the number of the launch, its turn, and not a flag: a word of an earlier launch
 * that arrives late, or stays because a launch has failed, never equals the expected turn.
 */
#ifndef RUNG_KERNELS_FINISH_H
#define RUNG_KERNELS_FINISH_H

#include "launch.h"
#include "warp.h"

static __device__ __forceinline__ void store_release_system(uint32_t *at, uint32_t value)
{
#ifdef __CUDACC__
	asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
#else /* C++ without CUDA: the lane tests */
	lanes_store_release(at, value);
#endif
}

/**
 * Draw a ticket for the block. Every thread of the grid calls this once, after its last access
 * except those to the report.
 * @return true in the lanes of one warp of the last block, which see the writes of all blocks
 */
static __device__ __forceinline__ bool is_last_block(unsigned long long *blocks_done)
{
	unsigned long long done = 0;

	__threadfence_system();
	__syncthreads();
	if (threadIdx.x >= WARP_LANES)
		return false;
	if (threadIdx.x == 0)
		done = atomicAdd(blocks_done, 1ull) + 1;
	if (__shfl_sync(WARP_ALL, done, 0) < gridDim.x)
		return false;
	__threadfence_system();
	return true;
}

/** Reset the tickets to zero, and notify the host. Called by the lanes that is_last_block()
 * selected, or by a launch of one warp. */
static __device__ __forceinline__ void end_launch(unsigned long long *blocks_done,
                                                  const struct rung__cuda_end &end)
{
	if (threadIdx.x == 0)
		atomicExch(blocks_done, 0ull);
	__threadfence_system(); /* makes each lane's part of the report, and the counts, visible */
	__syncwarp();
	if (threadIdx.x == 0 && end.word)
		store_release_system(end.word, end.turn);
}

#endif

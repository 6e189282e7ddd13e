/* SPDX-License-Identifier: Apache-2.0 */
/** The sizes of warps and blocks, and the number of a warp within the grid. Valid CUDA and
 * C++17. */
#ifndef RUNG_KERNELS_WARP_H
#define RUNG_KERNELS_WARP_H

#include <cuda_runtime.h>

#include "base/base.h"

#define WARP_LANES 32u
#define WARP_ALL   0xffffffffu
/* 8 warps: small enough to fill an SM evenly; warps share nothing that larger blocks would save */
#define BLOCK_THREADS 256u
#define LINE_BYTES    128u /* the largest single request of a warp to memory */

static __device__ __forceinline__ uint64_t global_warp()
{
	return (uint64_t)blockIdx.x * (blockDim.x / WARP_LANES) + threadIdx.x / WARP_LANES;
}

static __device__ __forceinline__ uint64_t global_warps()
{
	return (uint64_t)gridDim.x * (blockDim.x / WARP_LANES);
}

#endif

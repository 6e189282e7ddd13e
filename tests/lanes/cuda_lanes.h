/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The lane harness: the language of cuda_language.h and the few runtime calls that kernels/ uses. A
 * launch runs the kernel at once.
 *
 * The tests include the .cu files, with their host part, and run every lane as a fiber. Shuffles,
 * ballots and barriers synchronize as on the device, and lanes run in random orders. Undefined
 * behaviour in CUDA fails: a lane missing from a mask, an access that is misaligned or outside the
 * memory lent to the kernel, or a word released to the host before each lane has issued a system
 * fence after its stores. The harness sees accesses through __ldg and __stwb, so .cu files use
 * those for rows, ids and lists, and never a bare pointer. It does not cover races between two
 * collectives, the compiler's code, or time.
 */
#ifndef CUDA_LANES_H
#define CUDA_LANES_H

#include "cuda_language.h"

/* ---- runtime ---- */

typedef struct CUstream_st *cudaStream_t;
enum cudaError_t {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorNoKernelImageForDevice = 209,
	cudaErrorLaunchFailure = 719,
	cudaErrorNotSupported = 801
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };

namespace lanes
{
/* the next runtime call fails with this error */
inline cudaError_t next_error = cudaSuccess;
inline int sm_count = 3, blocks_per_sm = 2; /* of the simulated device */
inline unsigned launches = 0;
inline unsigned blocks_started = 0; /* by the last launch */
inline unsigned most_blocks = 0;    /* started by a launch */

inline cudaError_t take_error()
{
	const cudaError_t err = next_error;
	next_error = cudaSuccess;
	return err;
}
} // namespace lanes

inline cudaError_t cudaGetLastError()
{
	return cudaSuccess;
}
inline const char *cudaGetErrorName(cudaError_t)
{
	return "error of the harness";
}
inline const char *cudaGetErrorString(cudaError_t err)
{
	return err == cudaErrorNoDevice ? "no device" : "some error";
}

inline cudaError_t cudaGetDevice(int *device)
{
	*device = 0;
	return lanes::take_error();
}

inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int)
{
	*value = lanes::sm_count;
	return lanes::take_error();
}

template <class Kernel>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel *, int, size_t)
{
	*blocks = lanes::blocks_per_sm;
	return lanes::take_error();
}

inline cudaError_t cudaMemsetAsync(void *ptr, int value, size_t bytes, cudaStream_t)
{
	memset(ptr, value, bytes);
	return lanes::take_error();
}

template <class... Args>
inline cudaError_t cudaLaunchKernel(void (*function)(Args...), dim3 grid, dim3 block, void **args,
                                    size_t, cudaStream_t)
{
	const cudaError_t err = lanes::take_error();

	if (err != cudaSuccess)
		return err;
	if (grid.x == 0 || block.x == 0)
		return cudaErrorInvalidValue;
	lanes::launches++;
	lanes::blocks_started = grid.x;
	lanes::most_blocks = grid.x > lanes::most_blocks ? grid.x : lanes::most_blocks;
	lanes::kernel = lanes_call(function, args, std::index_sequence_for<Args...>());
	lanes::run_grid(grid.x, block.x);
	return cudaSuccess;
}

#endif

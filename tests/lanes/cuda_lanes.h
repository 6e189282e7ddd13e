/* SPDX-License-Identifier: Apache-2.0 */
/**
 * CUDA kernels on the CPU, lane by lane: the language, the warp intrinsics and the few runtime calls that kernels/ uses.
 *
 * Each lane of a block is a fiber. It runs until a collective (shuffle, ballot, barrier) and waits there; when all lanes of the
 * mask have come, they go on with the result. What the hardware leaves undefined fails here: a lane missing from a mask, a lane
 * of the mask that waits elsewhere or has left the kernel, a shuffle from a lane outside the mask, a barrier that some do not
 * reach. Lanes, warps and blocks run in an order drawn from lanes::seed, so that nothing can rely on one. Every access to global
 * memory is checked: aligned to its width, inside memory that the test lent to the kernel, not written where only reading was.
 *
 * What it cannot find: races inside one stretch between two collectives, and how fast anything is.
 */
#ifndef CUDA_LANES_H
#define CUDA_LANES_H

#include <cstring>
#include <tuple>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __shared__ static   /* blocks run one after the other */

struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct uint3 { unsigned x, y, z; };
struct dim3 {
	unsigned x, y, z;
	explicit dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

#include "scheduler.h"   /* uses these */

/* ---- intrinsics ------------------------------------------------------------------------------------------------------ */

template <class T>
inline T lanes_shuffle(unsigned mask, T value, unsigned source, int line)
{
	uint64_t bits = 0;

	static_assert(sizeof(T) <= 8, "shuffles move up to 8 bytes");
	memcpy(&bits, &value, sizeof(T));
	bits = lanes::meet(lanes::SHUFFLE, mask, source, bits, line);
	memcpy(&value, &bits, sizeof(T));
	return value;
}

/* Without a width: the whole warp. Up and down from past its edge: the lane's own value. */
template <class T> inline T __shfl_sync(unsigned mask, T value, int source, int line = __builtin_LINE())
{
	return lanes_shuffle(mask, value, (unsigned)source % lanes::WARP, line);
}

template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int line = __builtin_LINE())
{
	return lanes_shuffle(mask, value, (threadIdx.x ^ (unsigned)lane_mask) % lanes::WARP, line);
}

template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int line = __builtin_LINE())
{
	const unsigned lane = threadIdx.x % lanes::WARP;
	return lanes_shuffle(mask, value, lane >= delta ? lane - delta : lane, line);
}

template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int line = __builtin_LINE())
{
	const unsigned lane = threadIdx.x % lanes::WARP;
	return lanes_shuffle(mask, value, lane + delta < lanes::WARP ? lane + delta : lane, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE())
{
	return (unsigned)lanes::meet(lanes::BALLOT, mask, 0, predicate != 0, line);
}

template <class T> inline unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE())
{
	uint64_t bits = 0;

	static_assert(sizeof(T) <= 8, "matches compare up to 8 bytes");
	memcpy(&bits, &value, sizeof(T));
	return (unsigned)lanes::meet(lanes::MATCH, mask, 0, bits, line);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE())
{
	lanes::meet(lanes::SYNC_WARP, mask, 0, 0, line);
}

inline void __syncthreads(int line = __builtin_LINE())
{
	lanes::meet(lanes::SYNC_BLOCK, 0, 0, 0, line);
}

/* Alone: the least that CUDA promises. */
inline unsigned __activemask()
{
	return 1u << threadIdx.x % lanes::WARP;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }

template <class T> inline T __ldg(const T *ptr)
{
	T value;

	lanes::check_access(ptr, sizeof(T), lanes::LOAD);
	memcpy(&value, (const void *)ptr, sizeof(T));
	return value;
}

/* Past the first cache: what others have written while the kernel runs. Here all see everything. */
template <class T> inline T __ldcg(const T *ptr)
{
	return __ldg(ptr);
}

template <class T> inline void __stwb(T *ptr, T value)
{
	lanes::check_access(ptr, sizeof(T), lanes::STORE);
	memcpy((void *)ptr, &value, sizeof(T));
}

template <class T, class Change> inline T lanes_atomic(T *ptr, Change change)
{
	T old;

	lanes::check_access(ptr, sizeof(T), lanes::ATOMIC);
	memcpy(&old, (const void *)ptr, sizeof(T));
	const T changed = change(old);
	memcpy((void *)ptr, &changed, sizeof(T));
	return old;
}

#define LANES_ATOMICS(T)                                                                                                         \
	inline T atomicAdd(T *ptr, T value) { return lanes_atomic(ptr, [value](T old) { return (T)(old + value); }); }            \
	inline T atomicMin(T *ptr, T value) { return lanes_atomic(ptr, [value](T old) { return old < value ? old : value; }); }   \
	inline T atomicMax(T *ptr, T value) { return lanes_atomic(ptr, [value](T old) { return old > value ? old : value; }); }
LANES_ATOMICS(int)
LANES_ATOMICS(unsigned)
LANES_ATOMICS(unsigned long long)

template <class T> inline T atomicCAS(T *ptr, T expected, T value)
{
	return lanes_atomic(ptr, [expected, value](T old) { return old == expected ? value : old; });
}

/* ---- runtime --------------------------------------------------------------------------------------------------------- */

typedef struct CUstream_st *cudaStream_t;
enum cudaError_t {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorNoKernelImageForDevice = 209,
	cudaErrorLaunchFailure = 719
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };

namespace lanes {
inline cudaError_t next_error = cudaSuccess;   /* what the next runtime call returns instead of working */
inline int sm_count = 3, blocks_per_sm = 2;    /* of the machine we pretend to be */
inline unsigned launches = 0, blocks_started = 0;

inline cudaError_t take_error()
{
	const cudaError_t err = next_error;
	next_error = cudaSuccess;
	return err;
}
} // namespace lanes

inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char *cudaGetErrorName(cudaError_t) { return "error of the harness"; }
inline const char *cudaGetErrorString(cudaError_t err) { return err == cudaErrorNoDevice ? "no device" : "some error"; }

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

template <class... Args, size_t... I>
inline void lanes_call(void (*function)(Args...), void **args, std::index_sequence<I...>)
{
	lanes::kernel = [=] { function(*static_cast<typename std::remove_reference<Args>::type *>(args[I])...); };
}

template <class... Args>
inline cudaError_t cudaLaunchKernel(void (*function)(Args...), dim3 grid, dim3 block, void **args, size_t, cudaStream_t)
{
	const cudaError_t err = lanes::take_error();

	if (err != cudaSuccess)
		return err;
	if (grid.x == 0 || block.x == 0)
		return cudaErrorInvalidValue;
	lanes::launches++;
	lanes::blocks_started = grid.x;
	lanes_call(function, args, std::index_sequence_for<Args...>());
	lanes::run_grid(grid.x, block.x);
	return cudaSuccess;
}

#endif

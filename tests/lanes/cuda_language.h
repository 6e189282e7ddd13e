/* SPDX-License-Identifier: Apache-2.0 */
/**
 * CUDA kernels on the CPU, lane by lane: the language and the warp intrinsics. Kernels are launched
 * by cuda_lanes.h in this folder (at once, in memory that the test lends) or by the simulated
 * runtime in ../sim (on streams, in memory of simulated GPUs).
 *
 * Each lane of a block is a fiber. It runs until a collective (shuffle, ballot, barrier) and waits
 * there; when all lanes of the mask have arrived, they continue with the result. Behaviour that the
 * hardware leaves undefined fails here: a lane missing from a mask, a lane of the mask that waits
 * elsewhere or has left the kernel, a shuffle from a lane outside the mask, a barrier that some
 * lanes do not reach. Lanes, warps and blocks run in an order drawn from lanes::seed, so that no
 * test passes by relying on one order. Every access to global memory is checked: it must be aligned
 * to its width, inside memory that the kernel may use, and not a write to read-only memory.
 *
 * It cannot find races between two collectives, and it cannot measure speed.
 */
#ifndef CUDA_LANGUAGE_H
#define CUDA_LANGUAGE_H

#include <cstring>
#include <tuple>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static /* one block runs at a time */

struct uint2 {
	unsigned x, y;
};
struct alignas(16) uint4 {
	unsigned x, y, z, w;
};
struct uint3 {
	unsigned x, y, z;
};
struct dim3 {
	unsigned x, y, z;
	dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
	{
	}
};

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

#include "scheduler.h" /* uses these */

/* ---- intrinsics ---- */

template <class T> inline T lanes_shuffle(unsigned mask, T value, unsigned source, int line)
{
	uint64_t bits = 0;

	static_assert(sizeof(T) <= 8, "shuffles move up to 8 bytes");
	memcpy(&bits, &value, sizeof(T));
	bits = lanes::meet(lanes::SHUFFLE, mask, source, bits, line);
	memcpy(&value, &bits, sizeof(T));
	return value;
}

/* Without a width: the whole warp. A shuffle up or down past its edge returns the lane's own
 * value. */
template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int line = __builtin_LINE())
{
	return lanes_shuffle(mask, value, (unsigned)source % lanes::WARP, line);
}

template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int line = __builtin_LINE())
{
	return lanes_shuffle(mask, value, (threadIdx.x ^ (unsigned)lane_mask) % lanes::WARP, line);
}

template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int line = __builtin_LINE())
{
	const unsigned lane = threadIdx.x % lanes::WARP;
	return lanes_shuffle(mask, value, lane >= delta ? lane - delta : lane, line);
}

template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int line = __builtin_LINE())
{
	const unsigned lane = threadIdx.x % lanes::WARP;
	return lanes_shuffle(mask, value, lane + delta < lanes::WARP ? lane + delta : lane, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE())
{
	return (unsigned)lanes::meet(lanes::BALLOT, mask, 0, predicate != 0, line);
}

inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE())
{
	return __ballot_sync(mask, predicate, line) != 0;
}

inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE())
{
	return __ballot_sync(mask, predicate, line) == mask;
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value, int line = __builtin_LINE())
{
	return (unsigned)lanes::meet(lanes::REDUCE_ADD, mask, 0, value, line);
}

inline int __reduce_add_sync(unsigned mask, int value, int line = __builtin_LINE())
{
	return (int)__reduce_add_sync(mask, (unsigned)value, line);
}

template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE())
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

/* Empty: within a block lanes switch only at collectives. The wider fences matter because the
 * host's threads are other threads of this process. */
inline void __threadfence_block()
{
}
inline void __threadfence()
{
	lanes::fence();
}
inline void __threadfence_system()
{
	lanes::fence();
	lanes::note_stores(false);
}

/* Only the calling lane, which is the least that CUDA promises. */
inline unsigned __activemask()
{
	return 1u << threadIdx.x % lanes::WARP;
}

inline int __popc(unsigned x)
{
	return __builtin_popcount(x);
}
inline int __ffs(int x)
{
	return __builtin_ffs(x);
}

template <class T> inline T __ldg(const T *ptr)
{
	T value;

	memcpy(&value, lanes::access_at(ptr, sizeof(T), lanes::LOAD), sizeof(T));
	return value;
}

template <class T> inline void __stwb(T *ptr, T value)
{
	memcpy(lanes::access_at(ptr, sizeof(T), lanes::STORE), &value, sizeof(T));
}

/*
 * Kernels write this as st.release.sys. Each lane of the grid that has stored something must have
 * issued a system fence since.
 */
inline void lanes_store_release(uint32_t *ptr, uint32_t value)
{
	lanes::check_fences();
	lanes::store_release(lanes::access_at(ptr, sizeof(value), lanes::RELEASE), value);
}

/* The same here: they differ only in their use of caches. */
template <class T> inline T __ldca(const T *ptr)
{
	return __ldg(ptr);
}
template <class T> inline T __ldcg(const T *ptr)
{
	return __ldg(ptr);
}
template <class T> inline T __ldcv(const T *ptr)
{
	return __ldg(ptr);
}
template <class T> inline T __ldcs(const T *ptr)
{
	return __ldg(ptr);
}
template <class T> inline void __stcg(T *ptr, T value)
{
	__stwb(ptr, value);
}
template <class T> inline void __stcs(T *ptr, T value)
{
	__stwb(ptr, value);
}
template <class T> inline void __stwt(T *ptr, T value)
{
	__stwb(ptr, value);
}

/* Real atomics: the host may read the same word. */
template <class T, class Change> inline T lanes_atomic(T *ptr, Change change)
{
	T *at = (T *)lanes::access_at(ptr, sizeof(T), lanes::ATOMIC);
	T old = __atomic_load_n(at, __ATOMIC_RELAXED);

	while (!__atomic_compare_exchange_n(at, &old, change(old), false, __ATOMIC_RELAXED,
	                                    __ATOMIC_RELAXED))
		;
	return old;
}

#define LANES_ATOMICS(T)                                                                           \
	inline T atomicAdd(T *ptr, T value)                                                        \
	{                                                                                          \
		return lanes_atomic(ptr, [value](T old) { return (T)(old + value); });             \
	}                                                                                          \
	inline T atomicMin(T *ptr, T value)                                                        \
	{                                                                                          \
		return lanes_atomic(ptr, [value](T old) { return old < value ? old : value; });    \
	}                                                                                          \
	inline T atomicMax(T *ptr, T value)                                                        \
	{                                                                                          \
		return lanes_atomic(ptr, [value](T old) { return old > value ? old : value; });    \
	}                                                                                          \
	inline T atomicOr(T *ptr, T value)                                                         \
	{                                                                                          \
		return lanes_atomic(ptr, [value](T old) { return (T)(old | value); });             \
	}                                                                                          \
	inline T atomicAnd(T *ptr, T value)                                                        \
	{                                                                                          \
		return lanes_atomic(ptr, [value](T old) { return (T)(old & value); });             \
	}                                                                                          \
	inline T atomicExch(T *ptr, T value)                                                       \
	{                                                                                          \
		return lanes_atomic(ptr, [value](T) { return value; });                            \
	}                                                                                          \
	inline T atomicCAS(T *ptr, T compare, T value)                                             \
	{                                                                                          \
		return lanes_atomic(                                                               \
			ptr, [compare, value](T old) { return old == compare ? value : old; });    \
	}
LANES_ATOMICS(int)
LANES_ATOMICS(unsigned)
LANES_ATOMICS(unsigned long long)

/* ---- launches ---- */

/* The work of one lane of a launch: the kernel with a copy of the arguments, made now. */
template <class... Args, size_t... I>
inline std::function<void()> lanes_call(void (*function)(Args...), void **args,
                                        std::index_sequence<I...>)
{
	(void)args; /* unused for a kernel without arguments */
	return [function,
	        values = std::tuple<typename std::decay<Args>::type...>(
			*static_cast<typename std::remove_reference<Args>::type *>(args[I])...)] {
		std::apply(function, values);
	};
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Devices: what gathers run on, what memory they write to, and the streams of their work.
 *
 * Functions that take a stream take a cudaStream_t of the GPU on which the store gathers. Handles
 * that name no object mean what they mean in CUDA, on that GPU: NULL and cudaStreamLegacy (1) its
 * default stream, which is in order with all streams that were not created with
 * cudaStreamNonBlocking; cudaStreamPerThread (2) that of the calling thread. RUNG_STREAM_OWN is
 * rung's addition.
 *
 * While a stream is captured into a CUDA graph, functions that put work on it return RUNG_E_NOSUP,
 * and leave the capture as it is. So they do for the default stream while a stream in order with it
 * is captured, rung_store_copy() included. On other streams, and in other threads, a capture is no
 * obstacle to any function, nor do rung's threads disturb one.
 */
#ifndef RUNG_DEVICE_H
#define RUNG_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RUNG_GPUS_MAX 16   /**< that rows are interleaved over */

struct CUstream_st;   /**< what a cudaStream_t points to */

/**
 * As a stream: the store's own, which is in order with no other stream, also not with the default
 * stream. Memory that a call on it reads is complete, and memory that it writes is used by no other
 * work, before the call.
 * CUDA gives no stream this value.
 */
#define RUNG_STREAM_OWN ((struct CUstream_st *)UINTPTR_MAX)

/** What gathers run on. */
enum rung_device {
	RUNG_DEVICE_CPU = 0,   /**< rows go to host memory, copied by the caller's thread */
	RUNG_DEVICE_CUDA,      /**< rows go to GPU memory, copied by kernels on a stream */
	RUNG_DEVICE_AUTO       /**< CUDA where there is a GPU with a driver, else the CPU, and the reason is kept */
};

/** "cpu", "cuda", "auto"; NULL for no device. */
RUNG_API const char *rung_device_name(enum rung_device device);

/** A GPU and its memory. */
struct rung_gpu_info {
	size_t size;            /**< sizeof(struct rung_gpu_info), set by the caller */
	char name[128];         /**< "NVIDIA H200" */
	char bus_id[32];        /**< "0000:3b:00.0" */
	uint64_t total_bytes;
	uint64_t free_bytes;
	int node;               /**< NUMA node its link leads to; -1: unknown */
};

/**
 * Look at a GPU.
 *
 * @param gpu  its number among those that CUDA shows to this process; negative: the one the calling thread has current
 * @return 0, RUNG_E_NODEV (no GPU, no driver, or not so many), RUNG_E_NOSUP (built without CUDA), RUNG_E_ABI
 *
 * Makes CUDA start in this process, which takes time, and memory of the host and of the GPU. After fork() a child cannot
 * use CUDA when its parent has: fork first, or execute a program.
 */
RUNG_API int rung_gpu_info(int gpu, struct rung_gpu_info *info_out);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Devices: where gathers run, which memory they write to, and the CUDA streams of their work.
 *
 * A function that takes a stream accepts a cudaStream_t of the GPU on which the store gathers.
 * Special handles have the same meaning as in CUDA, on that GPU: NULL and cudaStreamLegacy (1) are
 * its default stream, which is ordered with every stream that was created without
 * cudaStreamNonBlocking; cudaStreamPerThread (2) is the default stream of the calling thread.
 * RUNG_STREAM_OWN is an addition of rung.
 *
 * While a stream is captured into a CUDA graph, functions that enqueue work on it return
 * RUNG_E_NOSUP and leave the capture intact. The same holds for the default stream while a stream
 * that is ordered with it is captured, and for rung_store_copy(). Captures on other streams and in
 * other threads do not restrict any function, and rung's threads do not disturb them.
 */
#ifndef RUNG_DEVICE_H
#define RUNG_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RUNG_GPUS_MAX 16 /**< maximum number of GPUs over which rows are interleaved */

struct CUstream_st; /**< the type that a cudaStream_t points to */

/**
 * A stream argument that selects the store's private stream, which is not ordered with any other
 * stream, including the default stream. Memory that the call reads must be complete before the
 * call, and no other work may use memory that it writes. CUDA never assigns this value to a stream.
 */
#define RUNG_STREAM_OWN ((struct CUstream_st *)UINTPTR_MAX)

/** Device on which gathers run. */
enum rung_device {
	RUNG_DEVICE_CPU = 0, /**< the calling thread copies rows to host memory */
	RUNG_DEVICE_CUDA,    /**< kernels on a stream copy rows to GPU memory */
	/** CUDA if there is a GPU with a driver; else the CPU, with the reason in
	 * rung_plan_device.why */
	RUNG_DEVICE_AUTO
};

/**
 * Name of a device, as the command line and Python use it.
 *
 * @param device  a device; any other value is accepted, too
 * @return a constant string, "cpu", "cuda" or "auto", which must not be freed; NULL if `device` is
 *         not a valid device
 *
 * Does not check whether the machine has such a device: rung_gpu_info() does. Sets no error text.
 *
 * Threads: any.
 */
RUNG_API const char *rung_device_name(enum rung_device device);

/** A GPU and its memory. */
struct rung_gpu_info {
	size_t size;     /**< sizeof(struct rung_gpu_info), set by the caller */
	char name[128];  /**< "NVIDIA H200" */
	char bus_id[32]; /**< "0000:3b:00.0" */
	uint64_t total_bytes;
	uint64_t free_bytes;
	int node; /**< NUMA node of its PCIe link; -1: unknown */
};

/**
 * Query a GPU: its name, memory, PCI bus id and NUMA node.
 *
 * @param gpu       index among the GPUs that CUDA shows to this process; negative: the current GPU
 *                  of the calling thread
 * @param info_out  filled; its size must be set
 * @return 0, RUNG_E_NODEV (no GPU, no driver, or no GPU with that index), RUNG_E_NOSUP (built
 *         without CUDA), RUNG_E_ABI (size)
 *
 * Initialises CUDA in this process, which takes time and uses host and GPU memory. A child of
 * fork() cannot use CUDA if its parent has used it: fork first, or execute a program.
 *
 * Threads: any.
 */
RUNG_API int rung_gpu_info(int gpu, struct rung_gpu_info *info_out);

#ifdef __cplusplus
}
#endif
#endif

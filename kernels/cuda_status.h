/* SPDX-License-Identifier: Apache-2.0 */
/** CUDA errors as rung's: the one funnel. Valid C11, CUDA and C++17. */
#ifndef RUNG_KERNELS_CUDA_STATUS_H
#define RUNG_KERNELS_CUDA_STATUS_H

#ifdef __cplusplus
#include <cuda_runtime.h>
#else
#include <cuda_runtime_api.h>
#endif

#include "base/base.h"

static inline int cuda_status_of(cudaError_t err)
{
	switch (err) {
	case cudaErrorNoDevice:
	case cudaErrorInvalidDevice:
	case cudaErrorInsufficientDriver: return RUNG_E_NODEV;
	case cudaErrorNotSupported:
	case cudaErrorNoKernelImageForDevice: return RUNG_E_NOSUP;
	case cudaErrorMemoryAllocation: return RUNG_E_NOMEM;
	case cudaErrorInvalidValue: return RUNG_E_INVAL;
	default: return RUNG_E_IO;
	}
}

/** 0 for cudaSuccess, else a failure with CUDA's own text; `what` was being done. Takes the error off the thread's record. */
static inline int cuda_status(cudaError_t err, const char *what)
{
	if (err == cudaSuccess)
		return 0;
	(void)cudaGetLastError();
	return rung__fail(cuda_status_of(err), "cuda: %s: %s (%s)", what, cudaGetErrorString(err), cudaGetErrorName(err));
}

#ifdef __cplusplus
/** Blocks of a kernel that the current device holds at once. */
template <class Kernel>
static inline int cuda_blocks(Kernel *kernel, unsigned threads, const char *what, unsigned *block_count_out)
{
	int device, sm_count, blocks;
	cudaError_t err = cudaGetDevice(&device);

	if (err == cudaSuccess)
		err = cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, device);
	if (err == cudaSuccess)
		err = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, (int)threads, 0);
	if (err != cudaSuccess)
		return cuda_status(err, what);
	*block_count_out = (unsigned)(sm_count * (blocks > 0 ? blocks : 1));
	return 0;
}
#endif

#endif

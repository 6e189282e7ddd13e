/* SPDX-License-Identifier: Apache-2.0 */
/** CUDA errors as rung's. Valid CUDA and C++17. */
#ifndef RUNG_KERNELS_CUDA_STATUS_H
#define RUNG_KERNELS_CUDA_STATUS_H

#include <cuda_runtime.h>

#include "internal.h"

/** 0 for cudaSuccess, else a failure with CUDA's own text; `what` was being done. Takes the error off the thread's record. */
static inline int cuda_status(cudaError_t err, const char *what)
{
	int status;

	if (err == cudaSuccess)
		return 0;
	(void)cudaGetLastError();
	switch (err) {
	case cudaErrorNoDevice:
	case cudaErrorInsufficientDriver: status = RUNG_E_NODEV; break;
	case cudaErrorNoKernelImageForDevice: status = RUNG_E_NOSUP; break;
	case cudaErrorMemoryAllocation: status = RUNG_E_NOMEM; break;
	case cudaErrorInvalidValue: status = RUNG_E_INVAL; break;
	default: status = RUNG_E_IO; break;
	}
	return rung__fail(status, "cuda: %s: %s (%s)", what, cudaGetErrorString(err), cudaGetErrorName(err));
}

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

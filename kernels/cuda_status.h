/* SPDX-License-Identifier: Apache-2.0 */
/** Conversion of CUDA errors to rung's, for all code in this folder. Valid C11, CUDA and C++17. */
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
	case cudaErrorInsufficientDriver:
		return RUNG_E_NODEV;
	case cudaErrorNotSupported:
	case cudaErrorNoKernelImageForDevice:
		return RUNG_E_NOSUP;
	case cudaErrorMemoryAllocation:
		return RUNG_E_NOMEM;
	case cudaErrorInvalidValue:
		return RUNG_E_INVAL;
	default: /* this includes errors of earlier asynchronous work, which any call can return */
		return RUNG_E_IO;
	}
}

/** 0 for cudaSuccess, else a failure with CUDA's text; `what` names the step. Clears the thread's
 * last CUDA error, which the application would otherwise find. */
static inline int cuda_status(cudaError_t err, const char *what)
{
	if (err == cudaSuccess)
		return 0;
	(void)cudaGetLastError();
	return rung__fail(cuda_status_of(err), "cuda: %s: %s (%s)", what, cudaGetErrorString(err),
	                  cudaGetErrorName(err));
}

#ifdef __cplusplus
/** Load kernels by querying the occupancy of each.
 * @param block_count_out  number of blocks of the first kernel that the current device holds at
 *        once */
template <class Kernel, size_t count>
static inline int cuda_load(Kernel *const (&kernels)[count], unsigned threads, const char *what,
                            unsigned *block_count_out)
{
	int device, sm_count[count], blocks[count];
	cudaError_t err = cudaSuccess;

	for (size_t k = 0; k < count && err == cudaSuccess; k++) {
		err = cudaGetDevice(&device);
		if (err == cudaSuccess)
			err = cudaDeviceGetAttribute(&sm_count[k], cudaDevAttrMultiProcessorCount,
			                             device);
		if (err == cudaSuccess)
			err = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks[k], kernels[k],
			                                                    (int)threads, 0);
	}
	if (err == cudaSuccess)
		*block_count_out = (unsigned)(sm_count[0] * RUNG__MAX(blocks[0], 1));
	return cuda_status(err, what);
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** The kernels of test_sim: host code and kernels are compiled apart, as for CUDA. Each is started with blocks of 64 threads. */
#ifndef TEST_SIM_H
#define TEST_SIM_H

#include <cuda_runtime_api.h>

/** a[i] = a[i] * 3 + add: two of them give another result in another order. One block. */
cudaError_t start_step(cudaStream_t stream, unsigned *a, unsigned add);
/** to[i] = from[i]. One block. */
cudaError_t start_copy(cudaStream_t stream, unsigned *to, const unsigned *from);
/** Reads from[i]. One block. */
cudaError_t start_load(cudaStream_t stream, const unsigned *from);
/** to[i] = i within the block. */
cudaError_t start_store(cudaStream_t stream, unsigned *to, unsigned blocks);
/** *to += threads, by atomics. Two blocks. */
cudaError_t start_count(cudaStream_t stream, unsigned *to);

#endif

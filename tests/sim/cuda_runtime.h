/* SPDX-License-Identifier: Apache-2.0 */
/** Included by .cu files instead of CUDA's header: the language, run lane by lane (../lanes), and
 * the simulated runtime. C++ only. */
#ifndef SIM_CUDA_RUNTIME_H
#define SIM_CUDA_RUNTIME_H

#include "../lanes/cuda_language.h"
#include "cuda_runtime_api.h"

namespace sim
{

/* The work of the calls below for any kernel. Each lane calls `lane`. */
cudaError_t launch(const void *function, dim3 grid, dim3 block, std::function<void()> lane,
                   cudaStream_t stream);
cudaError_t function_attributes(const void *function, struct cudaFuncAttributes *attributes_out);
cudaError_t blocks_per_sm(const void *function, int *blocks_out, int threads);

} // namespace sim

/** Arguments are copied now; the kernel runs when its stream reaches it. */
template <class... Args>
inline cudaError_t cudaLaunchKernel(void (*function)(Args...), dim3 grid, dim3 block, void **args,
                                    size_t, cudaStream_t stream)
{
	return sim::launch((const void *)function, grid, block,
	                   lanes_call(function, args, std::index_sequence_for<Args...>()), stream);
}

template <class Kernel>
inline cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, Kernel *kernel)
{
	return sim::function_attributes((const void *)kernel, attributes);
}

template <class Kernel>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel *kernel,
                                                                 int threads, size_t)
{
	return sim::blocks_per_sm((const void *)kernel, blocks, threads);
}

#endif

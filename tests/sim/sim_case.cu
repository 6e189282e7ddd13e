/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for the tests of the simulated GPUs. */
#include "sim_case.h"

#include <cuda_runtime.h>

template <class... Args>
static cudaError_t start(cudaStream_t stream, unsigned blocks, void (*kernel)(Args...),
                         Args... args)
{
	void *pointers[] = { &args... };

	return cudaLaunchKernel(kernel, dim3(blocks), dim3(64), pointers, 0, stream);
}

static __global__ void step_kernel(unsigned *a, unsigned add)
{
	__stwb(a + threadIdx.x, __ldg(a + threadIdx.x) * 3 + add);
}

static __global__ void copy_kernel(unsigned *to, const unsigned *from)
{
	__stwb(to + threadIdx.x, __ldg(from + threadIdx.x));
}

static __global__ void load_kernel(const unsigned *from)
{
	__ldg(from + threadIdx.x);
}

static __global__ void store_kernel(unsigned *to)
{
	__stwb(to + blockIdx.x * blockDim.x + threadIdx.x, threadIdx.x);
}

static __global__ void count_kernel(unsigned *to)
{
	atomicAdd(to, 1u);
}

cudaError_t start_step(cudaStream_t stream, unsigned *a, unsigned add)
{
	return start(stream, 1, step_kernel, a, add);
}

cudaError_t start_copy(cudaStream_t stream, unsigned *to, const unsigned *from)
{
	return start(stream, 1, copy_kernel, to, from);
}

cudaError_t start_load(cudaStream_t stream, const unsigned *from)
{
	return start(stream, 1, load_kernel, from);
}

cudaError_t start_store(cudaStream_t stream, unsigned *to, unsigned blocks)
{
	return start(stream, blocks, store_kernel, to);
}

cudaError_t start_count(cudaStream_t stream, unsigned *to)
{
	return start(stream, 2, count_kernel, to);
}

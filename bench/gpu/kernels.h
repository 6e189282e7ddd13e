/* SPDX-License-Identifier: Apache-2.0 */
/** The benchmark's kernels for ceilings and baselines, which use no code of rung. Each function
 * submits one launch to a stream. */
#ifndef RUNG_GPU_BENCH_KERNELS_H
#define RUNG_GPU_BENCH_KERNELS_H

#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Linear copy of `bytes` bytes, a multiple of 16: consecutive threads read consecutive pieces of
 * 16 bytes. */
cudaError_t bench_kernel_copy(void *to, const void *from, uint64_t bytes, unsigned sm_count,
                              cudaStream_t stream);

/** Copy rows with one warp per row, in list order. Pieces have 16 bytes if addresses, row and
 * stride are multiples of 16, else 4; cudaErrorInvalidValue if they are not multiples of 4. */
cudaError_t bench_kernel_rows(void *to, const void *table, uint64_t stride, uint32_t row_bytes,
                              const uint64_t *ids, uint64_t count, unsigned sm_count,
                              cudaStream_t stream);

/** Write words of 8 bytes that are derived from their position and a seed.
 * @param bytes  a multiple of 8 */
cudaError_t bench_kernel_fill(void *to, uint64_t bytes, uint64_t seed, unsigned sm_count,
                              cudaStream_t stream);

/**
 * Compare packed rows with those that bench_kernel_fill() wrote at their ids.
 * @param wrong  GPU memory: the number of words that differ is added
 */
cudaError_t bench_kernel_compare(const void *rows, uint32_t row_bytes, const uint64_t *ids,
                                 uint64_t count, uint64_t seed, uint64_t *wrong, unsigned sm_count,
                                 cudaStream_t stream);

/** Stand in for training: `rounds` dependent multiplications and additions in every thread of a
 * grid that fills the GPU. */
cudaError_t bench_kernel_compute(float *out, unsigned rounds, unsigned sm_count,
                                 cudaStream_t stream);

/** Keep one warp busy for `rounds` rounds. */
cudaError_t bench_kernel_delay(float *out, unsigned rounds, cudaStream_t stream);

/** Floats that bench_kernel_compute() writes. */
uint64_t bench_compute_floats(unsigned sm_count);

#ifdef __cplusplus
}
#endif
#endif

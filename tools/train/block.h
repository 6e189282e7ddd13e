/* SPDX-License-Identifier: Apache-2.0 */
/** Messages along the edges of a block: means of source rows, and the gradients of these means. */
#ifndef TRAIN_BLOCK_H
#define TRAIN_BLOCK_H

#include "rung/sampler.h"

/** mean[d] = mean of src[s] over the sources s of destination d; zeros without sources. Rows of
 * `width` floats. */
void train_block_mean(const struct rung_block *block, const float *src, uint64_t width,
                      float *mean);

/** The edges of a block sorted by source, so that gradients are gathered, not scattered. */
struct train_transpose {
	uint64_t *indptr;  /* [src_count + 1] */
	uint32_t *indices; /* [edge_count] destinations */
	float *weights;    /* [dst_count] 1 / number of sources; 0 without sources */
	uint64_t src_cap, edge_cap, dst_cap; /* items allocated for the three arrays */
};

/** Transpose a block; the arrays grow as needed. @return 0 or RUNG_E_NOMEM */
int train_transpose_build(struct train_transpose *turned, const struct rung_block *block);
void train_transpose_fini(struct train_transpose *turned);

/** d_src[s] += sum over its destinations d, in ascending order, of d_mean[d] * weights[d], for all
 * src_count rows. */
void train_transpose_add(const struct train_transpose *turned, uint64_t src_count,
                         const float *d_mean, uint64_t width, float *d_src);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mean aggregator and its gradient. Every output row is computed by one thread in a fixed
 * order, so results do not depend on the number of threads. The gradient of a mean would be
 * scattered to its sources, with several threads adding to one row; with the edges sorted by source
 * it is a sum of rows as well.
 */
#include "block.h"

#include <stdlib.h>
#include <string.h>

void train_block_mean(const struct rung_block *block, const float *src, uint64_t width, float *mean)
{
#pragma omp parallel for schedule(dynamic, 64)
	for (uint64_t d = 0; d < block->dst_count; d++) {
		uint64_t first = block->indptr[d], end = block->indptr[d + 1];
		float *restrict row = mean + d * width;
		memset(row, 0, width * sizeof(float));
		for (uint64_t e = first; e < end; e++) {
			const float *restrict add = src + (uint64_t)block->indices[e] * width;
			for (uint64_t i = 0; i < width; i++)
				row[i] += add[i];
		}
		if (end - first < 2)
			continue;
		float scale = 1.0f / (float)(end - first);
		for (uint64_t i = 0; i < width; i++)
			row[i] *= scale;
	}
}

/* An array of at least `count` items; its content is lost when it grows. @return NULL (and *cap 0)
 * without memory */
static void *grown(void *array, uint64_t *cap, uint64_t count, size_t item_bytes)
{
	size_t bytes;
	if (count <= *cap)
		return array;
	free(array);
	*cap = 0;
	if (__builtin_mul_overflow(count, item_bytes, &bytes))
		return NULL;
	array = malloc(bytes);
	if (array)
		*cap = count;
	return array;
}

int train_transpose_build(struct train_transpose *turned, const struct rung_block *block)
{
	turned->indptr = grown(turned->indptr, &turned->src_cap, block->src_count + 2,
	                       sizeof(*turned->indptr));
	turned->indices = grown(turned->indices, &turned->edge_cap, block->edge_count + 1,
	                        sizeof(*turned->indices));
	turned->weights = grown(turned->weights, &turned->dst_cap, block->dst_count + 1,
	                        sizeof(*turned->weights));
	if (!turned->indptr || !turned->indices || !turned->weights)
		return RUNG_E_NOMEM;
	/* A counting sort. Counts are stored two positions ahead: while the edges are filled in,
	 * next[s] moves from the start of s to its end, which is indptr[s + 1]. */
	uint64_t *next = turned->indptr + 1;
	memset(turned->indptr, 0, (block->src_count + 2) * sizeof(uint64_t));
	for (uint64_t e = 0; e < block->edge_count; e++)
		turned->indptr[(uint64_t)block->indices[e] + 2]++;
	for (uint64_t s = 1; s <= block->src_count; s++)
		next[s] += next[s - 1];
	for (uint64_t d = 0; d < block->dst_count; d++) {
		uint64_t first = block->indptr[d], end = block->indptr[d + 1];
		turned->weights[d] = end > first ? 1.0f / (float)(end - first) : 0.0f;
		for (uint64_t e = first; e < end; e++)
			turned->indices[next[block->indices[e]]++] = (uint32_t)d;
	}
	return 0;
}

void train_transpose_fini(struct train_transpose *turned)
{
	free(turned->indptr);
	free(turned->indices);
	free(turned->weights);
	memset(turned, 0, sizeof(*turned));
}

void train_transpose_add(const struct train_transpose *turned, uint64_t src_count,
                         const float *d_mean, uint64_t width, float *d_src)
{
#pragma omp parallel for schedule(dynamic, 64)
	for (uint64_t s = 0; s < src_count; s++) {
		float *restrict row = d_src + s * width;
		for (uint64_t e = turned->indptr[s]; e < turned->indptr[s + 1]; e++) {
			const float *restrict add = d_mean + (uint64_t)turned->indices[e] * width;
			float weight = turned->weights[turned->indices[e]];
			for (uint64_t i = 0; i < width; i++)
				row[i] += weight * add[i];
		}
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/** Features of floating-point values, for the tests of quantized rows. */
#ifndef SUPPORT_QUANT_ROWS_H
#define SUPPORT_QUANT_ROWS_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "dataset.h"

/** Value `column` of the row of a vertex: magnitudes differ between rows and columns. */
static inline float quant_value(uint64_t vertex, uint64_t column)
{
	const uint64_t random = rung__mix64(vertex << 20 | column);

	return ((float)(random >> 44) / (1 << 20) - 0.5f) *
	       (float)(1u << (vertex % 7 + column % 5));
}

/** Write `folder`/features.npy with these values, float32. */
static inline void quant_write_features(const char *folder, uint64_t vertices, uint64_t columns)
{
	float *values = malloc(vertices * columns * sizeof(float) + 1);
	char path[320], shape[64];

	for (uint64_t i = 0; i < vertices * columns; i++)
		values[i] = quant_value(i / columns, i % columns);
	snprintf(path, sizeof(path), "%s/features.npy", folder);
	snprintf(shape, sizeof(shape), "(%llu, %llu)", (unsigned long long)vertices,
	         (unsigned long long)columns);
	cr_assert_eq(
		support_write_npy(path, "<f4", shape, values, vertices * columns * sizeof(float)),
		0);
	free(values);
}

#endif

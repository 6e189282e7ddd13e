/* SPDX-License-Identifier: Apache-2.0 */
/** Quantized rows for the lane tests, and what the library's scalar decoder makes of them. */
#ifndef QUANT_CASE_H
#define QUANT_CASE_H

#include <cmath>

#include "lanes_test.h"
#include "quant/quant.h"

static const enum rung_dtype quant_types[] = { RUNG_F16, RUNG_BF16, RUNG_F32 };

struct quant_case {
	uint64_t format, scales;
	enum rung_dtype dtype;
	uint64_t columns;
	unsigned out_misaligned, out_stride_more;
};

/** A scale whose products with codes overflow f16, are subnormal in f16, or are neither. */
static float quant_scale(random_numbers &rnd)
{
	return std::ldexp(1 + (float)rnd.below(1 << 20) / (1 << 20), (int)rnd.below(45) - 30);
}

struct quant_rows {
	const struct rung__quant quant;
	const memory column_scales, stored;
	struct rung__row_form form;
	struct rung__cuda_form cuda = {};

	/** @param misaligned  of the first row; a multiple of 4, as `stride_more` */
	quant_rows(const quant_case &c, random_numbers &rnd, uint64_t rows, unsigned misaligned,
	           uint64_t stride)
	    : quant{ c.format, c.scales, c.columns },
	      column_scales(c.scales == RUNG_SCALES_COLUMN ? c.columns * 4 : 0, 0, false),
	      stored((rows - 1) * stride + rung__quant_row_bytes(&quant), misaligned, false)
	{
		float *scales = (float *)column_scales.at;

		for (size_t k = 0; k < column_scales.bytes / 4; k++)
			scales[k] = quant_scale(rnd);
		for (size_t k = 0; k < stored.bytes; k++)
			stored.at[k] = (unsigned char)rnd.below(256);
		for (uint64_t r = 0; r < rows && c.scales == RUNG_SCALES_ROW; r++) {
			const float scale = quant_scale(rnd);
			memcpy(stored.at + r * stride, &scale, sizeof(scale));
		}
		form = rung__row_form_decode_with(RUNG__QUANT_SCALAR, &quant, scales, c.dtype);
		cuda.format = (uint32_t)c.format;
		cuda.dtype = c.dtype;
		cuda.columns = (uint32_t)c.columns;
		cuda.column_scales = c.scales == RUNG_SCALES_COLUMN ? scales : nullptr;
	}
};

/** Call run(case) for every format, kind of scale, type and many widths and alignments. */
template <class Run> static void each_quant_case(random_numbers &rnd, Run run)
{
	for (uint64_t columns = 1; columns <= 768; columns = columns == 200 ? 768 : columns + 1) {
		for (unsigned k = 0; k < 18; k++) {
			quant_case c = { RUNG_QUANT_INT8 + k % 3,
				         k / 3 % 2 ? RUNG_SCALES_COLUMN : RUNG_SCALES_ROW,
				         quant_types[k / 6],
				         columns,
				         0,
				         0 };

			/* rows of which all are aligned, and others */
			if (rnd.below(2)) {
				const uint64_t bytes = columns * rung_dtype_bytes(c.dtype);

				c.out_stride_more = (unsigned)(16 - bytes % 16) % 16;
				c.out_misaligned = (unsigned)rnd.below(2) * 8;
			} else {
				c.out_stride_more = (unsigned)rnd.below(5);
				c.out_misaligned = (unsigned)rnd.below(16);
			}
			scenario("%s, scales per %s, %llu columns to %s, output at %u, stride + %u",
			         rung__quant_format_name(c.format),
			         rung__quant_scales_name(c.scales), (unsigned long long)columns,
			         rung_dtype_name(c.dtype), c.out_misaligned, c.out_stride_more);
			run(c);
		}
	}
}

#endif

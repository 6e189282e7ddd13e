/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding: scales, and codes rounded to nearest even.
 *
 * The loops have no branches and no calls, so that compilers vectorize them.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "quant/quant.h"

/* x + MAGIC - MAGIC rounds |x| < 2^22 to an integer, ties to even: the sum has no fraction bits. It
 * needs only additions, which every vector unit has. */
#define MAGIC 12582912.0f /* 1.5 * 2^23 */

static float code_max(const struct rung__quant *quant)
{
	return quant->format == RUNG_QUANT_INT8   ? RUNG__INT8_MAX
	       : quant->format == RUNG_QUANT_INT4 ? RUNG__INT4_MAX
	                                          : RUNG__FP8_MAX;
}

float rung__quant_scale_min(const struct rung__quant *quant)
{
	/* the smallest code is 1, or 2^-9 */
	return quant->format == RUNG_QUANT_FP8 ? 512 * FLT_MIN : FLT_MIN;
}

float rung__quant_scale_max(const struct rung__quant *quant)
{
	/* FLT_MAX / 127 is rounded up, and 127 times that is infinite: the number below it */
	return quant->format == RUNG_QUANT_INT8 ? 0x1.020406p+121f : FLT_MAX / code_max(quant);
}

float rung__quant_scale(const struct rung__quant *quant, float magnitude_max)
{
	return fminf(fmaxf(magnitude_max / code_max(quant), rung__quant_scale_min(quant)),
	             rung__quant_scale_max(quant));
}

/* ---- values as float32 ---- */

static inline float float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* Half precision with integer operations and one multiplication, without branches. */
static inline float half_value(uint16_t half)
{
	const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
	/* 2^112 adjusts the exponent, for subnormal numbers too; infinities and NaN keep theirs */
	const float finite = float_of(rest << 13) * 0x1p112f;
	const uint32_t bits = rest >= 0x7c00u ? 0x7f800000u | rest << 13 : bits_of(finite);

	return float_of(sign | bits);
}

void rung__quant_widen(enum rung_dtype dtype, const void *from, uint64_t count, float *to)
{
	const unsigned char *at = from;

	switch (dtype) {
	case RUNG_F16:
		for (uint64_t i = 0; i < count; i++) {
			uint16_t half;

			memcpy(&half, at + 2 * i, sizeof(half));
			to[i] = half_value(half);
		}
		break;
	case RUNG_BF16:
		for (uint64_t i = 0; i < count; i++) {
			uint16_t upper;

			memcpy(&upper, at + 2 * i, sizeof(upper));
			to[i] = float_of((uint32_t)upper << 16);
		}
		break;
	case RUNG_F64:
		for (uint64_t i = 0; i < count; i++) {
			double wide;

			memcpy(&wide, at + 8 * i, sizeof(wide));
			/* without the comparison the conversion would be undefined */
			to[i] = fabs(wide) > FLT_MAX ? (wide < 0 ? -INFINITY : INFINITY)
			                             : (float)wide;
		}
		break;
	default:
		memcpy(to, at, (size_t)count * sizeof(float));
	}
}

float rung__quant_magnitude(const float *values, uint64_t count)
{
	uint32_t largest = 0;

	/* as integers: their order is that of the magnitudes, with infinities and NaN at the end */
	for (uint64_t i = 0; i < count; i++) {
		const uint32_t bits = bits_of(values[i]) & 0x7fffffffu;

		largest = bits > largest ? bits : largest;
	}
	return float_of(largest);
}

/* ---- codes ---- */

static inline float rounded(float value)
{
	return value + MAGIC - MAGIC;
}

static inline int integer_code(float value, float scale, float max)
{
	const float code = rounded(value / scale);

	return (int)(code > max ? max : code < -max ? -max : code);
}

/* E4M3: 4 bits of exponent with bias 7, 3 of mantissa; exponent 0 is subnormal, in steps of 2^-9.
 * Both forms are computed and one is selected, so that the loop has no branch. */
static inline unsigned char fp8_code(float value, float scale)
{
	const uint32_t bits = bits_of(value / scale), sign = bits >> 24 & 0x80u;
	const uint32_t magnitude = bits & 0x7fffffffu;
	/* adding just under half of the dropped bits, and their successor, rounds ties to even */
	const uint32_t normal =
		((magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20) - ((127u - 7u) << 3);
	const uint32_t subnormal = (uint32_t)rounded(float_of(magnitude) * 512.0f);
	const uint32_t code = magnitude < 0x3c800000u /* 2^-6 */ ? subnormal : normal;

	return (unsigned char)(sign | (code > 0x7eu ? 0x7eu : code));
}

/* One loop for each format and kind of scale: `format` is a constant in each. */
static inline void encode_loop(unsigned format, const float *restrict column_scales, float scale,
                               const float *restrict values, uint64_t columns,
                               unsigned char *restrict codes)
{
	const uint64_t pairs = format == RUNG_QUANT_INT4 ? columns / 2 : 0;

	for (uint64_t i = 0; i < pairs; i++) {
		const uint64_t c = 2 * i;
		const int low = integer_code(values[c], column_scales ? column_scales[c] : scale,
		                             RUNG__INT4_MAX);
		const int high =
			integer_code(values[c + 1], column_scales ? column_scales[c + 1] : scale,
		                     RUNG__INT4_MAX);

		codes[i] = (unsigned char)((low & 15) | (high & 15) << 4);
	}
	if (format == RUNG_QUANT_INT4 && columns % 2)
		codes[pairs] =
			(unsigned char)(integer_code(values[columns - 1],
		                                     column_scales ? column_scales[columns - 1]
		                                                   : scale,
		                                     RUNG__INT4_MAX) &
		                        15);
	for (uint64_t c = 0; format == RUNG_QUANT_INT8 && c < columns; c++)
		codes[c] = (unsigned char)integer_code(
			values[c], column_scales ? column_scales[c] : scale, RUNG__INT8_MAX);
	for (uint64_t c = 0; format == RUNG_QUANT_FP8 && c < columns; c++)
		codes[c] = fp8_code(values[c], column_scales ? column_scales[c] : scale);
}

static void encode_codes(const struct rung__quant *quant, const float *column_scales, float scale,
                         const float *values, unsigned char *codes)
{
	switch (quant->format) {
	case RUNG_QUANT_INT8:
		encode_loop(RUNG_QUANT_INT8, column_scales, scale, values, quant->columns, codes);
		break;
	case RUNG_QUANT_INT4:
		encode_loop(RUNG_QUANT_INT4, column_scales, scale, values, quant->columns, codes);
		break;
	default:
		encode_loop(RUNG_QUANT_FP8, column_scales, scale, values, quant->columns, codes);
	}
}

bool rung__quant_encode(const struct rung__quant *quant, const float *column_scales,
                        const float *values, unsigned char *row_out)
{
	const float magnitude = rung__quant_magnitude(values, quant->columns);
	const float scale = rung__quant_scale(quant, magnitude);
	const uint64_t codes_at = rung__quant_codes_at(quant);
	const uint64_t row_bytes = rung__quant_row_bytes(quant);

	if (!isfinite(magnitude))
		return false;
	/* the padding; the codes overwrite the rest of the last word */
	memset(row_out + row_bytes - RUNG__QUANT_ALIGN, 0, RUNG__QUANT_ALIGN);
	if (quant->scales == RUNG_SCALES_ROW) {
		memcpy(row_out, &scale, sizeof(scale));
		column_scales = NULL;
	}
	encode_codes(quant, column_scales, scale, values, row_out + codes_at);
	return true;
}

/* ---- errors ---- */

void rung__quant_measure(const struct rung__quant *quant, const float *column_scales,
                         const float *values, const unsigned char *row,
                         struct rung__quant_errors *errors)
{
	const unsigned char *codes = row + rung__quant_codes_at(quant);
	/* half a step above the largest code; the steps of fp8 are 32 there */
	const float clipped_above =
		code_max(quant) + (quant->format == RUNG_QUANT_FP8 ? 16.0f : 0.5f);
	float scale = 0;

	if (quant->scales == RUNG_SCALES_ROW)
		memcpy(&scale, row, sizeof(scale));
	for (uint64_t c = 0; c < quant->columns; c++) {
		const float step = quant->scales == RUNG_SCALES_ROW ? scale : column_scales[c];
		const int nibble = codes[c / 2] >> (c % 2 ? 4 : 0) & 15;
		const float code = quant->format == RUNG_QUANT_INT8 ? (float)(int8_t)codes[c]
		                   : quant->format == RUNG_QUANT_INT4
		                           ? (float)((nibble ^ 8) - 8)
		                           : rung__quant_fp8_value(codes[c]);
		const double error = fabs((double)values[c] - (double)(code * step));

		errors->sum += error;
		errors->max = error > errors->max ? error : errors->max;
		errors->clipped += fabsf(values[c] / step) > clipped_above;
	}
	errors->values += quant->columns;
}

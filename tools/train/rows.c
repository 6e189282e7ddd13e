/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion of feature rows to float32, with normalisation and dropout in the same pass over the
 * memory. Each row is written by one thread and depends only on its bytes and its position, so the
 * result does not depend on the number of threads.
 */
#include "rows.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_F16C_PATH 1
#else
#define HAVE_F16C_PATH 0
#endif

static float from_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

float train_from_f16(uint16_t bits)
{
	/* Exponent and mantissa, moved to their places in a float, give a number that is too small
	 * by 2^112, the difference of the exponent biases. The product is exact, subnormals
	 * included. */
	uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
	uint32_t rest = (uint32_t)(bits & 0x7fffu) << 13;
	if ((bits & 0x7c00u) == 0x7c00u) /* infinity, NaN */
		return from_bits(sign | 0x7f800000u | rest);
	float magnitude = from_bits(rest) * 0x1p112f;
	return sign ? -magnitude : magnitude;
}

float train_from_bf16(uint16_t bits)
{
	return from_bits((uint32_t)bits << 16);
}

static void f16_row(const uint16_t *in, uint64_t width, float *out)
{
	for (uint64_t i = 0; i < width; i++)
		out[i] = train_from_f16(in[i]);
}

#if HAVE_F16C_PATH
__attribute__((target("avx,f16c"))) static void f16_row_f16c(const uint16_t *in, uint64_t width,
                                                             float *out)
{
	uint64_t i = 0;
	for (; i + 8 <= width; i += 8)
		_mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(
						  (const __m128i *)(const void *)(in + i))));
	f16_row(in + i, width - i, out + i);
}

/* Every processor with AVX2 has F16C; clang 14 cannot query F16C itself. */
static bool have_f16c(void)
{
	return __builtin_cpu_supports("avx2");
}
#else
#define f16_row_f16c f16_row
static bool have_f16c(void)
{
	return false;
}
#endif

#define CONVERT_LOOP(type, expression)                                                             \
	do {                                                                                       \
		for (uint64_t i = 0; i < width; i++) {                                             \
			type value;                                                                \
			memcpy(&value, row + i * sizeof(type), sizeof(type));                      \
			out[i] = expression;                                                       \
		}                                                                                  \
	} while (0)

static void convert_row(enum rung_dtype dtype, bool f16c, const unsigned char *row, uint64_t width,
                        float *out)
{
	switch (dtype) {
	case RUNG_F16:
		if (f16c)
			f16_row_f16c((const uint16_t *)(const void *)row, width, out);
		else
			f16_row((const uint16_t *)(const void *)row, width, out);
		break;
	case RUNG_BF16:
		CONVERT_LOOP(uint16_t, train_from_bf16(value));
		break;
	case RUNG_F32:
		memcpy(out, row, width * sizeof(float));
		break;
	case RUNG_F64:
		CONVERT_LOOP(double, (float)value);
		break;
	case RUNG_I8:
		CONVERT_LOOP(int8_t, (float)value);
		break;
	case RUNG_I16:
		CONVERT_LOOP(int16_t, (float)value);
		break;
	case RUNG_U16:
		CONVERT_LOOP(uint16_t, (float)value);
		break;
	case RUNG_I32:
		CONVERT_LOOP(int32_t, (float)value);
		break;
	case RUNG_U32:
		CONVERT_LOOP(uint32_t, (float)value);
		break;
	case RUNG_I64:
		CONVERT_LOOP(int64_t, (float)value);
		break;
	case RUNG_U64:
		CONVERT_LOOP(uint64_t, (float)value);
		break;
	default: /* u8, bool */
		CONVERT_LOOP(uint8_t, (float)value);
		break;
	}
}

/* Summed in double, so that rounding does not grow with the width. Zeros are not changed. */
static void normalise_row(enum train_norm norm, uint64_t width, float *row)
{
	double sum = 0;
	for (uint64_t i = 0; i < width; i++)
		sum += norm == TRAIN_NORM_L1 ? fabs((double)row[i])
		                             : (double)row[i] * (double)row[i];
	if (norm == TRAIN_NORM_L2)
		sum = sqrt(sum);
	if (sum == 0)
		return;
	float scale = (float)(1 / sum);
	for (uint64_t i = 0; i < width; i++)
		row[i] *= scale;
}

/* Drop or scale an element by the low 16 bits of a draw. */
static inline void drop(float *value, uint64_t bits, uint32_t threshold, float scale)
{
	*value *= ((uint32_t)bits & 0xffffu) < threshold ? 0.0f : scale;
}

void train_row_dropout(struct train_dropout dropout, uint64_t row_idx, uint64_t width, float *row)
{
	/* One draw decides four elements, 16 bits each, so the rate is exact to 2^-16. Four zeros
	 * need no draw: features are often sparse. */
	uint32_t threshold = (uint32_t)(dropout.rate * 65536.0f);
	float scale = 1.0f / (1.0f - dropout.rate);
	uint64_t key = rung__mix64(dropout.key ^ row_idx);
	uint64_t i = 0;
	for (; i + 4 <= width; i += 4) {
		if (row[i] == 0 && row[i + 1] == 0 && row[i + 2] == 0 && row[i + 3] == 0)
			continue;
		uint64_t draw = rung__mix64(key + i);
		drop(row + i, draw, threshold, scale);
		drop(row + i + 1, draw >> 16, threshold, scale);
		drop(row + i + 2, draw >> 32, threshold, scale);
		drop(row + i + 3, draw >> 48, threshold, scale);
	}
	uint64_t draw = rung__mix64(key + i);
	for (unsigned k = 0; i + k < width; k++)
		drop(row + i + k, draw >> (16 * k), threshold, scale);
}

void train_rows_convert(enum rung_dtype dtype, const void *rows, uint64_t row_count, uint64_t width,
                        enum train_norm norm, struct train_dropout dropout, float *out)
{
	uint64_t row_bytes = width * rung_dtype_bytes(dtype);
	bool f16c = have_f16c();
#pragma omp parallel for schedule(static)
	for (uint64_t r = 0; r < row_count; r++) {
		float *row = out + r * width;
		convert_row(dtype, f16c, (const unsigned char *)rows + r * row_bytes, width, row);
		if (norm != TRAIN_NORM_NONE)
			normalise_row(norm, width, row);
		if (dropout.rate > 0)
			train_row_dropout(dropout, r, width, row);
	}
}

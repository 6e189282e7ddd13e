/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding without vector instructions, one value at a time, and the choice of a decoder. */
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <string.h>

#include "quant/quant.h"

#define LINE_BYTES 64u

static inline float float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

float rung__quant_fp8_value(unsigned char code)
{
	const uint32_t sign = (uint32_t)(code & 0x80u) << 24;
	/* exponent and mantissa at their places in float32, with a bias that is 120 too small;
	 * the multiplication adjusts it, for subnormal numbers too */
	const float value = float_of((uint32_t)(code & 0x7fu) << 20) * 0x1p120f;
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return float_of(sign | bits);
}

uint16_t rung__quant_to_f16(float value)
{
#if defined(__aarch64__)
	const __fp16 half = (__fp16)value;
	uint16_t result;

	memcpy(&result, &half, sizeof(result));
	return result;
#else
	uint32_t bits, sign;
	float moved;

	memcpy(&bits, &value, sizeof(bits));
	sign = bits >> 16 & 0x8000u;
	bits &= 0x7fffffffu;
	if (bits >= 0x47800000u) /* 2^16: rounds to infinity, as all from 65520 on do below */
		return (uint16_t)(sign | 0x7c00u);
	if (bits >= 0x38800000u) { /* 2^-14: normal */
		bits += 0xfffu + (bits >> 13 & 1u);
		return (uint16_t)(sign | (bits - (112u << 23)) >> 13);
	}
	/* subnormal: the sum with 2^-1 rounds to steps of 2^-24, and the steps are its lowest
	 * bits */
	moved = float_of(bits) + 0.5f;
	memcpy(&bits, &moved, sizeof(bits));
	return (uint16_t)(sign | (bits - 0x3f000000u));
#endif
}

uint16_t rung__quant_to_bf16(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float code_at(uint64_t format, const unsigned char *codes, uint64_t column)
{
	switch (format) {
	case RUNG_QUANT_INT8:
		return (float)(int8_t)codes[column];
	case RUNG_QUANT_INT4:
		return (float)(((codes[column / 2] >> (column % 2 ? 4 : 0) & 15) ^ 8) - 8);
	default:
		return rung__quant_fp8_value(codes[column]);
	}
}

static inline void put(enum rung_dtype dtype, unsigned char *to, uint64_t column, float value)
{
	const uint16_t narrow =
		dtype == RUNG_F16 ? rung__quant_to_f16(value) : rung__quant_to_bf16(value);

	if (dtype == RUNG_F32)
		memcpy(to + column * sizeof(value), &value, sizeof(value));
	else
		memcpy(to + column * sizeof(narrow), &narrow, sizeof(narrow));
}

static void decode_scalar(const struct rung__row_form *form, unsigned char *to,
                          const unsigned char *from, bool stream, const unsigned char *later)
{
	const unsigned char *codes = from + rung__quant_codes_at(&form->quant);
	float scale = 0;

	(void)stream;
	for (size_t at = 0; at < form->row_bytes; at += LINE_BYTES)
		__builtin_prefetch(later + at, 0, 2);
	if (!form->column_scales)
		memcpy(&scale, from, sizeof(scale));
	for (uint64_t c = 0; c < form->quant.columns; c++)
		put(form->dtype, to, c,
		    code_at(form->quant.format, codes, c) *
		            (form->column_scales ? form->column_scales[c] : scale));
}

struct rung__row_form rung__row_form_decode_with(enum rung__quant_isa isa,
                                                 const struct rung__quant *quant,
                                                 const float *column_scales, enum rung_dtype dtype)
{
	struct rung__row_form form = {
		.quant = *quant,
		.dtype = dtype,
		.row_bytes = rung__quant_row_bytes(quant),
		.out_bytes = quant->columns * rung_dtype_bytes(dtype),
		.column_scales = quant->scales == RUNG_SCALES_COLUMN ? column_scales : NULL,
	};

	if (isa == RUNG__QUANT_AVX512)
		form.decode = rung__quant_avx512(quant, dtype);
	if (isa == RUNG__QUANT_AVX2 || !form.decode)
		form.decode = isa == RUNG__QUANT_SCALAR ? NULL : rung__quant_avx2(quant, dtype);
	if (!form.decode)
		form.decode = decode_scalar;
	return form;
}

#if defined(__x86_64__)
/* clang 14 does not know "f16c" in __builtin_cpu_supports() */
static bool has_f16c(void)
{
	unsigned a, b, c = 0, d;

	return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
#endif

bool rung__quant_has(enum rung__quant_isa isa)
{
#if defined(__x86_64__)
	if (isa == RUNG__QUANT_AVX2)
		return __builtin_cpu_supports("avx2") && has_f16c();
	if (isa == RUNG__QUANT_AVX512)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512vl");
#endif
	return isa == RUNG__QUANT_SCALAR;
}

struct rung__row_form rung__row_form_copy(enum rung_dtype dtype, uint64_t row_bytes)
{
	return (struct rung__row_form){ .dtype = dtype,
		                        .row_bytes = row_bytes,
		                        .out_bytes = row_bytes };
}

struct rung__row_form rung__row_form_decode(const struct rung__quant *quant,
                                            const float *column_scales, enum rung_dtype dtype)
{
	enum rung__quant_isa isa = RUNG__QUANT_AVX512;

	while (!rung__quant_has(isa))
		isa--;
	return rung__row_form_decode_with(isa, quant, column_scales, dtype);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantized rows for rung bench --check, decoded in float64 by their definition in docs/FORMAT.md:
 * nothing is shared with the decoders of the library.
 */
#include <math.h>
#include <string.h>

#include "bench/bench.h"

/* The number of a code: a signed integer, or 4 bits of exponent and 3 of mantissa. */
static double number_of(const struct rung_quantization *quant, const unsigned char *codes,
                        uint64_t column)
{
	const int code = codes[quant->format == RUNG_QUANT_INT4 ? column / 2 : column];
	const int nibble = column % 2 ? code / 16 : code % 16;
	const int exponent = code / 8 % 16, mantissa = code % 8;
	double number;

	switch (quant->format) {
	case RUNG_QUANT_INT8:
		return code < 128 ? code : code - 256;
	case RUNG_QUANT_INT4:
		return nibble < 8 ? nibble : nibble - 16;
	default:
		number = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
		return code < 128 ? number : -number;
	}
}

/* The bits of a number in a type with this many bits of mantissa and exponent, to nearest even. */
static uint32_t bits_of(double value, int mantissa_bits, int exponent_bits)
{
	const int bias = (1 << (exponent_bits - 1)) - 1;
	const uint32_t sign = signbit(value) ? 1u << (mantissa_bits + exponent_bits) : 0;
	const uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
	int exponent = value == 0 ? 1 - bias : ilogb(value);
	uint32_t bits;

	if (exponent < 1 - bias)
		exponent = 1 - bias;
	/* a carry moves into the exponent */
	bits = ((uint32_t)(exponent - 1 + bias) << mantissa_bits) +
	       (uint32_t)nearbyint(ldexp(fabs(value), mantissa_bits - exponent));
	return sign | (bits < infinity ? bits : infinity);
}

void bench_decode(const struct rung_quantization *quant, enum rung_dtype dtype,
                  const unsigned char *stored, unsigned char *row_out)
{
	const unsigned char *codes = stored + (quant->column_scales ? 0 : sizeof(float));
	float scale;

	memcpy(&scale, stored, sizeof(scale));
	for (uint64_t c = 0; c < quant->columns; c++) {
		const double value =
			number_of(quant, codes, c) *
			(double)(quant->column_scales ? quant->column_scales[c] : scale);
		const float product = (float)value;
		const uint16_t narrow =
			(uint16_t)(dtype == RUNG_F16 ? bits_of((double)product, 10, 5)
		                                     : bits_of((double)product, 7, 8));

		if (dtype == RUNG_F32)
			memcpy(row_out + c * sizeof(product), &product, sizeof(product));
		else
			memcpy(row_out + c * sizeof(narrow), &narrow, sizeof(narrow));
	}
}

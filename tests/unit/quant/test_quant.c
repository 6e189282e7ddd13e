/* SPDX-License-Identifier: Apache-2.0 */
/* Quantized rows, compared to the bit with a reference that computes each value in float64. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "gather/copy.h"
#include "quant/quant.h"

#define COLUMNS_MAX 600u
#define SHIFTS      4u /* alignments of rows and outputs */

static const enum rung_dtype out_dtypes[] = { RUNG_F16, RUNG_BF16, RUNG_F32 };

/* ---- the reference ---- */

static double fp8_number(unsigned code)
{
	const int exponent = (int)(code >> 3 & 15), mantissa = (int)(code & 7);
	const double number = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);

	return code & 0x80 ? -number : number;
}

/* The nearest code; of two, the even one. */
static unsigned nearest_fp8(double value)
{
	unsigned best = 0;

	for (unsigned code = 1; code < 0x7f; code++) {
		const double gain =
			fabs(fabs(value) - fp8_number(best)) - fabs(fabs(value) - fp8_number(code));

		if (gain > 0 || (gain == 0 && code % 2 == 0))
			best = code;
	}
	return best | (signbit(value) ? 0x80 : 0);
}

static double code_number(const struct rung__quant *quant, const unsigned char *codes, uint64_t c)
{
	if (quant->format == RUNG_QUANT_INT8)
		return codes[c] < 128 ? codes[c] : codes[c] - 256;
	if (quant->format == RUNG_QUANT_FP8)
		return fp8_number(codes[c]);
	const int nibble = c % 2 ? codes[c / 2] / 16 : codes[c / 2] % 16;

	return nibble < 8 ? nibble : nibble - 16;
}

static double largest_code(const struct rung__quant *quant)
{
	return quant->format == RUNG_QUANT_INT8 ? 127 : quant->format == RUNG_QUANT_INT4 ? 7 : 448;
}

static double reference_code(const struct rung__quant *quant, float value, float scale)
{
	const double quotient = (double)(value / scale);

	if (quant->format == RUNG_QUANT_FP8)
		return fp8_number(nearest_fp8(quotient));
	return fmin(fmax(nearbyint(quotient), -largest_code(quant)), largest_code(quant));
}

/* The bits of a number in a binary format, rounded to nearest even. */
static uint32_t float_bits(double value, int mantissa_bits, int exponent_bits)
{
	const int bias = (1 << (exponent_bits - 1)) - 1;
	const uint32_t sign = signbit(value) ? 1u << (mantissa_bits + exponent_bits) : 0;
	int exponent = value == 0 ? 1 - bias : ilogb(value);
	double steps;
	uint32_t bits;

	if (exponent < 1 - bias)
		exponent = 1 - bias;
	steps = nearbyint(ldexp(fabs(value), mantissa_bits - exponent));
	/* a carry into the exponent is part of the sum */
	bits = (uint32_t)((exponent - 1 + bias) << mantissa_bits) + (uint32_t)steps;
	if (bits > (uint32_t)((1 << exponent_bits) - 1) << mantissa_bits)
		bits = (uint32_t)((1 << exponent_bits) - 1) << mantissa_bits;
	return sign | bits;
}

static uint32_t reference_bits(enum rung_dtype dtype, double value)
{
	/* a product is rounded to float32 first */
	const float product = (float)value;

	return dtype == RUNG_F16    ? float_bits((double)product, 10, 5)
	       : dtype == RUNG_BF16 ? float_bits((double)product, 7, 8)
	                            : float_bits((double)product, 23, 8);
}

static uint32_t bits_at(enum rung_dtype dtype, const unsigned char *out, uint64_t c)
{
	uint32_t wide;
	uint16_t narrow;

	memcpy(&wide, out + 4 * c, dtype == RUNG_F32 ? 4 : 0);
	memcpy(&narrow, out + 2 * c, 2);
	return dtype == RUNG_F32 ? wide : narrow;
}

/* ---- rows ---- */

/* Magnitudes from 2^-20 to 2^19, and zeros of both signs. */
static void draw(uint64_t seed, float *values, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t random = rung__mix64(seed << 20 | i);

		values[i] = (float)ldexp((double)(random >> 44) / (1 << 20) - 0.5,
		                         (int)(random % 40) - 20);
		if (random % 17 == 0)
			values[i] = random % 34 ? 0.0f : -0.0f;
	}
}

static void column_scales(const struct rung__quant *quant, const float *values, float *scales)
{
	for (uint64_t c = 0; c < quant->columns; c++)
		scales[c] = rung__quant_scale(quant, rung__quant_magnitude(&values[c], 1));
}

static void check_decoded(const struct rung__quant *quant, const float *scales,
                          const unsigned char *row, enum rung__quant_isa isa, unsigned shift)
{
	static _Alignas(64) unsigned char out[COLUMNS_MAX * 4 + 64 + SHIFTS];

	for (unsigned d = 0; d < RUNG__ARRAY_LEN(out_dtypes); d++) {
		const struct rung__row_form form =
			rung__row_form_decode_with(isa, quant, scales, out_dtypes[d]);
		const unsigned char *codes = row + rung__quant_codes_at(quant);
		float scale;

		memcpy(&scale, row, sizeof(scale));
		/* 0xee: nothing outside the row is written */
		memset(out, 0xee, sizeof(out));
		form.decode(&form, out + shift, row, shift == 0 && quant->columns % 16 == 0, row);
		rung__copy_fence();
		for (uint64_t c = 0; c < quant->columns; c++) {
			const double number =
				code_number(quant, codes, c) *
				(double)(quant->scales == RUNG_SCALES_ROW ? scale : scales[c]);
			uint32_t wanted = reference_bits(out_dtypes[d], number);
			const uint32_t got = bits_at(out_dtypes[d], out + shift, c);

			cr_assert_eq(got, wanted,
			             "%s by %s, %s, isa %d, column %lu of %lu: %x, not %x",
			             rung__quant_format_name(quant->format),
			             rung__quant_scales_name(quant->scales),
			             rung_dtype_name(out_dtypes[d]), (int)isa, (unsigned long)c,
			             (unsigned long)quant->columns, got, wanted);
		}
		for (uint64_t i = 0; i < 64; i++)
			cr_assert_eq(out[shift + form.out_bytes + i], 0xee);
		for (unsigned i = 0; i < shift; i++)
			cr_assert_eq(out[i], 0xee);
	}
}

static void check_row(const struct rung__quant *quant, uint64_t seed)
{
	static float values[COLUMNS_MAX], scales[COLUMNS_MAX];
	static unsigned char row[COLUMNS_MAX + 16 + SHIFTS];
	const unsigned shift = (unsigned)(seed % SHIFTS);
	const uint64_t row_bytes = rung__quant_row_bytes(quant);
	unsigned char *at = row + shift;
	float scale = 0;

	draw(seed, values, quant->columns);
	column_scales(quant, values, scales);
	memset(row, 0xee, sizeof(row));
	cr_assert(rung__quant_encode(quant, scales, values, at));
	cr_assert_eq(row_bytes % 4, 0);
	cr_assert_eq(at[row_bytes], 0xee);
	memcpy(&scale, at, sizeof(scale));
	for (uint64_t c = 0; c < quant->columns; c++) {
		const float step = quant->scales == RUNG_SCALES_ROW ? scale : scales[c];
		const double code = code_number(quant, at + rung__quant_codes_at(quant), c);
		const double read = code * (double)step;

		cr_assert_eq(code, reference_code(quant, values[c], step),
		             "%s: %g / %g is stored as %g", rung__quant_format_name(quant->format),
		             (double)values[c], (double)step, code);
		/* the bounds in rung/dtype.h; the quotient was rounded to float32 */
		cr_assert_leq(fabs(read - (double)values[c]),
		              1.000001 * (quant->format == RUNG_QUANT_FP8
		                                  ? fmax(fabs((double)values[c]) / 16,
		                                         (double)step / 1024)
		                                  : (double)step / 2));
	}
	for (int isa = 0; isa < RUNG__QUANT_ISAS; isa++)
		if (rung__quant_has((enum rung__quant_isa)isa))
			check_decoded(quant, scales, at, (enum rung__quant_isa)isa,
			              (unsigned)(seed / SHIFTS % SHIFTS));
}

static void check_format(enum rung_quant_format format, enum rung_quant_scales by)
{
	for (uint64_t columns = 1; columns <= COLUMNS_MAX; columns++) {
		const struct rung__quant quant = { format, by, columns };

		check_row(&quant, columns);
		/* another pair of alignments */
		check_row(&quant, 4 * columns + columns % 7);
	}
}

Test(quant, int8_rows_of_any_width_equal_the_reference)
{
	check_format(RUNG_QUANT_INT8, RUNG_SCALES_ROW);
	check_format(RUNG_QUANT_INT8, RUNG_SCALES_COLUMN);
}

Test(quant, int4_rows_of_any_width_equal_the_reference)
{
	check_format(RUNG_QUANT_INT4, RUNG_SCALES_ROW);
	check_format(RUNG_QUANT_INT4, RUNG_SCALES_COLUMN);
}

Test(quant, fp8_rows_of_any_width_equal_the_reference)
{
	check_format(RUNG_QUANT_FP8, RUNG_SCALES_ROW);
	check_format(RUNG_QUANT_FP8, RUNG_SCALES_COLUMN);
}

/* ---- conversions ---- */

Test(quant, every_code_of_fp8_is_read_exactly)
{
	for (unsigned code = 0; code < 256; code++)
		if ((code & 0x7f) != 0x7f)
			cr_assert_eq((double)rung__quant_fp8_value((unsigned char)code),
			             fp8_number(code));
}

Test(quant, narrow_types_round_to_nearest_even)
{
	for (uint64_t i = 0; i < 1u << 20; i++) {
		const uint32_t bits = (uint32_t)rung__mix64(i);
		float value;

		memcpy(&value, &bits, sizeof(value));
		if (!isfinite(value))
			continue;
		cr_assert_eq(rung__quant_to_f16(value), float_bits((double)value, 10, 5), "%a",
		             (double)value);
		cr_assert_eq(rung__quant_to_bf16(value), float_bits((double)value, 7, 8), "%a",
		             (double)value);
	}
}

Test(quant, halves_are_widened_exactly)
{
	for (uint32_t bits = 0; bits < 1u << 16; bits++) {
		const uint16_t half = (uint16_t)bits;
		float f16, bf16;

		rung__quant_widen(RUNG_F16, &half, 1, &f16);
		rung__quant_widen(RUNG_BF16, &half, 1, &bf16);
		cr_assert_eq(isfinite(f16) != 0, (half & 0x7c00) != 0x7c00);
		cr_assert_eq(isfinite(bf16) != 0, (half & 0x7f80) != 0x7f80);
		if (isfinite(f16))
			cr_assert_eq(rung__quant_to_f16(f16), half);
		if (isfinite(bf16))
			cr_assert_eq(rung__quant_to_bf16(bf16), half);
	}
}

Test(quant, numbers_beyond_float32_become_infinite)
{
	const double wide[] = { 1e300, -1e39, 2.5, NAN, 3.4028234663852886e38 };
	float narrow[5];

	rung__quant_widen(RUNG_F64, wide, 5, narrow);
	cr_assert(isinf(narrow[0]) && narrow[0] > 0);
	cr_assert(isinf(narrow[1]) && narrow[1] < 0);
	cr_assert_eq(narrow[2], 2.5f);
	cr_assert(isnan(narrow[3]));
	cr_assert(isfinite(narrow[4]));
}

Test(quant, values_that_are_not_finite_are_refused)
{
	static const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };
	const struct rung__quant quant = { RUNG_QUANT_INT8, RUNG_SCALES_ROW, 40 };
	unsigned char row[64];
	float values[40];

	for (unsigned b = 0; b < RUNG__ARRAY_LEN(bad); b++) {
		for (unsigned c = 0; c < 40; c++) {
			draw(c, values, 40);
			cr_assert(rung__quant_encode(&quant, NULL, values, row));
			values[c] = bad[b];
			cr_assert_not(rung__quant_encode(&quant, NULL, values, row));
		}
	}
}

Test(quant, tiny_and_zero_rows_are_read_with_normal_numbers)
{
	static const float tiny[] = { 0.0f, 1e-45f, -1e-40f, 1.2e-38f, 3e-36f };
	float values[3];
	unsigned char row[16];

	for (uint64_t format = RUNG_QUANT_INT8; format <= RUNG_QUANT_FP8; format++) {
		const struct rung__quant quant = { format, RUNG_SCALES_ROW, 3 };

		for (unsigned i = 0; i < RUNG__ARRAY_LEN(tiny); i++) {
			float scale;

			values[0] = values[1] = values[2] = tiny[i];
			cr_assert(rung__quant_encode(&quant, NULL, values, row));
			memcpy(&scale, row, sizeof(scale));
			cr_assert_geq(scale, rung__quant_scale_min(&quant));
			for (int isa = 0; isa < RUNG__QUANT_ISAS; isa++)
				if (rung__quant_has((enum rung__quant_isa)isa))
					check_decoded(&quant, NULL, row, (enum rung__quant_isa)isa,
					              0);
		}
	}
}

Test(quant, the_largest_numbers_stay_finite)
{
	const float values[] = { FLT_MAX, -FLT_MAX, 1 };

	for (uint64_t i = 0; i < 6; i++) {
		const struct rung__quant quant = { RUNG_QUANT_INT8 + i % 3, i / 3, 3 };
		const float scale = rung__quant_scale(&quant, FLT_MAX);
		const float scales[] = { scale, scale, scale };
		const struct rung__row_form form = rung__row_form_decode(&quant, scales, RUNG_F32);
		unsigned char row[32];
		float back[3];

		cr_assert_leq(scale, rung__quant_scale_max(&quant));
		cr_assert(rung__quant_encode(&quant, scales, values, row));
		form.decode(&form, (unsigned char *)back, row, false, row);
		cr_assert(isfinite(back[0]) && back[0] > 0.999f * FLT_MAX);
		cr_assert(isfinite(back[1]) && back[1] < -0.999f * FLT_MAX);
	}
}

Test(quant, errors_are_those_of_the_read_values)
{
	const struct rung__quant quant = { RUNG_QUANT_INT4, RUNG_SCALES_COLUMN, 3 };
	const float scales[] = { 1, 1, 0.5f }, values[] = { 1.25f, 9.0f, -3.5f };
	struct rung__quant_errors errors = { 0 };
	unsigned char row[4];

	cr_assert(rung__quant_encode(&quant, scales, values, row));
	rung__quant_measure(&quant, scales, values, row, &errors);
	/* read as 1, 7 and -3.5 */
	cr_assert_eq(errors.values, 3);
	cr_assert_eq(errors.clipped, 1);
	cr_assert_eq(errors.max, 2.0);
	cr_assert_eq(errors.sum, 2.25);
}

Test(quant, names_and_limits)
{
	struct rung__quant quant = { RUNG_QUANT_FP8, RUNG_SCALES_COLUMN, 1 };

	cr_assert(rung__quant_valid(&quant));
	cr_assert_str_eq(rung__quant_format_name(RUNG_QUANT_INT4), "int4");
	cr_assert_str_eq(rung__quant_scales_name(RUNG_SCALES_COLUMN), "column");
	cr_assert_null(rung__quant_format_name(RUNG_QUANT_FP8 + 1));
	cr_assert_null(rung__quant_scales_name(2));
	quant.columns = 0;
	cr_assert_not(rung__quant_valid(&quant));
	quant.columns = 1;
	quant.format = RUNG_QUANT_NONE;
	cr_assert_not(rung__quant_valid(&quant));
	cr_assert(rung__quant_accepts(RUNG_F64));
	cr_assert_not(rung__quant_accepts(RUNG_I8));
}

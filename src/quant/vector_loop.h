/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoders with vectors of 16 values, for the sources that define, before they include this file:
 *
 *   VECTOR        attributes of a function with these instructions
 *   NAME          name of the function that returns the decoders
 *   wide          type of 16 float32
 *   codes8()      16 integers from 16 bytes in a register, as float32
 *   fp8()         16 values of 8-bit floating point from 16 bytes, divided by 256
 *   load(), splat(), times()
 *   store()       16 values as one of the output types
 *
 * The last values of a row that are not a multiple of 16 pass through buffers on the stack.
 */
#include <string.h>

#define STEP 16u
#define LINE 64u /* codes of a cache line, of two with int4 */

/* The codes of 16 columns as float32. The scale of fp8 is 256 times that of the row: its values fit
 * half precision only after a division. */
VECTOR static inline wide load_codes(uint64_t format, const unsigned char *codes)
{
	const __m128i low_bits = _mm_set1_epi8(15), sign = _mm_set1_epi8(8);
	__m128i pairs;

	if (format == RUNG_QUANT_INT8)
		return codes8(_mm_loadu_si128((const __m128i *)(const void *)codes));
	if (format == RUNG_QUANT_FP8)
		return fp8(_mm_loadu_si128((const __m128i *)(const void *)codes));
	pairs = _mm_loadl_epi64((const __m128i *)(const void *)codes);
	pairs = _mm_unpacklo_epi8(_mm_and_si128(pairs, low_bits),
	                          _mm_and_si128(_mm_srli_epi16(pairs, 4), low_bits));
	/* sign extension of 4 bits */
	return codes8(_mm_sub_epi8(_mm_xor_si128(pairs, sign), sign));
}

/* Bytes of the codes of `columns` columns. */
VECTOR static inline uint64_t bytes_of(uint64_t format, uint64_t columns)
{
	return format == RUNG_QUANT_INT4 ? (columns + 1) / 2 : columns;
}

/* The last columns of a row, fewer than 16. */
VECTOR static inline void decode_rest(uint64_t format, enum rung_dtype dtype,
                                      const struct rung__row_form *form, uint64_t first, wide scale,
                                      const unsigned char *codes, unsigned char *to)
{
	const uint64_t rest = form->quant.columns - first, bytes = rung_dtype_bytes(dtype);
	unsigned char from[STEP] = { 0 }, out[STEP * sizeof(float)];
	float scales[STEP] = { 0 };

	memcpy(from, codes + bytes_of(format, first), (size_t)bytes_of(format, rest));
	if (form->column_scales) {
		memcpy(scales, form->column_scales + first, (size_t)rest * sizeof(float));
		scale = load(scales);
		if (format == RUNG_QUANT_FP8)
			scale = times(scale, splat(256.0f));
	}
	store(dtype, out, times(load_codes(format, from), scale), false);
	memcpy(to + first * bytes, out, (size_t)(rest * bytes));
}

/* 16 columns from column `c` on. */
VECTOR static inline void decode_step(uint64_t format, enum rung_dtype dtype, bool by_column,
                                      const struct rung__row_form *form, uint64_t c, wide scale,
                                      const unsigned char *codes, unsigned char *to, bool stream)
{
	const uint64_t bytes = dtype == RUNG_F32 ? 4 : 2;

	if (by_column) {
		scale = load(form->column_scales + c);
		if (format == RUNG_QUANT_FP8)
			scale = times(scale, splat(256.0f));
	}
	store(dtype, to + c * bytes, times(load_codes(format, codes + bytes_of(format, c)), scale),
	      stream);
}

/* One function for each format, output type and kind of scale calls it with constants. */
VECTOR static inline void decode_row(uint64_t format, enum rung_dtype dtype, bool by_column,
                                     const struct rung__row_form *form, unsigned char *to,
                                     const unsigned char *from, bool stream,
                                     const unsigned char *later)
{
	const uint64_t columns = form->quant.columns;
	const float adjust = format == RUNG_QUANT_FP8 ? 256.0f : 1.0f;
	const unsigned char *codes = from + (by_column ? 0 : RUNG__QUANT_SCALE_BYTES);
	wide scale = splat(adjust);
	uint64_t c = 0;

	if (!by_column) {
		float of_row;

		memcpy(&of_row, from, sizeof(of_row));
		scale = splat(of_row * adjust);
	}
	/* one line of the later row with each line of codes: all of its lines at once would use up
	 * the pending misses of the second-level cache */
	for (; c + LINE <= columns; c += LINE) {
		_mm_prefetch((const char *)later + bytes_of(format, c), _MM_HINT_T1);
		for (uint64_t i = c; i < c + LINE; i += STEP)
			decode_step(format, dtype, by_column, form, i, scale, codes, to, stream);
	}
	_mm_prefetch((const char *)later + bytes_of(format, c), _MM_HINT_T1);
	_mm_prefetch((const char *)later + form->row_bytes - 1, _MM_HINT_T1);
	for (; c + STEP <= columns; c += STEP)
		decode_step(format, dtype, by_column, form, c, scale, codes, to, stream);
	if (c < columns)
		decode_rest(format, dtype, form, c, scale, codes, to);
}

#define DECODER(name, format, dtype, by_column)                                                    \
	VECTOR_OUTER static void name(const struct rung__row_form *form, unsigned char *to,        \
	                              const unsigned char *from, bool stream,                      \
	                              const unsigned char *later)                                  \
	{                                                                                          \
		if (stream)                                                                        \
			decode_row(format, dtype, by_column, form, to, from, true, later);         \
		else                                                                               \
			decode_row(format, dtype, by_column, form, to, from, false, later);        \
	}
#define DECODERS(name, format)                                                                     \
	DECODER(name##_row_f16, format, RUNG_F16, false)                                           \
	DECODER(name##_row_bf16, format, RUNG_BF16, false)                                         \
	DECODER(name##_row_f32, format, RUNG_F32, false)                                           \
	DECODER(name##_column_f16, format, RUNG_F16, true)                                         \
	DECODER(name##_column_bf16, format, RUNG_BF16, true)                                       \
	DECODER(name##_column_f32, format, RUNG_F32, true)
#define ROW_OF(name)                                                                               \
	{                                                                                          \
		{ name##_row_f16, name##_row_bf16, name##_row_f32 },                               \
		{                                                                                  \
			name##_column_f16, name##_column_bf16, name##_column_f32                   \
		}                                                                                  \
	}

DECODERS(int8, RUNG_QUANT_INT8)
DECODERS(int4, RUNG_QUANT_INT4)
DECODERS(fp8_, RUNG_QUANT_FP8)

rung__quant_decoder *NAME(const struct rung__quant *quant, enum rung_dtype dtype)
{
	/* [format][kind of scale][output type] */
	static rung__quant_decoder *const decoders[][2][3] = { ROW_OF(int8), ROW_OF(int4),
		                                               ROW_OF(fp8_) };

	return decoders[quant->format - RUNG_QUANT_INT8][quant->scales == RUNG_SCALES_COLUMN]
		       [dtype == RUNG_F16    ? 0
	                : dtype == RUNG_BF16 ? 1
	                                     : 2];
}

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Decoding quantized rows with a warp, while it copies them: shared by gather and scatter. Valid
 * CUDA and C++17.
 *
 * The rows, rounds and lanes are those of copy_rows() with pieces of 4 bytes (rows.h). A lane loads
 * a word of a stored row, with 4 codes, or 8 of int4, and stores their values. The values are those
 * of src/quant to the bit: code * scale in float32, rounded once to the output type, to nearest
 * even.
 */
#ifndef RUNG_KERNELS_DECODE_H
#define RUNG_KERNELS_DECODE_H

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

#include "quant/quant.h"
#include "rows.h"

#define WORD_BYTES      4u
#define WORD_VALUES_MAX 8u

/** The type of pieces that selects decoding. */
struct quant_word {
	unsigned bits;
};

static __device__ __forceinline__ float float_of_bits(unsigned bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static __device__ __forceinline__ unsigned bits_of_float(float value)
{
	unsigned bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* Not fused with another operation, and not flushed to zero. */
static __device__ __forceinline__ float product(float a, float b)
{
#ifdef __CUDACC__
	return __fmul_rn(a, b);
#else
	return a * b;
#endif
}

static __device__ __forceinline__ unsigned half_bits(float value)
{
#ifdef __CUDACC__
	return __half_as_ushort(__float2half_rn(value));
#else /* the lane tests */
	return rung__quant_to_f16(value);
#endif
}

/* Values are finite. */
static __device__ __forceinline__ unsigned bf16_bits(float value)
{
	const unsigned bits = bits_of_float(value);

	return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

/** Code number k of a word. */
static __device__ __forceinline__ float code_value(uint32_t format, unsigned word, uint32_t k)
{
	if (format == RUNG_QUANT_INT4) /* sign extension of 4 bits */
		return (float)((int)((word >> 4 * k & 15u) ^ 8u) - 8);

	const unsigned code = word >> 8 * k & 255u;

	if (format == RUNG_QUANT_INT8)
		return (float)(signed char)code;
	/* exponent and mantissa at their places in float32, with a bias that is 120 too small */
	return float_of_bits((code & 0x80u) << 24 |
	                     bits_of_float(product(float_of_bits((code & 0x7fu) << 20),
	                                           float_of_bits(247u << 23)))); /* 2^120 */
}

/** The values of a word, packed as they are stored; a multiple of 8 bytes. */
struct word_values {
	unsigned packed[WORD_VALUES_MAX];
};

template <uint32_t COUNT>
static __device__ __forceinline__ void pack_values(const struct rung__cuda_form &form,
                                                   const float (&value)[COUNT],
                                                   struct word_values *values)
{
#pragma unroll
	for (uint32_t k = 0; k < COUNT; k += 2) {
		if (form.dtype == RUNG_F16) {
			values->packed[k / 2] = half_bits(value[k]) | half_bits(value[k + 1]) << 16;
		} else if (form.dtype == RUNG_BF16) {
			values->packed[k / 2] = bf16_bits(value[k]) | bf16_bits(value[k + 1]) << 16;
		} else {
			values->packed[k] = bits_of_float(value[k]);
			values->packed[k + 1] = bits_of_float(value[k + 1]);
		}
	}
}

/* @param left  values of the row from `column` on; the scales of columns after them are not read */
template <uint32_t FORMAT, uint32_t COUNT>
static __device__ __forceinline__ void decode_codes(const struct rung__cuda_form &form,
                                                    unsigned word, float row_scale, uint32_t column,
                                                    uint32_t left, struct word_values *values)
{
	float value[COUNT];

#pragma unroll
	for (uint32_t k = 0; k < COUNT; k++) {
		float scale = row_scale;

		if (form.column_scales)
			scale = k < left ? __ldg(form.column_scales + column + k) : 0.0f;
		value[k] = product(code_value(FORMAT, word, k), scale);
	}
	pack_values(form, value, values);
}

template <class Unit>
static __device__ __forceinline__ void store_units(unsigned char *to,
                                                   const struct word_values &values, uint32_t bytes)
{
#pragma unroll
	for (uint32_t at = 0; at < sizeof(values.packed); at += (uint32_t)sizeof(Unit)) {
		Unit unit;

		memcpy(&unit, (const unsigned char *)values.packed + at, sizeof(unit));
		if (at < bytes)
			__stwb((Unit *)(to + at), unit);
	}
}

/* @param bytes  to store: all values of a word, unless a row ends */
static __device__ __forceinline__ void store_values(unsigned char *to, uint32_t align,
                                                    const struct word_values &values,
                                                    uint32_t bytes)
{
	if (align >= 16 && bytes % 16 == 0)
		store_units<uint4>(to, values, bytes);
	else if (align >= 8 && bytes % 8 == 0)
		store_units<uint2>(to, values, bytes);
	else if (align >= 4 && bytes % 4 == 0)
		store_units<unsigned>(to, values, bytes);
	else if (align >= 2)
		store_units<unsigned short>(to, values, bytes);
	else
		store_units<unsigned char>(to, values, bytes);
}

/** Decode one word of a row, and store its values.
 * @param at   position of the word in the stored row, after the row's scale
 * @param out  the output row */
static __device__ __forceinline__ void decode_word(const struct rung__cuda_form &form,
                                                   uint32_t out_align, unsigned word, uint32_t at,
                                                   float row_scale, unsigned char *out)
{
	const uint32_t codes_at = form.column_scales ? 0 : RUNG__QUANT_SCALE_BYTES;
	const uint32_t count = form.format == RUNG_QUANT_INT4 ? 8 : 4;
	const uint32_t value_bytes = form.dtype == RUNG_F32 ? 4 : 2;
	const uint32_t column = (at - codes_at) / WORD_BYTES * count;
	const uint32_t left = form.columns - column;
	struct word_values values = {};

	if (column >= form.columns)
		return;
	if (form.format == RUNG_QUANT_INT8)
		decode_codes<RUNG_QUANT_INT8, 4>(form, word, row_scale, column, left, &values);
	else if (form.format == RUNG_QUANT_INT4)
		decode_codes<RUNG_QUANT_INT4, 8>(form, word, row_scale, column, left, &values);
	else
		decode_codes<RUNG_QUANT_FP8, 4>(form, word, row_scale, column, left, &values);
	store_values(out + (uint64_t)column * value_bytes, out_align, values,
	             RUNG__MIN(left, count) * value_bytes);
}

/** As copy_rows(), for quantized rows. */
static __device__ __forceinline__ void decode_rows(const struct row_move &mine, uint32_t row_count,
                                                   const struct rows_shape &shape,
                                                   const struct rung__cuda_form &form,
                                                   unsigned char *out, uint64_t out_stride)
{
	const uint32_t lanes = 1u << shape.lanes_log2;
	const uint32_t lane = threadIdx.x % WARP_LANES;
	const uint32_t groups = WARP_LANES >> shape.lanes_log2;
	const uint32_t lane_at = (lane & (lanes - 1)) * WORD_BYTES;
	const uint32_t items = (row_count + groups - 1) / groups * shape.rounds;
	const unsigned long long mine_from = (unsigned long long)(uintptr_t)mine.from;
	unsigned mine_scale = 0;
	uint32_t row = lane >> shape.lanes_log2;
	uint32_t round = 0;

	if (mine.from && !form.column_scales)
		mine_scale = __ldca((const unsigned *)mine.from);
	for (uint32_t item = 0; item < items; item += COPY_AHEAD) {
		unsigned word[COPY_AHEAD];
		uint32_t at[COPY_AHEAD], owner[COPY_AHEAD];
		const unsigned *from[COPY_AHEAD];
		unsigned char *to[COPY_AHEAD];

		/* addresses, loads, stores: see copy_rows() */
#pragma unroll
		for (uint32_t k = 0; k < COPY_AHEAD; k++) {
			owner[k] = row % WARP_LANES;
			const unsigned long long begin =
				__shfl_sync(WARP_ALL, mine_from, (int)owner[k]);
			const uint32_t to_row = __shfl_sync(WARP_ALL, mine.to_row, (int)owner[k]);
			const uint32_t head = (uint32_t)begin & shape.head_mask;

			at[k] = round * (lanes * WORD_BYTES) + lane_at - head;
			to[k] = NULL;
			/* the first word is the scale, if the row has one */
			if (item + k < items && begin && at[k] < shape.row_bytes &&
			    (at[k] > 0 || form.column_scales))
				to[k] = out + to_row * out_stride;
			from[k] = (const unsigned *)((uintptr_t)begin + at[k]);
			if (++round == shape.rounds) {
				round = 0;
				row += groups;
			}
		}
#pragma unroll
		for (uint32_t k = 0; k < COPY_AHEAD; k++)
			if (to[k])
				word[k] = __ldca(from[k]);
#pragma unroll
		for (uint32_t k = 0; k < COPY_AHEAD; k++) {
			/* only here, because it waits for the load of the scales */
			const unsigned scale = __shfl_sync(WARP_ALL, mine_scale, (int)owner[k]);

			if (to[k])
				decode_word(form, shape.out_align, word[k], at[k],
				            float_of_bits(scale), to[k]);
		}
	}
}

/** Copy rows in pieces, or decode them if the piece is a quant_word. */
template <class Piece> struct row_mover {
	static __device__ __forceinline__ void move(const struct row_move &mine, uint32_t row_count,
	                                            const struct rows_shape &shape,
	                                            const struct rung__cuda_form &form,
	                                            unsigned char *out, uint64_t out_stride)
	{
		(void)form;
		copy_rows<Piece>(mine, row_count, shape, out, out_stride);
	}
};

template <> struct row_mover<quant_word> {
	static __device__ __forceinline__ void move(const struct row_move &mine, uint32_t row_count,
	                                            const struct rows_shape &shape,
	                                            const struct rung__cuda_form &form,
	                                            unsigned char *out, uint64_t out_stride)
	{
		decode_rows(mine, row_count, shape, form, out, out_stride);
	}
};

/* ---- host side ---- */

/** Check the rows of a launch, and its form if they are decoded. @param who  names the kernel in
 * the message. @return 0 or RUNG_E_INVAL */
static inline int check_form(const char *who, const struct rung__cuda_form *form,
                             uint32_t row_bytes, uint64_t out_stride)
{
	const uint64_t scales = form->column_scales ? RUNG_SCALES_COLUMN : RUNG_SCALES_ROW;
	const struct rung__quant quant = { form->format, scales, form->columns };
	const uint64_t value_bytes = form->dtype == RUNG_F32 ? 4 : 2;

	if (form->format == RUNG_QUANT_NONE)
		return check_rows(who, row_bytes, row_bytes, out_stride);
	if (form->format > RUNG_QUANT_FP8 || form->columns < 1 ||
	    (form->dtype != RUNG_F16 && form->dtype != RUNG_BF16 && form->dtype != RUNG_F32))
		return rung__fail(
			RUNG_E_INVAL, "%s: format %u of %u columns cannot be decoded to type %d",
			who, (unsigned)form->format, (unsigned)form->columns, (int)form->dtype);
	if (row_bytes != rung__quant_row_bytes(&quant))
		return rung__fail(RUNG_E_INVAL, "%s: quantized rows of %u bytes; use %" PRIu64, who,
		                  (unsigned)row_bytes, rung__quant_row_bytes(&quant));
	return check_rows(who, row_bytes, form->columns * value_bytes, out_stride);
}

/** Check that words of quantized rows can be loaded. @param from_ored  the addresses of all rows,
 * combined by OR */
static inline int check_words(const char *who, const struct rung__cuda_form *form,
                              uint64_t from_ored)
{
	if (form->format == RUNG_QUANT_NONE || from_ored % RUNG__QUANT_ALIGN == 0)
		return 0;
	return rung__fail(RUNG_E_INVAL, "%s: quantized rows are not aligned to %u bytes", who,
	                  RUNG__QUANT_ALIGN);
}

/** The alignment of all output rows, at most 16. */
static inline uint32_t out_align(const unsigned char *out, uint64_t out_stride)
{
	const uint64_t ored = (uint64_t)(uintptr_t)out | out_stride | 16;

	return (uint32_t)(ored & (~ored + 1));
}

#endif

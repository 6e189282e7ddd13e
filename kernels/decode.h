/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Decoding quantized rows with a warp, while it copies them: shared by gather and scatter. Valid
 * CUDA and C++17.
 *
 * The rounds and lanes are those of copy_rows() (rows.h) over the codes of a row, without the scale
 * before them. A piece is 8 codes: a word of int4, or two words of the other formats, which are
 * loaded one by one, because rows are aligned to 4 bytes only. Their values are one store of 16
 * bytes, or two of float32. The values are those of src/quant to the bit: code * scale in float32,
 * rounded once to the output type, to nearest even.
 *
 * Format and type are template parameters of the loop, not of the kernel: the instructions that
 * would choose between them for each code take longer than the memory.
 */
#ifndef RUNG_KERNELS_DECODE_H
#define RUNG_KERNELS_DECODE_H

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "quant/quant.h"
#include "rows.h"

#define WORD_BYTES  4u
#define PIECE_CODES 8u
/* of a piece of codes */
#define PIECE_BYTES(format) ((format) == RUNG_QUANT_INT4 ? WORD_BYTES : 2 * WORD_BYTES)

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

template <class T> static __device__ __forceinline__ unsigned bits_of(const T &value)
{
	unsigned bits;

	static_assert(sizeof(value) == sizeof(bits), "a float32, or two values of 16 bits");
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

/* Two values, rounded to nearest even. */
static __device__ __forceinline__ unsigned half_pair(float low, float high)
{
#ifdef __CUDACC__
	return bits_of(__floats2half2_rn(low, high));
#else /* the lane tests */
	return rung__quant_to_f16(low) | (unsigned)rung__quant_to_f16(high) << 16;
#endif
}

/* Values are finite. */
static __device__ __forceinline__ unsigned bf16_pair(float low, float high)
{
#ifdef __CUDACC__
	return bits_of(__floats2bfloat162_rn(low, high));
#else
	const unsigned a = bits_of(low), b = bits_of(high);

	return (a + 0x7fffu + (a >> 16 & 1u)) >> 16 |
	       ((b + 0x7fffu + (b >> 16 & 1u)) & 0xffff0000u);
#endif
}

/* A number from 0 to 255 minus `bias`, exactly: 2^23 + bits is a float32 whose last bits are the
 * number. Unlike conversions, which are slow on some GPUs, this is a sum. */
static __device__ __forceinline__ float small_number(unsigned bits, float bias)
{
	return float_of_bits(0x4b000000u | bits) - (8388608.0f + bias);
}

/** The values of the codes of a word, before the scale. */
template <uint32_t FORMAT, uint32_t COUNT>
static __device__ __forceinline__ void code_values(unsigned word, float *value)
{
	/* as unsigned numbers */
	const unsigned shifted = word ^ (FORMAT == RUNG_QUANT_INT4 ? 0x88888888u : 0x80808080u);

#pragma unroll
	for (uint32_t k = 0; k < COUNT; k++) {
		if (FORMAT == RUNG_QUANT_INT4) {
			value[k] = small_number(shifted >> 4 * k & 15u, 8.0f);
		} else if (FORMAT == RUNG_QUANT_INT8) {
			value[k] = small_number(shifted >> 8 * k & 255u, 128.0f);
		} else {
			const unsigned code = word >> 8 * k & 255u;

			/* exponent and mantissa at their places in float32, with a bias that is
			 * 120 too small */
			value[k] = float_of_bits(
				(code & 0x80u) << 24 |
				bits_of(product(float_of_bits((code & 0x7fu) << 20),
			                        float_of_bits(247u << 23)))); /* 2^120 */
		}
	}
}

template <class Unit>
static __device__ __forceinline__ void store_units(unsigned char *to, const unsigned *packed,
                                                   uint32_t packed_bytes, uint32_t bytes)
{
#pragma unroll
	for (uint32_t at = 0; at < packed_bytes; at += (uint32_t)sizeof(Unit)) {
		Unit unit;

		memcpy(&unit, (const unsigned char *)packed + at, sizeof(unit));
		if (at < bytes)
			__stwb((Unit *)(to + at), unit);
	}
}

/** Decode the piece of a row that begins at value `column`, and store its values.
 * @param out  the output row */
template <uint32_t FORMAT, enum rung_dtype DTYPE>
static __device__ __forceinline__ void decode_piece(const struct rung__cuda_form &form,
                                                    uint32_t out_align, const unsigned (&word)[2],
                                                    float row_scale, uint32_t column,
                                                    unsigned char *out)
{
	const uint32_t value_bytes = DTYPE == RUNG_F32 ? 4 : 2;
	const uint32_t left = form.columns - column;
	const uint32_t bytes = RUNG__MIN(left, PIECE_CODES) * value_bytes;
	unsigned char *to = out + (uint64_t)column * value_bytes;
	float value[PIECE_CODES];
	unsigned packed[PIECE_CODES * value_bytes / 4];

	code_values<FORMAT, FORMAT == RUNG_QUANT_INT4 ? 8 : 4>(word[0], value);
	if (FORMAT != RUNG_QUANT_INT4)
		code_values<FORMAT, 4>(word[1], value + 4);
#pragma unroll
	for (uint32_t k = 0; k < PIECE_CODES; k++) {
		float scale = row_scale;

		if (form.column_scales)
			scale = k < left ? __ldg(form.column_scales + column + k) : 0.0f;
		value[k] = product(value[k], scale);
	}
#pragma unroll
	for (uint32_t k = 0; k < PIECE_CODES; k += 2) {
		if (DTYPE == RUNG_F16) {
			packed[k / 2] = half_pair(value[k], value[k + 1]);
		} else if (DTYPE == RUNG_BF16) {
			packed[k / 2] = bf16_pair(value[k], value[k + 1]);
		} else {
			packed[k] = bits_of(value[k]);
			packed[k + 1] = bits_of(value[k + 1]);
		}
	}
	if (out_align >= 16 && bytes % 16 == 0)
		store_units<uint4>(to, packed, sizeof(packed), bytes);
	else if (out_align >= 8 && bytes % 8 == 0)
		store_units<uint2>(to, packed, sizeof(packed), bytes);
	else if (out_align >= 4 && bytes % 4 == 0)
		store_units<unsigned>(to, packed, sizeof(packed), bytes);
	else if (out_align >= 2)
		store_units<unsigned short>(to, packed, sizeof(packed), bytes);
	else
		store_units<unsigned char>(to, packed, sizeof(packed), bytes);
}

/* Load the words of a piece. @param left  bytes of the row's codes from the piece on */
template <uint32_t PIECE>
static __device__ __forceinline__ void load_piece(const unsigned *from, uint32_t left,
                                                  unsigned (&word)[2])
{
	word[0] = __ldca(from);
	if (PIECE > WORD_BYTES && left > WORD_BYTES)
		word[1] = __ldca(from + 1);
}

/** As copy_rows(), for quantized rows. */
template <uint32_t FORMAT, enum rung_dtype DTYPE>
static __device__ __forceinline__ void decode_rows(const struct row_move &mine, uint32_t row_count,
                                                   const struct rows_shape &shape,
                                                   const struct rung__cuda_form &form,
                                                   unsigned char *out, uint64_t out_stride)
{
	constexpr uint32_t piece = PIECE_BYTES(FORMAT);
	const uint32_t lanes = 1u << shape.lanes_log2;
	const uint32_t lane = threadIdx.x % WARP_LANES;
	const uint32_t groups = WARP_LANES >> shape.lanes_log2;
	const uint32_t lane_at = (lane & (lanes - 1)) * piece;
	const uint32_t items = (row_count + groups - 1) / groups * shape.rounds;
	unsigned long long mine_codes = (unsigned long long)(uintptr_t)mine.from;
	unsigned mine_scale = 0;
	uint32_t row = lane >> shape.lanes_log2, round = 0;

	if (mine.from && !form.column_scales) {
		mine_scale = __ldca((const unsigned *)mine.from);
		mine_codes += RUNG__QUANT_SCALE_BYTES;
	}
	for (uint32_t item = 0; item < items; item += COPY_AHEAD) {
		unsigned word[COPY_AHEAD][2] = {};
		uint32_t at[COPY_AHEAD], owner[COPY_AHEAD];
		const unsigned *from[COPY_AHEAD];
		unsigned char *to[COPY_AHEAD];

		/* addresses, loads, stores: see copy_rows() */
#pragma unroll
		for (uint32_t k = 0; k < COPY_AHEAD; k++) {
			owner[k] = row % WARP_LANES;
			const unsigned long long begin =
				__shfl_sync(WARP_ALL, mine_codes, (int)owner[k]);
			const uint32_t to_row = __shfl_sync(WARP_ALL, mine.to_row, (int)owner[k]);
			const uint32_t head = (uint32_t)begin & shape.head_mask;

			at[k] = round * (lanes * piece) + lane_at - head;
			to[k] = NULL;
			if (item + k < items && begin && at[k] < shape.row_bytes)
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
				load_piece<piece>(from[k], shape.row_bytes - at[k], word[k]);
#pragma unroll
		for (uint32_t k = 0; k < COPY_AHEAD; k++) {
			/* only here, because it waits for the load of the scales */
			const unsigned scale = __shfl_sync(WARP_ALL, mine_scale, (int)owner[k]);

			if (to[k])
				decode_piece<FORMAT, DTYPE>(form, shape.out_align, word[k],
				                            float_of_bits(scale),
				                            at[k] / piece * PIECE_CODES, to[k]);
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
	template <uint32_t FORMAT>
	static __device__ __forceinline__ void decode(const struct row_move &mine,
	                                              uint32_t row_count,
	                                              const struct rows_shape &shape,
	                                              const struct rung__cuda_form &form,
	                                              unsigned char *out, uint64_t out_stride)
	{
		if (form.dtype == RUNG_F16)
			decode_rows<FORMAT, RUNG_F16>(mine, row_count, shape, form, out,
			                              out_stride);
		else if (form.dtype == RUNG_BF16)
			decode_rows<FORMAT, RUNG_BF16>(mine, row_count, shape, form, out,
			                               out_stride);
		else
			decode_rows<FORMAT, RUNG_F32>(mine, row_count, shape, form, out,
			                              out_stride);
	}

	static __device__ __forceinline__ void move(const struct row_move &mine, uint32_t row_count,
	                                            const struct rows_shape &shape,
	                                            const struct rung__cuda_form &form,
	                                            unsigned char *out, uint64_t out_stride)
	{
		if (form.format == RUNG_QUANT_INT8)
			decode<RUNG_QUANT_INT8>(mine, row_count, shape, form, out, out_stride);
		else if (form.format == RUNG_QUANT_INT4)
			decode<RUNG_QUANT_INT4>(mine, row_count, shape, form, out, out_stride);
		else
			decode<RUNG_QUANT_FP8>(mine, row_count, shape, form, out, out_stride);
	}
};

/* ---- host side ---- */

/** The bytes of a row that lanes move: all, or the codes. */
struct moved {
	uint32_t begin; /* position in the stored row */
	uint32_t bytes;
	uint32_t piece; /* bytes */
};

/** @param ored  addresses and strides of rows and output, combined by OR */
static inline struct moved moved_bytes(const struct rung__cuda_form *form, uint32_t row_bytes,
                                       uint64_t ored)
{
	const uint32_t begin = form->column_scales ? 0 : RUNG__QUANT_SCALE_BYTES;

	if (form->format == RUNG_QUANT_NONE)
		return { 0, row_bytes, piece_bytes(row_bytes | ored) };
	return { begin, row_bytes - begin, PIECE_BYTES(form->format) };
}

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

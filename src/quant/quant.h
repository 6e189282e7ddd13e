/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Quantized rows: the stored bytes, encoding by staging, and decoding by gathers.
 *
 * Every decoder computes code * scale in float32 and rounds the product once to the output type, to
 * nearest even. All results are therefore equal to the bit: scalar code, AVX2, AVX-512 and the
 * kernels. The smallest scale (rung__quant_scale_min()) keeps all products in the normal range of
 * float32, so they do not depend on whether a CPU flushes subnormal numbers.
 */
#ifndef RUNG_QUANT_H
#define RUNG_QUANT_H

#include "base/base.h"

#ifdef __cplusplus
extern "C" { /* for kernels/ */
#endif

/** Quantization in plain numbers, as an offer to other processes contains it. */
struct rung__quant {
	uint64_t format;  /* enum rung_quant_format */
	uint64_t scales;  /* enum rung_quant_scales */
	uint64_t columns; /* values of a row */
};

#define RUNG__QUANT_SCALE_BYTES 4u
/* stored rows are multiples of this size, so that scales are aligned, and kernels load words */
#define RUNG__QUANT_ALIGN 4u
/* largest codes */
#define RUNG__INT8_MAX 127
#define RUNG__INT4_MAX 7
#define RUNG__FP8_MAX  448.0f

/** Position of the codes in a stored row. */
static inline uint64_t rung__quant_codes_at(const struct rung__quant *quant)
{
	return quant->scales == RUNG_SCALES_ROW ? RUNG__QUANT_SCALE_BYTES : 0;
}

/** Bytes of a stored row. `columns` is less than 2^60. */
static inline uint64_t rung__quant_row_bytes(const struct rung__quant *quant)
{
	const uint64_t codes =
		quant->format == RUNG_QUANT_INT4 ? (quant->columns + 1) / 2 : quant->columns;

	return (rung__quant_codes_at(quant) + codes + RUNG__QUANT_ALIGN - 1) / RUNG__QUANT_ALIGN *
	       RUNG__QUANT_ALIGN;
}

/** Format and scales are values of their enumerations, and there are columns. */
bool rung__quant_valid(const struct rung__quant *quant);

/** Names, as the command and manifests spell them; NULL for an unknown value. */
const char *rung__quant_format_name(uint64_t format);
const char *rung__quant_scales_name(uint64_t scales);

/** Whether values of this type can be quantized: floating-point types. */
bool rung__quant_accepts(enum rung_dtype dtype);

/* ---- quant_encode.c ---- */

/** The smallest scale of a format. */
float rung__quant_scale_min(const struct rung__quant *quant);

/** The largest one: its product with the largest code is finite. */
float rung__quant_scale_max(const struct rung__quant *quant);

/** The scale for values up to this magnitude. */
float rung__quant_scale(const struct rung__quant *quant, float magnitude_max);

/**
 * Convert values to float32. Numbers of float64 beyond the range of float32 become infinite.
 * @param from  [count] values of a type that rung__quant_accepts(); need not be aligned
 */
void rung__quant_widen(enum rung_dtype dtype, const void *from, uint64_t count, float *to);

/** The largest magnitude; infinite or NaN if a value is. */
float rung__quant_magnitude(const float *values, uint64_t count);

/**
 * Encode one row.
 * @param column_scales  [columns] of finite positive numbers; not used with a scale per row
 * @param values         [columns]
 * @param row_out        rung__quant_row_bytes() bytes, all of which are written
 * @return false if a value is not finite; the row is then not written
 */
bool rung__quant_encode(const struct rung__quant *quant, const float *column_scales,
                        const float *values, unsigned char *row_out);

/** Errors of rows: sums over all of their values. */
struct rung__quant_errors {
	uint64_t values, clipped;
	double sum, max; /* of magnitudes of differences */
};

/** Add the errors of one row: its values, and what they are read as. */
void rung__quant_measure(const struct rung__quant *quant, const float *column_scales,
                         const float *values, const unsigned char *row,
                         struct rung__quant_errors *errors);

/* ---- quant_decode.c ---- */

/** How stored rows become gathered rows. */
struct rung__row_form {
	struct rung__quant quant;   /* format NONE: rows are copied */
	enum rung_dtype dtype;      /* of gathered values; a copy has that of the stored rows */
	uint64_t row_bytes;         /* of a stored row */
	uint64_t out_bytes;         /* of a gathered row */
	const float *column_scales; /* [columns], or NULL; owned by the store */
	/**
	 * Decode a row; NULL: rows are copied.
	 * @param stream  whether `to` may be written with streaming stores (gather/copy.h)
	 * @param later   a row that will be decoded soon, which is prefetched; or `from`
	 */
	void (*decode)(const struct rung__row_form *form, unsigned char *to,
	               const unsigned char *from, bool stream, const unsigned char *later);
};

/** Instruction sets of decoders. */
enum rung__quant_isa { RUNG__QUANT_SCALAR, RUNG__QUANT_AVX2, RUNG__QUANT_AVX512, RUNG__QUANT_ISAS };

/** Whether this CPU has an instruction set. */
bool rung__quant_has(enum rung__quant_isa isa);

/** The form of rows that are copied. */
struct rung__row_form rung__row_form_copy(enum rung_dtype dtype, uint64_t row_bytes);

/**
 * The form of decoded rows, with the best instruction set of this CPU, or `isa` for tests.
 * @param dtype  RUNG_F16, RUNG_BF16 or RUNG_F32
 */
struct rung__row_form rung__row_form_decode(const struct rung__quant *quant,
                                            const float *column_scales, enum rung_dtype dtype);
struct rung__row_form rung__row_form_decode_with(enum rung__quant_isa isa,
                                                 const struct rung__quant *quant,
                                                 const float *column_scales, enum rung_dtype dtype);

/** The number that a code of 8-bit floating point stands for. */
float rung__quant_fp8_value(unsigned char code);

/** Round to a 16-bit type, to nearest even. */
uint16_t rung__quant_to_f16(float value);
uint16_t rung__quant_to_bf16(float value);

/* ---- quant_avx2.c, quant_avx512.c ---- */

typedef void rung__quant_decoder(const struct rung__row_form *form, unsigned char *to,
                                 const unsigned char *from, bool stream,
                                 const unsigned char *later);

/** The decoder of a format and output type; NULL where the compiler lacks the instructions. */
rung__quant_decoder *rung__quant_avx2(const struct rung__quant *quant, enum rung_dtype dtype);
rung__quant_decoder *rung__quant_avx512(const struct rung__quant *quant, enum rung_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif

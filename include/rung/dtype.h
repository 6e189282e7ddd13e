/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Element types of arrays, and quantized rows. rung copies other rows as bytes; it records the
 * element type for the code that computes with them.
 *
 * Quantized rows: features stored with 8 or 4 bits per value, and converted to floating point while
 * a gather copies them. docs/FORMAT.md describes the bytes.
 *
 * A value x is stored as the code q that is nearest to x / s, where s is the scale, and is read as
 * q * s, computed in float32. Quantization is symmetric: zero is stored as zero. Ties are rounded
 * to even. The scale is the largest magnitude divided by the largest code, so no value is clipped.
 *
 * | format | codes | largest error of a value |
 * |---|---|---|
 * | int8 | -127 to 127 | s / 2, which is 1/254 of the largest magnitude |
 * | int4 | -7 to 7 | s / 2, which is 1/14 of the largest magnitude |
 * | fp8 | E4M3 without infinities, up to 448 | 1/16 of the value, or s / 1024 near zero |
 *
 * With a scale per row, each row begins with its scale, so that a row is still one read. With a
 * scale per column, the scales are in the manifest. Rows of few values, or columns of very
 * different magnitudes, favour scales per column.
 *
 * The formats int8 and int4 are those of symmetric quantization in ONNX; fp8 is E4M3 of the OCP
 * 8-bit floating point specification.
 */
#ifndef RUNG_DTYPE_H
#define RUNG_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * X(enumerator, name on the command line, bytes, .npy descr). NumPy has no type for bf16; it is
 * stored as 2-byte void.
 */
#define RUNG_DTYPE_LIST(X)                                                                         \
	X(RUNG_BOOL, "bool", 1, "|b1")                                                             \
	X(RUNG_I8, "i8", 1, "|i1")                                                                 \
	X(RUNG_U8, "u8", 1, "|u1")                                                                 \
	X(RUNG_I16, "i16", 2, "<i2")                                                               \
	X(RUNG_U16, "u16", 2, "<u2")                                                               \
	X(RUNG_I32, "i32", 4, "<i4")                                                               \
	X(RUNG_U32, "u32", 4, "<u4")                                                               \
	X(RUNG_I64, "i64", 8, "<i8")                                                               \
	X(RUNG_U64, "u64", 8, "<u8")                                                               \
	X(RUNG_F16, "f16", 2, "<f2")                                                               \
	X(RUNG_BF16, "bf16", 2, "|V2")                                                             \
	X(RUNG_F32, "f32", 4, "<f4")                                                               \
	X(RUNG_F64, "f64", 8, "<f8")

/** Element types, in the order of RUNG_DTYPE_LIST. */
enum rung_dtype {
	RUNG_DTYPE_NONE = 0,
#define RUNG_DTYPE_ENUM(code, name, bytes, descr) code,
	RUNG_DTYPE_LIST(RUNG_DTYPE_ENUM)
#undef RUNG_DTYPE_ENUM
		RUNG_DTYPE_COUNT
};

/** Maximum number of dimensions of an array. */
#define RUNG_DIMS_MAX 8

/**
 * Element type and shape of an array in C order. A row is one index of the first dimension with all
 * that it contains; a row of a vector is one element.
 */
struct rung_array_info {
	enum rung_dtype dtype;
	unsigned dim_count; /**< 1 to RUNG_DIMS_MAX */
	uint64_t dims[RUNG_DIMS_MAX];
	uint64_t row_count; /**< dims[0] */
	uint64_t row_bytes; /**< bytes of one row */
};

/** How the values of quantized rows are stored. */
enum rung_quant_format {
	RUNG_QUANT_NONE = 0, /**< rows are stored as they were given */
	RUNG_QUANT_INT8,
	RUNG_QUANT_INT4,
	RUNG_QUANT_FP8
};

/** The values that share a scale. */
enum rung_quant_scales {
	RUNG_SCALES_ROW = 0, /**< those of a row */
	RUNG_SCALES_COLUMN   /**< those of a column */
};

/** The quantization of a dataset's rows. */
struct rung_quantization {
	enum rung_quant_format format; /**< RUNG_QUANT_NONE: the other members are zero */
	enum rung_quant_scales scales;
	uint64_t columns; /**< values of a row */
	/** bytes of a stored row: the scale if there is one per row (float32), the codes, and zeros
	 * up to a multiple of 4 bytes. int4: column 2 i is in the low half of byte i */
	uint64_t row_bytes;
	const float *column_scales; /**< [columns]; NULL with a scale per row */
};

/**
 * Size of one element in bytes.
 *
 * @param dtype  an element type; any other value is accepted, too
 * @return 1, 2, 4 or 8; 0 if `dtype` is not a valid element type
 *
 * Multiply it by the number of elements of a row to get the bytes of the row, which
 * struct rung_array_info already has as row_bytes. Cannot fail, and sets no error text.
 *
 * Threads: any.
 */
RUNG_API size_t rung_dtype_bytes(enum rung_dtype dtype);

/**
 * Name of an element type, as the command line, the manifest and Python use it.
 *
 * @param dtype  an element type; any other value is accepted, too
 * @return a constant string such as "f16", which must not be freed; "none" if `dtype` is not a
 *         valid element type
 *
 * The names are those of RUNG_DTYPE_LIST. Cannot fail, and sets no error text.
 *
 * Threads: any.
 */
RUNG_API const char *rung_dtype_name(enum rung_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif

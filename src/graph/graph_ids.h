/* SPDX-License-Identifier: Apache-2.0 */
/** Integers of files as vertex ids and offsets: untrusted, of four types, signed or not. Private to
 * the core. */
#ifndef RUNG_GRAPH_IDS_H
#define RUNG_GRAPH_IDS_H

#include "base/base.h"
#include "rung/source.h"

#define RUNG__ID_TEXT_BYTES 24 /* enough for "-9223372036854775808" and the NUL */

/** Whether ids may have this type: i32, i64, u32, u64. */
static inline bool rung__ids_dtype_ok(enum rung_dtype dtype)
{
	return dtype == RUNG_I32 || dtype == RUNG_I64 || dtype == RUNG_U32 || dtype == RUNG_U64;
}

/** Integer i of an array as stored in the file. Negative values become 2^63 or more, which is never
 * below rung__ids_limit(). */
static inline uint64_t rung__ids_get(const void *raw, enum rung_dtype dtype, uint64_t i)
{
	switch (dtype) {
	case RUNG_I32:
		return (uint64_t)(int64_t)((const int32_t *)raw)[i];
	case RUNG_U32:
		return ((const uint32_t *)raw)[i];
	default:
		return ((const uint64_t *)raw)[i];
	}
}

/** The smallest value of rung__ids_get() that is out of range for vertex_count vertices. Negative
 * ids are out of range, too. */
static inline uint64_t rung__ids_limit(enum rung_dtype dtype, uint64_t vertex_count)
{
	const bool has_sign = dtype == RUNG_I32 || dtype == RUNG_I64;

	return has_sign ? RUNG__MIN(vertex_count, UINT64_C(1) << 63) : vertex_count;
}

/** Format a value of rung__ids_get() as the number that is in the file. @return text */
const char *rung__ids_text(char text[RUNG__ID_TEXT_BYTES], enum rung_dtype dtype, uint64_t value);

/** Open a source of integers of `dim_count` dimensions. @param what  name of the array in messages.
 * @return 0, RUNG_E_FORMAT, or an error of rung_source_open() */
int rung__ids_open(const char *spec, const char *what, unsigned dim_count,
                   struct rung_source **src_out);

/** Open a matrix of integers in C or Fortran order, as rung__source_open_either_order() does. */
int rung__ids_open_matrix(const char *spec, const char *what, int *transposed_out,
                          struct rung_source **src_out);

/** Read integers first .. first + count - 1 as stored in the file. */
int rung__ids_read(const struct rung_source *src, uint64_t first, uint64_t count, void *raw);

#endif

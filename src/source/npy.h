/* SPDX-License-Identifier: Apache-2.0 */
/** Headers of .npy files: parsing them, and writing those of staged arrays. Private to rung. */
#ifndef RUNG_IO_NPY_H
#define RUNG_IO_NPY_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/dtype.h"

/* offset in every array that rung writes: the header is padded to a page, so that O_DIRECT can read
 * the data */
#define RUNG__NPY_DATA_OFFSET 4096u
/* longest header; a longer one counts as damaged and is refused */
#define RUNG__NPY_HEADER_BYTES_MAX (1u << 20)

struct rung__npy {
	struct rung_array_info array;
	uint64_t data_offset; /* position counted from the first byte of the .npy */
	/* true for a matrix in Fortran order: `array` then describes its transpose, which has the
	 * same bytes in C order */
	bool transposed;
};

/**
 * Fill row_count and row_bytes from dtype and dims.
 * @param bytes_out  size of the whole array
 * @return false if a size needs more than 63 bits, or the dtype or all dimensions are missing
 */
bool rung__array_measure(struct rung_array_info *array, uint64_t *bytes_out);

/** Whether dtype and shape are the same. */
bool rung__array_equal(const struct rung_array_info *a, const struct rung_array_info *b);

/**
 * Parse a header.
 *
 * @param name        for messages
 * @param head        the first `head_bytes` bytes of the .npy: at least its whole header, or the
 *                    whole file
 * @param file_bytes  length of the whole .npy, which must contain the data
 * @return 0, or RUNG_E_FORMAT with the problem, its position and a remedy
 */
int rung__npy_parse(const char *name, const void *head, uint64_t head_bytes, uint64_t file_bytes,
                    struct rung__npy *npy_out);

/** The same for the `file_bytes` bytes from `base` on in an open file. @return also RUNG_E_IO,
 * RUNG_E_NOMEM */
int rung__npy_read(int fd, const char *name, uint64_t base, uint64_t file_bytes,
                   struct rung__npy *npy_out);

/** Fail with RUNG_E_FORMAT and the remedy, for callers that need C order. */
int rung__npy_refuse_fortran(const char *name);

/** Write a version 1 header, padded to RUNG__NPY_DATA_OFFSET bytes. The array must be one that
 * rung__array_measure() has accepted. */
void rung__npy_format(const struct rung_array_info *array,
                      unsigned char head_out[RUNG__NPY_DATA_OFFSET]);

#endif

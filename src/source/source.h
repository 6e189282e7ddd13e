/* SPDX-License-Identifier: Apache-2.0 */
/** Sources for the rest of rung: opening either order of a matrix, and reading the file directly
 * instead of by rung_source_read(). Private to rung. */
#ifndef RUNG_SOURCE_SOURCE_H
#define RUNG_SOURCE_SOURCE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "quant/quant.h"
#include "rung/source.h"

/* prefixes of specs of arrays that are computed as they are read */
#define RUNG__RANGE_PREFIX "range:"
#define RUNG__PAD_PREFIX   "pad:"
#define RUNG__EVERY_PREFIX "every:"

/**
 * Like rung_source_open(), for callers that accept either order of a matrix. A matrix in Fortran
 * order is opened as its transpose, which has the same bytes in C order. Edge indexes [2,E] are
 * often saved in Fortran order, and are then read as [E,2] in C order.
 *
 * @param transposed_out  1 if the info and the rows of `src` are those of the transpose, else 0
 */
int rung__source_open_either_order(const char *spec, int *transposed_out,
                                   struct rung_source **src_out);

/** The spec with which the source was opened, for messages. */
const char *rung__source_spec(const struct rung_source *src);

/**
 * Read `byte_count` bytes of the array from its byte `byte_first` on, in C order: for arrays whose
 * single rows do not fit in memory, such as an edge index [2,E]. Threads and errors as for
 * rung_source_read().
 */
int rung__source_read_bytes(const struct rung_source *src, uint64_t byte_first, uint64_t byte_count,
                            void *buf);

/** Where the content of a source is: in memory, generated, or in a file. */
struct rung__source_location {
	/* the whole array in memory (a small deflated member), else NULL */
	const unsigned char *data;
	/* generated as it is read: only rung_source_read() can read it, best from the first row to
	 * the last. If it is false and `data` is NULL, the array is in the file `fd` */
	bool streamed;
	bool any_order;   /* streamed: other orders are as fast, as are several threads */
	int fd;           /* the source's own, for reading; do not close it */
	const char *path; /* path of `fd`, for messages */
	uint64_t offset;  /* offset of the array in the file */
	/* memory that the source uses, which callers subtract from a budget */
	uint64_t memory_bytes;
};

/** Location of the array. Its pointers and descriptor are valid until the source is closed. */
struct rung__source_location rung__source_location(const struct rung_source *src);

/**
 * Report that the caller has read bytes [byte_first, byte_first + byte_count) of the array without
 * rung_source_read(). This is for the CRC of a stored member of a .npz, which is compared once the
 * whole member has been read. Reads that cover the array in order, by any number of threads, must
 * be reported; random reads of rows need not be.
 * @return 0, RUNG_E_FORMAT (damaged), RUNG_E_IO
 */
int rung__source_was_read(const struct rung_source *src, uint64_t byte_first, uint64_t byte_count,
                          const void *bytes);

/** stat() the file that a spec names, without opening it. A range has no file: the result is all
 * zero. @return 0, or -1 with errno */
int rung__source_stat(const char *spec, struct stat *st_out);

/**
 * Quantize the rows of a source as they are read: bytes [rows, bytes of a stored row]. A value that
 * is not finite is RUNG_E_FORMAT, with its row and column.
 * @param inner          values that rung__quant_accepts(); owned by the result, after a failure by
 *                       the caller
 * @param column_scales  [quant->columns], read when rows are; NULL: scales per row
 */
int rung__source_quantize(struct rung_source *inner, const struct rung__quant *quant,
                          const float *column_scales, struct rung_source **src_out);

/** The source whose rows `src` quantizes; `src` itself if it does not. */
const struct rung_source *rung__source_unquantized(const struct rung_source *src);

/** The part of a spec that begins with the name of its file, which a folder can precede. @return
 * NULL if the spec names no file (a range) or is not valid */
const char *rung__source_file_part(const char *spec);

#endif

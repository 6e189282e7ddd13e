/* SPDX-License-Identifier: Apache-2.0 */
/** Where the bytes of a source lie, for those who read them past rung_source_read(). Private to rung; see source_read.c. */
#ifndef RUNG_SOURCE_SOURCE_H
#define RUNG_SOURCE_SOURCE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "rung/source.h"

/* specs of arrays that are computed as they are read */
#define RUNG__RANGE_PREFIX "range:"
#define RUNG__PAD_PREFIX   "pad:"
#define RUNG__EVERY_PREFIX "every:"

struct rung__source_place {
	const unsigned char *data;   /* all of the array in memory (a small deflated member), else NULL */
	bool streamed; /* made as it is read: only by rung_source_read(), and best from the first
			  row to the last; else */
	int fd;                      /* the source's own, for reading */
	const char *path;
	uint64_t offset;             /* of the array in the file */
	uint64_t memory_bytes;       /* that the source holds */
};

/** Valid until the source is closed. */
struct rung__source_place rung__source_place(const struct rung_source *src);

/**
 * Bytes [byte_first, byte_first + byte_count) of the array, which the caller has read past
 * rung_source_read(): for the CRC of a stored member of a .npz, which is compared when all of it
 * was read. Reads that cover the array in order, by any number of threads, are to be told; rows
 * that are read one by one need not be.
 * @return 0, RUNG_E_FORMAT (damaged), RUNG_E_IO
 */
int rung__source_was_read(const struct rung_source *src, uint64_t byte_first, uint64_t byte_count,
			  const void *bytes);

/** stat() of the file that a spec names, which is not opened. @return 0, or -1 with errno */
int rung__source_stat(const char *spec, struct stat *st_out);

#endif

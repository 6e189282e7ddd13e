/* SPDX-License-Identifier: Apache-2.0 */
/** What a source is made of. Private to io/source*.c. */
#ifndef RUNG_IO_SOURCE_PRIVATE_H
#define RUNG_IO_SOURCE_PRIVATE_H

#include <stdbool.h>

#include "rung/source.h"

struct rung_source {
	char *spec;
	struct rung_array_info info;
	bool transposed; /* the file has Fortran order; info and rows are the transpose's */
	int fd; /* the file; -1 once all of it is in `data` */
	char *path;
	uint64_t data_offset; /* of row 0 in the file */
	unsigned char *data;  /* an inflated member, NULL when rows are read from the file */
	uint64_t data_bytes;  /* of `data`, its header included */
};

/** Find a member in the zip file src->fd is open on, and fill info, and data_offset or data. */
int rung__source_open_member(struct rung_source *src, const char *member, uint64_t file_bytes);

/** RUNG_E_INVAL for a .npz without member, with the members there are. */
int rung__source_no_member(struct rung_source *src);

/**
 * Where the bytes of entry `idx` of a zip file lie, from its central directory and local header (libzip does not tell).
 * @return false when the entry is not a stored one of `name` and `bytes`, or the directory is not plainly readable:
 *         the caller then reads it through libzip
 */
bool rung__zip_stored_offset(int fd, uint64_t file_bytes, uint64_t idx, const char *name, uint64_t bytes, uint64_t *offset_out);

#endif

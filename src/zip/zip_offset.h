/* SPDX-License-Identifier: Apache-2.0 */
/** The position of the data of a member in a zip file. Private to rung. */
#ifndef RUNG_ZIP_OFFSET_H
#define RUNG_ZIP_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

/** An entry of a zip file as reported by libzip. */
struct rung__zip_entry {
	const char *name;             /* as in the file, without conversion */
	unsigned method;              /* compression method; 0: stored */
	uint64_t bytes, stored_bytes; /* size uncompressed, and size in the file */
};

/**
 * The position of the data of entry `idx` of a zip file, from its central directory and local
 * header (libzip does not report it).
 * @param wanted      what libzip reports about the entry; the file must agree with all of it
 * @param offset_out position of its first byte in the file; all its stored_bytes are inside the
 * file
 * @return false if the entry differs from `wanted` or is encrypted, or the directory is not plain:
 *         the caller then reads it through libzip
 */
bool rung__zip_offset(int fd, uint64_t file_bytes, uint64_t idx,
                      const struct rung__zip_entry *wanted, uint64_t *offset_out);

#endif

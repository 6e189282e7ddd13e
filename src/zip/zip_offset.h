/* SPDX-License-Identifier: Apache-2.0 */
/** The position of a member in a zip file. */
#ifndef RUNG_ZIP_OFFSET_H
#define RUNG_ZIP_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

/** An entry of a zip file as libzip tells of it. */
struct rung__zip_entry {
	const char *name;
	unsigned method;
	uint64_t bytes, stored_bytes; /* as they are, and in the file */
};

/**
 * Where the bytes of entry `idx` of a zip file lie, from its central directory and local header
 * (libzip does not tell).
 * @return false when the entry is not the wanted one, or encrypted, or the directory is not plainly
 *         readable: the caller then reads it through libzip
 */
bool rung__zip_offset(int fd, uint64_t file_bytes, uint64_t idx,
                      const struct rung__zip_entry *wanted, uint64_t *offset_out);

#endif

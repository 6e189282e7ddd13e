/* SPDX-License-Identifier: Apache-2.0 */
/** The position of a member in a zip file. */
#ifndef RUNG_ZIP_OFFSET_H
#define RUNG_ZIP_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

/** An entry of a zip file as reported by libzip. */
struct rung__zip_entry {
	const char *name;
	unsigned method;
	uint64_t bytes, stored_bytes; /* as they are, and in the file */
};

/**
 * The position of the data of entry `idx` of a zip file, from its central directory and local
 * header (libzip does not report it).
 * @return false if it is a different entry, or encrypted, or the directory is not plain: the caller
 *         then reads it through libzip
 */
bool rung__zip_offset(int fd, uint64_t file_bytes, uint64_t idx,
                      const struct rung__zip_entry *wanted, uint64_t *offset_out);

#endif

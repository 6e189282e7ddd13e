/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Checksums of staged files: XXH3-64 of each block of 1 MiB; the last block of a file may be
 * shorter. The values are part of the format (docs/FORMAT.md). Private to rung.
 */
#ifndef RUNG_IO_CHECKSUM_H
#define RUNG_IO_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#define RUNG__BLOCK_BYTES     (1u << 20)
#define RUNG__CHECKSUM_NAME   "xxh3-64" /* in the manifest */
#define RUNG__CHECKSUM_DIGITS 16        /* as hexadecimal text */

/** XXH3 of `bytes` bytes, seed 0. */
uint64_t rung__checksum(const void *data, size_t bytes);

/** Write a checksum as RUNG__CHECKSUM_DIGITS lower-case digits and a NUL. */
void rung__checksum_text(uint64_t sum, char text_out[RUNG__CHECKSUM_DIGITS + 1]);

#define RUNG__FINGERPRINT_BYTES 16u

/** Identity of a row, to compare rows that are not in memory together: the row itself, padded with
 * zeros, if it has at most 16 bytes, otherwise 128 bits of XXH3, seed 0. */
void rung__fingerprint(const void *row, size_t bytes, unsigned char out[RUNG__FINGERPRINT_BYTES]);

/** Number of blocks of a file. Does not overflow for any size, unlike rounding up first. */
static inline uint64_t rung__block_count(uint64_t file_bytes)
{
	return file_bytes / RUNG__BLOCK_BYTES + (file_bytes % RUNG__BLOCK_BYTES != 0);
}

/** Checksums of `bytes` bytes in memory, which start at a block boundary, computed by `threads`
 * threads. @param sums_out  [rung__block_count(bytes)] */
void rung__checksum_blocks(const void *data, size_t bytes, int threads, uint64_t *sums_out);

#endif

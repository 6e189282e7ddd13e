/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of blocks, and identities of rows, by xxHash. */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "dataset/checksum.h"
#include "base/base.h"

uint64_t rung__checksum(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

void rung__checksum_text(uint64_t sum, char text_out[RUNG__CHECKSUM_DIGITS + 1])
{
	snprintf(text_out, RUNG__CHECKSUM_DIGITS + 1, "%016" PRIx64, sum);
}

void rung__fingerprint(const void *row, size_t bytes, unsigned char out[RUNG__FINGERPRINT_BYTES])
{
	if (bytes > RUNG__FINGERPRINT_BYTES) {
		const XXH128_hash_t hash = XXH3_128bits(row, bytes);

		memcpy(out, &hash.low64, 8);
		memcpy(out + 8, &hash.high64, 8);
		return;
	}
	memset(out, 0, RUNG__FINGERPRINT_BYTES);
	if (bytes > 0)
		memcpy(out, row, bytes);
}

void rung__checksum_blocks(const void *data, size_t bytes, int threads, uint64_t *sums_out)
{
	int64_t count = (int64_t)rung__block_count(bytes);

	(void)threads; /* without OpenMP the pragma is ignored */
#pragma omp parallel for num_threads(threads) if (count > 1)
	for (int64_t i = 0; i < count; i++) {
		size_t at = (size_t)i * RUNG__BLOCK_BYTES;

		sums_out[i] = rung__checksum((const unsigned char *)data + at,
		                             RUNG__MIN(bytes - at, RUNG__BLOCK_BYTES));
	}
}

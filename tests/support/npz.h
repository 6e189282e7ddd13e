/* SPDX-License-Identifier: Apache-2.0 */
/** Members of .npz files, for the tests of sources and of their users. */
#ifndef SUPPORT_NPZ_H
#define SUPPORT_NPZ_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "dataset.h"

/* Add the file `npy` as a member to a .npz, which is created if it does not exist. */
static inline void add_to_npz(const char *npz, const char *member, const char *npy,
                              zip_int32_t method)
{
	size_t bytes;
	unsigned char *data = support_read_file(npy, &bytes);
	zip_t *zip = zip_open(npz, ZIP_CREATE, NULL);
	zip_int64_t idx;

	cr_assert(data && zip);
	idx = zip_file_add(zip, member, zip_source_buffer(zip, data, bytes, 0), ZIP_FL_OVERWRITE);
	cr_assert_geq(idx, 0);
	cr_assert_eq(zip_set_file_compression(zip, (zip_uint64_t)idx, method, 1), 0);
	cr_assert_eq(zip_close(zip), 0);
	free(data);
}

static inline void deflate_into(const char *npz, const char *member, const char *npy)
{
	add_to_npz(npz, member, npy, ZIP_CM_DEFLATE);
}

/* Change the lowest bit of byte `at` of the array in the first member, which is not compressed. */
static inline void damage_stored(const char *npz, size_t at)
{
	size_t bytes;
	unsigned char *zip = support_read_file(npz, &bytes),
		      *npy = zip ? memmem(zip, bytes, "\x93NUMPY", 6) : NULL;

	cr_assert(npy);
	npy[10 + (size_t)npy[8] + 256 * (size_t)npy[9] + at] ^= 1;
	cr_assert_eq(support_write_file(npz, zip, bytes), 0);
	free(zip);
}

#endif

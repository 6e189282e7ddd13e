/* SPDX-License-Identifier: Apache-2.0 */
/** Deflated members of .npz files, for the tests of sources and of what is made of them. */
#ifndef SUPPORT_NPZ_H
#define SUPPORT_NPZ_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <zip.h>

#include "dataset.h"

/* Add the file `npy` as a deflated member to a .npz, which is made when it is not there. */
static inline void deflate_into(const char *npz, const char *member, const char *npy)
{
	size_t bytes;
	unsigned char *data = support_read_file(npy, &bytes);
	zip_t *zip = zip_open(npz, ZIP_CREATE, NULL);
	zip_int64_t idx;

	cr_assert(data && zip);
	idx = zip_file_add(zip, member, zip_source_buffer(zip, data, bytes, 0), ZIP_FL_OVERWRITE);
	cr_assert_geq(idx, 0);
	cr_assert_eq(zip_set_file_compression(zip, (zip_uint64_t)idx, ZIP_CM_DEFLATE, 1), 0);
	cr_assert_eq(zip_close(zip), 0);
	free(data);
}

#endif

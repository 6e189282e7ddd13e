/* SPDX-License-Identifier: Apache-2.0 */
/** The numbers 0 to 99 as 25 rows of 4, in a .npy and in a .npz, for the tests of sources. */
#ifndef SOURCE_VALUES_H
#define SOURCE_VALUES_H

#include <stdio.h>
#include <zip.h>

#include "source/source.h"
#include "source_fixture.h"

static char spec[700];

static inline void holds_0_to_99(const char *what)
{
	struct rung_source *src;
	int32_t rows[100];

	cr_assert_eq(rung_source_open(what, &src), 0, "%s", rung_last_error());
	cr_assert_str_eq(rung__source_spec(src), what);
	cr_assert_eq(rung_source_info(src)->dtype, RUNG_I32);
	cr_assert_eq(rung_source_info(src)->row_count, 25);
	cr_assert_eq(rung_source_info(src)->row_bytes, 16);
	cr_assert_eq(rung_source_read(src, 0, 25, rows), 0);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(rows[i], i);
	cr_assert_eq(rung_source_read(src, 7, 2, rows), 0);
	for (int i = 0; i < 8; i++)
		cr_assert_eq(rows[i], 28 + i);
	cr_assert_eq(rung_source_read(src, 25, 0, rows), 0);
	cr_assert_eq(rung_source_read(src, 24, 2, rows), RUNG_E_INVAL);
	cr_assert_eq(rung_source_read(src, 26, 0, rows), RUNG_E_INVAL);
	cr_assert_eq(rung_source_read(src, 1, UINT64_MAX, rows), RUNG_E_INVAL);
	rung_source_close(src);
}

static inline void fill(int32_t values[100])
{
	for (int i = 0; i < 100; i++)
		values[i] = i;
}

/* Writes values.npy with 0 to 99 and returns its bytes. */
static inline unsigned char *npy_of_values(size_t *bytes_out)
{
	int32_t values[100];

	fill(values);
	cr_assert_eq(
		support_write_npy(file_at("values.npy"), "<i4", "(25, 4)", values, sizeof(values)),
		0);
	return support_read_file(path, bytes_out);
}

static inline void write_npz(const char *name, const char *member, zip_int32_t method,
                             const void *data, size_t bytes)
{
	zip_t *zip = zip_open(file_at(name), ZIP_CREATE, NULL);
	zip_int64_t idx;

	cr_assert_not_null(zip);
	idx = zip_file_add(zip, member, zip_source_buffer(zip, data, bytes, 0), ZIP_FL_OVERWRITE);
	cr_assert_geq(idx, 0);
	cr_assert_eq(zip_set_file_compression(zip, (zip_uint64_t)idx, method, 0), 0);
	cr_assert_eq(zip_close(zip), 0);
}

#endif

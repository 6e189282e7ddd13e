/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of .npz files. The input is a zip file, whose member "x" is opened. If rung reads the
 * member in place, libzip must read the same bytes: the two locate it independently.
 */
#include <string.h>
#include <zip.h>

#include "fuzz.h"
#include "source/npy.h"
#include "rung/rung.h"
#include "source/state.h"

const size_t fuzz_bytes_max = 1 << 16;
const size_t fuzz_places_max = 150;

/* The member as libzip reads it, without its CRC check; NULL if it cannot. */
static unsigned char *read_with_libzip(const char *path, const char *member, uint64_t *bytes_out)
{
	zip_t *zip = zip_open(path, ZIP_RDONLY, NULL);
	zip_int64_t idx = zip ? zip_name_locate(zip, member, 0) : -1;
	zip_file_t *file =
		idx >= 0 ? zip_fopen_index(zip, (zip_uint64_t)idx, ZIP_FL_COMPRESSED) : NULL;
	unsigned char *data = NULL;
	zip_stat_t st;

	if (file && zip_stat_index(zip, (zip_uint64_t)idx, 0, &st) == 0 &&
	    st.size <= fuzz_bytes_max) {
		data = malloc(st.size + 1);
		FUZZ_CHECK(data);
		if (zip_fread(file, data, st.size) != (zip_int64_t)st.size) {
			free(data);
			data = NULL;
		}
		*bytes_out = st.size;
	}
	if (file)
		zip_fclose(file);
	if (zip)
		zip_discard(zip);
	return data;
}

static void compare(const struct rung_source *src, const char *path, const unsigned char *rows,
                    uint64_t bytes)
{
	uint64_t member_bytes = 0;
	unsigned char *member = read_with_libzip(path, "x", &member_bytes);
	struct rung__npy npy;

	if (!member)
		member = read_with_libzip(path, "x.npy", &member_bytes);
	FUZZ_CHECK(member);
	FUZZ_CHECK(rung__npy_parse("member", member, member_bytes, member_bytes, &npy) == 0);
	FUZZ_CHECK(rung__array_equal(&npy.array, rung_source_info(src)));
	FUZZ_CHECK(memcmp(member + npy.data_offset, rows, bytes) == 0);
	free(member);
}

/* Too large to compare: read pieces from the end backwards; a piece may be missing. */
static void read_inflated(const struct rung_source *src, uint64_t bytes)
{
	unsigned char piece[100];

	for (uint64_t at = bytes; at > sizeof(piece); at /= 2) {
		if (rung__source_read_bytes(src, at - sizeof(piece), sizeof(piece), piece) < 0)
			return;
	}
}

/* Only for members that rung reads in place: small compressed ones were inflated by libzip
 * itself. */
static void read_all(const struct rung_source *src, const char *path)
{
	const struct rung_array_info *info = rung_source_info(src);
	uint64_t bytes = info->row_count * info->row_bytes;
	unsigned char *rows;
	int rc;

	if (src->stream) {
		read_inflated(src, bytes);
		return;
	}
	FUZZ_CHECK(src->data || bytes <= fuzz_bytes_max);
	if (bytes == 0 || src->data)
		return;
	rows = malloc(bytes);
	FUZZ_CHECK(rows);
	rc = rung__source_read_bytes(src, 0, bytes, rows);
	/* the CRC differs from the one in the zip entry */
	FUZZ_CHECK(rc == 0 || rc == RUNG_E_FORMAT);
	if (rc == 0)
		compare(src, path, rows, bytes);
	free(rows);
}

int fuzz_one(const uint8_t *data, size_t bytes)
{
	const char *path = fuzz_file(0, "input.npz", data, bytes);
	struct rung_source *src;
	char spec[160];
	int transposed, rc;

	/* fails without a member name, and lists the members */
	FUZZ_CHECK(rung_source_open(path, &src) < 0);
	snprintf(spec, sizeof(spec), "%s:x", path);
	rc = rung__source_open_either_order(spec, &transposed, &src);
	if (rc < 0)
		return rc;
	read_all(src, path);
	rung_source_close(src);
	return 0;
}

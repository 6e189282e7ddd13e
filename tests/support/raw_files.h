/* SPDX-License-Identifier: Apache-2.0 */
/** A folder with a graph's raw files, and their specs, for tests. */
#ifndef SUPPORT_RAW_FILES_H
#define SUPPORT_RAW_FILES_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES 8

static char folder[] = "/tmp/rung-graph-XXXXXX";
static char spec_text[FILES][500];

static inline void make_folder(void)
{
	cr_assert(mkdtemp(folder) != NULL);
}

static inline void remove_folder(void)
{
	char path[400];

	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/%d", folder, i);
		unlink(path);
		strcat(path, ".npz");
		unlink(path);
	}
	cr_assert_eq(rmdir(folder), 0, "temporary files remain in %s", folder);
}

/* Write file `slot` with `skip` bytes in front. @return a raw: spec of it, where `shape` gives
 * dtype and dimensions */
static inline const char *raw_file(int slot, const void *bytes, size_t byte_count, size_t skip,
                                   const char *shape)
{
	char front[5000], path[400];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d", folder, slot);
	memset(front, 9, sizeof(front));
	file = fopen(path, "wb");
	cr_assert(file != NULL);
	cr_assert_eq(fwrite(front, 1, skip, file), skip);
	cr_assert_eq(fwrite(bytes, 1, byte_count, file), byte_count);
	cr_assert_eq(fclose(file), 0);
	snprintf(spec_text[slot], sizeof(spec_text[slot]), "raw:%s,%s,%zu", path, shape, skip);
	return spec_text[slot];
}

#endif

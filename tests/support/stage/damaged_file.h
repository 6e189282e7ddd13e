/* SPDX-License-Identifier: Apache-2.0 */
/** A file that loses its content while it is open, and gets it back. One file at a time. */
#ifndef SUPPORT_DAMAGED_FILE_H
#define SUPPORT_DAMAGED_FILE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned char *damaged_bytes;
static size_t damaged_count;

/** Keep the content of a file, and leave 4096 bytes in it: the header of a .npy file. */
static inline void damage_file(const char *path)
{
	FILE *file = fopen(path, "r+");

	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(fseek(file, 0, SEEK_END), 0);
	damaged_count = (size_t)ftell(file);
	cr_assert_gt(damaged_count, 4096);
	damaged_bytes = malloc(damaged_count);
	rewind(file);
	cr_assert_eq(fread(damaged_bytes, 1, damaged_count, file), damaged_count);
	cr_assert_eq(ftruncate(fileno(file), 4096), 0);
	fclose(file);
}

static inline void restore_file(const char *path)
{
	FILE *file = fopen(path, "r+");

	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(fwrite(damaged_bytes, 1, damaged_count, file), damaged_count);
	cr_assert_eq(fclose(file), 0);
	free(damaged_bytes);
}

#endif

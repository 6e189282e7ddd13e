/* SPDX-License-Identifier: Apache-2.0 */
/* A staged dataset whose features are spread over several files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/checksum.h"
#include "dataset.h"
#include "base/base.h"
#include "dataset/manifest.h"
#include "source/npy.h"
#include "layout/layout.h"

#define PATH_BYTES 4096

/* Write an array as a .npy file; replaces an existing file. */
static int write_array(const char *path, const struct rung_array_info *array, const void *data,
                       uint64_t bytes)
{
	unsigned char *all = malloc(RUNG__NPY_DATA_OFFSET + bytes);
	int rc;

	rung__npy_format(array, all);
	memcpy(all + RUNG__NPY_DATA_OFFSET, data, bytes);
	rc = support_write_file(path, all, RUNG__NPY_DATA_OFFSET + bytes);
	free(all);
	return rc < 0 ? RUNG_E_IO : 0;
}

/* Write the rows of one file, taken from the rows of all files. */
static int write_part(const char *dir, const struct rung__manifest *m, uint32_t f,
                      const unsigned char *rows)
{
	const struct rung__manifest_file *file = &m->files[f];
	const struct rung__layout layout = rung__manifest_features_layout(m);
	uint64_t row_bytes = m->features.row_bytes, bytes = file->bytes - RUNG__NPY_DATA_OFFSET,
		 done = 0;
	unsigned char *part = malloc(bytes);
	char link[PATH_BYTES + 256], folder[PATH_BYTES], path[PATH_BYTES + 256];
	int rc;

	for (uint64_t row = 0; row < file->array.dims[0]; row++) {
		memcpy(part + done, rows + rung__file_rank(&layout, f, row) * row_bytes, row_bytes);
		done += row_bytes;
	}
	snprintf(folder, sizeof(folder), "%s.%u", dir, f);
	snprintf(path, sizeof(path), "%s/%s", folder, file->name);
	snprintf(link, sizeof(link), "%s/%s", dir, file->name);
	rc = done != bytes || mkdir(folder, 0777) < 0
	             ? RUNG_E_IO
	             : write_array(path, &file->array, part, bytes);
	free(part);
	return rc < 0 || symlink(path, link) < 0 ? RUNG_E_IO : 0;
}

/* The checksums cover the blocks of all files, then those of the checksum file itself; the manifest
 * comes last. */
static int write_sums(const char *dir, struct rung__manifest *m)
{
	uint64_t *sums = calloc(m->block_count + 1, sizeof(*sums));
	char path[PATH_BYTES], *text = NULL;
	unsigned char *data;
	size_t bytes;
	int rc = 0;

	for (uint32_t i = 0; i < m->file_count; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, m->files[i].name);
		data = support_read_file(path, &bytes);
		if (!data || bytes != m->files[i].bytes)
			return RUNG_E_IO;
		rung__checksum_blocks(data, bytes, 1, sums + m->files[i].first_block);
		free(data);
	}
	snprintf(path, sizeof(path), "%s/" RUNG__CHECKSUMS, dir);
	rc = write_array(path, &m->checksums.array, sums, m->block_count * sizeof(*sums));
	free(sums);
	data = support_read_file(path, &bytes);
	if (rc < 0 || !data)
		return RUNG_E_IO;
	rung__checksum_blocks(data, bytes, 1, m->checksums_sums);
	free(data);
	snprintf(path, sizeof(path), "%s/" RUNG__MANIFEST, dir);
	rc = rung__manifest_format(m, &text);
	if (rc == 0)
		rc = support_write_file(path, text, strlen(text));
	rung__free(text);
	return rc < 0 ? RUNG_E_IO : 0;
}

static int deal(const char *dir, uint32_t file_count, const struct rung__range *ranges,
                uint32_t range_count)
{
	int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct rung__manifest *m = NULL;
	char path[PATH_BYTES];
	unsigned char *rows = NULL;
	size_t bytes;
	int rc = dir_fd < 0 ? RUNG_E_IO : rung__manifest_read(dir_fd, dir, &m);

	if (dir_fd >= 0)
		close(dir_fd);
	if (rc < 0)
		return rc;
	snprintf(path, sizeof(path), "%s/" RUNG__FEATURES, dir);
	rows = support_read_file(path, &bytes);
	m->feature_file_count = file_count;
	m->range_count = range_count;
	memcpy(m->ranges, ranges, range_count * sizeof(*ranges));
	rc = rows && unlink(path) == 0 ? rung__manifest_lay_out(m) : RUNG_E_IO;
	for (uint32_t f = 0; f < file_count && rc == 0; f++)
		rc = write_part(dir, m, f, rows + RUNG__NPY_DATA_OFFSET);
	if (rc == 0)
		rc = write_sums(dir, m);
	free(rows);
	rung__manifest_destroy(m);
	return rc;
}

/* The number of rows of a dataset, whose features are in one file. @return 0: it cannot be read */
static uint64_t rows_of(const char *dir)
{
	struct rung_dataset *ds;
	uint64_t rows;

	if (rung_dataset_open(dir, &ds) < 0)
		return 0;
	rows = rung_dataset_info(ds)->vertex_count;
	rung_dataset_close(ds);
	return rows;
}

int support_deal(const char *dir, uint32_t file_count, uint64_t block_rows)
{
	const struct rung__range range = rung__range_of_all(rows_of(dir), file_count, block_rows);

	return deal(dir, file_count, &range, 1);
}

int support_deal_ranges(const char *dir, uint32_t file_count, uint64_t block_rows)
{
	const uint64_t rows = rows_of(dir), first = rows / 3, second = rows / 2;
	const struct rung__range ranges[] = {
		{ first, 0, first, 0, 1, 0 },
		{ second, 0, rows, 1, 1, 0 },
		{ rows, second, rows, 2, file_count - 2, block_rows },
	};

	return deal(dir, file_count, ranges, 3);
}

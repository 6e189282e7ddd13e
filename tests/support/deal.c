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
	const struct rung__layout layout = { .file_count = m->feature_file_count,
		                             .block_rows = m->block_rows };
	uint64_t row_bytes = m->features.row_bytes, bytes = file->bytes - RUNG__NPY_DATA_OFFSET,
		 done = 0;
	unsigned char *part = malloc(bytes);
	char link[PATH_BYTES + 256], folder[PATH_BYTES], path[PATH_BYTES + 256];
	int rc;

	for (uint64_t rank = 0; rank < m->vertex_count; rank++) {
		if (rung__row_file(&layout, rank) == f) {
			memcpy(part + done, rows + rank * row_bytes, row_bytes);
			done += row_bytes;
		}
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

int support_deal(const char *dir, uint32_t file_count, uint64_t block_rows)
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
	m->block_rows = block_rows;
	rc = rows && unlink(path) == 0 ? rung__manifest_lay_out(m) : RUNG_E_IO;
	for (uint32_t f = 0; f < file_count && rc == 0; f++)
		rc = write_part(dir, m, f, rows + RUNG__NPY_DATA_OFFSET);
	if (rc == 0)
		rc = write_sums(dir, m);
	free(rows);
	rung__manifest_destroy(m);
	return rc;
}

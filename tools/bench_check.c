/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of truth of rung bench --check: the staged features files, read by pread() through the page cache at the offset its
 * header gives. It shares nothing with the store: not the engine, not O_DIRECT, not the tier map, not the store's copy of the
 * maps.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

/* The files of features, as they follow each other in the manifest. */
static int open_files(const char *name, const struct rung_dataset *ds, struct bench_truth *truth)
{
	const struct rung_dataset_file *file;

	for (size_t i = 0; (file = rung_dataset_file(ds, i)) != NULL && truth->file_count < RUNG_FEATURE_FILES_MAX; i++) {
		char *path;
		int fd;

		if (strncmp(file->name, "features.", strlen("features.")) != 0)
			continue;
		if (asprintf(&path, "%s/%s", rung_dataset_dir(ds), file->name) < 0) {
			tool_error(name, TOOL_FAILED, "no memory for the check");
			return RUNG_E_NOMEM;
		}
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			tool_error(name, TOOL_FAILED, "%s: %s", path, strerror(errno));
		free(path);
		if (fd < 0)
			return RUNG_E_IO;
		truth->data_offset = file->data_offset;
		truth->fds[truth->file_count++] = fd;
	}
	return 0;
}

int bench_truth_open(const char *name, const struct rung_dataset *ds, enum rung_id_space space, struct bench_truth *out)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	struct bench_truth truth = { .dir = rung_dataset_dir(ds), .block_rows = info->block_rows, .row_stride = info->row_stride,
	                             .row_bytes = info->features.row_bytes };
	uint64_t id_count;
	int rc = open_files(name, ds, &truth);

	if (rc == 0 && space == RUNG_VERTICES) {
		rc = rung_dataset_load_ids(ds, "rank_of_vertex", &id_count, &truth.rank_of_vertex);
		if (rc < 0)
			tool_fail(name, rc);
	}
	if (rc < 0)
		bench_truth_close(&truth);
	else
		*out = truth;
	return rc;
}

void bench_truth_close(struct bench_truth *truth)
{
	for (uint32_t f = 0; f < truth->file_count; f++)
		close(truth->fds[f]);
	rung_free(truth->rank_of_vertex);
	*truth = (struct bench_truth){ .file_count = 0 };
}

int bench_truth_check(const struct bench_truth *truth, uint64_t id, const void *got, void *row)
{
	uint64_t rank = truth->rank_of_vertex ? truth->rank_of_vertex[id] : id;
	uint64_t block = rank / truth->block_rows;   /* dealt round robin over the files */
	uint64_t row_idx = block / truth->file_count * truth->block_rows + rank % truth->block_rows;
	uint64_t done = 0;

	while (done < truth->row_bytes) {
		ssize_t n = pread(truth->fds[block % truth->file_count], (char *)row + done, truth->row_bytes - done,
		                  (off_t)(truth->data_offset + row_idx * truth->row_stride + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (uint64_t)n;
	}
	return memcmp(row, got, truth->row_bytes) == 0;
}

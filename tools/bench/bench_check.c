/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows with which rung bench --check compares: the staged features files, read by pread()
 * through the page cache at the offset in their headers. This path shares nothing with the store:
 * not the engine, O_DIRECT, the tier map, or the store's copy of the maps.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"

/* @return a status, the failure printed */
static int open_file(const char *name, const char *path, uint64_t data_offset,
                     struct bench_truth *truth)
{
	/* O_NONBLOCK: a pipe in place of the file must not block the command */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		tool_error(name, TOOL_FAILED, "%s: %s", path, strerror(errno));
		return RUNG_E_IO;
	}
	truth->data_offset = data_offset;
	truth->fds[truth->file_count++] = fd;
	return 0;
}

/* Open the features files in the order of the manifest, which is the order of their blocks; or the
 * one file that is used in place. @return a status, the failure printed */
static int open_files(const char *name, const struct rung_dataset *ds, struct bench_truth *truth)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	const struct rung_dataset_file *file;
	int rc = 0;

	if (info->features_path)
		return open_file(name, info->features_path, info->features_offset, truth);
	for (size_t i = 0; (file = rung_dataset_file(ds, i)) != NULL &&
	                   truth->file_count < RUNG_FEATURE_FILES_MAX && rc == 0;
	     i++) {
		char *path;

		/* additional arrays are named "features_NAME" */
		if (strncmp(file->name, "features.", strlen("features.")) != 0)
			continue;
		if (asprintf(&path, "%s/%s", rung_dataset_dir(ds), file->name) < 0) {
			tool_error(name, TOOL_FAILED, "no memory for the check");
			return RUNG_E_NOMEM;
		}
		rc = open_file(name, path, file->data_offset, truth);
		free(path);
	}
	return rc;
}

static int load_map(const char *name, const struct rung_dataset *ds, const char *map,
                    uint64_t **ids_out)
{
	uint64_t count;
	int rc = rung_dataset_load_ids(ds, map, &count, ids_out);

	if (rc < 0)
		tool_fail(name, rc);
	return rc;
}

int bench_truth_open(const char *name, const struct rung_dataset *ds, enum rung_id_space space,
                     struct bench_truth *out)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	struct bench_truth truth = { .dir = rung_dataset_dir(ds),
		                     .ranges = info->feature_ranges,
		                     .row_stride = info->row_stride,
		                     .row_bytes = info->stored_row_bytes,
		                     .quant = &info->quantization,
		                     .dtype = info->features.dtype == RUNG_F64
		                                      ? RUNG_F32
		                                      : info->features.dtype,
		                     .out_bytes = info->features.row_bytes };
	int rc;

	if (info->quantization.format != RUNG_QUANT_NONE)
		truth.out_bytes = info->quantization.columns * rung_dtype_bytes(truth.dtype);
	rc = open_files(name, ds, &truth);
	if (rc == 0 && space == RUNG_VERTICES && !info->features_path)
		rc = load_map(name, ds, "rank_of_vertex", &truth.rank_of_vertex);
	if (rc == 0 && space == RUNG_RANKS && info->features_path)
		rc = load_map(name, ds, "vertex_of_rank", &truth.vertex_of_rank);
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
	rung_free(truth->vertex_of_rank);
	*truth = (struct bench_truth){ .file_count = 0 };
}

/* Read the stored row of an id. @return 0 or -errno */
static int read_row(const struct bench_truth *truth, uint64_t id, void *row)
{
	/* rows are stored by rank or, in place, by vertex; ids of the other kind are mapped */
	uint64_t place = truth->rank_of_vertex   ? truth->rank_of_vertex[id]
	                 : truth->vertex_of_rank ? truth->vertex_of_rank[id]
	                                         : id;
	const struct rung_feature_range *range = truth->ranges;
	uint64_t done = 0, block, row_idx;
	int fd;

	while (place >= range->end) /* every row is in one of the ranges */
		range++;
	place -= range->stored_first;
	block = place / range->block_rows; /* dealt round robin over the files of the range */
	row_idx = block / range->file_count * range->block_rows + place % range->block_rows;
	fd = truth->fds[range->file_first + block % range->file_count];
	while (done < truth->row_bytes) {
		ssize_t n = pread(fd, (char *)row + done, truth->row_bytes - done,
		                  (off_t)(truth->data_offset + row_idx * truth->row_stride + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) /* 0: the file was truncated since the dataset was opened */
			return n < 0 ? -errno : -EIO;
		done += (uint64_t)n;
	}
	return 0;
}

int bench_truth_check(const struct bench_truth *truth, uint64_t id, const void *got, void *row)
{
	const bool quantized = truth->quant->format != RUNG_QUANT_NONE;
	unsigned char *stored = quantized ? malloc(truth->row_bytes) : row;
	int rc = stored ? read_row(truth, id, stored) : -ENOMEM;

	if (quantized && rc == 0)
		bench_decode(truth->quant, truth->dtype, stored, row);
	if (quantized)
		free(stored);
	return rc < 0 ? rc : memcmp(row, got, truth->out_bytes) == 0;
}

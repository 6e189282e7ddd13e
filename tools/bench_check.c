/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of truth of rung bench --check: the staged features file, read by pread() through the page cache at the offset its
 * header gives. It shares nothing with the store: not the engine, not O_DIRECT, not the tier map, not the store's copy of the
 * maps.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static const struct rung_dataset_file *features_file(const struct rung_dataset *ds, unsigned *count_out)
{
	const struct rung_dataset_file *file, *found = NULL;

	*count_out = 0;
	for (size_t i = 0; (file = rung_dataset_file(ds, i)) != NULL; i++) {
		if (strncmp(file->name, "features", strlen("features")) == 0) {
			found = file;
			++*count_out;
		}
	}
	return found;
}

int bench_truth_open(const char *name, const struct rung_dataset *ds, enum rung_id_space space, struct bench_truth *out)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	unsigned count;
	const struct rung_dataset_file *file = features_file(ds, &count);
	struct bench_truth truth = { .fd = -1, .row_stride = info->row_stride, .row_bytes = info->features.row_bytes };
	uint64_t id_count;
	int rc = 0;

	if (count != 1) {
		tool_error(name, TOOL_FAILED, "%s: %u files of features; --check can read one", rung_dataset_dir(ds), count);
		return RUNG_E_NOSUP;
	}
	truth.data_offset = file->data_offset;
	if (asprintf(&truth.path, "%s/%s", rung_dataset_dir(ds), file->name) < 0) {
		tool_error(name, TOOL_FAILED, "no memory for the check");
		return RUNG_E_NOMEM;
	}
	truth.fd = open(truth.path, O_RDONLY | O_CLOEXEC);
	if (truth.fd < 0) {
		tool_error(name, TOOL_FAILED, "%s: %s", truth.path, strerror(errno));
		rc = RUNG_E_IO;
	} else if (space == RUNG_VERTICES) {
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
	if (truth->fd >= 0)
		close(truth->fd);
	free(truth->path);
	rung_free(truth->rank_of_vertex);
	*truth = (struct bench_truth){ .fd = -1 };
}

int bench_truth_check(const struct bench_truth *truth, uint64_t id, const void *got, void *row)
{
	uint64_t rank = truth->rank_of_vertex ? truth->rank_of_vertex[id] : id;
	uint64_t done = 0;

	while (done < truth->row_bytes) {
		ssize_t n = pread(truth->fd, (char *)row + done, truth->row_bytes - done,
		                  (off_t)(truth->data_offset + rank * truth->row_stride + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (uint64_t)n;
	}
	return memcmp(row, got, truth->row_bytes) == 0;
}

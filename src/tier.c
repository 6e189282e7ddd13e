/* SPDX-License-Identifier: Apache-2.0 */
/* Where a dataset's rows lie. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tier.h"

static const struct rung_dataset_file *find(const struct rung_dataset *ds, const char *begin)
{
	const struct rung_dataset_file *file = NULL;

	for (size_t i = 0; (file = rung_dataset_file(ds, i)) != NULL; i++) {
		if (strncmp(file->name, begin, strlen(begin)) == 0)
			break;
	}
	return file;
}

int rung__array_open(const struct rung_dataset *ds, const char *name, struct rung__features *array_out)
{
	const struct rung_dataset_file *file = find(ds, name);
	char *path;
	int fd;

	if (!file)
		return rung__fail(RUNG_E_FORMAT, "%s: the manifest lists no file %s: stage it again", rung_dataset_dir(ds), name);
	path = rung__format("%s/%s", rung_dataset_dir(ds), file->name);
	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s: out of memory", rung_dataset_dir(ds));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		int rc = rung__fail_errno(errno, "%s: opening", path);

		rung__free(path);
		return rc;
	}
	*array_out = (struct rung__features){ path, fd, { .data_offset = file->data_offset, .file_bytes = file->bytes } };
	return 0;
}

int rung__features_open(const struct rung_dataset *ds, struct rung__features *features_out)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	int rc = rung__array_open(ds, "features.", features_out);

	if (rc < 0)
		return rc;
	features_out->layout.row_stride = info->row_stride;
	features_out->layout.file_count = 1;
	features_out->layout.row_bytes = info->features.row_bytes;
	return 0;
}

void rung__features_close(struct rung__features *features)
{
	if (!features->path)
		return;
	close(features->fd);
	rung__free(features->path);
	features->path = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where a dataset's rows lie. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tier.h"

static const struct rung_dataset_file *find_features(const struct rung_dataset *ds)
{
	const struct rung_dataset_file *file = NULL;

	for (size_t i = 0; (file = rung_dataset_file(ds, i)) != NULL; i++) {
		if (strncmp(file->name, "features.", strlen("features.")) == 0)
			break;
	}
	return file;
}

int rung__features_open(const struct rung_dataset *ds, struct rung__features *features_out)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	const struct rung_dataset_file *file = find_features(ds);
	char *path;
	int fd;

	if (!file)
		return rung__fail(RUNG_E_FORMAT, "%s: the manifest lists no features file: stage it again", rung_dataset_dir(ds));
	path = rung__format("%s/%s", rung_dataset_dir(ds), file->name);
	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s: out of memory", rung_dataset_dir(ds));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		int rc = rung__fail_errno(errno, "%s: opening", path);

		rung__free(path);
		return rc;
	}
	*features_out = (struct rung__features){ path, fd, {
		.data_offset = file->data_offset,
		.row_stride = info->row_stride,
		.row_bytes = info->features.row_bytes,
		.file_bytes = file->bytes,
	} };
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

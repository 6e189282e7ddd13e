/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the files of the rows of a dataset: those in its folder, or the source of a dataset that
 * was staged in place.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/file.h"
#include "dataset/dataset.h"
#include "dataset/features.h"

bool rung__features_name_ok(const char *name)
{
	const size_t prefix = strlen(RUNG__FEATURES_PREFIX);

	return strncmp(name, RUNG__FEATURES_PREFIX, prefix) == 0 &&
	       strspn(name + prefix, "0123456789") == 3 && strcmp(name + prefix + 3, ".npy") == 0;
}

bool rung__features_elsewhere(int dir_fd, const char *name, char *folder_out)
{
	const ssize_t bytes = readlinkat(dir_fd, name, folder_out, PATH_MAX - 1);
	char *last;

	if (bytes <= 0)
		return false;
	folder_out[bytes] = '\0';
	last = strrchr(folder_out, '/');
	if (folder_out[0] != '/' || !rung__features_name_ok(last + 1))
		return false;
	*last = '\0';
	return true;
}

/* The file with this name; NULL: the manifest does not list it. */
static const struct rung_dataset_file *find(const struct rung_dataset *ds, const char *name)
{
	const struct rung_dataset_file *file = NULL;

	for (size_t i = 0; (file = rung_dataset_file(ds, i)) != NULL; i++) {
		if (strcmp(file->name, name) == 0)
			break;
	}
	return file;
}

/* Open a file of the folder as the next one of a set. Links are followed: features may be on other
 * devices. A failure leaves the set as it was. */
static int open_file(const struct rung_dataset *ds, const char *name, struct rung__features *set)
{
	const struct rung_dataset_file *file = find(ds, name);
	char *path;
	int fd;

	/* the manifest lists all others that rung opens */
	if (!file)
		return rung__dataset_needs(ds, RUNG__NEEDS_LISTS | RUNG__NEEDS_MAPS);
	path = rung__format("%s/%s", rung_dataset_dir(ds), file->name);
	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s: out of memory", rung_dataset_dir(ds));
	/* not by its path, where a newer data set may be */
	fd = rung__dataset_open_file(ds, file->name, 0);
	if (fd < 0) {
		rung__free(path);
		return fd;
	}
	/* file_count is raised last: it is the index of this file, then the number of files */
	set->files[set->layout.file_count].path = path;
	set->files[set->layout.file_count].fd = fd;
	set->layout.data_offset = file->data_offset;
	set->layout.file_bytes[set->layout.file_count++] = file->bytes;
	return 0;
}

int rung__array_open(const struct rung_dataset *ds, const char *name,
                     struct rung__features *array_out)
{
	*array_out = (struct rung__features){ .layout = { .file_count = 0 } };
	return open_file(ds, name, array_out);
}

int rung__lists_open(const struct rung_dataset *ds, struct rung__features *lists_out)
{
	int rc = rung__array_open(ds, RUNG__INDICES, lists_out);
	struct rung__layout *layout = &lists_out->layout;

	layout->row_bytes = layout->row_stride = RUNG__LIST_BLOCK_BYTES;
	layout->range_count = 1;
	layout->ranges[0] = rung__range_of_all(
		(layout->file_bytes[0] - layout->data_offset + RUNG__LIST_BLOCK_BYTES - 1) /
			RUNG__LIST_BLOCK_BYTES,
		1, 0);
	layout->is_lists = 1;
	return rc;
}

/* Open the source of rows that were left in it. It was checked when the dataset was opened, and may
 * have changed since. */
static int open_in_place(const struct rung_dataset_info *info, struct rung__features *features)
{
	char *path = rung__strdup(info->features_path);
	struct stat st;
	int fd;

	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s: out of memory", info->features_path);
	fd = rung__open_regular(AT_FDCWD, path, path, 0);
	if (fd < 0) {
		rung__free(path);
		return fd;
	}
	/* from here on rung__features_close() frees them, also if a check below fails */
	features->files[0].path = path;
	features->files[0].fd = fd;
	features->layout.file_count = 1;
	features->layout.data_offset = info->features_offset;
	features->layout.file_bytes[0] = info->features_file_bytes;
	if (fstat(fd, &st) < 0)
		return rung__fail_errno(errno, "%s", path);
	if ((uint64_t)st.st_size != info->features_file_bytes)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: no longer has %" PRIu64
		                  " bytes; restore the file that was staged in place, or "
		                  "stage it again",
		                  path, info->features_file_bytes);
	return 0;
}

int rung__features_open(const struct rung_dataset *ds, struct rung__features *features_out)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	struct rung__features features = { .layout = rung__manifest_features_layout(ds->manifest) };
	int rc;

	features.layout.file_count = 0; /* counts the opened ones */
	rc = info->features_path ? open_in_place(info, &features) : 0;
	for (uint32_t f = 0; f < info->feature_file_count && rc == 0; f++) {
		char name[32];

		snprintf(name, sizeof(name), RUNG__FEATURES_NAME, f);
		rc = open_file(ds, name, &features);
	}
	if (rc == 0)
		*features_out = features;
	else
		rung__features_close(&features);
	return rc;
}

void rung__features_close(struct rung__features *features)
{
	/* files are opened in order, so the first one without a path ends the list */
	for (unsigned f = 0; f < RUNG__FILES_MAX && features->files[f].path; f++) {
		close(features->files[f].fd);
		rung__free(features->files[f].path);
		features->files[f].path = NULL;
	}
}

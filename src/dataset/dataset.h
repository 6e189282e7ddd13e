/* SPDX-License-Identifier: Apache-2.0 */
/** The state of an open dataset. Private to rung; the public header of this room. */
#ifndef RUNG_DATASET_DATASET_H
#define RUNG_DATASET_DATASET_H

#include <stdbool.h>

#include "dataset/manifest.h"
#include "rung/dataset.h"

struct rung_dataset {
	char *dir;
	int dir_fd; /* files are opened relative to it, because the folder may be replaced */
	struct rung__manifest *manifest;
	struct rung_dataset_info info;
	/* [info.file_count]: the manifest's, checksums.npy, manifest.json */
	struct rung_dataset_file *files;
	const char **split_names, **array_names;
};

/** As rung_dataset_open(); without `check_files` only the manifest is read. */
int rung__dataset_open(const char *dir, bool check_files, struct rung_dataset **ds_out);

/** Open a file of the dataset for reading, with `flags` added to O_RDONLY. @return descriptor, or a
 * failure that names the file */
int rung__dataset_open_file(const struct rung_dataset *ds, const char *name, int flags);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** An open dataset, and functions on it for the rest of rung. Private to rung. */
#ifndef RUNG_DATASET_DATASET_H
#define RUNG_DATASET_DATASET_H

#include <stdbool.h>

#include "dataset/manifest.h"
#include "rung/dataset.h"

struct rung_dataset {
	char *dir;  /* as given, for messages */
	int dir_fd; /* files are opened relative to it, because the folder may be replaced */
	struct rung__manifest *manifest;
	struct rung_dataset_info info; /* points into the manifest and the lists below */
	/* [manifest->file_count] descriptors of the files but features, or -1: staging again
	 * removes the files of this folder; NULL: no files are open */
	int *fds;
	/* [info.file_count]: the files of the manifest, checksums.npy, manifest.json */
	struct rung_dataset_file *files;
	const char **split_names, **array_names; /* [info.split_count], [info.array_count] */
	struct rung_feature_range ranges[RUNG_FEATURE_FILES_MAX]; /* [info.feature_range_count] */
	struct rung_dataset_type *types;                          /* [info.type_count] */
	struct rung_dataset_relation *relations;                  /* [info.relation_count] */
};

/** As rung_dataset_open(), without the parts of a typed dataset. Without `check_files` only the
 * manifest is read: verify reports damaged files one by one instead of refusing the folder. */
int rung__dataset_open(const char *dir, bool check_files, struct rung_dataset **ds_out);

/** Part `idx` of a typed dataset: the types in their order, the relations, and the edge rows of
 * those that have some. @return its folder, relative to that of the dataset; NULL past the last.
 * @param sum_out  the checksum of its manifest; may be NULL */
const char *rung__dataset_part(const struct rung__types *types, uint32_t idx, uint64_t *sum_out);

/** Open a part, as rung__dataset_open(), and compare it with the manifest of the typed dataset.
 * @return also RUNG_E_CORRUPT: it was staged with another one */
int rung__dataset_open_part(const struct rung_dataset *ds, uint32_t idx, bool check_files,
                            struct rung_dataset **part_out);

/** What a part of a typed dataset may lack. */
enum rung__needs { RUNG__NEEDS_ROWS = 1, RUNG__NEEDS_LISTS = 2, RUNG__NEEDS_MAPS = 4 };

/** Check that the dataset is not typed, and has all of `needs`, a sum of enum rung__needs.
 * @return 0, or RUNG_E_INVAL that names what is missing and which folders have it */
int rung__dataset_needs(const struct rung_dataset *ds, unsigned needs);

/** Open a file of the dataset for reading, with `flags` added to O_RDONLY. @return a descriptor, or
 * a failure that names the file; RUNG_E_FORMAT if it is missing */
int rung__dataset_open_file(const struct rung_dataset *ds, const char *name, int flags);

#endif

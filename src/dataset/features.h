/* SPDX-License-Identifier: Apache-2.0 */
/** The open files of the rows of a dataset, as tiers and verify read them. Private to rung. */
#ifndef RUNG_DATASET_FEATURES_H
#define RUNG_DATASET_FEATURES_H

#include "layout/layout.h"
#include "rung/dataset.h"

/**
 * The staged features, or another array of a dataset, which is one file. Tiers reopen the files
 * through the descriptors, not the paths: a dataset that replaces this one, or the working folder
 * of another process, cannot substitute another file.
 */
struct rung__features {
	struct {
		char *path; /* for messages; NULL: not open */
		int fd;
	} files[RUNG__FILES_MAX];   /* [layout.file_count] */
	struct rung__layout layout; /* where a row is: its file, and its offset there */
};

/** Whether a file in the folder of a dataset may have this name as one with its features: only such
 * files may be links. */
bool rung__features_name_ok(const char *name);

/**
 * Whether a features file in the folder `dir_fd` is a link to a file with the name of features, as
 * in a copy by rung fetch, which refers to those of another dataset.
 * @param folder_out  [PATH_MAX] the folder of that file
 */
bool rung__features_elsewhere(int dir_fd, const char *name, char *folder_out);

/** Open an array of a dataset by the name of its file. `layout` gets the position of the data and
 * the size of the file; its fields about rows stay zero. Close it with rung__features_close(). */
int rung__array_open(const struct rung_dataset *ds, const char *name,
                     struct rung__features *array_out);

/** Open the features of a dataset for reading, staged or in place. After a failure nothing is open.
 */
int rung__features_open(const struct rung_dataset *ds, struct rung__features *features_out);

/** Open the neighbour lists of a dataset's graph as rows of RUNG__LIST_BLOCK_BYTES, for the tiers
 * that serve rows. The last block may extend past the end of the file. Close it with
 * rung__features_close(). */
int rung__lists_open(const struct rung_dataset *ds, struct rung__features *lists_out);

/** Close the files. Calling it again does nothing. */
void rung__features_close(struct rung__features *features);

#endif

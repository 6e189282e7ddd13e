/* SPDX-License-Identifier: Apache-2.0 */
/** The files that hold the rows of a data set, opened. Private to rung. */
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
	} files[RUNG__FILES_MAX]; /* [layout.file_count] */
	struct rung__layout layout;
};

/** Open an array of a dataset, by its file's name; `layout` has its place and size, and nothing of
 * rows. */
int rung__array_open(const struct rung_dataset *ds, const char *name,
                     struct rung__features *array_out);

/** Open the staged features of a dataset for reading. */
int rung__features_open(const struct rung_dataset *ds, struct rung__features *features_out);

/** Close; nothing when nothing is open. */
void rung__features_close(struct rung__features *features);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** The files that hold the rows of a data set, opened. Private to rung. */
#ifndef RUNG_DATASET_FEATURES_H
#define RUNG_DATASET_FEATURES_H

#include "layout/layout.h"
#include "rung/dataset.h"

/**
 * The staged features, or another array of a dataset, which is one file. Tiers open the files
 * behind the descriptors, not the paths: a dataset staged anew under a running store, or the
 * working folder of another process, cannot put another file in their place.
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

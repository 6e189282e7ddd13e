/* SPDX-License-Identifier: Apache-2.0 */
/** Labels and splits of a dataset, checked and ready to train on. */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stdint.h>

#include <rung/rung.h>

#include "labels.h"

#define TRAIN_CLASSES_MAX (1u << 20)

enum { TRAIN_SPLIT_TRAIN, TRAIN_SPLIT_VALID, TRAIN_SPLIT_TEST, TRAIN_SPLIT_COUNT };

struct train_split {
	uint64_t *ids;  /* [count] ranks, distinct, all of them labelled */
	uint64_t count; /* 0: none */
};

struct train_data {
	struct train_labels labels; /* of the vertices of the splits */
	uint32_t class_count;       /* largest label in a split + 1 */
	struct train_split splits[TRAIN_SPLIT_COUNT];
	/* share of the test split in the most frequent class of the train split; NaN without
	 * test */
	double majority_accuracy;
};

/**
 * Read labels and splits. Vertices without a label (NaN, negative) and repeats are left out of the
 * splits, with a note on stderr unless `quiet`.
 * @param data_out  written for TOOL_DONE; free it with train_data_fini()
 * @return an exit code, the failure printed
 */
int train_data_load(const struct rung_dataset *ds, const char *name, int quiet,
                    struct train_data *data_out);
void train_data_fini(struct train_data *data);

#endif

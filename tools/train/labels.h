/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The labels of some vertices by rank: a bit per vertex, and 4 bytes per labelled one. A dataset
 * has far more vertices than labels that training reads.
 */
#ifndef TRAIN_LABELS_H
#define TRAIN_LABELS_H

#include <stdint.h>

#define TRAIN_LABEL_NONE  (-1) /* no label in the file, or not a vertex of a split */
#define TRAIN_LABEL_WRONG (-2) /* a number that is not a class */

struct train_labels {
	uint64_t vertex_count;
	uint64_t *members; /* one bit per vertex, in words of 64 bits */
	uint64_t *before;  /* members before each group of words; after train_labels_alloc() */
	int32_t *values;   /* [member_count] by ascending rank; the same */
	uint64_t member_count;
};

/** Begin without members. @return 0 or RUNG_E_NOMEM; free with train_labels_fini() in both cases */
int train_labels_init(struct train_labels *labels, uint64_t vertex_count);
void train_labels_fini(struct train_labels *labels);

/** Add a member. @return 1, or 0 if it was one already */
int train_labels_add(struct train_labels *labels, uint64_t rank);

/** Allocate the values of all members, TRAIN_LABEL_NONE at first. @return 0 or RUNG_E_NOMEM */
int train_labels_alloc(struct train_labels *labels);

/** The value of a rank, to read or to set; NULL if it is not a member. After
 * train_labels_alloc(). */
int32_t *train_labels_at(const struct train_labels *labels, uint64_t rank);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Conversion of gathered feature rows to float32 for the model. */
#ifndef TRAIN_ROWS_H
#define TRAIN_ROWS_H

#include <stdint.h>

#include "base/random.h"
#include "rung/dtype.h"

enum train_norm {
	TRAIN_NORM_NONE = 0,
	TRAIN_NORM_L1, /* sum of absolute values 1 */
	TRAIN_NORM_L2  /* length 1 */
};

/** A key that differs for each combination of seed, a and b. */
static inline uint64_t train_key(uint64_t seed, uint64_t a, uint64_t b)
{
	return rung__mix64(rung__key_join(seed, a) ^ b);
}

/** Dropout: an element is kept with probability 1 - rate and then scaled by 1 / (1 - rate), decided
 * by key and position. */
struct train_dropout {
	float rate; /* 0: none; below 1 */
	uint64_t key;
};

/**
 * Convert `row_count` rows of `width` elements. Rows of zeros are not changed by normalisation.
 * Every value of f16, bf16, i8 and u8 becomes the same number; f64 and wide integers are rounded.
 */
void train_rows_convert(enum rung_dtype dtype, const void *rows, uint64_t row_count, uint64_t width,
                        enum train_norm norm, struct train_dropout dropout, float *out);

/** Dropout on one row in place; `row_idx` is its position. */
void train_row_dropout(struct train_dropout dropout, uint64_t row_idx, uint64_t width, float *row);

/** Value of an f16 or a bf16 with the given bits. */
float train_from_f16(uint16_t bits);
float train_from_bf16(uint16_t bits);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Float arrays of the model that grow to the largest batch. */
#ifndef TRAIN_BUFFER_H
#define TRAIN_BUFFER_H

#include <stdint.h>

struct train_buffer {
	float *data;
	uint64_t cap; /* floats */
};

/** Make room for rows * width floats; the content is lost when the buffer grows. Free `data` with
 * free(). @return 0 or RUNG_E_NOMEM */
int train_buffer_need(struct train_buffer *buffer, uint64_t rows, uint64_t width);

#endif

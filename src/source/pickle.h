/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A dict of integers and NumPy arrays of integers, as written by torch.save() and pickle (protocol
 * 2). Nothing is executed: only the pickle instructions for such a dict are known, and they only
 * fill in the list below. Private to io/.
 */
#ifndef RUNG_IO_PICKLE_H
#define RUNG_IO_PICKLE_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/dtype.h"

#define RUNG__PICKLE_ITEMS_MAX 64u
#define RUNG__PICKLE_KEY_BYTES 64u /* its NUL included */

struct rung__pickle_item {
	char key[RUNG__PICKLE_KEY_BYTES];
	bool is_array;
	int64_t number; /* value if it is not an array */
	enum rung_dtype dtype;
	uint64_t count;            /* entries; one dimension */
	const unsigned char *text; /* its bytes, each a character of UTF-8 up to 255 */
	uint64_t text_bytes;
};

struct rung__pickle_dict {
	struct rung__pickle_item items[RUNG__PICKLE_ITEMS_MAX];
	uint32_t count;
};

/**
 * @param name   for messages
 * @param bytes  untrusted; the items point into it
 * @return 0, or RUNG_E_FORMAT with the problem, its byte and the cure; RUNG_E_NOMEM
 */
int rung__pickle_read(const char *name, const unsigned char *bytes, uint64_t byte_count,
                      struct rung__pickle_dict *dict_out);

/** The array's bytes. @param data_out [count * bytes of dtype]. @return RUNG_E_FORMAT when there
 * are more or fewer */
int rung__pickle_array(const char *name, const struct rung__pickle_item *item,
                       unsigned char *data_out);

/** The dict of a file that torch.save() wrote: keys, numbers and counts; arrays without their
 * bytes. */
int rung__torch_read(const char *path, struct rung__pickle_dict *dict_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A dict of integers and NumPy arrays of integers, as written by torch.save() and pickle (protocol
 * 2). Nothing is executed: only the instructions that occur in such a dict are supported, and they
 * only fill in the list below. Used by the source of .pt files and by the preset for OGB's files.
 * Private to rung.
 */
#ifndef RUNG_IO_PICKLE_H
#define RUNG_IO_PICKLE_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/dtype.h"

#define RUNG__PICKLE_ITEMS_MAX 64u /* entries of the dict, and arrays in the file */
#define RUNG__PICKLE_KEY_BYTES 64u /* size of a key, including the NUL */

struct rung__pickle_item {
	char key[RUNG__PICKLE_KEY_BYTES]; /* printable ASCII without spaces */
	bool is_array;
	int64_t number;        /* the value, if it is not an array */
	enum rung_dtype dtype; /* type of an array, which is an integer type */
	uint64_t count;        /* entries of the array, which has one dimension; not yet checked */
	/* the array's bytes, each written as a character from 0 to 255 in UTF-8: protocol 2 has no
	 * type for bytes */
	const unsigned char *text;
	uint64_t text_bytes;
};

/** Entries in the order of the file. */
struct rung__pickle_dict {
	struct rung__pickle_item items[RUNG__PICKLE_ITEMS_MAX];
	uint32_t count;
};

/**
 * Read the dict of a pickle.
 * @param name   for messages
 * @param bytes  untrusted; the items point into it, so it must outlive them
 * @return 0, or RUNG_E_FORMAT with the problem, its position and a remedy; RUNG_E_NOMEM
 */
int rung__pickle_read(const char *name, const unsigned char *bytes, uint64_t byte_count,
                      struct rung__pickle_dict *dict_out);

/** Decode the bytes of an array. The caller checks `count` before it allocates. @param data_out
 * [count * bytes of dtype]. @return RUNG_E_FORMAT if there are more bytes or fewer */
int rung__pickle_array(const char *name, const struct rung__pickle_item *item,
                       unsigned char *data_out);

/** Read the dict of a file that torch.save() wrote: keys, numbers, and counts of arrays, but not
 * their bytes (text is NULL). */
int rung__torch_read(const char *path, struct rung__pickle_dict *dict_out);

#endif

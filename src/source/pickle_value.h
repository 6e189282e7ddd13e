/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Values of the pickle machine: its stack, and the instructions that build values from those on the
 * stack. They read nothing from the file, except for its position in messages. Private to
 * src/source.
 */
#ifndef RUNG_SOURCE_PICKLE_VALUE_H
#define RUNG_SOURCE_PICKLE_VALUE_H

#include "source/pickle.h"

#define RUNG__PICKLE_STACK_MAX 1024u
#define RUNG__PICKLE_MEMO_MAX  4096u
#define RUNG__PICKLE_POOL_MAX  4096u

enum rung__pickle_kind {
	RUNG__PICKLE_NOTHING,
	RUNG__PICKLE_MARK,
	RUNG__PICKLE_NONE,
	RUNG__PICKLE_BOOLEAN,
	RUNG__PICKLE_NUMBER,
	RUNG__PICKLE_TEXT,
	RUNG__PICKLE_GLOBAL,
	RUNG__PICKLE_BYTES,
	RUNG__PICKLE_TUPLE,
	RUNG__PICKLE_DICT,
	RUNG__PICKLE_DTYPE,
	RUNG__PICKLE_ARRAY
};

enum rung__pickle_global {
	RUNG__PICKLE_RECONSTRUCT,
	RUNG__PICKLE_NDARRAY,
	RUNG__PICKLE_NUMPY_DTYPE,
	RUNG__PICKLE_ENCODE,
	RUNG__PICKLE_EMPTY_BYTES
};

struct rung__pickle_value {
	enum rung__pickle_kind kind;
	/* NUMBER; GLOBAL: which; DTYPE: which; ARRAY: its place in arrays; TUPLE: its first in the
	 * pool */
	int64_t number;
	const unsigned char *text; /* TEXT, BYTES */
	uint64_t length;           /* of it; TUPLE: entries */
};

struct rung__pickle_ndarray {
	bool built;
	enum rung_dtype dtype;
	uint64_t count;
	const unsigned char *text;
	uint64_t text_bytes;
};

struct rung__pickle_machine {
	const char *name;
	const unsigned char *start, *at, *end;
	struct rung__pickle_value stack[RUNG__PICKLE_STACK_MAX], memo[RUNG__PICKLE_MEMO_MAX],
		pool[RUNG__PICKLE_POOL_MAX];
	uint32_t depth, pooled;
	struct rung__pickle_ndarray arrays[RUNG__PICKLE_ITEMS_MAX];
	uint32_t array_count;
	bool has_dict;
	struct rung__pickle_dict *dict;
};

/** Fail with `what`, the problem at the current byte of the file. @return RUNG_E_FORMAT */
int rung__pickle_refuse(const struct rung__pickle_machine *m, const char *what);

/** @return 0, or RUNG_E_FORMAT if the stack is full */
int rung__pickle_push(struct rung__pickle_machine *m, struct rung__pickle_value value);

/** The value `down` positions below the top; kind NOTHING if there is none. */
static inline struct rung__pickle_value rung__pickle_top(const struct rung__pickle_machine *m,
                                                         uint32_t down)
{
	return m->depth > down ? m->stack[m->depth - 1 - down]
	                       : (struct rung__pickle_value){ .kind = RUNG__PICKLE_NOTHING };
}

/** Pop `count` values and the `marks` marks below them, and push a tuple of the values. */
int rung__pickle_tuple(struct rung__pickle_machine *m, uint32_t count, uint32_t marks);

/** Push the dict. A file has one. */
int rung__pickle_new_dict(struct rung__pickle_machine *m);

/** Pop `count` values, which are keys and values in turn, and `marks` marks, and add the entries to
 * the dict below. */
int rung__pickle_set_items(struct rung__pickle_machine *m, uint32_t count, uint32_t marks);

/** Pop a tuple of arguments and the function below it, and push the result of the call. */
int rung__pickle_reduce(struct rung__pickle_machine *m);

/** Pop a state, and apply it to the value below. */
int rung__pickle_build(struct rung__pickle_machine *m);

#endif

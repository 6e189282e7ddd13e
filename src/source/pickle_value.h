/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Values of the pickle machine: its stack, and the instructions that build values from those on the
 * stack. pickle.c decodes the file and calls them. They use the position in the file only for
 * messages. Private to src/source.
 */
#ifndef RUNG_SOURCE_PICKLE_VALUE_H
#define RUNG_SOURCE_PICKLE_VALUE_H

#include "source/pickle.h"

/* Bounds of the machine. A dict of 64 entries needs far less; a file that needs more is refused. */
#define RUNG__PICKLE_STACK_MAX 1024u /* values */
/* entries of the memo: values to which the file can refer again */
#define RUNG__PICKLE_MEMO_MAX 4096u
#define RUNG__PICKLE_POOL_MAX 4096u /* number of entries of all tuples together */

enum rung__pickle_kind {
	/* zero, as in a memo entry that was not written; also a value past the end */
	RUNG__PICKLE_NOTHING,
	RUNG__PICKLE_MARK, /* the start of a sequence on the stack */
	RUNG__PICKLE_NONE,
	RUNG__PICKLE_BOOLEAN, /* a kind whose value is never needed */
	RUNG__PICKLE_NUMBER,
	RUNG__PICKLE_TEXT,
	RUNG__PICKLE_GLOBAL, /* a function or class, by its name */
	RUNG__PICKLE_BYTES,  /* text of latin1 characters, still encoded as UTF-8 */
	RUNG__PICKLE_TUPLE,
	RUNG__PICKLE_DICT,
	RUNG__PICKLE_DTYPE,
	RUNG__PICKLE_ARRAY
};

/** The only functions and classes that a file is allowed to name. */
enum rung__pickle_global {
	RUNG__PICKLE_RECONSTRUCT, /* numpy: an array without content */
	RUNG__PICKLE_NDARRAY,
	RUNG__PICKLE_NUMPY_DTYPE,
	RUNG__PICKLE_ENCODE,     /* _codecs: text to bytes */
	RUNG__PICKLE_EMPTY_BYTES /* bytes(), which pickle writes for b'' */
};

/** Small, so that values are copied: stack, memo and pool own nothing. */
struct rung__pickle_value {
	enum rung__pickle_kind kind;
	/* NUMBER: the value; GLOBAL: enum rung__pickle_global; DTYPE: enum rung_dtype; ARRAY: index
	 * into arrays[]; TUPLE: index of its first entry in pool[] */
	int64_t number;
	const unsigned char *text; /* TEXT, BYTES: in the file, without a NUL */
	uint64_t length;           /* bytes of text; TUPLE: number of entries */
};

/** Not part of a value: an array gets its state after the memo has a copy of its value. */
struct rung__pickle_ndarray {
	bool built; /* the array has its state, and the fields below are valid */
	enum rung_dtype dtype;
	uint64_t count;            /* number of entries that its shape claims */
	const unsigned char *text; /* in the file; see struct rung__pickle_item */
	uint64_t text_bytes;
};

/** About 300 KiB: allocate it on the heap. It must be all zero at the start. */
struct rung__pickle_machine {
	const char *name;                      /* for messages */
	const unsigned char *start, *at, *end; /* the file, and the next byte to decode */
	struct rung__pickle_value stack[RUNG__PICKLE_STACK_MAX], memo[RUNG__PICKLE_MEMO_MAX],
		pool[RUNG__PICKLE_POOL_MAX];
	uint32_t depth, pooled; /* used entries of stack[] and pool[] */
	struct rung__pickle_ndarray arrays[RUNG__PICKLE_ITEMS_MAX];
	uint32_t array_count;
	bool has_dict;                  /* the dict was pushed */
	struct rung__pickle_dict *dict; /* the result, owned by the caller */
};

/** Fail with the message `what`, the problem at the current byte of the file. @return
 * RUNG_E_FORMAT */
int rung__pickle_refuse(const struct rung__pickle_machine *m, const char *what);

/** @return 0, or RUNG_E_FORMAT if the stack is full */
int rung__pickle_push(struct rung__pickle_machine *m, struct rung__pickle_value value);

/** The value `down` positions below the top; kind NOTHING below the bottom of the stack. */
static inline struct rung__pickle_value rung__pickle_top(const struct rung__pickle_machine *m,
                                                         uint32_t down)
{
	return m->depth > down ? m->stack[m->depth - 1 - down]
	                       : (struct rung__pickle_value){ .kind = RUNG__PICKLE_NOTHING };
}

/** Pop `count` values and the `marks` marks below them, and push a tuple of the values. */
int rung__pickle_tuple(struct rung__pickle_machine *m, uint32_t count, uint32_t marks);

/** Push the dict. A second one is refused, because the entries go to a single list. */
int rung__pickle_new_dict(struct rung__pickle_machine *m);

/** Pop `count` values, which are keys and values in turn, and `marks` marks, and add the entries to
 * the dict below. */
int rung__pickle_set_items(struct rung__pickle_machine *m, uint32_t count, uint32_t marks);

/** Pop a tuple of arguments and the function below it, and push the result of the call. */
int rung__pickle_reduce(struct rung__pickle_machine *m);

/** Pop a state, and apply it to the value below. */
int rung__pickle_build(struct rung__pickle_machine *m);

#endif

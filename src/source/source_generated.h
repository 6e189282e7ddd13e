/* SPDX-License-Identifier: Apache-2.0 */
/** Members that are inflated when they are opened, into memory or a temporary file. Private to
 * io/source*.c and its tests. */
#ifndef RUNG_SOURCE_GENERATED_H
#define RUNG_SOURCE_GENERATED_H

#include "file/direct.h"
#include "source/state.h"

struct rung__generated {
	struct rung_source *src;
	uint64_t bytes, done;
	bool in_file;
	struct rung__direct file;
	char *path;            /* for messages */
	unsigned char *buffer; /* of the file, on a page */
	uint64_t used;         /* of it */
};

/** Tests: more bytes than this go into a file. */
extern uint64_t rung__generated_memory_max;

/** `bytes` bytes will follow: fill rung__generated_buffer(), report the amount with
 * rung__generated_add(), repeat until all are there, then end. */
int rung__generated_begin(struct rung__generated *generated, struct rung_source *src,
                          uint64_t bytes);
/** Room for what comes next: at least a byte while there is something to come. */
unsigned char *rung__generated_buffer(struct rung__generated *generated, uint64_t *bytes_out);
int rung__generated_add(struct rung__generated *generated, uint64_t bytes);
/** The source is then read from the generated `data`, or from its `fd`, which replaces the previous
 * one. */
int rung__generated_end(struct rung__generated *generated);
/** Free the memory for generating, also after a failure. */
void rung__generated_fini(struct rung__generated *generated);

#endif

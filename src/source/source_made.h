/* SPDX-License-Identifier: Apache-2.0 */
/** Members that are inflated when they are opened, into memory or a temporary file. Private to
 * io/source*.c and its tests. */
#ifndef RUNG_IO_SOURCE_MADE_H
#define RUNG_IO_SOURCE_MADE_H

#include "file/direct.h"
#include "source/source_private.h"

struct rung__made {
	struct rung_source *src;
	uint64_t bytes, done;
	bool in_file;
	struct rung__direct file;
	char *path;            /* for messages */
	unsigned char *buffer; /* of the file, on a page */
	uint64_t used;         /* of it */
};

/** Tests: more bytes than this go into a file. */
extern uint64_t rung__made_memory_max;

/** `bytes` bytes will follow: fill rung__made_room(), report the amount with rung__made_take(),
 * repeat until all are there, then end. */
int rung__made_begin(struct rung__made *made, struct rung_source *src, uint64_t bytes);
/** Room for what comes next: at least a byte while there is something to come. */
unsigned char *rung__made_room(struct rung__made *made, uint64_t *bytes_out);
int rung__made_take(struct rung__made *made, uint64_t bytes);
/** The source is then read from the generated `data`, or from its `fd`, which replaces the previous
 * one. */
int rung__made_end(struct rung__made *made);
/** Free the memory for generating, also after a failure. */
void rung__made_fini(struct rung__made *made);

#endif

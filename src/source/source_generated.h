/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Members that are inflated as a whole when they are opened, into memory or a temporary file.
 * Private to src/source and its tests.
 */
#ifndef RUNG_SOURCE_GENERATED_H
#define RUNG_SOURCE_GENERATED_H

#include "file/direct.h"
#include "source/state.h"

struct rung__generated {
	struct rung_source *src;  /* the source that receives the result */
	uint64_t bytes, done;     /* size of the member, and bytes inflated so far */
	bool in_file;             /* true: the bytes go into a file; false: into src->data */
	struct rung__direct file; /* the file; the fields below belong to it */
	char *path;               /* a description for messages, because the file has no name */
	unsigned char *buffer;    /* page-aligned, for direct writes */
	uint64_t used;            /* bytes in the buffer that are not written yet */
};

/** A member with more bytes than this goes into a file. Tests lower this limit. */
extern uint64_t rung__generated_memory_max;

/**
 * Prepare for `bytes` bytes: allocate memory, or create a temporary file if its folder has room for
 * them. Then fill rung__generated_buffer(), and report the amount with rung__generated_add(), until
 * all bytes have been added. Then call rung__generated_end(). In any case, also after a failure,
 * call rung__generated_fini().
 * @return 0, RUNG_E_NOMEM, RUNG_E_NOSPC, RUNG_E_IO
 */
int rung__generated_begin(struct rung__generated *generated, struct rung_source *src,
                          uint64_t bytes);
/** Space for the next bytes: at least one byte, until all bytes have been added. @param bytes_out
 * size of the space */
unsigned char *rung__generated_buffer(struct rung__generated *generated, uint64_t *bytes_out);
/** The next `bytes` bytes are in the buffer. @return 0, or the failure of writing the file */
int rung__generated_add(struct rung__generated *generated, uint64_t bytes);
/** All bytes have been added: from here on the source is read from src->data, or from the temporary
 * file, which replaces src->fd. */
int rung__generated_end(struct rung__generated *generated);
/** Free the buffer and close the descriptor for writing; also after a failure. */
void rung__generated_fini(struct rung__generated *generated);

#endif

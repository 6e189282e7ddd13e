/* SPDX-License-Identifier: Apache-2.0 */
/** Writing in the background: the caller fills buffers, a thread writes them. Private to rung. */
#ifndef RUNG_WRITER_H
#define RUNG_WRITER_H

#include "file/direct.h"
#include "base/base.h"

struct rung__writer;

/**
 * @param pool          [buffer_count * buffer_bytes] on a page; the caller's, and as long as the
 *                      writer
 * @param buffer_bytes  whole pages
 */
int rung__writer_open(unsigned char *pool, uint64_t buffer_bytes, uint32_t buffer_count,
                      struct rung__writer **writer_out);

/** A buffer that is free, waiting for one. At most buffer_count - 1 are to be held while another is
 * taken. */
unsigned char *rung__writer_reserve(struct rung__writer *writer);

/** Give a buffer back and have its first `bytes` (whole pages) written at `offset` (0: none,
 * nothing is written). */
void rung__writer_put(struct rung__writer *writer, const struct rung__direct *file,
                      unsigned char *buffer, uint64_t bytes, uint64_t offset);

/** Wait until all is written. @return 0, or the first failure of any write, here and from then
 * on */
int rung__writer_flush(struct rung__writer *writer);

/** Whether a write has failed: later buffers are not written. */
bool rung__writer_failed(struct rung__writer *writer);

/** Waits for writes in flight. NULL is allowed. */
void rung__writer_close(struct rung__writer *writer);

/** A file written from its start to its end through buffers of a writer. */
struct rung__out_stream {
	struct rung__writer *writer;
	struct rung__direct file; /* the caller's to open and to close */
	unsigned char *buffer;    /* being filled; NULL: none yet */
	uint64_t buffer_bytes;    /* as the writer has it */
	uint64_t used;            /* of buffer */
	uint64_t written;         /* bytes handed to the writer */
};

/** @return 0, or the failure of an earlier write */
int rung__stream_append(struct rung__out_stream *stream, const void *bytes, uint64_t byte_count);

/** Write the rest, and truncate the file to its length. @return as rung__writer_flush() */
int rung__stream_end(struct rung__out_stream *stream);

#endif

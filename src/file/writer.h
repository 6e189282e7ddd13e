/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Writing in the background: the caller fills buffers, and a thread writes them with direct writes,
 * so that computing and writing overlap. Private to rung.
 *
 * Threads: any number may reserve and put; an out stream belongs to one thread.
 */
#ifndef RUNG_WRITER_H
#define RUNG_WRITER_H

#include "file/direct.h"
#include "base/base.h"

struct rung__writer;

/**
 * Start the thread.
 * @param pool          [buffer_count * buffer_bytes] page-aligned; the caller's, and valid until
 *                      the writer is closed
 * @param buffer_bytes  whole pages
 * @return 0, RUNG_E_NOMEM, or the status of errno
 */
int rung__writer_open(unsigned char *pool, uint64_t buffer_bytes, uint32_t buffer_count,
                      struct rung__writer **writer_out);

/** Acquire a free buffer, waiting for one if necessary. All callers together must hold at most
 * buffer_count - 1 buffers when they call this: otherwise it waits forever. */
unsigned char *rung__writer_reserve(struct rung__writer *writer);

/** Release a buffer and have its first `bytes` bytes (whole pages) written at `offset` of `file`.
 * With 0 bytes nothing is written. `file` is copied, and must stay open until the next flush. */
void rung__writer_put(struct rung__writer *writer, const struct rung__direct *file,
                      unsigned char *buffer, uint64_t bytes, uint64_t offset);

/** Wait until all buffers that were put are written. @return 0, or the first failure of any write
 * so far, which every later call returns again */
int rung__writer_flush(struct rung__writer *writer);

/** Whether a write has failed. Later buffers are then accepted, but not written. */
bool rung__writer_failed(struct rung__writer *writer);

/** Wait for the buffers that were put, end the thread, and free the writer. NULL is allowed. */
void rung__writer_close(struct rung__writer *writer);

/** A file written from its start to its end through buffers of a writer. */
struct rung__out_stream {
	struct rung__writer *writer;
	struct rung__direct file; /* the caller's to open and to close */
	unsigned char *buffer;    /* the one being filled; NULL: none is reserved */
	uint64_t buffer_bytes;    /* size of the writer's buffers */
	uint64_t used;            /* bytes in `buffer` */
	uint64_t written;         /* bytes of the content that were handed to the writer */
};

/** Append bytes, waiting for buffers. @return 0, or the failure of an earlier write */
int rung__stream_append(struct rung__out_stream *stream, const void *bytes, uint64_t byte_count);

/** Write the rest, flush the writer, and truncate the file to its content: the last write is padded
 * to pages. @return as rung__writer_flush(), or the status of errno */
int rung__stream_end(struct rung__out_stream *stream);

#endif

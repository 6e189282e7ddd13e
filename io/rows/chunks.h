/* SPDX-License-Identifier: Apache-2.0 */
/** Consecutive rows, read in chunks by several threads, by staging and by verification. Private to
 * io/. */
#ifndef RUNG_IO_CHUNKS_H
#define RUNG_IO_CHUNKS_H

#include <pthread.h>

#include "base/base.h"
#include "file/direct.h"
#include "rung/source.h"

/** The location of rows: in memory, in a file, or in a source that produces them as they are read
 * (compressed data or text). */
struct rung__scan_span {
	/* the first row if the rows are in memory, otherwise NULL */
	const unsigned char *data;
	/* the source of the rows; NULL: the rows are a bucket of staging */
	const struct rung_source *src;
	bool streamed;  /* read through `src`; otherwise from `file` */
	bool any_order; /* streamed: any number of threads may read, in any order */
	const struct rung__direct *file; /* borrowed */
	uint64_t offset;                 /* position of the first row in the file, in bytes */
};

/** All rows of a source. @param file  the file of the source, opened for direct reads; not used if
 * the rows are in memory or streamed */
struct rung__scan_span rung__source_span(const struct rung_source *src,
                                         const struct rung__direct *file);

/** Rows of a span, divided into chunks. Shared by the threads that read it. */
struct rung__chunks {
	struct rung__scan_span span;
	uint64_t row_bytes;
	uint64_t first, count; /* the rows of the span to read */
	uint64_t chunk_rows;   /* rows in each chunk except the last */
	/* held while a streamed source is read: its chunks are read in order, by one thread at a
	 * time */
	pthread_mutex_t turn;
	uint64_t next; /* the next chunk to read from a streamed source; protected by `turn` */
};

/** The number of chunks. */
static inline uint64_t rung__chunk_count(const struct rung__chunks *chunks)
{
	return (chunks->count + chunks->chunk_rows - 1) / chunks->chunk_rows;
}

/** A chunk that was read. */
struct rung__chunk {
	uint64_t number;
	uint64_t first, count;     /* the rows of the chunk, numbered in the span */
	const unsigned char *rows; /* their bytes, in the buffer or in the source's memory */
};

/**
 * Read chunk `number`; from a streamed source, read the next chunk that no thread has read. In
 * either case one call per chunk reads every chunk once.
 * @param buffer  page-aligned memory for a chunk and two pages; NULL if the rows are in memory
 * @return 0, or the failure of reading
 */
int rung__chunk_read(struct rung__chunks *chunks, uint64_t number, unsigned char *buffer,
                     struct rung__chunk *chunk_out);

#endif

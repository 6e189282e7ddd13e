/* SPDX-License-Identifier: Apache-2.0 */
/** Rows that follow each other, read in chunks by several threads. Private to io/. */
#ifndef RUNG_IO_CHUNKS_H
#define RUNG_IO_CHUNKS_H

#include <pthread.h>

#include "base/base.h"
#include "file/direct.h"
#include "rung/source.h"

/** Where rows are: in memory, in a file, or inflated as they are read. */
struct rung__scan_span {
	const unsigned char *data;     /* NULL: not in memory */
	const struct rung_source *src; /* that they are of; NULL: partitioned rows */
	bool streamed;                 /* read through `src`; else from the file */
	const struct rung__direct *file;
	uint64_t offset; /* of the first in the file */
};

/** All rows of a source. @param file  opened at its place, when they are in one */
struct rung__scan_span rung__source_span(const struct rung_source *src,
                                         const struct rung__direct *file);

struct rung__chunks {
	struct rung__scan_span span;
	uint64_t row_bytes;
	uint64_t first, count; /* rows of the span */
	uint64_t chunk_rows;
	pthread_mutex_t turn; /* for inflated sources, which are read chunk after chunk */
	uint64_t next;
};

static inline uint64_t rung__chunk_count(const struct rung__chunks *chunks)
{
	return (chunks->count + chunks->chunk_rows - 1) / chunks->chunk_rows;
}

/** Some of the rows: a chunk. */
struct rung__chunk {
	uint64_t number;
	uint64_t first, count;     /* of the span */
	const unsigned char *rows; /* in the buffer, or in memory */
};

/**
 * Read chunk `number` or, for an inflated source, the next chunk that no thread has taken.
 * @param buffer  page-aligned: a chunk and two pages; NULL if the rows are in memory
 */
int rung__chunk_read(struct rung__chunks *chunks, uint64_t number, unsigned char *buffer,
                     struct rung__chunk *chunk_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Reads consecutive rows in large pieces and bypasses the page cache, which a source larger than
 * memory would only fill with data that are read once. */
#include "rows/chunks.h"
#include "source/source.h"

struct rung__scan_span rung__source_span(const struct rung_source *src,
                                         const struct rung__direct *file)
{
	const struct rung__source_location place = rung__source_location(src);

	return (struct rung__scan_span){ .data = place.data,
		                         .src = src,
		                         .streamed = place.streamed,
		                         .any_order = place.any_order,
		                         .file = file,
		                         .offset = place.offset };
}

/* Read one chunk. Rows in memory are not copied. */
static int read_rows(const struct rung__chunks *chunks, uint64_t number, unsigned char *buffer,
                     struct rung__chunk *chunk)
{
	const struct rung__scan_span *span = &chunks->span;
	const uint64_t at = number * chunks->chunk_rows, row_bytes = chunks->row_bytes;
	uint64_t begin, bytes;
	int rc;

	*chunk = (struct rung__chunk){ .number = number,
		                       .first = chunks->first + at,
		                       .count = RUNG__MIN(chunks->count - at, chunks->chunk_rows),
		                       .rows = buffer };
	begin = chunk->first * row_bytes;
	bytes = chunk->count * row_bytes;
	if (span->data) {
		chunk->rows = span->data + begin;
		return 0;
	}
	if (span->streamed)
		return rung_source_read(span->src, chunk->first, chunk->count, buffer);
	rc = rung__direct_read_span(span->file, span->offset + begin, bytes, buffer, &chunk->rows);
	/* the rows of a .npz member were not read through the source, which now checks their CRC */
	return rc == 0 && span->src ? rung__source_was_read(span->src, begin, bytes, chunk->rows)
	                            : rc;
}

int rung__chunk_read(struct rung__chunks *chunks, uint64_t number, unsigned char *buffer,
                     struct rung__chunk *chunk_out)
{
	int rc;

	if (!chunks->span.streamed || chunks->span.any_order)
		return read_rows(chunks, number, buffer, chunk_out);
	/* The number is assigned under the lock, so the source is read in order: in any other order
	 * the source would inflate bytes twice. */
	pthread_mutex_lock(&chunks->turn);
	rc = read_rows(chunks, chunks->next++, buffer, chunk_out);
	pthread_mutex_unlock(&chunks->turn);
	return rc;
}

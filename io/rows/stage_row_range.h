/* SPDX-License-Identifier: Apache-2.0 */
/** A range of rows as stored in the files, and writing it. */
#ifndef RUNG_IO_STAGE_ROW_RANGE_H
#define RUNG_IO_STAGE_ROW_RANGE_H

#include <string.h>

#include "rows/stage_range.h"

/** Lay out rows [first, end) in an area, after the first blocks' bytes that belong to the previous
 * range. */
int rung__row_range_begin(const struct rung__stage_rows *rows, uint64_t first, uint64_t end,
                          unsigned char *area, struct rung__row_range *range);
/** Keep the bytes of unfinished blocks for the next range. */
void rung__row_range_keep_tails(struct rung__stage_rows *rows, const struct rung__row_range *range);
/** Bytes of area that `row_count` rows take at most. */
uint64_t rung__row_range_bytes(const struct rung__layout *layout, uint64_t row_count);
/** Begin to write it; end with rung__jobs_end(). */
struct rung__jobs;
int rung__row_range_write(struct rung__stage_rows *rows, const struct rung__row_range *range,
                          struct rung__jobs **jobs_out);
/** Sync the files. */
int rung__rows_sync(const struct rung__stage_rows *rows);
/** Add to the journal that the rows up to range->end are done, to be committed. */
int rung__row_range_note(struct rung__stage_rows *rows, const struct rung__row_range *range);
/** The row of a rank that is in the range: the caller zeroes the bytes after it up to the next
 * row. */
static inline unsigned char *rung__row_range_row(const struct rung__row_range *range,
                                                 const struct rung__layout *layout, uint64_t rank)
{
	const struct rung__row_range_part *part = &range->parts[rung__row_file(layout, rank)];

	return part->at + (rung__row_offset(layout, rank) - part->base);
}

static inline void rung__row_range_put(const struct rung__row_range *range,
                                       const struct rung__layout *layout, uint64_t rank,
                                       const unsigned char *row)
{
	unsigned char *to = rung__row_range_row(range, layout, rank);

	memcpy(to, row, (size_t)layout->row_bytes);
	memset(to + layout->row_bytes, 0, (size_t)(layout->row_stride - layout->row_bytes));
}

static inline void rung__row_range_put_vertex(const struct rung__stage_rows *rows,
                                              const struct rung__row_range *range, uint64_t vertex,
                                              const unsigned char *row)
{
	const struct rung__stage *stage = rows->stage;

	rung__row_range_put(
		range, &rows->layout,
		rung__id_get(stage->rank_of_vertex, stage->manifest->index_bytes, vertex), row);
}

#endif

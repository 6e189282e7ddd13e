/* SPDX-License-Identifier: Apache-2.0 */
/** Prepares a range of rows in memory as it will be stored in the files, and writes it. */
#ifndef RUNG_IO_STAGE_ROW_RANGE_H
#define RUNG_IO_STAGE_ROW_RANGE_H

#include <string.h>

#include "rows/stage_range.h"

/** Lay out the rows of ranks [first, end) in an area. In each file, bytes of the previous range
 * that are in the same checksum block are placed before them. @return 0, or a failure of reading
 * those bytes: RUNG_E_CORRUPT if they changed since an earlier run wrote them */
int rung__row_range_begin(const struct rung__stage_rows *rows, uint64_t first, uint64_t end,
                          unsigned char *area, struct rung__row_range *range);
/** Copy the bytes of unfinished blocks for the next range. Call this when the range is filled, and
 * before its area is used again. */
void rung__row_range_keep_tails(struct rung__stage_rows *rows, const struct rung__row_range *range);
/** Upper bound of the bytes that `row_count` rows need in an area. */
uint64_t rung__row_range_bytes(const struct rung__layout *layout, uint64_t row_count);
/** Start to write the range, and compute the checksums of its blocks; end with rung__jobs_end().
 * Range and area stay unchanged until then. */
struct rung__jobs;
int rung__row_range_write(struct rung__stage_rows *rows, const struct rung__row_range *range,
                          struct rung__jobs **jobs_out);
/** Sync the data of all output files. */
int rung__rows_sync(const struct rung__stage_rows *rows);
/** Add to the journal that the rows before range->end are done. The caller syncs the files, and
 * then commits the journal. */
int rung__row_range_note(struct rung__stage_rows *rows, const struct rung__row_range *range);
/** Address of the row of a rank in the range. The caller zeroes the bytes between this row and the
 * next one. */
static inline unsigned char *rung__row_range_row(const struct rung__row_range *range,
                                                 const struct rung__layout *layout, uint64_t rank)
{
	const struct rung__row_range_part *part = &range->parts[rung__row_file(layout, rank)];

	return part->at + (rung__row_offset(layout, rank) - part->base);
}

/** Copy a row to the place of its rank, with zeros after it up to the stride. */
static inline void rung__row_range_put(const struct rung__row_range *range,
                                       const struct rung__layout *layout, uint64_t rank,
                                       const unsigned char *row)
{
	unsigned char *to = rung__row_range_row(range, layout, rank);

	memcpy(to, row, (size_t)layout->row_bytes);
	memset(to + layout->row_bytes, 0, (size_t)(layout->row_stride - layout->row_bytes));
}

/** Copy the row of a vertex in the same way. */
static inline void rung__row_range_put_vertex(const struct rung__stage_rows *rows,
                                              const struct rung__row_range *range, uint64_t vertex,
                                              const unsigned char *row)
{
	rung__row_range_put(range, &rows->layout, rung__rows_rank(rows, vertex), row);
}

#endif

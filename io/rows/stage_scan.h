/* SPDX-License-Identifier: Apache-2.0 */
/** Rows read in the order of their positions. */
#ifndef RUNG_IO_STAGE_SCAN_H
#define RUNG_IO_STAGE_SCAN_H

#include "rows/chunks.h"
#include "rows/stage_range.h"

/** Rows [first, first + count), as chunk number `chunk` of a scan; called by several threads, each
 * with another chunk. */
typedef void (*rung__scan_fn)(void *ctx, uint64_t chunk, uint64_t first, uint64_t count,
                              const unsigned char *rows);

/** Rows of a chunk. */
uint64_t rung__scan_chunk_rows(const struct rung__stage_rows *rows);
/** Read rows [first, first + count) of a span. Chunk 0 begins at `first`. */
int rung__scan(struct rung__stage_rows *rows, const struct rung__scan_span *span, uint64_t first,
               uint64_t count, rung__scan_fn fn, void *ctx);
#define RUNG__ROW_READS      128u /* in flight, of single rows, where memory allows */
#define RUNG__ROW_READ_BYTES (UINT64_C(32) << 10) /* of each, at most */
#define RUNG__ROW_READ_GAP   4096u /* between two rows, rather than starting another read */

/** The file of a source that is neither in memory nor streamed, and where its rows are. */
struct rung__features rung__source_features(const struct rung_source *src);

#endif

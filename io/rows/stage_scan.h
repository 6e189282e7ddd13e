/* SPDX-License-Identifier: Apache-2.0 */
/** Reads rows in the order of their positions, for "passes" and "partition". This file also has the
 * limits for the reads of "gather". */
#ifndef RUNG_IO_STAGE_SCAN_H
#define RUNG_IO_STAGE_SCAN_H

#include "rows/chunks.h"
#include "rows/stage_range.h"

/** Called with rows [first, first + count), which are chunk number `chunk` of a scan. Several
 * threads call it at the same time, with different chunks. `rows` is valid during the call. */
typedef void (*rung__scan_fn)(void *ctx, uint64_t chunk, uint64_t first, uint64_t count,
                              const unsigned char *rows);

/** Number of rows in a chunk: as many as fit in a read buffer, at least one. */
uint64_t rung__scan_chunk_rows(const struct rung__stage_rows *rows);
/** Read rows [first, first + count) of a span, and call `fn` for each chunk. Chunk 0 begins at
 * `first`. Returns when all calls have ended. @return 0, the failure of reading, or
 * RUNG_E_CANCELED */
int rung__scan(struct rung__stage_rows *rows, const struct rung__scan_span *span, uint64_t first,
               uint64_t count, rung__scan_fn fn, void *ctx);
#define RUNG__ROW_READS 128u /* reads of single rows in flight, if memory allows */
/* largest size of such a read, unless a row is longer */
#define RUNG__ROW_READ_BYTES (UINT64_C(32) << 10)
#define RUNG__ROW_READ_GAP   4096u /* largest gap between two rows that share a read, bytes */

/** The file of a source that is neither in memory nor streamed, with the layout of its rows. The
 * result refers to the source, which must stay open. */
struct rung__features rung__source_features(const struct rung_source *src);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** The first half of the order "partition": rows are written to buckets inside the output files. */
#ifndef RUNG_IO_STAGE_PARTITION_H
#define RUNG_IO_STAGE_PARTITION_H

#include "rows/stage_range.h"

/** The output file that contains a bucket. */
uint32_t rung__bucket_file(const struct rung__stage_rows *rows, uint64_t bucket);
/** The offset of its first byte in that file. */
uint64_t rung__bucket_offset(const struct rung__stage_rows *rows, uint64_t bucket);
/** Size of a file in bytes while it contains buckets: at least its final size. */
uint64_t rung__partition_file_bytes(const struct rung__layout *layout,
                                    const struct rung__rows_schedule *plan, uint64_t row_count,
                                    uint32_t file);
/** Write all rows to their buckets, except those that an earlier run has partitioned. Commits the
 * journal after each batch. */
int rung__stage_partition(struct rung__stage_rows *rows);

#endif

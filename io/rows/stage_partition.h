/* SPDX-License-Identifier: Apache-2.0 */
/** Rows partitioned into buckets inside the output files. */
#ifndef RUNG_IO_STAGE_PARTITION_H
#define RUNG_IO_STAGE_PARTITION_H

#include "rows/stage_range.h"

/** Position of bucket `bucket` of partitioned rows: its file, and its first byte. */
uint32_t rung__bucket_file(const struct rung__stage_rows *rows, uint64_t bucket);
uint64_t rung__bucket_offset(const struct rung__stage_rows *rows, uint64_t bucket);
/** Size of a file while it contains buckets. */
uint64_t rung__partition_file_bytes(const struct rung__layout *layout,
                                    const struct rung__rows_schedule *plan, uint64_t row_count,
                                    uint32_t file);
/** Deal the rows that are not partitioned yet. */
int rung__stage_partition(struct rung__stage_rows *rows);

#endif

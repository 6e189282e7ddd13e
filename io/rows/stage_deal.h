/* SPDX-License-Identifier: Apache-2.0 */
/** Rows dealt into buckets that lie in the files themselves. */
#ifndef RUNG_IO_STAGE_DEAL_H
#define RUNG_IO_STAGE_DEAL_H

#include "rows/stage_range.h"

/** Where bucket `bucket` of dealt rows lies: in which file, from which byte on. */
uint32_t rung__bucket_file(const struct rung__stage_rows *rows, uint64_t bucket);
uint64_t rung__bucket_offset(const struct rung__stage_rows *rows, uint64_t bucket);
/** Bytes of a file while buckets lie in it. */
uint64_t rung__dealt_file_bytes(const struct rung__layout *layout,
                                const struct rung__rows_plan *plan, uint64_t row_count,
                                uint32_t file);
/** Deal what is not dealt yet. */
int rung__stage_deal(struct rung__stage_rows *rows);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Bytes from row to row, rows over folders. */
#ifndef RUNG_IO_STAGE_LAYOUT_H
#define RUNG_IO_STAGE_LAYOUT_H

#include "run/run.h"

/** Stride and files of the features, into the manifest. */
int rung__stage_choose_layout(struct rung__stage *stage);
uint64_t rung__padded_stride(uint64_t row_bytes, enum rung_stage_pad pad);

#endif

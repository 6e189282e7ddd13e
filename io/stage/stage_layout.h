/* SPDX-License-Identifier: Apache-2.0 */
/** The layout of the features: bytes from row to row, and the distribution of rows over folders. */
#ifndef RUNG_IO_STAGE_LAYOUT_H
#define RUNG_IO_STAGE_LAYOUT_H

#include "run/run.h"

/** Check the options of the layout, and set stride and files of the features in the manifest. The
 * features must be open. */
int rung__stage_choose_layout(struct rung__stage *stage);
/** Bytes from one row to the next with this padding: at least `row_bytes`. */
uint64_t rung__padded_stride(uint64_t row_bytes, enum rung_stage_pad pad);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Opens and checks the inputs of staging. */
#ifndef RUNG_IO_STAGE_INPUT_H
#define RUNG_IO_STAGE_INPUT_H

#include "run/run.h"

/** Open and check every input, read the splits, and fill in the manifest. After a failure, too,
 * rung__stage_close_inputs() closes what was opened. */
int rung__stage_open_inputs(struct rung__stage *stage);
/** Close all sources and free the splits. */
void rung__stage_close_inputs(struct rung__stage *stage);

/* ---- stage_layout.c ---- */

/** Check the options of the layout, and set stride and files of the features in the manifest. The
 * features must be open. */
int rung__stage_choose_layout(struct rung__stage *stage);
/** Bytes from one row to the next with this padding: at least `row_bytes`. */
uint64_t rung__padded_stride(uint64_t row_bytes, enum rung_stage_pad pad);

/* ---- stage_quant.c ---- */

/** Quantize the features, if the options ask for it: stage->features and manifest->features are
 * then those of the stored rows. Scales per column are not known yet. */
int rung__stage_quantize(struct rung__stage *stage);

/** Compute the scales per column, if there are any, or read them from the journal. Commits the
 * journal. */
int rung__stage_scales(struct rung__stage *stage);

/** Whether the journal of another part has the same scales per column as this part. Without such
 * scales it has. */
int rung__stage_scales_compare(const struct rung__stage *stage, const struct rung__journal *journal,
                               bool *same_out);

/** Fill in the errors of quantized rows in the report. In a dry run, scales per column are those of
 * the sampled rows. */
int rung__stage_measure_quantized(struct rung__stage *stage);

#endif

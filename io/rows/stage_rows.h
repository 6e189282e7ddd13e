/* SPDX-License-Identifier: Apache-2.0 */
/** Rows in rank order, written to the files of an array. */
#ifndef RUNG_IO_STAGE_ROWS_H
#define RUNG_IO_STAGE_ROWS_H

#include "run/run.h"

/**
 * Write all rows of a source, in rank order, to the layout's files. The rows that an earlier run
 * has finished are not written again.
 * @param what  step of the progress: "features", "labels", "arrays"
 * @param name  the first of the files in the manifest
 */
int rung__stage_write_rows(struct rung__stage *stage, const struct rung_source *src,
                           const char *what, const char *name, const struct rung__layout *layout,
                           const struct rung__rows_schedule *plan);

#endif

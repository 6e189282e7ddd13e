/* SPDX-License-Identifier: Apache-2.0 */
/** Rows of a range read where they lie. */
#ifndef RUNG_IO_STAGE_GATHER_H
#define RUNG_IO_STAGE_GATHER_H

#include "rows/stage_range.h"

/** Fill a range with its rows, which rows->vertices names. */
int rung__stage_gather(struct rung__stage_rows *rows, const struct rung__image *image);

#endif

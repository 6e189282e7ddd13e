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

#endif

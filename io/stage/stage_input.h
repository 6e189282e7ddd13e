/* SPDX-License-Identifier: Apache-2.0 */
/** Sources opened and checked, splits read. */
#ifndef RUNG_IO_STAGE_INPUT_H
#define RUNG_IO_STAGE_INPUT_H

#include "run/run.h"

/** Open and check every input, read the splits, and fill in the manifest. */
int rung__stage_open_inputs(struct rung__stage *stage);
void rung__stage_close_inputs(struct rung__stage *stage);

#endif

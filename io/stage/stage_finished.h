/* SPDX-License-Identifier: Apache-2.0 */
/** A folder that has its name already. */
#ifndef RUNG_IO_STAGE_FINISHED_H
#define RUNG_IO_STAGE_FINISHED_H

#include "run/run.h"

/** Check whether OUT, which is `staged`, is the dataset of this job; if so, it is verified, and
 * nothing is left to do. With force a different one is not a failure. */
int rung__stage_finished(struct rung__stage *stage, bool *finished_out);

#endif

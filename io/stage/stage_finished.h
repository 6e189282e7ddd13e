/* SPDX-License-Identifier: Apache-2.0 */
/** A folder that has its name already. */
#ifndef RUNG_IO_STAGE_FINISHED_H
#define RUNG_IO_STAGE_FINISHED_H

#include "run/run.h"

/** Is OUT, which is `staged`, this job's dataset? Then it is checked, and nothing is left to do.
 * With force another one is no failure. */
int rung__stage_finished(struct rung__stage *stage, bool *finished_out);

#endif

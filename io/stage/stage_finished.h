/* SPDX-License-Identifier: Apache-2.0 */
/** Handles a run with `resume` whose OUT exists already. */
#ifndef RUNG_IO_STAGE_FINISHED_H
#define RUNG_IO_STAGE_FINISHED_H

#include "run/run.h"

/** Check whether OUT, which is `staged`, is the dataset of this job. If so, its files are checked
 * and the run is finished. A different dataset is RUNG_E_EXIST; with `force` it will be
 * replaced. */
int rung__stage_finished(struct rung__stage *stage, bool *finished_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Which job a folder belongs to. */
#ifndef RUNG_IO_STAGE_JOB_H
#define RUNG_IO_STAGE_JOB_H

#include "run/run.h"

/** Look at the inputs, before any is opened. */
int rung__stage_job_begin(struct rung__stage *stage);
/** All that the files depend on, for the manifest and the journal; the layout is known. */
int rung__stage_job_describe(struct rung__stage *stage);
/** Add it to a new journal. */
int rung__stage_job_note(struct rung__stage *stage);
/** RUNG_E_INVAL naming what differs when the journal that was found is another job's. */
int rung__stage_job_check(const struct rung__stage *stage);
/** RUNG_E_EXIST naming what differs when a dataset's record is another job's, or NULL. */
int rung__stage_job_check_finished(const struct rung__stage *stage, const char *recorded);
/** RUNG_E_CORRUPT naming the input that has changed since rung__stage_job_begin(). */
int rung__stage_job_unchanged(const struct rung__stage *stage);

#endif

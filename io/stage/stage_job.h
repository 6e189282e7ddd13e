/* SPDX-License-Identifier: Apache-2.0 */
/** The job that a folder belongs to: its options, and the state of its inputs. */
#ifndef RUNG_IO_STAGE_JOB_H
#define RUNG_IO_STAGE_JOB_H

#include "run/run.h"

/** Record size, modification time and inode of all inputs, before any is opened. */
int rung__stage_job_begin(struct rung__stage *stage);
/** Describe everything that the files depend on, for the manifest and the journal. The layout must
 * be known. */
int rung__stage_job_describe(struct rung__stage *stage);
/** Add the description to a new journal. */
int rung__stage_job_note(struct rung__stage *stage);
/** Compare with the journal that was found. RUNG_E_INVAL if it belongs to another job; the message
 * names the first difference. */
int rung__stage_job_check(const struct rung__stage *stage);
/** Compare the options and the shape of the inputs with the journal of another part. RUNG_E_INVAL
 * with the host that wrote it and the first difference. */
int rung__stage_job_check_part(const struct rung__stage *stage, const char *path,
                               const struct rung__journal *journal);
/** Compare with the record of a finished dataset. RUNG_E_EXIST if it belongs to another job (the
 * message names the first difference), or if `recorded` is NULL. */
int rung__stage_job_check_finished(const struct rung__stage *stage, const char *recorded);
/** RUNG_E_CORRUPT if an input has changed since rung__stage_job_begin(); the message names it. */
int rung__stage_job_unchanged(const struct rung__stage *stage);

#endif

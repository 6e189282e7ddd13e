/* SPDX-License-Identifier: Apache-2.0 */
/** Staging one dataset, or one part of a typed dataset. */
#ifndef RUNG_IO_STAGE_STAGE_H
#define RUNG_IO_STAGE_STAGE_H

#include "run/run.h"

/** rung_stage() without types. @param member  the part to stage; NULL: a dataset */
int rung__stage_run(const struct rung_stage_opts *opts, const struct rung__stage_member *member,
                    struct rung_stage_report *report_out);

/** Check the complete dataset or part in opts->out_dir against its checksums, and report its sizes.
 * RUNG_E_CORRUPT names a damaged file; the message ends with `cure`. */
int rung__stage_check(const struct rung_stage_opts *opts, const char *cure,
                      struct rung_stage_report *report_out);

#endif

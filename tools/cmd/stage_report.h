/* SPDX-License-Identifier: Apache-2.0 */
/** The report of rung stage. */
#ifndef RUNG_TOOL_STAGE_REPORT_H
#define RUNG_TOOL_STAGE_REPORT_H

#include "output/json.h"
#include "tool.h"

/** Path of the folder with the work: OUT.partial, or that of a part. A longer one is cut off. */
void tool_stage_folder(const struct rung_stage_opts *opts, char *path, size_t bytes);

/** The report as JSON. */
json_t *tool_stage_json(const struct rung_stage_opts *opts, const struct rung_stage_report *report);

/** A few lines for people. */
void tool_stage_print(const struct rung_stage_opts *opts, const struct rung_stage_report *report);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** The report of rung stage, and names of quantized rows. */
#ifndef RUNG_TOOL_STAGE_REPORT_H
#define RUNG_TOOL_STAGE_REPORT_H

#include "output/json.h"
#include "tool.h"

/** Names of enum rung_quant_format and enum rung_quant_scales. */
extern const char *const tool_quant_formats[];
extern const char *const tool_quant_scales[];

/** The report as JSON. */
json_t *tool_stage_json(const struct rung_stage_opts *opts, const struct rung_stage_report *report);

/** A few lines for people. */
void tool_stage_print(const struct rung_stage_opts *opts, const struct rung_stage_report *report);

#endif

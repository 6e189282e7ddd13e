/* SPDX-License-Identifier: Apache-2.0 */
/** The report of rung plan on the division of the host budget. Private to tools/cmd. */
#ifndef RUNG_TOOL_PLAN_BUDGET_H
#define RUNG_TOOL_PLAN_BUDGET_H

#include <jansson.h>

#include "tool.h"

struct plan_budget {
	const struct rung_plan *plan; /**< after rung_plan_predict() */
	const struct rung_plan_traffic *traffic;
	const struct rung_plan_division *division; /**< batches 0: not compared with others */
};

/** {"host_bytes", "used_bytes", "parts": [...], "offsets_bytes", "divisions_compared"} */
json_t *plan_budget_json(const struct plan_budget *budget);

/** Print the parts as a table on stdout. */
void plan_budget_print(const struct plan_budget *budget);

#endif

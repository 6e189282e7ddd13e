/* SPDX-License-Identifier: Apache-2.0 */
/** The report of rung plan on the division of the host budget. Private to tools/plan. */
#ifndef RUNG_TOOL_PLAN_BUDGET_H
#define RUNG_TOOL_PLAN_BUDGET_H

#include <jansson.h>

#include "tool.h"

#define PLAN_PARTS_MAX 7

/** A part of the budget; NaN where a value does not exist. */
struct plan_part {
	const char *name;
	uint64_t bytes;
	double share;  /**< of the requests, 0 to 1 */
	double reads;  /**< of the drive, per batch */
	double saving; /**< reads per batch that one more MiB would save */
};

/** Parts that serve requests come first, then their buffers. */
struct plan_parts {
	struct plan_part part[PLAN_PARTS_MAX];
	size_t count;
};

void plan_parts_add(struct plan_parts *parts, const char *name, uint64_t bytes, double share,
                    double reads, double saving);

/** {"host_bytes" (null: no limit), "used_bytes", "parts": [...]} */
json_t *plan_parts_json(const struct plan_parts *parts, uint64_t host_bytes);

/** Print the parts as a table on stdout. */
void plan_parts_print(const struct plan_parts *parts);

struct plan_budget {
	const struct rung_plan *plan; /**< after rung_plan_predict() */
	const struct rung_plan_traffic *traffic;
	const struct rung_plan_division *division; /**< batches 0: not compared with others */
};

/** As plan_parts_json(), with "offsets_bytes" and "divisions_compared". */
json_t *plan_budget_json(const struct plan_budget *budget);

/** Print the parts as a table on stdout. */
void plan_budget_print(const struct plan_budget *budget);

/** Bytes of the budget that a plan uses. */
uint64_t plan_used_bytes(const struct rung_plan *plan);

#endif

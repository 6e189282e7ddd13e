/* SPDX-License-Identifier: Apache-2.0 */
/**
 * JSON results over jansson: a command prints one object on stdout. Absent values are null, so that
 * every key is always present. Values passed to a function belong to the object from then on.
 */
#ifndef RUNG_TOOL_JSON_H
#define RUNG_TOOL_JSON_H

#include <jansson.h>
#include <stdint.h>

#include <rung/rung.h>

/** Set a key; if the value is NULL (no memory), tool_json_print() will fail. */
void tool_json_set(json_t *object, const char *key, json_t *value);
void tool_json_append(json_t *array, json_t *value);

/** Values. NaN, infinities and a NULL text become null; a u64 above INT64_MAX becomes a real. */
json_t *tool_json_real(double value);
json_t *tool_json_u64(uint64_t value);
json_t *tool_json_text(const char *text);
json_t *tool_json_u32s(const uint32_t *values, uint32_t count);

/** [{"name","rows","bytes","hit_share"}] of a plan. */
json_t *tool_json_plan(const struct rung_plan *plan);

/** [{"name","hits","rows","bytes"}] of a store's counters; "bytes" counts those of the hits. */
json_t *tool_json_hits(const struct rung_store_stats *stats);

/** An object for a block of host memory; "block_bytes" is null unless it is on several nodes. */
json_t *tool_json_placement(const struct rung_placement *placement);

/** List of names of the tiers whose rates a forecast assumed; a sum of enum rung_assumed. */
json_t *tool_json_assumed(uint32_t assumed);

/** {"drives", "queue_depth", ...}, each with a reason, "..._why"; null for NULL. */
json_t *tool_json_tuning(const struct rung_tuning *tuning);

/** [{"name","why"}]; "why" is null for those in use. */
json_t *tool_json_steps(const struct rung_engine_step *steps, uint32_t count);

/** Print an object on stdout and release it. @return 0, or -1 if it could not be created or
 * written, the failure printed */
int tool_json_print(const char *name, json_t *object);

#endif

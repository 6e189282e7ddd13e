/* SPDX-License-Identifier: Apache-2.0 */
/** JSON results over jansson: absent numbers are null, one object goes to stdout. */
#ifndef RUNG_TOOL_JSON_H
#define RUNG_TOOL_JSON_H

#include <jansson.h>
#include <stdint.h>

#include <rung/rung.h>

/** Set a key; a value that could not be made (no memory) is remembered and fails
 * tool_json_print(). */
void tool_json_set(json_t *object, const char *key, json_t *value);
void tool_json_append(json_t *array, json_t *value);

/** Values. NaN and infinities are null, and so is a NULL text; a u64 beyond json's integers is a
 * real. */
json_t *tool_json_real(double value);
json_t *tool_json_u64(uint64_t value);
json_t *tool_json_text(const char *text);
json_t *tool_json_u32s(const uint32_t *values, uint32_t count);

/** [{"name","rows","bytes","hit_share"}] of a plan. */
json_t *tool_json_plan(const struct rung_plan *plan);

/** [{"name","hits","rows","bytes"}] of a store's counters; bytes are of the hits. */
json_t *tool_json_hits(const struct rung_store_stats *stats);

/** Members of a place of host memory; "block_bytes" is null where there is one node or none. */
json_t *tool_json_placement(const struct rung_placement *placement);

/** Names of the tiers whose rates a forecast assumed. */
json_t *tool_json_assumed(uint32_t assumed);

/** {"drives", "queue_depth", ...}, each with why; null for NULL. */
json_t *tool_json_choice(const struct rung_tuning *tuning);

/** [{"name","why"}], why null of those in use. */
json_t *tool_json_steps(const struct rung_engine_step *steps, uint32_t count);

/** Print an object on stdout and release it. @return 0, or -1 if it could not be created or written
 * (reported on stderr) */
int tool_json_print(const char *name, json_t *object);

#endif

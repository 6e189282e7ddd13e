/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON results over jansson. Its functions return NULL without memory, and fail if they get NULL as
 * an argument. So failures are collected in `incomplete`, and reported once, when the object is
 * printed.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/json.h"
#include "tool.h"

/* nonzero: a value was lost for lack of memory; the object would lack a key, so it is not
 * printed */
static int incomplete;

void tool_json_set(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value) != 0)
		incomplete = 1;
}

void tool_json_append(json_t *array, json_t *value)
{
	if (json_array_append_new(array, value) != 0)
		incomplete = 1;
}

json_t *tool_json_real(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

/* jansson's integers are signed; a larger value, such as a seed, loses its last digits. */
json_t *tool_json_u64(uint64_t value)
{
	return value <= INT64_MAX ? json_integer((json_int_t)value) : json_real((double)value);
}

/* Bytes of the UTF-8 character at `text`; 0 if it is not valid. jansson decides: the shortest
 * prefix that it accepts is one character. */
static size_t character_bytes(const char *text)
{
	for (size_t bytes = 1; bytes <= 4 && memchr(text, '\0', bytes) == NULL; bytes++) {
		json_t *character = json_stringn(text, bytes);

		json_decref(character);
		if (character)
			return bytes;
	}
	return 0;
}

/* File names may contain any bytes, but JSON is UTF-8: U+FFFD replaces each byte that is not. */
static json_t *replaced_text(const char *text)
{
	static const char replacement[] = "\xef\xbf\xbd";
	char *plain = malloc(3 * strlen(text) + 1), *to = plain; /* 3 bytes for each one at most */
	json_t *value;
	size_t bytes;

	if (!plain)
		return NULL;
	for (; *text; text += bytes ? bytes : 1) {
		bytes = character_bytes(text);
		to = mempcpy(to, bytes ? text : replacement, bytes ? bytes : strlen(replacement));
	}
	value = json_stringn(plain, (size_t)(to - plain));
	free(plain);
	return value;
}

json_t *tool_json_text(const char *text)
{
	json_t *value = text ? json_string(text) : json_null();

	return value ? value : replaced_text(text);
}

json_t *tool_json_u32s(const uint32_t *values, uint32_t count)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < count; i++)
		tool_json_append(array, tool_json_u64(values[i]));
	return array;
}

json_t *tool_json_plan(const struct rung_plan *plan)
{
	json_t *array = json_array();
	const struct rung_plan_tier *tier;

	for (unsigned i = 0; (tier = rung_plan_tier(plan, i)) != NULL; i++) {
		json_t *entry = json_object();
		tool_json_set(entry, "name", tool_json_text(tier->name));
		tool_json_set(entry, "rows", tool_json_u64(tier->row_count));
		tool_json_set(entry, "bytes", tool_json_u64(tier->bytes));
		tool_json_set(entry, "hit_share", tool_json_real(tier->hit_share));
		tool_json_append(array, entry);
	}
	return array;
}

json_t *tool_json_hits(const struct rung_store_stats *stats)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < stats->tier_count; i++) {
		json_t *entry = json_object();
		tool_json_set(entry, "name", tool_json_text(stats->tiers[i].name));
		tool_json_set(entry, "hits", tool_json_u64(stats->tiers[i].hits));
		tool_json_set(entry, "rows", tool_json_u64(stats->tiers[i].rows));
		tool_json_set(entry, "bytes", tool_json_u64(stats->tiers[i].bytes));
		tool_json_append(array, entry);
	}
	return array;
}

json_t *tool_json_placement(const struct rung_placement *placement)
{
	json_t *root = json_object();

	tool_json_set(root, "name", tool_json_text(placement->name));
	tool_json_set(root, "rank_first", tool_json_u64(placement->rank_first));
	tool_json_set(root, "rows", tool_json_u64(placement->row_count));
	tool_json_set(root, "bytes", tool_json_u64(placement->bytes));
	tool_json_set(root, "nodes", tool_json_u32s(placement->nodes.ids, placement->nodes.count));
	tool_json_set(root, "block_bytes",
	              placement->nodes.count > 1 ? tool_json_u64(placement->block_bytes)
	                                         : json_null());
	return root;
}

json_t *tool_json_assumed(uint32_t assumed)
{
	json_t *array = json_array();

	for (uint32_t bit = 1; bit < RUNG_ASSUMED_ALL; bit <<= 1) {
		if (assumed & bit)
			tool_json_append(array,
			                 json_string(rung_assumed_name((enum rung_assumed)bit)));
	}
	return array;
}

/* null for 0: the profile does not determine the setting */
static json_t *chosen(uint32_t value)
{
	return value ? tool_json_u64(value) : json_null();
}

static json_t *why_text(const char *why)
{
	return tool_json_text(*why ? why : NULL);
}

json_t *tool_json_tuning(const struct rung_tuning *tuning)
{
	json_t *root, *drives;

	if (!tuning)
		return json_null();
	root = json_object();
	drives = json_array();
	for (uint32_t i = 0; i < tuning->drive_count; i++)
		tool_json_append(drives, why_text(tuning->drives[i]));
	tool_json_set(root, "drives", drives);
	tool_json_set(root, "drives_why", why_text(tuning->drive_why));
	tool_json_set(root, "queue_depth", chosen(tuning->queue_depth));
	tool_json_set(root, "queue_depth_why", why_text(tuning->queue_depth_why));
	/* 0 means, as in --merge-gap, that rows are not merged across gaps; the library has
	 * RUNG_MERGE_GAP_NONE for this */
	tool_json_set(root, "merge_gap_bytes",
	              tuning->merge_gap_bytes == RUNG_MERGE_GAP_NONE
	                      ? tool_json_u64(0)
	                      : chosen(tuning->merge_gap_bytes));
	tool_json_set(root, "merge_gap_why", why_text(tuning->merge_gap_why));
	tool_json_set(root, "refill_threads", chosen(tuning->refill_threads));
	tool_json_set(root, "refill_threads_why", why_text(tuning->refill_threads_why));
	tool_json_set(root, "threads", chosen(tuning->threads));
	tool_json_set(root, "threads_why", why_text(tuning->threads_why));
	tool_json_set(root, "interleaved", json_boolean(tuning->interleaved));
	tool_json_set(root, "interleaved_why", why_text(tuning->interleaved_why));
	return root;
}

json_t *tool_json_steps(const struct rung_engine_step *steps, uint32_t count)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++) {
		json_t *step = json_object();

		tool_json_set(step, "name", tool_json_text(steps[i].name));
		tool_json_set(step, "why", tool_json_text(*steps[i].why ? steps[i].why : NULL));
		tool_json_append(list, step);
	}
	return list;
}

int tool_json_print(const char *name, json_t *object)
{
	int rc = -1;

	/* flushed here, so that a full disk is reported with its reason */
	errno = 0;
	if (!object || incomplete)
		tool_error(name, TOOL_FAILED, "no memory for the JSON result");
	else if (json_dumpf(object, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF &&
	         fflush(stdout) == 0)
		rc = 0;
	else
		tool_output_lost(name, ferror(stdout) ? errno : ENOMEM);
	json_decref(object);
	return rc;
}

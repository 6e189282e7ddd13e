/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a file, see numa_load.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numa/numa_load.h"

#define CPUS_MAX 65536u

/* Report the first wrong value. */
void numa_load_wrong(struct numa_load *load, const char *key, const char *what)
{
	if (load->code == TOOL_DONE)
		load->code = tool_error(load->name, TOOL_FAILED,
		                        "%s: %s%s: %s; give a file that rung numa --json wrote",
		                        load->path, load->where, key, what);
}

void numa_load_at(struct numa_load *load, const char *list, size_t idx)
{
	snprintf(load->where, sizeof(load->where), "%s[%zu].", list, idx);
}

/* Zeroed memory that lives as long as the profile; NULL after a failure, which is reported. */
void *numa_load_block(struct numa_load *load, size_t count, size_t bytes)
{
	struct numa_profile *profile = load->profile;
	void **blocks = reallocarray(profile->blocks, profile->block_count + 1, sizeof(*blocks));
	void *block = blocks ? calloc(count ? count : 1, bytes) : NULL;

	if (blocks)
		profile->blocks = blocks;
	if (block)
		blocks[profile->block_count++] = block;
	else if (load->code == TOOL_DONE)
		load->code = tool_error(load->name, TOOL_FAILED, "%s: no memory", load->path);
	return block;
}

/* ---- values ---- */

/* A missing key is as null: older versions have fewer keys. */
static json_t *get(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	return json_is_null(value) ? NULL : value;
}

/* An object or array of the file; a missing one is empty if it need not exist. */
json_t *numa_load_part(struct numa_load *load, json_t *object, const char *key, json_type type,
                       int required)
{
	json_t *value = get(object, key);

	if (value && json_typeof(value) == type)
		return value;
	if (value || required)
		numa_load_wrong(load, key,
		                !value                ? "missing"
		                : type == JSON_OBJECT ? "not an object"
		                                      : "not an array");
	return NULL;
}

double numa_load_real(struct numa_load *load, json_t *object, const char *key)
{
	json_t *value = get(object, key);
	const double number = json_is_number(value) ? json_number_value(value) : NAN;

	if (value && !(number >= 0 && number <= NUMA_NUMBER_MAX))
		numa_load_wrong(load, key, "not a number from 0 to 1e18");
	return value && number >= 0 && number <= NUMA_NUMBER_MAX ? number : NAN;
}

uint64_t numa_load_u64(struct numa_load *load, json_t *object, const char *key, uint64_t absent,
                       uint64_t most)
{
	json_t *value = get(object, key);
	char text[64];

	if (!value)
		return absent;
	if (json_is_integer(value) && json_integer_value(value) >= 0 &&
	    (uint64_t)json_integer_value(value) <= most)
		return (uint64_t)json_integer_value(value);
	snprintf(text, sizeof(text), "not a whole number from 0 to %llu", (unsigned long long)most);
	numa_load_wrong(load, key, text);
	return absent;
}

uint32_t numa_load_u32(struct numa_load *load, json_t *object, const char *key)
{
	return (uint32_t)numa_load_u64(load, object, key, 0, UINT32_MAX);
}

/* Numbers of nodes and positions of GPUs; -1 for null. */
int numa_load_small(struct numa_load *load, json_t *object, const char *key)
{
	const uint64_t value = numa_load_u64(load, object, key, UINT64_MAX, RUNG_NODES_MAX - 1);

	return value == UINT64_MAX ? -1 : (int)value;
}

/* 1, 0, or -1 for null */
int numa_load_flag(struct numa_load *load, json_t *object, const char *key)
{
	json_t *value = get(object, key);

	if (value && !json_is_boolean(value))
		numa_load_wrong(load, key, "neither true nor false");
	return value ? json_is_true(value) : -1;
}

/* Texts are printed, so they must not control a terminal: no bytes below a blank, and none of the
 * characters U+007F to U+009F. */
const char *numa_load_text(struct numa_load *load, json_t *object, const char *key)
{
	json_t *value = get(object, key);
	const char *text = json_string_value(value);

	if (value && !text)
		numa_load_wrong(load, key, "not a text");
	for (const char *at = text; at && *at; at++) {
		const unsigned char byte = (unsigned char)*at, next = (unsigned char)at[1];

		if (byte < ' ' || byte == 0x7f || (byte == 0xc2 && next < 0xa0)) {
			numa_load_wrong(load, key, "has control characters");
			return NULL;
		}
	}
	return text;
}

/* "0-3,8", ascending */
struct rung_id_list numa_load_list(struct numa_load *load, json_t *object, const char *key)
{
	const char *text = numa_load_text(load, object, key);
	struct rung_id_list list = { 0 };
	unsigned long first, last, next = 0;
	uint32_t ids[CPUS_MAX], *kept;
	char *end;

	if (!text)
		return list;
	while (*text) {
		first = last = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : CPUS_MAX;
		if (first < CPUS_MAX && *end == '-')
			last = strtoul(end + 1, &end, 10);
		if (first < next || last < first || last >= CPUS_MAX || (*end && *end != ',')) {
			numa_load_wrong(load, key, "not an ascending list such as 0-3,8");
			return list;
		}
		for (next = first; next <= last; next++)
			ids[list.count++] = (uint32_t)next;
		text = *end ? end + 1 : end;
	}
	kept = numa_load_block(load, list.count, sizeof(*kept));
	if (kept && list.count)
		memcpy(kept, ids, list.count * sizeof(*kept));
	list.ids = kept;
	return list;
}

/* Number of entries of a list of at most `most`. */
uint32_t numa_load_count(struct numa_load *load, json_t *list, const char *key, size_t most)
{
	const size_t count = json_array_size(list);

	if (count > most)
		numa_load_wrong(load, key, "has too many entries");
	return count > most ? 0 : (uint32_t)count;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measured values as JSON; docs/PROFILE.md defines each key. The values are stored twice: medians
 * as matrices and lists, which are easy to read, and `results` with every sample and all settings.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "numa/numa_results.h"

/* null if the matrix does not have the field, or the result has no value for it */
static json_t *field_json(const struct numa_field *field, const struct rung_numa_result *result)
{
	struct numa_datum datum = { 0 };

	if (field)
		datum = numa_datum(field, result);
	return datum.is == NUMA_WORD     ? tool_json_text(datum.word)
	       : datum.is == NUMA_NUMBER ? tool_json_u64(datum.number)
	       : datum.is == NUMA_DOUBLE ? json_real(datum.real)
	                                 : json_null();
}

/* ---- results ---- */

static json_t *value_json(const struct rung_numa_value *value)
{
	json_t *object = json_object(), *samples = json_array();

	tool_json_set(object, "median", tool_json_real(value->median));
	tool_json_set(object, "min", tool_json_real(value->min));
	tool_json_set(object, "max", tool_json_real(value->max));
	for (size_t i = 0; i < value->count; i++)
		tool_json_append(samples, tool_json_real(value->samples[i]));
	tool_json_set(object, "samples", samples);
	return object;
}

static json_t *result_json(const struct rung_numa_result *result)
{
	json_t *entry = json_object();

	for (const struct numa_field *field = numa_fields; field->key; field++) {
		const struct rung_numa_value *value = numa_at(result, field->offset);

		if (!(field->matrices & result->matrix))
			continue;
		if (field->form != NUMA_VALUE)
			tool_json_set(entry, field->key, field_json(field, result));
		else if (value->count)
			tool_json_set(entry, field->key, value_json(value));
	}
	return entry;
}

/* ---- medians ---- */

/*
 * Medians [CPU node][memory node] of the results that equal `like` except for their nodes; null for
 * pairs without a value. `value` is the offset of a struct rung_numa_value.
 */
static json_t *matrix_json(const struct numa_measured *measured, struct rung_numa_result like,
                           size_t value)
{
	json_t *rows = json_array();

	for (size_t cpu = 0; cpu < measured->node_count; cpu++) {
		json_t *cells = json_array();

		like.cpu_node = (int)rung_topology_node(measured->topology, cpu)->node;
		for (size_t memory = 0; memory < measured->node_count; memory++) {
			const struct rung_numa_result *result;
			const struct rung_numa_value *found;

			like.memory_node =
				(int)rung_topology_node(measured->topology, memory)->node;
			result = numa_find(measured, &like);
			found = result && !result->absent ? numa_at(result, value) : NULL;
			tool_json_append(cells, tool_json_real(found ? found->median : NAN));
		}
		tool_json_append(rows, cells);
	}
	return rows;
}

/* The matrices of each row size. */
static json_t *gathers_json(const struct numa_measured *measured)
{
	json_t *array = json_array();
	const struct rung_numa_result *result;
	uint64_t last = 0;

	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++) {
		json_t *entry;

		if (result->matrix != RUNG_NUMA_GATHER || result->row_bytes == last)
			continue;
		last = result->row_bytes; /* sizes ascend, so equal ones are adjacent */
		entry = json_object();
		tool_json_set(entry, "row_bytes", tool_json_u64(last));
		tool_json_set(entry, "bytes_per_s",
		              matrix_json(measured, *result, NUMA_AT(bytes_per_s)));
		tool_json_set(entry, "rows_per_s", matrix_json(measured, *result, NUMA_AT(per_s)));
		tool_json_append(array, entry);
	}
	return array;
}

/* Matrices of all cores: rates of a single thread are in `results` only. */
static json_t *bandwidth_json(const struct numa_measured *measured)
{
	static const char *const kinds[] = { "read", "write", "copy", "triad" };
	json_t *object = json_object();

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct rung_numa_result like = {
			.matrix = RUNG_NUMA_BANDWIDTH,
			.kind = kinds[i],
			.all_cores = 1,
		};

		tool_json_set(object, kinds[i], matrix_json(measured, like, NUMA_AT(bytes_per_s)));
	}
	tool_json_set(object, "gather", gathers_json(measured));
	return object;
}

/* The entry of a list for `result`. Keys that name a kind are filled in from the result of that
 * kind. */
static json_t *entry_json(const struct numa_measured *measured, const struct numa_list_key *keys,
                          const struct rung_numa_result *result)
{
	json_t *entry = json_object();

	for (const struct numa_list_key *key = keys; key->key; key++) {
		const struct rung_numa_result *from = result;
		struct rung_numa_result like = *result;

		if (key->kind) {
			like.kind = key->kind;
			from = numa_find(measured, &like);
		}
		tool_json_set(entry, key->key,
		              key->kind && (!from || from->absent)
		                      ? json_null()
		                      : field_json(numa_field(result->matrix, key->field,
		                                              strlen(key->field)),
		                                   from));
	}
	return entry;
}

static void set_lists(json_t *root, const struct numa_measured *measured)
{
	const struct rung_numa_result *result;

	for (const struct numa_list *list = numa_lists; list->key; list++) {
		json_t *array = json_object_get(root, list->key);

		/* an empty list is set, too: nothing was measured */
		if (!array)
			tool_json_set(root, list->key, array = json_array());
		for (size_t i = 0; (result = numa_result(measured, i)); i++) {
			if (numa_is_of(result, list->matrix, list->kind, list->absent_too))
				tool_json_append(array, entry_json(measured, list->keys, result));
		}
	}
}

/* ---- the machine and the settings ---- */

/* null for -1: the kernel does not report it */
static json_t *flag(int known)
{
	return known < 0 ? json_null() : json_boolean(known);
}

/* Properties that explain differences between two profiles. */
static json_t *machine_json(const struct rung_numa_report_info *info)
{
	json_t *entry = json_object();

	tool_json_set(entry, "kernel", tool_json_text(info->kernel));
	tool_json_set(entry, "cpu_model", tool_json_text(info->cpu_model));
	tool_json_set(entry, "hypervisor", flag(info->hypervisor));
	tool_json_set(entry, "smt", flag(info->smt));
	tool_json_set(entry, "governor", tool_json_text(info->governor));
	tool_json_set(entry, "thp", tool_json_text(info->thp));
	tool_json_set(entry, "last_level_cache_bytes",
	              info->last_level_cache_bytes ? tool_json_u64(info->last_level_cache_bytes)
	                                           : json_null());
	tool_json_set(entry, "stores", tool_json_text(info->stores));
	return entry;
}

static json_t *measured_json(const struct rung_numa_report_info *info)
{
	json_t *entry = json_object(), *matrices = json_array();
	const time_t began = (time_t)info->began_s;
	char text[32] = ""; /* ISO 8601, in UTC */
	struct tm utc;

	if (gmtime_r(&began, &utc))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	for (uint32_t bit = 1; bit < RUNG_NUMA_ALL; bit <<= 1) {
		if (info->matrices & bit)
			tool_json_append(matrices, json_string(rung_numa_matrix_name(
							   (enum rung_numa_matrix)bit)));
	}
	tool_json_set(entry, "version", json_string(rung_version()));
	tool_json_set(entry, "began", json_string(text));
	tool_json_set(entry, "seconds", tool_json_real(info->seconds));
	tool_json_set(entry, "quick", json_boolean(info->quick));
	tool_json_set(entry, "samples", tool_json_u64(info->samples));
	tool_json_set(entry, "sample_seconds", tool_json_real(info->sample_seconds));
	tool_json_set(entry, "matrices", matrices);
	return entry;
}

void numa_results_json(json_t *root, const struct numa_measured *measured)
{
	const struct rung_numa_result latency = { .matrix = RUNG_NUMA_LATENCY };
	const struct rung_numa_result *result;
	json_t *results = json_array();

	tool_json_set(root, "machine", machine_json(&measured->info));
	tool_json_set(root, "measured", measured_json(&measured->info));
	tool_json_set(root, "bandwidth", bandwidth_json(measured));
	tool_json_set(root, "latency_ns", matrix_json(measured, latency, NUMA_AT(latency_ns)));
	set_lists(root, measured);
	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++)
		tool_json_append(results, result_json(result));
	tool_json_set(root, "results", results);
}

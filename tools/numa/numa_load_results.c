/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile from a file, which may come from another machine, another version or another program.
 * Every value that a writer uses is checked.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numa/numa_load.h"
#include "numa/numa_results.h"

#define RESULTS_MAX 65536u
#define SAMPLES_MAX 1000u

/* The value of a field; its samples follow the order of measurement. */
static void load_value(struct numa_load *load, json_t *entry, const char *key,
                       struct rung_numa_value *value)
{
	json_t *object = numa_load_part(load, entry, key, JSON_OBJECT, 0), *list;
	double *samples;

	*value = (struct rung_numa_value){ .median = NAN, .min = NAN, .max = NAN };
	if (!object)
		return;
	list = numa_load_part(load, object, "samples", JSON_ARRAY, 1);
	value->median = numa_load_real(load, object, "median");
	value->min = numa_load_real(load, object, "min");
	value->max = numa_load_real(load, object, "max");
	value->count = numa_load_count(load, list, "samples", SAMPLES_MAX);
	samples = numa_load_block(load, value->count, sizeof(*samples));
	for (size_t i = 0; samples && i < value->count; i++) {
		json_t *sample = json_array_get(list, i);

		samples[i] = json_is_number(sample) ? json_number_value(sample) : NAN;
		if (!(samples[i] >= 0 && samples[i] <= NUMA_NUMBER_MAX))
			numa_load_wrong(load, key,
			                "has a sample that is not a number from 0 to 1e18");
	}
	value->samples = samples;
	if (!value->count || !(value->median > 0) || !(value->min <= value->median) ||
	    !(value->median <= value->max))
		numa_load_wrong(load, key,
		                "needs samples and min <= median <= max, with median above 0");
}

/* The table of fields has the key and the type of each member. */
static void load_fields(struct numa_load *load, json_t *entry, struct rung_numa_result *result)
{
	for (const struct numa_field *field = numa_fields; field->key; field++) {
		void *at = (char *)result + field->offset;

		if (!(field->matrices & result->matrix))
			continue;
		switch (field->form) {
		case NUMA_WORDS: /* matrix and cores: set by the caller */
			break;
		case NUMA_TEXT:
			*(const char **)at = numa_load_text(load, entry, field->key);
			break;
		case NUMA_NODE:
			*(int *)at = numa_load_small(load, entry, field->key);
			break;
		case NUMA_U32:
			*(uint32_t *)at = numa_load_u32(load, entry, field->key);
			break;
		case NUMA_U64:
			*(uint64_t *)at = numa_load_u64(load, entry, field->key, 0, NUMA_U64_MAX);
			break;
		case NUMA_REAL:
			*(double *)at = numa_load_real(load, entry, field->key);
			break;
		case NUMA_VALUE:
			load_value(load, entry, field->key, at);
			break;
		}
	}
}

/* The values and texts that writers expect in a result that is not absent. */
static void check_result(struct numa_load *load, const struct rung_numa_result *result)
{
	const uint32_t of = result->matrix;
	const int is_row =
		(of & (RUNG_NUMA_GATHER | RUNG_NUMA_NVME)) || numa_alike(result->kind, "gather");

	if (result->absent)
		return;
	if (!numa_main_value(result)->count)
		numa_load_wrong(load, rung_numa_matrix_name(result->matrix),
		                "has no value and no reason");
	if (is_row && (!result->per_s.count || !result->row_bytes))
		numa_load_wrong(load, "row_bytes", "missing, or its rate per second is");
	if (of == RUNG_NUMA_NVME && (!result->file || !result->engine || !result->queue_depth))
		numa_load_wrong(load, "file", "missing, or engine or queue_depth is");
	if ((of & (RUNG_NUMA_BANDWIDTH | RUNG_NUMA_GPU | RUNG_NUMA_PEER)) && !result->kind)
		numa_load_wrong(load, "kind", "missing");
}

static void load_result(struct numa_load *load, json_t *entry, struct rung_numa_result *result)
{
	const char *matrix = numa_load_text(load, entry, "matrix"),
		   *cores = numa_load_text(load, entry, "cores");

	*result = (struct rung_numa_result){ .cpu_node = -1,
		                             .memory_node = -1,
		                             .gpu = -1,
		                             .to_gpu = -1,
		                             .of_copy = NAN,
		                             .rows_in_flight = NAN,
		                             .lines_in_flight = NAN };
	for (uint32_t bit = 1; matrix && bit < RUNG_NUMA_ALL; bit <<= 1) {
		if (strcmp(matrix, rung_numa_matrix_name((enum rung_numa_matrix)bit)) == 0)
			result->matrix = (enum rung_numa_matrix)bit;
	}
	if (!result->matrix) {
		numa_load_wrong(load, "matrix", matrix ? "unknown" : "missing");
		return;
	}
	result->all_cores = !cores ? -1 : strcmp(cores, "all") == 0;
	load_fields(load, entry, result);
	check_result(load, result);
}

static void load_results(struct numa_load *load, json_t *root)
{
	struct numa_measured *measured = &load->profile->measured;
	json_t *list = numa_load_part(load, root, "results", JSON_ARRAY, 1);
	const uint32_t count = numa_load_count(load, list, "results", RESULTS_MAX);
	struct rung_numa_result *results = numa_load_block(load, count, sizeof(*results));

	for (uint32_t i = 0; results && i < count && load->code == TOOL_DONE; i++) {
		numa_load_at(load, "results", i);
		load_result(load, json_array_get(list, i), &results[i]);
		measured->info.matrices |= results[i].matrix;
	}
	*load->where = 0;
	measured->loaded = results;
	measured->info.result_count = count;
}

/* The settings of the machine and of the measurement. */
static void load_info(struct numa_load *load, json_t *root)
{
	json_t *machine = numa_load_part(load, root, "machine", JSON_OBJECT, 0),
	       *measured = numa_load_part(load, root, "measured", JSON_OBJECT, 1);
	const double seconds = numa_load_real(load, measured, "sample_seconds");

	load->profile->measured.info = (struct rung_numa_report_info){
		.kernel = numa_load_text(load, machine, "kernel"),
		.cpu_model = numa_load_text(load, machine, "cpu_model"),
		.governor = numa_load_text(load, machine, "governor"),
		.thp = numa_load_text(load, machine, "thp"),
		.stores = numa_load_text(load, machine, "stores"),
		.smt = numa_load_flag(load, machine, "smt"),
		.hypervisor = numa_load_flag(load, machine, "hypervisor"),
		.last_level_cache_bytes =
			numa_load_u64(load, machine, "last_level_cache_bytes", 0, NUMA_U64_MAX),
		.quick = numa_load_flag(load, measured, "quick") > 0,
		.samples = numa_load_u32(load, measured, "samples"),
		.sample_seconds = isnan(seconds) ? 0 : seconds,
	};
	if (!load->profile->measured.info.stores)
		load->profile->measured.info.stores = "?";
}

static void load_all(struct numa_load *load, json_t *root)
{
	struct numa_profile *profile = load->profile;

	if (!json_is_object(root) ||
	    numa_load_u64(load, root, "schema", 0, NUMA_U64_MAX) != NUMA_SCHEMA)
		numa_load_wrong(load, "schema", "missing or not 1, so it is not a profile");
	if (load->code == TOOL_DONE)
		numa_load_topology(load, root);
	profile->is_profile = json_object_get(root, "measured") != NULL;
	if (load->code != TOOL_DONE || !profile->is_profile)
		return;
	load_info(load, root);
	load_results(load, root);
	profile->measured.machine = &profile->machine;
	profile->measured.node_count = profile->machine.info.node_count;
}

int numa_profile_load(const char *name, const char *path, struct numa_profile *profile)
{
	struct numa_load load = {
		.name = name, .path = path, .profile = profile, .code = TOOL_DONE
	};
	json_error_t error;

	*profile = (struct numa_profile){ 0 };
	profile->root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	if (!profile->root && error.line < 0)
		return tool_error(name, TOOL_FAILED, "%s: %s", path, strerror(errno));
	if (!profile->root)
		return tool_error(name, TOOL_FAILED,
		                  "%s: line %d: %s; give a file that "
		                  "rung numa --json wrote",
		                  path, error.line, error.text);
	load_all(&load, profile->root);
	return load.code;
}

void numa_profile_free(struct numa_profile *profile)
{
	for (size_t i = 0; i < profile->block_count; i++)
		free(profile->blocks[i]);
	free(profile->blocks);
	json_decref(profile->root);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured as JSON: docs/PROFILE.md says what each key is. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "numa/numa.h"

typedef const struct rung_numa_value *(*value_of)(const struct rung_numa_result *result);

static const struct rung_numa_value *bytes_value(const struct rung_numa_result *result)
{
	return &result->bytes_per_s;
}

static const struct rung_numa_value *per_s_value(const struct rung_numa_result *result)
{
	return &result->per_s;
}

static const struct rung_numa_value *latency_value(const struct rung_numa_result *result)
{
	return &result->latency_ns;
}

static json_t *node_number(int node)
{
	return node < 0 ? json_null() : json_integer(node);
}

static json_t *flag(int known)
{
	return known < 0 ? json_null() : json_boolean(known);
}

static json_t *size_json(uint64_t bytes)
{
	return bytes ? tool_json_u64(bytes) : json_null();
}

/* ---- results ---- */

static void set_value(json_t *entry, const char *key, const struct rung_numa_value *value)
{
	json_t *object, *samples;

	if (value->count == 0)
		return;
	object = json_object();
	samples = json_array();
	tool_json_set(object, "median", tool_json_real(value->median));
	tool_json_set(object, "min", tool_json_real(value->min));
	tool_json_set(object, "max", tool_json_real(value->max));
	for (size_t i = 0; i < value->count; i++)
		tool_json_append(samples, tool_json_real(value->samples[i]));
	tool_json_set(object, "samples", samples);
	tool_json_set(entry, key, object);
}

static void set_details(json_t *entry, const struct rung_numa_result *result)
{
	switch (result->matrix) {
	case RUNG_NUMA_LOADED:
		tool_json_set(entry, "level", tool_json_u64(result->level));
		break;
	case RUNG_NUMA_GATHER:
		tool_json_set(entry, "row_bytes", tool_json_u64(result->row_bytes));
		tool_json_set(entry, "of_copy", tool_json_real(result->of_copy));
		tool_json_set(entry, "rows_in_flight", tool_json_real(result->rows_in_flight));
		tool_json_set(entry, "lines_in_flight", tool_json_real(result->lines_in_flight));
		break;
	case RUNG_NUMA_PEER:
	case RUNG_NUMA_GPU:
		tool_json_set(entry, "gpu", node_number(result->gpu));
		tool_json_set(entry, "gpu_bus_id", tool_json_text(result->gpu_bus_id));
		if (result->matrix == RUNG_NUMA_PEER) {
			tool_json_set(entry, "to_gpu", node_number(result->to_gpu));
			tool_json_set(entry, "to_gpu_bus_id", tool_json_text(result->to_gpu_bus_id));
		}
		tool_json_set(entry, "row_bytes", size_json(result->row_bytes));
		break;
	case RUNG_NUMA_NVME:
		tool_json_set(entry, "drive", tool_json_text(result->drive));
		tool_json_set(entry, "file", tool_json_text(result->file));
		tool_json_set(entry, "row_bytes", size_json(result->row_bytes));
		tool_json_set(entry, "queue_depth", size_json(result->queue_depth));
		tool_json_set(entry, "engine", tool_json_text(result->engine));
		break;
	case RUNG_NUMA_TOUCH:
	case RUNG_NUMA_REGISTER:
		tool_json_set(entry, "page_bytes", tool_json_u64(result->page_bytes));
		break;
	default:
		break;
	}
}

static json_t *result_json(const struct rung_numa_result *result)
{
	json_t *entry = json_object();

	tool_json_set(entry, "matrix", tool_json_text(rung_numa_matrix_name(result->matrix)));
	tool_json_set(entry, "kind", tool_json_text(result->kind));
	tool_json_set(entry, "cpu_node", node_number(result->cpu_node));
	tool_json_set(entry, "memory_node", node_number(result->memory_node));
	tool_json_set(entry, "cores", tool_json_text(numa_cores_text(result)));
	tool_json_set(entry, "threads", tool_json_u64(result->threads));
	tool_json_set(entry, "buffer_bytes", size_json(result->buffer_bytes));
	tool_json_set(entry, "advised_bytes", size_json(result->advised_bytes));
	tool_json_set(entry, "placed_share", tool_json_real(result->placed_share));
	tool_json_set(entry, "huge_share", tool_json_real(result->huge_share));
	tool_json_set(entry, "absent", tool_json_text(result->absent));
	set_details(entry, result);
	set_value(entry, "bytes_per_s", &result->bytes_per_s);
	set_value(entry, numa_per_s_name(result->matrix), &result->per_s);
	set_value(entry, "latency_ns", &result->latency_ns);
	set_value(entry, "seconds_per_gib", &result->seconds_per_gib);
	return entry;
}

/* ---- plain figures ---- */

/* [row][column] medians of the results by all cores (of latencies: by the one) that are alike in matrix, kind and row. */
static json_t *matrix_json(const struct numa_measured *measured, const struct rung_numa_result *like, value_of value)
{
	json_t *rows = json_array();

	for (size_t cpu = 0; cpu < measured->node_count; cpu++) {
		json_t *cells = json_array();

		for (size_t memory = 0; memory < measured->node_count; memory++) {
			const struct rung_numa_result *result = numa_find(measured, like, cpu, memory);

			tool_json_append(cells, result && !result->absent ? tool_json_real(value(result)->median) : json_null());
		}
		tool_json_append(rows, cells);
	}
	return rows;
}

static json_t *gathers_json(const struct numa_measured *measured)
{
	json_t *array = json_array();
	const struct rung_numa_result *result;
	uint64_t last = 0;

	for (size_t i = 0; (result = rung_numa_report_result(measured->report, i)) != NULL; i++) {
		json_t *entry;

		if (result->matrix != RUNG_NUMA_GATHER || result->row_bytes == last)   /* they ascend */
			continue;
		last = result->row_bytes;
		entry = json_object();
		tool_json_set(entry, "row_bytes", tool_json_u64(last));
		tool_json_set(entry, "bytes_per_s", matrix_json(measured, result, bytes_value));
		tool_json_set(entry, "rows_per_s", matrix_json(measured, result, per_s_value));
		tool_json_append(array, entry);
	}
	return array;
}

static json_t *bandwidth_json(const struct numa_measured *measured)
{
	static const char *const kinds[] = { "read", "write", "copy", "triad" };
	json_t *object = json_object();

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct rung_numa_result like = { .matrix = RUNG_NUMA_BANDWIDTH, .kind = kinds[i], .all_cores = 1 };

		tool_json_set(object, kinds[i], matrix_json(measured, &like, bytes_value));
	}
	tool_json_set(object, "gather", gathers_json(measured));
	return object;
}

static json_t *reads_json(const struct rung_numa_report *report)
{
	json_t *array = json_array();
	const struct rung_numa_result *result;

	for (size_t i = 0; (result = rung_numa_report_result(report, i)) != NULL; i++) {
		json_t *entry;

		if (result->matrix != RUNG_NUMA_NVME || result->absent)
			continue;
		entry = json_object();
		tool_json_set(entry, "drive", tool_json_text(result->drive));
		tool_json_set(entry, "file", tool_json_text(result->file));
		tool_json_set(entry, "cpu_node", node_number(result->cpu_node));
		tool_json_set(entry, "row_bytes", tool_json_u64(result->row_bytes));
		tool_json_set(entry, "queue_depth", tool_json_u64(result->queue_depth));
		tool_json_set(entry, "engine", tool_json_text(result->engine));
		tool_json_set(entry, "reads_per_s", tool_json_real(result->per_s.median));
		tool_json_set(entry, "bytes_per_s", tool_json_real(result->bytes_per_s.median));
		tool_json_append(array, entry);
	}
	return array;
}

/* The value of this kind beside it; absent: null. */
static json_t *beside_json(const struct numa_measured *measured, const struct rung_numa_result *result, const char *kind)
{
	const struct rung_numa_result *other = numa_find_gpu(measured, result, kind, 0);

	return other && !other->absent ? tool_json_real(other->bytes_per_s.median) : json_null();
}

/* A GPU and a node each. */
static json_t *gpu_copies_json(const struct numa_measured *measured)
{
	json_t *array = json_array();
	const struct rung_numa_result *result;

	for (size_t i = 0; (result = rung_numa_report_result(measured->report, i)) != NULL; i++) {
		json_t *entry;

		if (result->matrix != RUNG_NUMA_GPU || !result->kind || strcmp(result->kind, "to_gpu") != 0)
			continue;
		entry = json_object();
		tool_json_set(entry, "gpu", node_number(result->gpu));
		tool_json_set(entry, "gpu_bus_id", tool_json_text(result->gpu_bus_id));
		tool_json_set(entry, "memory_node", node_number(result->memory_node));
		tool_json_set(entry, "to_gpu_bytes_per_s", beside_json(measured, result, "to_gpu"));
		tool_json_set(entry, "from_gpu_bytes_per_s", beside_json(measured, result, "from_gpu"));
		tool_json_set(entry, "both_bytes_per_s", beside_json(measured, result, "both"));
		tool_json_append(array, entry);
	}
	return array;
}

static json_t *gpu_peers_json(const struct rung_numa_report *report)
{
	json_t *array = json_array();
	const struct rung_numa_result *result;

	for (size_t i = 0; (result = rung_numa_report_result(report, i)) != NULL; i++) {
		json_t *entry;

		if (result->matrix != RUNG_NUMA_PEER || result->absent || strcmp(result->kind, "copy") != 0)
			continue;
		entry = json_object();
		tool_json_set(entry, "from_gpu", node_number(result->gpu));
		tool_json_set(entry, "from_gpu_bus_id", tool_json_text(result->gpu_bus_id));
		tool_json_set(entry, "to_gpu", node_number(result->to_gpu));
		tool_json_set(entry, "to_gpu_bus_id", tool_json_text(result->to_gpu_bus_id));
		tool_json_set(entry, "bytes_per_s", tool_json_real(result->bytes_per_s.median));
		tool_json_append(array, entry);
	}
	return array;
}

/* The rung that a GPU gathers from. */
static const char *rung_of(const struct rung_numa_result *result)
{
	if (result->matrix == RUNG_NUMA_GPU)
		return "host";
	return strcmp(result->gpu_bus_id, result->to_gpu_bus_id) == 0 ? "gpu" : "peer";
}

static json_t *gpu_gathers_json(const struct rung_numa_report *report)
{
	json_t *array = json_array();
	const struct rung_numa_result *result;

	for (size_t i = 0; (result = rung_numa_report_result(report, i)) != NULL; i++) {
		const int peer = result->matrix == RUNG_NUMA_PEER;
		json_t *entry;

		if ((!peer && result->matrix != RUNG_NUMA_GPU) || result->absent || strcmp(result->kind, "gather") != 0)
			continue;
		entry = json_object();
		tool_json_set(entry, "gpu", node_number(peer ? result->to_gpu : result->gpu));
		tool_json_set(entry, "gpu_bus_id", tool_json_text(peer ? result->to_gpu_bus_id : result->gpu_bus_id));
		tool_json_set(entry, "from", tool_json_text(rung_of(result)));
		tool_json_set(entry, "memory_node", node_number(result->memory_node));
		tool_json_set(entry, "from_gpu", node_number(peer ? result->gpu : -1));
		tool_json_set(entry, "from_gpu_bus_id", tool_json_text(peer ? result->gpu_bus_id : NULL));
		tool_json_set(entry, "row_bytes", tool_json_u64(result->row_bytes));
		tool_json_set(entry, "rows_per_s", tool_json_real(result->per_s.median));
		tool_json_set(entry, "bytes_per_s", tool_json_real(result->bytes_per_s.median));
		tool_json_append(array, entry);
	}
	return array;
}

/* ---- the machine and the way ---- */

static json_t *machine_json(const struct rung_numa_report_info *info)
{
	json_t *entry = json_object();

	tool_json_set(entry, "kernel", tool_json_text(info->kernel));
	tool_json_set(entry, "cpu_model", tool_json_text(info->cpu_model));
	tool_json_set(entry, "hypervisor", flag(info->hypervisor));
	tool_json_set(entry, "smt", flag(info->smt));
	tool_json_set(entry, "governor", tool_json_text(info->governor));
	tool_json_set(entry, "thp", tool_json_text(info->thp));
	tool_json_set(entry, "last_level_cache_bytes", size_json(info->last_level_cache_bytes));
	tool_json_set(entry, "stores", tool_json_text(info->stores));
	return entry;
}

static json_t *measured_json(const struct rung_numa_report_info *info)
{
	json_t *entry = json_object(), *matrices = json_array();
	const time_t began = (time_t)info->began_s;
	char text[32] = "";
	struct tm utc;

	if (gmtime_r(&began, &utc))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	for (uint32_t bit = 1; bit < RUNG_NUMA_ALL; bit <<= 1) {
		if (info->matrices & bit)
			tool_json_append(matrices, json_string(rung_numa_matrix_name((enum rung_numa_matrix)bit)));
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
	tool_json_set(root, "latency_ns", matrix_json(measured, &latency, latency_value));
	tool_json_set(root, "nvme_read", reads_json(measured->report));
	tool_json_set(root, "gpu_copy", gpu_copies_json(measured));
	tool_json_set(root, "gpu_peer", gpu_peers_json(measured->report));
	tool_json_set(root, "gpu_gather", gpu_gathers_json(measured->report));
	for (size_t i = 0; (result = rung_numa_report_result(measured->report, i)) != NULL; i++)
		tool_json_append(results, result_json(result));
	tool_json_set(root, "results", results);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Finding results, and the results as a table of lines (CSV). */
#include <math.h>
#include <string.h>

#include "numa/numa.h"

const char *numa_cores_text(const struct rung_numa_result *result)
{
	return result->all_cores < 0 ? NULL : result->all_cores ? "all" : "one";
}

const char *numa_per_s_name(enum rung_numa_matrix matrix)
{
	return matrix == RUNG_NUMA_NVME ? "reads_per_s" : "rows_per_s";
}

static int alike(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

const struct rung_numa_result *numa_find(const struct numa_measured *measured, const struct rung_numa_result *like, size_t cpu_idx,
					 size_t memory_idx)
{
	const int cpu = (int)rung_topology_node(measured->topology, cpu_idx)->node;
	const int memory = (int)rung_topology_node(measured->topology, memory_idx)->node;
	const struct rung_numa_result *result;

	for (size_t i = 0; (result = rung_numa_report_result(measured->report, i)) != NULL; i++) {
		if (result->matrix == like->matrix && result->cpu_node == cpu && result->memory_node == memory && alike(result->kind, like->kind) &&
		    result->row_bytes == like->row_bytes && result->all_cores == like->all_cores && result->level == like->level)
			return result;
	}
	return NULL;
}

const struct rung_numa_result *numa_find_gpu(const struct numa_measured *measured, const struct rung_numa_result *like, const char *kind,
					     uint64_t row_bytes)
{
	const struct rung_numa_result *result;

	for (size_t i = 0; (result = rung_numa_report_result(measured->report, i)) != NULL; i++) {
		if (result->matrix == like->matrix && alike(result->kind, kind) && result->row_bytes == row_bytes &&
		    result->memory_node == like->memory_node && alike(result->gpu_bus_id, like->gpu_bus_id) &&
		    alike(result->to_gpu_bus_id, like->to_gpu_bus_id))
			return result;
	}
	return NULL;
}

const char *numa_gpu_text(char *text, int gpu, const char *bus_id)
{
	if (gpu >= 0)
		snprintf(text, TOOL_TEXT_BYTES, "GPU%d", gpu);
	else
		snprintf(text, TOOL_TEXT_BYTES, "%s", bus_id ? bus_id : "-");
	return text;
}

/* ---- CSV ---- */

static void text_field(const char *text)
{
	putchar(',');
	if (!text)
		return;
	if (!strpbrk(text, ",\"\n\r")) {
		fputs(text, stdout);
		return;
	}
	putchar('"');
	for (; *text; text++)
		printf(*text == '"' ? "\"\"" : "%c", *text);
	putchar('"');
}

static void number_field(double number)
{
	if (isfinite(number))
		printf(",%.9g", number);
	else
		putchar(',');
}

/* -1 and 0 are what plays no part. */
static void count_field(uint64_t number, int there)
{
	if (there)
		printf(",%llu", (unsigned long long)number);
	else
		putchar(',');
}

static void line(const struct rung_numa_result *result, const char *unit, size_t sample, double value)
{
	fputs(rung_numa_matrix_name(result->matrix), stdout);
	text_field(result->kind);
	count_field((uint64_t)result->cpu_node, result->cpu_node >= 0);
	count_field((uint64_t)result->memory_node, result->memory_node >= 0);
	text_field(numa_cores_text(result));
	count_field(result->threads, result->all_cores >= 0);
	count_field(result->level, result->matrix == RUNG_NUMA_LOADED);
	count_field(result->row_bytes, result->row_bytes != 0);
	count_field(result->page_bytes, result->page_bytes != 0);
	count_field(result->queue_depth, result->queue_depth != 0);
	count_field((uint64_t)result->gpu, result->gpu >= 0);
	text_field(result->gpu_bus_id);
	count_field((uint64_t)result->to_gpu, result->to_gpu >= 0);
	text_field(result->to_gpu_bus_id);
	text_field(result->drive);
	text_field(result->file);
	text_field(result->engine);
	count_field(result->buffer_bytes, result->buffer_bytes != 0);
	number_field(result->placed_share);
	number_field(result->huge_share);
	text_field(unit);
	count_field(sample, unit != NULL);
	number_field(value);
	text_field(result->absent);
	count_field(result->advised_bytes, result->advised_bytes != 0);
	putchar('\n');
}

static void lines(const struct rung_numa_result *result, const char *unit, const struct rung_numa_value *value)
{
	for (size_t i = 0; i < value->count; i++)
		line(result, unit, i, value->samples[i]);
}

int numa_results_csv(const struct numa_measured *measured)
{
	const struct rung_numa_result *result;

	puts("matrix,kind,cpu_node,memory_node,cores,threads,level,row_bytes,page_bytes,queue_depth,gpu,gpu_bus_id,to_gpu,to_gpu_bus_id,drive,file,engine,"
	     "buffer_bytes,placed_share,huge_share,unit,sample,value,absent,advised_bytes");
	for (size_t i = 0; (result = rung_numa_report_result(measured->report, i)) != NULL; i++) {
		lines(result, "bytes_per_s", &result->bytes_per_s);
		lines(result, numa_per_s_name(result->matrix), &result->per_s);
		lines(result, "latency_ns", &result->latency_ns);
		lines(result, "seconds_per_gib", &result->seconds_per_gib);
		if (result->absent)
			line(result, NULL, 0, NAN);
	}
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : -1;
}

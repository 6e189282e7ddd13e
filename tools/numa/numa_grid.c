/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices of results, for tables and pictures: a line for each metric and each node or GPU that
 * works, and a column for each node or GPU whose memory it uses. */
#include <stdlib.h>
#include <string.h>

#include "numa/numa_results.h"

#define MEMORY_MATRICES (RUNG_NUMA_BANDWIDTH | RUNG_NUMA_GATHER)

const struct numa_section numa_sections[] = {
	{ MEMORY_MATRICES, 1, NUMA_CPUS, NUMA_MEMORY, 0,
	  "GB/s by all cores of a node (1 GB = 10^9 bytes = 0.931 GiB; a copied byte counts twice)",
	  "GB/s by all cores of a node" },
	{ MEMORY_MATRICES, 0, NUMA_CPUS, NUMA_MEMORY, 0, "GB/s by one core", "GB/s by one core" },
	{ RUNG_NUMA_LATENCY | RUNG_NUMA_LOADED, -1, NUMA_CPUS, NUMA_MEMORY, 1,
	  "latency in ns, idle and while the other cores of the node read", "Latency in ns" },
	{ RUNG_NUMA_GPU, -1, NUMA_GPUS, NUMA_MEMORY, 0,
	  "GB/s between GPUs and pinned memory (a byte counts once)",
	  "GB/s between GPUs and pinned memory" },
	{ RUNG_NUMA_PEER, -1, NUMA_FROM_GPUS, NUMA_TO_GPUS, 0,
	  "GB/s between GPUs; from a GPU to itself: within its memory", "GB/s between GPUs" },
	{ 0 },
};

const char *numa_digits(char text[TOOL_TEXT_BYTES], double number)
{
	snprintf(text, TOOL_TEXT_BYTES, "%.*f",
	         number >= 99.95   ? 0
	         : number >= 9.995 ? 1
	                           : 2,
	         number);
	return text;
}

const char *numa_label(char text[TOOL_TEXT_BYTES], const struct rung_numa_result *result)
{
	char bytes[TOOL_TEXT_BYTES];
	const char *verb = result->matrix == RUNG_NUMA_NVME       ? "random reads"
	                   : result->matrix == RUNG_NUMA_LATENCY  ? "idle latency"
	                   : result->matrix == RUNG_NUMA_LOADED   ? "loaded latency"
	                   : result->matrix == RUNG_NUMA_GATHER   ? "gather"
	                   : result->matrix == RUNG_NUMA_TOUCH    ? "first touch"
	                   : result->matrix == RUNG_NUMA_REGISTER ? "register"
	                   : numa_alike(result->kind, "to_gpu")   ? "to the GPU"
	                   : numa_alike(result->kind, "from_gpu") ? "from it"
	                   : numa_alike(result->kind, "both")     ? "both at once"
	                                                          : result->kind;
	const uint64_t size = result->row_bytes ? result->row_bytes : result->page_bytes;

	if (size >= 1024 && size % 1024 == 0)
		snprintf(bytes, sizeof(bytes), " %llu KiB", (unsigned long long)size / 1024);
	else
		snprintf(bytes, sizeof(bytes), " %llu B", (unsigned long long)size);
	snprintf(text, TOOL_TEXT_BYTES, "%.15s%.16s", verb, size ? bytes : "");
	return text;
}

const char *numa_axis_text(char text[TOOL_TEXT_BYTES], const struct rung_numa_result *result,
                           enum numa_axis axis)
{
	if (axis == NUMA_TO_GPUS)
		return numa_gpu_text(text, result->to_gpu, result->to_gpu_bus_id);
	if (axis == NUMA_GPUS || axis == NUMA_FROM_GPUS)
		return numa_gpu_text(text, result->gpu, result->gpu_bus_id);
	snprintf(text, TOOL_TEXT_BYTES, "node %d",
	         axis == NUMA_CPUS ? result->cpu_node : result->memory_node);
	return text;
}

/* Nonzero if two results have the same position on an axis. */
static int is_same_position(const struct rung_numa_result *a, const struct rung_numa_result *b,
                            enum numa_axis axis)
{
	if (axis == NUMA_CPUS)
		return a->cpu_node == b->cpu_node;
	if (axis == NUMA_MEMORY)
		return a->memory_node == b->memory_node;
	return axis == NUMA_TO_GPUS ? numa_alike(a->to_gpu_bus_id, b->to_gpu_bus_id)
	                            : numa_alike(a->gpu_bus_id, b->gpu_bus_id);
}

int numa_is_same_metric(const struct rung_numa_result *a, const struct rung_numa_result *b)
{
	return a->matrix == b->matrix && numa_alike(a->kind, b->kind) &&
	       a->row_bytes == b->row_bytes;
}

/* Nonzero if a later result has the same place under a higher load. */
static int is_less_loaded(const struct numa_measured *measured, size_t idx)
{
	const struct rung_numa_result *result = numa_result(measured, idx), *other;

	if (result->matrix != RUNG_NUMA_LOADED)
		return 0;
	while ((other = numa_result(measured, ++idx)) && other->matrix == RUNG_NUMA_LOADED) {
		if (!other->absent && other->cpu_node == result->cpu_node &&
		    other->memory_node == result->memory_node && other->level > result->level)
			return 1;
	}
	return result->level == 0;
}

/* Position of the result's column, which is appended if it is new. */
static size_t column_of(struct numa_grid *grid, const struct rung_numa_result *result)
{
	size_t at = 0;

	while (at < grid->column_count &&
	       !is_same_position(grid->columns[at], result, grid->section->columns))
		at++;
	if (at == grid->column_count)
		grid->columns[grid->column_count++] = result;
	return at;
}

/* Position of the result's line. A new one follows the last line of its metric. */
static size_t line_of(struct numa_grid *grid, const struct rung_numa_result *result)
{
	size_t at = grid->line_count;

	for (size_t i = 0; i < grid->line_count; i++) {
		if (!numa_is_same_metric(grid->lines[i], result))
			continue;
		if (is_same_position(grid->lines[i], result, grid->section->rows))
			return i;
		at = i + 1;
	}
	memmove(&grid->lines[at + 1], &grid->lines[at],
	        (grid->line_count - at) * sizeof(*grid->lines));
	grid->lines[at] = result;
	grid->line_count++;
	return at;
}

static int belongs(const struct numa_measured *measured, const struct numa_section *section,
                   size_t idx)
{
	const struct rung_numa_result *result = numa_result(measured, idx);

	return (result->matrix & section->matrices) && !result->absent &&
	       (section->all_cores < 0 || result->all_cores == section->all_cores) &&
	       !is_less_loaded(measured, idx);
}

int numa_grid_fill(struct numa_grid *grid, const struct numa_measured *measured,
                   const struct numa_section *section)
{
	const size_t count = measured->info.result_count;
	size_t kept = 0;

	*grid = (struct numa_grid){ .section = section };
	grid->lines = calloc(count + 1, sizeof(*grid->lines));
	grid->columns = calloc(count + 1, sizeof(*grid->columns));
	if (!grid->lines || !grid->columns)
		return -1;
	for (size_t i = 0; i < count; i++) {
		if (belongs(measured, section, i)) {
			kept++;
			column_of(grid, numa_result(measured, i));
			line_of(grid, numa_result(measured, i));
		}
	}
	if (kept == 0)
		return 0;
	grid->cells = calloc(grid->line_count * grid->column_count, sizeof(*grid->cells));
	if (!grid->cells)
		return -1;
	/* the lines no longer move */
	for (size_t i = 0; i < count; i++) {
		const struct rung_numa_result *result = numa_result(measured, i);

		if (belongs(measured, section, i))
			grid->cells[line_of(grid, result) * grid->column_count +
			            column_of(grid, result)] = result;
	}
	return 0;
}

void numa_grid_free(struct numa_grid *grid)
{
	free(grid->lines);
	free(grid->columns);
	free(grid->cells);
}

int numa_one_thread(const struct numa_measured *measured)
{
	const struct rung_numa_result *result;

	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++) {
		if ((result->matrix & MEMORY_MATRICES) && !result->absent &&
		    result->all_cores > 0 && result->threads != 1)
			return 0;
	}
	return 1;
}

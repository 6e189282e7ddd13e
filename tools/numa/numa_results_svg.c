/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measured values as heat maps: nodes x nodes, GPUs x nodes, GPUs x GPUs, and for each drive sizes
 * x depths. All maps are collected first, because the size of the picture depends on all of them;
 * output/heat.c then writes it.
 */
#include <math.h>
#include <stdlib.h>

#include "numa/numa_results.h"
#include "output/heat.h"

/* The maps of a picture; their texts and values are allocated, and free_map() frees them. */
struct maps {
	struct heat_map *maps; /* [count] */
	size_t count;
	int incomplete; /* nonzero: something is missing for lack of memory; nothing is written */
};

/* The text of a cell in bytes per second. */
static const char *rate_text(char *text, double value)
{
	char bytes[TOOL_TEXT_BYTES];

	snprintf(text, TOOL_TEXT_BYTES, "%.*s/s", TOOL_TEXT_BYTES - 3,
	         tool_bytes_text(bytes, value));
	return text;
}

static const char *ns_text(char *text, double value)
{
	snprintf(text, TOOL_TEXT_BYTES, "%.0f ns", value);
	return text;
}

/* Names may be NULL, if memory ran out while they were set. The casts remove const: heat_write()
 * only reads the maps, but here they are owned. */
static void free_map(struct heat_map *map)
{
	for (size_t i = 0; map->rows && i < map->row_count; i++)
		free((char *)(uintptr_t)map->rows[i]);
	for (size_t i = 0; map->columns && i < map->column_count; i++)
		free((char *)(uintptr_t)map->columns[i]);
	free((void *)(uintptr_t)map->rows);
	free((void *)(uintptr_t)map->columns);
	free((void *)(uintptr_t)map->values);
	free((char *)(uintptr_t)map->title);
}

/* Append a map, whose names and values are to be filled in. `title` belongs to the map from now on,
 * even if the call fails. @return NULL without memory */
static struct heat_map *add(struct maps *maps, char *title, size_t row_count, size_t column_count)
{
	struct heat_map *map = reallocarray(maps->maps, maps->count + 1, sizeof(*map));

	if (!map) {
		free(title);
		maps->incomplete = 1;
		return NULL;
	}
	maps->maps = map;
	map += maps->count;
	*map = (struct heat_map){
		.title = title,
		.row_count = row_count,
		.column_count = column_count,
		.text = rate_text,
	};
	map->rows = calloc(row_count, sizeof(*map->rows));
	map->columns = calloc(column_count, sizeof(*map->columns));
	map->values = calloc(row_count * column_count, sizeof(*map->values));
	if (title && map->rows && map->columns && map->values) {
		maps->count++;
		return map;
	}
	free_map(map);
	maps->incomplete = 1;
	return NULL;
}

/* asprintf() that returns the text; NULL without memory. */
__attribute__((format(printf, 1, 2))) static char *text_of(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	return text;
}

/* Set a name of an axis, which owns it from now on. */
static void set_name(struct maps *maps, const char *const *names, size_t idx, char *name)
{
	((const char **)(uintptr_t)names)[idx] = name;
	maps->incomplete |= !name;
}

/* ---- nodes and GPUs ---- */

/* One result for each GPU of a matrix, even if it is absent. If the whole matrix is absent, the
 * list is empty, because its results have no kind. @return [*count_out], to be freed; NULL without
 * memory */
static const struct rung_numa_result **list_gpus(const struct numa_measured *measured,
                                                 enum rung_numa_matrix matrix, size_t *count_out)
{
	const struct rung_numa_result **list, *result;
	size_t count = 0;

	list = calloc(measured->info.result_count + 1, sizeof(*list));
	for (size_t i = 0; list && (result = rung_numa_report_result(measured->report, i)); i++) {
		size_t at = 0;

		if (result->matrix != matrix || !result->kind)
			continue;
		while (at < count && !numa_alike(list[at]->gpu_bus_id, result->gpu_bus_id))
			at++;
		if (at == count)
			list[count++] = result;
	}
	*count_out = count;
	return list;
}

/* Set the node or GPU of `cell` to position `idx` of an axis. @return the name of the position, to
 * be freed; NULL without memory */
static char *set_position(struct rung_numa_result *cell, const struct numa_measured *measured,
                          const struct rung_numa_result *const *gpus, enum numa_axis axis,
                          size_t idx)
{
	static const char *const names[] = {
		[NUMA_CPUS] = "CPUs of node %d", [NUMA_MEMORY] = "node %d", [NUMA_GPUS] = "%s",
		[NUMA_FROM_GPUS] = "from %s",    [NUMA_TO_GPUS] = "to %s",
	};
	char text[TOOL_TEXT_BYTES];

	if (axis == NUMA_CPUS || axis == NUMA_MEMORY) {
		int *node = axis == NUMA_CPUS ? &cell->cpu_node : &cell->memory_node;

		*node = (int)rung_topology_node(measured->topology, idx)->node;
		return text_of(names[axis], *node);
	}
	*(axis == NUMA_TO_GPUS ? &cell->to_gpu_bus_id : &cell->gpu_bus_id) = gpus[idx]->gpu_bus_id;
	return text_of(names[axis], numa_gpu_text(text, gpus[idx]->gpu, gpus[idx]->gpu_bus_id));
}

/* Fill in names and values: `cell`, with each pair of positions in turn, is searched among the
 * results. */
static void fill(struct maps *maps, struct heat_map *map, const struct numa_measured *measured,
                 const struct numa_map *what, const struct rung_numa_result *const *gpus,
                 struct rung_numa_result cell)
{
	double *values = (double *)(uintptr_t)map->values;

	for (size_t row = 0; row < map->row_count; row++) {
		set_name(maps, map->rows, row,
		         set_position(&cell, measured, gpus, what->rows, row));
		for (size_t column = 0; column < map->column_count; column++) {
			char *name = set_position(&cell, measured, gpus, what->columns, column);
			const struct rung_numa_result *result = numa_find(measured, &cell);
			const struct rung_numa_value *value =
				result && !result->absent ? numa_at(result, what->value) : NULL;

			/* every row generates the names of the columns; only the first keeps
			 * them */
			if (row == 0)
				set_name(maps, map->columns, column, name);
			else
				free(name);
			values[row * map->column_count + column] = value ? value->median : NAN;
		}
	}
}

/* Append a map of the results that equal `like` except for their nodes and devices. */
static void add_map(struct maps *maps, const struct numa_measured *measured,
                    const struct numa_map *what, const struct rung_numa_result *like)
{
	char text[TOOL_TEXT_BYTES];
	const char *subject =
		like->row_bytes ? tool_bytes_text(text, (double)like->row_bytes) : like->kind;
	size_t gpu_count;
	const struct rung_numa_result **gpus = list_gpus(measured, like->matrix, &gpu_count);
	struct heat_map *map = NULL;

	if (gpus)
		map = add(maps, text_of(what->title, subject),
		          what->rows == NUMA_CPUS ? measured->node_count : gpu_count,
		          what->columns == NUMA_MEMORY ? measured->node_count : gpu_count);
	if (map) {
		map->less_is_better = what->is_latency;
		map->text = what->is_latency ? ns_text : rate_text;
		fill(maps, map, measured, what, gpus, *like);
	}
	maps->incomplete |= !map;
	free(gpus);
}

/* ---- drives ---- */

/* Append a map of sizes x depths for the drive of result `first`. @return the number of its
 * results */
static size_t add_drive(struct maps *maps, const struct numa_measured *measured, size_t first)
{
	const struct rung_numa_result *result = rung_numa_report_result(measured->report, first);
	size_t depth_count, count = numa_count_reads(measured, first, &depth_count);
	char text[TOOL_TEXT_BYTES];
	struct heat_map *map;

	map = add(maps,
	          text_of("random reads of %s by node %d",
	                  result->drive ? result->drive : result->file, result->cpu_node),
	          count / depth_count, depth_count);
	for (size_t i = 0; map && i < count; i++) {
		result = rung_numa_report_result(measured->report, first + i);
		if (i < depth_count)
			set_name(maps, map->columns, i, text_of("depth %u", result->queue_depth));
		if (i % depth_count == 0)
			set_name(maps, map->rows, i / depth_count,
			         text_of("%s", tool_bytes_text(text, (double)result->row_bytes)));
		((double *)(uintptr_t)map->values)[i] = result->bytes_per_s.median;
	}
	return count;
}

/* Append the map of result `idx`, unless an earlier result of the same kind and row size has
 * appended it. @return by how many results to advance */
static size_t add_first(struct maps *maps, const struct numa_measured *measured, size_t idx)
{
	const struct rung_numa_result *result = rung_numa_report_result(measured->report, idx);

	if (result->matrix == RUNG_NUMA_NVME && !result->absent)
		return add_drive(maps, measured, idx);
	for (size_t i = 0; i < idx; i++) {
		const struct rung_numa_result *other = rung_numa_report_result(measured->report, i);

		if (other->matrix == result->matrix && other->row_bytes == result->row_bytes &&
		    numa_alike(other->kind, result->kind))
			return 1;
	}
	for (const struct numa_map *what = numa_maps; what->title; what++) {
		if (numa_is_of(result, what->matrix, what->kind, 1))
			add_map(maps, measured, what, result);
	}
	return 1;
}

int numa_results_svg(const struct numa_measured *measured, FILE *out)
{
	const struct rung_numa_report_info *info = &measured->info;
	struct maps maps = { 0 };
	char *subtitle = text_of("%s, Linux %s, medians of %u samples of %g s%s",
	                         info->cpu_model ? info->cpu_model : "processor not known",
	                         info->kernel ? info->kernel : "?", info->samples,
	                         info->sample_seconds, info->quick ? ", quick" : "");

	for (size_t i = 0; i < info->result_count;)
		i += add_first(&maps, measured, i);
	maps.incomplete |= !subtitle;
	if (!maps.incomplete)
		heat_write("Memory, GPUs and drives, from each NUMA node", subtitle, maps.maps,
		           maps.count, out);
	for (size_t i = 0; i < maps.count; i++)
		free_map(&maps.maps[i]);
	free(maps.maps);
	free(subtitle);
	return maps.incomplete ? -1 : 0;
}

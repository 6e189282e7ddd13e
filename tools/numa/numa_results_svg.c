/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured as heat maps: nodes x nodes of bandwidth, latency and gathers, GPUs x nodes, GPUs x GPUs, sizes x depths of each drive. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output/heat.h"
#include "numa/numa.h"

struct maps {
	struct heat_map *maps;
	size_t count, room;
	int incomplete;       /* memory lacked */
};

static const char *rate_text(char *text, double value)
{
	char bytes[TOOL_TEXT_BYTES];

	snprintf(text, TOOL_TEXT_BYTES, "%.*s/s", TOOL_TEXT_BYTES - 3, tool_bytes_text(bytes, value));
	return text;
}

static const char *ns_text(char *text, double value)
{
	snprintf(text, TOOL_TEXT_BYTES, "%.0f ns", value);
	return text;
}

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

/* The next map, its names and values to be filled in: NULL without memory. */
static struct heat_map *add(struct maps *maps, char *title, size_t row_count, size_t column_count)
{
	struct heat_map *map;

	if (maps->count == maps->room) {
		size_t room = maps->room ? 2 * maps->room : 16;
		struct heat_map *larger = reallocarray(maps->maps, room, sizeof(*larger));

		if (!larger)
			goto lack;
		maps->maps = larger;
		maps->room = room;
	}
	map = &maps->maps[maps->count];
	*map = (struct heat_map){ .title = title, .row_count = row_count, .column_count = column_count, .text = rate_text };
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
lack:
	free(title);
	maps->incomplete = 1;
	return NULL;
}

static char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *text_of(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	return text;
}

static void set_name(struct maps *maps, const char *const *names, size_t idx, char *name)
{
	((const char **)(uintptr_t)names)[idx] = name;
	maps->incomplete |= !name;
}

/* Nodes x nodes. */
static void add_nodes(struct maps *maps, const struct numa_measured *measured, const struct rung_numa_result *like, char *title, int latency)
{
	struct heat_map *map = add(maps, title, measured->node_count, measured->node_count);

	if (!map)
		return;
	map->less_is_better = latency;
	map->text = latency ? ns_text : rate_text;
	for (size_t row = 0; row < measured->node_count; row++) {
		const unsigned node = rung_topology_node(measured->topology, row)->node;

		set_name(maps, map->rows, row, text_of("CPUs of node %u", node));
		set_name(maps, map->columns, row, text_of("node %u", node));
		for (size_t column = 0; column < measured->node_count; column++) {
			const struct rung_numa_result *result = numa_find(measured, like, row, column);
			double *value = (double *)(uintptr_t)&map->values[row * measured->node_count + column];

			*value = !result || result->absent ? NAN : latency ? result->latency_ns.median : result->bytes_per_s.median;
		}
	}
}

static void add_memory(struct maps *maps, const struct numa_measured *measured)
{
	const struct rung_numa_result *result;
	const char *kind = "";
	uint64_t row_bytes = 0;
	int latency = 0;
	char text[TOOL_TEXT_BYTES];

	for (size_t i = 0; (result = rung_numa_report_result(measured->report, i)) != NULL; i++) {   /* the first of each speaks for its matrix */
		if (result->matrix == RUNG_NUMA_BANDWIDTH && strcmp(result->kind, kind) != 0) {
			kind = result->kind;
			add_nodes(maps, measured, result, text_of("%s, all cores", kind), 0);
		} else if (result->matrix == RUNG_NUMA_LATENCY && !latency) {
			latency = 1;
			add_nodes(maps, measured, result, text_of("latency, idle"), 1);
		} else if (result->matrix == RUNG_NUMA_GATHER && result->row_bytes != row_bytes) {
			row_bytes = result->row_bytes;
			add_nodes(maps, measured, result, text_of("rows of %s gathered, all cores", tool_bytes_text(text, (double)row_bytes)), 0);
		}
	}
}

/* ---- GPUs ---- */

/* Of each GPU a result that stands for it, of those that could be measured. @return [*count_out], to be freed, or NULL without memory */
static const struct rung_numa_result **list_gpus(const struct numa_measured *measured, enum rung_numa_matrix matrix, size_t *count_out)
{
	const struct rung_numa_result **list = calloc(measured->info.result_count + 1, sizeof(*list)), *result;
	size_t count = 0;

	for (size_t i = 0; list && (result = rung_numa_report_result(measured->report, i)) != NULL; i++) {
		size_t at = 0;

		if (result->matrix != matrix || !result->kind)
			continue;
		while (at < count && strcmp(list[at]->gpu_bus_id, result->gpu_bus_id) != 0)
			at++;
		if (at == count)
			list[count++] = result;
	}
	*count_out = count;
	return list;
}

/* GPUs x nodes, or GPUs x GPUs, of the kind and row of `like`. */
static void add_gpus(struct maps *maps, const struct numa_measured *measured, const struct rung_numa_result *like, char *title)
{
	const int peer = like->matrix == RUNG_NUMA_PEER;
	char text[TOOL_TEXT_BYTES];
	size_t count;
	const struct rung_numa_result **gpus = list_gpus(measured, like->matrix, &count);
	const size_t column_count = peer ? count : measured->node_count;
	struct heat_map *map = gpus ? add(maps, title, count, column_count) : NULL;

	if (!gpus) {
		free(title);
		maps->incomplete = 1;
	}
	for (size_t row = 0; map && row < count; row++) {
		struct rung_numa_result cell = { .matrix = like->matrix, .memory_node = -1, .gpu_bus_id = gpus[row]->gpu_bus_id };

		set_name(maps, map->rows, row, text_of(peer ? "from %s" : "%s", numa_gpu_text(text, gpus[row]->gpu, gpus[row]->gpu_bus_id)));
		for (size_t column = 0; column < column_count; column++) {
			const struct rung_numa_result *result;

			if (peer)
				cell.to_gpu_bus_id = gpus[column]->gpu_bus_id;
			else
				cell.memory_node = (int)rung_topology_node(measured->topology, column)->node;
			if (row == 0)
				set_name(maps, map->columns, column, peer ? text_of("to %s", numa_gpu_text(text, gpus[column]->gpu, cell.to_gpu_bus_id))
				                                          : text_of("node %d", cell.memory_node));
			result = numa_find_gpu(measured, &cell, like->kind, like->row_bytes);
			((double *)(uintptr_t)map->values)[row * column_count + column] = result && !result->absent ? result->bytes_per_s.median : NAN;
		}
	}
	free(gpus);
}

static char *gpu_title(const struct rung_numa_result *result)
{
	static const struct {
		const char *kind, *title;
	} titles[] = {
		{ "to_gpu", "copies from pinned memory to GPUs" }, { "from_gpu", "copies from GPUs to pinned memory" },
		{ "both", "copies both ways at once, the sum" },   { "read", "pinned memory read in sequence by a kernel" },
		{ "copy", "copies between GPUs" },
	};
	char text[TOOL_TEXT_BYTES];

	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
		if (strcmp(result->kind, titles[i].kind) == 0)
			return text_of("%s", titles[i].title);
	}
	return text_of("rows of %s gathered by GPUs from %s", tool_bytes_text(text, (double)result->row_bytes),
		       result->matrix == RUNG_NUMA_PEER ? "GPU memory" : "pinned memory");
}

/* The first of a kind and a row speaks for its matrix. */
static void add_all_gpus(struct maps *maps, const struct numa_measured *measured)
{
	const struct rung_numa_result *result, *first;

	for (size_t i = 0; (result = rung_numa_report_result(measured->report, i)) != NULL; i++) {
		size_t at = 0;

		if ((result->matrix != RUNG_NUMA_GPU && result->matrix != RUNG_NUMA_PEER) || !result->kind)
			continue;
		while ((first = rung_numa_report_result(measured->report, at)) != result &&
		       (first->matrix != result->matrix || !first->kind || strcmp(first->kind, result->kind) != 0 || first->row_bytes != result->row_bytes))
			at++;
		if (first == result)
			add_gpus(maps, measured, result, gpu_title(result));
	}
}

/* ---- drives ---- */

static int same_drive(const struct rung_numa_result *a, const struct rung_numa_result *b)
{
	return b && b->matrix == RUNG_NUMA_NVME && !b->absent && a->cpu_node == b->cpu_node && strcmp(a->file, b->file) == 0;
}

/* Sizes x depths. @return position behind it */
static size_t add_drive(struct maps *maps, const struct numa_measured *measured, size_t first)
{
	const struct rung_numa_result *begin = rung_numa_report_result(measured->report, first), *result;
	size_t count = 0, depth_count = 0;
	char text[TOOL_TEXT_BYTES];
	struct heat_map *map;

	while (same_drive(begin, result = rung_numa_report_result(measured->report, first + count))) {
		depth_count += result->row_bytes == begin->row_bytes;
		count++;
	}
	map = add(maps, text_of("random reads of %s by node %d", begin->drive ? begin->drive : begin->file, begin->cpu_node), count / depth_count,
		  depth_count);
	for (size_t i = 0; map && i < count; i++) {
		result = rung_numa_report_result(measured->report, first + i);
		if (i < depth_count)
			set_name(maps, map->columns, i, text_of("depth %u", result->queue_depth));
		if (i % depth_count == 0)
			set_name(maps, map->rows, i / depth_count, text_of("%s", tool_bytes_text(text, (double)result->row_bytes)));
		((double *)(uintptr_t)map->values)[i] = result->bytes_per_s.median;
	}
	return first + count;
}

int numa_results_svg(const struct numa_measured *measured, FILE *out)
{
	const struct rung_numa_report_info *info = &measured->info;
	const struct rung_numa_result *result;
	struct maps maps = { 0 };
	char *subtitle = text_of("%s, Linux %s, medians of %u samples of %g s%s", info->cpu_model ? info->cpu_model : "processor not known",
				 info->kernel ? info->kernel : "?", info->samples, info->sample_seconds, info->quick ? ", quick" : "");

	add_memory(&maps, measured);
	add_all_gpus(&maps, measured);
	for (size_t i = 0; (result = rung_numa_report_result(measured->report, i)) != NULL;)
		i = result->matrix == RUNG_NUMA_NVME && !result->absent ? add_drive(&maps, measured, i) : i + 1;
	maps.incomplete |= !subtitle;
	if (!maps.incomplete)
		heat_write("Memory, GPUs and drives, from each NUMA node", subtitle, maps.maps, maps.count, out);
	for (size_t i = 0; i < maps.count; i++)
		free_map(&maps.maps[i]);
	free(maps.maps);
	free(subtitle);
	return maps.incomplete ? -1 : 0;
}

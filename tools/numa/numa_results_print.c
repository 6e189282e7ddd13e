/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured as tables: medians; what is absent is "-", and the reasons stand at the end. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numa/numa.h"
#include "output/table.h"

static const struct rung_numa_result *result_at(const struct numa_measured *measured, size_t idx, enum rung_numa_matrix matrix)
{
	const struct rung_numa_result *result = rung_numa_report_result(measured->report, idx);

	return result && result->matrix == matrix ? result : NULL;
}

/* Position of the first result of a matrix that is there; `SIZE_MAX`: none. They lie side by side. */
static size_t first_of(const struct numa_measured *measured, enum rung_numa_matrix matrix, int *any_out)
{
	size_t first = SIZE_MAX;

	*any_out = 0;
	for (size_t i = 0; i < measured->info.result_count; i++) {
		const struct rung_numa_result *result = result_at(measured, i, matrix);

		if (result && first == SIZE_MAX)
			first = i;
		*any_out |= result && !result->absent;
	}
	return first;
}

/* ---- cells ---- */

static void headings(struct tool_table *table, const char *names)
{
	for (const char *at = names; *at; at += strcspn(at, "|") + (at[strcspn(at, "|")] != 0))
		tool_table_cell(table, "%.*s", (int)strcspn(at, "|"), at);
}

static void rate_cell(struct tool_table *table, const struct rung_numa_result *result, double bytes_per_s)
{
	char text[TOOL_TEXT_BYTES];

	if (!result || result->absent || !isfinite(bytes_per_s))
		tool_table_cell(table, "-");
	else
		tool_table_cell(table, "%s/s", tool_bytes_text(text, bytes_per_s));
}

static void number_cell(struct tool_table *table, const char *format, double number)
	__attribute__((format(printf, 2, 0)));

static void number_cell(struct tool_table *table, const char *format, double number)
{
	char text[TOOL_TEXT_BYTES];

	snprintf(text, sizeof(text), format, number);
	tool_table_cell(table, "%s", isfinite(number) ? text : "-");
}

static void node_cells(struct tool_table *table, const struct rung_numa_result *result)
{
	if (result->cpu_node >= 0)
		tool_table_cell(table, "node %d", result->cpu_node);
	else
		tool_table_cell(table, "-");
	tool_table_cell(table, "node %d", result->memory_node);
}

static void share_cell(struct tool_table *table, double share)
{
	number_cell(table, "%.0f %%", 100 * share);
}

/* Half of what lies between the least and the most, of the median. */
static double spread(const struct rung_numa_value *value)
{
	return value->count ? (value->max - value->min) / 2 / value->median : NAN;
}

/* ---- machine ---- */

static void print_setting(const struct rung_numa_report_info *info)
{
	char text[TOOL_TEXT_BYTES];

	printf("\n%s%s, Linux %s; ", info->cpu_model ? info->cpu_model : "processor not known", info->hypervisor > 0 ? " (virtual)" : "",
	       info->kernel ? info->kernel : "?");
	if (info->last_level_cache_bytes)
		printf("%s of last-level cache; ", tool_bytes_text(text, (double)info->last_level_cache_bytes));
	printf("SMT %s, clock governor %s, huge pages %s, %s stores\n", info->smt < 0 ? "?" : info->smt ? "on" : "off", info->governor ? info->governor : "?",
	       info->thp ? info->thp : "?", info->stores);
	printf("medians of %u samples of %g s%s\n", info->samples, info->sample_seconds,
	       info->quick ? "; quick: good to see what is there, too coarse to plan by" : "");
}

/* ---- bandwidth ---- */

static int print_bandwidth(const struct numa_measured *measured, size_t first)
{
	struct tool_table *table = tool_table_new("llrrrrrrr");
	const struct rung_numa_result *result;

	headings(table, "CPUs|memory|threads|read|write|copy|triad|+-|there");
	for (size_t i = first; (result = result_at(measured, i, RUNG_NUMA_BANDWIDTH)) != NULL && strcmp(result->kind, "read") == 0; i++) {
		static const char *const kinds[] = { "read", "write", "copy", "triad" };
		double most = 0;

		if (result->absent)
			continue;
		node_cells(table, result);
		tool_table_cell(table, "%u", result->threads);
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			const struct rung_numa_result *other;

			for (size_t j = first; (other = result_at(measured, j, RUNG_NUMA_BANDWIDTH)) != NULL; j++) {
				if (strcmp(other->kind, kinds[k]) == 0 && other->cpu_node == result->cpu_node &&
				    other->memory_node == result->memory_node && other->all_cores == result->all_cores)
					break;
			}
			rate_cell(table, other, other ? other->bytes_per_s.median : NAN);
			most = other ? fmax(most, spread(&other->bytes_per_s)) : most;
		}
		number_cell(table, "%.0f %%", 100 * most);
		share_cell(table, result->placed_share);
	}
	printf("\nbandwidth, bytes counted as STREAM does (a copy of n bytes is 2 n)\n");
	return tool_table_print(table);
}

/* ---- latency ---- */

static int print_latency(const struct numa_measured *measured, size_t first)
{
	struct tool_table *table = tool_table_new("llrrrr");
	const struct rung_numa_result *result;

	headings(table, "CPUs|memory|latency|least|most|huge pages");
	for (size_t i = first; (result = result_at(measured, i, RUNG_NUMA_LATENCY)) != NULL; i++) {
		if (result->absent)
			continue;
		node_cells(table, result);
		tool_table_cell(table, "%.1f ns", result->latency_ns.median);
		tool_table_cell(table, "%.1f", result->latency_ns.min);
		tool_table_cell(table, "%.1f", result->latency_ns.max);
		share_cell(table, result->huge_share);
	}
	printf("\nlatency of one dependent load, nothing else running\n");
	return tool_table_print(table);
}

static int print_loaded(const struct numa_measured *measured, size_t first)
{
	struct tool_table *table = tool_table_new("llrrrr");
	const struct rung_numa_result *result;

	headings(table, "CPUs|memory|cores that read|they read|latency|+-");
	for (size_t i = first; (result = result_at(measured, i, RUNG_NUMA_LOADED)) != NULL; i++) {
		if (result->absent)
			continue;
		node_cells(table, result);
		tool_table_cell(table, "%u", result->threads);
		rate_cell(table, result, result->bytes_per_s.count ? result->bytes_per_s.median : NAN);
		tool_table_cell(table, "%.1f ns", result->latency_ns.median);
		number_cell(table, "%.0f %%", 100 * spread(&result->latency_ns));
	}
	printf("\nlatency of one core's dependent loads while others read\n");
	return tool_table_print(table);
}

/* ---- gathers ---- */

static int print_gathers(const struct numa_measured *measured, size_t first)
{
	struct tool_table *table = tool_table_new("llrrrrrrrr");
	const struct rung_numa_result *result;
	char text[TOOL_TEXT_BYTES];

	headings(table, "CPUs|memory|row|threads|rows/s|bandwidth|of copy|+-|rows in flight|lines in flight");
	for (size_t i = first; (result = result_at(measured, i, RUNG_NUMA_GATHER)) != NULL; i++) {
		if (result->absent)
			continue;
		node_cells(table, result);
		tool_table_cell(table, "%s", tool_bytes_text(text, (double)result->row_bytes));
		tool_table_cell(table, "%u", result->threads);
		tool_table_cell(table, "%s", tool_count_text(text, result->per_s.median));
		rate_cell(table, result, result->bytes_per_s.median);
		number_cell(table, "%.2f", result->of_copy);
		number_cell(table, "%.0f %%", 100 * spread(&result->bytes_per_s));
		number_cell(table, "%.1f", result->rows_in_flight);
		number_cell(table, "%.1f", result->lines_in_flight);
	}
	printf("\nrows gathered from random places, counted as a copy; in flight: rows a second of a thread x idle latency (a thread asks\n"
	       "8 KiB ahead, 16 or 32 rows at most, and a core waits for some tens of lines of 64 bytes at a time: what small rows lose by)\n");
	return tool_table_print(table);
}

/* ---- GPUs ---- */

static void gpu_cell(struct tool_table *table, int gpu, const char *bus_id)
{
	char text[TOOL_TEXT_BYTES];

	tool_table_cell(table, "%s", numa_gpu_text(text, gpu, bus_id));
}

static void value_cell(struct tool_table *table, const struct rung_numa_result *result, double *most)
{
	rate_cell(table, result, result ? result->bytes_per_s.median : NAN);
	*most = result && !result->absent ? fmax(*most, spread(&result->bytes_per_s)) : *most;
}

static int print_links(const struct numa_measured *measured, size_t first)
{
	static const char *const kinds[] = { "to_gpu", "from_gpu", "both", "read" };
	struct tool_table *table = tool_table_new("llrrrrrr");
	const struct rung_numa_result *result;

	headings(table, "GPU|memory|to the GPU|from it|both at once|read by a kernel|+- at most|on node");
	for (size_t i = first; (result = result_at(measured, i, RUNG_NUMA_GPU)) != NULL; i++) {
		double most = 0;

		if (!result->kind || strcmp(result->kind, "to_gpu") != 0)
			continue;
		gpu_cell(table, result->gpu, result->gpu_bus_id);
		tool_table_cell(table, "node %d", result->memory_node);
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			value_cell(table, numa_find_gpu(measured, result, kinds[k], 0), &most);
		number_cell(table, "%.0f %%", 100 * most);
		share_cell(table, result->placed_share);
	}
	printf("\npinned memory and GPUs: copy engines, and a kernel that reads it in sequence; bytes that cross the link, of both ways the sum\n");
	return tool_table_print(table);
}

static int print_peers(const struct numa_measured *measured, size_t first)
{
	struct tool_table *table = tool_table_new("llrr");
	const struct rung_numa_result *result;

	headings(table, "from|to|copy|+-");
	for (size_t i = first; (result = result_at(measured, i, RUNG_NUMA_PEER)) != NULL; i++) {
		if (result->absent || strcmp(result->kind, "copy") != 0)
			continue;
		gpu_cell(table, result->gpu, result->gpu_bus_id);
		gpu_cell(table, result->to_gpu, result->to_gpu_bus_id);
		rate_cell(table, result, result->bytes_per_s.median);
		number_cell(table, "%.0f %%", 100 * spread(&result->bytes_per_s));
	}
	printf("\ncopies between GPUs, by the one they go to; from a GPU to itself they are read and written there\n");
	return tool_table_print(table);
}

static int print_gpu_gathers(const struct numa_measured *measured, size_t first)
{
	const enum rung_numa_matrix matrix = rung_numa_report_result(measured->report, first)->matrix;
	const int peer = matrix == RUNG_NUMA_PEER;
	struct tool_table *table = tool_table_new("llrrrr");
	const struct rung_numa_result *result;
	char text[TOOL_TEXT_BYTES];

	headings(table, "GPU|memory|row|rows/s|bandwidth|+-");
	for (size_t i = first; (result = result_at(measured, i, matrix)) != NULL; i++) {
		if (result->absent || strcmp(result->kind, "gather") != 0)
			continue;
		gpu_cell(table, peer ? result->to_gpu : result->gpu, peer ? result->to_gpu_bus_id : result->gpu_bus_id);
		if (peer)
			gpu_cell(table, result->gpu, result->gpu_bus_id);
		else
			tool_table_cell(table, "node %d", result->memory_node);
		tool_table_cell(table, "%s", tool_bytes_text(text, (double)result->row_bytes));
		tool_table_cell(table, "%s", tool_count_text(text, result->per_s.median));
		rate_cell(table, result, result->bytes_per_s.median);
		number_cell(table, "%.0f %%", 100 * spread(&result->bytes_per_s));
	}
	printf(peer ? "\nrows that a GPU gathers from random places of a GPU's memory, counted once\n"
	            : "\nrows that a GPU gathers from random places of pinned memory, counted once\n");
	return tool_table_print(table);
}

static int print_gpus(const struct numa_measured *measured, size_t first)
{
	return print_links(measured, first) < 0 ? -1 : print_gpu_gathers(measured, first);
}

static int print_all_peers(const struct numa_measured *measured, size_t first)
{
	return print_peers(measured, first) < 0 ? -1 : print_gpu_gathers(measured, first);
}

/* ---- drives ---- */

static int same_reads(const struct rung_numa_result *a, const struct rung_numa_result *b)
{
	return a->cpu_node == b->cpu_node && strcmp(a->file, b->file) == 0;
}

static char *columns_of(size_t left, size_t right)
{
	char *columns = malloc(left + right + 1);

	if (columns) {
		memset(columns, 'l', left);
		memset(columns + left, 'r', right);
		columns[left + right] = 0;
	}
	return columns;
}

/* One drive from one node: rows are sizes, columns depths. @return position behind it, or SIZE_MAX without memory */
static size_t print_drive(const struct numa_measured *measured, size_t first)
{
	const struct rung_numa_result *begin = result_at(measured, first, RUNG_NUMA_NVME), *result;
	size_t depth_count = 0, i;
	struct tool_table *table;
	char text[TOOL_TEXT_BYTES], *columns;
	double most = 0;

	while ((result = result_at(measured, first + depth_count, RUNG_NUMA_NVME)) != NULL && result->row_bytes == begin->row_bytes &&
	       same_reads(begin, result))
		depth_count++;
	columns = columns_of(1, depth_count + 1);
	table = columns ? tool_table_new(columns) : NULL;
	tool_table_cell(table, "read, depth");
	for (i = first; i < first + depth_count; i++)
		tool_table_cell(table, "%u", result_at(measured, i, RUNG_NUMA_NVME)->queue_depth);
	tool_table_cell(table, "at most");
	for (i = first; (result = result_at(measured, i, RUNG_NUMA_NVME)) != NULL && !result->absent && same_reads(begin, result); i++) {
		if ((i - first) % depth_count == 0) {
			tool_table_cell(table, "%s", tool_bytes_text(text, (double)result->row_bytes));
			most = 0;
		}
		tool_table_cell(table, "%s", tool_count_text(text, result->per_s.median));
		most = fmax(most, result->bytes_per_s.median);
		if ((i - first) % depth_count == depth_count - 1)
			rate_cell(table, result, most);
	}
	printf("\nrandom reads a second of %s%s%s%s, by one thread of node %d, engine %s\n", begin->file, begin->drive ? " (drive " : "",
	       begin->drive ? begin->drive : "", begin->drive ? ")" : "", begin->cpu_node, begin->engine);
	if (tool_table_print(table) < 0)
		i = SIZE_MAX;
	free(columns);
	return i;
}

static int print_drives(const struct numa_measured *measured, size_t first)
{
	const struct rung_numa_result *result;

	for (size_t i = first; i != SIZE_MAX && (result = result_at(measured, i, RUNG_NUMA_NVME)) != NULL;) {
		i = result->absent ? i + 1 : print_drive(measured, i);
		if (i == SIZE_MAX)
			return -1;
	}
	return 0;
}

/* ---- costs ---- */

static int print_cost(const struct numa_measured *measured, size_t first)
{
	const enum rung_numa_matrix matrix = rung_numa_report_result(measured->report, first)->matrix;
	struct tool_table *table = tool_table_new("lrrrr");
	const struct rung_numa_result *result;
	char text[TOOL_TEXT_BYTES];

	headings(table, "memory|pages|threads|a GiB takes|+-");
	for (size_t i = first; (result = result_at(measured, i, matrix)) != NULL; i++) {
		if (result->absent)
			continue;
		tool_table_cell(table, "node %d", result->memory_node);
		tool_table_cell(table, "%s", tool_bytes_text(text, (double)result->page_bytes));
		tool_table_cell(table, "%u", result->threads);
		tool_table_cell(table, "%.1f ms", 1000 * result->seconds_per_gib.median);
		number_cell(table, "%.0f %%", 100 * spread(&result->seconds_per_gib));
	}
	printf(matrix == RUNG_NUMA_TOUCH ? "\nfirst touch of fresh memory\n" : "\nregistering memory with io_uring\n");
	return tool_table_print(table);
}

/* ---- reasons ---- */

static int said_before(const struct numa_measured *measured, size_t idx)
{
	const struct rung_numa_result *result = rung_numa_report_result(measured->report, idx);

	for (size_t i = 0; i < idx; i++) {
		const struct rung_numa_result *other = rung_numa_report_result(measured->report, i);

		if (other->absent && other->matrix == result->matrix && strcmp(other->absent, result->absent) == 0)
			return 1;
	}
	return 0;
}

static void print_absent(const struct numa_measured *measured)
{
	const struct rung_numa_result *result;
	int begun = 0;

	for (size_t i = 0; (result = rung_numa_report_result(measured->report, i)) != NULL; i++) {
		if (!result->absent || said_before(measured, i))
			continue;
		if (!begun)
			printf("\nnot measured:\n");
		printf("  %s: %s\n", rung_numa_matrix_name(result->matrix), result->absent);
		begun = 1;
	}
}

/* ---- sizes ---- */

static int is_small(const struct rung_numa_result *result)
{
	return !result->absent && result->buffer_bytes < result->advised_bytes;
}

/* One line for each matrix and memory node; results of a matrix come side by side. */
static void print_small(const struct numa_measured *measured)
{
	const struct rung_numa_result *result, *other;
	char bytes[TOOL_TEXT_BYTES], advised[TOOL_TEXT_BYTES];
	int begun = 0;

	for (size_t i = 0; (result = rung_numa_report_result(measured->report, i)) != NULL; i++) {
		int listed = !is_small(result);

		for (size_t j = i; j > 0 && !listed; j--) {
			other = rung_numa_report_result(measured->report, j - 1);
			if (other->matrix != result->matrix)
				break;
			listed = is_small(other) && other->memory_node == result->memory_node;
		}
		if (listed)
			continue;
		if (!begun)
			printf("\nsmaller than advised, so caches serve some of the reads "
			       "(see --memory):\n");
		begun = 1;
		printf("  %s, memory of node %d: %s; %s or more is advised\n",
		       rung_numa_matrix_name(result->matrix), result->memory_node,
		       tool_bytes_text(bytes, (double)result->buffer_bytes),
		       tool_bytes_text(advised, (double)result->advised_bytes));
	}
}

int numa_results_print(const struct numa_measured *measured)
{
	static const struct {
		enum rung_numa_matrix matrix;
		int (*print)(const struct numa_measured *measured, size_t first);
	} tables[] = {
		{ RUNG_NUMA_BANDWIDTH, print_bandwidth }, { RUNG_NUMA_LATENCY, print_latency }, { RUNG_NUMA_LOADED, print_loaded },
		{ RUNG_NUMA_GATHER, print_gathers },      { RUNG_NUMA_GPU, print_gpus },        { RUNG_NUMA_PEER, print_all_peers },
		{ RUNG_NUMA_NVME, print_drives },         { RUNG_NUMA_TOUCH, print_cost },      { RUNG_NUMA_REGISTER, print_cost },
	};

	print_setting(&measured->info);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		int any;
		size_t first = first_of(measured, tables[i].matrix, &any);

		if (any && tables[i].print(measured, first) < 0)
			return -1;
	}
	print_small(measured);
	print_absent(measured);
	return 0;
}

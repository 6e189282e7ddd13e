/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measured values as matrices of medians, and as tables with details. Absent values are "-"; the
 * reasons follow at the end, after the values that were measured with smaller buffers than advised.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numa/numa_results.h"
#include "output/table.h"

#define COLUMNS_MAX 130u /* the depths of a drive, and two more */

/* ---- machine ---- */

/* Settings without which the values cannot be compared with those of another run. */
static void print_setting(const struct rung_numa_report_info *info)
{
	char text[TOOL_TEXT_BYTES];

	printf("\n%s%s, Linux %s; ", info->cpu_model ? info->cpu_model : "processor not known",
	       info->hypervisor > 0 ? " (virtual)" : "", info->kernel ? info->kernel : "?");
	if (info->last_level_cache_bytes)
		printf("%s of last-level cache; ",
		       tool_bytes_text(text, (double)info->last_level_cache_bytes));
	printf("SMT %s,\nclock governor %s, huge pages %s, %s stores\n",
	       info->smt < 0 ? "?"
	       : info->smt   ? "on"
	                     : "off",
	       info->governor ? info->governor : "?", info->thp ? info->thp : "?", info->stores);
	printf("medians of %u samples of %g s%s\n", info->samples, info->sample_seconds,
	       info->quick ? "; quick: a rough overview, too coarse for plans" : "");
}

/* ---- cells ---- */

/* Half the range from the minimum to the maximum, relative to the median. */
static double half_range(const struct rung_numa_value *value)
{
	return value->count ? (value->max - value->min) / 2 / value->median : NAN;
}

/* A number by a format of a table; "-" for NaN. */
__attribute__((format(printf, 2, 0))) static void number_cell(struct tool_table *table,
                                                              const char *format, double number)
{
	char text[TOOL_TEXT_BYTES];

	snprintf(text, sizeof(text), format, number);
	tool_table_cell(table, "%s", isfinite(number) ? text : "-");
}

/* Samples that differ by more than this share around the median are no measurement. */
#define UNSTABLE 0.5

/* The largest spread of a line, or that it is unstable. */
static void spread_cell(struct tool_table *table, double most)
{
	if (most > UNSTABLE)
		tool_table_cell(table, "unstable");
	else
		number_cell(table, "%.0f %%", 100 * most);
}

static void rate_cell(struct tool_table *table, double bytes_per_s)
{
	char text[TOOL_TEXT_BYTES];

	if (isfinite(bytes_per_s))
		tool_table_cell(table, "%s/s", tool_bytes_text(text, bytes_per_s));
	else
		tool_table_cell(table, "-");
}

/* The rate of the result that differs from `like` only in its kind. `most` becomes its spread, if
 * that is larger. */
static void other_cell(struct tool_table *table, const struct numa_measured *measured,
                       struct rung_numa_result like, const char *kind, double *most)
{
	const struct rung_numa_result *other;

	like.kind = kind;
	other = numa_find(measured, &like);
	rate_cell(table, other && !other->absent ? other->bytes_per_s.median : NAN);
	if (other && !other->absent)
		*most = fmax(*most, half_range(&other->bytes_per_s));
}

/* One cell. `most` is the largest spread of the OTHER cells before it in the line. */
static void cell(struct tool_table *table, const struct numa_measured *measured,
                 const struct rung_numa_result *result, const struct numa_column *column,
                 double *most)
{
	const void *at = numa_at(result, column->offset);
	const struct rung_numa_value *value = at;
	char text[TOOL_TEXT_BYTES];

	switch (column->cell) {
	case NUMA_CELL_NODE:
		snprintf(text, sizeof(text), "node %d", *(const int *)at);
		tool_table_cell(table, "%s", *(const int *)at < 0 ? "-" : text);
		break;
	case NUMA_CELL_GPU:
		tool_table_cell(table, "%s", numa_gpu_text(text, result->gpu, result->gpu_bus_id));
		break;
	case NUMA_CELL_TO_GPU:
		numa_gpu_text(text, result->to_gpu, result->to_gpu_bus_id);
		tool_table_cell(table, "%s", text);
		break;
	case NUMA_CELL_COUNT:
		tool_table_cell(table, "%u", *(const uint32_t *)at);
		break;
	case NUMA_CELL_BYTES:
		tool_table_cell(table, "%s", tool_bytes_text(text, (double)*(const uint64_t *)at));
		break;
	case NUMA_CELL_REAL:
		number_cell(table, column->format, column->factor * *(const double *)at);
		break;
	case NUMA_CELL_RATE:
		rate_cell(table, value->count ? value->median : NAN);
		break;
	case NUMA_CELL_PER_S:
		tool_table_cell(table, "%s", tool_count_text(text, value->median));
		break;
	case NUMA_CELL_SPREAD:
		spread_cell(table, half_range(value));
		break;
	case NUMA_CELL_OTHER:
		other_cell(table, measured, *result, column->format, most);
		break;
	case NUMA_CELL_SPREADS:
		spread_cell(table, *most);
		break;
	}
}

/* ---- tables ---- */

/* @return 0, or -1 without memory */
static int print_table(const struct numa_measured *measured, const struct numa_table *what)
{
	char sides[COLUMNS_MAX + 1] = ""; /* must outlive the table, which does not copy it */
	const struct rung_numa_result *result;
	const struct numa_column *column;
	struct tool_table *table;

	for (column = what->columns; column->heading; column++)
		strcat(sides, column->cell <= NUMA_CELL_TO_GPU ? "l" : "r");
	table = tool_table_new(sides);
	for (column = what->columns; column->heading; column++)
		tool_table_cell(table, "%s", column->heading);
	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++) {
		double most = 0;

		if (!numa_is_of(result, what->matrix, what->kind, what->absent_too))
			continue;
		for (column = what->columns; column->heading; column++)
			cell(table, measured, result, column, &most);
	}
	printf("\n%s\n", what->title);
	return tool_table_print(table);
}

/* ---- matrices ---- */

/* A line of a matrix; the metric is named in the first line only. */
static void print_line(struct tool_table *table, const struct numa_grid *grid, size_t line)
{
	const struct numa_section *section = grid->section;
	const struct rung_numa_result *result = grid->lines[line];
	const int is_first = line == 0 || !numa_is_same_metric(grid->lines[line - 1], result);
	char text[TOOL_TEXT_BYTES];
	double most = NAN;

	tool_table_cell(table, "%s", is_first ? numa_label(text, result) : "");
	tool_table_cell(table, "%s", numa_axis_text(text, result, section->rows));
	for (size_t column = 0; column < grid->column_count; column++) {
		const struct rung_numa_result *cell =
			grid->cells[line * grid->column_count + column];
		const struct rung_numa_value *value = cell ? numa_main_value(cell) : NULL;

		tool_table_cell(
			table, "%s",
			value ? numa_digits(text, value->median / (section->is_latency ? 1 : 1e9))
			      : "-");
		if (value)
			most = fmax(most, half_range(value));
	}
	spread_cell(table, most);
}

/* Nothing for a section without values. @return 0, or -1 without memory */
static int print_section(const struct numa_measured *measured, const struct numa_section *section)
{
	static const char *const corners[] = {
		[NUMA_CPUS] = "CPUs of", [NUMA_GPUS] = "GPU", [NUMA_FROM_GPUS] = "from"
	};
	struct numa_grid grid;
	int rc = numa_grid_fill(&grid, measured, section);
	char *sides = rc == 0 ? malloc(grid.column_count + 4) : NULL, text[TOOL_TEXT_BYTES];
	struct tool_table *table;

	if (sides && grid.line_count) {
		memset(sides, 'r', grid.column_count + 3);
		memset(sides, 'l', 2);
		sides[grid.column_count + 3] = 0;
		table = tool_table_new(sides);
		tool_table_cell(table, "%s",
		                section->columns == NUMA_MEMORY ? "memory of:" : "to:");
		tool_table_cell(table, "%s", corners[section->rows]);
		for (size_t column = 0; column < grid.column_count; column++)
			tool_table_cell(
				table, "%s",
				numa_axis_text(text, grid.columns[column], section->columns));
		tool_table_cell(table, "+-");
		for (size_t line = 0; line < grid.line_count; line++)
			print_line(table, &grid, line);
		printf("\n%s\n", section->title);
		rc = tool_table_print(table);
	}
	rc = sides ? rc : -1;
	free(sides);
	numa_grid_free(&grid);
	return rc;
}

/* ---- drives ---- */

/* Reads of one drive by one node, from result `first` on: rows are sizes, columns are depths. The
 * last columns have the highest bandwidth of the row and the largest spread. @return results
 * printed; 0: no memory */
static size_t print_drive(const struct numa_measured *measured, const struct numa_table *what,
                          size_t first)
{
	const struct rung_numa_result *begin = numa_result(measured, first), *result;
	char sides[COLUMNS_MAX + 1] = "l", text[TOOL_TEXT_BYTES];
	size_t depth_count, count = numa_count_reads(measured, first, &depth_count);
	struct tool_table *table;
	double most = 0, spread = 0;

	/* more depths than any option allows: a file that lists reads without order */
	depth_count = depth_count < COLUMNS_MAX - 3 ? depth_count : COLUMNS_MAX - 3;
	count -= count % depth_count;
	memset(sides + 1, 'r', depth_count + 2);
	table = tool_table_new(sides);
	tool_table_cell(table, "read, depth");
	for (size_t i = 0; i < depth_count; i++) {
		result = numa_result(measured, first + i);
		tool_table_cell(table, "%u", result->queue_depth);
	}
	tool_table_cell(table, "most MB/s");
	tool_table_cell(table, "+-");
	for (size_t i = 0; i < count; i++) {
		result = numa_result(measured, first + i);
		if (i % depth_count == 0) {
			tool_bytes_text(text, (double)result->row_bytes);
			tool_table_cell(table, "%s", text);
			most = spread = 0;
		}
		tool_table_cell(table, "%s", numa_digits(text, result->per_s.median / 1000));
		most = fmax(most, result->bytes_per_s.median);
		spread = fmax(spread, half_range(&result->per_s));
		if (i % depth_count == depth_count - 1) {
			tool_table_cell(table, "%s", numa_digits(text, most / 1e6));
			spread_cell(table, spread);
		}
	}
	putchar('\n');
	tool_wrap(2, "%s of %s%s%s%s, from node %d, %s", what->title, begin->file,
	          begin->drive ? " (" : "", begin->drive ? begin->drive : "",
	          begin->drive ? ")" : "", begin->cpu_node, begin->engine);
	return tool_table_print(table) < 0 ? 0 : count;
}

/* A table for each drive and node, as the results are grouped. @return 0, or -1 without memory */
static int print_drives(const struct numa_measured *measured, const struct numa_table *what)
{
	const struct rung_numa_result *result;
	size_t count = 1;

	for (size_t i = 0; (result = numa_result(measured, i)); i += count) {
		count = 1;
		if (numa_is_of(result, what->matrix, NULL, 0))
			count = print_drive(measured, what, i);
		if (count == 0)
			return -1;
	}
	return 0;
}

/* ---- reasons ---- */

/* Nonzero if an earlier result of the same matrix is absent for the same reason, which is then
 * printed already: otherwise every pair of nodes would repeat it. */
static int is_repeated(const struct numa_measured *measured, size_t idx)
{
	const struct rung_numa_result *result = numa_result(measured, idx);

	for (size_t i = 0; i < idx; i++) {
		const struct rung_numa_result *other = numa_result(measured, i);

		if (other->matrix == result->matrix && numa_alike(other->absent, result->absent))
			return 1;
	}
	return 0;
}

/* The reasons of all absent values, under a heading; nothing if every value was measured. */
static void print_absent(const struct numa_measured *measured)
{
	const struct rung_numa_result *result;
	int begun = 0;

	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++) {
		if (!result->absent || is_repeated(measured, i))
			continue;
		if (!begun)
			printf("\nnot measured:\n");
		tool_wrap(4, "  %s: %s", rung_numa_matrix_name(result->matrix), result->absent);
		begun = 1;
	}
}

/* ---- sizes ---- */

/* Nonzero if caches affect the value. */
static int is_small(const struct rung_numa_result *result)
{
	return !result->absent && result->buffer_bytes < result->advised_bytes;
}

/* One line for each matrix and memory node. The results of a matrix are consecutive, so earlier
 * ones are searched backwards only up to the first of another matrix. */
static void print_small(const struct numa_measured *measured)
{
	const struct rung_numa_result *result, *other;
	char bytes[TOOL_TEXT_BYTES], advised[TOOL_TEXT_BYTES];
	int begun = 0;

	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++) {
		int listed = !is_small(result);

		for (size_t j = i; j > 0 && !listed; j--) {
			other = numa_result(measured, j - 1);
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

int numa_results_print(const struct numa_measured *measured, int explain)
{
	print_setting(&measured->info);
	for (const struct numa_section *section = numa_sections; section->title; section++) {
		/* one thread: the same values again */
		if (section->all_cores == 0 && numa_one_thread(measured))
			continue;
		if (print_section(measured, section) < 0)
			return -1;
	}
	for (const struct numa_table *what = numa_tables; what->title; what++) {
		const int is_shown =
			explain || !what->columns || !(measured->info.matrices & ~NUMA_COSTS);

		if (is_shown && numa_any_value(measured, what->matrix) &&
		    (what->columns ? print_table : print_drives)(measured, what) < 0)
			return -1;
	}
	print_small(measured);
	print_absent(measured);
	numa_verdict_print(measured);
	return 0;
}

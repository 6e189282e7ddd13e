/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results as a picture: the machine, then a part for each section. On several nodes or GPUs a
 * section has a panel for each metric, all with one scale of colours; with one value per metric it
 * has bars. The size of the picture is known only at its end, so all of it is written to memory
 * first.
 */
#include <math.h>
#include <stdlib.h>

#include "numa/numa_svg.h"
#include "output/svg.h"

/* In user units, which viewers show as pixels. */
#define NAMES      58.0 /* left of the cells */
#define CELL       46.0 /* most; narrower with many columns */
#define CELL_TEXT  26.0 /* narrower cells have no numbers */
#define LINE       22.0
#define BAR_LEFT   150.0
#define BAR_LENGTH 320.0
#define INNER      (NUMA_SVG_WIDTH - 2 * NUMA_SVG_MARGIN)

/* The scale of colours of all panels of a section, and the unit of their numbers. */
struct scale {
	double low, high;
	double unit; /* by which values are divided */
	const char *name;
};

static void widen(struct scale *scale, double value)
{
	scale->low = fmin(scale->low, value);
	scale->high = fmax(scale->high, value);
}

static void write_rect(FILE *out, double x, double y, double width, double height, double opacity)
{
	fprintf(out,
	        "<rect class=\"f0\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
	        "fill-opacity=\"%.2f\"/>\n",
	        x, y, width, height, opacity);
}

/* Strong colours for large values. Text in the colour of ink stays readable up to this opacity, on
 * light and dark pages. Ratios determine the steps, because values differ by factors. */
static double opacity_of(const struct scale *scale, double value)
{
	const double place = scale->low > 0 && scale->high > scale->low
	                             ? log(value / scale->low) / log(scale->high / scale->low)
	                             : 1;

	return 0.06 + 0.5 * place;
}

/* A cell without a value is empty. */
static void write_cell(const struct scale *scale, const struct rung_numa_value *value, double x,
                       double y, double width, FILE *out)
{
	char text[TOOL_TEXT_BYTES];

	if (!value) {
		svg_text_at(out, x + width / 2, y + 15, "text-anchor=\"middle\"", "-");
		return;
	}
	write_rect(out, x, y, width - 2, LINE - 2, opacity_of(scale, value->median));
	if (width >= CELL_TEXT)
		svg_text_at(out, x + width / 2 - 1, y + 15,
		            width < 44 ? "text-anchor=\"middle\" class=\"small\""
		                       : "text-anchor=\"middle\"",
		            numa_digits(text, value->median / scale->unit));
}

/* The ends of the scale. */
static double write_legend(const struct scale *scale, double y, FILE *out)
{
	char low[TOOL_TEXT_BYTES], high[TOOL_TEXT_BYTES];
	double x = NUMA_SVG_WIDTH - NUMA_SVG_MARGIN - 130;

	numa_digits(low, scale->low / scale->unit);
	svg_text_at(out, x - 6, y + 11, "class=\"small\" text-anchor=\"end\"", low);
	for (int i = 0; i < 5; i++, x += 8)
		write_rect(out, x, y, 8, 13, 0.06 + 0.5 * i / 4);
	snprintf(high, sizeof(high), "%s %.10s", numa_digits(low, scale->high / scale->unit),
	         scale->name);
	svg_text_at(out, x + 6, y + 11, "class=\"small\"", high);
	return y + 18;
}

/* ---- sections ---- */

/* Number of lines from `first` on with its metric. */
static size_t line_count(const struct numa_grid *grid, size_t first)
{
	size_t count = 1;

	while (first + count < grid->line_count &&
	       numa_is_same_metric(grid->lines[first], grid->lines[first + count]))
		count++;
	return count;
}

/* "far 0.53 x near": means of the cells of a panel. "" if it has only one kind. */
static void ratio_text(char text[TOOL_TEXT_BYTES], const struct numa_grid *grid, size_t first,
                       size_t lines)
{
	double sums[2] = { 0, 0 };
	size_t counts[2] = { 0, 0 };

	*text = 0;
	for (size_t i = first * grid->column_count; i < (first + lines) * grid->column_count; i++) {
		const struct rung_numa_result *cell = grid->cells[i];

		if (cell) {
			sums[cell->cpu_node == cell->memory_node] += numa_main_value(cell)->median;
			counts[cell->cpu_node == cell->memory_node]++;
		}
	}
	if (counts[0] && counts[1] && grid->section->rows == NUMA_CPUS)
		snprintf(text, TOOL_TEXT_BYTES, "far %.2f x near",
		         sums[0] / (double)counts[0] / (sums[1] / (double)counts[1]));
}

/* One metric: rows by columns. */
static void write_panel(const struct numa_grid *grid, const struct scale *scale, size_t first,
                        size_t lines, double x, double y, double width, FILE *out)
{
	const struct numa_section *section = grid->section;
	char text[TOOL_TEXT_BYTES];

	svg_text_at(out, x, y + 12, "class=\"label\"", numa_label(text, grid->lines[first]));
	ratio_text(text, grid, first, lines);
	svg_text_at(out, x, y + 28, "class=\"small\"", text);
	y += 46;
	for (size_t column = 0; column < grid->column_count && width >= CELL_TEXT; column++)
		svg_text_at(out, x + NAMES + width * ((double)column + 0.5), y - 5,
		            "text-anchor=\"middle\" class=\"small\"",
		            numa_axis_text(text, grid->columns[column], section->columns));
	for (size_t line = first; line < first + lines; line++, y += LINE) {
		svg_text_at(out, x + NAMES - 6, y + 15, "text-anchor=\"end\" class=\"small\"",
		            numa_axis_text(text, grid->lines[line], section->rows));
		for (size_t column = 0; column < grid->column_count; column++) {
			const struct rung_numa_result *cell =
				grid->cells[line * grid->column_count + column];

			write_cell(scale, cell ? numa_main_value(cell) : NULL,
			           x + NAMES + width * (double)column, y, width, out);
		}
	}
}

/* As many panels per row as fit. @return the height of the end */
static double write_panels(const struct numa_grid *grid, const struct scale *scale, double y,
                           FILE *out)
{
	const double columns = (double)grid->column_count,
		     cell = fmin(CELL, (INNER - NAMES) / columns),
		     width = fmax(NAMES + cell * columns, 120) + 24;
	const size_t per_row = (size_t)fmax(1, (INNER + 24) / width);
	size_t in_row = 0, most = 0;

	for (size_t line = 0, lines; line < grid->line_count; line += lines) {
		lines = line_count(grid, line);
		if (in_row == per_row) {
			y += 56 + LINE * (double)most;
			in_row = most = 0;
		}
		write_panel(grid, scale, line, lines, NUMA_SVG_MARGIN + width * (double)in_row, y,
		            cell, out);
		most = lines > most ? lines : most;
		in_row++;
	}
	return y + 56 + LINE * (double)most;
}

/* @return the height of the end */
static double write_bars(const struct numa_grid *grid, const struct scale *scale, double y,
                         FILE *out)
{
	char text[TOOL_TEXT_BYTES];

	for (size_t line = 0; line < grid->line_count; line++, y += LINE) {
		const double value = numa_main_value(grid->cells[line])->median,
			     length = BAR_LENGTH * value / scale->high;

		svg_text_at(out, BAR_LEFT - 8, y + 15, "text-anchor=\"end\"",
		            numa_label(text, grid->lines[line]));
		write_rect(out, BAR_LEFT, y + 2, length, LINE - 5, 0.8);
		svg_text_at(out, BAR_LEFT + length + 6, y + 15, "",
		            numa_digits(text, value / scale->unit));
	}
	return y;
}

/* Nothing for a section without values. @param scale  of the section; bars of a former section in
 * the same unit keep it comparable. @return the height of the end; negative: no memory */
static double write_section(const struct numa_measured *measured,
                            const struct numa_section *section, double *high, double y, FILE *out)
{
	struct scale scale = { NAN, NAN, section->is_latency ? 1 : 1e9,
		               section->is_latency ? "ns" : "GB/s" };
	struct numa_grid grid;
	int is_bars = 1;

	if (numa_grid_fill(&grid, measured, section) < 0) {
		numa_grid_free(&grid);
		return -1;
	}
	for (size_t i = 0; i < grid.line_count * grid.column_count; i++) {
		if (grid.cells[i])
			widen(&scale, numa_main_value(grid.cells[i])->median);
	}
	for (size_t line = 0; line < grid.line_count; line++)
		is_bars &= grid.column_count == 1 && line_count(&grid, line) == 1;
	if (grid.line_count) {
		svg_text_at(out, NUMA_SVG_MARGIN, y + 14, "class=\"label\"", section->picture);
		y += 26;
		if (is_bars) {
			*high = section->is_latency ? *high : fmax(*high, scale.high);
			scale.high = section->is_latency ? scale.high : *high;
			y = write_bars(&grid, &scale, y, out);
		} else {
			if (section->rows == NUMA_CPUS)
				svg_text_at(out, NUMA_SVG_MARGIN, y + 11, "class=\"small\"",
				            "row: CPUs of, column: memory of");
			y = write_panels(&grid, &scale, write_legend(&scale, y, out) + 6, out);
		}
		y += 20;
	}
	numa_grid_free(&grid);
	return y;
}

/* ---- drives ---- */

/* Sizes by depths of the reads from result `first` on. @return the height of the end */
static double write_drive(const struct numa_measured *measured, size_t first, size_t count,
                          size_t depths, double y, FILE *out)
{
	const struct rung_numa_result *result = numa_result(measured, first);
	const double cell = fmin(CELL, (INNER - NAMES) / (double)depths);
	struct scale scale = { NAN, NAN, 1000, "k reads/s" };
	char text[TOOL_TEXT_BYTES], title[128];

	for (size_t i = first; i < first + count; i++)
		widen(&scale, numa_result(measured, i)->per_s.median);
	snprintf(title, sizeof(title), "%.40s: random reads from node %d, size by depth",
	         result->drive ? result->drive : result->file, result->cpu_node);
	svg_text_at(out, NUMA_SVG_MARGIN, y + 14, "class=\"label\"", title);
	y = write_legend(&scale, y + 26, out) + 16;
	for (size_t i = 0; i < count; i++) {
		const double x = NUMA_SVG_MARGIN + NAMES + cell * (double)(i % depths);

		result = numa_result(measured, first + i);
		if (i < depths && cell >= CELL_TEXT) {
			snprintf(text, sizeof(text), "%u", result->queue_depth);
			svg_text_at(out, x + cell / 2, y - 5,
			            "text-anchor=\"middle\" class=\"small\"", text);
		}
		y += i > 0 && i % depths == 0 ? LINE : 0;
		if (i % depths == 0)
			svg_text_at(out, NUMA_SVG_MARGIN + NAMES - 6, y + 15,
			            "text-anchor=\"end\" class=\"small\"",
			            tool_bytes_text(text, (double)result->row_bytes));
		write_cell(&scale, &result->per_s, x, y, cell, out);
	}
	return y + LINE + 20;
}

static double write_drives(const struct numa_measured *measured, double y, FILE *out)
{
	const struct rung_numa_result *result;
	size_t depths, count = 1;

	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i += count) {
		count = 1;
		if (!numa_is_of(result, RUNG_NUMA_NVME, NULL, 0))
			continue;
		count = numa_count_reads(measured, i, &depths);
		y = write_drive(measured, i, count, depths, y, out);
	}
	return y;
}

/* ---- picture ---- */

/* @return the height of the end; negative: no memory */
static double write_body(const struct numa_measured *measured, FILE *out)
{
	const struct rung_numa_report_info *info = &measured->info;
	char text[256];
	double y, high = 0;

	svg_text_at(out, NUMA_SVG_MARGIN, 32, "class=\"title\"", "Memory, GPUs and drives");
	snprintf(text, sizeof(text), "%.48s, Linux %.24s%s",
	         info->cpu_model ? info->cpu_model : "processor not known",
	         info->kernel ? info->kernel : "?", info->quick ? ", quick" : "");
	svg_text_at(out, NUMA_SVG_MARGIN, 54, "class=\"muted\"", text);
	y = numa_map_svg(measured, 70, out);
	for (const struct numa_section *section = numa_sections; section->title && y >= 0;
	     section++) {
		/* one core only where that makes the picture a little longer, not twice as long */
		if (section->all_cores != 0 ||
		    (measured->node_count == 1 && !numa_one_thread(measured)))
			y = write_section(measured, section, &high, y, out);
	}
	return y < 0 ? y : write_drives(measured, y, out);
}

int numa_results_svg(const struct numa_measured *measured, FILE *out)
{
	char *text = NULL;
	size_t bytes;
	FILE *body = open_memstream(&text, &bytes);
	const double height = body ? write_body(measured, body) : -1;
	const int rc = body && fclose(body) == 0 && height >= 0 ? 0 : -1;

	if (rc == 0) {
		svg_begin(out, NUMA_SVG_WIDTH, height, "Memory, GPUs and drives of a machine");
		fwrite(text, 1, bytes, out);
		svg_end(out);
	}
	free(text);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Heat maps as SVG, without a library. The colour of a cell is between white, for the worst value
 * of its matrix, and blue, for the best. */
#include <math.h>

#include "output/heat.h"
#include "output/svg.h"
#include "tool.h"

/* In user units, which viewers show as pixels. */
#define LEFT         150.0 /* left of the cells, for the names of rows */
#define TOP          84.0  /* of the first map's title */
#define CELL_WIDTH   92.0
#define CELL_HEIGHT  26.0
#define NAMES_HEIGHT 40.0 /* title and names of columns */
#define GAP          26.0 /* between maps */
#define WIDTH_MIN    620.0

static double map_height(const struct heat_map *map)
{
	return NAMES_HEIGHT + CELL_HEIGHT * (double)map->row_count + GAP;
}

/* The least and the largest value of a map; NaN if it has none. */
static void bounds(const struct heat_map *map, double *low, double *high)
{
	*low = *high = NAN;
	for (size_t i = 0; i < map->row_count * map->column_count; i++) {
		if (isfinite(map->values[i])) {
			/* fmin() and fmax() return the other argument if one is NaN */
			*low = fmin(*low, map->values[i]);
			*high = fmax(*high, map->values[i]);
		}
	}
}

/* From 0, the worst, to 1, the best. Ratios and not differences determine the values in between,
 * because values of one map differ by factors. If all values are equal, all are best. */
static double goodness(const struct heat_map *map, double value, double low, double high)
{
	const double place = low > 0 && high > low ? log(value / low) / log(high / low) : 1;

	return map->less_is_better && high > low ? 1 - place : place;
}

static void write_cell(const struct heat_map *map, size_t row, size_t column, double y, double low,
                       double high, FILE *out)
{
	const double value = map->values[row * map->column_count + column],
		     x = LEFT + CELL_WIDTH * (double)column;
	char text[TOOL_TEXT_BYTES];
	double good;

	if (!isfinite(value)) {
		fprintf(out,
		        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#eee\" "
		        "stroke=\"#fff\"/>\n",
		        x, y, CELL_WIDTH, CELL_HEIGHT);
		svg_text_at(out, x + CELL_WIDTH / 2, y + 17.5, "text-anchor=\"middle\"", "-");
		return;
	}
	good = goodness(map, value, low, high);
	fprintf(out,
	        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
	        "fill=\"rgb(%.0f,%.0f,%.0f)\" stroke=\"#fff\"/>\n",
	        x, y, CELL_WIDTH, CELL_HEIGHT, 240 - 232 * good, 246 - 165 * good, 252 - 96 * good);
	/* white text on dark cells */
	svg_text_at(out, x + CELL_WIDTH / 2, y + 17.5,
	            good > 0.55 ? "text-anchor=\"middle\" fill=\"#fff\"" : "text-anchor=\"middle\"",
	            map->text(text, value));
}

/* A map with its title at height `y`. */
static void write_map(const struct heat_map *map, double y, FILE *out)
{
	double low, high;

	bounds(map, &low, &high);
	svg_text_at(out, 24, y + 12, "class=\"label\"", map->title);
	for (size_t column = 0; column < map->column_count; column++)
		svg_text_at(out, LEFT + CELL_WIDTH * ((double)column + 0.5), y + NAMES_HEIGHT - 8,
		            "text-anchor=\"middle\"", map->columns[column]);
	y += NAMES_HEIGHT;
	for (size_t row = 0; row < map->row_count; row++, y += CELL_HEIGHT) {
		svg_text_at(out, LEFT - 9, y + 17.5, "text-anchor=\"end\"", map->rows[row]);
		for (size_t column = 0; column < map->column_count; column++)
			write_cell(map, row, column, y, low, high, out);
	}
}

void heat_write(const char *title, const char *subtitle, const struct heat_map *maps,
                size_t map_count, FILE *out)
{
	double width = WIDTH_MIN, height = TOP, y = TOP;

	/* the size is at the beginning of the file, so it is computed before anything is written */
	for (size_t i = 0; i < map_count; i++) {
		width = fmax(width, LEFT + CELL_WIDTH * (double)maps[i].column_count + 24);
		height += map_height(&maps[i]);
	}
	fprintf(out,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
	        "width=\"%.0f\" height=\"%.0f\" role=\"img\">\n",
	        width, height, width, height);
	fputs("<title>", out);
	svg_text(out, title);
	fputs("</title>\n"
	      "<style>text{font-family:\"DejaVu Sans\",Arial,Helvetica,sans-serif;font-size:13px}"
	      ".title{font-size:18px;font-weight:bold}.label{font-size:14px;font-weight:bold}</"
	      "style>\n"
	      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
	      out);
	svg_text_at(out, 24, 32, "class=\"title\"", title);
	svg_text_at(out, 24, 56, "", subtitle);
	for (size_t i = 0; i < map_count; i++) {
		write_map(&maps[i], y, out);
		y += map_height(&maps[i]);
	}
	fputs("</svg>\n", out);
}

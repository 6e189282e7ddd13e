/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line charts as SVG, without a library: a frame, ticks, lines with markers, and a legend in the
 * plot. Writes are not checked one by one: the commit of the file checks its error flag.
 */
#include <math.h>
#include <string.h>

#include "output/chart.h"
#include "output/svg.h"

/* In user units, which viewers show as pixels. */
#define WIDTH        760.0
#define HEIGHT       520.0
#define LEFT         66.0
#define TOP          116.0
#define PLOT_WIDTH   670.0
#define PLOT_HEIGHT  344.0
#define LEGEND_STEP  21.0
#define LEGEND_GLYPH 7.6  /* width of a letter, at most on average */
#define SAMPLE_WIDTH 38.0 /* length of a line in the legend */
#define MARKER       4.2  /* half the width of a marker */
#define MARKER_STEP  16.0 /* least distance of markers of a line */

enum marker { CIRCLE, SQUARE, TRIANGLE, DIAMOND, CROSS, PLUS, WEDGE, MARKER_COUNT };

struct style {
	int color;          /* of the palette of svg.h */
	const char *dashes; /* stroke-dasharray; "": a solid line */
	enum marker marker;
	int hollow; /* nonzero: the marker is filled with the background */
	double width;
};

/* Adjacent styles differ in colour, dashes, marker and filling. */
static const struct style styles[CHART_SERIES_MAX] = {
	{ 0, "", CIRCLE, 0, 2.6 },          { 1, "7 4", SQUARE, 1, 1.6 },
	{ 2, "2 3", TRIANGLE, 0, 1.8 },     { 3, "10 3 2 3", DIAMOND, 1, 1.6 },
	{ 4, "5 2", CROSS, 0, 1.6 },        { 5, "12 4", WEDGE, 0, 1.6 },
	{ 6, "3 2 1 2", PLUS, 0, 1.8 },     { 7, "1 3", SQUARE, 0, 1.6 },
	{ 0, "16 2", TRIANGLE, 1, 1.4 },    { 1, "8 2 2 2 2 2", CIRCLE, 1, 1.6 },
	{ 2, "4 4", DIAMOND, 0, 1.6 },      { 3, "14 3 3 3", WEDGE, 1, 1.4 },
	{ 4, "2 2", CIRCLE, 0, 1.4 },       { 5, "9 5", CROSS, 0, 1.4 },
	{ 6, "6 2 1 2", TRIANGLE, 0, 1.4 }, { 7, "1 2", PLUS, 0, 1.4 },
};

static double place_x(const struct chart *chart, double x)
{
	return LEFT + PLOT_WIDTH * x / chart->x_max;
}

static double place_y(const struct chart *chart, double y)
{
	return TOP + PLOT_HEIGHT * (1 - y / chart->y_max);
}

/* Zero for NaN, and for points outside the plot. */
static int is_shown(const struct chart *chart, uint32_t series, uint32_t point)
{
	return chart->x[point] <= chart->x_max && isfinite(chart->series[series].y[point]);
}

/* The smallest of 1, 2, 5, 10, ... times `unit` that divides `max` into at most `parts`. */
static double nice_step(double max, double unit, int parts)
{
	double step = unit;

	for (int i = 0; max / step > parts + 1e-9; i++)
		step *= i % 3 == 1 ? 2.5 : 2;
	return step;
}

static double tick_step(double max)
{
	return nice_step(max, pow(10, floor(log10(max)) - 2), 10);
}

static void write_x_ticks(const struct chart *chart, FILE *out)
{
	const double step = tick_step(chart->x_max);
	char text[32];

	for (int i = 0; step * i <= chart->x_max * (1 + 1e-9); i++) {
		const double at = place_x(chart, step * i);

		fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", at, TOP,
		        TOP + PLOT_HEIGHT);
		snprintf(text, sizeof(text), "%g", step * i);
		svg_text_at(out, at, TOP + PLOT_HEIGHT + 18, "text-anchor=\"middle\"", text);
	}
}

static void write_y_ticks(const struct chart *chart, FILE *out)
{
	const double step = tick_step(chart->y_max);
	char text[32];

	for (int i = 0; step * i <= chart->y_max * (1 + 1e-9); i++) {
		const double at = place_y(chart, step * i);

		fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", LEFT, at,
		        LEFT + PLOT_WIDTH);
		snprintf(text, sizeof(text), "%g", step * i);
		svg_text_at(out, LEFT - 8, at + 4.5, "text-anchor=\"end\"", text);
	}
}

/* The axis in bytes, at the top: the largest unit in which the end of the axis is at least 1. */
static void write_bytes_axis(const struct chart *chart, FILE *out)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	double unit = 1, step;
	unsigned u = 0;
	char text[32];

	if (!(chart->bytes_max >= 1))
		return;
	while (u + 1 < sizeof(units) / sizeof(*units) && chart->bytes_max >= unit * 1024) {
		unit *= 1024;
		u++;
	}
	step = nice_step(chart->bytes_max, unit / 100, 7);
	for (int i = 0; step * i <= chart->bytes_max * (1 + 1e-9); i++) {
		const double at = LEFT + PLOT_WIDTH * step * i / chart->bytes_max;

		fprintf(out, "<path class=\"rule\" d=\"M%.1f %.1fv-5\"/>\n", at, TOP);
		snprintf(text, sizeof(text), "%g%s%s", step * i / unit, i ? "" : " ",
		         i ? "" : units[u]);
		svg_text_at(out, at, TOP - 10, "class=\"muted\" text-anchor=\"middle\"", text);
	}
}

/* The value of a series at x, between its points. */
static double chart_value(const struct chart *chart, uint32_t series, double x)
{
	const double *y = chart->series[series].y;
	uint32_t i = 1;

	while (i + 1 < chart->point_count && chart->x[i] < x)
		i++;
	if (chart->point_count < 2)
		return chart->point_count ? y[0] : NAN;
	return y[i - 1] +
	       (y[i] - y[i - 1]) * (x - chart->x[i - 1]) / (chart->x[i] - chart->x[i - 1]);
}

/* A name is next to its line: at the top, where rising lines leave room on the left; on the right
 * below the first series. A background keeps it readable. */
static void write_marks(const struct chart *chart, FILE *out)
{
	for (uint32_t m = 0; m < chart->mark_count; m++) {
		const struct chart_mark *mark = &chart->marks[m];
		const double x = place_x(chart, mark->x),
			     y = place_y(chart, chart_value(chart, 0, mark->x)),
			     width = LEGEND_GLYPH * (double)strlen(mark->name) + 8;
		const int left = x + 10 + width > LEFT + PLOT_WIDTH;

		if (mark->x < 0 || mark->x > chart->x_max || !isfinite(y))
			continue;
		fprintf(out,
		        "<path class=\"rule\" stroke-width=\"1.5\" stroke-dasharray=\"4 3\" "
		        "d=\"M%.1f %.1fV%.1f\"/>\n",
		        x, TOP, TOP + PLOT_HEIGHT);
		fprintf(out,
		        "<circle class=\"ground s0\" stroke-width=\"2.5\" cx=\"%.1f\" "
		        "cy=\"%.1f\" r=\"6\"/>\n",
		        x, y);
		const double text_y = mark->x < chart->x_max * 0.4 ? TOP + 6 + 24.0 * m : y + 3;

		fprintf(out,
		        "<rect class=\"ground\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
		        "height=\"20\"/>\n",
		        left ? x - 10 - width : x + 10, text_y, width);
		svg_text_at(out, left ? x - 14 : x + 14, text_y + 15,
		            left ? "class=\"label\" text-anchor=\"end\"" : "class=\"label\"",
		            mark->name);
	}
}

/* A marker with its centre at x, y. Shapes have similar areas, hence their different factors. */
static void write_marker(FILE *out, const struct style *style, double x, double y)
{
	char look[64], fill[8];
	const double r = MARKER;

	snprintf(fill, sizeof(fill), "f%d", style->color);
	snprintf(look, sizeof(look), "class=\"%s s%d\" stroke-width=\"1.4\"/>\n",
	         style->hollow ? "ground" : fill, style->color);
	switch (style->marker) {
	case CIRCLE:
		fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"", x, y, r * 0.9);
		break;
	case SQUARE:
		fprintf(out, "<path d=\"M%.1f %.1fh%.1fv%.1fh%.1fz\"", x - r * 0.85, y - r * 0.85,
		        r * 1.7, r * 1.7, -r * 1.7);
		break;
	case TRIANGLE:
		fprintf(out, "<path d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"", x, y - r * 1.1, r * 1.1,
		        r * 1.9, -r * 2.2);
		break;
	case WEDGE:
		fprintf(out, "<path d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"", x, y + r * 1.1, r * 1.1,
		        -r * 1.9, -r * 2.2);
		break;
	case DIAMOND:
		fprintf(out, "<path d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\"", x,
		        y - r * 1.2, r * 1.2, r * 1.2, -r * 1.2, r * 1.2, -r * 1.2, -r * 1.2);
		break;
	case CROSS:
		fprintf(out, "<path d=\"M%.1f %.1fl%.1f %.1fm0 %.1fl%.1f %.1f\"", x - r, y - r,
		        2 * r, 2 * r, -2 * r, -2 * r, 2 * r);
		break;
	case PLUS: /* a shape of lines only, as CROSS: filling has no effect */
	default:
		fprintf(out, "<path d=\"M%.1f %.1fv%.1fm%.1f %.1fh%.1f\"", x, y - 1.2 * r, 2.4 * r,
		        -1.2 * r, -1.2 * r, 2.4 * r);
	}
	fprintf(out, " %s", look);
}

/* Write a path up to its data, which the caller writes and ends with "\"/>". */
static void begin_line(FILE *out, const struct style *style)
{
	fprintf(out, "<path fill=\"none\" class=\"s%d\" stroke-width=\"%.1f\"", style->color,
	        style->width);
	if (*style->dashes)
		fprintf(out, " stroke-dasharray=\"%s\"", style->dashes);
	fputs(" d=\"", out);
}

static void write_series(const struct chart *chart, uint32_t s, FILE *out)
{
	const struct style *style = &styles[s % CHART_SERIES_MAX];
	const double *y = chart->series[s].y;
	double last = -MARKER_STEP;
	char step = 'M';

	begin_line(out, style);
	for (uint32_t i = 0; i < chart->point_count; i++) {
		if (!is_shown(chart, s, i))
			continue;
		fprintf(out, "%c%.1f %.1f", step, place_x(chart, chart->x[i]),
		        place_y(chart, y[i]));
		step = 'L';
	}
	fputs("\"/>\n", out);
	for (uint32_t i = 0; i < chart->point_count; i++) {
		const double x = place_x(chart, chart->x[i]);

		if (!is_shown(chart, s, i) || x - last < MARKER_STEP)
			continue;
		write_marker(out, style, x, place_y(chart, y[i]));
		last = x;
	}
}

static void write_legend(const struct chart *chart, FILE *out)
{
	const double height = LEGEND_STEP * chart->series_count + 10,
		     top = TOP + PLOT_HEIGHT - height - 10;
	size_t letters = 0;
	double left, width;

	for (uint32_t s = 0; s < chart->series_count; s++) {
		const size_t length = strlen(chart->series[s].name);

		letters = length > letters ? length : letters;
	}
	width = SAMPLE_WIDTH + 24 + LEGEND_GLYPH * (double)letters;
	left = LEFT + PLOT_WIDTH - width - 10;
	fprintf(out,
	        "<rect class=\"ground\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
	        left, top, width, height);
	for (uint32_t s = 0; s < chart->series_count; s++) {
		const struct style *style = &styles[s % CHART_SERIES_MAX];
		const double y = top + 15 + LEGEND_STEP * s;

		begin_line(out, style);
		fprintf(out, "M%.1f %.1fh%.1f\"/>\n", left + 8, y, SAMPLE_WIDTH);
		write_marker(out, style, left + 8 + SAMPLE_WIDTH / 2, y);
		svg_text_at(out, left + SAMPLE_WIDTH + 16, y + 4.5, "", chart->series[s].name);
	}
}

void chart_write(const struct chart *chart, FILE *out)
{
	svg_begin(out, WIDTH, HEIGHT, chart->title);
	svg_text_at(out, 16, 28, "class=\"title\"", chart->title);
	svg_text_at(out, 16, 50, "class=\"muted\"", chart->subtitle);
	svg_text_at(out, 16, 78, "class=\"label\"", chart->y_label);
	write_x_ticks(chart, out);
	write_y_ticks(chart, out);
	fprintf(out, "<path class=\"rule\" d=\"M%.1f %.1fv%.1fh%.1fv%.1fz\"/>\n", LEFT, TOP,
	        PLOT_HEIGHT, PLOT_WIDTH, -PLOT_HEIGHT);
	write_bytes_axis(chart, out);
	svg_text_at(out, LEFT + PLOT_WIDTH / 2, TOP + PLOT_HEIGHT + 44,
	            "class=\"label\" text-anchor=\"middle\"", chart->x_label);
	/* later elements cover earlier ones: the first series is drawn last and is on top */
	for (uint32_t s = chart->series_count; s-- > 0;)
		write_series(chart, s, out);
	write_legend(chart, out);
	write_marks(chart, out);
	svg_end(out);
}

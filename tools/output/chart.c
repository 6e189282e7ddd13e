/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line charts as SVG, without a library: a frame, ticks, lines with markers, and a legend next to
 * the plot. Writes are not checked one by one: the commit of the file checks its error flag.
 */
#include <math.h>

#include "output/chart.h"
#include "output/svg.h"

/* In user units, which viewers show as pixels. */
#define WIDTH        920.0
#define HEIGHT       560.0
#define LEFT         78.0
#define TOP          78.0
#define PLOT_WIDTH   640.0
#define PLOT_HEIGHT  410.0
#define LEGEND_LEFT  (LEFT + PLOT_WIDTH + 24.0)
#define LEGEND_STEP  25.0
#define SAMPLE_WIDTH 44.0 /* length of a line in the legend */
#define MARKER       4.2  /* half the width of a marker */

enum marker { CIRCLE, SQUARE, TRIANGLE, DIAMOND, CROSS, PLUS, WEDGE, MARKER_COUNT };

struct style {
	/* the dark colours of a palette for all kinds of colour vision: Okabe, Ito 2008 */
	const char *color;
	const char *dashes; /* stroke-dasharray; "": a solid line */
	enum marker marker;
	int hollow; /* nonzero: the marker is filled with white */
	double width;
};

/* Adjacent styles differ in colour, dashes, marker and filling. */
static const struct style styles[CHART_SERIES_MAX] = {
	{ "#000000", "", CIRCLE, 0, 2.4 },          { "#d55e00", "7 4", SQUARE, 1, 1.6 },
	{ "#0072b2", "2 3", TRIANGLE, 0, 1.8 },     { "#009e73", "10 3 2 3", DIAMOND, 1, 1.6 },
	{ "#cc79a7", "5 2", CROSS, 0, 1.6 },        { "#7a5c00", "12 4", WEDGE, 0, 1.6 },
	{ "#56b4e9", "3 2 1 2", PLUS, 0, 1.8 },     { "#444444", "1 3", SQUARE, 0, 1.6 },
	{ "#a04000", "", TRIANGLE, 1, 1.4 },        { "#004d80", "8 2 2 2 2 2", CIRCLE, 1, 1.6 },
	{ "#006b4e", "4 4", DIAMOND, 0, 1.6 },      { "#8a3f6b", "14 3 3 3", WEDGE, 1, 1.4 },
	{ "#b8860b", "2 2", CIRCLE, 0, 1.4 },       { "#2f6f9f", "9 5", CROSS, 0, 1.4 },
	{ "#666666", "6 2 1 2", TRIANGLE, 0, 1.4 }, { "#101060", "1 2", PLUS, 0, 1.4 },
};

/* Position of a value on the logarithmic x axis. */
static double place_x(const struct chart *chart, double x)
{
	return LEFT + PLOT_WIDTH * log(x / chart->x_min) / log(chart->x_max / chart->x_min);
}

static double place_y(double y)
{
	return TOP + PLOT_HEIGHT * (1 - y / 100);
}

/* Zero for NaN and for points outside the axis, such as 0 %, which has no place on a logarithmic
 * axis. */
static int is_shown(const struct chart *chart, uint32_t series, uint32_t point)
{
	return chart->x[point] >= chart->x_min && chart->x[point] <= chart->x_max &&
	       isfinite(chart->series[series].y[point]);
}

/* Ticks at 1, 2 and 5 times each power of ten. The tolerance of 1e-9 keeps those at both ends of
 * the axis in spite of rounding. */
static void write_x_ticks(const struct chart *chart, FILE *out)
{
	static const double steps[] = { 1, 2, 5 };
	char text[32];

	for (double decade = pow(10, floor(log10(chart->x_min) + 1e-9)); decade <= chart->x_max;
	     decade *= 10) {
		for (unsigned s = 0; s < 3; s++) {
			const double x = decade * steps[s], at = place_x(chart, x);

			if (x < chart->x_min * (1 - 1e-9) || x > chart->x_max * (1 + 1e-9))
				continue;
			fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", at, TOP,
			        TOP + PLOT_HEIGHT);
			snprintf(text, sizeof(text), "%g", x);
			svg_text_at(out, at, TOP + PLOT_HEIGHT + 20, "text-anchor=\"middle\"",
			            text);
		}
	}
}

static void write_y_ticks(FILE *out)
{
	char text[32];

	for (int y = 0; y <= 100; y += 10) {
		fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", LEFT, place_y(y),
		        LEFT + PLOT_WIDTH);
		snprintf(text, sizeof(text), "%d", y);
		svg_text_at(out, LEFT - 9, place_y(y) + 4.5, "text-anchor=\"end\"", text);
	}
}

/* Each name is written vertically, to the left of its line, at the bottom of the plot, where there
 * are few curves. */
static void write_marks(const struct chart *chart, FILE *out)
{
	char turn[128];

	for (uint32_t m = 0; m < chart->mark_count; m++) {
		const double x = place_x(chart, chart->marks[m].x), y = TOP + PLOT_HEIGHT - 8;

		if (chart->marks[m].x < chart->x_min || chart->marks[m].x > chart->x_max)
			continue;
		fprintf(out,
		        "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#000\" stroke-width=\"1\" "
		        "stroke-dasharray=\"1 4\"/>\n",
		        x, TOP, TOP + PLOT_HEIGHT);
		snprintf(turn, sizeof(turn), "class=\"mark\" transform=\"rotate(-90 %.1f %.1f)\"",
		         x - 5, y);
		svg_text_at(out, x - 5, y, turn, chart->marks[m].name);
	}
}

/* A marker with its centre at x, y. Shapes have similar areas, hence their different factors. */
static void write_marker(FILE *out, const struct style *style, double x, double y)
{
	const char *fill = style->hollow ? "#fff" : style->color;
	const double r = MARKER;

	switch (style->marker) {
	case CIRCLE:
		fprintf(out,
		        "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\" stroke=\"%s\"/>\n",
		        x, y, r * 0.9, fill, style->color);
		return;
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
	fprintf(out, " fill=\"%s\" stroke=\"%s\" stroke-width=\"1.4\"/>\n", fill, style->color);
}

/* Write a path up to its data, which the caller writes and ends with "\"/>". */
static void begin_line(FILE *out, const struct style *style)
{
	fprintf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"", style->color,
	        style->width);
	if (*style->dashes)
		fprintf(out, " stroke-dasharray=\"%s\"", style->dashes);
	fputs(" d=\"", out);
}

static void write_series(const struct chart *chart, uint32_t s, FILE *out)
{
	const struct style *style = &styles[s % CHART_SERIES_MAX];
	const double *y = chart->series[s].y;
	char step = 'M';

	begin_line(out, style);
	for (uint32_t i = 0; i < chart->point_count; i++) {
		if (!is_shown(chart, s, i))
			continue;
		fprintf(out, "%c%.1f %.1f", step, place_x(chart, chart->x[i]), place_y(y[i]));
		step = 'L';
	}
	fputs("\"/>\n", out);
	for (uint32_t i = 0; i < chart->point_count; i++) {
		if (is_shown(chart, s, i))
			write_marker(out, style, place_x(chart, chart->x[i]), place_y(y[i]));
	}
}

static void write_legend(const struct chart *chart, FILE *out)
{
	for (uint32_t s = 0; s < chart->series_count; s++) {
		const struct style *style = &styles[s % CHART_SERIES_MAX];
		const double y = TOP + 12 + LEGEND_STEP * s;

		begin_line(out, style);
		fprintf(out, "M%.1f %.1fh%.1f\"/>\n", LEGEND_LEFT, y, SAMPLE_WIDTH);
		write_marker(out, style, LEGEND_LEFT + SAMPLE_WIDTH / 2, y);
		svg_text_at(out, LEGEND_LEFT + SAMPLE_WIDTH + 9, y + 4.5, "",
		            chart->series[s].name);
	}
}

void chart_write(const struct chart *chart, FILE *out)
{
	char turn[128];

	fprintf(out,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
	        "width=\"%.0f\" height=\"%.0f\" role=\"img\">\n",
	        WIDTH, HEIGHT, WIDTH, HEIGHT);
	fputs("<title>", out);
	svg_text(out, chart->title);
	fputs("</title>\n"
	      "<style>text{font-family:\"DejaVu "
	      "Sans\",Arial,Helvetica,sans-serif;font-size:13px;fill:#000}"
	      ".grid{stroke:#ddd;stroke-width:1}"
	      ".mark{font-size:12px;paint-order:stroke;stroke:#fff;stroke-width:3px}"
	      ".title{font-size:18px;font-weight:bold}.label{font-size:14px}</style>\n"
	      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
	      out);
	svg_text_at(out, LEFT, 32, "class=\"title\"", chart->title);
	svg_text_at(out, LEFT, 56, "", chart->subtitle);
	write_x_ticks(chart, out);
	write_y_ticks(out);
	fprintf(out, "<path d=\"M%.1f %.1fv%.1fh%.1fv%.1fz\" fill=\"none\" stroke=\"#000\"/>\n",
	        LEFT, TOP, PLOT_HEIGHT, PLOT_WIDTH, -PLOT_HEIGHT);
	svg_text_at(out, LEFT + PLOT_WIDTH / 2, TOP + PLOT_HEIGHT + 50,
	            "class=\"label\" text-anchor=\"middle\"", chart->x_label);
	snprintf(turn, sizeof(turn),
	         "class=\"label\" text-anchor=\"middle\" transform=\"rotate(-90 24 %.1f)\"",
	         TOP + PLOT_HEIGHT / 2);
	svg_text_at(out, 24, TOP + PLOT_HEIGHT / 2, turn, chart->y_label);
	/* later elements cover earlier ones: the first series is drawn last and is on top */
	for (uint32_t s = chart->series_count; s-- > 0;)
		write_series(chart, s, out);
	write_marks(chart, out);
	write_legend(chart, out);
	fputs("</svg>\n", out);
}

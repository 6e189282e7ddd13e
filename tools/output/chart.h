/* SPDX-License-Identifier: Apache-2.0 */
/** A line chart as SVG: lines differ in colour, dashes and markers, so that they can be
 * distinguished in black and white, too. */
#ifndef RUNG_TOOL_CHART_H
#define RUNG_TOOL_CHART_H

#include <stdint.h>
#include <stdio.h>

#define CHART_SERIES_MAX 16u
#define CHART_MARKS_MAX  8u

struct chart_series {
	const char *name;
	const double *y; /**< [point_count]; NaN: no point */
};

/** A vertical line across the plot. */
struct chart_mark {
	const char *name; /**< written next to the line */
	double x;
};

/** Both axes are linear and begin at 0. */
struct chart {
	const char *title;
	const char *subtitle;
	const char *x_label;
	const char *y_label;
	double x_max, y_max;
	double bytes_max; /**< x_max in bytes, for a second axis at the top; 0: none */
	const double *x;  /**< [point_count] ascending, of all series */
	uint32_t point_count;
	/** the first one is drawn on top. Their legend is in the lower right corner: the lines
	 * rise */
	struct chart_series series[CHART_SERIES_MAX];
	uint32_t series_count;
	struct chart_mark marks[CHART_MARKS_MAX];
	uint32_t mark_count;
};

/** Write a chart. A failed write sets the file's error flag. */
void chart_write(const struct chart *chart, FILE *out);

#endif

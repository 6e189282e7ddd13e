/* SPDX-License-Identifier: Apache-2.0 */
/** Heat maps as SVG: matrices one below the other, each with its own scale of colours. Every cell
 * has its number, so that the map can be read without colours. */
#ifndef RUNG_TOOL_HEAT_H
#define RUNG_TOOL_HEAT_H

#include <stddef.h>
#include <stdio.h>

struct heat_map {
	const char *title;
	const char *const *rows;    /**< [row_count] names */
	const char *const *columns; /**< [column_count] */
	size_t row_count, column_count;
	const double *values; /**< [row_count x column_count]; NaN: absent */
	int less_is_better;   /**< nonzero: for latencies */
	/** writes the text of a cell to `text`, which has TOOL_TEXT_BYTES, and returns it */
	const char *(*text)(char *text, double value);
};

/** Write a picture with all maps. A failed write sets the file's error flag. */
void heat_write(const char *title, const char *subtitle, const struct heat_map *maps,
                size_t map_count, FILE *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Common parts of SVG pictures. */
#ifndef RUNG_TOOL_SVG_H
#define RUNG_TOOL_SVG_H

#include <stdio.h>

/**
 * Begin a picture with its background. Colours come from classes, which a dark page changes:
 *   f0 .. f7  fill, and s0 .. s7  stroke: a palette for all kinds of colour vision
 *   ink muted  fill of text; rule grid  stroke of axes and of the lines behind the data
 *   ground  fill of the background; title (18 px) label (14 px)  bold text; small  11 px
 * Text has 13 px and the fill "ink" otherwise. At a width of 400 px all of it must be readable, so
 * pictures are at most 760 wide.
 * @param title  what a screen reader says
 */
void svg_begin(FILE *out, double width, double height, const char *title);

/** End a picture. */
void svg_end(FILE *out);

/** Write text between tags: markup characters are escaped, control characters become spaces,
 * and bytes that are not UTF-8 question marks. */
void svg_text(FILE *out, const char *text);

/** Write a text element. @param attributes  further attributes, such as "class=\"title\"", or "" */
void svg_text_at(FILE *out, double x, double y, const char *attributes, const char *text);

#endif
